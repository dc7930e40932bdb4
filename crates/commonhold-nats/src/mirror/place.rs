//! The position of a mirror, kept in the hold with its map, and a slot that allows one mirror or
//! replica only.
//!
//! The position names the change that the mirror *applies next*, and is stored before that change.
//! So after a kill everything before it is in the map, nothing behind it is, and it may be there or
//! not. The mirror then continues with this very change: a change of a key has the same result
//! when it is applied twice. No reader ever sees an older value again.
//!
//! One value of one hidden map contains the whole position, so it changes in one step: the bucket
//! and its creation, the change's number and time, how values expire, and the incarnation of the
//! map that it is about.

use crate::bucket::Bucket;
use commonhold::channel::{ChannelOptions, Producer};
use commonhold::map::{Map, MapOptions};
use commonhold::raw::{AS_OF, Incarnation, companion_name, has_replica, incarnation};
use commonhold::{Hold, Result};

const KEY: &str = "position";
/// Bytes of the numbers.
const NUMBERS: usize = 56;

/// A change of a bucket.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Position {
    /// When the bucket was created.
    pub(crate) created_ns: i64,
    /// The number of the change.
    pub(crate) sequence: u64,
    /// When the server stored it: after a loss, the number may be that of another change.
    pub(crate) time_ns: i64,
    /// The change is in the map, and not only about to be applied.
    pub(crate) is_applied: bool,
    /// How values expired when the map was filled.
    pub(crate) expiry: u64,
}

impl Position {
    fn bytes(&self, map: Incarnation, source: &str) -> Vec<u8> {
        let numbers = [
            self.created_ns as u64,
            self.sequence,
            self.time_ns as u64,
            self.is_applied.into(),
            self.expiry,
            map.root,
            map.number,
        ];
        [&numbers.map(u64::to_le_bytes).concat(), source.as_bytes()].concat()
    }

    /// The position in these bytes, if it is one of this map and this source.
    fn of_bytes(bytes: &[u8], map: Incarnation, source: &str) -> Option<Position> {
        let (numbers, of) = bytes.split_at_checked(NUMBERS)?;
        let (numbers, _) = numbers.as_chunks();
        let numbers: Vec<u64> = numbers.iter().map(|bytes| u64::from_le_bytes(*bytes)).collect();
        let is_own = of == source.as_bytes() && numbers[5..] == [map.root, map.number];
        is_own.then(|| Position {
            created_ns: numbers[0] as i64,
            sequence: numbers[1],
            time_ns: numbers[2] as i64,
            is_applied: numbers[3] != 0,
            expiry: numbers[4],
        })
    }
}

/// The other identity in a position, besides the map: the bucket, and how its keys are read.
fn source(bucket: &Bucket) -> String {
    format!("{} {}", bucket.stream(), bucket.key_style().name())
}

fn notes(hold: &Hold, map: &str) -> Result<Map> {
    hold.maps().open_or_create(&companion_name("mirror", map), MapOptions::general())
}

/// The stored position of the mirror of this bucket, if this is its map.
///
/// # Errors
/// Those of reading a map.
pub(crate) fn stored(hold: &Hold, map: &Map, bucket: &Bucket) -> Result<Option<Position>> {
    let notes = match hold.maps().open(&companion_name("mirror", map.name())) {
        Err(error) if error.is_not_found() => return Ok(None),
        notes => notes?,
    };
    let bytes = notes.get(KEY)?;
    let read = |bytes: Vec<u8>| Position::of_bytes(&bytes, incarnation(map), &source(bucket));
    Ok(bytes.and_then(read))
}

/// See the module.
#[derive(Debug)]
pub(crate) struct Place {
    notes: Map,
    /// Where every replica stores the age of its map.
    applied: Map,
    source: String,
    /// The map that the position is about.
    of: Option<Incarnation>,
    position: Position,
    is_stored: bool,
    /// While it lives no other mirror or replica can begin: a channel has one producer.
    _slot: Producer,
}

impl Place {
    /// Takes the slot of the map of this name.
    ///
    /// # Errors
    /// `Busy`, which names slot and process, if it is taken.
    pub(crate) fn take(hold: &Hold, map: &str, bucket: &Bucket) -> Result<Place> {
        let slot = hold
            .channels()
            .open_or_create(&companion_name("replica", map), ChannelOptions::new(4 << 10))?;
        let slot = slot.producer().map_err(|error| has_replica(map, error))?;
        let applied = companion_name("applied", map);
        let applied = hold.maps().open_or_create(&applied, MapOptions::fixed(8, 16))?;
        Ok(Place {
            notes: notes(hold, map)?,
            applied,
            source: source(bucket),
            of: None,
            position: Position::default(),
            is_stored: false,
            _slot: slot,
        })
    }

    /// The stored position, if it is about this map.
    pub(crate) fn load(&mut self, map: &Map) -> Result<Option<Position>> {
        let bytes = self.notes.get(KEY)?;
        let read = |bytes: Vec<u8>| Position::of_bytes(&bytes, incarnation(map), &self.source);
        Ok(bytes.and_then(read))
    }

    /// The present position.
    pub(crate) fn position(&self) -> Position {
        self.position
    }

    /// Begins at a position of this map.
    pub(crate) fn begin(&mut self, map: &Map, position: Position) -> Result<()> {
        (self.of, self.position, self.is_stored) = (Some(incarnation(map)), position, false);
        self.store()
    }

    /// Stores that this change is applied next.
    pub(crate) fn applies(&mut self, sequence: u64, time_ns: i64) -> Result<()> {
        self.position = Position { sequence, time_ns, is_applied: false, ..self.position };
        self.is_stored = false;
        self.store()
    }

    /// Notes that the change was applied, without storing that.
    pub(crate) fn applied(&mut self) {
        (self.position.is_applied, self.is_stored) = (true, false);
    }

    /// Stores the position, if it is not stored.
    pub(crate) fn store(&mut self) -> Result<()> {
        if let Some(map) = self.of.filter(|_| !self.is_stored) {
            self.notes.set(KEY, self.position.bytes(map, &self.source))?;
            self.is_stored = true;
        }
        Ok(())
    }

    /// Removes the position: the map is read whole again.
    pub(crate) fn forget(&mut self) -> Result<()> {
        self.of = None;
        self.applied.delete(AS_OF)?;
        self.notes.delete(KEY).map(drop)
    }

    /// Notes that everything is here that the bucket had at a time.
    pub(crate) fn note_as_of(&self, as_of_ms: u64) -> Result<()> {
        self.applied.set(AS_OF, [as_of_ms, 0].map(u64::to_le_bytes).concat()).map(drop)
    }
}
