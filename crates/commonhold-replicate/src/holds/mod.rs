//! Whole holds: one process serves all maps of a hold at one address, one process follows them, and
//! one process records them in journals.
//!
//! | file | idea |
//! |---|---|
//! | `origin` | [`HoldOrigin`](origin::HoldOrigin): its options and its threads |
//! | `served_maps` | the maps that it serves, each with an [`Origin`](crate::Origin) |
//! | `front` | the thread that accepts connections, and passes each to the origin of its map |
//! | `peer` | one connection that has not been passed on, or that gets the catalogue |
//! | `feed` | the catalogue as one peer gets it |
//! | `replica` | [`HoldReplica`](replica::HoldReplica): its options, its status and its thread |
//! | `catalogue` | the connection on which the names of the maps come |
//! | `followed_maps` | the maps that it follows, each with a [`Replica`](crate::Replica) |
//! | `reports` | its reports, for `hold stat` |
//! | `journal` | [`HoldJournal`](journal::HoldJournal): its options, its status and its thread |
//! | `journaled_maps` | the maps that it records, each with a journal of its own |
//! | `missing` | whether maps that are missing were dropped |
//! | `dropped_files` | the files of maps that were dropped |
//! | `rebuild` | all maps from their journals |
//! | `patterns` | which maps, by name |
//! | `ending` | the end of the threads |
//!
//! Each map has a connection of its own, so that a full sync of one map does not hold up the
//! changes of the others; one more connection has the catalogue.

mod catalogue;
mod dropped_files;
mod ending;
mod feed;
mod followed_maps;
mod front;
pub(crate) mod journal;
mod journaled_maps;
mod missing;
pub(crate) mod origin;
mod patterns;
mod peer;
pub(crate) mod rebuild;
pub(crate) mod replica;
mod reports;
mod served_maps;
