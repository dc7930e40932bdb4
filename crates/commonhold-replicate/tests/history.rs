//! Journals that keep their earlier files: every state that was recorded comes back, at its time.

use commonhold::map::{Map, MapOptions};
use commonhold::raw::RawFrame;
use commonhold::{ErrorKind, Hold};
use commonhold_replicate::journal::{
    Journal, JournalOptions, PastState, find_state, inspect, inspect_all, rebuild, rebuild_state,
};
use commonhold_testing::support::Dice;
use commonhold_testing::support::disk::on_small_tmpfs;
use commonhold_testing::support::process::until;
use commonhold_testing::support::refused;
use commonhold_testing::support::test_dir::TestDir;
use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, SystemTime, UNIX_EPOCH};

const LONG: Duration = Duration::from_secs(60);
const DAY: Duration = Duration::from_secs(24 * 3600);

pub(crate) type Pairs = BTreeMap<Vec<u8>, Vec<u8>>;

pub(crate) fn pairs(map: &Map) -> Pairs {
    map.iter().map(Result::unwrap).collect()
}

pub(crate) fn now_ms() -> u64 {
    SystemTime::now().duration_since(UNIX_EPOCH).unwrap().as_millis() as u64
}

/// A new file as often as possible while something changes.
pub(crate) fn often() -> JournalOptions {
    JournalOptions {
        stream_bytes: 4 << 20,
        keep: Some(DAY),
        segment_time: Duration::ZERO,
        ..JournalOptions::default()
    }
}

/// A new file only when the journal must begin one.
fn seldom() -> JournalOptions {
    JournalOptions { segment_time: DAY, ..often() }
}

/// A map, its journal, and states that it had, each with its time.
pub(crate) struct Recorded {
    pub(crate) test_dir: TestDir,
    pub(crate) hold: Hold,
    pub(crate) map: Map,
    pub(crate) file: PathBuf,
    points: Vec<(u64, Pairs)>,
}

impl Recorded {
    pub(crate) fn new() -> Recorded {
        let test_dir = TestDir::memory();
        let hold = Hold::create(test_dir.path("it.hold")).unwrap();
        let map = hold.maps().open_or_create("it", MapOptions::general()).unwrap();
        hold.maps().begin_stream("it", 4 << 20).unwrap();
        let file = test_dir.path("it.journal");
        Recorded { test_dir, hold, map, file, points: Vec::new() }
    }

    fn start(&self, options: JournalOptions) -> Journal {
        Journal::start(&self.hold, "it", &self.file, options).unwrap()
    }

    /// Notes the present state, once it is durable and has its time. Nothing changes meanwhile.
    pub(crate) fn note(&mut self) {
        let end = self.map.sync(LONG).unwrap();
        until("the state to have its time", || {
            let found = inspect(&self.file);
            found.is_ok_and(|found| found.position == end && found.untimed_changes == 0)
        });
        self.points.push((now_ms(), pairs(&self.map)));
        // The next change has another time.
        let at = self.points[self.points.len() - 1].0;
        until("the clock to go on", || now_ms() > at);
    }

    /// Changes that belong together.
    pub(crate) fn change(&self, number: u32) {
        for key in 0..20u32 {
            self.map.set((number + key).to_be_bytes(), number.to_be_bytes()).unwrap();
        }
        self.map.delete((number / 2).to_be_bytes()).unwrap();
    }

    /// Changes and notes, until this many files were kept.
    fn keep(&mut self, journal: &Journal, segments: u64) {
        let mut number = 0;
        while journal.status().segments < segments {
            number += 1;
            self.change(number);
            self.note();
        }
    }

    pub(crate) fn at(&self, ms: u64) -> commonhold::Result<(PastState, Pairs)> {
        self.at_with(ms, &often())
    }

    fn at_with(&self, ms: u64, options: &JournalOptions) -> commonhold::Result<(PastState, Pairs)> {
        let state = find_state(&self.file, ms, options)?;
        let path = self.test_dir.path("again.hold");
        let hold = Hold::create(&path).unwrap();
        let rebuilt = rebuild_state(&hold, "it", &state, options);
        let found = rebuilt.map(|_| (state, pairs(&hold.maps().open("it").unwrap())));
        drop(hold);
        std::fs::remove_file(path).unwrap();
        found
    }

    /// Each noted state can be restored.
    #[track_caller]
    pub(crate) fn verify(&self) {
        assert!(!self.points.is_empty());
        for (ms, expected) in &self.points {
            let (state, found) = self.at(*ms).unwrap();
            assert!(state.time_ms <= *ms);
            assert!(found == *expected, "{} pairs at {ms}, {state:?}", found.len());
        }
    }

    /// The files in the archive, in the order of their names.
    pub(crate) fn segments(&self) -> Vec<PathBuf> {
        segments_of(&self.file)
    }
}

fn segments_of(file: &Path) -> Vec<PathBuf> {
    let archive = PathBuf::from(format!("{}.d", file.display()));
    let Ok(entries) = std::fs::read_dir(archive) else { return Vec::new() };
    let mut found: Vec<_> = entries.map(|entry| entry.unwrap().path()).collect();
    found.sort();
    found
}

/// Flips a bit in the middle.
fn rot(file: &Path) {
    let mut bytes = std::fs::read(file).unwrap();
    let at = bytes.len() / 2;
    bytes[at] ^= 1;
    std::fs::write(file, bytes).unwrap();
}

/// 20,000 pairs, and a writer that seldom pauses.
#[test]
fn states_under_load_come_back_at_their_times() {
    let mut recorded = Recorded::new();
    let map = recorded.map.clone();
    for key in 0..20_000u32 {
        map.set(key.to_be_bytes(), [0; 8]).unwrap();
    }
    let journal = recorded.start(often());
    let mut dice = Dice::new(3);
    let mut times = Vec::new();
    while recorded.points.len() < 6 || journal.status().segments < 20 {
        let before = journal.status().segments;
        let is_over = AtomicBool::new(false);
        std::thread::scope(|scope| {
            let writer = scope.spawn(|| {
                let mut last = 0u64;
                while !is_over.load(Ordering::Relaxed) {
                    for _ in 0..500 {
                        let key = (dice.below(20_000) as u32).to_be_bytes();
                        last = now_ms();
                        map.set(key, last.to_be_bytes()).unwrap();
                    }
                    // A journal that falls behind the stream misses states.
                    map.sync(LONG).unwrap();
                }
                last
            });
            until("the next files", || journal.status().segments >= before + 4);
            times.push(now_ms());
            is_over.store(true, Ordering::Relaxed);
            writer.join().unwrap();
        });
        recorded.note();
    }
    journal.finish().unwrap();
    recorded.verify();
    let timeline = inspect_all(&recorded.file, None).unwrap();
    assert!(timeline.is_sound() && timeline.files.len() > 20, "{:?}", timeline.holes);
    // In the midst of changes: nothing that was made later, and everything up to the last pause.
    let first = recorded.points[0].0;
    for at in times.into_iter().filter(|at| *at >= first) {
        let (_, found) = recorded.at(at).unwrap();
        let newest = |pairs: &Pairs| pairs.values().max().unwrap().clone();
        let paused = recorded.points.iter().rfind(|(ms, _)| *ms <= at).unwrap();
        assert!(newest(&found) <= at.to_be_bytes().to_vec());
        assert!(newest(&found) >= newest(&paused.1));
        assert_eq!(found.len(), 20_000);
    }
}

/// A state that has no later one stays the map's state.
#[test]
fn one_file_has_many_states() {
    let mut recorded = Recorded::new();
    let journal = recorded.start(seldom());
    for number in 0..5 {
        recorded.change(number);
        recorded.note();
    }
    assert_eq!(journal.status().segments, 0);
    journal.finish().unwrap();
    recorded.verify();
    // The next run continues the file and its times.
    let journal = recorded.start(seldom());
    recorded.change(7);
    recorded.note();
    journal.finish().unwrap();
    recorded.verify();
    assert_eq!(recorded.at(now_ms()).unwrap().1, pairs(&recorded.map));
    let first = inspect(&recorded.file).unwrap().times.unwrap().first_ms;
    refused(recorded.at(first - 1), ErrorKind::Invalid, "nothing was recorded then");
    refused(recorded.at(now_ms() + 3_600_000), ErrorKind::Invalid, "in the future");
    refused(recorded.at(first - 1), ErrorKind::Invalid, "expected a time from 20");
}

#[test]
fn a_missing_segment_is_a_hole() {
    let mut recorded = Recorded::new();
    let journal = recorded.start(often());
    recorded.keep(&journal, 6);
    journal.finish().unwrap();
    recorded.verify();
    let segments = recorded.segments();
    let spans: Vec<_> = segments.iter().map(|file| inspect(file).unwrap().times.unwrap()).collect();
    // On a slow machine, a file may be sealed without a noted state between its neighbours.
    let has_state = |at: &usize| {
        let hole = spans[at - 1].last_ms + 1..spans[at + 1].first_ms;
        recorded.points.iter().any(|(ms, _)| hole.contains(ms))
    };
    let found = (1..segments.len() - 1).find(has_state);
    let middle = found.unwrap_or(segments.len() / 2);
    let lost = &spans[middle];
    std::fs::remove_file(&segments[middle]).unwrap();
    let timeline = inspect_all(&recorded.file, None).unwrap();
    assert!(!timeline.is_sound() && timeline.files.iter().all(|file| file.is_sound()));
    assert_eq!(timeline.holes.len(), 1, "{:?}", timeline.holes);
    let hole = &timeline.holes[0];
    assert_eq!((&hole.after, &hole.before), (&segments[middle - 1], &segments[middle + 1]));
    // The directory alone has the same hole.
    let alone = inspect_all(segments[0].parent().unwrap(), None).unwrap();
    assert_eq!(alone.holes, timeline.holes);
    assert_eq!(alone.files.len() + 1, timeline.files.len());
    let mut refusals = 0;
    for (ms, expected) in recorded.points.clone() {
        if ms > hole.from_ms && ms < hole.to_ms {
            refused(recorded.at(ms), ErrorKind::Invalid, "or it is gone");
            refusals += 1;
        } else if ms < lost.first_ms || ms > lost.last_ms {
            assert!(recorded.at(ms).unwrap().1 == expected, "at {ms}");
        }
    }
    assert!(refusals > 0 || found.is_none(), "no state was in the hole: {hole:?}");
    // A copy brings it back, under any name that sorts there.
    std::fs::remove_dir_all(segments[0].parent().unwrap()).unwrap();
    refused(recorded.at(recorded.points[0].0), ErrorKind::Invalid, "nothing was recorded then");
    std::fs::remove_file(&recorded.file).unwrap();
    refused(recorded.at(recorded.points[0].0), ErrorKind::NotFound, "it.journal");
    refused(inspect_all(&recorded.file, None), ErrorKind::NotFound, "it.journal");
    refused(inspect_all(recorded.test_dir.path(""), None), ErrorKind::NotFound, "found none");
}

/// The segments alone, in any directory, restore their states.
#[test]
fn segments_are_plain_files() {
    let mut recorded = Recorded::new();
    let journal = recorded.start(often());
    recorded.keep(&journal, 3);
    let kept = recorded.points.len();
    // Then the file with the last of these states is a segment, too.
    recorded.keep(&journal, journal.status().segments + 2);
    journal.finish().unwrap();
    let elsewhere = recorded.test_dir.path("elsewhere");
    std::fs::create_dir(&elsewhere).unwrap();
    for segment in recorded.segments() {
        std::fs::copy(&segment, elsewhere.join(segment.file_name().unwrap())).unwrap();
    }
    std::fs::remove_dir_all(format!("{}.d", recorded.file.display())).unwrap();
    std::fs::remove_file(&recorded.file).unwrap();
    let options = JournalOptions { archive: Some(elsewhere), ..often() };
    for (ms, expected) in &recorded.points[..kept] {
        assert_eq!(recorded.at_with(*ms, &options).unwrap().1, *expected);
    }
}

#[test]
fn damage_counts_for_the_states_behind_it() {
    let mut recorded = Recorded::new();
    let journal = recorded.start(seldom());
    for number in 0..200 {
        recorded.change(number);
        recorded.map.sync(LONG).unwrap();
        if number % 40 == 0 {
            recorded.note();
        }
    }
    recorded.note();
    journal.finish().unwrap();
    recorded.verify();
    rot(&recorded.file);
    let timeline = inspect_all(&recorded.file, None).unwrap();
    assert!(!timeline.is_sound() && timeline.holes.is_empty());
    let (first, last) = (recorded.points[0].clone(), recorded.points.last().unwrap().clone());
    assert_eq!(recorded.at(first.0).unwrap().1, first.1);
    refused(recorded.at(last.0), ErrorKind::Damaged, "before the state are damaged: bytes");
    refused(recorded.at(last.0), ErrorKind::Damaged, "the journal has states from 20");
    let skipping = JournalOptions { skip_damaged: true, ..often() };
    let (state, found) = recorded.at_with(last.0, &skipping).unwrap();
    assert_eq!(state.damage.len(), 1);
    assert!(found.len() + 20 >= last.1.len());
    // A copy of the file that is sound comes first.
    let mut bytes = std::fs::read(&recorded.file).unwrap();
    let span = inspect(&recorded.file).unwrap().times.unwrap();
    bytes[..16].fill(0);
    std::fs::write(&recorded.file, bytes).unwrap();
    refused(recorded.at(span.last_ms), ErrorKind::Damaged, "is not a journal");
}

#[test]
fn segments_are_removed_when_no_restoration_needs_them() {
    let mut recorded = Recorded::new();
    let journal = recorded.start(often());
    recorded.keep(&journal, 4);
    journal.finish().unwrap();
    let kept = recorded.segments().len();
    assert!(kept >= 4);
    // The first one is old, the second one reaches up to the limit.
    let segments = recorded.segments();
    let renamed = |segment: &Path, from: &str, to: &str| {
        let name = format!("{from}-{to}.it.journal");
        std::fs::rename(segment, segment.with_file_name(name)).unwrap();
    };
    renamed(&segments[0], "20010101T000000.000Z", "20010101T010000.000Z");
    renamed(&segments[1], "20010101T005959.000Z", "20010101T020000.000Z");
    let journal = recorded.start(seldom());
    until("the oldest one to be removed", || recorded.segments().len() == kept - 1);
    assert!(recorded.segments()[0].to_str().unwrap().contains("20010101T005959"));
    journal.finish().unwrap();
    let journal = recorded.start(JournalOptions { keep: Some(Duration::ZERO), ..often() });
    until("all to be removed", || {
        recorded.change(1);
        recorded.segments().len() <= 1
    });
    journal.finish().unwrap();
    // A journal that keeps nothing removes nothing.
    let left = recorded.segments();
    let journal = recorded.start(JournalOptions { keep: None, compact_bytes: 1, ..often() });
    until("a compaction", || {
        recorded.change(2);
        journal.status().compactions > 0
    });
    journal.finish().unwrap();
    assert_eq!(recorded.segments(), left);
}

/// The number of bytes of a file up to its last frame that is not a time.
pub(crate) fn without_times_at_end(bytes: &[u8]) -> usize {
    let (mut at, mut end) = (16, 16);
    while let Some(len) = bytes.get(at..).and_then(RawFrame::stated_length) {
        let is_time = RawFrame::decode(&bytes[at..at + len]).unwrap().code == 0x132;
        at += len;
        end = if is_time { end } else { at };
    }
    end
}

/// Its states are not known then: the last state of the last segment is not one of them.
#[test]
fn states_of_a_missing_file_are_not_replaced_by_earlier_ones() {
    let mut recorded = Recorded::new();
    let journal = recorded.start(often());
    recorded.keep(&journal, 1);
    recorded.change(1000);
    recorded.note();
    journal.finish().unwrap();
    let (at, aside) = (now_ms(), recorded.test_dir.path("aside"));
    recorded.at(at).unwrap();
    std::fs::rename(&recorded.file, &aside).unwrap();
    refused(recorded.at(at), ErrorKind::NotFound, "the journal has states from");
    std::fs::write(&recorded.file, "not a journal").unwrap();
    refused(recorded.at(at), ErrorKind::Damaged, "the journal has states from");
    std::fs::rename(&aside, &recorded.file).unwrap();
    recorded.verify();
}

/// Each would remove the other's segments.
#[test]
fn journals_of_two_maps_share_no_archive() {
    let mut recorded = Recorded::new();
    let archive = recorded.test_dir.path("archive");
    let options = || JournalOptions { archive: Some(archive.clone()), ..often() };
    let journal = recorded.start(options());
    recorded.keep(&journal, 1);
    journal.finish().unwrap();
    let folder = recorded.test_dir.path("other");
    std::fs::create_dir(&folder).unwrap();
    recorded.hold.maps().create("other", MapOptions::general()).unwrap();
    let start =
        |options| Journal::start(&recorded.hold, "other", folder.join("it.journal"), options);
    refused(start(options()), ErrorKind::Mismatch, "choose another directory (--archive)");
    start(JournalOptions { archive: None, ..options() }).unwrap().finish().unwrap();
    recorded.start(options()).finish().unwrap();
}

/// Both begin before there are segments. The maps have one name, and are in different holds.
#[test]
fn journals_of_two_holds_share_no_archive() {
    let [mut recorded, other] = [(); 2].map(|()| Recorded::new());
    let archive = recorded.test_dir.path("archive");
    let options = || JournalOptions { archive: Some(archive.clone()), ..often() };
    let [journal, second] = [&recorded, &other].map(|recorded| recorded.start(options()));
    recorded.keep(&journal, 2);
    until("the second one to report it", || {
        other.change(1);
        other.map.sync(LONG).unwrap();
        let why = second.status().rewrite_error;
        why.is_some_and(|why| why.contains("choose another directory (--archive)"))
    });
    second.finish().unwrap();
    recorded.keep(&journal, 3);
    journal.finish().unwrap();
    assert!(inspect_all(&archive, None).unwrap().is_sound());
    refused(
        Journal::start(&other.hold, "it", &other.file, options()),
        ErrorKind::Mismatch,
        "another map of the name 'it'",
    );
    // The one that keeps both removes only its own segments.
    let names = || -> Vec<_> {
        std::fs::read_dir(&archive).unwrap().map(|entry| entry.unwrap().path()).collect()
    };
    let before = names();
    let options = JournalOptions { keep: Some(Duration::ZERO), replace: true, ..options() };
    let second = other.start(options);
    until("a segment", || {
        other.change(2);
        other.map.sync(LONG).is_ok() && second.status().segments > 2
    });
    second.finish().unwrap();
    let after = names();
    assert!(before.iter().all(|segment| after.contains(segment)), "{after:?} of {before:?}");
}

/// The link itself would become the segment.
#[test]
fn the_file_behind_a_symbolic_link_becomes_the_segment() {
    let mut recorded = Recorded::new();
    let target = recorded.test_dir.path("target");
    recorded.start(seldom()).finish().unwrap();
    std::fs::rename(&recorded.file, &target).unwrap();
    std::os::unix::fs::symlink("target", &recorded.file).unwrap();
    let journal = recorded.start(often());
    recorded.keep(&journal, 1);
    journal.finish().unwrap();
    recorded.verify();
    let segments = recorded.segments();
    assert!(!segments[0].is_symlink() && inspect(&segments[0]).unwrap().is_sound());
}

/// The file's own frames, without the times.
fn without_times(bytes: &[u8]) -> Vec<u8> {
    let mut old = b"COMMONHOLD-JNL3\n".to_vec();
    let mut at = 16;
    while let Some(len) = bytes.get(at..).and_then(RawFrame::stated_length) {
        let frame = &bytes[at..at + len];
        if RawFrame::decode(frame).unwrap().code != 0x132 {
            old.extend_from_slice(frame);
        }
        at += len;
    }
    old
}

#[test]
fn a_file_without_times_is_read_and_replaced() {
    let mut recorded = Recorded::new();
    let journal = recorded.start(JournalOptions { sync: never(), ..seldom() });
    recorded.change(1);
    journal.finish().unwrap();
    let old = without_times(&std::fs::read(&recorded.file).unwrap());
    std::fs::write(&recorded.file, old).unwrap();
    let contents = inspect(&recorded.file).unwrap();
    assert!(contents.is_sound() && contents.times.is_none() && contents.changes > 0);
    refused(recorded.at(now_ms()), ErrorKind::Invalid, "has no times");
    let hold = Hold::create(recorded.test_dir.path("other.hold")).unwrap();
    rebuild(&hold, "it", &recorded.file, &often()).unwrap();
    assert_eq!(pairs(&hold.maps().open("it").unwrap()), pairs(&recorded.map));
    let journal = recorded.start(seldom());
    recorded.change(2);
    recorded.note();
    journal.finish().unwrap();
    recorded.verify();
    assert_eq!(recorded.segments().len(), 0, "it has no time to restore");
}

fn never() -> commonhold_replicate::journal::SyncPolicy {
    commonhold_replicate::journal::SyncPolicy::Never
}

/// A map in an earlier state lacks changes of the file, which stays for that reason.
#[test]
fn the_journal_of_an_earlier_state_replaces_nothing() {
    let mut recorded = Recorded::new();
    let journal = recorded.start(seldom());
    for number in 0..3 {
        recorded.change(number);
        recorded.note();
    }
    journal.finish().unwrap();
    let at = recorded.points[1].0;
    assert!(recorded.hold.maps().drop("it").unwrap());
    let state = find_state(&recorded.file, at, &often()).unwrap();
    rebuild_state(&recorded.hold, "it", &state, &often()).unwrap();
    recorded.map = recorded.hold.maps().open("it").unwrap();
    assert_eq!(pairs(&recorded.map), recorded.points[1].1);
    let refusal = Journal::start(&recorded.hold, "it", &recorded.file, seldom());
    refused(refusal, ErrorKind::Mismatch, "has changes that the map lacks");
    // The later states stay, too.
    let journal = recorded.start(JournalOptions { replace: true, ..seldom() });
    recorded.change(10);
    recorded.note();
    journal.finish().unwrap();
    assert_eq!(recorded.segments().len(), 1);
    recorded.verify();
}

/// Neither are changes refused, nor are earlier states given up for them.
#[test]
fn a_full_disk_costs_no_history() {
    let test_dir = TestDir::memory();
    // Its seals fill less than the whole disk before the test has looked at the first one.
    on_small_tmpfs(24, &test_dir, |disk| {
        let mut recorded = Recorded::new();
        recorded.file = disk.join("it.journal");
        let journal = recorded.start(often());
        recorded.keep(&journal, 3);
        recorded.map.set("large", vec![7; 600 << 10]).unwrap();
        recorded.note();
        std::fs::write(disk.join("ballast"), vec![0; 24 << 20]).unwrap_err();
        let ballast = std::fs::metadata(disk.join("ballast")).unwrap().len();
        let ballast_file = std::fs::OpenOptions::new().write(true).open(disk.join("ballast"));
        // Room for small changes, and for no other copy of the map.
        ballast_file.unwrap().set_len(ballast.saturating_sub(200 << 10)).unwrap();
        let before = recorded.segments();
        until("the status to say so", || {
            recorded.map.set("small", now_ms().to_be_bytes()).unwrap();
            recorded.map.sync(LONG).unwrap();
            let why = journal.status().rewrite_error;
            why.is_some_and(|why| why.contains("No space left"))
        });
        recorded.note();
        let now = recorded.segments();
        assert!(before.iter().all(|segment| now.contains(segment)), "history is lost");
        std::fs::remove_file(disk.join("ballast")).unwrap();
        let kept = journal.status().segments;
        until("another segment", || {
            recorded.map.set("small", now_ms().to_be_bytes()).unwrap();
            recorded.map.sync(LONG).is_ok() && journal.status().segments > kept
        });
        recorded.note();
        assert_eq!(journal.status().rewrite_error, None);
        journal.finish().unwrap();
        recorded.verify();
        assert!(inspect_all(&recorded.file, None).unwrap().is_sound());
    });
}

#[test]
fn an_archive_on_another_file_system_is_refused() {
    let test_dir = TestDir::memory();
    on_small_tmpfs(1, &test_dir, |disk| {
        let recorded = Recorded::new();
        let options = JournalOptions { archive: Some(disk.join("segments")), ..often() };
        let refusal = Journal::start(&recorded.hold, "it", &recorded.file, options);
        refused(refusal, ErrorKind::Invalid, "on the file system of");
        assert!(!recorded.file.exists());
    });
}
