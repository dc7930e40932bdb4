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
//! A move of one element has a short way, which waits for nothing: [`Ring::try_pull`] and
//! [`Ring::try_push`]. They leave to the patient way what they cannot do at once.
//!
//! The next taker of a lock sees everything through it (acquire). Stronger orderings are for
//! recovery.

use crate::error::Result;
use crate::memory::block::Block;
use crate::memory::writer::Writer;
use crate::queue::layout::{End, Layout, Side};
use crate::queue::recover;
use crate::steps::step;
use crate::sync::owner::Owner;
use crate::sync::robust_lock::{self, Level};
use crate::sync::space::Space;
use crate::sync::unwind::UnwindGuard;
use std::mem::ManuallyDrop;
use std::slice::from_ref;
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

    /// The same if the lock is free.
    #[inline(always)]
    fn try_lock<'w, W: Writer>(&self, writer: &'w W, side: Side) -> Option<Locked<'w, 'a, W>> {
        let end = self.end(side);
        writer.list().segment.store(self.layout.end_offset(self.queue, side), Ordering::Relaxed);
        step!("queue.listed");
        if !robust_lock::try_lock(&end.lock, writer.me()) {
            writer.list().segment.store(0, Ordering::Release);
            return None;
        }
        let locked = Locked { writer, end };
        step!("queue.locked");
        Some(locked)
    }

    /// Pulls one element into flight for the writer, if that does not require waiting. Returns the
    /// number of elements pulled; `None` leaves the pull to [`pull`](Self::pull).
    #[inline(always)]
    pub(crate) fn try_pull(
        &self,
        writer: &impl Writer,
        out: &mut impl PullTarget,
    ) -> Option<usize> {
        if !self.may_have_some() {
            return Some(0);
        }
        let head = self.try_lock(writer, Side::Head)?;
        // Relaxed: under the lock.
        let start = head.end.index.load(Ordering::Relaxed);
        let count = self.tail_for(head.end, start, 1).checked_sub(start)?;
        if count == 0 {
            return Some(0);
        }
        if count > self.layout.elements.into() {
            return None;
        }
        let place = self.layout.place_at(self.space, self.queue, start)?;
        self.take(head.end, start + 1, [from_ref(place), &[]], writer.me(), out).then_some(1)
    }

    /// Pushes an element that the writer has in flight, if that does not require waiting, and wakes
    /// the waiters. Calls `gone` as [`push`](Self::push) does, to which `None` leaves the push.
    #[inline(always)]
    pub(crate) fn try_push(
        &self,
        writer: &impl Writer,
        id: u32,
        gone: impl FnOnce(),
    ) -> Option<()> {
        let tail = self.try_lock(writer, Side::Tail)?;
        // Relaxed: under the lock.
        let start = tail.end.index.load(Ordering::Relaxed);
        if !self.has_room(tail.end, start, 1) {
            return None;
        }
        let holder = self.layout.holders(self.space).get(id as usize)?;
        if holder.load(Ordering::Relaxed) != writer.me().bits() {
            return None;
        }
        let event = self.layout.event(self.space, self.queue);
        let place = self.layout.place_at(self.space, self.queue, start)?;
        let woken = UnwindGuard::new(|| event.wake_all());
        // Relaxed: the intent publishes it to a recoverer, the index to a puller.
        place.store(id, Ordering::Relaxed);
        step!("push.written");
        self.put(tail.end, start.wrapping_add(1), || release(holder), writer.me(), gone);
        drop(tail);
        woken.done();
        event.wake();
        step!("push.woken");
        Some(())
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
        let count = self.tail_for(head, start, max).saturating_sub(start).min(max);
        if count > self.layout.elements.into() {
            return Err(self.block.damaged("a named queue has more elements than exist"));
        }
        let end = start + count;
        let places = self.layout.places_at(self.space, self.queue, start, count);
        match self.take(head, end, places, writer.me(), out) {
            true => Ok(count as usize),
            false => Err(self.block.damaged("a queue names an element that does not exist")),
        }
    }

    /// The tail's index as it was seen last, or its present one if fewer than `max` elements lay
    /// before it. Under the head's lock.
    #[inline(always)]
    fn tail_for(&self, head: &End, start: u64, max: u64) -> u64 {
        let seen = head.opposite.load(Ordering::Relaxed);
        if seen >= start && seen - start >= max {
            return seen;
        }
        // Acquire: the entries up to there are in the ring.
        let tail = self.end(Side::Tail).index.load(Ordering::Acquire);
        head.opposite.store(tail, Ordering::Relaxed);
        tail
    }

    /// Takes the elements in these places, which are those before `end`, into flight for `me`.
    /// Under the head's lock. False if a place names no element; then nothing was taken.
    #[inline(always)]
    fn take(
        &self,
        head: &End,
        end: u64,
        places: [&[AtomicU32]; 2],
        me: Owner,
        out: &mut impl PullTarget,
    ) -> bool {
        let holders = self.layout.holders(self.space);
        // Read once, because a damaged hold may change.
        let count = out.take(places);
        // Without a branch per element, so that the processor compares several at a time.
        let elements = holders.len() as u32;
        if !out.last(count).iter().fold(true, |all, id| all & (*id < elements)) {
            out.withdraw(count);
            return false;
        }
        let pull = Pull { ring: self, head, me: me.bits(), out, count };
        let ids = pull.out.last(count);
        // Release pairs with the acquire of a recoverer: it sees the intent if it sees what
        // follows.
        head.intent.store(end, Ordering::Release);
        step!("pull.armed");
        each(ids, |id| {
            if let Some(holder) = holders.get(*id as usize) {
                // Release: after the intent.
                holder.store(me.bits(), Ordering::Release);
            }
            step!("pull.holding");
        });
        step!("pull.held");
        let _ = ManuallyDrop::new(pull);
        // The commit point. Release: after the holders' words; a pusher into these places sees that
        // they were read.
        head.index.store(end, Ordering::Release);
        step!("pull.committed");
        true
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
        let woken = UnwindGuard::new(|| event.wake_all());
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
        if !self.has_room(tail, start, ids.len() as u64) {
            return Err(self.block.damaged("a named queue has more elements than exist"));
        }
        let me = writer.me().bits();
        let holders = self.layout.holders(self.space);
        let [straight, wrapped] =
            self.layout.places_at(self.space, self.queue, start, ids.len() as u64);
        let (first, rest) = ids.split_at(straight.len().min(ids.len()));
        // Relaxed: the intent publishes it to a recoverer, the index to a puller. Numbers
        // that were stored before an error are in no queue.
        let write = |place: &AtomicU32, id: &u32| {
            place.store(*id, Ordering::Relaxed);
            holders.get(*id as usize).is_some_and(|holder| holder.load(Ordering::Relaxed) == me)
        };
        if !all(straight, first, write) || !all(wrapped, rest, write) {
            return Err(self.block.damaged("an element is in flight in another process"));
        }
        step!("push.written");
        let end = start.wrapping_add(ids.len() as u64);
        let release_all = || each(ids, |id| holders.get(*id as usize).map(release).unwrap_or(()));
        self.put(tail, end, release_all, writer.me(), gone);
        Ok(())
    }

    /// Whether the ring has room for `count` elements from `start` on. Under the tail's lock.
    #[inline(always)]
    fn has_room(&self, tail: &End, start: u64, count: u64) -> bool {
        let end = start.wrapping_add(count);
        let room = |head: u64| head <= start && end.wrapping_sub(head) <= self.layout.places();
        if room(tail.opposite.load(Ordering::Relaxed)) {
            return true;
        }
        // Acquire: everything that was pulled up to there has been read.
        let head = self.end(Side::Head).index.load(Ordering::Acquire);
        tail.opposite.store(head, Ordering::Relaxed);
        room(head)
    }

    /// Puts the elements before `end` in the ring, whose holders' words `release_all` clears by
    /// [`release`], into the queue. Under the tail's lock.
    #[inline(always)]
    fn put(
        &self,
        tail: &End,
        end: u64,
        release_all: impl FnOnce(),
        me: Owner,
        gone: impl FnOnce(),
    ) {
        // Release pairs with the acquire of a recoverer: the entries are visible.
        tail.intent.store(end, Ordering::Release);
        let moved = (0, me.bits());
        let rolled_back = UnwindGuard::new(|| {
            recover::roll_back(self.space, self.layout, self.queue, tail, moved)
        });
        step!("push.armed");
        release_all();
        step!("push.released");
        // The commit point. Release pairs with the acquire of a puller: entries, holders' words and
        // payload are visible.
        tail.index.store(end, Ordering::Release);
        rolled_back.done();
        gone();
        step!("push.committed");
    }
}

/// Clears a holder's word: the element is in flight no more.
#[inline(always)]
fn release(holder: &AtomicU32) {
    // Release: after the intent.
    holder.store(0, Ordering::Release);
    step!("push.releasing");
}

/// Elements that the loops below take at a time, which saves most of a loop's own instructions.
const AT_ONCE: usize = 8;

/// Calls `act` with each id.
#[inline(always)]
fn each(ids: &[u32], mut act: impl FnMut(&u32)) {
    let (many, rest) = ids.as_chunks::<AT_ONCE>();
    many.iter().for_each(|ids| ids.iter().for_each(&mut act));
    rest.iter().for_each(act);
}

/// Calls `act` with each place and its id, up to the first that returns false; whether none does.
#[inline(always)]
fn all(places: &[AtomicU32], ids: &[u32], act: impl Fn(&AtomicU32, &u32) -> bool) -> bool {
    let ((many, rest), (ids, others)) = (places.as_chunks::<AT_ONCE>(), ids.as_chunks::<AT_ONCE>());
    many.iter().zip(ids).all(|(places, ids)| places.iter().zip(ids).all(|(at, id)| act(at, id)))
        && rest.iter().zip(others).all(|(place, id)| act(place, id))
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

/// The id in a place.
#[inline(always)]
pub(crate) fn read(place: &AtomicU32) -> u32 {
    // Relaxed: ordered by the acquire of the tail.
    place.load(Ordering::Relaxed)
}

/// The destination of pulled elements.
pub(crate) trait PullTarget {
    /// Appends the ids in these places; returns their number.
    fn take(&mut self, places: [&[AtomicU32]; 2]) -> usize;
    /// The last `count` ids.
    fn last(&self, count: usize) -> &[u32];
    /// Removes the last `count` ids: they are not pulled after all.
    fn withdraw(&mut self, count: usize);
}

impl PullTarget for Vec<u32> {
    #[inline(always)]
    fn take(&mut self, places: [&[AtomicU32]; 2]) -> usize {
        let before = self.len();
        for places in places {
            let (many, rest) = places.as_chunks::<AT_ONCE>();
            many.iter().for_each(|places| self.extend_from_slice(&places.each_ref().map(read)));
            self.extend(rest.iter().map(read));
        }
        self.len() - before
    }
    #[inline(always)]
    fn last(&self, count: usize) -> &[u32] {
        &self[self.len().saturating_sub(count)..]
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
