//! A request for a mutation: one rule and one act, so that every operation takes the same few
//! steps.

use crate::stream::frame::ChangeKind;

/// The condition of the act.
#[derive(Clone, Copy)]
pub(crate) enum Rule<'a> {
    Always,
    /// Only if the key is absent.
    Absent,
    /// Only if the key is present.
    Present,
    /// Only if the value equals this, or if the key is absent.
    Equals(Option<&'a [u8]>),
    /// Only if the record has this sequence and still this value, or if the key is absent.
    Unchanged(Option<(u64, &'a [u8])>),
}

/// The act itself.
#[derive(Clone, Copy)]
pub(crate) enum Act<'a> {
    Put(&'a [u8]),
    /// Adds to the value, an 8-byte little-endian number; an absent key counts as 0.
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
    /// Whether the change goes into the stream: a pair that only moves elsewhere is not a change
    /// for followers.
    pub(crate) streamed: bool,
    /// The kind of change in the stream if the key is removed.
    pub(crate) removal: ChangeKind,
    /// The expiry in the frame of another map's stream that the change comes from, in milliseconds
    /// since 1970. The map's own stream gets the same frame. An expired pair then counts as
    /// present, because its removal is a change of its own.
    pub(crate) replayed: Option<u64>,
}

/// Cache mode: when the pair expires.
#[derive(Clone, Copy)]
pub(crate) enum Expiry {
    /// After the map's own time to live.
    Own,
    /// After this many milliseconds.
    After(u64),
    /// At this time on the hold clock; 0 for never.
    At(u64),
}

impl<'a> Change<'a> {
    pub(crate) fn new(key: &'a [u8], rule: Rule<'a>, act: Act<'a>) -> Change<'a> {
        let (expiry, removal) = (Expiry::Own, ChangeKind::Delete);
        let (at, streamed, replayed) = (None, true, None);
        Change { key, rule, at, act, expiry, streamed, removal, replayed }
    }

    /// True if the key's position, `None` if it was not found, satisfies `at`.
    #[inline]
    pub(crate) fn is_there(&self, found: Option<u32>) -> bool {
        self.at.is_none() || self.at == found
    }
}

/// The result of a mutation.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Outcome {
    /// The rule was satisfied and the act happened.
    pub(crate) done: bool,
    /// The key's place (24 hash bits << 8 | position), if it has one.
    pub(crate) uid: u32,
    /// The sum, after an addition.
    pub(crate) number: i64,
}

/// The sum after adding to a value; `None` if the value is not 8 bytes.
pub(crate) fn add(value: &[u8], by: i64) -> Option<i64> {
    Some(i64::from_le_bytes(value.try_into().ok()?).wrapping_add(by))
}
