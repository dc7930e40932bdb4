//! [`PairHandle`]: a handle on one pair.
//!
//! # Safety
//! A reference to the remembered place ends before another one is remembered.

use crate::error::Result;
use crate::map::api::handle::Map;
use crate::map::engine::bound::Bound;
use crate::map::engine::change::{Act, Outcome};
use crate::map::engine::place::{Key, Place, Value};
use crate::map::engine::read::Hit;
use crate::map::engine::short_act::{Add, Put, ShortAct, When};
use crate::map::engine::take::{AppendValue, ReadUid, ReadValue, Take};
use crate::map::layout::hash::Hash;
use crate::map::options::Uid;
use std::cell::Cell;
use std::fmt;
use std::mem::MaybeUninit;

/// A handle on one pair of a map, for a key that a thread reads or writes often.
///
/// It hashes the key once and remembers where the pair is. Each operation checks that the pair is
/// still there: a few loads, instead of a lookup. If anything has changed (the pair was deleted or
/// created again, the map has grown, the pair has moved), the operation looks the key up and
/// remembers the new place. So every operation has the effect and the guarantees of the same
/// operation of the [`Map`], with any number of readers and writers in any processes.
///
/// Reads of any value are faster. Writes are faster in fixed-length maps whose pairs have at most
/// 32 bytes, and in general maps in memory if the value has 1, 2, 4 or 8 bytes, keeps its length,
/// and begins in its record at a multiple of it: the key's length is then such a multiple, too. All
/// other operations, and those of caches, take the ordinary way.
///
/// The key need not be present. The handle belongs to one thread at a time; each thread clones its
/// own.
///
/// ```
/// # let dir = std::env::temp_dir().join(format!("commonhold-pair-{}", std::process::id()));
/// # std::fs::create_dir_all(&dir).unwrap();
/// # let hold = commonhold::Hold::open_or_create(&dir.join("it.hold"))?;
/// use commonhold::map::MapOptions;
///
/// let gauges = hold.maps().open_or_create("gauges", MapOptions::general())?;
/// let pressure = gauges.pair("pressure")?;
/// assert_eq!(pressure.get()?, None);
/// pressure.set(1.25f64.to_le_bytes())?;
/// assert_eq!(pressure.get()?.as_deref(), Some(&1.25f64.to_le_bytes()[..]));
///
/// let requests = gauges.pair("requests")?;
/// assert_eq!(requests.increment(1)?, 1);
/// # drop((pressure, requests, gauges, hold));
/// # std::fs::remove_dir_all(&dir).unwrap();
/// # Ok::<(), commonhold::Error>(())
/// ```
#[derive(Clone)]
pub struct PairHandle {
    map: Map,
    key: Box<[u8]>,
    place: Cell<Option<Place>>,
}

impl fmt::Debug for PairHandle {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let pair = &mut f.debug_struct("PairHandle");
        pair.field("map", &self.map).field("key", &self.key).finish_non_exhaustive()
    }
}

impl Map {
    /// A handle on the pair with this key, which may be absent.
    ///
    /// # Errors
    /// `Closed`; `TooLarge`; `Invalid` for a length that differs from a fixed-length map's.
    pub fn pair(&self, key: impl AsRef<[u8]>) -> Result<PairHandle> {
        let key = key.as_ref();
        self.begin_read(key)?;
        Ok(PairHandle { map: self.clone(), key: key.into(), place: Cell::new(None) })
    }
}

impl PairHandle {
    /// The key.
    pub fn key(&self) -> &[u8] {
        &self.key
    }

    /// The map.
    pub fn map(&self) -> &Map {
        &self.map
    }

    /// As [`Map::get`].
    ///
    /// # Errors
    /// Those of [`Map::get`].
    #[inline]
    pub fn get(&self) -> Result<Option<Vec<u8>>> {
        let mut value = Vec::new();
        Ok(self.get_into(&mut value)?.then_some(value))
    }

    /// As [`Map::get_into`].
    ///
    /// # Errors
    /// Those of [`Map::get`].
    #[inline]
    pub fn get_into(&self, out: &mut Vec<u8>) -> Result<bool> {
        out.clear();
        match self.read(|value| value.append(out)) {
            Some(()) => Ok(true),
            None => self.find_into(out),
        }
    }

    /// As [`Map::get_uninit`].
    ///
    /// # Errors
    /// Those of [`Map::get`].
    #[inline]
    pub fn get_uninit(&self, out: &mut [MaybeUninit<u8>]) -> Result<Option<usize>> {
        match self.read(|value| value.read(out)) {
            Some(len) => Ok(Some(len)),
            None => self.find_uninit(out),
        }
    }

    /// Copies the value at the place that it remembers. `None` if it is no longer there.
    #[inline(always)]
    fn read<R>(&self, copy: impl FnOnce(Value<'_, '_>) -> R) -> Option<R> {
        let place = self.place()?;
        if self.map.arena.was_closed() {
            return None;
        }
        place.read(self.map.space(), &self.map.bound, &self.key, copy)
    }

    /// As [`Map::set`].
    ///
    /// # Errors
    /// Those of [`Map::set`].
    #[inline]
    pub fn set(&self, value: impl AsRef<[u8]>) -> Result<Uid> {
        self.change(Put(value.as_ref()), |done| Uid(done.uid))
    }

    /// As [`Map::increment`].
    ///
    /// # Errors
    /// Those of [`Map::increment`].
    #[inline]
    pub fn increment(&self, by: i64) -> Result<i64> {
        self.change(Add(by), |done| done.number)
    }

    /// As [`Map::update`].
    ///
    /// # Errors
    /// Those of [`Map::set`].
    pub fn update(
        &self,
        change: impl FnMut(Option<&[u8]>) -> Option<Vec<u8>>,
    ) -> Result<Option<Uid>> {
        self.map.update(&self.key, change)
    }

    /// As [`Map::delete`].
    ///
    /// # Errors
    /// Those of [`Map::set`].
    pub fn delete(&self) -> Result<bool> {
        self.map.delete(&self.key)
    }

    #[inline(always)]
    fn change<'v, A: ShortAct + Into<Act<'v>>, R>(
        &self,
        act: A,
        result: impl Fn(Outcome) -> R,
    ) -> Result<R> {
        match self.try_change(act) {
            Some(done) => Ok(result(done)),
            None => self.change_elsewhere(act).map(result),
        }
    }

    #[inline(always)]
    fn try_change<'v, A: ShortAct + Into<Act<'v>>>(&self, act: A) -> Option<Outcome> {
        self.place()?.try_change(&self.map.arena, &self.map.bound, &self.key, act)
    }

    /// The place that it remembers.
    #[inline(always)]
    #[allow(unsafe_code)]
    fn place(&self) -> Option<&Place> {
        // SAFETY: only `look_up` sets it, and no caller keeps the reference that long. The handle
        // belongs to one thread at a time.
        unsafe { &*self.place.as_ptr() }.as_ref()
    }

    /// Changes the pair where it is now. If nothing helps, the map's own way returns the error.
    #[inline(never)]
    fn change_elsewhere<'v, A: ShortAct + Into<Act<'v>>>(&self, act: A) -> Result<Outcome> {
        if self.may_change_at_its_place(act.short_len())
            && self.find().is_ok()
            && let Some(done) = self.try_change(act)
        {
            return Ok(done);
        }
        self.map.change(&self.key, When::Always, act, |outcome| outcome)
    }

    /// False if a lookup before the change would be in vain. In a cache it would also count.
    fn may_change_at_its_place(&self, len: Option<u32>) -> bool {
        let bound: &Bound = &self.map.bound;
        let is_aligned = |len: u32| self.key.len() & (len as usize - 1) == 0;
        let fits = bound.inline.is_some() || (bound.is_plain && len.is_some_and(is_aligned));
        bound.has_short_changes && !bound.is_cache() && fits
    }

    #[inline(never)]
    fn find_into(&self, out: &mut Vec<u8>) -> Result<bool> {
        let found = self.look_up(|bound, key, place| {
            out.clear();
            let of = AppendValue { out: &mut *out, start: 0 };
            self.map.lookup(bound, key, Remember { of, place, bound, hash: key.0 })
        })?;
        if found.is_none() {
            out.clear();
        }
        Ok(found.is_some())
    }

    #[inline(never)]
    fn find_uninit(&self, out: &mut [MaybeUninit<u8>]) -> Result<Option<usize>> {
        self.look_up(|bound, key, place| {
            let of = ReadValue(&mut *out);
            self.map.lookup(bound, key, Remember { of, place, bound, hash: key.0 })
        })
    }

    fn find(&self) -> Result<Option<Uid>> {
        self.look_up(|bound, key, place| {
            self.map.lookup(bound, key, Remember { of: ReadUid, place, bound, hash: key.0 })
        })
    }

    /// Looks the key up the ordinary way and remembers the place that was found last. It hashes the
    /// key for the map that is read: a map that replaces a replica's may have another seed.
    fn look_up<R>(
        &self,
        mut look: impl FnMut(&Bound, (Hash, &[u8]), &Cell<Option<Place>>) -> Result<Option<R>>,
    ) -> Result<Option<R>> {
        self.place.set(None);
        self.map.begin_read(&self.key)?;
        let space = self.map.space();
        self.map.bound.read(space, |bound| {
            let (hash, bytes) = (bound.hasher.hash(&self.key), &self.key[..]);
            let place = Cell::new(None);
            let found = look(bound, (hash, bytes), &place)?;
            if found.is_some() {
                self.place.set(match &bound.inline {
                    Some(inline) => Place::in_index(space, bound, inline, Key { hash, bytes }),
                    None => place.get(),
                });
            }
            Ok(found)
        })
    }
}

/// Takes something out of a record, and notes where the record is.
struct Remember<'p, T> {
    of: T,
    place: &'p Cell<Option<Place>>,
    bound: &'p Bound,
    hash: Hash,
}

impl<T: Take> Take for Remember<'_, T> {
    type Taken = T::Taken;

    fn take(&mut self, hit: &Hit<'_>) -> T::Taken {
        self.place.set(Place::of_record(self.bound, self.hash, hit));
        self.of.take(hit)
    }

    fn take_packed(&mut self, uid: Uid, value: &[u8]) -> T::Taken {
        self.of.take_packed(uid, value)
    }
}
