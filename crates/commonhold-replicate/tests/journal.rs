//! Journals: durable changes come back, exactly as the map was at some moment, whatever part of the
//! file is lost.

use crate::history::without_times_at_end;
use commonhold::map::{Map, MapOptions};
use commonhold::stream::StreamPosition;
use commonhold::{ErrorKind, Hold};
use commonhold_replicate::journal::{Journal, JournalOptions, Rebuilt, SyncPolicy, rebuild};
use commonhold_testing::support::Dice;
use commonhold_testing::support::disk::on_small_tmpfs;
use commonhold_testing::support::process::{Board, Child, until};
use commonhold_testing::support::refused;
use commonhold_testing::support::test_dir::TestDir;
use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

const LONG: Duration = Duration::from_secs(60);

type Pairs = BTreeMap<Vec<u8>, Vec<u8>>;

struct Kept {
    test_dir: TestDir,
    hold: Hold,
    map: Map,
    file: PathBuf,
}

impl Kept {
    fn new(options: MapOptions) -> Kept {
        let test_dir = TestDir::memory();
        let hold = Hold::create(test_dir.path("it.hold")).unwrap();
        let map = hold.maps().open_or_create("it", options).unwrap();
        std::fs::create_dir(test_dir.path("place")).unwrap();
        let file = test_dir.path("place/it.journal");
        Kept { test_dir, hold, map, file }
    }

    fn start(&self, change: impl FnOnce(&mut JournalOptions)) -> Journal {
        let mut options = JournalOptions { stream_bytes: 1 << 20, ..JournalOptions::default() };
        change(&mut options);
        Journal::start(&self.hold, "it", &self.file, options).unwrap()
    }

    /// Moves its directory away, and puts a file in its place: no file can be made there.
    fn move_away(&self) {
        std::fs::rename(self.test_dir.path("place"), self.test_dir.path("moved")).unwrap();
        std::fs::write(self.test_dir.path("place"), b"").unwrap();
    }

    fn move_back(&self) {
        std::fs::remove_file(self.test_dir.path("place")).unwrap();
        std::fs::rename(self.test_dir.path("moved"), self.test_dir.path("place")).unwrap();
    }

    /// Rebuilds a map from a file.
    fn rebuilt(&self, file: &Path) -> commonhold::Result<(Rebuilt, Pairs)> {
        let path = self.test_dir.path("again.hold");
        let hold = Hold::create(&path).unwrap();
        let rebuilt = rebuild(&hold, "it", file, &small());
        let result = rebuilt.map(|rebuilt| {
            let map = hold.maps().open("it").unwrap();
            assert!(!map.is_replica());
            (rebuilt, pairs(&map))
        });
        let half = |map: &commonhold::map::MapInfo| !map.name.starts_with('.');
        let left = hold.maps().list_all().unwrap().iter().any(half);
        assert!(result.is_ok() || !left, "half a map is left");
        drop(hold);
        std::fs::remove_file(path).unwrap();
        result
    }
}

fn small() -> JournalOptions {
    JournalOptions { stream_bytes: 64 << 10, ..JournalOptions::default() }
}

fn pairs(map: &Map) -> Pairs {
    map.iter().map(Result::unwrap).collect()
}

fn stir(map: &Map, dice: &mut Dice, changes: u64) {
    for number in 0..changes {
        let key = (dice.below(300) as u32).to_be_bytes();
        match dice.below(8) {
            0 => drop(map.delete(key).unwrap()),
            _ => drop(map.set(key, (number as u32).to_le_bytes()).unwrap()),
        }
    }
}

#[test]
fn synced_changes_are_rebuilt() {
    for options in [MapOptions::general(), MapOptions::fixed(4, 4)] {
        for sync in [SyncPolicy::Always, SyncPolicy::Every(Duration::from_millis(5))] {
            let kept = Kept::new(options.clone());
            let mut dice = Dice::new(1);
            stir(&kept.map, &mut dice, 500);
            let journal = kept.start(|options| options.sync = sync);
            for _ in 0..5 {
                stir(&kept.map, &mut dice, 300);
                let position = kept.map.sync(LONG).unwrap();
                let (rebuilt, found) = kept.rebuilt(&kept.file).unwrap();
                assert_eq!(found, pairs(&kept.map));
                assert!(rebuilt.position.offset >= position.offset);
                assert_eq!(rebuilt.cut_off_bytes, 0);
            }
            // Changes that were not synced are written when it ends.
            stir(&kept.map, &mut dice, 300);
            drop(journal);
            assert_eq!(kept.rebuilt(&kept.file).unwrap().1, pairs(&kept.map));
            // Another journal resumes the same file.
            stir(&kept.map, &mut dice, 300);
            let journal = kept.start(|options| options.sync = sync);
            kept.map.sync(LONG).unwrap();
            assert_eq!(journal.status().compactions, 0);
            assert_eq!(kept.rebuilt(&kept.file).unwrap().1, pairs(&kept.map));
        }
    }
}

/// Every state that the map had, by position.
struct States(BTreeMap<u64, Pairs>);

impl States {
    /// Makes changes one by one.
    fn of(map: &Map, dice: &mut Dice, changes: u64) -> States {
        let mut states = BTreeMap::new();
        let mut note = || {
            let end = map.follow().unwrap().end().unwrap();
            states.insert(end.offset, pairs(map));
        };
        note();
        for _ in 0..changes {
            stir(map, dice, 1);
            note();
        }
        States(states)
    }

    #[track_caller]
    fn contain(&self, position: StreamPosition, found: &Pairs, when: &str) {
        assert_eq!(self.0.get(&position.offset), Some(found), "{when}");
    }
}

#[test]
fn cut_anywhere_it_is_a_state_that_was() {
    let kept = Kept::new(MapOptions::general());
    let mut dice = Dice::new(2);
    stir(&kept.map, &mut dice, 6);
    let journal = kept.start(|_| ());
    kept.map.sync(LONG).unwrap();
    let whole = without_times_at_end(&std::fs::read(&kept.file).unwrap());
    let states = States::of(&kept.map, &mut dice, 12);
    kept.map.sync(LONG).unwrap();
    drop(journal);
    let bytes = std::fs::read(&kept.file).unwrap();
    let cut = kept.test_dir.path("cut");
    let mut last = 0;
    for len in 0..=bytes.len() {
        std::fs::write(&cut, &bytes[..len]).unwrap();
        match kept.rebuilt(&cut) {
            Ok((rebuilt, found)) => {
                assert!(len >= whole, "{len} bytes are no whole map");
                states.contain(rebuilt.position, &found, &format!("{len} bytes"));
                assert!(rebuilt.position.offset >= last, "more bytes, an earlier state");
                last = rebuilt.position.offset;
            }
            Err(error) => {
                assert!(len < whole, "{len} bytes are a whole map: {error}");
                assert_eq!(error.kind(), ErrorKind::Damaged, "{error}");
            }
        }
    }
    assert_eq!(Some(&last), states.0.keys().last());
}

/// After a crash of the system, each piece that was not synced may be there or not.
#[test]
fn lost_and_reordered_writes_lose_nothing_that_was_durable() {
    const SECTOR: usize = 512;
    let kept = Kept::new(MapOptions::general());
    let mut dice = Dice::new(3);
    let journal = kept.start(|_| ());
    stir(&kept.map, &mut dice, 20);
    let durable = kept.map.sync(LONG).unwrap();
    journal.finish().unwrap();
    let synced = std::fs::read(&kept.file).unwrap();
    let journal = kept.start(|options| options.sync = SyncPolicy::Every(60 * LONG));
    // Only its first sync is due at once.
    until("it has synced", || journal.status().durable.is_some());
    let states = States::of(&kept.map, &mut dice, 120);
    let end = kept.map.follow().unwrap().end().unwrap();
    until("all is written", || journal.status().position == Some(end));
    let written = std::fs::read(&kept.file).unwrap();
    assert_eq!(&written[..synced.len()], &synced[..]);
    assert_eq!(journal.status().durable, Some(durable));
    let synced = &written[..written.len() - (end.offset - durable.offset) as usize];
    drop(journal);
    let crashed = kept.test_dir.path("crashed");
    for round in 0..400 {
        let mut bytes = written.clone();
        bytes.truncate(
            synced.len() + dice.below((written.len() - synced.len()) as u64 + 1) as usize,
        );
        for (number, sector) in bytes.chunks_mut(SECTOR).enumerate() {
            let from = (number * SECTOR).max(synced.len()) - number * SECTOR;
            if from < sector.len() && dice.below(4) == 0 {
                let junk = if round % 2 == 0 { 0 } else { dice.below(256) as u8 };
                sector[from..].fill(junk);
            }
        }
        std::fs::write(&crashed, &bytes).unwrap();
        let (rebuilt, found) = kept.rebuilt(&crashed).unwrap();
        assert!(rebuilt.position.offset >= durable.offset, "round {round}");
        states.contain(rebuilt.position, &found, &format!("round {round}"));
    }
}

#[test]
fn damaged_bytes_are_never_believed() {
    let kept = Kept::new(MapOptions::general());
    let mut dice = Dice::new(4);
    let journal = kept.start(|_| ());
    let states = States::of(&kept.map, &mut dice, 30);
    kept.map.sync(LONG).unwrap();
    drop(journal);
    let bytes = std::fs::read(&kept.file).unwrap();
    let damaged = kept.test_dir.path("damaged");
    for round in 0..600 {
        let mut copy = bytes.clone();
        let bit = dice.below(copy.len() as u64 * 8) as usize;
        copy[bit / 8] ^= 1 << (bit % 8);
        std::fs::write(&damaged, &copy).unwrap();
        match kept.rebuilt(&damaged) {
            Ok((rebuilt, found)) => states.contain(rebuilt.position, &found, &format!("{round}")),
            Err(error) => assert_eq!(error.kind(), ErrorKind::Damaged, "bit {bit}: {error}"),
        }
    }
}

#[test]
fn it_is_compacted_while_it_runs() {
    let kept = Kept::new(MapOptions::general());
    let mut dice = Dice::new(5);
    let journal = kept.start(|options| options.compact_bytes = 64 << 10);
    for _ in 0..60 {
        stir(&kept.map, &mut dice, 500);
        kept.map.sync(LONG).unwrap();
        assert_eq!(kept.rebuilt(&kept.file).unwrap().1, pairs(&kept.map));
    }
    until("it to be written anew", || journal.status().compactions > 3);
    kept.map.sync(LONG).unwrap();
    drop(journal);
    assert!(std::fs::metadata(&kept.file).unwrap().len() < 512 << 10);
    assert_eq!(kept.rebuilt(&kept.file).unwrap().1, pairs(&kept.map));
    assert_eq!(std::fs::read_dir(kept.test_dir.path("place")).unwrap().count(), 1);
}

/// The file is compacted although each run ends before the file has doubled.
#[test]
fn one_that_is_often_restarted_is_compacted() {
    let kept = Kept::new(MapOptions::general());
    let mut dice = Dice::new(8);
    stir(&kept.map, &mut dice, 500);
    for _ in 0..5 {
        let journal = kept.start(|_| ());
        stir(&kept.map, &mut dice, 500);
        journal.finish().unwrap();
    }
    let grown = std::fs::metadata(&kept.file).unwrap().len();
    let journal = kept.start(|options| options.compact_bytes = 1);
    let bytes = || std::fs::metadata(&kept.file).unwrap().len();
    until("it to be written anew", || bytes() < grown / 2);
    journal.finish().unwrap();
    assert_eq!(kept.rebuilt(&kept.file).unwrap().1, pairs(&kept.map));
}

#[test]
fn changes_too_large_for_the_stream_are_durable() {
    let kept = Kept::new(MapOptions::general());
    let journal = kept.start(|_| ());
    kept.map.set("small", "1").unwrap();
    kept.map.set("large", vec![7; 2 << 20]).unwrap();
    kept.map.set("behind", "2").unwrap();
    kept.map.sync(LONG).unwrap();
    assert_eq!(kept.rebuilt(&kept.file).unwrap().1, pairs(&kept.map));
    drop(journal);
    for round in 0..20 {
        let journal = kept.start(|_| ());
        // Also during the full sync.
        kept.map.set("large", vec![round; 2 << 20]).unwrap();
        kept.map.sync(LONG).unwrap();
        drop(journal);
    }
    assert_eq!(kept.rebuilt(&kept.file).unwrap().1, pairs(&kept.map));
}

/// The next journal begins a new file, although its stream has another number.
#[test]
fn a_journal_continues_behind_a_resized_stream() {
    let kept = Kept::new(MapOptions::general());
    kept.map.set("small", "1").unwrap();
    kept.start(|_| ()).finish().unwrap();
    for bytes in [1u64 << 21, 1 << 22, 1 << 18] {
        kept.map.set("round", bytes.to_le_bytes()).unwrap();
        kept.hold.maps().begin_stream("it", bytes).unwrap();
    }
    kept.start(|options| options.stream_bytes = 1 << 17).finish().unwrap();
    assert_eq!(kept.rebuilt(&kept.file).unwrap().1, pairs(&kept.map));
    // Another map of this name has another stream.
    kept.hold.maps().drop("it").unwrap();
    kept.hold.maps().create("it", MapOptions::general()).unwrap();
    let other = Journal::start(&kept.hold, "it", &kept.file, small());
    refused(other, ErrorKind::Mismatch, "does not belong");
}

#[test]
fn a_journal_begins_although_changes_are_too_large_for_the_stream() {
    let kept = Kept::new(MapOptions::general());
    let over = AtomicBool::new(false);
    std::thread::scope(|scope| {
        scope.spawn(|| {
            for round in 0.. {
                kept.map.set("large", vec![round as u8; 1 << 20]).unwrap();
                if over.load(Ordering::Relaxed) {
                    return;
                }
            }
        });
        let journal = kept.start(|options| options.stream_bytes = 64 << 10);
        until("it is durable", || journal.status().durable.is_some());
        over.store(true, Ordering::Relaxed);
    });
}

#[test]
fn the_obstacle_to_a_full_sync_behind_a_gap_is_reported() {
    let kept = Kept::new(MapOptions::general());
    let journal = kept.start(|_| ());
    kept.map.sync(LONG).unwrap();
    kept.move_away();
    kept.map.set("large", vec![7; 2 << 20]).unwrap();
    refused(kept.map.sync(LONG), ErrorKind::Io, "it.journal");
    until("the status to say so", || journal.status().error.is_some());
    kept.move_back();
    until("all to become durable", || kept.map.sync(LONG).is_ok());
    until("the status to say so", || journal.status().error.is_none());
    drop(journal);
    assert_eq!(kept.rebuilt(&kept.file).unwrap().1, pairs(&kept.map));
}

/// Nothing was changed since the last confirmation.
#[test]
fn nothing_is_confirmed_while_the_file_is_gone() {
    let kept = Kept::new(MapOptions::general());
    let journal = kept.start(|_| ());
    kept.map.set("small", "1").unwrap();
    kept.map.sync(LONG).unwrap();
    kept.move_away();
    refused(kept.map.sync(LONG), ErrorKind::Io, "it.journal");
    kept.move_back();
    until("all to become durable", || kept.map.sync(LONG).is_ok());
    std::fs::remove_file(&kept.file).unwrap();
    until("all to become durable", || kept.map.sync(LONG).is_ok());
    assert_eq!(kept.rebuilt(&kept.file).unwrap().1, pairs(&kept.map));
    drop(journal);
}

/// A process may see other directories than the journal: then the journal looks at the path.
#[test]
fn the_journal_confirms_for_those_who_cannot_see_its_file() {
    let kept = Kept::new(MapOptions::general());
    let journal = kept.start(|_| ());
    kept.map.set("small", "1").unwrap();
    kept.map.sync(LONG).unwrap();
    let said = kept.hold.maps().open(".journal/it").unwrap();
    said.set("file", [0; 20]).unwrap();
    kept.map.sync(LONG).unwrap();
    assert_eq!(said.get("answered").unwrap(), said.get("asked").unwrap());
    assert!(said.get("asked").unwrap().is_some());
    // The announcements of an earlier journal are half deleted.
    let asked = said.get("asked").unwrap();
    assert!(said.delete("file").unwrap());
    kept.map.sync(LONG).unwrap();
    assert_ne!(said.get("asked").unwrap(), asked, "no file was announced");
    drop(journal);
}

/// Also if it may replace the file.
#[test]
fn the_file_of_a_running_journal_is_not_taken() {
    let kept = Kept::new(MapOptions::general());
    let journal = kept.start(|_| ());
    kept.map.set("small", "1").unwrap();
    kept.map.sync(LONG).unwrap();
    let taken = |from: &str| {
        let hold = Hold::create(kept.test_dir.path(from)).unwrap();
        hold.maps().open_or_create("it", MapOptions::general()).unwrap();
        let options = JournalOptions { replace: true, ..small() };
        Journal::start(&hold, "it", &kept.file, options)
    };
    let pid = format!("({})", std::process::id());
    refused(taken("same.hold"), ErrorKind::Busy, &pid);
    Child::run("another process", || refused(taken("other.hold"), ErrorKind::Busy, &pid)).finish();
    kept.map.sync(LONG).unwrap();
    assert_eq!(journal.status().compactions, 0);
    assert_eq!(kept.rebuilt(&kept.file).unwrap().1, pairs(&kept.map));
}

#[test]
fn a_change_larger_than_a_batch_is_written() {
    let kept = Kept::new(MapOptions::general());
    let journal = kept.start(|options| options.stream_bytes = 32 << 20);
    for round in 0..3 {
        kept.map.set("large", vec![round; 3 << 20]).unwrap();
        kept.map.set("small", [round]).unwrap();
        kept.map.sync(LONG).unwrap();
        assert_eq!(kept.rebuilt(&kept.file).unwrap().1, pairs(&kept.map));
    }
    drop(journal);
    assert_eq!(kept.rebuilt(&kept.file).unwrap().1, pairs(&kept.map));
}

#[test]
fn changes_that_could_not_be_written_at_the_end_are_reported() {
    let kept = Kept::new(MapOptions::general());
    let journal = kept.start(|options| options.sync = SyncPolicy::Every(LONG));
    kept.map.set("small", "1").unwrap();
    journal.finish().unwrap();
    assert_eq!(kept.rebuilt(&kept.file).unwrap().1, pairs(&kept.map));
    let journal = kept.start(|_| ());
    kept.map.sync(LONG).unwrap();
    kept.move_away();
    kept.map.set("large", vec![7; 2 << 20]).unwrap();
    refused(journal.finish(), ErrorKind::Io, "it.journal: cannot write");
    kept.move_back();
    assert_eq!(kept.rebuilt(&kept.file).unwrap().1.len(), 1);
    let journal = kept.start(|_| ());
    kept.hold.maps().drop("it").unwrap();
    until("it to end", || journal.is_over());
    refused(journal.finish(), ErrorKind::Io, "it");
}

/// A journal that was moved away while it runs is no place for durable changes.
#[test]
fn a_moved_journal_is_written_again() {
    let kept = Kept::new(MapOptions::general());
    let journal = kept.start(|_| ());
    kept.map.set("a", "1").unwrap();
    kept.map.sync(LONG).unwrap();
    std::fs::rename(&kept.file, kept.test_dir.path("elsewhere")).unwrap();
    kept.map.set("b", "2").unwrap();
    until("it to be there again", || kept.map.sync(LONG).is_ok());
    assert_eq!(kept.rebuilt(&kept.file).unwrap().1, pairs(&kept.map));
    drop(journal);
}

#[test]
fn a_journal_that_fell_behind_begins_again() {
    let kept = Kept::new(MapOptions::general());
    drop(kept.start(|options| options.stream_bytes = 64 << 10));
    stir(&kept.map, &mut Dice::new(6), 5000);
    let journal = kept.start(|_| ());
    kept.map.sync(LONG).unwrap();
    assert_eq!(kept.rebuilt(&kept.file).unwrap().1, pairs(&kept.map));
    drop(journal);
}

#[test]
fn sync_reports_when_nothing_is_durable() {
    let kept = Kept::new(MapOptions::general());
    let none = |text: &str| refused(kept.map.sync(LONG), ErrorKind::NotFound, text);
    none("no stream");
    let journal = kept.start(|_| ());
    kept.map.sync(LONG).unwrap();
    let second =
        Journal::start(&kept.hold, "it", kept.test_dir.path("b"), JournalOptions::default());
    refused(second, ErrorKind::Busy, "already has a journal");
    drop(journal);
    none("no running journal");
    let journal = kept.start(|options| options.sync = SyncPolicy::Never);
    refused(kept.map.sync(LONG), ErrorKind::Io, "--sync never");
    drop(journal);
    kept.hold.maps().open_or_create("cache", MapOptions::cache()).unwrap();
    let cache =
        Journal::start(&kept.hold, "cache", kept.test_dir.path("c"), JournalOptions::default());
    refused(cache, ErrorKind::Mismatch, "is a cache");
    // The file of another life of the map is not overwritten.
    let other = Kept::new(MapOptions::general());
    let refusal = Journal::start(&other.hold, "it", &kept.file, JournalOptions::default());
    refused(refusal, ErrorKind::Mismatch, "rebuild the map from it");
    let replace = JournalOptions { replace: true, ..JournalOptions::default() };
    let journal = Journal::start(&other.hold, "it", &kept.file, replace).unwrap();
    other.map.sync(LONG).unwrap();
    drop(journal);
    refused(rebuild(&other.hold, "it", &kept.file, &small()), ErrorKind::Exists, "drop it first");
    std::fs::write(kept.test_dir.path("no"), "nothing of the kind").unwrap();
    refused(kept.rebuilt(&kept.test_dir.path("no")), ErrorKind::Damaged, "is not a journal");
}

/// The rebuilt map resumes the same file; a map that another process created does not.
#[test]
fn a_rebuilt_map_continues_its_journal() {
    let kept = Kept::new(MapOptions::general());
    let journal = kept.start(|_| ());
    kept.map.set("a", "1").unwrap();
    kept.map.sync(LONG).unwrap();
    drop(journal);
    let hold = Hold::create(kept.test_dir.path("new.hold")).unwrap();
    for round in 0..3u8 {
        rebuild(&hold, "it", &kept.file, &small()).unwrap();
        let map = hold.maps().open("it").unwrap();
        // Also if it is killed before it has compacted the file.
        let another = kept.test_dir.path(&format!("another{round}"));
        drop(Journal::start(&hold, "it", another, small()).unwrap());
        let journal = Journal::start(&hold, "it", &kept.file, small()).unwrap();
        map.set([round], "more").unwrap();
        map.sync(LONG).unwrap();
        drop(journal);
        assert_eq!(kept.rebuilt(&kept.file).unwrap().1.len(), usize::from(round) + 2);
        assert!(hold.maps().drop("it").unwrap());
    }
    hold.maps().open_or_create("it", MapOptions::general()).unwrap();
    let other = Journal::start(&hold, "it", &kept.file, small());
    refused(other, ErrorKind::Mismatch, "rebuild the map from it");
}

/// A killed journal is noticed at once, and the next one resumes its file.
#[test]
fn a_killed_journal_loses_nothing_that_was_durable() {
    let kept = Kept::new(MapOptions::general());
    let mut dice = Dice::new(7);
    kept.hold.maps().begin_stream("it", 1 << 20).unwrap();
    for round in 0..15 {
        let board = Board::new(1);
        let (path, file) = (kept.test_dir.path("it.hold"), kept.file.clone());
        let victim = Child::run("journal", || {
            let hold = Hold::open(&path).unwrap();
            let options = JournalOptions { compact_bytes: 16 << 10, ..JournalOptions::default() };
            let _journal = Journal::start(&hold, "it", &file, options).unwrap();
            board.put(0, 1);
            loop {
                commonhold_testing::support::process::pause();
            }
        });
        until("the journal to begin", || board.get(0) == 1);
        let mut synced = BTreeMap::new();
        for _ in 0..dice.below(6) {
            stir(&kept.map, &mut dice, 50);
            kept.map.sync(LONG).unwrap();
            synced = pairs(&kept.map);
        }
        drop(victim.slay());
        refused(kept.map.sync(LONG), ErrorKind::NotFound, "no running journal");
        if !synced.is_empty() {
            assert_eq!(kept.rebuilt(&kept.file).unwrap().1, synced, "round {round}");
        }
    }
    assert!(kept.hold.check().unwrap().ok);
}

/// A full disk is reported, and when there is room again everything becomes durable.
#[test]
fn a_full_disk_is_reported_and_survived() {
    let test_dir = TestDir::memory();
    on_small_tmpfs(1, &test_dir, |disk| {
        let kept = Kept::new(MapOptions::general());
        let file = disk.join("it.journal");
        let options = JournalOptions { stream_bytes: 8 << 20, ..JournalOptions::default() };
        let journal = Journal::start(&kept.hold, "it", &file, options).unwrap();
        kept.map.set("a", "1").unwrap();
        kept.map.sync(LONG).unwrap();
        std::fs::write(disk.join("ballast"), vec![0; 800 << 10]).unwrap();
        kept.map.set("b", vec![7; 300 << 10]).unwrap();
        refused(kept.map.sync(LONG), ErrorKind::Io, "cannot write");
        until("the status to say so", || {
            journal.status().error.is_some_and(|error| error.contains("No space left"))
        });
        // Durable changes are in the file.
        assert_eq!(kept.rebuilt(&file).unwrap().1.len(), 1);
        std::fs::remove_file(disk.join("ballast")).unwrap();
        until("all to become durable", || kept.map.sync(LONG).is_ok());
        drop(journal);
        assert_eq!(kept.rebuilt(&file).unwrap().1, pairs(&kept.map));
    });
}
