//! Rotated backups: kills between any two renames, and errors, leave the newest complete backup
//! under the first or the second name.

use crate::support::process::{Child, End};
use crate::support::standstill::{go_on, stopped};
use crate::support::test_dir::TestDir;
use commonhold::hold::backup_contents;
use commonhold::map::MapOptions;
use commonhold::{ErrorKind, Hold, steps};
use nix::sys::signal::Signal;
use std::path::Path;
use std::time::Duration;

const KEEP: u32 = 4;

/// A hold of which the next backup has that many pairs.
fn hold_with(test_dir: &TestDir, pairs: u64) -> Hold {
    let hold = Hold::open_or_create(test_dir.path("it.hold")).unwrap();
    let map = hold.maps().open_or_create("pairs", MapOptions::general()).unwrap();
    for id in map.len().unwrap()..pairs {
        map.set(id.to_le_bytes(), "value").unwrap();
    }
    hold
}

fn rotate(test_dir: &TestDir, pairs: u64) {
    hold_with(test_dir, pairs).backup_rotated(test_dir.path("backup"), KEEP).unwrap();
}

/// The numbers of pairs of the backups that are there, by name; all of them are sound.
fn found(dir: &Path) -> Vec<(String, u64)> {
    let names = std::fs::read_dir(dir).unwrap();
    let names = names.map(|entry| entry.unwrap().file_name().into_string().unwrap());
    let mut backups: Vec<_> = names
        .filter(|name| name != "it.hold")
        .map(|name| {
            let contents = backup_contents(dir.join(&name)).unwrap();
            assert!(contents.damage.is_empty(), "{name}: {:?}", contents.damage);
            (name, contents.pairs)
        })
        .collect();
    backups.sort();
    backups
}

fn named(pairs: &[u64]) -> Vec<(String, u64)> {
    let name = |age: usize| if age == 0 { "backup".to_owned() } else { format!("backup.{age}") };
    pairs.iter().enumerate().map(|(age, pairs)| (name(age), *pairs)).collect()
}

#[test]
fn the_last_backups_are_kept_and_the_oldest_is_deleted() {
    let test_dir = TestDir::memory();
    for newest in 1..=7u64 {
        rotate(&test_dir, newest);
        let expected: Vec<u64> = (1..=newest).rev().take(KEEP as usize).collect();
        assert_eq!(found(test_dir.dir()), named(&expected));
    }
    // Fewer to keep: the others are not touched.
    hold_with(&test_dir, 8).backup_rotated(test_dir.path("backup"), 1).unwrap();
    assert_eq!(found(test_dir.dir()), named(&[8, 6, 5, 4]));
    let error = hold_with(&test_dir, 8).backup_rotated(test_dir.path("backup"), 0).unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Invalid);
}

#[test]
fn a_kill_between_renames_loses_no_backup_but_the_oldest() {
    // Four backups: three renames, of which the first one replaces the oldest.
    let killed = [
        ("backup.moved", 1, vec![("backup", 4), ("backup.1", 3), ("backup.3", 2)]),
        ("backup.moved", 2, vec![("backup", 4), ("backup.2", 3), ("backup.3", 2)]),
        ("backup.moved", 3, vec![("backup.1", 4), ("backup.2", 3), ("backup.3", 2)]),
        ("draft.committed", 1, vec![("backup", 5), ("backup.1", 4), ("backup.2", 3)]),
    ];
    for (step, passing, left) in killed {
        let test_dir = TestDir::memory();
        (1..=4).for_each(|pairs| rotate(&test_dir, pairs));
        let mut victim = Child::run(format!("killed at {step}, {passing}"), || {
            steps::arm(&format!("{step}:kill:{passing}")).unwrap();
            rotate(&test_dir, 5);
        });
        assert_eq!(victim.wait(), End::By(Signal::SIGKILL), "{step}, {passing}");
        let mut expected: Vec<_> =
            left.into_iter().map(|(name, pairs)| (name.to_owned(), pairs)).collect();
        if step == "draft.committed" {
            expected.push(("backup.3".to_owned(), 2));
        }
        assert_eq!(found(test_dir.dir()), expected, "{step}, {passing}");
        // The next one uses the free name, and so loses none.
        rotate(&test_dir, 6);
        let pairs: Vec<u64> = expected.iter().map(|(_, pairs)| *pairs).collect();
        let newest: Vec<u64> = [6].into_iter().chain(pairs).take(KEEP as usize).collect();
        assert_eq!(found(test_dir.dir()), named(&newest), "{step}, {passing}");
    }
}

#[test]
fn an_error_leaves_the_earlier_backups() {
    let faults = [
        ("backup.write:ENOSPC:once", named(&[4, 3, 2, 1])),
        ("backup.sync:EIO:once", named(&[4, 3, 2, 1])),
        ("backup.rename:EIO:once", named(&[4, 3, 2, 1])),
        // The first look, and the third one of the renaming.
        ("backup.directory:EMFILE:once", named(&[4, 3, 2, 1])),
        ("backup.stat:EIO:once", named(&[4, 3, 2, 1])),
        ("backup.stat:EIO:once:13", named(&[4, 3, 2, 1])),
        // It may be a backup that cannot be read now.
        ("backup.look:EMFILE:once", named(&[4, 3, 2, 1])),
        ("backup.look:EACCES:once:6", named(&[4, 3, 2, 1])),
        ("draft.link:ENOSPC:once", {
            let moved = named(&[0, 4, 3, 2]);
            moved[1..].to_vec()
        }),
    ];
    for (fault, left) in faults {
        let test_dir = TestDir::memory();
        (1..=4).for_each(|pairs| rotate(&test_dir, pairs));
        let path = test_dir.path("backup");
        Child::run(fault, || {
            let hold = hold_with(&test_dir, 5);
            steps::arm_fault(fault).unwrap();
            let error = hold.backup_rotated(&path, KEEP).unwrap_err();
            assert!(error.to_string().contains("backup"), "{error}");
            assert!(error.kind() != ErrorKind::Exists, "{error}");
        })
        .finish();
        assert_eq!(found(test_dir.dir()), left, "{fault}");
        rotate(&test_dir, 6);
        assert_eq!(found(test_dir.dir()), named(&[6, 4, 3, 2]), "{fault}");
    }
}

/// A mistyped name would lead to the end of another file.
#[test]
fn a_file_that_is_not_a_backup_is_not_rotated() {
    for name in ["backup", "backup.2"] {
        let test_dir = TestDir::memory();
        rotate(&test_dir, 1);
        rotate(&test_dir, 2);
        std::fs::write(test_dir.path(name), "letters").unwrap();
        let hold = hold_with(&test_dir, 3);
        let error = hold.backup_rotated(test_dir.path("backup"), KEEP).unwrap_err();
        assert_eq!(error.kind(), ErrorKind::Exists, "{error}");
        assert!(error.to_string().contains(&format!("{name}: exists and is not a backup")));
        assert_eq!(std::fs::read(test_dir.path(name)).unwrap(), b"letters");
    }
    let test_dir = TestDir::memory();
    let hold = hold_with(&test_dir, 3);
    let error = hold.backup_rotated(test_dir.path("it.hold"), KEEP).unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Exists, "{error}");
    assert!(hold.check().unwrap().ok);
}

/// Any number of backups may be kept. The names behind an unused one are not looked at.
#[test]
fn any_number_of_backups_may_be_kept() {
    let test_dir = TestDir::memory();
    for pairs in 1..=3 {
        hold_with(&test_dir, pairs).backup_rotated(test_dir.path("backup"), u32::MAX).unwrap();
    }
    assert_eq!(found(test_dir.dir()), named(&[3, 2, 1]));
}

/// The process changes its directory while it copies.
#[test]
fn a_relative_name_stays_in_the_directory_of_the_call() {
    let (test_dir, other) = (TestDir::memory(), TestDir::memory());
    rotate(&test_dir, 1);
    Child::run("rotates", || {
        std::env::set_current_dir(test_dir.dir()).unwrap();
        let elsewhere = other.dir().to_owned();
        steps::observe(move |step| {
            if step == "backup.begun" {
                std::env::set_current_dir(&elsewhere).unwrap();
            }
        });
        hold_with(&test_dir, 2).backup_rotated("backup", KEEP).unwrap();
    })
    .finish();
    assert_eq!(found(test_dir.dir()), named(&[2, 1]));
}

/// The only backup is replaced. If that fails, it has kept its name, and the error names no other.
#[test]
fn an_error_with_one_backup_to_keep_names_no_other() {
    let test_dir = TestDir::memory();
    rotate(&test_dir, 1);
    Child::run("rotates", || {
        steps::arm_fault("draft.link:ENOSPC:once").unwrap();
        let failed = hold_with(&test_dir, 2).backup_rotated(test_dir.path("backup"), 1);
        let error = failed.unwrap_err();
        assert!(!error.to_string().contains(".1"), "{error}");
    })
    .finish();
    assert_eq!(found(test_dir.dir()), named(&[1]));
}

/// A process that is stopped when its copy is complete goes on behind a newer backup, which may
/// have begun earlier. A newer backup may also have the second name.
#[test]
fn an_older_copy_does_not_replace_a_newer_backup() {
    for (keep, begins_first) in [(1, false), (1, true), (3, false), (3, true)] {
        let test_dir = TestDir::memory();
        rotate(&test_dir, 1);
        let rotate = |pairs| {
            hold_with(&test_dir, pairs).backup_rotated(test_dir.path("backup"), keep).map(drop)
        };
        // In its first pass.
        let slow = begins_first.then(|| stopped("backup.begun", || rotate(3).unwrap()));
        let still = stopped("backup.copied", || {
            assert_eq!(rotate(2).unwrap_err().kind(), ErrorKind::Busy);
        });
        std::thread::sleep(Duration::from_millis(5));
        match slow {
            Some(slow) => go_on(slow),
            None => rotate(3).unwrap(),
        }
        if keep > 1 && !begins_first {
            std::fs::rename(test_dir.path("backup"), test_dir.path("backup.1")).unwrap();
        }
        go_on(still);
        let newest = found(test_dir.dir()).iter().map(|(_, pairs)| *pairs).max();
        assert_eq!(newest, Some(3));
        assert_eq!(found(test_dir.dir())[0].1, 3, "keeping {keep}, {begins_first}");
    }
}

/// A process that is stopped between two renames keeps others from rotating, for as long as a call
/// waits.
#[test]
fn a_stopped_rotation_delays_the_next_for_its_timeout() {
    let test_dir = TestDir::memory();
    (1..=2).for_each(|pairs| rotate(&test_dir, pairs));
    let still = stopped("backup.moved", || rotate(&test_dir, 3));
    let timeout = Duration::from_millis(50);
    let hold = Hold::options().lock_timeout(timeout).open(test_dir.path("it.hold")).unwrap();
    let rotated = hold.backup_rotated(test_dir.path("backup"), KEEP);
    assert_eq!(rotated.unwrap_err().kind(), ErrorKind::TimedOut);
    assert_eq!(found(test_dir.dir())[0].1, 2, "the newest complete backup is there");
    go_on(still);
    assert_eq!(found(test_dir.dir()), named(&[3, 2, 1]));
}
