//! Processes that stand still, or are dead, at a named step; and third parties, who must come to an
//! end all the same.

use super::process::{Child, End, until};
use commonhold::{Error, ErrorKind, Result, steps};
use nix::sys::signal::Signal;
use std::time::Duration;

/// What third parties give as their `lock_timeout`.
pub const PATIENCE: Duration = Duration::from_millis(200);
/// Who has not ended after that hangs: a hundred times their patience.
pub const WATCHDOG: Duration = Duration::from_secs(20);

/// A process that stands still at a step of what it does.
#[track_caller]
pub fn stopped(step: &str, does: impl FnOnce()) -> Child {
    let mut child = Child::run(format!("stopped at {step}"), || {
        steps::arm(&format!("{step}:stop")).unwrap();
        does();
    });
    assert!(child.wait_stopped(), "does not come to {step}: {:?}", child.wait());
    child
}

/// A process that is killed at a step of what it does.
#[track_caller]
pub fn killed(step: &str, does: impl FnOnce()) {
    let mut child = Child::run(format!("killed at {step}"), || {
        steps::arm(&format!("{step}:kill")).unwrap();
        does();
    });
    assert_eq!(child.wait(), End::By(Signal::SIGKILL), "{step}");
}

/// A process that does this and ends in time, whoever else stands still.
#[track_caller]
pub fn third(name: impl Into<String>, does: impl FnOnce()) {
    let name = name.into();
    assert_eq!(Child::run(name.clone(), does).wait_for(WATCHDOG), End::Well, "{name}");
}

/// Lets one that stands still go on, to its good end.
#[track_caller]
pub fn go_on(mut child: Child) {
    child.signal(Signal::SIGCONT);
    assert_eq!(child.wait(), End::Well);
}

/// What a call that may wait returned in time, or nothing: what it needs is held.
#[track_caller]
pub fn in_time<T>(result: Result<T>) -> Option<T> {
    match result {
        Ok(value) => Some(value),
        Err(error) if matches!(error.kind(), ErrorKind::TimedOut | ErrorKind::Busy) => None,
        Err(error) => panic!("{error}"),
    }
}

/// It ended because its patience did, and names the process that is in the way.
#[track_caller]
pub fn timed_out<T>(result: Result<T>, by: &Child) {
    let error: Error = result.err().expect("what it needs is held");
    assert_eq!(error.kind(), ErrorKind::TimedOut, "{error}");
    assert!(error.to_string().contains(&format!("(process {})", by.pid())), "{error}");
}

/// Waits until `count` threads of a process that have this name sleep.
#[track_caller]
pub fn until_asleep(process: i32, name: &str, count: usize) {
    let asleep = || {
        let tasks = std::fs::read_dir(format!("/proc/{process}/task")).unwrap();
        let stats = tasks
            .filter_map(|task| std::fs::read_to_string(task.unwrap().path().join("stat")).ok());
        let sleeps = |stat: &String| stat.contains(&format!("({name}")) && stat.contains(") S ");
        stats.filter(sleeps).count()
    };
    until("the waiting threads sleep", || asleep() >= count);
}
