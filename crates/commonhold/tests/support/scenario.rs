//! What a victim does on its way to the step where it is stopped or killed.
//!
//! Together the scenarios pass every step of [`commonhold::steps::ALL`] except those of recovery, which
//! a second participant passes when it recovers a victim. A scenario either runs a script on its own
//! keys of the common map, whose outcome is known exactly ([`Expected`]), or uses the hold as a whole
//! and says itself what must be found afterwards.

use super::Dice;
use super::expiry;
use super::process::{Board, Child};
use super::script::{self, Expected, Op};
use super::shape::Shape;
use commonhold::{
    ChangeKind, ChannelOptions, Hold, Join, Map, MapOptions, Policy, Queue, QueueOptions, Result,
    StreamPosition,
};
use std::collections::{BTreeMap, BTreeSet};
use std::path::Path;
use std::sync::Mutex;
use std::time::Duration;

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
    whole("succession", succeed_one_another, one_of_them_is_whole),
    whole("visits", open_and_close, visits_add_up),
    whole("care", care_for_the_hold, |_, _, _| ()),
    whole("empty", fill_and_empty, whatever_is_left_is_right),
    whole("expiring", expiry::let_expire, expiry::the_rest_expires),
    whole("queue", move_elements, elements_are_conserved),
    whole("channel", pass_messages, messages_are_whole),
    whole("tables", outgrow_the_tables, all_in_the_tables),
];

const fn script(name: &'static str, shape: Shape, plan: fn(Shape, u32) -> Vec<Op>) -> Scenario {
    Scenario { name, shape, streams: false, act: Act::Script(plan) }
}

const fn streamed(name: &'static str, shape: Shape, plan: fn(Shape, u32) -> Vec<Op>) -> Scenario {
    Scenario { streams: true, ..script(name, shape, plan) }
}

pub const fn whole(
    name: &'static str,
    run: fn(&Path, &Board, usize) -> Result<()>,
    verify: fn(&Hold, &Board, usize),
) -> Scenario {
    Scenario { name, shape: Shape::General, streams: false, act: Act::Whole { run, verify } }
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
        use commonhold::steps;
        let ground = super::ground::Ground::memory();
        let path = ground.path("it.hold");
        let passed: &Board = Box::leak(Box::new(Board::new(steps::ALL.len())));
        let board = Board::new(word::ALL);
        self.prepare(&path);
        let rehearsal = Child::run(format!("rehearsal of '{}'", self.name), || {
            steps::observe(|name| {
                let number = steps::ALL.iter().position(|step| *step == name);
                passed.put(number.expect("a step of the list"), 1);
            });
            self.run(&path, 1, &board, word::VICTIM);
        });
        rehearsal.finish();
        let all = steps::ALL.iter().enumerate();
        let of_interest = all.filter(|(n, s)| passed.get(*n) == 1 && !s.starts_with("recover."));
        of_interest.map(|(_, step)| *step).collect()
    }

    /// A hold with the common map in it and nobody using it.
    pub fn prepare(&self, path: &Path) {
        Child::run("preparation", || {
            let (hold, _map) = open(path, self.shape);
            if self.streams {
                assert!(hold.begin_stream(COMMON, STREAM_BYTES).unwrap());
            }
        })
        .finish();
    }

    /// Runs it as `actor`, noting progress at word `at`.
    pub fn run(&self, path: &Path, actor: u32, board: &Board, at: usize) {
        match self.act {
            Act::Script(plan) => {
                let (_hold, map) = open(path, self.shape);
                script::run(&map, self.shape, &plan(self.shape, actor), board, at);
            }
            Act::Whole { run, .. } => run(path, board, at).unwrap(),
        }
    }

    /// Checks what it left, however far it came.
    #[track_caller]
    pub fn verify(&self, hold: &Hold, actor: u32, board: &Board, at: usize, when: &str) {
        if self.streams {
            stream_tells_the_same(&hold.open_map(COMMON).unwrap(), when);
        }
        match self.act {
            Act::Script(plan) => {
                let map = hold.open_map(COMMON).unwrap();
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
    let map = hold.map(COMMON, shape.options()).unwrap();
    (hold, map)
}

/// Whoever has followed the map from its beginning has what the map has. Nobody writes meanwhile.
#[track_caller]
pub fn stream_tells_the_same(map: &Map, when: &str) {
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
        let map = hold.map(&format!("own {n}"), MapOptions::general())?;
        for id in 0..KEYS {
            map.set(Shape::General.key(id), Shape::General.value(id, n))?;
            if id == KEYS / 2 {
                hold.begin_stream(&format!("own {n}"), 1 << 18)?;
            }
        }
        if n % 2 == 0 {
            assert!(hold.drop_map(&format!("own {n}"))?);
        }
        board.put(at + 1, n);
    }
    Ok(())
}

fn maps_are_whole_or_gone(hold: &Hold, board: &Board, at: usize) {
    let (begun, done) = (board.get(at), board.get(at + 1));
    for n in 1..=MAPS {
        let name = format!("own {n}");
        let map = hold.open_map(&name).ok();
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
    let again = hold.map("own 2", MapOptions::general()).unwrap();
    again.set("a", "b").unwrap();
    assert!(hold.drop_map("own 2").unwrap());
}

const FOLLOWED: &str = "a map with a name longer than a word";
const NEXT: &str = ".next/a map with a name longer than a word";

/// A replica's map is built anew beside the old one and takes its place.
fn succeed_one_another(path: &Path, board: &Board, at: usize) -> Result<()> {
    let hold = visit(path)?;
    hold.replica_map(FOLLOWED, MapOptions::general())?;
    for n in 1..=MAPS {
        let next = hold.begin_successor(NEXT, FOLLOWED)?;
        for id in 0..KEYS {
            next.set(Shape::General.key(id), Shape::General.value(id, n))?;
        }
        board.put(at, n);
        hold.succeed_map(NEXT, FOLLOWED)?;
        board.put(at + 1, n);
    }
    Ok(())
}

fn one_of_them_is_whole(hold: &Hold, board: &Board, at: usize) {
    let (begun, done) = (board.get(at), board.get(at + 1));
    let Ok(map) = hold.open_map(FOLLOWED) else {
        assert_eq!(begun, 0, "the name leads nowhere");
        return;
    };
    assert_eq!(map.name(), FOLLOWED);
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
    hold.begin_successor(NEXT, FOLLOWED).unwrap().set("a", "b").unwrap();
    assert!(hold.drop_map(NEXT).unwrap() && hold.drop_map(FOLLOWED).unwrap());
    assert!(hold.maps().unwrap().iter().all(|map| map.name == COMMON));
}

const VISITS: &[u8] = b"visits";

/// Opens and closes the hold: slots are claimed and released.
fn open_and_close(path: &Path, board: &Board, at: usize) -> Result<()> {
    for n in 1..=6 {
        board.put(at, n);
        let hold = Hold::open(path)?;
        hold.map("visited", MapOptions::general())?.increment(VISITS, 1)?;
        hold.close()?;
        board.put(at + 1, n);
    }
    Ok(())
}

fn visits_add_up(hold: &Hold, board: &Board, at: usize) {
    let map = hold.map("visited", MapOptions::general()).unwrap();
    let visits = map.increment(VISITS, 0).unwrap() as u64;
    let (begun, done) = (board.get(at), board.get(at + 1));
    assert!((done..=begun).contains(&visits), "{visits} visits, {done} done, {begun} begun");
}

/// What is not about single keys: check, freeze, trim, backup.
fn care_for_the_hold(path: &Path, board: &Board, at: usize) -> Result<()> {
    let hold = visit(path)?;
    let map = hold.map("cared for", MapOptions::general())?;
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
        let copy = path.with_extension(format!("backup{n}"));
        let _ = std::fs::remove_file(&copy);
        hold.backup(&copy)?;
        board.put(at + 1, n);
    }
    Ok(())
}

/// Fills a map of its own and empties it, with pairs of both kinds of memory.
fn fill_and_empty(path: &Path, board: &Board, at: usize) -> Result<()> {
    let hold = visit(path)?;
    let map = hold.map("emptied", MapOptions::general())?;
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

fn whatever_is_left_is_right(hold: &Hold, board: &Board, at: usize) {
    let Ok(map) = hold.open_map("emptied") else { return };
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

const ELEMENTS: u32 = 40;
/// A queue in which a victim has company.
pub const SHARED: &str = "shared";

/// The queue that a victim moves elements in.
pub fn queue_options() -> QueueOptions {
    QueueOptions::new(ELEMENTS, 24).queues(["free", "full", "lost"]).orphans("lost")
}

/// Moves elements of a queue that others move at the same time.
pub fn mingle(shared: &Queue) -> Result<()> {
    let [free, full, lost] = ["free", "full", "lost"].map(|name| shared.named(name).unwrap());
    for (from, to) in [(free, full), (lost, free), (full, free)] {
        if let Some(element) = from.pull()? {
            element.write(0, &1u64.to_le_bytes())?;
            if let Some(other) = to.push_pull(element, from)? {
                to.push(other)?;
            }
        }
        to.push_many(&mut from.pull_many(7)?)?;
    }
    Ok(())
}

/// Makes a queue, moves elements in every way, drops it, and again; and moves those of one that is always there.
fn move_elements(path: &Path, board: &Board, at: usize) -> Result<()> {
    let hold = visit(path)?;
    let shared = hold.queue(SHARED, queue_options())?;
    for n in 1..=4u64 {
        board.put(at, n);
        let queue = hold.queue("moving", queue_options())?;
        let [free, full, lost] = ["free", "full", "lost"].map(|name| queue.named(name).unwrap());
        for _ in 0..3 {
            let mut batch = free.pull_many(10)?;
            for element in batch.iter() {
                element.write(0, &n.to_le_bytes())?;
            }
            drop(batch.pop());
            full.push_many(&mut batch)?;
            let one = full.pull()?.expect("just pushed");
            let other = free.push_pull(one, full)?.expect("just pushed");
            full.push(other)?;
            drop(full.pull()?);
            free.push_many(&mut full.pull_many(100)?)?;
            free.push_many(&mut lost.pull_many(100)?)?;
            assert_eq!(free.len()?, u64::from(ELEMENTS));
            mingle(&shared)?;
        }
        drop(queue);
        if n % 2 == 0 {
            assert!(hold.drop_queue("moving")?);
        }
        board.put(at + 1, n);
    }
    Ok(())
}

/// Each element is in one of the queues, if there is a queue; nobody else has any.
fn elements_are_conserved(hold: &Hold, board: &Board, at: usize) {
    let (begun, done) = (board.get(at), board.get(at + 1));
    match hold.open_queue("moving") {
        Ok(queue) => {
            assert!(begun > done || done % 2 == 1, "a queue after round {done}");
            all_are_there(&queue);
        }
        Err(error) => assert!(error.is_not_found() && (begun > done || done % 2 == 0), "{error}"),
    }
    // Whatever happened to it, the name can be used again.
    drop(hold.queue("moving", queue_options()).unwrap());
    assert!(hold.drop_queue("moving").unwrap());
    all_are_there(&hold.queue(SHARED, queue_options()).unwrap());
}

/// Each element is in one of the queues, and nobody has any in hand.
fn all_are_there(queue: &Queue) {
    let mut batch = queue.batch();
    for named in queue.all() {
        named.pull_into(&mut batch, 1000).unwrap();
    }
    let mut ids: Vec<u32> = batch.iter().map(|element| element.id()).collect();
    ids.sort();
    queue.named("free").unwrap().push_many(&mut batch).unwrap();
    assert_eq!(ids, (0..ELEMENTS).collect::<Vec<_>>());
    assert!(queue.stat().unwrap().holders.is_empty());
}

fn message(sequence: u64) -> Vec<u8> {
    vec![sequence as u8; (sequence * 37 % 600) as usize]
}

/// Makes a channel, is its producer and its consumers, drops it, and again.
fn pass_messages(path: &Path, board: &Board, at: usize) -> Result<()> {
    let hold = visit(path)?;
    for n in 1..=3u64 {
        board.put(at, n);
        let channel = hold.channel("passing", ChannelOptions::new(4096))?;
        let mut consumer = channel.consumer(Join::Oldest, Policy::Lossless)?;
        let lossy = channel.consumer(Join::Now, Policy::Lossy)?;
        let patience = Duration::from_millis(1);
        let mut patient = Some(channel.consumer(Join::Now, Policy::Patient(patience))?);
        let mut producer = channel.producer()?;
        let mut buffer = Vec::new();
        // What the last round has left.
        while consumer.try_recv(&mut buffer)?.is_some() {}
        for _ in 0..60 {
            let sequence = producer.sequence();
            let bytes = message(sequence);
            // The patient one is in the way after a while.
            if producer.try_send(&bytes)?.is_none() {
                producer.send(&bytes)?;
                patient = None;
            }
            assert_eq!(consumer.recv(&mut buffer)?.sequence, sequence);
            assert!(buffer == bytes && consumer.try_recv(&mut buffer)?.is_none());
        }
        assert!(patient.is_none() && consumer.recv_timeout(&mut buffer, patience)?.is_none());
        drop((producer, consumer, lossy, channel));
        if n % 2 == 0 {
            assert!(hold.drop_channel("passing")?);
        }
        board.put(at + 1, n);
    }
    Ok(())
}

/// What the ring still has is in order and intact, if there is a channel; nobody is at it.
fn messages_are_whole(hold: &Hold, board: &Board, at: usize) {
    let (begun, done) = (board.get(at), board.get(at + 1));
    match hold.open_channel("passing") {
        Ok(channel) => {
            assert!(begun > done || done % 2 == 1, "a channel after round {done}");
            let stat = channel.stat().unwrap();
            assert!(stat.producer.is_none() && stat.consumers.is_empty(), "{stat:?}");
            let mut consumer = channel.consumer(Join::Oldest, Policy::Lossless).unwrap();
            let mut buffer = Vec::new();
            for sequence in consumer.sequence()..stat.sequence {
                let received = consumer.try_recv(&mut buffer).unwrap();
                assert_eq!(received.map(|received| received.sequence), Some(sequence));
                assert_eq!(buffer, message(sequence));
            }
            assert_eq!(channel.producer().unwrap().send(b"more").unwrap(), stat.sequence);
        }
        Err(error) => assert!(error.is_not_found() && (begun > done || done % 2 == 0), "{error}"),
    }
    // Whatever happened to it, the name can be used again.
    drop(hold.channel("passing", ChannelOptions::new(4096)).unwrap());
    assert!(hold.drop_channel("passing").unwrap());
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
            hold.map(&format!("tabled {n}"), Shape::Fixed(4, 4).options())?.set([1; 4], [2; 4])?;
        }
        board.put(at + 1, n);
    }
    Ok(())
}

fn all_in_the_tables(hold: &Hold, board: &Board, at: usize) {
    for n in 1..=TABLED {
        let map = hold.map(&format!("tabled {n}"), Shape::Fixed(4, 4).options()).unwrap();
        let found = map.get([1; 4]).unwrap();
        assert!(n > board.get(at + 1) || found == Some(vec![2; 4]), "map {n}: {found:?}");
    }
}
