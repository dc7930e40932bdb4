//! Very many replicas, and replicas that join while writers run at full speed.

use crate::cast::{Complaint, Play, Row, digest, raise_file_limit, scribble, word};
use crate::hostile::words::{Peer, frame, greeting};
use crate::party::{LONG, eager};
use crate::stairs;
use commonhold::Hold;
use commonhold::map::MapOptions;
use commonhold::stream::{StreamFrame, StreamPosition};
use commonhold_io::sockets::LoopKind;
use commonhold_replicate::{Replica, ReplicaEvents};
use commonhold_testing::alone::cast;
use commonhold_testing::support::Dice;
use commonhold_testing::support::process::{Child, until};
use std::time::Duration;

const KEYS: u64 = 500;
/// Small: many replicas on few processors cannot all follow writers at full speed. They are lapped
/// and begin again, until the writers end.
const STREAM: u64 = 1 << 20;
const ORIGIN: usize = 0;
const CROWD: usize = 1;
/// The first of several.
const WRITER: usize = 2;
const WRITERS: usize = 3;
const REPLICA: usize = WRITER + WRITERS;

/// The order for writers to pause between changes while a thousand replicas join: each change is a
/// thousand changes on the processors that the joining needs, too.
const GENTLY: u64 = 2;
/// Changes of each writer at full speed when all have joined.
const AT_FULL_SPEED: u64 = 20_000;

fn writers(play: &Play) -> Vec<Child> {
    let writer = |number: usize| {
        let mut dice = Dice::new(number as u64);
        play.writer(WRITER + number, move |map, row| {
            scribble(map, &mut dice, KEYS);
            if row.get(word::ORDER) == GENTLY {
                std::thread::sleep(Duration::from_millis(200));
            }
        })
    };
    (0..WRITERS).map(writer).collect()
}

/// The private memory of a process in bytes.
fn private_bytes(pid: i32) -> u64 {
    let statm = std::fs::read_to_string(format!("/proc/{pid}/statm")).unwrap();
    let mut pages = statm.split(' ').skip(1).map(|n| n.parse::<u64>().unwrap());
    let (resident, shared) = (pages.next().unwrap(), pages.next().unwrap());
    (resident - shared) * 4096
}

/// The memory that an origin may need for each replica: a piece of the full sync in flight, and the
/// state of the connection.
const PER_REPLICA: u64 = 256 << 10;
const THOUSAND: usize = 1024;
/// As many more connections as a tenth of the thousand are of peers that misbehave.
const BAD: usize = THOUSAND / 10;
/// Between two rounds of bad peers that come and go.
const ROUND: Duration = Duration::from_millis(200);
/// The order for the crowd when writers run.
const JOIN: u64 = 1;

#[test]
fn a_thousand_replicas_of_one_process_converge() {
    let play = Play::new(MapOptions::general(), REPLICA);
    let origin = play.origin(ORIGIN, |options| {
        raise_file_limit();
        options.stream_bytes = STREAM;
    });
    let before = private_bytes(origin.pid());
    let row = play.row(CROWD);
    let crowd = cast("the crowd", || follow_with(&play, THOUSAND));
    until("all have holds", || row.get(word::COUNT) == THOUSAND as u64 || crowd.is_gone());
    let rows = || (WRITER..WRITER + WRITERS).map(|writer| play.row(writer));
    rows().for_each(|writer| writer.put(word::ORDER, GENTLY));
    let writers = writers(&play);
    row.put(word::ORDER, JOIN);
    let bad = cast("the bad peers", || misbehave(&play));
    let mut most = 0;
    until("all have joined", || {
        most = most.max(private_bytes(origin.pid()));
        row.get(word::UP) == THOUSAND as u64 || crowd.is_gone()
    });
    let written: Vec<u64> = rows().map(|writer| writer.get(word::COUNT)).collect();
    rows().for_each(|writer| writer.put(word::ORDER, 0));
    until("much is written at full speed", || {
        let now = rows().map(|writer| writer.get(word::COUNT));
        now.zip(&written).all(|(now, before)| now - before > AT_FULL_SPEED) || crowd.is_gone()
    });
    play.board.put(word::ENOUGH, 1);
    writers.into_iter().for_each(Child::finish);
    play.curtain();
    until("all have converged", || {
        most = most.max(private_bytes(origin.pid()));
        crowd.is_gone()
    });
    crowd.finish();
    bad.finish();
    let grown = most.saturating_sub(before);
    let limit = PER_REPLICA * THOUSAND as u64;
    assert!(grown <= limit, "the origin has grown by {grown} bytes, more than {limit}");
    play.board.put(word::OVER, 2);
    origin.finish();
}

/// Joins as replicas that read nothing, that leave and come again, and that send garbage, until all
/// is written.
fn misbehave(play: &Play) {
    let join = || {
        let mut peer = Peer::of(&play.address);
        peer.say(&greeting(None));
        peer
    };
    let mut peers: Vec<Peer> = (0..BAD).map(|_| join()).collect();
    while play.board.get(word::OVER) == 0 {
        for (number, peer) in peers.iter_mut().enumerate() {
            match number % 3 {
                // It has stopped reading; the origin may have disconnected it.
                0 => {}
                1 => *peer = join(),
                _ => {
                    *peer = join();
                    peer.say(&frame(0x999, 0, &[1; 900], &[]));
                }
            }
        }
        std::thread::sleep(ROUND);
    }
}

/// Runs this many replicas in this process; publishes how many were ready, and compares at the end.
fn follow_with(play: &Play, count: usize) {
    raise_file_limit();
    let row = play.row(CROWD);
    let make = |number| {
        let path = play.test_dir.path(&format!("crowd{number}.hold"));
        row.count();
        Hold::options().max_bytes(16 << 20).create(path).unwrap()
    };
    let holds: Vec<Hold> = (0..count).map(make).collect();
    until("told to join", || row.get(word::ORDER) == JOIN);
    let join = |hold: Hold| {
        let replica = Replica::connect(&hold, "it", &play.address, eager(), ()).unwrap();
        (hold, replica)
    };
    let copies: Vec<(Hold, Replica)> = holds.into_iter().map(join).collect();
    for (joined, (_, replica)) in (1..).zip(&copies) {
        assert!(replica.wait(LONG, |status| status.connections > 0), "{:?}", replica.status());
        row.put(word::UP, joined);
    }
    until("all is written", || play.board.get(word::OVER) != 0);
    let (stream, offset) = (play.board.get(word::STREAM), play.board.get(word::OFFSET));
    for (number, (hold, replica)) in copies.iter().enumerate() {
        let there = replica.wait_for(StreamPosition { stream, offset }, LONG);
        assert!(there, "replica {number}: {:?}", replica.status());
        let found = digest(&hold.maps().open("it").unwrap());
        assert_eq!(found, play.board.get(word::DIGEST), "replica {number}");
    }
    let syncs: u64 = copies.iter().map(|(_, replica)| replica.status().synchronisations).sum();
    assert!(syncs > count as u64, "no replica was lapped: the stream is not small");
}

#[test]
fn two_hundred_replica_processes_converge() {
    const COUNT: usize = 200;
    let play = Play::new(MapOptions::fixed(4, 12), REPLICA + COUNT);
    let origin = play.origin(ORIGIN, |options| {
        options.stream_bytes = STREAM;
        options.kind = LoopKind::Uring;
        options.io_threads = 2;
    });
    let writers = writers(&play);
    let join = |number| play.replica(REPLICA + number, &play.address);
    let replicas: Vec<Child> = (0..COUNT).map(join).collect();
    let is_ready = |number| play.row(REPLICA + number).get(word::READY) == 1;
    until("all are ready", || (0..COUNT).all(is_ready) || replicas.iter().any(Child::is_gone));
    play.finish(writers, replicas, [origin]);
}

/// Checks the replica's map at every event: when it is whole or was changed.
struct Inspector {
    hold: Hold,
    row: Row,
    complaint: Complaint,
}

impl Inspector {
    fn inspect(&self, when: impl FnOnce() -> String) {
        let map = self.hold.maps().open("it").unwrap();
        if let Err(text) = stairs::check(&map) {
            self.complaint.file(format!("{}: {text}", when()));
        }
        self.row.count();
    }
}

impl ReplicaEvents for Inspector {
    fn ready(&mut self, position: StreamPosition) {
        self.inspect(|| format!("ready at {position}"));
    }
    fn changed(&mut self, change: &StreamFrame<'_>) {
        self.inspect(|| format!("changed at {}", change.offset));
    }
}

fn snapshots(options: MapOptions, filling: usize) {
    const JOINS: usize = 6;
    let play = Play::new(options, REPLICA + JOINS);
    stairs::fill(&play.map, 5000, filling);
    let origin = play.origin(ORIGIN, |options| options.stream_bytes = 8 << 20);
    let writer = play.writer(WRITER, |map, _| stairs::climb(map));
    let writes = play.row(WRITER);
    let join = |number: usize| {
        let row = play.row(REPLICA + number);
        let inspector = |hold: &Hold, complaint| Inspector { hold: hold.clone(), row, complaint };
        play.replica_with(REPLICA + number, &play.address, inspector)
    };
    let mut replicas = Vec::new();
    for number in 0..JOINS {
        let replica = join(number);
        writes.goes_on("the writer goes on while a replica joins", 1, &writer);
        let row = play.row(REPLICA + number);
        until("the replica is ready and has changed", || {
            row.get(word::READY) == 1 && row.get(word::COUNT) > 100 || replica.is_gone()
        });
        replicas.push(replica);
    }
    play.finish([writer], replicas, [origin]);
}

#[test]
fn snapshots_are_states_that_were() {
    snapshots(MapOptions::general(), 100);
    snapshots(MapOptions::fixed(8, 8), 8);
}

/// The full sync lasts as long as the test: its replica was stopped in the middle.
#[cfg(feature = "steps")]
#[test]
fn writers_go_on_while_the_whole_map_is_sent() {
    use nix::sys::signal::Signal;
    let play = Play::new(MapOptions::general(), REPLICA + 1);
    stairs::fill(&play.map, 20_000, 200);
    let origin = play.origin(ORIGIN, |options| options.stream_bytes = 8 << 20);
    let writer = play.writer(WRITER, |map, _| stairs::climb(map));
    let writes = play.row(WRITER);
    let mut replica = play.replica_armed(REPLICA, &play.address, "write.locked:stop:300");
    assert!(replica.wait_stopped(), "it builds its map");
    let syncing = || play.row(ORIGIN).get(word::CONNECTIONS) == 1;
    until("the origin knows that it sends the whole map", syncing);
    writes.goes_on("the writer goes on", 1000, &writer);
    assert_eq!(play.row(REPLICA).get(word::READY), 0);
    replica.signal(Signal::SIGCONT);
    play.finish([writer], [replica], [origin]);
}
