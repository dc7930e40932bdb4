//! A frame: the 8-byte header of a message, stored last, and its bytes.
//!
//! A header is `sequence << 32 | length << 2 | kind`, with only the low 32 bits of the sequence. It
//! is never zero: zero means that nothing has been sent here yet. A message does not straddle the
//! end of the ring; a filler without bytes of its own fills the rest. Frames begin at multiples of
//! 8.

/// Bytes of a header.
pub(super) const HEADER: u64 = 8;
const MESSAGE: u64 = 1;
const FILLER: u64 = 2;

/// The contents of a header.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Header {
    /// Nothing has been sent here yet.
    None,
    /// A message of `len` bytes.
    Message { len: u64 },
    /// The rest of this lap is empty.
    Filler,
    /// Not a header that belongs here.
    Wrong,
}

/// The header of message `sequence`.
pub(super) fn message(sequence: u64, len: u64) -> u64 {
    sequence << 32 | len << 2 | MESSAGE
}

/// The header of a filler before message `sequence`.
pub(super) fn filler(sequence: u64) -> u64 {
    sequence << 32 | FILLER
}

/// The low half of the sequence of a header that is not zero.
pub(super) fn low_sequence(word: u64) -> u32 {
    (word >> 32) as u32
}

/// Bytes of a frame with a message of `len` bytes: header and message, rounded up to 8.
#[inline(always)]
pub(super) fn bytes(len: u64) -> u64 {
    (HEADER + len + 7) & !7
}

/// The length in the header of message `sequence`; `None` for any other word. The caller checks
/// that the message ends with the ring or before.
#[inline(always)]
pub(super) fn message_len(word: u64, sequence: u64) -> Option<u64> {
    let is_message = low_sequence(word) == sequence as u32 && word & 3 == MESSAGE;
    is_message.then_some(word >> 2 & 0x3fff_ffff)
}

/// Decodes the word where message `sequence` is expected, `rest` bytes before the end of a ring of
/// `size` bytes.
#[inline]
pub(super) fn decode(word: u64, sequence: u64, rest: u64, size: u64) -> Header {
    if word == 0 {
        return Header::None;
    }
    if low_sequence(word) != sequence as u32 {
        return Header::Wrong;
    }
    let len = word >> 2 & 0x3fff_ffff;
    match word & 3 {
        MESSAGE if bytes(len) <= rest => Header::Message { len },
        FILLER if len == 0 && rest < size => Header::Filler,
        _ => Header::Wrong,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn headers_say_what_they_were_made_of() {
        for sequence in [0, 1, 7 << 32 | 0xffff_ffff] {
            for len in [0, 1, 8, 1 << 28] {
                let word = message(sequence, len);
                assert_eq!(decode(word, sequence, 1 << 30, 1 << 30), Header::Message { len });
                assert_eq!(decode(word, sequence + 1, 1 << 30, 1 << 30), Header::Wrong);
                assert_eq!(decode(word, sequence, len, 1 << 30), Header::Wrong);
                assert_eq!(low_sequence(word), sequence as u32);
                assert_eq!(message_len(word, sequence), Some(len));
                assert_eq!(message_len(word, sequence + 1), None);
            }
            assert_eq!(decode(filler(sequence), sequence, 8, 4096), Header::Filler);
            // A filler of a whole lap would send readers in a circle.
            assert_eq!(decode(filler(sequence), sequence, 4096, 4096), Header::Wrong);
        }
        assert_eq!(decode(0, 9, 8, 4096), Header::None);
        assert_eq!((message_len(0, 0), message_len(filler(7), 7)), (None, None));
        assert_eq!(decode(3, 0, 4096, 4096), Header::Wrong);
        assert_eq!((bytes(0), bytes(1), bytes(8), bytes(9)), (8, 16, 16, 24));
    }
}
