//! The shared parts of `demo`, `bench` and `crashtest`: processes, a board that they write to,
//! random choices, time, and the temporary hold that they work on.
//!
//! - [`worker`]: one child process of this same program, its signals and its lines
//! - [`board`]: words that every process of a run can read and write, outside of any hold
//! - [`temporary`]: a hold of the run's own, which goes away however the run ends
//! - [`random`]: seeded choices and cheap permutations
//! - [`pairs`]: the workloads over keys and values, which [`driver`] carries to a [`store`] in a
//!   [`form`] and counts in a [`tally`]; [`stores`]: those of every benchmark
//! - [`message`]: the messages of the benchmarks
//! - [`latency`]: recorded durations that travel between processes
//! - [`clock`], [`results`]: time, and the results
//! - [`pin`]: the processor of a process
//! - [`machine`], [`memory`]: the machine of a run, and the speed of its memory
//!
//! Invariant: nothing here outlives the run. Workers die with their starter, the board has
//! no name in any file system, and the hold deletes itself when its last user is gone.

pub mod board;
pub mod clock;
pub mod driver;
pub mod form;
pub mod latency;
pub mod machine;
pub mod memory;
pub mod message;
pub mod pairs;
pub mod pin;
pub mod random;
pub mod results;
pub mod store;
pub mod stores;
pub mod tally;
pub mod temporary;
pub mod worker;

use commonhold_terminal::failure::Failure;
use std::io::{ErrorKind, Write};

/// The errors of a run.
///
/// The runs are programs within the program: any failure ends them, so their callers need only one
/// text that names the object and the way out.
#[derive(Debug)]
pub enum RunError {
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
pub type Result<T> = std::result::Result<T, RunError>;

impl RunError {
    /// An error described by `text`.
    pub fn new(text: impl Into<String>) -> Self {
        RunError::Text(text.into())
    }

    /// The same for the command as a whole.
    pub fn into_failure(self) -> Failure {
        match self {
            RunError::Text(text) => Failure::failed(text),
            RunError::Hold(error) => error.into(),
            RunError::ReaderGone => Failure::ReaderGone,
            RunError::Interrupted => Failure::Interrupted,
        }
    }
}

/// Writes `text` and a newline to standard output.
pub fn say(text: &str) -> Result<()> {
    let mut out = std::io::stdout().lock();
    writeln!(out, "{text}").and_then(|()| out.flush()).map_err(|error| match error.kind() {
        ErrorKind::BrokenPipe => RunError::ReaderGone,
        _ => RunError::new(format!("standard output: {error}")),
    })
}

impl std::fmt::Display for RunError {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            RunError::Text(text) => f.write_str(text),
            RunError::Hold(error) => error.fmt(f),
            RunError::ReaderGone => f.write_str("the reader of standard output has closed it"),
            RunError::Interrupted => f.write_str("interrupted"),
        }
    }
}

impl std::error::Error for RunError {}

impl From<commonhold::Error> for RunError {
    fn from(error: commonhold::Error) -> Self {
        RunError::Hold(error)
    }
}

impl From<std::io::Error> for RunError {
    fn from(error: std::io::Error) -> Self {
        RunError::new(error.to_string())
    }
}

impl From<serde_json::Error> for RunError {
    fn from(error: serde_json::Error) -> Self {
        RunError::new(format!("a worker's message cannot be read: {error}"))
    }
}
