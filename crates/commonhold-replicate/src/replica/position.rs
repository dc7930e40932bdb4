//! The position of a replica, kept in the hold along with its data, and a slot that allows one
//! replica only.
//!
//! The position is stored after the data. So after a kill the replica may have applied more than
//! the stored position covers, which does no harm: applying a frame again gives the same result.
//! The range that it is about to apply is stored before. So a verifier that compares the replica
//! with its origin knows between which two positions it is, and so does the replica itself when it
//! comes back (`regain`).

use crate::lineage::{APPLIED, PROOF, proof_of, read};
use crate::origin_clock::OriginClock;
use crate::protocol::introduction::proof_bytes;
use commonhold::channel::{ChannelOptions, Producer};
use commonhold::map::{Map, MapOptions};
use commonhold::raw::{AS_OF, Incarnation, Proof, companion_name, has_replica, incarnation};
use commonhold::stream::StreamPosition;
use commonhold::{Error, ErrorKind, Hold, Result};

const APPLYING: &[u8; 8] = b"applying";
/// The last change before that position.
const APPLYING_PROOF: &[u8; 8] = b"ahead\0\0\0";
/// The incarnation of the map whose positions these are.
const MAP: &[u8; 8] = b"map\0\0\0\0\0";
/// The number of a stream, and the number of the stream of a later map, which has all its changes.
const REPLACED: &[u8; 8] = b"replaced";

/// See the module.
#[derive(Debug)]
pub(crate) struct StoredPosition {
    positions: Map,
    /// While it lives no other replica can begin: a channel has one producer.
    _slot: Producer,
}

impl StoredPosition {
    /// Takes the slot of the replica of this name.
    ///
    /// # Errors
    /// `Busy`, which names slot and process, if it is taken.
    pub(crate) fn take(hold: &Hold, map: &str) -> Result<StoredPosition> {
        let slot = hold
            .channels()
            .open_or_create(&companion_name("replica", map), ChannelOptions::new(4 << 10))?;
        let slot = slot.producer().map_err(|error| has_replica(map, error))?;
        Ok(StoredPosition { positions: open(hold, map)?, _slot: slot })
    }

    /// The position up to which everything is applied, if anything is.
    pub(crate) fn applied(&self) -> Result<Option<StreamPosition>> {
        read(&self.positions, APPLIED)
    }

    /// The position up to which something may be applied, and the last change before it.
    pub(crate) fn may_be_applied(&self) -> Result<Option<(StreamPosition, Option<Proof>)>> {
        let Some(position) = read(&self.positions, APPLYING)? else { return Ok(None) };
        Ok(Some((position, proof_of(&self.positions, APPLYING_PROOF, position)?)))
    }

    /// Stores the position up to which it may apply from now on, and the last change before it.
    pub(crate) fn applying(&self, position: StreamPosition, proof: Option<Proof>) -> Result<()> {
        // First: a position without its proof costs a full sync, and no harm is done.
        let offset = position.offset.to_le_bytes();
        self.positions.set(APPLYING_PROOF, [proof_bytes(proof), offset].concat())?;
        self.positions.set(APPLYING, bytes(position)).map(drop)
    }

    /// Stores the position up to which it has applied, and the last change before it.
    pub(crate) fn reached(&self, position: StreamPosition, proof: Option<Proof>) -> Result<()> {
        // First: a position with another one's proof is refused, and no harm is done.
        let offset = position.offset.to_le_bytes();
        self.positions.set(PROOF, [proof_bytes(proof), offset].concat())?;
        self.positions.set(APPLIED, bytes(position)).map(drop)
    }

    /// The last change before a position, if it is stored.
    pub(crate) fn proof(&self, position: StreamPosition) -> Result<Option<Proof>> {
        proof_of(&self.positions, PROOF, position)
    }

    /// Removes the position.
    pub(crate) fn forget(&self) -> Result<()> {
        self.positions.delete(APPLIED)?;
        self.positions.delete(APPLYING)?;
        self.positions.delete(AS_OF).map(drop)
    }

    /// Notes that a map whose stream has the number `by` takes the place of the one with the stream
    /// `old`, and has all its changes; with `None` that no such maps are known. Journals compare
    /// their files with this.
    pub(crate) fn note_replaced(&self, streams: Option<(u64, u64)>) -> Result<()> {
        match streams {
            Some((old, by)) => {
                self.positions.set(REPLACED, [old, by].map(u64::to_le_bytes).concat()).map(drop)
            }
            None => self.positions.delete(REPLACED).map(drop),
        }
    }

    /// Whether the positions are those of this map, and not of an earlier one of its name.
    pub(crate) fn is_of(&self, map: &Map) -> Result<bool> {
        is_of(&self.positions, map)
    }

    /// Notes that the positions are those of this map from now on.
    pub(crate) fn belongs_to(&self, map: &Map) -> Result<()> {
        self.positions.set(MAP, number(incarnation(map))).map(drop)
    }

    /// Notes the clock by which the pairs expire.
    pub(crate) fn note_clock(&self, clock: OriginClock) -> Result<()> {
        clock.note(&self.positions)
    }

    /// Notes that everything is here that the first origin had at a time.
    pub(crate) fn note_as_of(&self, as_of_ms: u64) -> Result<()> {
        self.positions.set(AS_OF, [as_of_ms, 0].map(u64::to_le_bytes).concat()).map(drop)
    }
}

fn open(hold: &Hold, map: &str) -> Result<Map> {
    hold.maps().open_or_create(&companion_name("applied", map), MapOptions::fixed(8, 16))
}

fn number(map: Incarnation) -> Vec<u8> {
    [map.root, map.number].map(u64::to_le_bytes).concat()
}

fn is_of(positions: &Map, map: &Map) -> Result<bool> {
    Ok(positions.get(MAP)?.is_some_and(|noted| noted == number(incarnation(map))))
}

/// The two positions of its origin's stream between which a replica is; `None` if it has none.
///
/// # Errors
/// `NotFound` if there is no replica of this name.
pub(crate) fn bounds(hold: &Hold, map: &str) -> Result<Option<(StreamPosition, StreamPosition)>> {
    let positions =
        hold.maps().open(&companion_name("applied", map)).map_err(|error| match error.kind() {
            ErrorKind::NotFound => not_a_replica(map),
            _ => error,
        })?;
    if !is_of(&positions, &commonhold::raw::open_unready_map(hold, map)?)? {
        // The replica's map may be changing at this moment. Otherwise it is none: the positions
        // are those of an earlier map.
        return match hold.channels().open(&companion_name("replica", map))?.producer() {
            Ok(_) => Err(not_a_replica(map)),
            Err(error) if error.kind() == ErrorKind::Busy => Ok(None),
            Err(error) => Err(error),
        };
    }
    let from = read(&positions, APPLIED)?;
    let to = read(&positions, APPLYING)?;
    Ok(from.zip(to).filter(|(from, to)| from.stream == to.stream))
}

/// Whether a map with the stream `by` has replaced one with the stream `old`, and has all its
/// changes, as far as the replica of this name knows.
///
/// # Errors
/// Those of reading the hold.
pub(crate) fn has_replaced(hold: &Hold, map: &str, old: u64, by: u64) -> Result<bool> {
    let noted = match hold.maps().open(&companion_name("applied", map)) {
        Err(error) if error.is_not_found() => return Ok(false),
        positions => positions?.get(REPLACED)?,
    };
    Ok(noted.is_some_and(|noted| noted == [old, by].map(u64::to_le_bytes).concat()))
}

fn not_a_replica(map: &str) -> Error {
    Error::new(ErrorKind::NotFound, format!("map '{map}' is not a replica"))
}

fn bytes(position: StreamPosition) -> [u8; 16] {
    let mut bytes = [0; 16];
    bytes[..8].copy_from_slice(&position.stream.to_le_bytes());
    bytes[8..].copy_from_slice(&position.offset.to_le_bytes());
    bytes
}
