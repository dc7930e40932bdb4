//! Tests of the records in one hold.

use super::*;
use commonhold::raw::{create_shadow_map, create_unready_map, next_name, swap_in_shadow_map};

/// Origins ask for the lineage at every moment of a rebuilding.
#[test]
fn a_map_that_is_rebuilt_while_it_is_served_continues_its_lineage() {
    let directory = tempfile::tempdir_in("/dev/shm").unwrap();
    let hold = Hold::create(directory.path().join("it.hold")).unwrap();
    hold.maps().create("it", MapOptions::general()).unwrap();
    let served = || of_origin(&hold, "it").unwrap();
    let (mut before, journaled) = (served(), served());
    // The journal has an earlier epoch than the map from the second time on.
    for epoch in 2..5 {
        hold.maps().drop("it").unwrap();
        assert!(of_origin(&hold, "it").is_err_and(|error| error.is_not_found()));
        create_unready_map(&hold, "it", MapOptions::general()).unwrap();
        assert!(!served().is_known());
        create_shadow_map(&hold, &next_name("it"), "it").unwrap();
        swap_in_shadow_map(&hold, &next_name("it"), "it").unwrap();
        assert!(!served().is_known());
        rebuilt(&hold, "it", &journaled).unwrap();
        assert!(!served().is_known());
        hold.maps().promote("it").unwrap();
        let after = served();
        assert_eq!((after.id, after.epoch), (before.id, epoch));
        before = after;
    }
}
