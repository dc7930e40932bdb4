//! A forked child detects that it is one, sleepers wake, and clocks run.

use super::super::fork::ForkMark;
use super::super::{clock, futex};
use super::*;

#[test]
fn a_forked_child_finds_the_mark_cleared() {
    let mark = ForkMark::new().unwrap();
    assert!(!mark.inherited());
    let child = Child::fork(|| {
        let own = ForkMark::new().unwrap();
        i32::from(!mark.inherited() || own.inherited())
    });
    assert_eq!(child.join(), 0);
    assert!(!mark.inherited());
}

#[test]
fn so_does_the_child_of_a_bare_clone() {
    let mark = ForkMark::new().unwrap();
    // SAFETY: a fork without atfork handlers; the child of it makes only system calls.
    let pid = unsafe { libc::syscall(libc::SYS_clone, libc::SIGCHLD, 0, 0, 0, 0) };
    if pid == 0 {
        // SAFETY: ends the process.
        unsafe { libc::_exit(i32::from(!mark.inherited())) };
    }
    assert_eq!(Child(pid as libc::pid_t).join(), 0);
    assert!(!mark.inherited());
}

#[test]
fn a_wait_ends_by_another_value_a_wake_or_the_time() {
    let stage = Stage::new();
    futex::wait(stage.word(), 1, PATIENCE);
    futex::wait(stage.word(), 0, Duration::from_millis(1));
    let child = Child::fork(|| {
        stage.wait_for(1);
        0
    });
    stage.word().store(1, Ordering::Release);
    futex::wake_one(stage.word());
    assert_eq!(child.join(), 0);
}

#[test]
fn clocks_run() {
    let (first, second) = (clock::monotonic_ns(), clock::monotonic_ns());
    assert!(first <= second && first > 0);
    // The year 2020, in milliseconds.
    assert!(clock::realtime_ms() > 1_577_836_800_000);
}
