//! The catalogue as one peer gets it: in pieces, so that a peer that reads nothing costs little.
//!
//! Invariant: what was sent is what `known` has and, up to the name `behind`, what `next` has.

use crate::protocol::catalogue::{put_listed, put_map};
use crate::protocol::wire::{now_ms, put_time};
use std::collections::BTreeSet;
use std::sync::Arc;
use std::time::{Duration, Instant};

/// Beyond this number of unsent bytes, nothing is added.
const PIECE: usize = 32 << 10;
/// How often a peer learns that the origin is alive.
const ALIVE: Duration = Duration::from_millis(500);

/// The names of the served maps, which peers share, and the number of this list.
pub(super) type Names = (u64, Arc<BTreeSet<String>>);

/// See the module.
pub(super) struct Feed {
    known: Arc<BTreeSet<String>>,
    /// The number of the list that was sent last.
    version: Option<u64>,
    /// The list that is being sent.
    next: Option<Names>,
    /// The last name in it that was sent.
    behind: Option<String>,
    alive_at: Instant,
}

impl Feed {
    pub(super) fn new(now: Instant) -> Feed {
        let (version, next, behind, alive_at) = (None, None, None, now + ALIVE);
        Feed { known: Arc::default(), version, next, behind, alive_at }
    }

    /// Appends the changes since the last list. `latest` returns the present list, unless it has
    /// this number.
    pub(super) fn fill(
        &mut self,
        words: &mut Vec<u8>,
        latest: impl FnOnce(Option<u64>) -> Option<Names>,
        now: Instant,
    ) {
        self.next = self.next.take().or_else(|| latest(self.version));
        if let Some((version, names)) = self.next.clone()
            && self.put(words, &names)
        {
            if self.version.is_none() {
                put_listed(words);
            }
            (self.known, self.version) = (names, Some(version));
            (self.next, self.behind) = (None, None);
        }
        if now >= self.alive_at && words.len() < PIECE {
            put_time(words, 0, 0, now_ms());
            self.alive_at = now + ALIVE;
        }
    }

    /// Appends as many changes as there is room for; whether these were all.
    fn put(&mut self, words: &mut Vec<u8>, names: &BTreeSet<String>) -> bool {
        let known = Arc::clone(&self.known);
        for name in known.symmetric_difference(names) {
            if self.behind.as_ref().is_some_and(|behind| name <= behind) {
                continue;
            }
            if words.len() >= PIECE {
                return false;
            }
            put_map(words, name, names.contains(name));
            self.behind = Some(name.clone());
        }
        true
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::protocol::catalogue::Entry;
    use commonhold::raw::RawFrame;

    /// The messages; they are sent.
    fn take(words: &mut Vec<u8>) -> Vec<Entry> {
        let (mut rest, mut entries) = (&words[..], Vec::new());
        while let Some(len) = RawFrame::stated_length(rest).filter(|_| !rest.is_empty()) {
            entries.push(Entry::read(&RawFrame::decode(&rest[..len]).unwrap()).unwrap());
            rest = &rest[len..];
        }
        words.clear();
        entries
    }

    fn names(numbers: std::ops::Range<u32>) -> Arc<BTreeSet<String>> {
        Arc::new(numbers.map(|number| format!("{number:0>100}")).collect())
    }

    #[test]
    fn a_long_list_comes_in_pieces_and_later_only_its_changes() {
        let (now, mut words, mut all) = (Instant::now(), Vec::new(), Vec::new());
        let mut feed = Feed::new(now);
        let first = names(0..1000);
        let mut pieces = 0;
        while feed.version != Some(1) {
            feed.fill(&mut words, |_| Some((1, Arc::clone(&first))), now);
            assert!(words.len() < PIECE + 1024);
            all.extend(take(&mut words));
            pieces += 1;
        }
        assert!(pieces > 3, "{pieces}");
        assert_eq!(all.pop(), Some(Entry::Listed));
        let sent = all.iter().map(|entry| match entry {
            Entry::Map { name, is_served: true } => name.clone(),
            other => panic!("{other:?}"),
        });
        assert_eq!(sent.collect::<Vec<_>>(), first.iter().cloned().collect::<Vec<_>>());

        let latest = |version| {
            assert_eq!(version, Some(1));
            Some((2, names(1..1002)))
        };
        feed.fill(&mut words, latest, now);
        let change =
            |number: u32, is_served| Entry::Map { name: format!("{number:0>100}"), is_served };
        let changes = [change(0, false), change(1000, true), change(1001, true)];
        assert_eq!(take(&mut words), changes);
        feed.fill(&mut words, |_| None, now + ALIVE);
        assert_eq!(take(&mut words), [Entry::Alive]);
    }
}
