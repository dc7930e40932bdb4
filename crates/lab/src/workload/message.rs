//! A self-verifying message: its number, its due time, and a filling that is a function of both. A
//! receiver so detects messages that are lost, duplicated, out of order or torn.
//!
//! | bytes | what |
//! |---|---|
//! | 0..8 | number in the channel, from 0 on |
//! | 8..16 | when it was due, in nanoseconds of the common clock; 0 if it is not timed, [`LAST`] if none follows |
//! | 16.. | filling: words, the last one cut off |
//!
//! Invariant: [`Message::read`] detects a wrong byte anywhere in a message.

/// The minimum size of a message: it has one word of filling.
pub const LEAST_BYTES: u64 = 24;
/// The due time that marks the last message of all.
pub const LAST: u64 = u64::MAX;

/// Bytes of a message of the workloads that have rivals.
pub const BYTES: usize = 32;

/// The bytes of such a message, which is not timed.
#[inline]
pub fn untimed(number: u64) -> [u8; BYTES] {
    let mut bytes = [0; BYTES];
    Message { number, due_ns: 0 }.write(&mut bytes);
    bytes
}

/// The contents of a message.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Message {
    /// Its number.
    pub number: u64,
    /// Its due time.
    pub due_ns: u64,
}

impl Message {
    /// Writes it into `out`, which has the length of the message.
    #[inline]
    pub fn write(self, out: &mut [u8]) {
        let (head, filling) = out.split_at_mut(16);
        head[..8].copy_from_slice(&self.number.to_le_bytes());
        head[8..].copy_from_slice(&self.due_ns.to_le_bytes());
        let mut word = self.first_word();
        let mut words = filling.chunks_exact_mut(8);
        for bytes in &mut words {
            bytes.copy_from_slice(&word.to_le_bytes());
            word = next(word);
        }
        let rest = words.into_remainder();
        rest.copy_from_slice(&word.to_le_bytes()[..rest.len()]);
    }

    /// Reads it; none if it is not message `number` with all its `len` bytes intact.
    #[inline]
    pub fn read(bytes: &[u8], len: usize, number: u64) -> Option<Message> {
        if bytes.len() != len || len < LEAST_BYTES as usize || word_at(bytes, 0) != number {
            return None;
        }
        let message = Message { number, due_ns: word_at(bytes, 8) };
        let mut word = message.first_word();
        let words = bytes[16..].chunks_exact(8);
        let rest = words.remainder();
        let mut wrong = 0;
        for bytes in words {
            wrong |= u64::from_le_bytes(bytes.try_into().expect("a chunk is a word")) ^ word;
            word = next(word);
        }
        (wrong == 0 && *rest == word.to_le_bytes()[..rest.len()]).then_some(message)
    }

    #[inline]
    fn first_word(self) -> u64 {
        (self.number ^ self.due_ns.rotate_left(32)).wrapping_mul(0x9e37_79b9_7f4a_7c15)
    }
}

#[inline]
fn next(word: u64) -> u64 {
    word.wrapping_add(0xd6e8_feb8_6659_fd93)
}

#[inline]
fn word_at(bytes: &[u8], at: usize) -> u64 {
    u64::from_le_bytes(bytes[at..at + 8].try_into().expect("eight bytes are a word"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn any_wrong_byte_is_noticed() {
        for len in [24, 29, 32, 100] {
            let message = Message { number: 7, due_ns: 1_000_000_007 };
            let mut bytes = vec![0; len];
            message.write(&mut bytes);
            assert_eq!(Message::read(&bytes, len, 7), Some(message));
            assert_eq!(Message::read(&bytes, len, 8), None, "another number");
            assert_eq!(Message::read(&bytes[..len - 1], len, 7), None, "a byte short");
            for at in 0..len {
                bytes[at] ^= 4;
                assert_eq!(Message::read(&bytes, len, 7), None, "byte {at} of {len}");
                bytes[at] ^= 4;
            }
        }
    }
}
