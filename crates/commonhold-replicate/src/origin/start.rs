//! Where the delivery for a replica begins: where it was, if its map is this one up to there, and
//! otherwise with the whole map.

use crate::delivery::{Delivery, EarlierChanges};
use crate::journal::backlog::Backlog;
use crate::lineage;
use crate::origin::Transmission;
use crate::origin::subscriber_table::SubscriberTable;
use crate::protocol::introduction::Lineage;
use crate::protocol::wire::Hello;
use commonhold::map::Map;
use commonhold::raw::{Proof, proof_at};
use commonhold::stream::StreamPosition;
use commonhold::{ErrorKind, Result};

/// The delivery for a replica with this greeting and this number.
///
/// # Errors
/// Those of following a map.
pub(super) fn delivery(
    table: &SubscriberTable,
    id: u64,
    map: &Map,
    hello: &Hello,
    own: &Lineage,
) -> Result<Delivery> {
    let known = hello.position.filter(|_| hello.lineage.0 == own.id);
    let make_room = || table.stream_room.make(map);
    let Some(at) = known else { return Delivery::begin(map, None, make_room) };
    let found = proof(table, map, at)?;
    if found == hello.proof {
        return Delivery::begin(map, known, make_room);
    }
    let last = hello.proof.filter(|_| found.is_none() && is_lapped(map, at));
    let earlier = last.and_then(|last| match earlier_changes(table, id, map, (at, last), hello) {
        Ok(earlier) => earlier,
        Err(error) => {
            table.note(&format!("cannot read the journal: {error}"));
            None
        }
    });
    match earlier {
        Some(earlier) => Delivery::begin_behind(map, at, earlier),
        None => Delivery::begin(map, None, make_room),
    }
}

/// The changes behind a position that the stream no longer has, from the map's journal; `None` if
/// it has none, did not help before, or is being read for too many others.
fn earlier_changes(
    table: &SubscriberTable,
    id: u64,
    map: &Map,
    from: (StreamPosition, Proof),
    hello: &Hello,
) -> Result<Option<impl EarlierChanges + use<>>> {
    // A journal may have changes that are not to be sent yet.
    let sends_all = table.options.transmission != Transmission::Explicit;
    if !sends_all || !table.catch_ups.has_place_for(from) {
        return Ok(None);
    }
    let Ok(prefix) = hello.prefix() else { return Ok(None) };
    let backlog = Backlog::of(&table.hold, map, from, prefix)?;
    let Some((backlog, waker)) = backlog.zip(table.waker(id)) else { return Ok(None) };
    table.catch_ups.begin(backlog, from, waker).map(Some)
}

fn is_lapped(map: &Map, at: StreamPosition) -> bool {
    map.follow_from(at).is_err_and(|error| error.kind() == ErrorKind::Lapped)
}

/// The change that ends at a position, if it is known here.
pub(super) fn proof(
    table: &SubscriberTable,
    map: &Map,
    position: StreamPosition,
) -> Result<Option<Proof>> {
    match proof_at(map.follow()?, position)? {
        // Of a replica whose stream begins there.
        None if map.is_replica() => lineage::stored_proof(&table.hold, map.name(), position),
        found => Ok(found),
    }
}
