//! The acts of a change that goes the short way, each a type of its own, so that the compiler
//! specializes the code for it.

use crate::map::engine::bound::Bound;
use crate::map::engine::change::Act;
use crate::map::layout::record::Record;
use crate::map::layout::segment::Segment;
use crate::map::layout::short_value::ShortValue;

/// The conditions that the short way knows.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) enum When {
    Always,
    Absent,
    Present,
}

/// The act of a change.
pub(crate) trait ShortAct: Copy {
    /// The new value as it is written before the lock; `None` to remove the pair.
    fn value(&self) -> Option<&[u8]>;

    /// The length of the new value, if it may replace a short value in place.
    fn short_len(&self) -> Option<u32>;

    /// The value that replaces the short one of `old`, which has that length, and the sum; under
    /// the lock.
    fn in_place(&self, old: &Record<'_>) -> Option<(ShortValue, i64)>;

    /// Completes the new value under the lock. `None` leaves the change to the patient way.
    fn complete(&self, draft: Draft<'_>, old: Option<&Record<'_>>) -> Option<i64>;

    /// The new value for the stream; `number` has the bytes of the sum.
    fn completed<'a>(&'a self, number: &'a [u8; 8]) -> &'a [u8];
}

/// A new record that is not published yet.
pub(crate) struct Draft<'a> {
    pub(super) bound: &'a Bound,
    pub(super) segment: Segment<'a>,
    pub(super) offset: u64,
    pub(super) key: &'a [u8],
    /// The record, if it has a checksum.
    pub(super) record: Option<&'a Record<'a>>,
}

#[derive(Clone, Copy)]
pub(crate) struct Put<'a>(pub(crate) &'a [u8]);

impl ShortAct for Put<'_> {
    #[inline(always)]
    fn value(&self) -> Option<&[u8]> {
        Some(self.0)
    }

    #[inline(always)]
    fn short_len(&self) -> Option<u32> {
        ShortValue::len_of(self.0)
    }

    #[inline(always)]
    fn in_place(&self, _: &Record<'_>) -> Option<(ShortValue, i64)> {
        Some((ShortValue::new(self.0)?, 0))
    }

    #[inline(always)]
    fn complete(&self, _: Draft<'_>, _: Option<&Record<'_>>) -> Option<i64> {
        Some(0)
    }

    #[inline(always)]
    fn completed<'a>(&'a self, _: &'a [u8; 8]) -> &'a [u8] {
        self.0
    }
}

#[derive(Clone, Copy)]
pub(crate) struct Remove;

impl ShortAct for Remove {
    #[inline(always)]
    fn value(&self) -> Option<&[u8]> {
        None
    }

    #[inline(always)]
    fn short_len(&self) -> Option<u32> {
        None
    }

    fn in_place(&self, _: &Record<'_>) -> Option<(ShortValue, i64)> {
        None
    }

    #[inline(always)]
    fn complete(&self, _: Draft<'_>, _: Option<&Record<'_>>) -> Option<i64> {
        Some(0)
    }

    #[inline(always)]
    fn completed<'a>(&'a self, _: &'a [u8; 8]) -> &'a [u8] {
        &[]
    }
}

#[derive(Clone, Copy)]
pub(crate) struct Add(pub(crate) i64);

impl ShortAct for Add {
    #[inline(always)]
    fn value(&self) -> Option<&[u8]> {
        Some(&[0; 8])
    }

    #[inline(always)]
    fn short_len(&self) -> Option<u32> {
        Some(8)
    }

    #[inline(always)]
    fn in_place(&self, old: &Record<'_>) -> Option<(ShortValue, i64)> {
        let sum = self.sum(old)?;
        Some((ShortValue::number(sum), sum))
    }

    #[inline(always)]
    fn complete(&self, draft: Draft<'_>, old: Option<&Record<'_>>) -> Option<i64> {
        let sum = match old {
            Some(old) => self.sum(old)?,
            None => self.0,
        };
        let Draft { bound, segment, offset, key, record } = draft;
        bound.shape.rewrite_short(segment.space, offset, key.len(), sum.to_le_bytes())?;
        if let Some(record) = record {
            record.resum(key, &sum.to_le_bytes());
        }
        Some(sum)
    }

    #[inline(always)]
    fn completed<'a>(&'a self, number: &'a [u8; 8]) -> &'a [u8] {
        number
    }
}

impl Add {
    #[inline(always)]
    fn sum(&self, old: &Record<'_>) -> Option<i64> {
        let mut number = [0; 8];
        let is_number = old.value_len == 8 && old.read_value(&mut number) == 8;
        is_number.then(|| i64::from_le_bytes(number).wrapping_add(self.0))
    }
}

impl<'a> From<Put<'a>> for Act<'a> {
    fn from(Put(value): Put<'a>) -> Act<'a> {
        Act::Put(value)
    }
}

impl From<Remove> for Act<'_> {
    fn from(_: Remove) -> Self {
        Act::Delete
    }
}

impl From<Add> for Act<'_> {
    fn from(Add(by): Add) -> Self {
        Act::Add(by)
    }
}
