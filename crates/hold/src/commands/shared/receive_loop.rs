//! The loop that receives, pulls or follows messages: how many, how long to wait for each, and
//! what ends it.
//!
//! A wait is a series of short sleeps. Between them the loop checks for a signal, and whether the reader of the
//! output has gone.
//!
//! Invariant: every message shown is written out before the loop waits.

use crate::commands::shared::answer;
use commonhold_terminal::failure::{Failure, Result};
use commonhold_terminal::interrupt::{EXIT_CODE, Interrupt};
use commonhold_terminal::output::{Sink, reader_is_gone};
use std::io::Stdout;
use std::process::ExitCode;
use std::time::{Duration, Instant};

/// The length of the first sleep of a wait, and of the longest, to which it doubles.
const FIRST_SLEEP: Duration = Duration::from_millis(50);
const LONGEST_SLEEP: Duration = Duration::from_millis(400);
/// How long the end may take after a signal, if the reader of the output does not read.
const GRACE: Duration = Duration::from_secs(2);

/// The request.
#[derive(Clone, Copy, Debug)]
pub struct ReceiveLoop {
    /// The number of messages; `None` means without end.
    pub count: Option<u64>,
    /// The wait for each; `None` means without limit.
    pub patience: Option<Duration>,
}

impl ReceiveLoop {
    /// Passes each message of `next`, which waits at most for the time that it gets, to `show`.
    ///
    /// The exit code: 0 if the requested number came, or at least one if there was no number; 1
    /// after the time limit; after a signal, 0 if there was no other end, else 130.
    pub fn run<T>(
        &self,
        sink: &mut Sink<Stdout>,
        mut next: impl FnMut(Duration) -> Result<Option<T>>,
        mut show: impl FnMut(&mut Sink<Stdout>, T) -> Result<()>,
    ) -> Result<ExitCode> {
        let interrupt = Interrupt::watch_strictly(GRACE).map_err(Failure::failed)?;
        let mut shown = 0;
        while self.count.is_none_or(|count| shown < count) {
            let Some(item) = self.next(sink, &interrupt, &mut next)? else {
                sink.flush()?;
                return Ok(self.early_end(shown, interrupt.came()));
            };
            show(sink, item)?;
            shown += 1;
        }
        sink.flush()?;
        Ok(ExitCode::SUCCESS)
    }

    fn next<T>(
        &self,
        sink: &mut Sink<Stdout>,
        interrupt: &Interrupt,
        next: &mut impl FnMut(Duration) -> Result<Option<T>>,
    ) -> Result<Option<T>> {
        if interrupt.came() {
            return Ok(None);
        }
        if let Some(item) = next(Duration::ZERO)? {
            return Ok(Some(item));
        }
        sink.flush()?;
        // Later than the clock can express: without limit.
        let deadline = self.patience.and_then(|patience| Instant::now().checked_add(patience));
        let mut longest = FIRST_SLEEP;
        loop {
            let left = deadline.map(|at| at.saturating_duration_since(Instant::now()));
            let sleep = left.map_or(longest, |left| left.min(longest));
            if sleep.is_zero() || interrupt.came() {
                return Ok(None);
            }
            if reader_is_gone() {
                return Err(Failure::ReaderGone);
            }
            if let Some(item) = next(sleep)? {
                return Ok(Some(item));
            }
            longest = LONGEST_SLEEP.min(longest * 2);
        }
    }

    fn early_end(&self, shown: u64, interrupted: bool) -> ExitCode {
        match (interrupted, self.count) {
            (true, None) => ExitCode::SUCCESS,
            (true, Some(_)) => EXIT_CODE.into(),
            (false, count) => answer(count.is_none() && shown > 0),
        }
    }
}
