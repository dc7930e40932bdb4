//! The participants that are attached to a structure with a block, and a handle's entry to an
//! operation on it.
//!
//! The block begins with one word per participant slot: owner | handles << 32 | openings << 52. A
//! participant that owns something in the structure stays attached after its last handle. Only the
//! participant itself and its recoverer change its word. A participant attaches under the names
//! lock, before it touches anything else of the block. A block is freed only under two conditions.
//! First, no other participant is attached that lives or still has to be recovered. Second, the
//! operations of the dropper's own process have ended: an operation enters its lane, then looks at
//! the root's state; the dropper stores DROPPING, then looks at the lanes. All four accesses are
//! SeqCst, so one sees the other.

use crate::error::{Error, ErrorKind, Result};
use crate::memory::arena::Arena;
use crate::memory::block::Block;
use crate::memory::freeze_lock;
use crate::memory::lane::{self, LaneGuard};
use crate::memory::roots::{self, Root, Status, roots};
use crate::steps::step;
use crate::sync::owner::{MAX_SLOTS, Owner};
use crate::sync::participant;
use crate::sync::robust_lock::Peers;
use crate::sync::space::{Checked, Space};
use crate::sync::unwind::UnwindGuard;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU32, AtomicU64, Ordering, fence};
use std::time::Instant;

/// Bytes of the table.
pub(crate) const ATTACHED_BYTES: u64 = MAX_SLOTS as u64 * 8;
const ONE_HANDLE: u64 = 1 << 32;
/// Each opening adds one, and nothing subtracts it. So a handle that is opened and closed while
/// another one checks what its participant owns also changes the word.
const ONE_OPENING: u64 = 1 << 52;
/// A participant with more handles stays attached until it ends.
const MOST_HANDLES: u64 = ONE_OPENING / ONE_HANDLE - 1;

/// Whether other participants are attached.
pub(crate) enum Attendance {
    Nobody,
    /// A participant that has died and is not yet recovered.
    Dead,
    Living(Owner),
}

fn entry<'a>(space: &'a Space, block: &Block, slot: u32) -> &'a AtomicU64 {
    space.word(block.offset + u64::from(slot) * 8)
}

fn owner_of(word: u64) -> Option<Owner> {
    Owner::from_bits(word as u32)
}

fn handles(word: u64) -> u64 {
    word % ONE_OPENING / ONE_HANDLE
}

/// Adds a handle of `me`. Under the names lock.
pub(crate) fn attach(space: &Space, block: &Block, me: Owner) {
    let entry = entry(space, block, me.slot());
    let more = |word: u64| match owner_of(word) == Some(me) {
        true if handles(word) == MOST_HANDLES => None,
        true => Some(word.wrapping_add(ONE_HANDLE + ONE_OPENING)),
        false => Some(u64::from(me.bits()) | ONE_HANDLE),
    };
    // AcqRel: the names lock orders it against a dropper; this orders it against a handle that
    // detaches.
    let _ = entry.fetch_update(Ordering::AcqRel, Ordering::Relaxed, more);
    let rolled_back = UnwindGuard::new(|| detach(space, block, me, || false));
    step!("block.attached");
    rolled_back.done();
}

/// Removes a handle of `me`. If it is the last one and `me` `owns` something in the structure, `me`
/// stays attached without a handle. Inside an operation on the block.
fn detach(space: &Space, block: &Block, me: Owner, owns: impl Fn() -> bool) {
    let less = |word: u64| match owner_of(word) == Some(me) {
        true if handles(word) == MOST_HANDLES => None,
        true if handles(word) > 1 => Some(word - ONE_HANDLE),
        true if owns() => Some(word - ONE_HANDLE),
        true => Some(0),
        false => None,
    };
    // Release: a reader that finds the word zero sees everything that was stored into the block.
    let _ = entry(space, block, me.slot()).fetch_update(Ordering::AcqRel, Ordering::Relaxed, less);
}

/// The participants that are attached, dead or alive.
pub(crate) fn attached(space: &Space, block: &Block) -> impl Iterator<Item = Owner> {
    let slots = (0..MAX_SLOTS).map(|slot| entry(space, block, slot).load(Ordering::Acquire));
    slots.filter_map(owner_of)
}

/// Looks for other attached participants. Under the names lock.
pub(crate) fn others(space: &Space, block: &Block, me: Owner) -> Attendance {
    let mut found = Attendance::Nobody;
    for owner in attached(space, block).filter(|owner| *owner != me) {
        if !participant::has_died(space, owner) {
            return Attendance::Living(owner);
        }
        // A participant whose generation has ended was recovered. An entry that still names it is
        // damage.
        if participant::has_ended(space, owner) != Some(true) {
            found = Attendance::Dead;
        }
    }
    found
}

pub(crate) fn busy(space: &Space, block: &Block, owner: Owner) -> Error {
    let text = format!(
        "{} '{}': slot {} (process {}) has it open; close it there, then drop it",
        block.kind,
        block.name,
        owner.slot(),
        participant::pid(space, owner.slot())
    );
    Error::new(ErrorKind::Busy, text)
}

/// True if `owner`, which has died and is not recovered, is attached. The block then stays the
/// structure's until [`forget`].
pub(crate) fn is_attached(space: &Space, block: &Block, owner: Owner) -> bool {
    let found = owner_of(entry(space, block, owner.slot()).load(Ordering::Acquire)) == Some(owner);
    // If the incarnation is the same afterwards, the word belonged to the block, because the
    // incarnation is incremented before a block is freed.
    fence(Ordering::Acquire);
    found && roots::root(space, block.id).is_some_and(|root| is_same(root, block))
}

/// The last step of a recoverer with a block: from now on others may drop it.
pub(crate) fn forget(space: &Space, block: &Block, owner: Owner) {
    let word = entry(space, block, owner.slot());
    let none = |word: u64| (owner_of(word) == Some(owner)).then_some(0);
    let _ = word.fetch_update(Ordering::AcqRel, Ordering::Relaxed, none);
    step!("recover.block-forgotten");
}

#[inline]
fn is_same(root: &Root, block: &Block) -> bool {
    root.incarnation.load(Ordering::Acquire) == block.incarnation
}

/// A handle's attachment to a structure. Dropping it detaches.
pub(crate) struct Attachment {
    pub(crate) arena: Arc<Arena>,
    pub(crate) block: Block,
    root: Checked<Root>,
    /// The participant that this handle attaches; another one in a forked child, until its first
    /// operation.
    by: AtomicU32,
    has_left: AtomicBool,
}

impl Attachment {
    pub(crate) fn new(arena: Arc<Arena>, block: Block, by: Owner) -> Attachment {
        let (by, has_left) = (AtomicU32::new(by.bits()), AtomicBool::new(false));
        let root = Checked::new(&arena.space, block.root).unwrap_or(Checked::first(&arena.space));
        Attachment { arena, block, root, by, has_left }
    }

    /// Detaches the handle, which does nothing more. If it is the participant's last one and the
    /// participant `owns` something in the structure, the participant stays attached, until it ends
    /// or closes a later handle. It stays attached, too, if no lane is free for long.
    pub(crate) fn leave(&self, owns: impl Fn(&LaneGuard<'_>) -> bool) {
        // Relaxed: only the thread that drops the handle is here.
        if self.has_left.swap(true, Ordering::Relaxed) {
            return;
        }
        // In a child that has not used it, the parent is still attached. If it is closed or
        // dropped, nobody is.
        if let Some(lane) = self.enter_to_leave() {
            detach(self.space(), &self.block, lane.me(), || owns(&lane));
        }
    }

    /// Leaves the participant attached when this is dropped. A handle that found no lane uses this
    /// in its drop, so that it does not wait for a lane again.
    pub(crate) fn stay(&self) {
        self.has_left.store(true, Ordering::Relaxed);
    }

    #[inline]
    pub(crate) fn space(&self) -> &Space {
        &self.arena.space
    }

    /// Enters an operation on the structure. While the guard lives, the block belongs to the
    /// structure.
    ///
    /// # Errors
    /// `NotFound` if the structure was dropped; `Busy` if the calling thread has frozen the hold;
    /// those of [`Arena::enter`].
    #[inline]
    pub(crate) fn enter(&self) -> Result<LaneGuard<'_>> {
        self.enter_until(None)
    }

    /// The same. In a forked child that has not used the structure yet, waits for the names lock
    /// until `end` at most.
    ///
    /// # Errors
    /// Those of [`enter`](Self::enter); `TimedOut`.
    #[inline]
    pub(crate) fn enter_until(&self, end: Option<Instant>) -> Result<LaneGuard<'_>> {
        loop {
            let lane = self.arena.enter_block(self.block.id)?;
            // Recovering a dead participant may take the names lock, which this thread holds.
            freeze_lock::refuse_own_freeze(&lane, &roots(self.space()).names_lock)?;
            if self.is_entered(&lane) {
                return Ok(lane);
            }
            self.resolve(lane, end)?;
        }
    }

    /// True in a forked child that has not used the structure yet: the parent is attached to it.
    #[cold]
    pub(crate) fn is_inherited(&self) -> bool {
        let by = self.by.load(Ordering::Relaxed);
        self.arena.current_owner().is_none_or(|me| me.bits() != by)
    }

    /// The same if nothing is in the way.
    #[inline(always)]
    pub(crate) fn try_enter(&self) -> Option<LaneGuard<'_>> {
        let at = lane::on_block(self.block.id);
        let lane = self.arena.try_enter_preferred(at)?.stepping_aside();
        (!lane::is_freezing() && self.is_entered(&lane)).then_some(lane)
    }

    #[inline(always)]
    fn is_entered(&self, lane: &LaneGuard<'_>) -> bool {
        // Relaxed: compared only with values that this process stored.
        self.by.load(Ordering::Relaxed) == lane.me().bits() && self.is_current()
    }

    /// Runs an operation on the structure. Starts it again from the beginning each time it ended
    /// because of a lock (memory/lock_retry.rs).
    ///
    /// # Errors
    /// Those of [`enter`](Self::enter) and of the operation; `TimedOut` when the patience of the
    /// call ends.
    #[inline]
    pub(crate) fn operate<R>(
        &self,
        mut operation: impl FnMut(&LaneGuard<'_>) -> Result<R>,
    ) -> Result<R> {
        let mut lane = self.enter()?.stepping_aside();
        loop {
            match operation(&lane) {
                Err(error) if error.lock_in_the_way().is_some() => {
                    lane = self.enter_again(lane.step_aside(&error)?)?;
                }
                result => return result,
            }
        }
    }

    /// The structure may have been dropped while no thread was in the operation.
    fn enter_again<'a>(&'a self, lane: LaneGuard<'a>) -> Result<LaneGuard<'a>> {
        if self.is_entered(&lane) {
            return Ok(lane);
        }
        self.resolve(lane, None)?;
        Ok(self.enter()?.stepping_aside())
    }

    /// Enters like [`enter_until`](Self::enter_until), for a caller that steps aside by itself
    /// ([`Arena::stand_aside`]).
    pub(crate) fn enter_to_try(&self, end: Option<Instant>) -> Result<LaneGuard<'_>> {
        Ok(self.enter_until(end)?.stepping_aside())
    }

    /// As [`enter`](Self::enter), for a caller that only releases its own property. It recovers
    /// nothing and takes no lock, so the thread that has frozen the hold may call it, too. `None`
    /// if there is nothing to release, because the structure is closed, dropped, or another
    /// participant's. Also `None` if no lane is free for long: the property is then released with
    /// the participant. In a forked child that has not used the structure, the property is the
    /// parent's, and the child does not become a participant by releasing it.
    pub(crate) fn enter_to_leave(&self) -> Option<LaneGuard<'_>> {
        self.enter_briefly(false)
    }

    /// The same, for property that can be released later just as well: the caller waits for a lane
    /// no longer than its patience lasts.
    pub(crate) fn enter_to_leave_now(&self) -> Option<LaneGuard<'_>> {
        self.enter_briefly(true)
    }

    fn enter_briefly(&self, later: bool) -> Option<LaneGuard<'_>> {
        let by = self.by.load(Ordering::Relaxed);
        loop {
            self.arena.current_owner().filter(|me| me.bits() == by)?;
            let lane = self.arena.enter_block_briefly(self.block.id, later)?;
            if lane.me().bits() != by {
                return None;
            }
            if self.is_current() {
                return Some(lane);
            }
            if !self.may_stay(lane.me()) {
                return None;
            }
            drop(lane);
            std::thread::yield_now();
        }
    }

    /// For a caller that has found that the structure is not current. True if another thread of
    /// this process is dropping it and may still take the drop back, or has just done so. The drop
    /// ends after a moment, but only when no other thread is inside.
    #[cold]
    pub(crate) fn may_stay(&self, me: Owner) -> bool {
        let root = roots::root(self.space(), self.block.id);
        let state = |root: &Root| root.state.load(Ordering::SeqCst);
        // The whole word, as in `is_current`: a damaged one is neither.
        root.filter(|root| is_same(root, &self.block)).map(state).is_some_and(|state| {
            [Status::Live, Status::Dropping(Some(me))].map(Status::bits).contains(&state)
        })
    }

    /// True if the structure exists. For a guest (memory/guests.rs) that has announced itself
    /// before.
    #[inline(always)]
    pub(crate) fn is_current(&self) -> bool {
        let root = self.root.of(self.space());
        // SeqCst pairs with the dropper's (see above).
        root.state.load(Ordering::SeqCst) == Status::Live.bits() && is_same(root, &self.block)
    }

    /// Handles a structure that is not attached, or being dropped, or gone.
    #[cold]
    fn resolve(&self, lane: LaneGuard<'_>, end: Option<Instant>) -> Result<()> {
        if self.by.load(Ordering::Relaxed) != lane.me().bits() {
            return self.attach_again(lane.until(end));
        }
        if !self.may_stay(lane.me()) {
            return Err(self.dropped());
        }
        drop(lane);
        std::thread::yield_now();
        Ok(())
    }

    /// In a forked child: attaches the handle as in its parent. Waits for the names lock in no
    /// lane.
    fn attach_again(&self, lane: LaneGuard<'_>) -> Result<()> {
        let mut lane = lane.stepping_aside();
        loop {
            match self.try_attach(&lane) {
                Err(error) if error.lock_in_the_way().is_some() => {
                    lane = lane.step_aside(&error)?
                }
                result => return result,
            }
        }
    }

    fn try_attach(&self, lane: &LaneGuard<'_>) -> Result<()> {
        let _names = freeze_lock::lock_names(lane)?;
        if !self.is_current() {
            return Err(self.dropped());
        }
        // Another thread may have been faster.
        if self.by.load(Ordering::Relaxed) != lane.me().bits() {
            attach(self.space(), &self.block, lane.me());
            self.by.store(lane.me().bits(), Ordering::Relaxed);
        }
        Ok(())
    }

    fn dropped(&self) -> Error {
        let Block { kind, name, .. } = &self.block;
        let text = format!("{kind} '{name}' was dropped; open it again by name");
        Error::new(ErrorKind::NotFound, text)
    }
}

impl Drop for Attachment {
    fn drop(&mut self) {
        self.leave(|_| false);
    }
}
