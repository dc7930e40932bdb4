//! A hold in the terminal, for `hold top`.
//!
//! | module | idea |
//! |---|---|
//! | [`watch`] | takes one look at a hold after another |
//! | [`change_count`] | counts the changes of a map in its stream |
//! | [`process`] | the state of a participant's process |
//! | [`view`] | the numbers of one look and the rates since the previous one, also as JSON |
//! | [`sections`] | the same as tables for people |
//! | [`text`] | the tables as plain text; [`screen`]: as a screen of a terminal |
//! | [`keys`] | what the user has chosen: order, position, pause |
//! | [`terminal`] | the terminal, which is restored at the end |
//!
//! Invariant: the hold is read and never changed. A rate is computed from two looks. A number that
//! is not known appears as a dash, and as null in JSON.

pub mod change_count;
pub mod keys;
pub mod process;
pub mod screen;
pub mod sections;
pub mod terminal;
#[cfg(test)]
mod tests;
pub mod text;
pub mod view;
pub mod watch;
