//! Panicking anywhere, nothing is lost, and nothing stays locked.
//!
//! For every named step that a scenario passes, a victim panics there, catches that, and goes on
//! with the same handles, while a companion reads and writes in the same map. What returned `Ok` is
//! there, what panicked has happened wholly or not at all, nobody hangs, and the hold is whole while
//! the victim still lives. Then the same to one that recovers a victim that was killed.
//!
//! `./test` draws some cases; `COMMONHOLD_LONG=1` runs all. `COMMONHOLD_SEED` draws those of an
//! earlier run, `COMMONHOLD_PANIC_CASE` runs one, as its failure names it.

use crate::support::company::{SECOND, VICTIM, accompany};
use crate::support::errands::ERRANDS;
use crate::support::process::{Board, Child, End, until};
use crate::support::scenario::{self, Scenario, word};
use crate::support::test_dir::TestDir;
use crate::support::{Dice, cases, long, script, uncertain, whole};
use commonhold::map::Map;
use commonhold::{Error, ErrorKind, Hold, Result, steps};
use nix::sys::signal::Signal;
use std::panic::{AssertUnwindSafe, catch_unwind, resume_unwind};
use std::path::Path;
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::Duration;

/// Where the notes of the victim and of a recoverer begin on the board.
const NOTES: usize = word::ALL;
const SECOND_NOTES: usize = NOTES + uncertain::ROOM;
const BOARD: usize = SECOND_NOTES + uncertain::ROOM;
/// In this word the parent lets the victim go on; the victim has said [`word::ANSWER`].
const GO: usize = word::ALL - 1;
/// An actor that works afterwards.
const AFTERWARDS: u32 = 4;
const HANGS: Duration = Duration::from_secs(40);

/// A step of a scenario, and at which passing the victim panics.
struct Case {
    scenario: Scenario,
    step: &'static str,
    time: u64,
}

impl Case {
    fn name(&self) -> String {
        format!("{} / {}:{}", self.scenario.name, self.step, self.time)
    }

    fn arm(&self) {
        steps::arm(&format!("{}:panic:{}", self.step, self.time)).unwrap();
    }
}

fn scenarios() -> impl Iterator<Item = Scenario> {
    scenario::ALL.iter().chain(ERRANDS).copied()
}

/// The steps that a scenario passes when nothing disturbs it, and how often.
fn passes(scenario: &Scenario) -> Vec<(&'static str, u64)> {
    let test_dir = TestDir::memory();
    let path = test_dir.path("it.hold");
    let (passed, board) = (Board::new(steps::ALL.len()), Board::new(BOARD));
    let passed: &Board = Box::leak(Box::new(passed));
    scenario.prepare(&path);
    Child::run(format!("rehearsal of '{}'", scenario.name), || {
        steps::observe(|name| {
            let number = steps::ALL.iter().position(|step| *step == name);
            passed.count(number.expect("a step of the list"), 1);
        });
        let (_handles, failed) = attempt(scenario, &path, VICTIM, &board, word::VICTIM, NOTES);
        assert!(!failed, "nothing disturbs it");
    })
    .finish();
    let all = steps::ALL.iter().enumerate().map(|(number, step)| (*step, passed.get(number)));
    all.filter(|(_, times)| *times > 0).collect()
}

/// A panic at the armed step is an error; any other one ends the test.
fn caught<T>(work: impl FnOnce() -> Result<T>) -> Result<T> {
    catch_unwind(AssertUnwindSafe(work)).unwrap_or_else(|panic| {
        let text = panic.downcast_ref::<String>().map_or("", String::as_str);
        match text.starts_with("armed at step") {
            true => Err(Error::new(ErrorKind::Io, text)),
            false => resume_unwind(panic),
        }
    })
}

/// Runs a scenario whatever panics: a script to its end, with the same handles; anything else to its
/// first panic. Returns the handles of a script, and whether anything panicked.
fn attempt(
    scenario: &Scenario,
    path: &Path,
    actor: u32,
    board: &Board,
    at: usize,
    notes: usize,
) -> (Option<(Hold, Map)>, bool) {
    let Some(script) = scenario.script(actor) else {
        let result = caught(|| scenario.run_whole(path, board, at));
        return (None, result.inspect_err(plausible).is_err());
    };
    let mut failed = false;
    loop {
        match caught(|| uncertain::open(path, scenario)) {
            Ok((hold, map)) => {
                let perform = |op: &script::Op| caught(|| op.perform(&map, scenario.shape));
                failed |= uncertain::run_with(perform, scenario.shape, &script, board, notes) > 0;
                return (Some((hold, map)), failed);
            }
            Err(error) => {
                assert!(!failed, "it panics once: {error}");
                plausible(&error);
                failed = true;
            }
        }
    }
}

/// Nothing fails but what panicked.
fn plausible(error: &Error) {
    assert!(error.to_string().starts_with("armed at step"), "after a panic: {error:?}");
}

fn verify(scenario: &Scenario, hold: &Hold, actor: u32, board: &Board, when: &str) {
    let (at, notes) =
        if actor == VICTIM { (word::VICTIM, NOTES) } else { (word::SECOND, SECOND_NOTES) };
    uncertain::verify(scenario, hold, actor, board, at, notes, when);
}

/// A victim that panics, and its companion.
fn panic_and_go_on(case: &Case) {
    let (test_dir, board, what) = (TestDir::memory(), Board::new(BOARD), case.name());
    let (path, scenario) = (test_dir.path("it.hold"), &case.scenario);
    scenario.prepare(&path);
    let companion = Child::run(format!("companion; {what}"), || {
        let verified = |hold: &Hold, when: &str| verify(scenario, hold, VICTIM, &board, when);
        accompany(&path, scenario, &board, verified);
    });
    let mut victim = Child::run(format!("victim; {what}"), || {
        if scenario.script(VICTIM).is_none() {
            scenario::keep(Hold::open(&path).unwrap());
        }
        case.arm();
        let (handles, _) = attempt(scenario, &path, VICTIM, &board, word::VICTIM, NOTES);
        steps::arm("").unwrap();
        board.put(word::ANSWER, 1);
        until("it may go on", || board.get(GO) == 1);
        works_again(scenario, &path, handles, &board);
    });
    until("the victim is through", || board.get(word::ANSWER) == 1 || victim.is_gone());
    board.put(word::ORDER, 1);
    companion.finish();
    board.put(GO, 1);
    assert_eq!(victim.wait_for(HANGS), End::Well, "victim; {what}");
    judge(&path, scenario, &what);
}

/// Afterwards, in the victim, with its own handles if it has any.
fn works_again(scenario: &Scenario, path: &Path, handles: Option<(Hold, Map)>, board: &Board) {
    let when = "in the victim, afterwards";
    let (hold, map) = handles.unwrap_or_else(|| scenario::open(path, scenario.shape));
    match scenario.script(AFTERWARDS) {
        Some(script) => {
            verify(scenario, &hold, VICTIM, board, when);
            script::run(&map, scenario.shape, &script, board, word::SECOND);
        }
        None => scenario.run_whole(path, board, word::SECOND).unwrap(),
    }
    whole(&hold, when);
}

fn judge(path: &Path, scenario: &Scenario, what: &str) {
    Child::run(format!("judge; {what}"), || {
        let (hold, _map) = scenario::open(path, scenario.shape);
        whole(&hold, what);
    })
    .finish();
}

/// Of each step the first passing and one drawn, in every scenario; or a few of them.
fn drawn(dice: &mut Dice) -> Vec<Case> {
    let mut all = Vec::new();
    for scenario in scenarios() {
        for (step, times) in passes(&scenario) {
            all.push(Case { scenario, step, time: 1 });
            all.push(Case { scenario, step, time: 1 + dice.below(times) });
        }
    }
    if long() {
        return all;
    }
    let mut chosen = Vec::new();
    for step in steps::ALL {
        let of_this: Vec<_> = (0..all.len()).filter(|n| all[*n].step == *step).collect();
        if !of_this.is_empty() {
            chosen.push(all.swap_remove(of_this[dice.below(of_this.len() as u64) as usize]));
        }
    }
    chosen
}

#[test]
fn panics_at_every_step_of_every_operation() {
    let mut dice = Dice::new(cases::seed());
    if let Ok(given) = std::env::var("COMMONHOLD_PANIC_CASE") {
        let case = scenarios().find_map(|scenario| {
            let armed = given.strip_prefix(scenario.name)?.strip_prefix(" / ")?;
            let (step, time) = armed.split_once(':')?;
            let step = steps::ALL.iter().find(|known| **known == step)?;
            Some(Case { scenario, step, time: time.parse().ok()? })
        });
        return panic_and_go_on(&case.expect("a case"));
    }
    cases::run_all(&drawn(&mut dice), Case::name, panic_and_go_on);
}

/// A panic in the end of a registration: the next end of the same one, in the drop, does not wait for
/// it, and others recover what is left while the process lives.
#[test]
fn a_panic_in_close_leaves_the_rest_to_recovery() {
    for step in ["extent.released", "recover.begun"] {
        let (test_dir, scenario) = (TestDir::memory(), scenario::by_name("mixed"));
        let (path, board) = (test_dir.path("it.hold"), Board::new(BOARD));
        scenario.prepare(&path);
        let mut closer = Child::run(format!("closer, at {step}"), || {
            let (hold, map) = scenario::open(&path, scenario.shape);
            for id in 0..100 {
                map.set(scenario.shape.key(id), scenario.shape.value(id, 1)).unwrap();
            }
            steps::arm(&format!("{step}:panic")).unwrap();
            let closed = caught(|| hold.close());
            assert!(closed.is_err_and(|error| error.to_string().starts_with("armed at step")));
            board.put(word::ANSWER, 1);
            until("it may go on", || board.get(GO) == 1);
            drop(map);
        });
        until("it is through", || board.get(word::ANSWER) == 1 || closer.is_gone());
        Child::run(format!("judge, while {step} has panicked"), || {
            let (hold, _map) = scenario::open(&path, scenario.shape);
            hold.sweep().unwrap();
            assert_eq!(hold.participants().unwrap().len(), 1);
            whole(&hold, step);
        })
        .finish();
        board.put(GO, 1);
        assert_eq!(closer.wait_for(HANGS), End::Well, "{step}");
        judge(&path, &scenario, step);
    }
}

/// A victim that is killed at a step, and the step at which a recoverer panics.
struct Chain {
    victim: Scenario,
    killed_at: &'static str,
    recoverer: Case,
}

impl Chain {
    fn name(&self) -> String {
        let (victim, step) = (self.victim.name, self.killed_at);
        format!("'{victim}' killed at {step}, then {}", self.recoverer.name())
    }
}

/// Chains whose victim did not come to its step: which extents an evicting map empties depends on its
/// random seed.
static MISSED: AtomicU32 = AtomicU32::new(0);

fn kill_and_panic(chain: &Chain) {
    let (test_dir, board, what) = (TestDir::memory(), Board::new(BOARD), chain.name());
    let (path, scenario, next) =
        (test_dir.path("it.hold"), &chain.victim, &chain.recoverer.scenario);
    scenario.prepare(&path);
    let mut victim = Child::run(format!("victim; {what}"), || {
        steps::arm(&format!("{}:kill", chain.killed_at)).unwrap();
        scenario.run(&path, VICTIM, &board, word::VICTIM);
    });
    let end = victim.wait_for(HANGS);
    if end == End::Well {
        MISSED.fetch_add(1, Ordering::Relaxed);
        return;
    }
    assert_eq!(end, End::By(Signal::SIGKILL), "{what}");
    let mut recoverer = Child::run(format!("recoverer; {what}"), || {
        chain.recoverer.arm();
        let (handles, _) = attempt(next, &path, SECOND, &board, word::SECOND, SECOND_NOTES);
        let (hold, _map) = handles.unwrap();
        let _ = caught(|| hold.sweep());
        steps::arm("").unwrap();
        hold.sweep().unwrap();
        scenario.verify(&hold, VICTIM, &board, word::VICTIM, "in the recoverer");
        verify(next, &hold, SECOND, &board, "in the recoverer");
        whole(&hold, "in the recoverer");
    });
    assert_eq!(recoverer.wait_for(HANGS), End::Well, "recoverer; {what}");
    judge(&path, scenario, &what);
}

/// Scenarios whose victims are recovered.
const KILLED: [&str; 9] =
    ["grow", "mixed", "large", "mixed pairs", "evicting", "streamed", "maps", "queue", "channel"];

#[test]
fn panics_at_every_step_of_recovery() {
    let mut dice = Dice::new(cases::seed());
    let victims = KILLED.map(scenario::by_name).map(|victim| (victim, victim.steps()));
    let recovering: Vec<_> = steps::ALL.iter().filter(|s| s.starts_with("recover.")).collect();
    let count: u32 = if long() { 5000 } else { 40 };
    let chains: Vec<_> = (0..count)
        .map(|n| {
            let (victim, steps) = &victims[dice.below(victims.len() as u64) as usize];
            let killed_at = steps[dice.below(steps.len() as u64) as usize];
            let next = match victim.script(VICTIM) {
                Some(_) => *victim,
                None => scenario::by_name("mixed"),
            };
            let (step, time) = (*recovering[n as usize % recovering.len()], 1 + dice.below(2));
            let recoverer = Case { scenario: next, step, time };
            Chain { victim: *victim, killed_at, recoverer }
        })
        .collect();
    cases::run_all(&chains, Chain::name, kill_and_panic);
    let missed = MISSED.load(Ordering::Relaxed);
    assert!(missed * 10 <= count, "{missed} of {count} victims did not come to their step");
}
