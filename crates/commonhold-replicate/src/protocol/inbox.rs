//! Received bytes, and the frames in them.
//!
//! Invariant: it never needs more memory than twice the received bytes, and one receive.

use crate::protocol::skip::Skip;
use crate::protocol::wire::{Broken, broken};
use commonhold::raw::{Proof, RawFrame};
use std::ops::Range;

/// Bytes that were received and not used yet.
#[derive(Debug, Default)]
pub(crate) struct Inbox {
    bytes: Vec<u8>,
    used: usize,
}

impl Inbox {
    /// Takes the buffer, to receive more behind its contents; [`put`](Self::put) brings it back.
    pub(crate) fn take(&mut self) -> Vec<u8> {
        self.bytes.drain(..self.used);
        self.used = 0;
        std::mem::take(&mut self.bytes)
    }

    pub(crate) fn put(&mut self, buffer: Vec<u8>) {
        self.bytes = buffer;
    }

    /// The bytes that were not used yet.
    pub(crate) fn rest(&self) -> &[u8] {
        &self.bytes[self.used..]
    }

    /// Moves behind the next `bytes` bytes.
    pub(crate) fn advance(&mut self, bytes: usize) {
        self.used = (self.used + bytes).min(self.bytes.len());
    }

    /// The next frame, if all of it is there; moves behind it.
    ///
    /// # Errors
    /// The bytes do not begin a frame, or the frame has more than `most` bytes.
    pub(crate) fn next(&mut self, most: usize) -> Result<Option<RawFrame<'_>>, Broken> {
        Ok(self.next_with_sum(most)?.map(|(frame, _)| frame))
    }

    /// The same, with the frame's checksum.
    ///
    /// # Errors
    /// As for [`next`](Self::next).
    pub(crate) fn next_with_sum(
        &mut self,
        most: usize,
    ) -> Result<Option<(RawFrame<'_>, u32)>, Broken> {
        let Some(range) = self.whole(most)? else { return Ok(None) };
        self.used = range.end;
        let frame = &self.bytes[range];
        let sum = frame.get(4..8).and_then(|sum| sum.try_into().ok()).map_or(0, u32::from_le_bytes);
        match RawFrame::decode(frame) {
            Some(frame) => Ok(Some((frame, sum))),
            None => broken("sent a frame whose checksum is wrong"),
        }
    }

    /// How far the whole frames that are there lead, up to the end of the last change among them,
    /// and that change.
    pub(crate) fn changes(&self) -> (u64, Option<Proof>) {
        let (mut rest, mut passed, mut bytes, mut last) = (self.rest(), 0u64, 0, None);
        while let Some(len) = RawFrame::stated_length(rest).filter(|len| *len <= rest.len()) {
            let (frame, behind) = rest.split_at(len);
            if RawFrame::tells_change(frame) {
                passed = passed.saturating_add(len as u64);
                (bytes, last) = (passed, Some(frame));
            } else if let Some(skip) = Skip::of_bytes(frame) {
                passed = passed.saturating_add(skip.to - skip.from);
            }
            rest = behind;
        }
        let proof = |frame: &[u8]| {
            let sum = RawFrame::stated_sum(frame)?;
            Some(Proof { bytes: u32::try_from(frame.len()).ok()?, sum })
        };
        (bytes, last.and_then(proof))
    }

    /// The next frame, if all of it is there, and it is sound and wanted; moves behind it.
    pub(crate) fn next_if(
        &mut self,
        wanted: impl FnOnce(&RawFrame<'_>) -> bool,
    ) -> Option<RawFrame<'_>> {
        let range = self.whole(usize::MAX).ok().flatten()?;
        let frame = RawFrame::decode(&self.bytes[range.clone()]).filter(wanted)?;
        self.used = range.end;
        Some(frame)
    }

    fn whole(&self, most: usize) -> Result<Option<Range<usize>>, Broken> {
        let rest = self.rest();
        if rest.len() < 4 {
            return Ok(None);
        }
        match RawFrame::stated_length(rest) {
            None => broken("sent an invalid frame"),
            Some(len) if len > most => {
                broken(format!("announces a frame of {len} bytes; the maximum is {most}"))
            }
            Some(len) => Ok((len <= rest.len()).then(|| self.used..self.used + len)),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn frame(key: &[u8]) -> Vec<u8> {
        let mut bytes = Vec::new();
        let frame = RawFrame { code: 1, key, value: b"v", expires_ms: 0, offset: 8 };
        frame.encode_into(&mut bytes).unwrap();
        bytes
    }

    #[test]
    fn frames_come_in_any_pieces() {
        let all = [frame(b"a"), frame(b"bb"), frame(&[7; 100])].concat();
        for piece in 1..all.len() {
            let (mut inbox, mut keys) = (Inbox::default(), Vec::new());
            for part in all.chunks(piece) {
                let mut buffer = inbox.take();
                buffer.extend_from_slice(part);
                inbox.put(buffer);
                while let Some(frame) = inbox.next(1000).unwrap() {
                    keys.push(frame.key.to_vec());
                }
            }
            assert_eq!(keys, [b"a".to_vec(), b"bb".to_vec(), vec![7; 100]]);
            assert!(inbox.rest().is_empty());
        }
    }

    #[test]
    fn bytes_that_are_no_frame_break_the_connection() {
        let with = |bytes: &[u8]| {
            let mut inbox = Inbox::default();
            inbox.put(bytes.to_vec());
            inbox.next(64).map(|frame| frame.is_some())
        };
        assert!(with(&[0; 4]).unwrap_err().0.contains("invalid frame"));
        assert!(with(&[41, 0, 0, 0]).unwrap_err().0.contains("invalid frame"));
        assert!(with(&[72, 0, 0, 0]).unwrap_err().0.contains("72 bytes; the maximum is 64"));
        assert_eq!(with(&[64, 0, 0, 0]), Ok(false));
        let mut damaged = frame(b"a");
        damaged[44] ^= 1;
        assert!(with(&damaged).unwrap_err().0.contains("checksum"));
    }
}
