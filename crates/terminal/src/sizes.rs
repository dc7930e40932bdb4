//! Sizes and durations in the form that people write and read: `64M`, `1h 30m`, `12.5 MiB`.
//!
//! Units of sizes are powers of 1024, with or without the `i`, as usual for memory.

use parse_size::{ByteSuffix, Config};
use std::time::Duration;

/// The bytes of a size such as `4096`, `64K`, `1.5GiB`.
pub fn bytes(text: &str) -> Result<u64, String> {
    let config = Config::new().with_binary().with_byte_suffix(ByteSuffix::Allow);
    config.parse_size(text).map_err(|e| format!("{e}; sizes look like 4096, 64K, 1.5G"))
}

/// A duration such as `90s`, `5m`, `1h 30m`, `250ms`.
pub fn duration(text: &str) -> Result<Duration, String> {
    match parsed(text)? {
        duration if duration.is_zero() => Err("expected a time of more than 0".into()),
        duration => Ok(duration),
    }
}

/// The longest time to wait, which no clock exceeds.
const LONGEST: Duration = Duration::from_secs(10 * 365 * 24 * 3600);

/// A time to wait: a duration, or 0 for not at all. One that is too long for a clock is shortened.
pub fn wait(text: &str) -> Result<Duration, String> {
    parsed(text).map(|time| time.min(LONGEST))
}

fn parsed(text: &str) -> Result<Duration, String> {
    if text == "0" {
        return Ok(Duration::ZERO);
    }
    humantime::parse_duration(text)
        .map_err(|e| format!("{e}; durations look like 250ms, 90s, 5m, 1h30m, 7d"))
}

/// A size for people.
pub fn shown(bytes: u64) -> String {
    indicatif::BinaryBytes(bytes).to_string()
}

/// A number for people, in groups of three digits.
pub fn count(number: u64) -> String {
    indicatif::HumanCount(number).to_string()
}

/// `count` of things, in the right number.
pub fn things(number: u64, one: &str, many: &str) -> String {
    format!("{} {}", count(number), if number == 1 { one } else { many })
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::time::Instant;

    #[test]
    fn sizes_are_powers_of_1024() {
        assert_eq!(bytes("4096"), Ok(4096));
        assert_eq!(bytes("64K"), Ok(64 << 10));
        assert_eq!(bytes("1.5GiB"), Ok(3 << 29));
        assert_eq!(bytes("2mb"), Ok(2 << 20));
        assert!(bytes("much").unwrap_err().contains("sizes look like"));
        assert_eq!(shown(64 << 20), "64.00 MiB");
    }

    #[test]
    fn durations_have_units() {
        assert_eq!(duration("1h 30m"), Ok(Duration::from_secs(5400)));
        assert!(duration("90").unwrap_err().contains("durations look like"));
        assert!(duration("0s").is_err());
        assert_eq!([wait("0"), wait("0s")], [Ok(Duration::ZERO), Ok(Duration::ZERO)]);
        let longest = wait("500000000000y").unwrap();
        assert!(Instant::now().checked_add(longest * 2).is_some(), "{longest:?}");
    }

    #[test]
    fn numbers_are_read_easily() {
        assert_eq!(things(34_924, "pair", "pairs"), "34,924 pairs");
        assert_eq!(things(1, "pair", "pairs"), "1 pair");
    }
}
