//! The requested part of contents (RFC 9110, 14). An invalid range counts as none; a range beyond
//! the end of the contents cannot be satisfied.

use http_range_header::{EndPosition, RangeUnsatisfiableError, StartPosition, parse_range_header};
use std::ops::Range;

/// The most ranges that are served; a request for more gets all contents.
const MOST: usize = 16;

/// The part to send.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Part {
    /// All contents.
    Whole,
    /// One range, or several in the order of the request.
    Ranges(Vec<Range<u64>>),
    /// Beyond the end: status 416.
    Beyond,
}

/// The part that a field `Range` requests of contents of `len` bytes.
pub(crate) fn part(field: &[u8], len: u64) -> Part {
    let parsed = match std::str::from_utf8(field).map(parse_range_header) {
        Ok(Ok(parsed)) => parsed,
        // The last 0 bytes. Next to other ranges it makes the field invalid.
        Ok(Err(RangeUnsatisfiableError::ZeroSuffix)) if !field.contains(&b',') => {
            return Part::Beyond;
        }
        _ => return Part::Whole,
    };
    let all: Vec<_> = parsed.ranges.iter().map(|one| range(one.start, one.end, len)).collect();
    if all.len() > MOST || all.iter().flatten().any(|range| range.start > range.end) {
        return Part::Whole;
    }
    let there: Vec<_> = all.into_iter().flatten().filter(|range| !range.is_empty()).collect();
    // Many overlapping ranges would make a server send much more than it has.
    let sum: u64 = there.iter().map(|range| range.end - range.start).sum();
    match there.is_empty() {
        true => Part::Beyond,
        false if there.len() > 1 && sum > len => Part::Whole,
        false => Part::Ranges(there),
    }
}

/// `None` if it lies beyond the end.
fn range(start: StartPosition, end: EndPosition, len: u64) -> Option<Range<u64>> {
    let start = match start {
        StartPosition::Index(at) => at,
        StartPosition::FromLast(count) => len.saturating_sub(count),
    };
    let end = match end {
        EndPosition::Index(last) if last < start => return Some(Range { start: 1, end: 0 }),
        EndPosition::Index(last) => last.saturating_add(1).min(len),
        EndPosition::LastByte => len,
    };
    (start < len).then_some(start..end)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn ranges(list: &[(u64, u64)]) -> Part {
        Part::Ranges(list.iter().map(|&(start, end)| start..end).collect())
    }

    #[test]
    fn ranges_are_as_the_rfc_says() {
        assert_eq!(part(b"bytes=0-0", 10), ranges(&[(0, 1)]));
        assert_eq!(part(b"bytes=2-", 10), ranges(&[(2, 10)]));
        assert_eq!(part(b"bytes=-3", 10), ranges(&[(7, 10)]));
        assert_eq!(part(b"bytes=-30", 10), ranges(&[(0, 10)]));
        assert_eq!(part(b"bytes=5-100", 10), ranges(&[(5, 10)]));
        assert_eq!(part(b"bytes=0-1,8-9", 10), ranges(&[(0, 2), (8, 10)]));
        assert_eq!(part(b"bytes=0-1,50-", 10), ranges(&[(0, 2)]));
    }

    #[test]
    fn ranges_beyond_the_end_differ_from_wrong_ones() {
        assert_eq!(part(b"bytes=10-", 10), Part::Beyond);
        assert_eq!(part(b"bytes=0-", 0), Part::Beyond);
        assert_eq!(part(b"bytes=-0", 10), Part::Beyond);
        for wrong in
            [&b"bytes=5-4"[..], b"bytes=", b"bytes=a-b", b"lines=0-1", b"\xff", b"bytes=--1"]
        {
            assert_eq!(part(wrong, 10), Part::Whole, "{wrong:?}");
        }
        assert_eq!(part(b"bytes=0-9,0-9", 10), Part::Whole);
        let many = format!("bytes={}", vec!["0-0"; MOST + 1].join(","));
        assert_eq!(part(many.as_bytes(), 1000), Part::Whole);
    }
}
