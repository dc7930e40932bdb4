//! A lane at work on keys that all lanes change: counters, hot keys, and scratch maps that any lane
//! clears and drops.
//!
//! Counters must never go back and never lose an acknowledged increment; every value read must be
//! whole and belong to its key; a dropped map must report that, and can be created again.

use super::lane::Lane;
use super::plan::{
    COUNTERS, HOT, SCRATCH, counted, counter_key, hot_key, is_scratch_value, scratch_options,
    scratch_value, updated, updated_key,
};
use super::value::{Kind, Stamp};
use crate::workload::{Result, RunError};
use commonhold::ErrorKind;
use commonhold::map::Map;

/// A lane's record of the keys that it shares with others.
#[derive(Default)]
pub struct Shared {
    last: [u64; COUNTERS as usize],
    last_updated: [u64; COUNTERS as usize],
    hot: u64,
    scratch: [Option<Map>; 3],
}

impl Shared {
    /// One operation on something shared.
    pub fn step(&mut self, lane: &mut Lane) -> Result<()> {
        match lane.rng.u8(..8) {
            0 | 1 => self.increment(lane),
            2 => self.update(lane),
            3..=5 => self.hot(lane),
            _ => self.scratch(lane),
        }
    }

    /// Increments a counter.
    pub fn increment(&mut self, lane: &mut Lane) -> Result<()> {
        let which = lane.rng.u64(..COUNTERS);
        let key = counter_key(which);
        let counts = &lane.maps.counts;
        let uid = if lane.rng.bool() { counts.uid(&key)? } else { None };
        let now = match uid {
            // Counters are never deleted, so their uids stay.
            Some(uid) => counts.increment_uid(uid, &key, 1)?.ok_or_else(|| {
                RunError::new(format!("{key}: increment_uid did not find it under its uid {uid}"))
            })?,
            None => counts.increment(&key, 1)?,
        } as u64;
        let last = std::mem::replace(&mut self.last[which as usize], now);
        if now <= last {
            return Err(RunError::new(format!("{key} went from {last} to {now} by an increment")));
        }
        let done = lane.ledger.head(lane.number, counted(which))? + 1;
        lane.ledger.set_head(lane.number, counted(which), done)
    }

    /// Updates a counter by a callback.
    pub fn update(&mut self, lane: &mut Lane) -> Result<()> {
        let which = lane.rng.u64(..COUNTERS);
        let key = updated_key(which);
        let mut seen = Ok(0);
        lane.maps.counts.update(&key, |old| {
            seen = match old {
                None => Ok(0),
                Some(value) => Kind::Cells.read(key.as_bytes(), value).map(|s| s.number),
            };
            let number = *seen.as_ref().unwrap_or(&0) + 1;
            let mut new = Vec::new();
            Kind::Cells.write(key.as_bytes(), Stamp { number, writer: 0 }, &mut new);
            Some(new)
        })?;
        let now = seen.map_err(|why| RunError::new(format!("{key}: {why}")))? + 1;
        let last = std::mem::replace(&mut self.last_updated[which as usize], now);
        if now <= last {
            return Err(RunError::new(format!("{key} went from {last} to {now} by an update")));
        }
        let done = lane.ledger.head(lane.number, updated(which))? + 1;
        lane.ledger.set_head(lane.number, updated(which), done)
    }

    /// Changes a key that all lanes change: every value found must be whole.
    pub fn hot(&mut self, lane: &mut Lane) -> Result<()> {
        let key = hot_key(lane.rng.u64(..HOT));
        let map = lane.maps.own(Kind::General);
        self.hot += 1;
        let stamp = Stamp { number: lane.incarnation << 32 | self.hot, writer: lane.number + 1 };
        let mut new = Vec::new();
        Kind::General.write(key.as_bytes(), stamp, &mut new);
        let old = match lane.rng.u8(..7) {
            0 => map.set(&key, new).map(|_| None)?,
            1 => map.add(&key, new).map(|_| None)?,
            2 => map.replace(&key, new).map(|_| None)?,
            3 => map.delete(&key).map(|_| None)?,
            4 => map.take(&key)?,
            5 => {
                let old = map.get(&key)?;
                map.compare_exchange(&key, old.as_deref(), Some(&new))?;
                old
            }
            _ => {
                let mut seen = None;
                map.update(&key, |old| {
                    seen = old.map(<[u8]>::to_vec);
                    Some(new.clone())
                })?;
                seen
            }
        };
        match old.map(|value| Kind::General.read(key.as_bytes(), &value)) {
            Some(Err(why)) => Err(RunError::new(format!("key {key}: {why}"))),
            _ => Ok(()),
        }
    }

    fn scratch(&mut self, lane: &mut Lane) -> Result<()> {
        let which = lane.rng.usize(..3);
        let map = match self.scratch[which].take() {
            Some(map) => map,
            None => lane.hold.maps().open_or_create(SCRATCH[which], scratch_options(which))?,
        };
        match scratch_step(lane, &map, which) {
            Ok(()) => self.scratch[which] = Some(map),
            // Another lane dropped it: the next step creates it again.
            Err(ScratchEnd::Gone) => {}
            Err(ScratchEnd::Wrong(error)) => return Err(error),
        }
        Ok(())
    }
}

enum ScratchEnd {
    Gone,
    Wrong(RunError),
}

impl From<commonhold::Error> for ScratchEnd {
    fn from(error: commonhold::Error) -> Self {
        match error.kind() {
            ErrorKind::NotFound => ScratchEnd::Gone,
            _ => ScratchEnd::Wrong(error.into()),
        }
    }
}

fn scratch_step(lane: &mut Lane, map: &Map, which: usize) -> std::result::Result<(), ScratchEnd> {
    let key = lane.rng.u64(..3000).to_le_bytes();
    match lane.rng.u16(..1000) {
        0..=499 => drop(map.set(key, scratch_value(&key, lane.rng.u32(..)))?),
        500..=699 => drop(map.delete(key)?),
        700..=979 => {
            if let Some(value) = map.get(key)? {
                prove(&key, &value, which)?;
            }
        }
        980..=989 => {
            for pair in map.iter() {
                let (key, value) = pair?;
                prove(&key, &value, which)?;
            }
        }
        990..=993 => drop(map.clear()?),
        994..=995 => drop(lane.hold.maps().drop(SCRATCH[which])?),
        _ => drop(map.len()?),
    }
    Ok(())
}

fn prove(key: &[u8], value: &[u8], which: usize) -> std::result::Result<(), ScratchEnd> {
    if is_scratch_value(key, value) {
        return Ok(());
    }
    let name = SCRATCH[which];
    Err(ScratchEnd::Wrong(RunError::new(format!(
        "map {name}: key {key:02x?} has value {value:02x?}, which was not written for it"
    ))))
}
