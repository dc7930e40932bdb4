//! The locks that participants hold at this moment, with names for people. Programs use them to
//! show why other processes wait.
//!
//! Invariant: nothing is locked or written. A lock may change hands during the reading, so a result
//! is reliable only for a participant that does not run: a stopped participant keeps its locks.

use crate::error::Result;
use crate::hold::handle::Hold;
use crate::map::layout::root::{self, Status};
use crate::map::layout::segment::Segment;
use crate::memory::block::{self, Block};
use crate::memory::extents::{Kind, growth, header_of};
use crate::memory::roots::{StructureKind, roots};
use crate::queue::layout::{Layout, Side};
use crate::sync::owner::Owner;
use crate::sync::participant;
use crate::sync::robust_lock::holder;
use crate::sync::space::Space;
use std::sync::atomic::{AtomicU32, Ordering};

/// A lock that a participant holds.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct HeldLock {
    /// The participant's slot.
    pub slot: u32,
    /// The generation of the slot: each claim of the slot increases it.
    pub generation: u32,
    /// The data that the lock protects.
    pub name: String,
}

/// All locks that are held.
///
/// # Errors
/// `Closed`.
pub fn held_locks(hold: &Hold) -> Result<Vec<HeldLock>> {
    hold.arena().ensure_open()?;
    let space = hold.space();
    let mut held = Vec::new();
    let mut note = |word: &AtomicU32, name: &dyn Fn() -> String| {
        held.extend(holder(word).map(|owner| HeldLock {
            slot: owner.slot(),
            generation: owner.generation(),
            name: name(),
        }));
    };
    of_hold(space, &mut note);
    of_maps(space, &mut note);
    of_segments(space, &mut note);
    of_queues(space, &mut note);
    held.dedup();
    Ok(held)
}

/// Notes a lock if it is held.
type Note<'a> = &'a mut dyn FnMut(&AtomicU32, &dyn Fn() -> String);

fn of_hold(space: &Space, note: Note<'_>) {
    let roots = roots(space);
    note(&roots.names_lock, &|| "the names of the hold".into());
    note(&roots.freeze_lock, &|| "the freeze lock of the hold".into());
    note(&growth(space).lock, &|| "the growth of the hold".into());
}

fn of_maps(space: &Space, note: Note<'_>) {
    for (_, root) in root::all(space).filter(|(_, root)| root.status() == Status::Live) {
        note(&root.directory_lock, &|| format!("the directory of map '{}'", root.name()));
        note(&root.stream_head.lock, &|| format!("the stream of map '{}'", root.name()));
    }
}

/// Every holder of a segment's lock lists the segment in a lane.
fn of_segments(space: &Space, note: Note<'_>) {
    let used = participant::slots(space).filter_map(|(n, slot)| Some((slot, slot.user(n)?)));
    for (slot, owner) in used {
        for list in &slot.lanes {
            for word in [&list.segment, &list.child] {
                // Acquire: the lock was taken after it was listed.
                let offset = word.load(Ordering::Acquire);
                if let Some(segment) = segment_of(space, offset, owner) {
                    note(&segment.header().lock, &|| {
                        let map = root::root(space, segment.map()).map(root::Root::name);
                        format!("a segment of map '{}'", map.unwrap_or_default())
                    });
                }
            }
        }
    }
}

/// The segment at an offset that `owner` lists, if `owner` holds its lock.
fn segment_of(space: &Space, offset: u64, owner: Owner) -> Option<Segment<'_>> {
    let is_one = offset != 0
        && offset.is_multiple_of(64)
        && header_of(space, offset)?.state().is(Kind::Segments);
    let segment = is_one.then(|| Segment::at(space, offset)).flatten()?;
    (holder(&segment.header().lock) == Some(owner)).then_some(segment)
}

fn of_queues(space: &Space, note: Note<'_>) {
    let queues = block::all(space).filter(|(_, kind, _)| *kind == StructureKind::Queue);
    for (id, _, root) in queues {
        // One that is being dropped or is damaged is left out; `check` reports damage.
        let Ok(block) = Block::bind(space, id, root) else { continue };
        let Ok(layout) = Layout::read(space, &block) else { continue };
        for queue in 0..layout.queues {
            for (side, end) in [(Side::Head, "head"), (Side::Tail, "tail")] {
                note(&layout.end(space, queue, side).lock, &|| {
                    let named = layout.name(space, queue);
                    format!("the {end} of queue '{named}' of '{}'", block.name)
                });
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::map::MapOptions;
    use crate::map::engine::directory;
    use crate::queue::QueueOptions;
    use crate::sync::robust_lock::{try_lock, unlock};

    #[test]
    fn locks_are_named_while_they_are_held() {
        let folder = tempfile::tempdir().unwrap();
        let hold = Hold::create(folder.path().join("it.hold")).unwrap();
        let map = hold.maps().open_or_create("prices", MapOptions::general()).unwrap();
        map.set("apple", "3").unwrap();
        hold.queues().create("jobs", QueueOptions::new(8, 8)).unwrap();
        let reader = Hold::options().read_only(true).open(hold.path()).unwrap();
        assert_eq!(held_locks(&reader).unwrap(), []);

        let space = hold.space();
        let participant = hold.arena().participant().unwrap();
        let owner = participant.registration.owner;
        let (_, root) = root::find(space, "prices").unwrap();
        let segment = directory::segments(space, root).next().unwrap();
        let block = block::all(space).find(|(_, kind, _)| *kind == StructureKind::Queue);
        let (id, _, queue) = block.unwrap();
        let layout = Layout::read(space, &Block::bind(space, id, queue).unwrap()).unwrap();
        let list = &participant::slot(space, owner.slot()).unwrap().lanes[3].segment;
        let words = [
            &roots(space).names_lock,
            &root.stream_head.lock,
            &segment.header().lock,
            &layout.end(space, 0, Side::Tail).lock,
        ];
        words.iter().for_each(|word| assert!(try_lock(word, owner)));
        list.store(segment.offset, Ordering::SeqCst);
        let held = held_locks(&reader).unwrap();
        let names: Vec<&str> = held.iter().map(|lock| lock.name.as_str()).collect();
        let named = layout.name(space, 0);
        let queue = format!("the tail of queue '{named}' of 'jobs'");
        let (stream, segment) = ("the stream of map 'prices'", "a segment of map 'prices'");
        assert_eq!(names, ["the names of the hold", stream, segment, &queue]);
        let own = (owner.slot(), owner.generation());
        assert!(held.iter().all(|lock| (lock.slot, lock.generation) == own));

        words.iter().for_each(|word| unlock(word));
        // A free lock that is still listed, and lists that are damaged.
        for offset in [list.load(Ordering::SeqCst), 64, 1, u64::MAX, u64::MAX - 63, 1 << 40] {
            list.store(offset, Ordering::SeqCst);
            assert_eq!(held_locks(&reader).unwrap(), [], "{offset}");
        }
        list.store(0, Ordering::SeqCst);
    }
}
