//! Code that several subcommands share.
//!
//! - [`message_source`]: messages from arguments or standard input
//! - [`receive_loop`]: receives messages: how many, how long to wait for each, what ends the loop
//! - [`wait_for_space`]: a sender's wait for space
//! - [`map_iteration`]: the pairs of a map, for `keys` and `scan`
//! - [`confirmation`]: asks before something is deleted
//! - [`choice_parser`]: options with a fixed set of words
//! - [`structure_kind`]: the kind of a named structure in a hold
//! - [`inherited_sockets`]: sockets that systemd passes
//! - [`backup_stream`]: a backup on standard input
//! - [`own_or_subcommand`]: a command with options of its own, and subcommands

pub mod backup_stream;
pub mod choice_parser;
pub mod confirmation;
pub mod inherited_sockets;
pub mod map_iteration;
pub mod message_source;
pub mod own_or_subcommand;
pub mod receive_loop;
pub mod structure_kind;
pub mod wait_for_space;

use commonhold_terminal::failure::NO;
use std::process::ExitCode;

/// Exit code 0 for yes, 1 for no.
pub fn answer(yes: bool) -> ExitCode {
    if yes { ExitCode::SUCCESS } else { NO.into() }
}
