//! The file as a whole: its structures by name, statistics, copies, recovery.
//!
//! [`Hold`](crate::Hold) is the handle; [`Maps`], [`Queues`], [`Channels`] and [`Logs`] open,
//! create, drop and list its structures; [`list`], [`remove`], [`restore`] and [`salvage`] treat
//! holds as files.

// The files of this folder:
//
// | idea | file |
// |---|---|
// | the public handle and its options | `handle`, `options`, `stat` |
// | its structures by name | `maps`, `queues`, `channels`, `logs`, `shadow_maps` |
// | the first page | `superblock` |
// | opening and creating | `open` |
// | whether everything is on the disk | `clean` |
// | deleting all keys of a map: `Map::clear` | `clear` |
// | the processes that have it open | `open_byte` |
// | recovering a dead participant as a whole | `recover` |
// | keeping writers out for a moment | `freeze` |
// | who holds which lock, for display | `held_locks` |
// | proving it sound | `check` |
// | copies | `backup`, `restore`, `restore_options`; several of them: `rotation`; `spool` |
// | the file of a backup | `frames`, `survivors`, `backup_contents` |
// | building a hold where nobody sees it | `draft_hold` |
// | after a crash of the system | `salvage`, `unreadable` |
// | how far a journal is durable: `Map::sync` | `journal_slot` |
// | which map a note is about | `map_identity` |
// | how far replicas have applied: `Map::wait_for_replicas` | `replica_acks` |
// | holds as files | `files` |

pub(crate) mod backup;
mod backup_contents;
#[cfg(test)]
mod block_tests;
pub(crate) mod channels;
pub(crate) mod check;
mod clean;
mod clear;
mod draft_hold;
#[cfg(test)]
mod dropping_tests;
pub(crate) mod files;
pub(crate) mod frames;
pub(crate) mod freeze;
pub(crate) mod handle;
pub(crate) mod held_locks;
#[cfg(test)]
mod in_place_tests;
pub(crate) mod journal_slot;
#[cfg(all(test, feature = "steps"))]
mod killed_split_tests;
pub(crate) mod logs;
pub(crate) mod map_identity;
pub(crate) mod maps;
pub(crate) mod open;
mod open_byte;
pub(crate) mod options;
pub(crate) mod queues;
pub(crate) mod recover;
pub(crate) mod replica_acks;
pub(crate) mod restore;
mod restore_options;
#[cfg(test)]
mod reuse_tests;
mod rotation;
pub(crate) mod salvage;
pub(crate) mod shadow_maps;
#[cfg(test)]
mod split_tests;
mod spool;
pub(crate) mod stat;
pub(crate) mod superblock;
mod survivors;
mod unreadable;

pub use backup::BackupReport;
pub use backup_contents::{BackupContents, BackupMap, backup_contents, backup_contents_from};
pub use channels::Channels;
pub use check::CheckReport;
pub use files::{Listed, list, remove, resolve};
pub use freeze::Freeze;
pub use logs::Logs;
pub use maps::Maps;
pub use queues::Queues;
pub use restore::{RestoreReport, restore, restore_from};
pub use restore_options::RestoreOptions;
pub use salvage::{SalvageReport, salvage};
pub use stat::{HoldKind, HoldStat, ParticipantInfo, StructureInfo};

pub use crate::memory::roots::StructureKind;
