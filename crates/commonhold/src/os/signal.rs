//! Sending oneself a signal: how a test step stops or kills its process.
//!
//! # Safety
//! One system call without pointers.
#![allow(unsafe_code)]

/// Sends `signal` to this process; returns when it has been delivered and, for SIGSTOP, continued.
pub(crate) fn signal_self(signal: i32) {
    // SAFETY: no pointers; a process may always signal itself.
    unsafe { libc::kill(libc::getpid(), signal) };
}
