//! Failing anywhere: a scenario in which every call that can fail does fail.
//!
//! For every fault that a scenario passes, with each of its errors, once and permanently, the
//! scenario runs in a process of its own. Every acknowledged change must be there, every answer
//! must be right or an error, and no process may hang; once the fault is lifted, everything must
//! work in the same process, and no descriptor may be left open. A scenario makes these checks
//! itself.
//!
//! `./test` draws some cases; `COMMONHOLD_LONG=1` runs all. `COMMONHOLD_SEED` draws those of an
//! earlier run, `COMMONHOLD_FAULT_CASE` runs one, as its failure names it.

use crate::alone::cast;
use crate::support::process::{Board, End, until};
use crate::support::test_dir::TestDir;
use crate::support::{Dice, cases};
use commonhold::steps::{self, arm_fault_of};
use std::path::PathBuf;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

/// How long a case may take.
pub const HANGS: Duration = Duration::from_secs(50);
/// Code that pauses after a fault does not meet it this often.
const SPINS: u64 = 50_000;
/// The number of cases that run at the same time: they wait most of the time.
const AT_A_TIME: usize = 6;

/// A crate's faults, with the errors of each.
type Table = &'static [(&'static str, &'static [&'static str])];

/// The work of a process while its calls fail.
#[derive(Clone, Copy)]
pub struct Scenario {
    pub name: &'static str,
    pub run: fn(&Trial),
}

/// One run of a scenario.
pub struct Trial {
    test_dir: TestDir,
    table: Table,
    /// The fault; `None` in a rehearsal.
    fault: Option<String>,
    /// How often that was met since.
    met: &'static AtomicU64,
}

impl Trial {
    fn new(table: Table, fault: Option<String>) -> Trial {
        let met = Box::leak(Box::new(AtomicU64::new(0)));
        Trial { test_dir: TestDir::memory(), table, fault, met }
    }

    pub fn path(&self, name: &str) -> PathBuf {
        self.test_dir.path(name)
    }

    /// From now on the fault occurs.
    pub fn arm(&self) {
        match &self.fault {
            Some(fault) => {
                arm_fault_of(self.table, fault).unwrap();
                self.count(fault.split(':').next().unwrap_or_default().to_owned());
            }
            None => REHEARSED.with(|rehearsed| {
                let (passed, table) = (rehearsed.get().expect("a board"), self.table);
                steps::observe_faults(move |name| {
                    if let Some(at) = table.iter().position(|(known, _)| *known == name) {
                        passed.count(at, 1);
                    }
                });
            }),
        }
    }

    fn count(&self, fault: String) {
        let met = self.met;
        steps::observe_faults(move |name| {
            if *name == *fault {
                met.fetch_add(1, Ordering::Relaxed);
            }
        });
    }

    /// From now on no fault occurs. Code that met an error must have paused before it retried.
    pub fn lift(&self) {
        arm_fault_of(self.table, "").unwrap();
        let met = self.met.load(Ordering::Relaxed);
        let is_short = self.fault.as_deref().is_some_and(|fault| fault.contains(":SHORT:"));
        assert!(is_short || met < SPINS, "it has met the fault {met} times");
    }

    /// Whether the fault of this name occurs: `name` or `name:error`.
    pub fn has(&self, name: &str) -> bool {
        let rest = self.fault.as_deref().and_then(|fault| fault.strip_prefix(name));
        rest.is_some_and(|rest| rest.starts_with(':'))
    }

    /// Whether any fault may occur.
    pub fn is_rehearsal(&self) -> bool {
        self.fault.is_none()
    }
}

thread_local! {
    /// The file in which a rehearsal counts the faults that it passes.
    static REHEARSED: std::cell::Cell<Option<&'static Board>> = const { std::cell::Cell::new(None) };
}

/// Descriptors that this process has open.
pub fn descriptors() -> usize {
    std::fs::read_dir("/proc/self/fd").unwrap().count()
}

/// A scenario and a fault of it as it is armed.
#[derive(Clone)]
struct Case {
    table: Table,
    scenario: Scenario,
    fault: String,
}

impl Case {
    fn name(&self) -> String {
        format!("{} / {}", self.scenario.name, self.fault)
    }

    fn run(&self) {
        play(self.table, self.scenario, Some(self.fault.clone()));
    }
}

fn play(table: Table, scenario: Scenario, fault: Option<String>) {
    let name = format!("'{}' with {fault:?}", scenario.name);
    let trial = Trial::new(table, fault);
    let mut child = cast(&*name, || (scenario.run)(&trial));
    assert_eq!(child.wait_for(HANGS), End::Well, "{name}");
}

/// How often a scenario passes each fault when nothing disturbs it.
fn rehearse(table: Table, scenario: Scenario) -> Vec<(usize, u64)> {
    let passed: &'static Board = Box::leak(Box::new(Board::new(table.len())));
    let trial = Trial::new(table, None);
    let mut child = cast(format!("rehearsal of '{}'", scenario.name), || {
        REHEARSED.set(Some(passed));
        (scenario.run)(&trial);
    });
    assert_eq!(child.wait_for(HANGS), End::Well, "rehearsal of '{}'", scenario.name);
    (0..table.len()).map(|n| (n, passed.get(n))).filter(|(_, n)| *n > 0).collect()
}

/// Each error of each fault, once and permanently, at the first passing and at a random one.
fn all_cases(table: Table, scenario: Scenario, dice: &mut Dice) -> Vec<Case> {
    let mut cases = Vec::new();
    for (number, passed) in rehearse(table, scenario) {
        let (name, errors) = table[number];
        for error in errors {
            for time in [1, 1 + dice.below(passed)] {
                let mut add = |how: &str| {
                    let fault = format!("{name}:{error}:{how}:{time}");
                    cases.push(Case { table, scenario, fault });
                };
                add("once");
                if !steps::is_transient(error) {
                    add("always");
                }
            }
        }
    }
    cases
}

/// Makes every fault of these areas happen in these scenarios.
#[track_caller]
pub fn fail(
    table: Vec<(&'static str, &'static [&'static str])>,
    scenarios: &[Scenario],
    areas: &[&str],
    of_each: usize,
) {
    let table: Table = table.leak();
    let mut dice = Dice::new(cases::seed());
    let given = std::env::var("COMMONHOLD_FAULT_CASE").ok();
    if let Some((name, fault)) = given.as_deref().and_then(|given| given.split_once(" / ")) {
        let wanted = scenarios.iter().find(|scenario| scenario.name == name);
        let _ = wanted.inspect(|scenario| play(table, **scenario, Some(fault.to_owned())));
        return;
    }
    let all: Vec<_> = scenarios.iter().flat_map(|s| all_cases(table, *s, &mut dice)).collect();
    let of_these = |name: &&str| areas.iter().any(|area| name.starts_with(area));
    let passed = |name: &str| all.iter().any(|case| case.fault.split(':').next() == Some(name));
    let names = table.iter().map(|(name, _)| *name).filter(of_these);
    let missed: Vec<_> = names.filter(|name| !passed(name)).collect();
    assert_eq!(missed, [""; 0], "no scenario passes these");
    let cases = cases::drawn(table, all, |case| &case.fault, of_each, &mut dice);
    cases::run_all_together(&cases, AT_A_TIME, Case::name, Case::run);
}

/// Waits until no more descriptors are open than before.
#[track_caller]
pub fn closes_down_to(before: usize) {
    until("descriptors are closed", || descriptors() <= before);
}
