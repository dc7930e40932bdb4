//! Which change ends at a position: what two streams of the same number have in common up to there.
//!
//! A hold that was restored from an old copy, and is written on, has the same stream with other
//! changes. The change that ends at a position tells the two apart: its checksum covers its key,
//! its value and its offset.

use crate::error::Result;
use crate::stream::follow::Follower;
use crate::stream::frame::{HEADER, RawFrame};
use crate::stream::position::StreamPosition;

/// The most bytes that are searched at first for the beginning of a change.
const FIRST: u64 = 4 << 10;
/// How many times each byte is read at most, on average.
const MOST_READINGS: usize = 64;

/// The change that ends at a position.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Proof {
    /// Bytes of its frame.
    pub bytes: u32,
    /// The frame's checksum.
    pub sum: u32,
}

/// The change that ends at a position of the follower's stream. `None` if the stream no longer has
/// it, or begins there, or if no change ends there.
///
/// # Errors
/// `Closed`.
pub fn proof_at(follower: Follower, position: StreamPosition) -> Result<Option<Proof>> {
    follower.arena().ensure_open()?;
    if follower.position().stream != position.stream || position.offset > follower.tail() {
        return Ok(None);
    }
    let end = position.offset;
    let kept = follower.tail().saturating_sub(follower.ring().size());
    // A larger change is a gap.
    let most = (end.saturating_sub(kept)).min(follower.ring().size() / 4 + HEADER as u64);
    let mut len = FIRST.min(most);
    loop {
        if let Some(proof) = search(&follower, end, len / 8 * 8) {
            let kept =
                follower.seek(StreamPosition { offset: end - u64::from(proof.bytes), ..position });
            return Ok(kept.is_ok().then_some(proof));
        }
        if len >= most {
            return Ok(None);
        }
        len = (len * 4).min(most);
    }
}

/// Searches the `len` bytes before `end`. A value may contain bytes that look like the beginnings
/// of frames, each of which costs a checksum over all that follows; so the search gives up when it
/// has read [`MOST_READINGS`] times as many bytes.
fn search(follower: &Follower, end: u64, len: u64) -> Option<Proof> {
    let mut bytes = Vec::new();
    follower.ring().append_around(end - len, len, &mut bytes);
    let whole = bytes.len();
    let mut starts = (0..=whole.checked_sub(HEADER)?).rev().step_by(8);
    let mut left = MOST_READINGS * whole;
    let proof = |start: usize| {
        let frame = &bytes[start..];
        let offset = end - frame.len() as u64;
        let stated = frame.get(8..16)?.try_into().ok().map(u64::from_le_bytes)?;
        if RawFrame::stated_length(frame)? != frame.len() || stated != offset {
            return None;
        }
        left = left.checked_sub(frame.len())?;
        RawFrame::decode(frame)?;
        let sum = frame.get(4..8)?.try_into().ok().map(u32::from_le_bytes)?;
        Some(Proof { bytes: u32::try_from(frame.len()).ok()?, sum })
    };
    starts.find_map(proof)
}
