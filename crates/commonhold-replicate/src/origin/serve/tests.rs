//! Replicas that join again and again do not hold up a replica that only gets changes.

use super::*;
use crate::origin::OriginOptions;
use crate::origin::subscriber_table::InCommon;
use crate::protocol::wire::{self, Hello, NONCE};
use commonhold::Hold;
use commonhold::map::{Map, MapOptions};
use commonhold_io::sockets::{Epoll, Options, Outgoing, Waker};
use commonhold_testing::support::test_dir::TestDir;
use std::os::fd::BorrowedFd;
use std::os::unix::net::UnixStream;

/// Replicas in a full sync at the same time.
const JOINING: usize = 40;
/// Bytes of the map's pairs, about.
const MAP: usize = 2 << 20;
/// One piece of a full sync.
const PIECE: usize = 64 << 10;

/// A driver whose sockets take every send at once. All their peers greet, and are replicas.
struct Greedy {
    /// It gives out ids; its sockets are never used.
    real: Epoll<Payload>,
    map: Map,
    /// The peers' ends of the sockets.
    peers: Vec<UnixStream>,
    done: Vec<Done<Payload>>,
    greeted: HashSet<SocketId>,
    /// The replica that only gets changes, once the joining begins.
    healthy: Option<SocketId>,
    /// Full syncs that end: the connection closes, and another one comes.
    left: usize,
    /// The rounds so far, and the rounds from one change of the map to the next.
    rounds: usize,
    every: usize,
    /// Bytes that the others got.
    all: usize,
    /// The same in this round.
    of_round: usize,
    /// Bytes that they got since the first change that the healthy one lacks, except while it is
    /// taking an earlier send.
    since_change: Option<usize>,
    /// It is taking a send.
    is_taking: bool,
    /// The most of both.
    most_of_round: usize,
    most_since_change: usize,
    /// How often the healthy one got changes.
    served: usize,
}

impl Greedy {
    fn new(map: &Map) -> Greedy {
        Greedy {
            real: Epoll::new(&Options::default()).unwrap(),
            map: map.clone(),
            peers: Vec::new(),
            done: Vec::new(),
            greeted: HashSet::new(),
            healthy: None,
            left: 0,
            rounds: 0,
            every: 1,
            all: 0,
            of_round: 0,
            since_change: None,
            is_taking: false,
            most_of_round: 0,
            most_since_change: 0,
            served: 0,
        }
    }

    /// A new connection.
    fn connection(&mut self) -> OwnedFd {
        let (here, there) = UnixStream::pair().unwrap();
        self.peers.push(there);
        here.into()
    }

    fn count(&mut self, bytes: usize) {
        self.of_round += bytes;
        self.all += bytes;
        if !self.is_taking {
            self.since_change = self.since_change.map(|before| before + bytes);
        }
        self.most_of_round = self.most_of_round.max(self.of_round);
    }
}

fn greeting() -> Vec<u8> {
    let mut words = wire::preface().to_vec();
    Hello::new([7; NONCE]).put(&mut words);
    words
}

fn length(payload: &Payload) -> usize {
    payload.parts().iter().map(|part| part.iov_len).sum()
}

impl Driver<Payload> for Greedy {
    fn add(&mut self, socket: OwnedFd) -> io::Result<SocketId> {
        Driver::<Payload>::add(&mut self.real, socket)
    }

    fn accept(&mut self, _: SocketId) {}

    fn pause(&mut self, _: SocketId) {}

    fn receive(&mut self, socket: SocketId, mut buffer: Vec<u8>, _: usize) {
        if self.greeted.insert(socket) {
            buffer.extend(greeting());
            let result = Ok(greeting().len());
            self.done.push(Done::Received { socket, buffer, result });
        }
    }

    fn send(&mut self, socket: SocketId, payload: Payload) {
        let bytes = length(&payload);
        let is_change = matches!(payload, Payload::Stream(_));
        if self.healthy != Some(socket) {
            self.count(bytes);
        } else {
            self.is_taking = true;
            if is_change {
                self.served += 1;
                let bytes = self.since_change.take().unwrap_or(0);
                self.most_since_change = self.most_since_change.max(bytes);
            }
        }
        self.done.push(Done::Sent { socket, payload, result: Ok(bytes) });
    }

    fn finish(&mut self, _: SocketId) {}

    fn descriptor(&mut self, _: SocketId) -> Option<BorrowedFd<'_>> {
        None
    }

    fn shut(&mut self, socket: SocketId) {
        Driver::<Payload>::shut(&mut self.real, socket);
    }

    fn release(&mut self, socket: SocketId) -> Option<OwnedFd> {
        Driver::<Payload>::release(&mut self.real, socket)
    }

    fn waker(&self) -> Waker {
        Driver::<Payload>::waker(&self.real)
    }

    /// Wakes the thread; some rounds begin with a change of the map.
    fn wait(&mut self, _: Option<Duration>, done: &mut Vec<Done<Payload>>) -> io::Result<()> {
        (self.of_round, self.rounds) = (0, self.rounds + 1);
        if self.healthy.is_some() && self.rounds.is_multiple_of(self.every) {
            self.map.set("change", self.rounds.to_le_bytes()).unwrap();
            self.since_change.get_or_insert(0);
        }
        self.is_taking = false;
        done.append(&mut self.done);
        done.push(Done::Woken);
        Ok(())
    }
}

fn server(hold: &Hold, map: &Map) -> Server<Greedy> {
    let table =
        SubscriberTable::new(hold, map.clone(), OriginOptions::default(), InCommon::default())
            .unwrap();
    let (_, ordered) = mpsc::channel();
    Server::new(Greedy::new(map), Arc::new(table), 0, ordered)
}

/// Serves one more replica.
fn join(server: &mut Server<Greedy>) -> SocketId {
    let socket = server.driver.connection();
    let id = server.table.admit("a test".to_owned()).unwrap();
    let before: HashSet<SocketId> = server.sessions.keys().copied().collect();
    server.serve(id, socket, None);
    *server.sessions.keys().find(|socket| !before.contains(socket)).unwrap()
}

/// Ends the connections of the replicas that have the whole map, except for the healthy one.
fn dismiss_whole(server: &mut Server<Greedy>) {
    let healthy = server.driver.healthy;
    let is_whole = |(socket, served): (&SocketId, &Served)| {
        let follows = served.session.offset().is_some() && !served.session.is_end_due();
        (follows && healthy != Some(*socket)).then_some(*socket)
    };
    for socket in server.sessions.iter().filter_map(is_whole).collect::<Vec<_>>() {
        server.dismiss(socket, "has the whole map");
        server.driver.left += 1;
    }
}

/// A server of a map, with a replica that has it and gets every change from now on.
fn with_healthy(test_dir: &TestDir, every: usize) -> Server<Greedy> {
    let hold = Hold::create(test_dir.path("origin.hold")).unwrap();
    let map = hold.maps().open_or_create("it", MapOptions::general()).unwrap();
    for id in 0..MAP / 512 {
        map.set((id as u32).to_be_bytes(), [7; 468]).unwrap();
    }
    hold.maps().begin_stream("it", 4 << 20).unwrap();
    let mut server = server(&hold, &map);
    let healthy = join(&mut server);
    let mut done = Vec::new();
    while server.sessions[&healthy].session.offset().is_none()
        || server.sessions[&healthy].session.is_end_due()
    {
        server.round(&mut done);
    }
    (server.driver.healthy, server.driver.every) = (Some(healthy), every);
    server
}

#[test]
fn replicas_that_join_again_and_again_do_not_starve_the_others() {
    [1, 3].into_iter().for_each(joins_do_not_starve);
}

fn joins_do_not_starve(every: usize) {
    let test_dir = TestDir::memory();
    let mut server = with_healthy(&test_dir, every);
    let (mut rounds, mut joined, mut done) = (0, 0, Vec::new());
    while server.driver.left < 3 * JOINING {
        while server.sessions.len() <= JOINING {
            join(&mut server);
            joined += 1;
        }
        server.round(&mut done);
        dismiss_whole(&mut server);
        rounds += 1;
    }
    let driver = &server.driver;
    assert!(joined >= 3 * JOINING && rounds > 100, "{joined}, {rounds}");
    // It gets each change in the same round or in the next one.
    assert!(driver.served + 2 >= rounds / (2 * every), "{} of {rounds} rounds", driver.served);
    let words = JOINING * 1024;
    let most = SYNC_BYTES + PIECE + words;
    assert!(driver.most_of_round <= most, "{} bytes in a round", driver.most_of_round);
    // No piece of a full sync comes between a change and its sending.
    assert!(driver.most_since_change <= words, "{} bytes", driver.most_since_change);
}

/// While connections are accepted, changes are put off, and full syncs as well.
#[test]
fn full_syncs_wait_while_changes_are_put_off() {
    let test_dir = TestDir::memory();
    let mut server = with_healthy(&test_dir, 2 * MOST_PUT_OFF as usize);
    let (listener, mut done) = (server.driver.healthy.unwrap(), Vec::new());
    for _ in 0..20 * MOST_PUT_OFF {
        join(&mut server);
        let result = Ok(server.driver.connection());
        server.driver.done.push(Done::Accepted { listener, result });
        server.round(&mut done);
        dismiss_whole(&mut server);
    }
    let driver = &server.driver;
    assert!(driver.served >= 9, "served {} times", driver.served);
    let words = 2 * MOST_PUT_OFF as usize * 1024;
    assert!(driver.most_since_change <= words, "{} bytes", driver.most_since_change);
    assert!(driver.all >= 10 * SYNC_BYTES, "{} bytes of full syncs", driver.all);
}
