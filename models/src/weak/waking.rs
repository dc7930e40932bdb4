//! Protocol 7: the two full fences of waiter and waker.
//!
//! Two waiters read the event, set the flag and look at the data; a waker stores the data and looks at the flag.
//! A waiter that finds nothing asks the kernel to sleep on the event it read. Invariant: no thread sleeps while
//! there is data without the event having changed since (then the kernel does not let it sleep, or it is woken).

use super::explore;
use Ordering::{Acquire, Relaxed, Release};
use loom::sync::atomic::{AtomicUsize, Ordering, fence};
use std::sync::Arc;

/// A way to get the orderings wrong, to be caught.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Break {
    /// No fence between setting the flag and looking at the data.
    NoWaiterFence,
    /// No fence between storing the data and looking at the flag.
    NoWakerFence,
    /// The fences order only acquiring and releasing.
    WeakFences,
}

/// Every break.
pub const BREAKS: [Break; 3] = [Break::NoWaiterFence, Break::NoWakerFence, Break::WeakFences];

struct Shared {
    data: AtomicUsize,
    flag: AtomicUsize,
    event: AtomicUsize,
    broken: Option<Break>,
}

/// Runs the model.
///
/// # Errors
/// What failed.
pub fn check(broken: Option<Break>, preemptions: Option<usize>) -> Result<usize, String> {
    explore(preemptions, move || {
        let [data, flag, event] = [0; 3].map(AtomicUsize::new);
        let shared = Arc::new(Shared { data, flag, event, broken });
        let waiters = [(); 2].map(|()| {
            let shared = Arc::clone(&shared);
            loom::thread::spawn(move || shared.wait())
        });
        shared.wake();
        let asleep = waiters.map(|waiter| waiter.join().expect("the waiter does not panic"));
        let event = shared.event.load(Acquire);
        assert!(!asleep.contains(&Some(event)), "a thread sleeps while there is a message");
    })
}

impl Shared {
    fn full_fence(&self, broken: Break) {
        match self.broken {
            Some(Break::WeakFences) => fence(Ordering::AcqRel),
            Some(other) if other == broken => {}
            _ => fence(Ordering::SeqCst),
        }
    }

    /// Returns the event it would sleep on, if it finds no data.
    fn wait(&self) -> Option<usize> {
        let event = self.event.load(Acquire);
        self.flag.store(1, Relaxed);
        self.full_fence(Break::NoWaiterFence);
        (self.data.load(Acquire) == 0).then_some(event)
    }

    fn wake(&self) {
        self.data.store(1, Release);
        self.full_fence(Break::NoWakerFence);
        if self.flag.load(Relaxed) == 1 {
            self.flag.store(0, Relaxed);
            self.event.fetch_add(1, Release);
        }
    }
}
