//! Journals of maps that are replicas: the file has what the replica has, whatever its replica and
//! its origin do, and whichever of them is killed.

use crate::cast::{Play, digest, scribble, word};
use crate::history::{now_ms, often};
use crate::party::{Copy, LONG, SMALL_STREAM, Source, eager, pairs};
use commonhold::map::{Map, MapOptions};
use commonhold::{ErrorKind, Hold};
use commonhold_replicate::journal::{
    Journal, JournalOptions, find_state, inspect, rebuild, rebuild_state,
};
use commonhold_replicate::{
    Address, HoldJournal, HoldJournalOptions, JournalState, Origin, OriginOptions, Replica,
    ReplicaOptions, promote,
};
use commonhold_testing::alone::cast;
use commonhold_testing::support::Dice;
use commonhold_testing::support::process::{Board, Child, pause, until};
use commonhold_testing::support::refused;
use commonhold_testing::support::test_dir::TestDir;
use nix::sys::signal::Signal;
use std::path::{Path, PathBuf};

fn options() -> JournalOptions {
    JournalOptions { stream_bytes: 1 << 20, ..JournalOptions::default() }
}

/// The digest of the map that is rebuilt from a file.
fn rebuilt(test_dir: &TestDir, file: &Path) -> u64 {
    let path = test_dir.path("again.hold");
    let hold = Hold::create(&path).unwrap();
    rebuild(&hold, "it", file, &options()).unwrap();
    let found = digest(&hold.maps().open("it").unwrap());
    drop(hold);
    std::fs::remove_file(path).unwrap();
    found
}

/// Waits until the journal of a map has everything, which may have to begin a new file first.
#[track_caller]
fn record(map: &Map) {
    until("all changes are in the journal", || map.sync(LONG).is_ok());
}

fn file_of(source: &Source) -> PathBuf {
    source.test_dir.path("it.journal")
}

fn start(source: &Source, copy: &Copy, options: JournalOptions) -> Journal {
    Journal::start(&copy.hold, "it", file_of(source), options).unwrap()
}

/// Writes more than the origin's stream keeps.
fn lap(source: &Source, seed: u64) {
    let (before, mut dice) = (source.end(), Dice::new(seed));
    while source.end().offset < before.offset + 2 * SMALL_STREAM {
        scribble(&source.map, &mut dice, 300);
    }
}

fn small_source() -> Source {
    Source::with(MapOptions::general(), |options| options.stream_bytes = SMALL_STREAM)
}

/// A replica that is about to make its map, and stands still there: its map must not be taken for
/// one whose rebuilding was interrupted.
#[cfg(feature = "steps")]
#[test]
fn a_rebuilding_does_not_drop_the_map_of_a_replica_that_begins() {
    let source = Source::new(MapOptions::general());
    source.map.set("a", "1").unwrap();
    let file = file_of(&source);
    Journal::start(&source.hold, "it", &file, options()).unwrap().finish().unwrap();
    let path = source.test_dir.path("copy.hold");
    let hold = Hold::create(&path).unwrap();
    let mut replica = cast("a replica that takes its slot", || {
        let hold = Hold::open(&path).unwrap();
        commonhold::steps::arm("block.zeroed:stop").unwrap();
        let replica = Replica::connect(&hold, "it", &source.address, eager(), ());
        refused(replica, ErrorKind::Mismatch, "it");
    });
    assert!(replica.wait_stopped());
    rebuild(&hold, "it", &file, &options()).unwrap();
    replica.signal(Signal::SIGCONT);
    replica.finish();
    assert_eq!(hold.maps().open("it").unwrap().get("a").unwrap().as_deref(), Some(&b"1"[..]));
}

/// A full sync puts another map in the place of the recorded one.
#[test]
fn a_full_sync_begins_a_new_file() {
    let mut source = small_source();
    source.map.set("first", "1").unwrap();
    let copy = Copy::of(&source, "copy.hold");
    copy.agrees(&source);
    let journal = start(&source, &copy, often());
    let map = copy.hold.maps().open("it").unwrap();
    record(&map);
    let before = inspect(file_of(&source)).unwrap();
    assert!(before.of_replica);
    // A later time may lie in the hole that a full sync leaves.
    let then = before.times.unwrap().last_ms;
    until("the clock to go on", || now_ms() > then);
    for round in 0..3 {
        source.origin = None;
        lap(&source, round);
        source.begin(|options| options.stream_bytes = SMALL_STREAM);
        copy.agrees(&source);
        let map = copy.hold.maps().open("it").unwrap();
        record(&map);
        assert_eq!(rebuilt(&source.test_dir, &file_of(&source)), digest(&source.map));
        // And goes on.
        source.map.set("more", round.to_be_bytes()).unwrap();
        copy.agrees(&source);
        record(&map);
        assert_eq!(rebuilt(&source.test_dir, &file_of(&source)), digest(&source.map));
    }
    assert!(copy.replica.status().synchronisations > 3, "{:?}", copy.replica.status());
    assert_eq!(journal.status().error, None);
    journal.finish().unwrap();
    // The earlier files are segments.
    let state = find_state(file_of(&source), then, &often()).unwrap();
    let hold = Hold::create(source.test_dir.path("earlier.hold")).unwrap();
    rebuild_state(&hold, "it", &state, &often()).unwrap();
    assert_eq!(pairs(&hold.maps().open("it").unwrap()).len(), 1);
}

/// The full sync comes while no journal runs, also to another hold.
#[test]
fn a_file_of_an_earlier_state_is_replaced() {
    let mut source = small_source();
    source.map.set("first", "1").unwrap();
    let copy = Copy::of(&source, "copy.hold");
    copy.agrees(&source);
    start(&source, &copy, options()).finish().unwrap();
    source.origin = None;
    lap(&source, 1);
    source.begin(|options| options.stream_bytes = SMALL_STREAM);
    copy.agrees(&source);
    let journal = start(&source, &copy, options());
    record(&copy.hold.maps().open("it").unwrap());
    journal.finish().unwrap();
    assert_eq!(rebuilt(&source.test_dir, &file_of(&source)), digest(&source.map));
    // Resumed.
    source.map.set("more", "1").unwrap();
    copy.agrees(&source);
    let journal = start(&source, &copy, options());
    record(&copy.hold.maps().open("it").unwrap());
    assert_eq!(journal.status().compactions, 0);
    journal.finish().unwrap();
    assert_eq!(rebuilt(&source.test_dir, &file_of(&source)), digest(&source.map));
    drop(copy);
    let other = Copy::of(&source, "other.hold");
    other.agrees(&source);
    let journal = start(&source, &other, options());
    record(&other.hold.maps().open("it").unwrap());
    journal.finish().unwrap();
    // The file of another map is not replaced.
    let stranger = small_source();
    let copy = Copy::of(&stranger, "copy.hold");
    copy.agrees(&stranger);
    let started = Journal::start(&copy.hold, "it", file_of(&source), options());
    refused(started, ErrorKind::Mismatch, "does not belong");
    // Neither is that of an origin, by a replica of its map.
    let own = source.test_dir.path("own.journal");
    let journal = Journal::start(&source.hold, "it", &own, options()).unwrap();
    record(&source.map);
    journal.finish().unwrap();
    let started = Journal::start(&other.hold, "it", &own, options());
    refused(started, ErrorKind::Mismatch, "does not belong");
}

/// A process that waits has a handle, and a position, of the map before the full sync.
#[test]
fn a_sync_across_a_full_sync_ends() {
    let mut source = small_source();
    source.map.set("first", "1").unwrap();
    let copy = Copy::of(&source, "copy.hold");
    copy.agrees(&source);
    start(&source, &copy, options()).finish().unwrap();
    for round in 0..2u64 {
        source.map.set("not durable yet", round.to_be_bytes()).unwrap();
        copy.agrees(&source);
        let map = copy.hold.maps().open("it").unwrap();
        let end = map.follow().unwrap().end().unwrap();
        source.origin = None;
        lap(&source, round);
        source.begin(|options| options.stream_bytes = SMALL_STREAM);
        copy.agrees(&source);
        let journal = start(&source, &copy, options());
        map.sync_to(end, LONG).unwrap();
        assert_eq!(rebuilt(&source.test_dir, &file_of(&source)), digest(&source.map));
        journal.finish().unwrap();
    }
}

/// The position of the file and that of the map are of different streams: neither is ahead.
#[test]
fn a_file_that_may_be_ahead_is_not_replaced() {
    let source = small_source();
    source.map.set("first", "1").unwrap();
    let copy = Copy::of(&source, "copy.hold");
    copy.agrees(&source);
    start(&source, &copy, options()).finish().unwrap();
    let file = inspect(file_of(&source)).unwrap().position;
    let before = std::fs::read(file_of(&source)).unwrap();
    drop(copy);
    // The hold is lost.
    let other = Copy::of(&source, "other.hold");
    other.agrees(&source);
    let started = Journal::start(&other.hold, "it", file_of(&source), options());
    let error = started.unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Mismatch);
    let (text, present) = (error.to_string(), source.end());
    assert!(text.contains(&file.to_string()) && text.contains(&present.to_string()), "{text}");
    assert!(text.contains("different streams"), "{text}");
    assert_eq!(std::fs::read(file_of(&source)).unwrap(), before);
    let journal = start(&source, &other, JournalOptions { replace: true, ..options() });
    record(&other.hold.maps().open("it").unwrap());
    journal.finish().unwrap();
    assert_eq!(rebuilt(&source.test_dir, &file_of(&source)), digest(&source.map));
}

/// A copy whose map has the positions of the origin.
fn relay(source: &Source, name: &str, address: &Address) -> Copy {
    let hold = Hold::open_or_create(source.test_dir.path(name)).unwrap();
    let options = ReplicaOptions { stream_bytes: Some(1 << 20), ..eager() };
    let replica = Replica::connect(&hold, "it", address, options, ()).unwrap();
    Copy { hold, replica }
}

/// The hold is lost, and the replica copies the map from a relay that has only an earlier state.
#[test]
fn a_file_that_is_ahead_is_not_replaced() {
    let source = small_source();
    source.map.set("first", "1").unwrap();
    let lagging = relay(&source, "lagging.hold", &source.address);
    lagging.agrees(&source);
    let Copy { hold, replica } = lagging;
    drop(replica);
    let serves = Origin::start(&hold, "it", OriginOptions::default()).unwrap();
    let address = serves.listen(&Address::Unix(source.test_dir.path("relay"))).unwrap();
    source.map.set("second", "2").unwrap();
    let copy = relay(&source, "copy.hold", &source.address);
    copy.agrees(&source);
    let journal = start(&source, &copy, options());
    record(&copy.hold.maps().open("it").unwrap());
    journal.finish().unwrap();
    drop(copy);
    for name in ["other.hold", "aligned.hold"] {
        let late = match name {
            "other.hold" => Copy::at(&source, name, &address),
            _ => relay(&source, name, &address),
        };
        assert!(late.replica.wait_ready(LONG), "{:?}", late.replica.status());
        let started = Journal::start(&late.hold, "it", file_of(&source), options());
        refused(started, ErrorKind::Mismatch, "so the map lacks changes of the file");
        drop(late);
        // Until it has caught up, and has noted that.
        let late = Copy::of(&source, name);
        late.agrees(&source);
        let mut journal = None;
        until("the journal begins", || {
            journal = Journal::start(&late.hold, "it", file_of(&source), options()).ok();
            journal.is_some()
        });
        let journal = journal.unwrap();
        record(&late.hold.maps().open("it").unwrap());
        journal.finish().unwrap();
        assert_eq!(rebuilt(&source.test_dir, &file_of(&source)), digest(&source.map));
        source.map.set(name, "3").unwrap();
        let copy = relay(&source, "copy.hold", &source.address);
        copy.agrees(&source);
        let replace = JournalOptions { replace: true, ..options() };
        let journal = start(&source, &copy, replace);
        record(&copy.hold.maps().open("it").unwrap());
        journal.finish().unwrap();
    }
}

/// The file states that the replica brings the map, until the next file takes its place. A journal
/// that is killed in between must not be continued by one that confirms changes in that file.
#[test]
fn the_file_of_a_replica_that_was_promoted_meanwhile_is_not_continued() {
    let source = small_source();
    source.map.set("first", "1").unwrap();
    let Copy { hold, replica } = Copy::of(&source, "copy.hold");
    assert!(replica.wait_for(source.end(), LONG));
    let up = Board::new(1);
    let victim = cast("a journal that is killed", || {
        let hold = Hold::open(source.test_dir.path("copy.hold")).unwrap();
        let _journal = Journal::start(&hold, "it", file_of(&source), options()).unwrap();
        record(&hold.maps().open("it").unwrap());
        up.put(0, 1);
        loop {
            pause();
        }
    });
    until("the journal runs", || up.get(0) == 1 || victim.is_gone());
    drop(victim.slay());
    drop(replica);
    promote(&hold, "it").unwrap().unwrap();
    assert!(inspect(file_of(&source)).unwrap().of_replica);
    let journal = Journal::start(&hold, "it", file_of(&source), options()).unwrap();
    let map = hold.maps().open("it").unwrap();
    record(&map);
    assert!(!inspect(file_of(&source)).unwrap().of_replica, "it confirms what is not rebuilt");
    map.set("own", "2").unwrap();
    record(&map);
    journal.finish().unwrap();
    assert_eq!(rebuilt(&source.test_dir, &file_of(&source)), digest(&map));
}

#[test]
fn a_promoted_map_is_recorded_on() {
    let source = small_source();
    source.map.set("first", "1").unwrap();
    let copy = Copy::of(&source, "copy.hold");
    copy.agrees(&source);
    let journal = start(&source, &copy, options());
    let Copy { hold, replica } = copy;
    record(&hold.maps().open("it").unwrap());
    drop(replica);
    promote(&hold, "it").unwrap().unwrap();
    let map = hold.maps().open("it").unwrap();
    map.set("own", "2").unwrap();
    record(&map);
    until("the file is no longer a replica's", || {
        inspect(file_of(&source)).is_ok_and(|contents| !contents.of_replica)
    });
    map.set("more", "3").unwrap();
    record(&map);
    assert_eq!(rebuilt(&source.test_dir, &file_of(&source)), digest(&map));
    journal.finish().unwrap();
    // And resumed.
    map.set("yet more", "4").unwrap();
    let journal = Journal::start(&hold, "it", file_of(&source), options()).unwrap();
    record(&map);
    journal.finish().unwrap();
    assert_eq!(rebuilt(&source.test_dir, &file_of(&source)), digest(&map));
}

#[test]
fn the_journals_of_a_hold_include_replicas() {
    let source = small_source();
    source.map.set("first", "1").unwrap();
    let copy = Copy::of(&source, "copy.hold");
    copy.hold.maps().create("own", MapOptions::general()).unwrap().set("a", "b").unwrap();
    let directory = source.test_dir.path("journals");
    let all = || HoldJournalOptions { journal: options(), ..HoldJournalOptions::default() };
    let journal = HoldJournal::start(&copy.hold, &directory, all()).unwrap();
    copy.agrees(&source);
    record(&copy.hold.maps().open("it").unwrap());
    record(&copy.hold.maps().open("own").unwrap());
    journal.finish().unwrap();
    drop(copy);
    // The hold is lost. The origin still has its map.
    std::fs::remove_file(source.test_dir.path("copy.hold")).unwrap();
    let hold = Hold::create(source.test_dir.path("copy.hold")).unwrap();
    let journal = HoldJournal::start(&hold, &directory, all()).unwrap();
    let names = |hold: &Hold| -> Vec<_> {
        hold.maps().list().unwrap().into_iter().map(|map| map.name).collect()
    };
    assert_eq!(names(&hold), ["own"]);
    source.map.set("second", "2").unwrap();
    let copy = Copy::of(&source, "copy.hold");
    copy.agrees(&source);
    let is_recorded = || {
        let status = journal.status();
        status.maps.iter().filter(|map| map.state == JournalState::Recorded).count() == 2
    };
    until("both maps are recorded", is_recorded);
    record(&copy.hold.maps().open("it").unwrap());
    journal.finish().unwrap();
    // It is not known whether the old file is ahead: it stays.
    assert!(directory.join("it.journal").exists());
    let file = directory.join("it+2.journal");
    assert_eq!(rebuilt(&source.test_dir, &file), digest(&source.map));
}

/// As a mirror's, whose map has no lineage.
#[test]
fn the_map_of_a_replica_without_a_lineage_is_not_rebuilt() {
    let test_dir = TestDir::memory();
    let [path, directory] = ["copy.hold", "journals"].map(|name| test_dir.path(name));
    let all = || HoldJournalOptions { journal: options(), ..HoldJournalOptions::default() };
    let hold = Hold::create(&path).unwrap();
    let map = hold.maps().open_replica("it", MapOptions::general()).unwrap();
    map.set("first", "1").unwrap();
    let journal = HoldJournal::start(&hold, &directory, all()).unwrap();
    record(&map);
    journal.finish().unwrap();
    drop((map, hold));
    std::fs::remove_file(&path).unwrap();
    assert!(inspect(directory.join("it.journal")).unwrap().of_replica);
    let hold = Hold::create(&path).unwrap();
    let journal = HoldJournal::start(&hold, &directory, all()).unwrap();
    assert!(hold.maps().list().unwrap().is_empty());
    // Its replica brings it.
    let map = hold.maps().open_replica("it", MapOptions::general()).unwrap();
    map.set("first", "1").unwrap();
    record(&map);
    journal.finish().unwrap();
}

/// The journal of the replica `of`, until it is killed.
fn journal(play: &Play, of: usize) -> Child {
    let (row, path, file) = (play.row(2), play.copy_path(of), play.test_dir.path("it.journal"));
    row.put(word::UP, 0);
    let child = cast("journal", || {
        let hold = Hold::open(path).unwrap();
        let journal = Journal::start(&hold, "it", file, options()).unwrap();
        row.put(word::UP, 1);
        while !journal.is_over() {
            row.count();
            pause();
        }
        panic!("{:?}", journal.status());
    });
    until("the journal runs", || row.get(word::UP) == 1 || child.is_gone());
    assert!(!child.is_gone(), "the journal has ended");
    child
}

/// Kills of the replica, of the journal, of both, and of the origin, while a process writes. The
/// origin's stream is so short that some of the pauses cause full syncs while the journal runs.
#[test]
fn the_file_agrees_after_kills_of_both() {
    let play = Play::new(MapOptions::general(), 4);
    let mut origin = play.origin(0, |options| options.stream_bytes = SMALL_STREAM);
    let (mut dice, mut lengths) = (Dice::new(3), Dice::new(4));
    let writer = play.writer(3, |map, row| {
        scribble(map, &mut dice, 300);
        if row.get(word::COUNT).is_multiple_of(64) {
            std::thread::sleep(std::time::Duration::from_millis(1));
        }
    });
    let mut replica = play.replica(1, &play.address);
    let row = play.row(1);
    until("the replica is ready", || row.get(word::READY) == 1 || replica.is_gone());
    let mut records = journal(&play, 1);
    let mut syncs = 0;
    for round in 0..12 {
        play.row(3).goes_on("the writer writes", 1000 + lengths.below(2000), &writer);
        let which = round % 4;
        if which == 3 {
            origin.signal(Signal::SIGKILL);
            origin.wait();
            origin = play.origin(0, |options| options.stream_bytes = SMALL_STREAM);
        }
        if which != 1 && which != 3 {
            replica.signal(Signal::SIGKILL);
            replica.wait();
            syncs += row.get(word::SYNCS);
        }
        if which == 0 {
            // More than the origin's stream keeps.
            play.row(3).goes_on("the writer writes", 4000, &writer);
        }
        if which == 1 || which == 2 {
            records.signal(Signal::SIGKILL);
            records.wait();
        }
        if which != 1 && which != 3 {
            replica = play.replica(1, &play.address);
            until("the replica is ready", || row.get(word::READY) == 1 || replica.is_gone());
        }
        if which == 1 || which == 2 {
            records = journal(&play, 1);
        }
        play.row(2).goes_on("the journal runs", 5, &records);
    }
    play.board.put(word::ENOUGH, 1);
    writer.finish();
    play.agrees(1, &replica, "in the end");
    assert!(syncs > 1, "there was no full sync but the first one");
    let hold = Hold::open(play.copy_path(1)).unwrap();
    let map = hold.maps().open("it").unwrap();
    record(&map);
    records.signal(Signal::SIGKILL);
    records.wait();
    let file = play.test_dir.path("it.journal");
    assert_eq!(rebuilt(&play.test_dir, &file), digest(&play.map));
    let position = map.follow().unwrap().position();
    assert_eq!(inspect(&file).unwrap().position, position);
    play.curtain();
    replica.finish();
    play.board.put(word::OVER, 2);
    origin.finish();
}
