//! The file server: contents of files, kept in memory while there is room.

pub mod store;
