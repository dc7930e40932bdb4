//! The turns of a journal's thread, one by one.

use super::*;
#[cfg(feature = "steps")]
use crate::journal::file::identity_at;
use crate::journal::file_writer::BATCH;
use crate::journal::inspect;
use commonhold::map::MapOptions;
use commonhold::raw::{create_shadow_map, next_name, swap_in_shadow_map};
use commonhold_testing::support::process::Child;
use tempfile::TempDir;

struct Kept {
    directory: TempDir,
    hold: Hold,
    map: Map,
}

impl Kept {
    fn new() -> Kept {
        let directory = tempfile::tempdir_in("/dev/shm").unwrap();
        let hold = Hold::create(directory.path().join("it.hold")).unwrap();
        let map = hold.maps().open_or_create("it", MapOptions::general()).unwrap();
        hold.maps().begin_stream("it", 16 << 20).unwrap();
        Kept { directory, hold, map }
    }

    /// The map of a replica, with a handle that may write it.
    fn of_replica() -> Kept {
        let directory = tempfile::tempdir_in("/dev/shm").unwrap();
        let hold = Hold::create(directory.path().join("it.hold")).unwrap();
        let map = hold.maps().open_replica("it", MapOptions::general()).unwrap();
        hold.maps().begin_stream("it", 16 << 20).unwrap();
        Kept { directory, hold, map }
    }

    /// A full sync puts another map, with this key, in the place of a replica's.
    fn replace_map(&self, key: &str) {
        let next = next_name("it");
        create_shadow_map(&self.hold, &next, "it").unwrap().set(key, "1").unwrap();
        self.hold.maps().begin_stream(&next, 16 << 20).unwrap();
        swap_in_shadow_map(&self.hold, &next, "it").unwrap();
    }

    fn path(&self) -> PathBuf {
        self.directory.path().join("it.journal")
    }

    /// A writer that compacts the file whenever it may.
    fn writer(&self) -> JournalWriter {
        let mut writer = self.new_writer();
        while writer.current.is_none() {
            writer.work().unwrap();
        }
        writer
    }

    /// One that has no file yet, unless there is one at the path.
    fn new_writer(&self) -> JournalWriter {
        self.new_writer_with(JournalOptions { compact_bytes: 0, ..JournalOptions::default() })
    }

    fn new_writer_with(&self, options: JournalOptions) -> JournalWriter {
        let slot = commonhold::raw::JournalSlot::take(&self.hold, "it").unwrap();
        let map = self.map.clone();
        JournalWriter::new(&self.hold, map, &self.path(), options, slot).unwrap()
    }

    /// Enough pairs that a full sync takes more than one turn.
    fn fill(&self) {
        for number in 0..3 * BATCH / (64 << 10) {
            self.map.set(number.to_le_bytes(), vec![7; 64 << 10]).unwrap();
        }
    }
}

/// The next file does not take the path before it has reached the announced position, also if
/// the current one is lost.
#[test]
fn durable_changes_are_in_every_file_that_takes_the_path() {
    let kept = Kept::new();
    let mut writer = kept.writer();
    let mut next = FileWriter::begin(&kept.hold, &kept.map, &kept.path(), &writer.run).unwrap();
    while !next.is_whole() {
        assert!(next.pump().is_ok());
    }
    writer.next = Some(next);
    kept.map.set("a", "1").unwrap();
    assert!(writer.current.as_mut().unwrap().pump().is_ok());
    writer.sync_if_due().unwrap();
    let durable = writer.status.durable.unwrap();
    assert_eq!(durable, kept.map.follow().unwrap().end().unwrap());
    writer.current = None;
    writer.switch().unwrap();
    assert!(writer.current.is_none(), "an older file has taken the path");
    assert!(writer.renew().unwrap());
    assert_eq!(writer.current.as_ref().unwrap().progress.position, durable);
}

/// Any call that reads the map finds the one in its place, and the handle continues with that one.
#[test]
fn a_full_sync_is_noticed_although_the_handle_has_the_new_map() {
    let kept = Kept::of_replica();
    kept.map.set("first", "1").unwrap();
    let mut writer = kept.writer();
    kept.replace_map("second");
    assert_eq!(writer.map.len().unwrap(), 1);
    writer.finish().unwrap();
    let present = kept.hold.maps().open("it").unwrap().follow().unwrap().position();
    assert_eq!(inspect(kept.path()).unwrap().position, present);
    assert_eq!(writer.status.error, None);
    // The run is noted as one of the new map: the next journal continues the file.
    drop(writer);
    assert!(kept.new_writer().current.is_some());
}

/// Two journals begin at a path without a file. The one that comes later finds the file of the
/// other, which has ended by then.
#[test]
fn a_file_that_another_journal_put_at_the_path_stays() {
    let (kept, other) = (Kept::new(), Kept::new());
    other.map.set("a", "1").unwrap();
    drop(other.writer());
    let mut writer = kept.new_writer();
    std::fs::copy(other.path(), kept.path()).unwrap();
    let theirs = std::fs::read(kept.path()).unwrap();
    let refused = loop {
        if let Err(error) = writer.work() {
            break error;
        }
        assert!(writer.current.is_none(), "the file was replaced");
    };
    assert_eq!(refused.kind(), ErrorKind::Mismatch, "{refused}");
    assert_eq!(std::fs::read(kept.path()).unwrap(), theirs);
}

/// An old copy of the hold, put back, does not know any later file, wherever that file begins.
#[test]
fn every_new_file_has_a_run_of_its_own() {
    let kept = Kept::new();
    let mut writer = kept.writer();
    let first = writer.run.id;
    kept.fill();
    while writer.next.is_none() {
        writer.work().unwrap();
    }
    assert_ne!(writer.run.id, first);
    assert!(writer.runs.has(first, StreamPosition { stream: 0, offset: 0 }).unwrap());
}

/// A waiting process may have read the position although the call that announces it fails.
#[test]
fn an_announcement_counts_even_if_the_call_failed() {
    let kept = Kept::new();
    let mut writer = kept.writer();
    let mut next = FileWriter::begin(&kept.hold, &kept.map, &kept.path(), &writer.run).unwrap();
    while !next.is_whole() {
        assert!(next.pump().is_ok());
    }
    writer.next = Some(next);
    kept.map.set("a", "1").unwrap();
    assert!(writer.current.as_mut().unwrap().pump().is_ok());
    // The producer of the announcements belongs to the parent: the child writes the position,
    // and cannot wake the waiting processes.
    Child::run("announces", || {
        assert!(writer.sync_if_due().is_err());
        let announced = writer.slot.notes().get("durable").unwrap().unwrap();
        let end = kept.map.follow().unwrap().end().unwrap();
        assert!(announced.ends_with(end.to_string().as_bytes()), "{announced:?} is not {end}");
        assert_eq!(writer.status.durable, Some(end));
        writer.current = None;
        writer.switch().unwrap();
        assert!(writer.current.is_none(), "an older file has taken the path");
    })
    .finish();
}

/// On a full disk the next file would otherwise keep the room that the current one needs.
#[test]
fn a_writer_that_cannot_write_abandons_the_next_file() {
    let kept = Kept::new();
    let mut writer = kept.writer();
    kept.fill();
    while writer.next.is_none() {
        writer.work().unwrap();
    }
    writer.current.as_mut().unwrap().file.make_read_only();
    kept.map.set("a", "1").unwrap();
    assert!(writer.work().is_err());
    assert!(writer.current.is_some() && writer.next.is_none());
    assert_eq!(std::fs::read_dir(kept.directory.path()).unwrap().count(), 2);
}

/// Each next file is noted before its first sync. None of these notes may take the place of the
/// present file's: a later writer would believe what no sync has confirmed.
#[cfg(feature = "steps")]
#[test]
fn next_files_that_cannot_be_synced_leave_no_notes() {
    for call in ["journal.fdatasync:EIO:always", "draft.link:EIO:always"] {
        // Faults are the whole process's, and so is the lock on a file.
        Child::run(format!("{call} fails"), || {
            let kept = Kept::new();
            let mut writer = kept.writer();
            writer.work().unwrap();
            let file = identity_at(&kept.path()).unwrap();
            crate::faults::arm(call).unwrap();
            kept.map.set("a", "1").unwrap();
            writer.compact_at = 0;
            for _ in 0..40 {
                let _ = writer.work();
                writer.renew_at = Instant::now();
            }
            assert!(writer.current.is_none());
            assert_eq!(identity_at(&kept.path()).unwrap(), file);
            assert!(writer.trust.len_of(file).unwrap().is_some_and(|len| len < ALL));
            let notes = writer.slot.notes().get("trusted").unwrap().unwrap();
            assert_eq!(notes.len(), 24, "there are notes of files that are gone");
        })
        .finish();
    }
}

/// The rewrite has succeeded, whoever has the map for announcements.
#[cfg(feature = "steps")]
#[test]
fn an_announcement_that_has_to_wait_is_no_failed_rewrite() {
    use commonhold_testing::support::standstill::{go_on, stopped};
    let (kept, mut writer, key) = loop {
        let kept = Kept::new();
        let writer = kept.writer();
        if let Some(key) = key_in_its_segment(&writer.slot.notes()) {
            break (kept, writer, key);
        }
    };
    let still = stopped("write.locked", || {
        let hold = Hold::open(kept.directory.path().join("it.hold")).unwrap();
        drop(hold.maps().open(".journal/it").unwrap().set(&key, "in the way"));
    });
    let before = identity_at(&kept.path()).unwrap();
    kept.map.set("a", "1").unwrap();
    writer.compact_at = 0;
    let error = with_patience(Duration::from_millis(100), || {
        loop {
            if let Err(error) = writer.work() {
                return error;
            }
        }
    });
    assert_eq!(error.kind(), ErrorKind::TimedOut, "{error}");
    assert_eq!(writer.status.rewrite_error, None);
    go_on(still);
    writer.work().unwrap();
    assert_ne!(identity_at(&kept.path()).unwrap(), before, "no next file took the path");
    assert_eq!(writer.announced, Some(kept.map.follow().unwrap().end().unwrap()));
}

/// A key in the segment of the announcement; `None` if other notes have this segment, too.
#[cfg(feature = "steps")]
fn key_in_its_segment(said: &Map) -> Option<String> {
    let segment = |key: &str| {
        let before = said.get(key).unwrap();
        let uid = said.set(key, before.as_deref().unwrap_or_default()).unwrap();
        if before.is_none() {
            said.delete(key).unwrap();
        }
        uid.0 >> 8 & 15
    };
    let wanted = segment("durable");
    let is_apart = ["trusted", "runs"].iter().all(|other| segment(other) != wanted);
    is_apart.then(|| (0..).map(|n| n.to_string()).find(|key| segment(key) == wanted).unwrap())
}

/// A next file that was put off has not even begun: nobody knows yet that a process is stopped.
#[test]
fn a_next_file_that_was_put_off_is_waited_for() {
    let kept = Kept::new();
    let mut writer = kept.writer();
    // The stream has no room for it: only the next file can take the map as it is.
    kept.map.set("large", vec![7; 32 << 20]).unwrap();
    writer.renew_at = Instant::now() + PATIENCE + RETRY / 2;
    writer.finish().unwrap();
    assert!(writer.current.as_ref().unwrap().is_whole());
}

/// Each attempt writes a whole copy of the map.
#[cfg(feature = "steps")]
#[test]
fn pauses_between_attempts_to_seal_a_file_grow() {
    // Faults are the whole process's.
    Child::run("no file can be sealed", || {
        let kept = Kept::new();
        let (keep, segment_time) = (Some(LONGEST), Duration::ZERO);
        let options = JournalOptions { keep, segment_time, ..JournalOptions::default() };
        let mut writer = kept.new_writer_with(options);
        while writer.current.is_none() {
            writer.work().unwrap();
        }
        let first = GrowingPause::new(RETRY, RENEW_AT_MOST);
        let mut expected = first;
        kept.map.set("a", "1").unwrap();
        crate::faults::arm("journal.seal:EACCES:always").unwrap();
        for _ in 0..8 {
            writer.renew_at = Instant::now();
            writer.status.rewrite_error = None;
            while writer.status.rewrite_error.is_none() {
                writer.work().unwrap();
            }
            expected.after_failure();
            assert_eq!(writer.renew_pause, expected);
        }
        crate::faults::arm("").unwrap();
        writer.renew_at = Instant::now();
        while writer.status.segments == 0 {
            writer.work().unwrap();
        }
        assert_eq!(writer.renew_pause, first);
    })
    .finish();
}

/// The runs of files that never took the path do not displace the run of the file that is there.
#[cfg(feature = "steps")]
#[test]
fn the_file_at_the_path_stays_known_however_many_next_files_fail() {
    let turns = |writer: &mut JournalWriter, most: u32| {
        let turn = |_| {
            writer.renew_at = Instant::now();
            writer.work().err()
        };
        (0..most).filter_map(turn).last()
    };
    // Faults are the whole process's.
    Child::run("no next file takes the path", || {
        let kept = Kept::new();
        let mut writer = kept.writer();
        writer.work().unwrap();
        crate::faults::arm("draft.link:EIO:always").unwrap();
        kept.map.set("a", "1").unwrap();
        writer.compact_at = 0;
        assert!(turns(&mut writer, 1000).is_some() && writer.current.is_none());
        let runs = writer.slot.notes().get("runs").unwrap().unwrap().len() / 32;
        assert!(runs > 60, "only {runs} runs were noted");
        crate::faults::arm("").unwrap();
        // The next journal continues the file, or replaces it, without being asked to.
        drop(writer);
        drop(kept.writer());
    })
    .finish();
}

/// A file may have taken the path although its directory could not be synced.
#[cfg(feature = "steps")]
#[test]
fn a_file_that_took_the_path_stays_known_although_that_was_no_success() {
    // Faults are the whole process's.
    Child::run("no directory can be synced", || {
        let kept = Kept::new();
        let mut writer = kept.writer();
        writer.work().unwrap();
        let before = identity_at(&kept.path()).unwrap();
        kept.map.set("a", "1").unwrap();
        writer.compact_at = 0;
        crate::faults::arm("draft.sync-directory:EIO:once").unwrap();
        while identity_at(&kept.path()).unwrap() == before {
            let _ = writer.work();
        }
        crate::faults::arm("journal.write:ENOSPC:always").unwrap();
        for _ in 0..1000 {
            writer.renew_at = Instant::now();
            let _ = writer.work();
        }
        crate::faults::arm("").unwrap();
        drop(writer);
        drop(kept.writer());
    })
    .finish();
}

/// Reading a file and closing it releases all locks that the process has on it.
#[test]
fn the_file_at_the_path_stays_locked() {
    let kept = Kept::new();
    drop(kept.writer());
    let mut writer = kept.new_writer();
    (writer.current, writer.approved) = (None, None);
    writer.lock_target().unwrap();
    Child::run("another journal", || {
        let locked = Target::lock(&kept.path());
        assert_eq!(locked.unwrap_err().kind(), ErrorKind::Busy);
    })
    .finish();
}

/// It may have a name in the archive, where the journal looks for segments of other maps.
#[test]
fn the_file_stays_locked_while_segments_are_read() {
    let kept = Kept::new();
    let archive = kept.directory.path().join("archive");
    let (keep, directory) = (Some(Duration::ZERO), Some(archive.clone()));
    let options = JournalOptions { keep, archive: directory, ..JournalOptions::default() };
    let mut writer = kept.new_writer_with(options);
    while writer.current.is_none() {
        writer.work().unwrap();
    }
    let name = archive.join(format!("{}.it.journal", Span { first_ms: 1, last_ms: 2 }.name()));
    std::fs::hard_link(kept.path(), &name).unwrap();
    let file = identity_at(&kept.path()).unwrap();
    let is_locked = || {
        Child::run("another journal", || {
            let locked = Target::lock(&kept.path());
            assert_eq!(locked.unwrap_err().kind(), ErrorKind::Busy);
        })
        .finish();
    };
    writer.ensure_own_archive(None, Some(file)).unwrap();
    is_locked();
    writer.expiry_due = Instant::now();
    writer.expire_if_due();
    assert!(!name.exists());
    is_locked();
}
