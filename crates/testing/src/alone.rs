//! A test, or a child, that shares nothing with the other tests of its process.

use crate::support::process::{Child, Watchdog};
use std::process::Command;
use std::time::Duration;

/// Longer than any test takes, unless it hangs.
pub const LONG: Duration = Duration::from_secs(60);

/// Runs a part of the test of this name in a process of its own, which shares no memory, threads or
/// descriptors with other tests.
#[track_caller]
pub fn alone(test: &str, body: impl FnOnce()) {
    const ALONE: &str = "COMMONHOLD_TEST_ALONE";
    if std::env::var_os(ALONE).is_some() {
        let _watchdog = Watchdog::new("a test alone", 10 * LONG);
        return body();
    }
    // Not forked: open files and locks of other tests would live on in it.
    let program = std::env::current_exe().unwrap();
    let output = Command::new(program).args(["--exact", test]).env(ALONE, "1").output().unwrap();
    let text = String::from_utf8_lossy(&output.stdout) + String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success() && text.contains("1 passed"), "{text}");
}

/// A child that closes the descriptors of other tests of this process: their connections would not
/// end before it does.
pub fn cast(name: impl Into<String>, body: impl FnOnce()) -> Child {
    Child::run(name, || {
        close_sockets();
        body();
    })
}

fn close_sockets() {
    let of = |entry: std::fs::DirEntry| {
        let is_socket = std::fs::read_link(entry.path()).ok()?.to_str()?.starts_with("socket:");
        is_socket.then(|| entry.file_name().to_str()?.parse::<i32>().ok())?
    };
    let all: Vec<i32> =
        std::fs::read_dir("/proc/self/fd").unwrap().filter_map(|entry| of(entry.ok()?)).collect();
    for fd in all {
        let _ = nix::unistd::close(fd);
    }
}

/// Drops it in a forked child, which then has threads of its own.
pub fn drop_in_child<T>(what: &str, value: &mut Option<T>) {
    Child::run(what, || {
        // The parent's is another copy.
        drop(value.take());
        let threads: Vec<_> = (0..4).map(|n| std::thread::spawn(move || n)).collect();
        let sum: i32 = threads.into_iter().map(|thread| thread.join().unwrap()).sum();
        assert_eq!(sum, 6);
    })
    .finish();
    assert!(value.is_some());
}
