//! The workers as the starting process sees them: it starts them, sends orders, and gathers
//! answers.
//!
//! Invariant: dropping a [`Crew`] ends its processes, by their own ids. Only the rounds call this
//! module.

use std::{
    path::{Path, PathBuf},
    process,
    sync::{
        Arc,
        atomic::{AtomicBool, Ordering},
        mpsc::RecvTimeoutError,
    },
    time::{Duration, Instant},
};

use anyhow::{Context, Result, anyhow, bail, ensure};
use commonhold_lab::workload::worker::Worker;

use crate::{
    rival::{Rival, Shape, Sharing},
    worker::{Answer, Done, Job, Order},
    workloads::Workload,
};

/// The hidden subcommand that makes this program a worker.
pub const VERB: &str = "worker";

/// Longer than any phase within a sensible budget.
const LIMIT: Duration = Duration::from_secs(600);
/// The interval of the checks whether all workers are alive, and whether a signal has arrived.
const LOOK: Duration = Duration::from_millis(20);

/// All workers of one rival in one workload.
pub struct Crew {
    members: Vec<Worker>,
    name: String,
    /// See [`Rival::reads_may_be_wrong`].
    may_be_wrong: bool,
    stopped: Arc<AtomicBool>,
    /// Bytes of memory that the processes held before the first phase.
    pub resident_bytes: u64,
}

impl Crew {
    /// Starts the processes and returns when all have opened their stores. When `stopped` is set,
    /// it stops waiting for them.
    pub fn start(
        rival: &dyn Rival,
        workload: &dyn Workload,
        site: &Path,
        shape: &Shape,
        stopped: &Arc<AtomicBool>,
    ) -> Result<Crew> {
        let (processes, threads) = match rival.sharing() {
            Sharing::Processes => (shape.workers, 1),
            Sharing::Threads => (1, shape.workers),
        };
        let name = format!("{} in {}", rival.name(), workload.name());
        let stopped = stopped.clone();
        let (members, may_be_wrong) = (Vec::new(), rival.reads_may_be_wrong());
        let mut crew = Crew { members, name, may_be_wrong, stopped, resident_bytes: 0 };
        for first_worker in 0..processes {
            let job = Job {
                run: process::id(),
                rival: rival.name().to_owned(),
                workload: workload.name().to_owned(),
                site: PathBuf::from(site),
                shape: shape.clone(),
                first_worker,
                threads: usize::try_from(threads)?,
            };
            let name = format!("worker {first_worker} of {}", crew.name);
            let mut member = Worker::start(&name, &[VERB.to_owned()], &[])?;
            member.send(&serde_json::to_string(&job)?)?;
            crew.members.push(member);
        }
        for answer in crew.gather()? {
            let Answer::Ready { resident_bytes } = answer else {
                bail!("{}: expected a worker to be ready, got {answer:?}", crew.name)
            };
            crew.resident_bytes += resident_bytes;
        }
        Ok(crew)
    }

    /// # Errors
    /// An error if the run was stopped.
    pub fn is_wanted(&self) -> Result<()> {
        let stopped = self.stopped.load(Ordering::Relaxed);
        ensure!(!stopped, "stopped by a signal; this run left nothing behind");
        Ok(())
    }

    /// Runs one phase in all workers.
    pub fn run(&mut self, phase: &str) -> Result<Done> {
        let order = serde_json::to_string(&Order { phase: phase.to_owned() })?;
        for member in &mut self.members {
            member.send(&order)?;
        }
        let mut all: Option<Done> = None;
        for answer in self.gather()? {
            let Answer::Done(done) = answer else {
                bail!("{}: a worker answers phase {phase} with {answer:?}", self.name)
            };
            all = Some(all.map_or(done.clone(), |before| before.combine(done)));
        }
        let mut all = all.context("a crew without workers")?;
        if self.may_be_wrong && all.wrong > 0 {
            let (wrong, reads) = (std::mem::take(&mut all.wrong), all.operations);
            all.findings.notes.push(format!("{wrong} of {reads} values were wrong"));
        }
        ensure!(
            all.wrong == 0 && all.absent == 0,
            "{}, phase {phase}: {} wrong values and {} absent: its speed is meaningless",
            self.name,
            all.wrong,
            all.absent
        );
        Ok(all)
    }

    /// Ends all workers, after they have closed their stores.
    pub fn finish(mut self) -> Result<()> {
        self.members.iter_mut().for_each(Worker::end_commands);
        for answer in self.gather()? {
            ensure!(matches!(answer, Answer::Finished), "{}: ends with {answer:?}", self.name);
        }
        for member in &mut self.members {
            let status = member.wait()?;
            ensure!(status.success(), "{} ended with {status}", member.name);
        }
        Ok(())
    }

    /// Waits for one answer from each worker.
    fn gather(&mut self) -> Result<Vec<Answer>> {
        let begin = Instant::now();
        (0..self.members.len()).map(|number| self.answer(number, begin)).collect()
    }

    fn answer(&mut self, number: usize, begin: Instant) -> Result<Answer> {
        loop {
            let member = &mut self.members[number];
            match member.lines().recv_timeout(LOOK) {
                Ok(line) => return understand(&member.name, &line),
                Err(RecvTimeoutError::Timeout) => self.look(begin)?,
                Err(RecvTimeoutError::Disconnected) => return Err(ended(member)),
            }
        }
    }

    /// Returns an error if a worker has failed, because another worker may wait for it forever.
    fn look(&mut self, begin: Instant) -> Result<()> {
        self.is_wanted()?;
        let (name, limit) = (&self.name, LIMIT.as_secs());
        ensure!(begin.elapsed() < LIMIT, "{name}: no answer for {limit} s; is a message lost?");
        for member in &mut self.members {
            if member.ended()?.is_some_and(|status| !status.success()) {
                while let Ok(line) = member.lines().recv_timeout(LOOK) {
                    understand(&member.name, &line)?;
                }
                return Err(ended(member));
            }
        }
        Ok(())
    }
}

/// The error for a worker that has ended without an answer.
fn ended(member: &mut Worker) -> anyhow::Error {
    match member.wait() {
        Ok(status) => anyhow!("{} ended without an answer: {status}", member.name),
        Err(error) => error.into(),
    }
}

/// # Errors
/// An error if the worker reports one.
fn understand(name: &str, line: &str) -> Result<Answer> {
    match serde_json::from_str(line).with_context(|| format!("{name} answered {line:?}"))? {
        Answer::Failed(why) => bail!("{name}: {why}"),
        other => Ok(other),
    }
}
