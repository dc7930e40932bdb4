//! Promoting a replica's map to the origin of its replicas.

use crate::lineage;
use crate::replica::position::bounds;
use commonhold::raw::open_unready_map;
use commonhold::stream::StreamPosition;
use commonhold::{Hold, Result};

/// A map that was a replica's.
#[derive(Clone, Debug, PartialEq, Eq, serde::Serialize)]
pub struct Promotion {
    /// The position of the old origin's stream that the map has reached: it lacks the changes
    /// behind it. `None` if it is not known.
    pub position: Option<StreamPosition>,
    /// The epoch of its lineage from now on: replicas that have seen it refuse the old origin.
    pub epoch: u64,
}

/// Makes a replica's map writable for every process, because its origin will not come back. An
/// origin that serves it from then on has the next epoch. Returns `None` if every process may
/// already write to the map.
///
/// # Errors
/// `Mismatch` if the map has only the keys of a prefix
/// ([`ReplicaOptions::prefix`](crate::ReplicaOptions::prefix)): its replicas would lose the others;
/// `Busy`, which names slot and process, while its replica lives; those of
/// [`Maps::promote`](commonhold::hold::Maps::promote).
pub fn promote(hold: &Hold, map: &str) -> Result<Option<Promotion>> {
    let reached = bounds(hold, map).ok().flatten().map(|(applied, _)| applied);
    lineage::ensure_whole(hold, &open_unready_map(hold, map)?, "become the origin")?;
    if !hold.maps().promote(map)? {
        return Ok(None);
    }
    let epoch = lineage::of_origin(hold, map)?.epoch;
    Ok(Some(Promotion { position: reached, epoch }))
}
