//! Origins that change: promotions, origins of other maps, origins from old copies, relays in
//! cycles, and what becomes of replicas that another process disturbs.

use crate::party::{Copy, LONG, Source, eager, pairs};
use commonhold::map::{Map, MapOptions};
use commonhold::{ErrorKind, Hold};
use commonhold_replicate::{
    Address, Origin, OriginOptions, Replica, ReplicaOptions, ReplicaStatus, promote,
};
use commonhold_testing::alone::cast;
use commonhold_testing::support::process::{Board, Child, until};
use commonhold_testing::support::refused;
use std::path::Path;

/// Words of the board.
const UP: usize = 0;
const READY: usize = 1;
const ENOUGH: usize = 2;
const LAG_MS: usize = 3;

/// Words that the processes share.
fn board() -> &'static Board {
    Box::leak(Box::new(Board::new(4)))
}

/// A process that serves the map of a hold until `ENOUGH`.
fn serves(path: &Path, address: &Address, board: &'static Board) -> Child {
    let child = cast("origin", || {
        let hold = Hold::open(path).unwrap();
        let origin = Origin::start(&hold, "it", OriginOptions::default()).unwrap();
        origin.listen(address).unwrap();
        board.put(UP, 1);
        until("enough", || board.get(ENOUGH) == 1);
    });
    until("the origin listens", || board.get(UP) == 1 || child.is_gone());
    child
}

/// A process that follows, and serves at an address if it has one, until `ENOUGH`.
fn follows(path: &Path, from: &Address, to: Option<&Address>, board: &'static Board) -> Child {
    cast("replica", || {
        let hold = Hold::open_or_create(path).unwrap();
        let options = ReplicaOptions { stream_bytes: to.map(|_| 4 << 20), ..eager() };
        let replica = Replica::connect(&hold, "it", from, options, ()).unwrap();
        let origin = to.map(|address| {
            let origin = Origin::start(&hold, "it", OriginOptions::default()).unwrap();
            origin.listen(address).unwrap();
            origin
        });
        board.put(UP, 1);
        until("enough", || {
            let status = replica.status();
            board.put(READY, u64::from(status.ready && status.connected));
            board.put(LAG_MS, status.lag_ms);
            board.get(ENOUGH) == 1
        });
        drop(origin);
    })
}

fn fill(map: &Map, ids: std::ops::Range<u32>, value: &str) {
    for id in ids {
        map.set(id.to_le_bytes(), value).unwrap();
    }
}

fn fails_with(replica: &Replica, text: &str) {
    let told = |status: &ReplicaStatus| {
        status.last_error.as_ref().is_some_and(|error| error.contains(text))
    };
    assert!(replica.wait(LONG, told), "no '{text}': {:?}", replica.status());
}

fn agree(map: &Map, copy: &Hold) {
    until("the copy to agree", || {
        copy.maps().open("it").is_ok_and(|copy| pairs(&copy) == pairs(map))
    });
}

#[test]
fn a_map_is_not_promoted_under_its_replica_and_the_old_origin_is_fenced_off() {
    let mut source = Source::new(MapOptions::general());
    source.map.set("a", "old").unwrap();
    let (path, board) = (source.test_dir.path("copy.hold"), board());
    let replica = follows(&path, &source.address, None, board);
    until("it is ready", || board.get(READY) == 1 || replica.is_gone());
    let hold = Hold::open(&path).unwrap();
    let living = format!("process {}", replica.pid());
    refused(hold.maps().promote("it"), ErrorKind::Busy, &living);
    refused(promote(&hold, "it"), ErrorKind::Busy, &living);
    let other = Copy::of(&source, "other.hold");
    other.agrees(&source);
    replica.slay();
    assert_eq!(promote(&hold, "it").unwrap().unwrap().epoch, 2);
    assert_eq!(promote(&hold, "it").unwrap(), None);
    let map = hold.maps().open("it").unwrap();
    map.set("a", "new").unwrap();
    // The replica does not come back as if nothing had happened.
    let again = Replica::connect(&hold, "it", &source.address, eager(), ());
    refused(again, ErrorKind::Mismatch, "is not a replica");
    // The other one follows the new origin, and has seen its epoch then.
    drop(other);
    let address = Address::Unix(source.test_dir.path("promoted"));
    let origin = Origin::start(&hold, "it", OriginOptions::default()).unwrap();
    origin.listen(&address).unwrap();
    let other = Copy::at(&source, "other.hold", &address);
    agree(&map, &other.hold);
    drop(other);
    // The old origin is written on, and takes no replica back.
    source.map.set("a", "lost").unwrap();
    let other = Copy::of(&source, "other.hold");
    fails_with(&other.replica, "has seen epoch 2");
    // The origin reports it when the refusal has been sent.
    until("the origin reports it", || source.has_said("refused: is an origin of epoch 1"));
    agree(&map, &other.hold);
    drop(other);
    // Unless somebody wants that.
    let hold = Hold::open(source.test_dir.path("other.hold")).unwrap();
    let options = ReplicaOptions { adopt: true, ..eager() };
    let _back = Replica::connect(&hold, "it", &source.address, options, ()).unwrap();
    agree(&source.map, &hold);
    source.origin = None;
}

/// The handle with which a replica writes does not write behind a promotion.
#[test]
fn a_promoted_map_takes_nothing_from_a_replica() {
    let source = Source::new(MapOptions::general());
    let hold = Hold::create(source.test_dir.path("copy.hold")).unwrap();
    let own = hold.maps().open_replica("it", MapOptions::general()).unwrap();
    own.set("a", "1").unwrap();
    assert!(hold.maps().promote("it").unwrap());
    refused(own.set("a", "2"), ErrorKind::Mismatch, "was promoted");
    assert_eq!(own.get("a").unwrap().as_deref(), Some(&b"1"[..]));
}

/// The position belongs to a map that was dropped; the one of its name has none.
#[test]
fn a_position_of_an_earlier_map_is_not_used() {
    let source = Source::new(MapOptions::general());
    fill(&source.map, 0..5000, "1");
    let copy = Copy::of(&source, "copy.hold");
    copy.agrees(&source);
    let Copy { hold, replica } = copy;
    drop(replica);
    assert!(hold.maps().drop("it").unwrap());
    // As a rebuild leaves it that is killed midway.
    drop(hold.maps().open_replica("it", MapOptions::general()).unwrap());
    drop(hold);
    let copy = Copy::of(&source, "copy.hold");
    copy.agrees(&source);
    assert_eq!(copy.replica.status().synchronisations, 1);
}

/// A rebuild that was killed midway begins again, also where a replica had been before.
#[test]
#[cfg(feature = "steps")]
fn an_interrupted_rebuild_begins_again_where_a_replica_was() {
    use commonhold_replicate::journal::{Journal, JournalOptions, rebuild};
    let source = Source::new(MapOptions::general());
    fill(&source.map, 0..5000, "1");
    let file = source.test_dir.path("journal");
    let journal = Journal::start(&source.hold, "it", &file, JournalOptions::default()).unwrap();
    source.map.sync(LONG).unwrap();
    drop(journal);
    let Copy { hold, replica } = Copy::of(&source, "copy.hold");
    assert!(replica.wait_ready(LONG));
    drop(replica);
    assert!(hold.maps().drop("it").unwrap());
    let mut killed = cast("rebuild", || {
        commonhold::steps::arm("write.locked:kill:2000").unwrap();
        let hold = Hold::open(source.test_dir.path("copy.hold")).unwrap();
        rebuild(&hold, "it", &file, &JournalOptions::default()).unwrap();
    });
    killed.wait();
    refused(hold.maps().open("it"), ErrorKind::Busy, "has not received its contents yet");
    rebuild(&hold, "it", &file, &JournalOptions::default()).unwrap();
    assert_eq!(pairs(&hold.maps().open("it").unwrap()), pairs(&source.map));
}

/// An old copy of the origin's hold is put back, and written on with changes of the same lengths.
#[test]
fn an_origin_from_an_old_copy_sends_the_whole_map() {
    let Source { test_dir, hold, map, origin, address, .. } = Source::new(MapOptions::general());
    let path = test_dir.path("origin.hold");
    drop((origin, map, hold));
    let open = || {
        let hold = Hold::open(&path).unwrap();
        let map = hold.maps().open("it").unwrap();
        (hold, map)
    };
    let (hold, map) = open();
    fill(&map, 0..10, "both");
    drop((map, hold));
    std::fs::copy(&path, test_dir.path("snapshot")).unwrap();
    let (hold, map) = open();
    fill(&map, 10..20, "then");
    drop((map, hold));
    let first = board();
    let origin = serves(&path, &address, first);
    let copy = Hold::create(test_dir.path("copy.hold")).unwrap();
    let replica = Replica::connect(&copy, "it", &address, eager(), ()).unwrap();
    assert!(replica.wait_ready(LONG));
    // It has applied something itself.
    let (hold, map) = open();
    fill(&map, 20..21, "then");
    agree(&map, &copy);
    drop((map, hold));
    first.put(ENOUGH, 1);
    origin.finish();
    // In place, as a machine's snapshot does it: a copied file would have another stream.
    std::fs::copy(test_dir.path("snapshot"), &path).unwrap();
    let (_hold, map) = open();
    fill(&map, 30..45, "here");
    let second = board();
    let origin = serves(&path, &address, second);
    agree(&map, &copy);
    second.put(ENOUGH, 1);
    origin.finish();
}

#[test]
fn an_origin_of_another_map_is_refused_until_it_is_adopted() {
    let mut source = Source::new(MapOptions::general());
    source.map.set("a", "1").unwrap();
    let copy = Copy::of(&source, "copy.hold");
    copy.agrees(&source);
    source.origin = None;
    let other = Hold::create(source.test_dir.path("other.hold")).unwrap();
    let map = other.maps().create("stock", MapOptions::general()).unwrap();
    map.set("b", "2").unwrap();
    let origin = Origin::start(&other, "stock", OriginOptions::default()).unwrap();
    origin.listen(&source.address).unwrap();
    fails_with(&copy.replica, "map 'stock' of hold 'other.hold'");
    fails_with(&copy.replica, "map 'it' of hold 'origin.hold'");
    assert_eq!(copy.pairs(), pairs(&source.map));
    let Copy { hold, replica } = copy;
    drop(replica);
    let options = ReplicaOptions { adopt: true, ..eager() };
    let adopting = Replica::connect(&hold, "it", &source.address, options, ()).unwrap();
    agree(&map, &hold);
    drop(adopting);
    // From now on it keeps to that one.
    drop(origin);
    source.begin(|_| ());
    let copy = Copy::of(&source, "copy.hold");
    fails_with(&copy.replica, "map 'it' of hold 'origin.hold'");
}

#[test]
fn nobody_takes_a_replicas_name_before_it_is_ready_or_reads_it() {
    let mut source = Source::new(MapOptions::fixed(1, 1));
    source.origin = None;
    let copy = Copy::of(&source, "copy.hold");
    // In another process.
    let reader = cast("reader", || {
        let hold = Hold::open(source.test_dir.path("copy.hold")).unwrap();
        let maps = hold.maps();
        let why = "has not received its contents yet";
        refused(maps.open("it"), ErrorKind::Busy, why);
        refused(maps.open_or_create("it", MapOptions::general()), ErrorKind::Busy, why);
        refused(maps.create("it", MapOptions::general()), ErrorKind::Exists, "it");
        refused(maps.promote("it"), ErrorKind::Busy, "already has a replica");
    });
    reader.finish();
    source.map.set([1], [1]).unwrap();
    source.begin(|_| ());
    copy.agrees(&source);
    let reader = cast("reader", || {
        let hold = Hold::open(source.test_dir.path("copy.hold")).unwrap();
        let map = hold.maps().open_or_create("it", MapOptions::fixed(1, 1)).unwrap();
        assert!(map.is_replica());
    });
    reader.finish();
}

#[test]
fn behind_a_relay_the_age_is_that_of_the_first_origin() {
    let source = Source::new(MapOptions::general());
    let path = source.test_dir.path("root.hold");
    let root = Hold::create(&path).unwrap();
    root.maps().create("it", MapOptions::general()).unwrap().set("a", "1").unwrap();
    let [at, to] = ["root", "relay"].map(|name| Address::Unix(source.test_dir.path(name)));
    let [first, second, third] = [(); 3].map(|()| board());
    let origin = serves(&path, &at, first);
    let relay = follows(&source.test_dir.path("relay.hold"), &at, Some(&to), second);
    let leaf = follows(&source.test_dir.path("leaf.hold"), &to, None, third);
    until("the leaf is ready", || third.get(READY) == 1 || leaf.is_gone());
    until("the leaf is young", || third.get(LAG_MS) < 1000);
    let hold = Hold::open(source.test_dir.path("leaf.hold")).unwrap();
    let lag = || hold.maps().open("it").unwrap().lag().unwrap().expect("a replica");
    until("the map says so, too", || lag().as_millis() < 2000);
    origin.slay();
    until("it gets older", || third.get(LAG_MS) > 3000 && lag().as_millis() > 3000);
    assert_eq!(third.get(READY), 1, "it is connected to the relay");
    assert_eq!(root.maps().open("it").unwrap().lag().unwrap(), None);
    [second, third].iter().for_each(|board| board.put(ENOUGH, 1));
    relay.finish();
    leaf.finish();
}

#[test]
fn relays_in_a_cycle_report_it() {
    let source = Source::new(MapOptions::general());
    let [one, two] = ["one", "two"].map(|name| Address::Unix(source.test_dir.path(name)));
    let relay = |name: &str, from: &Address, to: &Address| {
        let hold = Hold::create(source.test_dir.path(name)).unwrap();
        let replica = Replica::connect(&hold, "it", from, eager(), ()).unwrap();
        let origin = Origin::start(&hold, "it", OriginOptions::default()).unwrap();
        origin.listen(to).unwrap();
        (replica, origin)
    };
    let first = relay("one.hold", &two, &one);
    fails_with(&first.0, "cannot connect");
    let second = relay("two.hold", &one, &two);
    for relay in [&first, &second] {
        fails_with(&relay.0, "a cycle never gets any changes");
    }
}

#[test]
fn a_copied_hold_follows_the_one_that_it_was_copied_from() {
    let test_dir = commonhold_testing::support::test_dir::TestDir::memory();
    let [path, of_copy] = ["one.hold", "two.hold"].map(|name| test_dir.path(name));
    let address = Address::Unix(test_dir.path("origin"));
    let hold = Hold::create(&path).unwrap();
    hold.maps().create("it", MapOptions::general()).unwrap().set("a", "1").unwrap();
    drop(Origin::start(&hold, "it", OriginOptions::default()).unwrap());
    drop(hold);
    std::fs::copy(&path, &of_copy).unwrap();
    let [hold, copy] = [&path, &of_copy].map(|path| Hold::open(path).unwrap());
    let origin = Origin::start(&hold, "it", OriginOptions::default()).unwrap();
    origin.listen(&address).unwrap();
    assert!(copy.maps().drop("it").unwrap());
    let replica = Replica::connect(&copy, "it", &address, eager(), ()).unwrap();
    assert!(replica.wait_ready(LONG), "{:?}", replica.status());
    agree(&hold.maps().open("it").unwrap(), &copy);
}

/// Positions are those of the first origin in the whole tree.
#[test]
fn a_replica_continues_at_a_sibling_of_its_relay() {
    let source = Source::new(MapOptions::general());
    fill(&source.map, 0..1000, "1");
    let mut relays = Vec::new();
    for name in ["one", "two"] {
        let hold = Hold::create(source.test_dir.path(&format!("{name}.hold"))).unwrap();
        let options = ReplicaOptions { stream_bytes: Some(4 << 20), ..eager() };
        let replica = Replica::connect(&hold, "it", &source.address, options, ()).unwrap();
        let origin = Origin::start(&hold, "it", OriginOptions::default()).unwrap();
        let address = Address::Unix(source.test_dir.path(name));
        origin.listen(&address).unwrap();
        assert!(replica.wait_ready(LONG));
        relays.push((address, origin, replica, hold));
    }
    let hold = Hold::create(source.test_dir.path("leaf.hold")).unwrap();
    let options = ReplicaOptions { also: vec![relays[1].0.clone()], ..eager() };
    let leaf = Replica::connect(&hold, "it", &relays[0].0, options, ()).unwrap();
    assert!(leaf.wait_ready(LONG));
    for round in 0..6u32 {
        fill(&source.map, round * 100..round * 100 + 500, "2");
        source.map.delete(7u32.to_le_bytes()).unwrap();
        assert!(leaf.wait_for(source.end(), LONG), "{:?}", leaf.status());
        // Only the connection to the one relay is lost.
        let (_, origin, ..) = &relays[round as usize % 2];
        for replica in origin.replicas() {
            origin.detach(replica.id);
        }
    }
    drop(relays.remove(0));
    source.map.set("last", "3").unwrap();
    assert!(leaf.wait_for(source.end(), LONG), "{:?}", leaf.status());
    agree(&source.map, &hold);
    assert_eq!(leaf.status().synchronisations, 1, "{:?}", leaf.status());
}

/// It keeps the changes that only it has, until its user decides otherwise.
#[test]
fn a_replica_ahead_of_a_relay_is_refused() {
    let mut source = Source::new(MapOptions::general());
    fill(&source.map, 0..1000, "1");
    let hold = Hold::create(source.test_dir.path("relay.hold")).unwrap();
    let options = ReplicaOptions { stream_bytes: Some(4 << 20), ..eager() };
    let relay = Replica::connect(&hold, "it", &source.address, options, ()).unwrap();
    let origin = Origin::start(&hold, "it", OriginOptions::default()).unwrap();
    let to = Address::Unix(source.test_dir.path("relay"));
    origin.listen(&to).unwrap();
    assert!(relay.wait_for(source.end(), LONG), "{:?}", relay.status());
    // The relay serves on, but follows no more.
    drop(relay);
    let older = pairs(&hold.maps().open("it").unwrap());
    let leaf_hold = Hold::create(source.test_dir.path("leaf.hold")).unwrap();
    let also = || vec![to.clone()];
    let options = ReplicaOptions { also: also(), ..eager() };
    let leaf = Replica::connect(&leaf_hold, "it", &source.address, options, ()).unwrap();
    fill(&source.map, 500..1500, "2");
    assert!(leaf.wait_for(source.end(), LONG), "{:?}", leaf.status());
    source.origin = None;
    fails_with(&leaf, "accept its older contents with --adopt");
    let pairs_of_leaf = || pairs(&leaf_hold.maps().open("it").unwrap());
    assert_eq!(pairs_of_leaf(), pairs(&source.map));
    drop(leaf);
    let options = ReplicaOptions { adopt: true, ..eager() };
    let leaf = Replica::connect(&leaf_hold, "it", &to, options, ()).unwrap();
    until("the older contents", || pairs_of_leaf() == older);
    drop(leaf);
}

/// The drill of `docs/operations/failover.md`: of what was acknowledged, nothing is lost.
#[test]
fn the_origin_is_killed_under_load_and_a_replica_takes_over() {
    let test_dir = commonhold_testing::support::test_dir::TestDir::memory();
    let path = test_dir.path("origin.hold");
    let hold = Hold::create(&path).unwrap();
    let map = hold.maps().create("it", MapOptions::general()).unwrap();
    let [old, new] = ["old", "new"].map(|name| Address::Unix(test_dir.path(name)));
    let [first, second, third, fourth] = [(); 4].map(|()| board());
    let origin = serves(&path, &old, first);
    let heir = follows(&test_dir.path("heir.hold"), &old, Some(&new), second);
    let other = cast("replica", || {
        let hold = Hold::create(test_dir.path("other.hold")).unwrap();
        let options = ReplicaOptions { also: vec![new.clone()], ..eager() };
        let replica = Replica::connect(&hold, "it", &old, options, ()).unwrap();
        until("enough", || {
            third.put(READY, u64::from(replica.status().ready));
            third.get(ENOUGH) == 1
        });
    });
    until("both are ready", || second.get(READY) + third.get(READY) == 2);
    let writer = cast("writer", || {
        let hold = Hold::open(&path).unwrap();
        let map = hold.maps().open("it").unwrap();
        let mut number = 0u64;
        while fourth.get(ENOUGH) == 0 {
            map.set(number.to_be_bytes(), number.to_le_bytes()).unwrap();
            number += 1;
            fourth.put(UP, number);
        }
    });
    until("there is load", || fourth.get(UP) > 2000);
    // The pairs that the heir has applied by now are acknowledged.
    let count = map.len().unwrap();
    let acknowledged = map.follow().unwrap().end().unwrap();
    let copy = Hold::open(test_dir.path("heir.hold")).unwrap();
    let applied = || copy.maps().open("it").unwrap().stat().unwrap().stream.unwrap().end;
    until("the heir has it", || applied().offset >= acknowledged.offset);
    origin.slay();
    fourth.put(ENOUGH, 1);
    writer.finish();
    heir.slay();
    let promotion = promote(&copy, "it").unwrap().unwrap();
    assert_eq!(promotion.epoch, 2);
    let promoted = copy.maps().open("it").unwrap();
    let kept = promoted.len().unwrap();
    assert!((count..=map.len().unwrap()).contains(&kept), "{kept} of {count}");
    for number in 0..kept {
        let value = promoted.get(number.to_be_bytes()).unwrap();
        assert_eq!(value.as_deref(), Some(&number.to_le_bytes()[..]), "{number} of {kept}");
    }
    let serving = serves(&test_dir.path("heir.hold"), &new, first);
    promoted.set("after", "the fall").unwrap();
    agree(&promoted, &Hold::open(test_dir.path("other.hold")).unwrap());
    // The old origin comes back, and becomes a replica.
    drop(map);
    assert!(hold.maps().drop("it").unwrap());
    let back = Replica::connect(&hold, "it", &new, eager(), ()).unwrap();
    agree(&promoted, &hold);
    drop(back);
    [first, third].iter().for_each(|board| board.put(ENOUGH, 1));
    serving.finish();
    other.finish();
}
