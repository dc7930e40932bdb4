//! Blocks of pairs: the frames of a full sync, compressed together.
//!
//! Invariant: neither side needs more than [`MOST_UNPACKED`] bytes for the contents of a block,
//! whatever its peer sends, and a block is always shorter than its contents.

use crate::protocol::wire::{self, Broken, broken, code, short};
use commonhold::raw::RawFrame;
use lz4_flex::block::{compress_into, decompress_into, get_maximum_output_size};

/// The most bytes of the frames in a block.
pub(crate) const MOST_UNPACKED: usize = 256 << 10;
/// Bytes of the value before the compressed ones: the length of the contents.
const LENGTH: usize = 4;

/// Bytes of the pairs of full syncs.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct SyncBytes {
    /// Their frames.
    pub(crate) pairs: u64,
    /// The same on the wire.
    pub(crate) wire: u64,
}

impl SyncBytes {
    /// Counts frames and their bytes on the wire.
    pub(crate) fn add(&mut self, pairs: usize, wire: usize) {
        self.pairs += pairs as u64;
        self.wire += wire as u64;
    }
}

/// Replaces whole PAIR frames by one block of them, unless it would not be shorter.
pub(crate) fn pack(frames: &mut Vec<u8>, offset: u64) {
    if !(RawFrame::HEADER..=MOST_UNPACKED).contains(&frames.len()) {
        return;
    }
    let mut value = vec![0; LENGTH + get_maximum_output_size(frames.len())];
    value[..LENGTH].copy_from_slice(&(frames.len() as u32).to_le_bytes());
    let Ok(compressed) = compress_into(frames, &mut value[LENGTH..]) else { return };
    value.truncate(LENGTH + compressed);
    let whole = (RawFrame::HEADER + value.len()).next_multiple_of(8);
    if whole < frames.len() {
        frames.clear();
        wire::put(frames, code::PACKED, offset, &[], &value);
    }
}

/// The frames in a block of this value.
///
/// # Errors
/// The fault of the block.
pub(crate) fn unpack(value: &[u8]) -> Result<Unpacked, Broken> {
    let Some(length) = short(value, 0).map(|length| length as usize) else {
        return broken(format!("sent a compressed block of {} bytes", value.len()));
    };
    if !(RawFrame::HEADER..=MOST_UNPACKED).contains(&length) {
        return broken(format!(
            "announces a compressed block with {length} bytes of pairs; expected {} to \
             {MOST_UNPACKED}",
            RawFrame::HEADER
        ));
    }
    let compressed = &value[LENGTH..];
    if compressed.len() >= length {
        return broken(format!(
            "sent a compressed block of {} bytes for {length} bytes of pairs; expected fewer",
            compressed.len()
        ));
    }
    let mut frames = vec![0; length];
    match decompress_into(compressed, &mut frames) {
        Ok(found) if found == length => Ok(Unpacked { frames, used: 0 }),
        Ok(found) => broken(format!(
            "sent a compressed block with {found} bytes of pairs, but announced {length}"
        )),
        Err(error) => broken(format!("sent a compressed block that is damaged: {error}")),
    }
}

/// The contents of a block.
pub(crate) struct Unpacked {
    frames: Vec<u8>,
    used: usize,
}

impl Unpacked {
    /// The number of its bytes.
    pub(crate) fn len(&self) -> usize {
        self.frames.len()
    }

    /// The next pair, which must have this offset; `None` at the end.
    ///
    /// # Errors
    /// The bytes are not whole PAIR frames of this offset.
    pub(crate) fn next_pair(&mut self, offset: u64) -> Result<Option<RawFrame<'_>>, Broken> {
        let rest = &self.frames[self.used..];
        if rest.is_empty() {
            return Ok(None);
        }
        let whole = RawFrame::stated_length(rest).and_then(|len| rest.get(..len));
        let Some(frame) = whole.and_then(RawFrame::decode) else {
            return broken("sent a compressed block with an invalid frame");
        };
        self.used += whole.map_or(0, <[u8]>::len);
        if frame.code != code::PAIR {
            return broken(format!(
                "sent a compressed block with an unexpected frame (code {:#x})",
                frame.code
            ));
        }
        if frame.offset != offset {
            return broken(format!(
                "sent a compressed block with offset {} after {offset}",
                frame.offset
            ));
        }
        Ok(Some(frame))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Frames with these values.
    fn frames<'a>(values: impl IntoIterator<Item = &'a [u8]>) -> Vec<u8> {
        let mut frames = Vec::new();
        for value in values {
            wire::put(&mut frames, code::PAIR, 8, b"key", value);
        }
        frames
    }

    fn packed(frames: &[u8]) -> Vec<u8> {
        let mut packed = frames.to_vec();
        pack(&mut packed, 8);
        packed
    }

    /// The frames in a block, again as bytes.
    fn unpacked(block: &[u8]) -> Vec<u8> {
        let block = RawFrame::decode(block).unwrap();
        assert_eq!((block.code, block.offset), (code::PACKED, 8));
        let (mut found, mut bytes) = (unpack(block.value).unwrap(), Vec::new());
        while let Some(frame) = found.next_pair(8).unwrap() {
            frame.encode_into(&mut bytes).unwrap();
        }
        bytes
    }

    #[test]
    fn pairs_come_back_from_a_shorter_block() {
        let values: Vec<Vec<u8>> = (0..500usize).map(|len| vec![len as u8; len]).collect();
        for count in [10, 100, 500] {
            let frames = frames(values[..count].iter().map(Vec::as_slice));
            let block = packed(&frames);
            assert!(block.len() < frames.len(), "{count}");
            assert_eq!(unpacked(&block), frames, "{count}");
        }
        let largest = frames([&[7; MOST_UNPACKED - 48][..]]);
        assert_eq!(largest.len(), MOST_UNPACKED);
        assert_eq!(unpacked(&packed(&largest)), largest);
    }

    #[test]
    fn what_does_not_get_shorter_stays() {
        let random: Vec<u8> = (0..2000).map(|_| fastrand::u8(..)).collect();
        for frames in [frames([]), frames([&random[..]]), frames([&[7; MOST_UNPACKED - 40][..]])] {
            assert_eq!(packed(&frames), frames);
        }
    }
}
