//! Kills anywhere, at named steps and at random: the remaining state agrees, readers have always
//! seen a state that existed, and the next process continues from there.
#![cfg(feature = "steps")]

use crate::cast::{Play, STOP_BEFORE_SHOWING, scribble, word};
use crate::party::{SMALL_STREAM, pairs};
use crate::stairs;
use commonhold::map::{Map, MapOptions};
use commonhold::stream::{ChangeKind, Follower};
use commonhold::{Hold, steps};
use commonhold_testing::alone::cast;
use commonhold_testing::support::Dice;
use commonhold_testing::support::process::{Child, End, pause, until};
use nix::sys::signal::Signal;
use std::collections::{BTreeMap, BTreeSet};

const ORIGIN: usize = 0;
const WRITER: usize = 1;
const READER: usize = 2;
/// The first of several.
const REPLICA: usize = 3;

/// The changes of a stream from its beginning, and the pairs that they make.
struct Told {
    follower: Follower,
    pairs: BTreeMap<Vec<u8>, Vec<u8>>,
}

impl Told {
    /// Applies the changes since the last call, and compares the pairs with the map.
    #[track_caller]
    fn agrees(&mut self, map: &Map, when: &str) {
        while let Some(frame) = self.follower.try_recv().unwrap() {
            match frame.kind {
                ChangeKind::Set => drop(self.pairs.insert(frame.key.into(), frame.value.into())),
                ChangeKind::Gap => panic!("{when}: nothing here is too large for the stream"),
                _ => assert!(self.pairs.remove(frame.key).is_some(), "{when}: {frame:?}"),
            }
        }
        assert_eq!(self.pairs, pairs(map), "{when}");
    }
}

/// Steps of beginning a stream.
const BEGINNING: [&str; 4] =
    ["stream.claimed-memory", "stream.frozen", "stream.linked", "stream.begun"];

/// Kills writers at every step of a change; returns the steps at which one was.
fn kill_writers(options: MapOptions) -> BTreeSet<&'static str> {
    let mode = options.mode();
    let play = Play::new(options, REPLICA + 1);
    play.hold.maps().begin_stream("it", 64 << 20).unwrap();
    let mut told = Told { follower: play.map.follow().unwrap(), pairs: BTreeMap::new() };
    let origin = play.origin(ORIGIN, |_| ());
    let replica = play.replica(REPLICA, &play.address);
    let changes = ["stream.", "write.", "inline."];
    let is_of_a_change = |step: &&&str| changes.iter().any(|prefix| step.starts_with(prefix));
    let mut killed = BTreeSet::new();
    let steps = steps::ALL.iter().filter(is_of_a_change).filter(|step| !BEGINNING.contains(step));
    for (number, step) in (0..).zip(steps) {
        for time in [1, 20 + number % 50] {
            let when = format!("{mode:?}, killed at {step}, time {time}");
            let mut victim = play.writer(WRITER, |map, _| {
                steps::arm(&format!("{step}:kill:{time}")).unwrap();
                let mut dice = Dice::new(number << 8 | time);
                (0..300).for_each(|_| scribble(map, &mut dice, 200));
                play.board.put(word::ENOUGH, 1);
            });
            match victim.wait() {
                End::By(Signal::SIGKILL) => drop(killed.insert(*step)),
                End::Well => play.board.put(word::ENOUGH, 0),
                end => panic!("{when}: {end:?}"),
            }
            // The next process recovers what it left.
            play.agrees(REPLICA, &replica, &when);
            told.agrees(&play.map, &when);
        }
    }
    play.finish([], [replica], [origin]);
    assert!(play.hold.check().unwrap().ok);
    killed
}

#[test]
fn writers_killed_at_every_step_of_a_streamed_change() {
    let shapes = [MapOptions::general(), MapOptions::fixed(4, 4), MapOptions::fixed(4, 12)];
    let killed: BTreeSet<_> = shapes.into_iter().flat_map(kill_writers).collect();
    // A stream that is resized: no change passes that.
    let of_resizing = ["stream.renumbered", "stream.ended"];
    let is_wanted = |step: &&&str| step.starts_with("stream.") && !of_resizing.contains(*step);
    let wanted = steps::ALL.iter().filter(is_wanted);
    let missed: Vec<_> =
        wanted.filter(|s| !BEGINNING.contains(s) && !killed.contains(*s)).collect();
    assert!(missed.is_empty() && killed.len() > 20, "{missed:?} of {killed:?}");
}

#[test]
fn killed_while_the_stream_is_begun() {
    for step in BEGINNING {
        let play = Play::new(MapOptions::general(), REPLICA + 1);
        stairs::climb(&play.map);
        let mut victim = cast(step, || {
            steps::arm(&format!("{step}:kill")).unwrap();
            let hold = Hold::open(play.test_dir.path("origin.hold")).unwrap();
            hold.maps().begin_stream("it", 1 << 20).unwrap();
        });
        assert_eq!(victim.wait(), End::By(Signal::SIGKILL), "{step}");
        stairs::climb(&play.map);
        let origin = play.origin(ORIGIN, |_| ());
        let replica = play.replica(REPLICA, &play.address);
        until("it is ready", || play.row(REPLICA).get(word::READY) == 1 || replica.is_gone());
        stairs::climb(&play.map);
        play.finish([], [replica], [origin]);
    }
}

/// A writer that does not fill the stream before a test is over.
fn patient_writer(play: &Play) -> Child {
    play.writer(WRITER, |map, _| {
        stairs::climb(map);
        pause();
    })
}

#[test]
fn origins_killed_at_random_instants() {
    const REPLICAS: usize = 3;
    let play = Play::new(MapOptions::general(), REPLICA + REPLICAS);
    stairs::fill(&play.map, 1000, 50);
    let mut dice = Dice::new(1);
    let mut origin = play.origin(ORIGIN, |_| ());
    let all = REPLICA..REPLICA + REPLICAS;
    let replicas: Vec<Child> = all.clone().map(|n| play.replica(n, &play.address)).collect();
    let word_of_all = |word| all.clone().map(|n| play.row(n).get(word)).collect::<Vec<_>>();
    let none_is_gone = || !replicas.iter().any(Child::is_gone);
    until("all are ready", || word_of_all(word::READY) == [1; REPLICAS] || !none_is_gone());
    let synchronisations = word_of_all(word::SYNCS);
    let (writer, writes) = (patient_writer(&play), play.row(WRITER));
    for kill in 0..15 {
        if kill % 2 == 0 {
            let connected = || word_of_all(word::CONNECTED) == [1; REPLICAS];
            until("all are connected", || connected() || !none_is_gone());
        }
        writes.goes_on("the writer goes on", dice.below(100), &writer);
        assert_eq!(origin.slay(), End::By(Signal::SIGKILL));
        writes.goes_on("the writer goes on without an origin", 20, &writer);
        origin = play.origin(ORIGIN, |_| ());
    }
    until("all are connected", || word_of_all(word::CONNECTED) == [1; REPLICAS] || !none_is_gone());
    assert_eq!(word_of_all(word::SYNCS), synchronisations, "the stream holds where they were");
    assert!(word_of_all(word::CONNECTIONS).into_iter().all(|times| times > 5));
    play.finish([writer], replicas, [origin]);
}

/// Lets a replica that does not run begin again.
fn forget(play: &Play, actor: usize) {
    let hold = Hold::open(play.copy_path(actor)).unwrap();
    if let Ok(map) = hold.maps().open(".applied/it") {
        map.clear().unwrap();
    }
}

/// Waits until a replica that was killed has all that it had before.
fn calm(play: &Play, replica: &Child) {
    let (row, end) = (play.row(REPLICA), play.end().offset);
    let there = || row.get(word::READY) == 1 && row.get(word::AT) >= end;
    until("the replica has caught up", || there() || replica.is_gone());
    assert!(!replica.is_gone());
}

#[test]
fn replicas_killed_at_random_instants() {
    let play = Play::new(MapOptions::general(), REPLICA + 1);
    stairs::fill(&play.map, 3000, 100);
    stairs::climb(&play.map);
    let mut dice = Dice::new(2);
    let origin = play.origin(ORIGIN, |_| ());
    let reader = play.reader(READER, REPLICA);
    let (writer, writes) = (patient_writer(&play), play.row(WRITER));
    let row = play.row(REPLICA);
    for kill in 0..40 {
        let replica = play.replica(REPLICA, &play.address);
        until("it has begun", || row.get(word::UP) == 1 || replica.is_gone());
        if kill % 2 == 0 {
            calm(&play, &replica);
        }
        writes.goes_on("the writer goes on", dice.below(60), &writer);
        assert_eq!(replica.slay(), End::By(Signal::SIGKILL));
        if kill % 3 == 0 {
            forget(&play, REPLICA);
        }
    }
    let replica = play.replica(REPLICA, &play.address);
    calm(&play, &replica);
    play.finish([writer], [replica, reader], [origin]);
    let copy = Hold::open(play.copy_path(REPLICA)).unwrap();
    let report = copy.check().unwrap();
    assert!(report.ok && report.allocated == report.reachable, "{report:?}");
}

#[test]
fn replicas_killed_at_every_step_of_showing_a_new_map() {
    let play = Play::new(MapOptions::general(), REPLICA + 1);
    stairs::fill(&play.map, 1000, 100);
    stairs::climb(&play.map);
    let origin = play.origin(ORIGIN, |_| ());
    let reader = play.reader(READER, REPLICA);
    let writer = patient_writer(&play);
    let mut missed = Vec::new();
    for step in steps::ALL.iter().filter(|s| s.starts_with("shadow.") || s.starts_with("drop.")) {
        // The next one drops the map that it leaves half built.
        let mut first = play.replica_armed(REPLICA, &play.address, "write.locked:kill:300");
        assert_eq!(first.wait(), End::By(Signal::SIGKILL));
        let mut second = play.replica_armed(REPLICA, &play.address, &format!("{step}:kill"));
        let ready = || play.row(REPLICA).get(word::READY) == 1;
        until("it is killed, or has passed", || second.is_gone() || ready());
        second.signal(Signal::SIGKILL);
        assert_eq!(second.wait(), End::By(Signal::SIGKILL), "{step}");
        if ready() {
            missed.push(step);
        }
        let third = play.replica(REPLICA, &play.address);
        calm(&play, &third);
        third.slay();
        // The next time it has a map to show meanwhile.
        forget(&play, REPLICA);
    }
    let replica = play.replica(REPLICA, &play.address);
    calm(&play, &replica);
    play.finish([writer], [replica, reader], [origin]);
    assert!(missed.is_empty(), "not passed: {missed:?}");
    let copy = Hold::open(play.copy_path(REPLICA)).unwrap();
    let report = copy.check().unwrap();
    assert!(report.ok && report.allocated == report.reachable, "{report:?}");
}

#[test]
fn relays_killed_in_a_tree_of_three_levels() {
    // Origin, three relays below one another, and a replica of each.
    const RELAY: usize = REPLICA;
    const LEAF: usize = RELAY + 3;
    let play = Play::new(MapOptions::general(), LEAF + 3);
    stairs::fill(&play.map, 1000, 50);
    stairs::climb(&play.map);
    let above = |level: usize| match level {
        0 => play.address.clone(),
        _ => play.relay_address(RELAY + level - 1),
    };
    let mut dice = Dice::new(4);
    let mut origin = play.origin(ORIGIN, |_| ());
    let mut relays: Vec<Child> = (0..3).map(|n| play.relay(RELAY + n, &above(n))).collect();
    let leaves: Vec<Child> = (0..3).map(|n| play.replica(LEAF + n, &above(n + 1))).collect();
    let (writer, writes) = (patient_writer(&play), play.row(WRITER));
    let leaf = |word| (0..3).map(|n| play.row(LEAF + n).get(word)).collect::<Vec<_>>();
    let mut synchronised = None;
    for kill in 0..16 {
        writes.goes_on("the writer goes on", dice.below(60), &writer);
        if kill == 6 {
            let ready = || leaf(word::READY) == [1; 3] && leaf(word::CONNECTED) == [1; 3];
            until("all leaves are ready", || ready() || leaves.iter().any(Child::is_gone));
            synchronised = Some(leaf(word::SYNCS));
        }
        match dice.below(4) as usize {
            3 => {
                origin.slay();
                origin = play.origin(ORIGIN, |_| ());
            }
            level => {
                relays[level].signal(Signal::SIGKILL);
                assert_eq!(relays[level].wait(), End::By(Signal::SIGKILL));
                relays[level] = play.relay(RELAY + level, &above(level));
            }
        }
    }
    assert_eq!(synchronised, Some(leaf(word::SYNCS)), "whoever was ready goes on from where it is");
    play.finish([writer], leaves, relays.into_iter().chain([origin]));
}

/// More than the system keeps between two processes.
const SOCKETS_TAKE: u64 = 4 << 20;

#[test]
fn a_lapped_replica_shows_its_old_map_until_the_new_one_is_whole() {
    let play = Play::new(MapOptions::general(), REPLICA + 1);
    stairs::fill(&play.map, 3000, 100);
    stairs::climb(&play.map);
    let origin = play.origin(ORIGIN, |options| options.stream_bytes = SMALL_STREAM);
    let reader = play.reader(READER, REPLICA);
    let mut replica = play.replica(REPLICA, &play.address);
    let (row, looks) = (play.row(REPLICA), play.row(READER));
    play.agrees(REPLICA, &replica, "before");
    row.put(word::ORDER, STOP_BEFORE_SHOWING);
    until("it has its order", || row.get(word::ORDER) == 0 || replica.is_gone());
    replica.signal(Signal::SIGSTOP);
    assert!(replica.wait_stopped());
    let lapped = play.end().offset + SMALL_STREAM + SOCKETS_TAKE;
    while play.end().offset < lapped {
        stairs::climb(&play.map);
    }
    replica.signal(Signal::SIGCONT);
    assert!(replica.wait_stopped(), "before it shows the new map");
    looks.goes_on("readers read", 100, &reader);
    let hold = Hold::options().read_only(true).open(play.copy_path(REPLICA)).unwrap();
    let old = hold.maps().open("it").unwrap();
    stairs::check(&old).unwrap();
    assert_ne!(pairs(&old), pairs(&play.map));
    let next = hold.maps().open(".next/it").unwrap();
    assert_eq!(pairs(&next), pairs(&play.map), "it is built");
    replica.signal(Signal::SIGCONT);
    play.agrees(REPLICA, &replica, "afterwards");
    assert_eq!(row.get(word::SYNCS), 2);
    play.finish([], [replica, reader], [origin]);
}
