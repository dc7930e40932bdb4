//! A workload whose states can be distinguished from states that the map never had.
//!
//! One writer sets the keys in order to a version, then again in order to the next. So in any state
//! the keys up to some one have a version, and those behind it the one before: stairs with one
//! step, which goes up.
#![cfg_attr(not(feature = "steps"), allow(dead_code))]

use commonhold::map::Map;

/// The number of keys.
pub const STAIRS: usize = 10;

pub fn key(stair: usize) -> [u8; 8] {
    (stair as u64).to_be_bytes()
}

fn version(value: &[u8]) -> u64 {
    let (words, rest) = value.as_chunks::<8>();
    let first = u64::from_le_bytes(words[0]);
    let torn = !rest.is_empty() || words.iter().any(|word| *word != words[0]);
    assert!(!torn, "no value that was ever set: {value:?}");
    first
}

/// Takes all stairs one version up; starts where a killed climber stopped.
pub fn climb(map: &Map) {
    let last = map.get(key(STAIRS - 1)).unwrap().map_or(0, |value| version(&value));
    let next = last + 1;
    let words = match map.options().mode() {
        commonhold::map::MapMode::Fixed { .. } => 1,
        _ => 1 + next % 5,
    };
    let value = next.to_le_bytes().repeat(words as usize);
    for stair in 0..STAIRS {
        map.set(key(stair), &value).unwrap();
    }
}

/// Sets pairs that never change, so that the whole map is larger than the buffers of a socket.
pub fn fill(map: &Map, pairs: u64, len: usize) {
    for number in 0..pairs {
        let key = (1 << 32 | number).to_be_bytes();
        map.set(key, vec![number as u8; len]).unwrap();
    }
}

/// Checks a map that does not change meanwhile.
///
/// # Errors
/// The versions, if they are wrong.
pub fn check(map: &Map) -> Result<(), String> {
    let versions: Vec<Option<u64>> =
        (0..STAIRS).map(|stair| map.get(key(stair)).unwrap().map(|v| version(&v))).collect();
    let number = |at: usize| versions[at].unwrap_or(0);
    let one_step = (1..STAIRS).all(|stair| number(stair) <= number(stair - 1))
        && number(0) - number(STAIRS - 1).min(number(0)) <= 1;
    if one_step { Ok(()) } else { Err(format!("no state that ever was: {versions:?}")) }
}

/// Looks at a map that is changed meanwhile. From the last stair to the first, so that each is at
/// least as new as the one that was read before it.
#[derive(Default)]
pub struct Eye {
    seen: bool,
    last: [u64; STAIRS],
}

impl Eye {
    pub fn has_seen(&self) -> bool {
        self.seen
    }

    /// Looks once. A map that was there is never gone or half there. Nothing is older than it was
    /// before, and no stair older than the next.
    pub fn look(&mut self, map: &Map) {
        let mut found = [0; STAIRS];
        for stair in (0..STAIRS).rev() {
            match map.get(key(stair)).unwrap() {
                Some(value) => (self.seen, found[stair]) = (true, version(&value)),
                None => assert!(!self.seen, "stair {stair} is gone, of {:?}", self.last),
            }
        }
        assert!(found.is_sorted_by(|a, b| a >= b), "mixed: {found:?}");
        let older = (0..STAIRS).any(|stair| found[stair] < self.last[stair]);
        assert!(!older, "{found:?} after {:?}", self.last);
        self.last = found;
    }
}
