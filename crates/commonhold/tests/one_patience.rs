//! One patience for all waits of a call together: for the dead processes whose places a new
//! participant tries.

use crate::support::process::{Child, End, until};
use crate::support::standstill::{PATIENCE, go_on, stopped, third, timed_out};
use crate::support::test_dir::TestDir;
use commonhold::Hold;
use commonhold::map::MapOptions;
use commonhold::queue::QueueOptions;
use nix::sys::signal::{Signal, raise};
use std::time::{Duration, Instant};

/// The hold is full, so its table of participants stays as it is: dead processes have every place.
/// Somebody stands still with the queue where their elements go.
#[test]
fn joining_waits_a_moment_for_all_the_dead_together() {
    /// The places of the first table, without those of this process and of the one that stands.
    const DEAD: usize = 58;
    let test_dir = TestDir::memory();
    let path = test_dir.path("it.hold");
    drop(Hold::options().max_bytes(1 << 20).create(&path).unwrap());
    let hold = Hold::options().lock_timeout(PATIENCE).open(&path).unwrap();
    let queue = hold.queues().create("it", QueueOptions::new(64, 8).queues(["free"])).unwrap();
    let map = hold.maps().open_or_create("pairs", MapOptions::general()).unwrap();
    let full = (0..10_000u32).find(|n| map.set(n.to_le_bytes(), [7; 4096]).is_err());
    assert!(full.is_some());
    // Orphans go to the first queue.
    let still = stopped("push.armed", || {
        let queue = Hold::open(&path).unwrap().queues().open("it").unwrap();
        drop(queue.named("free").unwrap().pull().unwrap());
    });
    let free = queue.named("free").unwrap();
    for _ in 0..DEAD {
        let mut dies = Child::run("dies", || {
            free.pull().unwrap().expect("an element").into_raw();
            until("it is killed", || raise(Signal::SIGKILL).is_err());
        });
        assert_eq!(dies.wait(), End::By(Signal::SIGKILL));
    }
    assert_eq!(hold.participants().unwrap().len(), DEAD + 2);
    third("a child", || {
        let join = |_| {
            let begin = Instant::now();
            timed_out(free.pull(), &still);
            begin.elapsed()
        };
        // A moment for each of the dead would be 2.9 s. All of these calls take that long only on a
        // machine that is stopped again and again.
        let fastest = (0..5).map(join).min().unwrap();
        assert!(fastest < Duration::from_secs(1), "{fastest:?}");
    });
    go_on(still);
    Child::run("another child", || drop(free.pull().unwrap().expect("an element"))).finish();
    hold.sweep().unwrap();
    assert_eq!(free.len().unwrap(), 64);
}
