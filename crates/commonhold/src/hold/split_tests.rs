//! A split whose child would lie in memory that somebody else has locked.

use crate::map::MapOptions;
use crate::map::engine::{directory, recover};
use crate::map::layout::segment::{Phase, Segment, Step};
use crate::memory::writer::{Acting, Writer};
use crate::sync::patience::Patience;
use crate::sync::robust_lock;
use crate::{ErrorKind, Hold};
use std::sync::atomic::Ordering;
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
