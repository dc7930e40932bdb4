//! The table of participants: slots in the file, claiming a slot, and asking whether its owner is
//! alive.
//!
//! A slot is *used* by at most one process at a time. An exclusive lock on the slot's byte proves
//! the use, and the kernel drops that lock when the process dies. `tag` is `generation << 1 |
//! used`. A slot that is used while its byte is free has a **recoverer**
//! ([`recovery`](crate::sync::recovery)). The recoverer acts as the dead participant until
//! everything is recovered, then increments the generation. There is one recoverer at a time, and
//! it may die too (docs/internals/concurrency.md, "Recovery is reincarnation").
//!
//! Each lane (the place of one writing thread) lists the lock that it is about to take, of a
//! segment or in a block, and the child of a split, *before* it takes them.

use crate::error::{Error, ErrorKind, Result};
use crate::os::barrier;
use crate::os::byte_lock::{self, HeldBytes, LockKind, OPEN_BYTE, participant_byte};
use crate::os::fork::ForkMark;
use crate::steps::step;
use crate::sync::owner::Owner;
use crate::sync::patience::Patience;
use crate::sync::recovery::{self, RecoveryWord};
use crate::sync::space::{COMMITTED, Shared, Space};
use crate::sync::unwind::UnwindGuard;
use std::sync::Mutex;
use std::sync::atomic::{AtomicU32, AtomicU64, Ordering};
use std::time::Duration;

pub(crate) use crate::sync::recovery::has_died;

/// Threads of one process that can write at the same time.
pub(crate) const LANES: usize = 16;
/// Participants in one extent of the table.
pub(crate) const SLOTS_PER_EXTENT: u32 = 60;
/// The most extents that the table may have.
pub(crate) const TABLE_EXTENTS: usize = 17;
/// Attempts to find a slot without a pause while somebody has the hold alone. Pauses follow.
const ALONE_ATTEMPTS: u32 = 10;
const ALONE_PAUSE: Duration = Duration::from_millis(10);
/// Offset of the list of the table's extents in the superblock page.
pub(crate) const TABLE_OFFSET: u64 = 2048;

/// Offsets of the extents of the table; 0 where there is none yet.
#[repr(C)]
pub(crate) struct Table {
    pub(crate) extents: [AtomicU64; TABLE_EXTENTS],
}

/// The locks a lane may hold: byte offsets of segments, or of the 64 bytes in a block that contain
/// the lock; 0 for none. Each list has a cache line of its own, because the lane's thread stores to
/// it in each operation.
#[repr(C)]
pub(crate) struct LaneList {
    pub(crate) segment: AtomicU64,
    pub(crate) child: AtomicU64,
    /// The amounts that the change in progress adds to the totals of a cache map: bytes, then pairs
    /// (`map::engine::charge`).
    pub(crate) charges: [Charge; 2],
    /// Not 0 while a split of this lane has set memory for its child aside, which may lie in an
    /// extent that the lane has released since.
    pub(crate) passed_over: AtomicU64,
    spare: AtomicU64,
}

/// An amount that a change adds to a total of its map, and the progress of that addition.
#[repr(C)]
pub(crate) struct Charge {
    /// state (2 bits) | map id << 2 (12 bits) | number << 14. The numbers of a lane only grow,
    /// whichever participant uses it.
    pub(crate) turn: AtomicU64,
    /// The amount, in two's complement.
    pub(crate) by: AtomicU64,
}

/// One participant, 1,088 bytes: a line for the participant, and a line for each of its lanes.
#[repr(C)]
pub(crate) struct Slot {
    /// `generation << 1 | used`.
    pub(crate) tag: AtomicU32,
    /// For display only.
    pub(crate) pid: AtomicU32,
    /// Every sequence counter that this slot has ever used is below this.
    pub(crate) reserved_counter: AtomicU64,
    /// Milliseconds since 1970 at the claim; for display.
    pub(crate) since_ms: AtomicU64,
    /// First bytes of the program's name; for display.
    pub(crate) program: [AtomicU64; 2],
    /// The participant that was last found dead in this slot, and its recoverer.
    pub(crate) recovery: RecoveryWord,
    spare: [AtomicU64; 2],
    pub(crate) lanes: [LaneList; LANES],
}

const _: () = assert!(size_of::<LaneList>() == 64 && size_of::<Slot>() == 64 * (1 + LANES));
const _: () = assert!(size_of::<Slot>() as u64 * SLOTS_PER_EXTENT as u64 <= 65536);
const _: () = assert!(std::mem::offset_of!(Slot, lanes) == 64);

// SAFETY: atomics only.
#[allow(unsafe_code)]
unsafe impl Shared for Table {}
// SAFETY: atomics only.
#[allow(unsafe_code)]
unsafe impl Shared for Slot {}

/// Whether something still names an `owner` that is no longer registered. For checks. `again` reads
/// that name a second time: a participant that closes, or is recovered, after the first read has
/// removed its name before its generation ends.
pub(crate) fn is_left_behind(
    owner: Owner,
    alive: &dyn Fn(Owner) -> bool,
    again: impl FnOnce() -> Option<Owner>,
) -> bool {
    !alive(owner) && again() == Some(owner)
}

impl Slot {
    /// The participant that uses the slot, dead or alive.
    pub(crate) fn user(&self, slot: u32) -> Option<Owner> {
        let tag = self.tag.load(Ordering::Acquire);
        (tag & 1 == 1 && tag >> 1 != 0).then(|| Owner::new(slot, tag >> 1))
    }

    /// Ends the generation: the last step of closing and of recovery.
    pub(crate) fn release(&self) {
        let next = Owner::next_generation(self.tag.load(Ordering::Relaxed) >> 1);
        // Release: the next participant that claims the slot sees all that was recovered.
        self.tag.store(next << 1, Ordering::Release);
    }

    pub(crate) fn program_name(&self) -> String {
        let bytes: Vec<u8> =
            self.program.iter().flat_map(|w| w.load(Ordering::Relaxed).to_le_bytes()).collect();
        let end = bytes.iter().position(|&b| b == 0).unwrap_or(bytes.len());
        String::from_utf8_lossy(&bytes[..end]).into_owned()
    }
}

/// The table of participants.
pub(crate) fn table(space: &Space) -> &Table {
    space.view(TABLE_OFFSET)
}

/// The slot with this number, if the table is that long.
pub(crate) fn slot(space: &Space, number: u32) -> Option<&Slot> {
    slot_offset(space, number).map(|offset| space.view(offset))
}

/// Where the slot with this number lies.
pub(crate) fn slot_offset(space: &Space, number: u32) -> Option<u64> {
    let extent = table(space).extents.get((number / SLOTS_PER_EXTENT) as usize)?;
    let offset = extent.load(Ordering::Acquire);
    let within = u64::from(number % SLOTS_PER_EXTENT) * size_of::<Slot>() as u64;
    let sound = offset != 0 && offset % 65536 == 0 && space.covers(offset, 65536);
    sound.then_some(offset + within)
}

/// Every slot of the table, with its number.
pub(crate) fn slots(space: &Space) -> impl Iterator<Item = (u32, &Slot)> {
    (0..SLOTS_PER_EXTENT * TABLE_EXTENTS as u32).map_while(move |n| Some((n, slot(space, n)?)))
}

/// The process of a slot, for messages.
pub(crate) fn pid(space: &Space, number: u32) -> u32 {
    slot(space, number).map_or(0, |slot| slot.pid.load(Ordering::Relaxed))
}

/// True if `owner` will never run again: its generation has ended, or nobody holds its byte. An
/// owner counts as alive when the system cannot answer, because waiting is safe.
pub(crate) fn is_dead(space: &Space, owner: Owner) -> bool {
    ask_dead(space, owner).unwrap_or(false)
}

/// The same, for a caller that would wait forever if the system never answered.
///
/// # Errors
/// Those of the system, for example no descriptors.
pub(crate) fn ask_dead(space: &Space, owner: Owner) -> Result<bool> {
    let Some(slot) = slot(space, owner.slot()) else { return Ok(true) };
    if slot.user(owner.slot()) != Some(owner) {
        return Ok(true);
    }
    // Two questions: a claimer releases the slot's byte only after ending the generation.
    let locked = byte_lock::is_locked(space.file(), participant_byte(owner.slot()));
    locked.map(|locked| !locked).map_err(|e| {
        let (path, pid) = (space.file().path().display(), slot.pid.load(Ordering::Relaxed));
        Error::os(format!("{path}: checking whether process {pid} lives"), &e)
    })
}

/// Whether the generation of `owner` has ended or never existed. `None` if this handle may be
/// unable to see the slot.
pub(crate) fn has_ended(space: &Space, owner: Owner) -> Option<bool> {
    match slot(space, owner.slot()) {
        Some(slot) => Some(slot.user(owner.slot()) != Some(owner)),
        None => sees_all(space).then_some(true),
    }
}

/// The lanes of `owner` that list the segment at `offset`. Every holder of the segment's lock is
/// among them. Empty for an owner whose slot is not visible.
pub(crate) fn listing(space: &Space, owner: Owner, offset: u64) -> impl Iterator<Item = usize> {
    let lanes = slot(space, owner.slot()).map_or(&[][..], |slot| &slot.lanes);
    let names = move |list: &LaneList| {
        [&list.segment, &list.child].iter().any(|o| o.load(Ordering::Acquire) == offset)
    };
    lanes.iter().enumerate().filter_map(move |(lane, list)| names(list).then_some(lane))
}

/// False for a handle whose reservation is smaller than the hold has become. Such a handle must not
/// recover, because it cannot see the whole hold. (The hold's length in extents is the second word
/// of `memory::extents::Growth`.)
pub(crate) fn sees_all(space: &Space) -> bool {
    space.word(COMMITTED).load(Ordering::Acquire).saturating_mul(65536) <= space.reserved()
}

/// A claimed slot: alive as long as this value (and its process).
pub(crate) struct Registration {
    pub(crate) owner: Owner,
    /// Locked only once, when the registration ends, in the process that created it. No forked
    /// child needs this mutex while it is locked.
    bytes: Mutex<Option<HeldBytes>>,
    fork: ForkMark,
}

impl Registration {
    /// True in a child that inherited this registration by fork. The child must claim a slot of its
    /// own.
    #[inline]
    pub(crate) fn inherited(&self) -> bool {
        self.fork.inherited()
    }

    /// Ends the generation. The caller has released everything that the participant held.
    pub(crate) fn end(&self, space: &Space) {
        if let Some(slot) = slot(space, self.owner.slot()) {
            slot.release();
        }
        let left = UnwindGuard::new(|| self.release_byte());
        step!("slot.released");
        left.done();
    }

    /// Releases the slot's byte.
    pub(crate) fn release_byte(&self) {
        drop(self.bytes.lock().unwrap_or_else(|e| e.into_inner()).take());
    }
}

/// Claims a slot. `recover` recovers what a dead previous user left, while its byte is held. Unused
/// slots come first, so that a registered participant recovers the dead; it needs nothing from the
/// system for that.
///
/// # Errors
/// `TooManyParticipants` if living processes use every slot of the table; `Busy` if somebody has
/// the hold alone for long, as salvage does. (A process that opens the hold has made sure that
/// nobody has it alone. A forked child that claims later has not.)
pub(crate) fn claim(
    space: &Space,
    recover: &dyn Fn(Owner) -> Result<()>,
    patience: Patience,
) -> Result<Registration> {
    barrier::register();
    let path = space.file().path().display();
    let fork = ForkMark::new().map_err(|e| Error::os(format!("{path}: detecting forks"), &e))?;
    // A process that has the hold alone (salvage) keeps every slot from all others. Perhaps it was
    // there during the first attempts, and has ended before the question.
    let mut was_alone = true;
    for attempt in 0.. {
        if let Some((owner, bytes)) = claim_once(space, recover)? {
            return Ok(Registration { owner, bytes: Mutex::new(Some(bytes)), fork });
        }
        let before = std::mem::replace(&mut was_alone, is_alone(space)?);
        if !before && !was_alone {
            return Err(no_slot(space));
        }
        if attempt > ALONE_ATTEMPTS {
            let Some(pause) = patience.shorten(ALONE_PAUSE) else { break };
            std::thread::sleep(pause);
        }
    }
    let text = format!(
        "{path}: another process uses it exclusively (perhaps to salvage it); try again later"
    );
    Err(Error::new(ErrorKind::Busy, text))
}

/// Whether somebody has the hold alone.
fn is_alone(space: &Space) -> Result<bool> {
    byte_lock::is_locked(space.file(), OPEN_BYTE)
        .map_err(|e| Error::os(space.file().path().display(), &e))
}

/// Claims a slot; `None` if no slot is available now.
///
/// # Errors
/// The error of recovering a dead user, if no other slot is available.
fn claim_once(
    space: &Space,
    recover: &dyn Fn(Owner) -> Result<()>,
) -> Result<Option<(Owner, HeldBytes)>> {
    let mut left = None;
    // Unused slots first: checking that the user of a used slot is alive costs a system call.
    for used in [false, true] {
        for (number, slot) in slots(space) {
            if slot.user(number).is_some() != used {
                continue;
            }
            if used && !(sees_all(space) && slot.user(number).is_some_and(|o| is_dead(space, o))) {
                continue;
            }
            let taken = match try_slot(space, number, slot, recover) {
                // The remains of the dead user stay as they are: another slot will do.
                Err(error) if error.kind() == ErrorKind::TimedOut => {
                    left = Some(error);
                    None
                }
                result => result?,
            };
            if let Some(bytes) = taken {
                let owner = Owner::new(number, slot.tag.load(Ordering::Relaxed) >> 1);
                return Ok(Some((owner, bytes)));
            }
        }
    }
    left.map_or(Ok(None), Err)
}

fn no_slot(space: &Space) -> Error {
    let path = space.file().path().display();
    if slot(space, 0).is_none() {
        let text =
            format!("{path}: its table of participants is damaged; run 'hold repair --salvage'");
        return Error::new(ErrorKind::Damaged, text);
    }
    let text =
        format!("{path}: every participant slot is taken by a living process; close some handles");
    Error::new(ErrorKind::TooManyParticipants, text)
}

fn try_slot(
    space: &Space,
    number: u32,
    slot: &Slot,
    recover: &dyn Fn(Owner) -> Result<()>,
) -> Result<Option<HeldBytes>> {
    let dead = slot.user(number);
    if dead.is_some_and(|owner| !recovery::record_dead(space, slot, owner)) {
        return Ok(None);
    }
    let wanted = [(OPEN_BYTE, LockKind::Shared), (participant_byte(number), LockKind::Exclusive)];
    let held = HeldBytes::try_lock(space.file(), &wanted).map_err(|e| {
        let path = space.file().path().display();
        Error::os(format!("{path}: locking a participant slot"), &e)
    })?;
    let Some(bytes) = held else { return Ok(None) };
    step!("slot.locked");
    if let Some(previous) = slot.user(number) {
        // A user came and died meanwhile, and its death was not recorded. Or a registered
        // participant was faster: it took the word before it asked for the byte, or it will find
        // the byte taken.
        if dead != Some(previous) || recovery::is_under_way(space, slot, previous) {
            return Ok(None);
        }
        recover(previous)?;
        slot.release();
    }
    let mut generation = Owner::next_generation(slot.tag.load(Ordering::Relaxed) >> 1);
    if recovery::is_recorded_dead(slot, Owner::new(number, generation)) {
        // All generations were used up since that one died.
        generation = Owner::next_generation(generation);
    }
    slot.pid.store(std::process::id(), Ordering::Relaxed);
    slot.since_ms.store(crate::os::clock::realtime_ms(), Ordering::Relaxed);
    store_program_name(slot);
    for lane in &slot.lanes {
        lane.segment.store(0, Ordering::Relaxed);
        lane.child.store(0, Ordering::Relaxed);
    }
    // Release: the cleared lists become visible before their generation.
    slot.tag.store(generation << 1 | 1, Ordering::Release);
    step!("slot.claimed");
    Ok(Some(bytes))
}

fn store_program_name(slot: &Slot) {
    let name = std::fs::read("/proc/self/comm").unwrap_or_default();
    let mut bytes = [0u8; 16];
    for (to, from) in bytes.iter_mut().zip(name.iter().filter(|b| **b != b'\n')) {
        *to = *from;
    }
    for (word, part) in slot.program.iter().zip(bytes.chunks_exact(8)) {
        let part: [u8; 8] = part.try_into().unwrap_or_default();
        word.store(u64::from_le_bytes(part), Ordering::Relaxed);
    }
}
