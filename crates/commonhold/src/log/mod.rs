//! The log: many writers, one merged log.
//!
//! Each writing thread has a ring of its own in the hold, so nobody waits for anybody. Lines that a
//! thread has committed survive any death. One collector at a time merges all rings by time.
//! Without a collector the last lines stay in the hold, for [`Log::dump`].

// The files of this folder:
//
// | idea | file |
// |---|---|
// | the contents of the block | `layout` |
// | options, levels, the result of writing a line | `options` |
// | one ring: writing and reading lines | `ring` |
// | the ring that each thread writes to | `ring_slot` |
// | the public handle | `handle` |
// | statistics | `stat` |
// | reading all rings in the order of time | `merge` |
// | the collector; making one round atomic | `collect`, `rounds` |
// | reading as it grows, without collecting | `reader` |
// | a line, its text, short thread ids | `line` |
// | the beginning of its text: time, level, thread | `front` |
// | files that rotate when they are full | `rotate` |
// | front ends of the crates `log` and `tracing` | `facade`, `layer` |
// | after a death; proving a log sound | `recover` |

pub(crate) mod collect;
#[cfg(feature = "log")]
pub(crate) mod facade;
pub(crate) mod file_series;
pub(crate) mod front;
pub(crate) mod handle;
#[cfg(feature = "tracing")]
pub(crate) mod layer;
pub(crate) mod layout;
pub(crate) mod line;
pub(crate) mod lost_lines;
pub(crate) mod merge;
pub(crate) mod options;
pub(crate) mod reader;
pub(crate) mod recover;
pub(crate) mod ring;
pub(crate) mod ring_slot;
pub(crate) mod rotate;
pub(crate) mod rounds;
pub(crate) mod stat;

pub use collect::{Collector, Round};
#[cfg(feature = "log")]
pub use facade::LogFacade;
pub use handle::Log;
#[cfg(feature = "tracing")]
pub use layer::LogLayer;
pub use line::{LogLine, ThreadId, ThreadInfo};
pub use options::{LogLevel, LogOptions, Overflow, Written};
pub use reader::LogReader;
pub use rotate::RotatedFile;
pub use stat::{LogStat, RingStat};
