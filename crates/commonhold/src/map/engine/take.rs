//! Values that a lookup copies out of the record that it finds.
//!
//! A lookup has a short path and a patient one, and both copy. These are types and not closures, so
//! that the copy is compiled into the short path in any case.

use crate::map::engine::cache;
use crate::map::engine::read::Hit;
use crate::map::options::Uid;
use crate::memory::copy::{self, Byte};

/// Copies something out of a record. It may run several times; only the last result counts.
pub(crate) trait Take {
    type Taken;
    fn take(&mut self, hit: &Hit<'_>) -> Self::Taken;

    /// The same of a pair that is kept in the index: its uid and its value.
    fn take_packed(&mut self, uid: Uid, value: &[u8]) -> Self::Taken;
}

/// As much of the value as fits; the value's length.
pub(crate) struct ReadValue<'o, B>(pub(crate) &'o mut [B]);

impl<B: Byte> Take for ReadValue<'_, B> {
    type Taken = usize;
    #[inline(always)]
    fn take(&mut self, hit: &Hit<'_>) -> usize {
        hit.record.read_value(self.0)
    }

    #[inline(always)]
    fn take_packed(&mut self, _: Uid, value: &[u8]) -> usize {
        copy::fill(value, self.0);
        value.len()
    }
}

/// The value, in place of everything after the first `start` bytes of `out`.
pub(crate) struct AppendValue<'o> {
    pub(crate) out: &'o mut Vec<u8>,
    pub(crate) start: usize,
}

impl Take for AppendValue<'_> {
    type Taken = ();
    #[inline(always)]
    fn take(&mut self, hit: &Hit<'_>) {
        self.out.truncate(self.start);
        hit.record.append_value(self.out);
    }

    #[inline(always)]
    fn take_packed(&mut self, _: Uid, value: &[u8]) {
        self.out.truncate(self.start);
        copy::extend(value, self.out);
    }
}

/// The value, behind everything in the vector. For the short way alone: it takes at most once.
pub(crate) struct Append<'o>(pub(crate) &'o mut Vec<u8>);

impl Take for Append<'_> {
    type Taken = ();
    #[inline(always)]
    fn take(&mut self, hit: &Hit<'_>) {
        hit.record.append_value(self.0);
    }

    #[inline(always)]
    fn take_packed(&mut self, _: Uid, value: &[u8]) {
        copy::extend(value, self.0);
    }
}

/// The value, in place of everything in the vector; the sequence of the record, 0 if the value is
/// not in a record.
pub(crate) struct ValueAndSequence<'o>(pub(crate) &'o mut Vec<u8>);

impl Take for ValueAndSequence<'_> {
    type Taken = u64;
    #[inline]
    fn take(&mut self, hit: &Hit<'_>) -> u64 {
        self.0.clear();
        hit.record.append_value(self.0);
        hit.record.sequence
    }

    fn take_packed(&mut self, _: Uid, value: &[u8]) -> u64 {
        self.0.clear();
        self.0.extend_from_slice(value);
        0
    }
}

/// The place of the pair: 24 hash bits and the position in the segment.
pub(crate) struct ReadUid;

impl Take for ReadUid {
    type Taken = Uid;
    #[inline(always)]
    fn take(&mut self, hit: &Hit<'_>) -> Uid {
        Uid(hit.record.directory() << 8 | hit.position)
    }

    #[inline(always)]
    fn take_packed(&mut self, uid: Uid, _: &[u8]) -> Uid {
        uid
    }
}

/// When the pair expires, by the hold's clock in milliseconds; 0 for never.
pub(crate) struct ReadExpiry;

impl Take for ReadExpiry {
    type Taken = u64;
    fn take(&mut self, hit: &Hit<'_>) -> u64 {
        hit.record.expiry()
    }

    fn take_packed(&mut self, _: Uid, _: &[u8]) -> u64 {
        0
    }
}

/// In a cache: something of a pair that has not expired.
pub(crate) struct Fresh<T> {
    pub(crate) of: T,
    /// The reader participates, so it may mark the pair as recently used.
    pub(crate) marks: bool,
}

impl<T: Take> Take for Fresh<T> {
    type Taken = Option<T::Taken>;
    #[inline(always)]
    fn take(&mut self, hit: &Hit<'_>) -> Option<T::Taken> {
        let taken = self.of.take(hit);
        let fresh = !cache::is_expired(hit.space(), &hit.record);
        if fresh && self.marks {
            hit.mark_visited();
        }
        fresh.then_some(taken)
    }

    /// The pairs of a cache are records.
    fn take_packed(&mut self, uid: Uid, value: &[u8]) -> Option<T::Taken> {
        Some(self.of.take_packed(uid, value))
    }
}
