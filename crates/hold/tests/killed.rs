//! Commands that a signal ends leave nothing behind, and end by that signal.
//!
//! A command is signalled at an instant that is drawn; whether that was in the middle shows by how
//! it ended. Every named step of the library is covered there.

use crate::support::TestDir;
use rustix::process::{Pid, Signal, kill_process};
use std::os::unix::process::ExitStatusExt;
use std::process::Stdio;
use std::time::Duration;

const PAIRS: u32 = 30_000;
const FILES: [&str; 3] = ["shop.hold", "shop.backup", "old.csv"];

/// The file that a command creates, and how it is created.
const COMMANDS: [(&str, &[&str]); 4] = [
    ("new.csv", &["dump", "shop", "prices", "-o", "new.csv", "--quiet"]),
    ("old.csv", &["dump", "shop", "prices", "-o", "old.csv", "--quiet"]),
    ("other.backup", &["backup", "shop", "other.backup", "--quiet"]),
    ("other.hold", &["restore", "shop.backup", "other", "--quiet"]),
];

/// Signals it after that time; true if it was ended by that.
fn ended_by(test_dir: &TestDir, args: &[&str], signal: Signal, after: Duration) -> bool {
    let mut command = test_dir.command(args);
    command.stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null());
    let mut child = command.spawn().expect("the command starts");
    std::thread::sleep(after);
    // Until it is waited for its number is its own.
    let _ = kill_process(Pid::from_child(&child), signal);
    let status = child.wait().expect("it ends");
    match status.signal() {
        Some(number) => assert_eq!(number, signal.as_raw(), "{args:?}"),
        None => assert_eq!(status.code(), Some(0), "{args:?}"),
    }
    status.signal().is_some()
}

#[test]
fn a_command_that_is_killed_leaves_nothing_behind() {
    let test_dir = TestDir::new();
    let map = test_dir.map("shop", "prices");
    for number in 0..PAIRS {
        map.set(format!("key {number}"), "value".repeat(10)).unwrap();
    }
    drop(map);
    test_dir.ok(&["backup", "shop", "shop.backup"]);
    test_dir.ok(&["dump", "shop", "prices", "-o", "whole.csv"]);
    let whole = test_dir.read("whole.csv");
    std::fs::remove_file(test_dir.path("whole.csv")).unwrap();
    let (mut random, mut cut_short) = (7u64, 0);
    for (made, args) in COMMANDS {
        for signal in [Signal::INT, Signal::TERM, Signal::KILL].repeat(5) {
            test_dir.file("old.csv", "old\n");
            random = random.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1);
            let after = Duration::from_micros((random >> 33) % 60_000);
            let killed = ended_by(&test_dir, args, signal, after);
            cut_short += u32::from(killed);
            // A file of its name may be whole for an instant before the command ends.
            let left = test_dir.leftovers(&FILES);
            assert!(left.is_empty() || left == [made], "{args:?}, {signal:?}: {left:?}");
            assert!(killed || made == "old.csv" || left == [made], "{args:?}: nothing was made");
            match made {
                "old.csv" => {
                    let found = test_dir.read(made);
                    assert!(found == whole || killed && found == b"old\n", "{signal:?}");
                }
                "new.csv" if !left.is_empty() => assert!(test_dir.read(made) == whole),
                "other.hold" if !left.is_empty() => {
                    assert_eq!(test_dir.map_len("other", "prices"), u64::from(PAIRS));
                }
                "other.backup" if !left.is_empty() => {
                    test_dir.ok(&["restore", "other.backup", "another"]);
                    test_dir.ok(&["drop", "another", "--yes"]);
                }
                _ => {}
            }
            if made != "old.csv" && !left.is_empty() {
                std::fs::remove_file(test_dir.path(made)).unwrap();
            }
        }
    }
    assert!(cut_short > 0, "none was killed in the middle");
}
