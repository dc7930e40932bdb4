//! Workers: child processes that run this same program with a hidden option.
//!
//! A worker talks in lines: commands come on its standard input, reports go to its standard
//! output. Its standard error is the starter's. Workers are in a process group of their own, so
//! that Ctrl-C reaches only the starter, which ends them in order; and they die with the starter
//! (parent-death signal) if it cannot.
//!
//! Invariant: a [`Worker`] that is dropped leaves no process behind, not even a stopped one.
//! Workers must be started from the main thread: the parent-death signal follows the thread.

use super::{Result, RunError};
use rustix::process::{
    Pid, Signal, WaitId, WaitIdOptions, getppid, kill_process, set_parent_process_death_signal,
    waitid,
};
use signal_hook::consts::{SIGHUP, SIGINT, SIGTERM};
use std::io::{BufRead, BufReader, Write};
use std::os::unix::process::{CommandExt, ExitStatusExt};
use std::path::{Path, PathBuf};
use std::process::{Child, ChildStdin, ChildStdout, Command, ExitStatus, Stdio};
use std::sync::mpsc::{Receiver, channel};

/// One child process of a run.
pub struct Worker {
    /// Its name in reports, such as `writer 2`.
    pub name: String,
    child: Child,
    commands: Option<ChildStdin>,
    lines: Receiver<String>,
    ended: Option<ExitStatus>,
}

/// The error for a worker that has ended unexpectedly. It has a process group of its own; but a
/// signal to the whole group of a run may come just before a new worker has its own.
pub fn ended(what: &str, status: ExitStatus) -> RunError {
    match status.signal() {
        Some(SIGHUP | SIGINT | SIGTERM) => RunError::Interrupted,
        _ => RunError::new(format!("{what}: {status}")),
    }
}

impl Worker {
    /// Starts another process of this program with `args`, as worker `name`.
    pub fn start(name: &str, args: &[String], environment: &[(&str, &str)]) -> Result<Worker> {
        let mut command = Command::new(program());
        command.args(args).envs(environment.iter().copied());
        command.stdin(Stdio::piped()).stdout(Stdio::piped()).process_group(0);
        let mut child = command
            .spawn()
            .map_err(|e| RunError::new(format!("cannot start {name} as a process: {e}")))?;
        let commands = child.stdin.take();
        let lines = read_lines(child.stdout.take().expect("standard output is a pipe"));
        Ok(Worker { name: name.to_owned(), child, commands, lines, ended: None })
    }

    /// The process's number, for display.
    pub fn pid(&self) -> u32 {
        self.child.id()
    }

    /// The lines of its standard output; the channel closes when the process has closed it.
    pub fn lines(&self) -> &Receiver<String> {
        &self.lines
    }

    /// Sends one line to its standard input.
    pub fn send(&mut self, line: &str) -> Result<()> {
        let name = &self.name;
        let pipe = self.commands.as_mut().expect("commands are sent before the end of them");
        writeln!(pipe, "{line}").map_err(|e| RunError::new(format!("{name} does not listen: {e}")))
    }

    /// Closes its standard input, which is the command to end.
    pub fn end_commands(&mut self) {
        self.commands = None;
    }

    /// Waits for its next line; fails if it ends without one.
    pub fn receive(&mut self) -> Result<String> {
        match self.lines.recv() {
            Ok(line) => Ok(line),
            Err(_) => {
                let status = self.wait()?;
                Err(ended(&format!("{} ended in the middle of its work", self.name), status))
            }
        }
    }

    /// Stops it (SIGSTOP) and waits until it stands still. False if it has ended instead.
    pub fn stop(&mut self) -> Result<bool> {
        self.signal(Signal::STOP)?;
        self.stands_still()
    }

    /// Asks it to end (SIGTERM).
    pub fn terminate(&mut self) -> Result<()> {
        self.signal(Signal::TERM)
    }

    /// Waits until it has stopped or ended, by itself or by a pending signal; true if stopped.
    pub fn stands_still(&mut self) -> Result<bool> {
        if self.ended.is_some() {
            return Ok(false);
        }
        // NOWAIT: the end of the process stays there for `Child` to collect.
        let options = WaitIdOptions::STOPPED | WaitIdOptions::EXITED | WaitIdOptions::NOWAIT;
        let state = loop {
            match waitid(WaitId::Pid(self.id()), options) {
                Err(rustix::io::Errno::INTR) => continue,
                state => break state.map_err(std::io::Error::from)?,
            }
        };
        Ok(state.is_some_and(|s| s.stopped()))
    }

    /// Lets it continue after [`Worker::stop`].
    pub fn go_on(&mut self) -> Result<()> {
        self.signal(Signal::CONT)
    }

    /// Kills it (SIGKILL) and waits until it is gone.
    pub fn kill(&mut self) -> Result<ExitStatus> {
        self.signal(Signal::KILL)?;
        self.wait()
    }

    /// Its exit status if it has ended.
    pub fn ended(&mut self) -> Result<Option<ExitStatus>> {
        if self.ended.is_none() {
            self.ended = self.child.try_wait()?;
        }
        Ok(self.ended)
    }

    /// Waits for its end; its standard input is closed first.
    pub fn wait(&mut self) -> Result<ExitStatus> {
        self.commands = None;
        match self.ended {
            Some(status) => Ok(status),
            None => Ok(*self.ended.insert(self.child.wait()?)),
        }
    }

    fn signal(&mut self, signal: Signal) -> Result<()> {
        // The number of a process that was waited for may belong to another process.
        if self.ended()?.is_none() {
            kill_process(self.id(), signal).map_err(std::io::Error::from)?;
        }
        Ok(())
    }

    fn id(&self) -> Pid {
        Pid::from_child(&self.child)
    }
}

impl Drop for Worker {
    fn drop(&mut self) {
        // An error means that it is gone already, which is the goal.
        let _ = self.kill();
    }
}

/// Whether `status` is the end by SIGKILL.
pub fn was_killed(status: ExitStatus) -> bool {
    status.signal() == Some(Signal::KILL.as_raw())
}

/// For the worker's side: makes it die with its starter, whose pid is `starter`.
///
/// # Errors
/// An error if the starter is gone already; the worker must then end.
pub fn die_with(starter: u32) -> Result<()> {
    set_parent_process_death_signal(Some(Signal::KILL)).map_err(std::io::Error::from)?;
    let parent = getppid().map(|p| p.as_raw_nonzero().get() as u32);
    if parent == Some(starter) {
        return Ok(());
    }
    Err(RunError::new("this option is internal: `hold` starts its worker processes with it"))
}

/// For the worker's side: waits for a command; none once the starter has closed the pipe.
pub fn command() -> Result<Option<String>> {
    let mut line = String::new();
    let read = std::io::stdin().lock().read_line(&mut line)?;
    Ok((read > 0).then(|| line.trim_end().to_owned()))
}

/// This program's file. A file that was replaced meanwhile (by a build, by an upgrade) is still
/// reached through `/proc`, so that all processes of a run are of one version.
pub fn program() -> PathBuf {
    let through_proc = Path::new("/proc/self/exe");
    match std::env::current_exe() {
        Ok(path) if path.exists() => path,
        _ => through_proc.to_owned(),
    }
}

/// Passes whole lines on; what a killed process left of its last one is dropped.
fn read_lines(out: ChildStdout) -> Receiver<String> {
    let (sender, lines) = channel();
    std::thread::spawn(move || {
        let mut out = BufReader::new(out);
        let mut line = String::new();
        while out.read_line(&mut line).is_ok_and(|read| read > 0) && line.ends_with('\n') {
            line.pop();
            if sender.send(std::mem::take(&mut line)).is_err() {
                return;
            }
        }
    });
    lines
}
