//! Sending a signal to the own process: how a test step stops or kills it.
//!
//! # Safety
//! One system call without pointers.
#![allow(unsafe_code)]

/// Sends `signal` to this thread, which stops or ends its process. Returns when the signal has been
/// delivered and, for SIGSTOP, the process has continued. A signal sent to the process might go to
/// another thread, and this thread would run on until that one stops it.
pub(crate) fn signal_self(signal: i32) {
    // SAFETY: no pointers; a thread may always signal itself.
    unsafe { libc::syscall(libc::SYS_tgkill, libc::getpid(), libc::gettid(), signal) };
}
