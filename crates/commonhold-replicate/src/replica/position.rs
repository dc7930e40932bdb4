//! The position of a replica, kept in the hold along with its data, and a slot that allows one
//! replica only.
//!
//! The position is stored after the data. So after a kill the replica may have applied more than
//! the stored position covers, which does no harm: applying a frame again gives the same result.
//! The range that it is about to apply is stored before. So a verifier that compares the replica
//! with its origin knows between which two positions it is, and so does the replica itself when it
//! comes back (`regain`).

use commonhold::channel::{ChannelOptions, Producer};
use commonhold::map::{Map, MapOptions};
use commonhold::stream::StreamPosition;
use commonhold::{Error, ErrorKind, Hold, Result};

/// The name of a structure that belongs to the map of this name.
fn companion_name(what: &str, map: &str) -> String {
    format!(".{what}/{map}")
}

/// The name of the shadow map.
pub(crate) fn next_name(map: &str) -> String {
    companion_name("next", map)
}

const APPLIED: &[u8; 8] = b"applied\0";
const APPLYING: &[u8; 8] = b"applying";

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
        let slot = slot.producer().map_err(|error| match error.kind() {
            ErrorKind::Busy => {
                let text = format!("map '{map}' already has a replica: {error}");
                Error::new(ErrorKind::Busy, text)
            }
            _ => error,
        })?;
        Ok(StoredPosition { positions: open(hold, map)?, _slot: slot })
    }

    /// The position up to which everything is applied, if anything is.
    pub(crate) fn applied(&self) -> Result<Option<StreamPosition>> {
        read(&self.positions, APPLIED)
    }

    /// The position up to which something may be applied.
    pub(crate) fn may_be_applied(&self) -> Result<Option<StreamPosition>> {
        read(&self.positions, APPLYING)
    }

    /// Stores the position up to which it may apply from now on.
    pub(crate) fn applying(&self, position: StreamPosition) -> Result<()> {
        self.positions.set(APPLYING, bytes(position)).map(drop)
    }

    /// Stores the position up to which it has applied.
    pub(crate) fn reached(&self, position: StreamPosition) -> Result<()> {
        self.positions.set(APPLIED, bytes(position)).map(drop)
    }

    /// Removes the position.
    pub(crate) fn forget(&self) -> Result<()> {
        self.positions.delete(APPLIED)?;
        self.positions.delete(APPLYING).map(drop)
    }
}

fn open(hold: &Hold, map: &str) -> Result<Map> {
    hold.maps().open_or_create(&companion_name("applied", map), MapOptions::fixed(8, 16))
}

/// The two positions of its origin's stream between which a replica is; `None` if it has none.
///
/// # Errors
/// `NotFound` if there is no replica of this name.
pub(crate) fn bounds(hold: &Hold, map: &str) -> Result<Option<(StreamPosition, StreamPosition)>> {
    let positions =
        hold.maps().open(&companion_name("applied", map)).map_err(|error| match error.kind() {
            ErrorKind::NotFound => {
                let text = format!("map '{map}' is not a replica");
                Error::new(ErrorKind::NotFound, text)
            }
            _ => error,
        })?;
    let from = read(&positions, APPLIED)?;
    let to = read(&positions, APPLYING)?;
    Ok(from.zip(to).filter(|(from, to)| from.stream == to.stream))
}

fn bytes(position: StreamPosition) -> [u8; 16] {
    let mut bytes = [0; 16];
    bytes[..8].copy_from_slice(&position.stream.to_le_bytes());
    bytes[8..].copy_from_slice(&position.offset.to_le_bytes());
    bytes
}

fn read(positions: &Map, key: &[u8; 8]) -> Result<Option<StreamPosition>> {
    let Some(value) = positions.get(key)? else { return Ok(None) };
    let half = |at: usize| value.get(at..at + 8)?.try_into().ok().map(u64::from_le_bytes);
    Ok(half(0).zip(half(8)).map(|(stream, offset)| StreamPosition { stream, offset }))
}
