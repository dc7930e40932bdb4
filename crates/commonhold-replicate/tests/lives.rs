//! Journals and holds of different lives: old copies that are put back, and other holds. No file
//! with changes that the map lacks is replaced without an error.

use commonhold::map::{Map, MapOptions};
use commonhold::{ErrorKind, Hold};
use commonhold_replicate::journal::{Journal, JournalOptions, rebuild};
use commonhold_testing::alone::{LONG, cast};
use commonhold_testing::support::process::Board;
#[cfg(feature = "steps")]
use commonhold_testing::support::process::{End, until};
use commonhold_testing::support::refused;
use commonhold_testing::support::test_dir::TestDir;
#[cfg(feature = "steps")]
use nix::sys::signal::Signal;
#[cfg(feature = "steps")]
use std::path::Path;
use std::path::PathBuf;

/// A hold and the journal of its map, used by one process after the other.
struct Lives {
    test_dir: TestDir,
    path: PathBuf,
    file: PathBuf,
}

fn options() -> JournalOptions {
    JournalOptions { stream_bytes: 64 << 10, ..JournalOptions::default() }
}

impl Lives {
    fn new() -> Lives {
        let test_dir = TestDir::memory();
        let (path, file) = (test_dir.path("it.hold"), test_dir.path("it.journal"));
        Lives { test_dir, path, file }
    }

    /// A process that works on the map, which it creates if it is missing.
    fn in_a_process(&self, works: impl FnOnce(&Hold, &Map)) {
        let process = cast("a process", || {
            let hold = Hold::open_or_create(&self.path).unwrap();
            let map = hold.maps().open_or_create("it", MapOptions::general()).unwrap();
            works(&hold, &map);
        });
        process.finish();
    }

    /// Changes that a journal has made durable.
    fn journaled(&self, ids: std::ops::Range<u32>, value: &str) {
        self.in_a_process(|hold, map| {
            let journal = Journal::start(hold, "it", &self.file, options()).unwrap();
            fill(map, ids, value);
            map.sync(LONG).unwrap();
            journal.finish().unwrap();
        });
    }

    fn save(&self) {
        std::fs::copy(&self.path, self.test_dir.path("saved")).unwrap();
    }

    /// In place: a copied file would have another stream.
    fn put_back(&self) {
        std::fs::write(&self.path, std::fs::read(self.test_dir.path("saved")).unwrap()).unwrap();
    }

    /// A journal with these options refuses the file, which stays as it is.
    #[track_caller]
    fn is_refused(&self, options: JournalOptions) {
        let before = std::fs::read(&self.file).unwrap();
        self.in_a_process(|hold, _| {
            let journal = Journal::start(hold, "it", &self.file, options);
            refused(journal, ErrorKind::Mismatch, "has changes that the map lacks");
        });
        assert!(std::fs::read(&self.file).unwrap() == before, "the newer file was touched");
    }
}

fn fill(map: &Map, ids: std::ops::Range<u32>, value: &str) {
    for id in ids {
        map.set(id.to_le_bytes(), value).unwrap();
    }
}

/// The stream of another size has no position of the file.
#[test]
fn a_resized_stream_of_an_old_copy_replaces_no_journal() {
    let lives = Lives::new();
    lives.journaled(0..10, "both");
    lives.save();
    lives.journaled(10..20, "then");
    lives.put_back();
    lives.is_refused(JournalOptions { stream_bytes: 1 << 20, ..options() });
    // Nor after the resizing of another process.
    lives.in_a_process(|hold, map| {
        fill(map, 30..60, "here");
        hold.maps().begin_stream("it", 1 << 21).unwrap();
    });
    lives.is_refused(JournalOptions { stream_bytes: 0, ..options() });
}

/// Positions agree, and contents do not.
#[test]
fn an_old_copy_that_is_written_on_continues_no_journal() {
    for (ids, behind) in [(10..20, "as far"), (10..40, "farther"), (10..3000, "lapped")] {
        let lives = Lives::new();
        lives.journaled(0..10, "both");
        lives.save();
        lives.journaled(10..20, "then");
        lives.put_back();
        lives.in_a_process(|_, map| fill(map, ids, "here"));
        println!("{behind}");
        lives.is_refused(options());
    }
}

/// As a snapshot of a machine does it whose journal is on another machine's disk.
#[test]
fn a_copy_from_the_middle_of_a_journals_run_continues_no_journal() {
    let lives = Lives::new();
    lives.in_a_process(|hold, map| {
        let journal = Journal::start(hold, "it", &lives.file, options()).unwrap();
        fill(map, 0..10, "both");
        map.sync(LONG).unwrap();
        lives.save();
        fill(map, 10..20, "then");
        map.sync(LONG).unwrap();
        journal.finish().unwrap();
    });
    lives.put_back();
    lives.in_a_process(|_, map| fill(map, 10..20, "here"));
    lives.is_refused(options());
}

/// The rebuilt map has the changes of its time, and not the later ones.
#[test]
fn a_journal_that_was_written_on_is_not_the_rebuilt_maps() {
    let lives = Lives::new();
    lives.journaled(0..10, "both");
    let other = Hold::create(lives.test_dir.path("other.hold")).unwrap();
    lives.in_a_process(|hold, map| {
        let journal = Journal::start(hold, "it", &lives.file, options()).unwrap();
        fill(map, 10..20, "both");
        map.sync(LONG).unwrap();
        let other = Hold::open(lives.test_dir.path("other.hold")).unwrap();
        rebuild(&other, "it", &lives.file, &options()).unwrap();
        fill(map, 20..30, "then");
        map.sync(LONG).unwrap();
        journal.finish().unwrap();
    });
    let journal = Journal::start(&other, "it", &lives.file, options());
    refused(journal, ErrorKind::Mismatch, "has changes that the map lacks");
}

/// However often it changes its file, a hold knows those of its own life.
#[test]
fn a_hold_knows_the_journals_that_it_had_before() {
    let lives = Lives::new();
    lives.journaled(0..10, "1");
    let other = lives.test_dir.path("other.journal");
    lives.in_a_process(|hold, map| {
        for round in 0..200u32 {
            Journal::start(hold, "it", &lives.file, options()).unwrap().finish().unwrap();
            if round % 50 == 0 {
                Journal::start(hold, "it", &other, options()).unwrap().finish().unwrap();
            }
        }
        fill(map, 10..3000, "lapped");
        for file in [&other, &lives.file] {
            Journal::start(hold, "it", file, options()).unwrap().finish().unwrap();
        }
    });
}

/// A salvage copies all pairs that it finds, those of Commonhold's own maps too.
#[test]
fn notes_that_came_into_another_hold_are_not_its_own() {
    let lives = Lives::new();
    lives.journaled(0..10, "both");
    let notes = ".journal/it";
    let noted = Board::new(1);
    lives.in_a_process(|hold, _| {
        let other = Hold::create(lives.test_dir.path("other.hold")).unwrap();
        other.maps().create("it", MapOptions::general()).unwrap();
        let copy = other.maps().create(notes, MapOptions::general()).unwrap();
        for pair in hold.maps().open(notes).unwrap().iter() {
            let (key, value) = pair.unwrap();
            copy.set(key, value).unwrap();
            noted.count(0, 1);
        }
        let journal = Journal::start(&other, "it", &lives.file, options());
        refused(journal, ErrorKind::Mismatch, "has changes that the map lacks");
    });
    assert!(noted.get(0) > 0, "there are no notes");
}

/// Steps of giving a stream another size.
#[cfg(feature = "steps")]
const RESIZING: [&str; 4] =
    ["stream.renumbered", "block.unlinked", "stream.ended", "stream.linked"];

/// Another process is killed while it gives the stream of `it` another size.
#[cfg(feature = "steps")]
#[track_caller]
fn kill_resizing(path: &Path, step: &str) {
    let mut victim = cast(step, || {
        commonhold::steps::arm(&format!("{step}:kill")).unwrap();
        let hold = Hold::open(path).unwrap();
        let bytes = hold.maps().open("it").unwrap().stat().unwrap().stream.unwrap().bytes;
        hold.maps().begin_stream("it", 2 * bytes).unwrap();
    });
    assert_eq!(victim.wait(), End::By(Signal::SIGKILL), "{step}");
}

#[test]
#[cfg(feature = "steps")]
fn a_journal_repairs_a_stream_whose_resizing_was_killed() {
    let lives = Lives::new();
    let hold = Hold::create(&lives.path).unwrap();
    let map = hold.maps().create("it", MapOptions::general()).unwrap();
    let journal = Journal::start(&hold, "it", &lives.file, options()).unwrap();
    for step in RESIZING {
        fill(&map, 0..10, step);
        map.sync(LONG).unwrap();
        kill_resizing(&lives.path, step);
        hold.sweep().unwrap();
        until("all becomes durable", || map.sync(LONG).is_ok());
    }
    journal.finish().unwrap();
}

/// The origin begins the stream again, and so the replica gets the whole map.
#[test]
#[cfg(feature = "steps")]
fn an_origin_repairs_a_stream_whose_resizing_was_killed() {
    use crate::party::{Copy, Source, pairs};
    let source = Source::new(MapOptions::general());
    let copy = Copy::of(&source, "copy.hold");
    copy.agrees(&source);
    for step in RESIZING {
        kill_resizing(&source.test_dir.path("origin.hold"), step);
        source.hold.sweep().unwrap();
        source.map.set("killed at", step).unwrap();
        until("the replica has the change", || copy.pairs() == pairs(&source.map));
    }
}
