//! Batches of writes: many pairs in one operation, each an atomic change of its own.

use crate::error::Result;
use crate::map::api::handle::Map;
use crate::map::engine::bound::Bound;
use crate::map::engine::change::{Act, Change, Rule};
use crate::map::engine::short_act::{Put, When};
use crate::map::engine::short_change::{self, Short};
use crate::map::engine::{inline_pairs, locked, short_inline, write};
use crate::memory::lane::LaneGuard;

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
                self.put_in(lane, key.as_ref(), value.as_ref())?;
                *done += 1;
            }
            Ok(())
        })
    }

    /// Sets one of many pairs: the short way, or the patient one.
    fn put_in(&self, lane: &LaneGuard<'_>, key: &[u8], value: &[u8]) -> Result<()> {
        let (bound, act, expiry): (&Bound, _, _) = (&self.bound, Act::Put(value), self.expiry);
        let when = When::Always;
        let put = Change { expiry, ..Change::new(key, Rule::Always, act) };
        let done = match &bound.inline {
            Some(packing) => {
                short_inline::try_apply_in(lane, bound, packing, (key, when), act).is_some()
                    || inline_pairs::apply_in(lane, bound, packing, &put, None)?.done
            }
            None => {
                let short = Short { key, when, act: Put(value), expiry };
                short_change::try_apply_in(lane, bound, short).is_some()
                    || write::apply_in(lane, bound, &put, None)?.done
            }
        };
        debug_assert!(done, "a put without a condition happens");
        lane.tidy();
        Ok(())
    }
}
