//! The processes of a crash test: starting them, replacing the dead, reading their reports.
//!
//! Invariant: a process ends by our SIGKILL, or normally once the run is over. Any other end is a
//! finding, with the process's own report.

use super::plan::{LANES_EACH, Ledger, Order, PLACES, Role};
use super::report::Report;
use crate::workload::{
    Result, RunError,
    clock::now_ns,
    worker::{self, Worker, was_killed},
};
use std::path::Path;
use std::sync::mpsc::RecvTimeoutError;
use std::time::Duration;

/// No process may make no progress for this long, or take this long to finish.
pub const PATIENCE: Duration = Duration::from_secs(60);

/// One process's place.
pub struct Member {
    /// The kind of process there.
    pub order: Order,
    /// The process there.
    pub worker: Worker,
    seen: [(u64, u64); LANES_EACH as usize],
}

/// All processes.
pub struct Crew {
    /// Writers, readers, the caretaker.
    pub members: Vec<Member>,
    seed: u64,
}

impl Crew {
    /// Starts `writers` and `readers` and a caretaker.
    pub fn start(
        paths: Paths,
        writers: u32,
        readers: u32,
        seed: u64,
        report: &mut Report,
    ) -> Result<Crew> {
        let writers = (0..writers).map(|w| Role::Writer { first_lane: w * LANES_EACH });
        // One reader of two opens the hold for reading only: it has no slot at all.
        let readers = (0..readers).map(|r| Role::Reader { read_only: r % 2 == 0 });
        let roles: Vec<Role> = writers.chain(readers).chain([Role::Caretaker]).collect();
        if roles.len() as u64 > PLACES {
            return Err(RunError::new(format!("at most {PLACES} processes, one is the caretaker")));
        }
        let mut crew = Crew { members: Vec::new(), seed };
        for (place, role) in (0..).zip(roles) {
            let order = paths.order(role, place, crew.next_seed());
            let worker = start(&order, report)?;
            crew.members.push(Member { order, worker, seen: Default::default() });
        }
        Ok(crew)
    }

    /// Kills the process at `place` and starts another one there.
    pub fn replace(&mut self, place: usize, report: &mut Report) -> Result<()> {
        let seed = self.next_seed();
        let member = &mut self.members[place];
        member.end(true)?;
        report.kills += 1;
        member.order.seed = seed;
        member.worker = start(&member.order, report)?;
        member.seen = Default::default();
        Ok(())
    }

    /// An error if any process has ended by itself or makes no progress.
    pub fn look_after(&mut self, ledger: &Ledger) -> Result<()> {
        for member in &mut self.members {
            if member.worker.ended()?.is_some() {
                member.end(false)?;
                return Err(RunError::new(format!("{} ended early", member.worker.name)));
            }
            member.watch(ledger)?;
        }
        Ok(())
    }

    /// Waits until every process has finished normally.
    pub fn finish(&mut self) -> Result<()> {
        self.members.iter_mut().try_for_each(|member| member.end(false))
    }

    /// Kills all processes; returns their number.
    pub fn massacre(&mut self) -> Result<u64> {
        for member in &mut self.members {
            member.end(true)?;
        }
        Ok(self.members.len() as u64)
    }

    fn next_seed(&mut self) -> u64 {
        self.seed += 1;
        self.seed
    }
}

/// Where a run takes place.
#[derive(Clone, Copy)]
pub struct Paths<'a> {
    /// The hold.
    pub hold: &'a Path,
    /// The ledger.
    pub ledger: &'a Ledger,
    /// The folder for backups.
    pub folder: &'a Path,
    /// Whether calls fail, too.
    pub faults: bool,
}

impl Paths<'_> {
    fn order(&self, role: Role, place: u32, seed: u64) -> Order {
        Order {
            role,
            place,
            lanes: self.ledger.lanes(),
            seed,
            hold: self.hold.to_owned(),
            board: self.ledger.board().path().to_owned(),
            folder: self.folder.to_owned(),
            faults: self.faults,
            starter: std::process::id(),
        }
    }
}

impl Member {
    /// Whether it only reads.
    pub fn is_reader(&self) -> bool {
        matches!(self.order.role, Role::Reader { .. })
    }

    /// An error if it has written a line, which workers do only after an error.
    pub fn listen(&self) -> Result<()> {
        match self.worker.lines().try_recv() {
            Ok(words) => Err(RunError::new(format!("{}: {words}", self.worker.name))),
            Err(_) => Ok(()),
        }
    }

    /// Ends it, by SIGKILL if `kill`, and reads its last lines.
    fn end(&mut self, kill: bool) -> Result<()> {
        if kill {
            self.worker.kill()?;
        }
        match self.worker.lines().recv_timeout(PATIENCE) {
            Ok(words) => return Err(RunError::new(format!("{}: {words}", self.worker.name))),
            Err(RecvTimeoutError::Disconnected) => {}
            Err(RecvTimeoutError::Timeout) => return Err(self.hangs("does not finish")),
        }
        let status = self.worker.wait()?;
        if status.success() || (kill && was_killed(status)) {
            return Ok(());
        }
        Err(worker::ended(&format!("{} ended badly", self.worker.name), status))
    }

    fn watch(&mut self, ledger: &Ledger) -> Result<()> {
        let threads = if self.writes() { LANES_EACH } else { 1 };
        for thread in 0..threads {
            let done = ledger.progress(self.order.place, thread)?;
            let (seen, since_ns) = &mut self.seen[thread as usize];
            if done != *seen || *since_ns == 0 {
                (*seen, *since_ns) = (done, now_ns());
            } else if now_ns() - *since_ns > PATIENCE.as_nanos() as u64 {
                return Err(self.hangs("makes no progress"));
            }
        }
        Ok(())
    }

    fn writes(&self) -> bool {
        matches!(self.order.role, Role::Writer { .. })
    }

    fn hangs(&self, how: &str) -> RunError {
        let Worker { name, .. } = &self.worker;
        let seconds = PATIENCE.as_secs();
        RunError::new(format!("{name} (pid {}) {how} for {seconds} s", self.worker.pid()))
    }
}

fn start(order: &Order, report: &mut Report) -> Result<Worker> {
    let name = match order.role {
        Role::Writer { first_lane } => format!("writer {}", first_lane / LANES_EACH + 1),
        Role::Reader { read_only: true } => format!("read-only reader at place {}", order.place),
        Role::Reader { read_only: false } => format!("reader at place {}", order.place),
        Role::Caretaker => "caretaker".to_owned(),
    };
    let args = ["crashtest".to_owned(), "--worker".to_owned(), serde_json::to_string(order)?];
    report.processes += 1;
    Worker::start(&name, &args, &[])
}
