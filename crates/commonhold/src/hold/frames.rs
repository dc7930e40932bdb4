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

const KINDS: &[u8] = b"HMSDE";

/// The maximum length of a frame's contents. A longer frame is damaged, and is not read. Only an
/// image may have any length.
fn most_bytes(kind: u8) -> u64 {
    match kind {
        b'S' => u64::MAX,
        b'M' => 1 << 10,
        _ => 64,
    }
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
    /// Where the next frame begins.
    offset: u64,
    /// Bytes left in the file: no frame can be longer. `u64::MAX` if the length is unknown.
    left: u64,
    name: String,
}

/// A frame as it is in the file.
pub(crate) struct RawFrame {
    /// Its first byte.
    pub(crate) at: u64,
    kind: u8,
    payload: Vec<u8>,
    /// Whether its checksum is right.
    pub(crate) is_sound: bool,
}

impl RawFrame {
    /// Its contents; `None` if they make no sense.
    pub(crate) fn parse(&self) -> Option<Frame> {
        parse(self.kind, &self.payload)
    }

    /// Whether the kind of the frame is known.
    pub(crate) fn has_kind(&self) -> bool {
        KINDS.contains(&self.kind)
    }
}

impl<R: Read> Reader<R> {
    /// Reads `from`, which has `len` bytes, or `u64::MAX` if that is unknown.
    ///
    /// # Errors
    /// `NotAHold` if it is not a backup.
    pub(crate) fn new(mut from: R, len: u64, name: String) -> Result<Reader<R>> {
        let mut header = [0; HEADER.len()];
        match from.read_exact(&mut header) {
            Ok(()) if &header == HEADER => {}
            Err(e) if e.kind() != std::io::ErrorKind::UnexpectedEof => {
                return Err(Error::os(name, &e));
            }
            _ => {
                let text =
                    format!("{name}: not a backup made by 'hold backup'; choose another file");
                return Err(Error::new(ErrorKind::NotAHold, text));
            }
        }
        let offset = HEADER.len() as u64;
        Ok(Reader { from, offset, left: len.saturating_sub(offset), name })
    }

    /// The next frame.
    ///
    /// # Errors
    /// `Truncated` if the file ends within it, `Damaged` if its checksum or its contents are wrong.
    pub(crate) fn next(&mut self) -> Result<Frame> {
        let Some(raw) = self.next_raw()? else { return Err(self.truncated()) };
        match raw.parse() {
            Some(frame) if raw.is_sound => Ok(frame),
            _ => Err(self.damaged_at(raw.at)),
        }
    }

    /// The next frame, sound or not; `None` if the file ends before its end.
    ///
    /// # Errors
    /// Those of reading.
    pub(crate) fn next_raw(&mut self) -> Result<Option<RawFrame>> {
        let (at, mut bytes) = (self.offset, Vec::new());
        if !self.fill(&mut bytes, 9)? {
            return Ok(None);
        }
        let kind = bytes[0];
        if !KINDS.contains(&kind) {
            return Ok(Some(RawFrame { at, kind, payload: Vec::new(), is_sound: false }));
        }
        let len = u64::from_le_bytes(bytes[1..9].try_into().unwrap_or_default());
        if len > most_bytes(kind) {
            return Ok(None);
        }
        let Some(rest) = len.checked_add(8).filter(|rest| *rest <= self.left) else {
            return Ok(None);
        };
        if kind == b'S' && !self.fill_image(&mut bytes, len)? {
            // Whichever length is damaged, the frame is. Its rest is not kept in memory.
            let rest = rest - (bytes.len() as u64 - 9);
            let payload = Vec::new();
            return Ok(self.skip(rest)?.then_some(RawFrame { at, kind, payload, is_sound: false }));
        }
        let rest = rest - (bytes.len() as u64 - 9);
        if !self.fill(&mut bytes, rest)? {
            return Ok(None);
        }
        let (body, sum) = bytes.split_at(bytes.len() - 8);
        let sum = u64::from_le_bytes(sum.try_into().unwrap_or_default());
        let is_sound = sum == rapidhash_v3_seeded(body, &DEFAULT_RAPID_SECRETS);
        let end = bytes.len() - 8;
        bytes.truncate(end);
        bytes.drain(..9);
        Ok(Some(RawFrame { at, kind, payload: bytes, is_sound }))
    }

    /// Appends `more` bytes; returns false if the file ends before that. A damaged length must not
    /// reserve memory that the file does not fill.
    fn fill(&mut self, buffer: &mut Vec<u8>, more: u64) -> Result<bool> {
        buffer.reserve(more.min(1 << 20) as usize);
        let read = (&mut self.from).take(more).read_to_end(buffer);
        let read = read.map_err(|e| Error::os(&self.name, &e))? as u64;
        self.offset += read;
        self.left = self.left.saturating_sub(read);
        Ok(read == more)
    }

    /// Appends an image of `len` bytes, pair by pair; returns false if its pairs have another
    /// length, or the file ends before. So a damaged length of the frame reads no more into memory
    /// than one pair can have.
    fn fill_image(&mut self, buffer: &mut Vec<u8>, len: u64) -> Result<bool> {
        let begin = buffer.len() as u64;
        let left = |buffer: &Vec<u8>| len - (buffer.len() as u64 - begin);
        // Map number, prefix, depth, number of pairs.
        if len < 32 || !self.fill(buffer, 32)? {
            return Ok(false);
        }
        for _ in 0..last_word(buffer) {
            // Directory, expiry, lengths.
            if left(buffer) < 24 || !self.fill(buffer, 24)? {
                return Ok(false);
            }
            let lengths = last_word(buffer);
            let pair = (lengths >> 32) + (lengths & 0xffff_ffff);
            if left(buffer) < pair || !self.fill(buffer, pair)? {
                return Ok(false);
            }
        }
        Ok(left(buffer) == 0)
    }

    /// Passes over `count` bytes; returns false if the file ends before that.
    fn skip(&mut self, count: u64) -> Result<bool> {
        let skipped = std::io::copy(&mut (&mut self.from).take(count), &mut std::io::sink());
        let skipped = skipped.map_err(|e| Error::os(&self.name, &e))?;
        self.offset += skipped;
        self.left = self.left.saturating_sub(skipped);
        Ok(skipped == count)
    }

    /// Where the next frame begins, or where the file ended.
    pub(crate) fn offset(&self) -> u64 {
        self.offset
    }

    /// Reads all that is left; returns the number of bytes.
    ///
    /// # Errors
    /// Those of reading.
    pub(crate) fn skip_rest(&mut self) -> Result<u64> {
        let begin = self.offset;
        self.skip(u64::MAX)?;
        Ok(self.offset - begin)
    }

    fn truncated(&self) -> Error {
        let text = format!(
            "{}: the backup is truncated after {} bytes; use another one",
            self.name, self.offset
        );
        Error::new(ErrorKind::Truncated, text)
    }

    /// The error for a frame that is not valid at its place; the frame ends at the present offset.
    pub(crate) fn damaged(&self) -> Error {
        let text = format!(
            "{}: the backup is damaged before byte {}; use another one",
            self.name, self.offset
        );
        Error::new(ErrorKind::Damaged, text)
    }

    fn damaged_at(&self, at: u64) -> Error {
        let text = format!(
            "{}: the backup is damaged between the bytes {at} and {}; use another one",
            self.name, self.offset
        );
        Error::new(ErrorKind::Damaged, text)
    }
}

/// The last 8 bytes.
fn last_word(bytes: &[u8]) -> u64 {
    bytes.last_chunk().copied().map_or(0, u64::from_le_bytes)
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
