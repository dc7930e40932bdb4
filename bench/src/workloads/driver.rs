//! Carries a workload's steps to a store: one by one, or as many at a time as the rival takes.
//!
//! Invariant: every value that comes back is compared with the one expected; a benchmark that
//! reads wrong values fast is worth nothing. Called by the workloads; the worker makes it.

use std::time::Instant;

use anyhow::Result;

use super::tally::Tally;
use crate::store::{Op, Store};

const GET_MANY_KEYS: usize = 64;
const WORD_BYTES: usize = 8;

/// A short key or value.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Word {
    bytes: [u8; WORD_BYTES],
    length: u8,
}

impl Word {
    /// Four bytes, big-endian: ascending numbers are ascending bytes, which ordered trees like best.
    pub fn binary(number: u64) -> Word {
        let mut bytes = [0; WORD_BYTES];
        bytes[..4].copy_from_slice(&(number as u32).to_be_bytes());
        Word { bytes, length: 4 }
    }

    /// The digits of a number below 10^8.
    pub fn decimal(mut number: u64) -> Word {
        let mut bytes = [0; WORD_BYTES];
        let mut length = 0;
        loop {
            bytes.copy_within(0..WORD_BYTES - 1, 1);
            bytes[0] = b'0' + (number % 10) as u8;
            number /= 10;
            length += 1;
            if number == 0 {
                return Word { bytes, length };
            }
        }
    }

    /// The bytes that count.
    pub fn bytes(&self) -> &[u8] {
        &self.bytes[..usize::from(self.length)]
    }
}

/// One step of a workload.
#[derive(Clone, Copy, Debug)]
pub enum Step {
    /// Store the value (second) under the key (first).
    Put(Word, Word),
    /// Read the key (first) and expect the value (second).
    Get(Word, Word),
    /// Delete the key (first), then store the value (second) under it.
    Renew(Word, Word),
}

/// One worker's store in one phase.
pub struct Driver<'a> {
    /// Where the steps go.
    pub store: &'a mut dyn Store,
    /// How many steps go at a time.
    pub batch: usize,
    /// The result.
    pub tally: Tally,
}

impl Driver<'_> {
    /// Does the steps in order.
    pub fn play(&mut self, steps: impl Iterator<Item = Step>) -> Result<()> {
        if self.batch > 1 {
            self.play_in_batches(steps)
        } else if self.tally.times.is_some() {
            self.play_timed(steps)
        } else {
            let mut out = Vec::new();
            for step in steps {
                self.play_one(step, &mut out)?;
            }
            Ok(())
        }
    }

    #[inline(always)]
    fn play_one(&mut self, step: Step, out: &mut Vec<u8>) -> Result<()> {
        match step {
            Step::Put(key, value) => self.store.put(key.bytes(), value.bytes()),
            Step::Get(key, expected) => {
                if self.store.get(key.bytes(), out)? {
                    self.tally.check(out, expected.bytes());
                } else {
                    self.tally.absent += 1;
                }
                Ok(())
            }
            Step::Renew(key, value) => {
                let there = self.store.delete(key.bytes())?;
                self.tally.absent += u64::from(!there);
                self.store.put(key.bytes(), value.bytes())
            }
        }
    }

    fn play_timed(&mut self, steps: impl Iterator<Item = Step>) -> Result<()> {
        let mut out = Vec::new();
        // The end of one step is the start of the next: one clock reading for each.
        let mut before = Instant::now();
        for step in steps {
            self.play_one(step, &mut out)?;
            let after = Instant::now();
            if matches!(step, Step::Put(..)) {
                self.tally.record((after - before).as_nanos() as u64)?;
            }
            before = after;
        }
        Ok(())
    }

    fn play_in_batches(&mut self, mut steps: impl Iterator<Item = Step>) -> Result<()> {
        let mut held = Vec::with_capacity(self.batch);
        loop {
            held.clear();
            held.extend(steps.by_ref().take(self.batch));
            if held.is_empty() {
                return Ok(());
            }
            let before = Instant::now();
            self.play_batch(&held)?;
            if held.iter().any(|step| matches!(step, Step::Put(..))) {
                self.tally.record(before.elapsed().as_nanos() as u64)?;
            }
        }
    }

    fn play_batch(&mut self, steps: &[Step]) -> Result<()> {
        let mut ops = Vec::with_capacity(2 * steps.len());
        let mut expected = Vec::with_capacity(2 * steps.len());
        for step in steps {
            match step {
                Step::Put(key, value) => ops.push(Op::Put(key.bytes(), value.bytes())),
                Step::Get(key, _) => ops.push(Op::Get(key.bytes())),
                Step::Renew(key, value) => {
                    ops.push(Op::Delete(key.bytes()));
                    ops.push(Op::Put(key.bytes(), value.bytes()));
                }
            }
            expected.resize(ops.len(), None);
            if let (Step::Get(_, value), Some(last)) = (step, expected.last_mut()) {
                *last = Some(value);
            }
        }
        let gets = expected.iter().flatten().count() as u64;
        let (mut hits, tally) = (0, &mut self.tally);
        self.store.run(&ops, &mut |at, value| {
            hits += 1;
            match expected.get(at).copied().flatten() {
                Some(expected) => tally.check(value, expected.bytes()),
                // An answer without a request.
                None => tally.wrong += 1,
            }
        })?;
        tally.absent += gets.saturating_sub(hits);
        Ok(())
    }

    /// Reads keys and expects values, 64 at a time through [`Store::get_many`].
    pub fn get_many(&mut self, pairs: impl Iterator<Item = (Word, Word)>) -> Result<()> {
        let mut pairs = pairs;
        let mut held = Vec::with_capacity(GET_MANY_KEYS);
        loop {
            held.clear();
            held.extend(pairs.by_ref().take(GET_MANY_KEYS));
            if held.is_empty() {
                return Ok(());
            }
            // On the stack and without a heap allocation, as a program in a hurry would do it.
            let mut keys: [&[u8]; GET_MANY_KEYS] = [&[]; GET_MANY_KEYS];
            for (key, (word, _)) in keys.iter_mut().zip(&held) {
                *key = word.bytes();
            }
            let (mut hits, tally) = (0, &mut self.tally);
            self.store.get_many(&keys[..held.len()], &mut |at, value| {
                hits += 1;
                match held.get(at) {
                    Some((_, expected)) => tally.check(value, expected.bytes()),
                    None => tally.wrong += 1,
                }
            })?;
            tally.absent += (held.len() as u64).saturating_sub(hits);
        }
    }

    /// Reads keys and expects values, each as a fresh vector.
    pub fn get_owned(&mut self, pairs: impl Iterator<Item = (Word, Word)>) -> Result<()> {
        for (key, expected) in pairs {
            match self.store.get_owned(key.bytes())? {
                Some(value) => self.tally.check(&value, expected.bytes()),
                None => self.tally.absent += 1,
            }
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Has nothing and finds, on demand, too much.
    struct Liar {
        says: Option<&'static [u8]>,
    }

    impl Store for Liar {
        fn put(&mut self, _: &[u8], _: &[u8]) -> Result<()> {
            Ok(())
        }
        fn get(&mut self, _: &[u8], out: &mut Vec<u8>) -> Result<bool> {
            out.clear();
            out.extend_from_slice(self.says.unwrap_or_default());
            Ok(self.says.is_some())
        }
        fn delete(&mut self, _: &[u8]) -> Result<bool> {
            Ok(self.says.is_some())
        }
        fn get_many(&mut self, keys: &[&[u8]], found: crate::store::Found<'_>) -> Result<()> {
            if let Some(value) = self.says {
                (0..keys.len()).for_each(|at| found(at, value));
            }
            Ok(())
        }
    }

    fn tally_of(says: Option<&'static [u8]>, batch: usize) -> (u64, u64) {
        let mut store = Liar { says };
        let tally = Tally::new(false).unwrap();
        let mut driver = Driver { store: &mut store, batch, tally };
        let word = Word::decimal(7);
        driver.play([Step::Put(word, word), Step::Get(word, word)].into_iter()).unwrap();
        driver.get_many([(word, word)].into_iter()).unwrap();
        driver.get_owned([(word, word)].into_iter()).unwrap();
        (driver.tally.wrong, driver.tally.absent)
    }

    #[test]
    fn wrong_and_absent_values_are_counted_in_every_way_of_reading() {
        for batch in [1, 2] {
            assert_eq!(tally_of(Some(b"7"), batch), (0, 0));
            assert_eq!(tally_of(Some(b"8"), batch), (3, 0));
            assert_eq!(tally_of(None, batch), (0, 3));
        }
    }

    #[test]
    fn words_are_what_they_say() {
        assert_eq!(Word::decimal(0).bytes(), b"0");
        assert_eq!(Word::decimal(9_990).bytes(), b"9990");
        assert_eq!(Word::binary(258).bytes(), [0, 0, 1, 2]);
    }

    #[test]
    fn puts_are_timed_when_asked() {
        let mut store = Liar { says: None };
        let tally = Tally::new(true).unwrap();
        let mut driver = Driver { store: &mut store, batch: 1, tally };
        let word = Word::binary(1);
        driver.play((0..5).map(|_| Step::Put(word, word))).unwrap();
        assert_eq!(driver.tally.times.unwrap().len(), 5);
    }
}
