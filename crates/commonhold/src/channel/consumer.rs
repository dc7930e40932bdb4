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
use crate::sync::unwind::Mend;
use std::fmt;
use std::sync::Arc;
use std::sync::atomic::{Ordering, fence};
use std::time::{Duration, Instant};

/// The cursor is published after so many bytes at most, or a sixteenth of the ring.
const PUBLISH_BYTES: u64 = 8 << 10;
/// Pauses of a read-only consumer that waits: it can set no flag, so nobody wakes it.
const FIRST_NAP: Duration = Duration::from_micros(50);
const LONGEST_NAP: Duration = Duration::from_millis(2);

/// One who receives from a channel. Dropping it leaves the channel.
///
/// It receives every message from its [`Join`] on, in order, once, unless it is lossy or was
/// dropped ([`Policy`]). What it has received counts as read when it calls the next time, or after
/// a few more messages: until then a full ring may wait for it. If its process dies it holds nobody
/// back any more. A producer's death loses nothing that was sent; receiving goes on when the next
/// producer begins.
///
/// After the hold's handle was closed, or in a forked child, every call is the error `Closed`.
pub struct Consumer {
    bound: Arc<Bound>,
    /// None for a read-only handle.
    slot: Option<(EndpointSlot, usize)>,
    policy: Policy,
    at: Mark,
    published: u64,
    publish_bytes: u64,
    /// Missed and not told yet; missed ever.
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
                let line = join::claim_line(bound, slot.owner, policy)?;
                let left = Mend::new(|| {
                    join::leave(bound.line(line), slot.owner);
                    // A producer may have begun to wait for it.
                    bound.head().room.wake();
                });
                let at = join::with_line(bound, line, slot.owner, from, policy)?;
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

    /// How it waits for messages; at first [`Wait::Sleep`].
    pub fn set_wait(&mut self, wait: Wait) {
        self.wait = wait;
    }

    /// The number of the message that comes next, if none is missed.
    pub fn sequence(&self) -> u64 {
        self.at.sequence
    }

    /// Messages missed since it joined; always 0 unless it is lossy.
    pub fn missed(&self) -> u64 {
        self.missed.1
    }

    /// Puts the next message into `buffer`, whose contents are replaced. Waits as long as it takes,
    /// also while there is no producer.
    ///
    /// # Errors
    /// `Closed`; also if it was patient and has been dropped ([`Consumer::rejoin`]). `NotFound` for
    /// a read-only handle if the channel was dropped. `Damaged`.
    #[inline]
    pub fn recv(&mut self, buffer: &mut Vec<u8>) -> Result<Received> {
        let found = self.recv_until(buffer, Until::Forever)?;
        found.ok_or_else(|| self.nothing())
    }

    /// Puts the next message into `buffer`, if there is one now.
    ///
    /// # Errors
    /// As for [`Consumer::recv`].
    #[inline]
    pub fn try_recv(&mut self, buffer: &mut Vec<u8>) -> Result<Option<Received>> {
        self.recv_until(buffer, Until::Never)
    }

    /// Puts the next message into `buffer`; waits for it at most so long. `None`: the time ran out.
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
        loop {
            let Some(len) = self.next(until)? else { return Ok(None) };
            if self.copy(len, buffer)? {
                return Ok(Some(self.taken(len)));
            }
        }
    }

    /// Gives `look` the next message where it lies, without a copy; waits for it as long as it
    /// takes. Only for lossless consumers: the producer does not overwrite it before `look`
    /// returns.
    ///
    /// # Errors
    /// `Invalid` for another policy; as for [`Consumer::recv`].
    pub fn recv_with<R>(&mut self, look: impl FnOnce(RawBytes<'_>, Received) -> R) -> Result<R> {
        let found = self.look_until(look, Until::Forever)?;
        found.ok_or_else(|| self.nothing())
    }

    /// As [`Consumer::recv_with`], without waiting; `None` if there is no message now.
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

    /// Shows the next message where it lies, and leaves it there until [`advance`](Self::advance):
    /// for who cannot say in one call what is to be done with it. Waits as long as it takes. Only
    /// for lossless consumers.
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

    /// As [`Consumer::peek`], without waiting; `None` if there is no message now.
    ///
    /// # Errors
    /// As for [`Consumer::recv_with`].
    pub fn try_peek(&mut self) -> Result<Option<(RawBytes<'_>, Received)>> {
        Ok(self.peek_until(Until::Never)?.map(|len| self.shown(len)))
    }

    /// As [`Consumer::peek`]; waits at most so long. `None`: the time ran out.
    ///
    /// # Errors
    /// As for [`Consumer::recv_with`].
    pub fn peek_timeout(&mut self, time: Duration) -> Result<Option<(RawBytes<'_>, Received)>> {
        Ok(self.peek_until(deadline(time))?.map(|len| self.shown(len)))
    }

    /// Goes behind the message that [`peek`](Self::peek) shows; false if there is none now.
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

    /// Hands messages to `each`, `most` of them at most; waits for the first as long as it takes,
    /// and for no other. Returns how many there were. All count as read when it returns.
    ///
    /// # Errors
    /// As for [`Consumer::recv`], if there is no message before it.
    pub fn recv_many(&mut self, most: usize, each: impl FnMut(Received, &[u8])) -> Result<usize> {
        self.recv_all(most, Until::Forever, each)
    }

    /// As [`Consumer::recv_many`]; waits for the first message at most so long, and returns 0 if
    /// there is none in time.
    ///
    /// # Errors
    /// As for [`Consumer::recv`], if there is no message before it.
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
            // What came before the error was received; the next call reports it.
            _ => {
                self.publish();
                Ok(count)
            }
        }
    }

    /// Begins again, from now or the oldest message kept, after a patient consumer was dropped or
    /// whenever it likes.
    ///
    /// # Errors
    /// `Closed`; `Damaged`.
    pub fn rejoin(&mut self, from: Join) -> Result<()> {
        self.ensure()?;
        self.at = match &self.slot {
            None => join::without_line(&self.bound, from)?,
            Some((slot, line)) => {
                join::with_line(&self.bound, *line, slot.owner, from, self.policy)?
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

    /// The length of the message at the position; waits for one. `None` if there is none in time.
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
                // The next position begins a lap, where no filler is: this does not go on for ever.
                Header::Filler => self.at.position += ring.rest(position),
                Header::Wrong => return Err(self.bound.damaged("no header is", position)),
            }
        }
    }

    /// Whether what was read at the position may have been overwritten before: then it counts for
    /// nothing.
    fn is_overtaken(&self) -> Result<bool> {
        // The reads before the look; pairs with the fence behind the write limit, or with the word's change.
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
                    // Nobody knows of a read-only consumer: the channel may be gone, and its memory another's.
                    self.ensure()?;
                }
                Ok(write_limit > self.at.position + self.bound.ring.size())
            }
        }
    }

    /// A lossy consumer that was overtaken goes on at the mark, which is near the end.
    #[cold]
    fn catch_up(&mut self) -> Result<()> {
        self.ensure()?;
        let (head, size) = (self.bound.head(), self.bound.ring.size());
        // Acquire: the mark that goes with the write limit, or a later one.
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

    /// Copies the message at the position. False if it was overwritten meanwhile.
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

    /// The message of `len` bytes at the position has been received.
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

    /// Tells the producer how far it has read.
    fn publish(&mut self) {
        let Some((_, line)) = &self.slot else {
            self.published = self.at.position;
            return;
        };
        step!("channel.publishing");
        join::publish(self.bound.line(*line), self.at);
        self.published = self.at.position;
        let room = &self.bound.head().room;
        let woken = Mend::new(|| room.wake());
        step!("channel.published");
        woken.done();
        if self.policy != Policy::Lossy {
            room.wake();
        }
    }

    /// Nothing is there: tells the producer, and waits.
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
            "this consumer was dropped after the producer had waited for it for {patience:?}; \
             join again"
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
        self.bound.error(ErrorKind::TimedOut, "no message in time")
    }
}

impl Drop for Consumer {
    fn drop(&mut self) {
        if let Some((slot, line)) = &self.slot
            && !slot.is_inherited()
        {
            // Inside an operation: once the line is free, another thread may drop the channel, and the wake would go
            // into somebody else's memory. (The handle being closed, this process drops nothing through it.) Where no
            // lane is free, a producer that waits for this one finds it gone when it looks next.
            let attachment = self.bound.attachment.as_ref();
            let inside = attachment.and_then(|attachment| attachment.enter_to_leave());
            let may_wake = inside.is_some() || self.bound.arena.is_closed();
            let room = &self.bound.head().room;
            let woken = Mend::new(|| {
                if may_wake {
                    room.wake();
                }
            });
            join::leave(self.bound.line(*line), slot.owner);
            drop(woken);
        }
    }
}
