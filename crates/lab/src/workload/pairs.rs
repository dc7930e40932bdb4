//! The workloads over keys and values: what one worker does in each of their phases.
//!
//! | function | workload |
//! |---|---|
//! | [`map`] | SharedHashFile's own benchmark: each worker on its own ascending range |
//! | [`decimal_loop`] | Localmemcache's own: set and get of decimal keys drawn at random |
//! | [`load`], [`copy`], [`own`] | one process: random gets, copied or as fresh vectors |

use super::driver::{Driver, Step};
use super::form::Form;
use super::random::Permutation;
use super::store::Store;
use std::ops::Range;

/// In the mix, one of this number of keys is deleted and set again: 2 of 100.
const MIX_EVERY: usize = 50;

/// A phase of the workload over a map: operations that are measured together.
#[derive(clap::ValueEnum, Clone, Copy, Debug, PartialEq, Eq)]
#[value(rename_all = "snake_case")]
pub enum Phase {
    /// Set new keys
    Put,
    /// Set the same keys again
    Upd,
    /// 98% get, 2% delete and set
    Mix,
    /// Get each key
    Get,
    /// Get many keys at a time
    GetMany,
    /// Set new keys in a fresh hold, timing each set
    PutLatency,
}

impl Phase {
    const ALL: [(Phase, &'static str); 6] = [
        (Phase::Put, "put"),
        (Phase::Upd, "upd"),
        (Phase::Mix, "mix"),
        (Phase::Get, "get"),
        (Phase::GetMany, "get_many"),
        (Phase::PutLatency, "put_latency"),
    ];

    /// Its name in options and results.
    pub fn name(self) -> &'static str {
        Phase::ALL[self as usize].1
    }

    /// The phase of that name.
    pub fn named(name: &str) -> Option<Phase> {
        Phase::ALL.into_iter().find(|(_, n)| *n == name).map(|(phase, _)| phase)
    }
}

/// The order in which a worker goes through its keys after they were put, ascending.
#[derive(Clone, Debug)]
pub enum Order {
    /// Its own range, ascending.
    Own,
    /// Its own range, each key once, shuffled.
    Shuffled,
    /// While it only reads: keys of all workers, from 0 up to this one, drawn at random.
    Drawn(u64, Numbers),
}

/// One worker's part of the workload over a map.
#[derive(Clone, Debug)]
pub struct Part {
    /// Its keys.
    pub keys: Range<u64>,
    /// Their order.
    pub order: Order,
    /// Whether `upd` has run, which gives every key another value: so a lost update shows.
    pub updated: bool,
}

impl Part {
    fn value(&self, key: u64) -> u64 {
        if self.updated { !key } else { key }
    }

    /// The keys of a phase that comes after `put`.
    fn walk(&self, only_reads: bool) -> impl Iterator<Item = u64> + use<> {
        let (first, count) = (self.keys.start, self.keys.end - self.keys.start);
        let shuffled =
            matches!(self.order, Order::Shuffled).then(|| Permutation::new(count, first));
        let mut drawn = match &self.order {
            Order::Drawn(limit, numbers) if only_reads => Some((*limit, numbers.clone())),
            _ => None,
        };
        (0..count).map(move |step| match (&shuffled, &mut drawn) {
            (Some(order), _) => first + order.at(step),
            (_, Some((limit, numbers))) => numbers.below(*limit),
            _ => first + step,
        })
    }
}

/// One phase of one worker over a map.
pub fn map<S: Store + ?Sized, F: Form>(
    phase: Phase,
    part: &mut Part,
    driver: &mut Driver<'_, S, F>,
) -> Result<(), S::Error> {
    driver.tally.operations = part.keys.end - part.keys.start;
    if matches!(phase, Phase::Put | Phase::Upd | Phase::PutLatency) {
        part.updated = phase == Phase::Upd;
    }
    match phase {
        Phase::Put | Phase::PutLatency => {
            driver.play(part.keys.clone().map(|key| Step::Put(key, part.value(key))))
        }
        Phase::Upd => driver.play(part.walk(false).map(|key| Step::Put(key, part.value(key)))),
        Phase::Mix => {
            driver.play(part.walk(false).enumerate().map(|(step, key)| match step % MIX_EVERY {
                0 => Step::Renew(key, part.value(key)),
                _ => Step::Get(key, part.value(key)),
            }))
        }
        Phase::Get => driver.play(part.walk(true).map(|key| Step::Get(key, part.value(key)))),
        Phase::GetMany => driver.get_many(part.walk(true).map(|key| (key, part.value(key)))),
    }
}

/// As many turns of set and get as there are `numbers`; the value is the key.
pub fn decimal_loop<S: Store + ?Sized, F: Form>(
    numbers: impl ExactSizeIterator<Item = u64>,
    driver: &mut Driver<'_, S, F>,
) -> Result<(), S::Error> {
    driver.tally.operations = numbers.len() as u64;
    driver.play(numbers.flat_map(|key| [Step::Put(key, key), Step::Get(key, key)]))
}

/// Sets the keys below `count`; the value is the key.
pub fn load<S: Store + ?Sized, F: Form>(
    count: u64,
    driver: &mut Driver<'_, S, F>,
) -> Result<(), S::Error> {
    driver.tally.operations = count;
    driver.play((0..count).map(|key| Step::Put(key, key)))
}

/// Gets keys that [`load`] has set, each value copied into a vector that is used again.
pub fn copy<S: Store + ?Sized, F: Form>(
    numbers: impl ExactSizeIterator<Item = u64>,
    driver: &mut Driver<'_, S, F>,
) -> Result<(), S::Error> {
    driver.tally.operations = numbers.len() as u64;
    driver.play(numbers.map(|key| Step::Get(key, key)))
}

/// The same, each value as a fresh vector.
pub fn own<S: Store + ?Sized, F: Form>(
    numbers: impl ExactSizeIterator<Item = u64>,
    driver: &mut Driver<'_, S, F>,
) -> Result<(), S::Error> {
    driver.tally.operations = numbers.len() as u64;
    driver.get_owned(numbers.map(|key| (key, key)))
}

/// A stream of numbers that is the same in every run: xorshift64*, Vigna 2016.
#[derive(Clone, Debug)]
pub struct Numbers(u64);

impl Numbers {
    /// A stream of its own for each seed.
    pub fn new(seed: u64) -> Numbers {
        Numbers((seed + 1).wrapping_mul(0x9e37_79b9_7f4a_7c15) | 1)
    }

    /// The next one below `limit`, by multiplication instead of a slow division.
    #[inline]
    pub fn below(&mut self, limit: u64) -> u64 {
        self.0 ^= self.0 >> 12;
        self.0 ^= self.0 << 25;
        self.0 ^= self.0 >> 27;
        let number = self.0.wrapping_mul(0x2545_f491_4f6c_dd1d);
        ((u128::from(number) * u128::from(limit)) >> 64) as u64
    }

    /// This many of them below `limit`. (A platform's `usize` has 64 bits here.)
    pub fn take(mut self, count: u64, limit: u64) -> impl ExactSizeIterator<Item = u64> {
        (0..count as usize).map(move |_| self.below(limit))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn phases_are_found_by_their_names() {
        for (at, (phase, name)) in Phase::ALL.into_iter().enumerate() {
            assert_eq!((phase as usize, phase.name()), (at, name));
            assert_eq!(Phase::named(name), Some(phase));
        }
        assert_eq!(Phase::named("nothing"), None);
    }

    #[test]
    fn numbers_reach_the_whole_range_and_stay_below_it() {
        let mut seen = [false; 10];
        Numbers::new(3).take(1000, 10).for_each(|number| seen[number as usize] = true);
        assert_eq!(seen, [true; 10]);
    }

    fn walk(order: Order, only_reads: bool) -> Vec<u64> {
        Part { keys: 200..300, order, updated: false }.walk(only_reads).collect()
    }

    #[test]
    fn a_worker_goes_through_its_own_range() {
        let own: Vec<u64> = (200..300).collect();
        assert_eq!(walk(Order::Own, true), own);
        let mut shuffled = walk(Order::Shuffled, false);
        assert_ne!(shuffled, own);
        shuffled.sort_unstable();
        assert_eq!(shuffled, own);
    }

    #[test]
    fn drawn_keys_are_of_all_workers_but_only_where_nothing_is_changed() {
        let order = Order::Drawn(300, Numbers::new(2));
        let drawn = walk(order.clone(), true);
        assert_eq!(drawn.len(), 100);
        assert!(drawn.iter().all(|key| *key < 300) && drawn.iter().any(|key| *key < 100));
        assert_eq!(walk(order, false), (200..300).collect::<Vec<_>>());
    }
}
