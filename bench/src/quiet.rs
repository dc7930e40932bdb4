//! How quiet the machine was, which a reader must know to judge the numbers.
//!
//! On a quiet machine, a message between two cores takes the same time in every round, and so does
//! a load that depends on the load before. Neighbours on the same host widen their spread, take
//! processor time away (steal), or both. Called between the rounds, when no other part of a run is
//! active.

use std::{
    hint,
    sync::atomic::{AtomicU64, Ordering},
    thread,
    time::{Duration, Instant},
};

use commonhold_lab::workload::{
    machine::{load, stolen_ticks},
    memory,
    results::median,
};
use serde::{Deserialize, Serialize};

/// How long to send messages to and fro.
const PING_TIME: Duration = Duration::from_millis(50);
/// Round trips between two readings of the clock.
const TRIPS: u64 = 256;
/// Looks before a thread yields the processor, which the other thread may need.
const LOOKS: u32 = 20_000;
const END: u64 = u64::MAX;

/// How quiet the machine was during a run.
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
pub struct Quiet {
    /// The load of the last minute before the run.
    pub load_before: f64,
    /// The load after the run, which includes the run itself.
    pub load_after: f64,
    /// The percentage of processor time that the hypervisor gave to others.
    pub steal_percent: f64,
    /// One way from core to core, in nanoseconds.
    pub ping_ns: Spread,
    /// One load that depends on the load before, at a random place, in nanoseconds.
    pub load_ns: Spread,
    /// The measurements between the rounds.
    pub samples: Vec<Sample>,
}

/// A measurement between two rounds.
#[derive(Clone, Copy, Debug, Serialize, Deserialize)]
pub struct Sample {
    /// One way from core to core, in nanoseconds.
    pub ping_ns: f64,
    /// One dependent load, in nanoseconds.
    pub load_ns: f64,
}

/// The values of all samples.
#[derive(Clone, Copy, Debug, Default, Serialize, Deserialize)]
pub struct Spread {
    /// The lowest.
    pub lowest: f64,
    /// The median.
    pub median: f64,
    /// The highest.
    pub highest: f64,
}

/// Watches a run.
pub struct Watch {
    quiet: Quiet,
    ticks_before: (u64, u64),
}

impl Watch {
    /// Begins, before the run.
    pub fn new() -> Watch {
        let quiet = Quiet { load_before: load(), ..Quiet::default() };
        Watch { quiet, ticks_before: stolen_ticks() }
    }

    /// Measures between two rounds; about a second.
    pub fn sample(&mut self) {
        let sample = Sample { ping_ns: ping_ns(), load_ns: memory::measure().random_load_ns };
        self.quiet.samples.push(sample);
    }

    /// Ends, after the run.
    pub fn end(mut self) -> Quiet {
        self.sample();
        let (before, after) = (self.ticks_before, stolen_ticks());
        let stolen = after.1.saturating_sub(before.1) as f64;
        let all = after.0.saturating_sub(before.0).max(1) as f64;
        let of = |value: fn(&Sample) -> f64| Spread::of(self.quiet.samples.iter().map(value));
        Quiet {
            load_after: load(),
            steal_percent: 100.0 * stolen / all,
            ping_ns: of(|sample| sample.ping_ns),
            load_ns: of(|sample| sample.load_ns),
            ..self.quiet
        }
    }
}

impl Default for Watch {
    fn default() -> Watch {
        Watch::new()
    }
}

impl Spread {
    fn of(values: impl Iterator<Item = f64>) -> Spread {
        let mut values: Vec<f64> = values.collect();
        let median = median(&mut values);
        let (first, last) = (values[0], values[values.len() - 1]);
        Spread { lowest: first, median, highest: last }
    }
}

impl Quiet {
    /// One line for people.
    pub fn line(&self) -> String {
        let spread =
            |of: Spread| format!("{:.0} ns ({:.0} to {:.0})", of.median, of.lowest, of.highest);
        format!(
            "load before {:.2}, after {:.2}; {:.2} % of processor time stolen; core to core {}; \
             dependent load {}",
            self.load_before,
            self.load_after,
            self.steal_percent,
            spread(self.ping_ns),
            spread(self.load_ns)
        )
    }
}

/// A number on cache lines of its own: processors fetch lines in pairs.
#[repr(align(128))]
#[derive(Default)]
struct Line(AtomicU64);

impl Line {
    fn wait_for(&self, wanted: u64) -> u64 {
        let mut looks = 0;
        loop {
            // Acquire: pairs with the other thread's store, as in any use of such a line.
            let found = self.0.load(Ordering::Acquire);
            if found == wanted || found == END {
                return found;
            }
            looks += 1;
            if looks % LOOKS == 0 {
                thread::yield_now();
            }
            hint::spin_loop();
        }
    }

    fn put(&self, value: u64) {
        // Release: pairs with the load in `wait_for`.
        self.0.store(value, Ordering::Release);
    }
}

/// One way from core to core in nanoseconds: half of a round trip of two threads over two lines.
fn ping_ns() -> f64 {
    let (there, back) = (Line::default(), Line::default());
    thread::scope(|scope| {
        scope.spawn(|| {
            let mut wanted = 1;
            while there.wait_for(wanted) != END {
                back.put(wanted);
                wanted += 1;
            }
        });
        let (begin, mut trips) = (Instant::now(), 0);
        while begin.elapsed() < PING_TIME {
            for _ in 0..TRIPS {
                trips += 1;
                there.put(trips);
                back.wait_for(trips);
            }
        }
        let passed = begin.elapsed();
        there.put(END);
        passed.as_nanos() as f64 / trips as f64 / 2.0
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_watch_ends_with_what_it_has_seen() {
        let mut watch = Watch::new();
        watch.sample();
        let quiet = watch.end();
        assert_eq!(quiet.samples.len(), 2);
        for spread in [quiet.ping_ns, quiet.load_ns] {
            assert!(0.0 < spread.lowest && spread.lowest <= spread.median);
            assert!(spread.median <= spread.highest);
        }
        assert!(quiet.line().contains("core to core"));
    }
}
