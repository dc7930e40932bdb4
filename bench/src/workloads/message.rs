//! The message that the workloads send: 32 bytes that prove themselves.
//!
//! Invariant: no two messages are equal, and no piece of one fits into another, so that a receiver
//! detects messages that are lost, duplicated, out of order or torn.

/// Bytes of a message.
pub const BYTES: usize = 32;

/// A message.
pub type Message = [u8; BYTES];

/// The message of that number.
#[inline]
pub fn message(number: u64) -> Message {
    let mut bytes = [0; BYTES];
    for (at, word) in bytes.chunks_exact_mut(8).enumerate() {
        word.copy_from_slice(&number.wrapping_add((at as u64) << 56).to_le_bytes());
    }
    bytes
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_word_tells_its_number_and_its_place() {
        let (one, two) = (message(1), message(2));
        for at in (0..BYTES).step_by(8) {
            assert_ne!(one[at..at + 8], two[at..at + 8]);
            assert!(
                (0..BYTES).step_by(8).filter(|to| one[*to..to + 8] == one[at..at + 8]).count() == 1
            );
        }
    }
}
