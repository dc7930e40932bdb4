//! The measured server: one that runs already, or this program as `hold serve`, started for the
//! run.
//!
//! Invariant: a server that was started here ends with the run, however that ends.

use super::ask::Asking;
use super::cpu::Family;
use super::database::Database;
use super::server_choices::{Choices, Combination};
use crate::workload::{
    Result, RunError,
    pin::{self, Cpus},
    worker::{self, Worker},
};
use commonhold_io::address::Address;
use commonhold_terminal::interrupt::{EXIT_CODE, Interrupt};
use commonhold_terminal::sizes;
use rustix::process::Signal;
use serde::{Deserialize, Serialize};
use std::os::unix::process::{CommandExt, ExitStatusExt};
use std::path::{Path, PathBuf};
use std::process::{Command, ExitStatus};
use std::sync::mpsc::RecvTimeoutError;
use std::time::{Duration, Instant};

/// Time limits for a server to start listening, and to end.
const BEGINNING: Duration = Duration::from_secs(120);
const ENDING: Duration = Duration::from_secs(10);
/// How often to look whether it lives.
const LOOK: Duration = Duration::from_millis(20);

/// Options of the server.
#[derive(clap::Args, Clone, Debug)]
#[command(next_help_heading = "The server")]
pub struct Serving {
    /// Measure the server at this address (unix:PATH, tcp:HOST:PORT) instead of starting one
    #[arg(long, value_name = "ADDRESS", conflicts_with_all = ["workers", "kind", "requests", "eviction",
        "cache", "files", "cache_bytes", "program", "server_cpus", "more", "matrix"])]
    address: Option<Address>,

    /// The process ID of that server, to measure the processor time of the server and its children
    #[arg(long, value_name = "PID", requires = "address")]
    server_pid: Option<u32>,

    /// Number of worker processes in the server
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u64).range(1..))]
    workers: Option<u64>,

    #[command(flatten)]
    choices: Choices,

    /// Size of the server's cache
    #[arg(long, value_name = "SIZE", value_parser = sizes::bytes)]
    cache_bytes: Option<u64>,

    /// Processors that the server may use [default: any]
    #[arg(long, value_name = "LIST", value_parser = Cpus::parse)]
    server_cpus: Option<Cpus>,

    /// Run this executable as the server
    #[arg(long, value_name = "FILE")]
    program: Option<PathBuf>,

    /// More options, passed to 'hold serve' unchanged
    #[arg(last = true, value_name = "SERVE-OPTION")]
    more: Vec<String>,
}

/// The orders of the process that becomes the server.
#[derive(Serialize, Deserialize)]
struct Order {
    starter: u32,
    program: PathBuf,
    words: Vec<String>,
    cpus: Cpus,
}

/// The line of a server once it serves.
#[derive(Deserialize)]
struct Listening {
    listening: Vec<String>,
}

/// A server.
pub struct Server {
    /// Where it listens.
    pub address: Address,
    /// Its processes, if they are known.
    pub family: Option<Family>,
    worker: Option<Worker>,
}

impl Serving {
    /// Its choices.
    pub fn combination(&self) -> Combination {
        self.choices.combination()
    }

    /// The server in a few words.
    pub fn shown(&self) -> String {
        match &self.address {
            Some(address) => format!("the server at {address}"),
            None => {
                let words = [vec!["hold serve".to_owned()], self.options(&self.combination())];
                words.concat().join(" ")
            }
        }
    }

    /// Its name in results.
    pub fn system(&self) -> String {
        match &self.address {
            Some(address) => address.to_string(),
            None => crate::workload::results::COMMONHOLD.to_owned(),
        }
    }

    /// Finds the server, or starts one with these choices.
    pub fn open(
        &self,
        directory: &Path,
        database: &Database,
        asking: &Asking,
        combination: &Combination,
        interrupt: &Interrupt,
    ) -> Result<Server> {
        if let Some(address) = self.address.clone() {
            let family = self.server_pid.map(Family::of).transpose()?;
            return Ok(Server { address, family, worker: None });
        }
        let place = match combination.word("files") {
            Some("sqlite") => database.path(&self.program(), directory, asking.layout)?,
            _ => directory.to_owned(),
        };
        let place = place.to_str().ok_or_else(|| {
            RunError::new(format!("{} is not UTF-8, which 'hold serve' needs", place.display()))
        })?;
        let words = ["serve", place, "--listen", "tcp:127.0.0.1:0", "--format", "json"];
        let own = ["--layout", asking.layout.name(), "--protocol", asking.protocol.name()];
        let words = words.into_iter().chain(own).map(str::to_owned);
        let words = words.chain(self.options(combination)).collect();
        self.start(words, interrupt)
    }

    fn options(&self, combination: &Combination) -> Vec<String> {
        let numbers = [("--workers", self.workers), ("--cache-bytes", self.cache_bytes)];
        let given = numbers.into_iter().filter_map(|(name, number)| Some((name, number?)));
        let mut options = combination.options();
        options.extend(given.flat_map(|(name, number)| [name.to_owned(), number.to_string()]));
        options.extend(self.more.iter().cloned());
        options
    }

    fn program(&self) -> PathBuf {
        self.program.clone().unwrap_or_else(worker::program)
    }

    fn start(&self, words: Vec<String>, interrupt: &Interrupt) -> Result<Server> {
        let order = Order {
            starter: std::process::id(),
            program: self.program(),
            words,
            cpus: self.server_cpus.clone().unwrap_or_default(),
        };
        let words = ["bench", "files", "--worker", &serde_json::to_string(&order)?];
        let mut worker = Worker::start("the server", &words.map(str::to_owned), &[])?;
        let line = first_line(&mut worker, interrupt)?;
        let said: Option<Listening> = serde_json::from_str(&line).ok();
        let address = said.and_then(|said| said.listening.first()?.parse().ok());
        let address = address.ok_or_else(|| {
            RunError::new(format!("expected the server's addresses, got: {line}"))
        })?;
        let family = Some(Family::of(worker.pid())?);
        Ok(Server { address, family, worker: Some(worker) })
    }
}

impl Server {
    /// Ends it, if it was started here.
    pub fn end(mut self, interrupt: &Interrupt) -> Result<()> {
        let Some(worker) = &mut self.worker else { return Ok(()) };
        if let Some(status) = worker.ended()? {
            return Err(RunError::new(format!("the server ended while it was measured: {status}")));
        }
        worker.terminate()?;
        let patience = Instant::now() + ENDING;
        while Instant::now() < patience {
            match worker.ended()? {
                Some(status) if is_orderly(status) => return Ok(()),
                Some(status) => {
                    return Err(RunError::new(format!("the server failed: {status}")));
                }
                None if interrupt.wait(LOOK) => return Err(RunError::Interrupted),
                None => {}
            }
        }
        let seconds = ENDING.as_secs();
        Err(RunError::new(format!("the server did not end within {seconds} s after SIGTERM")))
    }

    /// The error of a failed run, with the server's end if it has died.
    pub fn blame(&mut self, error: RunError) -> RunError {
        let Some(worker) = &mut self.worker else { return error };
        match (worker.ended(), &error) {
            (Ok(Some(status)), RunError::Text(_) | RunError::Hold(_)) => {
                RunError::new(format!("{error} (the server has ended: {status})"))
            }
            _ => error,
        }
    }
}

fn is_orderly(status: ExitStatus) -> bool {
    let asked = [Some(0), Some(i32::from(EXIT_CODE))].contains(&status.code());
    asked || status.signal() == Some(Signal::TERM.as_raw())
}

fn first_line(worker: &mut Worker, interrupt: &Interrupt) -> Result<String> {
    let patience = Instant::now() + BEGINNING;
    loop {
        match worker.lines().recv_timeout(LOOK) {
            Ok(line) => return Ok(line),
            Err(RecvTimeoutError::Disconnected) => {
                let status = worker.wait()?;
                return Err(worker::ended("the server ended before it served", status));
            }
            Err(RecvTimeoutError::Timeout) if interrupt.came() => {
                return Err(RunError::Interrupted);
            }
            Err(RecvTimeoutError::Timeout) if Instant::now() < patience => {}
            Err(RecvTimeoutError::Timeout) => {
                let seconds = BEGINNING.as_secs();
                return Err(RunError::new(format!("the server did not start within {seconds} s")));
            }
        }
    }
}

/// The process's side: becomes the server, once it is set up to die with its starter.
pub fn become_server(order: &str) -> Result<()> {
    let Order { starter, program, words, cpus } = serde_json::from_str(order)?;
    worker::die_with(starter)?;
    pin::pin_to(&cpus)?;
    let error = Command::new(&program).args(words).exec();
    Err(RunError::new(format!("cannot start {}: {error}", program.display())))
}
