//! [`S3Fifo`]: a small queue on probation, a main queue, and ghosts, without a lock.
//!
//! After Yang, Zhang, Qiu, Yue and Rashmi, "FIFO queues are all you need for cache eviction", SOSP
//! 2023 (<https://doi.org/10.1145/3600006.3613147>). A new entry begins in the small queue, which
//! has a tenth of the room. At its end an entry that was used meanwhile moves to the main queue.
//! Another entry goes, and its key is a ghost until as many more have gone as the main queue has
//! entries. A key that returns while it is a ghost begins in the main queue. At the end of that
//! queue, a used entry begins again, with one use less. So entries that are requested once (a scan)
//! pass through a tenth of the room and leave the rest alone.
//!
//! A use is one store to the entry's mark, and none at all after three uses. Room is counted in
//! bytes, and where two threads count at once a queue may be a little longer than its share.
//!
//! Invariant: a tag is in one queue at most. A tag that is popped and not pushed again is
//! [`TAKEN`]; an entry that is removed while its tag is in a queue leaves the tag there as
//! [`GONE`]. Those are counted, and when they are more than half, each removal looks for some.

use super::ghosts::Ghosts;
use super::interface::Eviction;
use super::queue::Queue;
use crate::store::tag::Tag;
use std::sync::Arc;
use std::sync::atomic::{AtomicU8, AtomicU64, Ordering};

/// The small queue has one part in this many of the room.
const PROBATION_SHARE: u64 = 10;
/// The uses that lead from the small queue to the main one.
const PROMOTED: u8 = 1;
/// The most uses that are counted.
const MOST_USES: u8 = 3;
/// The bits of a mark that count uses.
const USES: u8 = 0b11;
/// A bit of a mark: the tag was popped to go.
const TAKEN: u8 = 1 << 6;
/// A bit of a mark: the entry is removed.
const GONE: u8 = 1 << 7;
/// The most entries that are reinserted for one victim; then the next goes, whatever its uses.
const MAX_REINSERTIONS: u32 = 1024;

/// The number of an entry's uses, and whether it is in a queue.
#[derive(Default)]
pub struct Mark(AtomicU8);

impl Mark {
    fn use_once(&self) {
        // Relaxed, in all of this: a hint on its own, except the two bits that are only ever set,
        // in one order for all.
        let now = self.0.load(Ordering::Relaxed);
        if now & USES < MOST_USES {
            // If another thread was quicker, one use of two is counted.
            let _ = self.0.compare_exchange(now, now + 1, Ordering::Relaxed, Ordering::Relaxed);
        }
    }

    fn uses(&self) -> u8 {
        self.0.load(Ordering::Relaxed) & USES
    }

    fn is_gone(&self) -> bool {
        self.0.load(Ordering::Relaxed) & GONE != 0
    }

    /// Removes one use, or all.
    fn forgive(&self, all: bool) {
        let less = |now: u8| Some(if all || now & USES == 0 { now & !USES } else { now - 1 });
        let _ = self.0.fetch_update(Ordering::Relaxed, Ordering::Relaxed, less);
    }

    /// Sets a bit; returns the mark before.
    fn set(&self, bit: u8) -> u8 {
        self.0.fetch_or(bit, Ordering::Relaxed)
    }
}

/// Two queues and ghosts.
pub struct S3Fifo {
    probation: Queue<Mark>,
    main: Queue<Mark>,
    ghosts: Ghosts,
    /// The most bytes on probation while the main queue has entries.
    probation_bytes: u64,
    /// Tags in the queues whose entries are removed.
    gone: AtomicU64,
}

/// The fate of a tag at the end of a queue.
enum Fate {
    Goes(Arc<Tag<Mark>>),
    Reinserted,
    Dropped,
}

impl S3Fifo {
    /// Handles the tag at the end of a queue; `None` if there is none.
    fn pass(&self, may_spare: bool) -> Option<Fate> {
        let probation = self.probation.bytes() > self.probation_bytes;
        let first = if probation { self.probation.pop() } else { None };
        let (tag, main) = match first.map(|tag| (tag, false)) {
            Some(first) => first,
            None => match self.main.pop() {
                Some(tag) => (tag, true),
                None => (self.probation.pop()?, false),
            },
        };
        let uses = tag.mark.uses();
        let spared = uses >= if main { 1 } else { PROMOTED };
        if spared && may_spare && !tag.mark.is_gone() {
            tag.mark.forgive(!main);
            self.main.push(tag);
            return Some(Fate::Reinserted);
        }
        if tag.mark.set(TAKEN) & GONE != 0 {
            self.gone.fetch_sub(1, Ordering::Relaxed);
            return Some(Fate::Dropped);
        }
        if !main {
            self.ghosts.add(tag.key());
        }
        Some(Fate::Goes(tag))
    }

    /// If there are many tags of removed entries, checks the first two of each queue. Tags of
    /// entries go to its end.
    fn tidy(&self) {
        let all = (self.probation.len() + self.main.len()) as u64;
        if self.gone.load(Ordering::Relaxed) <= 64 + all / 2 {
            return;
        }
        for queue in [&self.probation, &self.probation, &self.main, &self.main] {
            let Some(tag) = queue.pop() else { continue };
            if tag.mark.is_gone() {
                tag.mark.set(TAKEN);
                self.gone.fetch_sub(1, Ordering::Relaxed);
            } else {
                queue.push(tag);
            }
        }
    }
}

impl Eviction for S3Fifo {
    type Mark = Mark;

    fn new(limit_bytes: u64) -> S3Fifo {
        S3Fifo {
            probation: Queue::new(),
            main: Queue::new(),
            ghosts: Ghosts::new(limit_bytes),
            probation_bytes: limit_bytes / PROBATION_SHARE,
            gone: AtomicU64::new(0),
        }
    }

    fn used(&self, _: &[u8], mark: &Mark) -> bool {
        mark.use_once();
        true
    }

    fn added(&self, tag: &Arc<Tag<Mark>>) {
        let back = self.ghosts.take(tag.key(), self.main.len() as u64);
        if back { &self.main } else { &self.probation }.push(Arc::clone(tag));
    }

    fn removed(&self, _: &[u8], tag: Option<&Arc<Tag<Mark>>>) {
        let Some(tag) = tag else { return };
        // The next thread that takes the tag sees that it is gone, or has taken it before; so it is
        // counted if it will be dropped.
        if tag.mark.set(GONE) & (GONE | TAKEN) == 0 {
            self.gone.fetch_add(1, Ordering::Relaxed);
            self.tidy();
        }
    }

    fn victim(&self) -> Option<Arc<Tag<Mark>>> {
        let mut reinserted = 0;
        loop {
            match self.pass(reinserted < MAX_REINSERTIONS)? {
                Fate::Goes(tag) => return Some(tag),
                Fate::Reinserted => reinserted += 1,
                Fate::Dropped => {}
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn tag(key: u32) -> Arc<Tag<Mark>> {
        Tag::new(&key.to_le_bytes(), 1)
    }

    fn victims(fifo: &S3Fifo) -> Vec<u32> {
        let keys = std::iter::from_fn(|| fifo.victim());
        keys.map(|tag| u32::from_le_bytes(tag.key().try_into().unwrap())).collect()
    }

    #[test]
    fn used_entries_outlive_unused_ones() {
        let fifo = S3Fifo::new(20);
        let tags: Vec<_> = (0..10).map(tag).collect();
        tags.iter().for_each(|tag| fifo.added(tag));
        (0..5).for_each(|_| _ = fifo.used(&[], &tags[1].mark));
        fifo.used(&[], &tags[3].mark);
        assert_eq!(tags[1].mark.uses(), MOST_USES);
        // 8 pass, two of them to the main queue; then the main queue has its turn, and the rest of
        // the small one is last.
        assert_eq!(victims(&fifo), [0, 2, 4, 5, 6, 7, 1, 3, 8, 9]);
    }

    #[test]
    fn a_returning_entry_begins_in_the_main_queue() {
        let fifo = S3Fifo::new(10);
        (0..10).map(tag).for_each(|tag| fifo.added(&tag));
        let keep: Vec<_> = (10..20).map(tag).collect();
        keep.iter().for_each(|tag| fifo.main.push(Arc::clone(tag)));
        let gone = fifo.victim().unwrap();
        assert_eq!(gone.key(), 0u32.to_le_bytes());
        fifo.added(&tag(0));
        assert_eq!((fifo.main.len(), fifo.probation.len()), (11, 9));
        fifo.added(&tag(0));
        assert_eq!((fifo.main.len(), fifo.probation.len()), (11, 10));
    }

    #[test]
    fn tags_of_removed_entries_do_not_pile_up() {
        let fifo = S3Fifo::new(1 << 20);
        let kept: Vec<_> = (0..100).map(tag).collect();
        kept.iter().for_each(|tag| fifo.added(tag));
        for key in 100..10_000 {
            let tag = tag(key);
            fifo.added(&tag);
            fifo.removed(tag.key(), Some(&tag));
            fifo.removed(tag.key(), Some(&tag));
        }
        let (all, gone) = (fifo.probation.len(), fifo.gone.load(Ordering::Relaxed));
        assert!(all < 400 && gone as usize == all - 100, "{gone} of {all}");
        let mut left = victims(&fifo);
        left.sort_unstable();
        assert!(left.into_iter().eq(0..100));
        assert_eq!(fifo.gone.load(Ordering::Relaxed), 0);
        // A tag that was taken, and is removed after, is not counted.
        kept.iter().for_each(|tag| fifo.removed(tag.key(), Some(tag)));
        assert_eq!(fifo.gone.load(Ordering::Relaxed), 0);
    }

    #[test]
    fn a_crowd_of_used_entries_is_not_reinserted_for_ever() {
        let fifo = S3Fifo::new(10);
        let tags: Vec<_> = (0..3 * MAX_REINSERTIONS).map(tag).collect();
        for tag in &tags {
            fifo.main.push(Arc::clone(tag));
            (0..3).for_each(|_| tag.mark.use_once());
        }
        assert_eq!(fifo.victim().unwrap().key(), MAX_REINSERTIONS.to_le_bytes());
    }
}
