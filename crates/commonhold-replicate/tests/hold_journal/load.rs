//! Maps under load, in real processes. Maps come and go, the journals are killed and started again,
//! and in the end the hold is lost, and all maps come back.

use super::options;
use crate::cast::{digest, scribble};
use crate::party::LONG;
use commonhold::Hold;
use commonhold::map::{Map, MapOptions};
use commonhold_replicate::{HoldJournal, JournalState};
use commonhold_testing::alone::cast;
use commonhold_testing::support::Dice;
use commonhold_testing::support::process::{Board, Child, until};
use commonhold_testing::support::test_dir::TestDir;
use nix::sys::signal::Signal;
use std::collections::BTreeMap;
use std::path::PathBuf;
use std::time::Duration;

/// Words of the board.
const ENOUGH: usize = 0;
const WRITTEN: usize = 1;
const CHURNED: usize = 2;
const RECORDED: usize = 3;
const WORDS: usize = 4;

/// The maps that stay, and those that come and go.
const STAY: u64 = 10;
const CHURN: u64 = 4;

fn stays(number: u64) -> String {
    format!("stays {number:02}")
}

fn goes(number: u64) -> String {
    format!("goes/{number}")
}

fn kind(number: u64) -> MapOptions {
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
    fn path(&self) -> PathBuf {
        self.test_dir.path("shop.hold")
    }

    fn directory(&self) -> PathBuf {
        self.test_dir.path("journals")
    }

    /// Writes to the maps that stay.
    fn writer(&self, seed: u64) -> Child {
        let (board, path) = (self.board, self.path());
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
        let (board, path) = (self.board, self.path());
        cast("churner", || {
            let hold = Hold::open(path).unwrap();
            let mut dice = Dice::new(9);
            while board.get(ENOUGH) == 0 {
                let name = goes(dice.below(CHURN));
                hold.maps().drop(&name).unwrap();
                if dice.below(3) > 0 {
                    let map = hold.maps().create(&name, kind(dice.below(3))).unwrap();
                    (0..200).for_each(|_| scribble(&map, &mut dice, 50));
                }
                board.count(CHURNED, 1);
                std::thread::sleep(Duration::from_millis(20));
            }
        })
    }

    /// The journals, until they are killed.
    fn journal(&self) -> Child {
        let (board, path, directory) = (self.board, self.path(), self.directory());
        board.put(RECORDED, 0);
        let child = cast("journal", || {
            let hold = Hold::open(path).unwrap();
            let journal = HoldJournal::start(&hold, directory, options()).unwrap();
            loop {
                let status = journal.status();
                let failed = status.maps.iter().find(|map| {
                    let is_staying = map.name.starts_with("stays");
                    is_staying && map.state != JournalState::Recorded
                });
                assert_eq!(failed, None);
                let is_durable = |map: &commonhold_replicate::JournaledMap| {
                    map.journal.as_ref().is_some_and(|journal| journal.durable.is_some())
                };
                board
                    .put(RECORDED, status.maps.iter().filter(|map| is_durable(map)).count() as u64);
                std::thread::sleep(Duration::from_millis(5));
            }
        });
        until("the maps are recorded", || board.get(RECORDED) >= STAY || child.is_gone());
        assert!(!child.is_gone(), "the journal has ended");
        child
    }
}

/// Waits until all changes are in the map's journal, which may not have begun yet.
fn record(map: &Map) {
    until(&format!("'{}' is recorded", map.name()), || map.sync(LONG).is_ok());
}

#[test]
fn all_maps_come_back_after_kills_under_load() {
    let test_dir = TestDir::memory();
    let board = Box::leak(Box::new(Board::new(WORDS)));
    let stage = Stage { test_dir, board };
    let hold = Hold::create(stage.path()).unwrap();
    for number in 0..STAY {
        hold.maps().create(&stays(number), kind(number % 2)).unwrap();
    }
    let mut journal = stage.journal();
    let (writers, churner) = ([stage.writer(1), stage.writer(2)], stage.churner());
    for _ in 0..4 {
        let (written, churned) = (board.get(WRITTEN), board.get(CHURNED));
        until("maps change", || board.get(WRITTEN) > written + 1000);
        until("maps come and go", || board.get(CHURNED) > churned + 5);
        journal.signal(Signal::SIGKILL);
        journal.wait();
        let churned = board.get(CHURNED);
        until("maps come and go without a journal", || board.get(CHURNED) > churned + 5);
        journal = stage.journal();
    }
    board.put(ENOUGH, 1);
    writers.into_iter().chain([churner]).for_each(Child::finish);
    let mut expected = BTreeMap::new();
    for name in (0..STAY).map(stays).chain((0..CHURN).map(goes)) {
        if name.starts_with("goes") {
            hold.maps().drop(&name).unwrap();
            hold.maps().create(&name, kind(0)).unwrap().set(&name, "last").unwrap();
        }
        let map = hold.maps().open(&name).unwrap();
        record(&map);
        expected.insert(name, digest(&map));
    }
    journal.signal(Signal::SIGKILL);
    journal.wait();
    drop(hold);
    std::fs::remove_file(stage.path()).unwrap();
    let hold = Hold::create(stage.path()).unwrap();
    let journal = HoldJournal::start(&hold, stage.directory(), options()).unwrap();
    let digest_of = |name: String| {
        let digest = digest(&hold.maps().open(&name).unwrap());
        (name, digest)
    };
    let found: BTreeMap<_, _> =
        hold.maps().list().unwrap().into_iter().map(|map| digest_of(map.name)).collect();
    assert!(found == expected, "{:?}", journal.status());
    journal.finish().unwrap();
}
