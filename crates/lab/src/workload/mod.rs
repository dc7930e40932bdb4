//! The shared parts of `demo`, `bench` and `crashtest`: processes, a board that they write to,
//! random choices, time, and the temporary hold that they work on.
//!
//! - [`worker`]: one child process of this same program, its signals and its lines
//! - [`board`]: words that every process of a run can read and write, outside of any hold
//! - [`temporary`]: a hold of the run's own, which goes away however the run ends
//! - [`random`]: seeded choices and cheap permutations
//! - [`latency`]: recorded durations that travel between processes
//! - [`clock`], [`results`]: time, and the results
//! - [`pin`]: the processor of a process
//! - [`machine`], [`memory`]: the machine of a run, and the speed of its memory
//!
//! Invariant: nothing here outlives the run. Workers die with their starter, the board has
//! no name in any file system, and the hold deletes itself when its last user is gone.

pub mod board;
pub mod clock;
pub mod latency;
pub mod machine;
pub mod memory;
pub mod pin;
pub mod random;
pub mod results;
pub mod temporary;
pub mod worker;

use commonhold_terminal::failure::Failure;
use std::io::{ErrorKind, Write};

/// The errors of a run.
///
/// The runs are programs within the program: any failure ends them, so their callers need only one
/// text that names the object and the way out.
#[derive(Debug)]
pub enum Trouble {
    /// The object, the problem, the way out.
    Text(String),
    /// A call of the library that failed.
    Hold(commonhold::Error),
    /// The reader of standard output has gone away: the run ends quietly.
    ReaderGone,
    /// The user has ended it with Ctrl-C.
    Interrupted,
}

/// The result of everything a run does.
pub type Result<T> = std::result::Result<T, Trouble>;

impl Trouble {
    /// Trouble described by `text`.
    pub fn new(text: impl Into<String>) -> Self {
        Trouble::Text(text.into())
    }

    /// The same for the command as a whole.
    pub fn into_failure(self) -> Failure {
        match self {
            Trouble::Text(text) => Failure::failed(text),
            Trouble::Hold(error) => error.into(),
            Trouble::ReaderGone => Failure::ReaderGone,
            Trouble::Interrupted => Failure::Interrupted,
        }
    }
}

/// Writes `text` and a newline to standard output.
pub fn say(text: &str) -> Result<()> {
    let mut out = std::io::stdout().lock();
    writeln!(out, "{text}").and_then(|()| out.flush()).map_err(|error| match error.kind() {
        ErrorKind::BrokenPipe => Trouble::ReaderGone,
        _ => Trouble::new(format!("standard output: {error}")),
    })
}

impl std::fmt::Display for Trouble {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Trouble::Text(text) => f.write_str(text),
            Trouble::Hold(error) => error.fmt(f),
            Trouble::ReaderGone => f.write_str("the reader of standard output has closed it"),
            Trouble::Interrupted => f.write_str("interrupted"),
        }
    }
}

impl std::error::Error for Trouble {}

impl From<commonhold::Error> for Trouble {
    fn from(error: commonhold::Error) -> Self {
        Trouble::Hold(error)
    }
}

impl From<std::io::Error> for Trouble {
    fn from(error: std::io::Error) -> Self {
        Trouble::new(error.to_string())
    }
}

impl From<serde_json::Error> for Trouble {
    fn from(error: serde_json::Error) -> Self {
        Trouble::new(format!("a worker's message cannot be read: {error}"))
    }
}
