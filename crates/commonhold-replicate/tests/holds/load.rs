//! Twenty maps under load, in real processes. Maps come and go, the origin and the replica are
//! killed and started again, and in the end all maps agree.

use super::{is, names, small_streams};
use crate::cast::{digest, scribble, try_digest};
use crate::party::{LONG, eager};
use commonhold::Hold;
use commonhold::map::MapOptions;
use commonhold_replicate::{
    Address, FollowState, HoldOrigin, HoldOriginOptions, HoldReplica, HoldReplicaOptions,
};
use commonhold_testing::alone::cast;
use commonhold_testing::support::Dice;
use commonhold_testing::support::process::{Board, Child, pause, until};
use commonhold_testing::support::test_dir::TestDir;
use nix::sys::signal::Signal;
use std::path::PathBuf;

/// Words of the board.
const ENOUGH: usize = 0;
const WRITTEN: usize = 1;
const CHURNED: usize = 2;
const SERVES: usize = 3;
const FOLLOWS: usize = 4;
const APPLIED: usize = 5;
const WORDS: usize = 6;

/// The maps that stay, and those that come and go.
const STAY: u64 = 20;
const CHURN: u64 = 5;

fn stays(number: u64) -> String {
    format!("stays {number:02}")
}

fn options(number: u64) -> MapOptions {
    match number % 3 {
        0 => MapOptions::general(),
        1 => MapOptions::fixed(4, 16),
        _ => MapOptions::cache().into(),
    }
}

struct Stage {
    test_dir: TestDir,
    board: &'static Board,
}

impl Stage {
    fn path(&self, name: &str) -> PathBuf {
        self.test_dir.path(name)
    }

    fn address(&self) -> Address {
        Address::Unix(self.path("socket"))
    }

    /// Writes to the maps that stay.
    fn writer(&self, seed: u64) -> Child {
        let (board, path) = (self.board, self.path("shop.hold"));
        cast(format!("writer {seed}"), || {
            let hold = Hold::open(path).unwrap();
            let maps: Vec<_> =
                (0..STAY).map(|number| hold.maps().open(&stays(number)).unwrap()).collect();
            let mut dice = Dice::new(seed);
            while board.get(ENOUGH) == 0 {
                scribble(&maps[dice.below(STAY) as usize], &mut dice, 500);
                board.count(WRITTEN, 1);
            }
        })
    }

    /// Creates and drops maps, and writes to them.
    fn churner(&self) -> Child {
        let (board, path) = (self.board, self.path("shop.hold"));
        cast("churner", || {
            let hold = Hold::open(path).unwrap();
            let mut dice = Dice::new(9);
            while board.get(ENOUGH) == 0 {
                let name = format!("goes {}", dice.below(CHURN));
                hold.maps().drop(&name).unwrap();
                if dice.below(3) > 0 {
                    let map = hold.maps().create(&name, options(dice.below(3))).unwrap();
                    (0..200).for_each(|_| scribble(&map, &mut dice, 50));
                }
                board.count(CHURNED, 1);
                std::thread::sleep(std::time::Duration::from_millis(20));
            }
        })
    }

    /// The origin, until it is killed.
    fn origin(&self) -> Child {
        let (board, path, address) = (self.board, self.path("shop.hold"), self.address());
        board.put(SERVES, 0);
        let child = cast("origin", || {
            let hold = Hold::open(path).unwrap();
            let options = HoldOriginOptions { origin: small_streams(), maps: Vec::new() };
            let origin = HoldOrigin::start(&hold, options).unwrap();
            origin.listen(&address).unwrap();
            board.put(SERVES, 1);
            loop {
                pause();
            }
        });
        until("the origin listens", || board.get(SERVES) == 1 || child.is_gone());
        child
    }

    fn follow(&self) -> (Hold, HoldReplica) {
        let hold = Hold::open_or_create(self.path("copy.hold")).unwrap();
        let options = HoldReplicaOptions { replica: eager(), maps: Vec::new() };
        let replica = HoldReplica::connect(&hold, &self.address(), options, ()).unwrap();
        (hold, replica)
    }

    /// The replica, until it is killed.
    fn replica(&self) -> Child {
        let board = self.board;
        board.put(FOLLOWS, 0);
        board.put(APPLIED, 0);
        let child = cast("replica", || {
            let (_hold, replica) = self.follow();
            loop {
                let status = replica.status();
                let of = |map: &commonhold_replicate::FollowedMap| map.replica.clone();
                let followed = || status.maps.iter().filter_map(of);
                board.put(
                    FOLLOWS,
                    followed().filter(|one| one.connected && one.ready).count() as u64,
                );
                board.put(APPLIED, followed().map(|one| one.changes).sum());
                std::thread::sleep(std::time::Duration::from_millis(5));
            }
        });
        self.goes_on(&child, "the replica follows");
        child
    }

    /// Waits until the replica follows all maps that stay, and applies changes.
    fn goes_on(&self, replica: &Child, what: &str) {
        let board = self.board;
        until(what, || board.get(FOLLOWS) >= STAY || replica.is_gone());
        let before = board.get(APPLIED);
        until(what, || board.get(APPLIED) > before + 1000 || replica.is_gone());
        assert!(!replica.is_gone(), "{what}: it has ended");
    }
}

#[test]
fn all_maps_agree_after_kills_of_both_sides() {
    let test_dir = TestDir::memory();
    let board = Box::leak(Box::new(Board::new(WORDS)));
    let stage = Stage { test_dir, board };
    let hold = Hold::create(stage.path("shop.hold")).unwrap();
    for number in 0..STAY {
        hold.maps().create(&stays(number), options(number)).unwrap();
    }
    let (mut origin, writers) = (stage.origin(), [stage.writer(1), stage.writer(2)]);
    let (churner, mut replica) = (stage.churner(), stage.replica());
    for round in 0..3 {
        origin.signal(Signal::SIGKILL);
        origin.wait();
        let churned = board.get(CHURNED);
        until("maps come and go without an origin", || board.get(CHURNED) > churned + 5);
        origin = stage.origin();
        stage.goes_on(&replica, &format!("after the origin, round {round}"));
        replica.signal(Signal::SIGKILL);
        replica.wait();
        let written = board.get(WRITTEN);
        until("writers write without a replica", || board.get(WRITTEN) > written + 1000);
        replica = stage.replica();
    }
    board.put(ENOUGH, 1);
    writers.into_iter().chain([churner]).for_each(Child::finish);
    stage.compare(&hold);
    replica.signal(Signal::SIGKILL);
    replica.wait();
    stage.has_followed_all(&hold);
    origin.signal(Signal::SIGKILL);
    origin.wait();
}

impl Stage {
    /// Waits until each map of the origin has an equal copy. No process writes meanwhile.
    fn compare(&self, hold: &Hold) {
        let copies = Hold::options().read_only(true).open(self.path("copy.hold")).unwrap();
        for info in hold.maps().list().unwrap() {
            let map = hold.maps().open(&info.name).unwrap();
            let expected = digest(&map);
            // The replica may still drop a copy, and make it again, while this reads it.
            let copy = || copies.maps().open(&info.name).and_then(|copy| try_digest(&copy));
            let is_same = || copy().is_ok_and(|found| found == expected);
            until(&format!("the copy of '{}' agrees", info.name), is_same);
        }
    }

    /// Another replica finds every map: those of the origin are followed, the others were dropped.
    fn has_followed_all(&self, hold: &Hold) {
        let present: Vec<_> = hold.maps().list().unwrap().into_iter().map(|map| map.name).collect();
        assert!(present.len() as u64 >= STAY);
        let (copies, replica) = self.follow();
        assert!(replica.wait_ready(LONG), "{:?}", replica.status());
        let local: Vec<_> = copies.maps().list().unwrap().into_iter().map(|map| map.name).collect();
        for name in &local {
            let state = match present.contains(name) {
                true => FollowState::Followed,
                false => FollowState::Dropped,
            };
            is(&replica, name, state);
        }
        assert_eq!(names(&replica.status()), local);
        self.compare(hold);
    }
}
