//! The notes about replicas, and the waits that read them.

use crate::support::refused;
use crate::support::test_dir::TestDir;
use commonhold::map::{Map, MapOptions};
use commonhold::raw::{ReplicaAcks, map_identity};
use commonhold::stream::StreamPosition;
use commonhold::{ErrorKind, Hold, Result};
use std::time::Duration;

const LONG: Duration = Duration::from_secs(60);

/// A map with a stream, and the notes about its replicas.
fn followed(test_dir: &TestDir) -> (Hold, Map, ReplicaAcks) {
    let hold = Hold::create(test_dir.path("it.hold")).unwrap();
    let map = hold.maps().create("it", MapOptions::general()).unwrap();
    hold.maps().begin_stream("it", 1 << 20).unwrap();
    let acks = ReplicaAcks::open(&hold, "it").unwrap();
    (hold, map, acks)
}

fn end(map: &Map) -> StreamPosition {
    map.follow().unwrap().end().unwrap()
}

fn raise(acks: &ReplicaAcks, map: &Map, node: u64, name: &str, at: StreamPosition) -> Result<bool> {
    acks.raise(&map_identity(map), (node, name), at, false)
}

/// How many replicas have everything before a position.
fn count(map: &Map, at: StreamPosition) -> usize {
    map.wait_for_replicas_to(at, 0, Duration::ZERO).unwrap()
}

#[test]
fn a_note_only_rises_within_a_stream() {
    let test_dir = TestDir::memory();
    let (_hold, map, acks) = followed(&test_dir);
    map.set("a", "1").unwrap();
    let first = end(&map);
    map.set("a", "2").unwrap();
    let second = end(&map);
    assert!(raise(&acks, &map, 7, "near", second).unwrap(), "a new one");
    // Another origin may be late with an older report.
    assert!(!raise(&acks, &map, 7, "near", first).unwrap());
    assert_eq!(count(&map, second), 1);
    // A copy of the replica's hold has its number: under another name, it has what it reports.
    assert!(!raise(&acks, &map, 7, "", first).unwrap());
    assert_eq!((count(&map, first), count(&map, second)), (1, 0));
    refused(map.wait_for_replica("near", Duration::ZERO), ErrorKind::TimedOut, "no replica");
    // Another stream's offsets mean nothing here.
    let other = StreamPosition { stream: !first.stream, offset: second.offset + 1 };
    assert!(!raise(&acks, &map, 7, "near", other).unwrap());
    assert_eq!((count(&map, first), count(&map, second)), (0, 0));
    assert!(!raise(&acks, &map, 7, "near", first).unwrap());
    assert_eq!((count(&map, first), count(&map, second)), (1, 0));
    acks.forget(7).unwrap();
    assert_eq!(count(&map, first), 0);
}

/// Dropping a map and creating it again, or receiving it from another origin, may bring the same
/// positions back, with other changes.
#[test]
fn notes_about_an_earlier_map_count_for_nothing() {
    let test_dir = TestDir::memory();
    let (hold, map, acks) = followed(&test_dir);
    map.set("a", "1").unwrap();
    let at = end(&map);
    raise(&acks, &map, 7, "near", StreamPosition { offset: at.offset + 1000, ..at }).unwrap();
    assert_eq!(count(&map, at), 1);
    hold.maps().drop("it").unwrap();
    let map = hold.maps().open_replica("it", MapOptions::general()).unwrap();
    commonhold::raw::begin_stream_at(&hold, "it", 1 << 20, at).unwrap();
    map.set("a", "2").unwrap();
    let at = end(&map);
    assert_eq!(count(&map, at), 0);
    // A replica that was ahead in another history and resumes here has what it says.
    raise(&acks, &map, 7, "near", StreamPosition { offset: at.offset + 1000, ..at }).unwrap();
    let resumed = StreamPosition { offset: at.offset - 8, ..at };
    acks.raise(&map_identity(&map), (7, "near"), resumed, true).unwrap();
    assert_eq!((count(&map, resumed), count(&map, at)), (1, 0));
}

#[test]
fn the_wait_ends_when_enough_replicas_are_there() {
    let test_dir = TestDir::memory();
    let (_hold, map, acks) = followed(&test_dir);
    map.set("a", "1").unwrap();
    let at = end(&map);
    std::thread::scope(|scope| {
        let two = scope.spawn(|| map.wait_for_replicas(2, LONG).unwrap());
        let near = scope.spawn(|| map.wait_for_replica("near", LONG).unwrap());
        raise(&acks, &map, 1, "near", at).unwrap();
        near.join().unwrap();
        assert!(!two.is_finished());
        raise(&acks, &map, 2, "", at).unwrap();
        assert_eq!(two.join().unwrap(), 2);
    });
}

/// Notes that any process has damaged count as none.
#[test]
fn damaged_notes_are_passed_over() {
    let test_dir = TestDir::memory();
    let (hold, map, acks) = followed(&test_dir);
    let notes = hold.maps().open(".acks/it").unwrap();
    notes.set("", "").unwrap();
    notes.set("short", [0; 15]).unwrap();
    let at = end(&map);
    assert_eq!(count(&map, at), 0);
    notes.set(7u64.to_le_bytes(), "short").unwrap();
    raise(&acks, &map, 7, "near", at).unwrap();
    assert_eq!(count(&map, at), 1);
    acks.prune(&map_identity(&map), at.stream, 1).unwrap();
    assert_eq!(map.wait_for_replicas(1, LONG).unwrap(), 1, "the sound one is kept");
}

#[test]
fn the_notes_of_replicas_that_never_return_are_removed() {
    let test_dir = TestDir::memory();
    let (hold, map, acks) = followed(&test_dir);
    let at = end(&map);
    for node in 0..30 {
        raise(&acks, &map, node, "", StreamPosition { stream: !at.stream, offset: 1 << 40 })
            .unwrap();
        raise(&acks, &map, 1 << 32 | node, "", StreamPosition { offset: at.offset + node, ..at })
            .unwrap();
    }
    let notes = hold.maps().open(".acks/it").unwrap();
    acks.prune(&map_identity(&map), at.stream, 30).unwrap();
    assert_eq!(notes.len().unwrap(), 60, "not too many yet");
    acks.prune(&map_identity(&map), at.stream, 10).unwrap();
    assert_eq!(notes.len().unwrap(), 10);
    // Those that are furthest in the present stream stay.
    assert_eq!(count(&map, StreamPosition { offset: at.offset + 20, ..at }), 10);
}

/// The notes are not the user's: lists omit them, and copies of the hold do not contain them.
#[test]
fn notes_are_hidden_and_not_copied() {
    let test_dir = TestDir::memory();
    let (hold, map, acks) = followed(&test_dir);
    raise(&acks, &map, 7, "near", end(&map)).unwrap();
    let names: Vec<_> = hold.maps().list().unwrap().into_iter().map(|map| map.name).collect();
    assert_eq!(names, ["it"]);
    hold.backup(test_dir.path("it.backup")).unwrap();
    let again = test_dir.path("again.hold");
    commonhold::hold::restore(test_dir.path("it.backup"), &again).unwrap();
    let again = Hold::open(again).unwrap();
    assert!(again.maps().open(".acks/it").is_err_and(|error| error.is_not_found()));
    assert_eq!(again.maps().open("it").unwrap().len().unwrap(), 0);
}
