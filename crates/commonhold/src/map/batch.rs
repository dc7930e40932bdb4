//! Batches of writes: many pairs in one operation, each an atomic change of its own.

use crate::error::Result;
use crate::map::change::{Act, Change, Rule};
use crate::map::handle::Map;
use crate::map::{inline, locked, write};

/// A batch prefetches the memory of the pair this many places ahead.
const AHEAD: usize = 4;

impl Map {
    /// Sets many pairs, in order. Each change is atomic; the batch as a whole is not. After an
    /// error, the pairs before the failed one are set.
    ///
    /// # Errors
    /// Those of [`set`](Self::set).
    pub fn set_many<K: AsRef<[u8]>, V: AsRef<[u8]>>(&self, pairs: &[(K, V)]) -> Result<()> {
        self.set_many_from(pairs, &mut 0)
    }

    /// Like [`set_many`](Self::set_many), but skips the first `done` pairs and adds to `done` the
    /// number of pairs that it sets. After an error, the same call resumes at the pair that failed.
    ///
    /// # Errors
    /// Those of [`set`](Self::set).
    pub fn set_many_from<K: AsRef<[u8]>, V: AsRef<[u8]>>(
        &self,
        pairs: &[(K, V)],
        done: &mut usize,
    ) -> Result<()> {
        self.ensure_may_write()?;
        // If the operation runs again, it resumes at the pair that it had reached.
        self.arena.operate(|lane| {
            while let Some((key, value)) = pairs.get(*done) {
                if let Some((later, _)) = pairs.get(*done + AHEAD) {
                    let later = self.bound.hasher.hash(later.as_ref());
                    locked::fetch(self.space(), &self.bound, later);
                }
                let put = Change::new(key.as_ref(), Rule::Always, Act::Put(value.as_ref()));
                let change = Change { expiry: self.expiry, ..put };
                match &self.bound.inline {
                    Some(packing) => inline::apply_in(lane, &self.bound, packing, &change, None)?,
                    None => write::apply_in(lane, &self.bound, &change, None)?,
                };
                *done += 1;
            }
            Ok(())
        })
    }
}
