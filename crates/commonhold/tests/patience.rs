//! Nobody waits for a process that it does not need, and for one that it needs no longer than its
//! patience.
//!
//! One process is killed in the middle of a change, another stands still with a lock that settling
//! the first one needs. Third parties do everything else meanwhile, in time; what needs one of the
//! two is `TimedOut`. Then the stopped one goes on, and everything is whole.

use crate::support::process::{Board, Child, End, Watchdog, until};
use crate::support::standstill::{
    PATIENCE, go_on, killed, stopped, third, timed_out, until_asleep,
};
use crate::support::test_dir::TestDir;
use commonhold::channel::ChannelOptions;
use commonhold::map::{Map, MapOptions};
use commonhold::queue::QueueOptions;
use commonhold::raw::limit_thread_patience;
use commonhold::{ErrorKind, Hold};
use nix::sys::resource::{UsageWho, getrusage};
use nix::sys::signal::Signal;
use std::path::Path;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};

/// Keys of one of the sixteen segments that a map begins with.
fn keys(map: &Map, group: u32) -> impl Iterator<Item = String> {
    (0..).map(move |n| format!("{group}-{n}")).filter(move |key| {
        let uid = map.set(key, "probe").unwrap();
        map.delete(key).unwrap();
        uid.0 >> 8 & 15 == group
    })
}

/// Keys by group: the first ones of each, which a test uses.
struct Groups(Vec<Vec<String>>);

impl Groups {
    /// Makes the hold with its maps, and some pairs in them.
    fn prepare(path: &Path) -> Groups {
        let hold = Hold::create(path).unwrap();
        let map = hold.maps().open_or_create("common", MapOptions::general()).unwrap();
        let groups = (0..4).map(|group| keys(&map, group).take(400).collect()).collect();
        let groups = Groups(groups);
        for group in &groups.0 {
            for key in &group[..20] {
                map.set(key, "old").unwrap();
            }
        }
        let other = hold.maps().open_or_create("other", MapOptions::general()).unwrap();
        other.set("key", "old").unwrap();
        groups
    }

    /// Sets pairs of one group until its segment has been split.
    fn split(&self, path: &Path, group: usize) {
        self.split_in(&Hold::open(path).unwrap(), group);
    }

    fn split_in(&self, hold: &Hold, group: usize) {
        let map = hold.maps().open("common").unwrap();
        for key in &self.0[group] {
            map.set(key, "new").unwrap();
        }
    }
}

fn impatient(path: &Path) -> Hold {
    Hold::options().lock_timeout(PATIENCE).open(path).unwrap()
}

/// Everything that needs neither the first group nor a split of the common map.
fn works_elsewhere(path: &Path, groups: &Groups) {
    // Without a limit: it needs nobody.
    let hold = Hold::open(path).unwrap();
    let common = hold.maps().open("common").unwrap();
    for key in &groups.0[2][..20] {
        assert_eq!(common.get(key).unwrap().as_deref(), Some(&b"old"[..]));
        common.set(key, "older").unwrap();
        common.set(key, "old").unwrap();
    }
    let other = hold.maps().open("other").unwrap();
    other.set("key", "new").unwrap();
    other.delete("key").unwrap();
    other.set("key", "old").unwrap();
    drop(hold.queues().open_or_create("new", QueueOptions::new(4, 8).queues(["free"])).unwrap());
    assert!(hold.queues().drop("new").unwrap());
    drop(hold.maps().open_or_create("new", MapOptions::general()).unwrap());
    hold.trim().unwrap();
    hold.close().unwrap();
}

fn whole(path: &Path, groups: &Groups) {
    let hold = Hold::open(path).unwrap();
    hold.sweep().unwrap();
    let common = hold.maps().open("common").unwrap();
    for key in groups.0.iter().flat_map(|group| &group[..20]) {
        assert!(common.get(key).unwrap().is_some(), "{key}");
    }
    let report = hold.check().unwrap();
    assert!(report.ok && report.allocated == report.reachable, "{report:?}");
}

/// A dead one in the middle of a split, and one that stands still with the directory that finishing
/// the split needs.
#[test]
fn one_dead_and_one_stopped_process_stop_nobody_else() {
    for (dead, still) in [
        ("split.publishing", "split.entries-locked"),
        ("split.entry-stored", "split.entries-locked"),
        ("split.copied", "split.entries-locked"),
        ("write.committed", "write.locked"),
    ] {
        let test_dir = TestDir::memory();
        let path = test_dir.path("it.hold");
        let groups = Groups::prepare(&path);
        let still = stopped(still, || {
            // Opened before: nothing of the dead one is recovered then.
            let hold = Hold::open(&path).unwrap();
            killed(dead, || groups.split(&path, 0));
            groups.split_in(&hold, 1);
        });
        third(format!("elsewhere, {dead}"), || works_elsewhere(&path, &groups));
        third(format!("in the way, {dead}"), || {
            let hold = impatient(&path);
            let common = hold.maps().open("common").unwrap();
            if dead.starts_with("split.p") || dead.starts_with("split.e") {
                // It knows both: who died, and who is in the way of settling that.
                timed_out(common.set(&groups.0[0][0], "mine").map(drop), &still);
                timed_out(hold.sweep(), &still);
            } else {
                common.set(&groups.0[0][0], "mine").unwrap();
                hold.sweep().unwrap();
            }
            let mut filling = groups.0[3].iter().map(|key| common.set(key, "mine").map(drop));
            if let Some(error) = filling.find(Result::is_err) {
                timed_out(error, &still);
            }
        });
        go_on(still);
        whole(&path, &groups);
    }
}

/// A drop that needs the recovery of a dead process waits no longer than it may.
#[test]
fn a_drop_behind_a_dead_process_keeps_its_patience() {
    // Without that, one of them takes twelve seconds.
    const NAMES: [&str; 4] = ["one", "two", "three", "four"];
    let test_dir = TestDir::memory();
    let path = test_dir.path("it.hold");
    let groups = Groups::prepare(&path);
    let still = stopped("split.entries-locked", || {
        let hold = Hold::open(&path).unwrap();
        killed("split.publishing", || {
            let hold = Hold::open(&path).unwrap();
            let create = |name| hold.channels().create(name, ChannelOptions::new(4 << 10)).unwrap();
            let _channels = NAMES.map(create);
            groups.split_in(&hold, 0);
        });
        groups.split_in(&hold, 1);
    });
    third("drops", || {
        let hold = impatient(&path);
        for name in NAMES {
            let error = hold.channels().drop(name).unwrap_err();
            assert_eq!(error.kind(), ErrorKind::Busy, "{error}");
        }
    });
    go_on(still);
    let hold = Hold::open(&path).unwrap();
    hold.sweep().unwrap();
    for name in NAMES {
        assert!(hold.channels().drop(name).unwrap());
    }
    whole(&path, &groups);
}

/// Every named lock held by one that stands still: who opens and closes a hold waits for none of
/// them, dead ones or not.
#[test]
fn opening_and_closing_wait_for_nobody() {
    for still in
        ["double.locked", "split.entries-locked", "grow.locked", "write.locked", "freeze.closed"]
    {
        let test_dir = TestDir::memory();
        let path = test_dir.path("it.hold");
        let groups = Groups::prepare(&path);
        killed("write.committed", || groups.split(&path, 0));
        let still = stopped(still, || {
            if still == "freeze.closed" {
                drop(Hold::open(&path).unwrap().freeze().unwrap());
                return;
            }
            groups.split(&path, 1);
            let other = Hold::open(&path).unwrap().maps().open("other").unwrap();
            for n in 0..20_000 {
                other.set(format!("{n}"), [1; 100]).unwrap();
            }
        });
        third("opens", || {
            let hold = Hold::open(&path).unwrap();
            let read_only = Hold::options().read_only(true).open(&path).unwrap();
            for hold in [&hold, &read_only] {
                assert!(
                    hold.maps().open("common").unwrap().get(&groups.0[2][0]).unwrap().is_some()
                );
            }
            hold.close().unwrap();
        });
        go_on(still);
        whole(&path, &groups);
    }
}

/// More threads than there are lanes wait for one that stands still; the process goes on writing
/// elsewhere.
#[test]
fn threads_that_wait_leave_room_for_others() {
    const WAITERS: usize = 40;
    for step in ["write.locked", "split.entries-locked"] {
        let test_dir = TestDir::memory();
        let path = test_dir.path("it.hold");
        let groups = Groups::prepare(&path);
        let still = stopped(step, || groups.split(&path, 0));
        let name = format!("{WAITERS} threads wait for one stopped at {step}");
        let crowd = Child::run(name, || {
            let _watchdog = Watchdog::new("a crowd", Duration::from_secs(60));
            let hold = Hold::open(&path).unwrap();
            let (map, done) = (hold.maps().open("common").unwrap(), AtomicU64::new(0));
            std::thread::scope(|scope| {
                for _ in 0..WAITERS {
                    let waits = || {
                        map.set(&groups.0[0][0], "crowd").unwrap();
                        done.fetch_add(1, Ordering::SeqCst);
                    };
                    std::thread::Builder::new()
                        .name("crowd".into())
                        .spawn_scoped(scope, waits)
                        .unwrap();
                }
                until_asleep(std::process::id() as i32, "crowd", WAITERS);
                assert_eq!(done.load(Ordering::SeqCst), 0);
                works_elsewhere(&path, &groups);
                let other = hold.maps().open("other").unwrap();
                for n in 0..1000 {
                    other.set(format!("{n}"), "mine").unwrap();
                }
                still.signal(nix::sys::signal::Signal::SIGCONT);
            });
            assert_eq!(done.load(Ordering::SeqCst), WAITERS as u64);
        });
        crowd.finish();
        go_on(still);
        whole(&path, &groups);
    }
}

/// The same with threads that freeze, check, back up or begin streams: they wait for every writer.
#[test]
fn threads_that_freeze_leave_room_for_others() {
    const EACH: usize = 10;
    let test_dir = TestDir::memory();
    let path = test_dir.path("it.hold");
    let groups = Groups::prepare(&path);
    let still = stopped("write.locked", || groups.split(&path, 0));
    Child::run("threads that freeze", || {
        let _watchdog = Watchdog::new("threads that freeze", Duration::from_secs(60));
        let (hold, copy) =
            (Hold::open(&path).unwrap(), |n: usize| path.with_extension(n.to_string()));
        let waits: [&(dyn Fn(usize) + Sync); 4] = [
            &|_| drop(hold.freeze().unwrap()),
            &|_| assert!(hold.check().unwrap().ok),
            &|n| assert!(hold.backup(copy(n)).unwrap().maps > 0),
            &|_| drop(hold.maps().begin_stream("other", 1 << 16)),
        ];
        std::thread::scope(|scope| {
            for n in 0..waits.len() * EACH {
                let wait = waits[n % waits.len()];
                let thread = std::thread::Builder::new().name("freezes".into());
                thread.spawn_scoped(scope, move || wait(n)).unwrap();
            }
            until_asleep(std::process::id() as i32, "freezes", waits.len() * EACH);
            // Through this very handle, whose lanes they would fill.
            let other = hold.maps().open("other").unwrap();
            for n in 0..1000 {
                other.set(format!("{n}"), "mine").unwrap();
            }
            still.signal(nix::sys::signal::Signal::SIGCONT);
        });
    })
    .finish();
    go_on(still);
    whole(&path, &groups);
}

/// Who closes a hold with elements in flight leaves them to the next one if somebody stands still with
/// the queue that they go to.
#[test]
fn closing_with_elements_in_flight_waits_for_nobody() {
    let test_dir = TestDir::memory();
    let path = test_dir.path("it.hold");
    let queue = |hold: &Hold| {
        hold.queues().open_or_create("it", QueueOptions::new(8, 8).queues(["free"])).unwrap()
    };
    drop(queue(&Hold::create(&path).unwrap()));
    // Orphans go to the first queue.
    let still = stopped("push.armed", || {
        let queue = queue(&Hold::open(&path).unwrap());
        drop(queue.named("free").unwrap().pull().unwrap());
    });
    third("closes", || {
        let hold = Hold::open(&path).unwrap();
        let queue = queue(&hold);
        let free = queue.named("free").unwrap();
        let element = free.pull().unwrap().expect("an element");
        let _ = free.pull().unwrap().expect("another one").into_raw();
        hold.clone().close().unwrap();
        drop(element);
        drop(queue);
    });
    go_on(still);
    let hold = Hold::open(&path).unwrap();
    hold.sweep().unwrap();
    assert_eq!(queue(&hold).named("free").unwrap().len().unwrap(), 8);
    let report = hold.check().unwrap();
    assert!(report.ok && report.allocated == report.reachable, "{report:?}");
}

/// How often the calling thread has slept.
fn sleeps() -> i64 {
    getrusage(UsageWho::RUSAGE_THREAD).unwrap().voluntary_context_switches()
}

#[test]
fn a_drop_by_a_thread_without_patience_does_not_wait() {
    let test_dir = TestDir::memory();
    let path = test_dir.path("it.hold");
    let options = QueueOptions::new(8, 16).queues(["free", "a2b"]);
    {
        let queue = Hold::create(&path).unwrap().queues().open_or_create("it", options).unwrap();
        let mut half = queue.named("free").unwrap().pull_many(4).unwrap();
        queue.named("a2b").unwrap().push_many(&mut half).unwrap();
    }
    // It has the tail of "free" locked, where dropped elements go.
    let still = stopped("push.armed", || {
        let queue = Hold::open(&path).unwrap().queues().open("it").unwrap();
        let element = queue.named("a2b").unwrap().pull().unwrap().unwrap();
        queue.named("free").unwrap().push(element).unwrap();
    });
    third("drops", || {
        let hold = Hold::open(&path).unwrap();
        let queue = hold.queues().open("it").unwrap();
        let element = queue.named("a2b").unwrap().pull().unwrap().unwrap();
        let before = sleeps();
        limit_thread_patience(Duration::ZERO);
        drop(element);
        limit_thread_patience(Duration::MAX);
        // Waiting for 50 ms takes three sleeps of 20 ms at most.
        assert!(sleeps() - before < 3, "slept {} times", sleeps() - before);
        assert_eq!(queue.stat().unwrap().holders.len(), 2, "the element is noted for later");
    });
    go_on(still);
    let hold = Hold::open(&path).unwrap();
    hold.sweep().unwrap();
    let free = hold.queues().open("it").unwrap();
    assert_eq!(free.named("free").unwrap().len().unwrap(), 6);
}

/// Who waits in the middle of a split holds nothing meanwhile: neither the segment, nor the memory
/// that it had drafted.
#[test]
fn a_waiter_holds_nothing() {
    let test_dir = TestDir::memory();
    let path = test_dir.path("it.hold");
    let groups = Groups::prepare(&path);
    let still = stopped("split.entries-locked", || groups.split(&path, 1));
    for killed in [true, false] {
        let waits = Child::run("waits", || groups.split(&path, 3));
        third("meanwhile", || {
            let hold = impatient(&path);
            let common = hold.maps().open("common").unwrap();
            let filled = || (0..400).take_while(|at| has(&common, &groups.0[3][*at])).count();
            // Its segment is full, and it sleeps: that can only be for the directory.
            until_asleep(waits.pid(), "", 1);
            let mut before = 0;
            while filled() > before {
                before = filled();
                until_asleep(waits.pid(), "", 1);
            }
            for _ in 0..100 {
                common.set(&groups.0[3][0], "mine").unwrap();
            }
        });
        if killed {
            waits.slay();
            third("after its death", || works_elsewhere(&path, &groups));
        } else {
            still.signal(nix::sys::signal::Signal::SIGCONT);
            waits.finish();
        }
    }
    go_on(still);
    whole(&path, &groups);
}

fn has(map: &Map, key: &str) -> bool {
    map.get(key).unwrap().is_some_and(|value| value == b"new")
}

/// The threads of this process that wait for a stopped one end when their handle is closed.
#[test]
fn closing_ends_the_waiting_of_other_threads() {
    let test_dir = TestDir::memory();
    let path = test_dir.path("it.hold");
    let groups = Groups::prepare(&path);
    let still = stopped("write.locked", || groups.split(&path, 0));
    third("closes", || {
        let hold = Hold::open(&path).unwrap();
        let map = hold.maps().open("common").unwrap();
        std::thread::scope(|scope| {
            let waits = std::thread::Builder::new().name("waits".into());
            let waits = waits.spawn_scoped(scope, || map.set(&groups.0[0][0], "mine")).unwrap();
            until_asleep(std::process::id() as i32, "waits", 1);
            hold.clone().close().unwrap();
            assert_eq!(waits.join().unwrap().unwrap_err().kind(), ErrorKind::Closed);
        });
    });
    go_on(still);
    whole(&path, &groups);
}

/// In a full hold, a change looks for what dead processes have left. A recovery that waits for the
/// stopped process would take 50 ms, and this call has one.
#[test]
fn a_change_in_a_full_hold_keeps_its_patience() {
    let test_dir = TestDir::memory();
    let path = test_dir.path("it.hold");
    drop(Hold::options().max_bytes(8 << 20).create(&path).unwrap());
    let hold = Hold::open(&path).unwrap();
    let map = hold.maps().open_or_create("common", MapOptions::general()).unwrap();
    let of = |group| keys(&map, group).take(400).collect();
    let groups = Groups(vec![of(0), of(1)]);
    hold.maps().open_or_create("other", MapOptions::general()).unwrap();
    let still = stopped("split.entries-locked", || {
        let hold = Hold::open(&path).unwrap();
        killed("split.publishing", || groups.split(&path, 0));
        groups.split_in(&hold, 1);
    });
    third("fills it", || {
        let hold = Hold::options().lock_timeout(Duration::from_millis(1)).open(&path).unwrap();
        let other = hold.maps().open("other").unwrap();
        let value = [7; 4096];
        let mut numbers = 0u32..;
        let mut set = || other.set(numbers.next().unwrap().to_le_bytes(), value);
        while set().is_ok() {}
        let timed = |_| {
            let begin = Instant::now();
            assert!(set().unwrap_err().is_full());
            begin.elapsed()
        };
        // All of them are late only on a machine that is stopped again and again.
        let fastest = (0..50).map(timed).min().unwrap();
        assert!(fastest < Duration::from_millis(50), "a change: {fastest:?}");
        let dropped = |_| {
            let begin = Instant::now();
            assert!(!hold.queues().drop("none").unwrap());
            begin.elapsed()
        };
        let fastest = (0..50).map(dropped).min().unwrap();
        assert!(fastest < Duration::from_millis(50), "a drop: {fastest:?}");
    });
    go_on(still);
}

/// A process was killed that had kept a dropped map's memory from being freed.
#[test]
fn a_change_in_a_full_hold_frees_what_is_left_of_a_dropped_map() {
    let test_dir = TestDir::memory();
    let path = test_dir.path("it.hold");
    let hold = Hold::options().max_bytes(8 << 20).create(&path).unwrap();
    let value = [7; 4096];
    let large = hold.maps().open_or_create("large", MapOptions::general()).unwrap();
    for n in 0..1000u32 {
        large.set(n.to_le_bytes(), value).unwrap();
    }
    let other = hold.maps().open_or_create("other", MapOptions::general()).unwrap();
    let mut still = stopped("write.locked", || {
        let map = Hold::open(&path).unwrap().maps().open("large").unwrap();
        map.set("key", value).unwrap();
    });
    assert!(hold.maps().drop("large").unwrap());
    let mut numbers = 0u32..;
    let mut set = || other.set(numbers.next().unwrap().to_le_bytes(), value);
    while set().is_ok() {}
    assert!(set().unwrap_err().is_full());
    still.signal(Signal::SIGKILL);
    assert_eq!(still.wait(), End::By(Signal::SIGKILL));
    // More than the extent that the dead process had, and less than the segment that it had locked:
    // the drop has freed the segments before that one.
    for _ in 0..30 {
        set().unwrap();
    }
    drop(hold);
    assert!(Hold::open(&path).unwrap().check().unwrap().ok);
}

/// Memory ahead of what is needed is not worth waiting for a process that grows the hold.
#[test]
fn an_operation_without_growth_does_not_wait_for_it() {
    const CHANGES: usize = 200_000;
    let test_dir = TestDir::memory();
    let path = test_dir.path("it.hold");
    drop(Hold::create(&path).unwrap().maps().open_or_create("it", MapOptions::general()).unwrap());
    let board = Board::new(2);
    let value = [7; 200];
    let mut changes = Child::run("changes", || {
        let map = impatient(&path).maps().open("it").unwrap();
        // It has gone through extents, and so gets memory ahead.
        for n in 0..1000u32 {
            map.set(n.to_le_bytes(), value).unwrap();
        }
        board.put(0, 1);
        until("the growth is locked", || board.get(1) == 1);
        let full = (1000..100_000u32).find(|n| map.set(n.to_le_bytes(), value).is_err());
        let full = full.expect("it needs growth");
        // Room everywhere, and no extent that is empty.
        for n in (0..full).step_by(2) {
            map.delete(n.to_le_bytes()).unwrap();
        }
        for n in 0..CHANGES {
            map.set((n as u32 % 100 * 2 + 1).to_le_bytes(), value).unwrap();
        }
    });
    until("it has begun", || board.get(0) == 1 || changes.is_gone());
    let still = stopped("grow.locked", || {
        let map = Hold::open(&path)
            .unwrap()
            .maps()
            .open_or_create("other", MapOptions::general())
            .unwrap();
        for n in 0..20_000u32 {
            map.set(n.to_le_bytes(), value).unwrap();
        }
    });
    board.put(1, 1);
    assert_eq!(changes.wait_for(Duration::from_secs(60)), End::Well);
    go_on(still);
}
