//! What a mutation asks for: one rule, one act, so that every operation is the same few steps.

use crate::stream::frame::ChangeKind;

/// When the act happens.
#[derive(Clone, Copy)]
pub(crate) enum Rule<'a> {
    Always,
    /// Only if the key is absent.
    Absent,
    /// Only if the key is present.
    Present,
    /// Only if the value is this, or if the key is absent.
    Equals(Option<&'a [u8]>),
    /// Only if the record has this sequence, or if the key is absent.
    Sequence(Option<u64>),
}

/// What happens.
#[derive(Clone, Copy)]
pub(crate) enum Act<'a> {
    Put(&'a [u8]),
    /// Adds to the 8-byte little-endian number that the value is; absent counts as 0.
    Add(i64),
    Delete,
}

/// One mutation of one key.
#[derive(Clone, Copy)]
pub(crate) struct Change<'a> {
    pub(crate) key: &'a [u8],
    pub(crate) rule: Rule<'a>,
    /// Only if the key is present, at this position of its segment.
    pub(crate) at: Option<u32>,
    pub(crate) act: Act<'a>,
    pub(crate) expiry: Expiry,
    /// Whether the stream tells of it: a pair that only goes elsewhere is no change for who follows.
    pub(crate) tells: bool,
    /// What the stream calls it if the key goes.
    pub(crate) removal: ChangeKind,
}

/// Cache mode: when the pair expires.
#[derive(Clone, Copy)]
pub(crate) enum Expiry {
    /// After the map's own time to live.
    Own,
    /// After so many milliseconds.
    After(u64),
    /// At this time on the hold clock; 0 for never.
    At(u64),
}

impl<'a> Change<'a> {
    pub(crate) fn new(key: &'a [u8], rule: Rule<'a>, act: Act<'a>) -> Change<'a> {
        let (expiry, removal) = (Expiry::Own, ChangeKind::Delete);
        Change { key, rule, at: None, act, expiry, tells: true, removal }
    }

    /// True if the key, found at this position or not at all, is where it is to be.
    #[inline]
    pub(crate) fn is_there(&self, found: Option<u32>) -> bool {
        self.at.is_none() || self.at == found
    }
}

/// What a mutation did.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Outcome {
    /// The rule held and the act happened.
    pub(crate) done: bool,
    /// Where the key is (24 hash bits << 8 | position), if it is.
    pub(crate) uid: u32,
    /// The sum, after an addition.
    pub(crate) number: i64,
}

/// The sum after adding to a value; `None` if the value is not 8 bytes.
pub(crate) fn add(value: &[u8], by: i64) -> Option<i64> {
    Some(i64::from_le_bytes(value.try_into().ok()?).wrapping_add(by))
}
