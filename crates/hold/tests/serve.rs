//! `hold serve` as a user has it: a supervisor and its workers, real processes that are killed,
//! replaced and ended.
//!
//! | module | idea |
//! |---|---|
//! | [`visitor`] | clients that request files |
//! | [`ends`] | how it begins and ends, well or by force |
//! | [`workers`] | workers that are killed and replaced while they serve |
//! | [`curl`], [`page`] | real clients: curl, a browser |
//! | [`responses`] | options that change responses |
//! | [`mistakes`] | directories that cannot be served |

mod curl;
mod ends;
mod mistakes;
mod page;
mod responses;
mod visitor;
mod workers;

use crate::support::background::Background;
use crate::support::{PROGRAM, TestDir};
use commonhold::Hold;
use commonhold_io::reports::reports;
use rustix::process::{Pid, Signal, kill_process};
use serde_json::Value;
use std::fs;
use std::path::Path;
use std::process::Stdio;
use std::time::{Duration, Instant};

/// Names and contents in `public`.
fn files() -> Vec<(String, Vec<u8>)> {
    let contents = |number: usize| format!("file {number}\n").repeat(number * 37).into_bytes();
    (0..40).map(|number| (format!("{number}.txt"), contents(number))).collect()
}

/// A test directory with a directory `public`.
fn site() -> TestDir {
    let test_dir = TestDir::new();
    fs::create_dir(test_dir.path("public")).expect("a directory");
    for (name, contents) in files() {
        test_dir.file(&format!("public/{name}"), contents);
    }
    test_dir
}

/// A server that serves.
struct Serving {
    background: Background,
    port: u16,
}

impl Serving {
    /// Serves `place` on a port that the system chooses, once it does.
    #[track_caller]
    fn start(test_dir: &TestDir, place: &str, options: &[&str]) -> Serving {
        Serving::start_of(Path::new(PROGRAM), test_dir, place, options)
    }

    /// The same of another file with the program.
    #[track_caller]
    fn start_of(program: &Path, test_dir: &TestDir, place: &str, options: &[&str]) -> Serving {
        let fixed = ["serve", place, "--listen", "tcp:0", "--format", "json"];
        let mut command = test_dir.command_of(program, &[&fixed[..], options].concat());
        command.stdin(Stdio::piped());
        Serving::of(Background::run(command))
    }

    /// A server that has been started.
    #[track_caller]
    fn of(mut background: Background) -> Serving {
        let line = background.line();
        let said: Value = serde_json::from_str(&line).unwrap_or_else(|e| panic!("{e}: {line}"));
        let name = said["listening"][0].as_str().expect("an address");
        let port = name.strip_prefix("tcp:127.0.0.1:").expect("this machine only");
        let port = port.parse().expect("a port");
        Serving { background, port }
    }

    /// The worker processes that live.
    fn workers(&self) -> Vec<u32> {
        children(self.background.pid())
    }

    /// Ends it as systemd does.
    #[track_caller]
    fn stop(self) {
        let workers = self.workers();
        self.background.signal(Signal::TERM);
        let run = self.background.end();
        assert_eq!((run.code, &*run.out), (0, ""), "{run:?}");
        assert!(workers.into_iter().all(is_gone), "workers are left");
    }
}

/// The state and the parent of a process; `None` if it is gone or a zombie.
fn parent(pid: u32) -> Option<u32> {
    let stat = fs::read_to_string(format!("/proc/{pid}/stat")).ok()?;
    let mut words = stat.rsplit_once(')')?.1.split_whitespace();
    let state = words.next()?;
    words.next().filter(|_| !matches!(state, "Z" | "X"))?.parse().ok()
}

fn is_gone(pid: u32) -> bool {
    parent(pid).is_none()
}

fn children(of: u32) -> Vec<u32> {
    let names = fs::read_dir("/proc").expect("/proc").flatten();
    let pids = names.filter_map(|entry| entry.file_name().to_str()?.parse().ok());
    pids.filter(|&pid| parent(pid) == Some(of)).collect()
}

fn kill(pid: u32) {
    // It may have gone already.
    let _ = kill_process(Pid::from_raw(pid as i32).expect("a process id"), Signal::KILL);
}

#[track_caller]
fn until(what: &str, mut condition: impl FnMut() -> bool) {
    let end = Instant::now() + Duration::from_secs(60);
    while !condition() {
        assert!(Instant::now() < end, "waited in vain until {what}");
        std::thread::sleep(Duration::from_millis(5));
    }
}

/// The count of all living workers under a name.
fn counted(test_dir: &TestDir, hold: &str, name: &str) -> u64 {
    let hold =
        Hold::options().directory(test_dir.path("")).open(hold).expect("the hold of the server");
    let reports = reports(&hold).expect("reports");
    let living = reports
        .iter()
        .map(|report| &report.says)
        .filter(|says| says["pid"].as_u64().is_some_and(|pid| !is_gone(pid as u32)));
    living.map(|says| says["counts"][name].as_u64().expect("a count")).sum()
}
