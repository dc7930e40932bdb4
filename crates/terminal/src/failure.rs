//! Why a subcommand failed, and the exit code for it.
//!
//! Exit codes: 0 done; 1 the answer is no (key absent, condition false, problems found); 2 the
//! command line is wrong; 3 the command failed. Code 1 is an answer and no [`Failure`], except
//! where a demo, benchmark or crash test found something wrong.
//!
//! Invariant: every failure except a reader that went away prints one message on standard error.

use crate::interrupt;
use crate::text::printable_lines;
use std::fmt::Display;
use std::process::ExitCode;

/// The exit code of an answer "no".
pub const NO: u8 = 1;
/// The exit code of a command line that is wrong.
pub const USAGE: u8 = 2;
/// The exit code of a command that failed.
pub const FAILED: u8 = 3;

/// Why a subcommand ended early.
#[derive(Debug)]
pub enum Failure {
    /// The arguments contradict each other or the subcommand.
    Usage(String),
    /// The command failed; the text names the object, the problem and the way out.
    Failed(String),
    /// The reader of standard output has gone away (`hold scan ... | head`), which is not an error.
    ReaderGone,
    /// Ctrl-C ended a run.
    Interrupted,
}

/// The result of everything a subcommand does.
pub type Result<T> = std::result::Result<T, Failure>;

impl Failure {
    /// The arguments are invalid.
    pub fn usage(text: impl Display) -> Failure {
        Failure::Usage(text.to_string())
    }

    /// The command failed.
    pub fn failed(text: impl Display) -> Failure {
        Failure::Failed(text.to_string())
    }

    /// Prints the error on standard error; returns its exit code.
    pub fn report(&self) -> ExitCode {
        match self {
            Failure::Usage(text) => {
                complain(&format!("{text}\n\nFor more information, try 'hold help'."));
                USAGE.into()
            }
            Failure::Failed(text) => {
                complain(text);
                FAILED.into()
            }
            Failure::ReaderGone => ExitCode::SUCCESS,
            Failure::Interrupted => {
                complain("interrupted");
                interrupt::EXIT_CODE.into()
            }
        }
    }
}

/// Prints a line on standard error, with control characters as escapes. A closed standard error
/// must not end the program.
pub fn note(text: &str) {
    use std::io::Write;
    let _ = writeln!(std::io::stderr(), "{}", printable_lines(text));
}

/// Prints a message on standard error.
pub fn complain(text: &str) {
    note(&format!("hold: {text}"));
}

impl From<commonhold::Error> for Failure {
    fn from(error: commonhold::Error) -> Self {
        Failure::Failed(error.to_string())
    }
}
