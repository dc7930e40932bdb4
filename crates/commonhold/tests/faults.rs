//! Failing anywhere, nothing is lost.
//!
//! For every fault that a scenario passes, with each error that it can be, once and for ever, a
//! victim runs the scenario to its end while a companion reads and writes in the same map. What
//! returned `Ok` is there, what returned an error has happened wholly or not at all, nobody panics,
//! hangs or blames the hold; with the fault lifted everything works, in the victim and elsewhere,
//! and the hold is whole. Then the same to one that recovers a victim, and to one that recovers that.
//!
//! `./test` draws some cases; `COMMONHOLD_LONG=1` runs all. `COMMONHOLD_SEED` draws those of an
//! earlier run, `COMMONHOLD_FAULT_CASE` runs one, as its failure names it.

use crate::support::company::{SECOND, VICTIM, accompany};
use crate::support::errands::ERRANDS;
use crate::support::process::{Board, Child, End, until};
use crate::support::scenario::{self, Scenario, word};
use crate::support::shape::Shape;
use crate::support::test_dir::TestDir;
use crate::support::{Dice, cases, long, script, uncertain, whole};
use commonhold::{Hold, steps};
use nix::sys::signal::Signal;
use std::collections::BTreeMap;
use std::path::Path;
use std::time::Duration;

/// Where the notes of the victim and of a recoverer begin on the board.
const NOTES: usize = word::ALL;
const SECOND_NOTES: usize = NOTES + uncertain::ROOM;
const THIRD_NOTES: usize = SECOND_NOTES + uncertain::ROOM;
const BOARD: usize = THIRD_NOTES + uncertain::ROOM;
/// In this word the parent lets the victim go on; the victim has said [`word::ANSWER`].
const GO: usize = word::ALL - 1;
/// An actor that works when the fault is lifted.
const AFTERWARDS: u32 = 4;
/// The last recoverer.
const THIRD: u32 = 5;
const HANGS: Duration = Duration::from_secs(40);

/// One scenario on one kind of file system.
#[derive(Clone, Copy)]
struct Place {
    scenario: Scenario,
    on_disk: bool,
}

const ON_DISK: [&str; 6] = ["mixed", "large", "streamed", "maps", "visits", "care"];

fn places() -> Vec<Place> {
    let in_memory = scenario::ALL.iter().chain(ERRANDS);
    let in_memory = in_memory.map(|scenario| Place { scenario: *scenario, on_disk: false });
    let on_disk = ON_DISK.map(|name| Place { scenario: scenario::by_name(name), on_disk: true });
    in_memory.chain(on_disk).collect()
}

impl Place {
    fn test_dir(&self) -> TestDir {
        if self.on_disk { TestDir::file() } else { TestDir::memory() }
    }

    fn name(&self) -> String {
        format!("{}{}", self.scenario.name, if self.on_disk { " on a disk" } else { "" })
    }

    /// How often it passes each fault when nothing disturbs it.
    fn passes(&self) -> Vec<(usize, u64)> {
        let test_dir = self.test_dir();
        let path = test_dir.path("it.hold");
        let (passed, board) = (Board::new(steps::FAULTS.len()), Board::new(BOARD));
        let passed: &Board = Box::leak(Box::new(passed));
        self.scenario.prepare(&path);
        Child::run(format!("rehearsal of '{}'", self.name()), || {
            steps::observe_faults(|name| {
                let number = steps::FAULTS.iter().position(|(known, _)| *known == name);
                passed.count(number.expect("a fault of the table"), 1);
            });
            let (_handles, failed) =
                uncertain::attempt(&self.scenario, &path, VICTIM, &board, word::VICTIM, NOTES);
            assert!(!failed, "nothing disturbs it");
        })
        .finish();
        (0..steps::FAULTS.len()).map(|n| (n, passed.get(n))).filter(|(_, n)| *n > 0).collect()
    }
}

/// A fault of a scenario as it is armed.
#[derive(Clone)]
struct Case {
    place: Place,
    fault: String,
}

impl Case {
    fn name(&self) -> String {
        format!("{} / {}", self.place.name(), self.fault)
    }
}

/// Each error of each fault, once and for ever, at the first passing and at one drawn.
fn all_cases(place: Place, dice: &mut Dice) -> Vec<Case> {
    let mut cases = Vec::new();
    for (number, passed) in place.passes() {
        let (name, errors) = steps::FAULTS[number];
        for error in errors {
            for time in [1, 1 + dice.below(passed)] {
                let mut add = |how: &str| {
                    let fault = format!("{name}:{error}:{how}:{time}");
                    cases.push(Case { place, fault });
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

/// A victim to whom a call fails, and its companion.
fn fail(case: &Case) {
    let (place, scenario) = (&case.place, &case.place.scenario);
    let (test_dir, board, what) = (place.test_dir(), Board::new(BOARD), case.name());
    let path = test_dir.path("it.hold");
    scenario.prepare(&path);
    let companion = Child::run(format!("companion; {what}"), || {
        let verified = |hold: &Hold, when: &str| {
            verify(scenario, hold, VICTIM, &board, when);
        };
        accompany(&path, scenario, &board, verified);
    });
    let mut victim = Child::run(format!("victim; {what}"), || {
        steps::arm_fault(&case.fault).unwrap();
        let (handles, _) = uncertain::attempt(scenario, &path, VICTIM, &board, word::VICTIM, NOTES);
        steps::arm_fault("").unwrap();
        board.put(word::ANSWER, 1);
        until("it may go on", || board.get(GO) == 1);
        works_again(scenario, &path, handles, &board);
    });
    until("the victim is through", || board.get(word::ANSWER) == 1 || victim.is_gone());
    board.put(word::ORDER, 1);
    companion.finish();
    board.put(GO, 1);
    assert_eq!(victim.wait_for(HANGS), End::Well, "victim; {what}");
    Child::run(format!("judge; {what}"), || {
        let (hold, _map) = scenario::open(&path, scenario.shape);
        whole(&hold, &what);
    })
    .finish();
}

fn verify(scenario: &Scenario, hold: &Hold, actor: u32, board: &Board, when: &str) {
    let (at, notes) = match actor {
        VICTIM => (word::VICTIM, NOTES),
        SECOND => (word::SECOND, SECOND_NOTES),
        _ => (word::SECOND, THIRD_NOTES),
    };
    uncertain::verify(scenario, hold, actor, board, at, notes, when);
}

/// With the fault lifted, in the process that it struck, with its own handles if it has any.
fn works_again(
    scenario: &Scenario,
    path: &Path,
    handles: Option<(Hold, commonhold::map::Map)>,
    board: &Board,
) {
    let when = "in the victim, with the fault lifted";
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

/// Passed by one that recovers; once in the life of a process; by the successor of one that failed.
const ELSEWHERE: [&str; 9] = [
    "recover.begin",
    "os.atfork",
    "os.boot-id",
    "rotate.stat",
    "rotate.shorten",
    "backup.directory",
    "backup.stat",
    "backup.look",
    "backup.rename",
];

/// Each error of a fault that is passed only after another one.
fn after_another() -> impl Iterator<Item = Case> {
    let place = Place { scenario: ERRANDS[1], on_disk: false };
    let such = |(name, _): &&(&str, _)| ["rotate.stat", "rotate.shorten"].contains(name);
    steps::FAULTS.iter().filter(such).flat_map(move |(name, errors)| {
        errors.iter().map(move |error| {
            let fault = format!("rotate.write:EIO:once:2,{name}:{error}:once");
            Case { place, fault }
        })
    })
}

#[test]
fn calls_fail_in_every_operation() {
    let mut dice = Dice::new(cases::seed());
    let places = places();
    let given = std::env::var("COMMONHOLD_FAULT_CASE").ok();
    if let Some((name, fault)) = given.as_deref().and_then(|given| given.split_once(" / ")) {
        let place = *places.iter().find(|place| place.name() == name).expect("a scenario");
        return fail(&Case { place, fault: fault.to_owned() });
    }
    let all: Vec<_> = places.iter().flat_map(|place| all_cases(*place, &mut dice)).collect();
    let passed = |name: &str| all.iter().any(|case| case.fault.split(':').next() == Some(name));
    let missed: Vec<_> = steps::FAULTS
        .iter()
        .map(|(name, _)| *name)
        .filter(|name| !passed(name) && !ELSEWHERE.contains(name))
        // These are passed by the operations of drafts.rs.
        .filter(|name| !["draft.", "salvage."].iter().any(|area| name.starts_with(area)))
        .collect();
    assert_eq!(missed, [""; 0], "no scenario passes these");
    let cases: Vec<_> = cases::drawn(steps::FAULTS, all, |case| &case.fault, 6, &mut dice)
        .into_iter()
        .chain(after_another())
        .collect();
    cases::run_all(&cases, Case::name, fail);
}

/// Scenarios whose victims are recovered under errors.
const KILLED: [&str; 11] = [
    "grow",
    "mixed",
    "large",
    "mixed words",
    "mixed pairs",
    "cache",
    "streamed",
    "streamed growth",
    "maps",
    "queue",
    "channel",
];

/// A victim killed at a step; perhaps one that recovers it, has a call fail and is killed, too; then
/// one to whom a call fails when it recovers all that.
struct Chain {
    scenario: Scenario,
    step: &'static str,
    between: Option<(String, &'static str)>,
    fault: String,
}

impl Chain {
    fn name(&self) -> String {
        let (victim, fault) = (self.scenario.name, &self.fault);
        let step = self.step;
        match &self.between {
            None => format!("'{victim}' killed at {step}, then {fault}"),
            Some((first, recovering)) => format!(
                "'{victim}' killed at {step}, recoverer at {recovering} with {first}, then {fault}"
            ),
        }
    }

    /// What a recoverer does: a script, which tells exactly what may be found.
    fn next(&self) -> Scenario {
        let is_general = self.scenario.shape == Shape::General;
        let name = match self.scenario.streams {
            true if is_general => "streamed",
            _ if is_general => "mixed",
            _ => self.scenario.name,
        };
        scenario::by_name(name)
    }
}

/// Kills and faults of a chain.
struct Chains {
    deaths: Vec<(Scenario, &'static str)>,
    recovering: Vec<&'static str>,
    /// By the name of what a recoverer does.
    passed: BTreeMap<&'static str, Vec<(usize, u64)>>,
}

impl Chains {
    fn new() -> Chains {
        let of =
            |scenario: Scenario| scenario.steps().into_iter().map(move |step| (scenario, step));
        let deaths: Vec<_> = KILLED.into_iter().map(scenario::by_name).flat_map(of).collect();
        let recovering = steps::ALL.iter().copied().filter(|s| s.starts_with("recover.")).collect();
        let mut chains = Chains { deaths, recovering, passed: BTreeMap::new() };
        for name in KILLED {
            let chain = Chain {
                scenario: scenario::by_name(name),
                step: "",
                between: None,
                fault: String::new(),
            };
            let next = chain.next();
            if !chains.passed.contains_key(next.name) {
                let mut passed = Place { scenario: next, on_disk: false }.passes();
                let begin = steps::FAULTS.iter().position(|(name, _)| *name == "recover.begin");
                passed.push((begin.unwrap(), 3));
                chains.passed.insert(next.name, passed);
            }
        }
        chains
    }

    fn draw(&self, twice: bool, dice: &mut Dice) -> Chain {
        let (scenario, step) = self.deaths[dice.below(self.deaths.len() as u64) as usize];
        let mut chain = Chain { scenario, step, between: None, fault: String::new() };
        chain.fault = self.draw_fault(chain.next().name, dice);
        if twice {
            let recovering = self.recovering[dice.below(self.recovering.len() as u64) as usize];
            chain.between = Some((self.draw_fault(chain.next().name, dice), recovering));
        }
        chain
    }

    fn draw_fault(&self, scenario: &str, dice: &mut Dice) -> String {
        let passed = &self.passed[scenario];
        let (number, times) = passed[dice.below(passed.len() as u64) as usize];
        let (name, errors) = steps::FAULTS[number];
        let error = errors[dice.below(errors.len() as u64) as usize];
        let how = if !steps::is_transient(error) && dice.one_in(2) { "always" } else { "once" };
        // Most of recovery comes first: when the hold is opened.
        format!("{name}:{error}:{how}:{}", 1 + dice.below(times.min(9)))
    }
}

fn kill_and_fail(chain: &Chain) {
    let (test_dir, board, what) = (TestDir::memory(), Board::new(BOARD), chain.name());
    let (path, scenario, next) = (test_dir.path("it.hold"), &chain.scenario, chain.next());
    scenario.prepare(&path);
    let mut victim = Child::run(format!("victim; {what}"), || {
        steps::arm(&format!("{}:kill", chain.step)).unwrap();
        scenario.run(&path, VICTIM, &board, word::VICTIM);
    });
    assert_eq!(victim.wait_for(HANGS), End::By(Signal::SIGKILL), "{what}");
    if let Some((fault, recovering)) = &chain.between {
        let mut first = Child::run(format!("first recoverer; {what}"), || {
            steps::arm_fault(fault).unwrap();
            steps::arm(&format!("{recovering}:kill")).unwrap();
            let kept = uncertain::attempt(&next, &path, SECOND, &board, word::SECOND, SECOND_NOTES);
            nix::sys::signal::raise(Signal::SIGKILL).unwrap();
            drop(kept);
        });
        assert_eq!(first.wait_for(HANGS), End::By(Signal::SIGKILL), "first recoverer; {what}");
    }
    let mut recoverer = Child::run(format!("recoverer; {what}"), || {
        steps::arm_fault(&chain.fault).unwrap();
        let (handles, _) =
            uncertain::attempt(&next, &path, THIRD, &board, word::SECOND, THIRD_NOTES);
        steps::arm_fault("").unwrap();
        let (hold, _map) = handles.unwrap_or_else(|| scenario::open(&path, next.shape));
        verify(&next, &hold, SECOND, &board, "in the recoverer");
        verify(&next, &hold, THIRD, &board, "in the recoverer");
        whole(&hold, "in the recoverer");
    });
    assert_eq!(recoverer.wait_for(HANGS), End::Well, "recoverer; {what}");
    Child::run(format!("judge; {what}"), || {
        let (hold, _map) = scenario::open(&path, scenario.shape);
        scenario.verify(&hold, VICTIM, &board, word::VICTIM, &what);
        verify(&next, &hold, SECOND, &board, &what);
        verify(&next, &hold, THIRD, &board, &what);
        whole(&hold, &what);
    })
    .finish();
}

fn chains(twice: bool) {
    let (mut dice, chains) = (Dice::new(cases::seed()), Chains::new());
    let count = if long() { 20_000 } else { 120 };
    let drawn: Vec<Chain> = (0..count).map(|_| chains.draw(twice, &mut dice)).collect();
    cases::run_all(&drawn, Chain::name, kill_and_fail);
}

#[test]
fn calls_fail_in_recovery() {
    chains(false);
}

#[test]
fn calls_fail_in_the_recovery_of_a_recoverer() {
    chains(true);
}

/// A system that never has a page at the moment: the caller once asked for ever.
#[test]
fn memory_that_is_never_to_be_had_at_the_moment_is_an_error() {
    let test_dir = TestDir::memory();
    Child::run("writer", || {
        let hold = Hold::create(test_dir.path("it.hold")).unwrap();
        let map = hold.maps().open_or_create("it", commonhold::map::MapOptions::general()).unwrap();
        let set = || map.set("large", vec![1; 1 << 20]);
        steps::arm_fault("os.populate:EAGAIN:always").unwrap();
        let error = set().expect_err("no page");
        assert_eq!(error.kind(), commonhold::ErrorKind::Io, "{error}");
        steps::arm_fault("os.populate:EAGAIN:once").unwrap();
        set().unwrap();
        whole(&hold, "afterwards");
    })
    .finish();
}

/// Passed once in the life of a process; and what is armed by the environment.
const FIRST_TIME: [&str; 2] = ["os.atfork:ENOMEM:once", "os.boot-id:EMFILE:once"];

/// Starts this binary again for each of them, where no other test has passed it.
#[test]
fn work_done_once_in_a_process_is_tried_again_after_an_error() {
    let test_dir = TestDir::memory();
    let fault = std::env::var("COMMONHOLD_FAULT").ok();
    if fault.is_none_or(|fault| !FIRST_TIME.contains(&fault.as_str())) {
        let own = std::env::current_exe().unwrap();
        let name = std::thread::current().name().unwrap().to_owned();
        for fault in FIRST_TIME {
            let mut again = std::process::Command::new(&own);
            let again = again.args(["--exact", &name]).env("COMMONHOLD_FAULT", fault);
            let output = again.output().unwrap();
            assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stdout));
        }
        return;
    }
    let path = test_dir.path("it.hold");
    let error = Hold::create(&path).expect_err("the fault");
    assert_eq!(error.kind(), commonhold::ErrorKind::Io, "{error}");
    let hold = Hold::open_or_create(&path).unwrap();
    whole(&hold, "afterwards");
}

/// An error of looking at the file is reported as it is, not as another file behind the name.
#[test]
fn a_file_that_cannot_be_looked_at_is_not_taken_for_another() {
    let test_dir = TestDir::memory();
    let hold = Hold::create(test_dir.path("it.hold")).unwrap();
    let map = hold.maps().open_or_create("it", commonhold::map::MapOptions::general()).unwrap();
    Child::run("cannot look at it", || {
        steps::arm_fault("os.fstat:EIO:always").unwrap();
        // A forked child takes a place of its own, for which it locks a byte of the file.
        let error = map.set("key", "value").expect_err("the fault");
        assert_eq!(error.kind(), commonhold::ErrorKind::Io, "{error}");
        steps::arm_fault("").unwrap();
        map.set("key", "value").unwrap();
    })
    .finish();
}
