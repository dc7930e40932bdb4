//! Instructions per operation against their budgets.
//!
//! Callgrind counts exactly, whatever the machine does meanwhile, so these are assertions where
//! times could not be. Only the release profile is counted: `cargo test --release -p
//! commonhold-budgets`, or `./test budgets`. With `BUDGETS=print` the table of all counts is
//! printed and nothing fails.
#![cfg(not(debug_assertions))]

use std::path::Path;
use std::process::Command;

/// An operation of the program, how often it runs, the budget per run, and the goal of the project
/// (0 for none). The counts vary by about 1% from run to run, with the secret seed of each map.
const BUDGETS: &[(&str, u32, u64, u64)] = &[
    ("map-general-get", 20_000, 248, 210),
    ("map-general-get_into", 20_000, 233, 0),
    ("map-general-miss", 20_000, 179, 160),
    ("map-general-get_many", 20_032, 295, 250),
    ("map-general-update", 20_000, 765, 450),
    ("map-general-put", 60_000, 752, 650),
    ("map-general-delete", 20_000, 562, 550),
    ("map-general-increment", 20_000, 811, 0),
    ("map-fixed-get", 20_000, 218, 190),
    ("map-fixed-miss", 20_000, 210, 0),
    ("map-fixed-get_many", 20_032, 259, 0),
    ("map-fixed-update", 20_000, 467, 400),
    ("map-fixed-put", 60_000, 990, 0),
    ("map-fixed-delete", 20_000, 428, 0),
    ("map-cache-get", 20_000, 354, 0),
    ("map-cache-update", 20_000, 1895, 0),
    ("map-streamed-update", 20_000, 2971, 0),
    ("queue-pull", 20_000, 193, 200),
    ("queue-push", 20_000, 166, 200),
    ("queue-pull_empty", 20_000, 103, 0),
    ("queue-move_many", 20_000, 36, 40),
    ("channel-send", 20_000, 75, 90),
    ("channel-recv", 20_000, 108, 90),
    ("log-write", 20_000, 246, 250),
];

/// The instructions inside `measured`, in all.
fn collected(operation: &str, count: u32, folder: &Path) -> u64 {
    let out = folder.join(operation);
    let program = env!("CARGO_BIN_EXE_commonhold-budgets");
    let output = Command::new("valgrind")
        .args(["--tool=callgrind", "--toggle-collect=*measured*"])
        .arg(format!("--callgrind-out-file={}", out.display()))
        .args([program, operation, &count.to_string()])
        .output()
        .expect("valgrind is not installed (apt-get install valgrind)");
    let log = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "{operation}: {log}");
    let total = log.lines().find_map(|line| line.split_once("Collected : "));
    let total = total.unwrap_or_else(|| panic!("{operation}: callgrind reports no count: {log}")).1;
    total.trim().parse().expect("a number")
}

/// Instructions of one turn of the loop without an operation.
fn empty(folder: &Path) -> u64 {
    const TIMES: u32 = 20_000;
    collected("map-general-empty", TIMES, folder) / u64::from(TIMES)
}

#[test]
fn every_operation_stays_within_its_budget() {
    let folder = tempfile::tempdir().unwrap();
    let only_prints = std::env::var("BUDGETS").is_ok_and(|what| what == "print");
    let empty = empty(folder.path());
    let mut wrong = Vec::new();
    println!("{:24} {:>6} {:>6} {:>6}", "operation", "count", "budget", "goal");
    for (operation, times, budget, goal) in BUDGETS {
        let all = collected(operation, *times, folder.path()) / u64::from(*times);
        // A turn of the loop moves a whole batch.
        let turn = if *operation == "queue-move_many" { 0 } else { empty };
        let count = all.saturating_sub(turn);
        println!("{operation:24} {count:6} {budget:6} {goal:6}");
        if count > *budget {
            wrong.push(format!("{operation} takes {count} instructions, its budget is {budget}"));
        }
    }
    assert!(only_prints || wrong.is_empty(), "{}", wrong.join("\n"));
}
