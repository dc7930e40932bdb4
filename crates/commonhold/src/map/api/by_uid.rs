//! Operations of a map by uid: without hashing, or only if the uid still names the key.

use crate::error::Result;
use crate::map::api::handle::Map;
use crate::map::engine::change::{Act, Change, Outcome, Rule};
use crate::map::engine::iterate::{self, Noted, Pair, Part};
use crate::map::options::Uid;

impl Map {
    /// The key and the value that a uid names, `None` if it names none. Neither hashes nor compares
    /// keys.
    ///
    /// # Errors
    /// Those of [`get`](Self::get).
    pub fn get_uid(&self, uid: Uid) -> Result<Option<Pair>> {
        self.arena.ensure_open()?;
        let (directory, position) = (uid.0 >> 8, uid.0 & 0xff);
        if position >= self.bound.positions() {
            return Ok(None);
        }
        let noted = Noted { directory, position };
        self.bound
            .read(self.space(), |bound| iterate::resolve(self.space(), bound, &noted, Part::Whole))
    }

    /// Sets the value of the key that a uid names; false if it no longer names `expected_key`.
    ///
    /// # Errors
    /// Those of [`set`](Self::set).
    pub fn set_uid(
        &self,
        uid: Uid,
        expected_key: impl AsRef<[u8]>,
        value: impl AsRef<[u8]>,
    ) -> Result<bool> {
        Ok(self.apply_at(uid, expected_key.as_ref(), Act::Put(value.as_ref()))?.is_some())
    }

    /// Deletes the key that a uid names; false if it no longer names `expected_key`.
    ///
    /// # Errors
    /// Those of [`set`](Self::set).
    pub fn delete_uid(&self, uid: Uid, expected_key: impl AsRef<[u8]>) -> Result<bool> {
        Ok(self.apply_at(uid, expected_key.as_ref(), Act::Delete)?.is_some())
    }

    /// [`increment`](Self::increment) for a uid; `None` if it no longer names `expected_key`.
    ///
    /// # Errors
    /// Those of [`set`](Self::set).
    pub fn increment_uid(
        &self,
        uid: Uid,
        expected_key: impl AsRef<[u8]>,
        by: i64,
    ) -> Result<Option<i64>> {
        Ok(self.apply_at(uid, expected_key.as_ref(), Act::Add(by))?.map(|o| o.number))
    }

    /// [`take`](Self::take) for a uid; `None` if it no longer names `expected_key`.
    ///
    /// # Errors
    /// Those of [`set`](Self::set).
    pub fn take_uid(&self, uid: Uid, expected_key: impl AsRef<[u8]>) -> Result<Option<Vec<u8>>> {
        let mut old = Vec::new();
        let change = Change::new(expected_key.as_ref(), Rule::Always, Act::Delete);
        Ok(self.apply_change_at(uid, change, Some(&mut old))?.map(|_| old))
    }

    /// Changes the value of the key that a uid names from `expected` to `new` in one atomic step
    /// (`None` deletes the key). Returns false if the uid no longer names `expected_key`, or if the
    /// value is not `expected`.
    ///
    /// # Errors
    /// Those of [`set`](Self::set).
    pub fn compare_exchange_uid(
        &self,
        uid: Uid,
        expected_key: impl AsRef<[u8]>,
        expected: &[u8],
        new: Option<&[u8]>,
    ) -> Result<bool> {
        let (key, act) = (expected_key.as_ref(), new.map_or(Act::Delete, Act::Put));
        let change = Change::new(key, Rule::Equals(Some(expected)), act);
        Ok(self.apply_change_at(uid, change, None)?.is_some())
    }

    /// [`update`](Self::update) for a uid; false if it no longer names `expected_key`.
    ///
    /// # Errors
    /// Those of [`set`](Self::set).
    pub fn update_uid(
        &self,
        uid: Uid,
        expected_key: impl AsRef<[u8]>,
        mut change: impl FnMut(&[u8]) -> Option<Vec<u8>>,
    ) -> Result<bool> {
        let expected_key = expected_key.as_ref();
        loop {
            let found = self.get_uid(uid)?.filter(|(key, _)| key == expected_key);
            let Some((_, value)) = found else { return Ok(false) };
            let new = change(&value);
            if self.compare_exchange_uid(uid, expected_key, &value, new.as_deref())? {
                return Ok(true);
            }
        }
    }

    fn apply_at(&self, uid: Uid, key: &[u8], act: Act<'_>) -> Result<Option<Outcome>> {
        self.apply_change_at(uid, Change::new(key, Rule::Always, act), None)
    }

    fn apply_change_at(
        &self,
        uid: Uid,
        change: Change<'_>,
        old: Option<&mut Vec<u8>>,
    ) -> Result<Option<Outcome>> {
        self.bound.check_lengths(change.key, None)?;
        if self.bound.hasher.hash(change.key).directory() != uid.0 >> 8 {
            self.arena.ensure_open()?;
            return Ok(None);
        }
        let outcome = self.apply(&Change { at: Some(uid.0 & 0xff), ..change }, old)?;
        Ok(outcome.done.then_some(outcome))
    }
}
