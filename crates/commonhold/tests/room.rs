//! Free memory that must not be used, and free memory that must be found: extents whose only free
//! record is still being retired, compaction when some records cannot move, maps that keep their
//! pairs in the index, memory that a dropped cache had kept.

use crate::support::process::{Board, Child, End, until};
use crate::support::standstill::{PATIENCE, go_on, killed, stopped, third};
use crate::support::test_dir::TestDir;
use commonhold::map::{CacheOptions, Map, MapOptions};
use commonhold::{ErrorKind, Hold};
use nix::sys::signal::Signal;
use std::path::Path;
use std::time::Duration;

/// Two records of a value this long fill an extent.
const HALF_EXTENT: usize = 32_000;
const LIMIT: u64 = 8 << 20;

fn patient(path: &Path) -> Hold {
    Hold::options().lock_timeout(PATIENCE).open(path).unwrap()
}

fn general(hold: &Hold, name: &str) -> Map {
    hold.maps().open_or_create(name, MapOptions::general()).unwrap()
}

fn limited(path: &Path) -> Hold {
    Hold::options().max_bytes(LIMIT).lock_timeout(PATIENCE).create(path).unwrap()
}

/// Sets pairs in several segments. One of these may be locked by the process that stands still.
fn set_others(map: &Map, len: usize) {
    let value = vec![2; len];
    let set = |n: u32| map.set(format!("other {n}"), &value);
    let done = (0..20).map(set).filter(|result| match result {
        Ok(_) => true,
        Err(error) => {
            assert_eq!(error.kind(), ErrorKind::TimedOut, "{error}");
            false
        }
    });
    assert!(done.count() >= 10);
}

/// Fills an extent, then runs `meet`, which leaves a record of it between RETIRED and FREE, and
/// sets other pairs.
fn with_a_half_retired_record<T>(meet: impl FnOnce(&Path) -> T) -> T {
    let test_dir = TestDir::memory();
    let path = test_dir.path("it.hold");
    drop(general(&Hold::create(&path).unwrap(), "it"));
    let (board, mut result) = (Board::new(2), None);
    let mut writer = Child::run("writer", || {
        let map = general(&patient(&path), "it");
        for key in ["a", "b"] {
            map.set(key, vec![1; HALF_EXTENT]).unwrap();
        }
        board.put(0, 1);
        until("a record is half retired", || board.get(1) == 1);
        set_others(&map, HALF_EXTENT);
    });
    until("the extent is full", || board.get(0) == 1);
    result.replace(meet(&path));
    board.put(1, 1);
    assert_eq!(writer.wait_for(Duration::from_secs(20)), End::Well);
    result.unwrap()
}

fn delete(path: &Path) {
    assert!(general(&Hold::open(path).unwrap(), "it").delete("b").unwrap());
}

#[test]
fn a_record_whose_retirement_stands_still_is_no_room() {
    go_on(with_a_half_retired_record(|path| stopped("retire.cleared", || delete(path))));
}

#[test]
fn a_record_whose_retirement_was_killed_is_no_room() {
    with_a_half_retired_record(|path| killed("retire.cleared", || delete(path)));
}

#[test]
fn the_last_record_of_a_full_hold_is_no_room_while_it_is_retired() {
    let test_dir = TestDir::memory();
    let path = test_dir.path("it.hold");
    let hold = limited(&path);
    let map = general(&hold, "it");
    let full = (0u32..).find(|n| map.set(n.to_le_bytes(), [1; 500]).is_err()).unwrap();
    assert!(full > 1000);
    drop((map, hold));
    let still = stopped("retire.cleared", || {
        let map = general(&Hold::open(&path).unwrap(), "it");
        assert!(map.delete(7u32.to_le_bytes()).unwrap());
    });
    third("a writer", || {
        let map = general(&patient(&path), "it");
        for n in 0..20u32 {
            let error = map.set((full + 1 + n).to_le_bytes(), [1; 500]).unwrap_err();
            assert!(matches!(error.kind(), ErrorKind::Full | ErrorKind::TimedOut), "{error}");
        }
    });
    go_on(still);
}

/// The emptiest extent has a record that cannot move, since no other extent of its class has room.
#[test]
fn compaction_goes_on_after_an_extent_that_cannot_be_emptied() {
    let test_dir = TestDir::memory();
    let path = test_dir.path("it.hold");
    let hold = limited(&path);
    let map = general(&hold, "it");
    {
        // Its extent belongs to nobody afterwards.
        let other = Hold::open(&path).unwrap();
        general(&other, "it").set("odd", [3; 100]).unwrap();
    }
    let key = |n: u32| format!("key {n}");
    let count = (0..).find(|n| map.set(key(*n), [7; 40]).is_err()).unwrap();
    let deleted = (0..count).filter(|n| n % 10 < 7 && map.delete(key(*n)).unwrap()).count();
    assert!(deleted > 10_000);
    map.set("large", vec![7; 5000]).unwrap();
    assert!(hold.trim().is_ok());
    assert_eq!(map.get("odd").unwrap(), Some(vec![3; 100]));
    let report = hold.check().unwrap();
    assert!(report.ok && report.allocated == report.reachable, "{report:?}");
}

/// A process stands still with the lock over the growth of a hold that has grown to its limit.
/// Others need that lock for nothing: they find room in sparse extents.
#[test]
fn a_hold_at_its_limit_waits_for_nobody_who_grows_it() {
    /// The step of growth before the last one.
    const SIZE: u64 = LIMIT / 4 * 3;
    let test_dir = TestDir::memory();
    let path = test_dir.path("it.hold");
    let hold = limited(&path);
    let map = general(&hold, "it");
    let size = || std::fs::metadata(&path).unwrap().len();
    let count = (0u32..).find(|n| map.set(n.to_le_bytes(), [1; 1000]).is_ok() && size() >= SIZE);
    let count = count.unwrap();
    assert_eq!(size(), SIZE);
    for n in (0..count).step_by(2) {
        map.delete(n.to_le_bytes()).unwrap();
    }
    drop((map, hold));
    let still = stopped("grow.committed", || {
        let map = general(&Hold::open(&path).unwrap(), "it");
        for n in 0..1000 {
            map.set(format!("its {n}"), vec![2; HALF_EXTENT]).unwrap();
        }
    });
    assert_eq!(size(), LIMIT);
    third("a writer", || {
        let map = general(&patient(&path), "it");
        map.set("one record", [3; 4000]).unwrap();
        map.set("an extent", vec![3; 2 * HALF_EXTENT]).unwrap();
    });
    still.slay();
}

/// The only extent with room belonged to a dead process: to recover that process suffices.
#[test]
fn a_change_uses_the_extent_of_a_dead_process() {
    let test_dir = TestDir::memory();
    let path = test_dir.path("it.hold");
    let hold = limited(&path);
    let map = general(&hold, "it");
    // So large that there is no room for records before a segment splits.
    const VALUE: [u8; 4000] = [1; 4000];
    let board = Board::new(1);
    let mut other = Child::run("other", || {
        let map = general(&Hold::open(&path).unwrap(), "it");
        map.set("its", VALUE).unwrap();
        board.put(0, 1);
        until("it is killed", || false);
    });
    until("it has an extent", || board.get(0) == 1);
    let full = (0u32..).find(|n| map.set(n.to_le_bytes(), VALUE).is_err()).unwrap();
    other.signal(Signal::SIGKILL);
    assert_eq!(other.wait(), End::By(Signal::SIGKILL));
    map.set(full.to_le_bytes(), VALUE).unwrap();
}

/// A map of 8 + 8 bytes, whose pairs lie in the index, needs room for a segment.
#[test]
fn a_split_in_a_full_hold_frees_what_is_left_of_a_dropped_map() {
    let test_dir = TestDir::memory();
    let path = test_dir.path("it.hold");
    let hold = Hold::options().max_bytes(LIMIT).create(&path).unwrap();
    let large = general(&hold, "large");
    for n in 0..1000u32 {
        large.set(n.to_le_bytes(), [7; 4096]).unwrap();
    }
    let other = hold.maps().open_or_create("other", MapOptions::fixed(8, 8)).unwrap();
    let still = stopped("write.locked", || {
        let map = Hold::open(&path).unwrap().maps().open("large").unwrap();
        map.set("key", [7; 4096]).unwrap();
    });
    assert!(hold.maps().drop("large").unwrap());
    let set = |n: u64| other.set(n.to_le_bytes(), n.to_le_bytes());
    let full = (0..).find(|n| set(*n).is_err()).unwrap();
    assert!(set(full).unwrap_err().is_full());
    assert_eq!(still.slay(), End::By(Signal::SIGKILL));
    // So many that each segment splits.
    for n in full..full + full / 10 {
        set(n).unwrap();
    }
    assert!(hold.check().unwrap().ok);
}

/// A hold with a cache keeps its memory, one without does not: also if its last cache was dropped
/// by a process that was killed.
#[test]
fn memory_goes_back_after_a_killed_drop_of_the_last_cache() {
    let test_dir = TestDir::memory();
    let path = test_dir.path("it.hold");
    let hold = Hold::create(&path).unwrap();
    let cache = hold.maps().open_or_create("it", CacheOptions::new().max_bytes(64 << 20)).unwrap();
    for n in 0..5000u32 {
        cache.set(n.to_le_bytes(), [7; 4096]).unwrap();
    }
    drop(cache);
    killed("drop.marked", || {
        Hold::open(&path).unwrap().maps().drop("it").unwrap();
    });
    hold.sweep().unwrap();
    let mut freed = 0;
    until("memory goes back", || {
        freed += hold.trim().unwrap();
        freed > 16 << 20
    });
}
