//! The scans of a hold's origin, one by one.

use super::*;
use commonhold::map::MapOptions;
use commonhold::raw::{create_shadow_map, next_name, swap_in_shadow_map};
use commonhold_testing::support::standstill::{PATIENCE, go_on, stopped};

/// A replica puts another map in the place of its map, and stands still in the middle.
#[test]
fn a_map_that_is_being_replaced_was_not_dropped() {
    let directory = tempfile::tempdir_in("/dev/shm").unwrap();
    let path = directory.path().join("it.hold");
    let hold = Hold::options().lock_timeout(PATIENCE).open_or_create(&path).unwrap();
    let map = hold.maps().open_replica("it", MapOptions::general()).unwrap();
    map.set("first", "1").unwrap();
    let maps = ServedMaps::new(&hold, HoldOriginOptions::default()).unwrap();
    maps.scan();
    let served = || maps.all().iter().filter(|map| map.error.is_none()).count();
    assert_eq!((served(), maps.names_unless(None).unwrap().0), (1, 1));
    create_shadow_map(&hold, &next_name("it"), "it").unwrap().set("second", "2").unwrap();
    let still = stopped("shadow.committed", || {
        swap_in_shadow_map(&Hold::open(&path).unwrap(), &next_name("it"), "it").unwrap();
    });
    maps.scan();
    // Peers have no other list of names.
    assert_eq!((served(), maps.names_unless(None).unwrap().0), (1, 1));
    go_on(still);
    maps.scan();
    assert_eq!((served(), maps.names_unless(None).unwrap().0), (1, 1));
    hold.maps().drop("it").unwrap();
    maps.scan();
    assert_eq!((served(), maps.names_unless(None).unwrap().0), (0, 2));
}
