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

/// An attempt may read the whole file.
#[test]
fn a_map_that_fails_is_tried_again_after_growing_pauses() {
    let directory = tempfile::tempdir_in("/dev/shm").unwrap();
    let hold = Hold::create(directory.path().join("it.hold")).unwrap();
    hold.maps().create("bad", MapOptions::general()).unwrap();
    let journals = directory.path().join("journals");
    std::fs::create_dir_all(journals.join("bad.journal")).unwrap();
    let catalogue = CatalogueWriter::open(&journals).unwrap();
    let shared = Arc::new(Shared::new().unwrap());
    let (options, patterns) = (HoldJournalOptions::default(), Patterns::default());
    let mut maps = JournaledMaps::new(&hold, &journals, options, patterns, catalogue, &shared);
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
    let is_recorded =
        |maps: &mut std::collections::BTreeMap<_, _>| matches!(maps["bad"], Place::Recorded(_));
    assert!(shared.change(is_recorded));
}
