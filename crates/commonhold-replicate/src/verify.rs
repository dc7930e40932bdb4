//! Compares a replica with its origin: pair by pair, at one position of the origin's stream, while
//! both keep changing.
//!
//! The verifier follows the origin with a copy of its own, and notes the position of each key's
//! last change. Then it reads the undecided keys from the copy and from the replica, and knows
//! between which positions both were meanwhile. A key that differs and did not change between them
//! is certainly different; a key that changed is read again. Every round leaves fewer keys, because
//! fewer keys take less time. Positions of another stream cannot be compared, and a side that got
//! the whole map has not noted its changes: then the comparison starts over.

use crate::lineage;
use crate::origin_clock::has_expiry;
use crate::protocol::key_prefix::KeyPrefix;
use crate::replica::position;
use crate::replica::{Replica, ReplicaEvents, ReplicaOptions};
use commonhold::map::Map;
use commonhold::raw::open_unready_map;
use commonhold::stream::{StreamFrame, StreamPosition};
use commonhold::{Error, ErrorKind, Hold, Result};
use commonhold_io::address::Address;
use sha2::{Digest, Sha256};
use std::collections::{BTreeSet, HashMap};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};

/// The name of the copy, in a hold of its own.
const COPY: &str = "copy";
/// How often the comparison starts at most.
const ATTEMPTS: u32 = 5;
/// The pause while there is nothing to do but to wait.
const PAUSE: Duration = Duration::from_millis(5);
/// The longest time limit, which no clock exceeds.
const LONGEST: Duration = Duration::from_secs(365 * 24 * 3600);
/// A replica that has no position for this long is not ready.
const NOWHERE: Duration = Duration::from_secs(2);
/// A pair that has expired is at once absent to every reader of the origin's map, and to every
/// iteration; its replicas get the removal a little later (`expiry`). They get it within this time,
/// and the second constant longer for each pair.
const ANSWER_TIME: Duration = Duration::from_secs(3);
const ANSWER_TIME_EACH: Duration = Duration::from_micros(10);

/// The result of [`verify`].
#[derive(Clone, Debug, serde::Serialize)]
pub struct Verified {
    /// The position of the origin's stream at which they were compared; for keys that changed
    /// meanwhile, a little later.
    pub position: StreamPosition,
    /// The prefix of the keys that were compared, with escapes for bytes that are not text; `None`
    /// for all keys.
    pub prefix: Option<String>,
    /// The number of pairs that the replica has.
    pub pairs: u64,
    /// The digest of the origin's pairs; see [`digest`].
    pub origin_digest: String,
    /// The digest of the replica's pairs.
    pub replica_digest: String,
    /// Keys that differ, in order; at most the requested number.
    pub differing: Vec<Vec<u8>>,
    /// The number of keys that differ.
    pub different: u64,
    /// The number of keys that changed all the time, so that the comparison could not decide.
    pub undecided: u64,
    /// The number of rounds in which keys were compared.
    pub rounds: u32,
}

impl Verified {
    /// True if the replica equals the origin.
    pub fn is_equal(&self) -> bool {
        self.different == 0 && self.undecided == 0
    }
}

/// The digest of a set of pairs, in any order: the sum, modulo 2^128, of the first 16 bytes of each
/// pair's SHA-256 (of the key's length as 8 bytes, the key, the value). Two maps with the same
/// pairs have the same digest, also on different machines.
///
/// # Errors
/// Those of reading the map.
pub fn digest(map: &Map) -> Result<String> {
    let mut sum = Sum::default();
    for pair in map.iter() {
        let (key, value) = pair?;
        sum.add(Sum::of(&key, Some(&value)));
    }
    Ok(sum.to_string())
}

#[derive(Clone, Copy, Default)]
struct Sum(u128);

impl Sum {
    /// The sum of one pair; zero for an absent key.
    fn of(key: &[u8], value: Option<&[u8]>) -> Sum {
        let Some(value) = value else { return Sum(0) };
        let mut hash = Sha256::new();
        hash.update((key.len() as u64).to_le_bytes());
        hash.update(key);
        hash.update(value);
        let hash = hash.finalize();
        Sum(hash[..16].try_into().map_or(0, u128::from_le_bytes))
    }

    fn add(&mut self, other: Sum) {
        self.0 = self.0.wrapping_add(other.0);
    }
}

impl std::fmt::Display for Sum {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "{:032x}", self.0)
    }
}

/// The offset of each key's last change.
#[derive(Clone, Default)]
struct Changes(Arc<Mutex<HashMap<Vec<u8>, u64>>>);

impl ReplicaEvents for Changes {
    fn changed(&mut self, change: &StreamFrame<'_>) {
        let mut changes = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        changes.insert(change.key.to_vec(), change.offset);
    }
}

impl Changes {
    /// True if the key was changed at `from` or behind it.
    fn since(&self, key: &[u8], from: u64) -> bool {
        let changes = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        changes.get(key).is_some_and(|offset| *offset >= from)
    }
}

/// Compares the replica `name` in `hold` with the origin at an address. Names at most `most` keys
/// that differ. Compares only the keys that the replica replicates
/// ([`prefix`](ReplicaOptions::prefix)), whatever the options contain.
///
/// Needs memory for a copy of the map, in the directory of holds with bare names. Takes as long as
/// a first synchronisation. It takes a few seconds longer if the replica has pairs that the origin
/// has not: they may have expired there, and the removal comes late. For keys that change all the
/// time it tries up to `time`. If the replica or the copy gets the whole map meanwhile, it starts
/// over, a few times.
///
/// # Errors
/// `NotFound` if there is no replica of this name, or it is not ready; `Mismatch` if it follows
/// another stream than this origin has; `TimedOut` if the origin cannot be reached, if the replica
/// does not reach the copy's position, or if whole maps are sent all the time.
pub fn verify(
    hold: &Hold,
    name: &str,
    origin: &Address,
    options: ReplicaOptions,
    (time, most): (Duration, usize),
) -> Result<Verified> {
    let deadline = Instant::now() + time.min(LONGEST);
    let prefix = match open_unready_map(hold, name) {
        Ok(map) => lineage::prefix_of(hold, &map)?,
        Err(error) if error.is_not_found() => KeyPrefix::default(),
        Err(error) => return Err(error),
    };
    let wanted = (!prefix.is_of_all()).then(|| prefix.bytes().to_vec());
    let options = ReplicaOptions { prefix: wanted, ..options };
    for attempt in 0..ATTEMPTS {
        let checked = Side { hold: hold.clone(), name: name.to_owned() };
        let found = attempt_at(checked, origin, options.clone(), (attempt, deadline))?;
        if let Some(found) = found {
            return Ok(Verified { prefix: prefix.shown(), ..found.limited_to(most) });
        }
    }
    let text = format!(
        "map '{name}': the origin sent the whole map again {ATTEMPTS} times during the \
             comparison; try again"
    );
    Err(Error::new(ErrorKind::TimedOut, text))
}

/// Compares with a copy that is made for it; `None` if either side got the whole map meanwhile, so
/// that nothing is certain.
fn attempt_at(
    checked: Side,
    origin: &Address,
    options: ReplicaOptions,
    (attempt, deadline): (u32, Instant),
) -> Result<Option<Found>> {
    let directory = tempfile_like()?;
    let copy_hold = Hold::options().delete_on_last_exit(true).create(&directory)?;
    let changes = Changes::default();
    let replica = Replica::connect_to_compare(
        &copy_hold,
        (COPY, &checked.name),
        origin,
        options,
        changes.clone(),
    )?;
    if !replica.wait_ready(deadline.saturating_duration_since(Instant::now())) {
        let why = replica.status().last_error.unwrap_or_else(|| "it is not ready".to_owned());
        return Err(Error::new(
            ErrorKind::TimedOut,
            format!("{origin}: cannot copy the map: {why}"),
        ));
    }
    let copy = Side { hold: copy_hold.clone(), name: COPY.to_owned() };
    let Some(stream) = copy.bounds()?.map(|(at, _)| at.stream) else { return Ok(None) };
    let mut comparison = Comparison {
        copy,
        checked,
        replica: &replica,
        changes,
        stream,
        is_first: attempt == 0,
        deadline,
        answer_deadline: deadline,
        rounds: 0,
    };
    comparison.run()
}

/// A name for the copy's hold that no other hold has.
fn tempfile_like() -> Result<String> {
    let number = crate::protocol::secret::nonce()
        .map_err(|e| Error::new(ErrorKind::Io, format!("cannot get random numbers: {e}")))?;
    let number = u64::from_le_bytes(number[..8].try_into().unwrap_or_default());
    Ok(format!("verify-{}-{number:016x}", std::process::id()))
}

/// A replica's map, and its position.
struct Side {
    hold: Hold,
    name: String,
}

impl Side {
    /// The positions between which it is; `None` if it has no position at this moment.
    fn bounds(&self) -> Result<Option<(StreamPosition, StreamPosition)>> {
        position::bounds(&self.hold, &self.name)
    }

    fn map(&self) -> Result<Map> {
        self.hold.maps().open(&self.name)
    }
}

struct Comparison<'a> {
    copy: Side,
    checked: Side,
    replica: &'a Replica,
    changes: Changes,
    /// The stream whose positions order the comparison.
    stream: u64,
    /// No whole map was sent yet: a side that follows another stream does so for good.
    is_first: bool,
    deadline: Instant,
    /// By then the replicas have the removals of what had expired at the origin.
    answer_deadline: Instant,
    rounds: u32,
}

/// The result of a round.
#[derive(Default)]
struct Round {
    different: BTreeSet<Vec<u8>>,
    undecided: Vec<Vec<u8>>,
    /// Only such keys as may have expired at the origin without a removal at the replica yet.
    only_late: bool,
    /// The sums of the decided pairs, at the origin and at the replica.
    sums: [Sum; 2],
}

impl Round {
    fn count(&mut self, pairs: [Sum; 2]) {
        self.sums.iter_mut().zip(pairs).for_each(|(sum, pair)| sum.add(pair));
    }
}

/// The result, with all keys that differ.
struct Found {
    verified: Verified,
    different: BTreeSet<Vec<u8>>,
}

impl Found {
    fn limited_to(self, most: usize) -> Verified {
        let differing = self.different.into_iter().take(most).collect();
        Verified { differing, ..self.verified }
    }
}

impl Comparison<'_> {
    /// `None` if either side got the whole map meanwhile.
    fn run(&mut self) -> Result<Option<Found>> {
        if !self.catch_up()? {
            return Ok(None);
        }
        let (origin, checked) = (self.copy.map()?, self.checked.map()?);
        let mut keys: Vec<Vec<u8>> = origin.keys().collect::<Result<_>>()?;
        self.answer_deadline = Instant::now() + ANSWER_TIME + keys.len() as u32 * ANSWER_TIME_EACH;
        for key in checked.keys() {
            let key = key?;
            if !origin.contains(&key)? {
                keys.push(key);
            }
        }
        let mut different = BTreeSet::new();
        let mut sums = [Sum::default(); 2];
        let position = loop {
            let Some((round, position)) = self.look(&origin, &checked, &keys)? else {
                return Ok(None);
            };
            different.extend(round.different);
            keys = round.undecided;
            sums.iter_mut().zip(round.sums).for_each(|(sum, more)| sum.add(more));
            if keys.is_empty() || Instant::now() >= self.deadline {
                break position;
            }
            if round.only_late {
                std::thread::sleep(PAUSE);
            }
        };
        let verified = Verified {
            position,
            prefix: None,
            pairs: checked.len()?,
            origin_digest: sums[0].to_string(),
            replica_digest: sums[1].to_string(),
            differing: Vec::new(),
            different: different.len() as u64,
            undecided: keys.len() as u64,
            rounds: self.rounds,
        };
        Ok(Some(Found { verified, different }))
    }

    /// Waits until the replica has reached the position where the copy began to note changes; false
    /// if either side got the whole map meanwhile.
    fn catch_up(&self) -> Result<bool> {
        let Some((begin, _)) = self.copy.bounds()? else { return Ok(false) };
        let begun = Instant::now();
        loop {
            let late = Instant::now() >= self.deadline;
            // A new map may be taking the old one's place at this moment.
            let never = late || (self.is_first && begun.elapsed() > NOWHERE);
            let name = &self.checked.name;
            match self.checked.bounds()?.map(|(at, _)| at) {
                Some(at) if at.stream == begin.stream && at.offset >= begin.offset => {
                    return Ok(true);
                }
                Some(at) if at.stream == begin.stream && late => {
                    let behind = begin.offset - at.offset;
                    let text = format!(
                        "map '{name}' is {behind} bytes behind its origin and did not catch up; \
                         allow more time"
                    );
                    return Err(Error::new(ErrorKind::TimedOut, text));
                }
                Some(at) if at.stream != begin.stream && (self.is_first || late) => {
                    let text = format!(
                        "map '{name}' follows another stream, so it is not a replica of this \
                         origin's map"
                    );
                    return Err(Error::new(ErrorKind::Mismatch, text));
                }
                None if never => {
                    let text = format!("map '{name}' is not a ready replica");
                    return Err(Error::new(ErrorKind::NotFound, text));
                }
                _ if !self.is_sound()? => return Ok(false),
                _ => std::thread::sleep(PAUSE),
            }
        }
    }

    /// True as long as the copy has noted all changes since it began.
    fn is_sound(&self) -> Result<bool> {
        let same = self.copy.bounds()?.is_some_and(|(at, _)| at.stream == self.stream);
        Ok(same && self.replica.status().synchronisations == 1)
    }

    /// The positions between which each side is; `None` if they cannot be compared any more.
    fn bounds(&self) -> Result<Option<[(StreamPosition, StreamPosition); 2]>> {
        let both = self.copy.bounds()?.zip(self.checked.bounds()?);
        let same = both.filter(|(_, (at, _))| at.stream == self.stream);
        Ok(if self.is_sound()? { same.map(<[_; 2]>::from) } else { None })
    }

    /// Compares some keys of both sides, and decides which differ; `None` if either side got the
    /// whole map meanwhile.
    fn look(
        &mut self,
        origin: &Map,
        checked: &Map,
        keys: &[Vec<u8>],
    ) -> Result<Option<(Round, StreamPosition)>> {
        self.rounds += 1;
        let Some(before) = self.bounds()? else { return Ok(None) };
        let from = before[0].0.offset.min(before[1].0.offset);
        let (mut round, mut suspects) = (Round::default(), Vec::new());
        let may_be_late = Instant::now() < self.answer_deadline;
        let expires = has_expiry(origin);
        for key in keys {
            let values = [origin.get(key)?, checked.get(key)?];
            let pairs = values.each_ref().map(|v| Sum::of(key, v.as_deref()));
            match values[0] == values[1] {
                true => round.count(pairs),
                false => {
                    // The two sides know the origin's clock up to a few milliseconds.
                    let is_gone = values[0].is_none() || (expires && values[1].is_none());
                    suspects.push((key, pairs, may_be_late && is_gone));
                }
            }
        }
        let Some(after) = self.bounds()? else { return Ok(None) };
        let offset = after[0].1.offset.max(after[1].1.offset);
        // The changes up to there have to be known.
        let left = self.deadline.saturating_duration_since(Instant::now());
        let end = StreamPosition { offset, stream: self.stream };
        let known = self.replica.wait_for(end, left.max(Duration::from_millis(100)));
        if !self.is_sound()? {
            return Ok(None);
        }
        round.only_late = true;
        for (key, pairs, late) in suspects {
            let certain = known && !self.changes.since(key, from);
            if certain && !late {
                round.different.insert(key.clone());
                round.count(pairs);
            } else {
                round.undecided.push(key.clone());
                round.only_late &= certain;
            }
        }
        Ok(Some((round, end)))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_digest_depends_on_the_pairs_and_on_nothing_else() {
        let sum = |pairs: &[(&str, &str)]| {
            let mut sum = Sum::default();
            pairs.iter().for_each(|(k, v)| sum.add(Sum::of(k.as_bytes(), Some(v.as_bytes()))));
            sum.to_string()
        };
        assert_eq!(sum(&[]), "0".repeat(32));
        assert_eq!(sum(&[("a", "1"), ("b", "2")]), sum(&[("b", "2"), ("a", "1")]));
        assert_ne!(sum(&[("a", "1"), ("b", "2")]), sum(&[("a", "2"), ("b", "1")]));
        assert_ne!(sum(&[("ab", "c")]), sum(&[("a", "bc")]));
    }
}
