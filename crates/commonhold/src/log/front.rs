//! The beginning of a line as text: its time, its level and its thread.
//!
//! The next line often has the same second, level and thread. Their text then stays as it is. The
//! digits of the nanosecond are written two at a time.

use crate::log::line::ThreadId;
use crate::log::options::LogLevel;

/// Bytes of a time as text.
const TIME: usize = 30;
/// The most bytes of a beginning: the time, a level of 5, a thread of 8, and three spaces.
pub(crate) const MOST: usize = TIME + 18;
const SECOND: u64 = 1_000_000_000;

/// The level of a line, or the word in its place.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) enum Mark {
    Level(LogLevel),
    /// A line of the log itself.
    Own,
    /// A line of the log itself about lines that are missing.
    Lost,
}

impl Mark {
    fn text(self) -> &'static str {
        match self {
            Mark::Level(level) => level.name(),
            Mark::Own => "-----",
            Mark::Lost => "lost",
        }
    }
}

/// The beginning of the last line.
pub(crate) struct Front {
    /// Nanoseconds since 1970 at which the second of the time began.
    second_ns: u64,
    mark: Mark,
    thread: ThreadId,
    text: [u8; MOST],
    len: usize,
}

impl Default for Front {
    fn default() -> Front {
        let mut text = [b' '; MOST];
        text[..TIME].copy_from_slice(b"0000-00-00T00:00:00.000000000Z");
        // No time has this second.
        let mut front =
            Front { second_ns: u64::MAX, mark: Mark::Own, thread: ThreadId(0), text, len: 0 };
        front.set_writer(Mark::Own, ThreadId(0));
        front
    }
}

impl Front {
    /// The time in UTC as in ISO 8601, to the nanosecond; level and thread; a space behind each.
    #[inline]
    pub(crate) fn of(&mut self, time_ns: u64, mark: Mark, thread: ThreadId) -> &[u8] {
        self.set(time_ns, mark, thread);
        &self.text[..self.len]
    }

    /// Appends the same to `out`.
    #[inline]
    pub(crate) fn append(&mut self, time_ns: u64, mark: Mark, thread: ThreadId, out: &mut Vec<u8>) {
        self.set(time_ns, mark, thread);
        // All of it, because the compiler knows how to copy a number of bytes that it knows.
        let end = out.len() + self.len;
        out.extend_from_slice(&self.text);
        out.truncate(end);
    }

    #[inline]
    fn set(&mut self, time_ns: u64, mark: Mark, thread: ThreadId) {
        if time_ns.wrapping_sub(self.second_ns) >= SECOND || self.second_ns == u64::MAX {
            self.set_second(time_ns);
        }
        if (mark, thread) != (self.mark, self.thread) {
            self.set_writer(mark, thread);
        }
        let nanosecond = (time_ns - self.second_ns) as u32;
        let (high, low) = (nanosecond / 10_000, nanosecond % 10_000);
        self.text[20] = b'0' + (high / 10_000) as u8;
        self.put(21, high / 100 % 100);
        self.put(23, high % 100);
        self.put(25, low / 100);
        self.put(27, low % 100);
    }

    #[cold]
    fn set_second(&mut self, time_ns: u64) {
        let second = time_ns / SECOND;
        self.second_ns = second * SECOND;
        let (days, second) = (second / 86_400, (second % 86_400) as u32);
        let (year, month, day) = date(days);
        self.put(0, (year / 100 % 100) as u32);
        self.put(2, (year % 100) as u32);
        self.put(5, month as u32);
        self.put(8, day as u32);
        self.put(11, second / 3600);
        self.put(14, second / 60 % 60);
        self.put(17, second % 60);
    }

    #[cold]
    fn set_writer(&mut self, mark: Mark, thread: ThreadId) {
        (self.mark, self.thread) = (mark, thread);
        let level = mark.text().as_bytes();
        let (letters, len) = thread.letters();
        self.text[TIME..].fill(b' ');
        self.text[TIME + 1..][..level.len()].copy_from_slice(level);
        self.text[TIME + 7..][..len].copy_from_slice(&letters[..len]);
        self.len = TIME + 8 + len;
    }

    /// Two digits.
    #[inline]
    fn put(&mut self, at: usize, value: u32) {
        self.text[at..at + 2].copy_from_slice(&DIGITS[value as usize % DIGITS.len()]);
    }
}

/// The numbers below 100, padded to 128: any 7 bits are one.
const DIGITS: [[u8; 2]; 128] = {
    let mut digits = [[b'0'; 2]; 128];
    let mut number = 0;
    while number < 100 {
        digits[number] = [b'0' + (number / 10) as u8, b'0' + (number % 10) as u8];
        number += 1;
    }
    digits
};

/// Year, month, day of a number of days since 1970-01-01, in the Gregorian calendar. After Howard
/// Hinnant, "chrono-Compatible Low-Level Date Algorithms", `civil_from_days`: years begin in March,
/// 400 of them are an era.
fn date(days: u64) -> (u64, u64, u64) {
    let days = days + 719_468;
    let (era, of_era) = (days / 146_097, days % 146_097);
    let year_of_era = (of_era - of_era / 1460 + of_era / 36_524 - of_era / 146_096) / 365;
    let of_year = of_era - (365 * year_of_era + year_of_era / 4 - year_of_era / 100);
    let shifted = (5 * of_year + 2) / 153;
    let day = of_year - (153 * shifted + 2) / 5 + 1;
    let month = if shifted < 10 { shifted + 3 } else { shifted - 9 };
    (era * 400 + year_of_era + u64::from(month <= 2), month, day)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn text(front: &mut Front, time_ns: u64, mark: Mark, thread: u32) -> String {
        let mut out = b"before".to_vec();
        front.append(time_ns, mark, ThreadId(thread), &mut out);
        assert_eq!(&out[6..], front.of(time_ns, mark, ThreadId(thread)));
        String::from_utf8(out.split_off(6)).unwrap()
    }

    #[test]
    fn times_are_written_as_people_read_them() {
        let mut kept = Front::default();
        for (seconds, nanoseconds, wanted) in [
            (0, 0, "1970-01-01T00:00:00.000000000Z"),
            (951_782_399, 999_999_999, "2000-02-28T23:59:59.999999999Z"),
            (951_782_400, 1, "2000-02-29T00:00:00.000000001Z"),
            (951_868_800, 0, "2000-03-01T00:00:00.000000000Z"),
            (1_795_291_498, 123_456_789, "2026-11-21T20:04:58.123456789Z"),
            (4_107_542_399, 0, "2100-02-28T23:59:59.000000000Z"),
            (4_107_542_400, 0, "2100-03-01T00:00:00.000000000Z"),
            // The same second again, and an earlier one.
            (4_107_542_400, 20_304_056, "2100-03-01T00:00:00.020304056Z"),
            (4_107_542_399, 999_999_999, "2100-02-28T23:59:59.999999999Z"),
            (18_446_744_073, 709_551_615, "2554-07-21T23:34:33.709551615Z"),
        ] {
            for front in [&mut Front::default(), &mut kept] {
                let shown = text(front, seconds * SECOND + nanoseconds, Mark::Own, 0);
                assert_eq!(shown, format!("{wanted} ----- -- "));
            }
        }
    }

    #[test]
    fn a_writer_replaces_all_of_the_last_one() {
        let mut kept = Front::default();
        for (mark, thread, wanted) in [
            (Mark::Level(LogLevel::Error), u32::MAX, "error mwlqkxu "),
            (Mark::Lost, 1, "lost  aa "),
            (Mark::Level(LogLevel::Warn), 677, "warn  aaa "),
            (Mark::Own, 677, "----- aaa "),
        ] {
            for front in [&mut Front::default(), &mut kept] {
                assert_eq!(&text(front, 5, mark, thread)[TIME + 1..], wanted);
            }
        }
    }
}
