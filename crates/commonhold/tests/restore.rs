//! Restoring a backup while its name changes hands, and on a disk that refuses a page.

use crate::support::process::Child;
use crate::support::test_dir::TestDir;
use commonhold::map::MapOptions;
use commonhold::{Hold, steps};
use std::path::Path;
use std::sync::Mutex;

/// A backup of a hold with that many pairs, each with this value.
fn backup(test_dir: &TestDir, backup: &Path, pairs: u32, value: &str) {
    let path = test_dir.path("origin.hold");
    let hold = Hold::create(&path).unwrap();
    let map = hold.maps().open_or_create("it", MapOptions::general()).unwrap();
    for id in 0..pairs {
        map.set(id.to_le_bytes(), value).unwrap();
    }
    hold.backup(backup).unwrap();
    drop((map, hold));
    std::fs::remove_file(&path).unwrap();
}

/// The backup is read twice. It was once opened twice too, and the second file could be another one.
#[test]
fn a_backup_that_loses_its_name_meanwhile_is_restored_as_a_whole() {
    for (old_pairs, new_pairs) in [(2_000, 10), (10, 2_000)] {
        let test_dir = TestDir::memory();
        let [old, new, target] = ["old", "new", "it.hold"].map(|name| test_dir.path(name));
        backup(&test_dir, &old, old_pairs, "old");
        backup(&test_dir, &new, new_pairs, "new");
        Child::run("restores", || {
            let (from, to) = (new.clone(), old.clone());
            steps::observe(move |name| {
                if name == "slot.claimed" && from.exists() {
                    std::fs::rename(&from, &to).unwrap();
                }
            });
            commonhold::hold::restore(&old, &target).unwrap();
        })
        .finish();
        assert!(!new.exists(), "the backup has kept its name");
        let map = Hold::open(&target).unwrap().maps().open("it").unwrap();
        assert_eq!(map.len().unwrap(), u64::from(old_pairs));
        assert!(map.iter().all(|pair| pair.unwrap().1 == b"old"), "pairs of the other backup");
    }
}

/// The sync of the page with the mark may fail. The system then shows the mark, and no later sync
/// reports that the disk lacks it, unless the page is written again.
#[test]
fn the_mark_of_a_restored_hold_is_written_again_before_its_last_sync() {
    static CALLS: Mutex<Vec<&str>> = Mutex::new(Vec::new());
    let test_dir = TestDir::file();
    let [copy, target] = ["copy", "it.hold"].map(|name| test_dir.path(name));
    backup(&test_dir, &copy, 10, "value");
    Child::run("restores", || {
        steps::observe_faults(|name| {
            if ["os.msync", "draft.hold-write", "draft.hold-sync"].contains(&name) {
                CALLS.lock().unwrap().push(name);
            }
        });
        // The second one is of the mark.
        steps::arm_fault("os.msync:EIO:once:2").unwrap();
        commonhold::hold::restore(&copy, &target).unwrap();
        let calls = CALLS.lock().unwrap();
        assert_eq!(*calls, ["os.msync", "os.msync", "draft.hold-write", "draft.hold-sync"]);
    })
    .finish();
    let refused = "draft.hold-write:EIO:once";
    Child::run(refused, || {
        std::fs::remove_file(&target).unwrap();
        steps::arm_fault(refused).unwrap();
        commonhold::hold::restore(&copy, &target).expect_err("the disk refuses the mark");
    })
    .finish();
    assert!(!target.exists(), "a hold without its mark");
}
