//! Real runs of the command, each test in a directory of its own.
//!
//! Invariant: bare names of a test's holds live in its own temporary directory (in memory where
//! there is /dev/shm), which goes away with the test.

#![allow(dead_code, reason = "each test file uses its own part of this")]

pub mod background;
pub mod browser;
pub mod file_server;
pub mod terminal;

use commonhold::Hold;
use commonhold::map::{Map, MapOptions};
use std::ffi::OsStr;
use std::io::Write;
use std::path::{Path, PathBuf};
use std::process::{Command, Output, Stdio};
use tempfile::TempDir;

/// The program.
pub const PROGRAM: &str = env!("CARGO_BIN_EXE_hold");

/// The directory of one test.
pub struct TestDir {
    directory: TempDir,
}

/// How one run ended.
#[derive(Debug)]
pub struct Run {
    /// The exit code.
    pub code: i32,
    /// Standard output, byte for byte.
    pub bytes: Vec<u8>,
    /// Standard output as text.
    pub out: String,
    /// Standard error as text.
    pub err: String,
}

impl TestDir {
    /// A new directory.
    pub fn new() -> TestDir {
        let memory = Path::new("/dev/shm");
        let prefix = "hold-test-";
        let mut builder = tempfile::Builder::new();
        let directory = match memory.is_dir() {
            true => builder.prefix(prefix).tempdir_in(memory),
            false => builder.prefix(prefix).tempdir(),
        };
        TestDir { directory: directory.expect("a directory for the test") }
    }

    /// A path on it.
    pub fn path(&self, name: &str) -> PathBuf {
        self.directory.path().join(name)
    }

    /// Writes a file on it.
    pub fn file(&self, name: &str, contents: impl AsRef<[u8]>) -> PathBuf {
        let path = self.path(name);
        std::fs::write(&path, contents).expect("a file of the test");
        path
    }

    /// The contents of a file on it.
    pub fn read(&self, name: &str) -> Vec<u8> {
        std::fs::read(self.path(name)).expect("a file that the test has made")
    }

    /// A command in this directory, to be run by the test itself.
    pub fn command<S: AsRef<OsStr>>(&self, args: &[S]) -> Command {
        self.command_of(Path::new(PROGRAM), args)
    }

    /// The same of another file with the program.
    pub fn command_of<S: AsRef<OsStr>>(&self, program: &Path, args: &[S]) -> Command {
        let mut command = Command::new(program);
        command.args(args).current_dir(self.directory.path());
        command.env("COMMONHOLD_DIR", self.directory.path());
        command
    }

    /// Runs `hold` with `args` and no input.
    pub fn run<S: AsRef<OsStr>>(&self, args: &[S]) -> Run {
        self.run_with(args, b"")
    }

    /// Runs `hold` with `args`, giving it `input`.
    pub fn run_with<S: AsRef<OsStr>>(&self, args: &[S], input: &[u8]) -> Run {
        let mut command = self.command(args);
        command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped());
        let mut child = command.spawn().expect("the command starts");
        let mut stdin = child.stdin.take().expect("a pipe");
        let output = std::thread::scope(|scope| {
            scope.spawn(move || {
                // A command that needs no input may have gone already.
                let _ = stdin.write_all(input);
            });
            child.wait_with_output().expect("the command ends")
        });
        Run::of(output)
    }

    /// Runs `hold`, which must succeed; its standard output.
    pub fn ok<S: AsRef<OsStr> + std::fmt::Debug>(&self, args: &[S]) -> String {
        let run = self.run(args);
        assert_eq!(run.code, 0, "hold {args:?}: {run:?}");
        run.out
    }

    /// Runs `hold`, which must fail with `code`; its standard error.
    pub fn fails<S: AsRef<OsStr> + std::fmt::Debug>(&self, code: i32, args: &[S]) -> String {
        let run = self.run(args);
        assert_eq!(run.code, code, "hold {args:?}: {run:?}");
        assert!(run.err.starts_with("hold: ") || run.err.starts_with("error: "), "{run:?}");
        run.err
    }

    /// Runs `hold ... --format json`, which must answer with one JSON document.
    pub fn json(&self, args: &[&str]) -> serde_json::Value {
        let mut args = args.to_vec();
        args.extend(["--format", "json"]);
        let out = self.ok(&args);
        serde_json::from_str(&out).unwrap_or_else(|e| panic!("hold {args:?}: {e}: {out}"))
    }

    /// The map `map` of hold `hold`, made with the library.
    pub fn map(&self, hold: &str, map: &str) -> Map {
        let hold = Hold::options().directory(self.directory.path()).open_or_create(hold);
        hold.and_then(|hold| hold.maps().open_or_create(map, MapOptions::general()))
            .expect("a map for the test")
    }

    /// The number of pairs of a map of any mode.
    pub fn map_len(&self, hold: &str, map: &str) -> u64 {
        let hold = Hold::options().directory(self.directory.path()).open(hold);
        hold.and_then(|hold| hold.maps().open(map)?.len()).expect("a map that the test has made")
    }

    /// The entries of the directory except the files in `expected`.
    pub fn leftovers(&self, expected: &[&str]) -> Vec<String> {
        let entries = std::fs::read_dir(self.directory.path()).expect("the test's directory");
        let names = entries.flatten().map(|e| e.file_name().to_string_lossy().into_owned());
        names.filter(|name| !expected.contains(&name.as_str())).collect()
    }
}

impl Run {
    /// How `output` reads.
    pub fn of(output: Output) -> Run {
        Run {
            code: output.status.code().unwrap_or(-1),
            out: String::from_utf8_lossy(&output.stdout).into_owned(),
            err: String::from_utf8_lossy(&output.stderr).into_owned(),
            bytes: output.stdout,
        }
    }
}

/// Keys and values that are hard on formats: every byte, quotes, ends of lines, nothing at all.
pub fn nasty_pairs(with_nul: bool, with_other_bytes: bool) -> Vec<(Vec<u8>, Vec<u8>)> {
    let texts: &[&str] = &[
        "",
        " ",
        "plain",
        "a,b",
        "a\tb",
        "line\nline",
        "line\r\nline",
        "\r",
        "\"",
        "\"\"",
        "'",
        "\\",
        "\\n",
        "\\x41",
        "C:\\Users",
        "# no comment",
        "null",
        "{\"base64\":\"AA==\"}",
        "[1]",
        "\u{feff}mark",
        "ümläut",
        "日本",
        "\u{1b}[31m",
        "\u{7f}",
        "\u{9b}",
        "-",
        "--help",
        " pad ",
    ];
    let mut all: Vec<Vec<u8>> = texts.iter().map(|t| t.as_bytes().to_vec()).collect();
    if with_nul {
        all.extend([b"\0".to_vec(), b"a\0b".to_vec(), b"\\0".to_vec()]);
    }
    if with_other_bytes {
        let first = if with_nul { 0 } else { 1 };
        all.extend([b"\xff".to_vec(), b"\xc3".to_vec(), (first..=255).collect()]);
        all.push(b"\xed\xa0\x80 lone surrogate".to_vec());
    }
    let values = all.iter().rev().cycle().skip(3);
    all.iter().cloned().zip(values.cloned()).collect()
}

/// All pairs of a map, sorted.
pub fn pairs_of(map: &Map) -> Vec<(Vec<u8>, Vec<u8>)> {
    let mut pairs: Vec<_> = map.iter().collect::<Result<_, _>>().expect("a map to walk over");
    pairs.sort();
    pairs
}
