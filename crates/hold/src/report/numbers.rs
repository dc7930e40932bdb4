//! Numbers for people.

use commonhold_terminal::sizes;

/// A time in microseconds.
pub fn time(us: u64) -> String {
    match us {
        0..1000 => format!("{us} µs"),
        1000..10_000 => format!("{:.1} ms", us as f64 / 1e3),
        10_000..1_000_000 => format!("{:.0} ms", us as f64 / 1e3),
        1_000_000..60_000_000 => format!("{:.1} s", us as f64 / 1e6),
        _ => span(us / 1000),
    }
}

/// A time that may not be known.
pub fn maybe_time(us: Option<u64>) -> String {
    us.map_or("–".to_owned(), time)
}

/// A span in milliseconds, of which only the two largest units matter.
pub fn span(ms: u64) -> String {
    let seconds = ms / 1000;
    let units = [(86_400, "d"), (3600, "h"), (60, "min"), (1, "s")];
    let first = units.iter().position(|(unit, _)| seconds >= *unit).unwrap_or(units.len() - 1);
    let mut text = format!("{} {}", seconds / units[first].0, units[first].1);
    if let Some((unit, name)) = units.get(first + 1) {
        let rest = seconds % units[first].0 / unit;
        if rest > 0 {
            text.push_str(&format!(" {rest} {name}"));
        }
    }
    text
}

/// Something per second.
pub fn rate(per_second: f64) -> String {
    match per_second {
        small if small > 0.0 && small < 10.0 => format!("{small:.1}"),
        rate => sizes::count(rate.round() as u64),
    }
}

/// Bytes per second.
pub fn byte_rate(per_second: f64) -> String {
    format!("{}/s", bytes(per_second.round() as u64))
}

/// Bytes, to three digits.
pub fn bytes(bytes: u64) -> String {
    let units = ["B", "KiB", "MiB", "GiB", "TiB", "PiB", "EiB"];
    let (mut value, mut unit) = (bytes as f64, 0);
    while value >= 999.5 && unit + 1 < units.len() {
        (value, unit) = (value / 1024.0, unit + 1);
    }
    let digits = match value {
        _ if unit == 0 => 0,
        value if value < 9.995 => 2,
        value if value < 99.95 => 1,
        _ => 0,
    };
    format!("{value:.digits$} {}", units[unit])
}

/// A power of two of bytes, exactly.
pub fn power(bytes: u64) -> String {
    let units = ["B", "KiB", "MiB", "GiB", "TiB", "PiB", "EiB"];
    let unit = (bytes.max(1).ilog2() / 10) as usize;
    format!("{} {}", bytes >> (10 * unit), units[unit])
}

/// A share of one.
pub fn share(share: Option<f64>) -> String {
    match share {
        None => "–".to_owned(),
        // Nearly 100 % must not print as 100 %.
        Some(share) if share > 0.999 && share < 1.0 => {
            format!("{:.2} %", (share * 1e4).floor() / 100.0)
        }
        Some(share) => format!("{:.1} %", share * 100.0),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_are_read_easily() {
        assert_eq!(
            [time(7), time(1234), time(56_789), time(2_500_000)],
            ["7 µs", "1.2 ms", "57 ms", "2.5 s"]
        );
        assert_eq!(
            [span(500), span(61_000), span(90_061_000), span(3_600_000)],
            ["0 s", "1 min 1 s", "1 d 1 h", "1 h"]
        );
        assert_eq!([rate(0.0), rate(0.25), rate(12_345.6)], ["0", "0.2", "12,346"]);
        assert_eq!(
            [bytes(0), bytes(999), bytes(1000), bytes(64 << 20), bytes(123 << 30)],
            ["0 B", "999 B", "0.98 KiB", "64.0 MiB", "123 GiB"]
        );
        assert_eq!(bytes(u64::MAX), "16.0 EiB");
        assert_eq!([power(512), power(1024), power(1 << 63)], ["512 B", "1 KiB", "8 EiB"]);
        assert_eq!(
            [share(None), share(Some(0.99996)), share(Some(1.0))],
            ["–", "99.99 %", "100.0 %"]
        );
    }
}
