//! One process dead and another stopped, each at a named step of anything that is done in a hold,
//! while a third one makes every call that may wait: each of its calls ends in time.
//!
//! The one that is stopped goes on only when the third has ended, so a call that waits for it
//! without limit hangs, and is killed as hanging. What needs nothing of the two succeeds; what does
//! is `TimedOut`, and has left nothing. Afterwards the stopped one comes to its good end, and all
//! three have what they were told that they have.
//!
//! `./test` draws some pairs of steps, with `COMMONHOLD_LONG=1` each step meets each other.
//! `COMMONHOLD_SEED` draws those of an earlier run, `COMMONHOLD_PAIRS` says how many are drawn, and
//! `COMMONHOLD_PAIR` runs one, as its failure names it.

use crate::support::calls::{self, Third};
use crate::support::company::{SECOND, VICTIM};
use crate::support::errands::ERRANDS;
use crate::support::process::{Board, Child, End, pause};
use crate::support::scenario::{self, Scenario, word};
use crate::support::test_dir::TestDir;
use crate::support::{Dice, cases, long, whole};
use commonhold::{Hold, steps};
use nix::sys::signal::Signal;
use std::collections::BTreeMap;
use std::path::Path;
use std::time::{Duration, Instant};

/// How many pairs `./test` draws.
const SAMPLE: usize = 90;
/// Most of a meeting is waiting.
const AT_A_TIME: usize = 3;
/// The third one's name among actors, and its place on the board.
const THIRD: u32 = 5;
const NOTES: usize = word::ALL;
/// Those of one that has died before.
const BEFORE: u32 = 6;
const BEFORE_AT: usize = 10;
/// Whoever comes to no end in this time hangs.
const HANGS: Duration = Duration::from_secs(30);
/// In this time the second of the two comes to its step, or waits for the first.
const MEANWHILE: Duration = Duration::from_millis(300);

/// A step on the way of a scenario, and which passage of it counts.
#[derive(Clone, Copy)]
struct Place {
    scenario: Scenario,
    step: &'static str,
    time: u64,
}

impl Place {
    fn name(&self) -> String {
        format!("{} / {}:{}", self.scenario.name, self.step, self.time)
    }

    fn parse(parts: &mut std::str::Split<'_, &str>) -> Option<Place> {
        let (name, step) = (parts.next()?, parts.next()?);
        let (step, time) = step.split_once(':').expect("a step and which passing of it");
        let scenario = scenarios().find(|s| s.name == name).expect("a scenario");
        let step = steps::ALL.iter().find(|known| **known == step).expect("a step");
        Some(Place { scenario, step, time: time.parse().expect("a number") })
    }
}

/// Who comes first.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Order {
    /// One stands still when the other comes and dies.
    Still,
    /// One has died when the other comes, recovers what can be recovered, and is stopped.
    Dead,
    /// Both run at the same time.
    Neither,
}

const ORDERS: [(&str, Order); 3] =
    [("still first", Order::Still), ("dead first", Order::Dead), ("together", Order::Neither)];

/// One killed, one stopped; and, where the first is to die as a recoverer, one that died before.
struct Pair {
    order: Order,
    dead: Place,
    still: Place,
    before: Option<Place>,
}

impl Pair {
    fn name(&self) -> String {
        let order = ORDERS.iter().find(|(_, order)| *order == self.order).expect("an order").0;
        let places = [Some(self.dead), Some(self.still), self.before];
        let places = places.into_iter().flatten().map(|place| format!(" / {}", place.name()));
        format!("{order}{}", places.collect::<String>())
    }

    fn parse(text: &str) -> Pair {
        let mut parts = text.split(" / ");
        let order = parts.next().expect("an order");
        let order = ORDERS.iter().find(|(name, _)| *name == order).expect("an order").1;
        let mut place = || Place::parse(&mut parts);
        let (dead, still) = (place().expect("one that dies"), place().expect("one that stands"));
        Pair { order, dead, still, before: place() }
    }
}

/// Those of errands that can be repeated while somebody else works.
fn scenarios() -> impl Iterator<Item = Scenario> {
    let errands = ERRANDS.iter().filter(|s| ["log", "notifier", "memory"].contains(&s.name));
    scenario::ALL.iter().chain(errands).copied()
}

fn is_of_recovery(step: &str) -> bool {
    step.starts_with("recover.")
}

/// Steps at which one may have what belongs to the hold as a whole, or be settling one who had.
fn may_have_all(step: &str) -> bool {
    const AREAS: [&str; 14] = [
        "create.",
        "drop.",
        "block.",
        "free.",
        "run.",
        "shadow.",
        "stream.frozen",
        "stream.linked",
        "stream.renumbered",
        "stream.ended",
        "stream.begun",
        "freeze.",
        "grow.",
        "recover.",
    ];
    AREAS.iter().any(|area| step.starts_with(area))
}

/// Which scenarios pass each step, and how often.
struct Atlas {
    passing: BTreeMap<&'static str, Vec<(Scenario, u64)>>,
}

impl Atlas {
    fn new() -> Atlas {
        let mut passing: BTreeMap<_, Vec<_>> = BTreeMap::new();
        for scenario in scenarios() {
            for (step, times) in scenario.passes() {
                passing.entry(step).or_default().push((scenario, times));
            }
        }
        Atlas { passing }
    }

    fn steps(&self) -> Vec<&'static str> {
        let recovery = steps::ALL.iter().copied().filter(|step| is_of_recovery(step));
        self.passing.keys().copied().chain(recovery).collect()
    }

    fn place(&self, step: &'static str, dice: &mut Dice) -> Place {
        if is_of_recovery(step) {
            let scenarios: Vec<_> = scenarios().collect();
            let scenario = scenarios[dice.below(scenarios.len() as u64) as usize];
            return Place { scenario, step, time: 1 };
        }
        let passing = &self.passing[step];
        let (scenario, times) = passing[dice.below(passing.len() as u64) as usize];
        let time = if dice.one_in(2) { 1 } else { 1 + dice.below(times) };
        Place { scenario, step, time }
    }

    fn any_pair(&self, steps: &[&'static str], dice: &mut Dice) -> Pair {
        let mut step = || steps[dice.below(steps.len() as u64) as usize];
        let (dead, still) = (step(), step());
        self.pair(dead, still, dice)
    }

    fn pair(&self, dead: &'static str, still: &'static str, dice: &mut Dice) -> Pair {
        let order = match dice.below(4) {
            // Only who finds one dead recovers it.
            _ if is_of_recovery(still) => Order::Dead,
            0 => Order::Dead,
            1 => Order::Neither,
            _ => Order::Still,
        };
        let mut other = || {
            let steps: Vec<_> = self.passing.keys().copied().collect();
            self.place(steps[dice.below(steps.len() as u64) as usize], dice)
        };
        let before = is_of_recovery(dead).then(&mut other);
        let (dead, still) = (self.place(dead, dice), self.place(still, dice));
        Pair { order, dead, still, before }
    }
}

/// The place in the map of `other`, or in the map `own` if its mode is another.
fn in_shared_map(place: &Place, other: &Scenario, own: &'static str) -> Place {
    let map = if place.scenario.shape == other.shape { other.map } else { own };
    Place { scenario: place.scenario.on(map), ..*place }
}

/// The processes of one pair.
struct Meeting<'a> {
    path: &'a Path,
    board: &'a Board,
    what: String,
}

impl Meeting<'_> {
    /// Runs a scenario until it is stopped or killed at its step, if it passes it.
    fn begin(&self, role: &Role, how: &str) -> Child {
        Child::run(format!("{}; {}", role.what, self.what), || {
            let place = &role.place;
            steps::arm(&format!("{}:{how}:{}", place.step, place.time)).unwrap();
            place.scenario.run(self.path, role.actor, self.board, role.at);
        })
    }

    /// Until it is dead. Who waits for one that stands still dies waiting.
    fn die(&self, role: &Role) {
        let (child, late) = (self.begin(role, "kill"), Instant::now() + MEANWHILE);
        while !child.is_gone() && Instant::now() < late {
            pause();
        }
        let end = child.slay();
        assert!(matches!(end, End::Well | End::By(Signal::SIGKILL)), "{}: {end:?}", role.what);
    }

    /// The one that stands still, whether it does, when the other one is dead.
    fn assemble(&self, pair: &Pair, dead: &Role, still: &Role) -> (Child, bool) {
        if pair.order == Order::Dead {
            self.die(dead);
        }
        let mut stopped = self.begin(still, "stop");
        let stands = (pair.order == Order::Still).then(|| stopped.wait_stopped());
        if pair.order != Order::Dead {
            self.die(dead);
        }
        let stands = stands.unwrap_or_else(|| stopped.wait_stopped());
        (stopped, stands)
    }
}

/// Somebody who runs a scenario.
struct Role {
    what: &'static str,
    place: Place,
    actor: u32,
    /// Where it notes its progress.
    at: usize,
}

impl Role {
    fn verify(&self, hold: &Hold, board: &Board, when: &str) {
        self.place.scenario.verify(hold, self.actor, board, self.at, when);
    }
}

fn meet(pair: &Pair) {
    let (test_dir, board) = (TestDir::memory(), Board::new(NOTES + Third::room()));
    let path = test_dir.path("it.hold");
    let meeting = Meeting { path: &path, board: &board, what: pair.name() };
    let first = &pair.dead.scenario;
    let dead = Role { what: "dead", place: pair.dead, actor: VICTIM, at: word::VICTIM };
    let still = in_shared_map(&pair.still, first, "of the still one");
    let still = Role { what: "still", place: still, actor: SECOND, at: word::SECOND };
    let before = pair.before.map(|place| in_shared_map(&place, first, "before"));
    let before = before.map(|place| Role { what: "before", place, actor: BEFORE, at: BEFORE_AT });
    let roles = || [Some(&dead), Some(&still), before.as_ref()].into_iter().flatten();
    roles().for_each(|role| role.place.scenario.prepare(&path));
    calls::prepare(&path);
    before.iter().for_each(|role| meeting.die(role));
    let (mut stopped, stands) = meeting.assemble(pair, &dead, &still);
    let third = Third {
        path: &path,
        scenario: first,
        actor: THIRD,
        board: &board,
        at: NOTES,
        is_global: may_have_all(pair.still.step),
    };
    let end = Child::run(format!("third; {}", meeting.what), || third.run()).wait_for(HANGS);
    assert_eq!(end, End::Well, "third, at line {} of support/calls.rs", third.line());
    if stands {
        stopped.signal(Signal::SIGCONT);
    }
    assert_eq!(stopped.wait_for(HANGS), End::Well, "the one that stood still");
    Child::run(format!("judge; {}", meeting.what), || {
        let hold = Hold::open(&path).unwrap();
        hold.sweep().unwrap();
        roles().for_each(|role| role.verify(&hold, &board, role.what));
        third.verify(&hold);
        whole(&hold, "afterwards");
    })
    .finish();
}

#[test]
fn dead_and_stopped_processes_hold_up_nobody() {
    if let Ok(pair) = std::env::var("COMMONHOLD_PAIR") {
        return meet(&Pair::parse(&pair));
    }
    let (mut dice, atlas) = (Dice::new(cases::seed()), Atlas::new());
    let steps = atlas.steps();
    let all = steps.iter().flat_map(|dead| steps.iter().map(move |still| (*dead, *still)));
    let pairs: Vec<Pair> = match long() {
        true => all.map(|(dead, still)| atlas.pair(dead, still, &mut dice)).collect(),
        false => (0..count()).map(|_| atlas.any_pair(&steps, &mut dice)).collect(),
    };
    cases::run_all_together(&pairs, AT_A_TIME, Pair::name, meet);
}

/// How many pairs are drawn, unless each is met: a few, or `COMMONHOLD_PAIRS`.
fn count() -> usize {
    let given = std::env::var("COMMONHOLD_PAIRS").ok();
    given.map_or(SAMPLE, |count| count.parse().expect("COMMONHOLD_PAIRS: a number"))
}
