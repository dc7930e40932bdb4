//! Replicas of the keys of a prefix: they get exactly these pairs, at the origin's positions.
//!
//! | module | idea |
//! |---|---|
//! | [`drills`] | kills, stops and broken connections, with real processes |
//! | [`wire`] | the bytes between both sides: few, and none that are believed blindly |
//! | [`refusals`] | a part of a map is no origin, and does not become another part |

mod drills;
mod refusals;
mod wire;

use crate::party::{Copy, LONG, SMALL_STREAM, Source, eager, pairs};
use commonhold::Hold;
use commonhold::map::{Map, MapOptions};
use commonhold::stream::ChangeKind;
use commonhold_replicate::{
    Address, Compression, HoldOrigin, HoldOriginOptions, Origin, OriginOptions, Replica,
    ReplicaOptions, ReplicaStatus, verify,
};
use commonhold_testing::support::process::until;
use std::collections::BTreeMap;
use std::time::{Duration, Instant};

/// The options of a replica of a prefix.
fn of(prefix: &[u8]) -> ReplicaOptions {
    ReplicaOptions { prefix: Some(prefix.to_vec()), ..eager() }
}

/// A replica of a prefix.
fn part(source: &Source, name: &str, prefix: &[u8]) -> Copy {
    let hold = Hold::open_or_create(source.test_dir.path(name)).unwrap();
    let replica = Replica::connect(&hold, "it", &source.address, of(prefix), ()).unwrap();
    Copy { hold, replica }
}

/// The pairs of a map whose keys begin with a prefix.
fn pairs_of(map: &Map, prefix: &[u8]) -> BTreeMap<Vec<u8>, Vec<u8>> {
    pairs(map).into_iter().filter(|(key, _)| key.starts_with(prefix)).collect()
}

/// Waits until a replica has reached the end of the stream, and compares all its pairs.
#[track_caller]
fn agrees(copy: &Copy, source: &Source, prefix: &[u8]) {
    assert!(copy.replica.wait_ready(LONG), "{:?}", copy.replica.status());
    let there = copy.replica.wait_for(source.end(), LONG);
    assert!(there, "{:?}, the origin said {:?}", copy.replica.status(), source.said.lock());
    assert_eq!(copy.pairs(), pairs_of(&source.map, prefix));
}

/// Sets, updates and deletes keys that begin with bytes from 0 to 9.
fn write(map: &Map, value: u8) {
    for number in 0..500u32 {
        let key = [(number % 10) as u8, (number / 10) as u8, 0, 0];
        if (number + u32::from(value)).is_multiple_of(7) {
            map.delete(key).unwrap();
        } else {
            map.set(key, [value; 4]).unwrap();
        }
    }
}

#[test]
fn a_replica_gets_exactly_the_pairs_of_its_prefix() {
    for options in [MapOptions::general(), MapOptions::fixed(4, 4), MapOptions::cache().into()] {
        let source = Source::new(options);
        write(&source.map, 1);
        let prefixes = [&[3][..], &[3, 7], &[3, 7, 0, 0], &[3, 7, 0, 0, 0], &[200]];
        let copies: Vec<_> = (0..)
            .zip(prefixes)
            .map(|(number, prefix)| (part(&source, &format!("{number}.hold"), prefix), prefix))
            .collect();
        let whole = Copy::of(&source, "whole.hold");
        for value in 2..10 {
            write(&source.map, value);
            copies.iter().for_each(|(copy, prefix)| agrees(copy, &source, prefix));
        }
        whole.agrees(&source);
        source.map.clear().unwrap();
        copies.iter().for_each(|(copy, prefix)| agrees(copy, &source, prefix));
        for (copy, prefix) in &copies {
            let status = copy.replica.status();
            assert_eq!((status.synchronisations, status.connections), (1, 1), "{status:?}");
            assert_eq!(status.lag_bytes, 0);
            let of = source.origin().replicas();
            let text = prefix.escape_ascii().to_string();
            assert_eq!(of.iter().filter(|r| r.prefix == status.prefix).count(), 1, "{of:?}");
            assert_eq!(status.prefix, Some(text));
        }
    }
}

/// The values are long, so that they go out of the stream's memory without a copy, and are
/// compressed in the full sync.
#[test]
fn long_values_and_compressed_full_syncs_are_filtered() {
    let source = Source::with(MapOptions::general(), |options| {
        options.stream_bytes = 32 << 20;
        options.compression = Compression::Always;
    });
    let write = |value: u8| {
        for number in 0..60u8 {
            source.map.set([number % 2, number], vec![value; 100_000]).unwrap();
        }
        source.map.set([0, 99], vec![value; 3 << 20]).unwrap();
        source.map.set([1, 99], vec![value; 3 << 20]).unwrap();
    };
    write(1);
    let hold = Hold::create(source.test_dir.path("copy.hold")).unwrap();
    let options = ReplicaOptions { compression: Compression::Always, ..of(&[1]) };
    let replica = Replica::connect(&hold, "it", &source.address, options, ()).unwrap();
    let copy = Copy { hold, replica };
    agrees(&copy, &source, &[1]);
    let status = copy.replica.status();
    // The longest pair is not compressed.
    assert!(status.sync_wire_bytes < 4 << 20, "{status:?}");
    // Half of the pairs.
    assert!((6_100_000..6_300_000).contains(&status.sync_bytes), "{status:?}");
    for value in 2..6 {
        write(value);
        agrees(&copy, &source, &[1]);
    }
    assert_eq!(copy.replica.status().synchronisations, 1);
}

/// Pairs expire at the origin, and their removals come as changes.
#[test]
fn pairs_of_a_prefix_expire() {
    let source = Source::new(MapOptions::cache().into());
    let copy = part(&source, "copy.hold", b"a");
    agrees(&copy, &source, b"a");
    for number in 0..200u32 {
        let key = format!("{}{number}", if number % 2 == 0 { "a" } else { "b" });
        source.map.set_with_ttl(&key, "1", Duration::from_millis(1)).unwrap();
        source.map.set(format!("a stays {number}"), "1").unwrap();
    }
    let removed = || copy.hold.maps().open("it").unwrap().len().unwrap() == 200;
    until("the removals have come", removed);
    agrees(&copy, &source, b"a");
    assert_eq!(copy.replica.status().synchronisations, 1);
}

/// The change cannot be in the stream, and its key is not known: it may have the prefix.
#[test]
fn a_gap_brings_the_whole_part() {
    let source = Source::with(MapOptions::general(), |options| options.stream_bytes = SMALL_STREAM);
    let copy = part(&source, "copy.hold", b"a");
    agrees(&copy, &source, b"a");
    for key in ["a", "b"] {
        source.map.set(key, vec![1; SMALL_STREAM as usize]).unwrap();
        source.map.set("a2", key).unwrap();
        let has = || {
            let copy = copy.hold.maps().open("it").unwrap();
            pairs(&copy) == pairs_of(&source.map, b"a")
        };
        until("the part has come", has);
    }
    assert!(copy.replica.status().synchronisations >= 2);
}

#[test]
fn a_replica_resumes_behind_changes_that_it_does_not_want() {
    let source = Source::new(MapOptions::general());
    write(&source.map, 1);
    let copy = part(&source, "copy.hold", &[3]);
    agrees(&copy, &source, &[3]);
    let others = |value: u8| {
        for number in 0..1000u32 {
            source.map.set([&[7][..], &number.to_le_bytes()].concat(), [value]).unwrap();
        }
    };
    // It has passed over the last changes; then it has not seen any of them.
    others(1);
    agrees(&copy, &source, &[3]);
    drop(copy);
    let copy = part(&source, "copy.hold", &[3]);
    agrees(&copy, &source, &[3]);
    assert_eq!(copy.replica.status().synchronisations, 0);
    drop(copy);
    others(2);
    source.map.set([3], "new").unwrap();
    others(3);
    let copy = part(&source, "copy.hold", &[3]);
    agrees(&copy, &source, &[3]);
    assert!(copy.replica.wait(LONG, |status| status.changes == 1), "{:?}", copy.replica.status());
    assert_eq!(copy.replica.status().synchronisations, 0);
}

#[test]
fn changes_that_a_replica_does_not_want_are_waited_for() {
    let source = Source::new(MapOptions::general());
    let copy = part(&source, "copy.hold", b"a");
    agrees(&copy, &source, b"a");
    for number in 0..50u32 {
        source.map.set(["a", "b"][number as usize % 2], number.to_le_bytes()).unwrap();
        assert_eq!(source.map.wait_for_replicas(1, LONG).unwrap(), 1);
        assert_eq!(copy.replica.status().position, Some(source.end()));
    }
    // Its data becomes younger than the last change, which it did not want.
    source.map.set("b", "last").unwrap();
    let changed = Instant::now();
    let younger = |status: &ReplicaStatus| {
        u128::from(status.lag_ms) < changed.elapsed().as_millis() && status.lag_bytes == 0
    };
    assert!(copy.replica.wait(LONG, younger), "{:?}", copy.replica.status());
}

/// Clearing waits for the replicas, whose reports are of changes that they do not want.
#[test]
fn clearing_laps_no_replica_of_a_prefix() {
    let source = Source::with(MapOptions::general(), |options| options.stream_bytes = SMALL_STREAM);
    for number in 0..20_000u32 {
        source.map.set(number.to_be_bytes(), "some value").unwrap();
    }
    let copy = part(&source, "copy.hold", &[0, 0, 1]);
    agrees(&copy, &source, &[0, 0, 1]);
    assert_eq!(copy.pairs().len(), 256);
    assert_eq!(source.map.clear().unwrap(), 20_000);
    agrees(&copy, &source, &[0, 0, 1]);
    assert!(copy.pairs().is_empty());
}

/// The end of an origin sends what it had held back.
#[test]
fn an_origin_that_ends_sends_the_last_position() {
    let mut source = Source::new(MapOptions::general());
    let copy = part(&source, "copy.hold", b"a");
    agrees(&copy, &source, b"a");
    for _ in 0..10 {
        source.map.set("b", "1").unwrap();
    }
    let end = source.end();
    source.origin.take().unwrap().finish(LONG);
    assert!(copy.replica.wait_for(end, LONG), "{:?}", copy.replica.status());
}

/// A relay has all keys at the origin's positions, so it serves parts as the origin does.
#[test]
fn a_replica_of_a_prefix_goes_on_at_a_relay() {
    let mut source = Source::new(MapOptions::general());
    write(&source.map, 1);
    let relay_hold = Hold::create(source.test_dir.path("relay.hold")).unwrap();
    let options = ReplicaOptions { stream_bytes: Some(4 << 20), ..eager() };
    let relay = Replica::connect(&relay_hold, "it", &source.address, options, ()).unwrap();
    assert!(relay.wait_ready(LONG));
    let address = Address::Unix(source.test_dir.path("relay"));
    let at_relay = Origin::start(&relay_hold, "it", OriginOptions::default()).unwrap();
    at_relay.listen(&address).unwrap();
    let hold = Hold::create(source.test_dir.path("copy.hold")).unwrap();
    let options = ReplicaOptions { also: vec![address], ..of(&[3]) };
    let replica = Replica::connect(&hold, "it", &source.address, options, ()).unwrap();
    let copy = Copy { hold, replica };
    agrees(&copy, &source, &[3]);
    // The last change is one that the replica does not want.
    (2..5).for_each(|value| write(&source.map, value));
    source.map.set([9], "last").unwrap();
    assert!(relay.wait_for(source.end(), LONG));
    agrees(&copy, &source, &[3]);
    source.origin = None;
    let at_relay = |status: &ReplicaStatus| status.connections == 2;
    assert!(copy.replica.wait(LONG, at_relay), "{:?}", copy.replica.status());
    source.begin(|_| ());
    write(&source.map, 6);
    agrees(&copy, &source, &[3]);
    assert_eq!(copy.replica.status().synchronisations, 1);
}

/// A stream of the part has positions of its own: it lacks changes.
#[test]
fn a_part_that_is_watched_keeps_its_stream_over_a_full_sync() {
    let source = Source::with(MapOptions::general(), |options| options.stream_bytes = SMALL_STREAM);
    write(&source.map, 1);
    let copy = part(&source, "copy.hold", &[3]);
    agrees(&copy, &source, &[3]);
    copy.hold.maps().begin_stream("it", SMALL_STREAM).unwrap();
    let lapped = |value: u8| {
        (0..20).for_each(|_| write(&source.map, value));
        write(&source.map, value);
    };
    drop(copy);
    lapped(2);
    let copy = part(&source, "copy.hold", &[3]);
    agrees(&copy, &source, &[3]);
    let synchronisations = copy.replica.status().synchronisations;
    assert_eq!(synchronisations, 1);
    let map = copy.hold.maps().open("it").unwrap();
    let mut follower = map.follow().unwrap();
    source.map.set([4, 1], "not wanted").unwrap();
    source.map.set([3, 1], "wanted").unwrap();
    agrees(&copy, &source, &[3]);
    let change = follower.recv_timeout(LONG).unwrap().unwrap();
    assert_eq!(
        (change.kind, change.key, change.value),
        (ChangeKind::Set, &[3, 1][..], &b"wanted"[..])
    );
    assert_eq!(copy.replica.status().synchronisations, synchronisations);
}

#[test]
fn a_map_of_a_whole_hold_is_replicated_by_prefix() {
    let source = Source::new(MapOptions::general());
    write(&source.map, 1);
    let origin = HoldOrigin::start(&source.hold, HoldOriginOptions::default()).unwrap();
    let address = Address::Unix(source.test_dir.path("whole"));
    origin.listen(&address).unwrap();
    let hold = Hold::create(source.test_dir.path("copy.hold")).unwrap();
    let options = ReplicaOptions { map: Some("it".into()), ..of(&[3]) };
    let replica = Replica::connect(&hold, "part", &address, options, ()).unwrap();
    assert!(replica.wait_ready(LONG), "{:?}", replica.status());
    write(&source.map, 2);
    assert!(replica.wait_for(source.end(), LONG));
    assert_eq!(pairs(&hold.maps().open("part").unwrap()), pairs_of(&source.map, &[3]));
}

#[test]
fn a_part_is_compared_with_the_same_keys_of_the_origin() {
    let source = Source::new(MapOptions::general());
    write(&source.map, 1);
    let copy = part(&source, "copy.hold", &[3]);
    agrees(&copy, &source, &[3]);
    let check = || verify(&copy.hold, "it", &source.address, eager(), (LONG, 10)).unwrap();
    let found = check();
    assert!(found.is_equal(), "{found:?}");
    assert_eq!(found.pairs, copy.pairs().len() as u64);
    assert_eq!(found.prefix.as_deref(), Some("\\x03"));
    let Copy { hold, replica } = copy;
    drop(replica);
    let own = hold.maps().open_replica("it", MapOptions::general()).unwrap();
    own.set([3, 100], "made up").unwrap();
    drop(own);
    let replica = Replica::connect(&hold, "it", &source.address, of(&[3]), ()).unwrap();
    assert!(replica.wait_ready(LONG));
    let found = verify(&hold, "it", &source.address, eager(), (LONG, 10)).unwrap();
    assert_eq!(found.differing, [vec![3, 100]], "{found:?}");
}
