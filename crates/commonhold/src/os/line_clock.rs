//! Real time for the lines of a log, by the processor's counter where the kernel itself uses it.
//!
//! A call of the system's clock takes more than half of the time of a line. Here a thread calls it
//! once per [`PERIOD`], and in between adds what the counter has moved since. The result is
//!
//! - never ahead of the system's clock, because the rate is one 512th too slow, and
//! - at most 4 us behind it: 1 us for the rate, and the rest for the call itself ([`WINDOW`]).
//!
//! So the times of one thread never go backwards, except if somebody sets the clock back. A clock
//! that is set is noticed within a period. All of this holds between processes, too, because each
//! compares with the system's clock.
//!
//! The kernel uses the counter (`tsc`) as its clock only if it runs at one speed, does not stop,
//! and agrees on all processors; the kernel watches that. Every [`CHECK`] ticks a thread compares
//! the counter with monotonic time since its last comparison. If they disagree, as after a suspend
//! or while the system's clock is slewed by more than a 512th, the process uses the system's clock
//! from then on. Until the comparison, times may be ahead by what the slew makes of a period.
//!
//! A signal handler may interrupt every function here. While a thread's words change, the first is
//! 0, so a handler looks at the system's clock itself.
//!
//! # Safety
//! Unsafe only to read the counter, which every x86-64 has.
#![allow(unsafe_code)]

use crate::os::clock;
use std::cell::Cell;
use std::sync::atomic::{AtomicU32, AtomicU64, Ordering, compiler_fence};

/// Ticks between two looks at the system's clock: 520 us at the slowest counter that is used.
const PERIOD: u64 = 1 << 19;
/// Ticks between two comparisons with monotonic time by a thread; 67 ms or less.
const CHECK: u64 = 1 << 26;
/// The most ticks that a look may take in order to count: a thread may lose its processor in it.
const WINDOW: u64 = 1 << 11;
/// The time that a calibration takes.
const CALIBRATION_NS: u64 = 20_000_000;

/// The states of the calibration.
const UNKNOWN: u32 = 0;
/// Somebody is working on the next state.
const BUSY: u32 = 1;
const CALIBRATING: u32 = 2;
const READY: u32 = 3;
/// The counter is not used.
const REFUSED: u32 = 4;

static STATE: AtomicU32 = AtomicU32::new(UNKNOWN);
/// Nanoseconds per tick, times 2^32, and a little less. Stored once, before [`READY`].
static RATE: AtomicU64 = AtomicU64::new(0);
/// Counter and monotonic time at the beginning of the calibration.
static BEGAN: [AtomicU64; 2] = [AtomicU64::new(0), AtomicU64::new(0)];

/// The last look of a thread.
struct Last {
    /// The counter; 0 if the last look does not count.
    ticks: Cell<u64>,
    /// Real time less the counter's own, which is `scaled`.
    offset: Cell<u64>,
    /// The counter and monotonic time at the last comparison of both; 0 before the first.
    checked: Cell<[u64; 2]>,
}

thread_local! {
    /// Has no destructor and does not need one, so a signal handler may use it.
    static LAST: Last =
        const { Last { ticks: Cell::new(0), offset: Cell::new(0), checked: Cell::new([0; 2]) } };
}

/// Nanoseconds since 1970, within the limits above. Signal-safe.
#[inline]
pub(crate) fn now_ns() -> u64 {
    LAST.with(|last| {
        let looked = last.ticks.get();
        // Where the counter is not used it is not read: reading it may be forbidden.
        if looked != 0 {
            let ticks = counter();
            if ticks.wrapping_sub(looked) < PERIOD {
                // Relaxed: a look that counts has read it.
                let since = scaled(ticks, RATE.load(Ordering::Relaxed));
                return last.offset.get().wrapping_add(since);
            }
        }
        look(last)
    })
}

/// Makes the calling thread look at the system's clock for its next line.
pub(crate) fn look_again() {
    LAST.with(|last| last.ticks.set(0));
}

/// Begins the calibration, unless it has begun. Called once before the first [`now_ns`] of a
/// process; without it, or until it ends, times are the system's.
pub(crate) fn prepare() {
    if !advance(UNKNOWN, BUSY) {
        return;
    }
    let began = if kernel_uses_counter() { monotonic_look() } else { None };
    if let Some([ticks, now_ns]) = began {
        BEGAN[0].store(ticks, Ordering::Relaxed);
        BEGAN[1].store(now_ns, Ordering::Relaxed);
    }
    // Release: what was stored before; pairs with the acquire in `rate`.
    STATE.store(if began.is_some() { CALIBRATING } else { REFUSED }, Ordering::Release);
}

/// Looks at the system's clock.
#[cold]
#[inline(never)]
fn look(last: &Last) -> u64 {
    last.ticks.set(0);
    let Some(rate) = rate(last) else { return clock::realtime_ns() };
    let start = counter_in_order();
    let now_ns = clock::realtime_ns();
    let end = counter_in_order();
    if end.wrapping_sub(start) <= WINDOW {
        compiler_fence(Ordering::SeqCst);
        last.offset.set(now_ns.wrapping_sub(scaled(end, rate)));
        compiler_fence(Ordering::SeqCst);
        last.ticks.set(end);
    }
    now_ns
}

/// The rate, if the counter is calibrated and agrees with monotonic time.
fn rate(last: &Last) -> Option<u64> {
    // Acquire: the rate, or the beginning of the calibration.
    match STATE.load(Ordering::Acquire) {
        READY => checked_rate(last),
        CALIBRATING => {
            calibrate();
            None
        }
        _ => None,
    }
}

/// Ends the calibration if it has taken long enough.
fn calibrate() {
    let Some(now) = monotonic_look() else { return };
    let began = [0, 1].map(|i| BEGAN[i].load(Ordering::Relaxed));
    let [ticks, passed_ns] = since(now, began);
    if passed_ns >= CALIBRATION_NS && advance(CALIBRATING, BUSY) {
        let rate = rate_of(ticks, passed_ns);
        RATE.store(rate.unwrap_or(0), Ordering::Relaxed);
        STATE.store(if rate.is_some() { READY } else { REFUSED }, Ordering::Release);
    }
}

/// The rate, if the counter has agreed with monotonic time lately, or does now.
fn checked_rate(last: &Last) -> Option<u64> {
    let (rate, checked) = (RATE.load(Ordering::Relaxed), last.checked.get());
    if checked != [0; 2] && counter().wrapping_sub(checked[0]) < CHECK {
        return Some(rate);
    }
    let now = monotonic_look()?;
    let [ticks, passed_ns] = since(now, checked);
    // The first comparison of a thread only begins an interval.
    if checked == [0; 2] || agrees(rate, ticks, passed_ns) {
        last.checked.set(now);
        return Some(rate);
    }
    STATE.store(REFUSED, Ordering::Relaxed);
    None
}

/// The ticks and the nanoseconds between two looks.
fn since(now: [u64; 2], before: [u64; 2]) -> [u64; 2] {
    [now[0].wrapping_sub(before[0]), now[1].saturating_sub(before[1])]
}

fn advance(from: u32, to: u32) -> bool {
    STATE.compare_exchange(from, to, Ordering::Acquire, Ordering::Relaxed).is_ok()
}

/// A little less than the nanoseconds per tick, times 2^32: for a counter that moved by `ticks` in
/// `passed_ns`. `None` for less than one tick per nanosecond.
fn rate_of(ticks: u64, passed_ns: u64) -> Option<u64> {
    let rate = (u128::from(passed_ns) << 32).checked_div(ticks.into())?;
    let rate = u64::try_from(rate).ok().filter(|rate| *rate <= 1 << 32)?;
    Some(rate - rate / 512)
}

/// Whether a counter that moved by `ticks` in `passed_ns` has this rate: it is behind, and by less
/// than a 64th.
fn agrees(rate: u64, ticks: u64, passed_ns: u64) -> bool {
    let own_ns = scaled(ticks, rate);
    own_ns <= passed_ns && passed_ns - own_ns <= passed_ns / 64
}

/// The counter and the monotonic time at one moment; `None` if each attempt was interrupted.
fn monotonic_look() -> Option<[u64; 2]> {
    (0..8).find_map(|_| {
        let start = counter_in_order();
        let now_ns = clock::monotonic_ns();
        let end = counter_in_order();
        (end.wrapping_sub(start) <= WINDOW).then_some([start, now_ns])
    })
}

#[inline(always)]
fn scaled(ticks: u64, rate: u64) -> u64 {
    ((u128::from(ticks) * u128::from(rate)) >> 32) as u64
}

/// True if the kernel tells the time by the counter.
fn kernel_uses_counter() -> bool {
    const NAME: &str = "/sys/devices/system/clocksource/clocksource0/current_clocksource";
    HAS_COUNTER && std::fs::read_to_string(NAME).is_ok_and(|name| name.trim_end() == "tsc")
}

#[cfg(all(target_arch = "x86_64", not(miri)))]
const HAS_COUNTER: bool = true;
#[cfg(not(all(target_arch = "x86_64", not(miri))))]
const HAS_COUNTER: bool = false;

#[cfg(all(target_arch = "x86_64", not(miri)))]
#[inline(always)]
fn counter() -> u64 {
    // SAFETY: every x86-64 has it, and it touches no memory.
    unsafe { std::arch::x86_64::_rdtsc() }
}

/// The counter, read after everything before and before everything behind.
#[cfg(all(target_arch = "x86_64", not(miri)))]
fn counter_in_order() -> u64 {
    use std::arch::x86_64::_mm_lfence;
    // SAFETY: every x86-64 has it, and it touches no memory.
    unsafe { _mm_lfence() };
    let ticks = counter();
    // SAFETY: as above.
    unsafe { _mm_lfence() };
    ticks
}

/// Never used: the difference to the last look is always more than a period.
#[cfg(not(all(target_arch = "x86_64", not(miri))))]
#[inline(always)]
fn counter() -> u64 {
    u64::MAX
}

#[cfg(not(all(target_arch = "x86_64", not(miri))))]
fn counter_in_order() -> u64 {
    u64::MAX
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::time::{Duration, Instant};

    /// Nanoseconds that a time may be behind.
    const BEHIND_NS: u64 = 4_000;

    #[test]
    fn times_follow_the_systems_clock_and_do_not_go_back() {
        prepare();
        let (begun, mut last_ns, mut counted) = (Instant::now(), 0, 0);
        while begun.elapsed() < Duration::from_millis(200) {
            let before_ns = clock::realtime_ns();
            let now_ns = now_ns();
            let after_ns = clock::realtime_ns();
            if before_ns > after_ns {
                continue; // Somebody has set the clock.
            }
            assert!(now_ns <= after_ns, "{} ns ahead", now_ns - after_ns);
            assert!(now_ns + BEHIND_NS >= before_ns, "{} ns behind", before_ns - now_ns);
            assert!(now_ns >= last_ns, "{} ns back", last_ns - now_ns);
            last_ns = now_ns;
            counted += u64::from(LAST.with(|last| last.ticks.get()) != 0);
        }
        let state = STATE.load(Ordering::Relaxed);
        assert!(if kernel_uses_counter() { state != UNKNOWN } else { state == REFUSED });
        assert_eq!(counted > 0, state == READY);
        look_again();
        assert_eq!(LAST.with(|last| last.ticks.get()), 0);
    }

    /// A disagreement is noticed within an interval, however long the process has run.
    #[test]
    fn a_thread_compares_only_what_passed_since_its_last_comparison() {
        let rate = rate_of(3_000_000_000, 1_000_000_000).unwrap();
        let [day_ns, interval_ns] = [86_400_000_000_000, 30_000_000];
        let before = [3 * day_ns, day_ns];
        let agree = |[ticks, passed_ns]: [u64; 2]| agrees(rate, ticks, passed_ns);
        assert!(agree(since([before[0] + 3 * interval_ns, day_ns + interval_ns], before)));
        // The system's clock is slewed: it moves by 8 % less.
        let slewed = [before[0] + 3 * interval_ns, day_ns + interval_ns * 92 / 100];
        assert!(!agree(since(slewed, before)) && agree(since(slewed, [0, 0])));
    }

    #[test]
    fn a_counter_that_is_slow_or_disagrees_is_not_used() {
        let second = 1_000_000_000;
        assert_eq!((rate_of(0, second), rate_of(second - 1, second)), (None, None));
        for ticks in [second, 3 * second + 7] {
            let rate = rate_of(ticks, second).unwrap();
            assert!(agrees(rate, ticks, second) && agrees(rate, 1000 * ticks, 1000 * second));
            // Ahead: faster than it was, or monotonic time stood still.
            assert!(!agrees(rate, ticks + ticks / 256, second) && !agrees(rate, 2 * ticks, second));
            // Behind: slower, or it began again.
            assert!(!agrees(rate, ticks - ticks / 32, second) && !agrees(rate, 0, second));
            assert!(!agrees(rate, 0_u64.wrapping_sub(ticks), second));
            assert!(scaled(PERIOD, rate) <= 525_000);
        }
    }
}
