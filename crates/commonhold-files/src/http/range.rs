//! The requested part of contents (RFC 9110, 14). An invalid range counts as none; a range beyond
//! the end of the contents cannot be satisfied.

use super::head::words;
use std::ops::Range;

/// The most ranges that are served; a request for more gets all contents.
const MOST: usize = 16;
const UNIT: &[u8] = b"bytes=";

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
    let all = match field.split_at_checked(UNIT.len()) {
        Some((unit, list)) if unit.eq_ignore_ascii_case(UNIT) => {
            words(list).map(|word| range(word, len)).collect::<Option<Vec<_>>>()
        }
        _ => None,
    };
    let Some(all) = all.filter(|all| (1..=MOST).contains(&all.len())) else { return Part::Whole };
    let there: Vec<_> = all.into_iter().flatten().collect();
    // Many overlapping ranges would make a server send much more than it has.
    let sum: u64 = there.iter().map(|range| range.end - range.start).sum();
    match there.is_empty() {
        true => Part::Beyond,
        false if there.len() > 1 && sum > len => Part::Whole,
        false => Part::Ranges(there),
    }
}

/// `None` if it is invalid; `Some(None)` if it lies beyond the end.
fn range(word: &[u8], len: u64) -> Option<Option<Range<u64>>> {
    let dash = word.iter().position(|&byte| byte == b'-')?;
    let (first, last) = (number(&word[..dash])?, number(&word[dash + 1..])?);
    let (start, end) = match (first, last) {
        (None, None) => return None,
        (Some(first), Some(last)) if last < first => return None,
        (None, Some(count)) => (len.saturating_sub(count), len),
        (Some(first), last) => (first, last.map_or(len, |last| last.saturating_add(1).min(len))),
    };
    Some((start < len).then_some(start..end))
}

/// The number that the digits form; `u64::MAX` if it needs more than 64 bits. `None` if there are
/// other bytes; `Some(None)` if there are no bytes.
fn number(digits: &[u8]) -> Option<Option<u64>> {
    if !digits.iter().all(u8::is_ascii_digit) {
        return None;
    }
    let add = |sum: u64, digit: &u8| sum.saturating_mul(10).saturating_add(u64::from(digit - b'0'));
    Some((!digits.is_empty()).then(|| digits.iter().fold(0, add)))
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
        assert_eq!(part(b"Bytes=,0-1\t,, 8-9 ,", 10), ranges(&[(0, 2), (8, 10)]));
        assert_eq!(part(b"bytes=05-006", 10), ranges(&[(5, 7)]));
        assert_eq!(part(b"bytes=5-99999999999999999999", 10), ranges(&[(5, 10)]));
        assert_eq!(part(b"bytes=-99999999999999999999", 10), ranges(&[(0, 10)]));
    }

    #[test]
    fn ranges_beyond_the_end_differ_from_wrong_ones() {
        assert_eq!(part(b"bytes=10-", 10), Part::Beyond);
        assert_eq!(part(b"bytes=0-", 0), Part::Beyond);
        assert_eq!(part(b"bytes=-0", 10), Part::Beyond);
        assert_eq!(part(b"bytes=99999999999999999999-", 10), Part::Beyond);
        for wrong in [
            &b"bytes=5-4"[..],
            b"bytes=",
            b"bytes=a-b",
            b"lines=0-1",
            b"\xff",
            b"bytes=--1",
            b"bytes=,",
            b"bytes=0 -1",
        ] {
            assert_eq!(part(wrong, 10), Part::Whole, "{wrong:?}");
        }
        assert_eq!(part(b"bytes=0-9,0-9", 10), Part::Whole);
        let many = format!("bytes={}", vec!["0-0"; MOST + 1].join(","));
        assert_eq!(part(many.as_bytes(), 1000), Part::Whole);
    }
}
