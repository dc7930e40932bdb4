//! A worker's memory of files: the version of each at its last look, and open files.
//!
//! It is a table by the hash of the id: two ids for one place replace each other. A file is kept
//! open only while requests for it come, because an open file occupies the disk also after its
//! removal. Contents that a store copied for the second time stay at hand until the next look; then
//! the store is asked again, and so learns what is in use. When there are too many open files or
//! bytes, a hand goes round and takes them from the entries that it meets.

use super::http::answer::Lines;
use super::payload::Contents;
use super::source::{Coding, Found};
use super::stamp::{Stamp, mixed};
use std::mem;
use std::sync::Arc;
use std::time::{Duration, Instant};

/// The number of ids that are remembered.
const PLACES: usize = 4096;
/// The most files that are kept open.
pub const MOST_OPEN: usize = 1024;
/// The most bytes of contents that are at hand.
pub const MOST_AT_HAND: usize = 32 << 20;
/// Files without a request for this long are closed.
const UNUSED: Duration = Duration::from_secs(10);

/// The version under an id.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Seen {
    pub(crate) version: u64,
    /// By coding: the file's own version, as one number.
    stamps: [Option<u64>; 3],
}

impl Seen {
    pub(crate) fn of(found: &Found) -> Seen {
        let stamps = Coding::ALL.map(|coding| found.stamp(coding).map(Stamp::to_bits));
        Seen { version: found.to_bits(), stamps }
    }

    /// The best coding that is there and wanted.
    pub(crate) fn coding(&self, wanted: impl Fn(Coding) -> bool) -> Coding {
        let mut compressed = Coding::COMPRESSED.into_iter();
        compressed.find(|&coding| self.has(coding) && wanted(coding)).unwrap_or(Coding::Plain)
    }

    fn has(&self, coding: Coding) -> bool {
        self.stamps[coding as usize].is_some()
    }

    /// Whether this was the version in this coding.
    pub(crate) fn is_of(&self, coding: Coding, stamp: &Stamp) -> bool {
        self.stamps[coding as usize] == Some(stamp.to_bits())
    }

    /// Whether there is more than one coding.
    pub(crate) fn varies(&self) -> bool {
        Coding::COMPRESSED.into_iter().any(|coding| self.has(coding))
    }
}

/// A file that is sent directly.
pub(crate) struct OpenFile<H> {
    pub(crate) handle: H,
    /// Its version when it was opened.
    pub(crate) stamp: Stamp,
    pub(crate) lines: Lines<'static>,
}

/// A look at the source.
struct Look<H> {
    id: Box<[u8]>,
    at: Instant,
    used: Instant,
    seen: Seen,
    /// By coding, as the next.
    open: [Option<Arc<OpenFile<H>>>; 3],
    at_hand: [Option<Contents>; 3],
    /// The store was asked for contents since the look.
    asked: bool,
}

/// See the module.
pub(crate) struct FreshnessChecks<H> {
    places: Vec<Option<Look<H>>>,
    /// The place where the hand took something last.
    hand: usize,
    /// The number of open files.
    open: usize,
    /// The bytes at hand.
    at_hand: usize,
}

fn place(id: &[u8]) -> usize {
    mixed(id) as usize % PLACES
}

impl<H> Look<H> {
    fn new(id: &[u8], at: Instant, seen: Seen) -> Look<H> {
        let (open, at_hand) = ([None, None, None], [None, None, None]);
        Look { id: id.into(), at, used: at, seen, open, at_hand, asked: false }
    }

    fn is(&self, id: &[u8], seen: &Seen) -> bool {
        *self.id == *id && self.seen == *seen
    }

    fn files(&self) -> usize {
        self.open.iter().flatten().count()
    }

    fn bytes(&self) -> usize {
        self.at_hand.iter().flatten().map(|contents| contents.as_ref().len()).sum()
    }
}

impl<H> FreshnessChecks<H> {
    pub(crate) fn new() -> FreshnessChecks<H> {
        let mut places = Vec::new();
        places.resize_with(PLACES, || None);
        FreshnessChecks { places, hand: 0, open: 0, at_hand: 0 }
    }

    /// The version under an id, if the look is not longer ago than `bound`.
    pub(crate) fn recall(&mut self, id: &[u8], now: Instant, bound: Duration) -> Option<Seen> {
        let look = self.places[place(id)].as_mut().filter(|look| *look.id == *id)?;
        look.used = now;
        (now.saturating_duration_since(look.at) < bound).then_some(look.seen)
    }

    /// Notes a look that was made at `at`. Files of the same version stay open.
    pub(crate) fn note(&mut self, id: &[u8], at: Instant, seen: Seen) {
        let mut look = self.take(id, |_| true).unwrap_or_else(|| Look::new(id, at, seen));
        if look.is(id, &seen) {
            (look.at, look.at_hand, look.asked) = (at, [None, None, None], false);
            self.open += look.files();
        } else {
            look = Look::new(id, at, seen);
        }
        self.places[place(id)] = Some(look);
    }

    /// Takes out the entry in an id's place, and no longer counts it.
    fn take(&mut self, id: &[u8], which: impl FnOnce(&Look<H>) -> bool) -> Option<Look<H>> {
        let look = self.places[place(id)].take_if(|look| which(look))?;
        self.open -= look.files();
        self.at_hand -= look.bytes();
        Some(look)
    }

    /// Notes that nothing is there; returns whether something was.
    pub(crate) fn forget(&mut self, id: &[u8]) -> bool {
        self.take(id, |look| *look.id == *id).is_some()
    }

    /// The file of this version, if it is open.
    pub(crate) fn file(&self, id: &[u8], seen: &Seen, coding: Coding) -> Option<Arc<OpenFile<H>>> {
        let look = self.places[place(id)].as_ref().filter(|look| look.is(id, seen))?;
        look.open[coding as usize].clone()
    }

    /// The contents of this version, if they are at hand.
    pub(crate) fn contents(&self, id: &[u8], seen: &Seen, coding: Coding) -> Option<Contents> {
        let look = self.places[place(id)].as_ref().filter(|look| look.is(id, seen))?;
        look.at_hand[coding as usize].clone()
    }

    /// Whether the store was asked for contents since the last look; notes that it was.
    pub(crate) fn was_asked(&mut self, id: &[u8], seen: &Seen) -> bool {
        let look = self.places[place(id)].as_mut().filter(|look| look.is(id, seen));
        look.is_some_and(|look| mem::replace(&mut look.asked, true))
    }

    /// Keeps contents of this version at hand; a clone shares them.
    pub(crate) fn lay(&mut self, id: &[u8], seen: &Seen, coding: Coding, contents: &Contents) {
        let len = contents.as_ref().len();
        if len > MOST_AT_HAND {
            return;
        }
        while self.at_hand + len > MOST_AT_HAND {
            if let Some(look) = self.next() {
                let bytes = look.bytes();
                look.at_hand = [None, None, None];
                self.at_hand -= bytes;
            }
        }
        let look = self.places[place(id)].as_mut();
        if let Some(look) = look.filter(|look| look.is(id, seen)) {
            let before = look.at_hand[coding as usize].replace(contents.clone());
            self.at_hand += len;
            self.at_hand -= before.map_or(0, |before| before.as_ref().len());
        }
    }

    /// Keeps a file of this version open.
    pub(crate) fn keep(&mut self, id: &[u8], seen: &Seen, coding: Coding, file: &Arc<OpenFile<H>>) {
        while self.open >= MOST_OPEN {
            if let Some(look) = self.next() {
                let files = look.files();
                look.open = [None, None, None];
                self.open -= files;
            }
        }
        let look = self.places[place(id)].as_mut();
        if let Some(look) = look.filter(|look| look.is(id, seen))
            && look.open[coding as usize].replace(Arc::clone(file)).is_none()
        {
            self.open += 1;
        }
    }

    /// The next entry of the hand.
    fn next(&mut self) -> Option<&mut Look<H>> {
        self.hand = (self.hand + 1) % PLACES;
        self.places[self.hand].as_mut()
    }

    /// Closes files without a request for a while.
    pub(crate) fn close_unused(&mut self, now: Instant) {
        if self.open == 0 {
            return;
        }
        let is_unused = |look: &&mut Look<H>| now.saturating_duration_since(look.used) > UNUSED;
        for look in self.places.iter_mut().flatten().filter(is_unused) {
            self.open -= look.files();
            look.open = [None, None, None];
        }
    }
}

#[cfg(test)]
mod tests {
    use super::super::http::answer::Facts;
    use super::*;

    const ONE: Seen = Seen { version: 1, stamps: [Some(1), None, Some(2)] };
    const OTHER: Seen = Seen { version: 2, stamps: [Some(3), None, None] };
    const BOUND: Duration = Duration::from_secs(1);

    fn file() -> Arc<OpenFile<u8>> {
        let stamp = Stamp { file: 0, len: 0, modified_ns: 0, changed_ns: 0 };
        let (kind, modified, coding) = ("", stamp.modified(), Coding::Plain);
        let lines = Lines::new(&Facts { len: 0, kind, etag: 0, modified, coding, varies: false });
        Arc::new(OpenFile { handle: 0, stamp, lines })
    }

    #[test]
    fn looks_are_believed_for_a_while() {
        let mut looks = FreshnessChecks::<u8>::new();
        let now = Instant::now();
        assert_eq!(looks.recall(b"a", now, BOUND), None);
        looks.note(b"a", now, ONE);
        assert_eq!(looks.recall(b"a", now + BOUND / 2, BOUND), Some(ONE));
        assert_eq!(looks.recall(b"a", now + BOUND, BOUND), None);
        assert_eq!(looks.recall(b"a", now, Duration::ZERO), None);
        assert!(looks.forget(b"a") && !looks.forget(b"a"));
    }

    #[test]
    fn files_stay_open_while_they_are_the_same_and_wanted() {
        let mut looks = FreshnessChecks::<u8>::new();
        let now = Instant::now();
        looks.keep(b"a", &ONE, Coding::Plain, &file());
        assert_eq!(looks.open, 0, "nobody looked");
        looks.note(b"a", now, ONE);
        looks.keep(b"a", &ONE, Coding::Plain, &file());
        looks.keep(b"a", &ONE, Coding::Gzip, &file());
        assert!(looks.file(b"a", &ONE, Coding::Gzip).is_some() && looks.open == 2);
        assert!(looks.file(b"a", &OTHER, Coding::Gzip).is_none());
        looks.note(b"a", now, ONE);
        assert_eq!(looks.open, 2);
        looks.close_unused(now + UNUSED * 2);
        assert_eq!(looks.open, 0);
        looks.keep(b"a", &ONE, Coding::Plain, &file());
        looks.note(b"a", now, OTHER);
        assert_eq!(looks.open, 0);
    }

    #[test]
    fn not_all_files_are_open_at_once() {
        let mut looks = FreshnessChecks::<u8>::new();
        for number in 0..PLACES as u32 * 4 {
            let id = number.to_le_bytes();
            looks.note(&id, Instant::now(), ONE);
            looks.keep(&id, &ONE, Coding::Plain, &file());
            assert!(looks.open <= MOST_OPEN);
            let really: usize = looks.places.iter().flatten().map(Look::files).sum();
            assert!(number % 997 != 0 || really == looks.open);
        }
    }

    #[test]
    fn contents_are_at_hand_until_the_next_look() {
        let mut looks = FreshnessChecks::<u8>::new();
        let now = Instant::now();
        let contents = |len| Contents::Own(vec![7; len]).into_shared();
        looks.lay(b"a", &ONE, Coding::Plain, &contents(10));
        assert_eq!(looks.at_hand, 0, "nobody looked");
        looks.note(b"a", now, ONE);
        looks.lay(b"a", &ONE, Coding::Plain, &contents(10));
        looks.lay(b"a", &ONE, Coding::Plain, &contents(20));
        assert!(looks.contents(b"a", &ONE, Coding::Plain).is_some() && looks.at_hand == 20);
        assert!(looks.contents(b"a", &OTHER, Coding::Plain).is_none());
        assert!(looks.contents(b"a", &ONE, Coding::Gzip).is_none());
        looks.note(b"a", now, ONE);
        assert!(looks.contents(b"a", &ONE, Coding::Plain).is_none() && looks.at_hand == 0);
        assert!(!looks.was_asked(b"a", &ONE) && looks.was_asked(b"a", &ONE));
        assert!(!looks.was_asked(b"a", &OTHER));
        looks.note(b"a", now, ONE);
        assert!(!looks.was_asked(b"a", &ONE));
        for number in 0..100u32 {
            let id = number.to_le_bytes();
            looks.note(&id, now, ONE);
            looks.lay(&id, &ONE, Coding::Plain, &contents(MOST_AT_HAND / 10));
            assert!(looks.at_hand <= MOST_AT_HAND);
            assert!(looks.contents(&id, &ONE, Coding::Plain).is_some());
        }
        let really: usize = looks.places.iter().flatten().map(Look::bytes).sum();
        assert_eq!(really, looks.at_hand);
    }
}
