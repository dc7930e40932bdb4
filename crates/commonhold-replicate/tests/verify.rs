//! Comparing a replica with its origin while both keep changing.

use crate::party::{Copy, LONG, SMALL_STREAM, Source, eager};
use commonhold::ErrorKind;
use commonhold::map::MapOptions;
use commonhold_replicate::{Address, Replica, ReplicaOptions, Verified, digest, verify};
use commonhold_testing::support::Dice;
use commonhold_testing::support::refused;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

fn compare(copy: &Copy, source: &Source) -> commonhold::Result<Verified> {
    verify(&copy.hold, "it", &source.address, eager(), (LONG, 10))
}

/// A write that only the replica's own process could make, by mistake.
fn spoil(copy: &Copy, key: &str, value: Option<&str>) {
    let own = copy.hold.maps().open_replica("it", MapOptions::general()).unwrap();
    match value {
        Some(value) => drop(own.set(key, value).unwrap()),
        None => assert!(own.delete(key).unwrap()),
    }
}

#[test]
fn differences_are_named() {
    let source = Source::new(MapOptions::general());
    for id in 0..2000 {
        source.map.set(format!("key {id}"), "value").unwrap();
    }
    let copy = Copy::of(&source, "copy.hold");
    copy.agrees(&source);
    let found = compare(&copy, &source).unwrap();
    assert!(found.is_equal(), "{found:?}");
    assert_eq!((found.pairs, found.rounds), (2000, 1));
    assert_eq!(found.origin_digest, found.replica_digest);
    assert_eq!(found.origin_digest, digest(&source.map).unwrap());
    assert_eq!(found.position, source.end());

    spoil(&copy, "key 7", Some("another"));
    spoil(&copy, "key 8", None);
    spoil(&copy, "too many", Some(""));
    let found = compare(&copy, &source).unwrap();
    assert_eq!(found.differing, [b"key 7".to_vec(), b"key 8".to_vec(), b"too many".to_vec()]);
    assert_eq!((found.different, found.undecided), (3, 0));
    assert_ne!(found.origin_digest, found.replica_digest);
}

#[test]
fn changes_meanwhile_are_no_differences() {
    let source = Source::new(MapOptions::general());
    for id in 0..3000 {
        source.map.set(format!("{id}"), "value").unwrap();
    }
    let copy = Copy::of(&source, "copy.hold");
    copy.agrees(&source);
    let over = AtomicBool::new(false);
    std::thread::scope(|scope| {
        let writer = scope.spawn(|| {
            let mut dice = Dice::new(1);
            while !over.load(Ordering::Relaxed) {
                source.map.set(format!("{}", dice.below(3000)), dice.below(9).to_string()).unwrap();
                std::thread::sleep(Duration::from_micros(50));
            }
        });
        for round in 0..6 {
            if round == 3 {
                spoil(&copy, "never written", Some(""));
            }
            let found = compare(&copy, &source).unwrap();
            assert_eq!(found.undecided, 0, "{found:?}");
            assert_eq!(found.different, u64::from(round >= 3), "{found:?}");
        }
        over.store(true, Ordering::Relaxed);
        writer.join().unwrap();
    });
}

#[test]
fn maps_that_are_sent_again_meanwhile_are_not_taken_for_different() {
    let source = Source::with(MapOptions::general(), |options| options.stream_bytes = SMALL_STREAM);
    for id in 0..3000 {
        source.map.set(format!("{id}"), "value").unwrap();
    }
    let copy = Copy::of(&source, "copy.hold");
    copy.agrees(&source);
    let over = AtomicBool::new(false);
    std::thread::scope(|scope| {
        let writer = scope.spawn(|| {
            let mut dice = Dice::new(1);
            for round in 0.. {
                if over.load(Ordering::Relaxed) {
                    return;
                }
                // Behind another stream, the replica and the copy need the whole map.
                source.hold.maps().begin_stream("it", SMALL_STREAM << (round % 2)).unwrap();
                for _ in 0..50 {
                    source.map.set(dice.below(3000).to_string(), dice.roll().to_string()).unwrap();
                }
                std::thread::sleep(Duration::from_millis(20));
            }
        });
        let patience = Duration::from_secs(5);
        let look = |_| verify(&copy.hold, "it", &source.address, eager(), (patience, 10));
        let found: Vec<_> = (0..10).map(look).collect();
        over.store(true, Ordering::Relaxed);
        writer.join().unwrap();
        for found in found {
            match found {
                Ok(found) => assert_eq!(found.different, 0, "{found:?}"),
                // The replica did not follow the new stream yet.
                Err(error) if error.kind() == ErrorKind::Mismatch => {}
                Err(error) => assert_eq!(error.kind(), ErrorKind::TimedOut, "{error}"),
            }
        }
    });
    assert!(copy.replica.status().synchronisations > 2);
    let found = compare(&copy, &source).unwrap();
    assert!(found.is_equal(), "{found:?}");
}

#[test]
fn incomparable_maps_are_refused() {
    let source = Source::new(MapOptions::general());
    let other = Source::new(MapOptions::general());
    let copy = Copy::of(&source, "copy.hold");
    copy.agrees(&source);
    refused(compare(&copy, &other), ErrorKind::Mismatch, "another stream");
    let own = verify(&source.hold, "it", &source.address, eager(), (LONG, 10));
    refused(own, ErrorKind::NotFound, "is not a replica");
    let none = verify(
        &copy.hold,
        "it",
        &"unix:/nowhere".parse().unwrap(),
        eager(),
        // Long enough for an attempt also on a busy machine.
        (Duration::from_secs(2), 10),
    );
    refused(none, ErrorKind::TimedOut, "cannot connect");
}

/// Python's `inf` is this.
#[test]
fn a_time_may_be_without_end() {
    let source = Source::new(MapOptions::general());
    source.map.set("a", "1").unwrap();
    let copy = Copy::of(&source, "copy.hold");
    copy.agrees(&source);
    let found = verify(&copy.hold, "it", &source.address, eager(), (Duration::MAX, 10)).unwrap();
    assert!(found.is_equal(), "{found:?}");

    let (first_pause, longest_pause) = (Duration::MAX, Duration::MAX);
    let options = ReplicaOptions { first_pause, longest_pause, ..eager() };
    let nobody = Address::Unix(source.test_dir.path("nobody"));
    let replica = Replica::connect(&copy.hold, "other", &nobody, options, ()).unwrap();
    assert!(replica.wait(LONG, |status| status.last_error.is_some()));
    assert!(!replica.wait(Duration::from_millis(300), |status| status.ended), "it panicked");
}
