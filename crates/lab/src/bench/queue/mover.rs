//! A process that moves elements from one queue to another, as fast as it can.

use super::super::{crew, pace::Waiting};
use super::{A2B, B2A, QUEUE};
use crate::workload::{Result, clock::now_ns};
use commonhold::Hold;
use commonhold::queue::{Batch, Bytes, NamedQueue, Queue};
use serde::{Deserialize, Serialize};
use std::path::PathBuf;
use std::time::Duration;

/// The number of single moves between two readings of the clock.
const LOOK_EVERY: usize = 64;
/// The longest wait for elements, so that the end is noticed, too.
const NAP: Duration = Duration::from_millis(5);

/// The orders of a process.
#[derive(Serialize, Deserialize)]
pub struct Job {
    /// The shared hold.
    pub hold: PathBuf,
    /// It pulls from `a2b`.
    pub turns_round: bool,
    /// When there is no more to pull, it moves elements the other way.
    pub alone: bool,
    /// Elements of one move.
    pub batch: usize,
    /// Elements are read and written.
    pub touch: bool,
    /// How it waits.
    pub waiting: Waiting,
    /// How long.
    pub measured_ns: u64,
}

/// The report of a process.
#[derive(Serialize, Deserialize)]
pub struct Moved {
    /// Elements pulled and pushed.
    pub elements: u64,
    /// When it was done.
    pub end_ns: u64,
}

/// Runs one of the processes.
pub fn run(order: &str) -> Result<()> {
    let job: Job = crew::job(order)?;
    let queue = Hold::open(&job.hold)?.queues().open(QUEUE)?;
    crew::perform(|start_ns| {
        let mut mover = Mover::new(&job, &queue)?;
        let end_ns = start_ns + job.measured_ns;
        let mut elements = 0;
        loop {
            elements += mover.turn()?;
            let now_ns = now_ns();
            if now_ns >= end_ns {
                return Ok(Moved { elements, end_ns: now_ns });
            }
        }
    })
}

struct Mover<'q> {
    job: &'q Job,
    from: NamedQueue<'q>,
    to: NamedQueue<'q>,
    batch: Batch<'q>,
}

impl<'q> Mover<'q> {
    fn new(job: &'q Job, queue: &'q Queue) -> Result<Mover<'q>> {
        let [from, to] = if job.turns_round { [A2B, B2A] } else { [B2A, A2B] };
        Ok(Mover { job, from: queue.named(from)?, to: queue.named(to)?, batch: queue.batch() })
    }

    /// Moves some elements; returns their number.
    fn turn(&mut self) -> Result<u64> {
        let moved = match self.job.batch {
            1 => self.one_by_one()?,
            batch => self.at_once(batch)?,
        };
        if moved > 0 {
            return Ok(moved);
        }
        match (self.job.alone, self.job.waiting) {
            (true, _) => std::mem::swap(&mut self.from, &mut self.to),
            (false, Waiting::Spin) => std::hint::spin_loop(),
            (false, Waiting::Sleep) => return self.woken(),
        }
        Ok(0)
    }

    fn at_once(&mut self, most: usize) -> Result<u64> {
        let count = self.from.pull_into(&mut self.batch, most)?;
        self.push(count)
    }

    /// Sleeps until there is something.
    fn woken(&mut self) -> Result<u64> {
        let count = self.from.pull_into_timeout(&mut self.batch, self.job.batch, NAP)?;
        self.push(count)
    }

    fn push(&mut self, count: usize) -> Result<u64> {
        if count > 0 {
            if self.job.touch {
                self.batch.iter().try_for_each(|element| touch(&element))?;
            }
            self.to.push_many(&mut self.batch)?;
        }
        Ok(count as u64)
    }

    fn one_by_one(&mut self) -> Result<u64> {
        for moved in 0..LOOK_EVERY {
            let Some(element) = self.from.pull()? else { return Ok(moved as u64) };
            if self.job.touch {
                touch(&element)?;
            }
            self.to.push(element)?;
        }
        Ok(LOOK_EVERY as u64)
    }
}

/// Counts one move in the element itself.
fn touch(element: &Bytes<'_>) -> Result<()> {
    let mut word = [0; 8];
    element.read(0, &mut word)?;
    let count = u64::from_le_bytes(word) + 1;
    Ok(element.write(0, &count.to_le_bytes())?)
}
