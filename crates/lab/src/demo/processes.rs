//! The processes of the show: starting them, reading their reports, sending them signals.
//!
//! Invariant: only the processes that the schedule names are suspended or killed; any other end is
//! an error, and is reported with the process's name.

use super::reader::PartReport;
use super::work::{DONE, Order, Role};
use crate::workload::{Result, RunError, board::Board, clock, latency::Latencies, worker::Worker};
use std::path::Path;
use std::time::Duration;

/// Processes that read.
pub const READERS: u32 = 2;
/// Processes that write.
pub const WRITERS: u32 = 3;

/// How long the processes may take to finish once the show is over.
const FINISH: Duration = Duration::from_secs(30);

/// The state of a process, as far as the show knows.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum State {
    /// Reads or writes.
    Working,
    /// Was suspended by SIGSTOP.
    Suspended,
    /// Was killed by SIGKILL.
    Killed,
    /// Has finished.
    Done,
}

/// One process of the show.
pub struct Member {
    /// The process.
    pub worker: Worker,
    /// Its role.
    pub role: Role,
    /// Its state.
    pub state: State,
    /// Operations done so far.
    pub done: u64,
    /// Operations per second, lately.
    pub rate: f64,
}

/// The reports of all readers together.
pub struct Seen {
    /// Read latencies of each part of the show.
    pub latencies: [Latencies; 3],
    /// Wrong values, by reader.
    pub wrong: [u64; READERS as usize],
    /// The first wrong value in words.
    pub first_wrong: Option<String>,
}

/// All processes of the show.
pub struct Processes {
    /// Readers first, then writers.
    pub members: Vec<Member>,
    /// The reports of the readers.
    pub seen: Seen,
    sampled_ns: u64,
}

impl Processes {
    /// Starts every process on `hold`.
    pub fn start(hold: &Path, board: &Board) -> Result<Processes> {
        let readers = (0..READERS).map(|i| (format!("reader {}", i + 1), Role::Reader));
        let writers =
            (0..WRITERS).map(|i| (format!("writer {}", i + 1), Role::Writer { share: i }));
        let mut members = Vec::new();
        for (place, (name, role)) in (0..).zip(readers.chain(writers)) {
            let order = Order {
                role,
                place,
                writers: WRITERS,
                hold: hold.to_owned(),
                board: board.path().to_owned(),
                starter: std::process::id(),
            };
            let args = ["demo".to_owned(), "--worker".to_owned(), serde_json::to_string(&order)?];
            let worker = Worker::start(&name, &args, &[])?;
            members.push(Member { worker, role, state: State::Working, done: 0, rate: 0.0 });
        }
        let latencies = std::array::from_fn(|_| Latencies::new());
        let seen = Seen { latencies, wrong: [0; READERS as usize], first_wrong: None };
        Ok(Processes { members, seen, sampled_ns: clock::now_ns() })
    }

    /// Writer `number`, from 1.
    pub fn writer(&mut self, number: u32) -> &mut Member {
        &mut self.members[(READERS + number - 1) as usize]
    }

    /// Takes in the reports and the progress of the processes since the last call.
    pub fn listen(&mut self, board: &Board) -> Result<()> {
        let now_ns = clock::now_ns();
        let seconds = (now_ns - self.sampled_ns).max(1) as f64 / 1e9;
        self.sampled_ns = now_ns;
        let done = board.get_row(DONE, self.members.len() as u64)?;
        for (place, (member, done)) in self.members.iter_mut().zip(done).enumerate() {
            member.rate = (done - member.done) as f64 / seconds;
            member.done = done;
            while let Ok(line) = member.worker.lines().try_recv() {
                self.seen.add(place, &member.worker.name, &line)?;
            }
            member.notice_end()?;
        }
        Ok(())
    }

    /// Waits until every living process has finished. The board must show the end of the show.
    pub fn finish(&mut self) -> Result<()> {
        let deadline_ns = clock::now_ns() + FINISH.as_nanos() as u64;
        for (place, member) in self.members.iter_mut().enumerate() {
            if member.state == State::Killed {
                continue;
            }
            loop {
                let left = Duration::from_nanos(deadline_ns.saturating_sub(clock::now_ns()));
                match member.worker.lines().recv_timeout(left) {
                    Ok(line) => self.seen.add(place, &member.worker.name, &line)?,
                    Err(std::sync::mpsc::RecvTimeoutError::Disconnected) => break,
                    Err(_) => return Err(hangs(&member.worker)),
                }
            }
            member.finished()?;
        }
        Ok(())
    }
}

impl Member {
    /// Suspends it.
    pub fn suspend(&mut self) -> Result<()> {
        if !self.worker.stop()? {
            return self.finished();
        }
        self.state = State::Suspended;
        Ok(())
    }

    /// Lets it continue.
    pub fn go_on(&mut self) -> Result<()> {
        self.state = State::Working;
        self.worker.go_on()
    }

    /// Kills it.
    pub fn kill(&mut self) -> Result<()> {
        self.state = State::Killed;
        self.worker.kill().map(drop)
    }

    fn notice_end(&mut self) -> Result<()> {
        if self.state == State::Working && self.worker.ended()?.is_some() {
            return self.finished();
        }
        Ok(())
    }

    fn finished(&mut self) -> Result<()> {
        let status = self.worker.wait()?;
        self.state = State::Done;
        if status.success() {
            return Ok(());
        }
        Err(RunError::new(format!(
            "{} ended in the middle of the demo: {status}",
            self.worker.name
        )))
    }
}

impl Seen {
    fn add(&mut self, place: usize, name: &str, line: &str) -> Result<()> {
        let report: PartReport = serde_json::from_str(line)?;
        if let Some(latencies) = self.latencies.get_mut(report.part as usize) {
            latencies.add(&report.latencies);
        }
        self.wrong[place] = report.wrong;
        if let Some(wrong) = report.first_wrong {
            self.first_wrong.get_or_insert(format!("{name}: {wrong}"));
        }
        Ok(())
    }
}

fn hangs(worker: &Worker) -> RunError {
    RunError::new(format!(
        "{} (pid {}) has not finished {} s after the end of the demo: it hangs",
        worker.name,
        worker.pid(),
        FINISH.as_secs()
    ))
}
