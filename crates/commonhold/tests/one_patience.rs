//! One patience for all waits of a call together: for the dead processes whose places a new
//! participant tries, and for everything that remains to be recovered when a handle is closed.

use crate::support::process::{Child, End, until};
use crate::support::standstill::{PATIENCE, go_on, stopped, third, timed_out};
use crate::support::test_dir::TestDir;
use commonhold::Hold;
use commonhold::map::MapOptions;
use commonhold::queue::{NamedQueue, QueueOptions};
use nix::sys::signal::{Signal, raise};
use std::path::Path;
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
    let still = stands_with_the_orphans(&path);
    let free = queue.named("free").unwrap();
    (0..DEAD).for_each(|_| die_with_an_element(&free));
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

/// Somebody stands still with the queue where elements go of those who die, or close the hold.
#[test]
fn closing_waits_a_moment_for_the_dead_and_for_its_own_elements_together() {
    let test_dir = TestDir::memory();
    let path = test_dir.path("it.hold");
    let hold = Hold::create(&path).unwrap();
    let queue = hold.queues().create("it", QueueOptions::new(64, 8).queues(["free"])).unwrap();
    let still = stands_with_the_orphans(&path);
    die_with_an_element(&queue.named("free").unwrap());
    third("closes", || {
        let close = |_| {
            let hold = Hold::open(&path).unwrap();
            let queue = hold.queues().open("it").unwrap();
            queue.named("free").unwrap().pull().unwrap().expect("an element").into_raw();
            drop(queue);
            let begin = Instant::now();
            hold.close().unwrap();
            begin.elapsed()
        };
        // A moment for each would be 100 ms. All of these calls take that long only on a machine
        // that is stopped again and again.
        let fastest = (0..20).map(close).min().unwrap();
        assert!(fastest < Duration::from_millis(100), "{fastest:?}");
    });
    go_on(still);
    hold.sweep().unwrap();
    assert_eq!(queue.named("free").unwrap().len().unwrap(), 64);
}

/// Orphans go to the first queue.
fn stands_with_the_orphans(path: &Path) -> Child {
    stopped("push.armed", || {
        let queue = Hold::open(path).unwrap().queues().open("it").unwrap();
        drop(queue.named("free").unwrap().pull().unwrap());
    })
}

fn die_with_an_element(free: &NamedQueue<'_>) {
    let mut dies = Child::run("dies", || {
        free.pull().unwrap().expect("an element").into_raw();
        until("it is killed", || raise(Signal::SIGKILL).is_err());
    });
    assert_eq!(dies.wait(), End::By(Signal::SIGKILL));
}
