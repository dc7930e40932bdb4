//! A splitter that is killed after it passed over memory whose lock somebody else has.

use crate::map::MapOptions;
use crate::map::layout::segment::Segment;
use crate::memory::classes::{EXTENT, SEGMENT_CLASS};
use crate::memory::slab;
use crate::os::tests::Child;
use crate::sync::owner::Owner;
use crate::sync::{participant, robust_lock};
use crate::{Hold, steps};
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

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
