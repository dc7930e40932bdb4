//! Sixteen values of 8 bytes, one writer, and a reader of the newest values.
//!
//! write: worker 0 replaces them in turn, and no worker reads. read: worker 1 reads them in turn,
//! and no worker writes. both: worker 0 writes as fast as it can, and worker 1 reads until it has
//! seen the last value; only its reads count.
//!
//! A value is the number of its write. So in `read`, the reader knows which value to expect. In
//! `both`, it detects a value of another place, and a value that is older than the one before.

use std::thread;

use anyhow::{Result, bail};

use super::{OfMessages, Workload, tally::Tally};
use crate::{messages::Port, rival::Shape};

/// The number of values.
pub const PLACES: usize = 16;
/// Turns without a new value before the reader yields the processor, which the writer may need.
const TURNS: u32 = 1000;

/// See the module.
pub struct Newest;

/// One worker's access to the values. The loops below are compiled for each system, because an
/// operation takes a few nanoseconds, and a call through a trait object would take most of them.
pub trait Values: Send {
    /// Replaces the value at a place.
    fn write(&mut self, place: usize, value: u64) -> Result<()>;

    /// The newest value at a place.
    fn read(&mut self, place: usize) -> Result<u64>;

    /// Closes everything cleanly.
    fn finish(&mut self) -> Result<()> {
        Ok(())
    }
}

/// A port to values.
pub struct Few<V>(pub V);

impl<V: Values> Port for Few<V> {
    fn newest(&mut self, phase: &str, writes: bool, count: u64, tally: &mut Tally) -> Result<()> {
        match (phase, writes) {
            ("write", true) => write(&mut self.0, 0..count, tally),
            ("read", false) => read(&mut self.0, count, tally),
            // The other worker is idle in this phase.
            ("write" | "read", _) => Ok(()),
            ("both", true) => {
                write(&mut self.0, count..2 * count, tally)?;
                tally.operations = 0;
                Ok(())
            }
            ("both", false) => follow(&mut self.0, count, tally),
            _ => bail!("the workload newest has no phase {phase:?}"),
        }
    }

    fn finish(&mut self) -> Result<()> {
        self.0.finish()
    }
}

fn write<V: Values>(
    values: &mut V,
    numbers: std::ops::Range<u64>,
    tally: &mut Tally,
) -> Result<()> {
    tally.operations = numbers.end - numbers.start;
    for number in numbers {
        values.write(number as usize % PLACES, number)?;
    }
    Ok(())
}

fn read<V: Values>(values: &mut V, count: u64, tally: &mut Tally) -> Result<()> {
    let expected: [u64; PLACES] = std::array::from_fn(|place| last(place, count));
    for number in 0..count {
        let place = number as usize % PLACES;
        tally.wrong += u64::from(values.read(place)? != expected[place]);
    }
    tally.operations = count;
    Ok(())
}

fn follow<V: Values>(values: &mut V, count: u64, tally: &mut Tally) -> Result<()> {
    let mut newest: [u64; PLACES] = std::array::from_fn(|place| last(place, count));
    let mut same = 0;
    loop {
        let before = newest;
        for (place, newest) in newest.iter_mut().enumerate() {
            let value = values.read(place)?;
            tally.wrong += u64::from(value < *newest || value as usize % PLACES != place);
            *newest = value;
        }
        tally.operations += PLACES as u64;
        if newest.contains(&(2 * count - 1)) {
            return Ok(());
        }
        same = if newest == before { same + 1 } else { 0 };
        if same == TURNS {
            thread::yield_now();
            same = 0;
        }
    }
}

/// The last number below `count` that is written at a place; 0 if there is none.
fn last(place: usize, count: u64) -> u64 {
    (0..count).rev().take(PLACES).find(|number| *number as usize % PLACES == place).unwrap_or(0)
}

impl Workload for Newest {
    fn name(&self) -> &'static str {
        "newest"
    }

    fn phases(&self) -> &'static [&'static str] {
        &["write", "read", "both"]
    }

    fn shape(&self, asked: Shape) -> Shape {
        let keys = (asked.workers * asked.keys).max(PLACES as u64);
        Shape { workers: 2, keys, ..asked }
    }

    fn counts(&self) -> &'static str {
        "writes"
    }
}

impl OfMessages for Newest {
    fn run(
        &self,
        phase: &str,
        worker: u64,
        shape: &Shape,
        port: &mut dyn Port,
        tally: &mut Tally,
    ) -> Result<()> {
        port.newest(phase, worker == 0, shape.keys, tally)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Keeps these values, whatever is written.
    struct Stuck([u64; PLACES]);

    impl Values for Stuck {
        fn write(&mut self, _place: usize, _value: u64) -> Result<()> {
            Ok(())
        }
        fn read(&mut self, place: usize) -> Result<u64> {
            Ok(self.0[place])
        }
    }

    fn wrong(phase: &str, values: [u64; PLACES]) -> u64 {
        let mut tally = Tally::new(false);
        Few(Stuck(values)).newest(phase, false, 64, &mut tally).unwrap();
        tally.wrong
    }

    #[test]
    fn values_of_another_place_and_old_ones_are_wrong() {
        let first: [u64; PLACES] = std::array::from_fn(|place| 48 + place as u64);
        let second = first.map(|value| value + 64);
        assert_eq!(wrong("read", first), 0);
        assert_eq!(wrong("read", second), 64);
        assert_eq!(wrong("both", second), 0);
        let mut strange = second;
        strange.swap(0, 1);
        assert_eq!(wrong("both", strange), 2);
        let mut old = second;
        old[3] = 35;
        assert_eq!(wrong("both", old), 1);
    }
}
