//! Drawing cases by a seed, and running many of which some may fail.

use super::process::now_ns;
use super::{Dice, long};
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Mutex;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Instant;

/// The seed of this run: `COMMONHOLD_SEED`, or another one each time, which is printed.
pub fn seed() -> u64 {
    let given = std::env::var("COMMONHOLD_SEED").ok().and_then(|text| text.parse().ok());
    let seed = given.unwrap_or_else(now_ns);
    eprintln!("COMMONHOLD_SEED={seed}");
    seed
}

/// A number of the cases of each fault of a table, or all in the long form.
pub fn drawn<C: Clone>(
    table: &[(&str, &[&str])],
    cases: Vec<C>,
    fault: impl Fn(&C) -> &str,
    of_each: usize,
    dice: &mut Dice,
) -> Vec<C> {
    if long() {
        return cases;
    }
    let mut chosen = Vec::new();
    for (name, _) in table {
        let start = format!("{name}:");
        let mut of_this: Vec<_> = cases.iter().filter(|c| fault(c).starts_with(&start)).collect();
        for _ in 0..of_each.min(of_this.len()) {
            let at = dice.below(of_this.len() as u64) as usize;
            chosen.push(of_this.swap_remove(at).clone());
        }
    }
    chosen
}

/// Runs all cases, then fails if any did, naming each.
#[track_caller]
pub fn run_all<T>(cases: &[T], name: impl Fn(&T) -> String, run: impl Fn(&T)) {
    let begun = Instant::now();
    let failed: Vec<_> = cases.iter().filter_map(|case| fails(case, &name, &run)).collect();
    conclude(cases.len(), begun, &failed);
}

/// The same, with several at a time: for cases that mostly wait.
#[track_caller]
pub fn run_all_together<T: Sync>(
    cases: &[T],
    at_a_time: usize,
    name: impl Fn(&T) -> String + Sync,
    run: impl Fn(&T) + Sync,
) {
    let (begun, next, failed) = (Instant::now(), AtomicUsize::new(0), Mutex::new(Vec::new()));
    std::thread::scope(|scope| {
        for _ in 0..at_a_time {
            scope.spawn(|| {
                while let Some(case) = cases.get(next.fetch_add(1, Ordering::Relaxed)) {
                    failed.lock().unwrap().extend(fails(case, &name, &run));
                }
            });
        }
    });
    conclude(cases.len(), begun, &failed.into_inner().unwrap());
}

/// How a case fails, if it does.
fn fails<T>(case: &T, name: impl Fn(&T) -> String, run: impl Fn(&T)) -> Option<String> {
    let panic = catch_unwind(AssertUnwindSafe(|| run(case))).err()?;
    let text = panic.downcast_ref::<String>().map_or("?", String::as_str);
    let text: String = text.chars().take(700).collect();
    let failure = format!("{}\n    {text}", name(case));
    // At once, too: the rest may take long.
    eprintln!("{failure}");
    Some(failure)
}

#[track_caller]
fn conclude(count: usize, begun: Instant, failed: &[String]) {
    eprintln!("{count} cases in {:?}", begun.elapsed());
    let number = failed.len();
    assert!(failed.is_empty(), "{number} of {count} failed:\n{}", failed.join("\n"));
}
