//! The message in the place of changes that a replica does not want: it moves the replica's
//! position past them.
//!
//! Invariant: as in [`wire`](crate::protocol::wire), the decoded bytes are hostile.

use crate::protocol::introduction::{proof_bytes, read_proof};
use crate::protocol::wire::{self, Broken, broken, code, long};
use commonhold::raw::{Proof, RawFrame};

/// The most bytes of the stream that one message passes over: a large change, and the changes
/// before it.
const MOST: u64 = 1 << 33;

/// See the module.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Skip {
    /// The offset where the first of the changes begins.
    pub(crate) from: u64,
    /// The offset where the last of them ends.
    pub(crate) to: u64,
    /// The last of them.
    pub(crate) last: Proof,
}

impl Skip {
    /// Bytes of the message.
    pub(crate) const FRAME: usize = RawFrame::HEADER + 16;

    pub(crate) fn put(&self, out: &mut Vec<u8>) {
        let mut value = self.to.to_le_bytes().to_vec();
        value.extend(proof_bytes(Some(self.last)));
        wire::put(out, code::SKIP, self.from, &[], &value);
    }

    /// `None` if the frame is no such message.
    ///
    /// # Errors
    /// It moves back, or too far, or passes over something else than whole changes.
    pub(crate) fn read(frame: &RawFrame<'_>) -> Result<Option<Skip>, Broken> {
        let (value, from) = (frame.value, frame.offset);
        if (frame.code, value.len()) != (code::SKIP, 16) {
            return Ok(None);
        }
        let (Some(to), Some(Some(last))) = (long(value, 0), read_proof(value, 8)) else {
            return broken(format!("sent a SKIP at offset {from} without a last change"));
        };
        let bytes = to.saturating_sub(from);
        if bytes == 0 {
            return broken(format!("sent a SKIP from offset {from} back to {to}"));
        }
        if bytes > MOST {
            return broken(format!(
                "sent a SKIP from offset {from} to {to}; the maximum is {MOST} bytes"
            ));
        }
        let is_change = last.bytes as usize >= RawFrame::HEADER && last.bytes.is_multiple_of(8);
        if !is_change || u64::from(last.bytes) > bytes || !bytes.is_multiple_of(8) {
            return broken(format!(
                "sent a SKIP from offset {from} to {to} with a last change of {} bytes",
                last.bytes
            ));
        }
        Ok(Some(Skip { from, to, last }))
    }

    /// The message in these bytes of a whole frame, if they are one.
    pub(crate) fn of_bytes(frame: &[u8]) -> Option<Skip> {
        let frame = Some(frame).filter(|frame| frame.len() == Skip::FRAME)?;
        Skip::read(&RawFrame::decode(frame)?).ok().flatten()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn skips_are_read_as_they_were_written() {
        let last = Proof { bytes: 48, sum: 9 };
        let skip = Skip { from: 800, to: 8000, last };
        let mut bytes = Vec::new();
        skip.put(&mut bytes);
        assert_eq!(bytes.len(), Skip::FRAME);
        let frame = RawFrame::decode(&bytes).unwrap();
        assert_eq!(Skip::read(&frame), Ok(Some(skip)));
        assert_eq!(Skip::of_bytes(&bytes), Some(skip));
        assert_eq!(Skip::read(&RawFrame { code: code::TIME, ..frame }), Ok(None));
        bytes[44] ^= 1;
        assert_eq!(Skip::of_bytes(&bytes), None);
    }

    #[test]
    fn skips_that_cannot_be_are_named() {
        let wrong = |to: u64, bytes: u32| {
            let skip = Skip { from: 800, to, last: Proof { bytes, sum: 9 } };
            let mut bytes = Vec::new();
            skip.put(&mut bytes);
            let Broken(why) = Skip::read(&RawFrame::decode(&bytes).unwrap()).unwrap_err();
            assert_eq!(Skip::of_bytes(&bytes), None);
            why
        };
        assert!(wrong(800, 48).contains("from offset 800 back to 800"));
        assert!(wrong(792, 48).contains("from offset 800 back to 792"));
        assert!(wrong(0, 48).contains("back to 0"));
        assert!(wrong(u64::MAX - 7, 48).contains("the maximum is 8589934592 bytes"));
        assert!(wrong(840, 48).contains("a last change of 48 bytes"));
        assert!(wrong(880, 32).contains("a last change of 32 bytes"));
        assert!(wrong(880, 44).contains("a last change of 44 bytes"));
        assert!(wrong(877, 48).contains("from offset 800 to 877"));
        assert!(wrong(880, 0).contains("without a last change"));
    }
}
