//! A forked child detects that it is one, sleepers wake, and clocks run.

use super::super::fork::ForkMark;
use super::super::process_lock::ProcessLock;
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

/// Runs `work` in a child that has pid 1 in a namespace of its own; `None` if that is forbidden.
fn fork_as_first(work: impl FnOnce() -> i32) -> Option<Child> {
    // SAFETY: from now on, children of this process begin a namespace of pids.
    match unsafe { libc::unshare(libc::CLONE_NEWPID) } {
        0 => Some(Child::fork(work)),
        _ => None,
    }
}

/// Pid 1 forks while one of its threads holds the lock, and its child is pid 1, too.
#[test]
fn a_lock_of_the_parent_is_left_over_also_if_the_child_has_its_pid() {
    static LOCK: ProcessLock = ProcessLock::new();
    let forks = || {
        std::thread::spawn(|| LOCK.enter()).join().unwrap();
        let Some(child) = fork_as_first(|| {
            assert_eq!(std::process::id(), 1);
            i32::from(!LOCK.enter())
        }) else {
            return CANNOT_TRY;
        };
        child.join_within(PATIENCE)
    };
    // Forked first: `unshare` changes the children of the whole process.
    let code = Child::fork(|| match fork_as_first(forks) {
        Some(first) => first.join(),
        None => CANNOT_TRY,
    });
    match code.join() {
        CANNOT_TRY => eprintln!("NOT TRIED: equal pids, because namespaces are not permitted"),
        code => assert_eq!(code, 0),
    }
}

/// The signals that the calling thread receives.
fn received() -> Vec<bool> {
    let mut blocked = std::mem::MaybeUninit::<libc::sigset_t>::uninit();
    // SAFETY: the first call fills the set, which the others read.
    unsafe {
        libc::pthread_sigmask(libc::SIG_BLOCK, std::ptr::null(), blocked.as_mut_ptr());
        (1..32).map(|signal| libc::sigismember(blocked.as_ptr(), signal) == 0).collect()
    }
}

/// A handler that runs in a forking thread could wait forever for the lock that the thread has.
#[test]
fn a_fork_blocks_signals_only_while_it_lasts() {
    super::super::fork::without_fork(|| ()).unwrap();
    let before = received();
    let child = Child::fork(|| i32::from(received() != before));
    assert_eq!(child.join(), 0);
    assert_eq!(received(), before);
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
