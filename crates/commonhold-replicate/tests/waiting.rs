//! Processes that wait until replicas have applied their changes: counted by number and by name,
//! never too early, and true when the origin is gone.

use crate::hostile::words::{
    APPLIED, COMPLETE, PAIR, Peer, WELCOME, Welcome, frame, greeting, greeting_of,
};
use crate::party::{Copy, LONG, SMALL_STREAM, Source, eager};
use commonhold::map::{Map, MapMode, MapOptions};
use commonhold::raw::RawFrame;
use commonhold::stream::StreamPosition;
use commonhold::{ErrorKind, Hold};
use commonhold_replicate::journal::{Journal, JournalOptions};
use commonhold_replicate::{
    Address, Origin, OriginOptions, Replica, ReplicaOptions, promote, verify,
};
use commonhold_testing::alone::cast;
use commonhold_testing::support::process::{Board, Child, pause, until};
use commonhold_testing::support::refused;
use commonhold_testing::support::test_dir::TestDir;
use nix::sys::signal::Signal;
use std::os::unix::net::UnixListener;
use std::path::Path;
use std::time::Duration;

/// Enough for a report, and too short for a test to take long.
const SHORT: Duration = Duration::from_millis(200);

/// A word of the board.
const READY: usize = 0;

fn named(name: &str) -> ReplicaOptions {
    ReplicaOptions { name: name.to_owned(), ..eager() }
}

/// A replica of this name in this process.
fn copy(source: &Source, file: &str, name: &str) -> Copy {
    let hold = Hold::open_or_create(source.test_dir.path(file)).unwrap();
    let replica = Replica::connect(&hold, "it", &source.address, named(name), ()).unwrap();
    // It may have been ready before.
    let is_there = replica.wait_ready(LONG) && replica.wait_for(source.end(), LONG);
    assert!(is_there, "{:?}", replica.status());
    Copy { hold, replica }
}

/// A replica of this name in a process of its own, until it is killed; it is ready.
fn follows(path: &Path, from: &Address, name: &str) -> Child {
    let board = Board::new(1);
    let child = cast(name, || {
        let hold = Hold::open_or_create(path).unwrap();
        let replica = Replica::connect(&hold, "it", from, named(name), ()).unwrap();
        assert!(replica.wait_ready(LONG));
        board.put(READY, 1);
        loop {
            pause();
        }
    });
    until("it is ready", || board.get(READY) == 1 || child.is_gone());
    child
}

/// An origin in a process of its own, until it is killed; it listens.
fn serves(path: &Path, address: &Address) -> Child {
    let board = Board::new(1);
    let child = cast("origin", || {
        let hold = Hold::open(path).unwrap();
        let origin = Origin::start(&hold, "it", OriginOptions::default()).unwrap();
        origin.listen(address).unwrap();
        board.put(READY, 1);
        loop {
            pause();
        }
    });
    until("it listens", || board.get(READY) == 1 || child.is_gone());
    child
}

/// Clearing produces many times what the stream holds.
#[test]
fn clearing_a_large_map_laps_no_reader() {
    // A machine that stops a reader for half a second may prevent it once.
    assert!((0..5).any(|_| clearing_laps_no_reader()), "readers were lapped each time");
}

fn clearing_laps_no_reader() -> bool {
    let source = Source::with(MapOptions::general(), |options| options.stream_bytes = SMALL_STREAM);
    let pairs = 0..50_000u32;
    for id in pairs.clone() {
        source.map.set(id.to_be_bytes(), "some value").unwrap();
    }
    let journal = source.test_dir.path("journal");
    let options = JournalOptions { stream_bytes: 0, ..JournalOptions::default() };
    let journal = Journal::start(&source.hold, "it", journal, options).unwrap();
    source.map.sync(LONG).unwrap();
    let compactions = journal.status().compactions;
    let copies = ["one", "two"].map(|name| copy(&source, name, name));
    assert_eq!(source.map.clear().unwrap(), pairs.len() as u64);
    copies.iter().for_each(|copy| copy.agrees(&source));
    source.map.sync(LONG).unwrap();
    let is_whole = |copy: &Copy| copy.replica.status().synchronisations == 1;
    copies.iter().all(is_whole) && journal.status().compactions == compactions
}

/// It is waited for only once, and gets the whole map later.
#[test]
fn clearing_a_large_map_goes_on_without_a_stopped_replica() {
    let source = Source::with(MapOptions::general(), |options| options.stream_bytes = SMALL_STREAM);
    let pairs = 0..50_000u32;
    for id in pairs.clone() {
        source.map.set(id.to_be_bytes(), "some value").unwrap();
    }
    let copy = copy(&source, "copy", "copy");
    let mut stopped = follows(&source.test_dir.path("stopped"), &source.address, "stopped");
    stopped.signal(Signal::SIGSTOP);
    assert!(stopped.wait_stopped());
    assert_eq!(source.map.clear().unwrap(), pairs.len() as u64);
    copy.agrees(&source);
    stopped.signal(Signal::SIGCONT);
    source.map.wait_for_replica("stopped", LONG).unwrap();
}

/// Exactly this number of replicas have everything.
#[track_caller]
fn counts(map: &Map, count: usize) {
    assert_eq!(map.wait_for_replicas(count, LONG).unwrap(), count);
    let text = format!("{count} of {} replicas have applied all changes", count + 1);
    refused(map.wait_for_replicas(count + 1, SHORT), ErrorKind::TimedOut, &text);
}

#[test]
fn replicas_are_waited_for_by_number_and_by_name() {
    let source = Source::new(MapOptions::general());
    let map = &source.map;
    map.set("a", "1").unwrap();
    refused(map.wait_for_replicas(1, SHORT), ErrorKind::TimedOut, "0 of 1 replicas");
    assert_eq!(map.wait_for_replicas(0, SHORT).unwrap(), 0);
    let near = copy(&source, "near.hold", "near");
    counts(map, 1);
    let _far = copy(&source, "far.hold", "");
    for number in 0..100u32 {
        map.set("a", number.to_le_bytes()).unwrap();
        map.wait_for_replica("near", LONG).unwrap();
        let seen = near.hold.maps().open("it").unwrap().get("a").unwrap();
        assert_eq!(seen.as_deref(), Some(&number.to_le_bytes()[..]));
    }
    counts(map, 2);
    let unknown = map.wait_for_replica("nobody", SHORT);
    refused(unknown, ErrorKind::TimedOut, "no replica with the name 'nobody' has reported");
    let names: Vec<_> = source.origin().replicas().into_iter().map(|it| it.name).collect();
    assert!(names.iter().any(|name| name == "near") && names.iter().any(String::is_empty));
}

#[test]
fn bad_names_and_maps_without_a_stream_are_refused() {
    let source = Source::new(MapOptions::general());
    let hold = Hold::create(source.test_dir.path("copy.hold")).unwrap();
    for name in ["n".repeat(65), "a\nb".to_owned()] {
        let replica = Replica::connect(&hold, "it", &source.address, named(&name), ());
        refused(replica, ErrorKind::Invalid, "at most 64 bytes without control characters");
        let waited = source.map.wait_for_replica(&name, SHORT);
        refused(waited, ErrorKind::Invalid, "at most 64 bytes without control characters");
    }
    refused(source.map.wait_for_replica("", SHORT), ErrorKind::Invalid, "got an empty one");
    let alone = source.hold.maps().create("alone", MapOptions::general()).unwrap();
    refused(alone.wait_for_replicas(1, SHORT), ErrorKind::NotFound, "");
    refused(alone.wait_for_replica("near", SHORT), ErrorKind::NotFound, "");
    let read_only = Hold::options().read_only(true).open(source.test_dir.path("origin.hold"));
    let read_only = read_only.unwrap().maps().open("it").unwrap();
    refused(read_only.wait_for_replicas(1, SHORT), ErrorKind::ReadOnly, "");
}

/// A waiting process whose map is dropped does not wait until its time is over.
#[test]
fn the_wait_for_a_dropped_map_ends() {
    let source = Source::new(MapOptions::general());
    source.map.set("a", "1").unwrap();
    std::thread::scope(|scope| {
        let waits = scope.spawn(|| source.map.wait_for_replicas(1, LONG * 10));
        assert!(source.hold.maps().drop("it").unwrap());
        refused(waits.join().unwrap(), ErrorKind::NotFound, "");
    });
}

#[test]
fn a_stopped_replica_does_not_count_until_it_goes_on() {
    let source = Source::new(MapOptions::general());
    let mut still = follows(&source.test_dir.path("still.hold"), &source.address, "still");
    let _copies = ["one", "two"].map(|name| copy(&source, name, name));
    counts(&source.map, 3);
    still.signal(Signal::SIGSTOP);
    assert!(still.wait_stopped());
    source.map.set("a", "1").unwrap();
    counts(&source.map, 2);
    source.map.wait_for_replica("two", LONG).unwrap();
    let waited = source.map.wait_for_replica("still", SHORT);
    refused(waited, ErrorKind::TimedOut, "the replica 'still' has not applied all changes");
    still.signal(Signal::SIGCONT);
    source.map.wait_for_replica("still", LONG).unwrap();
    counts(&source.map, 3);
    still.slay();
}

/// A replica that comes back counts once, also at another origin of the map.
#[test]
fn a_replica_counts_once_whatever_origin_it_follows() {
    let mut source = Source::new(MapOptions::general());
    let map = source.map.clone();
    map.set("a", "1").unwrap();
    drop(copy(&source, "copy.hold", "it"));
    // It has the change, although it is away: it has reported that at its end.
    counts(&map, 1);
    map.set("a", "2").unwrap();
    refused(map.wait_for_replicas(1, SHORT), ErrorKind::TimedOut, "0 of 1 replicas");
    drop(copy(&source, "copy.hold", "it"));
    counts(&map, 1);
    let (first, address) = (source.origin.take(), source.address.clone());
    source.address = Address::Unix(source.test_dir.path("second"));
    source.begin(|_| ());
    let elsewhere = copy(&source, "copy.hold", "renamed");
    map.set("a", "3").unwrap();
    map.wait_for_replica("renamed", LONG).unwrap();
    refused(map.wait_for_replica("it", SHORT), ErrorKind::TimedOut, "no replica with the name");
    counts(&map, 1);
    // Each origin has one of them.
    source.address = address;
    let _other = copy(&source, "other.hold", "other");
    map.set("a", "4").unwrap();
    counts(&map, 2);
    drop((first, elsewhere));
}

#[test]
fn replicas_of_a_relay_count_at_the_relay_only() {
    let source = Source::new(MapOptions::general());
    let hold = Hold::create(source.test_dir.path("relay.hold")).unwrap();
    let options = ReplicaOptions { stream_bytes: Some(1 << 20), ..named("relay") };
    let relay = Replica::connect(&hold, "it", &source.address, options, ()).unwrap();
    assert!(relay.wait_ready(LONG));
    let origin = Origin::start(&hold, "it", OriginOptions::default()).unwrap();
    let address = origin.listen(&Address::Unix(source.test_dir.path("relay"))).unwrap();
    let leaf = Copy::at(&source, "leaf.hold", &address);
    assert!(leaf.replica.wait_ready(LONG));
    source.map.set("a", "1").unwrap();
    let end = source.end();
    counts(&source.map, 1);
    let own = hold.maps().open("it").unwrap();
    assert_eq!(own.wait_for_replicas_to(end, 1, LONG).unwrap(), 1);
    counts(&own, 1);
}

/// A comparison follows the origin for a moment, with a copy that does not stay.
#[test]
fn a_comparison_counts_as_no_replica() {
    let source = Source::new(MapOptions::general());
    source.map.set("a", "1").unwrap();
    let copy = copy(&source, "copy.hold", "");
    counts(&source.map, 1);
    let limits = (LONG, 10);
    assert!(verify(&copy.hold, "it", &source.address, eager(), limits).unwrap().is_equal());
    counts(&source.map, 1);
}

/// A replica of a later stream has begun with the whole map.
#[test]
fn replicas_of_a_later_stream_count() {
    let source = Source::new(MapOptions::general());
    source.map.set("a", "1").unwrap();
    let before = source.end();
    assert!(source.hold.maps().begin_stream("it", 1 << 20).unwrap());
    assert_ne!(source.end().stream, before.stream);
    let waited = source.map.wait_for_replicas_to(before, 1, SHORT);
    refused(waited, ErrorKind::TimedOut, "0 of 1 replicas");
    let _copy = copy(&source, "copy.hold", "");
    assert_eq!(source.map.wait_for_replicas_to(before, 1, LONG).unwrap(), 1);
}

/// The origin believes no report about a map that readers do not see yet.
#[test]
fn a_replica_counts_when_its_readers_see_the_changes() {
    let source = Source::new(MapOptions::general());
    source.map.set("a", "1").unwrap();
    let end = source.end().offset;
    let is_noted = |applied| {
        let of = |it: &commonhold_replicate::ReplicaInfo| it.applied == applied;
        until("the report has come", || source.origin().replicas().iter().any(of));
    };
    // An older replica sends no number, and another one no word about its readers.
    for (greeting, report) in [
        (greeting(None), &1u32.to_le_bytes()[..]),
        (greeting_of(7, "it"), &[]),
        (greeting_of(7, "it"), &0u32.to_le_bytes()),
    ] {
        let mut peer = Peer::of(&source.address);
        peer.say(&[greeting, frame(APPLIED, end, &[], report)].concat());
        is_noted(end);
        refused(source.map.wait_for_replicas(1, SHORT), ErrorKind::TimedOut, "0 of 1 replicas");
        peer.say_no_more();
        peer.is_sent_away();
        until("it has left", || source.origin().replicas().is_empty());
    }
    let mut peer = Peer::of(&source.address);
    let report = |offset| frame(APPLIED, offset, &[], &1u32.to_le_bytes());
    peer.say(&[greeting_of(7, "it"), report(end)].concat());
    counts(&source.map, 1);
    // It claims more than it was sent.
    peer.say(&report(end + 1000));
    source.map.set("b", "2").unwrap();
    source.map.wait_for_replica("it", LONG).unwrap();
    drop(peer);
    until("it has left", || source.origin().replicas().is_empty());
    // It comes back with nothing.
    let mut peer = Peer::of(&source.address);
    peer.say(&greeting_of(7, "it"));
    while RawFrame::decode(&next_frame(&mut peer)).unwrap().code != WELCOME {}
    until("it is forgotten", || source.map.wait_for_replicas(1, Duration::ZERO).is_err());
}

/// A frame of an origin, behind its preface.
fn next_frame(peer: &mut Peer) -> Vec<u8> {
    let bytes = peer.receive(4);
    if bytes == b"COMM" {
        peer.receive(12);
        return peer.receive_frame();
    }
    let len = u32::from_le_bytes(bytes[..].try_into().unwrap()) as usize;
    let rest = peer.receive(len - 4);
    [bytes, rest].concat()
}

/// The next report of a replica: its offset, and whether its readers see that.
fn report(peer: &mut Peer) -> (u64, bool) {
    let bytes = peer.receive_frame();
    let frame = RawFrame::decode(&bytes).unwrap();
    assert_eq!(frame.code, APPLIED);
    (frame.offset, frame.value == 1u32.to_le_bytes())
}

/// A replica reports the map that it builds as one that its readers do not see.
#[test]
fn a_replica_reports_a_full_sync_when_it_is_shown() {
    let test_dir = TestDir::memory();
    let path = test_dir.path("socket");
    let listener = UnixListener::bind(&path).unwrap();
    let hold = Hold::create(test_dir.path("copy.hold")).unwrap();
    let replica = Replica::connect(&hold, "it", &Address::Unix(path), named("near"), ()).unwrap();
    let mut peer = Peer(listener.accept().unwrap().0);
    peer.0.set_read_timeout(Some(LONG)).unwrap();
    peer.receive(16);
    let bytes = peer.receive_frame();
    let hello = RawFrame::decode(&bytes).unwrap();
    // The name, and the map that it wants of an origin of a whole hold.
    assert_eq!(hello.value[72..], *b"\x04\0near\x01\0\x02\0it");
    let at = StreamPosition { stream: 5, offset: 48 };
    let pair = frame(PAIR, at.offset, b"a", b"1");
    peer.say(&[Welcome::to(MapMode::General, at).words(), pair].concat());
    assert_eq!(report(&mut peer), (48, false));
    let end = at.offset.to_le_bytes();
    peer.say(&frame(COMPLETE, at.offset, &[], &end));
    assert_eq!(report(&mut peer), (48, true));
    assert_eq!(hold.maps().open("it").unwrap().get("a").unwrap().as_deref(), Some(&b"1"[..]));
    // And each change soon after it is applied.
    let mut offset = at.offset;
    for number in 0..50u32 {
        let change = frame(1, offset, b"a", &number.to_le_bytes());
        peer.say(&change);
        offset += change.len() as u64;
        while report(&mut peer) != (offset, true) {}
    }
    drop(replica);
}

/// The origin is gone before the replica has the change.
#[test]
fn the_wait_behind_a_killed_origin_ends_in_time() {
    let test_dir = TestDir::memory();
    let path = test_dir.path("origin.hold");
    let hold = Hold::create(&path).unwrap();
    let map = hold.maps().create("it", MapOptions::general()).unwrap();
    let address = Address::Unix(test_dir.path("socket"));
    let origin = serves(&path, &address);
    let replica = follows(&test_dir.path("copy.hold"), &address, "it");
    map.set("a", "1").unwrap();
    counts(&map, 1);
    origin.slay();
    // The replica has this change.
    assert_eq!(map.wait_for_replicas(1, SHORT).unwrap(), 1);
    map.set("a", "2").unwrap();
    refused(map.wait_for_replicas(1, SHORT), ErrorKind::TimedOut, "0 of 1 replicas");
    let origin = serves(&path, &address);
    counts(&map, 1);
    origin.slay();
    replica.slay();
}

/// The promise: a change that a replica has applied is there after a fail-over to that replica,
/// whenever the origin, its writers and the replica are killed.
#[test]
fn what_a_replica_has_applied_outlives_the_origin() {
    for round in 0..20u32 {
        let test_dir = TestDir::memory();
        let path = test_dir.path("origin.hold");
        let hold = Hold::create(&path).unwrap();
        let map = hold.maps().create("it", MapOptions::general()).unwrap();
        let address = Address::Unix(test_dir.path("socket"));
        let origin = serves(&path, &address);
        let writer = cast("writer", || {
            let map = Hold::open(&path).unwrap().maps().open("it").unwrap();
            for number in 0u64.. {
                map.set((number % 1000).to_le_bytes(), number.to_le_bytes()).unwrap();
            }
        });
        // In some rounds, the replica gets the whole map at this moment.
        if round % 2 == 0 {
            until("there is something", || map.len().unwrap() == 1000);
        }
        let heir = follows(&test_dir.path("heir.hold"), &address, "heir");
        for number in 0..=round {
            map.set("acknowledged", number.to_le_bytes()).unwrap();
            map.wait_for_replica("heir", LONG).unwrap();
        }
        origin.slay();
        heir.slay();
        writer.slay();
        let heir = Hold::open(test_dir.path("heir.hold")).unwrap();
        promote(&heir, "it").unwrap().unwrap();
        let kept = heir.maps().open("it").unwrap().get("acknowledged").unwrap();
        assert_eq!(kept.as_deref(), Some(&round.to_le_bytes()[..]), "round {round}");
    }
}
