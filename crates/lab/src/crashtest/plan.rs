//! The plan that all processes of a crash test follow: maps, keys, their owners, and the ledger.
//!
//! A **lane** is one writing thread's place: only this thread changes its keys, so it knows what
//! every answer must be. The **ledger** is the run's board: for every owned key one word, `number
//! of the last acknowledged change << 1 | present`. A lane changes one key, then writes the word;
//! so when its process is killed at any instant, exactly one change may be ahead of the ledger (a
//! batch, if the lane announced one), and none may be behind.

use super::value::{Kind, Stamp};
use crate::workload::{Result, board::Board};
use commonhold::Hold;
use commonhold::map::{Map, MapOptions};
use serde::{Deserialize, Serialize};
use std::path::PathBuf;

/// Keys of each kind that a lane owns.
pub const KEYS: u64 = 400;
/// Keys whose number is a multiple of this are never deleted.
pub const KEPT_EVERY: u64 = 4;
/// Counters that all lanes increment, and as many that all lanes update by a callback.
pub const COUNTERS: u64 = 6;
/// Keys that all lanes set, exchange and delete at will.
pub const HOT: u64 = 6;
/// Keys in one set_many.
pub const BATCH: u64 = 6;
/// Keys that a lane adds to each growing map at most.
pub const GROWN: u64 = 40_000;
/// Writing threads of one writing process.
pub const LANES_EACH: u32 = 2;

/// Processes at most.
pub const PLACES: u64 = 64;

/// The map of counters.
pub const COUNTS: &str = "counts";
/// The maps that any lane clears and drops at any time: general, fixed and cache.
pub const SCRATCH: [&str; 3] = ["scratch", "scratch-fixed", "scratch-cache"];
/// The maps that only grow, until a round is over.
pub const GROWING: [&str; 2] = ["growing", "growing-fixed"];

const OVER: u64 = 0;
const PROGRESS: u64 = 16;
const READY: u64 = PROGRESS + PLACES * LANES_EACH as u64;
const FAILURES: u64 = READY + PLACES;
const LANES: u64 = FAILURES + PLACES * LANES_EACH as u64;
const KINDS: u64 = Kind::ALL.len() as u64;
/// Words of one lane before its keys: incarnation, batch, grown (2), counted, updated.
const LANE_HEAD: u64 = 4 + 2 * COUNTERS;
const LANE: u64 = LANE_HEAD + KINDS * KEYS;

/// The role of a process.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub enum Role {
    /// Writes with the lanes `first_lane` and the next ones.
    Writer {
        /// Its first lane.
        first_lane: u32,
    },
    /// Reads and proves.
    Reader {
        /// Whether it opens the hold for reading only.
        read_only: bool,
    },
    /// Looks after the hold: checks, sweeps, trims, backs up, freezes.
    Caretaker,
}

/// The orders of a process.
#[derive(Serialize, Deserialize, Clone)]
pub struct Order {
    /// Its role.
    pub role: Role,
    /// Its place among all processes.
    pub place: u32,
    /// How many lanes there are.
    pub lanes: u32,
    /// Grows with every process started, so that no two of them draw the same.
    pub seed: u64,
    /// The shared hold.
    pub hold: PathBuf,
    /// The ledger.
    pub board: PathBuf,
    /// A folder for backups.
    pub folder: PathBuf,
    /// Whether calls fail, too.
    pub faults: bool,
    /// The process that started it.
    pub starter: u32,
}

/// The ledger: typed places on the board.
pub struct Ledger {
    board: Board,
    lanes: u32,
}

/// The known state of an owned key.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Known {
    /// Number of the last change.
    pub number: u64,
    /// Whether the key is there after it.
    pub present: bool,
}

impl Known {
    /// The state in a word of the ledger.
    pub fn from_word(word: u64) -> Known {
        Known { number: word >> 1, present: word & 1 == 1 }
    }

    fn word(self) -> u64 {
        self.number << 1 | u64::from(self.present)
    }

    /// After one more change.
    pub fn next(self, present: bool) -> Known {
        Known { number: self.number + 1, present }
    }
}

impl Ledger {
    /// An empty ledger for `lanes` lanes.
    pub fn create(lanes: u32) -> Result<Ledger> {
        Ok(Ledger { board: Board::create(LANES + u64::from(lanes) * LANE)?, lanes })
    }

    /// The ledger that `order` names.
    pub fn open(order: &Order) -> Result<Ledger> {
        Ok(Ledger { board: Board::open(&order.board)?, lanes: order.lanes })
    }

    /// The board behind it.
    pub fn board(&self) -> &Board {
        &self.board
    }

    /// How many lanes there are.
    pub fn lanes(&self) -> u32 {
        self.lanes
    }

    /// Whether all processes must finish.
    pub fn over(&self) -> Result<bool> {
        Ok(self.board.get(OVER)? != 0)
    }

    /// Orders all processes to finish, or to continue.
    pub fn set_over(&self, over: bool) -> Result<()> {
        self.board.put(OVER, over.into())
    }

    /// The number of operations of thread `thread` of the process at `place` since it began.
    pub fn progress(&self, place: u32, thread: u32) -> Result<u64> {
        self.board.get(PROGRESS + u64::from(place * LANES_EACH + thread))
    }

    /// Records the number of operations of thread `thread` of the process at `place` since it
    /// began.
    pub fn set_progress(&self, place: u32, thread: u32, done: u64) -> Result<()> {
        self.board.put(PROGRESS + u64::from(place * LANES_EACH + thread), done)
    }

    /// The pid of the process at `place` that has opened everything and works.
    pub fn ready(&self, place: u32) -> Result<u64> {
        self.board.get(READY + u64::from(place))
    }

    /// Records that this process, at `place`, has opened everything and works.
    pub fn set_ready(&self, place: u32) -> Result<()> {
        self.board.put(READY + u64::from(place), u64::from(std::process::id()))
    }

    /// Counts a call of thread `thread` of the process at `place` that failed.
    pub fn count_failure(&self, place: u32, thread: u32) -> Result<()> {
        let word = FAILURES + u64::from(place * LANES_EACH + thread);
        self.board.put(word, self.board.get(word)? + 1)
    }

    /// How many calls have failed so far, of all processes.
    pub fn failures(&self) -> Result<u64> {
        Ok(self.board.get_row(FAILURES, PLACES * u64::from(LANES_EACH))?.into_iter().sum())
    }

    /// Word `at` of `lane`'s head, such as [`INCARNATION`].
    pub fn head(&self, lane: u32, at: u64) -> Result<u64> {
        self.board.get(LANES + u64::from(lane) * LANE + at)
    }

    /// Writes word `at` of `lane`'s head.
    pub fn set_head(&self, lane: u32, at: u64, value: u64) -> Result<()> {
        self.board.put(LANES + u64::from(lane) * LANE + at, value)
    }

    /// Adds up word `at` of all lanes' heads.
    pub fn sum(&self, at: u64) -> Result<u64> {
        (0..self.lanes).map(|lane| self.head(lane, at)).sum()
    }

    /// The known state of key `index` of `kind`, owned by `lane`.
    pub fn known(&self, lane: u32, kind: Kind, index: u64) -> Result<Known> {
        self.board.get(key_word(lane, kind, index)).map(Known::from_word)
    }

    /// The known states of all keys of `kind` that `lane` owns.
    pub fn all_known(&self, lane: u32, kind: Kind) -> Result<Vec<Known>> {
        let row = self.board.get_row(key_word(lane, kind, 0), KEYS)?;
        Ok(row.into_iter().map(Known::from_word).collect())
    }

    /// Acknowledges a change.
    pub fn acknowledge(&self, lane: u32, kind: Kind, index: u64, known: Known) -> Result<()> {
        self.board.put(key_word(lane, kind, index), known.word())
    }
}

/// Head word: how often the lane was taken up.
pub const INCARNATION: u64 = 0;
/// Head word: 1 while a batch is being set.
pub const IN_BATCH: u64 = 1;

/// Head word: how many keys the lane has added to growing map `which`.
pub fn grown(which: usize) -> u64 {
    2 + which as u64
}

/// Head word: increments of `counter` that were acknowledged to the lane.
pub fn counted(counter: u64) -> u64 {
    4 + counter
}

/// Head word: updates of `counter` that were acknowledged to the lane.
pub fn updated(counter: u64) -> u64 {
    4 + COUNTERS + counter
}

fn key_word(lane: u32, kind: Kind, index: u64) -> u64 {
    LANES + u64::from(lane) * LANE + LANE_HEAD + kind as u64 * KEYS + index
}

/// Key `index` of `kind` that `lane` owns.
pub fn own_key(kind: Kind, lane: u32, index: u64) -> Vec<u8> {
    match kind {
        Kind::Word => ((lane << 16) | index as u32).to_le_bytes().to_vec(),
        Kind::Cells => [u64::from(lane), index].map(u64::to_le_bytes).concat(),
        Kind::General | Kind::Cache => {
            // Some keys are long.
            let filling = if index % 32 == 5 { "x".repeat(300) } else { String::new() };
            format!("{lane}/{index}{filling}").into_bytes()
        }
    }
}

/// The (lane, index) of a key that [`own_key`] made for the general map; none for other keys.
pub fn owner_of(key: &[u8]) -> Option<(u32, u64)> {
    let text = std::str::from_utf8(key).ok()?;
    let (lane, index) = text.trim_end_matches('x').split_once('/')?;
    Some((lane.parse().ok()?, index.parse().ok()?))
}

/// The key that `lane` adds as its `number`-th to growing map `which`.
pub fn growing_key(which: usize, lane: u32, number: u64) -> Vec<u8> {
    match which {
        0 => format!("grown {lane} {number}").into_bytes(),
        _ => (u64::from(lane) << 32 | number).to_le_bytes().to_vec(),
    }
}

/// The value that belongs to a key of growing map `which`.
pub fn growing_value(which: usize, key: &[u8]) -> Vec<u8> {
    let mut value = Vec::new();
    match which {
        0 => Kind::Cells.write(key, Stamp { number: 1, writer: 0 }, &mut value),
        _ => value.extend(u64::from(crc32fast::hash(key)).to_le_bytes()),
    }
    value
}

/// The options of scratch map `which`.
pub fn scratch_options(which: usize) -> MapOptions {
    match which {
        0 => MapOptions::general(),
        1 => MapOptions::fixed(8, 8),
        _ => MapOptions::cache().max_entries(500).into(),
    }
}

/// A value of scratch key `key`, which proves that it belongs there.
pub fn scratch_value(key: &[u8; 8], draw: u32) -> [u8; 8] {
    let proof = crc32fast::hash(&[&key[..], &draw.to_le_bytes()[..]].concat());
    (u64::from(proof) << 32 | u64::from(draw)).to_le_bytes()
}

/// Whether `value` is one that [`scratch_value`] made for `key`.
pub fn is_scratch_value(key: &[u8], value: &[u8]) -> bool {
    let (Ok(key), Ok(value)) = (<&[u8; 8]>::try_from(key), <[u8; 8]>::try_from(value)) else {
        return false;
    };
    scratch_value(key, u64::from_le_bytes(value) as u32) == value
}

/// A key that all lanes change at will.
pub fn hot_key(which: u64) -> String {
    format!("hot {which}")
}

/// A counter that is only incremented.
pub fn counter_key(which: u64) -> String {
    format!("counter {which}")
}

/// A counter that is only changed by `update`.
pub fn updated_key(which: u64) -> String {
    format!("updated {which}")
}

/// The open maps of a run.
pub struct Maps {
    own: [Map; 4],
    /// Counters.
    pub counts: Map,
    /// The maps that only grow within a round.
    pub growing: [Map; 2],
}

impl Maps {
    /// Creates missing maps.
    pub fn create(hold: &Hold) -> Result<Maps> {
        for (name, options) in Kind::ALL.map(|kind| (kind.map_name(), kind.options())) {
            hold.maps().open_or_create(name, options)?;
        }
        hold.maps().open_or_create(COUNTS, MapOptions::general())?;
        hold.maps().open_or_create(GROWING[0], MapOptions::general())?;
        hold.maps().open_or_create(GROWING[1], MapOptions::fixed(8, 8))?;
        Maps::open(hold)
    }

    /// Opens the maps that [`Maps::create`] made.
    pub fn open(hold: &Hold) -> Result<Maps> {
        let own = |kind: Kind| hold.maps().open(kind.map_name());
        let [a, b, c, d] = Kind::ALL.map(own);
        let [e, f] = GROWING.map(|name| hold.maps().open(name));
        Ok(Maps { own: [a?, b?, c?, d?], counts: hold.maps().open(COUNTS)?, growing: [e?, f?] })
    }

    /// The map of owned keys of `kind`.
    pub fn own(&self, kind: Kind) -> &Map {
        &self.own[kind as usize]
    }
}

impl Kind {
    /// The map with keys of this kind.
    pub fn map_name(self) -> &'static str {
        ["general", "word", "cells", "cache"][self as usize]
    }

    fn options(self) -> MapOptions {
        match self {
            Kind::General => MapOptions::general(),
            Kind::Word => MapOptions::fixed(4, 4),
            Kind::Cells => MapOptions::fixed(16, 16),
            Kind::Cache => MapOptions::cache().max_entries(1_000).max_bytes(4 << 20).into(),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::collections::HashSet;

    #[test]
    fn no_two_lanes_share_a_key_or_a_word() {
        let (mut keys, mut words) = (HashSet::new(), HashSet::new());
        for (kind, lane) in Kind::ALL.iter().flat_map(|k| (0..6).map(move |l| (*k, l))) {
            for index in 0..KEYS {
                assert!(keys.insert((kind as usize, own_key(kind, lane, index))));
                assert!(words.insert(key_word(lane, kind, index)));
            }
        }
        for (lane, at) in (0..6u32).flat_map(|lane| (0..LANE_HEAD).map(move |at| (lane, at))) {
            assert!(words.insert(LANES + u64::from(lane) * LANE + at));
        }
        let heads = [INCARNATION, IN_BATCH, grown(0), grown(1), counted(0), updated(0)];
        assert_eq!(heads.iter().collect::<HashSet<_>>().len(), heads.len());
        assert!(updated(COUNTERS - 1) < LANE_HEAD);
    }

    #[test]
    fn owners_are_read_from_keys() {
        for index in 0..KEYS {
            assert_eq!(owner_of(&own_key(Kind::General, 3, index)), Some((3, index)));
        }
        assert_eq!(owner_of(b"hot 1"), None);
    }

    #[test]
    fn the_ledger_keeps_what_is_known() {
        let ledger = Ledger::create(2).unwrap();
        let known = Known { number: 9, present: false }.next(true);
        ledger.acknowledge(1, Kind::Cells, 7, known).unwrap();
        assert_eq!(ledger.known(1, Kind::Cells, 7).unwrap(), known);
        assert_eq!(ledger.all_known(1, Kind::Cells).unwrap()[7], known);
        assert_eq!(ledger.known(0, Kind::Cells, 7).unwrap().number, 0);
        ledger.set_head(0, counted(2), 5).unwrap();
        ledger.set_head(1, counted(2), 6).unwrap();
        assert_eq!(ledger.sum(counted(2)).unwrap(), 11);
    }
}
