//! Shadow maps by name: what a replica uses to replace its whole map in one step.

use crate::error::Result;
use crate::hold::handle::Hold;
use crate::map::api::handle::Map;
use crate::map::engine::shadow_map;
use crate::map::options::MapOptions;
use crate::stream::own::Resizing;
use crate::stream::position::StreamPosition;
use std::sync::atomic::Ordering;

/// Creates an empty replica's map called `next`, with the options of the map called `name`. The
/// replica fills it and then lets it [take the place](swap_in_shadow_map) of that map. An existing
/// map `next` is dropped first.
///
/// # Errors
/// `NotFound` if there is no map `name`; `Mismatch` if one of them is not a replica's; those of
/// [`open_replica`](crate::hold::Maps::open_replica).
pub fn create_shadow_map(hold: &Hold, next: &str, name: &str) -> Result<Map> {
    let map = hold.maps().open_unready(name)?;
    if !map.is_replica() {
        return Err(shadow_map::not_a_replica(name));
    }
    match hold.maps().open(next) {
        Ok(old) if old.is_replica() => drop(hold.maps().drop(next)?),
        Ok(_) => return Err(shadow_map::not_a_replica(next)),
        Err(error) if error.is_not_found() => {}
        Err(error) => return Err(error),
    }
    let seed = Some(map.bound.root(hold.space()).seed.load(Ordering::Relaxed));
    let options = MapOptions { seed, unready: false, ..map.options().clone() };
    hold.maps().open_replica(next, options)
}

/// Creates a replica's map without contents, which nobody may open until a shadow map
/// [takes its place](swap_in_shadow_map). An existing replica's map is opened.
///
/// # Errors
/// Those of [`open_replica`](crate::hold::Maps::open_replica).
pub fn create_unready_map(hold: &Hold, name: &str, options: MapOptions) -> Result<Map> {
    hold.maps().open_replica(name, MapOptions { unready: true, ..options })
}

/// Opens a map, also if it is a replica's without contents.
///
/// # Errors
/// Those of [`open`](crate::hold::Maps::open).
pub fn open_unready_map(hold: &Hold, name: &str) -> Result<Map> {
    hold.maps().open_unready(name)
}

/// The names of a hold's maps, in no order, without Commonhold's own, and without the work of
/// counting pairs. Maps without contents are among them.
///
/// # Errors
/// `Closed`; `Damaged`.
pub fn map_names(hold: &Hold) -> Result<Vec<String>> {
    hold.maps().names()
}

/// Begins a map's stream at a position of another map's stream, with the number of that stream.
/// False if the map has a stream already. If a resizing of the map's stream was killed, the stream
/// begins with a number of its own, so that followers of the stream before notice that.
///
/// # Errors
/// Those of [`begin_stream`](crate::hold::Maps::begin_stream).
pub fn begin_stream_at(hold: &Hold, name: &str, bytes: u64, at: StreamPosition) -> Result<bool> {
    hold.maps().begin_stream_at(name, (bytes, Resizing::Never), Some(at))
}

/// Gives the replica's map `next` the name of the replica's map `name`, in one step, and drops the
/// old map of that name. Handles on the old map continue with the new one from their next reading
/// operation on; a write through them fails with `NotFound`, because the replica has a handle on
/// the new map. A reader sees all of the old map or all of the new one, and an iteration
/// ([`Map::iter`]) under way continues in the new one. Followers of the old map's stream get
/// `NotFound`. If the process dies meanwhile, the swap has happened or it has not.
///
/// # Errors
/// `NotFound`; `Mismatch` if one of them is not a replica's or if they have different modes; those
/// of [`drop`](crate::hold::Maps::drop).
pub fn swap_in_shadow_map(hold: &Hold, next: &str, name: &str) -> Result<()> {
    shadow_map::swap_in(hold.arena(), next, name)
}
