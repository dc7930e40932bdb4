//! [`Queue`]: the public handle to the structure.

use crate::error::{Error, ErrorKind, Result};
use crate::memory::arena::Arena;
use crate::memory::attach::{self, Attachment};
use crate::memory::block::{self, Block, Incarnation, Wanted};
use crate::memory::lane::LaneGuard;
use crate::memory::roots::{self, Existing, StructureKind};
use crate::queue::batch::Batch;
use crate::queue::element::Element;
use crate::queue::in_flight::InFlight;
use crate::queue::layout::{Layout, Offsets};
use crate::queue::moves::Ring;
use crate::queue::named::NamedQueue;
use crate::queue::notifier::Notifier;
use crate::queue::options::QueueOptions;
use crate::queue::recover::in_flight_of;
use crate::queue::stat::{self, QueueStat};
use crate::sync::patience::Patience;
use crate::sync::robust_lock::Peers;
use crate::sync::space::Space;
use crate::sync::unwind::UnwindGuard;
use std::cell::Cell;
use std::fmt;
use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::Instant;

/// A queue in a hold: elements of one size that move by reference between named queues, shared by
/// every process that has the queue open. Elements are not copied, and none is lost.
///
/// At any moment, each element is either in exactly one of the named queues, or in flight in
/// exactly one process ([`Element`], [`Batch`]), which alone may access its bytes. Any number of
/// processes and threads push and pull. Every named queue has room for all elements, so a push
/// never fails because a queue is full.
///
/// If a process dies, for whatever reason, its move in progress has either happened or not, and its
/// elements in flight go to the orphan queue ([`QueueOptions::orphans`]). They go there as
/// soon as another process waits for elements, waits for a lock of the dead process, opens the hold
/// or calls [`Hold::sweep`](crate::Hold::sweep). Moves at the same end of a named queue wait for
/// one another, even for a process that is stopped during its move, for
/// [`HoldOptions::lock_timeout`](crate::HoldOptions::lock_timeout) at most.
///
/// A handle is cheap to clone, and any thread may use it. A forked child may use it, too; elements
/// in flight stay the parent's. Dropping the last handle of a process detaches the process. The
/// borrow checker ensures that all elements have been pushed or dropped before.
///
/// ```
/// # let dir = std::env::temp_dir().join(format!("commonhold-queue-{}", std::process::id()));
/// # std::fs::create_dir_all(&dir).unwrap();
/// # let path = dir.join("it.hold");
/// use commonhold::{Hold, queue::QueueOptions};
///
/// let hold = Hold::open_or_create(&path)?;
/// let options = QueueOptions::new(100, 4096).queues(["free", "full"]);
/// let frames = hold.queues().open_or_create("frames", options)?;
/// let (free, full) = (frames.named("free")?, frames.named("full")?);
///
/// let element = free.pull()?.expect("all elements begin in the first queue");
/// element.write(0, b"some bytes")?;
/// full.push(element)?; // perhaps another process pulls it
///
/// let element = full.pull()?.expect("just pushed");
/// assert_eq!(&element.to_vec()?[..10], b"some bytes");
/// free.push(element)?;
/// assert_eq!((free.len()?, full.len()?), (100, 0));
/// # drop((frames, hold));
/// # std::fs::remove_dir_all(&dir).unwrap();
/// # Ok::<(), commonhold::Error>(())
/// ```
#[derive(Clone)]
pub struct Queue {
    shared: Arc<Shared>,
}

struct Shared {
    attachment: Attachment,
    layout: Layout,
    names: Vec<String>,
    in_flight: Arc<InFlight>,
}

impl Drop for Shared {
    fn drop(&mut self) {
        // Elements that are in flight as numbers, were leaked, or cannot go to the orphans now go
        // there with the participant, if it is still attached then.
        self.attachment.leave(|lane| {
            self.bring_back(lane);
            !in_flight_of(self.attachment.space(), &self.layout, lane.me()).is_empty()
        });
    }
}

impl Shared {
    fn ring(&self, queue: u32) -> Ring<'_> {
        let block = &self.attachment.block;
        Ring { space: self.attachment.space(), block, layout: &self.layout, queue }
    }

    /// Pushes dropped elements in flight to the orphans. Elements that cannot go there within the
    /// patience of the operation are noted for later. If earlier ones are still waiting, this does
    /// not wait for living participants.
    fn send_to_orphans(&self, lane: &LaneGuard<'_>, ids: &[u32]) {
        if self.in_flight.has_dropped() {
            self.in_flight.note_dropped(ids, lane.me().bits());
            return self.bring_back(lane);
        }
        self.push_to_orphans(lane, ids);
    }

    /// Pushes elements that were noted before to the orphans. Does not wait for living
    /// participants.
    fn bring_back(&self, lane: &LaneGuard<'_>) {
        if self.in_flight.has_dropped() {
            let ids = self.in_flight.take_dropped(lane.me().bits());
            lane.impatiently(|| self.push_to_orphans(lane, &ids));
        }
    }

    fn push_to_orphans(&self, lane: &LaneGuard<'_>, ids: &[u32]) {
        let is_gone = Cell::new(false);
        let kept = UnwindGuard::new(|| {
            if !is_gone.get() {
                self.in_flight.note_dropped(ids, lane.me().bits());
            }
        });
        match self.ring(self.layout.orphans).push(lane, ids, || is_gone.set(true)) {
            Err(error) if error.kind() != ErrorKind::Damaged => {}
            // The elements are gone, or damage leaves nothing to do with them.
            _ => kept.done(),
        }
    }
}

/// Creates the queue; one that exists is opened or refused.
pub(crate) fn create(
    arena: &Arc<Arena>,
    name: &str,
    options: &QueueOptions,
    existing: Existing,
) -> Result<Queue> {
    options.validate(name)?;
    let wanted =
        Wanted { kind: StructureKind::Queue, name, bytes: Layout::bytes_for(options), existing };
    let fill = |space: &Space, block: &Block| Layout::write(space, block, options);
    match block::open(arena, &wanted, Some(&fill))? {
        Some(attachment) => {
            let queue = Queue::new(attachment)?;
            let found = queue.options();
            if found == *options {
                return Ok(queue);
            }
            let text = format!(
                "queue '{name}' exists as {found}, not as {options}; open it with its existing \
                 options, or drop it"
            );
            Err(Error::new(ErrorKind::Mismatch, text))
        }
        None => Err(roots::not_found(&arena.space, StructureKind::Queue, name)),
    }
}

/// Opens the queue, whatever its options.
pub(crate) fn open(arena: &Arc<Arena>, name: &str) -> Result<Queue> {
    let wanted = Wanted { kind: StructureKind::Queue, name, bytes: 0, existing: Existing::Open };
    match block::open(arena, &wanted, None)? {
        Some(attachment) => Queue::new(attachment),
        None => Err(roots::not_found(&arena.space, StructureKind::Queue, name)),
    }
}

/// Drops the queue; false if there is none.
pub(crate) fn drop_queue(arena: &Arena, name: &str) -> Result<bool> {
    let refuse = |space: &Space, block: &Block, lane: &LaneGuard<'_>| {
        // No process has an element of a damaged queue in flight.
        let Ok(layout) = Layout::read(space, block) else { return Ok(()) };
        match in_flight_of(space, &layout, lane.me()).len() {
            0 => Ok(()),
            count => {
                let text = format!(
                    "queue '{name}': this process has {count} of its elements in flight; push or drop them first"
                );
                Err(Error::new(ErrorKind::Busy, text))
            }
        }
    };
    block::drop_named(arena, StructureKind::Queue, name, &refuse)
}

/// The incarnation of the queue that this handle is bound to.
pub fn queue_incarnation(queue: &Queue) -> Incarnation {
    queue.shared.attachment.block.incarnation()
}

impl fmt::Debug for Queue {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Queue").field("name", &self.name()).finish_non_exhaustive()
    }
}

impl Queue {
    fn new(attachment: Attachment) -> Result<Queue> {
        let space = attachment.space();
        let layout = Layout::read(space, &attachment.block)?;
        let names = (0..layout.queues).map(|queue| layout.name(space, queue)).collect();
        let in_flight = InFlight::of(&attachment.arena, &attachment.block, layout.elements);
        Ok(Queue { shared: Arc::new(Shared { attachment, layout, names, in_flight }) })
    }

    /// The queue's name.
    pub fn name(&self) -> &str {
        &self.shared.attachment.block.name
    }

    /// The options that the queue was created with.
    pub fn options(&self) -> QueueOptions {
        let Offsets { elements, element_bytes, orphans, .. } = *self.shared.layout;
        let names = self.shared.names.clone();
        let orphans = names[orphans as usize].clone();
        QueueOptions { elements, element_bytes, names, orphans }
    }

    /// Returns the named queue with this name, a small `Copy` value.
    ///
    /// # Errors
    /// `NotFound` if there is none. The named queues are fixed when the queue is created.
    pub fn named(&self, name: &str) -> Result<NamedQueue<'_>> {
        Ok(NamedQueue::new(self, self.number(name)?))
    }

    /// Iterates over all named queues, in the order of their creation.
    pub fn all(&self) -> impl Iterator<Item = NamedQueue<'_>> {
        (0..self.shared.layout.queues).map(|number| NamedQueue::new(self, number))
    }

    /// The named orphan queue.
    pub fn orphans(&self) -> NamedQueue<'_> {
        NamedQueue::new(self, self.layout().orphans)
    }

    fn number(&self, name: &str) -> Result<u32> {
        if let Some(number) = self.shared.names.iter().position(|other| other == name) {
            return Ok(number as u32);
        }
        let text = format!(
            "queue '{}' has no named queue '{}'; expected one of {:?}",
            self.name(),
            name.escape_default(),
            self.shared.names
        );
        Err(Error::new(ErrorKind::NotFound, text))
    }

    /// Creates an empty batch, to pull into and push from repeatedly.
    pub fn batch(&self) -> Batch<'_> {
        Batch::new(self)
    }

    /// Makes an element in flight from the number and the owner that
    /// [`Element::into_raw`](crate::queue::Element::into_raw) returned. That works once, through
    /// any handle to this queue that was opened by the same handle to the hold, or by a clone of
    /// it, also if no handle to the queue was open in between.
    ///
    /// # Errors
    /// `Invalid` if the element is not in flight for that owner, or another value has it already.
    #[inline]
    pub fn element(&self, (id, owner): (u32, u32)) -> Result<Element<'_>> {
        let holders = self.layout().holders(self.space());
        // Relaxed: the process that has it in flight stored the word; a move checks again, under
        // its lock.
        let held = |holder: &AtomicU32| holder.load(Ordering::Relaxed) == owner;
        if holders.get(id as usize).is_some_and(held)
            && self.in_flight().numbers().take_back(id, owner)
        {
            return Ok(Element::new(self, id, owner));
        }
        Err(self.not_in_flight(id))
    }

    #[cold]
    pub(crate) fn not_in_flight(&self, id: u32) -> Error {
        let text = format!(
            "queue '{}': element {id} is not in flight: it was pushed or released, or belongs \
             to another queue",
            self.name()
        );
        Error::new(ErrorKind::Invalid, text)
    }

    /// Returns a file descriptor for `poll` and similar calls. It becomes readable when elements
    /// are pushed to the named queue `name`, until the notifier is dropped. See [`Notifier`].
    ///
    /// # Errors
    /// `NotFound`; those of the system, for instance if there are no more descriptors or threads.
    pub fn eventfd(&self, name: &str) -> Result<Notifier> {
        Notifier::new(self, self.number(name)?)
    }

    /// Returns statistics: the elements per named queue, and the processes that have elements in
    /// flight. An element that moves meanwhile may be counted twice or not at all.
    pub fn stat(&self) -> Result<QueueStat> {
        let _inside = self.enter()?;
        Ok(stat::stat(self.space(), &self.shared.attachment.block, &self.shared.layout))
    }

    #[inline]
    pub(crate) fn space(&self) -> &Space {
        self.shared.attachment.space()
    }

    pub(crate) fn layout(&self) -> &Layout {
        &self.shared.layout
    }

    pub(crate) fn named_at(&self, number: u32) -> &str {
        &self.shared.names[number as usize]
    }

    #[inline]
    pub(crate) fn ring(&self, queue: u32) -> Ring<'_> {
        self.shared.ring(queue)
    }

    #[inline]
    pub(crate) fn in_flight(&self) -> &InFlight {
        &self.shared.in_flight
    }

    /// Enters an operation.
    #[inline]
    pub(crate) fn enter(&self) -> Result<LaneGuard<'_>> {
        self.shared.attachment.enter()
    }

    /// The same if nothing is in the way.
    #[inline(always)]
    pub(crate) fn try_enter(&self) -> Option<LaneGuard<'_>> {
        self.shared.attachment.try_enter()
    }

    /// Runs an operation. Each time that the operation ends because of a lock, waits for the lock
    /// outside of the lane and runs it again.
    #[inline]
    pub(crate) fn operate<R>(
        &self,
        operation: impl FnMut(&LaneGuard<'_>) -> Result<R>,
    ) -> Result<R> {
        self.shared.attachment.operate(operation)
    }

    /// The same. In a forked child that has not used the queue yet, waits until `end` at most.
    pub(crate) fn enter_until(&self, end: Option<Instant>) -> Result<LaneGuard<'_>> {
        self.shared.attachment.enter_until(end)
    }

    /// The same, for an operation that ends if it meets a lock. The caller then waits by
    /// [`stand_aside`](Self::stand_aside).
    pub(crate) fn enter_to_try(&self, end: Option<Instant>) -> Result<LaneGuard<'_>> {
        self.shared.attachment.enter_to_try(end)
    }

    /// How long a call that ends at `end` waits for a lock that it meets now.
    pub(crate) fn lock_patience(&self, end: Option<Instant>) -> Patience {
        Patience::new(self.shared.attachment.arena.lock_timeout()).until(end)
    }

    /// Waits for the release of the lock because of which an operation ended.
    pub(crate) fn stand_aside(&self, error: &Error, patience: Patience) -> Result<()> {
        self.shared.attachment.arena.stand_aside(error, patience)
    }

    /// Sends elements in flight for `owner` to the orphans. If that is not possible now, because a
    /// stopped process keeps that queue locked or this thread is inside an operation, they stay in
    /// flight and go there later, with the participant at the latest. Has no effect in a forked
    /// child, because the elements belong to the parent.
    pub(crate) fn release(&self, ids: &[u32], owner: u32) {
        let Shared { attachment, in_flight, .. } = &*self.shared;
        if attachment.arena.current_owner().is_none_or(|me| me.bits() != owner) {
            return;
        }
        match attachment.enter_to_leave_now() {
            Some(lane) => self.shared.send_to_orphans(&lane, ids),
            None => in_flight.note_dropped(ids, owner),
        }
    }

    /// Sends elements that could not go to the orphans before there, as far as that needs no
    /// waiting.
    pub(crate) fn bring_back(&self, lane: &LaneGuard<'_>) {
        self.shared.bring_back(lane);
    }

    /// True if an element of `other` may be pushed here: it is the same queue through the same
    /// handle to the hold.
    #[inline]
    pub(crate) fn is_same(&self, other: &Queue) -> bool {
        let (a, b) = (&self.shared.attachment, &other.shared.attachment);
        Arc::ptr_eq(&self.shared, &other.shared)
            || (Arc::ptr_eq(&a.arena, &b.arena)
                && (a.block.id, a.block.incarnation) == (b.block.id, b.block.incarnation))
    }

    /// Recovers the dead participants that were attached, so that their elements in flight come
    /// back. Then sends this process's noted elements to the orphans. No caller needs this, so it
    /// does not wait for living participants and leaves the rest to the next call.
    ///
    /// # Errors
    /// The first of any recovery; the other participants are recovered all the same.
    #[cold]
    pub(crate) fn tidy(&self, lane: &LaneGuard<'_>) -> Result<()> {
        let block = &self.shared.attachment.block;
        let mut result = Ok(());
        for owner in attach::attached(self.space(), block).filter(|owner| *owner != lane.me()) {
            if lane.is_dead(owner) {
                result = result.and(lane.try_recover(owner));
            }
        }
        self.bring_back(lane);
        result
    }
}
