//! Changing operations of a map by key: the short way first.

use crate::error::{Error, Result};
use crate::map::api::handle::Map;
use crate::map::engine::bound::Bound;
use crate::map::engine::change::{Act, Change, Expiry, Outcome, Rule};
use crate::map::engine::short_act::{Add, Put, Remove, ShortAct, When};
use crate::map::engine::short_change::{self, Short};
use crate::map::engine::{inline_pairs, short_inline, write};
use crate::map::options::Uid;

impl Map {
    /// Sets the value of a key, present or not. Returns its uid.
    ///
    /// # Errors
    /// `Full` (the old value stays); `TooLarge`; `ReadOnly`; `TimedOut`; `Busy` if this thread
    /// froze the hold; `Reentrant` from inside another operation of the thread; those of
    /// [`get`](Self::get). All writing operations return these errors.
    #[inline]
    pub fn set(&self, key: impl AsRef<[u8]>, value: impl AsRef<[u8]>) -> Result<Uid> {
        self.change(key.as_ref(), When::Always, Put(value.as_ref()), |done| Uid(done.uid))
    }

    /// Applies a change of one key: the short way, or the patient one. Returns what `result` makes
    /// of its outcome.
    #[inline]
    pub(crate) fn change<'v, R>(
        &self,
        key: &[u8],
        when: When,
        act: impl ShortAct + Into<Act<'v>>,
        result: impl Fn(Outcome) -> R,
    ) -> Result<R> {
        match self.try_change(key, when, act) {
            Some(done) => Ok(result(done)),
            None => self.change_patiently(key, when, act.into()).map(result),
        }
    }

    #[inline(always)]
    fn try_change<'v, A: ShortAct + Into<Act<'v>>>(
        &self,
        key: &[u8],
        when: When,
        act: A,
    ) -> Option<Outcome> {
        let bound: &Bound = &self.bound;
        if bound.has_plain_changes {
            return short_change::try_apply_to_plain(&self.arena, bound, (key, when), act);
        }
        if bound.inline.is_some() {
            return short_inline::try_apply(&self.arena, bound, (key, when), act);
        }
        self.try_change_records(bound, key, when, act)
    }

    /// The same in records of maps that are not plain.
    #[inline(never)]
    fn try_change_records<'v, A: ShortAct + Into<Act<'v>>>(
        &self,
        bound: &Bound,
        key: &[u8],
        when: When,
        act: A,
    ) -> Option<Outcome> {
        if !bound.has_short_changes {
            return None;
        }
        let change = Short { key, when, act, expiry: self.expiry };
        short_change::try_apply(&self.arena, bound, change)
    }

    #[inline(never)]
    fn change_patiently(&self, key: &[u8], when: When, act: Act<'_>) -> Result<Outcome> {
        let rule = match when {
            When::Always => Rule::Always,
            When::Absent => Rule::Absent,
            When::Present => Rule::Present,
        };
        self.apply(&Change::new(key, rule, act), None)
    }

    pub(crate) fn apply(&self, change: &Change<'_>, old: Option<&mut Vec<u8>>) -> Result<Outcome> {
        self.ensure_may_write()?;
        let change = match change.expiry {
            Expiry::Own => &Change { expiry: self.expiry, ..*change },
            _ => change,
        };
        match &self.bound.inline {
            Some(packing) => inline_pairs::apply(&self.arena, &self.bound, packing, change, old),
            None => write::apply(&self.arena, &self.bound, change, old),
        }
    }

    /// Sets a value only if the key is absent. Returns its uid, `None` if the key is present.
    ///
    /// # Errors
    /// Those of [`set`](Self::set).
    pub fn add(&self, key: impl AsRef<[u8]>, value: impl AsRef<[u8]>) -> Result<Option<Uid>> {
        self.put_if(key.as_ref(), When::Absent, value.as_ref())
    }

    /// Sets a value only if the key is present. Returns its uid, `None` if the key is absent.
    ///
    /// # Errors
    /// Those of [`set`](Self::set).
    pub fn replace(&self, key: impl AsRef<[u8]>, value: impl AsRef<[u8]>) -> Result<Option<Uid>> {
        self.put_if(key.as_ref(), When::Present, value.as_ref())
    }

    fn put_if(&self, key: &[u8], when: When, value: &[u8]) -> Result<Option<Uid>> {
        self.change(key, when, Put(value), |outcome| outcome.done.then_some(Uid(outcome.uid)))
    }

    /// Changes a key from `expected` to `new` in one atomic step (`None` stands for absent).
    /// Returns false and changes nothing if the key's state is not `expected`.
    ///
    /// # Errors
    /// Those of [`set`](Self::set).
    pub fn compare_exchange(
        &self,
        key: impl AsRef<[u8]>,
        expected: Option<&[u8]>,
        new: Option<&[u8]>,
    ) -> Result<bool> {
        let key = key.as_ref();
        if expected.is_none() && new.is_none() {
            return Ok(!self.contains(key)?);
        }
        let act = new.map_or(Act::Delete, Act::Put);
        Ok(self.apply(&Change::new(key, Rule::Equals(expected), act), None)?.done)
    }

    /// Deletes a key. Returns false if it is absent.
    ///
    /// # Errors
    /// Those of [`set`](Self::set).
    pub fn delete(&self, key: impl AsRef<[u8]>) -> Result<bool> {
        self.change(key.as_ref(), When::Always, Remove, |outcome| outcome.done)
    }

    /// Deletes a key and returns the value it had, in one atomic step.
    ///
    /// # Errors
    /// Those of [`set`](Self::set).
    pub fn take(&self, key: impl AsRef<[u8]>) -> Result<Option<Vec<u8>>> {
        let mut old = Vec::new();
        let change = Change::new(key.as_ref(), Rule::Always, Act::Delete);
        Ok(self.apply(&change, Some(&mut old))?.done.then_some(old))
    }

    /// Changes a value atomically: stores the value that `change` returns for the current one
    /// (`None` stands for an absent key). If the key has changed meanwhile, calls `change` again.
    /// `change` runs without a lock and may use the map. Returns the key's uid, `None` if the key
    /// is absent afterwards.
    ///
    /// # Errors
    /// Those of [`set`](Self::set).
    pub fn update(
        &self,
        key: impl AsRef<[u8]>,
        mut change: impl FnMut(Option<&[u8]>) -> Option<Vec<u8>>,
    ) -> Result<Option<Uid>> {
        self.try_update(key, |value| Ok::<_, Error>(change(value)))
    }

    /// Like [`update`](Self::update); an error of `change` ends the call and changes nothing.
    ///
    /// # Errors
    /// Those of [`set`](Self::set), and those of `change`.
    pub fn try_update<E: From<Error>>(
        &self,
        key: impl AsRef<[u8]>,
        mut change: impl FnMut(Option<&[u8]>) -> std::result::Result<Option<Vec<u8>>, E>,
    ) -> std::result::Result<Option<Uid>, E> {
        let key = key.as_ref();
        loop {
            let found = self.get_with_sequence(key)?;
            let value = found.as_ref().map(|(value, _)| &value[..]);
            let new = change(value)?;
            if value.is_none() && new.is_none() {
                return Ok(None);
            }
            let rule = match &self.bound.inline {
                Some(_) => Rule::Equals(value),
                None => {
                    Rule::Unchanged(found.as_ref().map(|(value, sequence)| (*sequence, &value[..])))
                }
            };
            let act = new.as_deref().map_or(Act::Delete, Act::Put);
            let outcome = self.apply(&Change::new(key, rule, act), None)?;
            if outcome.done {
                return Ok(new.is_some().then_some(Uid(outcome.uid)));
            }
        }
    }

    /// Adds to a value, an 8-byte little-endian number, in one atomic step. The addition wraps, and
    /// an absent key counts as 0. Returns the sum.
    ///
    /// # Errors
    /// `Mismatch` if the value does not have 8 bytes; those of [`set`](Self::set).
    pub fn increment(&self, key: impl AsRef<[u8]>, by: i64) -> Result<i64> {
        self.change(key.as_ref(), When::Always, Add(by), |outcome| outcome.number)
    }
}
