//! Maps that are missing in a list of names: whether they were dropped.

use crate::holds::ending::Ending;
use commonhold::raw::open_unready_map;
use commonhold::{ErrorKind, Hold};
use std::time::Duration;

/// When a map that is missing is looked for a second time: a replica's full sync may be replacing
/// it at this moment.
const LOOK_AGAIN: Duration = Duration::from_millis(250);

/// Those that exist neither now nor a moment later. While a full sync puts another map in the place
/// of a replica's, the list of names may lack it; and if the new map has another mode, no map has
/// this name between two steps of the sync. None if the threads have to end meanwhile.
pub(super) fn dropped<T>(
    hold: &Hold,
    ending: &Ending,
    mut missing: Vec<T>,
    name: impl Fn(&T) -> &str,
) -> Vec<T> {
    let is_absent = |map: &T| match open_unready_map(hold, name(map)) {
        Ok(_) => false,
        // Another structure has the name.
        Err(error) => error.is_not_found() || error.kind() == ErrorKind::Mismatch,
    };
    missing.retain(is_absent);
    if missing.is_empty() || ending.sleep(LOOK_AGAIN) {
        return Vec::new();
    }
    missing.retain(is_absent);
    missing
}
