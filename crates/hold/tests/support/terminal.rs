//! A terminal of a test, and a command that runs on it.

use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::fs::{Mode, OFlags};
use rustix::process::{Pid, Signal, kill_process};
use rustix::pty::{OpenptFlags, grantpt, openpt, ptsname, unlockpt};
use rustix::termios::{LocalModes, Winsize, tcgetattr, tcsetwinsize};
use std::fs::File;
use std::io::{Read, Write};
use std::os::fd::OwnedFd;
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

/// The longest time that a test waits for output.
const LONGEST: Duration = Duration::from_secs(120);

/// This side of a pseudo-terminal, and the other one.
pub struct PseudoTerminal {
    side: File,
    other: OwnedFd,
}

impl PseudoTerminal {
    pub fn open() -> PseudoTerminal {
        let side = openpt(OpenptFlags::RDWR | OpenptFlags::NOCTTY | OpenptFlags::CLOEXEC)
            .expect("a pseudo-terminal");
        grantpt(&side).expect("a terminal of ours");
        unlockpt(&side).expect("an unlocked terminal");
        let name = ptsname(&side, Vec::new()).expect("its name");
        let other = rustix::fs::open(name, OFlags::RDWR | OFlags::NOCTTY, Mode::empty());
        PseudoTerminal { side: side.into(), other: other.expect("its other side") }
    }

    /// The other side, for a command.
    pub fn other_side(&self) -> Stdio {
        self.other.try_clone().expect("its other side").into()
    }

    pub fn type_text(&mut self, text: &str) {
        self.side.write_all(text.as_bytes()).expect("typing");
    }

    fn resize(&self, columns: u16, rows: u16) {
        let size = Winsize { ws_col: columns, ws_row: rows, ws_xpixel: 0, ws_ypixel: 0 };
        tcsetwinsize(&self.side, size).expect("another size");
    }

    /// Whether it edits lines and shows what is typed, as a shell expects it.
    fn is_ordinary(&self) -> bool {
        let modes = tcgetattr(&self.other).expect("its settings").local_modes;
        modes.contains(LocalModes::ICANON | LocalModes::ECHO | LocalModes::ISIG)
    }

    /// The bytes that have come, at least one.
    fn read(&mut self) -> Vec<u8> {
        let mut asked = [PollFd::new(&self.side, PollFlags::IN)];
        let longest = LONGEST.try_into().expect("a time");
        assert_ne!(poll(&mut asked, Some(&longest)).expect("a question"), 0, "it is silent");
        let mut bytes = vec![0; 65_536];
        let count = self.side.read(&mut bytes).expect("bytes");
        bytes.truncate(count);
        bytes
    }

    /// The bytes that are still there.
    fn rest(&mut self) -> Vec<u8> {
        let now = Timespec { tv_sec: 0, tv_nsec: 0 };
        let mut all = Vec::new();
        loop {
            let mut asked = [PollFd::new(&self.side, PollFlags::IN)];
            if poll(&mut asked, Some(&now)).expect("a question") == 0 {
                return all;
            }
            all.extend(self.read());
        }
    }
}

/// A command that has the terminal; it is killed if the test fails.
pub struct OnScreen {
    child: Child,
    terminal: PseudoTerminal,
    /// What it has written and the test has not looked for yet.
    seen: Vec<u8>,
}

/// The end of such a command.
pub struct Left {
    pub code: Option<i32>,
    pub err: String,
    /// The last bytes on the terminal.
    pub bytes: String,
    /// Whether the terminal is as before.
    pub is_ordinary: bool,
}

impl OnScreen {
    pub fn start(mut command: Command, (columns, rows): (u16, u16)) -> OnScreen {
        let terminal = PseudoTerminal::open();
        terminal.resize(columns, rows);
        assert!(terminal.is_ordinary());
        command.env("TERM", "xterm-256color").env_remove("NO_COLOR");
        command.stdin(terminal.other_side()).stdout(terminal.other_side());
        let child = command.stderr(Stdio::piped()).spawn().expect("hold starts");
        OnScreen { child, terminal, seen: Vec::new() }
    }

    /// Waits until it has written this, and forgets everything up to it.
    pub fn until(&mut self, part: &str) {
        let (mut at, end) = (None, Instant::now() + LONGEST);
        while at.is_none() {
            let seen = String::from_utf8_lossy(&self.seen);
            assert!(Instant::now() < end, "no {part:?}: {seen:?}");
            at = self.seen.windows(part.len()).position(|bytes| bytes == part.as_bytes());
            if at.is_none() {
                let new = self.terminal.read();
                self.seen.extend(new);
            }
        }
        self.seen.drain(..at.unwrap_or(0) + part.len());
    }

    /// Gives its terminal another size, as a window does that the user resizes.
    pub fn resize(&self, columns: u16, rows: u16) {
        self.terminal.resize(columns, rows);
        // It has no controlling terminal, so the kernel reports the change to nobody.
        self.signal(Signal::WINCH);
    }

    /// Whether it has taken the terminal for itself.
    pub fn has_terminal(&self) -> bool {
        !self.terminal.is_ordinary()
    }

    pub fn signal(&self, signal: Signal) {
        let pid = Pid::from_raw(self.child.id() as i32).expect("a process id");
        kill_process(pid, signal).expect("it lives");
    }

    pub fn type_text(&mut self, text: &str) {
        self.terminal.type_text(text);
    }

    /// Closes this side of the terminal. The command gets no signal, because it is not the
    /// terminal's session. Returns the command's exit code.
    pub fn hang_up(mut self) -> Option<i32> {
        drop(std::mem::replace(&mut self.terminal, PseudoTerminal::open()));
        let end = Instant::now() + LONGEST;
        loop {
            if let Some(status) = self.child.try_wait().expect("a child") {
                return status.code();
            }
            assert!(Instant::now() < end, "it goes on without a terminal");
            std::thread::sleep(Duration::from_millis(1));
        }
    }

    /// Reads what it has written, and asks whether it has ended.
    pub fn has_ended(&mut self) -> bool {
        let status = self.child.try_wait().expect("a child");
        // A terminal that nobody reads would keep it from ending.
        let new = self.terminal.rest();
        self.seen.extend(new);
        status.is_some()
    }

    /// Waits for its end.
    pub fn left(mut self) -> Left {
        while !self.has_ended() {
            std::thread::yield_now();
        }
        let code = self.child.wait().expect("a child").code();
        let mut err = String::new();
        let stderr = self.child.stderr.as_mut().expect("a pipe");
        stderr.read_to_string(&mut err).expect("text");
        Left {
            code,
            err,
            bytes: String::from_utf8_lossy(&self.seen).into_owned(),
            is_ordinary: self.terminal.is_ordinary(),
        }
    }
}

impl Drop for OnScreen {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}
