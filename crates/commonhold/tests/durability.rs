//! What survives what: clean closes, crashes of the system, salvage, backup and restore.
//!
//! A crash of the system is simulated by changing the boot id that the file remembers (16 bytes in its
//! first page, found by their value) while the file is not closed cleanly, and by damaging records, as
//! lost pages would. Backups are taken while writers write; single keys are written in a known order, so
//! that a snapshot that is no point in time shows.

use crate::support::boot::{boot_id, overwrite, reboot};
use crate::support::process::{Board, Child, End, until};
use crate::support::script::read;
use crate::support::shape::Shape;
use crate::support::test_dir::TestDir;
use crate::support::{Dice, long};
use commonhold::hold::HoldKind;
use commonhold::map::{Map, MapOptions};
use commonhold::{Error, ErrorKind, Hold};
use nix::sys::resource::{Resource, setrlimit};
use nix::sys::signal::Signal;
use std::collections::BTreeMap;
use std::path::Path;

const SHAPES: [(&str, Shape); 4] = [
    ("general", Shape::General),
    ("words", Shape::Fixed(4, 4)),
    ("pairs", Shape::Fixed(8, 8)),
    ("cache", Shape::Cache),
];
const PAIRS: u32 = 3000;

fn fill(hold: &Hold, version: u64) {
    for (name, shape) in SHAPES {
        let map = hold.maps().open_or_create(name, shape.options()).unwrap();
        for id in 0..PAIRS {
            map.set(shape.key(id), shape.value(id, shape.fit(version))).unwrap();
        }
    }
}

#[track_caller]
fn all_there(hold: &Hold, version: u64) {
    for (name, shape) in SHAPES {
        let map = hold.maps().open(name).unwrap();
        assert_eq!(map.len().unwrap(), PAIRS as u64, "{name}");
        for id in 0..PAIRS {
            let value = map.get(shape.key(id)).unwrap().unwrap_or_else(|| panic!("{name}: {id}"));
            assert_eq!(read(shape, id, &value), shape.fit(version));
        }
    }
    let report = hold.check().unwrap();
    assert!(report.ok && report.allocated == report.reachable, "{report:?}");
}

/// A child writes version 1 into the hold and is killed.
fn written_by_a_victim(path: &Path) {
    let board = Board::new(1);
    let mut victim = Child::run("victim", || {
        let hold = Hold::open_or_create(path).unwrap();
        fill(&hold, 1);
        board.put(0, 1);
        until("killed", || false);
    });
    until("the victim has written", || board.get(0) == 1 || victim.is_gone());
    victim.signal(Signal::SIGKILL);
    assert_eq!(victim.wait(), End::By(Signal::SIGKILL));
}

#[track_caller]
fn unclean(path: &Path) -> Error {
    let error = Hold::open(path).expect_err("an error");
    assert_eq!(error.kind(), ErrorKind::Unclean, "{error:?}");
    let text = error.to_string();
    assert!(text.contains("hold repair --salvage"), "the way out is missing: {text}");
    error
}

#[test]
fn holds_know_their_kind() {
    let (memory, file) = (TestDir::memory(), TestDir::file());
    let kind = |g: &TestDir| Hold::create(g.path("it.hold")).unwrap().stat().unwrap().kind;
    assert!(matches!(kind(&memory), HoldKind::Memory));
    assert!(matches!(kind(&file), HoldKind::File), "the build's directory must be on a disk");
}

#[test]
fn a_file_closed_cleanly_survives_a_reboot() {
    let test_dir = TestDir::file();
    let path = test_dir.path("it.hold");
    let hold = Hold::create(&path).unwrap();
    fill(&hold, 1);
    hold.close().unwrap();
    for _ in 0..3 {
        // A closed hold may forget its boot; then there is nothing to change.
        let id = boot_id();
        if std::fs::read(&path).unwrap()[..4096].windows(16).any(|w| w == id) {
            reboot(&path);
        }
        let hold = Hold::open(&path).unwrap();
        all_there(&hold, 1);
        hold.close().unwrap();
    }
}

/// Its layout stays that of where it was made.
#[test]
fn a_closed_hold_is_the_same_wherever_it_is_copied_to() {
    for (from, to) in [(TestDir::memory(), TestDir::file()), (TestDir::file(), TestDir::memory())] {
        let hold = Hold::create(from.path("it.hold")).unwrap();
        fill(&hold, 1);
        hold.close().unwrap();
        std::fs::copy(from.path("it.hold"), to.path("it.hold")).unwrap();
        for version in 1..4 {
            let hold = Hold::open(to.path("it.hold")).unwrap();
            all_there(&hold, version);
            fill(&hold, version + 1);
            all_there(&hold, version + 1);
            hold.close().unwrap();
        }
        std::fs::copy(to.path("it.hold"), from.path("back.hold")).unwrap();
        all_there(&Hold::open(from.path("back.hold")).unwrap(), 4);
    }
}

#[test]
fn on_a_disk_a_hold_that_was_made_in_memory_is_unclean_after_a_crash_of_the_system() {
    let (made, test_dir) = (TestDir::memory(), TestDir::file());
    let hold = Hold::create(made.path("it.hold")).unwrap();
    hold.close().unwrap();
    let path = test_dir.path("it.hold");
    std::fs::copy(made.path("it.hold"), &path).unwrap();
    written_by_a_victim(&path);
    reboot(&path);
    unclean(&path);
    assert_eq!(commonhold::hold::salvage(&path).unwrap().maps, 4);
}

/// What is cut off is not to be forgotten by who looks for what is left.
#[test]
fn a_truncated_hold_stays_so_when_salvage_fails() {
    let test_dir = TestDir::file();
    let path = test_dir.path("it.hold");
    let hold = Hold::create(&path).unwrap();
    fill(&hold, 1);
    hold.close().unwrap();
    let len = std::fs::metadata(&path).unwrap().len();
    for cut in [len / 2 + 1, len - 1000] {
        let file = std::fs::OpenOptions::new().write(true).open(&path).unwrap();
        file.set_len(cut).unwrap();
        Child::run("salvage without room", || {
            setrlimit(Resource::RLIMIT_FSIZE, 100_000, 100_000).unwrap();
            assert!(commonhold::hold::salvage(&path).unwrap_err().is_full());
        })
        .finish();
        assert_eq!(Hold::open(&path).unwrap_err().kind(), ErrorKind::Truncated);
        assert_eq!(std::fs::metadata(&path).unwrap().len(), cut);
        file.set_len(len).unwrap();
    }
    std::fs::OpenOptions::new().write(true).open(&path).unwrap().set_len(len / 2).unwrap();
    let report = commonhold::hold::salvage(&path).unwrap();
    assert!(report.kept > 0 && report.cut_off == len - len / 2, "{report:?}");
}

#[test]
fn a_dropped_handle_is_a_clean_close() {
    let test_dir = TestDir::file();
    let path = test_dir.path("it.hold");
    let hold = Hold::create(&path).unwrap();
    fill(&hold, 1);
    drop(hold);
    if std::fs::read(&path).unwrap()[..4096].windows(16).any(|w| w == boot_id()) {
        reboot(&path);
    }
    all_there(&Hold::open(&path).unwrap(), 1);
}

#[test]
fn a_killed_process_loses_nothing_in_either_kind() {
    for test_dir in [TestDir::memory(), TestDir::file()] {
        let path = test_dir.path("it.hold");
        written_by_a_victim(&path);
        let hold = Hold::open(&path).unwrap();
        hold.sweep().unwrap();
        all_there(&hold, 1);
        hold.close().unwrap();
    }
}

#[test]
fn after_a_crash_of_the_system_a_file_is_unclean_until_salvaged() {
    let test_dir = TestDir::file();
    let path = test_dir.path("it.hold");
    written_by_a_victim(&path);
    reboot(&path);
    unclean(&path);
    unclean(&path);
    assert_eq!(
        Hold::options().open_or_create(&path).err().map(|e| e.kind()),
        Some(ErrorKind::Unclean)
    );
    let report = commonhold::hold::salvage(&path).unwrap();
    let kept = PAIRS as u64 * SHAPES.len() as u64;
    assert_eq!((report.maps, report.dropped), (4, 0), "{report:?}");
    assert!(report.kept + report.undecidable >= kept, "{report:?}");
    assert!(report.kept_old_as.exists(), "the damaged file is kept: {report:?}");
    all_there(&Hold::open(&path).unwrap(), 1);
}

#[test]
fn one_dead_among_clean_closers_is_still_unclean() {
    let test_dir = TestDir::file();
    let path = test_dir.path("it.hold");
    written_by_a_victim(&path);
    // Opened and closed under the same boot: recovery ran, so the hold is whole again.
    let hold = Hold::open(&path).unwrap();
    all_there(&hold, 1);
    hold.close().unwrap();
    if std::fs::read(&path).unwrap()[..4096].windows(16).any(|w| w == boot_id()) {
        reboot(&path);
    }
    all_there(&Hold::open(&path).unwrap(), 1);
}

#[test]
fn salvage_needs_the_hold_alone() {
    let test_dir = TestDir::file();
    let path = test_dir.path("it.hold");
    let hold = Hold::create(&path).unwrap();
    fill(&hold, 1);
    assert_eq!(commonhold::hold::salvage(&path).err().map(|e| e.kind()), Some(ErrorKind::Busy));
    all_there(&hold, 1);
    assert_eq!(
        commonhold::hold::salvage(test_dir.path("none.hold")).err().map(|e| e.kind()),
        Some(ErrorKind::NotFound)
    );
}

#[test]
fn salvage_keeps_what_is_intact_and_reports_what_is_not() {
    let test_dir = TestDir::file();
    let path = test_dir.path("it.hold");
    let shape = Shape::General;
    let board = Board::new(1);
    let mut victim = Child::run("victim", || {
        let map =
            Hold::create(&path).unwrap().maps().open_or_create("general", shape.options()).unwrap();
        for id in 0..PAIRS {
            map.set(shape.key(id), shape.value(id, 1)).unwrap();
        }
        board.put(0, 1);
        until("killed", || false);
    });
    until("the victim has written", || board.get(0) == 1);
    victim.signal(Signal::SIGKILL);
    victim.wait();
    // One byte of every tenth value, wherever its record lies.
    let bytes = std::fs::read(&path).unwrap();
    let mut damaged = 0;
    for id in (0..PAIRS).step_by(10) {
        let value = shape.value(id, 1);
        let at = find(&bytes, &value).expect("the value in the file");
        overwrite(&path, (at + value.len() - 1) as u64, &[!value[value.len() - 1]]);
        damaged += 1;
    }
    reboot(&path);
    unclean(&path);
    let report = commonhold::hold::salvage(&path).unwrap();
    assert_eq!((report.kept, report.maps), ((PAIRS - damaged) as u64, 1), "{report:?}");
    assert!(report.dropped + report.undecidable >= damaged as u64, "{report:?}");
    let hold = Hold::open(&path).unwrap();
    let map = hold.maps().open("general").unwrap();
    for id in 0..PAIRS {
        let value = map.get(shape.key(id)).unwrap().map(|v| read(shape, id, &v));
        assert_eq!(value, (id % 10 != 0).then_some(1), "key {id}");
    }
    assert!(hold.check().unwrap().ok);
}

/// A name that two maps have, and one that no map can have, once ended the whole salvage.
#[test]
fn salvage_reports_cut_off_and_missing_parts() {
    let test_dir = TestDir::file();
    let path = test_dir.path("it.hold");
    written_by_a_victim(&path);
    let len = std::fs::metadata(&path).unwrap().len();
    // Half an extent too: what is left of it cannot hold anything.
    let left = len * 2 / 3 / 65_536 * 65_536 + 32_768;
    std::fs::File::options().write(true).open(&path).unwrap().set_len(left).unwrap();
    let report = commonhold::hold::salvage(&path).unwrap();
    assert_eq!(report.cut_off, len - left, "{report:?}");
    assert!(report.missing > 0 && report.kept > 0, "{report:?}");
    let hold = Hold::open(&path).unwrap();
    let kept: u64 =
        SHAPES.iter().map(|(name, _)| hold.maps().open(name).map_or(0, |m| m.len().unwrap())).sum();
    assert_eq!(kept, report.kept, "{report:?}");
    for (name, shape) in SHAPES.iter().filter(|(name, _)| hold.maps().open(name).is_ok()) {
        let map = hold.maps().open(name).unwrap();
        let read_all =
            (0..PAIRS).filter_map(|id| Some(read(*shape, id, &map.get(shape.key(id)).unwrap()?)));
        assert_eq!(
            read_all.inspect(|version| assert_eq!(*version, shape.fit(1))).count() as u64,
            map.len().unwrap()
        );
    }
}

#[test]
fn a_killed_backup_leaves_no_file() {
    let test_dir = TestDir::file();
    let path = test_dir.path("it.hold");
    let hold = Hold::create(&path).unwrap();
    fill(&hold, 1);
    let (directory, mut dice, mut cut_short) = (test_dir.path("backups"), Dice::new(3), 0);
    std::fs::create_dir(&directory).unwrap();
    for round in 0..if long() { 500 } else { 40 } {
        let target = directory.join(format!("{round}"));
        let board = Board::new(1);
        let mut victim = Child::run("backup", || {
            let hold = Hold::open(&path).unwrap();
            board.put(0, 1);
            hold.backup(&target).unwrap();
        });
        until("it begins", || board.get(0) == 1 || victim.is_gone());
        std::thread::sleep(std::time::Duration::from_micros(dice.below(20_000)));
        victim.signal(Signal::SIGKILL);
        victim.wait();
        if target.exists() {
            let copy = test_dir.path("copy.hold");
            commonhold::hold::restore(&target, &copy).unwrap();
            all_there(&Hold::open(&copy).unwrap(), 1);
            std::fs::remove_file(&copy).unwrap();
            std::fs::remove_file(&target).unwrap();
        } else {
            cut_short += 1;
        }
        let left: Vec<_> = std::fs::read_dir(&directory).unwrap().collect();
        assert!(left.is_empty(), "round {round}: {left:?}");
    }
    assert!(cut_short > 0, "none was killed in the middle");
}

#[test]
fn salvage_keeps_the_pairs_of_a_map_whose_name_is_damaged() {
    let shape = Shape::General;
    for damaged in [b"first", b"f\0rst", b"\xff\xfe\xfd\xfc\xfb"] {
        let test_dir = TestDir::file();
        let path = test_dir.path("it.hold");
        let mut victim = Child::run("victim", || {
            let hold = Hold::create(&path).unwrap();
            for (name, version) in [("first", 1), ("other", 2)] {
                let map = hold.maps().open_or_create(name, shape.options()).unwrap();
                for id in 0..PAIRS {
                    map.set(shape.key(id), shape.value(id, version)).unwrap();
                }
            }
            nix::sys::signal::raise(Signal::SIGKILL).unwrap();
        });
        assert_eq!(victim.wait(), End::By(Signal::SIGKILL));
        let at = find(&std::fs::read(&path).unwrap(), b"other").expect("the name in the file");
        overwrite(&path, at as u64, damaged);
        reboot(&path);
        let report = commonhold::hold::salvage(&path).unwrap();
        assert_eq!((report.kept, report.maps), (2 * PAIRS as u64, 2), "{damaged:?}: {report:?}");
        let hold = Hold::open(&path).unwrap();
        for info in hold.maps().list().unwrap() {
            let version = if info.name == "first" { 1 } else { 2 };
            let map = hold.maps().open(&info.name).unwrap();
            for id in 0..PAIRS {
                let value = map.get(shape.key(id)).unwrap().map(|v| read(shape, id, &v));
                assert_eq!(value, Some(version), "map {}, key {id}", info.name);
            }
        }
        hold.maps().open("first").unwrap();
    }
}

fn find(bytes: &[u8], what: &[u8]) -> Option<usize> {
    let first = what[0];
    (0..bytes.len() - what.len())
        .find(|i| bytes[*i] == first && &bytes[*i..*i + what.len()] == what)
}

#[test]
fn salvage_keeps_the_highest_sequence_of_a_key() {
    // A writer dies after the commit and before the old record is retired; then the system crashes, so
    // that nobody recovers: two intact records of one key lie in the file.
    let test_dir = TestDir::file();
    let path = test_dir.path("it.hold");
    let shape = Shape::General;
    let mut victim = Child::run("victim", || {
        let map =
            Hold::create(&path).unwrap().maps().open_or_create("it", shape.options()).unwrap();
        map.set(shape.key(1), shape.value(1, 1)).unwrap();
        map.set(shape.key(2), shape.value(2, 1)).unwrap();
        commonhold::steps::arm("write.committed:kill").unwrap();
        map.set(shape.key(1), shape.value(1, 2)).unwrap();
    });
    assert_eq!(victim.wait(), End::By(Signal::SIGKILL));
    reboot(&path);
    unclean(&path);
    let report = commonhold::hold::salvage(&path).unwrap();
    assert_eq!((report.kept, report.superseded), (2, 1), "{report:?}");
    let map = Hold::open(&path).unwrap().maps().open("it").unwrap();
    assert_eq!(map.get(shape.key(1)).unwrap(), Some(shape.value(1, 2)));
    assert_eq!(map.get(shape.key(2)).unwrap(), Some(shape.value(2, 1)));
}

fn number(map: &Map, key: &str) -> u64 {
    map.get(key).unwrap().map_or(0, |v| u64::from_le_bytes(v.try_into().unwrap()))
}

#[test]
fn a_backup_is_one_point_in_time_while_writers_write() {
    const WRITERS: u64 = 3;
    let test_dir = TestDir::memory();
    let hold = Hold::create(test_dir.path("it.hold")).unwrap();
    fill(&hold, 1);
    hold.maps().open_or_create("race", MapOptions::general()).unwrap();
    hold.maps().open_or_create("other", MapOptions::general()).unwrap();
    let board = Board::new(8);
    let write = |writer: u64| {
        let hold = Hold::open(test_dir.path("it.hold")).unwrap();
        let (race, other) = (hold.maps().open("race").unwrap(), hold.maps().open("other").unwrap());
        // First, then second, in two maps; and then fresh keys, each after the one before.
        for n in (1..).take_while(|_| board.get(7) == 0) {
            race.set(format!("first {writer}"), u64::to_le_bytes(n)).unwrap();
            other.set(format!("second {writer}"), u64::to_le_bytes(n)).unwrap();
            race.set(format!("{writer} {}", n % 5000), u64::to_le_bytes(n)).unwrap();
            board.put(writer as usize, n);
        }
    };
    let writers: Vec<_> = (0..WRITERS).map(|w| Child::run("writer", move || write(w))).collect();
    for round in 0..if long() { 300 } else { 15 } {
        let before: Vec<u64> = (0..WRITERS).map(|w| board.get(w as usize)).collect();
        let (backup, restored) = (test_dir.path("backup"), test_dir.path("restored.hold"));
        let report = hold.backup(&backup).unwrap();
        let told = commonhold::hold::restore(&backup, &restored).unwrap();
        assert_eq!((report.maps, report.pairs), (told.maps, told.pairs), "round {round}");
        assert_eq!(report.bytes, std::fs::metadata(&backup).unwrap().len());
        let copy = Hold::open(&restored).unwrap();
        all_there(&copy, 1);
        let (race, other) = (copy.maps().open("race").unwrap(), copy.maps().open("other").unwrap());
        for writer in 0..WRITERS {
            let first = number(&race, &format!("first {writer}"));
            let second = number(&other, &format!("second {writer}"));
            assert!(first == second || first == second + 1, "torn: {first} and {second}");
            assert!(first >= before[writer as usize], "older than the backup's beginning");
            let latest = (0..5000).map(|k| number(&race, &format!("{writer} {k}"))).max().unwrap();
            assert!(latest == first || latest + 1 == first, "torn: {first}, then {latest}");
            // Everything before the latest is there, as far as it was not overwritten.
            for n in (1..=latest).rev().take(5000) {
                assert_eq!(number(&race, &format!("{writer} {}", n % 5000)), n, "a lost write");
            }
        }
        let seen = board.get(0);
        until("writers go on", || board.get(0) > seen + 10);
        copy.close().unwrap();
        std::fs::remove_file(&backup).unwrap();
        commonhold::hold::remove(&restored, false).unwrap();
    }
    board.put(7, 1);
    writers.into_iter().for_each(Child::finish);
    assert!(hold.check().unwrap().ok);
}

#[test]
fn a_backup_comes_back_whole() {
    let test_dir = TestDir::memory();
    let hold = Hold::create(test_dir.path("it.hold")).unwrap();
    fill(&hold, 3);
    let map = hold.maps().open_or_create("odd", MapOptions::general()).unwrap();
    let mut dice = Dice::new(1);
    let mut wanted = BTreeMap::new();
    for len in (0..2000).chain([65_535, 65_536, 300_000, 5 << 20]) {
        let key: Vec<u8> = (0..len % 300).map(|_| dice.roll() as u8).collect();
        let value: Vec<u8> = (0..len).map(|i| (i as u64 ^ len as u64) as u8).collect();
        map.set(&key, &value).unwrap();
        wanted.insert(key, value);
    }
    hold.maps().open_or_create("empty", MapOptions::cache().max_entries(7)).unwrap();
    let backup = test_dir.path("backup");
    let report = hold.backup(&backup).unwrap();
    assert_eq!(report.pairs, 4 * PAIRS as u64 + wanted.len() as u64);
    assert_eq!(report.maps, 6);
    assert_eq!(Hold::backup(&hold, &backup).err().map(|e| e.kind()), Some(ErrorKind::Exists));
    let target = test_dir.path("restored.hold");
    let told = commonhold::hold::restore(&backup, &target).unwrap();
    assert_eq!((told.maps, told.pairs), (report.maps, report.pairs));
    assert_eq!(
        commonhold::hold::restore(&backup, &target).err().map(|e| e.kind()),
        Some(ErrorKind::Exists)
    );
    let copy = Hold::open(&target).unwrap();
    all_there(&copy, 3);
    let odd: BTreeMap<_, _> = copy.maps().open("odd").unwrap().iter().map(Result::unwrap).collect();
    assert!(odd == wanted, "the odd map differs");
    let options = copy.maps().open("empty").unwrap().options().clone();
    assert_eq!(options, MapOptions::cache().max_entries(7).into());
    assert_ne!(copy.uuid(), hold.uuid(), "a restored hold is another hold");
}

#[test]
fn a_full_disk_spoils_no_backup() {
    let test_dir = TestDir::memory();
    let hold = Hold::create(test_dir.path("it.hold")).unwrap();
    fill(&hold, 1);
    Child::run("with RLIMIT_FSIZE", || {
        use nix::sys::resource::{Resource, setrlimit};
        setrlimit(Resource::RLIMIT_FSIZE, 100_000, 100_000).unwrap();
        let hold = Hold::options().read_only(true).open(test_dir.path("it.hold")).unwrap();
        let error = hold.backup(test_dir.path("backup")).expect_err("a backup of this size");
        assert!(matches!(error.kind(), ErrorKind::Full | ErrorKind::ReadOnly), "{error:?}");
    })
    .finish();
    assert!(!test_dir.path("backup").exists(), "half a backup was left");
    let error = hold.backup(test_dir.path("no/such/directory")).expect_err("nowhere");
    assert_eq!(error.kind(), ErrorKind::NotFound, "{error:?}");
    all_there(&hold, 1);
}

#[test]
fn a_rebuilt_hold_keeps_size_limit_and_mode() {
    use std::os::unix::fs::PermissionsExt;
    let test_dir = TestDir::file();
    let path = test_dir.path("it.hold");
    let hold = Hold::options().max_bytes(100 << 20).mode(0o640).create(&path).unwrap();
    hold.maps().open_or_create("it", MapOptions::general()).unwrap().set("a", "b").unwrap();
    hold.backup(test_dir.path("backup")).unwrap();
    // Its owner must be able to open the copy, whatever became of the hold's mode.
    std::fs::set_permissions(&path, PermissionsExt::from_mode(0o440)).unwrap();
    hold.backup(test_dir.path("read-only")).unwrap();
    hold.close().unwrap();
    for (backup, restored) in [("backup", "restored.hold"), ("read-only", "writable.hold")] {
        commonhold::hold::restore(test_dir.path(backup), test_dir.path(restored)).unwrap();
    }
    reboot(&path);
    commonhold::hold::salvage(&path).unwrap();
    for name in ["restored.hold", "writable.hold", "it.hold"] {
        let hold = Hold::open(test_dir.path(name)).unwrap();
        assert_eq!(hold.stat().unwrap().max_bytes, 100 << 20, "{name}");
        let mode = std::fs::metadata(test_dir.path(name)).unwrap().permissions().mode();
        assert_eq!(mode & 0o777, 0o640, "{name}");
        assert_eq!(hold.maps().open("it").unwrap().get("a").unwrap(), Some(b"b".to_vec()));
    }
}

/// Writes this version and closes the hold; stopped after that, before what it wrote is synced.
fn closer_that_syncs(path: &Path, version: u64) -> Child {
    let mut closer = Child::run(format!("closer of version {version}"), || {
        let hold = Hold::open_or_create(path).unwrap();
        fill(&hold, version);
        commonhold::steps::arm("close.begun:stop").unwrap();
        hold.close().unwrap();
    });
    assert!(closer.wait_stopped());
    closer
}

/// However long it takes until everything is on the disk: who opens the hold meanwhile can, and
/// what is written then is not taken for synced.
#[test]
fn a_close_that_takes_long_keeps_nobody_out() {
    let test_dir = TestDir::file();
    let path = test_dir.path("it.hold");
    let first = closer_that_syncs(&path, 1);
    // Opened, written and closed cleanly meanwhile; then once more, and not synced yet.
    let hold = Hold::open(&path).unwrap();
    fill(&hold, 2);
    hold.close().unwrap();
    let mut second = closer_that_syncs(&path, 3);
    first.signal(Signal::SIGCONT);
    first.finish();
    second.signal(Signal::SIGKILL);
    assert_eq!(second.wait(), End::By(Signal::SIGKILL));
    reboot(&path);
    unclean(&path);
}

#[test]
fn a_close_that_took_long_leaves_a_clean_hold_clean() {
    let test_dir = TestDir::file();
    let path = test_dir.path("it.hold");
    let first = closer_that_syncs(&path, 1);
    let hold = Hold::open(&path).unwrap();
    fill(&hold, 2);
    hold.close().unwrap();
    first.signal(Signal::SIGCONT);
    first.finish();
    reboot(&path);
    all_there(&Hold::open(&path).unwrap(), 2);
}
