//! The hold's clock, which decides when pairs of caches expire: milliseconds that nobody can set.
//!
//! Hold time is boot time plus an offset that is stored in the file. All processes therefore agree
//! on it, and reading it writes nothing. The offset is chosen when the hold is created, so that
//! hold time *begins* as real time. No later change of real time affects it. Time in suspend
//! counts.
//!
//! A new boot starts with a new boot time. The first participant that opens the hold then sets a
//! new offset. Hold time continues from the last time noted in the file, plus the real time that
//! has passed since then, as far as that is plausible ([`MOST_BETWEEN_BOOTS_MS`]). Hold time never
//! goes back.
//!
//! Times that leave the machine or the hold are real time: see [`to_wall`].
//!
//! Invariant: within a boot the offset is changed at most once, before anybody has the hold open
//! for writing.

use crate::os::clock;
use crate::sync::space::{Shared, Space};
use std::sync::atomic::{AtomicU64, Ordering};

/// Offset of the words in the superblock page.
const CLOCK_OFFSET: u64 = 1792;
/// Real time tells how long a hold was closed while the system was down. A clock that is wrong at
/// either end must not expire everything, so a longer time counts as one week.
const MOST_BETWEEN_BOOTS_MS: u64 = 7 * 24 * 3600 * 1000;
/// Writers note the time when this many milliseconds have passed since the last note.
const NOTE_EVERY_MS: u64 = 1000;
/// No offset.
const NONE: u64 = 1 << 63;

#[repr(C)]
struct Words {
    /// Hold time minus boot time, for the boot that the superblock names. Wraps around.
    offset: AtomicU64,
    /// A hold time that has already passed.
    noted: AtomicU64,
    /// Real time minus hold time at that moment. Wraps around.
    ahead: AtomicU64,
}

// SAFETY: atomics only.
#[allow(unsafe_code)]
unsafe impl Shared for Words {}

/// The offset that a handle uses when it may not set the hold's offset: a read-only handle in a
/// boot in which nobody has written yet.
#[derive(Clone, Copy)]
pub(crate) struct OwnOffset {
    /// While the file holds this offset,
    stale: u64,
    /// the handle uses this one.
    own: u64,
}

impl OwnOffset {
    /// The offset in the file is valid.
    pub(crate) const UNUSED: OwnOffset = OwnOffset { stale: NONE, own: NONE };
}

#[inline]
fn words(space: &Space) -> &Words {
    space.view(CLOCK_OFFSET)
}

/// The hold time, in milliseconds.
#[inline]
pub(crate) fn now(space: &Space) -> u64 {
    // Relaxed: the number guards no memory, and the offset is set before any handle opens.
    let found = words(space).offset.load(Ordering::Relaxed);
    let own = space.own_offset();
    let offset = if found == own.stale { own.own } else { found };
    clock::boottime_ms().wrapping_add(offset)
}

/// The same for writers, which also note the time now and then.
#[inline]
pub(crate) fn tick(space: &Space) -> u64 {
    let now = now(space);
    if now > words(space).noted.load(Ordering::Relaxed).saturating_add(NOTE_EVERY_MS) {
        note(space);
    }
    now
}

/// Notes the time from which the next boot continues.
#[cold]
pub(crate) fn note(space: &Space) {
    let (words, now) = (words(space), now(space));
    // A process may be killed between the two stores after real time has jumped. The next boot then
    // counts the jump as time that has passed, within its bounds.
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

/// Continues the clock in this boot, unless that has been done. The caller has the hold alone and
/// is about to write.
///
/// Several callers may do this at once, and one may be killed on the way. The offset that was read
/// is replaced only once.
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

/// The right offset; `None` if the stored one is right.
///
/// Where boot ids cannot be read, all boots look the same. A time before the noted one then reveals
/// a new boot.
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

/// The real time at a given hold time, judged by the clocks now. 0 means never and stays 0.
pub(crate) fn to_wall(space: &Space, time: u64) -> u64 {
    match time {
        0 => 0,
        _ => time.wrapping_add(ahead(space)).max(1),
    }
}

/// Real time minus hold time, wrapping around.
pub(crate) fn ahead(space: &Space) -> u64 {
    clock::realtime_ms().wrapping_sub(now(space))
}
