//! What several subcommands use.
//!
//! - [`message_source`]: messages from arguments or standard input
//! - [`receive_loop`]: messages that keep coming: how many, how long to wait for each, what ends it
//! - [`wait_for_space`]: a sender waits until there is space
//! - [`map_iteration`]: the pairs of a map, for `keys` and `scan`
//! - [`choice_parser`]: options that are one of some words
//! - [`structure_kind`]: what has a name in a hold
//! - [`inherited_sockets`]: sockets that systemd hands over

pub mod choice_parser;
pub mod inherited_sockets;
pub mod map_iteration;
pub mod message_source;
pub mod receive_loop;
pub mod structure_kind;
pub mod wait_for_space;

use commonhold_terminal::failure::NO;
use std::process::ExitCode;

/// Exit code 0 for yes, 1 for no.
pub fn answer(yes: bool) -> ExitCode {
    if yes { ExitCode::SUCCESS } else { NO.into() }
}
