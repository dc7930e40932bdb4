//! What a cache is charged with: exactly what is in it, whoever is killed, and what its records
//! really take.

use crate::support::process::{Board, Child, End, until};
use crate::support::test_dir::TestDir;
use commonhold::map::{Map, MapOptions};
use commonhold::{Hold, steps};
use nix::sys::signal::Signal;
use std::path::Path;

/// Values of several size classes, so that an update may change the charge.
fn value(turn: u64) -> Vec<u8> {
    vec![turn as u8; [8, 100, 700, 40, 3000][turn as usize % 5]]
}

#[track_caller]
fn exact(hold: &Hold, map: &Map, when: &str) {
    hold.sweep().unwrap();
    let (charged, stat) = (map.charged().unwrap(), map.stat().unwrap());
    assert_eq!((charged.entries, charged.bytes), (stat.len, stat.record_bytes), "{when}");
    let report = hold.check().unwrap();
    assert!(report.ok, "{when}: {report:?}");
}

/// Sets, updates and deletes, and lets the cache evict.
fn churn(map: &Map, seed: u64, turns: u64) {
    for turn in 0..turns {
        let key = (seed << 32 | (turn * 7 % 400)).to_le_bytes();
        match turn % 9 {
            8 => drop(map.delete(key).unwrap()),
            _ => drop(map.set(key, value(turn)).unwrap()),
        }
    }
}

fn kill_at(path: &Path, step: &str, time: u64) -> End {
    let mut victim = Child::run(format!("victim at {step}, time {time}"), || {
        steps::arm(&format!("{step}:kill:{time}")).unwrap();
        let hold = Hold::open(path).unwrap();
        churn(&hold.maps().open("it").unwrap(), 99, 2000);
    });
    victim.wait()
}

const STEPS: [&str; 9] = [
    "write.armed",
    "write.sequenced",
    "write.committed",
    "write.retired",
    "write.disarmed",
    "cache.announced",
    "cache.charging",
    "cache.charged",
    "retire.cleared",
];

/// Recovery once installed a recount that other writers had overtaken, or kept what a dead writer
/// had charged.
#[test]
fn a_charge_is_exact_after_kills_among_writers() {
    let test_dir = TestDir::memory();
    let path = test_dir.path("it.hold");
    let hold = Hold::create(&path).unwrap();
    let map = hold.maps().open_or_create("it", MapOptions::cache().max_entries(600)).unwrap();
    let board = Board::new(1);
    let writers = [1, 2].map(|seed| {
        let (path, board) = (&path, &board);
        Child::run("writer", move || {
            let hold = Hold::open(path).unwrap();
            let map = hold.maps().open("it").unwrap();
            while board.get(0) == 0 {
                churn(&map, seed, 500);
            }
        })
    });
    for (number, step) in (1..).zip(STEPS) {
        for time in [1, 3 * number, 40 * number] {
            assert_eq!(kill_at(&path, step, time), End::By(Signal::SIGKILL), "{step} {time}");
            hold.sweep().unwrap();
        }
    }
    board.put(0, 1);
    writers.into_iter().for_each(Child::finish);
    exact(&hold, &map, "after kills among writers");
}

/// The same without company: each death is accounted for to the byte, before anybody else changes
/// anything.
#[test]
fn a_charge_is_exact_after_each_kill() {
    let test_dir = TestDir::memory();
    let path = test_dir.path("it.hold");
    let hold = Hold::create(&path).unwrap();
    let map = hold.maps().open_or_create("it", MapOptions::cache().max_bytes(200 << 10)).unwrap();
    for step in STEPS {
        for time in [1, 2, 5, 60, 301] {
            assert_eq!(kill_at(&path, step, time), End::By(Signal::SIGKILL), "{step} {time}");
            exact(&hold, &map, &format!("{step}, time {time}"));
        }
    }
}

/// A victim, then its recoverer dies in the middle of completing the charge, then another.
#[test]
fn a_recoverer_killed_while_it_charges_is_finished_once() {
    for (step, by) in [("write.committed", 1), ("cache.announced", 4), ("cache.charging", 2)] {
        for recovering in
            ["recover.charging:kill:1", "recover.charging:kill:2", "recover.pending-recovered:kill"]
        {
            let test_dir = TestDir::memory();
            let path = test_dir.path("it.hold");
            let made = Child::run("preparation", || {
                let hold = Hold::create(&path).unwrap();
                drop(
                    hold.maps().open_or_create("it", MapOptions::cache().max_entries(300)).unwrap(),
                );
            });
            made.finish();
            assert_eq!(kill_at(&path, step, by), End::By(Signal::SIGKILL));
            let mut recoverer = Child::run("recoverer", || {
                steps::arm(recovering).unwrap();
                let hold = Hold::open(&path).unwrap();
                hold.sweep().unwrap();
            });
            // Of a change that was not committed nothing is completed.
            let is_committed = step != "cache.announced";
            let end = recoverer.wait();
            assert!(
                end == End::By(Signal::SIGKILL) || !is_committed,
                "{step}, {recovering}: {end:?}"
            );
            let hold = Hold::open(&path).unwrap();
            exact(&hold, &hold.maps().open("it").unwrap(), &format!("{step}, {recovering}"));
        }
    }
}

/// A cache of 1 MiB with 16 KiB of room for each value once used 456 MiB.
#[test]
fn room_for_values_that_grow_is_charged() {
    let test_dir = TestDir::memory();
    let hold = Hold::create(test_dir.path("it.hold")).unwrap();
    let map = hold
        .maps()
        .open_or_create("it", MapOptions::cache().max_bytes(1 << 20).value_room(16 << 10))
        .unwrap();
    for key in 0..5000u64 {
        map.set(key.to_le_bytes(), "small").unwrap();
    }
    let used = hold.stat().unwrap().used_bytes;
    assert!(used < 4 << 20, "{used} bytes used");
    assert!(map.len().unwrap() >= 40, "{} pairs", map.len().unwrap());
    exact(&hold, &map, "with room");
    // Updated by a handle without room, the records shrink, and the charge with them.
    let plain = hold.maps().open("it").unwrap();
    for key in 4900..5000u64 {
        plain.set(key.to_le_bytes(), "small").unwrap();
    }
    exact(&hold, &map, "without room");
    let error = hold
        .maps()
        .open_or_create("tiny", MapOptions::cache().max_bytes(10 << 10).value_room(16 << 10))
        .unwrap()
        .set("a", "b")
        .unwrap_err();
    assert!(error.is_full(), "{error}");
}

/// Two handles of one process, and several processes: the total is the sum of what all of them did.
#[test]
fn a_charge_adds_up_over_processes() {
    let test_dir = TestDir::memory();
    let path = test_dir.path("it.hold");
    let hold = Hold::create(&path).unwrap();
    let map = hold
        .maps()
        .open_or_create("it", MapOptions::cache().max_bytes(1 << 20).max_entries(900))
        .unwrap();
    let writers: Vec<_> = (0..3)
        .map(|seed| {
            let path = path.clone();
            Child::run("writer", move || {
                let hold = Hold::open(&path).unwrap();
                churn(&hold.maps().open("it").unwrap(), seed, 20_000);
            })
        })
        .collect();
    until("pairs are there", || map.len().unwrap() > 100);
    churn(&map, 7, 20_000);
    writers.into_iter().for_each(Child::finish);
    exact(&hold, &map, "after all");
    map.clear().unwrap();
    let charged = map.charged().unwrap();
    assert_eq!((charged.bytes, charged.entries), (0, 0));
}
