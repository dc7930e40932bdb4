//! Keys and values: the bytes of a number, in the forms that the workloads use.

use serde::{Deserialize, Serialize};

/// A way to write numbers as keys and as values.
pub trait Form {
    /// The key of a number, perhaps written to `room`.
    fn key<'a>(&'a self, number: u64, room: &'a mut Vec<u8>) -> &'a [u8];

    /// The value of a number, likewise.
    fn value<'a>(&'a self, number: u64, room: &'a mut Vec<u8>) -> &'a [u8] {
        self.key(number, room)
    }
}

/// Four bytes, big-endian: ascending numbers are ascending bytes, which suits ordered trees best.
#[derive(Clone, Copy, Debug)]
pub struct Ascending;

impl Form for Ascending {
    #[inline]
    fn key<'a>(&'a self, number: u64, room: &'a mut Vec<u8>) -> &'a [u8] {
        room.clear();
        room.extend_from_slice(&(number as u32).to_be_bytes());
        room
    }
}

/// The digits of the numbers below a limit, written beforehand: writing them is not measured.
pub struct Decimal(Vec<String>);

impl Decimal {
    /// The digits of the numbers below `limit`.
    pub fn below(limit: u64) -> Decimal {
        Decimal((0..limit).map(|number| number.to_string()).collect())
    }
}

impl Form for Decimal {
    #[inline]
    fn key<'a>(&'a self, number: u64, _room: &'a mut Vec<u8>) -> &'a [u8] {
        self.0[number as usize].as_bytes()
    }
}

/// Bytes of chosen lengths, the lowest byte of the number first, then zeros.
#[derive(Clone, Copy, Debug, Serialize, Deserialize)]
pub struct Padded {
    /// Bytes of a key.
    pub key_size: usize,
    /// Bytes of a value.
    pub value_size: usize,
}

impl Padded {
    /// Whether this number of keys can differ from each other.
    pub fn tells_apart(self, keys: u64) -> bool {
        let bits = u32::try_from(self.key_size * 8).unwrap_or(u32::MAX);
        bits >= u64::BITS || keys <= 1 << bits
    }
}

impl Form for Padded {
    #[inline]
    fn key<'a>(&'a self, number: u64, room: &'a mut Vec<u8>) -> &'a [u8] {
        fill(number, self.key_size, room)
    }

    #[inline]
    fn value<'a>(&'a self, number: u64, room: &'a mut Vec<u8>) -> &'a [u8] {
        fill(number, self.value_size, room)
    }
}

#[inline]
fn fill(number: u64, size: usize, out: &mut Vec<u8>) -> &[u8] {
    // Eight bytes at once and a cut are much cheaper than a copy of a length known only here.
    out.clear();
    out.extend_from_slice(&number.to_le_bytes());
    if size <= 8 {
        out.truncate(size);
    } else {
        out.resize(size, 0);
    }
    out
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_are_written_in_their_form() {
        let mut room = Vec::new();
        assert_eq!(Ascending.key(258, &mut room), [0, 0, 1, 2]);
        assert_eq!(Ascending.value(!258, &mut room), [255, 255, 254, 253]);
        assert_eq!(Decimal::below(10_000).key(9_990, &mut room), b"9990");
        let padded = Padded { key_size: 12, value_size: 2 };
        assert_eq!(padded.key(0x0102, &mut room), [2, 1, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0]);
        assert_eq!(padded.value(0x0102, &mut room), [2, 1]);
    }

    #[test]
    fn keys_differ_as_long_as_they_fit() {
        let form = |key_size| Padded { key_size, value_size: 0 };
        assert!(form(1).tells_apart(256) && !form(1).tells_apart(257));
        assert!(!form(0).tells_apart(2) && form(9).tells_apart(u64::MAX));
    }
}
