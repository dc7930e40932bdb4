//! Finds the position of a replica that was killed while applying.
//!
//! A replica stores its position once for many changes. It had applied at least up to its stored
//! position, and at most up to the end of the stored range. Applying all changes in between again
//! would take its readers back to older values. So these changes are collected first, and compared
//! with the map: every state of the map was the one behind one of them, and the map is still what
//! it was at the kill, because no other process writes it. The replica continues behind the last
//! change whose state equals the map; if several states equal it, they do not differ.

use commonhold::Result;
use commonhold::map::Map;
use commonhold::stream::{ChangeKind, StreamFrame, StreamPosition};
use std::collections::HashMap;

/// A change that may have been applied.
#[derive(Debug)]
struct Change {
    kind: ChangeKind,
    key: Vec<u8>,
    value: Vec<u8>,
    offset: u64,
    end: u64,
}

impl Change {
    fn frame(&self) -> StreamFrame<'_> {
        let Change { kind, ref key, ref value, offset, end } = *self;
        StreamFrame { kind, key, value, expires_ms: 0, offset, end }
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
    changes: Vec<Change>,
}

impl Regain {
    /// The range between the changes applied for certain and those that may have been applied;
    /// `None` if it is empty.
    pub(crate) fn new(applied: StreamPosition, applying: StreamPosition) -> Option<Regain> {
        let open = applied.stream == applying.stream && applied.offset < applying.offset;
        open.then(|| Regain { until: applying.offset, changes: Vec::new() })
    }

    /// Collects a change; true if it was the last.
    pub(crate) fn collect(&mut self, change: &StreamFrame<'_>) -> bool {
        let StreamFrame { kind, key, value, offset, end, .. } = *change;
        self.changes.push(Change { kind, key: key.to_vec(), value: value.to_vec(), offset, end });
        end >= self.until
    }

    /// The end of the last collected change.
    pub(crate) fn end(&self) -> Option<u64> {
        self.changes.last().map(|change| change.end)
    }

    /// All collected changes.
    pub(crate) fn changes(&self) -> impl Iterator<Item = StreamFrame<'_>> {
        self.changes.iter().map(Change::frame)
    }

    /// Applies the changes that the map has not seen.
    ///
    /// # Errors
    /// Those of reading and writing the map.
    pub(crate) fn finish(&self, map: &Map) -> Result<()> {
        let seen = self.seen(map)?;
        self.changes[seen..].iter().try_for_each(|change| map.apply_frame(&change.frame()))
    }

    /// How many of the changes the map has seen.
    fn seen(&self, map: &Map) -> Result<usize> {
        // Of each key: the value that it would have, and whether the map has that value.
        let mut keys: HashMap<&[u8], (Option<Vec<u8>>, bool)> = HashMap::new();
        let (mut wrong, mut seen) = (0usize, 0);
        for (number, change) in self.changes.iter().enumerate() {
            if !keys.contains_key(&*change.key) {
                keys.insert(&change.key, (map.get(&change.key)?, true));
            }
            if let Some((has, right)) = keys.get_mut(&*change.key) {
                let before = *right;
                *right = has.as_deref() == change.value();
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
            let mut regain = Regain::new(at(0), at(changes.len() as u64 * 8)).unwrap();
            for number in 0..changes.len() {
                let last = regain.collect(&frame(number));
                assert_eq!(last, number + 1 == changes.len());
            }
            let seen = regain.seen(&map).unwrap();
            assert!(seen >= killed, "{seen} of {killed}");
            regain.finish(&map).unwrap();
            let found: Vec<_> = map.iter().map(Result::unwrap).collect();
            assert_eq!(found.len(), 3);
            assert_eq!(map.get("a").unwrap().as_deref(), Some(&b"2"[..]));
            assert_eq!(map.get("b").unwrap().as_deref(), Some(&b"1"[..]));
        }
        let at = |offset| StreamPosition { stream: 1, offset };
        assert!(Regain::new(at(8), at(8)).is_none() && Regain::new(at(8), at(0)).is_none());
    }
}
