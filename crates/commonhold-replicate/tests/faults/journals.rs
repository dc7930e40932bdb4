//! Journals: acknowledged changes are in the file, whichever call fails, and failures are reported.

use commonhold::map::{Map, MapOptions};
use commonhold::steps::observe_faults;
use commonhold::stream::StreamPosition;
use commonhold::{ErrorKind, Hold};
use commonhold_replicate::faults::{all, arm};
use commonhold_replicate::journal::{Journal, JournalOptions, Rebuilt, SyncPolicy, rebuild};
use commonhold_testing::alone::cast;
use commonhold_testing::support::Dice;
use commonhold_testing::support::process::{Board, End, until};
use commonhold_testing::support::test_dir::TestDir;
use commonhold_testing::trial::{HANGS, Scenario, Trial, closes_down_to, descriptors, fail};
use nix::sys::signal::{Signal, raise};
use std::collections::BTreeMap;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};
use std::time::Duration;

/// The time within which a journal reports that it cannot write.
const SAYS_SO: Duration = Duration::from_secs(20);

type Pairs = BTreeMap<Vec<u8>, Vec<u8>>;

/// Compacted as soon as it has doubled.
fn options() -> JournalOptions {
    JournalOptions { stream_bytes: 1 << 20, compact_bytes: 1, ..JournalOptions::default() }
}

/// A map, every state that it had, and its acknowledged position.
struct Kept<'a> {
    trial: &'a Trial,
    hold: Hold,
    map: Map,
    file: PathBuf,
    states: BTreeMap<u64, Pairs>,
    dice: Dice,
    /// Copies of the file, each with the position that had been acknowledged by then.
    copies: Vec<(PathBuf, u64)>,
    /// How long the journal keeps earlier states, if it does.
    keep: Option<Duration>,
}

impl Kept<'_> {
    fn new(trial: &Trial) -> Kept<'_> {
        // Without room for a larger stream: its offsets never begin again.
        let hold = Hold::options().max_bytes(14 << 20).create(trial.path("it.hold")).unwrap();
        let map = hold.maps().open_or_create("it", MapOptions::general()).unwrap();
        hold.maps().begin_stream("it", 1 << 20).unwrap();
        let (states, dice, copies) = (BTreeMap::new(), Dice::new(5), Vec::new());
        let file = trial.path("it.journal");
        let mut kept = Kept { trial, hold, map, file, states, dice, copies, keep: None };
        kept.note();
        kept.change(25);
        kept
    }

    fn start(&self, sync: SyncPolicy) -> commonhold::Result<Journal> {
        let (keep, segment_time) = (self.keep, Duration::ZERO);
        let options = JournalOptions { sync, keep, segment_time, ..options() };
        Journal::start(&self.hold, "it", &self.file, options)
    }

    fn note(&mut self) {
        let end = self.map.follow().unwrap().end().unwrap();
        self.states.insert(end.offset, pairs(&self.map));
    }

    fn change(&mut self, changes: u64) {
        for number in 0..changes {
            let key = (self.dice.below(40) as u32).to_be_bytes();
            match self.dice.below(8) {
                0 => drop(self.map.delete(key).unwrap()),
                _ => drop(self.map.set(key, (number as u32).to_le_bytes()).unwrap()),
            }
            self.note();
        }
    }

    /// Waits until it is durable, and keeps the present state of the disk; false if that was
    /// refused.
    fn sync(&mut self) -> bool {
        match self.map.sync(SAYS_SO) {
            Ok(StreamPosition { offset, .. }) => {
                let copy = self.trial.path(&format!("copy{}", self.copies.len()));
                std::fs::copy(&self.file, &copy).unwrap();
                self.copies.push((copy, offset));
                true
            }
            Err(error) => {
                assert_ne!(error.kind(), ErrorKind::TimedOut, "it is silent: {error}");
                false
            }
        }
    }

    /// The copies are states that existed, and not before the acknowledged ones.
    fn verify_copies(&self) {
        for (copy, acknowledged) in &self.copies {
            let (rebuilt, found) = rebuilt(self.trial, copy).unwrap();
            let Rebuilt { position, .. } = rebuilt;
            assert!(position.offset >= *acknowledged, "{position} was not {acknowledged} yet");
            assert_eq!(self.states.get(&position.offset), Some(&found), "at {position}");
        }
    }

    /// After the fault everything becomes durable again.
    fn works_again(&mut self, journal: commonhold::Result<Journal>, sync: SyncPolicy) {
        let journal = journal.or_else(|_| self.start(sync)).expect("nothing fails any more");
        self.change(10);
        if sync == SyncPolicy::Never {
            assert!(!self.sync(), "it says of nothing that it is durable");
        } else {
            until("all becomes durable", || self.map.sync(SAYS_SO).is_ok());
            let status = || journal.status();
            until("the status says so", || status().error.is_none());
            assert!(self.sync(), "it was just well");
        }
        journal.finish().unwrap();
        assert_eq!(rebuilt(self.trial, &self.file).unwrap().1, pairs(&self.map));
        self.change(10);
        self.start(sync).unwrap().finish().unwrap();
        assert_eq!(rebuilt(self.trial, &self.file).unwrap().1, pairs(&self.map));
        self.verify_copies();
    }
}

fn pairs(map: &Map) -> Pairs {
    map.iter().map(Result::unwrap).collect()
}

fn rebuilt(trial: &Trial, file: &Path) -> commonhold::Result<(Rebuilt, Pairs)> {
    let path = trial.path("again.hold");
    let hold = Hold::create(&path).unwrap();
    let rebuilt = rebuild(&hold, "it", file, &options());
    let result = rebuilt.map(|rebuilt| (rebuilt, pairs(&hold.maps().open("it").unwrap())));
    drop(hold);
    std::fs::remove_file(path).unwrap();
    result
}

/// Changes and syncs while calls fail.
fn keep(trial: &Trial, mut kept: Kept<'_>, sync: SyncPolicy, mut also: impl FnMut(&mut Kept<'_>)) {
    let before = descriptors();
    trial.arm();
    let journal = kept.start(sync);
    for _ in 0..5 {
        kept.change(25);
        also(&mut kept);
        let is_durable = kept.sync();
        match &journal {
            _ if is_durable => {}
            Ok(journal) => assert!(
                sync == SyncPolicy::Never || !journal.is_over(),
                "it has ended by itself: {:?}",
                journal.status()
            ),
            Err(error) => assert_ne!(error.kind(), ErrorKind::Mismatch, "{error}"),
        }
    }
    let is_well = journal.is_ok();
    assert!(is_well || !trial.is_rehearsal());
    trial.lift();
    kept.works_again(journal, sync);
    closes_down_to(before);
}

fn begin(trial: &Trial) {
    keep(trial, Kept::new(trial), SyncPolicy::Always, |_| ());
}

/// One that has a file already.
fn resume(trial: &Trial) {
    let mut kept = Kept::new(trial);
    let journal = kept.start(SyncPolicy::Always).unwrap();
    kept.change(25);
    assert!(kept.sync());
    journal.finish().unwrap();
    kept.change(25);
    keep(trial, kept, SyncPolicy::Every(Duration::from_millis(2)), |_| ());
}

/// One whose file is damaged.
fn replace_damaged(trial: &Trial) {
    let mut kept = Kept::new(trial);
    let journal = kept.start(SyncPolicy::Always).unwrap();
    assert!(kept.sync());
    kept.change(25);
    journal.finish().unwrap();
    let mut bytes = std::fs::read(&kept.file).unwrap();
    let at = bytes.len() / 2;
    bytes[at] ^= 1;
    std::fs::write(&kept.file, &bytes).unwrap();
    keep(trial, kept, SyncPolicy::Always, |_| ());
    let damaged = std::fs::read(trial.path("it.journal.damaged")).unwrap();
    assert!(damaged == bytes, "the damaged file is lost");
}

/// One that keeps each file that it replaces, and removes it as soon as it may.
fn keep_history(trial: &Trial) {
    let mut kept = Kept::new(trial);
    kept.keep = Some(Duration::ZERO);
    keep(trial, kept, SyncPolicy::Always, |_| ());
}

/// Changes too large for the stream: only the next file helps.
fn meet_gaps(trial: &Trial) {
    keep(trial, Kept::new(trial), SyncPolicy::Always, |kept| {
        kept.map.set("large", vec![7; 2 << 20]).unwrap();
        kept.map.delete("large").unwrap();
        kept.note();
    });
}

/// A file from which a map is rebuilt while calls fail.
fn rebuild_it(trial: &Trial) {
    let mut kept = Kept::new(trial);
    let journal = kept.start(SyncPolicy::Always).unwrap();
    kept.change(200);
    assert!(kept.sync());
    journal.finish().unwrap();
    let before = descriptors();
    let hold = Hold::create(trial.path("other.hold")).unwrap();
    trial.arm();
    let first = rebuild(&hold, "it", &kept.file, &options());
    trial.lift();
    if let Err(error) = first {
        assert!(!trial.is_rehearsal(), "{error}");
        let half =
            hold.maps().list_all().unwrap().into_iter().any(|map| !map.name.starts_with('.'));
        assert!(!half, "half a map is left after: {error}");
        rebuild(&hold, "it", &kept.file, &options()).unwrap();
    }
    assert_eq!(pairs(&hold.maps().open("it").unwrap()), pairs(&kept.map));
    assert!(hold.check().unwrap().ok);
    drop(hold);
    closes_down_to(before);
}

const ALL: [Scenario; 6] = [
    Scenario { name: "a new journal", run: begin },
    Scenario { name: "a journal that continues", run: resume },
    Scenario { name: "a damaged file", run: replace_damaged },
    Scenario { name: "a journal that keeps its history", run: keep_history },
    Scenario { name: "changes too large for the stream", run: meet_gaps },
    Scenario { name: "rebuilding", run: rebuild_it },
];

#[test]
fn calls_of_a_journal_fail() {
    fail(all(), &ALL, &["journal."], 3);
}

/// The lock on a file that a new one is to replace was taken again and again, without end.
#[test]
fn a_file_at_the_path_that_cannot_be_examined_is_an_error() {
    let test_dir = TestDir::memory();
    let file = test_dir.path("it.journal");
    let mut child = cast("a journal", || {
        let hold = Hold::create(test_dir.path("it.hold")).unwrap();
        hold.maps().open_or_create("it", MapOptions::general()).unwrap();
        let start = || Journal::start(&hold, "it", &file, large());
        start().unwrap().finish().unwrap();
        let mut bytes = std::fs::read(&file).unwrap();
        let at = bytes.len() / 2;
        bytes[at] ^= 1;
        std::fs::write(&file, &bytes).unwrap();
        arm("journal.stat:EIO:always").unwrap();
        let error = start().unwrap_err();
        assert!(error.to_string().contains("cannot be examined"), "{error}");
        arm("").unwrap();
        start().unwrap().finish().unwrap();
    });
    assert_eq!(child.wait_for(HANGS), End::Well);
}

/// Options of a file that is not compacted meanwhile.
fn large() -> JournalOptions {
    JournalOptions { compact_bytes: 1 << 30, ..options() }
}

/// Runs a journal until `ends` has killed it, with `b` in its file and not on the disk as far as it
/// knows. Then another one continues. `fdatasync` succeeds for it, although the bytes that the file
/// shows may never have reached the disk. So it must not trust them.
fn is_not_trusted(ends: impl Fn(&Map, Journal), meanwhile: impl FnOnce(&TestDir)) {
    let test_dir = TestDir::memory();
    let (path, file) = (test_dir.path("it.hold"), test_dir.path("it.journal"));
    let start = |hold: &Hold| Journal::start(hold, "it", &file, large()).unwrap();
    let durable = Board::new(1);
    let len = || std::fs::metadata(&file).unwrap().len();
    let mut victim = cast("a journal whose sync fails", || {
        let hold = Hold::create(&path).unwrap();
        let map = hold.maps().open_or_create("it", MapOptions::general()).unwrap();
        let journal = start(&hold);
        map.set("a", "1").unwrap();
        map.sync(SAYS_SO).unwrap();
        durable.count(0, len());
        ends(&map, journal);
        raise(Signal::SIGKILL).unwrap();
    });
    assert_eq!(victim.wait(), End::By(Signal::SIGKILL));
    assert!(len() > durable.get(0), "the file does not show what was not synced");
    meanwhile(&test_dir);
    cast("another journal", || {
        let hold = Hold::open(&path).unwrap();
        let map = hold.maps().open("it").unwrap();
        arm("journal.write:EIO:always").unwrap();
        let journal = start(&hold);
        assert_eq!(len(), durable.get(0), "it trusts what no sync has confirmed");
        arm("").unwrap();
        until("all becomes durable", || map.sync(SAYS_SO).is_ok());
        journal.finish().unwrap();
        let whole = std::fs::read(&file).unwrap();
        start(&hold).finish().unwrap();
        assert!(std::fs::read(&file).unwrap().starts_with(&whole), "the next one continues");
        let copy = Hold::create(test_dir.path("copy.hold")).unwrap();
        rebuild(&copy, "it", &file, &large()).unwrap();
        assert_eq!(pairs(&copy.maps().open("it").unwrap()), pairs(&map));
    })
    .finish();
}

/// Neither could the file be shortened, nor was the next one written.
#[test]
fn a_journal_whose_sync_has_failed_is_not_trusted() {
    let ends = |map: &Map, journal: Journal| {
        arm("journal.fdatasync:EIO:always,journal.ftruncate:EIO:always").unwrap();
        map.set("b", "2").unwrap();
        assert_eq!(map.sync(SAYS_SO).unwrap_err().kind(), ErrorKind::Io);
        until("the status says so", || journal.status().error.is_some());
    };
    is_not_trusted(ends, |_| ());
}

/// From now on this process dies when it comes to this call.
fn die_at(call: &'static str) {
    observe_faults(move |name| {
        if name == call {
            raise(Signal::SIGKILL).unwrap();
        }
    });
}

/// Has no moment to note anything.
fn dies_in_its_sync(map: &Map, _journal: Journal) {
    die_at("journal.fdatasync");
    map.set("b", "2").unwrap();
    let _ = map.sync(HANGS);
    panic!("nobody synced");
}

#[test]
fn a_journal_killed_in_the_sync_that_fails_is_not_trusted() {
    is_not_trusted(dies_in_its_sync, |_| ());
}

/// Nor is it after a journal elsewhere.
#[test]
fn a_journal_that_went_elsewhere_and_back_is_not_trusted() {
    is_not_trusted(dies_in_its_sync, |test_dir| {
        cast("a journal elsewhere", || {
            let hold = Hold::open(test_dir.path("it.hold")).unwrap();
            let elsewhere = test_dir.path("other.journal");
            Journal::start(&hold, "it", elsewhere, large()).unwrap().finish().unwrap();
        })
        .finish();
    });
}

/// Runs a journal, which `ends` has killed; the next one begins a new file.
fn is_not_continued(ends: impl Fn(&Hold, &dyn Fn(&Hold, SyncPolicy) -> Journal)) {
    let test_dir = TestDir::memory();
    let (path, file) = (test_dir.path("it.hold"), test_dir.path("it.journal"));
    let start = |hold: &Hold, sync: SyncPolicy| {
        Journal::start(hold, "it", &file, JournalOptions { sync, ..large() }).unwrap()
    };
    let mut victim = cast("a journal that is killed", || {
        let hold = Hold::create(&path).unwrap();
        hold.maps().open_or_create("it", MapOptions::general()).unwrap().set("a", "1").unwrap();
        ends(&hold, &start);
        panic!("it lives");
    });
    assert_eq!(victim.wait(), End::By(Signal::SIGKILL));
    let inode = || std::fs::metadata(&file).unwrap().ino();
    let before = inode();
    // Its number is not another file's as long as this one is open.
    let _open = std::fs::File::open(&file).unwrap();
    cast("another journal", || {
        let hold = Hold::open(&path).unwrap();
        start(&hold, SyncPolicy::Always).finish().unwrap();
        assert_ne!(inode(), before, "it trusts a file of which no sync has succeeded");
    })
    .finish();
}

/// The hold has no note of the file that it continues, and dies in its first sync.
#[test]
fn a_journal_killed_in_its_first_sync_is_not_continued() {
    is_not_continued(|hold, start| {
        start(hold, SyncPolicy::Always).finish().unwrap();
        assert!(hold.maps().open(".journal/it").unwrap().delete("trusted").unwrap());
        die_at("journal.fdatasync");
        start(hold, SyncPolicy::Always);
    });
}

/// The file was not synced before, so that all of it was trusted.
#[test]
fn a_journal_that_begins_to_sync_and_is_killed_is_not_continued() {
    is_not_continued(|hold, start| {
        let journal = start(hold, SyncPolicy::Never);
        until("it has its path", || journal.status().position.is_some());
        journal.finish().unwrap();
        die_at("journal.fdatasync");
        start(hold, SyncPolicy::Always);
    });
}

/// The file may not have its path on the disk.
#[test]
fn a_journal_killed_before_its_path_is_durable_is_not_continued() {
    is_not_continued(|hold, start| {
        die_at("draft.sync-directory");
        start(hold, SyncPolicy::Always);
        std::thread::sleep(HANGS);
    });
}

/// Old contents of a hold have old notes: they must not shorten the newer file.
#[test]
fn a_hold_that_was_put_back_shortens_no_journal() {
    let test_dir = TestDir::memory();
    let (path, file) = (test_dir.path("it.hold"), test_dir.path("it.journal"));
    let change = |key: &str| {
        cast("a journal", || {
            let hold = Hold::open_or_create(&path).unwrap();
            hold.maps().open_or_create("it", MapOptions::general()).unwrap().set(key, "1").unwrap();
            Journal::start(&hold, "it", &file, large()).unwrap().finish().unwrap();
        })
        .finish();
    };
    change("a");
    let saved = std::fs::read(&path).unwrap();
    change("b");
    let whole = std::fs::read(&file).unwrap();
    std::fs::write(&path, saved).unwrap();
    cast("the journal of the old contents", || {
        let hold = Hold::open(&path).unwrap();
        let error = Journal::start(&hold, "it", &file, large()).unwrap_err();
        assert_eq!(error.kind(), ErrorKind::Mismatch, "{error}");
    })
    .finish();
    assert!(std::fs::read(&file).unwrap() == whole, "confirmed changes were cut off");
}
