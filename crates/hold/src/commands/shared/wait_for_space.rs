//! A sender's wait for room: in turns, with a report of the process in the way when it takes long.

use commonhold_terminal::failure::{Result, complain, note};
use commonhold_terminal::output::Output;
use std::time::{Duration, Instant};

/// After this time the process in the way is reported, and again when that changes.
const LONG: Duration = Duration::from_secs(1);

/// A wait for room.
pub struct WaitForSpace<'a> {
    /// The time limit for a message; `None` means without limit.
    pub timeout: Option<Duration>,
    /// The output, for reports.
    pub output: &'a Output,
}

impl WaitForSpace<'_> {
    /// The result of `attempt`, which waits at most for the time that it gets; `None` after the
    /// time limit, which is reported with the text of `in_the_way`.
    pub fn wait<T>(
        &self,
        mut attempt: impl FnMut(Duration) -> Result<Option<T>>,
        in_the_way: impl Fn() -> Result<String>,
    ) -> Result<Option<T>> {
        if let Some(got) = attempt(Duration::ZERO)? {
            return Ok(Some(got));
        }
        // Later than the clock can express: without limit.
        let deadline = self.timeout.and_then(|timeout| Instant::now().checked_add(timeout));
        let mut printed = String::new();
        loop {
            let left = deadline.map(|at| at.saturating_duration_since(Instant::now()));
            let turn = left.unwrap_or(LONG).min(LONG);
            if turn.is_zero() {
                complain(&format!("timed out: {}", in_the_way()?));
                return Ok(None);
            }
            if let Some(got) = attempt(turn)? {
                return Ok(Some(got));
            }
            let text = in_the_way()?;
            if turn == LONG && text != printed && !self.output.is_quiet() {
                note(&format!("waiting: {text}"));
                printed = text;
            }
        }
    }
}
