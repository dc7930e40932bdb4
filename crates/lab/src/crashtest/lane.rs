//! A lane at work on the keys that it alone changes: every kind of operation, every answer known in
//! advance and compared.
//!
//! Invariant: a change is acknowledged in the ledger after the map has taken it, and the next one
//! begins after that.

use super::compare::reconcile;
use super::plan::{
    BATCH, GROWN, IN_BATCH, INCARNATION, KEPT_EVERY, KEYS, Known, Ledger, Maps, growing_key,
    growing_value, grown, own_key,
};
use super::value::{Kind, Stamp};
use crate::workload::{Result, RunError};
use commonhold::Hold;
use commonhold::map::Map;
use std::sync::Arc;
use std::time::Duration;

/// A lane and its record of its own work.
pub struct Lane {
    /// Its number.
    pub number: u32,
    /// The open hold.
    pub hold: Hold,
    /// The open maps.
    pub maps: Arc<Maps>,
    /// The ledger.
    pub ledger: Arc<Ledger>,
    /// Its choices.
    pub rng: fastrand::Rng,
    /// How often the lane was taken up, including this time.
    pub incarnation: u64,
    known: [Vec<Known>; 4],
}

/// An operation of a lane on a key of its own.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Operation {
    /// get and contains.
    Get,
    /// set.
    Set,
    /// add; with a time to live in a cache.
    Add,
    /// replace; with a short time to live in a cache.
    Replace,
    /// compare_exchange with the present value.
    Exchange,
    /// compare_exchange with another value.
    ExchangeInVain,
    /// delete or take.
    Remove,
    /// update by a callback, which may delete.
    Update,
    /// uid, get_uid, then set_uid or delete_uid.
    ByUid,
    /// set_many of several keys.
    Batch,
}

impl Operation {
    /// All operations.
    pub const ALL: [Operation; 10] = [
        Operation::Get,
        Operation::Set,
        Operation::Add,
        Operation::Replace,
        Operation::Exchange,
        Operation::ExchangeInVain,
        Operation::Remove,
        Operation::Update,
        Operation::ByUid,
        Operation::Batch,
    ];
}

/// One owned key in one operation.
struct Spot {
    kind: Kind,
    index: u64,
    key: Vec<u8>,
    known: Known,
}

impl Lane {
    /// Takes up lane `number`, whose last thread has ended (or died, if `died`).
    pub fn take_up(
        number: u32,
        hold: &Hold,
        maps: &Arc<Maps>,
        ledger: &Arc<Ledger>,
        died: bool,
        seed: u64,
    ) -> Result<Lane> {
        reconcile(number, ledger, maps, died)?;
        let incarnation = ledger.head(number, INCARNATION)? + 1;
        ledger.set_head(number, INCARNATION, incarnation)?;
        let [a, b, c, d] = Kind::ALL.map(|kind| ledger.all_known(number, kind));
        Ok(Lane {
            number,
            hold: hold.clone(),
            maps: Arc::clone(maps),
            ledger: Arc::clone(ledger),
            rng: fastrand::Rng::with_seed(seed << 8 | u64::from(number)),
            incarnation,
            known: [a?, b?, c?, d?],
        })
    }

    /// One operation on one of the lane's own keys.
    pub fn own_step(&mut self) -> Result<()> {
        let kind = Kind::ALL[self.rng.usize(..4)];
        let operation = Operation::ALL[self.rng.usize(..Operation::ALL.len())];
        self.own(kind, operation)
    }

    /// This operation on one of the lane's own keys of this kind.
    pub fn own(&mut self, kind: Kind, operation: Operation) -> Result<()> {
        if operation == Operation::Batch {
            return self.batch(kind);
        }
        let index = self.rng.u64(..KEYS);
        let known = self.known[kind as usize][index as usize];
        let spot = Spot { kind, index, key: own_key(kind, self.number, index), known };
        let after = match kind {
            Kind::Cache => self.cache_step(&spot, operation)?,
            _ => self.strict_step(&spot, operation)?,
        };
        self.acknowledge(&spot, after)
    }

    /// Adds the next key of a growing map, unless the lane has added enough.
    pub fn grow(&mut self) -> Result<()> {
        let which = self.rng.usize(..2);
        let added = self.ledger.head(self.number, grown(which))?;
        if added >= GROWN {
            return Ok(());
        }
        let key = growing_key(which, self.number, added);
        let uid = self.maps.growing[which].add(&key, growing_value(which, &key))?;
        if uid.is_none() {
            let number = self.number;
            return Err(RunError::new(format!(
                "growing map {which}, lane {number}: key {added} exists before it was added"
            )));
        }
        self.ledger.set_head(self.number, grown(which), added + 1)
    }

    fn acknowledge(&mut self, spot: &Spot, after: Known) -> Result<()> {
        if after != spot.known {
            self.known[spot.kind as usize][spot.index as usize] = after;
            self.ledger.acknowledge(self.number, spot.kind, spot.index, after)?;
        }
        Ok(())
    }

    fn value(&self, spot: &Spot, number: u64) -> Vec<u8> {
        let mut value = Vec::new();
        spot.kind.write(&spot.key, Stamp { number, writer: self.number + 1 }, &mut value);
        value
    }

    /// Sets several keys in one call; each is acknowledged by itself.
    fn batch(&mut self, kind: Kind) -> Result<()> {
        let first = self.rng.u64(..KEYS - BATCH);
        let spots: Vec<Spot> = (first..first + BATCH)
            .map(|index| Spot {
                kind,
                index,
                key: own_key(kind, self.number, index),
                known: self.known[kind as usize][index as usize],
            })
            .collect();
        let pairs: Vec<_> =
            spots.iter().map(|s| (s.key.clone(), self.value(s, s.known.number + 1))).collect();
        self.ledger.set_head(self.number, IN_BATCH, 1)?;
        self.maps.own(kind).set_many(&pairs)?;
        for spot in &spots {
            self.acknowledge(spot, spot.known.next(true))?;
        }
        self.ledger.set_head(self.number, IN_BATCH, 0)
    }

    /// An operation whose answer is known for certain; returns the state after it.
    fn strict_step(&mut self, spot: &Spot, operation: Operation) -> Result<Known> {
        let map = &self.maps.own(spot.kind).clone();
        match operation {
            Operation::Set | Operation::Batch => {
                map.set(&spot.key, self.value(spot, spot.known.number + 1))?;
                Ok(spot.known.next(true))
            }
            Operation::Get => self.get(map, spot),
            Operation::Add => self.add(map, spot),
            Operation::Replace => self.replace(map, spot),
            Operation::Exchange => self.exchange(map, spot),
            Operation::ExchangeInVain => self.exchange_in_vain(map, spot),
            Operation::Remove => self.remove(map, spot),
            Operation::Update => self.update(map, spot),
            Operation::ByUid => self.by_uid(map, spot),
        }
    }

    fn get(&self, map: &Map, spot: &Spot) -> Result<Known> {
        let wanted = spot.known.present.then(|| self.value(spot, spot.known.number));
        let there = map.get(&spot.key)?;
        self.expect(spot, "get", there == wanted, || show(&there))?;
        let contains = map.contains(&spot.key)?;
        self.expect(spot, "contains", contains == spot.known.present, || contains.to_string())?;
        Ok(spot.known)
    }

    fn add(&self, map: &Map, spot: &Spot) -> Result<Known> {
        let added = map.add(&spot.key, self.value(spot, spot.known.number + 1))?.is_some();
        self.expect(spot, "add", added != spot.known.present, || added.to_string())?;
        Ok(if added { spot.known.next(true) } else { spot.known })
    }

    fn replace(&self, map: &Map, spot: &Spot) -> Result<Known> {
        let replaced = map.replace(&spot.key, self.value(spot, spot.known.number + 1))?.is_some();
        self.expect(spot, "replace", replaced == spot.known.present, || replaced.to_string())?;
        Ok(if replaced { spot.known.next(true) } else { spot.known })
    }

    fn exchange(&mut self, map: &Map, spot: &Spot) -> Result<Known> {
        let old = spot.known.present.then(|| self.value(spot, spot.known.number));
        let new = (!self.may_delete(spot)).then(|| self.value(spot, spot.known.number + 1));
        let done = map.compare_exchange(&spot.key, old.as_deref(), new.as_deref())?;
        self.expect(spot, "compare_exchange", done, || done.to_string())?;
        // Absent for absent is true and changes nothing.
        Ok(match (&old, &new) {
            (None, None) => spot.known,
            _ => spot.known.next(new.is_some()),
        })
    }

    fn exchange_in_vain(&self, map: &Map, spot: &Spot) -> Result<Known> {
        let other = self.value(spot, spot.known.number + 1);
        let new = self.value(spot, spot.known.number + 2);
        let done = map.compare_exchange(&spot.key, Some(&other), Some(&new))?;
        self.expect(spot, "compare_exchange with a wrong old value", !done, || done.to_string())?;
        Ok(spot.known)
    }

    fn remove(&mut self, map: &Map, spot: &Spot) -> Result<Known> {
        if !self.may_delete(spot) {
            return self.get(map, spot);
        }
        if self.rng.bool() {
            let deleted = map.delete(&spot.key)?;
            self.expect(spot, "delete", deleted == spot.known.present, || deleted.to_string())?;
        } else {
            let wanted = spot.known.present.then(|| self.value(spot, spot.known.number));
            let taken = map.take(&spot.key)?;
            self.expect(spot, "take", taken == wanted, || show(&taken))?;
        }
        Ok(if spot.known.present { spot.known.next(false) } else { spot.known })
    }

    fn update(&mut self, map: &Map, spot: &Spot) -> Result<Known> {
        let wanted = spot.known.present.then(|| self.value(spot, spot.known.number));
        let new = (!self.may_delete(spot)).then(|| self.value(spot, spot.known.number + 1));
        let mut seen = None;
        map.update(&spot.key, |old| {
            seen = old.map(<[u8]>::to_vec);
            new.clone()
        })?;
        self.expect(spot, "update", seen == wanted, || show(&seen))?;
        Ok(match (spot.known.present, &new) {
            (false, None) => spot.known,
            _ => spot.known.next(new.is_some()),
        })
    }

    fn by_uid(&mut self, map: &Map, spot: &Spot) -> Result<Known> {
        let uid = map.uid(&spot.key)?;
        self.expect(spot, "uid", uid.is_some() == spot.known.present, || format!("{uid:?}"))?;
        let Some(uid) = uid else { return Ok(spot.known) };
        let pair = map.get_uid(uid)?;
        let wanted = Some((spot.key.clone(), self.value(spot, spot.known.number)));
        self.expect(spot, "get_uid", pair == wanted, || show(&pair.clone().map(|p| p.1)))?;
        if self.may_delete(spot) {
            let done = map.delete_uid(uid, &spot.key)?;
            self.expect(spot, "delete_uid", done, || done.to_string())?;
            return Ok(spot.known.next(false));
        }
        let done = map.set_uid(uid, &spot.key, self.value(spot, spot.known.number + 1))?;
        self.expect(spot, "set_uid", done, || done.to_string())?;
        Ok(spot.known.next(true))
    }

    /// An operation on a key that the cache may drop at any time.
    fn cache_step(&mut self, spot: &Spot, operation: Operation) -> Result<Known> {
        let map = self.maps.own(Kind::Cache).clone();
        let next = self.value(spot, spot.known.number + 1);
        match operation {
            Operation::Set | Operation::Batch => drop(map.set(&spot.key, next)?),
            Operation::Add => drop(map.set_with_ttl(&spot.key, next, Duration::from_secs(3600))?),
            Operation::Replace => {
                map.set_with_ttl(&spot.key, next, Duration::from_millis(2))?;
            }
            Operation::Update => drop(map.update(&spot.key, |_| Some(next.clone()))?),
            Operation::Remove => {
                map.delete(&spot.key)?;
                return Ok(spot.known.next(false));
            }
            _ => return self.cache_get(&map, spot),
        }
        Ok(spot.known.next(true))
    }

    fn cache_get(&self, map: &Map, spot: &Spot) -> Result<Known> {
        let Some(value) = map.get(&spot.key)? else { return Ok(spot.known) };
        let right = spot.known.present && value == self.value(spot, spot.known.number);
        self.expect(spot, "get from the cache", right, || show(&Some(value)))?;
        Ok(spot.known)
    }

    /// Draws whether this operation deletes; never for keys that are to be kept.
    fn may_delete(&mut self, spot: &Spot) -> bool {
        !spot.index.is_multiple_of(KEPT_EVERY) && self.rng.u8(..3) == 0
    }

    fn expect(
        &self,
        spot: &Spot,
        operation: &str,
        right: bool,
        answer: impl FnOnce() -> String,
    ) -> Result<()> {
        if right {
            return Ok(());
        }
        let Spot { kind, index, known, .. } = spot;
        Err(RunError::new(format!(
            "map {}, lane {}, key {index}: {operation} returned {}; known: {known:?}",
            kind.map_name(),
            self.number,
            answer()
        )))
    }
}

/// The beginning of a value, for a message.
fn show(value: &Option<Vec<u8>>) -> String {
    match value {
        None => "absent".to_owned(),
        Some(bytes) => format!("{} bytes {:02x?}", bytes.len(), &bytes[..bytes.len().min(24)]),
    }
}
