//! A queue to begin with, and what is found in it.

use super::test_dir::TestDir;
use commonhold::Hold;
use commonhold::queue::{Queue, QueueOptions};

/// A new hold with the queue `it`.
pub fn make(options: QueueOptions) -> (TestDir, Hold, Queue) {
    let test_dir = TestDir::memory();
    let hold = Hold::create(test_dir.path("it.hold")).unwrap();
    let queue = hold.queues().open_or_create("it", options).unwrap();
    (test_dir, hold, queue)
}

/// The lengths of all named queues.
pub fn lens(queue: &Queue) -> Vec<u64> {
    queue.all().map(|named| named.len().unwrap()).collect()
}

/// Nothing is wrong, and nothing is lost to the allocator; elements may be in flight.
#[track_caller]
pub fn sound(hold: &Hold) {
    let report = hold.check().unwrap();
    assert!(report.ok, "{:?}", report.problems);
    assert_eq!(report.allocated, report.reachable);
}
