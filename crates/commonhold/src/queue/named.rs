//! [`NamedQueue`]: pushing, pulling and waiting on one of the named queues.

use crate::error::{Error, ErrorKind, Result};
use crate::memory::lane::LaneGuard;
use crate::queue::batch::Batch;
use crate::queue::element::Element;
use crate::queue::handle::Queue;
use crate::queue::moves::{self, PullTarget};
use crate::sync::event::Look;
use crate::sync::robust_lock::Peers;
use std::cell::Cell;
use std::fmt;
use std::sync::atomic::AtomicU32;
use std::time::{Duration, Instant};

/// One of the named queues of a [`Queue`], first in, first out. It is `Copy`, and any thread may
/// use it.
///
/// Only the operations with a timeout wait for elements. Every operation may wait a moment for
/// another process that is moving elements at the same end, and recovers an unfinished move of a
/// process that died there.
///
/// # Errors
/// Every operation returns: `NotFound` if the queue was dropped; `Closed` if the hold was closed;
/// `TimedOut` if another process keeps an end locked for longer than
/// [`HoldOptions::lock_timeout`](crate::HoldOptions::lock_timeout); `Reentrant` in a signal handler
/// that interrupted an operation; `Busy` if this thread has frozen the hold; `Damaged`. After these
/// errors nothing was moved, unless the operation documents otherwise.
#[derive(Clone, Copy)]
pub struct NamedQueue<'q> {
    queue: &'q Queue,
    number: u32,
}

/// The destination of a pull of one element. Dropping this drops the element.
struct One<'q> {
    queue: &'q Queue,
    owner: u32,
    id: Option<u32>,
}

impl<'q> One<'q> {
    #[inline]
    fn new(queue: &'q Queue) -> One<'q> {
        One { queue, owner: 0, id: None }
    }

    #[inline]
    fn element(&mut self) -> Option<Element<'q>> {
        self.id.take().map(|id| Element::new(self.queue, id, self.owner))
    }
}

impl PullTarget for One<'_> {
    #[inline(always)]
    fn take(&mut self, [straight, wrapped]: [&[AtomicU32]; 2]) -> usize {
        self.id = straight.first().or(wrapped.first()).map(moves::read);
        self.id.iter().len()
    }
    #[inline(always)]
    fn last(&self, _: usize) -> &[u32] {
        self.id.as_slice()
    }
    fn withdraw(&mut self, _: usize) {
        self.id = None;
    }
}

impl Drop for One<'_> {
    #[inline]
    fn drop(&mut self) {
        drop(self.element());
    }
}

/// Forgets an element that was pushed, or returns it with the error.
#[inline]
fn after_push<'e, T>(
    element: Element<'e>,
    moved: Result<T>,
) -> std::result::Result<T, (Element<'e>, Error)> {
    match moved {
        Ok(done) => {
            element.forget();
            Ok(done)
        }
        Err(error) => Err((element, error)),
    }
}

impl fmt::Debug for NamedQueue<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let fields = &mut f.debug_struct("NamedQueue");
        fields.field("queue", &self.queue.name()).field("name", &self.name()).finish()
    }
}

/// The number of elements ever pushed to a named queue, including those that it began with. A push
/// increases it in the step that shows the element.
///
/// # Errors
/// Those of [`NamedQueue`].
pub fn pushed(named: NamedQueue<'_>) -> Result<u64> {
    let _inside = named.queue.enter()?;
    let [_, pushed] = named.queue.ring(named.number).passed();
    Ok(pushed)
}

impl<'q> NamedQueue<'q> {
    pub(crate) fn new(queue: &'q Queue, number: u32) -> NamedQueue<'q> {
        NamedQueue { queue, number }
    }

    /// The name of this queue.
    pub fn name(&self) -> &'q str {
        self.queue.named_at(self.number)
    }

    /// The number of elements in the queue, which may have changed when this returns.
    pub fn len(&self) -> Result<u64> {
        let _inside = self.queue.enter()?;
        Ok(self.queue.ring(self.number).len())
    }

    /// True if the queue was empty, which may have changed when this returns.
    pub fn is_empty(&self) -> Result<bool> {
        Ok(self.len()? == 0)
    }

    /// Appends an element to the queue and wakes its waiters.
    ///
    /// # Errors
    /// `Invalid` if the element belongs to another queue, or to the parent of this process. After
    /// an error the element goes to the orphans, like a dropped one.
    #[inline]
    pub fn push(&self, element: Element<'_>) -> Result<()> {
        self.try_push(element).map_err(|(_, error)| error)
    }

    /// Like [`push`](Self::push), but returns the element with the error: it is still in flight and
    /// can be pushed again.
    #[inline]
    pub fn try_push<'e>(
        &self,
        element: Element<'e>,
    ) -> std::result::Result<(), (Element<'e>, Error)> {
        let pushed = match self.push_at_once(&element) {
            Some(()) => Ok(()),
            None => self.push_patiently(&element),
        };
        after_push(element, pushed)
    }

    #[inline(always)]
    fn push_at_once(&self, element: &Element<'_>) -> Option<()> {
        let lane = self.queue.try_enter()?;
        if !self.queue.is_same(element.queue()) || element.owner() != lane.me().bits() {
            return None;
        }
        self.queue.ring(self.number).try_push(&lane, element.id(), || element.leave())
    }

    #[inline(never)]
    fn push_patiently(&self, element: &Element<'_>) -> Result<()> {
        self.queue.operate(|lane| self.push_in(lane, element))
    }

    #[inline]
    fn push_in(&self, lane: &LaneGuard<'_>, element: &Element<'_>) -> Result<()> {
        if !self.queue.is_same(element.queue()) || element.owner() != lane.me().bits() {
            return Err(self.foreign());
        }
        self.queue.ring(self.number).push(lane, &[element.id()], || element.leave())
    }

    /// Removes and returns the element at the front; `None` if the queue is empty.
    #[inline]
    pub fn pull(&self) -> Result<Option<Element<'q>>> {
        match self.pull_at_once() {
            Some(found) => Ok(found),
            None => self.pull_patiently(),
        }
    }

    /// Pulls if that does not require waiting; the inner `None` if the queue is empty.
    #[inline(always)]
    fn pull_at_once(&self) -> Option<Option<Element<'q>>> {
        // Outside of the operation: after a panic it is dropped there.
        let mut one = One::new(self.queue);
        let lane = self.queue.try_enter()?;
        one.owner = lane.me().bits();
        let count = self.queue.ring(self.number).try_pull(&lane, &mut one)?;
        (count > 0 || !self.queue.in_flight().has_dropped()).then(|| one.element())
    }

    #[inline(never)]
    fn pull_patiently(&self) -> Result<Option<Element<'q>>> {
        // Outside of the operation, as above.
        let mut one = One::new(self.queue);
        self.queue.operate(|lane| self.pull_in(lane, &mut one))
    }

    #[inline]
    fn pull_in(&self, lane: &LaneGuard<'_>, one: &mut One<'q>) -> Result<Option<Element<'q>>> {
        one.owner = lane.me().bits();
        let ring = self.queue.ring(self.number);
        self.pull_or_bring_back(lane, || ring.pull(lane, 1, one))?;
        Ok(one.element())
    }

    /// Pulls. If the queue is empty, sends elements that this process dropped earlier to the
    /// orphans, and pulls again.
    #[inline]
    fn pull_or_bring_back(
        &self,
        lane: &LaneGuard<'_>,
        mut pull: impl FnMut() -> Result<usize>,
    ) -> Result<usize> {
        let count = pull()?;
        if count > 0 || !self.queue.in_flight().has_dropped() {
            return Ok(count);
        }
        self.queue.bring_back(lane);
        pull()
    }

    /// Pushes an element here, then pulls one from `from`, which may be this queue. This costs
    /// little more than one of the two alone, but is not one atomic step.
    ///
    /// # Errors
    /// Those of [`push`](Self::push); `Invalid` if `from` belongs to another queue, and then
    /// nothing was moved. `TimedOut` may come from either half: if it is the pull's, the element is
    /// in this queue.
    pub fn push_pull(
        &self,
        element: Element<'_>,
        from: NamedQueue<'q>,
    ) -> Result<Option<Element<'q>>> {
        self.try_push_pull(element, from).map_err(|(_, error)| error)?
    }

    /// Like [`push_pull`](Self::push_pull), but an error of the push returns the element with it:
    /// the element is still in flight, and nothing was moved. The inner result is that of the pull.
    pub fn try_push_pull<'e>(
        &self,
        element: Element<'e>,
        from: NamedQueue<'q>,
    ) -> std::result::Result<Result<Option<Element<'q>>>, (Element<'e>, Error)> {
        if !self.queue.is_same(from.queue) {
            return Err((element, self.foreign()));
        }
        let (mut is_pushed, mut one) = (false, One::new(self.queue));
        let moved = self.queue.operate(|lane| {
            if !is_pushed {
                self.push_in(lane, &element)?;
                is_pushed = true;
            }
            from.pull_in(lane, &mut one)
        });
        // An error after the push is the pull's.
        after_push(element, if is_pushed { Ok(moved) } else { moved.map(Ok) })
    }

    /// Waits for an element for `timeout` at most; `None` if none came. The thread sleeps and takes
    /// no processor time.
    ///
    /// While waiting, this recovers processes that died, so their elements go to the orphans,
    /// perhaps to this queue.
    ///
    /// # Errors
    /// `TimedOut` if a stopped process keeps the front of the queue locked during the whole wait,
    /// or without a break for [`HoldOptions::lock_timeout`](crate::HoldOptions::lock_timeout), or
    /// if the hold stays frozen while a forked child uses the queue for the first time; those of
    /// [`pull`](Self::pull).
    pub fn pull_timeout(&self, timeout: Duration) -> Result<Option<Element<'q>>> {
        let mut one = One::new(self.queue);
        self.wait(timeout, |lane| self.pull_in(lane, &mut one))
    }

    /// Pushes all elements of a batch, in order, and leaves it empty. All of them take one lock and
    /// one store.
    ///
    /// # Errors
    /// Those of [`push`](Self::push), but the batch keeps its elements.
    pub fn push_many(&self, batch: &mut Batch<'_>) -> Result<()> {
        self.queue.operate(|lane| {
            if !self.queue.is_same(batch.queue()) || !batch.is_of(lane.me().bits()) {
                return Err(self.foreign());
            }
            batch.leave(|ids, gone| self.queue.ring(self.number).push(lane, ids, gone))
        })
    }

    /// Pushes elements that `owner` has in flight. Calls `gone` when they no longer are.
    pub(crate) fn push_ids(&self, ids: &[u32], owner: u32, gone: impl Fn()) -> Result<()> {
        self.queue.operate(|lane| match lane.me().bits() == owner {
            true => self.queue.ring(self.number).push(lane, ids, &gone),
            false => Err(self.foreign()),
        })
    }

    pub(crate) fn queue(&self) -> &'q Queue {
        self.queue
    }

    /// Removes at most `max` elements from the front and returns them. All of them take one lock
    /// and one store.
    pub fn pull_many(&self, max: usize) -> Result<Batch<'q>> {
        let mut batch = self.queue.batch();
        self.pull_into(&mut batch, max)?;
        Ok(batch)
    }

    /// Like [`pull_many`](Self::pull_many), but appends the elements to a batch and returns their
    /// number.
    ///
    /// # Errors
    /// `Invalid` if the batch has elements of another queue, or of the parent of this process.
    pub fn pull_into(&self, batch: &mut Batch<'_>, max: usize) -> Result<usize> {
        self.queue.operate(|lane| self.pull_into_in(lane, batch, max))
    }

    fn pull_into_in(
        &self,
        lane: &LaneGuard<'_>,
        batch: &mut Batch<'_>,
        max: usize,
    ) -> Result<usize> {
        if !self.queue.is_same(batch.queue()) || !batch.is_of(lane.me().bits()) {
            return Err(self.foreign());
        }
        let (ids, ring) = (batch.take_ids(lane.me().bits()), self.queue.ring(self.number));
        self.pull_or_bring_back(lane, || {
            // Before the intent is armed: nothing is allocated between that and the commit.
            let most = usize::try_from(ring.len()).unwrap_or(max).min(max);
            ids.try_reserve(most).map_err(|_| self.no_memory(most))?;
            ring.pull(lane, most, ids)
        })
    }

    /// Waits for at least one element, for `timeout` at most, and appends at most `max` elements to
    /// a batch. Returns their number, 0 if none came.
    pub fn pull_into_timeout(
        &self,
        batch: &mut Batch<'_>,
        max: usize,
        timeout: Duration,
    ) -> Result<usize> {
        let found = self.wait(timeout, |lane| {
            let count = self.pull_into_in(lane, batch, max)?;
            Ok((count > 0 || max == 0).then_some(count))
        })?;
        Ok(found.unwrap_or(0))
    }

    fn wait<T>(
        &self,
        timeout: Duration,
        mut take: impl FnMut(&LaneGuard<'_>) -> Result<Option<T>>,
    ) -> Result<Option<T>> {
        // `None`, for no deadline, if it is beyond the range of the clock.
        let deadline = Instant::now().checked_add(timeout);
        let event = self.queue.layout().event(self.queue.space(), self.number);
        // Whether a look had the end unlocked, and the patience with the lock that is in the way.
        let (was_free, patience) = (Cell::new(false), Cell::new(None));
        let mut look = |lane: &LaneGuard<'_>, look| {
            // First the elements. An error of tidying does not end the wait, because the caller did
            // not request it.
            let found = take(lane)?;
            was_free.set(true);
            patience.set(None);
            if found.is_some() || look == Look::Data {
                return Ok(found);
            }
            let _ = self.queue.tidy(lane);
            take(lane)
        };
        loop {
            let error = match event.wait(deadline, || self.queue.enter_to_try(deadline), &mut look)
            {
                Err(error) if error.lock_in_the_way().is_some() => error,
                found => return found,
            };
            let begun = patience.get().unwrap_or_else(|| self.queue.lock_patience(deadline));
            patience.set(Some(begun));
            let waited = self.queue.stand_aside(&error, begun);
            let is_over = deadline.is_some_and(|deadline| Instant::now() >= deadline);
            match waited {
                // Nobody kept the end locked during the whole wait.
                Err(error) if error.kind() == ErrorKind::TimedOut && is_over && was_free.get() => {
                    return Ok(None);
                }
                waited => waited?,
            }
        }
    }

    #[cold]
    fn no_memory(&self, max: usize) -> Error {
        let text = format!(
            "queue '{}': out of memory for a batch of {max} elements; request fewer",
            self.queue.name()
        );
        Error::new(ErrorKind::Io, text)
    }

    #[cold]
    fn foreign(&self) -> Error {
        let text = format!(
            "queue '{}': the element belongs to another queue, or to the process that forked this \
             one; push it there",
            self.queue.name()
        );
        Error::new(ErrorKind::Invalid, text)
    }
}
