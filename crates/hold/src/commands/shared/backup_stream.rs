//! A backup on standard input.

use commonhold_terminal::failure::{Failure, Result};
use std::io::{IsTerminal, Read, stdin};

/// Standard input, which must be a file or a pipe.
///
/// # Errors
/// Usage, if it is a terminal.
pub fn input() -> Result<impl Read> {
    let input = stdin().lock();
    match input.is_terminal() {
        true => Err(Failure::usage(
            "standard input is a terminal, but a backup is binary data; redirect it from a file or \
             a pipe, or name a file instead of '-'",
        )),
        false => Ok(input),
    }
}
