//! The reading process: it reads everything in every way and compares it with the ledger.
//!
//! It reads the ledger before and after the map: a read must return the change acknowledged before
//! it began, or a newer one, but nothing newer than one change after its end. So it detects a value
//! that is torn, lost, of another key, or of the past.

use super::faults;
use super::plan::{
    COUNTERS, GROWING, HOT, KEPT_EVERY, KEYS, Known, Ledger, Maps, Order, counted, counter_key,
    growing_key, growing_value, grown, hot_key, own_key, owner_of, updated, updated_key,
};
use super::value::Kind;
use crate::workload::{Result, RunError};
use commonhold::map::{Map, Uid, Values};
use std::collections::HashMap;

/// Works until the run is over.
pub fn run(order: &Order, read_only: bool) -> Result<()> {
    let ledger = Ledger::open(order)?;
    let open = || Reader::open(order, read_only);
    let Some(mut reader) = faults::persist(order, &ledger, 0, open)? else { return Ok(()) };
    ledger.set_ready(order.place)?;
    for done in 0.. {
        let step = || reader.step();
        if faults::persist(order, &ledger, 0, step)?.is_none() || ledger.over()? {
            break;
        }
        ledger.set_progress(order.place, 0, done)?;
    }
    Ok(())
}

/// A reader, with a record of the values that it has seen.
pub struct Reader {
    maps: Maps,
    ledger: Ledger,
    rng: fastrand::Rng,
    /// Counters as this reader saw them last.
    counters: HashMap<String, u64>,
    /// Hot keys: the last number seen of each writer.
    hot: HashMap<(String, u32), u64>,
    /// Uids of keys that are never deleted.
    uids: HashMap<Vec<u8>, Uid>,
    values: Values,
    value: Vec<u8>,
}

/// An owned key.
struct Spot {
    kind: Kind,
    lane: u32,
    index: u64,
    key: Vec<u8>,
}

impl Reader {
    /// A reader of what `order` names.
    pub fn open(order: &Order, read_only: bool) -> Result<Reader> {
        let hold = faults::open(order, read_only)?;
        Ok(Reader {
            maps: Maps::open(&hold)?,
            ledger: Ledger::open(order)?,
            rng: fastrand::Rng::with_seed(order.seed),
            counters: HashMap::new(),
            hot: HashMap::new(),
            uids: HashMap::new(),
            values: Values::default(),
            value: Vec::new(),
        })
    }

    /// Reads something at random.
    pub fn step(&mut self) -> Result<()> {
        match self.rng.u16(..1000) {
            0..=549 => self.read_own(),
            550..=699 => self.read_many(),
            700..=799 => self.read_counter(),
            800..=879 => self.read_hot(),
            880..=939 => self.read_growing(),
            940..=989 => self.read_by_uid(),
            990..=995 => self.read_random_pair(),
            996..=998 => self.iterate(),
            _ => self.count(),
        }
    }

    fn spot(&mut self) -> Spot {
        let kind = Kind::ALL[self.rng.usize(..4)];
        self.spot_in(kind)
    }

    fn spot_in(&mut self, kind: Kind) -> Spot {
        let (lane, index) = (self.rng.u32(..self.ledger.lanes()), self.rng.u64(..KEYS));
        Spot { kind, lane, index, key: own_key(kind, lane, index) }
    }

    fn known(&self, spot: &Spot) -> Result<Known> {
        self.ledger.known(spot.lane, spot.kind, spot.index)
    }

    fn read_own(&mut self) -> Result<()> {
        let spot = self.spot();
        let before = self.known(&spot)?;
        let found = self.maps.own(spot.kind).get_into(&spot.key, &mut self.value)?;
        let after = self.known(&spot)?;
        judge(&spot, found.then_some(&self.value[..]), before, after, "get")
    }

    fn read_many(&mut self) -> Result<()> {
        let kind = Kind::ALL[self.rng.usize(..4)];
        let count = self.rng.usize(1..40);
        let spots: Vec<Spot> = (0..count).map(|_| self.spot_in(kind)).collect();
        let keys: Vec<&[u8]> = spots.iter().map(|s| &s.key[..]).collect();
        let before: Vec<Known> = spots.iter().map(|s| self.known(s)).collect::<Result<_>>()?;
        let hits = self.maps.own(kind).get_many(&keys, &mut self.values)?;
        let there = (0..count).filter(|at| self.values.get(*at).is_some()).count();
        if hits != there {
            return Err(RunError::new(format!(
                "get_many reported {hits} hits, but returned {there} values"
            )));
        }
        for (at, spot) in spots.iter().enumerate() {
            let after = self.known(spot)?;
            judge(spot, self.values.get(at), before[at], after, "get_many")?;
        }
        Ok(())
    }

    fn read_counter(&mut self) -> Result<()> {
        let which = self.rng.u64(..COUNTERS);
        let plain = self.rng.bool();
        let (key, word) = match plain {
            true => (counter_key(which), counted(which)),
            false => (updated_key(which), updated(which)),
        };
        let acknowledged = self.ledger.sum(word)?;
        let value = self.maps.counts.get(&key)?;
        let now = counter_value(&key, plain, value.as_deref())?;
        let last = self.counters.insert(key.clone(), now).unwrap_or(0);
        if now < last.max(acknowledged) {
            return Err(RunError::new(format!(
                "{key} is {now}; this reader saw {last} before, and {acknowledged} changes were \
                 acknowledged before it read"
            )));
        }
        Ok(())
    }

    fn read_hot(&mut self) -> Result<()> {
        let key = hot_key(self.rng.u64(..HOT));
        let Some(value) = self.maps.own(Kind::General).get(&key)? else { return Ok(()) };
        let read = Kind::General.read(key.as_bytes(), &value);
        let stamp = read.map_err(|why| RunError::new(format!("{key}: {why}")))?;
        // Each writer's numbers grow, and no writer writes an old value again.
        let last = self.hot.insert((key.clone(), stamp.writer), stamp.number).unwrap_or(0);
        if stamp.number < last {
            return Err(RunError::new(format!(
                "{key}: writer {} went back from {last} to {}",
                stamp.writer, stamp.number
            )));
        }
        Ok(())
    }

    fn read_growing(&mut self) -> Result<()> {
        let (which, lane) = (self.rng.usize(..2), self.rng.u32(..self.ledger.lanes()));
        let added = self.ledger.head(lane, grown(which))?;
        if added == 0 {
            return Ok(());
        }
        let number = self.rng.u64(..added);
        let key = growing_key(which, lane, number);
        let value = self.maps.growing[which].get(&key)?;
        if value.as_ref() == Some(&growing_value(which, &key)) {
            return Ok(());
        }
        let (name, what) = (GROWING[which], if value.is_some() { "wrong" } else { "lost" });
        Err(RunError::new(format!("map {name}, lane {lane}: key {number} of {added} is {what}")))
    }

    /// Keys that are never deleted keep their uid for good.
    fn read_by_uid(&mut self) -> Result<()> {
        let kind = Kind::ALL[self.rng.usize(..3)];
        let mut spot = self.spot_in(kind);
        spot.index -= spot.index % KEPT_EVERY;
        spot.key = own_key(kind, spot.lane, spot.index);
        let before = self.known(&spot)?;
        if !before.present {
            return Ok(());
        }
        let map = self.maps.own(kind);
        let name = [&[kind as u8], &spot.key[..]].concat();
        let uid = match self.uids.get(&name) {
            Some(uid) => *uid,
            None => map.uid(&spot.key)?.ok_or_else(|| spot.wrong("uid", "reported no key"))?,
        };
        self.uids.insert(name, uid);
        let pair = map.get_uid(uid)?;
        let after = self.known(&spot)?;
        match pair {
            Some((key, value)) if key == spot.key => {
                judge(&spot, Some(&value), before, after, "get_uid")
            }
            Some((key, _)) => Err(spot.wrong("get_uid", &format!("returned key {key:02x?}"))),
            None => Err(spot.wrong("get_uid", &format!("found no pair under uid {uid}"))),
        }
    }

    fn read_random_pair(&mut self) -> Result<()> {
        match self.maps.own(Kind::General).random_pair()? {
            Some((key, value)) => whole("random_pair", &key, &value),
            None => Ok(()),
        }
    }

    /// Every key that is never deleted is met exactly once, every value is whole.
    fn iterate(&mut self) -> Result<()> {
        let mut wanted = HashMap::new();
        for lane in 0..self.ledger.lanes() {
            for (index, known) in (0..).zip(self.ledger.all_known(lane, Kind::General)?) {
                if index % KEPT_EVERY == 0 && known.present {
                    wanted.insert((lane, index), 0u32);
                }
            }
        }
        let map: &Map = self.maps.own(Kind::General);
        for pair in map.iter() {
            let (key, value) = pair?;
            whole("iteration", &key, &value)?;
            if let Some(times) = owner_of(&key).and_then(|owner| wanted.get_mut(&owner)) {
                *times += 1;
            }
        }
        match wanted.into_iter().find(|(_, times)| *times != 1) {
            Some(((lane, index), times)) => Err(RunError::new(format!(
                "iteration over map general returned lane {lane}, key {index}, {times} times, but \
                 the key was present throughout"
            ))),
            None => Ok(()),
        }
    }

    fn count(&mut self) -> Result<()> {
        let lanes = u64::from(self.ledger.lanes());
        let len = self.maps.own(Kind::Word).len()?;
        if len > lanes * KEYS {
            return Err(RunError::new(format!(
                "map word has {len} keys, more than {}",
                lanes * KEYS
            )));
        }
        for key in self.maps.own(Kind::Word).keys() {
            let key = key?;
            if key.len() != 4 {
                return Err(RunError::new(format!("map word has an invalid key {key:02x?}")));
            }
        }
        Ok(())
    }
}

impl Spot {
    fn wrong(&self, operation: &str, what: &str) -> RunError {
        let Spot { kind, lane, index, .. } = self;
        let map = kind.map_name();
        RunError::new(format!("map {map}, lane {lane}, key {index}: {operation} {what}"))
    }
}

/// Whether a read between `before` and `after` may return `value`.
fn judge(
    spot: &Spot,
    value: Option<&[u8]>,
    before: Known,
    after: Known,
    operation: &str,
) -> Result<()> {
    let wrong = |what: String| {
        Err(spot.wrong(operation, &format!("{what}; known before {before:?}, after {after:?}")))
    };
    let Some(value) = value else {
        // With no change acknowledged in between, only one not yet acknowledged can have deleted
        // it; keys that are kept are never deleted at all.
        let kept = spot.kind != Kind::Cache && spot.index.is_multiple_of(KEPT_EVERY);
        return if kept && before.present { wrong("found no pair".to_owned()) } else { Ok(()) };
    };
    match spot.kind.read(&spot.key, value) {
        Err(why) => wrong(why),
        Ok(stamp) if stamp.number < before.number => {
            wrong(format!("returned an old value: {stamp:?}"))
        }
        Ok(stamp) if stamp.number == before.number && !before.present => {
            wrong(format!("returned a deleted value: {stamp:?}"))
        }
        Ok(stamp) if stamp.number > after.number + 1 => {
            wrong(format!("returned a value that no process wrote: {stamp:?}"))
        }
        Ok(_) => Ok(()),
    }
}

/// Whether a pair met in passing in the general map is whole.
fn whole(operation: &str, key: &[u8], value: &[u8]) -> Result<()> {
    let error = |why| RunError::new(format!("{operation}: key {key:02x?}: {why}"));
    Kind::General.read(key, value).map(drop).map_err(error)
}

/// The number in a counter of either sort.
pub fn counter_value(key: &str, plain: bool, value: Option<&[u8]>) -> Result<u64> {
    let Some(value) = value else { return Ok(0) };
    if !plain {
        let read = Kind::Cells.read(key.as_bytes(), value);
        return read.map(|s| s.number).map_err(|why| RunError::new(format!("{key}: {why}")));
    }
    let bytes = <[u8; 8]>::try_from(value);
    bytes
        .map(u64::from_le_bytes)
        .map_err(|_| RunError::new(format!("{key} is not a counter: {value:?}")))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::crashtest::value::Stamp;

    #[test]
    fn readers_tell_right_from_wrong() {
        let key = own_key(Kind::Cells, 0, 1);
        let spot = Spot { kind: Kind::Cells, lane: 0, index: 1, key: key.clone() };
        let known = |number, present| Known { number, present };
        let read = |number: u64, before, after| {
            let mut value = Vec::new();
            Kind::Cells.write(&key, Stamp { number, writer: 1 }, &mut value);
            judge(&spot, Some(&value), before, after, "get").is_ok()
        };
        assert!(read(5, known(5, true), known(5, true)));
        assert!(read(6, known(5, true), known(5, true)), "committed, not acknowledged yet");
        assert!(read(8, known(5, true), known(9, true)));
        assert!(!read(4, known(5, true), known(9, true)), "old");
        assert!(!read(7, known(5, true), known(5, true)), "invented");
        assert!(!read(5, known(5, false), known(5, false)), "deleted");
        let absent = |index, before| {
            let spot = Spot { kind: Kind::Cells, lane: 0, index, key: key.clone() };
            judge(&spot, None, before, before, "get").is_ok()
        };
        assert!(absent(1, known(5, true)), "a deletion that is not acknowledged yet");
        assert!(!absent(4, known(5, true)), "a key that is never deleted");
        assert!(absent(4, known(0, false)));
    }
}
