//! The workloads, one file each, and the list of them.
//!
//! A workload knows its phases and the steps of each; [`driver`] carries the steps to a store. The
//! worker calls them, the rounds ask them how they want to be run.

use anyhow::{Result, bail};

use crate::store::Shape;
use driver::Driver;

mod decimal_loop;
pub mod driver;
mod map;
mod private;

/// One workload.
pub trait Workload: Sync {
    /// Its name on the command line and, with the phase's behind it, in the JSON.
    fn name(&self) -> &'static str;

    /// Its phases in order. All workers start a phase together.
    fn phases(&self) -> &'static [&'static str];

    /// What this workload makes of what was asked on the command line.
    fn shape(&self, asked: Shape) -> Shape;

    /// After which phase the store holds every pair, so that memory per pair means something.
    fn full_after(&self) -> Option<&'static str>;

    /// Operations for which the time is reported as well, where a reader expects a time.
    fn timed_operations(&self) -> Option<u64> {
        None
    }

    /// Does the operations of one worker in one phase.
    fn run(&self, phase: &str, worker: u64, shape: &Shape, driver: &mut Driver<'_>) -> Result<()>;
}

static ALL: [&dyn Workload; 3] = [&map::Map, &decimal_loop::DecimalLoop, &private::Private];

/// The names of all of them.
pub fn names() -> Vec<&'static str> {
    ALL.iter().map(|workload| workload.name()).collect()
}

/// The one of that name.
///
/// # Errors
/// If there is none; the message lists those that there are.
pub fn named(name: &str) -> Result<&'static dyn Workload> {
    match ALL.iter().find(|workload| workload.name() == name) {
        Some(workload) => Ok(*workload),
        None => bail!("no workload is named {name:?}; there are {}", names().join(", ")),
    }
}

/// A stream of numbers that is the same in every run: xorshift64*, Vigna 2016.
struct Numbers(u64);

impl Numbers {
    /// A stream of its own for each worker.
    fn new(worker: u64) -> Numbers {
        Numbers((worker + 1).wrapping_mul(0x9e37_79b9_7f4a_7c15) | 1)
    }

    /// The next one below `limit`, by multiplication instead of a slow division.
    fn below(&mut self, limit: u64) -> u64 {
        self.0 ^= self.0 >> 12;
        self.0 ^= self.0 << 25;
        self.0 ^= self.0 >> 27;
        let number = self.0.wrapping_mul(0x2545_f491_4f6c_dd1d);
        ((u128::from(number) * u128::from(limit)) >> 64) as u64
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_reach_the_whole_range_and_stay_below_it() {
        let mut numbers = Numbers::new(3);
        let mut seen = [false; 10];
        for _ in 0..1000 {
            seen[numbers.below(10) as usize] = true;
        }
        assert_eq!(seen, [true; 10]);
    }
}
