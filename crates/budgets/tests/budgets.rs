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
/// (0 for none). The counts vary from run to run with the secret seed of each map: by about 1%, and
/// those of puts now and then by more, because the seed decides how many segments split.
const BUDGETS: &[(&str, u32, u64, u64)] = &[
    ("map-general-get", 20_000, 215, 210),
    ("map-general-get_into", 20_000, 211, 0),
    ("map-general-miss", 20_000, 163, 160),
    ("map-general-get_many", 20_032, 250, 250),
    ("map-general-update", 20_000, 426, 450),
    ("map-general-put", 60_000, 738, 650),
    ("map-general-delete", 20_000, 498, 550),
    ("map-general-increment", 20_000, 732, 0),
    ("map-general-pair_get", 20_000, 44, 50),
    ("map-general-pair_set", 20_000, 163, 0),
    ("map-fixed-get", 20_000, 193, 190),
    ("map-fixed-miss", 20_000, 181, 0),
    ("map-fixed-get_many", 20_032, 207, 0),
    ("map-fixed-update", 20_000, 375, 400),
    ("map-fixed-put", 60_000, 643, 0),
    ("map-fixed-delete", 20_000, 345, 0),
    ("map-fixed-pair_get", 20_000, 39, 50),
    ("map-fixed-pair_set", 20_000, 231, 0),
    ("map-cache-get", 20_000, 301, 0),
    ("map-cache-update", 20_000, 1159, 0),
    ("map-streamed-update", 20_000, 1412, 0),
    ("map-general-update_wide", 20_000, 890, 0),
    ("map-streamed-update_wide", 20_000, 1577, 0),
    ("queue-pull", 20_000, 166, 200),
    ("queue-push", 20_000, 177, 200),
    ("queue-pull_empty", 20_000, 90, 0),
    ("queue-move_many", 20_000, 24, 20),
    ("channel-send", 20_000, 84, 90),
    ("channel-recv", 20_000, 75, 90),
    ("log-write", 20_000, 254, 250),
    ("log-collect", 20_000, 645, 0),
];

/// How often an operation is counted that exceeds its budget.
const MOST_COUNTS: u32 = 4;

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
        // The other loops make no key.
        let turn = if operation.starts_with("map-") { empty } else { 0 };
        let count = || {
            let all = collected(operation, *times, folder.path()) / u64::from(*times);
            all.saturating_sub(turn)
        };
        // Another seed may need fewer splits; longer code takes more with every seed.
        let least_of = |least: u64, _| if least > *budget { least.min(count()) } else { least };
        let count = (1..MOST_COUNTS).fold(count(), least_of);
        println!("{operation:24} {count:6} {budget:6} {goal:6}");
        if count > *budget {
            wrong.push(format!("{operation} takes {count} instructions, its budget is {budget}"));
        }
    }
    assert!(only_prints || wrong.is_empty(), "{}", wrong.join("\n"));
}
