//! Messages of 32 bytes from one worker to the other, and round trips.
//!
//! stream: worker 0 sends as fast as it can, one message at a time; worker 1 takes as many as have
//! arrived. ping: worker 0 sends one and waits for the answer, which is the next message in the
//! other direction; one round trip is one operation, timed from the end of the one before.

use std::time::Instant;

use anyhow::{Result, bail};

use super::{OfMessages, Quantile, Workload, message::untimed as message, tally::Tally};
use crate::{messages::Port, rival::Shape};

/// The most messages that a receiver takes at a time.
const MOST: usize = 1000;

/// See the module.
pub struct Channel;

impl Workload for Channel {
    fn name(&self) -> &'static str {
        "channel"
    }

    fn phases(&self) -> &'static [&'static str] {
        &["stream", "ping"]
    }

    fn shape(&self, asked: Shape) -> Shape {
        Shape { workers: 2, keys: asked.workers * asked.keys, ..asked }
    }

    fn counts(&self) -> &'static str {
        "messages"
    }

    fn rate(&self, phase: &str) -> Option<&'static str> {
        Some(if phase == "ping" { "round_trips_per_s" } else { "messages_per_s" })
    }

    fn quantiles(&self, _phase: &str) -> &'static [Quantile] {
        &[
            Quantile { metric: "round_trip_ns_p50", quantile: 0.5, per: 1 },
            Quantile { metric: "round_trip_ns_p99", quantile: 0.99, per: 1 },
        ]
    }
}

impl OfMessages for Channel {
    fn run(
        &self,
        phase: &str,
        worker: u64,
        shape: &Shape,
        port: &mut dyn Port,
        tally: &mut Tally,
    ) -> Result<()> {
        match (phase, worker) {
            ("stream", 0) => send_all(shape.keys, port, tally),
            ("stream", _) => receive_all(shape.keys, port, tally),
            ("ping", 0) => ask(shape.keys, port, tally),
            ("ping", _) => answer(shape.keys, port, tally),
            _ => bail!("the workload channel has no phase {phase:?}"),
        }
    }
}

/// Sends messages with ascending numbers. The sender counts them, because there may be several
/// receivers.
pub fn send_all(count: u64, port: &mut dyn Port, tally: &mut Tally) -> Result<()> {
    for number in 0..count {
        port.send(&message(number))?;
    }
    tally.operations = count;
    port.flush()
}

/// Receives the messages that [`send_all`] sends.
pub fn receive_all(count: u64, port: &mut dyn Port, tally: &mut Tally) -> Result<()> {
    let mut next = 0;
    while next < count {
        let most = usize::try_from(count - next)?.min(MOST);
        port.receive(most, &mut |bytes| {
            tally.check(bytes, &message(next));
            next += 1;
        })?;
    }
    Ok(())
}

fn ask(count: u64, port: &mut dyn Port, tally: &mut Tally) -> Result<()> {
    // The end of one round trip is the start of the next: one clock reading for each.
    let mut before = Instant::now();
    for number in 0..count {
        port.send(&message(number))?;
        receive_one(port, tally, !number)?;
        let after = Instant::now();
        tally.record((after - before).as_nanos() as u64);
        before = after;
    }
    tally.operations = count;
    port.flush()
}

fn answer(count: u64, port: &mut dyn Port, tally: &mut Tally) -> Result<()> {
    for number in 0..count {
        receive_one(port, tally, number)?;
        port.send(&message(!number))?;
    }
    port.flush()
}

fn receive_one(port: &mut dyn Port, tally: &mut Tally, number: u64) -> Result<()> {
    port.receive(1, &mut |bytes| tally.check(bytes, &message(number)))?;
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Delivers prepared messages.
    struct Script(std::array::IntoIter<u64, 4>);

    impl Port for Script {
        fn receive(&mut self, most: usize, each: crate::messages::Each<'_>) -> Result<usize> {
            let numbers: Vec<u64> = self.0.by_ref().take(most).collect();
            numbers.iter().for_each(|number| each(&message(*number)));
            Ok(numbers.len())
        }
    }

    #[test]
    fn lost_and_unordered_messages_count_as_wrong() {
        for (numbers, wrong) in [([0, 1, 2, 3], 0), ([0, 2, 1, 3], 2), ([0, 1, 1, 2], 2)] {
            let mut tally = Tally::new(false);
            let mut port = Script(numbers.into_iter());
            receive_all(4, &mut port, &mut tally).unwrap();
            assert_eq!(tally.wrong, wrong, "{numbers:?}");
        }
    }
}
