//! Messages that keep coming, for who receives, pulls or follows: how many are wanted, how long
//! each is waited for, and what ends it.
//!
//! Waiting sleeps in turns, between which it is seen whether somebody wants it to end (a signal) or
//! nobody wants the output any more.
//!
//! Invariant: what was shown is written out before anything is waited for.

use crate::commands::shared::answer;
use commonhold_terminal::failure::{Failure, Result};
use commonhold_terminal::interrupt::{EXIT_CODE, Interrupt};
use commonhold_terminal::output::{Sink, reader_is_gone};
use std::io::Stdout;
use std::process::ExitCode;
use std::time::{Duration, Instant};

/// How long the first turn of waiting is; each is twice the one before, up to the longest.
const FIRST_TURN: Duration = Duration::from_millis(50);
const LONGEST_TURN: Duration = Duration::from_millis(400);
/// How long after a signal the end may take, if the reader of the output does not read.
const GRACE: Duration = Duration::from_secs(2);

/// What is wanted.
#[derive(Clone, Copy, Debug)]
pub struct ReceiveLoop {
    /// So many messages; without end if it is not said.
    pub count: Option<u64>,
    /// To wait so long for each; for ever if it is not said.
    pub patience: Option<Duration>,
}

impl ReceiveLoop {
    /// Shows what `next` brings, which waits for it at most as long as it is told, with `show`.
    ///
    /// The exit code: 0 if all came that was wanted, which is at least one if it was not said how
    /// many; 1 if the time ran out before; of a signal, 0 if there was no other end, else 130.
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
        // Beyond what a clock can say: for ever.
        let deadline = self.patience.and_then(|patience| Instant::now().checked_add(patience));
        let mut longest = FIRST_TURN;
        loop {
            let left = deadline.map(|at| at.saturating_duration_since(Instant::now()));
            let turn = left.map_or(longest, |left| left.min(longest));
            if turn.is_zero() || interrupt.came() {
                return Ok(None);
            }
            if reader_is_gone() {
                return Err(Failure::ReaderGone);
            }
            if let Some(item) = next(turn)? {
                return Ok(Some(item));
            }
            longest = LONGEST_TURN.min(longest * 2);
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
