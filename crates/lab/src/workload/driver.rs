//! Carries a workload's steps to a store: one by one, or as many at a time as the store takes.
//!
//! Invariant: every value that comes back is compared with the one expected; a benchmark that
//! reads wrong values fast is worth nothing. Called by the workloads; the worker makes it.

use super::clock::now_ns;
use super::form::Form;
use super::store::{Op, Store};
use super::tally::Tally;

/// The most keys of one `get_many` without a heap allocation for their list.
const ON_STACK: usize = 64;

/// One step of a workload, in numbers.
#[derive(Clone, Copy, Debug)]
pub enum Step {
    /// Store the value (second) under the key (first).
    Put(u64, u64),
    /// Read the key (first) and expect the value (second).
    Get(u64, u64),
    /// Delete the key (first), then store the value (second) under it.
    Renew(u64, u64),
}

/// One worker's store in one phase.
pub struct Driver<'a, S: Store + ?Sized, F: Form> {
    /// Where the steps go.
    pub store: &'a mut S,
    /// How numbers become keys and values.
    pub form: &'a F,
    /// How many steps go at a time.
    pub batch: usize,
    /// How many keys a `get_many` has.
    pub get_many: usize,
    /// The result.
    pub tally: Tally,
}

/// Memory that steps use again: a key, an expected value, the value that came.
#[derive(Default)]
struct Room {
    key: Vec<u8>,
    value: Vec<u8>,
    out: Vec<u8>,
}

impl<S: Store + ?Sized, F: Form> Driver<'_, S, F> {
    /// Does the steps in order.
    pub fn play(&mut self, steps: impl Iterator<Item = Step>) -> Result<(), S::Error> {
        if self.batch > 1 {
            return self.play_in_batches(steps);
        }
        if self.tally.times.is_some() {
            return self.play_timed(steps);
        }
        let mut room = Room::default();
        for step in steps {
            self.play_one(step, &mut room)?;
        }
        Ok(())
    }

    #[inline(always)]
    fn play_one(&mut self, step: Step, room: &mut Room) -> Result<(), S::Error> {
        let Room { key, value, out } = room;
        match step {
            Step::Put(number, content) => {
                self.store.put(self.form.key(number, key), self.form.value(content, value))
            }
            Step::Get(number, expected) => {
                if self.store.get(self.form.key(number, key), out)? {
                    self.tally.check(out, self.form.value(expected, value));
                } else {
                    self.tally.absent += 1;
                }
                Ok(())
            }
            Step::Renew(number, content) => {
                let key = self.form.key(number, key);
                let there = self.store.delete(key)?;
                self.tally.absent += u64::from(!there);
                self.store.put(key, self.form.value(content, value))
            }
        }
    }

    fn play_timed(&mut self, steps: impl Iterator<Item = Step>) -> Result<(), S::Error> {
        let mut room = Room::default();
        // The end of one step is the start of the next: one clock reading for each.
        let mut before = now_ns();
        for step in steps {
            self.play_one(step, &mut room)?;
            let after = now_ns();
            if matches!(step, Step::Put(..)) {
                self.tally.record(after - before);
            }
            before = after;
        }
        Ok(())
    }

    fn play_in_batches(&mut self, mut steps: impl Iterator<Item = Step>) -> Result<(), S::Error> {
        let mut held = Vec::with_capacity(self.batch);
        let mut rooms = Vec::new();
        rooms.resize_with(self.batch, Room::default);
        loop {
            held.clear();
            held.extend(steps.by_ref().take(self.batch));
            if held.is_empty() {
                return Ok(());
            }
            let before = now_ns();
            self.play_batch(&held, &mut rooms)?;
            if held.iter().any(|step| matches!(step, Step::Put(..))) {
                self.tally.record(now_ns() - before);
            }
        }
    }

    fn play_batch(&mut self, steps: &[Step], rooms: &mut [Room]) -> Result<(), S::Error> {
        let mut ops = Vec::with_capacity(2 * steps.len());
        let mut expected = Vec::with_capacity(2 * steps.len());
        for (step, Room { key, value, .. }) in steps.iter().zip(rooms) {
            let (Step::Put(number, content)
            | Step::Get(number, content)
            | Step::Renew(number, content)) = *step;
            let (key, value) = (self.form.key(number, key), self.form.value(content, value));
            match step {
                Step::Put(..) => ops.push(Op::Put(key, value)),
                Step::Get(..) => ops.push(Op::Get(key)),
                Step::Renew(..) => ops.extend([Op::Delete(key), Op::Put(key, value)]),
            }
            expected.resize(ops.len(), None);
            if let (Step::Get(..), Some(last)) = (step, expected.last_mut()) {
                *last = Some(value);
            }
        }
        let gets = expected.iter().flatten().count() as u64;
        let (mut hits, tally) = (0, &mut self.tally);
        self.store.run(&ops, &mut |at, value| {
            hits += 1;
            match expected.get(at).copied().flatten() {
                Some(expected) => tally.check(value, expected),
                // An answer without a request.
                None => tally.wrong += 1,
            }
        })?;
        tally.absent += gets.saturating_sub(hits);
        Ok(())
    }

    /// Reads keys and expects values, many at a time through [`Store::get_many`].
    pub fn get_many(&mut self, pairs: impl Iterator<Item = (u64, u64)>) -> Result<(), S::Error> {
        let mut pairs = pairs;
        let mut held = Vec::with_capacity(self.get_many);
        let mut rooms = vec![Vec::new(); self.get_many];
        let mut value = Vec::new();
        loop {
            held.clear();
            held.extend(pairs.by_ref().take(self.get_many));
            if held.is_empty() {
                return Ok(());
            }
            let texts = held.iter().zip(&mut rooms);
            let texts = texts.map(|((number, _), room)| self.form.key(*number, room));
            // On the stack if they are few, as a program in a hurry would do it.
            let (mut few, mut many) = ([&[][..]; ON_STACK], Vec::new());
            let keys = if held.len() <= ON_STACK {
                few.iter_mut().zip(texts).for_each(|(key, text)| *key = text);
                &few[..held.len()]
            } else {
                many.extend(texts);
                &many[..]
            };
            let (mut hits, form, tally) = (0, self.form, &mut self.tally);
            self.store.get_many(keys, &mut |at, found| {
                hits += 1;
                match held.get(at) {
                    Some((_, expected)) => tally.check(found, form.value(*expected, &mut value)),
                    None => tally.wrong += 1,
                }
            })?;
            tally.absent += (held.len() as u64).saturating_sub(hits);
        }
    }

    /// Reads keys and expects values, each as a fresh vector.
    pub fn get_owned(&mut self, pairs: impl Iterator<Item = (u64, u64)>) -> Result<(), S::Error> {
        let mut room = Room::default();
        for (number, expected) in pairs {
            match self.store.get_owned(self.form.key(number, &mut room.key))? {
                Some(value) => {
                    self.tally.check(&value, self.form.value(expected, &mut room.value));
                }
                None => self.tally.absent += 1,
            }
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::super::form::Ascending;
    use super::super::store::Found;
    use super::*;
    use std::convert::Infallible;

    type Result<T> = std::result::Result<T, Infallible>;

    /// Has nothing and finds, on demand, too much.
    struct Liar {
        says: Option<&'static [u8]>,
    }

    impl Store for Liar {
        type Error = Infallible;

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
        fn get_many(&mut self, keys: &[&[u8]], found: Found<'_>) -> Result<()> {
            if let Some(value) = self.says {
                (0..keys.len()).for_each(|at| found(at, value));
            }
            Ok(())
        }
    }

    fn driver(store: &mut Liar, batch: usize, timed: bool) -> Driver<'_, Liar, Ascending> {
        Driver { store, form: &Ascending, batch, get_many: 64, tally: Tally::new(timed) }
    }

    fn tally_of(says: Option<&'static [u8]>, batch: usize, get_many: usize) -> (u64, u64) {
        let mut store = Liar { says };
        let mut driver = Driver { get_many, ..driver(&mut store, batch, false) };
        driver.play([Step::Put(7, 7), Step::Get(7, 7)].into_iter()).unwrap();
        driver.get_many((0..2 * ON_STACK as u64).map(|_| (7, 7))).unwrap();
        driver.get_owned([(7, 7)].into_iter()).unwrap();
        (driver.tally.wrong, driver.tally.absent)
    }

    #[test]
    fn wrong_and_absent_values_are_counted_in_every_way_of_reading() {
        let all = 2 + 2 * ON_STACK as u64;
        for (batch, get_many) in [(1, 64), (2, 64), (1, 100)] {
            assert_eq!(tally_of(Some(b"\0\0\0\x07"), batch, get_many), (0, 0));
            assert_eq!(tally_of(Some(b"8"), batch, get_many), (all, 0));
            assert_eq!(tally_of(None, batch, get_many), (0, all));
        }
    }

    #[test]
    fn puts_are_timed_when_asked() {
        let mut store = Liar { says: None };
        let mut driver = driver(&mut store, 1, true);
        driver.play((0..5).map(|_| Step::Put(1, 1))).unwrap();
        assert_eq!(driver.tally.times.unwrap().count(), 5);
    }
}
