//! Asks before something is deleted.
//!
//! Invariant: nothing is deleted without a confirmation, at the terminal or by an option.

use commonhold_terminal::failure::{Failure, Result};
use std::io::{IsTerminal, Write};

/// Asks whether to delete `what`.
///
/// # Errors
/// Standard input is not a terminal, so nobody can answer.
pub fn is_confirmed(what: &str) -> Result<bool> {
    let stdin = std::io::stdin();
    if !stdin.is_terminal() {
        return Err(Failure::usage(format!(
            "{what}: nothing is deleted without confirmation; add --yes, or run the command in a \
             terminal"
        )));
    }
    let mut error = std::io::stderr();
    let asked = write!(error, "Delete {what}? [y/N] ").and_then(|()| error.flush());
    asked.map_err(|e| Failure::failed(format!("standard error: {e}")))?;
    let mut reply = String::new();
    stdin.read_line(&mut reply).map_err(|e| Failure::failed(format!("standard input: {e}")))?;
    Ok(matches!(reply.trim().to_lowercase().as_str(), "y" | "yes"))
}
