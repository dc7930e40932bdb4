//! Large values: their readers may be stopped anywhere, their memory goes back and stays back.

use crate::support::disk::on_small_tmpfs;
use crate::support::process::{Board, Child, until};
use crate::support::test_dir::TestDir;
use commonhold::Hold;
use commonhold::map::{Map, MapOptions};
use nix::sys::signal::Signal;
use std::collections::HashSet;
use std::io::Write;
use std::os::unix::fs::FileExt;
use std::path::Path;
use std::sync::Mutex;

const KEY: &str = "large";
/// Every hold keeps its first blocks.
const KEPT: u64 = 5 << 20;

fn memory(hold: &Hold) -> u64 {
    hold.stat().unwrap().memory_bytes
}

fn trimmed_below(hold: &Hold, bytes: u64) {
    until("the memory is given back", || {
        hold.trim().unwrap();
        memory(hold) <= bytes
    });
}

/// A process that reads the value again and again, until it is gone.
fn reader<'a>(path: &'a Path, board: &'a Board) -> Child {
    Child::run("reader", move || {
        let hold = Hold::options().read_only(true).open(path).unwrap();
        let map = hold.maps().open("it").unwrap();
        // Nearly all its time goes into copies.
        let mut value = Vec::new();
        while map.get_into(KEY, &mut value).unwrap() {
            assert!(value.iter().step_by(value.len() / 64).all(|byte| *byte == 7));
            board.count(0, 1);
        }
    })
}

/// Stops a reader in a copy that takes nearly all its time, deletes the value, has the memory given
/// back, lets `meanwhile` do something, and lets the reader go on.
fn stop_a_reader(
    path: &Path,
    hold: &Hold,
    map: &Map,
    bytes: usize,
    meanwhile: impl FnOnce(),
) -> u64 {
    let before = memory(hold);
    map.set(KEY, vec![7; bytes]).unwrap();
    let board = Board::new(1);
    let mut reader = reader(path, &board);
    until("the reader reads", || board.get(0) > 1 || reader.is_gone());
    reader.signal(Signal::SIGSTOP);
    assert!(reader.wait_stopped());
    assert!(map.delete(KEY).unwrap());
    trimmed_below(hold, before + KEPT);
    let given_back = memory(hold);
    meanwhile();
    reader.signal(Signal::SIGCONT);
    reader.finish();
    given_back
}

/// The reader once went on copying what was punched, and so brought all of it back, for good: 436
/// MiB were seen.
#[test]
fn a_reader_stopped_in_a_copy_brings_no_memory_back() {
    let test_dir = TestDir::memory();
    let path = test_dir.path("it.hold");
    let hold = Hold::create(&path).unwrap();
    let map = hold.maps().open_or_create("it", MapOptions::general()).unwrap();
    for round in 0..3 {
        let given_back = stop_a_reader(&path, &hold, &map, 48 << 20, || ());
        let after = memory(&hold);
        assert!(after <= given_back + (256 << 10), "round {round}: {given_back}, then {after}");
        trimmed_below(&hold, given_back);
    }
}

/// On a full file system it died of SIGBUS.
#[test]
fn a_reader_stopped_in_a_copy_survives_a_full_file_system() {
    let test_dir = TestDir::memory();
    on_small_tmpfs(96, &test_dir, |dir| {
        let path = dir.join("it.hold");
        let hold = Hold::create(&path).unwrap();
        let map = hold.maps().open_or_create("it", MapOptions::general()).unwrap();
        for _ in 0..3 {
            let other = dir.join("other");
            stop_a_reader(&path, &hold, &map, 48 << 20, || {
                let mut other = std::fs::File::create(&other).unwrap();
                while other.write_all(&[1; 4096]).is_ok() {}
            });
            std::fs::remove_file(other).unwrap();
        }
    });
}

/// A follower once copied what its map had told through the mapping.
#[test]
fn a_follower_stopped_in_a_copy_brings_no_memory_back() {
    use commonhold::steps;
    use commonhold::stream::StreamPosition;
    let test_dir = TestDir::memory();
    let path = test_dir.path("it.hold");
    let hold = Hold::create(&path).unwrap();
    let before = memory(&hold);
    let map = hold.maps().open_or_create("it", MapOptions::general()).unwrap();
    assert!(hold.maps().begin_stream("it", 64 << 20).unwrap());
    map.set(KEY, vec![7; 12 << 20]).unwrap();
    let mut follower = Child::run("follower", || {
        let hold = Hold::options().read_only(true).open(&path).unwrap();
        let map = hold.maps().open("it").unwrap();
        let now = map.follow().unwrap().position();
        let mut follower = map.follow_from(StreamPosition { offset: 0, ..now }).unwrap();
        assert_eq!(follower.try_recv().unwrap().unwrap().value.len(), 12 << 20);
        let mut follower = map.follow_from(StreamPosition { offset: 0, ..now }).unwrap();
        steps::arm("read.piece:stop:3").unwrap();
        let error = follower.try_recv().expect_err("the map is gone");
        assert!(error.is_not_found(), "{error}");
    });
    assert!(follower.wait_stopped());
    drop(map);
    assert!(hold.maps().drop("it").unwrap());
    trimmed_below(&hold, before + KEPT);
    let given_back = memory(&hold);
    follower.signal(Signal::SIGCONT);
    follower.finish();
    let after = memory(&hold);
    assert!(after <= given_back + (256 << 10), "{given_back}, then {after}");
}

/// Pages that came back to extents that had been given back already stayed for ever.
#[test]
fn memory_that_returns_to_empty_extents_is_given_back_again() {
    let test_dir = TestDir::memory();
    let path = test_dir.path("it.hold");
    let hold = Hold::create(&path).unwrap();
    let map = hold.maps().open_or_create("it", MapOptions::general()).unwrap();
    map.set("small", "value").unwrap();
    let before = memory(&hold);
    map.set(KEY, vec![7; 48 << 20]).unwrap();
    map.delete(KEY).unwrap();
    trimmed_below(&hold, before + KEPT);
    let given_back = memory(&hold);
    // As a reader would that was stopped before it touched the first byte of a record.
    let file = std::fs::File::options().write(true).open(&path).unwrap();
    for mebibyte in 8..40 {
        file.write_all_at(&[0], mebibyte << 20).unwrap();
    }
    assert!(memory(&hold) >= given_back + 32 * 4096);
    assert!(hold.trim().unwrap() > 0);
    assert_eq!(memory(&hold), given_back);
    assert_eq!(map.get("small").unwrap().as_deref(), Some(&b"value"[..]));
    assert!(hold.check().unwrap().ok);
}

/// A large value is copied before its segment is locked: each must still be whole, and go to one
/// taker.
#[test]
fn a_large_value_is_taken_whole_and_once() {
    let test_dir = TestDir::memory();
    let hold = Hold::create(test_dir.path("it.hold")).unwrap();
    let map = hold.maps().open_or_create("it", MapOptions::general()).unwrap();
    const VALUES: u32 = 400;
    let taken = Mutex::new(HashSet::new());
    let is_whole = |value: &[u8]| value.chunks_exact(4).all(|word| word == &value[..4]);
    let take = |map: &Map| {
        let Some(value) = map.take(KEY).unwrap() else { return };
        assert!(is_whole(&value), "a value of two");
        let number = u32::from_le_bytes(value[..4].try_into().unwrap());
        assert!(taken.lock().unwrap().insert(number), "{number} was taken twice");
    };
    std::thread::scope(|scope| {
        for _ in 0..2 {
            let (map, take, taken) = (&map, &take, &taken);
            scope.spawn(move || {
                while taken.lock().unwrap().len() < VALUES as usize {
                    take(map);
                }
            });
        }
        for number in 0..VALUES {
            let value: Vec<u8> = number.to_le_bytes().repeat(10_000);
            while map.add(KEY, &value).unwrap().is_none() {
                std::thread::yield_now();
            }
        }
    });
    assert_eq!((taken.lock().unwrap().len(), map.len().unwrap()), (VALUES as usize, 0));
    assert!(hold.check().unwrap().ok);
}
