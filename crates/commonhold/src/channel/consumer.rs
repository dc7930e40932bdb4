//! [`Consumer`]: receiving.

use crate::channel::bound::Bound;
use crate::channel::endpoint_slot::EndpointSlot;
use crate::channel::frame::{self, HEADER, Header};
use crate::channel::join;
use crate::channel::layout::{Mark, Use, Word};
use crate::channel::options::{Join, Policy, Received, Wait};
use crate::channel::producer::{Until, deadline};
use crate::channel::raw_bytes::RawBytes;
use crate::error::{Error, ErrorKind, Result};
use crate::steps::step;
use crate::sync::unwind::UnwindGuard;
use std::fmt;
use std::sync::Arc;
use std::sync::atomic::{Ordering, fence};
use std::time::{Duration, Instant};

/// The largest number of bytes between two publications of the cursor; a sixteenth of the ring if
/// that is less.
const PUBLISH_BYTES: u64 = 8 << 10;
/// Pauses of a read-only consumer that waits: it can set no flag, so no producer wakes it.
const FIRST_NAP: Duration = Duration::from_micros(50);
const LONGEST_NAP: Duration = Duration::from_millis(2);

/// A receiver of a channel's messages. Dropping it leaves the channel.
///
/// It receives every message from its [`Join`] on, in order and once, unless it is lossy or was
/// dropped ([`Policy`]). Received messages may count as unread until 8 KiB more (or a sixteenth of
/// the ring, if that is less) have been received, or until a call finds no message. A producer with
/// a full ring may wait for that. If the consumer's process dies, the consumer no longer holds the
/// producer back. If the producer dies, every sent message stays readable, and messages continue
/// when the next producer begins.
///
/// After the hold's handle was closed, or in a forked child, every call fails with `Closed`.
pub struct Consumer {
    bound: Arc<Bound>,
    /// None for a read-only handle. Otherwise the endpoint slot and the number of the line.
    slot: Option<(EndpointSlot, usize)>,
    policy: Policy,
    at: Mark,
    published: u64,
    publish_bytes: u64,
    /// Messages missed and not reported yet; messages ever missed.
    missed: (u64, u64),
    wait: Wait,
    buffer: Vec<u8>,
}

impl fmt::Debug for Consumer {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Consumer")
            .field("channel", &self.bound.block.name)
            .field("policy", &self.policy)
            .field("sequence", &self.at.sequence)
            .finish()
    }
}

impl Consumer {
    pub(super) fn new(bound: &Arc<Bound>, from: Join, policy: Policy) -> Result<Consumer> {
        let (slot, at) = if bound.attachment.is_none() && policy == Policy::Lossy {
            let at = join::without_line(bound, from)?;
            (None, at)
        } else {
            let (slot, (line, at)) = EndpointSlot::take(bound, |slot| {
                let line = join::claim_line(bound, slot.owner(), policy)?;
                let left = UnwindGuard::new(|| {
                    join::leave(bound.line(line), slot.owner());
                    // A producer may have begun to wait for this consumer.
                    bound.head().room.wake();
                });
                let at = join::with_line(bound, line, slot.owner(), from, policy)?;
                left.done();
                Ok((line, at))
            })?;
            (Some((slot, line)), at)
        };
        let publish_bytes = match policy {
            Policy::Patient(_) => 0,
            _ => PUBLISH_BYTES.min(bound.ring.size() / 16),
        };
        Ok(Consumer {
            bound: Arc::clone(bound),
            slot,
            policy,
            at,
            published: at.position,
            publish_bytes,
            missed: (0, 0),
            wait: Wait::Sleep,
            buffer: Vec::new(),
        })
    }

    /// Sets how the consumer waits for messages; [`Wait::Sleep`] by default.
    pub fn set_wait(&mut self, wait: Wait) {
        self.wait = wait;
    }

    /// The sequence number of the next message, if the consumer misses none.
    pub fn sequence(&self) -> u64 {
        self.at.sequence
    }

    /// The number of messages missed since it joined; always 0 unless it is lossy.
    pub fn missed(&self) -> u64 {
        self.missed.1
    }

    /// Replaces the contents of `buffer` with the next message. Waits without limit, even while
    /// there is no producer.
    ///
    /// # Errors
    /// `Closed` if the handle is closed, or if the consumer was patient and has been dropped
    /// ([`Consumer::rejoin`]). `NotFound` for a read-only handle if the channel was dropped.
    /// `Damaged`.
    #[inline]
    pub fn recv(&mut self, buffer: &mut Vec<u8>) -> Result<Received> {
        let found = self.recv_until(buffer, Until::Forever)?;
        found.ok_or_else(|| self.nothing())
    }

    /// Replaces the contents of `buffer` with the next message, if there is one now; never waits.
    ///
    /// # Errors
    /// As for [`Consumer::recv`].
    #[inline]
    pub fn try_recv(&mut self, buffer: &mut Vec<u8>) -> Result<Option<Received>> {
        self.recv_until(buffer, Until::Never)
    }

    /// Replaces the contents of `buffer` with the next message; waits for it for at most `timeout`.
    /// Returns `None` when the time runs out.
    ///
    /// # Errors
    /// As for [`Consumer::recv`].
    pub fn recv_timeout(
        &mut self,
        buffer: &mut Vec<u8>,
        timeout: Duration,
    ) -> Result<Option<Received>> {
        self.recv_until(buffer, deadline(timeout))
    }

    #[inline]
    fn recv_until(&mut self, buffer: &mut Vec<u8>, until: Until) -> Result<Option<Received>> {
        match self.recv_at_once(buffer) {
            Some(received) => Ok(Some(received)),
            None => self.recv_patiently(buffer, until),
        }
    }

    /// The fast path: a lossless consumer's message that is there. `None` leaves everything else,
    /// errors too, to [`recv_patiently`](Self::recv_patiently).
    #[inline(always)]
    fn recv_at_once(&mut self, buffer: &mut Vec<u8>) -> Option<Received> {
        let (slot, _) = self.slot.as_ref()?;
        if self.policy != Policy::Lossless || slot.is_inherited() || self.bound.arena.is_closed() {
            return None;
        }
        let frame = self.bound.ring.frame(self.at.position);
        // Acquire: the bytes, and the zero behind them; pairs with the release of the producer.
        let word = frame.header().load(Ordering::Acquire);
        let len = frame::message_len(word, self.at.sequence)?;
        if HEADER + len > frame.rest() {
            return None;
        }
        buffer.clear();
        frame.append(HEADER, len, buffer);
        step!("channel.copied");
        Some(self.taken(len))
    }

    #[inline(never)]
    fn recv_patiently(&mut self, buffer: &mut Vec<u8>, until: Until) -> Result<Option<Received>> {
        loop {
            let Some(len) = self.next(until)? else { return Ok(None) };
            if self.copy(len, buffer)? {
                return Ok(Some(self.taken(len)));
            }
        }
    }

    /// Calls `look` with the next message in place, without a copy. Waits for a message without
    /// limit. Only for lossless consumers: the producer does not overwrite the message before
    /// `look` returns.
    ///
    /// # Errors
    /// `Invalid` for another policy; otherwise as for [`Consumer::recv`].
    pub fn recv_with<R>(&mut self, look: impl FnOnce(RawBytes<'_>, Received) -> R) -> Result<R> {
        let found = self.look_until(look, Until::Forever)?;
        found.ok_or_else(|| self.nothing())
    }

    /// Like [`Consumer::recv_with`], without waiting; `None` if there is no message now.
    ///
    /// # Errors
    /// As for [`Consumer::recv_with`].
    pub fn try_recv_with<R>(
        &mut self,
        look: impl FnOnce(RawBytes<'_>, Received) -> R,
    ) -> Result<Option<R>> {
        self.look_until(look, Until::Never)
    }

    fn look_until<R>(
        &mut self,
        look: impl FnOnce(RawBytes<'_>, Received) -> R,
        until: Until,
    ) -> Result<Option<R>> {
        if self.policy != Policy::Lossless {
            return Err(self.not_lossless());
        }
        let Some(len) = self.next(until)? else { return Ok(None) };
        let bound = Arc::clone(&self.bound);
        let message = RawBytes::new(&bound.ring, self.at.position + HEADER, len);
        let result = look(message, Received { sequence: self.at.sequence, missed: 0 });
        self.taken(len);
        Ok(Some(result))
    }

    /// Returns the next message in place, and leaves it there until [`advance`](Self::advance). Use
    /// it where one closure cannot process the message. Waits without limit. Only for lossless
    /// consumers.
    ///
    /// # Errors
    /// As for [`Consumer::recv_with`].
    pub fn peek(&mut self) -> Result<(RawBytes<'_>, Received)> {
        if let Some(len) = self.peek_until(Until::Forever)? {
            Ok(self.shown(len))
        } else {
            Err(self.nothing())
        }
    }

    /// Like [`Consumer::peek`], without waiting; `None` if there is no message now.
    ///
    /// # Errors
    /// As for [`Consumer::recv_with`].
    pub fn try_peek(&mut self) -> Result<Option<(RawBytes<'_>, Received)>> {
        Ok(self.peek_until(Until::Never)?.map(|len| self.shown(len)))
    }

    /// Like [`Consumer::peek`]; waits at most for `time`. Returns `None` when the time runs out.
    ///
    /// # Errors
    /// As for [`Consumer::recv_with`].
    pub fn peek_timeout(&mut self, time: Duration) -> Result<Option<(RawBytes<'_>, Received)>> {
        Ok(self.peek_until(deadline(time))?.map(|len| self.shown(len)))
    }

    /// Moves past the message that [`peek`](Self::peek) returns; false if there is none now.
    ///
    /// # Errors
    /// As for [`Consumer::recv_with`].
    pub fn advance(&mut self) -> Result<bool> {
        let found = self.peek_until(Until::Never)?;
        Ok(found.map(|len| self.taken(len)).is_some())
    }

    fn peek_until(&mut self, until: Until) -> Result<Option<u64>> {
        if self.policy != Policy::Lossless {
            return Err(self.not_lossless());
        }
        self.next(until)
    }

    fn shown(&self, len: u64) -> (RawBytes<'_>, Received) {
        let message = RawBytes::new(&self.bound.ring, self.at.position + HEADER, len);
        (message, Received { sequence: self.at.sequence, missed: 0 })
    }

    /// Calls `each` with at most `most` messages; waits for the first without limit, and for no
    /// other. Returns their number. All of them count as read when it returns.
    ///
    /// # Errors
    /// As for [`Consumer::recv`], if the error comes before the first message.
    pub fn recv_many(&mut self, most: usize, each: impl FnMut(Received, &[u8])) -> Result<usize> {
        self.recv_all(most, Until::Forever, each)
    }

    /// Like [`Consumer::recv_many`]; waits for the first message at most for `timeout`, and returns
    /// 0 if none comes in time.
    ///
    /// # Errors
    /// As for [`Consumer::recv`], if the error comes before the first message.
    pub fn recv_many_timeout(
        &mut self,
        most: usize,
        timeout: Duration,
        each: impl FnMut(Received, &[u8]),
    ) -> Result<usize> {
        self.recv_all(most, deadline(timeout), each)
    }

    fn recv_all(
        &mut self,
        most: usize,
        first: Until,
        mut each: impl FnMut(Received, &[u8]),
    ) -> Result<usize> {
        let mut buffer = std::mem::take(&mut self.buffer);
        let mut count = 0;
        let mut result = Ok(());
        while count < most {
            let until = if count == 0 { first } else { Until::Never };
            match self.recv_until(&mut buffer, until) {
                Ok(Some(received)) => each(received, &buffer),
                Ok(None) => break,
                Err(error) => {
                    result = Err(error);
                    break;
                }
            }
            count += 1;
        }
        self.buffer = buffer;
        match result {
            Err(error) if count == 0 => Err(error),
            // The messages before the error were received; the next call reports the error.
            _ => {
                self.publish();
                Ok(count)
            }
        }
    }

    /// Joins again, from now or from the oldest message kept. A patient consumer needs this after
    /// it was dropped; any consumer may call it at any time.
    ///
    /// # Errors
    /// `Closed`; `Damaged`.
    pub fn rejoin(&mut self, from: Join) -> Result<()> {
        self.ensure()?;
        self.at = match &self.slot {
            None => join::without_line(&self.bound, from)?,
            Some((slot, line)) => {
                join::with_line(&self.bound, *line, slot.owner(), from, self.policy)?
            }
        };
        self.published = self.at.position;
        Ok(())
    }

    #[inline]
    fn ensure(&self) -> Result<()> {
        match &self.slot {
            Some((slot, _)) => slot.ensure(),
            None if self.bound.is_current() => self.bound.arena.ensure_open(),
            None => {
                let what = "was dropped; open it again by name";
                Err(self.bound.error(ErrorKind::NotFound, what))
            }
        }
    }

    /// The length of the message at the position; waits for one. `None` if none comes in time.
    #[inline]
    fn next(&mut self, until: Until) -> Result<Option<u64>> {
        self.ensure()?;
        match self.poll()? {
            Some(len) => Ok(Some(len)),
            None => self.idle(until),
        }
    }

    /// The length of the message at the position, if there is one.
    #[inline]
    fn poll(&mut self) -> Result<Option<u64>> {
        loop {
            let ring = &self.bound.ring;
            let position = self.at.position;
            // Acquire: the bytes, and the zero behind them; pairs with the release of the producer.
            let word = ring.header(position).load(Ordering::Acquire);
            if self.policy != Policy::Lossless && self.is_overtaken()? {
                self.catch_up()?;
                continue;
            }
            match frame::decode(word, self.at.sequence, ring.rest(position), ring.size()) {
                Header::None => return Ok(None),
                Header::Message { len } => return Ok(Some(len)),
                // The next position begins a lap, where no filler is, so this loop ends.
                Header::Filler => self.at.position += ring.rest(position),
                Header::Wrong => return Err(self.bound.damaged("no header is", position)),
            }
        }
    }

    /// Whether bytes that were read at the position may have been overwritten before; then they do
    /// not count.
    fn is_overtaken(&self) -> Result<bool> {
        // The earlier reads come before this check; pairs with the fence behind the write limit, or
        // with the word's change.
        fence(Ordering::Acquire);
        match (self.policy, &self.slot) {
            (Policy::Lossless, _) => Ok(false),
            (Policy::Patient(_), Some((_, line))) => {
                // Relaxed: ordered by the fence.
                let word = Word(self.bound.line(*line).word.load(Ordering::Relaxed));
                if word.kind() == Use::Dropped { Err(self.was_dropped()) } else { Ok(false) }
            }
            _ => {
                let write_limit = self.bound.head().write_limit.load(Ordering::Relaxed);
                if self.slot.is_none() && write_limit <= self.at.position + self.bound.ring.size() {
                    // The producer does not know a read-only consumer: the channel may be dropped,
                    // and its memory may belong to another structure.
                    self.ensure()?;
                }
                Ok(write_limit > self.at.position + self.bound.ring.size())
            }
        }
    }

    /// A lossy consumer that was overtaken continues at the mark, which is near the end.
    #[cold]
    fn catch_up(&mut self) -> Result<()> {
        self.ensure()?;
        let (head, size) = (self.bound.head(), self.bound.ring.size());
        // Acquire: the mark that belongs to the write limit, or a later one.
        let write_limit = head.write_limit.load(Ordering::Acquire);
        let mark = head.mark().filter(|mark| {
            write_limit <= mark.position + size
                && mark.position >= self.at.position
                && mark.sequence >= self.at.sequence
        });
        let Some(mark) = mark else {
            self.ensure()?;
            return Err(self.bound.damaged("its state word is invalid", write_limit));
        };
        let missed = mark.sequence - self.at.sequence;
        let more = |count: u64| count.saturating_add(missed);
        self.missed = (more(self.missed.0), more(self.missed.1));
        self.at = mark;
        if let Some((_, line)) = &self.slot {
            // Relaxed: for display.
            self.bound.line(*line).missed.store(self.missed.1, Ordering::Relaxed);
        }
        Ok(())
    }

    /// Copies the message at the position. False if it was overwritten during the copy.
    #[inline]
    fn copy(&mut self, len: u64, buffer: &mut Vec<u8>) -> Result<bool> {
        buffer.clear();
        self.bound.ring.append(self.at.position + HEADER, len, buffer);
        step!("channel.copied");
        if self.policy == Policy::Lossless || !self.is_overtaken()? {
            return Ok(true);
        }
        self.catch_up()?;
        Ok(false)
    }

    /// Moves past the message of `len` bytes at the position, which has been received.
    #[inline]
    fn taken(&mut self, len: u64) -> Received {
        let received = Received { sequence: self.at.sequence, missed: self.missed.0 };
        self.missed.0 = 0;
        self.at.position += frame::bytes(len);
        self.at.sequence += 1;
        if self.at.position - self.published > self.publish_bytes {
            self.publish();
        }
        received
    }

    /// Publishes the cursor to the producer.
    fn publish(&mut self) {
        let Some((slot, line)) = &self.slot else {
            self.published = self.at.position;
            return;
        };
        // A callback may have forked: the line is the parent's.
        if slot.is_inherited() {
            return;
        }
        step!("channel.publishing");
        join::publish(self.bound.line(*line), self.at);
        self.published = self.at.position;
        let room = &self.bound.head().room;
        let woken = UnwindGuard::new(|| room.wake());
        step!("channel.published");
        woken.done();
        if self.policy != Policy::Lossy {
            room.wake();
        }
    }

    /// Called when there is no message: publishes the cursor, and waits.
    #[cold]
    fn idle(&mut self, until: Until) -> Result<Option<u64>> {
        if self.published != self.at.position {
            self.publish();
        }
        let deadline = match until {
            Until::Never => return Ok(None),
            Until::Deadline(at) => Some(at),
            Until::Forever => None,
        };
        step!("channel.idle");
        if self.wait == Wait::Sleep && self.slot.is_some() {
            let bound = Arc::clone(&self.bound);
            let mut look = || -> Result<Option<u64>> {
                self.ensure()?;
                self.poll()
            };
            // An endpoint slot needs no operation.
            return bound.head().messages.wait(deadline, || Ok(()), |(), _| look());
        }
        let mut nap = FIRST_NAP;
        while deadline.is_none_or(|at| Instant::now() < at) {
            self.ensure()?;
            if let Some(len) = self.poll()? {
                return Ok(Some(len));
            }
            match self.wait {
                Wait::Spin => std::hint::spin_loop(),
                Wait::Sleep => {
                    let left =
                        deadline.map_or(nap, |at| at.saturating_duration_since(Instant::now()));
                    std::thread::sleep(nap.min(left));
                    nap = (nap * 2).min(LONGEST_NAP);
                }
            }
        }
        Ok(None)
    }

    #[cold]
    fn was_dropped(&self) -> Error {
        let Policy::Patient(patience) = self.policy else { return self.nothing() };
        let text = format!(
            "this consumer was dropped after the producer had waited {patience:?} for it; join \
             again"
        );
        self.bound.error(ErrorKind::Closed, &text)
    }

    #[cold]
    fn not_lossless(&self) -> Error {
        let what = "only a lossless consumer may read messages in place; use recv";
        self.bound.error(ErrorKind::Invalid, what)
    }

    #[cold]
    fn nothing(&self) -> Error {
        self.bound.error(ErrorKind::TimedOut, "timed out while waiting for a message")
    }
}

impl Drop for Consumer {
    fn drop(&mut self) {
        if let Some((slot, line)) = &self.slot
            && !slot.is_inherited()
        {
            // Inside an operation: once the line is free, another thread may drop the channel, and
            // the wake would go into another structure's memory. Where no lane is free, or the
            // handle was closed, a producer that waits for this consumer finds it gone at its next
            // look.
            let attachment = self.bound.attachment.as_ref();
            let inside = attachment.and_then(|attachment| attachment.enter_to_leave());
            let room = &self.bound.head().room;
            let woken = UnwindGuard::new(|| {
                if inside.is_some() {
                    room.wake();
                }
            });
            join::leave(self.bound.line(*line), slot.owner());
            drop(woken);
        }
    }
}
