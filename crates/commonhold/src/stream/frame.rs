//! One change as bytes: in the ring, on the wire, in a journal.
//!
//! 40 bytes, all little-endian, then key, value, and zeros up to a multiple of 8:
//!
//! | at | | |
//! |---|---|---|
//! | 0 | u32 | bytes of the whole frame |
//! | 4 | u32 | CRC-32 (IEEE) of all that follows |
//! | 8 | u64 | position: the offset of this frame in its stream |
//! | 16 | u64 | when the pair expires, in milliseconds since 1970; 0 for never |
//! | 24 | u32 | bytes of the key |
//! | 28 | u32 | bytes of the value |
//! | 32 | u32 | kind |
//! | 36 | u32 | 0 |
//!
//! A frame contains the state after the change, never an operation, so applying it twice does no
//! harm.

use crate::error::{Error, ErrorKind, Result};
use crc32fast::hash as crc32;

/// Bytes before the key.
pub(crate) const HEADER: usize = 40;

/// The kind of change of a key.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[cfg_attr(feature = "serde", derive(serde::Serialize), serde(rename_all = "lowercase"))]
#[non_exhaustive]
#[repr(u32)]
pub enum ChangeKind {
    /// It has this value now.
    Set = 1,
    /// It was deleted.
    Delete = 2,
    /// Its time to live ended (cache mode).
    Expire = 3,
    /// It was evicted to make room for others (cache mode).
    Evict = 4,
    /// It was deleted together with all keys.
    Clear = 5,
    /// Some key was changed in a way that is too large for the stream: a follower must read the map
    /// itself.
    Gap = 6,
}

impl ChangeKind {
    fn from_code(code: u32) -> Option<ChangeKind> {
        use ChangeKind::*;
        [Set, Delete, Expire, Evict, Clear, Gap].into_iter().find(|kind| *kind as u32 == code)
    }
}

/// One change of a map, as its stream contains it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct StreamFrame<'a> {
    /// The kind of change.
    pub kind: ChangeKind,
    /// The changed key; empty for a [`Gap`](ChangeKind::Gap).
    pub key: &'a [u8],
    /// The value, if it was set.
    pub value: &'a [u8],
    /// When the pair expires, in milliseconds since 1970 by its writer's clock at the change; 0 for
    /// never.
    pub expires_ms: u64,
    /// The offset in the stream at which the frame begins.
    pub offset: u64,
    /// The offset at which the frame ends and the next one begins.
    pub end: u64,
}

/// Encodes a frame, except for the fields that [`seal`] fills in. `parts` appends the key, then the
/// value, and returns the key's length.
pub(crate) fn encode(
    frame: &mut Vec<u8>,
    kind: ChangeKind,
    expires_ms: u64,
    parts: impl FnOnce(&mut Vec<u8>) -> usize,
) {
    frame.clear();
    frame.resize(HEADER, 0);
    let key = parts(frame);
    let value = frame.len() - HEADER - key;
    frame.resize(frame.len().next_multiple_of(8), 0);
    let len = frame.len() as u32;
    put(frame, 0, len);
    frame[16..24].copy_from_slice(&expires_ms.to_le_bytes());
    put(frame, 24, key as u32);
    put(frame, 28, value as u32);
    put(frame, 32, kind as u32);
}

/// The same in memory that consists of zeros and has the length of the frame.
#[inline(always)]
pub(crate) fn fill(frame: &mut [u8], kind: ChangeKind, expires_ms: u64, key: &[u8], value: &[u8]) {
    put(frame, 0, frame.len() as u32);
    frame[16..24].copy_from_slice(&expires_ms.to_le_bytes());
    put(frame, 24, key.len() as u32);
    put(frame, 28, value.len() as u32);
    put(frame, 32, kind as u32);
    let (to_key, rest) = frame[HEADER..].split_at_mut(key.len());
    to_key.copy_from_slice(key);
    rest[..value.len()].copy_from_slice(value);
}

/// Turns a frame into one that reports a gap, which is shorter.
#[cold]
pub(crate) fn gap(frame: &mut [u8]) -> &mut [u8] {
    let frame = &mut frame[..HEADER];
    frame.fill(0);
    fill(frame, ChangeKind::Gap, 0, &[], &[]);
    frame
}

/// Completes a frame that will begin at `offset`.
pub(crate) fn seal(frame: &mut [u8], offset: u64) {
    frame[8..16].copy_from_slice(&offset.to_le_bytes());
    let sum = crc32(&frame[8..]);
    put(frame, 4, sum);
}

fn put(frame: &mut [u8], at: usize, value: u32) {
    frame[at..at + 4].copy_from_slice(&value.to_le_bytes());
}

/// The bytes of the key, and whether the frame reports a gap, of a whole header.
pub(crate) fn key_and_gap(header: &[u8]) -> (u32, bool) {
    (get(header, 24), get(header, 32) == ChangeKind::Gap as u32)
}

fn get(frame: &[u8], at: usize) -> u32 {
    u32::from_le_bytes(frame[at..at + 4].try_into().unwrap_or_default())
}

fn get_long(frame: &[u8], at: usize) -> u64 {
    u64::from_le_bytes(frame[at..at + 8].try_into().unwrap_or_default())
}

/// The length in a header, if it belongs to the frame at `offset`.
pub(crate) fn length(header: &[u8], offset: u64) -> Option<u64> {
    let len = u64::from(get(header, 0));
    let sound = len >= HEADER as u64 && len.is_multiple_of(8) && get_long(header, 8) == offset;
    sound.then_some(len)
}

/// A frame with any contents: a change or, between an origin and a replica, another message.
/// `docs/reference/wire.md` lists the codes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct RawFrame<'a> {
    /// The code of the message: the number of a [`ChangeKind`], or a code from 256 on.
    pub code: u32,
    /// The first part.
    pub key: &'a [u8],
    /// The second part.
    pub value: &'a [u8],
    /// When the pair expires, in milliseconds since 1970; 0 for never.
    pub expires_ms: u64,
    /// The offset in the stream at which the frame begins.
    pub offset: u64,
}

impl RawFrame<'_> {
    /// Bytes before the key.
    pub const HEADER: usize = HEADER;

    /// The bytes of the whole frame according to its header, of which the first four bytes suffice.
    /// `None` if no frame has that length.
    pub fn stated_length(header: &[u8]) -> Option<usize> {
        let len = u32::from_le_bytes(header.get(..4)?.try_into().ok()?);
        (len >= HEADER as u32 && len.is_multiple_of(8)).then_some(len as usize)
    }

    /// The same if all lengths in a whole header agree.
    pub fn plausible_length(header: &[u8]) -> Option<usize> {
        let len = RawFrame::stated_length(header).filter(|_| header.len() >= HEADER)?;
        let contents = u64::from(get(header, 24)) + u64::from(get(header, 28));
        let agree = (HEADER as u64 + contents).next_multiple_of(8) == len as u64;
        (agree && get(header, 36) == 0).then_some(len)
    }

    /// The frame's checksum, as its header states it.
    pub fn stated_sum(header: &[u8]) -> Option<u32> {
        Some(u32::from_le_bytes(header.get(4..8)?.try_into().ok()?))
    }

    /// Whether a frame contains a change; its header suffices.
    pub fn tells_change(header: &[u8]) -> bool {
        header.len() >= HEADER && ChangeKind::from_code(get(header, 32)).is_some()
    }

    /// Appends the frame.
    ///
    /// # Errors
    /// `TooLarge` if it would have 2^32 bytes or more.
    pub fn encode_into(&self, out: &mut Vec<u8>) -> Result<()> {
        let len = HEADER as u64 + self.key.len() as u64 + self.value.len() as u64;
        let Ok(len) = u32::try_from(len.next_multiple_of(8)) else {
            let text = format!("a pair of {len} bytes is too large for a frame of a stream");
            return Err(Error::new(ErrorKind::TooLarge, text));
        };
        let start = out.len();
        out.resize(start + HEADER, 0);
        out.extend_from_slice(self.key);
        out.extend_from_slice(self.value);
        out.resize(start + len as usize, 0);
        let frame = &mut out[start..];
        put(frame, 0, len);
        frame[16..24].copy_from_slice(&self.expires_ms.to_le_bytes());
        put(frame, 24, self.key.len() as u32);
        put(frame, 28, self.value.len() as u32);
        put(frame, 32, self.code);
        seal(frame, self.offset);
        Ok(())
    }

    /// The bytes of the whole frame.
    #[allow(clippy::len_without_is_empty)] // None is empty.
    pub fn len(&self) -> usize {
        (HEADER + self.key.len() + self.value.len()).next_multiple_of(8)
    }

    /// The frame in these bytes, which it must fill. `None` unless it is whole and valid.
    pub fn decode(bytes: &[u8]) -> Option<RawFrame<'_>> {
        if bytes.len() < HEADER {
            return None;
        }
        let offset = get_long(bytes, 8);
        let whole = length(bytes, offset) == Some(bytes.len() as u64);
        if !whole || get(bytes, 4) != crc32(&bytes[8..]) {
            return None;
        }
        let (key, value) = (get(bytes, 24) as usize, get(bytes, 28) as usize);
        let (key_end, end) =
            (HEADER.checked_add(key)?, HEADER.checked_add(key)?.checked_add(value)?);
        let fits = end.next_multiple_of(8) == bytes.len() && get(bytes, 36) == 0;
        fits.then(|| RawFrame {
            code: get(bytes, 32),
            key: &bytes[HEADER..key_end],
            value: &bytes[key_end..end],
            expires_ms: get_long(bytes, 16),
            offset,
        })
    }
}

impl<'a> RawFrame<'a> {
    /// The change in this frame, if it contains one.
    pub fn change(&self) -> Option<StreamFrame<'a>> {
        let len = self.len();
        Some(StreamFrame {
            kind: ChangeKind::from_code(self.code)?,
            key: self.key,
            value: self.value,
            expires_ms: self.expires_ms,
            offset: self.offset,
            end: self.offset.checked_add(len as u64)?,
        })
    }
}

impl StreamFrame<'_> {
    /// The frame in these bytes, which it must fill. `None` unless it is whole and valid.
    pub fn decode(bytes: &[u8]) -> Option<StreamFrame<'_>> {
        RawFrame::decode(bytes)?.change()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn frame(key: &[u8], value: &[u8]) -> Vec<u8> {
        let mut frame = Vec::new();
        encode(&mut frame, ChangeKind::Set, 77, |out| {
            out.extend_from_slice(key);
            out.extend_from_slice(value);
            key.len()
        });
        seal(&mut frame, 4096);
        frame
    }

    #[test]
    fn frames_come_back() {
        for (key, value) in [("", ""), ("k", ""), ("", "v"), ("apple", "a value of 20 bytes!")] {
            let bytes = frame(key.as_bytes(), value.as_bytes());
            let found = StreamFrame::decode(&bytes).unwrap();
            assert_eq!((found.key, found.value), (key.as_bytes(), value.as_bytes()));
            assert_eq!((found.kind, found.expires_ms), (ChangeKind::Set, 77));
            assert_eq!((found.offset, found.end), (4096, 4096 + bytes.len() as u64));
            assert_eq!(length(&bytes, 4096), Some(bytes.len() as u64));
            assert_eq!(length(&bytes, 4088), None);
        }
    }

    #[test]
    fn frames_of_other_kinds_come_back_and_report_no_change() {
        let frame =
            RawFrame { code: 0x201, key: b"one", value: b"and two", expires_ms: 5, offset: 64 };
        let mut bytes = vec![1, 2, 3];
        frame.encode_into(&mut bytes).unwrap();
        let bytes = &bytes[3..];
        assert_eq!(RawFrame::stated_length(bytes), Some(bytes.len()));
        assert_eq!(RawFrame::decode(bytes), Some(frame));
        assert_eq!((frame.change(), StreamFrame::decode(bytes)), (None, None));
    }

    #[test]
    fn a_flipped_bit_is_noticed_wherever_it_is() {
        let bytes = frame(b"apple", b"3");
        for bit in 0..bytes.len() * 8 {
            let mut damaged = bytes.clone();
            damaged[bit / 8] ^= 1 << (bit % 8);
            assert_eq!(StreamFrame::decode(&damaged), None, "bit {bit}");
        }
        for len in 0..bytes.len() {
            assert_eq!(StreamFrame::decode(&bytes[..len]), None, "{len} bytes");
        }
    }
}
