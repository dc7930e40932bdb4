//! The names of the files in a directory with the journals of all maps of a hold.
//!
//! Invariant: no two maps have the same name here, no name leaves the directory, and none looks
//! like the name of a segment, which has points in it.

use sha2::{Digest, Sha256};
use std::fmt::Write;

/// The most bytes of a name that is not shortened. With the times of a segment, and what a damaged
/// file gets behind its name, it is still short enough for all file systems.
const MOST: usize = 160;
/// The bytes of a shortened name before its hash.
const SHORT: usize = 80;

/// The name of the file of a map's journal. `life` counts the maps of this name, from 1 on.
pub(crate) fn file_name(map: &str, life: u64) -> String {
    let mut name = encoded(map);
    if life > 1 {
        // Writing to a string does not fail. An encoded name has no plus sign.
        let _ = write!(name, "+{life}");
    }
    name + ".journal"
}

/// Letters, digits, `-` and `_` as they are, and every other byte as `%` and two digits. The name
/// of a long one is its beginning, `~`, and its SHA-256.
fn encoded(map: &str) -> String {
    let mut name = String::new();
    let mut short = 0;
    for byte in map.bytes() {
        match byte {
            b'a'..=b'z' | b'A'..=b'Z' | b'0'..=b'9' | b'_' | b'-' => name.push(char::from(byte)),
            _ => drop(write!(name, "%{byte:02X}")),
        }
        if name.len() <= SHORT {
            short = name.len();
        }
    }
    if name.len() > MOST {
        name.truncate(short);
        name.push('~');
        for byte in Sha256::digest(map) {
            let _ = write!(name, "{byte:02x}");
        }
    }
    name
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::journal::span::Span;
    use std::collections::BTreeSet;

    #[test]
    fn names_are_safe_and_different() {
        assert_eq!(file_name("prices", 1), "prices.journal");
        assert_eq!(file_name("prices", 2), "prices+2.journal");
        assert_eq!(file_name("session:a/b", 1), "session%3Aa%2Fb.journal");
        let long = "ü".repeat(100);
        let longer = format!("{}x", "ü".repeat(99));
        let span = Span { first_ms: 1, last_ms: 2 }.name();
        let segment = format!("{span}.prices");
        let maps = [
            "prices",
            "prices+2",
            "prices%2B2",
            "prices~2",
            "..",
            "../x",
            ".",
            "a b",
            "a\nb",
            "-x",
            "catalogue",
            "lock",
            &long,
            &longer,
            &segment,
        ];
        let names: BTreeSet<String> =
            maps.iter().flat_map(|map| [1, 2, u64::MAX].map(|life| file_name(map, life))).collect();
        assert_eq!(names.len(), 3 * maps.len());
        for name in names {
            assert!(name.len() + span.len() + ".damaged-100".len() < 255, "{name}");
            assert!(!name.contains(['/', '\0', '\n', ' ']) && name.matches('.').count() == 1);
            assert_eq!(Span::of_name(&name), None);
        }
    }
}
