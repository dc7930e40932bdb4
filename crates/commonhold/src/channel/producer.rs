//! [`Producer`]: sending.

use crate::channel::bound::Bound;
use crate::channel::endpoint_slot::EndpointSlot;
use crate::channel::frame::{self, HEADER};
use crate::channel::layout::Mark;
use crate::channel::options::{Peer, Wait};
use crate::channel::reserve::Reservation;
use crate::channel::takeover;
use crate::channel::write_limit::WriteLimit;
use crate::error::{Error, ErrorKind, Result};
use crate::steps::step;
use crate::sync::unwind::UnwindGuard;
use std::fmt;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::{Duration, Instant};

/// The sender of a channel's messages. After it is dropped, another producer may begin.
///
/// A channel has one producer at a time, in all processes. When the producer's process dies, the
/// next producer continues after the last message that was sent, without a gap or a repetition in
/// the sequence. A message that is being sent at that instant is sent either completely or not at
/// all.
///
/// `send` waits while the ring is full and a living lossless consumer has not read the bytes that
/// the message would overwrite. It does not wait for dead consumers. After the hold's handle was
/// closed, or in a forked child, every call fails with `Closed`.
pub struct Producer {
    pub(super) slot: EndpointSlot,
    at: Mark,
    write_limit: WriteLimit,
    wait: Wait,
}

/// How long to wait for room.
#[derive(Clone, Copy)]
pub(super) enum Until {
    Never,
    Deadline(Instant),
    Forever,
}

impl fmt::Debug for Producer {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let name = &self.bound().block.name;
        f.debug_struct("Producer")
            .field("channel", name)
            .field("sequence", &self.at.sequence)
            .finish()
    }
}

impl Producer {
    pub(super) fn new(bound: &Arc<Bound>) -> Result<Producer> {
        let (slot, begin) =
            EndpointSlot::take(bound, |slot| takeover::take(&slot.bound, slot.owner()))?;
        Ok(Producer { slot, at: begin.end, write_limit: WriteLimit::new(begin), wait: Wait::Sleep })
    }

    /// Sets how the producer waits for room; [`Wait::Sleep`] by default.
    pub fn set_wait(&mut self, wait: Wait) {
        self.wait = wait;
    }

    /// The sequence number of the next message.
    pub fn sequence(&self) -> u64 {
        self.at.sequence
    }

    /// The longest message in bytes: a quarter of the ring.
    pub fn max_message(&self) -> usize {
        self.bound().most() as usize
    }

    /// The consumer that prevented sending when the last `try_send`, `send_timeout` or
    /// `try_reserve` found no room; the first one, if there are several.
    pub fn waits_for(&self) -> Option<Peer> {
        self.write_limit.waits_for
    }

    /// Sends a message and returns its sequence number. Waits for room without limit.
    ///
    /// # Errors
    /// `TooLarge` beyond [`Producer::max_message`]; `Closed`.
    #[inline]
    pub fn send(&mut self, message: &[u8]) -> Result<u64> {
        self.send_until(message, Until::Forever)?.ok_or_else(|| self.no_room())
    }

    /// Sends a message if there is room for it now. Returns `None` if there is none;
    /// [`waits_for`](Producer::waits_for) then names the consumer that prevents it.
    ///
    /// # Errors
    /// As for [`Producer::send`].
    #[inline]
    pub fn try_send(&mut self, message: &[u8]) -> Result<Option<u64>> {
        self.send_until(message, Until::Never)
    }

    /// Sends a message; waits for room at most for `timeout`. Returns `None` when the time runs
    /// out.
    ///
    /// # Errors
    /// As for [`Producer::send`].
    pub fn send_timeout(&mut self, message: &[u8], timeout: Duration) -> Result<Option<u64>> {
        self.send_until(message, deadline(timeout))
    }

    #[inline]
    fn send_until(&mut self, message: &[u8], until: Until) -> Result<Option<u64>> {
        let len = message.len() as u64;
        if !self.place(len, until)? {
            return Ok(None);
        }
        self.bound().ring.write(self.at.position + HEADER, message);
        Ok(Some(self.send_written(len)))
    }

    /// Sends messages one after another and returns how many were sent. Waits for room without
    /// limit. Each message can be received immediately, even while the iterator produces the next
    /// one.
    ///
    /// # Errors
    /// As for [`Producer::send`]. The messages before the failing one are sent;
    /// [`sequence`](Producer::sequence) shows how many.
    pub fn send_many<M: AsRef<[u8]>>(
        &mut self,
        messages: impl IntoIterator<Item = M>,
    ) -> Result<u64> {
        self.send_all(messages, Until::Forever)
    }

    /// Like [`Producer::send_many`], but waits for room for at most `timeout` in total. If the time
    /// runs out, it returns a smaller number, and the rest is not sent.
    ///
    /// # Errors
    /// As for [`Producer::send_many`].
    pub fn send_many_timeout<M: AsRef<[u8]>>(
        &mut self,
        messages: impl IntoIterator<Item = M>,
        timeout: Duration,
    ) -> Result<u64> {
        self.send_all(messages, deadline(timeout))
    }

    fn send_all<M: AsRef<[u8]>>(
        &mut self,
        messages: impl IntoIterator<Item = M>,
        until: Until,
    ) -> Result<u64> {
        let first = self.at.sequence;
        for message in messages {
            if self.send_until(message.as_ref(), until)?.is_none() {
                break;
            }
        }
        Ok(self.at.sequence - first)
    }

    /// Reserves room for a message of `len` bytes that the caller writes in place. Waits without
    /// limit. Dropping the result sends nothing.
    ///
    /// # Errors
    /// As for [`Producer::send`].
    pub fn reserve(&mut self, len: usize) -> Result<Reservation<'_>> {
        match self.place(len as u64, Until::Forever)? {
            true => Ok(Reservation::new(self, len)),
            false => Err(self.no_room()),
        }
    }

    /// Like [`Producer::reserve`], without waiting; `None` if there is no room now.
    ///
    /// # Errors
    /// As for [`Producer::send`].
    pub fn try_reserve(&mut self, len: usize) -> Result<Option<Reservation<'_>>> {
        Ok(self.place(len as u64, Until::Never)?.then(|| Reservation::new(self, len)))
    }

    /// Like [`Producer::reserve`]; waits for room at most for `timeout`. Returns `None` when the
    /// time runs out.
    ///
    /// # Errors
    /// As for [`Producer::send`].
    pub fn reserve_timeout(
        &mut self,
        len: usize,
        timeout: Duration,
    ) -> Result<Option<Reservation<'_>>> {
        Ok(self.place(len as u64, deadline(timeout))?.then(|| Reservation::new(self, len)))
    }

    #[inline]
    pub(super) fn bound(&self) -> &Bound {
        &self.slot.bound
    }

    /// Where the message begins for which there is room.
    pub(super) fn position(&self) -> u64 {
        self.at.position
    }

    /// Makes room for a message of `len` bytes at the position; false if there is none in time.
    #[inline]
    fn place(&mut self, len: u64, until: Until) -> Result<bool> {
        self.slot.ensure()?;
        let frame = frame::bytes(len);
        // A message that is too long fails here, too: stop and rest are small then, or
        // `place_slowly` refuses it.
        if len <= self.bound().most()
            && frame <= self.bound().ring.rest(self.at.position)
            && self.at.position + frame + HEADER <= self.write_limit.stop
        {
            return Ok(true);
        }
        self.place_slowly(len, until)
    }

    #[cold]
    fn place_slowly(&mut self, len: u64, until: Until) -> Result<bool> {
        if len > self.bound().most() {
            return Err(self.too_large(len));
        }
        let frame = frame::bytes(len);
        let rest = self.bound().ring.rest(self.at.position);
        if frame > rest {
            if !self.make_room(self.at.position + rest, until)? {
                return Ok(false);
            }
            self.fill(rest);
        }
        self.make_room(self.at.position + frame, until)
    }

    /// Writes a filler up to the end of the ring.
    fn fill(&mut self, rest: u64) {
        let Mark { position, sequence } = self.at;
        let ring = &self.bound().ring;
        // Relaxed: the release below.
        ring.header(position + rest).store(0, Ordering::Relaxed);
        step!("channel.filler-zeroed");
        // Release: the next header is zero before any consumer can read it.
        ring.header(position).store(frame::filler(sequence), Ordering::Release);
        // At once: code after a panic must not write another filler here.
        self.at.position += rest;
        step!("channel.filled");
    }

    /// Makes the message of `len` bytes visible that was written at the position, and wakes the
    /// consumers that wait for it.
    #[inline]
    pub(super) fn send_written(&mut self, len: u64) -> u64 {
        let sequence = self.release(len);
        self.bound().head().messages.wake();
        step!("channel.woken");
        sequence
    }

    /// Makes the message of `len` bytes visible that was written at the position.
    #[inline]
    fn release(&mut self, len: u64) -> u64 {
        step!("channel.written");
        let Mark { position, sequence } = self.at;
        let ring = &self.bound().ring;
        let end = position + frame::bytes(len);
        // Relaxed: the release below.
        ring.header(end).store(0, Ordering::Relaxed);
        step!("channel.zeroed");
        // Release: the bytes, and the zero behind them, come before; pairs with the acquire of
        // consumers.
        ring.header(position).store(frame::message(sequence, len), Ordering::Release);
        // At once: code after a panic must not send another message in its place.
        self.at = Mark { position: end, sequence: sequence + 1 };
        let woken = UnwindGuard::new(|| self.bound().head().messages.wake_all());
        step!("channel.sent");
        woken.done();
        sequence
    }

    /// Makes room up to `end` and the header behind it.
    fn make_room(&mut self, end: u64, until: Until) -> Result<bool> {
        let bound = Arc::clone(&self.slot.bound);
        if end + HEADER <= self.write_limit.stop || self.write_limit.make(&bound, self.at, end) {
            return Ok(true);
        }
        // The messages that this batch has sent are announced before the producer waits.
        bound.head().messages.wake();
        step!("channel.waits");
        loop {
            let deadline = match until {
                Until::Never => return Ok(false),
                Until::Deadline(at) => Some(at),
                Until::Forever => None,
            };
            // Not beyond the moment when a patient consumer has to be dropped.
            let patience = self.write_limit.patience_left().map(|left| Instant::now() + left);
            let until = deadline.into_iter().chain(patience).min();
            if self.wait_for_room(&bound, end, until)? {
                return Ok(true);
            }
            if deadline.is_some_and(|at| Instant::now() >= at) {
                return Ok(false);
            }
        }
    }

    fn wait_for_room(&mut self, bound: &Bound, end: u64, until: Option<Instant>) -> Result<bool> {
        let (slot, write_limit, at) = (&self.slot, &mut self.write_limit, self.at);
        let mut look = || -> Result<Option<()>> {
            slot.ensure()?;
            Ok(write_limit.make(bound, at, end).then_some(()))
        };
        if self.wait == Wait::Sleep {
            // An endpoint slot needs no operation.
            let found = bound.head().room.wait(until, || Ok(()), |(), _| look());
            return Ok(found?.is_some());
        }
        // At least one look, also after the end: the look drops a patient consumer whose time is
        // over.
        loop {
            if look()?.is_some() {
                return Ok(true);
            }
            if until.is_some_and(|until| Instant::now() >= until) {
                return Ok(false);
            }
            std::hint::spin_loop();
        }
    }

    #[cold]
    fn too_large(&self, len: u64) -> Error {
        let text = format!(
            "a message of {len} bytes exceeds the limit of {}, a quarter of the ring; split it, \
             or create the channel with a larger ring",
            self.bound().most()
        );
        self.bound().error(ErrorKind::TooLarge, &text)
    }

    #[cold]
    fn no_room(&self) -> Error {
        self.bound().error(ErrorKind::TimedOut, "timed out while waiting for room")
    }
}

/// The moment when the time runs out; a timeout too large for the clock waits forever.
pub(super) fn deadline(timeout: Duration) -> Until {
    Instant::now().checked_add(timeout).map_or(Until::Forever, Until::Deadline)
}

impl Drop for Producer {
    fn drop(&mut self) {
        if !self.slot.is_inherited() {
            let left = UnwindGuard::new(|| takeover::release(self.bound(), self.slot.owner()));
            self.bound().head().set_mark(self.at);
            step!("channel.leaving");
            drop(left);
            step!("channel.left");
        }
    }
}
