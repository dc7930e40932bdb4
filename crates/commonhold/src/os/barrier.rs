//! A full fence between two sides, one of which fences rarely: `membarrier(2)`.
//!
//! Each side stores a word, fences, and looks at the other's word. The frequent side's fence can be
//! one for the compiler only, if the rare side makes all running threads of all registered
//! processes execute a full fence instead (Desnoyers; Linux 4.16). A fence for the processor would
//! wait until the store before it has reached memory. For a message that somebody is polling for,
//! that is a round trip between two cores per message.
//!
//! Invariant: a process that takes part in a hold has called `register`, so [`light`] is correct in
//! it. A system that refuses costs speed on the one side and latency on the other, but never a
//! wake.
//!
//! A system may also refuse later, because of a filter that a process installs for itself. From
//! then on [`light`] is a full fence in this process, too, so its threads still see each other's
//! words. A `light` that had begun before that may have been one for the compiler, with its store
//! still in the processor's buffer. Nothing can hurry that store any more, so this module waits for
//! it: the store leaves the buffer within microseconds while its thread runs, and the kernel's
//! switch away from a thread is a full fence.
//!
//! # Safety
//! Unsafe only for a system call that touches no memory of the process.
#![allow(unsafe_code)]

use crate::steps::fault;
use std::sync::atomic::{AtomicU32, Ordering, compiler_fence, fence};
use std::time::Duration;

/// Both sides fence.
const BOTH: u32 = 0;
/// The fences of others interrupt this process: its light fences are for the compiler.
const REGISTERED: u32 = 1;
/// Both sides fence, but a light fence that began earlier may have been for the compiler.
const ENDING: u32 = 2;

static MODE: AtomicU32 = AtomicU32::new(BOTH);

/// Within this time every processor sees what another has stored, with a margin of a thousand.
const DRAINED: Duration = Duration::from_millis(10);

/// Makes the [`heavy`] fences of others reach this process. Called once before its first [`light`],
/// and again in a forked child.
pub(crate) fn register() {
    let registered = fault!("os.barrier-register").is_ok()
        && membarrier(libc::MEMBARRIER_CMD_REGISTER_GLOBAL_EXPEDITED);
    match registered {
        // Relaxed, here and in `light`: either fence is right once this process is registered.
        true => MODE.store(REGISTERED, Ordering::Relaxed),
        false => fence_on_both_sides(),
    }
}

/// The frequent side's full fence. Pairs with [`heavy`].
#[inline]
pub fn light() {
    match MODE.load(Ordering::Relaxed) == REGISTERED {
        true => compiler_fence(Ordering::SeqCst),
        false => fence(Ordering::SeqCst),
    }
}

/// The rare side's full fence; takes some microseconds. Pairs with [`light`] in all processes.
/// False if the system refuses: then it pairs with the threads of this process, and with other
/// processes only if the system refused them, too.
#[cold]
#[allow(clippy::must_use_candidate)] // A caller that looks again anyway ignores the result.
pub fn heavy() -> bool {
    fence(Ordering::SeqCst);
    if fault!("os.barrier").is_ok() && membarrier(libc::MEMBARRIER_CMD_GLOBAL_EXPEDITED) {
        return true;
    }
    fence_on_both_sides();
    fence(Ordering::SeqCst);
    false
}

/// Ends the mode that the system no longer supports for this process. Returns when no light fence
/// is for the compiler only.
#[cold]
fn fence_on_both_sides() {
    let (now, after) = (Ordering::SeqCst, Ordering::Relaxed);
    let _ = MODE.compare_exchange(REGISTERED, ENDING, now, after);
    // A thread that finds it ending waits for itself: the thread that began may be stopped.
    if MODE.load(Ordering::SeqCst) == ENDING {
        std::thread::sleep(DRAINED);
        let _ = MODE.compare_exchange(ENDING, BOTH, now, after);
    }
}

fn membarrier(command: libc::c_int) -> bool {
    // SAFETY: it takes two numbers and touches no memory.
    unsafe { libc::syscall(libc::SYS_membarrier, command, 0, 0) == 0 }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::sync::Mutex;
    use std::sync::atomic::AtomicBool;

    /// The mode belongs to the process.
    static ONE_AT_A_TIME: Mutex<()> = Mutex::new(());

    /// Two threads each store their word and look at the other's: one of them must see the other.
    /// The second thread begins when it gets the signal.
    fn one_of_the_two_sees_the_other(rounds: u32, begin: impl FnOnce() + Send) {
        let _alone = ONE_AT_A_TIME.lock().unwrap_or_else(|e| e.into_inner());
        register();
        let [words, seen, at] = [const { [const { AtomicU32::new(0) }; 2] }; 3];
        let over = AtomicBool::new(false);
        // Both are in this round, or one of them has failed.
        let meet = |own: usize, round: u32| {
            at[own].store(round, Ordering::Release);
            let mut turns = 0;
            while at[1 - own].load(Ordering::Acquire) < round && !over.load(Ordering::Relaxed) {
                turns += 1;
                match turns % 1_000 {
                    0 => std::thread::yield_now(),
                    _ => std::hint::spin_loop(),
                }
            }
        };
        let side = |own: usize, barrier: &dyn Fn()| {
            for round in 1..=rounds {
                meet(own, round * 3);
                words[own].store(round, Ordering::Relaxed);
                barrier();
                seen[own].store(words[1 - own].load(Ordering::Relaxed), Ordering::Relaxed);
                meet(own, round * 3 + 1);
                let saw = seen.iter().any(|seen| seen.load(Ordering::Relaxed) == round);
                over.fetch_or(!saw, Ordering::Relaxed);
                assert!(saw, "round {round}: neither saw the other");
                meet(own, round * 3 + 2);
            }
        };
        std::thread::scope(|scope| {
            scope.spawn(|| side(0, &light));
            scope.spawn(|| {
                begin();
                side(1, &|| {
                    heavy();
                });
            });
        });
    }

    #[test]
    fn where_the_system_fences() {
        one_of_the_two_sees_the_other(2_000, || {});
    }

    #[test]
    fn and_where_it_refuses_to_from_now_on() {
        one_of_the_two_sees_the_other(50_000, forbid);
    }

    /// Refuses the call to this thread, like a filter that a process installs for itself after it
    /// has begun.
    fn forbid() {
        let op = |code: u32, jt, jf, k| libc::sock_filter { code: code as u16, jt, jf, k };
        let number = libc::SYS_membarrier as u32;
        let refusal = libc::SECCOMP_RET_ERRNO | libc::EPERM as u32;
        let mut program = [
            op(libc::BPF_LD | libc::BPF_W | libc::BPF_ABS, 0, 0, 0),
            op(libc::BPF_JMP | libc::BPF_JEQ | libc::BPF_K, 0, 1, number),
            op(libc::BPF_RET | libc::BPF_K, 0, 0, refusal),
            op(libc::BPF_RET | libc::BPF_K, 0, 0, libc::SECCOMP_RET_ALLOW),
        ];
        let filter = libc::sock_fprog { len: program.len() as u16, filter: program.as_mut_ptr() };
        // SAFETY: the program lives until the call has copied it.
        unsafe {
            assert_eq!(libc::prctl(libc::PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0), 0);
            let mode = libc::SECCOMP_MODE_FILTER;
            assert_eq!(libc::prctl(libc::PR_SET_SECCOMP, mode, &raw const filter, 0, 0), 0);
        }
        assert!(!membarrier(libc::MEMBARRIER_CMD_GLOBAL_EXPEDITED));
    }
}
