//! A receiving process: it verifies every message, and reports when it came and how late.
//!
//! It reads the clock only for timed messages; the messages since the last timed one count for the
//! same interval.

use super::super::{
    crew,
    pace::Waiting,
    timeline::{Interval, PackedTimeline, Span, Timeline},
};
use super::CHANNEL;
use crate::workload::{
    Result, RunError,
    clock::now_ns,
    message::{LAST, Message},
};
use commonhold::channel::{Consumer, Join, Policy, Received};
use commonhold::{ErrorKind, Hold};
use serde::{Deserialize, Serialize};
use std::path::PathBuf;
use std::time::Duration;

/// The policy of a consumer, as the command names it.
#[derive(clap::ValueEnum, Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum Manner {
    /// The producer waits indefinitely; no message is lost
    Lossless,
    /// The producer does not wait; missed messages are counted
    Lossy,
    /// The producer waits for the time set by --patience, then drops the consumer, which joins again
    Patient,
}

impl Manner {
    /// Its name in options and reports.
    pub fn name(self) -> &'static str {
        match self {
            Manner::Lossless => "lossless",
            Manner::Lossy => "lossy",
            Manner::Patient => "patient",
        }
    }

    fn policy(self, patience: Duration) -> Policy {
        match self {
            Manner::Lossless => Policy::Lossless,
            Manner::Lossy => Policy::Lossy,
            Manner::Patient => Policy::Patient(patience),
        }
    }
}

/// The orders of a consumer.
#[derive(Serialize, Deserialize)]
pub struct Job {
    /// The shared hold.
    pub hold: PathBuf,
    /// Bytes of a message.
    pub message_bytes: usize,
    /// The policy.
    pub manner: Manner,
    /// How long the producer waits for a patient consumer.
    pub patience: Duration,
    /// How it waits.
    pub waiting: Waiting,
    /// The measurement.
    pub span: Span,
}

/// The report of a consumer.
#[derive(Serialize, Deserialize)]
pub struct Taken {
    /// Messages, the warm-up's and the last one included.
    pub received: u64,
    /// Messages that it has missed, by its own count.
    pub missed: u64,
    /// How often it was dropped and joined again.
    pub dropped: u64,
    /// The messages over time.
    pub timeline: PackedTimeline,
}

struct Receiver {
    consumer: Consumer,
    manner: Manner,
    message_bytes: usize,
    start_ns: u64,
    timeline: Timeline,
    received: u64,
    missed: u64,
    dropped: u64,
    /// Received and missed when the clock was last read.
    reported: (u64, u64),
}

/// Runs a consumer.
pub fn run(job: Job) -> Result<()> {
    let mut receiver = Receiver::new(job)?;
    crew::perform(|start_ns| receiver.perform(start_ns))
}

impl Receiver {
    fn new(job: Job) -> Result<Receiver> {
        let channel = Hold::open(&job.hold)?.channels().open(CHANNEL)?;
        let mut consumer = channel.consumer(Join::Now, job.manner.policy(job.patience))?;
        consumer.set_wait(job.waiting.wait());
        Ok(Receiver {
            consumer,
            manner: job.manner,
            message_bytes: job.message_bytes,
            start_ns: 0,
            timeline: Timeline::new(job.span),
            received: 0,
            missed: 0,
            dropped: 0,
            reported: (0, 0),
        })
    }

    fn perform(&mut self, start_ns: u64) -> Result<Taken> {
        self.start_ns = start_ns;
        let mut bytes = Vec::with_capacity(self.message_bytes);
        loop {
            let Some(received) = self.receive(&mut bytes)? else { continue };
            let message = self.verify(received, &bytes)?;
            if message.due_ns == LAST {
                break;
            }
            if message.due_ns != 0 {
                let now_ns = now_ns();
                if let Some(interval) = self.tell(now_ns) {
                    interval.latencies.record(now_ns.saturating_sub(message.due_ns));
                }
            }
        }
        self.tell(now_ns());
        let Receiver { received, missed, dropped, .. } = *self;
        Ok(Taken { received, missed, dropped, timeline: self.timeline.pack() })
    }

    /// The next message; `None` if the consumer was dropped and has joined again.
    #[inline]
    fn receive(&mut self, bytes: &mut Vec<u8>) -> Result<Option<Received>> {
        match self.consumer.recv(bytes) {
            Ok(received) => Ok(Some(received)),
            Err(e) if e.kind() == ErrorKind::Closed && self.manner == Manner::Patient => {
                self.consumer.rejoin(Join::Oldest)?;
                self.dropped += 1;
                Ok(None)
            }
            Err(error) => Err(error.into()),
        }
    }

    /// Checks that this is the next message, intact, and that the gap before it is the one that the
    /// library reports.
    #[inline]
    fn verify(&mut self, received: Received, bytes: &[u8]) -> Result<Message> {
        let expected = self.received + self.missed;
        let message = Message::read(bytes, self.message_bytes, received.sequence);
        let gap = received.sequence.checked_sub(expected);
        let is_allowed = match self.manner {
            Manner::Lossless => gap == Some(0),
            Manner::Lossy => gap == Some(received.missed),
            Manner::Patient => gap == Some(0) || self.dropped > 0,
        };
        let (Some(message), Some(gap), true) = (message, gap, is_allowed) else {
            return Err(RunError::new(format!(
                "message {expected} is missing, duplicated or corrupt (got message {} of {} bytes, \
                 {} missed before it): this is a bug; please report it",
                received.sequence,
                bytes.len(),
                received.missed
            )));
        };
        self.missed += gap;
        self.received += 1;
        Ok(message)
    }

    /// Counts the messages since the last call for the interval of `now_ns`; none during the
    /// warm-up.
    #[inline]
    fn tell(&mut self, now_ns: u64) -> Option<&mut Interval> {
        let (received, missed) = (self.received - self.reported.0, self.missed - self.reported.1);
        self.reported = (self.received, self.missed);
        let interval = self.timeline.at(self.start_ns, now_ns)?;
        interval.count += received;
        interval.missed += missed;
        Some(interval)
    }
}
