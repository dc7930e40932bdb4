//! The system time of the origin's machine is set forward or back while a replica is connected.

use crate::cast::{Play, word};
use crate::party::{Copy, LONG, eager};
use commonhold::map::{Map, MapOptions};
use commonhold::steps::shifts;
use commonhold::{ErrorKind, Hold};
use commonhold_replicate::{Origin, OriginOptions, Replica};
use commonhold_testing::alone::cast;
use commonhold_testing::support::process::{Child, until};
use commonhold_testing::support::refused;
use std::time::Duration;

const HOUR: Duration = Duration::from_secs(3600);
const DAY_MS: i64 = 24 * 3_600_000;
const MACHINE: usize = 0;
/// The orders for the origin's machine: to set its clock and write, to write, and to end.
const STEP: u64 = 1;
const WRITE: u64 = 2;
const END: u64 = 3;

/// The origin's machine, whose processes all have the clock that is set in this one.
fn machine(play: &Play, is_set: bool, by: i64) -> Child {
    let (row, path) = (play.row(MACHINE), play.test_dir.path("origin.hold"));
    (word::UP..=word::ORDER).for_each(|at| row.put(at, 0));
    let child = cast("the origin's machine", || {
        if is_set {
            shifts::set_realtime_ms(by);
        }
        let hold = Hold::open(path).unwrap();
        let origin = Origin::start(&hold, "it", OriginOptions::default()).unwrap();
        origin.listen(&play.address).unwrap();
        let map = hold.maps().open("it").unwrap();
        row.put(word::UP, 1);
        for (order, name) in [(STEP, "stepped"), (WRITE, "written")] {
            until("an order", || row.get(word::ORDER) >= order);
            if row.get(word::ORDER) == END {
                break;
            }
            if order == STEP {
                shifts::set_realtime_ms(by);
            }
            map.set_with_ttl(format!("{name}, an hour"), "1", HOUR).unwrap();
            map.set(name, "1").unwrap();
        }
        until("the end", || row.get(word::ORDER) == END);
        drop(origin);
    });
    until("the origin listens", || row.get(word::UP) == 1 || child.is_gone());
    child
}

fn gets(map: &Map, key: &str) {
    until(key, || map.get(key).unwrap().is_some());
}

fn step(by: i64) {
    let play = Play::new(MapOptions::cache().into(), 1);
    play.map.set_with_ttl("before, an hour", "1", HOUR).unwrap();
    let row = play.row(MACHINE);
    let first = machine(&play, false, by);
    let hold = Hold::create(play.test_dir.path("copy.hold")).unwrap();
    let replica = Replica::connect(&hold, "it", &play.address, eager(), ()).unwrap();
    let copy = Copy { hold, replica };
    assert!(copy.replica.wait_ready(LONG));
    let map = copy.hold.maps().open("it").unwrap();
    gets(&map, "before, an hour");

    row.put(word::ORDER, STEP);
    gets(&map, "stepped");
    // Neither are changes lost, nor do earlier pairs expire.
    gets(&map, "before, an hour");
    // Later ones expire by the changed clock, until the replica connects again.
    assert_eq!(map.get("stepped, an hour").unwrap().is_some(), by > 0);
    // The age is measured by both clocks.
    until("the origin's new time to arrive", || match map.ensure_fresh(HOUR) {
        Ok(()) => by > 0,
        Err(error) => by < 0 && error.kind() == ErrorKind::Stale,
    });
    if by < 0 {
        refused(map.get_fresh("stepped", HOUR), ErrorKind::Stale, "must not be older than");
    }

    row.put(word::ORDER, END);
    first.finish();
    let second = machine(&play, true, by);
    until("it to be connected", || copy.replica.status().connected);
    row.put(word::ORDER, WRITE);
    gets(&map, "written");
    for name in ["before", "stepped", "written"] {
        gets(&map, &format!("{name}, an hour"));
    }
    assert_eq!(copy.replica.status().synchronisations, 1);
    row.put(word::ORDER, END);
    second.finish();
}

#[test]
fn a_replica_outlives_steps_of_its_origins_clock() {
    step(DAY_MS);
    step(-DAY_MS);
}
