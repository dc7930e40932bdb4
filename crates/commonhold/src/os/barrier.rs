//! A full fence between two sides of which one fences rarely: `membarrier(2)`.
//!
//! Where each side stores a word, fences, and looks at the other's, the frequent side's fence can be one that only the
//! compiler sees, if the rare side makes all running threads of all registered processes execute a full one instead
//! (Desnoyers; Linux 4.16). A fence for the processor would wait until the store before it has reached memory: with a message that
//! somebody is just polling for, that is a round trip between two cores, for every message.
//!
//! Invariant: a process that takes part in a hold has called `register`, so [`light`] is right in it. A system that
//! refuses costs speed on the one side and latency on the other, never a wake.
//!
//! # Safety
//! Unsafe only for a system call that touches no memory of the process.
#![allow(unsafe_code)]

use crate::steps::fault;
use std::sync::atomic::{AtomicBool, Ordering, compiler_fence, fence};

/// True once this process is interrupted by the fences of others.
static REGISTERED: AtomicBool = AtomicBool::new(false);

/// Makes this process one that [`heavy`] fences of others reach. Once before its first [`light`], and again in a
/// forked child.
pub(crate) fn register() {
    // Relaxed, here and in `light`: either fence is right once this process is registered.
    let registered = fault!("os.barrier-register").is_ok()
        && membarrier(libc::MEMBARRIER_CMD_REGISTER_GLOBAL_EXPEDITED);
    REGISTERED.store(registered, Ordering::Relaxed);
}

/// The frequent side's full fence. Pairs with [`heavy`].
#[inline]
pub fn light() {
    match REGISTERED.load(Ordering::Relaxed) {
        true => compiler_fence(Ordering::SeqCst),
        false => fence(Ordering::SeqCst),
    }
}

/// The rare side's full fence; some microseconds. Pairs with [`light`] in all processes. False if the system refuses: then it is one
/// of this thread alone, and pairs only with processes that were refused, too.
#[cold]
#[allow(clippy::must_use_candidate)] // Who looks again anyway need not know.
pub fn heavy() -> bool {
    fence(Ordering::SeqCst);
    fault!("os.barrier").is_ok() && membarrier(libc::MEMBARRIER_CMD_GLOBAL_EXPEDITED)
}

fn membarrier(command: libc::c_int) -> bool {
    // SAFETY: it takes two numbers and touches no memory.
    unsafe { libc::syscall(libc::SYS_membarrier, command, 0, 0) == 0 }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::sync::atomic::AtomicU32;

    /// Each stores its word and looks at the other's: one of the two must see the other.
    #[test]
    fn one_of_the_two_sees_the_other() {
        register();
        const ROUNDS: u32 = 2_000;
        let words = [AtomicU32::new(0), AtomicU32::new(0)];
        let seen = [AtomicU32::new(0), AtomicU32::new(0)];
        let meet = std::sync::Barrier::new(2);
        let side = |own: usize, barrier: &dyn Fn()| {
            for round in 1..=ROUNDS {
                meet.wait();
                words[own].store(round, Ordering::Relaxed);
                barrier();
                seen[own].store(words[1 - own].load(Ordering::Relaxed), Ordering::Relaxed);
                meet.wait();
                let saw = seen.iter().any(|seen| seen.load(Ordering::Relaxed) == round);
                assert!(saw, "round {round}: neither saw the other");
                meet.wait();
            }
        };
        std::thread::scope(|scope| {
            scope.spawn(|| side(0, &light));
            side(1, &|| {
                heavy();
            });
        });
    }
}
