//! Sending oneself a signal: how a test step stops or kills its process.
//!
//! # Safety
//! One system call without pointers.
#![allow(unsafe_code)]

/// Sends `signal` to this thread, which stops or ends its process; returns when it has been delivered and, for SIGSTOP,
/// continued. Sent to the process, another thread may take it, and this one goes on until that stops it.
pub(crate) fn signal_self(signal: i32) {
    // SAFETY: no pointers; a thread may always signal itself.
    unsafe { libc::syscall(libc::SYS_tgkill, libc::getpid(), libc::gettid(), signal) };
}
