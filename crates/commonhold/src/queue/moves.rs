//! Moving elements (protocol 5): out of a ring into flight, and from flight into a ring.
//!
//! One end of a queue has one lock, one intent and one index. A move of *n* elements, under the
//! lock: arm the intent (index + n), store the holders' words, **store the index** (the commit
//! point), unlock. The intent is armed while it is ahead of the index, so the commit disarms it. If
//! an owner of the lock dies, its recoverer compares index and intent. If the index has reached the
//! intent, the move is done. If not, the recoverer rolls back the holders' words of the ring's
//! entries from index to intent, which nobody else touches meanwhile ([`crate::queue::recover`]).
//! So ring membership decides, by that index under that lock.
//!
//! Only the participant that has an element in flight stores its holder's word: nobody else stores
//! it before the commit of a pull, or after the commit of a push. A push clears the words *before*
//! its commit, because afterwards another holder may have the element already, perhaps another
//! thread of the same process.
//!
//! The next taker of a lock sees everything through it (acquire). Stronger orderings are for
//! recovery.

use crate::error::Result;
use crate::memory::block::Block;
use crate::memory::writer::Writer;
use crate::queue::layout::{End, Layout, Side};
use crate::queue::recover;
use crate::steps::step;
use crate::sync::robust_lock::{self, Level};
use crate::sync::space::Space;
use crate::sync::unwind::Mend;
use std::mem::ManuallyDrop;
use std::sync::atomic::{AtomicU32, Ordering};

/// One named queue, and the block that contains it.
#[derive(Clone, Copy)]
pub(crate) struct Ring<'a> {
    pub(crate) space: &'a Space,
    pub(crate) block: &'a Block,
    pub(crate) layout: &'a Layout,
    pub(crate) queue: u32,
}

impl<'a> Ring<'a> {
    #[inline]
    fn end(&self, side: Side) -> &'a End {
        self.layout.end(self.space, self.queue, side)
    }

    /// Elements in the queue, at some moment while this runs.
    pub(crate) fn len(&self) -> u64 {
        // The head first: it never overtakes the tail.
        let head = self.end(Side::Head).index.load(Ordering::Acquire);
        let tail = self.end(Side::Tail).index.load(Ordering::Acquire);
        tail.saturating_sub(head).min(self.layout.elements.into())
    }

    /// False if the queue was empty at some moment while this runs. Reads the tail's line only if
    /// necessary.
    #[inline]
    fn may_have_some(&self) -> bool {
        let head = self.end(Side::Head);
        let index = head.index.load(Ordering::Acquire);
        // Relaxed: a hint; the pull itself checks again.
        head.opposite.load(Ordering::Relaxed) > index
            || self.end(Side::Tail).index.load(Ordering::Acquire) > index
    }

    /// The numbers of elements that were ever pulled and pushed. Those that began in the queue
    /// count as pushed.
    pub(crate) fn passed(&self) -> [u64; 2] {
        [Side::Head, Side::Tail].map(|side| self.end(side).index.load(Ordering::Acquire))
    }

    /// Lists and takes the lock of one end. The waiter holds nothing.
    #[inline]
    fn lock<'w, W: Writer>(&self, writer: &'w W, side: Side) -> Result<Locked<'w, 'a, W>> {
        let end = self.end(side);
        // Relaxed: the lock's release keeps it before.
        writer.list().segment.store(self.layout.end_offset(self.queue, side), Ordering::Relaxed);
        step!("queue.listed");
        robust_lock::lock(&end.lock, writer, Level::Whole)
            .inspect_err(|_| writer.list().segment.store(0, Ordering::Relaxed))?;
        let locked = Locked { writer, end };
        step!("queue.locked");
        Ok(locked)
    }

    /// Pulls at most `max` elements into flight for the writer and appends their ids to `out`.
    /// Returns their number.
    ///
    /// # Errors
    /// `Damaged`; those of the lock. Then nothing was pulled.
    #[inline]
    pub(crate) fn pull(
        &self,
        writer: &impl Writer,
        max: usize,
        out: &mut impl PullTarget,
    ) -> Result<usize> {
        if max == 0 || !self.may_have_some() {
            return Ok(0);
        }
        let head = self.lock(writer, Side::Head)?;
        self.pull_locked(writer, head.end, max as u64, out)
    }

    #[inline]
    fn pull_locked(
        &self,
        writer: &impl Writer,
        head: &End,
        max: u64,
        out: &mut impl PullTarget,
    ) -> Result<usize> {
        // Relaxed: under the lock.
        let start = head.index.load(Ordering::Relaxed);
        let mut tail = head.opposite.load(Ordering::Relaxed);
        if tail.wrapping_sub(start) < max || tail < start {
            // Acquire: the entries up to there are in the ring.
            tail = self.end(Side::Tail).index.load(Ordering::Acquire);
            head.opposite.store(tail, Ordering::Relaxed);
        }
        let count = tail.saturating_sub(start).min(max);
        if count > self.layout.elements.into() {
            return Err(self.block.damaged("a named queue has more elements than exist"));
        }
        let end = start + count;
        let places = self.layout.places_at(self.space, self.queue, start, count);
        let holders = self.layout.holders(self.space);
        // Relaxed: ordered by the tail's acquire.
        let known = |place: &AtomicU32| (place.load(Ordering::Relaxed) as usize) < holders.len();
        if !places.iter().all(|part| part.iter().all(known)) {
            return Err(self.block.damaged("a queue names an element that does not exist"));
        }
        let me = writer.me().bits();
        // Release pairs with the acquire of a recoverer: it sees the intent if it sees what
        // follows.
        head.intent.store(end, Ordering::Release);
        let mut pull = Pull { ring: self, head, me, out, count: 0 };
        step!("pull.armed");
        for part in places {
            for place in part {
                // Checked above; a damaged hold may change in between.
                let id = place.load(Ordering::Relaxed).min(self.layout.elements - 1);
                if let Some(holder) = holders.get(id as usize) {
                    // Release: after the intent.
                    holder.store(me, Ordering::Release);
                }
                step!("pull.holding");
                pull.out.take(id);
                pull.count += 1;
            }
        }
        step!("pull.held");
        let _ = ManuallyDrop::new(pull);
        // The commit point. Release: after the holders' words; a pusher into these places sees that
        // they were read.
        head.index.store(end, Ordering::Release);
        step!("pull.committed");
        Ok(count as usize)
    }

    /// Pushes these elements, which the writer has in flight, and wakes the waiters. Calls `gone`
    /// when they are no longer in flight, because a panic may follow.
    ///
    /// # Errors
    /// `Damaged`; those of the lock. Then nothing was pushed.
    #[inline]
    pub(crate) fn push(
        &self,
        writer: &impl Writer,
        ids: &[u32],
        gone: impl FnOnce(),
    ) -> Result<()> {
        if ids.is_empty() {
            return Ok(());
        }
        let event = self.layout.event(self.space, self.queue);
        let tail = self.lock(writer, Side::Tail)?;
        let woken = Mend::new(|| event.wake_all());
        let pushed = self.push_locked(writer, tail.end, ids, gone);
        drop(tail);
        woken.done();
        pushed?;
        event.wake();
        step!("push.woken");
        Ok(())
    }

    #[inline]
    fn push_locked(
        &self,
        writer: &impl Writer,
        tail: &End,
        ids: &[u32],
        gone: impl FnOnce(),
    ) -> Result<()> {
        // Relaxed: under the lock.
        let start = tail.index.load(Ordering::Relaxed);
        let end = start.wrapping_add(ids.len() as u64);
        let room = |head: u64| head <= start && end.wrapping_sub(head) <= self.layout.places();
        if !room(tail.opposite.load(Ordering::Relaxed)) {
            // Acquire: everything that was pulled up to there has been read.
            let head = self.end(Side::Head).index.load(Ordering::Acquire);
            tail.opposite.store(head, Ordering::Relaxed);
            if !room(head) {
                return Err(self.block.damaged("a named queue has more elements than exist"));
            }
        }
        let me = writer.me().bits();
        let holders = self.layout.holders(self.space);
        let in_flight = |id: &u32| {
            holders.get(*id as usize).is_some_and(|holder| holder.load(Ordering::Relaxed) == me)
        };
        if !ids.iter().all(in_flight) {
            return Err(self.block.damaged("an element is in flight in another process"));
        }
        let [straight, wrapped] =
            self.layout.places_at(self.space, self.queue, start, ids.len() as u64);
        for (place, id) in straight.iter().chain(wrapped).zip(ids) {
            // Relaxed: the intent publishes it to a recoverer, the index to a puller.
            place.store(*id, Ordering::Relaxed);
        }
        step!("push.written");
        // Release pairs with the acquire of a recoverer: the entries are visible.
        tail.intent.store(end, Ordering::Release);
        let rolled_back =
            Mend::new(|| recover::roll_back(self.space, self.layout, self.queue, tail, (0, me)));
        step!("push.armed");
        for holder in ids.iter().filter_map(|id| holders.get(*id as usize)) {
            // Release: after the intent.
            holder.store(0, Ordering::Release);
            step!("push.releasing");
        }
        step!("push.released");
        // The commit point. Release pairs with the acquire of a puller: entries, holders' words and
        // payload are visible.
        tail.index.store(end, Ordering::Release);
        rolled_back.done();
        gone();
        step!("push.committed");
        Ok(())
    }
}

/// One end of a queue that is locked and listed. Dropping this releases the lock, then unlists it.
struct Locked<'w, 'a, W: Writer> {
    writer: &'w W,
    end: &'a End,
}

impl<W: Writer> Drop for Locked<'_, '_, W> {
    #[inline]
    fn drop(&mut self) {
        robust_lock::unlock(&self.end.lock);
        step!("queue.unlocked");
        // Release: unlisted only after the lock is released.
        self.writer.list().segment.store(0, Ordering::Release);
    }
}

/// The destination of pulled elements.
pub(crate) trait PullTarget {
    fn take(&mut self, id: u32);
    /// Removes the last `count` elements: they are not pulled after all.
    fn withdraw(&mut self, count: usize);
}

impl PullTarget for Vec<u32> {
    #[inline]
    fn take(&mut self, id: u32) {
        self.push(id);
    }
    fn withdraw(&mut self, count: usize) {
        self.truncate(self.len().saturating_sub(count));
    }
}

/// A pull that is not committed. Dropping this rolls it back, as a recoverer would.
struct Pull<'p, 'a, T: PullTarget> {
    ring: &'p Ring<'a>,
    head: &'p End,
    me: u32,
    out: &'p mut T,
    count: usize,
}

impl<T: PullTarget> Drop for Pull<'_, '_, T> {
    fn drop(&mut self) {
        let Ring { space, layout, queue, .. } = *self.ring;
        self.out.withdraw(self.count);
        recover::roll_back(space, layout, queue, self.head, (self.me, 0));
    }
}
