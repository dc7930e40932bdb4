//! The backup file: a header line, then frames, each with a checksum.
//!
//! Frame: kind (1 byte) | length of the payload (8, little-endian) | payload | rapidhash V3 of
//! kind, length and payload (8). Kinds: `H` the hold (size limit, mode of the file, real time),
//! first; `M` a map (number, mode, name), `S` a segment image (map number, prefix, depth, pairs)
//! that replaces all of its hash range, `D` a map that was dropped after all, `E` the end (number
//! of frames). docs/reference/format.md describes it byte for byte.

use crate::error::{Error, ErrorKind, Result};
use crate::map::engine::image::ImagePair;
use crate::map::options::MapMode;
use rapidhash::v3::{DEFAULT_RAPID_SECRETS, rapidhash_v3_seeded};
use std::io::Read;

/// The first bytes of a backup.
pub(crate) const HEADER: &[u8; 16] = b"COMMONHOLD-BAK1\n";

/// A frame's contents.
pub(crate) enum Frame {
    /// `made_ms`: real time when the backup was made; 0 if the file does not contain it.
    Hold {
        max_bytes: u64,
        mode: u32,
        made_ms: u64,
    },
    Map {
        number: u32,
        mode: MapMode,
        name: String,
    },
    Segment {
        number: u32,
        prefix: u32,
        depth: u32,
        pairs: Vec<ImagePair>,
    },
    Dropped {
        number: u32,
    },
    End {
        frames: u64,
    },
}

fn put(out: &mut Vec<u8>, value: u64) {
    out.extend_from_slice(&value.to_le_bytes());
}

/// Appends the image of a segment as a frame. Real time is `ahead` of the hold's clock: other holds
/// read the backup.
pub(crate) fn segment(
    out: &mut Vec<u8>,
    number: u32,
    range: (u32, u32),
    pairs: &[ImagePair],
    ahead: u64,
) {
    let mut payload = Vec::new();
    for value in [u64::from(number), u64::from(range.0), u64::from(range.1), pairs.len() as u64] {
        put(&mut payload, value);
    }
    for pair in pairs {
        let lengths = (pair.key.len() as u64) << 32 | pair.value.len() as u64;
        let expiry = if pair.expiry == 0 { 0 } else { pair.expiry.wrapping_add(ahead).max(1) };
        for value in [u64::from(pair.directory), expiry, lengths] {
            put(&mut payload, value);
        }
        payload.extend_from_slice(&pair.key);
        payload.extend_from_slice(&pair.value);
    }
    seal(out, b'S', &payload);
}

/// Appends the first frame.
pub(crate) fn hold(out: &mut Vec<u8>, max_bytes: u64, mode: u32, made_ms: u64) {
    let mut payload = Vec::new();
    put(&mut payload, max_bytes);
    put(&mut payload, u64::from(mode));
    put(&mut payload, made_ms);
    seal(out, b'H', &payload);
}

/// Appends a map's frame.
pub(crate) fn map(out: &mut Vec<u8>, number: u32, mode: MapMode, name: &str) {
    let mut payload = Vec::new();
    let fields = match mode {
        MapMode::General => [0, 0, 0, 0],
        MapMode::Fixed { key_bytes, value_bytes } => [1, key_bytes.into(), value_bytes.into(), 0],
        MapMode::Cache { max_bytes, max_entries, ttl_ms } => {
            let [bytes, entries, ttl] =
                [max_bytes, max_entries, ttl_ms].map(Option::unwrap_or_default);
            [2, bytes, entries, ttl]
        }
    };
    put(&mut payload, u64::from(number));
    for field in fields {
        put(&mut payload, field);
    }
    payload.extend_from_slice(name.as_bytes());
    seal(out, b'M', &payload);
}

/// Appends the frame of a map that was dropped after its frame was written.
pub(crate) fn dropped(out: &mut Vec<u8>, number: u32) {
    seal(out, b'D', &u64::from(number).to_le_bytes());
}

/// Appends the last frame.
pub(crate) fn end(out: &mut Vec<u8>, frames: u64) {
    seal(out, b'E', &frames.to_le_bytes());
}

fn seal(out: &mut Vec<u8>, kind: u8, payload: &[u8]) {
    let start = out.len();
    out.push(kind);
    put(out, payload.len() as u64);
    out.extend_from_slice(payload);
    let sum = rapidhash_v3_seeded(&out[start..], &DEFAULT_RAPID_SECRETS);
    put(out, sum);
}

/// Reads frames from a backup.
pub(crate) struct Reader<R> {
    from: R,
    /// Bytes left in the file: no frame can be longer.
    left: u64,
    name: String,
}

impl<R: Read> Reader<R> {
    /// # Errors
    /// `NotAHold` if it is not a backup.
    pub(crate) fn new(mut from: R, len: u64, name: String) -> Result<Reader<R>> {
        let mut header = [0; HEADER.len()];
        if from.read_exact(&mut header).is_err() || &header != HEADER {
            let text = format!("{name}: not a backup made by 'hold backup'; choose another file");
            return Err(Error::new(ErrorKind::NotAHold, text));
        }
        Ok(Reader { from, left: len.saturating_sub(HEADER.len() as u64), name })
    }

    /// The next frame.
    ///
    /// # Errors
    /// `Truncated` if the file ends within it, `Damaged` if its checksum or its contents are wrong.
    pub(crate) fn next(&mut self) -> Result<Frame> {
        let mut bytes = vec![0; 9];
        self.fill(&mut bytes)?;
        let len = u64::from_le_bytes(bytes[1..9].try_into().unwrap_or_default());
        if len.checked_add(8).is_none_or(|needed| needed > self.left) {
            return Err(self.truncated());
        }
        bytes.resize(9 + len as usize + 8, 0);
        let (start, end) = (9, bytes.len() - 8);
        let mut body = std::mem::take(&mut bytes);
        self.fill(&mut body[start..])?;
        let sum = u64::from_le_bytes(body[end..].try_into().unwrap_or_default());
        if sum != rapidhash_v3_seeded(&body[..end], &DEFAULT_RAPID_SECRETS) {
            return Err(self.damaged());
        }
        parse(body[0], &body[start..end]).ok_or_else(|| self.damaged())
    }

    fn fill(&mut self, buffer: &mut [u8]) -> Result<()> {
        self.left = self.left.saturating_sub(buffer.len() as u64);
        match self.from.read_exact(buffer) {
            Ok(()) => Ok(()),
            Err(e) if e.kind() == std::io::ErrorKind::UnexpectedEof => Err(self.truncated()),
            Err(e) => Err(Error::os(&self.name, &e)),
        }
    }

    fn truncated(&self) -> Error {
        let text = format!("{}: the backup is truncated; use another one", self.name);
        Error::new(ErrorKind::Truncated, text)
    }

    pub(crate) fn damaged(&self) -> Error {
        let text = format!("{}: the backup is damaged; use another one", self.name);
        Error::new(ErrorKind::Damaged, text)
    }
}

fn take(from: &mut &[u8]) -> Option<u64> {
    let (head, tail) = from.split_first_chunk::<8>()?;
    *from = tail;
    Some(u64::from_le_bytes(*head))
}

fn take_bytes(from: &mut &[u8], len: u64) -> Option<Vec<u8>> {
    let (head, tail) = from.split_at_checked(usize::try_from(len).ok()?)?;
    *from = tail;
    Some(head.to_vec())
}

fn parse(kind: u8, mut payload: &[u8]) -> Option<Frame> {
    let from = &mut payload;
    let number = take(from)?;
    match kind {
        b'E' => return Some(Frame::End { frames: number }),
        b'H' => {
            let mode = u32::try_from(take(from)?).ok()?;
            let made_ms = take(from).unwrap_or(0);
            return Some(Frame::Hold { max_bytes: number, mode, made_ms });
        }
        _ => {}
    }
    let number = u32::try_from(number).ok()?;
    match kind {
        b'D' => Some(Frame::Dropped { number }),
        b'M' => {
            let [mode, a, b, c] = [take(from)?, take(from)?, take(from)?, take(from)?];
            let mode = match mode {
                0 => MapMode::General,
                1 => MapMode::Fixed {
                    key_bytes: u32::try_from(a).ok()?,
                    value_bytes: u32::try_from(b).ok()?,
                },
                2 => MapMode::cache([a, b, c]),
                _ => return None,
            };
            Some(Frame::Map { number, mode, name: String::from_utf8(from.to_vec()).ok()? })
        }
        b'S' => {
            let [prefix, depth, count] = [take(from)?, take(from)?, take(from)?];
            let mut pairs = Vec::new();
            for _ in 0..count {
                pairs.push(parse_pair(from)?);
            }
            let (prefix, depth) = (u32::try_from(prefix).ok()?, u32::try_from(depth).ok()?);
            (depth <= 24).then_some(Frame::Segment { number, prefix, depth, pairs })
        }
        _ => None,
    }
}

fn parse_pair(from: &mut &[u8]) -> Option<ImagePair> {
    let [directory, expiry, lengths] = [take(from)?, take(from)?, take(from)?];
    let key = take_bytes(from, lengths >> 32)?;
    let value = take_bytes(from, lengths & 0xffff_ffff)?;
    Some(ImagePair { directory: directory as u32, expiry, key, value })
}
