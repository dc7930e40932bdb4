//! The subcommands: one file each, with its options, its examples and its `run`.
//!
//! - storing and asking: [`set`], [`get`], [`del`], [`clear`], [`incr`], [`keys`], [`scan`],
//!   [`random`]; expiry: [`ttl`], with `touch`; many operations in one process: [`batch`]
//! - lists as values: [`list_values`], with `push`, `unshift`, `pop` and `shift`
//! - files: [`load`], [`dump`], [`backup`], [`restore`]
//! - messages: [`queue`], [`channel`], [`log`], with subcommands of their own
//! - changes as they happen: [`watch`]
//! - maps over the network: [`replication`], with `origin`, `replica`, `relay`, `verify`,
//!   `journal`, `sync` and `wait`
//! - files over the network: [`serve`]
//! - a live view of a hold: [`monitor`] in the browser, [`top`] in the terminal
//! - what can be changed of a map: [`alter`]
//! - the hold as a whole: [`stat`], [`check`], [`repair`], [`mod@drop`], [`list`], [`upgrade`]
//! - around it: [`doctor`], [`completions`], [`man`]
//! - code that several subcommands share: `shared`

pub mod alter;
pub mod backup;
pub mod batch;
pub mod channel;
pub mod check;
pub mod clear;
pub mod completions;
pub mod del;
pub mod doctor;
pub mod drop;
pub mod dump;
pub mod get;
pub mod incr;
pub mod keys;
pub mod list;
pub mod list_values;
pub mod load;
pub mod log;
pub mod man;
pub mod monitor;
pub mod nats;
pub mod queue;
pub mod random;
pub mod repair;
pub mod replication;
pub mod restore;
pub mod scan;
pub mod serve;
pub mod set;
mod shared;
pub mod stat;
pub mod top;
pub mod ttl;
pub mod upgrade;
pub mod watch;
