//! Background processes of a test: their output, and signals to them.

use super::{Run, TestDir};
use rustix::process::{Pid, Signal, kill_process};
use serde_json::Value;
use std::io::{BufRead, BufReader, Read, Write};
use std::process::{Child, ChildStdin, ChildStdout, Command, Stdio};
use std::time::{Duration, Instant};

/// A process in the background of the test; it is killed if the test fails.
pub struct Background {
    child: Child,
    pub input: Option<ChildStdin>,
    out: BufReader<ChildStdout>,
}

impl Background {
    pub fn start(test_dir: &TestDir, args: &[&str]) -> Background {
        let mut command = test_dir.command(args);
        command.stdin(Stdio::piped());
        Background::run(command)
    }

    /// Starts a command of which the input is as the test has set it.
    pub fn run(mut command: Command) -> Background {
        command.stdout(Stdio::piped()).stderr(Stdio::piped());
        let mut child = command.spawn().expect("hold starts");
        let input = child.stdin.take();
        let out = BufReader::new(child.stdout.take().expect("a pipe"));
        Background { child, input, out }
    }

    pub fn pid(&self) -> u32 {
        self.child.id()
    }

    /// Sends a signal. After `STOP`, waits until all threads stand still: the call itself does not.
    pub fn signal(&self, signal: Signal) {
        let pid = Pid::from_raw(self.pid() as i32).expect("a process id");
        kill_process(pid, signal).expect("it lives");
        while signal == Signal::STOP && !self.stands_still() {
            std::thread::yield_now();
        }
    }

    fn stands_still(&self) -> bool {
        let tasks = std::fs::read_dir(format!("/proc/{}/task", self.pid())).expect("it lives");
        let state = |task: std::io::Result<std::fs::DirEntry>| {
            let stat = std::fs::read_to_string(task.ok()?.path().join("stat")).ok()?;
            stat.rsplit_once(") ")?.1.chars().next()
        };
        // A thread that has ended has no state.
        tasks.filter_map(state).all(|state| state == 'T')
    }

    pub fn write(&mut self, text: &[u8]) {
        let input = self.input.as_mut().expect("an open input");
        input.write_all(text).and_then(|()| input.flush()).expect("it reads");
    }

    pub fn line(&mut self) -> String {
        let mut line = String::new();
        self.out.read_line(&mut line).expect("text");
        line
    }

    /// The first line on standard error.
    pub fn first_error(&mut self) -> String {
        let mut line = String::new();
        let err = self.child.stderr.take().expect("nobody else reads it");
        BufReader::new(err).read_line(&mut line).expect("text");
        line
    }

    /// Reads standard error until a line has this part; later calls read on from where this
    /// leaves it.
    pub fn until_error(&mut self, part: &str) {
        let err = self.child.stderr.as_mut().expect("nobody else reads it");
        let (mut line, mut byte) = (Vec::new(), [0]);
        while !(line.ends_with(b"\n") && String::from_utf8_lossy(&line).contains(part)) {
            if line.ends_with(b"\n") {
                line.clear();
            }
            assert_eq!(err.read(&mut byte).expect("bytes"), 1, "it has ended without: {part}");
            line.push(byte[0]);
        }
    }

    /// Waits for its end; returns the rest of its output, and its status.
    pub fn end(mut self) -> Run {
        drop(self.input.take());
        let mut bytes = Vec::new();
        self.out.read_to_end(&mut bytes).expect("bytes");
        let mut err = String::new();
        if let Some(mut stderr) = self.child.stderr.take() {
            stderr.read_to_string(&mut err).expect("text");
        }
        let code = self.child.wait().expect("it ends").code().unwrap_or(-1);
        Run { code, out: String::from_utf8_lossy(&bytes).into_owned(), err, bytes }
    }

    pub fn kill(mut self) {
        self.child.kill().and_then(|()| self.child.wait()).expect("it lived");
    }
}

impl Drop for Background {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// Waits until the subcommand's JSON meets a condition.
pub fn until(test_dir: &TestDir, args: &[&str], wanted: impl Fn(&Value) -> bool) -> Value {
    let end = Instant::now() + Duration::from_secs(120);
    loop {
        let seen = test_dir.json(args);
        if wanted(&seen) {
            return seen;
        }
        assert!(Instant::now() < end, "hold {args:?} stays {seen:#}");
        std::thread::sleep(Duration::from_millis(5));
    }
}

/// Messages that are hard on framing, and the frames of them.
pub fn nasty() -> (Vec<Vec<u8>>, Vec<u8>) {
    let messages =
        vec![(0..=255).collect(), Vec::new(), b"\n\n".to_vec(), vec![0; 9], b"\xff\0".to_vec()];
    let frame = |m: &Vec<u8>| [&(m.len() as u32).to_le_bytes()[..], m].concat();
    let frames = messages.iter().flat_map(frame).collect();
    (messages, frames)
}

pub fn lines(out: &str) -> Vec<&str> {
    out.lines().collect()
}

pub fn objects(out: &str) -> Vec<Value> {
    out.lines().map(|line| serde_json::from_str(line).expect("a line of JSON")).collect()
}

/// A test directory with a hold `shop` that has a queue `jobs` of 8 elements of `element_bytes`.
pub fn with_queue(element_bytes: &str, more: &[&str]) -> TestDir {
    let test_dir = TestDir::new();
    let create = ["queue", "create", "shop", "jobs", "--elements", "8", "--element-bytes"];
    test_dir.ok(&[&create[..], &[element_bytes], more].concat());
    test_dir
}

/// A test directory with a hold `shop` that has a channel `ticks` with this ring.
pub fn with_channel(ring_bytes: &str) -> TestDir {
    let test_dir = TestDir::new();
    test_dir.ok(&["channel", "create", "shop", "ticks", "--ring-bytes", ring_bytes]);
    test_dir
}
