//! The sending process.
//!
//! At a rate, latency counts from the instant at which a message was due ([`Pace`]); as fast as
//! possible, from the instant before it is sent, including the wait for room. The last message is
//! marked as the last.

use super::super::{
    crew,
    pace::{GRACE_NS, Pace, Waiting},
    timeline::Span,
};
use super::CHANNEL;
use crate::workload::{
    Result,
    clock::now_ns,
    message::{LAST, Message},
};
use commonhold::Hold;
use commonhold::channel::Producer;
use serde::{Deserialize, Serialize};
use std::path::PathBuf;

/// As fast as possible, the number of messages between two checks of the clock for the end.
const LOOK_EVERY: u64 = 64;

/// The orders of the producer.
#[derive(Serialize, Deserialize)]
pub struct Job {
    /// The shared hold.
    pub hold: PathBuf,
    /// Bytes of a message.
    pub message_bytes: usize,
    /// Messages per second, 0 for as many as possible.
    pub rate: u64,
    /// The number of messages of which one is timed.
    pub sample: u64,
    /// How it waits.
    pub waiting: Waiting,
    /// When to send.
    pub span: Span,
}

/// The report of the producer.
#[derive(Serialize, Deserialize)]
pub struct Sent {
    /// Messages, the warm-up's and the last one included.
    pub messages: u64,
    /// Messages that were due but not sent, because the producer was more than a second behind.
    pub unsent: u64,
}

struct Sender {
    producer: Producer,
    job: Job,
    bytes: Vec<u8>,
    number: u64,
}

/// Runs the producer.
pub fn run(job: Job) -> Result<()> {
    let mut sender = Sender::new(job)?;
    crew::perform(|start_ns| sender.perform(start_ns))
}

impl Sender {
    fn new(job: Job) -> Result<Sender> {
        let mut producer = Hold::open(&job.hold)?.channels().open(CHANNEL)?.producer()?;
        producer.set_wait(job.waiting.wait());
        Ok(Sender { producer, bytes: vec![0; job.message_bytes], job, number: 0 })
    }

    fn perform(&mut self, start_ns: u64) -> Result<Sent> {
        let end_ns = self.job.span.end_ns(start_ns);
        let unsent = match Pace::new(start_ns, self.job.rate) {
            Some(pace) => self.at_rate(pace, end_ns)?,
            None => self.flat_out(end_ns).map(|()| 0)?,
        };
        self.send(LAST)?;
        Ok(Sent { messages: self.number, unsent })
    }

    /// The number of messages that were due and could not be sent in time.
    fn at_rate(&mut self, pace: Pace, end_ns: u64) -> Result<u64> {
        let turns = pace.turns_until(end_ns);
        for turn in 0..turns {
            let due_ns = pace.due(turn);
            self.job.waiting.until(due_ns);
            if now_ns() >= end_ns + GRACE_NS {
                return Ok(turns - turn);
            }
            let is_timed = turn.is_multiple_of(self.job.sample);
            self.send(if is_timed { due_ns } else { 0 })?;
        }
        Ok(0)
    }

    fn flat_out(&mut self, end_ns: u64) -> Result<()> {
        let sample = self.job.sample;
        let look_every = LOOK_EVERY.min(sample);
        loop {
            if self.number.is_multiple_of(look_every) && now_ns() >= end_ns {
                return Ok(());
            }
            let is_timed = self.number.is_multiple_of(sample);
            self.send(if is_timed { now_ns() } else { 0 })?;
        }
    }

    #[inline]
    fn send(&mut self, due_ns: u64) -> Result<()> {
        Message { number: self.number, due_ns }.write(&mut self.bytes);
        self.producer.send(&self.bytes)?;
        self.number += 1;
        Ok(())
    }
}
