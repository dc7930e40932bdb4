//! The interface of every system that passes messages: a [`Carrier`] that can be opened, and a
//! [`Port`] through which one worker sends and receives.
//!
//! Invariant: as in [`crate::store`], the workloads know a system only through these traits.
//! Workers have numbers; the workload decides the work of each worker (see its file). A worker
//! waits by the best means that the rival has. Rivals implement the traits; the team calls them.

use std::{ops::Range, path::Path};

use anyhow::{Result, bail};

use crate::{
    rival::{Rival, Shape},
    workloads::tally::Tally,
};

/// A function that takes each received message.
pub type Each<'a> = &'a mut dyn FnMut(&[u8]);

/// A rival that passes messages.
pub trait Carrier: Rival {
    /// Opens the system that [`Rival::prepare`] set up, for the workers with these numbers in this
    /// process: one port for each. When it returns, no later message can be missed.
    fn open(&self, site: &Path, shape: &Shape, workers: Range<u64>) -> Result<Vec<Box<dyn Port>>>;
}

/// One worker's end. It stays on one thread.
pub trait Port: Send {
    /// Sends a message, after a wait for room if necessary.
    fn send(&mut self, _message: &[u8]) -> Result<()> {
        bail!("this worker does not send")
    }

    /// Sends elements of a queue by their numbers, by the system's best means for many at a time.
    /// The worker received these elements last, in the same order.
    fn send_many(&mut self, numbers: &[[u8; 4]]) -> Result<()> {
        numbers.iter().try_for_each(|number| self.send(number))
    }

    /// Passes at most `most` messages to `each`, and waits only for the first. Returns their
    /// number.
    fn receive(&mut self, _most: usize, _each: Each<'_>) -> Result<usize> {
        bail!("this worker does not receive")
    }

    /// For the last worker: in `log`, returns when this number of further lines is in the file; in
    /// `replicate`, when this number of further changes has reached all followers.
    fn deliver(&mut self, _lines: u64) -> Result<()> {
        bail!("this worker does not deliver")
    }

    /// For a rival that Rust programs cannot use: runs this worker's part of a phase of `log`, with
    /// this number of lines per writer, and returns true.
    fn play(&mut self, _phase: &str, _lines: u64, _tally: &mut Tally) -> Result<bool> {
        Ok(false)
    }

    /// For `newest`: runs this worker's part of a phase, with this number of writes.
    fn newest(
        &mut self,
        _phase: &str,
        _writes: bool,
        _count: u64,
        _tally: &mut Tally,
    ) -> Result<()> {
        bail!("this worker has no values")
    }

    /// Ensures that all sent messages arrive, even if no others follow. Called at the end of a
    /// phase.
    fn flush(&mut self) -> Result<()> {
        Ok(())
    }

    /// Closes everything cleanly. Called once, after the last phase.
    fn finish(&mut self) -> Result<()> {
        Ok(())
    }
}
