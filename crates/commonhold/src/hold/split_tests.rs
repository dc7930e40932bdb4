//! A split whose child would lie in memory that somebody else has locked.

use crate::map::MapOptions;
use crate::map::engine::{directory, recover};
use crate::map::layout::segment::{Phase, Segment, Step};
use crate::memory::classes::{EXTENT, SEGMENT_CLASS};
use crate::memory::slab;
use crate::memory::writer::{Acting, Writer};
use crate::os::tests::Child;
use crate::sync::owner::Owner;
use crate::sync::participant;
use crate::sync::patience::Patience;
use crate::sync::robust_lock;
use crate::{ErrorKind, Hold, steps};
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

/// A writer looked a segment up and was stopped with its lock. Meanwhile the map was dropped, and
/// the memory is to serve another map: that map takes other memory and does not need that writer.
#[test]
fn a_child_whose_lock_a_stale_writer_has_is_passed_over() {
    let folder = tempfile::tempdir_in("/dev/shm").unwrap();
    let path = folder.path().join("it.hold");
    let hold = Hold::options().lock_timeout(Duration::from_millis(50)).create(&path).unwrap();
    let map = hold.maps().open_or_create("it", MapOptions::general()).unwrap();
    let other = Hold::open(&path).unwrap();
    let stale = other.arena().participant().unwrap().registration.owner;
    // The extents that the lane would take next.
    let taken: Vec<u64> = {
        let lane = hold.arena().enter().unwrap();
        let taken: Vec<u64> = (0..3).map(|_| lane.allocate_segment(false).unwrap()).collect();
        taken.iter().for_each(|offset| lane.retire(*offset));
        taken
    };
    let lists = other.arena().participant().unwrap().list(other.space());
    for (offset, list) in taken.iter().zip(lists) {
        list.segment.store(*offset, Ordering::SeqCst);
        let segment = Segment::at(hold.space(), *offset).unwrap();
        assert!(robust_lock::try_lock(&segment.header().lock, stale));
    }
    for key in 0..20_000u32 {
        map.set(key.to_le_bytes(), "value").unwrap();
    }
    for (offset, list) in taken.iter().zip(lists) {
        let segment = Segment::at(hold.space(), *offset).unwrap();
        assert_eq!(robust_lock::holder(&segment.header().lock), Some(stale));
        robust_lock::unlock(&segment.header().lock);
        list.segment.store(0, Ordering::SeqCst);
    }
    let report = hold.check().unwrap();
    assert!(report.ok && report.allocated == report.reachable, "{report:?}");
}

/// The memory that is passed over is the last of its extent, which the splitter then releases.
/// After it was killed, recovery frees that memory, too.
#[test]
fn memory_that_a_killed_splitter_had_passed_over_is_freed() {
    let folder = tempfile::tempdir_in("/dev/shm").unwrap();
    let path = folder.path().join("it.hold");
    let hold = Hold::create(&path).unwrap();
    drop(hold.maps().open_or_create("it", MapOptions::general()).unwrap());
    let stale = hold.arena().participant().unwrap().registration.owner;
    fn list(hold: &Hold, owner: Owner) -> &AtomicU64 {
        &participant::slot(hold.space(), owner.slot()).unwrap().lanes[0].segment
    }
    let splitter = Child::fork(|| {
        let hold = Hold::options().lock_timeout(Duration::from_millis(50)).open(&path).unwrap();
        let map = hold.maps().open("it").unwrap();
        let last = {
            let lane = hold.arena().enter().unwrap();
            let allocate = || lane.allocate_segment(false).unwrap();
            let used = allocate() / EXTENT;
            let first = std::iter::repeat_with(allocate).find(|at| at / EXTENT != used).unwrap();
            let all: Vec<u64> = slab::offsets(first / EXTENT, SEGMENT_CLASS).collect();
            (2..all.len()).for_each(|_| _ = allocate());
            all[all.len() - 1]
        };
        list(&hold, stale).store(last, Ordering::SeqCst);
        let segment = Segment::at(hold.space(), last).unwrap();
        assert!(robust_lock::try_lock(&segment.header().lock, stale));
        steps::arm("split.child-listed:kill:2").unwrap();
        (0..20_000u32).for_each(|key| _ = map.set(key.to_le_bytes(), "value").unwrap());
        0
    });
    splitter.join_killed();
    let segment = Segment::at(hold.space(), list(&hold, stale).load(Ordering::SeqCst)).unwrap();
    assert_eq!(robust_lock::holder(&segment.header().lock), Some(stale));
    robust_lock::unlock(&segment.header().lock);
    list(&hold, stale).store(0, Ordering::SeqCst);
    hold.sweep().unwrap();
    let report = hold.check().unwrap();
    assert!(report.ok && report.allocated == report.reachable, "{report:?}");
}

/// A split that a dead process was publishing names a child that does not exist: damage. The parent
/// stays as it is, and no entry of the directory changes.
#[test]
fn a_split_without_a_child_is_not_completed() {
    let folder = tempfile::tempdir_in("/dev/shm").unwrap();
    let hold = Hold::create(folder.path().join("it.hold")).unwrap();
    let map = hold.maps().open_or_create("it", MapOptions::general()).unwrap();
    map.set("key", "value").unwrap();
    let other = Hold::open(hold.path()).unwrap();
    let participant = other.arena().participant().unwrap();
    let (space, owner) = (hold.space(), participant.registration.owner);
    let bits = map.bound.hasher.hash(b"key").directory();
    let parent = directory::lookup(space, &map.bound, bits).unwrap();
    assert!(robust_lock::try_lock(&parent.header().lock, owner));
    let phase = parent.phase();
    let publishing = Phase { step: Step::Publishing, child: 1 << 37, ..phase };
    parent.set_phase(publishing);
    let list = &participant.list(other.space())[0];
    let acting = Acting { arena: hold.arena(), owner, list, patience: Patience::none() };
    let error = recover::segment(&acting, parent.offset).unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Damaged, "{error}");
    assert_eq!(robust_lock::holder(&parent.header().lock), Some(owner));
    assert_eq!(parent.phase(), publishing);
    parent.set_phase(phase);
    robust_lock::unlock(&parent.header().lock);
    assert_eq!(map.get("key").unwrap().as_deref(), Some(&b"value"[..]));
    assert!(hold.check().unwrap().ok);
}
