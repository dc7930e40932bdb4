//! Counters of a store. Counting must not make a look-up write shared memory that it does not write
//! otherwise, so threads count in stripes.

use std::cell::Cell;
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};

/// The counted events.
#[derive(Clone, Copy)]
pub(super) enum Event {
    Hit,
    Miss,
    Added,
    Evicted,
    Removed,
    Refused,
}

const EVENTS: usize = 6;
/// The number of stripes; more threads share them.
const STRIPES: usize = 16;

/// Two cache lines, as neighbours are fetched in pairs.
#[repr(align(128))]
#[derive(Default)]
struct Stripe([AtomicU64; EVENTS]);

/// The counts of all events.
#[derive(Default)]
pub(super) struct StripedCounters([Stripe; STRIPES]);

impl StripedCounters {
    /// Counts an event.
    pub(super) fn count(&self, event: Event) {
        self.add(event, 1);
    }

    /// Counts an event several times.
    pub(super) fn add(&self, event: Event, times: u64) {
        // Relaxed, here and below: numbers that order nothing.
        self.0[stripe()].0[event as usize].fetch_add(times, Ordering::Relaxed);
    }

    /// The count of an event, of all threads.
    pub(super) fn sum(&self, event: Event) -> u64 {
        self.0.iter().map(|stripe| stripe.0[event as usize].load(Ordering::Relaxed)).sum()
    }
}

/// The stripe of this thread.
fn stripe() -> usize {
    static NEXT: AtomicUsize = AtomicUsize::new(0);
    thread_local! {
        static OWN: Cell<usize> = const { Cell::new(usize::MAX) };
    }
    OWN.with(|own| {
        if own.get() == usize::MAX {
            own.set(NEXT.fetch_add(1, Ordering::Relaxed) % STRIPES);
        }
        own.get()
    })
}
