//! Waiting for room, for who pushes or sends: in turns, telling for whom when it takes long.

use commonhold_terminal::failure::{Result, complain, note};
use commonhold_terminal::output::Output;
use std::time::{Duration, Instant};

/// After so long it is told who is in the way, and again when that changes.
const LONG: Duration = Duration::from_secs(1);

/// How room is waited for.
pub struct WaitForSpace<'a> {
    /// At most so long for a message; for ever if it is not said.
    pub timeout: Option<Duration>,
    /// Whether to tell.
    pub output: &'a Output,
}

impl WaitForSpace<'_> {
    /// What `attempt` gets, which waits at most as long as it is told; `None` if the time ran out,
    /// which is told with what `in_the_way` says.
    pub fn wait<T>(
        &self,
        mut attempt: impl FnMut(Duration) -> Result<Option<T>>,
        in_the_way: impl Fn() -> Result<String>,
    ) -> Result<Option<T>> {
        if let Some(got) = attempt(Duration::ZERO)? {
            return Ok(Some(got));
        }
        // Beyond what a clock can say: for ever.
        let deadline = self.timeout.and_then(|timeout| Instant::now().checked_add(timeout));
        let mut told = String::new();
        loop {
            let left = deadline.map(|at| at.saturating_duration_since(Instant::now()));
            let turn = left.unwrap_or(LONG).min(LONG);
            if turn.is_zero() {
                complain(&format!("the time ran out: {}", in_the_way()?));
                return Ok(None);
            }
            if let Some(got) = attempt(turn)? {
                return Ok(Some(got));
            }
            let text = in_the_way()?;
            if turn == LONG && text != told && !self.output.is_quiet() {
                note(&format!("waiting: {text}"));
                told = text;
            }
        }
    }
}
