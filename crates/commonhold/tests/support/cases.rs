//! Drawing cases by a seed, and running many of which some may fail.

use super::process::now_ns;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::time::Instant;

/// The seed of this run: `COMMONHOLD_SEED`, or another one each time, which is printed.
pub fn seed() -> u64 {
    let given = std::env::var("COMMONHOLD_SEED").ok().and_then(|text| text.parse().ok());
    let seed = given.unwrap_or_else(now_ns);
    eprintln!("COMMONHOLD_SEED={seed}");
    seed
}

/// Runs all cases, then fails if any did, naming each.
#[track_caller]
pub fn run_all<T>(cases: &[T], name: impl Fn(&T) -> String, run: impl Fn(&T)) {
    let begun = Instant::now();
    let mut failed = Vec::new();
    for case in cases {
        if let Err(panic) = catch_unwind(AssertUnwindSafe(|| run(case))) {
            let text = panic.downcast_ref::<String>().map_or("?", String::as_str);
            let text: String = text.chars().take(700).collect();
            failed.push(format!("{}\n    {text}", name(case)));
        }
    }
    eprintln!("{} cases in {:?}", cases.len(), begun.elapsed());
    let count = failed.len();
    assert!(failed.is_empty(), "{count} of {} failed:\n{}", cases.len(), failed.join("\n"));
}
