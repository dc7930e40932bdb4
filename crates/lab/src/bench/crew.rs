//! The processes of one benchmark: all begin at one instant, each reports once, and a dead one is
//! not waited for.
//!
//! A process waits for lines on its standard input until there are no more, so it never ends by
//! itself. Invariant: while a report is awaited, the end of *any* of the processes and Ctrl-C end
//! the run, and all processes with it.

use crate::workload::{
    Result, RunError,
    clock::{now_ns, spin_until},
    pin::{self, Cpus},
    say,
    worker::{self, Worker},
};
use commonhold_terminal::interrupt::Interrupt;
use serde::{Deserialize, Serialize, de::DeserializeOwned};
use std::process::ExitStatus;
use std::sync::mpsc::RecvTimeoutError;
use std::time::Duration;

/// All begin this long after the command to begin.
const LEAD: Duration = Duration::from_millis(5);
/// How often to check whether all processes live, and whether a signal has come.
const LOOK: Duration = Duration::from_millis(20);

/// The orders of every process.
#[derive(Serialize, Deserialize)]
struct Order<J> {
    /// The process that started it, with which it dies.
    starter: u32,
    /// The processor it runs on.
    cpu: Option<usize>,
    job: J,
}

/// The starter's side.
pub struct Crew {
    benchmark: &'static str,
    interrupt: Interrupt,
    workers: Vec<Worker>,
}

impl Crew {
    /// No process yet; `benchmark` is the word after `hold bench`.
    pub fn new(benchmark: &'static str) -> Result<Crew> {
        Ok(Crew { benchmark, interrupt: Interrupt::watch()?, workers: Vec::new() })
    }

    /// Starts a process for each of `jobs`, on the processors if some are named, and waits until
    /// all are ready.
    pub fn enlist<J: Serialize>(&mut self, cpus: &Cpus, jobs: Vec<(String, J)>) -> Result<()> {
        for (number, (name, job)) in jobs.into_iter().enumerate() {
            let order = Order { starter: std::process::id(), cpu: cpus.of(number), job };
            let order = serde_json::to_string(&order)?;
            let words = ["bench", self.benchmark, "--worker", &order].map(str::to_owned);
            self.workers.push(Worker::start(&name, &words, &[])?);
            // One after the other, so that they open the shared structures in a known order.
            self.receive(number)?;
        }
        Ok(())
    }

    /// Lets all begin at one instant, and returns it, in nanoseconds of the common clock.
    pub fn begin(&mut self) -> Result<u64> {
        let start_ns = now_ns() + LEAD.as_nanos() as u64;
        self.tell(&start_ns.to_string())?;
        Ok(start_ns)
    }

    /// Sends every process a line.
    pub fn tell(&mut self, line: &str) -> Result<()> {
        for worker in &mut self.workers {
            if worker.send(line).is_err() {
                // A process reads as long as it lives.
                let status = worker.wait()?;
                return Err(ended(worker, status));
            }
        }
        Ok(())
    }

    /// The report of process `number`.
    pub fn report<R: DeserializeOwned>(&mut self, number: usize) -> Result<R> {
        Ok(serde_json::from_str(&self.receive(number)?)?)
    }

    /// Lets all processes end normally.
    pub fn dismiss(mut self) -> Result<()> {
        for worker in &mut self.workers {
            let status = worker.wait()?;
            if !status.success() {
                return Err(RunError::new(format!("{} failed: {status}", worker.name)));
            }
        }
        Ok(())
    }

    fn receive(&mut self, number: usize) -> Result<String> {
        loop {
            match self.workers[number].lines().recv_timeout(LOOK) {
                Ok(line) => return Ok(line),
                Err(RecvTimeoutError::Timeout) => self.look()?,
                Err(RecvTimeoutError::Disconnected) => return self.workers[number].receive(),
            }
        }
    }

    /// An error if a process has died, or after Ctrl-C.
    fn look(&mut self) -> Result<()> {
        if self.interrupt.came() {
            return Err(RunError::Interrupted);
        }
        for worker in &mut self.workers {
            if let Some(status) = worker.ended()? {
                return Err(ended(worker, status));
            }
        }
        Ok(())
    }
}

fn ended(worker: &Worker, status: ExitStatus) -> RunError {
    RunError::new(format!("{} ended in the middle of its work: {status}", worker.name))
}

/// The process's side: its job, once it is set up to die with its starter and to run on its
/// processor.
pub fn job<J: DeserializeOwned>(order: &str) -> Result<J> {
    let Order { starter, cpu, job } = serde_json::from_str(order)?;
    worker::die_with(starter)?;
    cpu.map_or(Ok(()), pin::pin)?;
    Ok(job)
}

/// The process's side, when it is ready: lets `work` begin at the common instant, and reports.
pub fn perform<R: Serialize>(work: impl FnOnce(u64) -> Result<R>) -> Result<()> {
    say("ready")?;
    let Some(line) = worker::command()? else { return Ok(()) };
    let start_ns = line.parse();
    let start_ns =
        start_ns.map_err(|_| RunError::new(format!("expected an instant, got '{line}'")))?;
    spin_until(start_ns);
    let report = work(start_ns)?;
    say(&serde_json::to_string(&report)?)?;
    // Its handles stay open until all have reported: no process sees a peer leave while it
    // measures.
    while worker::command()?.is_some() {}
    Ok(())
}
