//! A process that writes lines.
//!
//! Some lines are timed one by one, with two readings of the clock around one write. At a rate,
//! lines are written when they are due ([`Pace`]); only the write itself is timed, because a writer
//! waits for no other process.

use super::super::{
    crew,
    pace::{Pace, Waiting},
};
use super::LOG;
use super::line::{Line, Tally};
use crate::workload::{
    Result,
    clock::now_ns,
    latency::{Latencies, Packed},
};
use commonhold::Hold;
use commonhold::log::{Log, LogLevel, Written};
use serde::{Deserialize, Serialize};
use std::path::PathBuf;

/// As fast as possible, the number of lines between two checks of the clock for the end.
const LOOK_EVERY: u64 = 32;

/// The reaction of a writer to a full ring.
#[derive(clap::ValueEnum, Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum Full {
    /// Continue with the next line; the log counts dropped lines
    Drop,
    /// Retry until there is room
    Wait,
}

/// The orders of a writer.
#[derive(Serialize, Deserialize)]
pub struct Job {
    /// The shared hold.
    pub hold: PathBuf,
    /// Its number.
    pub writer: u32,
    /// Bytes of a line.
    pub line_bytes: usize,
    /// Lines per second, 0 for as many as possible.
    pub rate: u64,
    /// The reaction to a full ring.
    pub full: Full,
    /// The number of lines of which one is timed.
    pub sample: u64,
    /// How it waits until a line is due.
    pub waiting: Waiting,
    /// How long it writes.
    pub measured_ns: u64,
}

/// The report of a writer.
#[derive(Serialize, Deserialize)]
pub struct Wrote {
    /// The lines that were accepted.
    pub tally: Tally,
    /// Lines that were dropped.
    pub dropped: u64,
    /// How often the log refused a line; more than were dropped, if the writer retried.
    pub refusals: u64,
    /// Times of single writes that were accepted at once.
    pub latencies: Packed,
    /// When it was done.
    pub end_ns: u64,
}

struct Writer {
    log: Log,
    job: Job,
    line: Line,
    latencies: Latencies,
    tally: Tally,
    dropped: u64,
    refusals: u64,
}

/// Runs a writer.
pub fn run(job: Job) -> Result<()> {
    let log = Hold::open(&job.hold)?.logs().open(LOG)?;
    log.prepare()?;
    let line = Line::new(job.writer, job.line_bytes);
    let latencies = Latencies::ready();
    let tally = Tally::default();
    let mut writer = Writer { log, job, line, latencies, tally, dropped: 0, refusals: 0 };
    crew::perform(|start_ns| writer.perform(start_ns))
}

impl Writer {
    fn perform(&mut self, start_ns: u64) -> Result<Wrote> {
        let end_ns = start_ns + self.job.measured_ns;
        match Pace::new(start_ns, self.job.rate) {
            Some(pace) => self.at_rate(pace, end_ns)?,
            None => self.flat_out(end_ns)?,
        }
        Ok(Wrote {
            tally: self.tally,
            dropped: self.dropped,
            refusals: self.refusals,
            latencies: self.latencies.pack(),
            end_ns: now_ns(),
        })
    }

    fn at_rate(&mut self, pace: Pace, end_ns: u64) -> Result<()> {
        for number in 0..pace.turns_until(end_ns) {
            self.job.waiting.until(pace.due(number));
            if now_ns() >= end_ns {
                break;
            }
            self.write(number)?;
        }
        Ok(())
    }

    fn flat_out(&mut self, end_ns: u64) -> Result<()> {
        let mut number = 0;
        while now_ns() < end_ns {
            for _ in 0..LOOK_EVERY {
                self.write(number)?;
                number += 1;
            }
        }
        Ok(())
    }

    #[inline]
    fn write(&mut self, number: u64) -> Result<()> {
        self.line.number(number);
        let mut written = match number.is_multiple_of(self.job.sample) {
            true => self.timed()?,
            false => self.put()?,
        };
        while written != Written::Accepted {
            self.refusals += 1;
            if self.job.full == Full::Drop {
                self.dropped += 1;
                return Ok(());
            }
            std::thread::yield_now();
            written = self.put()?;
        }
        self.tally.count(number);
        Ok(())
    }

    #[inline]
    fn put(&mut self) -> Result<Written> {
        Ok(self.log.write(LogLevel::Info, self.line.bytes())?)
    }

    fn timed(&mut self) -> Result<Written> {
        let begin_ns = now_ns();
        let written = self.put()?;
        let end_ns = now_ns();
        if written == Written::Accepted {
            self.latencies.record(end_ns - begin_ns);
        }
        Ok(written)
    }
}
