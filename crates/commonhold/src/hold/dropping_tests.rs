//! A drop whose memory cannot be freed.

use crate::Hold;
use crate::map::MapOptions;
use crate::map::engine::directory;
use crate::map::layout::root::{self, Status};
use crate::sync::owner::Owner;
use std::sync::atomic::Ordering;

/// The lock of a segment names a slot that no hold has. The map ends all the same, so the drop
/// returns that it has, and only the memory stays.
#[test]
fn a_drop_that_cannot_free_the_memory_has_happened() {
    let folder = tempfile::tempdir_in("/dev/shm").unwrap();
    let hold = Hold::create(folder.path().join("it.hold")).unwrap();
    let map = hold.maps().open_or_create("it", MapOptions::general()).unwrap();
    let space = hold.space();
    let segment = directory::segments(space, map.bound.root(space)).next().unwrap();
    segment.header().lock.store(Owner::new(1023, 7).bits(), Ordering::SeqCst);
    assert!(hold.maps().drop("it").unwrap());
    assert!(!hold.maps().drop("it").unwrap());
    hold.sweep().unwrap();
    assert_eq!(root::root(space, map.bound.id).unwrap().status(), Status::Dropping(None));
    segment.header().lock.store(0, Ordering::SeqCst);
    hold.sweep().unwrap();
    let report = hold.check().unwrap();
    assert!(report.ok && report.allocated == report.reachable, "{report:?}");
}
