//! What a victim does on its way to the step where it is stopped or killed.
//!
//! Together the scenarios pass every step of [`commonhold::steps::ALL`] except those of recovery, which
//! a second participant passes when it recovers a victim. A scenario either runs a script on its own
//! keys of the common map, whose outcome is known exactly ([`Expected`]), or uses the hold as a whole
//! and says itself what must be found afterwards.

use super::Dice;
use super::expiry;
use super::messages;
use super::process::{Board, Child};
use super::script::{self, Expected, Op};
use super::shape::Shape;
use commonhold::map::{Map, MapOptions};
use commonhold::stream::{ChangeKind, StreamPosition};
use commonhold::{Hold, Result};
use std::collections::{BTreeMap, BTreeSet};
use std::path::Path;
use std::sync::Mutex;

/// The map that all actors share.
pub const COMMON: &str = "common";

/// Words of the board.
pub mod word {
    /// Operations begun by the victim; the next word: done.
    pub const VICTIM: usize = 0;
    /// The same of a second actor.
    pub const SECOND: usize = 2;
    /// Rounds of the companion.
    pub const PROGRESS: usize = 4;
    /// What the companion is told.
    pub const ORDER: usize = 5;
    /// What the companion has carried out.
    pub const ANSWER: usize = 6;
    /// How many there are, with those of a scenario's own behind its first.
    pub const ALL: usize = 128;
}

/// One way to pass steps.
#[derive(Clone, Copy)]
pub struct Scenario {
    /// For messages and for choosing one.
    pub name: &'static str,
    /// The mode of the common map.
    pub shape: Shape,
    /// Whether the common map has a stream, which must tell the same as the map.
    pub streams: bool,
    /// The common map's name.
    pub map: &'static str,
    act: Act,
}

#[derive(Clone, Copy)]
enum Act {
    Script(fn(Shape, u32) -> Vec<Op>),
    Whole { run: fn(&Path, &Board, usize) -> Result<()>, verify: fn(&Hold, &Board, usize) },
}

/// All of them.
pub const ALL: &[Scenario] = &[
    script("grow", Shape::General, growing),
    script("mixed", Shape::General, mixing),
    script("mixed short", Shape::Short, mixing),
    script("large", Shape::Big, few_large),
    script("many", Shape::General, in_batches),
    script("words", Shape::Fixed(4, 4), growing),
    script("mixed words", Shape::Fixed(4, 4), mixing),
    script("pairs", Shape::Fixed(8, 8), growing),
    script("mixed pairs", Shape::Fixed(16, 16), mixing),
    script("cache", Shape::Cache, mixing),
    script("evicting", Shape::Evicting(300), growing),
    streamed("streamed", Shape::General, mixing),
    streamed("streamed growth", Shape::General, growing),
    streamed("streamed words", Shape::Fixed(4, 4), mixing),
    streamed("streamed pairs", Shape::Fixed(16, 16), mixing),
    streamed("streamed cache", Shape::Evicting(300), growing),
    whole("maps", make_and_drop_maps, maps_are_whole_or_gone),
    whole("shadow-map", swap_in_shadow_maps, one_of_them_is_whole),
    whole("visits", open_and_close, visits_add_up),
    whole("care", care_for_the_hold, |_, _, _| ()),
    whole("empty", fill_and_empty, the_rest_is_right),
    whole("expiring", expiry::let_expire, expiry::the_rest_expires),
    whole("queue", messages::move_elements, messages::elements_are_conserved),
    whole("channel", messages::pass_messages, messages::messages_are_whole),
    whole("tables", outgrow_the_tables, all_in_the_tables),
];

const fn script(name: &'static str, shape: Shape, plan: fn(Shape, u32) -> Vec<Op>) -> Scenario {
    Scenario { name, shape, streams: false, map: COMMON, act: Act::Script(plan) }
}

const fn streamed(name: &'static str, shape: Shape, plan: fn(Shape, u32) -> Vec<Op>) -> Scenario {
    Scenario { streams: true, ..script(name, shape, plan) }
}

pub const fn whole(
    name: &'static str,
    run: fn(&Path, &Board, usize) -> Result<()>,
    verify: fn(&Hold, &Board, usize),
) -> Scenario {
    let act = Act::Whole { run, verify };
    Scenario { name, shape: Shape::General, streams: false, map: COMMON, act }
}

/// The scenario of this name.
pub fn by_name(name: &str) -> Scenario {
    *ALL.iter().find(|s| s.name == name).expect("a scenario")
}

impl Scenario {
    /// What it does to the common map as `actor`, if it is a script.
    pub fn script(&self, actor: u32) -> Option<Vec<Op>> {
        match self.act {
            Act::Script(plan) => Some(plan(self.shape, actor)),
            Act::Whole { .. } => None,
        }
    }

    /// Runs one that is no script, up to its first error.
    pub fn run_whole(&self, path: &Path, board: &Board, at: usize) -> Result<()> {
        match self.act {
            Act::Script(_) => Ok(()),
            Act::Whole { run, .. } => run(path, board, at),
        }
    }

    /// The steps that it passes when nothing disturbs it; those of recovery aside, which closing passes, too.
    pub fn steps(&self) -> Vec<&'static str> {
        self.passes().into_iter().map(|(step, _)| step).collect()
    }

    /// The same, with how often it passes each.
    pub fn passes(&self) -> Vec<(&'static str, u64)> {
        use commonhold::steps;
        let test_dir = super::test_dir::TestDir::memory();
        let path = test_dir.path("it.hold");
        let passed: &Board = Box::leak(Box::new(Board::new(steps::ALL.len())));
        let board = Board::new(word::ALL);
        self.prepare(&path);
        let rehearsal = Child::run(format!("rehearsal of '{}'", self.name), || {
            steps::observe(|name| {
                let number = steps::ALL.iter().position(|step| *step == name);
                passed.count(number.expect("a step of the list"), 1);
            });
            self.run(&path, 1, &board, word::VICTIM);
        });
        rehearsal.finish();
        let all = steps::ALL.iter().enumerate().map(|(n, step)| (*step, passed.get(n)));
        all.filter(|(step, n)| *n > 0 && !step.starts_with("recover.")).collect()
    }

    /// The same on a map of another name.
    pub fn on(self, map: &'static str) -> Scenario {
        Scenario { map, ..self }
    }

    /// The common map through a handle of one's own.
    pub fn open(&self, path: &Path) -> (Hold, Map) {
        let hold = Hold::open_or_create(path).unwrap();
        let map = hold.maps().open_or_create(self.map, self.shape.options()).unwrap();
        (hold, map)
    }

    /// A hold with the common map in it and nobody using it.
    pub fn prepare(&self, path: &Path) {
        Child::run("preparation", || {
            let (hold, _map) = self.open(path);
            if self.streams {
                hold.maps().begin_stream(self.map, STREAM_BYTES).unwrap();
            }
        })
        .finish();
    }

    /// Runs it as `actor`, noting progress at word `at`.
    pub fn run(&self, path: &Path, actor: u32, board: &Board, at: usize) {
        match self.act {
            Act::Script(plan) => {
                let (_hold, map) = self.open(path);
                script::run(&map, self.shape, &plan(self.shape, actor), board, at);
            }
            Act::Whole { run, .. } => run(path, board, at).unwrap(),
        }
    }

    /// Checks what it left, however far it came.
    #[track_caller]
    pub fn verify(&self, hold: &Hold, actor: u32, board: &Board, at: usize, when: &str) {
        if self.streams {
            stream_agrees(&hold.maps().open(self.map).unwrap(), when);
        }
        match self.act {
            Act::Script(plan) => {
                let map = hold.maps().open(self.map).unwrap();
                let expected =
                    Expected::from_board(self.shape, &plan(self.shape, actor), board, at);
                expected.verify(&map, when);
            }
            Act::Whole { verify, .. } => verify(hold, board, at),
        }
    }
}

/// Nothing of a scenario is overwritten in it.
const STREAM_BYTES: u64 = 16 << 20;

/// A handle that scenarios of this process use, each a clone, instead of opening their own.
static KEPT: Mutex<Option<Hold>> = Mutex::new(None);

/// From now on scenarios of this process use this handle.
pub fn keep(hold: Hold) {
    *KEPT.lock().unwrap() = Some(hold);
}

/// The handle that a scenario uses.
pub fn visit(path: &Path) -> Result<Hold> {
    match &*KEPT.lock().unwrap() {
        Some(hold) => Ok(hold.clone()),
        None => Hold::open(path),
    }
}

/// The common map through a handle of one's own.
pub fn open(path: &Path, shape: Shape) -> (Hold, Map) {
    let hold = Hold::open_or_create(path).unwrap();
    let map = hold.maps().open_or_create(COMMON, shape.options()).unwrap();
    (hold, map)
}

/// Whoever has followed the map from its beginning has what the map has. Nobody writes meanwhile.
#[track_caller]
pub fn stream_agrees(map: &Map, when: &str) {
    let follower = map.follow().unwrap();
    let beginning = StreamPosition { offset: 0, ..follower.position() };
    let end = follower.end().unwrap();
    let mut follower = map.follow_from(beginning).unwrap();
    let mut told: BTreeMap<Vec<u8>, Vec<u8>> = BTreeMap::new();
    while let Some(frame) = follower.try_recv().unwrap() {
        match frame.kind {
            ChangeKind::Set => drop(told.insert(frame.key.into(), frame.value.into())),
            ChangeKind::Gap => panic!("{when}: nothing here is too large for the stream"),
            _ => assert!(told.remove(frame.key).is_some(), "{when}: {frame:?} of an absent key"),
        }
    }
    assert_eq!(follower.position(), end, "{when}");
    let found: BTreeMap<Vec<u8>, Vec<u8>> = map.iter().map(Result::unwrap).collect();
    for (key, value) in &found {
        assert_eq!(told.get(key), Some(value), "{when}: {key:?}");
    }
    assert_eq!(told.len(), found.len(), "{when}: told of keys that are not there");
}

/// What the actor who notes its progress at word `at` calls what only it uses.
pub fn own(name: &str, at: usize) -> String {
    if at == word::VICTIM { name.to_owned() } else { format!("{name}, of {at}") }
}

/// Whether a name is one of those.
pub fn is_own(name: &str, at: usize) -> bool {
    if at == word::VICTIM { !name.contains(", of ") } else { name.contains(&own("", at)) }
}

/// The first key number of an actor.
pub fn first(actor: u32) -> u32 {
    actor << 20
}

fn growing(shape: Shape, actor: u32) -> Vec<Op> {
    // More than the first 16 segments have slots for: whatever the hash, some are split.
    let mut ops: Vec<Op> = (0..3600).map(|n| Op::Set(first(actor) + n, shape.fit(1))).collect();
    ops.extend((0..300).map(|n| Op::Set(first(actor) + n * 5, shape.fit(2))));
    ops.extend((0..800).map(|n| Op::Delete(first(actor) + n * 2)));
    ops
}

fn mixing(shape: Shape, actor: u32) -> Vec<Op> {
    script::mixed(shape, first(actor), 60, 400, &mut Dice::new(actor as u64))
}

fn few_large(shape: Shape, actor: u32) -> Vec<Op> {
    script::mixed(shape, first(actor), 6, 60, &mut Dice::new(actor as u64))
}

fn in_batches(shape: Shape, actor: u32) -> Vec<Op> {
    let batch = |n: u32| (0..50).map(|i| (first(actor) + (n * 37 + i) % 400, n as u64)).collect();
    (1..30).map(|n| Op::SetMany(batch(n))).map(|op| fitted(op, shape)).collect()
}

fn fitted(op: Op, shape: Shape) -> Op {
    match op {
        Op::SetMany(pairs) => {
            Op::SetMany(pairs.into_iter().map(|(k, v)| (k, shape.fit(v))).collect())
        }
        other => other,
    }
}

const MAPS: u64 = 5;
const KEYS: u32 = 40;

/// Makes maps, fills them, drops every second one.
fn make_and_drop_maps(path: &Path, board: &Board, at: usize) -> Result<()> {
    let hold = visit(path)?;
    for n in 1..=MAPS {
        board.put(at, n);
        let name = own(&format!("own {n}"), at);
        let map = hold.maps().open_or_create(&name, MapOptions::general())?;
        for id in 0..KEYS {
            map.set(Shape::General.key(id), Shape::General.value(id, n))?;
            if id == KEYS / 2 {
                hold.maps().begin_stream(&name, 1 << 18)?;
            }
            if id == KEYS * 3 / 4 {
                hold.maps().begin_stream(&name, 1 << 17)?;
            }
        }
        if n % 2 == 0 {
            assert!(hold.maps().drop(&name)?);
        }
        board.put(at + 1, n);
    }
    Ok(())
}

fn maps_are_whole_or_gone(hold: &Hold, board: &Board, at: usize) {
    let (begun, done) = (board.get(at), board.get(at + 1));
    for n in 1..=MAPS {
        let name = own(&format!("own {n}"), at);
        let map = hold.maps().open(&name).ok();
        if n <= done {
            assert_eq!(map.is_some(), n % 2 == 1, "{name}");
        }
        if n > begun {
            assert!(map.is_none(), "{name} was never made");
        }
        let Some(map) = map else { continue };
        let pairs: Vec<_> = map.iter().map(Result::unwrap).collect();
        for (key, value) in &pairs {
            let id = Shape::General.id(key).unwrap();
            assert_eq!(Shape::General.version(id, value), Ok(n));
        }
        assert!(pairs.len() == KEYS as usize || n > done, "{name} has {} pairs", pairs.len());
        assert_eq!(map.len().unwrap(), pairs.len() as u64);
    }
    // Whatever happened to them, the names can be used again.
    let name = own("own 2", at);
    let again = hold.maps().open_or_create(&name, MapOptions::general()).unwrap();
    again.set("a", "b").unwrap();
    assert!(hold.maps().drop(&name).unwrap());
}

const FOLLOWED: &str = "a map with a name longer than a word";
const NEXT: &str = ".next/a map with a name longer than a word";

/// A replica's shadow map is built and takes the place of the map.
fn swap_in_shadow_maps(path: &Path, board: &Board, at: usize) -> Result<()> {
    let hold = visit(path)?;
    let (name, next_name) = (own(FOLLOWED, at), own(NEXT, at));
    hold.maps().open_replica(&name, MapOptions::general())?;
    for n in 1..=MAPS {
        let next = commonhold::raw::create_shadow_map(&hold, &next_name, &name)?;
        for id in 0..KEYS {
            next.set(Shape::General.key(id), Shape::General.value(id, n))?;
        }
        board.put(at, n);
        commonhold::raw::swap_in_shadow_map(&hold, &next_name, &name)?;
        board.put(at + 1, n);
    }
    Ok(())
}

fn one_of_them_is_whole(hold: &Hold, board: &Board, at: usize) {
    let (begun, done) = (board.get(at), board.get(at + 1));
    let (name, next) = (own(FOLLOWED, at), own(NEXT, at));
    let Ok(map) = hold.maps().open(&name) else {
        assert_eq!(begun, 0, "the name leads nowhere");
        return;
    };
    assert_eq!(map.name(), name);
    let pairs: Vec<_> = map.iter().map(Result::unwrap).collect();
    let version = |(key, value): &(Vec<u8>, Vec<u8>)| {
        Shape::General.version(Shape::General.id(key).unwrap(), value).unwrap()
    };
    let versions: BTreeSet<u64> = pairs.iter().map(version).collect();
    assert!(versions.len() <= 1, "{versions:?}");
    assert_eq!(pairs.len(), if versions.is_empty() { 0 } else { KEYS as usize });
    let version = versions.first().copied().unwrap_or(0);
    assert!((done..=begun).contains(&version), "{done} <= {version} <= {begun}");
    // Whoever comes next can begin anew.
    commonhold::raw::create_shadow_map(hold, &next, &name).unwrap().set("a", "b").unwrap();
    assert!(hold.maps().drop(&next).unwrap() && hold.maps().drop(&name).unwrap());
    let left: Vec<_> = hold.maps().list().unwrap().into_iter().map(|map| map.name).collect();
    let is_left = |name: &String| name.contains(FOLLOWED) && is_own(name, at);
    assert!(!left.iter().any(is_left), "{left:?}");
}

const VISITS: &[u8] = b"visits";

/// Opens and closes the hold: slots are claimed and released.
fn open_and_close(path: &Path, board: &Board, at: usize) -> Result<()> {
    for n in 1..=6 {
        board.put(at, n);
        let hold = Hold::open(path)?;
        hold.maps()
            .open_or_create(&own("visited", at), MapOptions::general())?
            .increment(VISITS, 1)?;
        hold.close()?;
        board.put(at + 1, n);
    }
    Ok(())
}

fn visits_add_up(hold: &Hold, board: &Board, at: usize) {
    let map = hold.maps().open_or_create(&own("visited", at), MapOptions::general()).unwrap();
    let visits = map.increment(VISITS, 0).unwrap() as u64;
    let (begun, done) = (board.get(at), board.get(at + 1));
    assert!((done..=begun).contains(&visits), "{visits} visits, {done} done, {begun} begun");
}

/// What is not about single keys: check, freeze, trim, backup.
fn care_for_the_hold(path: &Path, board: &Board, at: usize) -> Result<()> {
    let hold = visit(path)?;
    let map = hold.maps().open_or_create(&own("cared for", at), MapOptions::general())?;
    for n in 1..=2u64 {
        board.put(at, n);
        for id in 0..600u32 {
            map.set(id.to_le_bytes(), [n as u8; 300])?;
        }
        let report = hold.check()?;
        assert!(report.ok, "{:?}", report.problems);
        drop(hold.freeze()?);
        for id in 0..600u32 {
            map.delete(id.to_le_bytes())?;
        }
        hold.trim()?;
        let copy = path.with_extension(own(&format!("backup{n}"), at));
        let _ = std::fs::remove_file(&copy);
        hold.backup(&copy)?;
        board.put(at + 1, n);
    }
    Ok(())
}

/// Fills a map of its own and empties it, with pairs of both kinds of memory.
fn fill_and_empty(path: &Path, board: &Board, at: usize) -> Result<()> {
    let hold = visit(path)?;
    let map = hold.maps().open_or_create(&own("emptied", at), MapOptions::general())?;
    for n in 1..=2u64 {
        board.put(at, n);
        for id in 0..400 {
            let shape = if id < 12 { Shape::Big } else { Shape::General };
            map.set(shape.key(id), shape.value(id, n))?;
        }
        assert_eq!(map.clear()?, 400);
        hold.trim()?;
        board.put(at + 1, n);
    }
    Ok(())
}

fn the_rest_is_right(hold: &Hold, board: &Board, at: usize) {
    let Ok(map) = hold.maps().open(&own("emptied", at)) else { return };
    let (begun, done) = (board.get(at), board.get(at + 1));
    let mut count = 0;
    for pair in map.iter() {
        let (key, value) = pair.unwrap();
        let id = Shape::General.id(&key).unwrap();
        let shape = if id < 12 { Shape::Big } else { Shape::General };
        assert_eq!(shape.version(id, &value), Ok(begun));
        count += 1;
    }
    assert_eq!(count, map.len().unwrap());
    assert!(begun > done || count == 0, "{count} pairs after all was cleared");
}

/// More maps than the first table has places for (56), and more participants (60).
const TABLED: u64 = 58;
const HANDLES: u64 = 70;

fn outgrow_the_tables(path: &Path, board: &Board, at: usize) -> Result<()> {
    let hold = visit(path)?;
    let mut handles = Vec::new();
    for n in 1..=TABLED.max(HANDLES) {
        board.put(at, n);
        if n <= HANDLES {
            handles.push(Hold::open(path)?);
        }
        if n <= TABLED {
            hold.maps()
                .open_or_create(&own(&format!("tabled {n}"), at), Shape::Fixed(4, 4).options())?
                .set([1; 4], [2; 4])?;
        }
        board.put(at + 1, n);
    }
    Ok(())
}

fn all_in_the_tables(hold: &Hold, board: &Board, at: usize) {
    for n in 1..=TABLED {
        let map = hold
            .maps()
            .open_or_create(&own(&format!("tabled {n}"), at), Shape::Fixed(4, 4).options())
            .unwrap();
        let found = map.get([1; 4]).unwrap();
        assert!(n > board.get(at + 1) || found == Some(vec![2; 4]), "map {n}: {found:?}");
    }
}
