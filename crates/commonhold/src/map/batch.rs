//! Batches of changes: many pairs in one operation, each a change of its own.

use crate::error::Result;
use crate::map::change::{Act, Change, Rule};
use crate::map::handle::Map;
use crate::map::{inline, locked, write};

/// A batch fetches memory so many pairs ahead.
const AHEAD: usize = 4;

impl Map {
    /// Sets many pairs, in order. Each is atomic, the batch is not: on an error those before it are set.
    ///
    /// # Errors
    /// As [`set`](Self::set).
    pub fn set_many<K: AsRef<[u8]>, V: AsRef<[u8]>>(&self, pairs: &[(K, V)]) -> Result<()> {
        self.set_many_from(pairs, &mut 0)
    }

    /// As [`set_many`](Self::set_many), but for the first `done` pairs. Counts in `done` what it sets, so that after an error the same
    /// call goes on where it was.
    ///
    /// # Errors
    /// As [`set`](Self::set).
    pub fn set_many_from<K: AsRef<[u8]>, V: AsRef<[u8]>>(
        &self,
        pairs: &[(K, V)],
        done: &mut usize,
    ) -> Result<()> {
        self.ensure_may_write()?;
        // Begun again, it goes on with the pair that it was at.
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
