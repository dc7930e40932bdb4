//! The scans of a hold's journals, one by one.

use super::*;
use commonhold::map::MapOptions;

/// The pause after the next failure of this map.
fn pause_of(maps: &JournaledMaps, name: &str) -> GrowingPause {
    maps.shared.change(|maps| match maps.get(name) {
        Some(Place::Failed(failed)) => failed.pause,
        _ => panic!("{name} has not failed"),
    })
}

/// It is time to try this map again.
fn make_due(maps: &JournaledMaps, name: &str) {
    maps.shared.change(|maps| {
        if let Some(Place::Failed(failed)) = maps.get_mut(name) {
            failed.again = Instant::now();
        }
    });
}

fn is_recorded(maps: &JournaledMaps, name: &str) -> bool {
    maps.shared.change(|maps| matches!(maps.get(name), Some(Place::Recorded(_))))
}

/// The journals in this directory, which have not begun.
fn journaled(hold: &Hold, directory: &Path, rebuild: bool) -> JournaledMaps {
    std::fs::create_dir_all(directory).unwrap();
    let catalogue = CatalogueWriter::open(directory).unwrap();
    let shared = Arc::new(Shared::new().unwrap());
    let options = HoldJournalOptions { rebuild, ..HoldJournalOptions::default() };
    JournaledMaps::new(hold, directory, options, Patterns::default(), catalogue, &shared)
}

/// An attempt may read the whole file.
#[test]
fn a_map_that_fails_is_tried_again_after_growing_pauses() {
    let directory = tempfile::tempdir_in("/dev/shm").unwrap();
    let hold = Hold::create(directory.path().join("it.hold")).unwrap();
    hold.maps().create("bad", MapOptions::general()).unwrap();
    let journals = directory.path().join("journals");
    std::fs::create_dir_all(journals.join("bad.journal")).unwrap();
    let mut maps = journaled(&hold, &journals, false);
    let mut expected = GrowingPause::new(AGAIN, AGAIN_AT_MOST);
    for _ in 0..10 {
        make_due(&maps, "bad");
        maps.scan();
        expected.after_failure();
        assert_eq!(pause_of(&maps, "bad"), expected);
        // It is not due yet.
        maps.shared.change(|maps| {
            if let Some(Place::Failed(failed)) = maps.get_mut("bad") {
                failed.again += AGAIN_AT_MOST;
            }
        });
        maps.scan();
        assert_eq!(pause_of(&maps, "bad"), expected);
    }
    std::fs::remove_dir(journals.join("bad.journal")).unwrap();
    make_due(&maps, "bad");
    maps.scan();
    assert!(is_recorded(&maps, "bad"));
}

/// A hold with a map, whose journal has ended.
#[cfg(feature = "steps")]
fn recorded(directory: &Path) -> (PathBuf, PathBuf) {
    let (path, journals) = (directory.join("it.hold"), directory.join("journals"));
    let hold = Hold::create(&path).unwrap();
    let map = hold.maps().create("apples", MapOptions::general()).unwrap();
    map.set("sort", "Cox").unwrap();
    crate::HoldJournal::start(&hold, &journals, HoldJournalOptions::default())
        .unwrap()
        .finish()
        .unwrap();
    (path, journals)
}

/// Rebuilds the map, as the user wants, and is killed on the way.
#[cfg(feature = "steps")]
fn kill_rebuilding(path: &Path, journals: &Path, step: &str) {
    use commonhold_testing::support::standstill::killed;
    killed(step, || drop(journaled(&Hold::open(path).unwrap(), journals, true).restore()));
}

/// Steps and faults are the whole process's.
#[cfg(feature = "steps")]
#[test]
fn a_rebuilding_that_was_interrupted_is_repeated_after_an_error() {
    use commonhold_testing::support::process::Child;
    for step in ["stream.begun", "shadow.committed", "create.live"] {
        let directory = tempfile::tempdir_in("/dev/shm").unwrap();
        let (path, journals) = recorded(directory.path());
        kill_rebuilding(&path, &journals, step);
        Child::run(step, || {
            let hold = Hold::open(&path).unwrap();
            let mut maps = journaled(&hold, &journals, false);
            crate::faults::arm("journal.open:EIO:once").unwrap();
            assert!(maps.restore().is_empty());
            pause_of(&maps, "apples");
            make_due(&maps, "apples");
            maps.scan();
            assert!(is_recorded(&maps, "apples"), "{step}");
            assert_eq!(maps.catalogue.catalogue.present("apples").unwrap().number, 1);
            let map = hold.maps().open("apples").unwrap();
            assert_eq!(map.get("sort").unwrap().as_deref(), Some(b"Cox".as_slice()), "{step}");
        })
        .finish();
    }
}

/// Twice: in a rebuilding for which the user has dropped the map, and when the journal repeats it.
#[cfg(feature = "steps")]
#[test]
fn a_rebuilding_may_be_killed_again() {
    use commonhold_testing::support::standstill::killed;
    let directory = tempfile::tempdir_in("/dev/shm").unwrap();
    let (path, journals) = recorded(directory.path());
    let hold = || Hold::open(&path).unwrap();
    killed("stream.begun", || {
        let options = HoldJournalOptions { rebuild: true, ..HoldJournalOptions::default() };
        drop(crate::rebuild_hold(&hold(), &journals, None, &options));
    });
    killed("drop.done", || drop(journaled(&hold(), &journals, false).restore()));
    let hold = hold();
    let mut maps = journaled(&hold, &journals, false);
    assert_eq!(maps.restore().len(), 1);
    maps.scan();
    assert_eq!(maps.catalogue.catalogue.present("apples").unwrap().number, 1);
    assert!(is_recorded(&maps, "apples"));
}
