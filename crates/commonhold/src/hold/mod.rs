//! The hold: the file as a whole. Opening, creating, recovering, freezing, checking, copying,
//! saving.
//!
//! | idea | file |
//! |---|---|
//! | the public handle and its options | [`handle`], [`options`], [`stat`] |
//! | the first page | [`superblock`] |
//! | opening and creating | [`open`] |
//! | whether everything is on the disk | [`clean`] |
//! | the processes that have it open | [`open_byte`] |
//! | recovering a dead participant as a whole | [`recover`] |
//! | keeping writers out for a moment | [`freeze`] |
//! | proving it sound | [`check`] |
//! | copies | [`backup`], [`restore`] |
//! | building a hold where nobody sees it | [`draft_hold`] |
//! | after a crash of the system | [`salvage`], [`unreadable`] |
//! | how far a journal is durable: [`Map::sync`](crate::Map::sync) | [`journal_slot`] |
//! | holds as files | [`files`] |

pub(crate) mod backup;
#[cfg(test)]
mod block_tests;
pub(crate) mod check;
mod clean;
mod draft_hold;
pub(crate) mod files;
pub(crate) mod frames;
pub(crate) mod freeze;
pub(crate) mod handle;
pub(crate) mod journal_slot;
pub(crate) mod open;
mod open_byte;
pub(crate) mod options;
pub(crate) mod recover;
pub(crate) mod restore;
pub(crate) mod salvage;
#[cfg(test)]
mod split_tests;
pub(crate) mod stat;
pub(crate) mod superblock;
mod unreadable;
