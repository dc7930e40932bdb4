//! The cast of the tests with many processes: origins, replicas, relays, writers and readers, each
//! a real process that can be stopped and killed.
//!
//! They share a board: the progress and the orders of each are words of its own ([`word`]), in a
//! row for each actor. When everything is written, [`Play::curtain`] publishes the final state, and
//! every actor with a copy compares it and ends.
#![cfg_attr(not(feature = "steps"), allow(dead_code))]

use crate::party::{eager, pairs};
use crate::stairs::Eye;
use commonhold::Hold;
use commonhold::map::{Map, MapOptions};
use commonhold::stream::StreamPosition;
use commonhold_replicate::{
    Address, Origin, OriginOptions, Replica, ReplicaEvents, ReplicaOptions, ReplicaState,
};
use commonhold_testing::alone::cast;
use commonhold_testing::support::Dice;
use commonhold_testing::support::process::{Board, Child, until};
use commonhold_testing::support::test_dir::TestDir;
use std::hash::{DefaultHasher, Hash, Hasher};
use std::path::PathBuf;
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

/// Words of the board.
pub mod word {
    /// 1 when everything is written.
    pub const OVER: usize = 0;
    /// The final state: the stream, its end, the digest of the map.
    pub const STREAM: usize = 1;
    pub const OFFSET: usize = 2;
    pub const DIGEST: usize = 3;
    /// Writers continue while it is 0.
    pub const ENOUGH: usize = 4;
    /// The first row.
    pub const ROWS: usize = 8;
    /// Words of a row.
    pub const ROW: usize = 9;

    /// In a row: it works. A relay: it has a copy. An origin: it listens.
    pub const UP: usize = 0;
    /// Operations, or looks.
    pub const COUNT: usize = 1;
    /// A replica: whether it is ready.
    pub const READY: usize = 2;
    /// A replica: how often the whole map was sent to it. An origin: how many it serves.
    pub const SYNCS: usize = 3;
    /// A replica: how often it was connected. An origin: to how many it sends the whole map.
    pub const CONNECTIONS: usize = 4;
    /// A replica: its position.
    pub const AT: usize = 5;
    /// A replica: whether the connection stands.
    pub const CONNECTED: usize = 6;
    /// A replica: its next order.
    pub const ORDER: usize = 7;
    /// An origin: the port where it listens.
    pub const PORT: usize = 7;
    /// A replica: 1 if pairs have come in compressed blocks.
    pub const PACKED: usize = 8;
}
use word::*;

/// A hold with the map `it`, and all its actors.
pub struct Play {
    pub test_dir: TestDir,
    pub board: &'static Board,
    pub hold: Hold,
    pub map: Map,
    pub address: Address,
}

impl Play {
    /// With room for this many actors on the board.
    pub fn new(options: MapOptions, actors: usize) -> Play {
        let test_dir = TestDir::memory();
        let hold = Hold::create(test_dir.path("origin.hold")).unwrap();
        let map = hold.maps().open_or_create("it", options).unwrap();
        let board = Box::leak(Box::new(Board::new(ROWS + ROW * actors)));
        let address = Address::Unix(test_dir.path("origin"));
        Play { test_dir, board, hold, map, address }
    }

    pub fn row(&self, actor: usize) -> Row {
        Row { board: self.board, at: ROWS + ROW * actor }
    }

    /// The end of the stream.
    pub fn end(&self) -> StreamPosition {
        self.map.follow().unwrap().end().unwrap()
    }

    /// An origin of the map, which listens when this returns.
    pub fn origin(&self, actor: usize, change: impl FnOnce(&mut OriginOptions)) -> Child {
        self.origin_at(actor, std::slice::from_ref(&self.address), change)
    }

    /// The same at other addresses; shows the last port that the system chose.
    pub fn origin_at(
        &self,
        actor: usize,
        addresses: &[Address],
        change: impl FnOnce(&mut OriginOptions),
    ) -> Child {
        let row = self.row(actor);
        row.put(UP, 0);
        let path = self.test_dir.path("origin.hold");
        let child = cast(format!("origin {actor}"), || {
            let hold = Hold::open(path).unwrap();
            let mut options = OriginOptions { stream_bytes: 64 << 20, ..OriginOptions::default() };
            change(&mut options);
            let origin = Origin::start(&hold, "it", options).unwrap();
            for address in addresses {
                if let Address::Tcp(_, port) = origin.listen(address).unwrap() {
                    row.put(PORT, port.into());
                }
            }
            row.put(UP, 1);
            while row.board.get(OVER) < 2 {
                row.show_origin(&origin);
                std::thread::sleep(Duration::from_millis(10));
            }
        });
        until("the origin listens", || row.get(UP) == 1 || child.is_gone());
        child
    }

    /// A writer in a process of its own, until the play ends.
    pub fn writer(&self, actor: usize, mut work: impl FnMut(&Map, &Row)) -> Child {
        let (row, path) = (self.row(actor), self.test_dir.path("origin.hold"));
        cast(format!("writer {actor}"), || {
            let hold = Hold::open(path).unwrap();
            let map = hold.maps().open("it").unwrap();
            while row.board.get(ENOUGH) == 0 {
                work(&map, &row);
                row.count();
            }
        })
    }

    pub fn copy_path(&self, actor: usize) -> PathBuf {
        self.test_dir.path(&format!("copy{actor}.hold"))
    }

    /// A replica, in a hold named after it.
    pub fn replica(&self, actor: usize, from: &Address) -> Child {
        self.replica_with(actor, from, |_, _| ())
    }

    /// The same, which is killed or stops itself at a step.
    #[cfg(feature = "steps")]
    pub fn replica_armed(&self, actor: usize, from: &Address, step: &str) -> Child {
        self.replica_with(actor, from, |_, _| commonhold::steps::arm(step).unwrap())
    }

    /// The same, whose events go to what is made of its hold.
    pub fn replica_with<E: ReplicaEvents + 'static>(
        &self,
        actor: usize,
        from: &Address,
        events: impl FnOnce(&Hold, Complaint) -> E,
    ) -> Child {
        let (row, path) = (self.row(actor), self.copy_path(actor));
        row.clear();
        cast(format!("replica {actor}"), || {
            let hold = Hold::open_or_create(path).unwrap();
            let complaint = Complaint::default();
            let events = events(&hold, complaint.clone());
            let replica = Replica::connect(&hold, "it", from, eager(), events).unwrap();
            row.put(UP, 1);
            row.follow(&replica, 1, |_| complaint.raise());
            row.compare(&hold, &replica);
            complaint.raise();
        })
    }

    /// A replica of the keys of a prefix, which is killed or stops itself at a step if it gets one.
    /// It compares nothing itself.
    pub fn replica_of(
        &self,
        actor: usize,
        from: &[Address],
        prefix: &[u8],
        #[cfg_attr(not(feature = "steps"), allow(unused))] step: Option<&str>,
    ) -> Child {
        let (row, path) = (self.row(actor), self.copy_path(actor));
        row.clear();
        cast(format!("replica {actor} of a prefix"), || {
            let hold = Hold::open_or_create(path).unwrap();
            let (prefix, also) = (Some(prefix.to_vec()), from[1..].to_vec());
            let options = ReplicaOptions { prefix, also, ..eager() };
            #[cfg(feature = "steps")]
            step.into_iter().for_each(|step| commonhold::steps::arm(step).unwrap());
            let replica = Replica::connect(&hold, "it", &from[0], options, ()).unwrap();
            row.put(UP, 1);
            row.follow(&replica, 1, |_| ());
        })
    }

    /// A replica that is followed in its turn, at [`relay_address`](Self::relay_address).
    pub fn relay(&self, actor: usize, from: &Address) -> Child {
        let (row, path) = (self.row(actor), self.copy_path(actor));
        row.clear();
        let address = self.relay_address(actor);
        cast(format!("relay {actor}"), || {
            let hold = Hold::open_or_create(path).unwrap();
            let replica = Replica::connect(&hold, "it", from, eager(), ()).unwrap();
            let mut origin = None;
            // Until those who follow it have compared.
            row.follow(&replica, 2, |ready| {
                if ready && origin.is_none() {
                    let options = OriginOptions { stream_bytes: 8 << 20, ..Default::default() };
                    let begun = Origin::start(&hold, "it", options).unwrap();
                    begun.listen(&address).unwrap();
                    origin = Some(begun);
                    row.put(UP, 1);
                }
            });
            row.compare(&hold, &replica);
        })
    }

    pub fn relay_address(&self, actor: usize) -> Address {
        Address::Unix(self.test_dir.path(&format!("relay{actor}")))
    }

    /// Looks at the stairs in a replica's hold until the end, through a read-only handle.
    pub fn reader(&self, actor: usize, of: usize) -> Child {
        let (row, path) = (self.row(actor), self.copy_path(of));
        cast(format!("reader {actor} of replica {of}"), || {
            let open = || Hold::options().read_only(true).open(&path).ok();
            let mut hold = open();
            until("there is a hold", || {
                hold = hold.take().or_else(open);
                hold.is_some()
            });
            let hold = hold.unwrap();
            let mut map = hold.maps().open("it").ok();
            let mut eye = Eye::default();
            while row.board.get(OVER) == 0 {
                match &map {
                    Some(map) => eye.look(map),
                    None => map = hold.maps().open("it").ok(),
                }
                row.count();
            }
            assert!(eye.has_seen(), "it has seen nothing");
        })
    }

    /// Ends the writing: all writers have ended. Every actor with a copy compares it, and ends.
    pub fn curtain(&self) {
        let end = self.end();
        self.board.put(STREAM, end.stream);
        self.board.put(OFFSET, end.offset);
        self.board.put(DIGEST, digest(&self.map));
        self.board.put(OVER, 1);
    }

    /// Waits until a replica has everything that the map has, and compares. No process writes
    /// meanwhile.
    #[track_caller]
    pub fn agrees(&self, actor: usize, child: &Child, when: &str) {
        let (row, end) = (self.row(actor), self.end().offset);
        let there = || row.get(READY) == 1 && row.get(AT) >= end;
        until("the replica has come to the end", || there() || child.is_gone());
        let copy = Hold::options().read_only(true).open(self.copy_path(actor)).unwrap();
        let (copy, map) = (copy.maps().open("it").unwrap(), &self.map);
        assert!(digest(&copy) == digest(map), "{when}: {:?}, not {:?}", pairs(&copy), pairs(map));
    }

    /// Ends the writers, then all actors, and checks that all ended well.
    #[track_caller]
    pub fn finish(
        &self,
        writers: impl IntoIterator<Item = Child>,
        copies: impl IntoIterator<Item = Child>,
        others: impl IntoIterator<Item = Child>,
    ) {
        self.board.put(ENOUGH, 1);
        writers.into_iter().for_each(Child::finish);
        self.curtain();
        copies.into_iter().for_each(Child::finish);
        self.board.put(OVER, 2);
        others.into_iter().for_each(Child::finish);
    }
}

/// The words of one actor.
#[derive(Clone, Copy)]
pub struct Row {
    pub board: &'static Board,
    at: usize,
}

impl Row {
    pub fn get(&self, word: usize) -> u64 {
        self.board.get(self.at + word)
    }

    pub fn put(&self, word: usize, value: u64) {
        self.board.put(self.at + word, value);
    }

    /// For another child that takes the part.
    fn clear(&self) {
        for word in [UP, READY, SYNCS, CONNECTIONS, AT, CONNECTED, PACKED] {
            self.put(word, 0);
        }
    }

    pub fn count(&self) {
        self.board.count(self.at + COUNT, 1);
    }

    /// Waits until its count has grown by `by`; false if the child has ended.
    #[track_caller]
    pub fn goes_on(&self, what: &str, by: u64, child: &Child) {
        let from = self.get(COUNT);
        until(what, || self.get(COUNT) >= from + by || child.is_gone());
        assert!(!child.is_gone(), "{what}: it has ended");
    }

    fn show_origin(&self, origin: &Origin) {
        let replicas = origin.replicas();
        let syncing = replicas.iter().filter(|r| r.state == ReplicaState::Syncing).count();
        self.put(SYNCS, replicas.len() as u64);
        self.put(CONNECTIONS, syncing as u64);
    }

    /// Publishes the state of a replica until the end. Arms the step of its order.
    fn follow(&self, replica: &Replica, over: u64, mut also: impl FnMut(bool)) {
        while self.board.get(OVER) < over {
            let status = replica.status();
            self.put(SYNCS, status.synchronisations);
            self.put(CONNECTIONS, status.connections);
            self.put(AT, status.position.map_or(0, |position| position.offset));
            self.put(CONNECTED, u64::from(status.connected));
            self.put(PACKED, u64::from(status.sync_wire_bytes < status.sync_bytes));
            self.put(READY, u64::from(status.ready));
            also(status.ready);
            if self.get(ORDER) == STOP_BEFORE_SHOWING {
                stop_before_showing();
                self.put(ORDER, 0);
            }
            std::thread::sleep(Duration::from_millis(5));
        }
    }

    /// Compares a copy with the final state on the board, once it has reached that position. The
    /// copy of a relay's copy does not know the position: its own positions are those of the
    /// relay's stream.
    fn compare(&self, hold: &Hold, replica: &Replica) {
        let board = self.board;
        let [stream, offset, expected] = [STREAM, OFFSET, DIGEST].map(|word| board.get(word));
        let agrees = || hold.maps().open("it").is_ok_and(|map| digest(&map) == expected);
        let late = Instant::now() + PATIENCE;
        loop {
            match replica.status().position.filter(|position| position.stream == stream) {
                Some(position) if position.offset < offset => {}
                Some(_) => return assert!(agrees(), "it is at the end, and not the same"),
                None if agrees() => return,
                None => {}
            }
            let status = replica.status();
            assert!(Instant::now() < late, "not at {stream:016x}.{offset}: {status:?}");
            std::thread::sleep(Duration::from_millis(5));
        }
    }
}

/// Shorter than the wait for a child, so that the child reports the fault.
const PATIENCE: Duration = Duration::from_secs(45);

/// A fault found by a thread of a child, whose panic would not be visible.
#[derive(Clone, Default)]
pub struct Complaint(Arc<Mutex<Option<String>>>);

impl Complaint {
    /// The first one counts.
    pub fn file(&self, text: String) {
        self.0.lock().unwrap().get_or_insert(text);
    }

    fn raise(&self) {
        if let Some(text) = &*self.0.lock().unwrap() {
            panic!("{text}");
        }
    }
}

/// An order for a replica: to stop itself when it has built a map that is not shown yet.
pub const STOP_BEFORE_SHOWING: u64 = 1;

fn stop_before_showing() {
    #[cfg(feature = "steps")]
    commonhold::steps::arm("shadow.claimed:stop").unwrap();
}

/// The same for the same pairs, in whatever order they are found.
pub fn digest(map: &Map) -> u64 {
    try_digest(map).unwrap()
}

/// The same of a map that another process may drop meanwhile.
pub fn try_digest(map: &Map) -> commonhold::Result<u64> {
    let mut sum = map.len()?;
    for pair in map.iter() {
        let mut hasher = DefaultHasher::new();
        pair?.hash(&mut hasher);
        sum = sum.wrapping_add(hasher.finish());
    }
    Ok(sum)
}

/// Sets and deletes at random, and clears now and then.
pub fn scribble(map: &Map, dice: &mut Dice, keys: u64) {
    let key = (dice.below(keys) as u32).to_be_bytes();
    let len = match map.options().mode() {
        commonhold::map::MapMode::Fixed { value_bytes, .. } => value_bytes as usize,
        _ => dice.below(60) as usize,
    };
    match dice.below(5000) {
        0 => drop(map.clear().unwrap()),
        1..500 => drop(map.delete(key).unwrap()),
        _ => drop(map.set(key, vec![dice.roll() as u8; len]).unwrap()),
    }
}

/// Opens as many files as it may.
pub fn raise_file_limit() {
    use nix::sys::resource::{Resource, getrlimit, setrlimit};
    let (_, hard) = getrlimit(Resource::RLIMIT_NOFILE).unwrap();
    setrlimit(Resource::RLIMIT_NOFILE, hard, hard).unwrap();
}
