//! The result of a wait with a time limit, as `hold sync` and `hold wait` show it.

use commonhold::ErrorKind;
use commonhold_terminal::failure::{NO, Result, complain};
use commonhold_terminal::output::Output;
use serde_json::Value;
use std::process::ExitCode;

/// Prints the line as JSON if that is wanted. A wait that took too long is no error: the exit code
/// is 1.
pub(super) fn show(output: &Output, result: commonhold::Result<Value>) -> Result<ExitCode> {
    match result {
        Ok(line) => {
            if output.is_json() {
                output.json_line(&line)?;
            }
            Ok(ExitCode::SUCCESS)
        }
        Err(error) if error.kind() == ErrorKind::TimedOut => {
            if !output.is_quiet() {
                complain(&error.to_string());
            }
            Ok(NO.into())
        }
        Err(error) => Err(error.into()),
    }
}
