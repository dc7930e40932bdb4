//! Replicas and origins: with calls failing on either side a reader sees only states that existed,
//! no process hangs, and after the fault the replica equals its origin.

use crate::party::eager;
use crate::stairs::{Eye, climb, fill};
use commonhold::Hold;
use commonhold::map::{Map, MapOptions};
use commonhold::stream::StreamFrame;
use commonhold_io::sockets::LoopKind;
use commonhold_replicate::faults::all;
use commonhold_replicate::journal::{Journal, JournalOptions};
use commonhold_replicate::{
    Address, Origin, OriginOptions, Replica, ReplicaEvents, ReplicaOptions, Secret, digest,
};
use commonhold_testing::alone::cast;
use commonhold_testing::support::process::until;
use commonhold_testing::support::test_dir::TestDir;
use commonhold_testing::trial::{Scenario, Trial, closes_down_to, descriptors, fail};
use std::os::unix::net::{UnixListener, UnixStream};
use std::time::Duration;

/// A wait ends before the trial counts as hung, and so reports the state that it found.
const LONG: Duration = Duration::from_secs(30);
/// How long a replica may take in a round while calls fail.
const A_MOMENT: Duration = Duration::from_millis(60);
const ROUNDS: u64 = 8;

/// An origin and a replica in one process, each restarted while its start fails.
struct Pair<'a> {
    trial: &'a Trial,
    kind: LoopKind,
    wanted: Address,
    map: Map,
    hold: Hold,
    copy: Hold,
    origin: Option<Origin>,
    address: Option<Address>,
    replica: Option<Replica>,
    eye: Eye,
}

impl Pair<'_> {
    fn new(trial: &Trial, kind: LoopKind, wanted: Address) -> Pair<'_> {
        let hold = Hold::create(trial.path("origin.hold")).unwrap();
        let map = hold.maps().open_or_create("it", MapOptions::general()).unwrap();
        fill(&map, 40, 2000);
        climb(&map);
        let copy = Hold::create(trial.path("copy.hold")).unwrap();
        let (origin, address, replica, eye) = (None, None, None, Eye::default());
        Pair { trial, kind, wanted, map, hold, copy, origin, address, replica, eye }
    }

    /// Starts the stopped parts.
    fn begin(&mut self) -> commonhold::Result<()> {
        let secret = Some(Secret::new("open sesame, and some more"));
        if self.origin.is_none() {
            let (kind, secret) = (self.kind, secret.clone());
            let options =
                OriginOptions { stream_bytes: 1 << 20, kind, secret, ..OriginOptions::default() };
            self.origin = Some(Origin::start(&self.hold, "it", options)?);
        }
        if let (Some(origin), None) = (&self.origin, &self.address) {
            self.address = Some(origin.listen(&self.wanted)?);
        }
        if let (None, Some(address)) = (&self.replica, &self.address) {
            let options = ReplicaOptions { secret, ..eager() };
            self.replica = Some(Replica::connect(&self.copy, "it", address, options, ())?);
        }
        Ok(())
    }

    fn end_origin(&mut self) {
        (self.origin, self.address) = (None, None);
        if !matches!(self.wanted, Address::Unix(_)) {
            // The next one has another port.
            self.replica = None;
        }
    }

    fn round(&mut self) {
        let begun = self.begin();
        assert!(begun.is_ok() || !self.trial.is_rehearsal(), "{begun:?}");
        for _ in 0..10 {
            climb(&self.map);
            self.look();
        }
        let end = self.map.follow().unwrap().end().unwrap();
        if let Some(replica) = &self.replica {
            let _ = replica.wait_for(end, A_MOMENT);
            let status = replica.status();
            assert!(!status.ended, "its thread has ended: {status:?}");
        }
        self.look();
    }

    /// A reader of the copy.
    fn look(&mut self) {
        let is_ready = self.replica.as_ref().is_some_and(|replica| replica.status().ready);
        if let (true, Ok(map)) = (is_ready, self.copy.maps().open("it")) {
            self.eye.look(&map);
        }
    }

    /// Waits until it equals the origin's map.
    fn agrees(&mut self) {
        self.begin().expect("nothing fails any more");
        climb(&self.map);
        let end = self.map.follow().unwrap().end().unwrap();
        let replica = self.replica.as_ref().unwrap();
        assert!(replica.wait_ready(LONG), "{:?}", replica.status());
        assert!(replica.wait_for(end, LONG), "not at {end}: {:?}", replica.status());
        let copy = self.copy.maps().open("it").unwrap();
        assert_eq!(digest(&copy).unwrap(), digest(&self.map).unwrap());
        self.look();
        assert!(self.eye.has_seen());
    }
}

fn follow(trial: &Trial, kind: LoopKind, wanted: Address) {
    let mut pair = Pair::new(trial, kind, wanted);
    let before = descriptors();
    trial.arm();
    for round in 0..ROUNDS {
        pair.round();
        match round {
            2 => pair.end_origin(),
            5 => pair.replica = None,
            _ => {}
        }
    }
    trial.lift();
    pair.agrees();
    pair.replica = None;
    pair.end_origin();
    closes_down_to(before);
}

fn by_epoll(trial: &Trial) {
    let path = trial.path("socket");
    // A killed process has left this socket file.
    drop(UnixListener::bind(&path).unwrap());
    follow(trial, LoopKind::Epoll, Address::Unix(path));
}

fn by_pool(trial: &Trial) {
    follow(trial, LoopKind::Pool, Address::Tcp("127.0.0.1".to_owned(), 0));
}

fn by_uring(trial: &Trial) {
    follow(trial, LoopKind::Uring, Address::Tcp("127.0.0.1".to_owned(), 0));
}

/// A replica comes back that needs the journal.
fn from_the_journal(trial: &Trial) {
    let mut pair = Pair::new(trial, LoopKind::Epoll, Address::Unix(trial.path("socket")));
    let options = JournalOptions { compact_bytes: 1 << 30, ..JournalOptions::default() };
    pair.agrees();
    let journal = Journal::start(&pair.hold, "it", trial.path("it.journal"), options).unwrap();
    pair.map.sync(LONG).unwrap();
    pair.agrees();
    pair.end_origin();
    let end = || pair.map.follow().unwrap().end().unwrap().offset;
    let behind = end() + (5 << 18);
    while end() < behind {
        (0..20).for_each(|_| climb(&pair.map));
        pair.map.sync(LONG).unwrap();
    }
    let before = descriptors();
    trial.arm();
    (0..ROUNDS).for_each(|_| pair.round());
    trial.lift();
    pair.agrees();
    let synchronisations = pair.replica.as_ref().unwrap().status().synchronisations;
    assert!(synchronisations == 1 || !trial.is_rehearsal(), "the whole map was sent");
    pair.end_origin();
    // That of the replica may be one of them.
    closes_down_to(before);
    drop(journal);
}

const ALL: [Scenario; 4] = [
    Scenario { name: "a replica that catches up from the journal", run: from_the_journal },
    Scenario { name: "an origin by epoll, over a unix socket", run: by_epoll },
    Scenario { name: "an origin by a pool, over TCP", run: by_pool },
    Scenario { name: "an origin by io_uring, over TCP", run: by_uring },
];

#[test]
fn calls_of_replicas_and_origins_fail() {
    fail(all(), &ALL, &["listen.", "connect.", "replica.", "origin.", "secret."], 2);
}

struct Clumsy;

impl ReplicaEvents for Clumsy {
    fn changed(&mut self, _: &StreamFrame<'_>) {
        panic!("a mistake in an event");
    }
}

/// A waiting caller learns that at once, and the replica does not count as connected.
#[test]
fn a_replica_whose_thread_has_ended_reports_it() {
    let test_dir = TestDir::memory();
    cast("a replica that ends", || {
        let hold = Hold::create(test_dir.path("origin.hold")).unwrap();
        let map = hold.maps().open_or_create("it", MapOptions::general()).unwrap();
        let copy = Hold::create(test_dir.path("copy.hold")).unwrap();
        for panics in [false, true] {
            let origin = Origin::start(&hold, "it", OriginOptions::default()).unwrap();
            let (here, there) = UnixStream::pair().unwrap();
            origin.attach(here.into()).unwrap();
            let there = there.into();
            let replica = match panics {
                true => Replica::attach(&copy, "it", there, eager(), Clumsy),
                false => Replica::attach(&copy, "it", there, eager(), ()),
            };
            let replica = replica.unwrap();
            assert!(replica.wait_ready(LONG));
            if panics {
                map.set("a", "1").unwrap();
            } else {
                drop(origin);
            }
            until("it says so", || replica.status().ended);
            let status = replica.status();
            assert!(!status.connected, "{status:?}");
            let why = status.last_error.as_deref().unwrap();
            assert_eq!(why.contains("panicked"), panics, "{why}");
            // It would take an hour if it waited.
            assert!(!replica.wait(60 * LONG, |status| status.connected));
        }
    })
    .finish();
}
