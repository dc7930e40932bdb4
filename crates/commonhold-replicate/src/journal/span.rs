//! The times of the states that a journal's file can restore.

use commonhold::{Error, ErrorKind, Result};
use std::time::{Duration, UNIX_EPOCH};

/// The end of the year 9999: the latest time that has a text.
pub(super) const LATEST_MS: u64 = 253_402_300_799_999;
/// The length of a time in the name of a segment: `20261123T101500.123Z`.
const NAME_LEN: usize = 20;

/// The times of the first and the last state of a map in a file, in milliseconds since 1970.
#[derive(Clone, Copy, Debug, PartialEq, Eq, serde::Serialize)]
pub struct Span {
    /// That of the first state.
    pub first_ms: u64,
    /// That of the last state.
    pub last_ms: u64,
}

impl Span {
    /// The span with one more time; a clock may have been set back meanwhile.
    pub(super) fn with(span: Option<Span>, ms: u64) -> Span {
        let Span { first_ms, last_ms } = span.unwrap_or(Span { first_ms: ms, last_ms: ms });
        Span { first_ms: first_ms.min(ms), last_ms: last_ms.max(ms) }
    }

    /// Whether this time is neither before the first state nor after the last one.
    pub(super) fn contains(self, ms: u64) -> bool {
        (self.first_ms..=self.last_ms).contains(&ms)
    }

    /// Both times as they are in the name of a segment. Plain sorting gives the order in time.
    pub(super) fn name(self) -> String {
        let [first, last] = [self.first_ms, self.last_ms]
            .map(|ms| shown_time(ms).chars().filter(|c| !matches!(c, '-' | ':')).collect());
        let (first, last): (String, String) = (first, last);
        format!("{first}-{last}")
    }

    /// The span in a name, and the rest of the name; `None` if it does not begin with a span.
    pub(super) fn of_name(name: &str) -> Option<(Span, &str)> {
        let first_ms = time_of_name(name.get(..NAME_LEN)?)?;
        let rest = name.get(NAME_LEN..)?.strip_prefix('-')?;
        let last_ms = time_of_name(rest.get(..NAME_LEN)?)?;
        let rest = rest.get(NAME_LEN..)?.strip_prefix('.')?;
        Some((Span { first_ms, last_ms }, rest))
    }
}

fn time_of_name(name: &str) -> Option<u64> {
    let part = |range: std::ops::Range<usize>| name.get(range);
    let [year, month, day] = [part(0..4)?, part(4..6)?, part(6..8)?];
    let [hour, minute, rest] = [part(9..11)?, part(11..13)?, part(13..NAME_LEN)?];
    let text = format!("{year}-{month}-{day}{}{hour}:{minute}:{rest}", part(8..9)?);
    let time = humantime::parse_rfc3339(&text).ok()?;
    u64::try_from(time.duration_since(UNIX_EPOCH).ok()?.as_millis()).ok()
}

/// A time as text: UTC, as RFC 3339 has it.
pub fn shown_time(ms: u64) -> String {
    let time = UNIX_EPOCH + Duration::from_millis(ms.min(LATEST_MS));
    humantime::format_rfc3339_millis(time).to_string()
}

/// Reads a time: RFC 3339, with a blank instead of the `T` and without seconds if wanted. Without a
/// zone it is UTC.
///
/// # Errors
/// `Invalid` if it is not a time from 1970 to 9999.
pub fn read_time(text: &str) -> Result<u64> {
    milliseconds(text.trim()).ok_or_else(|| {
        let text = format!(
            "expected a time such as '2026-11-23 10:15' (UTC) or 2026-11-23T10:15:00+02:00, got \
             '{text}'"
        );
        Error::new(ErrorKind::Invalid, text)
    })
}

fn milliseconds(text: &str) -> Option<u64> {
    let (text, east) = without_zone(text)?;
    let text = if text.len() == "2026-11-23 10:15".len() { format!("{text}:00") } else { text };
    let time = humantime::parse_rfc3339_weak(&text).ok()?;
    let ms = i64::try_from(time.duration_since(UNIX_EPOCH).ok()?.as_millis()).ok()?;
    let ms = u64::try_from(ms - east * 60_000).ok()?;
    (ms <= LATEST_MS).then_some(ms)
}

/// The time without its zone, and how many minutes the zone is east of UTC.
fn without_zone(text: &str) -> Option<(String, i64)> {
    let time = text.get(10..)?;
    if let Some(text) = text.strip_suffix(['Z', 'z']) {
        return Some((text.to_owned(), 0));
    }
    let Some(at) = time.rfind(['+', '-']) else { return Some((text.to_owned(), 0)) };
    let (hours, minutes) = time[at + 1..].split_once(':')?;
    let number = |text: &str, most: i64| {
        let is_number = text.len() == 2 && text.bytes().all(|digit| digit.is_ascii_digit());
        text.parse::<i64>().ok().filter(|number| is_number && *number <= most)
    };
    let east = number(hours, 23)? * 60 + number(minutes, 59)?;
    let sign = if time[at..].starts_with('-') { -1 } else { 1 };
    Some((text[..10 + at].to_owned(), sign * east))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn times_are_read_with_and_without_a_zone() {
        let ms = 1_795_428_900_000;
        for text in [
            "2026-11-23 10:15",
            "2026-11-23T10:15",
            " 2026-11-23 10:15:00 ",
            "2026-11-23T10:15:00Z",
            "2026-11-23T10:15:00.000z",
            "2026-11-23 10:15Z",
            "2026-11-23T12:15:00+02:00",
            "2026-11-23 04:45-05:30",
        ] {
            assert_eq!(read_time(text).unwrap(), ms, "{text}");
        }
        assert_eq!(shown_time(ms), "2026-11-23T10:15:00.000Z");
        assert_eq!(read_time("2026-11-23 10:15:00.25").unwrap(), ms + 250);
        assert_eq!(read_time(&shown_time(LATEST_MS)).unwrap(), LATEST_MS);
        for text in [
            "",
            "now",
            "10:15",
            "2026-11-23",
            "2026-13-23 10:15",
            "2026-11-23 25:15",
            "1969-11-23 10:15",
            "1970-01-01T00:00:00+00:01",
            "2026-11-23T10:15:00+2:00",
            "2026-11-23T10:15:00+24:00",
            "2026-11-23T10:15:00+",
            "2026-11-2é 10:15:00",
        ] {
            let error = read_time(text).unwrap_err().to_string();
            assert!(error.contains(&format!("got '{text}'")), "{error}");
        }
    }

    #[test]
    fn the_name_of_a_segment_has_its_span() {
        let span = Span { first_ms: 1_795_428_900_123, last_ms: 1_795_432_500_004 };
        let name = format!("{}.prices.journal", span.name());
        assert_eq!(name, "20261123T101500.123Z-20261123T111500.004Z.prices.journal");
        assert_eq!(Span::of_name(&name), Some((span, "prices.journal")));
        for wrong in ["", "prices.journal", &name[1..], &name[..40], &name.replace('T', "é")] {
            assert_eq!(Span::of_name(wrong), None, "{wrong}");
        }
        assert_eq!(Span::with(Some(span), 7), Span { first_ms: 7, ..span });
        assert_eq!(Span::with(None, 7), Span { first_ms: 7, last_ms: 7 });
    }
}
