//! A server that the benchmark starts for itself, on a unix socket in the run's own directory, or
//! on the loopback interface, if it has no unix sockets or users do not use them.
//!
//! Invariant: the [`Server`] ends the program by its process id when it is dropped. If the
//! benchmark itself is killed, the [`leash`] ends the program. A program with workers of its own
//! receives SIGTERM, so that it ends them, and the [`Server`] waits for it. The program uses no
//! other machine and no configuration file of the machine, and saves nothing to disk. The rivals
//! that are servers call this module.

use std::{
    fs,
    os::unix::net::UnixStream,
    path::{Path, PathBuf},
    process::{Child, Command, Stdio},
    thread,
    time::{Duration, Instant},
};

use anyhow::{Context, Result, bail};
use rustix::process::{Pid, Signal, kill_process};

use super::leash;

const START_LIMIT: Duration = Duration::from_secs(20);
const BETWEEN_TRIES: Duration = Duration::from_millis(2);
/// The time in which a server that has workers must end them.
const END_LIMIT: Duration = Duration::from_secs(15);

/// A running server.
pub struct Server {
    child: Child,
    has_workers: bool,
}

impl Server {
    /// Starts `program` and returns when it accepts connections on `socket`. The thread that calls
    /// this must outlive the server: see [`leash`].
    pub fn start(program: &str, arguments: &[String], socket: &Path) -> Result<Server> {
        let answers = || UnixStream::connect(socket).is_ok();
        Server::start_when(program, arguments, &socket.with_extension("log"), &answers)
    }

    /// The same, but returns when `answers` returns true. The output goes to the file `log`.
    pub fn start_when(
        program: &str,
        arguments: &[String],
        log: &Path,
        answers: &dyn Fn() -> bool,
    ) -> Result<Server> {
        let server =
            Server { child: started(leash::command(program), arguments, log)?, has_workers: false };
        server.awaited(program, log, answers)
    }

    /// The same for a server that has workers of its own.
    pub fn start_family(
        program: &str,
        arguments: &[String],
        log: &Path,
        answers: &dyn Fn() -> bool,
    ) -> Result<Server> {
        let child = started(leash::family_command(program), arguments, log)?;
        Server { child, has_workers: true }.awaited(program, log, answers)
    }

    /// A server cannot notify an unrelated process when it listens, so this polls until it does.
    fn awaited(mut self, program: &str, log: &Path, answers: &dyn Fn() -> bool) -> Result<Server> {
        let start = Instant::now();
        while !answers() {
            let ended = self.child.try_wait().context("cannot check whether the server runs")?;
            if ended.is_some() || start.elapsed() > START_LIMIT {
                let what = ended.map_or("does not answer".to_owned(), |s| format!("ended: {s}"));
                let said = fs::read_to_string(log).unwrap_or_default();
                bail!("{program} {what}; it printed:\n{said}");
            }
            thread::sleep(BETWEEN_TRIES);
        }
        Ok(self)
    }

    /// Its process id.
    pub fn pid(&self) -> u32 {
        self.child.id()
    }

    /// Asks it to end, and waits until it has. An error means that it has ended already.
    fn ask_to_end(&mut self) {
        let _ = kill_process(Pid::from_child(&self.child), Signal::TERM);
        let start = Instant::now();
        while matches!(self.child.try_wait(), Ok(None)) && start.elapsed() < END_LIMIT {
            thread::sleep(BETWEEN_TRIES);
        }
    }
}

/// Starts it; its output goes to the file `log`.
fn started(mut command: Command, arguments: &[String], log: &Path) -> Result<Child> {
    let output = fs::File::create(log).context("cannot make the server's log file")?;
    command.args(arguments).stdin(Stdio::null()).stdout(output.try_clone()?).stderr(output);
    command.spawn().context("cannot start a server")
}

impl Drop for Server {
    fn drop(&mut self) {
        if self.has_workers {
            self.ask_to_end();
        }
        // It has nothing to save, so it is killed. An error means that it has ended already.
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// The reason why `program` cannot be started, with the package that contains it; `None` if it can.
pub fn missing(program: &str, package: &str) -> Option<String> {
    if find(program).is_none() {
        return Some(format!(
            "{program} is not installed: apt-get install {package} (or run with --install as root)"
        ));
    }
    leash::missing()
}

/// The first line of `program --version`.
pub fn version(program: &str) -> Result<String> {
    let output = Command::new(program).arg("--version").output();
    let output = output.with_context(|| format!("cannot run {program} --version"))?;
    let said = String::from_utf8_lossy(&output.stdout);
    Ok(said.lines().next().unwrap_or("unknown").trim().to_owned())
}

/// The path of the program.
pub fn find(program: &str) -> Option<PathBuf> {
    let path = std::env::var_os("PATH")?;
    std::env::split_paths(&path).map(|folder| folder.join(program)).find(|file| file.is_file())
}
