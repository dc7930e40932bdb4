//! Contents of a file in the form of a cache: one run of bytes, of which a response is an unchanged
//! part.
//!
//! | offset | bytes | |
//! |---|---|---|
//! | 0 | 4 | `CHF1` |
//! | 4 | 4 | length of the lines, little-endian as all numbers here |
//! | 8 | 8 | version: [`Found`](super::source::Found) as one number |
//! | 16 | 8 | last modified, in nanoseconds since 1970 |
//! | 24 | 8 | length of the contents |
//! | 32 | | the lines of a response's head, with the empty line that ends them |
//! | | | the contents |
//!
//! A hold may be damaged, or contain another program's values: bytes in any other form count as
//! absent.

use super::http::answer::Lines;
use std::ops::Range;
use std::time::{Duration, SystemTime, UNIX_EPOCH};

const MAGIC: [u8; 4] = *b"CHF1";
const HEAD: usize = 32;
const END: &str = "\r\n";

/// Packs contents.
pub(crate) fn pack(
    version: u64,
    modified: SystemTime,
    lines: &Lines<'_>,
    contents: &[u8],
) -> Vec<u8> {
    let text = lines.text();
    let mut packed = Vec::with_capacity(HEAD + text.len() + END.len() + contents.len());
    packed.extend(MAGIC);
    packed.extend(((text.len() + END.len()) as u32).to_le_bytes());
    packed.extend(version.to_le_bytes());
    let since = modified.duration_since(UNIX_EPOCH).unwrap_or(Duration::ZERO);
    packed.extend(u64::try_from(since.as_nanos()).unwrap_or(u64::MAX).to_le_bytes());
    packed.extend((contents.len() as u64).to_le_bytes());
    packed.extend(text.as_bytes());
    packed.extend(END.as_bytes());
    packed.extend(contents);
    packed
}

/// Packed contents, taken apart.
#[derive(Debug)]
pub(crate) struct Packed<'a> {
    pub(crate) version: u64,
    pub(crate) modified: SystemTime,
    pub(crate) lines: Lines<'a>,
    /// The range of the lines, with the empty one that ends them; the contents follow.
    pub(crate) head: Range<usize>,
    pub(crate) len: usize,
}

impl<'a> Packed<'a> {
    /// `None` if the bytes are not packed contents.
    pub(crate) fn of(bytes: &'a [u8]) -> Option<Packed<'a>> {
        let number = |at: usize| {
            let bytes = bytes.get(at..at + 8)?;
            bytes.try_into().ok().map(u64::from_le_bytes)
        };
        let lines = u32::from_le_bytes(bytes.get(4..8)?.try_into().ok()?);
        let head = HEAD..HEAD.checked_add(usize::try_from(lines).ok()?)?;
        let len = usize::try_from(number(24)?).ok()?;
        if bytes[..4] != MAGIC || head.end.checked_add(len)? != bytes.len() {
            return None;
        }
        let text = std::str::from_utf8(bytes.get(head.clone())?).ok()?;
        let lines = Lines::kept(text.strip_suffix(END)?)?;
        let modified = UNIX_EPOCH + Duration::from_nanos(number(16)?);
        Some(Packed { version: number(8)?, modified, lines, head, len })
    }

    /// The place of a range of the contents.
    pub(crate) fn range(&self, of: &Range<u64>) -> Range<usize> {
        let at = |offset: u64| {
            self.head.end + usize::try_from(offset).map_or(self.len, |o| o.min(self.len))
        };
        at(of.start)..at(of.end)
    }
}

#[cfg(test)]
mod tests {
    use super::super::http::answer::Facts;
    use super::super::source::Coding;
    use super::*;

    #[test]
    fn packed_contents_are_found_again_and_nothing_else() {
        let modified = UNIX_EPOCH + Duration::from_millis(1500);
        let (kind, coding) = ("text/plain", Coding::Plain);
        let lines = Lines::new(&Facts { len: 5, kind, etag: 1, modified, coding, varies: false });
        let bytes = pack(77, modified, &lines, b"hello");
        let packed = Packed::of(&bytes).unwrap();
        assert_eq!((packed.version, packed.modified, packed.len), (77, modified, 5));
        assert_eq!(packed.lines, lines);
        assert_eq!(&bytes[packed.range(&(1..3))], b"el");
        assert_eq!(&bytes[packed.range(&(4..u64::MAX))], b"o");
        for end in 0..bytes.len() {
            assert!(Packed::of(&bytes[..end]).is_none(), "{end}");
        }
        for at in 0..8 {
            let mut broken = bytes.clone();
            broken[at] ^= 0xff;
            assert!(Packed::of(&broken).is_none(), "{at}");
        }
    }
}
