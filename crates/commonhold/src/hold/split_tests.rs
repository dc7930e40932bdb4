//! A split whose child would lie in memory that somebody else has locked.

use crate::Hold;
use crate::map::MapOptions;
use crate::map::segment::Segment;
use crate::memory::arena::Writer;
use crate::sync::robust_lock;
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
    let lists = other.arena().participant().unwrap().list(hold.space());
    for (offset, list) in taken.iter().zip(lists) {
        list.segment.store(*offset, Ordering::SeqCst);
        let segment = Segment { space: hold.space(), offset: *offset };
        assert!(robust_lock::try_lock(&segment.header().lock, stale));
    }
    for key in 0..20_000u32 {
        map.set(key.to_le_bytes(), "value").unwrap();
    }
    for (offset, list) in taken.iter().zip(lists) {
        let segment = Segment { space: hold.space(), offset: *offset };
        assert_eq!(robust_lock::holder(&segment.header().lock), Some(stale));
        robust_lock::unlock(&segment.header().lock);
        list.segment.store(0, Ordering::SeqCst);
    }
    let report = hold.check().unwrap();
    assert!(report.ok && report.allocated == report.reachable, "{report:?}");
}
