//! The hold's clock, by which pairs of caches expire: milliseconds that nobody can set.
//!
//! Hold time is boot time plus an offset that stands in the file, so all processes agree on it, and
//! reading it writes nothing. The offset is chosen when the hold is made, so that hold time *begins* as
//! real time; no later change of real time touches it. Suspend counts.
//!
//! A new boot begins with a new boot time. Whoever opens the hold first then sets the offset anew: hold
//! time goes on from the last time that was noted in the file, plus the real time that has passed since,
//! as far as that can be believed ([`MOST_BETWEEN_BOOTS_MS`]). It never goes back.
//!
//! What leaves the machine or the hold says real time: [`to_wall`].
//!
//! Invariant: within a boot the offset is changed at most once, before anybody has the hold open for
//! writing.

use crate::os::clock;
use crate::sync::space::{Shared, Space};
use std::sync::atomic::{AtomicU64, Ordering};

/// Where the words lie in the superblock page.
const CLOCK_OFFSET: u64 = 1792;
/// Real time says how long a hold was closed while the system was down. A clock that is wrong at
/// either end must not expire everything, so more than a week is taken for a week.
const MOST_BETWEEN_BOOTS_MS: u64 = 7 * 24 * 3600 * 1000;
/// Writers note the time when so many milliseconds have passed since it was noted.
const NOTE_EVERY_MS: u64 = 1000;
/// No offset.
const NONE: u64 = 1 << 63;

#[repr(C)]
struct Words {
    /// Hold time less the boot time of the boot that the superblock names. Wraps around.
    offset: AtomicU64,
    /// A hold time that has been.
    noted: AtomicU64,
    /// Real time less hold time at that moment. Wraps around.
    ahead: AtomicU64,
}

// SAFETY: atomics only.
#[allow(unsafe_code)]
unsafe impl Shared for Words {}

/// The offset that a handle goes by which may not set it: one that only reads, in a boot in which
/// nobody has written yet.
#[derive(Clone, Copy)]
pub(crate) struct OwnOffset {
    /// As long as this one is in the file,
    stale: u64,
    /// this one is meant.
    own: u64,
}

impl OwnOffset {
    /// The file's is good.
    pub(crate) const UNUSED: OwnOffset = OwnOffset { stale: NONE, own: NONE };
}

#[inline]
fn words(space: &Space) -> &Words {
    space.view(CLOCK_OFFSET)
}

/// The hold time, in milliseconds.
#[inline]
pub(crate) fn now(space: &Space) -> u64 {
    // Relaxed: the number guards no memory, and every handle is opened after it was set.
    let found = words(space).offset.load(Ordering::Relaxed);
    let own = space.own_offset();
    let offset = if found == own.stale { own.own } else { found };
    clock::boottime_ms().wrapping_add(offset)
}

/// The same for writers, who note it now and then.
#[inline]
pub(crate) fn tick(space: &Space) -> u64 {
    let now = now(space);
    if now > words(space).noted.load(Ordering::Relaxed).saturating_add(NOTE_EVERY_MS) {
        note(space);
    }
    now
}

/// Notes the time, from which the next boot goes on.
#[cold]
pub(crate) fn note(space: &Space) {
    let (words, now) = (words(space), now(space));
    // Killed between the two, and after a jump of real time since they were noted before, the next boot
    // takes the jump for time that has passed, within its bounds.
    words.ahead.store(clock::realtime_ms().wrapping_sub(now), Ordering::Relaxed);
    words.noted.fetch_max(now, Ordering::Relaxed);
}

/// Begins the clock of a new hold.
pub(crate) fn begin(space: &Space) {
    clock::learn_namespace();
    let (words, wall) = (words(space), clock::realtime_ms());
    words.offset.store(wall.wrapping_sub(clock::boottime_ms()), Ordering::Relaxed);
    words.noted.store(wall, Ordering::Relaxed);
    words.ahead.store(0, Ordering::Relaxed);
}

/// For who has the hold alone and is about to write: the clock goes on in this boot, if it does not yet.
///
/// Several may do so at once, and one may be killed on the way: the offset that was read is replaced once.
pub(crate) fn go_on(space: &Space, same_boot: bool) {
    let found = words(space).offset.load(Ordering::Relaxed);
    if let Some(offset) = offset_in_this_boot(space, same_boot) {
        let word = &words(space).offset;
        // Relaxed: see `now`.
        let _ = word.compare_exchange(found, offset, Ordering::Relaxed, Ordering::Relaxed);
    }
}

/// The offset for a handle that may not set it.
pub(crate) fn own_offset(space: &Space, same_boot: bool) -> OwnOffset {
    let stale = words(space).offset.load(Ordering::Relaxed);
    match offset_in_this_boot(space, same_boot) {
        Some(own) => OwnOffset { stale, own },
        None => OwnOffset::UNUSED,
    }
}

/// What the offset should be; `None` if it is right.
///
/// Where boot ids cannot be read all boots look the same: then a time before the noted one tells.
fn offset_in_this_boot(space: &Space, same_boot: bool) -> Option<u64> {
    let (words, boot) = (words(space), clock::boottime_ms());
    let noted = words.noted.load(Ordering::Relaxed);
    let now = boot.wrapping_add(words.offset.load(Ordering::Relaxed));
    if same_boot && now >= noted {
        return None;
    }
    let noted_wall = noted.wrapping_add(words.ahead.load(Ordering::Relaxed));
    let passed = clock::realtime_ms().saturating_sub(noted_wall).min(MOST_BETWEEN_BOOTS_MS);
    Some(noted.wrapping_add(passed).wrapping_sub(boot))
}

/// What real time it will be, going by now, at a hold time; 0, which means never, stays 0.
pub(crate) fn to_wall(space: &Space, time: u64) -> u64 {
    match time {
        0 => 0,
        _ => time.wrapping_add(ahead(space)).max(1),
    }
}

/// Real time less hold time, wrapping around.
pub(crate) fn ahead(space: &Space) -> u64 {
    clock::realtime_ms().wrapping_sub(now(space))
}
