//! The journals of whole holds: all maps in one directory, as they come and go.
//!
//! | module | idea |
//! |---|---|
//! | [`dropped`] | maps that were dropped, or seem to be, and their files |
//! | [`load`] | real processes under load, killed and started again |

mod dropped;
mod load;

use crate::history::{now_ms, often, pairs};
use crate::party::LONG;
use commonhold::map::{Map, MapOptions};
use commonhold::{ErrorKind, Hold};
use commonhold_replicate::journal::{JournalOptions, inspect, inspect_all, rebuild};
use commonhold_replicate::{
    HoldJournal, HoldJournalOptions, JournalState, JournaledMap, RebuildOutcome, RebuiltMap,
    rebuild_hold,
};
use commonhold_testing::alone::cast;
use commonhold_testing::support::Dice;
use commonhold_testing::support::process::{Board, until};
use commonhold_testing::support::refused;
use commonhold_testing::support::test_dir::TestDir;
use std::path::PathBuf;
use std::time::Duration;

fn small() -> JournalOptions {
    JournalOptions { stream_bytes: 1 << 20, ..JournalOptions::default() }
}

fn options() -> HoldJournalOptions {
    HoldJournalOptions { journal: small(), ..HoldJournalOptions::default() }
}

fn with_history() -> HoldJournalOptions {
    let journal = JournalOptions { stream_bytes: 1 << 20, ..often() };
    HoldJournalOptions { journal, ..HoldJournalOptions::default() }
}

/// A hold, and the directory of its journals.
struct Shop {
    test_dir: TestDir,
    hold: Option<Hold>,
}

impl Shop {
    /// Each map has one pair, which is its name.
    fn new(maps: &[&str]) -> Shop {
        let mut shop = Shop { test_dir: TestDir::memory(), hold: None };
        shop.begin_hold();
        maps.iter().for_each(|map| drop(shop.map(map)));
        shop
    }

    fn begin_hold(&mut self) {
        self.hold = Some(Hold::create(self.test_dir.path("shop.hold")).unwrap());
    }

    /// As after a crash of the system: the hold is gone, and another one begins.
    fn lose(&mut self) {
        self.hold = None;
        std::fs::remove_file(self.test_dir.path("shop.hold")).unwrap();
        self.begin_hold();
    }

    fn hold(&self) -> &Hold {
        self.hold.as_ref().unwrap()
    }

    fn map(&self, name: &str) -> Map {
        let map = self.hold().maps().open_or_create(name, MapOptions::general()).unwrap();
        map.set(name, name).unwrap();
        map
    }

    fn directory(&self) -> PathBuf {
        self.test_dir.path("journals")
    }

    fn start(&self, options: HoldJournalOptions) -> HoldJournal {
        HoldJournal::start(self.hold(), self.directory(), options).unwrap()
    }

    /// The names of the maps.
    fn names(&self) -> Vec<String> {
        self.hold().maps().list().unwrap().into_iter().map(|map| map.name).collect()
    }

    /// The maps that are rebuilt in a new hold, and what became of each.
    fn again(&self, at_ms: Option<u64>) -> (Vec<RebuiltMap>, Vec<(String, usize)>) {
        let path = self.test_dir.path("again.hold");
        let hold = Hold::create(&path).unwrap();
        let outcomes = rebuild_hold(&hold, self.directory(), at_ms, &with_history()).unwrap();
        let listed = hold.maps().list().unwrap();
        let maps = listed.into_iter().map(|map| {
            let found = pairs(&hold.maps().open(&map.name).unwrap());
            (map.name, found.len())
        });
        let maps = maps.collect();
        drop(hold);
        std::fs::remove_file(path).unwrap();
        (outcomes, maps)
    }
}

fn one(journal: &HoldJournal, name: &str) -> Option<JournaledMap> {
    journal.status().maps.into_iter().find(|map| map.name == name)
}

/// Waits until a map is in this state, and has a whole file if it is recorded.
#[track_caller]
fn is(journal: &HoldJournal, name: &str, state: JournalState) -> JournaledMap {
    let is_whole =
        |map: &JournaledMap| map.journal.as_ref().is_none_or(|journal| journal.durable.is_some());
    until(&format!("{name} is {state:?}"), || {
        one(journal, name).is_some_and(|map| map.state == state && is_whole(&map))
    });
    one(journal, name).unwrap()
}

fn sync(map: &Map) {
    map.sync(LONG).unwrap();
}

impl Shop {
    /// A time at which a map has its present state, which is recorded in this file. Nothing changes
    /// meanwhile.
    fn note(&self, map: &Map, file: &str) -> u64 {
        let file = self.directory().join(file);
        let end = map.sync(LONG).unwrap();
        until("the state to have its time", || {
            let found = inspect(&file);
            found.is_ok_and(|found| found.position == end && found.untimed_changes == 0)
        });
        next_ms()
    }
}

/// The time, before which everything so far has happened, and after which everything else does.
fn next_ms() -> u64 {
    let now = now_ms();
    until("the clock to go on", || now_ms() > now);
    now
}

fn outcome<'a>(outcomes: &'a [RebuiltMap], name: &str) -> &'a RebuildOutcome {
    &outcomes.iter().find(|map| map.name == name).unwrap().outcome
}

#[test]
fn all_maps_come_back_after_the_hold_was_lost() {
    let odd = ["a/../../up", "session:a/b", "ü b"];
    let mut shop = Shop::new(&["apples", "pears", odd[0], odd[1], odd[2]]);
    let long = "x".repeat(180);
    shop.map(&long);
    let cache = shop.hold().maps().create("cache", MapOptions::cache()).unwrap();
    cache.set("a", "b").unwrap();
    let journal = shop.start(options());
    let skipped = is(&journal, "cache", JournalState::Skipped);
    assert!(skipped.reason.unwrap().contains("cache"));
    let plums = shop.map("plums");
    is(&journal, "plums", JournalState::Recorded);
    plums.set("more", "1").unwrap();
    let names = ["apples", "pears", odd[0], odd[1], odd[2], &long, "plums"];
    names.iter().for_each(|name| sync(&shop.hold().maps().open(name).unwrap()));
    journal.finish().unwrap();
    assert!(inspect_all(shop.directory(), None).unwrap().is_sound());
    let escaped = shop.test_dir.path("up.journal");
    assert!(!escaped.exists());
    drop((plums, cache));
    shop.lose();
    let journal = shop.start(options());
    // Before it returns.
    assert_eq!(journal.rebuilt().len(), names.len());
    for name in names {
        let map = shop.hold().maps().open(name).unwrap();
        assert_eq!(map.get(name).unwrap().unwrap(), name.as_bytes());
        is(&journal, name, JournalState::Recorded);
    }
    assert_eq!(shop.hold().maps().open("plums").unwrap().len().unwrap(), 2);
    shop.hold().maps().open("plums").unwrap().set("yet more", "2").unwrap();
    journal.finish().unwrap();
    let (_, again) = shop.again(None);
    assert!(again.contains(&("plums".to_owned(), 3)) && again.len() == names.len(), "{again:?}");
}

#[test]
fn a_dropped_map_stays_dropped_and_its_history_stays() {
    let mut shop = Shop::new(&["apples", "pears"]);
    let journal = shop.start(with_history());
    for name in ["apples", "pears"] {
        is(&journal, name, JournalState::Recorded);
        shop.note(&shop.hold().maps().open(name).unwrap(), &format!("{name}.journal"));
    }
    let plums = shop.map("plums");
    is(&journal, "plums", JournalState::Recorded);
    let with_plums = shop.note(&plums, "plums.journal");
    shop.hold().maps().drop("plums").unwrap();
    until("the journal ends", || one(&journal, "plums").is_none());
    let without_plums = next_ms();
    let plums = shop.map("plums");
    plums.set("second", "1").unwrap();
    is(&journal, "plums", JournalState::Recorded);
    let second = shop.note(&plums, "plums+2.journal");
    // While no journal runs.
    journal.finish().unwrap();
    shop.hold().maps().drop("pears").unwrap();
    shop.hold().maps().drop("apples").unwrap();
    shop.map("apples").set("new", "1").unwrap();
    let journal = shop.start(with_history());
    is(&journal, "apples", JournalState::Recorded);
    assert!(journal.rebuilt().is_empty(), "{:?}", journal.rebuilt());
    assert_eq!(shop.names(), ["apples", "plums"]);
    shop.note(&shop.hold().maps().open("apples").unwrap(), "apples+2.journal");
    journal.finish().unwrap();

    let count = |at| shop.again(at).1;
    let counts = |counts: &[(&str, usize)]| -> Vec<(String, usize)> {
        counts.iter().map(|(name, count)| ((*name).to_owned(), *count)).collect()
    };
    assert_eq!(count(Some(with_plums)), counts(&[("apples", 1), ("pears", 1), ("plums", 1)]));
    let (outcomes, found) = shop.again(Some(without_plums));
    assert_eq!(found, counts(&[("apples", 1), ("pears", 1)]));
    let left_out = outcome(&outcomes, "plums");
    assert!(matches!(left_out, RebuildOutcome::LeftOut(why) if why.contains("dropped")));
    assert_eq!(count(Some(second)), counts(&[("apples", 1), ("pears", 1), ("plums", 2)]));
    assert_eq!(count(None), counts(&[("apples", 2), ("plums", 2)]));
    let early = rebuild_hold(shop.hold(), shop.directory(), Some(1000), &options());
    refused(early, ErrorKind::Invalid, "nothing was recorded before");
    assert!(inspect_all(shop.directory(), None).unwrap().is_sound());
    // A map that was dropped does not come back.
    drop(plums);
    shop.lose();
    let journal = shop.start(with_history());
    assert_eq!(shop.names(), ["apples", "plums"]);
    journal.finish().unwrap();
}

#[test]
fn a_map_that_fails_does_not_affect_the_others() {
    let mut shop = Shop::new(&["apples", "bad", "pears"]);
    std::fs::create_dir(shop.directory()).unwrap();
    std::fs::create_dir(shop.directory().join("bad.journal")).unwrap();
    let journal = shop.start(options());
    for name in ["apples", "pears"] {
        is(&journal, name, JournalState::Recorded);
        sync(&shop.hold().maps().open(name).unwrap());
    }
    let failed = is(&journal, "bad", JournalState::Failed);
    assert!(failed.reason.unwrap().contains("bad.journal"));
    let reports = || commonhold_io::reports::reports(shop.hold()).unwrap();
    until("its report", || {
        reports().iter().any(|report| {
            let error = report.says["error"].as_str().unwrap_or_default();
            (report.what.as_str(), report.map.as_str()) == ("journal", "bad")
                && error.contains("bad.journal")
        })
    });
    refused(journal.finish(), ErrorKind::Io, "map 'bad'");
    let journal = shop.start(options());
    std::fs::remove_dir(shop.directory().join("bad.journal")).unwrap();
    is(&journal, "bad", JournalState::Recorded);
    sync(&shop.hold().maps().open("bad").unwrap());
    journal.finish().unwrap();
    // The damage of one file.
    let path = shop.directory().join("bad.journal");
    let mut bytes = std::fs::read(&path).unwrap();
    bytes[24] ^= 1;
    std::fs::write(&path, bytes).unwrap();
    shop.lose();
    let timeline = inspect_all(shop.directory(), None).unwrap();
    assert!(!timeline.is_sound() && timeline.files.len() == 3);
    let (outcomes, _) = shop.again(None);
    assert!(matches!(outcome(&outcomes, "bad"), RebuildOutcome::Failed(_)), "{outcomes:?}");
    assert!(matches!(outcome(&outcomes, "pears"), RebuildOutcome::Rebuilt(..)));
    let journal = shop.start(options());
    assert_eq!(shop.names(), ["apples", "pears"]);
    assert!(one(&journal, "bad").unwrap().reason.unwrap().contains("bad.journal"));
    // The lost map is not mistaken for one that was dropped, now or later.
    drop(journal);
    let journal = shop.start(options());
    assert_eq!(one(&journal, "bad").unwrap().state, JournalState::Failed);
    assert!(inspect_all(shop.directory(), None).unwrap().files.len() == 3);
}

#[test]
fn a_directory_has_one_journal_at_a_time() {
    let shop = Shop::new(&["apples"]);
    let journal = shop.start(options());
    let again = || HoldJournal::start(shop.hold(), shop.directory(), options());
    refused(again(), ErrorKind::Busy, "this process");
    let (path, directory) = (shop.test_dir.path("other.hold"), shop.directory());
    cast("another process", || {
        let hold = Hold::create(path).unwrap();
        let other = HoldJournal::start(&hold, directory, options());
        refused(other, ErrorKind::Busy, "use another directory");
    })
    .finish();
    journal.finish().unwrap();
    again().unwrap().finish().unwrap();
}

/// A file of a map that another hold has had, and this hold has a map of its name.
#[test]
fn the_map_of_another_hold_is_not_overwritten() {
    let mut shop = Shop::new(&["apples", "pears"]);
    shop.start(options()).finish().unwrap();
    shop.lose();
    // A program creates its map before the journal begins.
    shop.map("apples").set("new", "1").unwrap();
    let journal = shop.start(options());
    let failed = is(&journal, "apples", JournalState::Failed);
    assert!(failed.reason.unwrap().contains("--rebuild"));
    assert_eq!(shop.names(), ["apples", "pears"]);
    drop(journal);
    let replace = JournalOptions { replace: true, ..small() };
    let journal = shop.start(HoldJournalOptions { journal: replace, ..options() });
    is(&journal, "apples", JournalState::Recorded);
    sync(&shop.hold().maps().open("apples").unwrap());
    journal.finish().unwrap();
    let path = shop.test_dir.path("older.hold");
    let older = Hold::create(&path).unwrap();
    let old = rebuild(&older, "apples", shop.directory().join("apples.journal"), &small());
    assert_eq!(old.unwrap().pairs, 1);
    drop(older);
    shop.lose();
    shop.map("apples");
    let journal = shop.start(HoldJournalOptions { rebuild: true, ..options() });
    assert_eq!(shop.hold().maps().open("apples").unwrap().len().unwrap(), 2);
    is(&journal, "apples", JournalState::Recorded);
    journal.finish().unwrap();
}

#[test]
fn patterns_choose_and_old_files_of_dropped_maps_go() {
    let shop = Shop::new(&["session:a", "session:b", "prices"]);
    let mut chosen = with_history();
    chosen.maps = vec!["session:*".to_owned()];
    chosen.journal.keep = Some(Duration::from_millis(1));
    let journal = shop.start(chosen.clone());
    is(&journal, "session:a", JournalState::Recorded);
    is(&journal, "session:b", JournalState::Recorded);
    assert_eq!(one(&journal, "prices"), None);
    let file = shop.directory().join("session%3Ab.journal");
    until("the file is whole", || file.exists());
    shop.hold().maps().drop("session:b").unwrap();
    until("the journal ends", || one(&journal, "session:b").is_none());
    let dropped = now_ms();
    until("the clock to go on", || now_ms() > dropped + 1);
    journal.finish().unwrap();
    assert!(file.exists());
    let journal = shop.start(chosen);
    assert!(!file.exists());
    journal.finish().unwrap();
    assert!(inspect_all(shop.directory(), None).unwrap().is_sound());
    let mut empty = options();
    empty.maps = vec![String::new()];
    let started = HoldJournal::start(shop.hold(), shop.directory(), empty);
    refused(started, ErrorKind::Invalid, "an empty one");
}

/// The processes that the journals are killed in have noted a life of a map, and not its file.
#[test]
fn a_journal_that_is_killed_in_the_beginning_begins_again() {
    let shop = Shop::new(&["apples", "pears"]);
    let board = Box::leak(Box::new(Board::new(1)));
    let mut dice = Dice::new(5);
    for _ in 0..10 {
        let before = board.get(0);
        let (hold, directory) = (shop.test_dir.path("shop.hold"), shop.directory());
        let child = cast("journal", || {
            let hold = Hold::open(hold).unwrap();
            board.count(0, 1);
            let journal = HoldJournal::start(&hold, directory, options()).unwrap();
            std::mem::forget(journal);
            std::thread::sleep(LONG);
        });
        until("it begins", || board.get(0) > before);
        // Somewhere on the way.
        std::thread::sleep(Duration::from_micros(dice.below(20_000)));
        child.slay();
    }
    let journal = shop.start(options());
    is(&journal, "apples", JournalState::Recorded);
    is(&journal, "pears", JournalState::Recorded);
    journal.finish().unwrap();
    assert_eq!(shop.again(None).1.len(), 2);
}

/// A rebuilding that the user wants drops the map first. A kill behind that must not look as if the
/// user had dropped the map, or as if a replica had made it.
#[cfg(feature = "steps")]
#[test]
fn a_rebuilding_that_is_killed_is_repeated() {
    use commonhold_testing::support::process::End;
    use nix::sys::signal::Signal;
    let steps = ["drop.marked", "drop.done", "create.live", "shadow.committed", "stream.begun"];
    for step in steps {
        let shop = Shop::new(&["apples"]);
        let journal = shop.start(options());
        is(&journal, "apples", JournalState::Recorded);
        journal.finish().unwrap();
        let (path, directory) = (shop.test_dir.path("shop.hold"), shop.directory());
        let mut child = cast(format!("killed at {step}"), || {
            let hold = Hold::open(path).unwrap();
            commonhold::steps::arm(&format!("{step}:kill")).unwrap();
            let options = HoldJournalOptions { rebuild: true, ..options() };
            drop(HoldJournal::start(&hold, directory, options));
        });
        assert_eq!(child.wait_for(LONG), End::By(Signal::SIGKILL), "{step}");
        let journal = shop.start(options());
        is(&journal, "apples", JournalState::Recorded);
        let map = shop.hold().maps().open("apples").unwrap();
        assert_eq!(map.get("apples").unwrap().as_deref(), Some(b"apples".as_slice()), "{step}");
        map.set("later", "1").unwrap();
        map.sync(LONG).unwrap();
        journal.finish().unwrap();
        assert_eq!(shop.again(None).1, [("apples".to_owned(), 2)], "{step}");
    }
}

/// It has no journal, and is no failure.
#[test]
fn a_replica_of_a_prefix_is_skipped() {
    use commonhold_replicate::{Origin, OriginOptions, Replica, ReplicaOptions};
    let shop = Shop::new(&["apples"]);
    let source = Hold::create(shop.test_dir.path("source.hold")).unwrap();
    let map = source.maps().open_or_create("pears", MapOptions::general()).unwrap();
    map.set("a1", "1").unwrap();
    let origin = Origin::start(&source, "pears", OriginOptions::default()).unwrap();
    let address = format!("unix:{}", shop.test_dir.path("socket").display());
    let address = origin.listen(&address.parse().unwrap()).unwrap();
    let prefix = ReplicaOptions { prefix: Some(b"a".to_vec()), ..ReplicaOptions::default() };
    let replica = Replica::connect(shop.hold(), "pears", &address, prefix, ()).unwrap();
    assert!(replica.wait_ready(LONG));
    let options =
        HoldJournalOptions { journal: JournalOptions { replace: true, ..small() }, ..options() };
    let journal = shop.start(options);
    let skipped = is(&journal, "pears", JournalState::Skipped);
    assert!(skipped.reason.unwrap().contains("only the keys of a prefix"));
    is(&journal, "apples", JournalState::Recorded);
    journal.finish().unwrap();
    assert!(!shop.directory().join("pears.journal").exists());
}
