//! Kills and errors while a journal keeps a file as a segment: no state is lost, no change goes
//! unconfirmed, and no hole comes about.
#![cfg(feature = "steps")]

use crate::history::{Recorded, now_ms, often, pairs};
use commonhold::steps::{arm as arm_step, observe_faults};
use commonhold::{ErrorKind, Hold};
use commonhold_replicate::faults::arm;
use commonhold_replicate::journal::{Journal, JournalOptions, inspect, inspect_all};
use commonhold_testing::alone::cast;
use commonhold_testing::support::process::{Board, Child, End, pause, until};
use nix::sys::signal::{Signal, raise};
use std::os::unix::fs::MetadataExt;
use std::path::Path;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

const LONG: Duration = Duration::from_secs(60);

/// A process with the journal, which `prepares` itself when the journal runs.
fn journal(recorded: &Recorded, options: &JournalOptions, prepares: impl FnOnce()) -> Child {
    let up = Board::new(1);
    let child = cast("a journal", || {
        let hold = Hold::open(recorded.test_dir.path("it.hold")).unwrap();
        let _journal = Journal::start(&hold, "it", &recorded.file, options.clone()).unwrap();
        prepares();
        up.put(0, 1);
        loop {
            pause();
        }
    });
    until("the journal to begin", || up.get(0) == 1 || child.is_gone());
    child
}

/// This process dies the next time that it comes to this call or step.
fn die_at(place: &'static str, passing: u64) {
    if place.starts_with("draft.re") || place == "draft.linked" {
        arm_step(&format!("{place}:kill:{passing}")).unwrap();
        return;
    }
    let passed: &AtomicU64 = Box::leak(Box::new(AtomicU64::new(0)));
    observe_faults(move |name| {
        if name == place && passed.fetch_add(1, Ordering::Relaxed) + 1 == passing {
            raise(Signal::SIGKILL).unwrap();
        }
    });
}

fn inode(path: &Path) -> u64 {
    std::fs::metadata(path).unwrap().ino()
}

/// The calls and steps between the last change of a file and the next file at its path, in order.
const PLACES: [&str; 9] = [
    "journal.make-archive",
    "journal.seal",
    "journal.list-archive",
    "journal.remove-segment",
    "journal.open-directory",
    "journal.sync-directory",
    "draft.linked",
    "draft.replaced",
    "draft.sync-directory",
];

#[test]
fn a_journal_killed_while_it_seals_loses_no_state() {
    let mut recorded = Recorded::new();
    // The next journal finds a name to remove after some of the kills, and segments to expire.
    let keeps = often();
    let (mut number, mut killed) = (0, 0);
    for place in PLACES {
        for passing in [1, 2] {
            let mut victim = journal(&recorded, &keeps, || die_at(place, passing));
            until("the journal to die", || {
                number += 1;
                recorded.change(number);
                // A journal that falls behind the stream misses states.
                let _ = recorded.map.sync(LONG);
                // Nothing is removed within the time that history is kept.
                victim.is_gone() || (place == "journal.remove-segment" && number % 50 == 0)
            });
            if place != "journal.remove-segment" {
                assert_eq!(victim.wait(), End::By(Signal::SIGKILL), "{place}");
                killed += 1;
            } else {
                victim.slay();
            }
            let next = journal(&recorded, &keeps, || ());
            recorded.note();
            let own = inode(&recorded.file);
            let segments = recorded.segments();
            let doubly = segments.iter().filter(|segment| inode(segment) == own);
            assert_eq!(doubly.count(), 0, "{place}: the file has two names");
            drop(next.slay());
            let timeline = inspect_all(&recorded.file, None).unwrap();
            assert!(timeline.holes.is_empty(), "{place}: {:?}", timeline.holes);
            assert!(timeline.files.iter().all(|file| file.is_sound()), "{place}");
        }
    }
    assert_eq!(killed, 2 * (PLACES.len() - 1));
    recorded.verify();
}

/// The present file stays, and every change is confirmed, whichever call of sealing fails.
#[test]
fn a_file_that_cannot_be_sealed_goes_on() {
    for call in [
        "journal.make-archive:ENOSPC:always",
        "journal.make-archive:EACCES:always",
        "journal.seal:EACCES:always",
        "journal.seal:ENOSPC:always",
        "journal.seal:EIO:always",
        "journal.list-archive:EIO:always",
        "journal.sync-directory:EIO:always",
        "journal.sync-directory:ENOSPC:always",
    ] {
        let mut recorded = Recorded::new();
        cast(call, || {
            let journal = Journal::start(&recorded.hold, "it", &recorded.file, often()).unwrap();
            recorded.change(1);
            recorded.note();
            arm(call).unwrap();
            let kept = journal.status().segments;
            let mut number = 1;
            until("the status to say so", || {
                number += 1;
                recorded.change(number);
                recorded.map.sync(LONG).unwrap();
                journal.status().rewrite_error.is_some()
            });
            assert_eq!(journal.status().error, None, "{call}");
            assert!(journal.status().segments <= kept + 1);
            for number in 100..110 {
                recorded.change(number);
                recorded.map.sync(LONG).unwrap();
            }
            recorded.note();
            arm("").unwrap();
            let kept = journal.status().segments;
            until("another segment", || {
                recorded.change(7);
                recorded.map.sync(LONG).unwrap();
                journal.status().segments > kept + 1
            });
            recorded.note();
            assert_eq!(journal.status().rewrite_error, None);
            journal.finish().unwrap();
            recorded.verify();
            assert!(inspect_all(&recorded.file, None).unwrap().is_sound());
        })
        .finish();
    }
}

/// The present file cannot be trusted any more, and cannot be kept either: its states come before
/// new ones.
#[test]
fn a_file_that_is_lost_and_cannot_be_sealed_is_not_replaced() {
    let mut recorded = Recorded::new();
    cast("a journal", || {
        let options = JournalOptions { segment_time: LONG, ..often() };
        let journal = Journal::start(&recorded.hold, "it", &recorded.file, options).unwrap();
        recorded.change(1);
        recorded.note();
        let (before, before_it) = (inode(&recorded.file), pairs(&recorded.map));
        arm("journal.fdatasync:EIO:once,journal.seal:EACCES:always").unwrap();
        recorded.change(2);
        assert_eq!(recorded.map.sync(LONG).unwrap_err().kind(), ErrorKind::Io);
        until("the reason", || {
            let why = journal.status().error;
            why.is_some_and(|why| why.contains("cannot be kept as a segment"))
        });
        assert_eq!(inode(&recorded.file), before, "the file was replaced");
        arm("").unwrap();
        until("all to become durable", || recorded.map.sync(LONG).is_ok());
        recorded.note();
        assert_eq!(recorded.segments().len(), 1);
        journal.finish().unwrap();
        let last = inspect(&recorded.segments()[0]).unwrap().times.unwrap().last_ms;
        assert_eq!(recorded.at(last).unwrap().1, before_it);
        assert_eq!(recorded.at(now_ms()).unwrap().1, pairs(&recorded.map));
        // Changes that no sync has confirmed lie between.
        assert_eq!(inspect_all(&recorded.file, None).unwrap().holes.len(), 1);
    })
    .finish();
}

/// Old segments stay, and the reason is reported.
#[test]
fn a_segment_that_cannot_be_removed_is_reported() {
    let recorded = Recorded::new();
    cast("a journal", || {
        arm("journal.remove-segment:EACCES:always").unwrap();
        let options = JournalOptions { keep: Some(Duration::ZERO), ..often() };
        let journal = Journal::start(&recorded.hold, "it", &recorded.file, options).unwrap();
        until("the status to say so", || {
            recorded.change(1);
            recorded.map.sync(LONG).unwrap();
            let why = journal.status().archive_error;
            why.is_some_and(|why| why.contains("cannot be removed"))
        });
        assert_eq!(journal.status().error, None);
        arm("").unwrap();
        until("they are removed", || {
            recorded.change(2);
            recorded.segments().len() <= 1 && journal.status().archive_error.is_none()
        });
        journal.finish().unwrap();
    })
    .finish();
}
