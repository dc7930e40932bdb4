//! What a worker remembers of files: which version it saw when it last looked, and files that it has open.
//!
//! A table by the hash of the id: two ids for one place push each other out. Files are kept open only as long as somebody asks for
//! them: an open file takes its room on the disk also when its name is gone.

use super::http::answer::Lines;
use super::source::{Coding, Found};
use super::stamp::mixed;
use std::sync::Arc;
use std::time::{Duration, Instant, SystemTime};

/// Ids that are remembered.
const PLACES: usize = 4096;
/// Files that are kept open; when there are more, all are closed.
pub const MOST_OPEN: usize = 1024;
/// Files that nobody asked for in so long are closed.
const UNUSED: Duration = Duration::from_secs(10);

/// What is there under an id.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Seen {
    pub(crate) version: u64,
    /// In the order of [`Coding::BESIDE`].
    beside: [bool; 2],
}

impl Seen {
    pub(crate) fn of(found: &Found) -> Seen {
        Seen { version: found.to_bits(), beside: found.beside.map(|stamp| stamp.is_some()) }
    }

    /// The best coding that is there and wanted.
    pub(crate) fn coding(&self, wanted: impl Fn(Coding) -> bool) -> Coding {
        let mut beside = Coding::BESIDE.into_iter().zip(self.beside);
        let best = beside.find(|&(coding, there)| there && wanted(coding));
        best.map_or(Coding::Plain, |(coding, _)| coding)
    }

    /// Whether there is more than one coding.
    pub(crate) fn varies(&self) -> bool {
        self.beside.contains(&true)
    }
}

/// A file that is sent from where it is.
pub(crate) struct OpenFile<H> {
    pub(crate) handle: H,
    pub(crate) len: u64,
    pub(crate) modified: SystemTime,
    pub(crate) lines: Lines<'static>,
}

/// A look at the source.
struct Look<H> {
    id: Box<[u8]>,
    at: Instant,
    used: Instant,
    seen: Seen,
    open: [Option<Arc<OpenFile<H>>>; 3],
}

/// See the module.
pub(crate) struct Looks<H> {
    places: Vec<Option<Look<H>>>,
    open: usize,
}

fn place(id: &[u8]) -> usize {
    mixed(id) as usize % PLACES
}

impl<H> Look<H> {
    fn count(&self) -> usize {
        self.open.iter().flatten().count()
    }

    fn close(&mut self) -> usize {
        let count = self.count();
        self.open = [None, None, None];
        count
    }
}

impl<H> Looks<H> {
    pub(crate) fn new() -> Looks<H> {
        let mut places = Vec::new();
        places.resize_with(PLACES, || None);
        Looks { places, open: 0 }
    }

    /// What was seen under an id, if that is not longer ago than `bound`.
    pub(crate) fn recall(&mut self, id: &[u8], now: Instant, bound: Duration) -> Option<Seen> {
        let look = self.places[place(id)].as_mut().filter(|look| *look.id == *id)?;
        look.used = now;
        (now.saturating_duration_since(look.at) < bound).then_some(look.seen)
    }

    /// Notes a look that was made at `at`. Files of the same version stay open.
    pub(crate) fn note(&mut self, id: &[u8], at: Instant, seen: Seen) {
        let slot = &mut self.places[place(id)];
        match slot {
            Some(look) if *look.id == *id && look.seen == seen => look.at = at,
            _ => {
                let open = [None, None, None];
                let look = Look { id: id.into(), at, used: at, seen, open };
                let before = slot.replace(look);
                self.open -= before.map_or(0, |look| look.count());
            }
        }
    }

    /// Notes that nothing is there. Whether something was.
    pub(crate) fn forget(&mut self, id: &[u8]) -> bool {
        let before = self.places[place(id)].take_if(|look| *look.id == *id);
        self.open -= before.as_ref().map_or(0, Look::count);
        before.is_some()
    }

    /// The file of this version, if it is open.
    pub(crate) fn file(&self, id: &[u8], seen: &Seen, coding: Coding) -> Option<Arc<OpenFile<H>>> {
        let look = self.places[place(id)].as_ref()?;
        let same = *look.id == *id && look.seen == *seen;
        look.open[coding as usize].clone().filter(|_| same)
    }

    /// Keeps a file of this version open.
    pub(crate) fn keep(&mut self, id: &[u8], seen: &Seen, coding: Coding, file: &Arc<OpenFile<H>>) {
        if self.open >= MOST_OPEN {
            self.close(|_| true);
        }
        let look = self.places[place(id)].as_mut();
        if let Some(look) = look.filter(|look| *look.id == *id && look.seen == *seen)
            && look.open[coding as usize].replace(Arc::clone(file)).is_none()
        {
            self.open += 1;
        }
    }

    /// Closes files that nobody has asked for in a while.
    pub(crate) fn close_unused(&mut self, now: Instant) {
        if self.open > 0 {
            self.close(|look| now.saturating_duration_since(look.used) > UNUSED);
        }
    }

    fn close(&mut self, which: impl Fn(&Look<H>) -> bool) {
        for look in self.places.iter_mut().flatten().filter(|look| which(look)) {
            self.open -= look.close();
        }
    }
}

#[cfg(test)]
mod tests {
    use super::super::http::answer::Facts;
    use super::*;

    const ONE: Seen = Seen { version: 1, beside: [false, true] };
    const OTHER: Seen = Seen { version: 2, beside: [false, false] };
    const BOUND: Duration = Duration::from_secs(1);

    fn file() -> Arc<OpenFile<u8>> {
        let (kind, modified, coding) = ("", SystemTime::UNIX_EPOCH, Coding::Plain);
        let lines = Lines::new(&Facts { len: 0, kind, etag: 0, modified, coding, varies: false });
        Arc::new(OpenFile { handle: 0, len: 0, modified, lines })
    }

    #[test]
    fn looks_are_believed_for_a_while() {
        let mut looks = Looks::<u8>::new();
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
        let mut looks = Looks::<u8>::new();
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
        let mut looks = Looks::<u8>::new();
        for number in 0..PLACES as u32 * 4 {
            let id = number.to_le_bytes();
            looks.note(&id, Instant::now(), ONE);
            looks.keep(&id, &ONE, Coding::Plain, &file());
            assert!(looks.open <= MOST_OPEN);
            let really: usize = looks.places.iter().flatten().map(Look::count).sum();
            assert!(number % 997 != 0 || really == looks.open);
        }
    }
}
