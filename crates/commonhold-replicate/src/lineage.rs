//! Where a map of a hold comes from, kept in the hold: a hidden map `.lineage/NAME` for each.
//!
//! The record of an original origin is made when the map is first served or recorded in a journal,
//! and stays with the name: a map that is dropped and created again is served with the same
//! lineage. The record of a replica is what its origin has sent, and belongs to the replica's map.
//! If that map is an ordinary one by now, it was promoted: the lineage stays, and its epoch grows
//! by one. While the replica drops that map for one of another mode, the record belongs to the next
//! map of the name that has no contents yet.
//!
//! Backups contain the records, and journals the lineage. A map that was restored, or rebuilt from
//! a journal, continues its lineage as a promoted replica does: with the next epoch. So its
//! replicas receive the whole map, and from then on they refuse the map that it replaces. While a
//! map is being rebuilt, it is a replica's map without a record of its own: the record of the
//! original origin stays, and says which epochs its replicas have seen.
//!
//! A replica may have only the keys of a prefix. Its map serves no replica and has no journal, and
//! if it was promoted or restored, it is another map: its lineage is a new one.

use crate::protocol::introduction::{Introduction, Lineage, read_proof};
use crate::protocol::key_prefix::KeyPrefix;
use crate::protocol::secret;
use crate::protocol::wire::{long, now_ms};
use commonhold::map::{Map, MapOptions};
use commonhold::raw::{
    AS_OF, Incarnation, Proof, companion_name, incarnation, is_unready, lineage_name,
    open_unready_map,
};
use commonhold::stream::StreamPosition;
use commonhold::{Error, ErrorKind, Hold, Result};

/// The keys of a replica's position in `.applied/NAME`, and of the last change before it.
pub(crate) const APPLIED: &[u8; 8] = b"applied\0";
pub(crate) const PROOF: &[u8; 8] = b"proof\0\0\0";

const RECORD: &str = "lineage";
/// Bytes before the prefix and the introduction.
const FIXED: usize = 64;
/// The kinds of records.
const OF_ORIGIN: u64 = 0;
const OF_REPLICA: u64 = 1;
/// The same of a replica that has only the keys of a prefix. A program that does not know such
/// replicas finds no replica's record, so it continues none.
const OF_PART: u64 = 2;

/// Stands for a replica's next map, which has no contents yet.
const NEXT: Incarnation = Incarnation { root: u64::MAX, number: u64::MAX };

/// The record of one map.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Record {
    /// The number of this map in the paths of those that follow it.
    pub(crate) node: u64,
    /// The hold for which it was made: a backup brings it into another one.
    hold: [u8; 16],
    /// The replica's map, and the one that may just have taken its place; `None` for an original
    /// origin.
    pub(crate) replica: Option<[Incarnation; 2]>,
    /// The keys that the map has.
    pub(crate) prefix: KeyPrefix,
    /// For a replica, that of its origin.
    pub(crate) lineage: Lineage,
}

impl Record {
    fn new(hold: &Hold, replica: Option<[Incarnation; 2]>, lineage: Lineage) -> Result<Record> {
        let (node, _) = random()?;
        Ok(Record { node, hold: hold.uuid(), replica, prefix: KeyPrefix::default(), lineage })
    }

    /// That of a replica's map that knows nothing of its origin.
    pub(crate) fn of_replica(hold: &Hold, map: &Map) -> Result<Record> {
        Record::new(hold, Some([incarnation(map); 2]), Lineage::default())
    }

    /// Whether it was made for this hold.
    pub(crate) fn is_in(&self, hold: &Hold) -> bool {
        self.hold == hold.uuid()
    }

    /// Whether the record belongs to this map, as a replica's.
    pub(crate) fn is_of(&self, hold: &Hold, map: &Map) -> bool {
        self.is_in(hold) && self.replica.is_some_and(|maps| maps.contains(&incarnation(map)))
    }

    /// Notes that the replica drops its map, and makes one of another mode.
    pub(crate) fn await_next(&mut self, map: &Map) {
        self.replica = Some([incarnation(map), NEXT]);
    }

    /// The same record, of this map from now on.
    pub(crate) fn of_map(self, map: &Map) -> Record {
        Record { replica: Some([incarnation(map); 2]), ..self }
    }

    /// Whether it continues with this map, because the replica was killed before it noted that.
    pub(crate) fn continues_with(&self, hold: &Hold, map: &Map) -> bool {
        let awaits = self.replica.is_some_and(|maps| maps.contains(&NEXT));
        self.is_in(hold) && awaits && map.is_replica() && is_unready(map)
    }

    /// The lineage as this map hands it down.
    fn handed_down(&self) -> Lineage {
        let mut lineage = self.lineage.clone();
        lineage.path.push(self.node);
        lineage
    }

    fn bytes(&self) -> Vec<u8> {
        let mut bytes = self.node.to_le_bytes().to_vec();
        bytes.extend(self.hold);
        let kind = match (self.replica, self.prefix.is_of_all()) {
            (None, _) => OF_ORIGIN,
            (Some(_), true) => OF_REPLICA,
            (Some(_), false) => OF_PART,
        };
        bytes.extend(kind.to_le_bytes());
        for map in self.replica.unwrap_or([Incarnation { root: 0, number: 0 }; 2]) {
            bytes.extend([map.root, map.number].map(u64::to_le_bytes).concat());
        }
        if kind == OF_PART {
            self.prefix.put(&mut bytes);
        }
        bytes.extend(Introduction::new(self.lineage.clone()).value());
        bytes
    }

    fn of_bytes(bytes: &[u8]) -> Option<Record> {
        let map = |at| Some(Incarnation { root: long(bytes, at)?, number: long(bytes, at + 8)? });
        let (kind, maps, rest) = (long(bytes, 24)?, [map(32)?, map(48)?], bytes.get(FIXED..)?);
        let (prefix, rest) = match kind {
            OF_PART => {
                let prefix = KeyPrefix::read(rest).ok()?;
                let len = size_of::<u16>() + prefix.bytes().len();
                (prefix, &rest[len..])
            }
            _ => (KeyPrefix::default(), rest),
        };
        Some(Record {
            node: long(bytes, 0)?,
            hold: *bytes.get(8..)?.first_chunk()?,
            replica: matches!(kind, OF_REPLICA | OF_PART).then_some(maps),
            prefix,
            lineage: Introduction::of_value(rest)?.lineage,
        })
    }
}

/// A number for a node, and an identifier for a lineage.
pub(crate) fn random() -> Result<(u64, [u8; 16])> {
    let bytes = secret::nonce()
        .map_err(|e| Error::new(ErrorKind::Io, format!("cannot get random numbers: {e}")))?;
    let node = u64::from_le_bytes(bytes[..8].try_into().unwrap_or_default());
    Ok((node, bytes[8..24].try_into().unwrap_or_default()))
}

fn records(hold: &Hold, map: &str) -> Result<Map> {
    hold.maps().open_or_create(&lineage_name(map), MapOptions::general())
}

/// The stored record, if there is one.
pub(crate) fn stored(hold: &Hold, map: &str) -> Result<Option<Record>> {
    Ok(stored_bytes(hold, map)?.and_then(|bytes| Record::of_bytes(&bytes)))
}

fn stored_bytes(hold: &Hold, map: &str) -> Result<Option<Vec<u8>>> {
    match hold.maps().open(&lineage_name(map)) {
        Ok(records) => records.get(RECORD),
        Err(error) if error.is_not_found() => Ok(None),
        Err(error) => Err(error),
    }
}

/// Stores a record.
pub(crate) fn store(hold: &Hold, map: &str, record: &Record) -> Result<()> {
    records(hold, map)?.set(RECORD, record.bytes()).map(drop)
}

/// The keys that a map has: all, unless it is the map of a replica that wants only those of a
/// prefix.
///
/// # Errors
/// Those of reading the hold.
pub(crate) fn prefix_of(hold: &Hold, map: &Map) -> Result<KeyPrefix> {
    let record = stored(hold, map.name())?.filter(|record| record.is_of(hold, map));
    Ok(record.filter(|_| map.is_replica()).map_or_else(KeyPrefix::default, |record| record.prefix))
}

/// Checks that a map has all keys of its lineage.
///
/// # Errors
/// `Mismatch`, which names the prefix, if it has not; those of reading the hold.
pub(crate) fn ensure_whole(hold: &Hold, map: &Map, act: &str) -> Result<()> {
    let prefix = prefix_of(hold, map)?;
    if prefix.is_of_all() {
        return Ok(());
    }
    let text = format!(
        "map '{}' has only {prefix}, so it cannot {act}: use its origin, or a replica without a \
         prefix",
        map.name()
    );
    Err(Error::new(ErrorKind::Mismatch, text))
}

/// The lineage that an origin of the map of this name hands down. Makes the record of an original
/// origin, of a promoted replica, and of a restored map.
///
/// # Errors
/// `NotFound` if there is no such map; `Mismatch` if it has only the keys of a prefix; those of
/// reading and writing the hold.
pub(crate) fn of_origin(hold: &Hold, map: &str) -> Result<Lineage> {
    loop {
        // By its name: a handle may be on an earlier map.
        let present = open_unready_map(hold, map)?;
        ensure_whole(hold, &present, "serve replicas or have a journal")?;
        let bytes = stored_bytes(hold, map)?;
        let record = bytes.as_deref().and_then(Record::of_bytes);
        let is_replica = present.is_replica();
        let next = match record {
            Some(record) if record.is_in(hold) && record.replica.is_some() == is_replica => {
                return Ok(record.handed_down());
            }
            // The map is being rebuilt, and the record counts again afterwards. A replica that
            // begins stores its own record.
            Some(record) if record.is_in(hold) && is_replica => {
                return Ok(Record { lineage: Lineage::default(), ..record }.handed_down());
            }
            record => successor(hold, &present, record)?,
        };
        // Another process may have made one.
        let next = next.bytes();
        records(hold, map)?.compare_exchange(RECORD, bytes.as_deref(), Some(&next))?;
    }
}

/// The record behind one that does not fit the map, or is missing.
fn successor(hold: &Hold, map: &Map, record: Option<Record>) -> Result<Record> {
    if map.is_replica() {
        return Record::of_replica(hold, map);
    }
    // Of a map that was promoted, or restored.
    let before = record
        .filter(|record| record.is_of(hold, map) || !record.is_in(hold))
        .filter(|record| record.prefix.is_of_all());
    let (id, epoch) = match before.filter(|record| record.lineage.is_known()) {
        Some(record) => (record.lineage.id, record.lineage.epoch + 1),
        None => (random()?.1, 1),
    };
    of_original(hold, map.name(), id, epoch)
}

fn of_original(hold: &Hold, map: &str, id: [u8; 16], epoch: u64) -> Result<Record> {
    let of_hold = hold.path().file_name().unwrap_or_default().to_string_lossy().into_owned();
    let (path, map) = (Vec::new(), map.to_owned());
    Record::new(hold, None, Lineage { id, epoch, path, hold: of_hold, map })
}

/// Notes that a map was rebuilt from a journal of this lineage. Its replicas have seen that epoch,
/// and perhaps the one that the map's name has in this hold.
///
/// # Errors
/// Those of reading and writing the hold.
pub(crate) fn rebuilt(hold: &Hold, map: &str, from: &Lineage) -> Result<()> {
    let own =
        stored(hold, map)?.filter(|record| record.is_in(hold) && record.lineage.id == from.id);
    let epoch = own.map_or(0, |record| record.lineage.epoch + 1).max(from.epoch + 1);
    store(hold, map, &of_original(hold, map, from.id, epoch)?)
}

/// The time as of which this map has everything that the first origin had: now for an original
/// origin; 0 if a replica does not know it.
pub(crate) fn as_of_ms(hold: &Hold, map: &Map) -> u64 {
    if !map.is_replica() {
        return now_ms();
    }
    let noted = hold.maps().open(&companion_name("applied", map.name()));
    let noted = noted.and_then(|noted| noted.get(AS_OF)).ok().flatten();
    noted.and_then(|value| long(&value, 0)).unwrap_or(0)
}

/// The change before a position, if these positions of a replica have it under this key.
pub(crate) fn proof_of(
    positions: &Map,
    key: &[u8; 8],
    position: StreamPosition,
) -> Result<Option<Proof>> {
    let Some(value) = positions.get(key)? else { return Ok(None) };
    let of_position = value.get(8..) == Some(&position.offset.to_le_bytes());
    Ok(read_proof(&value, 0).flatten().filter(|_| of_position))
}

/// The change before a position of a replica's map, if the replica has stored it.
pub(crate) fn stored_proof(
    hold: &Hold,
    map: &str,
    position: StreamPosition,
) -> Result<Option<Proof>> {
    match hold.maps().open(&companion_name("applied", map)) {
        Ok(positions) if read(&positions, APPLIED)? == Some(position) => {
            proof_of(&positions, PROOF, position)
        }
        Err(error) if !error.is_not_found() => Err(error),
        _ => Ok(None),
    }
}

/// A position of a replica.
pub(crate) fn read(positions: &Map, key: &[u8; 8]) -> Result<Option<StreamPosition>> {
    let Some(value) = positions.get(key)? else { return Ok(None) };
    let half = |at: usize| value.get(at..at + 8)?.try_into().ok().map(u64::from_le_bytes);
    Ok(half(0).zip(half(8)).map(|(stream, offset)| StreamPosition { stream, offset }))
}

#[cfg(test)]
mod tests;
