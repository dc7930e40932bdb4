//! How far the replicas of a map have applied its changes: their origins note it in the hold, and a
//! process that has changed the map waits until that is far enough.
//!
//! The notes are a hidden map with one pair for each replica: its number, and its position and
//! name. A note is a fact, which stays true when the origin or the replica ends. A replica that
//! connects again, also to another origin of the map, has the same number, and so the same note. A
//! note is about one incarnation of the map in one hold: after that, the same positions may be
//! those of other changes. A waiting process only reads: it looks again and again, and no process
//! can hold it up.

use crate::error::{Error, ErrorKind, Result};
use crate::hold::handle::Hold;
use crate::hold::journal_slot::left;
use crate::hold::map_identity::{MapIdentity, map_identity};
use crate::hold::maps::companion_name;
use crate::map::api::handle::Map;
use crate::map::options::MapOptions;
use crate::os::futex;
use crate::stream::position::StreamPosition;
use crate::sync::thread_patience::with_patience;
use std::sync::Arc;
use std::time::{Duration, Instant};

/// The first pause between two looks at the notes. Each next one is twice as long, up to
/// `LONGEST_NAP`.
const FIRST_NAP: Duration = Duration::from_micros(50);
const LONGEST_NAP: Duration = Duration::from_millis(1);
/// The most bytes of a replica's name.
const MOST_NAME: usize = 64;

/// # Errors
/// `Invalid` for a name that no replica can have.
pub fn check_replica_name(name: &str) -> Result<()> {
    if name.len() <= MOST_NAME && !name.chars().any(char::is_control) {
        return Ok(());
    }
    let text = format!(
        "expected a replica's name of at most {MOST_NAME} bytes without control characters, got \
         '{}'",
        name.escape_debug()
    );
    Err(Error::new(ErrorKind::Invalid, text))
}

fn notes_name(map: &str) -> String {
    companion_name("acks", map)
}

/// A note about one replica.
#[derive(Debug)]
struct Ack {
    of: MapIdentity,
    position: StreamPosition,
    name: Vec<u8>,
}

impl Ack {
    fn bytes(&self) -> Vec<u8> {
        let StreamPosition { stream, offset } = self.position;
        let mut bytes = self.of.to_vec();
        bytes.extend([stream, offset].map(u64::to_le_bytes).concat());
        bytes.extend(&self.name);
        bytes
    }

    fn of_bytes(bytes: &[u8]) -> Option<Ack> {
        let (of, rest) = bytes.split_first_chunk()?;
        let (stream, rest) = rest.split_first_chunk()?;
        let (offset, name) = rest.split_first_chunk()?;
        let [stream, offset] = [stream, offset].map(|half| u64::from_le_bytes(*half));
        Some(Ack { of: *of, position: StreamPosition { stream, offset }, name: name.to_vec() })
    }

    /// Whether both are about one replica of one map, and a stream that both have.
    fn continues(&self, before: &Ack) -> bool {
        let same_map = (self.of, self.position.stream) == (before.of, before.position.stream);
        // Copies of a replica's hold have one number, and should have names of their own.
        same_map && self.name == before.name
    }
}

/// The notes about the replicas of one map, which its origins write.
#[derive(Debug)]
pub struct ReplicaAcks {
    notes: Map,
}

impl ReplicaAcks {
    /// Opens the notes of a map, or creates them.
    ///
    /// # Errors
    /// Those of creating a map.
    pub fn open(hold: &Hold, map: &str) -> Result<ReplicaAcks> {
        let notes = hold.maps().open_or_create(&notes_name(map), MapOptions::general())?;
        Ok(ReplicaAcks { notes })
    }

    /// Notes that a replica of a map has applied everything before a position. A later position of
    /// the same stream stays, because another origin may have noted it, unless the replica
    /// `resumes` here: then that later position was another history's. Returns true if the replica
    /// had no note.
    ///
    /// # Errors
    /// Those of writing a map.
    pub fn raise(
        &self,
        of: &MapIdentity,
        (node, name): (u64, &str),
        position: StreamPosition,
        resumes: bool,
    ) -> Result<bool> {
        let key = node.to_le_bytes();
        loop {
            let before = self.notes.get(key)?;
            let known = before.as_deref().and_then(Ack::of_bytes).filter(|_| !resumes);
            let mut next = Ack { of: *of, position, name: name.as_bytes().to_vec() };
            if let Some(known) = known.filter(|known| next.continues(known)) {
                next.position.offset = known.position.offset.max(position.offset);
            }
            let next = next.bytes();
            if before.as_deref() == Some(&next) {
                return Ok(false);
            }
            if self.notes.compare_exchange(key, before.as_deref(), Some(&next))? {
                return Ok(before.is_none());
            }
        }
    }

    /// Removes the note about a replica, which begins again with nothing.
    ///
    /// # Errors
    /// Those of writing a map.
    pub fn forget(&self, node: u64) -> Result<()> {
        self.notes.delete(node.to_le_bytes()).map(drop)
    }

    /// If there are more than twice as many notes as `most`, keeps the `most` that are furthest in
    /// this stream of this map, so that replicas that never return take a limited amount of memory.
    ///
    /// # Errors
    /// Those of reading and writing a map.
    pub fn prune(&self, of: &MapIdentity, stream: u64, most: usize) -> Result<()> {
        if self.notes.len()? <= most.saturating_mul(2) as u64 {
            return Ok(());
        }
        let mut notes = Vec::new();
        for pair in self.notes.iter() {
            let (key, value) = pair?;
            let position = Ack::of_bytes(&value).filter(|ack| ack.of == *of);
            let position = position.map(|ack| ack.position);
            let offset = position.filter(|at| at.stream == stream).map(|at| at.offset);
            notes.push((offset, key));
        }
        notes.sort_unstable_by(|one, other| other.cmp(one));
        notes.iter().skip(most).try_for_each(|(_, key)| self.notes.delete(key).map(drop))
    }
}

/// The replicas that a call waits for.
#[derive(Clone, Copy)]
enum Wanted<'a> {
    /// This many, whatever their names are.
    Count(usize),
    /// One of this name.
    Named(&'a str),
}

impl Wanted<'_> {
    fn count(self) -> usize {
        match self {
            Wanted::Count(count) => count,
            Wanted::Named(_) => 1,
        }
    }

    fn includes(self, ack: &Ack) -> bool {
        match self {
            Wanted::Count(_) => true,
            Wanted::Named(name) => ack.name == name.as_bytes(),
        }
    }
}

/// Reads the notes about the replicas of this map.
fn for_each_ack(hold: &Hold, map: &Map, mut each: impl FnMut(&Ack)) -> Result<()> {
    let notes = match hold.maps().open(&notes_name(map.name())) {
        // No replica has reported yet.
        Err(error) if error.is_not_found() => return Ok(()),
        notes => notes?,
    };
    let of = map_identity(map);
    for pair in notes.iter() {
        if let Some(ack) = Ack::of_bytes(&pair?.1).filter(|ack| ack.of == of) {
            each(&ack);
        }
    }
    Ok(())
}

/// The positions that the replicas of a map have reported.
///
/// # Errors
/// Those of reading a map.
pub(crate) fn positions(hold: &Hold, map: &Map) -> Result<Vec<StreamPosition>> {
    let mut positions = Vec::new();
    for_each_ack(hold, map, |ack| positions.push(ack.position))?;
    Ok(positions)
}

/// The wanted replicas that have a note, and those of them that have applied everything.
#[derive(Default)]
struct Found {
    known: usize,
    done: usize,
}

impl Map {
    /// Waits until at least `count` replicas have applied every change of the map that was made
    /// before this call; waits at most for `time`. Returns the number of replicas that have, which
    /// may be larger.
    ///
    /// A replica has applied a change when it is in the replica's hold, where readers see it. It
    /// need not be on the replica's disk. The replicas of relays do not count. A replica that has
    /// reported the changes also counts while it is disconnected. Waiting
    /// takes no lock after the end of the stream is known, and a killed or stopped origin or
    /// replica delays it only up to `time`.
    ///
    /// # Errors
    /// `NotFound` if the map has no stream, or was dropped; `TimedOut`, with the number of replicas
    /// that have applied everything; those of a writing operation.
    pub fn wait_for_replicas(&self, count: usize, time: Duration) -> Result<usize> {
        self.wait_for_acks(None, Wanted::Count(count), time)
    }

    /// Like [`wait_for_replicas`](Self::wait_for_replicas), for the changes before a position,
    /// which [`Follower::end`](crate::stream::Follower::end) returns. It allows waiting in several
    /// calls.
    ///
    /// # Errors
    /// As for [`wait_for_replicas`](Self::wait_for_replicas).
    pub fn wait_for_replicas_to(
        &self,
        end: StreamPosition,
        count: usize,
        time: Duration,
    ) -> Result<usize> {
        self.wait_for_acks(Some(end), Wanted::Count(count), time)
    }

    /// Waits until the replica of this name has applied every change of the map that was made
    /// before this call; waits at most for `time`. A replica gets its name when it starts. If
    /// several replicas have the name, one of them is enough, so names should be unique.
    ///
    /// # Errors
    /// `Invalid` for a name that no replica can have, or an empty one; otherwise as for
    /// [`wait_for_replicas`](Self::wait_for_replicas).
    pub fn wait_for_replica(&self, name: &str, time: Duration) -> Result<()> {
        self.wait_for_acks(None, named(name)?, time).map(drop)
    }

    /// Like [`wait_for_replica`](Self::wait_for_replica), for the changes before a position.
    ///
    /// # Errors
    /// As for [`wait_for_replica`](Self::wait_for_replica).
    pub fn wait_for_replica_to(
        &self,
        end: StreamPosition,
        name: &str,
        time: Duration,
    ) -> Result<()> {
        self.wait_for_acks(Some(end), named(name)?, time).map(drop)
    }

    fn wait_for_acks(
        &self,
        end: Option<StreamPosition>,
        wanted: Wanted<'_>,
        time: Duration,
    ) -> Result<usize> {
        let deadline = Instant::now().checked_add(time);
        let end = match end {
            Some(end) => end,
            None => with_patience(left(deadline), || self.follow()?.end())?,
        };
        let hold = Hold::new(Arc::clone(&self.arena));
        let mut nap = FIRST_NAP;
        loop {
            let begun = Instant::now();
            let found = self.find_acks(&hold, end, wanted)?;
            if found.done >= wanted.count() {
                return Ok(found.done);
            }
            let left = left(deadline);
            if left.is_zero() {
                return Err(self.not_applied_in_time(wanted, &found));
            }
            // A map of many replicas takes longer to read than a nap.
            futex::nap(nap.max(begun.elapsed()).min(left));
            nap = (nap * 2).min(LONGEST_NAP);
        }
    }

    /// Reads the notes.
    fn find_acks(&self, hold: &Hold, end: StreamPosition, wanted: Wanted<'_>) -> Result<Found> {
        // Before the notes: a replica that has a later stream began it with the whole map.
        let current = self.stream_number()?;
        let has_all = |at: StreamPosition| match at.stream == end.stream {
            true => at.offset >= end.offset,
            false => Some(at.stream) == current,
        };
        let mut found = Found::default();
        for_each_ack(hold, self, |ack| {
            if wanted.includes(ack) {
                found.known += 1;
                found.done += usize::from(has_all(ack.position));
            }
        })?;
        Ok(found)
    }

    #[cold]
    fn not_applied_in_time(&self, wanted: Wanted<'_>, found: &Found) -> Error {
        let what = match (wanted, found.known) {
            (Wanted::Count(count), _) => {
                format!("{} of {count} replicas have applied all changes", found.done)
            }
            (Wanted::Named(name), 0) => format!(
                "no replica with the name '{name}' has reported; 'hold replica --name' gives a \
                 replica its name"
            ),
            (Wanted::Named(name), _) => {
                format!("the replica '{name}' has not applied all changes")
            }
        };
        let text = format!("map '{}': timed out: {what}", self.name());
        Error::new(ErrorKind::TimedOut, text)
    }
}

/// # Errors
/// `Invalid` for a name that no replica can have, or an empty one, which replicas have that were
/// given none.
fn named(name: &str) -> Result<Wanted<'_>> {
    check_replica_name(name)?;
    if name.is_empty() {
        let text = "expected a replica's name, got an empty one; to wait for any replica, wait \
                    for a number of them";
        return Err(Error::new(ErrorKind::Invalid, text));
    }
    Ok(Wanted::Named(name))
}
