//! Protocol 5: the orderings of a queue.
//!
//! Each scenario is the few words of one move that another thread depends on: an element handed on through a ring, with its
//! payload and its holder's word; and one end of a queue that two threads pull from, one behind the other. That the index
//! of the head is stored with release, so that nobody pushes over a place that is still read, is not shown: loom lets no
//! load see a later store. What a recoverer sees of the dead needs no ordering: it has waited for the death itself.

use super::{Rules, explore};
use Ordering::{AcqRel, Acquire, Relaxed, Release};
use loom::sync::atomic::{AtomicUsize, Ordering};
use std::sync::Arc;

/// A way to get the orderings wrong, to be caught.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Break {
    /// A push commits without ordering.
    CommitRelaxed,
    /// Who pulls reads the tail without ordering.
    TailReadRelaxed,
    /// A push clears the holder's word only after its commit.
    LateClearing,
    /// The lock of an end is taken without ordering.
    LockRelaxed,
    /// The lock of an end is let go without ordering.
    UnlockRelaxed,
}

/// Every break.
pub const BREAKS: [Break; 5] = [
    Break::CommitRelaxed,
    Break::TailReadRelaxed,
    Break::LateClearing,
    Break::LockRelaxed,
    Break::UnlockRelaxed,
];

/// Runs both scenarios.
///
/// # Errors
/// What failed.
pub fn check(broken: Option<Break>, preemptions: Option<usize>) -> Result<usize, String> {
    let rules = Rules(broken);
    let mut runs = 0;
    for scenario in [handing, taking_turns] {
        runs += explore(preemptions, move || scenario(rules))?;
    }
    Ok(runs)
}

/// The element, its payload and the two threads, as one process sees them.
const ELEMENT: usize = 3;
const PAYLOAD: usize = 5;
const NOBODY: usize = 0;
const PUSHER: usize = 1;
const PULLER: usize = 2;

/// One element goes from process to process; an element pulled is whole, and its puller's.
fn handing(rules: Rules<Break>) {
    let shared: Arc<[AtomicUsize; 4]> = Arc::new([0, 0, PUSHER, 0].map(AtomicUsize::new));
    let theirs = Arc::clone(&shared);
    let puller = loom::thread::spawn(move || {
        let [payload, place, holder, tail] = &*theirs;
        if tail.load(rules.order(Break::TailReadRelaxed, Acquire)) == 0 {
            return None;
        }
        let id = place.load(Relaxed);
        holder.store(PULLER, Release);
        Some((id, payload.load(Relaxed)))
    });
    let [payload, place, holder, tail] = &*shared;
    payload.store(PAYLOAD, Relaxed);
    place.store(ELEMENT, Relaxed);
    if !rules.is(Break::LateClearing) {
        holder.store(NOBODY, Release);
    }
    tail.store(1, rules.order(Break::CommitRelaxed, Release));
    if rules.is(Break::LateClearing) {
        holder.store(NOBODY, Release);
    }
    match puller.join().expect("the puller does not panic") {
        Some(pulled) => {
            assert_eq!(pulled, (ELEMENT, PAYLOAD), "an element was not whole");
            assert_eq!(holder.load(Relaxed), PULLER, "an element in flight that nobody holds");
        }
        None => assert_eq!(holder.load(Relaxed), NOBODY, "an element in the queue that is held"),
    }
}

/// Two threads pull from one end of two elements; who finds the lock taken gives up.
fn taking_turns(rules: Rules<Break>) {
    let shared: Arc<[AtomicUsize; 2]> = Arc::new([0, 0].map(AtomicUsize::new));
    let theirs = Arc::clone(&shared);
    let other = loom::thread::spawn(move || pull(&theirs, rules));
    let own = pull(&shared, rules);
    let other = other.join().expect("the other does not panic");
    assert!(own.is_none() || own != other, "an element in flight twice");
    let pulled = own.iter().chain(&other).count();
    assert_eq!(shared[1].load(Relaxed), pulled, "an index that went back");
}

/// The index of the element pulled.
fn pull([lock, head]: &[AtomicUsize; 2], rules: Rules<Break>) -> Option<usize> {
    lock.compare_exchange(0, 1, rules.order(Break::LockRelaxed, Acquire), Relaxed).ok()?;
    let index = head.load(Relaxed);
    head.store(index + 1, Release);
    lock.swap(0, rules.order(Break::UnlockRelaxed, AcqRel));
    Some(index)
}
