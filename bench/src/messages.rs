//! The interface of every system that passes messages: a [`Carrier`] that can be opened, and a
//! [`Port`] through which one worker sends and receives.
//!
//! Invariant: as in [`crate::store`], the workloads know a system only through these traits.
//! Workers have numbers; the workload decides the work of each worker (see its file). Waits
//! use the best means that the rival has. Rivals implement them; the team calls them.

use std::{ops::Range, path::Path};

use anyhow::{Result, bail};

use crate::{
    rival::{Rival, Shape},
    workloads::tally::Tally,
};

/// The receiving side of messages.
pub type Each<'a> = &'a mut dyn FnMut(&[u8]);

/// A rival that passes messages.
pub trait Carrier: Rival {
    /// Opens what [`Rival::prepare`] made, for the workers of these numbers in this process: one
    /// port for each. It returns only when nothing that is sent from then on can be missed.
    fn open(&self, site: &Path, shape: &Shape, workers: Range<u64>) -> Result<Vec<Box<dyn Port>>>;
}

/// One worker's end. It lives and dies on one thread.
pub trait Port: Send {
    /// Sends a message; waits for room.
    fn send(&mut self, _message: &[u8]) -> Result<()> {
        bail!("this worker does not send")
    }

    /// Sends elements of a queue by their numbers, by the best means the system has for many at a
    /// time. They are those that it received last, in the same order.
    fn send_many(&mut self, numbers: &[[u8; 4]]) -> Result<()> {
        numbers.iter().try_for_each(|number| self.send(number))
    }

    /// Hands messages to `each`, `most` at most; waits for the first and for no other. How many
    /// there were.
    fn receive(&mut self, _most: usize, _each: Each<'_>) -> Result<usize> {
        bail!("this worker does not receive")
    }

    /// Of the last worker: in `log`, returns when this number of further lines is in the file; in
    /// `replicate`, when this number of further changes has reached all followers.
    fn deliver(&mut self, _lines: u64) -> Result<()> {
        bail!("this worker does not deliver")
    }

    /// Of a rival that no program in this language can use: runs its part of a phase of `log` by
    /// itself, with this number of lines per writer, and returns true.
    fn play(&mut self, _phase: &str, _lines: u64, _tally: &mut Tally) -> Result<bool> {
        Ok(false)
    }

    /// Of `newest`: this worker's part of a phase, with this number of writes.
    fn newest(
        &mut self,
        _phase: &str,
        _writes: bool,
        _count: u64,
        _tally: &mut Tally,
    ) -> Result<()> {
        bail!("this worker has no values")
    }

    /// Ensures that all sent messages arrive without further ones. Called at the end of a phase.
    fn flush(&mut self) -> Result<()> {
        Ok(())
    }

    /// Leaves everything in order. Called once, after the last phase.
    fn finish(&mut self) -> Result<()> {
        Ok(())
    }
}
