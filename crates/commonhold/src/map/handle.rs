//! [`Map`]: the public handle with every operation of a map.

use crate::error::{Error, ErrorKind, Result};
use crate::map::binding::Binding;
use crate::map::bound::Bound;
use crate::map::change::{Act, Change, Expiry, Outcome, Rule};
use crate::map::hash::Hash;
use crate::map::iterate::{self, Cursor, Noted, Pair};
use crate::map::many::{self, Values};
use crate::map::options::{MapOptions, Uid};
use crate::map::read::{Hit, Place};
use crate::map::walk::{Iter, Keys};
use crate::map::{cache, inline, read, write};
use crate::memory::arena::Arena;
use crate::memory::copy;
use crate::stream::follow::Follower;
use crate::stream::position::StreamPosition;
use crate::sync::space::Space;
use std::fmt;
use std::mem::MaybeUninit;
use std::sync::Arc;

/// A map from bytes to bytes in a hold, shared by every process that has the hold open.
///
/// A handle is cheap to clone. Any thread may use it, and so may a forked child. **Readers** (`get`
/// and every other operation that only takes keys) never wait, lock or write shared memory: a
/// stopped or killed writer does not delay them. **Writers** of the same segment wait for each
/// other, even for a stopped process, for
/// [`HoldOptions::lock_timeout`](crate::HoldOptions::lock_timeout) at most. If a writer is killed,
/// the next one recovers its change: either the change has happened, or it has not. Every change of
/// one key is atomic and linearizable.
///
/// Keys and values are arbitrary bytes and may be empty. A key and its value have at most 2^32 - 1
/// bytes together ([`ErrorKind::TooLarge`]).
///
/// ```
/// # let dir = std::env::temp_dir().join(format!("commonhold-doc-{}", std::process::id()));
/// # std::fs::create_dir_all(&dir).unwrap();
/// # let path = dir.join("shop.hold");
/// use commonhold::{Hold, map::MapOptions};
///
/// let hold = Hold::open_or_create(&path)?;
/// let prices = hold.maps().open_or_create("prices", MapOptions::general())?;
/// prices.set("apple", "3")?;
/// assert_eq!(prices.get("apple")?.as_deref(), Some(&b"3"[..]));
/// assert_eq!(prices.get("pear")?, None);
/// # drop((prices, hold));
/// # std::fs::remove_dir_all(&dir).unwrap();
/// # Ok::<(), commonhold::Error>(())
/// ```
#[derive(Clone)]
pub struct Map {
    pub(crate) arena: Arc<Arena>,
    pub(crate) bound: Arc<Binding>,
    options: MapOptions,
    /// Whether this handle may write a replica's map.
    applies: bool,
    /// Cache mode: when the pairs that this handle stores expire.
    pub(crate) expiry: Expiry,
}

impl fmt::Debug for Map {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let path = self.space().file().path();
        let map = &mut f.debug_struct("Map");
        map.field("name", &self.name()).field("hold", &path).finish_non_exhaustive()
    }
}

impl Map {
    pub(crate) fn new(arena: Arc<Arena>, bound: Bound) -> Map {
        let options = MapOptions { value_room: bound.value_room, ..bound.mode.into() };
        Map {
            arena,
            bound: Arc::new(Binding::new(bound)),
            options,
            applies: false,
            expiry: Expiry::Own,
        }
    }

    /// The same handle with the right to write a replica's map.
    pub(crate) fn for_replica(self) -> Map {
        Map { applies: true, ..self }
    }

    /// # Errors
    /// `ReadOnly` if the map is a replica's.
    #[inline]
    pub(crate) fn ensure_may_write(&self) -> Result<()> {
        // The map may have been made writable for everybody since it was bound.
        if self.bound.replica && !self.applies && self.bound.root(self.space()).is_replica() {
            return Err(self.written_by_replica());
        }
        Ok(())
    }

    #[cold]
    fn written_by_replica(&self) -> Error {
        let text = format!(
            "map '{}' is a replica: only its origin's changes are written to it; write at the origin",
            self.name()
        );
        Error::new(ErrorKind::ReadOnly, text)
    }

    #[inline]
    pub(crate) fn space(&self) -> &Space {
        &self.arena.space
    }

    /// The map's name.
    pub fn name(&self) -> &str {
        &self.bound.name
    }

    /// The options that the map was created with.
    pub fn options(&self) -> &MapOptions {
        &self.options
    }

    /// Returns a copy of the value of `key`, `None` if the key is absent.
    ///
    /// # Errors
    /// `Closed`; `NotFound` if the map was dropped; `Damaged`; `Invalid` for a length that differs
    /// from a fixed-length map's. All reading operations return these errors.
    #[inline]
    pub fn get(&self, key: impl AsRef<[u8]>) -> Result<Option<Vec<u8>>> {
        let mut value = Vec::new();
        Ok(self.get_into(key, &mut value)?.then_some(value))
    }

    /// Copies the value of `key` into `out`, replacing its contents. If the key is absent, returns
    /// false and leaves `out` empty. Does not allocate once `out` is large enough.
    ///
    /// # Errors
    /// Those of [`get`](Self::get).
    #[inline]
    pub fn get_into(&self, key: impl AsRef<[u8]>, out: &mut Vec<u8>) -> Result<bool> {
        let key = key.as_ref();
        self.begin_read(key)?;
        let present = self.bound.read(self.space(), |bound| {
            out.clear();
            self.append(bound, bound.hasher.hash(key), key, None, out)
        })?;
        if !present {
            out.clear();
        }
        Ok(present)
    }

    /// Copies as much of the value of `key` as fits into `out`. Returns the full length of the
    /// value, `None` if the key is absent. Afterwards that many bytes at the start of `out` are
    /// initialized, or all of `out` if the value is longer.
    ///
    /// # Errors
    /// Those of [`get`](Self::get).
    #[inline]
    pub fn get_uninit(
        &self,
        key: impl AsRef<[u8]>,
        out: &mut [MaybeUninit<u8>],
    ) -> Result<Option<usize>> {
        let key = key.as_ref();
        self.begin_read(key)?;
        self.bound.read(self.space(), |bound| {
            let hash = bound.hasher.hash(key);
            let Some(packing) = &bound.inline else {
                return self.lookup(bound, hash, key, None, |hit| hit.record.read_value(out));
            };
            let take = |_, value: &[u8]| {
                copy::fill(value, out);
                value.len()
            };
            inline::find(self.space(), bound, packing, (hash, key), None, take)
        })
    }

    /// Looks up many keys at once, several times faster than one by one. Replaces the contents of
    /// `out` with the values, by index in the order of `keys`, and returns the number of keys
    /// present. Each lookup is atomic; the batch as a whole is not.
    ///
    /// # Errors
    /// Those of [`get`](Self::get).
    pub fn get_many<K: AsRef<[u8]>>(&self, keys: &[K], out: &mut Values) -> Result<usize> {
        for key in keys {
            self.bound.check_lengths(key.as_ref(), None)?;
        }
        self.arena.ensure_open()?;
        self.bound.read(self.space(), |bound| {
            many::get_many(self.space(), bound, keys, out, |hash, key, seen, out| {
                self.append(bound, hash, key, seen, out.buffer())
            })
        })
    }

    #[inline]
    fn begin_read(&self, key: &[u8]) -> Result<()> {
        self.arena.ensure_open()?;
        self.bound.check_lengths(key, None)
    }

    /// Appends the value of `key`. If the key is absent, `out` may have grown by garbage.
    #[inline]
    fn append(
        &self,
        bound: &Bound,
        hash: Hash,
        key: &[u8],
        seen: Option<Place<'_>>,
        out: &mut Vec<u8>,
    ) -> Result<bool> {
        if let Some(packing) = &bound.inline {
            let take = |_, value: &[u8]| out.extend_from_slice(value);
            let found = inline::find(self.space(), bound, packing, (hash, key), seen, take)?;
            return Ok(found.is_some());
        }
        let start = out.len();
        let found = self.lookup(bound, hash, key, seen, |hit| {
            out.truncate(start);
            hit.record.append_value(out);
        })?;
        Ok(found.is_some())
    }

    /// Looks a key up in a map of records. An expired pair counts as absent. Counts hits and
    /// misses.
    #[inline]
    fn lookup<R>(
        &self,
        bound: &Bound,
        hash: Hash,
        key: &[u8],
        seen: Option<Place<'_>>,
        mut copy: impl FnMut(&Hit<'_>) -> R,
    ) -> Result<Option<R>> {
        let space = self.space();
        if !bound.is_cache() {
            return read::find(space, bound, (hash, key), seen, copy);
        }
        let found = read::find(space, bound, (hash, key), seen, |hit| {
            let result = copy(hit);
            let fresh = !cache::is_expired(space, &hit.record);
            if fresh && self.arena.participant().is_some() {
                hit.mark_visited();
            }
            fresh.then_some(result)
        })?;
        let found = found.flatten();
        bound.lookups.count(found.is_some());
        Ok(found)
    }

    /// True if the key is present.
    ///
    /// # Errors
    /// Those of [`get`](Self::get).
    pub fn contains(&self, key: impl AsRef<[u8]>) -> Result<bool> {
        Ok(self.uid(key)?.is_some())
    }

    /// The uid of a key, `None` if the key is absent.
    ///
    /// # Errors
    /// Those of [`get`](Self::get).
    pub fn uid(&self, key: impl AsRef<[u8]>) -> Result<Option<Uid>> {
        let key = key.as_ref();
        self.begin_read(key)?;
        self.bound.read(self.space(), |bound| {
            let hash = bound.hasher.hash(key);
            let position = match &bound.inline {
                Some(packing) => {
                    let take = |position, _: &[u8]| position;
                    inline::find(self.space(), bound, packing, (hash, key), None, take)?
                }
                None => self.lookup(bound, hash, key, None, |hit| hit.position)?,
            };
            Ok(position.map(|position| Uid(hash.directory() << 8 | position)))
        })
    }

    /// Sets the value of a key, present or not. Returns its uid.
    ///
    /// # Errors
    /// `Full` (the old value stays); `TooLarge`; `ReadOnly`; `TimedOut`; `Busy` if this thread
    /// froze the hold; `Reentrant` from inside another operation of the thread; those of
    /// [`get`](Self::get). All writing operations return these errors.
    #[inline]
    pub fn set(&self, key: impl AsRef<[u8]>, value: impl AsRef<[u8]>) -> Result<Uid> {
        let change = Change::new(key.as_ref(), Rule::Always, Act::Put(value.as_ref()));
        Ok(Uid(self.apply(&change, None)?.uid))
    }

    #[inline]
    pub(crate) fn apply(&self, change: &Change<'_>, old: Option<&mut Vec<u8>>) -> Result<Outcome> {
        self.ensure_may_write()?;
        let change = match change.expiry {
            Expiry::Own => &Change { expiry: self.expiry, ..*change },
            _ => change,
        };
        match &self.bound.inline {
            Some(packing) => inline::apply(&self.arena, &self.bound, packing, change, old),
            None => write::apply(&self.arena, &self.bound, change, old),
        }
    }

    /// Sets a value only if the key is absent. Returns its uid, `None` if the key is present.
    ///
    /// # Errors
    /// Those of [`set`](Self::set).
    pub fn add(&self, key: impl AsRef<[u8]>, value: impl AsRef<[u8]>) -> Result<Option<Uid>> {
        self.put_if(key.as_ref(), Rule::Absent, value.as_ref())
    }

    /// Sets a value only if the key is present. Returns its uid, `None` if the key is absent.
    ///
    /// # Errors
    /// Those of [`set`](Self::set).
    pub fn replace(&self, key: impl AsRef<[u8]>, value: impl AsRef<[u8]>) -> Result<Option<Uid>> {
        self.put_if(key.as_ref(), Rule::Present, value.as_ref())
    }

    fn put_if(&self, key: &[u8], rule: Rule<'_>, value: &[u8]) -> Result<Option<Uid>> {
        let outcome = self.apply(&Change::new(key, rule, Act::Put(value)), None)?;
        Ok(outcome.done.then_some(Uid(outcome.uid)))
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
        let change = Change::new(key.as_ref(), Rule::Always, Act::Delete);
        Ok(self.apply(&change, None)?.done)
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
            let (value, sequence) = self.get_with_sequence(key)?.unzip();
            let new = change(value.as_deref())?;
            if value.is_none() && new.is_none() {
                return Ok(None);
            }
            let rule = match &self.bound.inline {
                Some(_) => Rule::Equals(value.as_deref()),
                None => Rule::Sequence(sequence),
            };
            let act = new.as_deref().map_or(Act::Delete, Act::Put);
            let outcome = self.apply(&Change::new(key, rule, act), None)?;
            if outcome.done {
                return Ok(new.is_some().then_some(Uid(outcome.uid)));
            }
        }
    }

    /// A value and the sequence of its record, 0 if the value is not in a record.
    fn get_with_sequence(&self, key: &[u8]) -> Result<Option<(Vec<u8>, u64)>> {
        if self.bound.inline.is_some() {
            return Ok(self.get(key)?.map(|value| (value, 0)));
        }
        self.begin_read(key)?;
        self.bound.read(self.space(), |bound| {
            self.lookup(bound, bound.hasher.hash(key), key, None, |hit| {
                let mut value = Vec::new();
                hit.record.append_value(&mut value);
                (value, hit.record.sequence)
            })
        })
    }

    /// Adds to a value, an 8-byte little-endian number, in one atomic step. The addition wraps, and
    /// an absent key counts as 0. Returns the sum.
    ///
    /// # Errors
    /// `Mismatch` if the value does not have 8 bytes; those of [`set`](Self::set).
    pub fn increment(&self, key: impl AsRef<[u8]>, by: i64) -> Result<i64> {
        Ok(self.apply(&Change::new(key.as_ref(), Rule::Always, Act::Add(by)), None)?.number)
    }

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
        self.bound.read(self.space(), |bound| iterate::resolve(self.space(), bound, &noted, true))
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

    /// Follows the map's changes from now on. The map needs a stream
    /// ([`Maps::begin_stream`](crate::hold::Maps::begin_stream)).
    ///
    /// # Errors
    /// `NotFound` if the map has no stream, or was dropped; `Closed`.
    pub fn follow(&self) -> Result<Follower> {
        self.bound
            .read(self.space(), |bound| Follower::new(Arc::clone(&self.arena), bound.followed()))
    }

    /// Follows the map's changes from a position that a [`Follower`] returned earlier, perhaps in
    /// another process.
    ///
    /// # Errors
    /// `Mismatch` if the position is not in the map's stream (a stream ends with its map); `Lapped`
    /// if the stream does not reach back that far; those of [`follow`](Self::follow).
    pub fn follow_from(&self, position: StreamPosition) -> Result<Follower> {
        self.follow()?.seek(position)
    }

    /// Iterates over all pairs, without a lock. The iterator returns each key that is present
    /// throughout exactly once, even if other processes change the map. It may miss keys that are
    /// added or deleted meanwhile.
    pub fn iter(&self) -> Iter {
        self.iter_from(Cursor::START)
    }

    /// Iterates over the pairs from a cursor on; see [`Iter::cursor`].
    pub fn iter_from(&self, cursor: Cursor) -> Iter {
        Iter::new(self.clone(), cursor)
    }

    /// Iterates over all keys, like [`iter`](Self::iter), without copying the values.
    pub fn keys(&self) -> Keys {
        Keys::new(self.clone())
    }
}

impl IntoIterator for &Map {
    type Item = Result<Pair>;
    type IntoIter = Iter;

    fn into_iter(self) -> Iter {
        self.iter()
    }
}
