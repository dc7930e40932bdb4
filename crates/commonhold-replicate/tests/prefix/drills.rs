//! Replicas of a prefix, with real processes that are killed and stopped, and connections that
//! break: the remaining part is exactly the origin's.

use super::pairs_of;
use crate::cast::{Play, scribble, word};
use crate::links::proxy::Manners;
use crate::party::{LONG, SMALL_STREAM, Source, pairs};
use commonhold::Hold;
use commonhold::map::{Map, MapOptions};
use commonhold_replicate::{Origin, OriginOptions, Replica};
use commonhold_testing::support::Dice;
use commonhold_testing::support::process::{Child, End, until};
use nix::sys::signal::Signal;

const ORIGIN: usize = 0;
const REPLICA: usize = 1;
/// The keys of the plays are numbers below this, and a quarter of them has the prefix.
const KEYS: u64 = 1024;
const PREFIX: &[u8] = &[0, 0, 1];

fn replica(play: &Play) -> Child {
    replica_with(play, None)
}

fn replica_with(play: &Play, step: Option<&str>) -> Child {
    let child = play.replica_of(REPLICA, std::slice::from_ref(&play.address), PREFIX, step);
    let row = play.row(REPLICA);
    until("it has begun", || row.get(word::UP) == 1 || child.is_gone());
    child
}

fn write(play: &Play, dice: &mut Dice, changes: u64) {
    (0..changes).for_each(|_| scribble(&play.map, dice, KEYS));
}

/// Waits until the replica has everything, and compares. No process writes meanwhile.
#[track_caller]
fn agrees(play: &Play, child: &Child) {
    let (row, end) = (play.row(REPLICA), play.end().offset);
    let there = || row.get(word::READY) == 1 && row.get(word::AT) >= end;
    until("the replica has come to the end", || there() || child.is_gone());
    let copy = Hold::options().read_only(true).open(play.copy_path(REPLICA)).unwrap();
    assert_eq!(pairs(&copy.maps().open("it").unwrap()), pairs_of(&play.map, PREFIX));
}

/// Ends the replica, and checks its hold.
fn end(play: &Play, replica: Child, origin: Child) {
    play.finish([], [replica], [origin]);
    let report = Hold::open(play.copy_path(REPLICA)).unwrap().check().unwrap();
    assert!(report.ok && report.allocated == report.reachable, "{report:?}");
}

#[test]
fn replicas_killed_at_random_instants() {
    const KILLS: u64 = 40;
    let play = Play::new(MapOptions::general(), REPLICA + 1);
    let mut dice = Dice::new(1);
    write(&play, &mut dice, 5000);
    let origin = play.origin(ORIGIN, |_| ());
    let (mut child, mut syncs) = (replica(&play), 0);
    agrees(&play, &child);
    for kill in 0..KILLS {
        let changes = dice.below(2000);
        write(&play, &mut dice, changes);
        assert_eq!(child.slay(), End::By(Signal::SIGKILL));
        if kill % 4 == 0 {
            write(&play, &mut dice, 500);
        }
        child = replica(&play);
        if kill % 3 == 0 {
            agrees(&play, &child);
            syncs += play.row(REPLICA).get(word::SYNCS);
        }
    }
    agrees(&play, &child);
    // A kill between the two stores of a position costs one.
    assert!(syncs < KILLS / 8, "{syncs} full syncs");
    end(&play, child, origin);
}

/// It had applied some of the changes that it had announced, with others between them that it does
/// not want; the origin sends them again, divided in other ways.
#[cfg(feature = "steps")]
#[test]
fn replicas_killed_while_they_apply() {
    let play = Play::new(MapOptions::general(), REPLICA + 1);
    let mut dice = Dice::new(2);
    write(&play, &mut dice, 5000);
    let origin = play.origin(ORIGIN, |_| ());
    let mut child = replica(&play);
    agrees(&play, &child);
    for time in [1, 2, 5, 10, 20, 40, 80, 160] {
        assert_eq!(child.slay(), End::By(Signal::SIGKILL));
        write(&play, &mut dice, 1500);
        let mut victim = replica_with(&play, Some(&format!("write.locked:kill:{time}")));
        assert_eq!(victim.wait(), End::By(Signal::SIGKILL), "time {time}");
        child = replica(&play);
        agrees(&play, &child);
        assert_eq!(play.row(REPLICA).get(word::SYNCS), 0, "time {time}");
    }
    end(&play, child, origin);
}

#[test]
fn origins_killed_at_random_instants() {
    let play = Play::new(MapOptions::general(), REPLICA + 1);
    let mut dice = Dice::new(3);
    let mut origin = play.origin(ORIGIN, |_| ());
    let child = replica(&play);
    agrees(&play, &child);
    for kill in 0..15 {
        let row = play.row(REPLICA);
        let connections = row.get(word::CONNECTIONS);
        let changes = dice.below(1000);
        write(&play, &mut dice, changes);
        assert_eq!(origin.slay(), End::By(Signal::SIGKILL));
        write(&play, &mut dice, 100);
        origin = play.origin(ORIGIN, |_| ());
        if kill % 3 == 0 {
            agrees(&play, &child);
            assert!(row.get(word::CONNECTIONS) > connections);
        }
    }
    agrees(&play, &child);
    assert_eq!(play.row(REPLICA).get(word::SYNCS), 1, "the stream holds where it was");
    end(&play, child, origin);
}

#[test]
fn broken_connections_change_nothing() {
    let play = Play::new(MapOptions::general(), REPLICA + 1);
    let mut dice = Dice::new(4);
    write(&play, &mut dice, 2000);
    let origin = play.origin(ORIGIN, |_| ());
    let door = play.relay_address(REPLICA);
    let manners = Manners { seed: 5, largest_piece: 900, late_one_in: 50, longest_life: 40_000 };
    let proxy = manners.stand(&door, &play.address);
    let child = play.replica_of(REPLICA, std::slice::from_ref(&door), PREFIX, None);
    let broken = || play.row(REPLICA).get(word::CONNECTIONS) > 6;
    until("connections have broken", || {
        write(&play, &mut dice, 100);
        broken() || child.is_gone()
    });
    agrees(&play, &child);
    drop(proxy);
    end(&play, child, origin);
}

#[test]
fn a_replica_that_is_lapped_gets_its_part_again() {
    let play = Play::new(MapOptions::general(), REPLICA + 1);
    let mut dice = Dice::new(6);
    write(&play, &mut dice, 1000);
    let origin = play.origin(ORIGIN, |options| options.stream_bytes = SMALL_STREAM);
    let mut child = replica(&play);
    agrees(&play, &child);
    child.signal(Signal::SIGSTOP);
    assert!(child.wait_stopped());
    // More than the stream and the sockets hold.
    for number in 0..200u8 {
        let key = [PREFIX, &[number]].concat();
        play.map.set(key, vec![number; SMALL_STREAM as usize / 8]).unwrap();
    }
    write(&play, &mut dice, 1000);
    child.signal(Signal::SIGCONT);
    agrees(&play, &child);
    assert!(play.row(REPLICA).get(word::SYNCS) > 1);
    end(&play, child, origin);
}

/// An old copy of the origin's hold is put back, and written on with changes of the same lengths.
/// The replica wants one of them, and wanted none of those that are lost.
#[test]
fn an_origin_from_an_old_copy_sends_the_whole_part() {
    let Source { test_dir, hold, map, origin, address, .. } = Source::new(MapOptions::general());
    let path = test_dir.path("origin.hold");
    drop((origin, map, hold));
    let open = || {
        let hold = Hold::open(&path).unwrap();
        let map = hold.maps().open("it").unwrap();
        (hold, map)
    };
    let set = |map: &Map, keys: std::ops::Range<u32>, value: &str| {
        for key in keys {
            map.set(key.to_le_bytes(), value).unwrap();
        }
    };
    let serve = |hold: &Hold| {
        let origin = Origin::start(hold, "it", OriginOptions::default()).unwrap();
        origin.listen(&address).unwrap();
        origin
    };
    let (hold, map) = open();
    set(&map, 0..10, "both");
    drop((map, hold));
    std::fs::copy(&path, test_dir.path("snapshot")).unwrap();
    let (hold, map) = open();
    let origin = serve(&hold);
    let copy = Hold::create(test_dir.path("copy.hold")).unwrap();
    let replica = Replica::connect(&copy, "it", &address, super::of(&[1]), ()).unwrap();
    assert!(replica.wait_ready(LONG));
    set(&map, 10..20, "then");
    assert!(replica.wait_for(map.follow().unwrap().end().unwrap(), LONG));
    drop((origin, map, hold));
    // In place, as a machine's snapshot does it: a copied file would have another stream.
    std::fs::copy(test_dir.path("snapshot"), &path).unwrap();
    let (hold, map) = open();
    set(&map, 257..258, "here");
    set(&map, 30..45, "here");
    let _origin = serve(&hold);
    until("the part has come", || {
        copy.maps().open("it").is_ok_and(|copy| pairs(&copy) == pairs_of(&map, &[1]))
    });
    assert_eq!(replica.status().synchronisations, 2);
}
