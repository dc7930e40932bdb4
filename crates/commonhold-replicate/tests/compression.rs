//! Full syncs whose pairs are compressed, and which connections compress them.

use crate::party::{Copy, LONG, Source, eager, pairs};
use commonhold::Hold;
use commonhold::map::MapOptions;
use commonhold_replicate::Compression::{self, Always, Auto, Never};
use commonhold_replicate::{Address, Replica, ReplicaOptions, ReplicaStatus};
use commonhold_testing::support::Dice;
use commonhold_testing::support::process::{pause, until};
use std::time::Duration;

/// The largest block, which `docs/reference/wire.md` states.
const BLOCK: usize = 256 << 10;

fn copy(source: &Source, name: &str, address: &Address, compression: Compression) -> Copy {
    let hold = Hold::create(source.test_dir.path(name)).unwrap();
    let options = ReplicaOptions { compression, ..eager() };
    let replica = Replica::connect(&hold, "it", address, options, ()).unwrap();
    Copy { hold, replica }
}

fn source(map: MapOptions, compression: Compression) -> Source {
    Source::with(map, |options| options.compression = compression)
}

/// Bytes of pairs, and the same on the wire, as both sides report them.
#[track_caller]
fn sync_bytes(source: &Source, copy: &Copy) -> (u64, u64) {
    let replica = || {
        let ReplicaStatus { sync_bytes, sync_wire_bytes, .. } = copy.replica.status();
        (sync_bytes, sync_wire_bytes)
    };
    let origin = || {
        let replicas = source.origin().replicas();
        replicas.iter().map(|one| (one.sync_bytes, one.sync_wire_bytes)).next_back()
    };
    until("both sides to report the same", || replica().0 > 0 && origin() == Some(replica()));
    replica()
}

fn random(dice: &mut Dice, len: usize) -> Vec<u8> {
    (0..len).map(|_| dice.roll() as u8).collect()
}

/// Pairs of every kind: short and long ones, some longer than a block, some that no compression
/// makes shorter.
fn fill(source: &Source, dice: &mut Dice) {
    for id in 0..2000u32 {
        let len = dice.below(3000) as usize;
        let value = if id % 4 == 0 { random(dice, len) } else { vec![id as u8; len] };
        source.map.set(id.to_be_bytes(), value).unwrap();
    }
    for (id, len) in [BLOCK - 48, BLOCK - 47, BLOCK, 3 * BLOCK].into_iter().enumerate() {
        source.map.set(format!("long {id}"), vec![7; len]).unwrap();
        source.map.set(format!("random {id}"), random(dice, len)).unwrap();
    }
}

#[test]
fn a_compressed_full_sync_gives_the_same_map() {
    let source = source(MapOptions::general(), Always);
    let mut dice = Dice::new(5);
    fill(&source, &mut dice);
    for round in 0..5 {
        let copy = copy(&source, &format!("copy{round}.hold"), &source.address, Always);
        // Changes between the blocks.
        while !copy.replica.status().ready {
            let id = dice.below(3000) as u32;
            source.map.set(id.to_be_bytes(), vec![round; 100]).unwrap();
            source.map.delete((id / 2).to_be_bytes()).unwrap();
            // So slowly that no replica is lapped, and begins again.
            pause();
        }
        copy.agrees(&source);
        let (bytes, on_wire) = sync_bytes(&source, &copy);
        assert!(on_wire < bytes, "{on_wire} of {bytes}");
        assert_eq!(copy.replica.status().synchronisations, 1);
    }
}

/// Pairs leave the replica when they expire, although its origin has ended.
#[test]
fn pairs_of_caches_keep_their_expiry() {
    let mut source = source(MapOptions::cache().into(), Always);
    let (short, hour) = (Duration::from_secs(2), Duration::from_secs(3600));
    for id in 0..500u32 {
        source.map.set_with_ttl(id.to_be_bytes(), [1; 50], hour).unwrap();
    }
    source.map.set_with_ttl("passes", [1; 50], short).unwrap();
    let copy = copy(&source, "copy.hold", &source.address, Always);
    assert!(copy.replica.wait_ready(LONG), "{:?}", copy.replica.status());
    let (bytes, on_wire) = sync_bytes(&source, &copy);
    assert!(on_wire < bytes, "{on_wire} of {bytes}");
    source.origin = None;
    let map = copy.hold.maps().open("it").unwrap();
    until("the pair to expire", || map.get("passes").unwrap().is_none());
    assert_eq!(map.iter().count(), 500);
}

#[test]
fn pairs_that_do_not_get_shorter_are_sent_as_they_are() {
    let source = source(MapOptions::general(), Always);
    let mut dice = Dice::new(6);
    for id in 0..20u32 {
        source.map.set(id.to_be_bytes(), random(&mut dice, 50_000)).unwrap();
    }
    let copy = copy(&source, "copy.hold", &source.address, Always);
    copy.agrees(&source);
    let (bytes, on_wire) = sync_bytes(&source, &copy);
    assert!(on_wire <= bytes, "{on_wire} of {bytes}");
}

#[test]
fn both_sides_have_to_allow_it_and_by_default_none_does_on_one_machine() {
    for (origin, replica, is_packed) in [
        (Always, Always, true),
        (Always, Never, false),
        (Never, Always, false),
        (Auto, Always, false),
        (Always, Auto, false),
        (Auto, Auto, false),
    ] {
        let source = source(MapOptions::general(), origin);
        for id in 0..500u32 {
            source.map.set(id.to_be_bytes(), [7; 100]).unwrap();
        }
        let tcp = source.origin().listen(&"tcp:0".parse().unwrap()).unwrap();
        for (number, address) in [&source.address, &tcp].into_iter().enumerate() {
            let copy = copy(&source, &format!("{number}.hold"), address, replica);
            copy.agrees(&source);
            let (bytes, on_wire) = sync_bytes(&source, &copy);
            assert!(bytes > 50_000, "{bytes}");
            assert_eq!(on_wire < bytes / 4, is_packed, "{origin:?} {replica:?} {address}");
        }
    }
}

/// A later connection resumes: nothing is sent again, compressed or not.
#[test]
fn a_replica_resumes_after_a_compressed_full_sync() {
    let mut source = source(MapOptions::general(), Always);
    fill(&source, &mut Dice::new(7));
    let copy = copy(&source, "copy.hold", &source.address, Always);
    copy.agrees(&source);
    source.origin = None;
    source.map.set("more", "1").unwrap();
    source.begin(|options| options.compression = Always);
    assert!(copy.replica.wait_for(source.end(), LONG), "{:?}", copy.replica.status());
    assert_eq!(copy.pairs(), pairs(&source.map));
    assert_eq!(copy.replica.status().synchronisations, 1);
}
