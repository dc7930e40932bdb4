//! Finds the position of a replica that was killed while applying.
//!
//! A replica stores its position once for many changes. It had applied at least up to its stored
//! position, and at most up to the end of the stored range. Applying all changes in between again
//! would take its readers back to older values. So these changes are collected first, and compared
//! with the map: every state of the map was the one behind one of them, and the map is still what
//! it was at the kill, because no other process writes it. (If the last of them is not the change
//! that was announced before the kill, they are another history's: then only the whole map helps.)
//! The replica continues behind the last
//! change whose state equals the map; if several states equal it, they do not differ.
//!
//! In a cache, a pair that has expired looks like an absent one. States may also differ only in the
//! expiry of pairs. So an expired pair equals an absent one, and the last change of each key up to
//! that state is applied again, which only sets the expiry.

use crate::origin_clock::{OriginClock, has_expiry};
use commonhold::map::Map;
use commonhold::raw::{Proof, replay_frame};
use commonhold::stream::{ChangeKind, StreamFrame, StreamPosition};
use commonhold::{Hold, Result};
use std::collections::{HashMap, HashSet};

/// The origin's clock is known up to about this time, in milliseconds.
const INACCURACY_MS: u64 = 1000;

/// A change that may have been applied.
#[derive(Debug)]
struct Change {
    kind: ChangeKind,
    key: Vec<u8>,
    value: Vec<u8>,
    expires_ms: u64,
    offset: u64,
    end: u64,
}

impl Change {
    fn frame(&self) -> StreamFrame<'_> {
        let Change { kind, ref key, ref value, expires_ms, offset, end } = *self;
        StreamFrame { kind, key, value, expires_ms, offset, end }
    }

    fn apply(&self, map: &Map, clock: OriginClock) -> Result<()> {
        replay_frame(map, &self.frame(), clock.in_hold(self.expires_ms))
    }

    /// Whether the pair that it has set has expired by a time of the origin's clock.
    fn is_over(&self, now_ms: u64) -> bool {
        self.expires_ms != 0 && self.expires_ms <= now_ms
    }

    /// The key's value behind the change.
    fn value(&self) -> Option<&[u8]> {
        (self.kind == ChangeKind::Set).then_some(&self.value)
    }
}

/// See the module.
#[derive(Debug)]
pub(crate) struct Regain {
    /// The end of the last change that may have been applied.
    until: u64,
    /// That change.
    last: Option<Proof>,
    changes: Vec<Change>,
    /// The offset behind the last change that was collected, or passed over.
    at: Option<u64>,
}

impl Regain {
    /// The range between the changes applied for certain and those that may have been applied;
    /// `None` if it is empty.
    pub(crate) fn new(
        applied: StreamPosition,
        (applying, last): (StreamPosition, Option<Proof>),
    ) -> Option<Regain> {
        let open = applied.stream == applying.stream && applied.offset < applying.offset;
        open.then(|| Regain { until: applying.offset, last, changes: Vec::new(), at: None })
    }

    /// Whether the last collected change, which has this proof, is the one that was announced.
    pub(crate) fn is_of(&self, change: &StreamFrame<'_>, proof: Option<Proof>) -> bool {
        change.end == self.until && proof.is_some() && proof == self.last
    }

    /// Collects a change; true if it was the last.
    pub(crate) fn collect(&mut self, change: &StreamFrame<'_>) -> bool {
        let StreamFrame { kind, key, value, expires_ms, offset, end } = *change;
        let (key, value) = (key.to_vec(), value.to_vec());
        self.changes.push(Change { kind, key, value, expires_ms, offset, end });
        self.at = Some(end);
        end >= self.until
    }

    /// Passes over changes that the replica does not want, up to `to`; false if the change that it
    /// waits for, which it wanted, cannot follow.
    pub(crate) fn pass_over(&mut self, to: u64) -> bool {
        self.at = Some(to);
        to < self.until
    }

    /// The offset behind everything that was collected or passed over; `None` if there is nothing.
    pub(crate) fn end(&self) -> Option<u64> {
        self.at
    }

    /// All collected changes.
    pub(crate) fn changes(&self) -> impl Iterator<Item = StreamFrame<'_>> {
        self.changes.iter().map(Change::frame)
    }

    /// Applies the changes that the map has not seen.
    ///
    /// # Errors
    /// Those of reading and writing the map.
    pub(crate) fn finish(&self, map: &Map, hold: &Hold, clock: OriginClock) -> Result<()> {
        let expires = has_expiry(map);
        let now_ms = if expires { clock.now_ms(hold) + INACCURACY_MS } else { 0 };
        let seen = self.seen(map, now_ms)?;
        if expires {
            let (mut keys, seen) = (HashSet::new(), self.changes[..seen].iter().rev());
            let mut last = seen.filter(|change| keys.insert(&change.key));
            last.try_for_each(|change| change.apply(map, clock))?;
        }
        self.changes[seen..].iter().try_for_each(|change| change.apply(map, clock))
    }

    /// How many of the changes the map has seen. Pairs that have expired by `now_ms` look absent.
    fn seen(&self, map: &Map, now_ms: u64) -> Result<usize> {
        // Of each key: the value that it would have, and whether the map has that value.
        let mut keys: HashMap<&[u8], (Option<Vec<u8>>, bool)> = HashMap::new();
        let (mut wrong, mut seen) = (0usize, 0);
        for (number, change) in self.changes.iter().enumerate() {
            if !keys.contains_key(&*change.key) {
                keys.insert(&change.key, (map.get(&change.key)?, true));
            }
            if let Some((has, right)) = keys.get_mut(&*change.key) {
                let before = *right;
                let is_over = has.is_none() && change.is_over(now_ms);
                *right = is_over || has.as_deref() == change.value();
                wrong = wrong + usize::from(!*right) - usize::from(!before);
            }
            if wrong == 0 {
                seen = number + 1;
            }
        }
        Ok(seen)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use commonhold::Hold;
    use commonhold::map::MapOptions;

    /// A replica that was killed behind any of the changes continues as if it had not been, and
    /// never goes back.
    #[test]
    fn wherever_it_was_it_goes_on_from_there() {
        let directory = tempfile::tempdir_in("/dev/shm").unwrap();
        let hold = Hold::create(directory.path().join("it.hold")).unwrap();
        let changes: [(&str, Option<&str>); 9] = [
            ("a", Some("1")),
            ("b", Some("1")),
            ("a", Some("2")),
            ("a", Some("1")),
            ("c", None),
            ("b", None),
            ("a", Some("2")),
            ("b", Some("1")),
            ("d", Some("")),
        ];
        let frame = |number: usize| {
            let (key, value) = changes[number];
            let kind = if value.is_some() { ChangeKind::Set } else { ChangeKind::Delete };
            let (offset, end) = (number as u64 * 8, number as u64 * 8 + 8);
            let value = value.unwrap_or_default().as_bytes();
            StreamFrame { kind, key: key.as_bytes(), value, expires_ms: 0, offset, end }
        };
        for killed in 0..=changes.len() {
            let name = format!("{killed}");
            let map = hold.maps().open_replica(&name, MapOptions::general()).unwrap();
            map.set("c", "before").unwrap();
            (0..killed).for_each(|number| map.apply_frame(&frame(number)).unwrap());
            let at = |offset| StreamPosition { stream: 1, offset };
            let mut regain = Regain::new(at(0), (at(changes.len() as u64 * 8), None)).unwrap();
            for number in 0..changes.len() {
                let last = regain.collect(&frame(number));
                assert_eq!(last, number + 1 == changes.len());
            }
            let seen = regain.seen(&map, 0).unwrap();
            assert!(seen >= killed, "{seen} of {killed}");
            regain.finish(&map, &hold, OriginClock::default()).unwrap();
            let found: Vec<_> = map.iter().map(Result::unwrap).collect();
            assert_eq!(found.len(), 3);
            assert_eq!(map.get("a").unwrap().as_deref(), Some(&b"2"[..]));
            assert_eq!(map.get("b").unwrap().as_deref(), Some(&b"1"[..]));
        }
        let at = |offset| StreamPosition { stream: 1, offset };
        assert!(
            Regain::new(at(8), (at(8), None)).is_none()
                && Regain::new(at(8), (at(0), None)).is_none()
        );
    }

    /// A cache's replica that was killed behind any of the changes shows no older value, although
    /// a pair has expired, and the last expiry counts.
    #[test]
    fn expired_pairs_take_nothing_back() {
        let directory = tempfile::tempdir_in("/dev/shm").unwrap();
        let hold = Hold::create(directory.path().join("it.hold")).unwrap();
        let clock = OriginClock::showing(&hold, 0);
        let (past, hour) = (clock.now_ms(&hold) - 10_000, clock.now_ms(&hold) + 3_600_000);
        let changes =
            [("a", "1", 0), ("b", "1", past), ("a", "2", past), ("a", "2", hour), ("b", "2", hour)];
        let frame = |number: usize| {
            let (key, value, expires_ms) = changes[number];
            let (offset, end) = (number as u64 * 8, number as u64 * 8 + 8);
            let (key, value) = (key.as_bytes(), value.as_bytes());
            StreamFrame { kind: ChangeKind::Set, key, value, expires_ms, offset, end }
        };
        for killed in 0..=changes.len() {
            let name = format!("{killed}");
            let map = hold.maps().open_replica(&name, MapOptions::cache()).unwrap();
            let at = |offset| StreamPosition { stream: 1, offset };
            let mut regain = Regain::new(at(0), (at(changes.len() as u64 * 8), None)).unwrap();
            for number in 0..changes.len() {
                assert_eq!(regain.collect(&frame(number)), number + 1 == changes.len());
            }
            for change in &regain.changes[..killed] {
                change.apply(&map, clock).unwrap();
            }
            let seen = regain.seen(&map, clock.now_ms(&hold)).unwrap();
            assert!(seen >= killed, "{seen} of {killed}");
            regain.finish(&map, &hold, clock).unwrap();
            for key in ["a", "b"] {
                assert_eq!(map.get(key).unwrap().as_deref(), Some(&b"2"[..]), "{key}");
            }
        }
    }
}
