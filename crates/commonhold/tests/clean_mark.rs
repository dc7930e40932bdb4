//! The clean mark of a file hold, when a sync fails or its process is killed or stopped in it; and
//! that nobody waits for one who opens or closes.

use crate::support::boot::reboot;
use crate::support::process::{Child, End};
use crate::support::standstill::{PATIENCE, WATCHDOG, go_on, killed, stopped, third};
use crate::support::test_dir::TestDir;
use commonhold::map::MapOptions;
use commonhold::raw::limit_thread_patience;
use commonhold::{ErrorKind, Hold, steps};
use nix::sys::signal::{Signal, raise};
use std::path::Path;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

/// Only a close that writes every page again comes to this.
const REFUSES_TO_WRITE_AGAIN: &str = "os.populate:EIO:always";

/// Opens the hold and sets a pair.
fn written(path: &Path, value: &str) -> Hold {
    let hold = Hold::open_or_create(path).unwrap();
    hold.maps().open_or_create("it", MapOptions::general()).unwrap().set("key", value).unwrap();
    hold
}

#[track_caller]
fn has(path: &Path, value: &str) {
    let hold = Hold::open(path).unwrap();
    let found = hold.maps().open("it").unwrap().get("key").unwrap();
    assert_eq!(found.as_deref(), Some(value.as_bytes()));
    let report = hold.check().unwrap();
    assert!(report.ok, "{:?}", report.problems);
}

/// The hold opens in this boot, and not in the next one.
#[track_caller]
fn stays_unclean(path: &Path, value: &str) {
    has(path, value);
    reboot(path);
    let error = Hold::open(path).expect_err("pages may be lost");
    assert_eq!(error.kind(), ErrorKind::Unclean, "{error}");
    assert!(error.to_string().contains("hold repair --salvage"), "{error}");
}

#[track_caller]
fn is_clean(path: &Path, value: &str) {
    reboot(path);
    has(path, value);
}

/// A child does this with a fault that is armed by `arm`.
fn with_faults(name: &str, does: impl FnOnce()) {
    assert_eq!(Child::run(name, does).wait(), End::Well, "{name}");
}

/// The pages that the disk refused count as written from then on: no later sync reports them.
#[test]
fn a_hold_that_could_not_be_synced_is_not_marked_by_a_later_close() {
    let of_the_call = [
        "os.msync:EIO",
        "os.fdatasync:EIO",
        "os.msync:ENOSPC",
        "os.fdatasync:EDQUOT",
        // Of other disks and file systems.
        "os.msync:ENODATA",
        "os.msync:ETIMEDOUT",
        "os.fdatasync:ENOMEM",
    ];
    for fault in of_the_call.map(|error| format!("{error}:once")) {
        let test_dir = TestDir::file();
        let path = test_dir.path("it.hold");
        with_faults(&fault, || {
            let hold = written(&path, "1");
            steps::arm_fault(&fault).unwrap();
            hold.close().unwrap();
        });
        for value in ["2", "3"] {
            written(&path, value).close().unwrap();
        }
        stays_unclean(&path, "3");
        commonhold::hold::salvage(&path).unwrap();
        is_clean(&path, "3");
    }
}

/// Whatever others do meanwhile, the error counts: their syncs may not report it.
#[test]
fn a_failed_sync_counts_though_others_have_opened_the_hold() {
    for fails_first in [true, false] {
        let test_dir = TestDir::file();
        let path = test_dir.path("it.hold");
        let fails = stopped("close.begun", || {
            let hold = written(&path, "1");
            steps::arm_fault("os.msync:EIO:once").unwrap();
            hold.close().unwrap();
        });
        let closes = stopped("close.synced", || written(&path, "2").close().unwrap());
        let writes = stopped("record.state-written", || written(&path, "3").close().unwrap());
        let (first, second) = if fails_first { (fails, closes) } else { (closes, fails) };
        go_on(first);
        go_on(second);
        go_on(writes);
        stays_unclean(&path, "3");
    }
}

/// A call that was interrupted is made again, and has lost nothing.
#[test]
fn an_interrupted_sync_is_repeated() {
    let test_dir = TestDir::file();
    let path = test_dir.path("it.hold");
    with_faults("interrupted", || {
        let hold = written(&path, "1");
        steps::arm_fault("os.msync:EINTR:once,os.fdatasync:EINTR:once").unwrap();
        hold.close().unwrap();
    });
    is_clean(&path, "1");
}

/// A sync that its process did not survive may have failed. So the next close writes every page
/// again, for which it asks for their memory first.
#[test]
fn after_a_kill_in_the_sync_every_page_is_written_again() {
    for step in ["close.begun", "close.synced"] {
        for is_refused in [true, false] {
            let test_dir = TestDir::file();
            let path = test_dir.path("it.hold");
            killed(step, || written(&path, "1").close().unwrap());
            // Whoever is killed in between passes the doubt on.
            killed("record.state-written", || drop(written(&path, "2")));
            with_faults(step, || {
                let hold = written(&path, "3");
                if is_refused {
                    // At the second extent: it is not enough to write the first one again.
                    steps::arm_fault("os.populate:EIO:once:2").unwrap();
                }
                hold.close().unwrap();
            });
            match is_refused {
                true => stays_unclean(&path, "3"),
                false => is_clean(&path, "3"),
            }
        }
    }
}

/// Without memory to write every page again there is no sync, and the doubt remains.
#[test]
fn after_a_sync_that_could_not_be_made_every_page_is_written_again() {
    for is_refused in [true, false] {
        let test_dir = TestDir::file();
        let path = test_dir.path("it.hold");
        killed("close.begun", || written(&path, "1").close().unwrap());
        with_faults("no sync", || {
            let hold = written(&path, "1");
            steps::arm_fault("os.populate:ENOMEM:always").unwrap();
            hold.close().unwrap();
        });
        with_faults("the next", || {
            let hold = written(&path, "2");
            if is_refused {
                steps::arm_fault(REFUSES_TO_WRITE_AGAIN).unwrap();
            }
            hold.close().unwrap();
        });
        match is_refused {
            true => stays_unclean(&path, "2"),
            false => is_clean(&path, "2"),
        }
    }
}

/// A close gives up if it finds a user when it begins, or is disturbed later. A doubt that it has
/// found remains, and it adds none of its own.
#[test]
fn a_sync_that_was_given_up_leaves_the_doubt_that_it_has_found() {
    for step in ["close.syncing", "close.begun"] {
        for is_in_doubt in [true, false] {
            let test_dir = TestDir::file();
            let path = test_dir.path("it.hold");
            if is_in_doubt {
                killed("close.begun", || written(&path, "1").close().unwrap());
            }
            let gives_up = stopped(step, || written(&path, "2").close().unwrap());
            let next = stopped("record.state-written", || {
                let hold = written(&path, "3");
                steps::arm_fault(REFUSES_TO_WRITE_AGAIN).unwrap();
                hold.close().unwrap();
            });
            go_on(gives_up);
            go_on(next);
            match is_in_doubt {
                true => stays_unclean(&path, "3"),
                false => is_clean(&path, "3"),
            }
        }
    }
}

/// After a restart every state but clean means that pages may be missing.
#[test]
fn a_hold_that_was_being_opened_or_closed_when_the_system_stopped_is_unclean() {
    for step in ["open.marking", "close.begun", "close.synced"] {
        let test_dir = TestDir::file();
        let path = test_dir.path("it.hold");
        written(&path, "1").close().unwrap();
        killed(step, || Hold::open(&path).unwrap().close().unwrap());
        reboot(&path);
        let error = Hold::open(&path).expect_err("written since, perhaps");
        assert_eq!(error.kind(), ErrorKind::Unclean, "{step}: {error}");
    }
}

/// Opening fails, because the disk refuses the first page.
fn is_not_marked(path: &Path) {
    steps::arm_fault("os.msync:EIO:once").unwrap();
    assert_eq!(Hold::open(path).expect_err("it is not marked").kind(), ErrorKind::Io);
}

/// What was clean until now is so on the disk until the first page is synced. Whoever finds that
/// in doubt syncs it.
#[test]
fn opening_a_hold_clears_its_clean_mark_on_the_disk() {
    for is_killed in [true, false] {
        let test_dir = TestDir::file();
        let path = test_dir.path("it.hold");
        written(&path, "1").close().unwrap();
        match is_killed {
            true => killed("open.marking", || drop(Hold::open(&path))),
            false => with_faults("the first", || is_not_marked(&path)),
        }
        with_faults("the second", || is_not_marked(&path));
        written(&path, "2").close().unwrap();
        is_clean(&path, "2");
    }
}

/// One that stands still before it syncs leaves that to the next one.
#[test]
fn an_opener_that_is_stopped_before_its_sync_is_not_relied_upon() {
    let test_dir = TestDir::file();
    let path = test_dir.path("it.hold");
    written(&path, "1").close().unwrap();
    let still = stopped("open.marking", || has(&path, "2"));
    with_faults("fails", || is_not_marked(&path));
    third("syncs", || written(&path, "2").close().unwrap());
    go_on(still);
    is_clean(&path, "2");
}

/// A close that is stopped, whoever comes meanwhile: what is written then is not taken for synced.
#[test]
fn a_stopped_close_marks_nothing_that_was_written_since() {
    for step in ["close.begun", "close.synced"] {
        for is_closed_meanwhile in [true, false] {
            let test_dir = TestDir::file();
            let path = test_dir.path("it.hold");
            let still = stopped(step, || written(&path, "1").close().unwrap());
            if is_closed_meanwhile {
                third(step, || written(&path, "2").close().unwrap());
            }
            killed("slot.released", || written(&path, "3").close().unwrap());
            go_on(still);
            reboot(&path);
            assert_eq!(Hold::open(&path).expect_err("not synced").kind(), ErrorKind::Unclean);
            commonhold::hold::salvage(&path).unwrap();
            has(&path, "3");
        }
    }
}

/// A process that has opened the hold just before a sync begins may write while the sync runs.
#[test]
fn a_close_that_finds_a_writer_when_it_begins_marks_nothing() {
    let test_dir = TestDir::file();
    let path = test_dir.path("it.hold");
    let closes = stopped("close.syncing", || written(&path, "1").close().unwrap());
    let mut writes = stopped("record.state-written", || drop(written(&path, "2")));
    go_on(closes);
    writes.signal(Signal::SIGKILL);
    assert_eq!(writes.wait(), End::By(Signal::SIGKILL));
    reboot(&path);
    assert_eq!(Hold::open(&path).expect_err("not synced").kind(), ErrorKind::Unclean);
}

/// A close that has stood still changes neither a mark that another close has set since, nor one
/// that an opener is removing, not even if its own sync fails.
#[test]
fn a_late_close_leaves_a_later_mark_alone() {
    let late = [("close.syncing", "os.msync:ENOMEM:once"), ("close.begun", "os.msync:EIO:once")];
    for (step, fault) in late {
        for is_opened in [false, true] {
            let test_dir = TestDir::file();
            let path = test_dir.path("it.hold");
            let still = stopped(step, || {
                let hold = written(&path, "1");
                steps::arm_fault(fault).unwrap();
                hold.close().unwrap();
            });
            third(step, || written(&path, "2").close().unwrap());
            let opens =
                is_opened.then(|| stopped("open.marking", || drop(Hold::open(&path).unwrap())));
            go_on(still);
            if let Some(opens) = opens {
                with_faults("makes sure", || is_not_marked(&path));
                go_on(opens);
            }
            is_clean(&path, "2");
        }
    }
}

/// A reader changes nothing, so the last writer marks the hold all the same.
#[test]
fn a_reader_does_not_keep_the_last_writer_from_marking() {
    let test_dir = TestDir::file();
    let path = test_dir.path("it.hold");
    let hold = written(&path, "1");
    let reader = Hold::options().read_only(true).open(&path).unwrap();
    hold.close().unwrap();
    drop(reader);
    is_clean(&path, "1");
}

/// Wherever one stands still that opens the hold or closes it, others open it.
#[test]
fn opening_waits_for_nobody_who_opens_or_closes() {
    for test_dir in [TestDir::memory(), TestDir::file()] {
        for step in ["open.asked", "open.marking", "close.begun", "close.synced", "close.marked"] {
            let path = test_dir.path("it.hold");
            written(&path, "1").close().unwrap();
            let still = stopped(step, || drop(Hold::open(&path).unwrap()));
            third(format!("opens, {step}"), || {
                let patient = Hold::options().lock_timeout(PATIENCE).open(&path).unwrap();
                drop(Hold::options().read_only(true).open(&path).unwrap());
                patient.close().unwrap();
            });
            go_on(still);
        }
    }
}

/// Other users of the hold may see another boot id. Only a process that is alone on the hold takes
/// it over into its own boot.
#[test]
fn a_hold_that_is_in_use_under_another_boot_id_is_left_alone() {
    for test_dir in [TestDir::memory(), TestDir::file()] {
        let path = test_dir.path("it.hold");
        let hold = written(&path, "1");
        reboot(&path);
        for read_only in [true, false] {
            let error = Hold::options().read_only(read_only).open(&path).expect_err("in use");
            assert_eq!(error.kind(), ErrorKind::Busy, "{error}");
            assert!(error.to_string().contains("another boot id"), "{error}");
        }
        hold.close().unwrap();
        has(&path, "1");
    }
}

/// Salvage has the hold alone for as long as it takes. Whoever has no patience hears so at once.
#[test]
fn one_without_patience_does_not_wait_for_salvage() {
    let test_dir = TestDir::file();
    let path = test_dir.path("it.hold");
    written(&path, "1").close().unwrap();
    let still = stopped("draft.hold-built", || drop(commonhold::hold::salvage(&path).unwrap()));
    third("asks often", || {
        for round in 0..40 {
            let mut options = Hold::options().read_only(round % 2 == 0);
            match round < 20 {
                true => options = options.lock_timeout(Duration::ZERO),
                false => drop(limit_thread_patience(Duration::ZERO)),
            }
            let error = options.open(&path).expect_err("salvage is alone");
            assert_eq!(error.kind(), ErrorKind::Busy, "{error}");
        }
    });
    go_on(still);
    has(&path, "1");
}

/// A forked child takes a slot of its own when it writes for the first time. Salvage may have begun
/// by then.
#[test]
fn a_forked_child_without_patience_does_not_wait_for_salvage() {
    let test_dir = TestDir::file();
    let path = test_dir.path("it.hold");
    written(&path, "1").close().unwrap();
    let hold = Hold::options().lock_timeout(Duration::ZERO).open(&path).unwrap();
    let map = hold.maps().open("it").unwrap();
    let mut asks = Child::run("asks often", || {
        raise(Signal::SIGSTOP).unwrap();
        for _ in 0..20 {
            let error = map.set("key", "2").expect_err("salvage is alone");
            assert_eq!(error.kind(), ErrorKind::Busy, "{error}");
        }
    });
    assert!(asks.wait_stopped());
    hold.close().unwrap();
    let still = stopped("draft.hold-built", || drop(commonhold::hold::salvage(&path).unwrap()));
    asks.signal(Signal::SIGCONT);
    assert_eq!(asks.wait_for(WATCHDOG), End::Well);
    go_on(still);
    has(&path, "1");
}

/// Whoever syncs the first page alone gets the errors of all pages, once. Nobody else hears of them
/// who opens the hold later.
#[test]
fn an_error_that_comes_with_the_first_page_is_not_forgotten() {
    for step in ["open.marking", "close.marked"] {
        let test_dir = TestDir::file();
        let path = test_dir.path("it.hold");
        written(&path, "1").close().unwrap();
        let still = stopped(step, || {
            if step == "open.marking" {
                steps::arm_fault("os.msync:EIO:once").unwrap();
                assert_eq!(Hold::open(&path).expect_err("it fails").kind(), ErrorKind::Io);
            } else {
                let hold = written(&path, "2");
                // The first is that of the whole file.
                steps::arm_fault("os.msync:EIO:once:2").unwrap();
                hold.close().unwrap();
            }
        });
        killed("slot.released", || written(&path, "3").close().unwrap());
        go_on(still);
        written(&path, "4").close().unwrap();
        stays_unclean(&path, "4");
    }
}

/// The process that gets the error with the first page may be killed before it can store that. Then
/// the next close writes every page again.
#[test]
fn an_error_that_comes_with_the_first_page_survives_a_kill() {
    for step in ["open.marking", "close.marked"] {
        for is_refused in [true, false] {
            let test_dir = TestDir::file();
            let path = test_dir.path("it.hold");
            written(&path, "1").close().unwrap();
            let mut still = stopped(step, || {
                let hold = (step == "close.marked").then(|| written(&path, "2"));
                let has_stopped = AtomicBool::new(false);
                steps::observe(move |passed| match passed {
                    "mark.synced" if has_stopped.load(Ordering::SeqCst) => {
                        raise(Signal::SIGKILL).unwrap();
                    }
                    passed => drop(has_stopped.fetch_or(passed == step, Ordering::SeqCst)),
                });
                match hold {
                    Some(hold) => hold.close().unwrap(),
                    None => drop(Hold::open(&path)),
                }
            });
            killed("slot.released", || written(&path, "3").close().unwrap());
            still.signal(Signal::SIGCONT);
            assert_eq!(still.wait(), End::By(Signal::SIGKILL), "{step}");
            with_faults(step, || {
                let hold = written(&path, "4");
                if is_refused {
                    steps::arm_fault(REFUSES_TO_WRITE_AGAIN).unwrap();
                }
                hold.close().unwrap();
            });
            match is_refused {
                true => stays_unclean(&path, "4"),
                false => is_clean(&path, "4"),
            }
        }
    }
}

/// A process that opens or closes a hold leaves no doubt unless it is killed.
#[test]
fn opening_and_closing_leave_no_doubt() {
    let test_dir = TestDir::file();
    let path = test_dir.path("it.hold");
    written(&path, "1").close().unwrap();
    let opens = stopped("open.marking", || drop(Hold::open(&path).unwrap()));
    written(&path, "2").close().unwrap();
    go_on(opens);
    with_faults("the next", || {
        let hold = written(&path, "3");
        steps::arm_fault(REFUSES_TO_WRITE_AGAIN).unwrap();
        hold.close().unwrap();
    });
    is_clean(&path, "3");
}

/// Without /proc a new file has its name before it is opened. Nothing of it is on the disk then.
#[test]
fn a_hold_that_was_never_synced_is_not_clean() {
    let test_dir = TestDir::file();
    let mut maker = Child::run("makes a hold", || {
        // So that it remembers the boot id.
        drop(Hold::create(test_dir.path("other.hold")).unwrap());
        if !nix::unistd::geteuid().is_root() {
            nix::sched::unshare(nix::sched::CloneFlags::CLONE_NEWUSER).unwrap();
        }
        nix::unistd::chroot(test_dir.dir()).unwrap();
        std::env::set_current_dir("/").unwrap();
        steps::arm("draft.committed:kill").unwrap();
        drop(Hold::create("/it.hold"));
    });
    assert_eq!(maker.wait(), End::By(Signal::SIGKILL));
    reboot(&test_dir.path("it.hold"));
    let error = Hold::open(test_dir.path("it.hold")).expect_err("it was never synced");
    assert_eq!(error.kind(), ErrorKind::Unclean, "{error}");
}

/// A process that cannot read the boot id any more, because it is in a chroot or another user by
/// now, opens a clean hold for writing. For all others the hold is still of this boot.
#[test]
fn a_process_that_cannot_read_the_boot_id_any_more_remembers_it() {
    let test_dir = TestDir::file();
    let path = test_dir.path("it.hold");
    with_faults("os.boot-id", || {
        written(&path, "1").close().unwrap();
        steps::arm_fault("os.boot-id:EACCES:always").unwrap();
        let hold = written(&path, "2");
        steps::arm_fault("").unwrap();
        has(&path, "2");
        hold.close().unwrap();
    });
    is_clean(&path, "2");
}
