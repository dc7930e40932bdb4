//! The common part of the demo's reading and writing processes: their orders and the places on the
//! board.

use super::names::{self, Character};
use crate::workload::{Result, board::Board, worker};
use commonhold::Hold;
use commonhold::map::Map;
use serde::{Deserialize, Serialize};
use std::path::PathBuf;

/// The map of characters.
pub const NAMES: &str = "names";
/// The map of counters.
pub const COUNTS: &str = "counts";
/// The one counter, which all writers increment.
pub const EDITS: &str = "edits";

/// Board: the part of the show that is on, a [`Part`] as a number.
pub const PART: u64 = 0;
/// Board: operations done, one word per process.
pub const DONE: u64 = 8;
/// Board: increments that were acknowledged, one word per writer.
pub const COUNTED: u64 = 32;
/// Board: the number of the last acknowledged edit, one word per character.
pub const ACKNOWLEDGED: u64 = 64;

/// The parts of the show.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub enum Part {
    /// All processes work.
    Before,
    /// One writer is suspended; another one dies meanwhile.
    During,
    /// The suspended one continues, the dead one's work has been recovered.
    After,
    /// The end: all processes finish.
    Over,
}

impl Part {
    /// The part that the board shows.
    pub fn on(board: &Board) -> Result<Part> {
        Ok(match board.get(PART)? {
            0 => Part::Before,
            1 => Part::During,
            2 => Part::After,
            _ => Part::Over,
        })
    }
}

/// The role of a process.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub enum Role {
    /// Reads and proves random values.
    Reader,
    /// Edits the characters whose number modulo the writers is `share`.
    Writer {
        /// From 0.
        share: u32,
    },
}

/// The order that a worker is started with.
#[derive(Serialize, Deserialize)]
pub struct Order {
    /// Its role.
    pub role: Role,
    /// Its place among all workers.
    pub place: u32,
    /// How many writers there are.
    pub writers: u32,
    /// The shared hold.
    pub hold: PathBuf,
    /// The run's board.
    pub board: PathBuf,
    /// The process that started it.
    pub starter: u32,
}

/// A worker's handles.
pub struct Workplace {
    /// The shared map of characters.
    pub names: Map,
    /// The shared map of counters.
    pub counts: Map,
    /// The run's board.
    pub board: Board,
    /// The data set.
    pub characters: Vec<Character>,
}

impl Workplace {
    /// Opens what `order` names, in a process of its own.
    pub fn open(order: &Order) -> Result<Workplace> {
        worker::die_with(order.starter)?;
        let hold = Hold::open(&order.hold)?;
        Ok(Workplace {
            names: hold.maps().open(NAMES)?,
            counts: hold.maps().open(COUNTS)?,
            board: Board::open(&order.board)?,
            characters: names::all()?,
        })
    }
}
