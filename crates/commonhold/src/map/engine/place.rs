//! The place of one pair that a handle on it remembers. It is validated at each use.
//!
//! A record is identified by its slot's word and its sequence: sequences are unique in the hold, so
//! both together prove that the record is the key's, as in a lookup. A pair in the index proves by
//! its key whose it is. Neither needs a look at the directory: no key of a split's child changes
//! before the parent's slot is cleared. A writer looks at the directory under the lock, as always.
//!
//! All memory that a place names existed when it was noted, and no part of the file goes away. A
//! segment stays a segment, of this map or of another one.
//!
//! # Safety
//! A place keeps addresses. It is used only with the view of the map in which they were found: that
//! is compared first. The handle that keeps the place keeps the map, and so the mapping.
#![allow(unsafe_code)]

use crate::map::engine::bound::Bound;
use crate::map::engine::change::{Act, Outcome};
use crate::map::engine::directory;
use crate::map::engine::in_place::{self, Spot};
use crate::map::engine::read::{self, Hit};
use crate::map::engine::short_act::ShortAct;
use crate::map::engine::short_inline;
use crate::map::layout::hash::Hash;
use crate::map::layout::inline::{Inline, packed};
use crate::map::layout::packing::{Packing, parts};
use crate::map::layout::record::{Record, SeenRecord, slot_word};
use crate::map::layout::segment::Segment;
use crate::map::layout::words::NotedWord;
use crate::memory::arena::Arena;
use crate::memory::copy;
use crate::memory::lane::ANYTHING;
use crate::steps::step;
use crate::sync::space::Space;
use std::ptr::NonNull;
use std::sync::atomic::{AtomicU64, Ordering};

/// A key and its hash.
#[derive(Clone, Copy)]
pub(crate) struct Key<'k> {
    pub(crate) hash: Hash,
    pub(crate) bytes: &'k [u8],
}

/// The place of a key's pair when it was found.
#[derive(Clone, Copy)]
pub(crate) struct Place {
    /// Address of the view of the map in which it was found.
    bound: usize,
    /// The hash of its key in that map: a map of the same name may have another seed.
    hash: Hash,
    segment: u64,
    position: u32,
    slot: NonNull<AtomicU64>,
    found: Found,
}

// SAFETY: it points to atomics of the mapped file.
unsafe impl Send for Place {}

/// How the pair lies at its place.
#[derive(Clone, Copy)]
enum Found {
    /// In a record, whose slot has this word.
    Record {
        word: u64,
        seen: SeenRecord,
        /// The length of its value if that may change in place, or 0.
        short_len: u32,
    },
    /// In the slot itself.
    Word(NotedWord),
    /// In a cell of the bucket.
    Cell,
}

/// A value as it lies at a place.
pub(crate) enum Value<'v, 'a> {
    Record(&'v Record<'a>),
    Bytes(&'v [u8]),
}

impl Value<'_, '_> {
    /// Copies as much of the value as fits. Returns its length.
    #[inline(always)]
    pub(crate) fn read<B: copy::Byte>(&self, out: &mut [B]) -> usize {
        match self {
            Value::Record(record) => record.read_value(out),
            Value::Bytes(bytes) => {
                copy::fill(bytes, out);
                bytes.len()
            }
        }
    }

    #[inline(always)]
    pub(crate) fn append(&self, out: &mut Vec<u8>) {
        match self {
            Value::Record(record) => record.append_value(out),
            Value::Bytes(bytes) => copy::extend(bytes, out),
        }
    }
}

fn address(bound: &Bound) -> usize {
    std::ptr::from_ref(bound).addr()
}

impl Place {
    /// The place of a record that a lookup has found. `None` if it is not worth remembering: the
    /// pairs of a cache expire.
    pub(crate) fn of_record(bound: &Bound, hash: Hash, hit: &Hit<'_>) -> Option<Place> {
        let (segment, position) = hit.place();
        if bound.is_cache() || !directory::is_segment(hit.space(), segment) {
            return None;
        }
        let (record, word) = (&hit.record, slot_word(hit.record.offset, hash));
        let may_change = bound.is_plain && record.has_short_value();
        let short_len = if may_change { record.value_len } else { 0 };
        let found = Found::Record { word, seen: record.seen(), short_len };
        Place::new(hit.space(), bound, hash, (segment, position), found)
    }

    /// The place of a pair in the index. `None` if it is not there, or was not found at once.
    pub(crate) fn in_index(
        space: &Space,
        bound: &Bound,
        inline: &Inline,
        key: Key<'_>,
    ) -> Option<Place> {
        let segment = directory::lookup_own(space, bound, key.hash.directory())?;
        let position = packed!(inline, packing => packing.find(segment, key.hash, key.bytes)?.0);
        let found = match inline {
            Inline::Words(words) => Found::Word(words.note(position, key.bytes)),
            Inline::Cells(_) => Found::Cell,
        };
        Place::new(space, bound, key.hash, (segment.offset, position), found)
    }

    fn new(
        space: &Space,
        bound: &Bound,
        hash: Hash,
        (segment, position): (u64, u32),
        found: Found,
    ) -> Option<Place> {
        let slot = NonNull::from(Segment::at(space, segment)?.slot(position));
        Some(Place { bound: address(bound), hash, segment, position, slot, found })
    }

    #[inline(always)]
    fn slot<'a>(&self, _: &'a Space) -> &'a AtomicU64 {
        // SAFETY: the slot existed, and the mapping lives as long as the space.
        unsafe { self.slot.as_ref() }
    }

    /// Copies the value. `None` if the pair is no longer there, or if the map is gone.
    #[inline(always)]
    pub(crate) fn read<R>(
        &self,
        space: &Space,
        bound: &Bound,
        key: &[u8],
        copy: impl FnOnce(Value<'_, '_>) -> R,
    ) -> Option<R> {
        if self.bound != address(bound) {
            return None;
        }
        let taken = match &self.found {
            Found::Record { word, seen, .. } => self.read_record(space, *word, seen, copy)?,
            Found::Word(noted) => {
                // Acquire pairs with the release of the commit. An empty slot does not match.
                let word = self.slot(space).load(Ordering::Acquire);
                copy(Value::Bytes(&noted.value(word)?[..]))
            }
            Found::Cell => self.read_cell(space, bound, key, copy)?,
        };
        bound.is_current(space).then_some(taken)
    }

    #[inline(always)]
    fn read_record<R>(
        &self,
        space: &Space,
        word: u64,
        seen: &SeenRecord,
        copy: impl FnOnce(Value<'_, '_>) -> R,
    ) -> Option<R> {
        let slot = self.slot(space);
        // Acquire pairs with the release that committed the slot. The slot first: a record that it
        // does not name may have no memory.
        if slot.load(Ordering::Acquire) != word {
            return None;
        }
        let record = seen.again(space);
        // Acquire pairs with the release of the sequence, should it not be the one that was seen.
        if record.state_word().load(Ordering::Acquire) != record.sequence {
            return None;
        }
        step!("read.found");
        let taken = copy(Value::Record(&record));
        step!("read.copied");
        read::unchanged(slot, word, &record).then_some(taken)
    }

    #[inline(never)]
    fn read_cell<R>(
        &self,
        space: &Space,
        bound: &Bound,
        key: &[u8],
        copy: impl FnOnce(Value<'_, '_>) -> R,
    ) -> Option<R> {
        let Some(Inline::Cells(cells)) = &bound.inline else { return None };
        let pair = self.pair(space, cells, key)?;
        Some(copy(Value::Bytes(parts(cells, &pair).1)))
    }

    /// The pair in the index, if it has this key.
    #[inline(always)]
    fn pair<P: Packing>(&self, space: &Space, packing: &P, key: &[u8]) -> Option<P::Pair> {
        let segment = Segment::at(space, self.segment)?;
        packing.at(segment, self.position).filter(|pair| packing.has_key(pair, key))
    }

    /// Changes the pair without waiting for anything. `None` if nothing was done, and the ordinary
    /// way has to do it.
    #[inline(always)]
    pub(crate) fn try_change<'v, A: ShortAct + Into<Act<'v>>>(
        &self,
        arena: &Arena,
        bound: &Bound,
        key: &[u8],
        act: A,
    ) -> Option<Outcome> {
        if self.bound != address(bound) || !bound.has_short_changes {
            return None;
        }
        let segment = Segment::at(&arena.space, self.segment)?;
        let Found::Record { word, seen, short_len } = &self.found else {
            let place = (segment, self.position);
            let (key, act): (_, Act<'v>) = ((self.hash, key), act.into());
            return packed!(bound.inline.as_ref()?, packing => {
                short_inline::try_apply_at(arena, bound, packing, place, key, act)
            });
        };
        if act.short_len()? != *short_len {
            return None;
        }
        let lane = arena.try_enter_preferred(ANYTHING)?;
        let (position, slot) = (self.position, self.slot(&arena.space));
        let spot = Spot { slot, word: *word, position, record: seen.again(&arena.space) };
        in_place::change(&lane, bound, segment, self.hash, spot, act)
    }
}
