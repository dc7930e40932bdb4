//! Maps that only a replica writes, and how one takes the place of another under its readers.

use crate::support::process::{Board, Child, End, until};
use crate::support::refused;
use crate::support::test_dir::TestDir;
use commonhold::map::{List, Map, MapOptions, Text, Values};
use commonhold::stream::{ChangeKind, StreamPosition};
use commonhold::{ErrorKind, Hold, Result};
use nix::sys::signal::Signal;
use std::sync::atomic::{AtomicBool, Ordering};

const SHAPES: [fn() -> MapOptions; 4] = [
    MapOptions::general,
    || MapOptions::fixed(4, 4),
    || MapOptions::fixed(4, 16),
    || MapOptions::cache().into(),
];

fn key(id: u32) -> [u8; 4] {
    id.to_be_bytes()
}

/// The value of a version, as long as the map wants it.
fn value(map: &Map, version: u64) -> Vec<u8> {
    let len = match map.options().mode() {
        commonhold::map::MapMode::Fixed { value_bytes, .. } => value_bytes as usize,
        _ => 24,
    };
    let mut value = (version as u32).to_le_bytes().to_vec();
    value.resize(len, version as u8);
    value
}

fn version(value: &[u8]) -> u32 {
    u32::from_le_bytes(value[..4].try_into().unwrap())
}

/// Builds a shadow map of `len` pairs and lets it take the place of the map.
fn renew(hold: &Hold, name: &str, number: u64, len: u32) -> Result<()> {
    let next = commonhold::raw::create_shadow_map(hold, "next", name)?;
    for id in 0..len {
        next.set(key(id), value(&next, number))?;
    }
    commonhold::raw::swap_in_shadow_map(hold, "next", name)
}

#[test]
fn only_the_replica_writes() {
    let test_dir = TestDir::memory();
    let hold = Hold::create(test_dir.path("it.hold")).unwrap();
    let own = hold.maps().open_replica("it", MapOptions::general()).unwrap();
    own.set("a", "1").unwrap();
    let other = hold.maps().open_or_create("it", MapOptions::general()).unwrap();
    assert!(other.is_replica() && other.stat().unwrap().replica);
    assert_eq!(other.get("a").unwrap().as_deref(), Some(&b"1"[..]));
    let read_only = |result: Result<()>| refused(result, ErrorKind::ReadOnly, "is a replica");
    read_only(other.set("a", "2").map(drop));
    read_only(other.add("b", "2").map(drop));
    read_only(other.replace("a", "2").map(drop));
    read_only(other.delete("a").map(drop));
    read_only(other.take("a").map(drop));
    read_only(other.increment("n", 1).map(drop));
    read_only(other.compare_exchange("a", Some(b"1"), None).map(drop));
    read_only(other.update("a", |_| None).map(drop));
    read_only(other.set_many(&[("a", "2")]));
    read_only(other.clear().map(drop));
    read_only(other.typed::<Text, List>().push("l", "x").map(drop));
    assert_eq!(other.get("a").unwrap().as_deref(), Some(&b"1"[..]));
    own.clear().unwrap();

    hold.maps().open_or_create("plain", MapOptions::general()).unwrap();
    let plain =
        |result: Result<()>| refused(result, ErrorKind::Mismatch, "'plain' is not a replica");
    plain(hold.maps().open_replica("plain", MapOptions::general()).map(drop));
    plain(commonhold::raw::create_shadow_map(&hold, "next", "plain").map(drop));
    plain(commonhold::raw::create_shadow_map(&hold, "plain", "it").map(drop));
    plain(commonhold::raw::swap_in_shadow_map(&hold, "it", "plain"));
    plain(commonhold::raw::swap_in_shadow_map(&hold, "plain", "it"));
    refused(
        commonhold::raw::swap_in_shadow_map(&hold, "next", "it"),
        ErrorKind::NotFound,
        "map 'next' does not exist",
    );
    hold.maps().open_replica("other", MapOptions::fixed(4, 4)).unwrap();
    refused(
        commonhold::raw::swap_in_shadow_map(&hold, "other", "it"),
        ErrorKind::Mismatch,
        "different modes",
    );
    refused(
        hold.maps().open_replica("other", MapOptions::general()),
        ErrorKind::Mismatch,
        "exists as",
    );
    assert!(hold.check().unwrap().ok);
}

#[test]
fn a_map_without_contents_is_opened_by_nobody_until_others_take_its_place() {
    let test_dir = TestDir::memory();
    let hold = Hold::create(test_dir.path("it.hold")).unwrap();
    commonhold::raw::create_unready_map(&hold, "it", MapOptions::general()).unwrap();
    let why = "has not received its contents yet";
    let reader = Hold::options().read_only(true).open(test_dir.path("it.hold")).unwrap();
    for maps in [hold.maps(), reader.maps()] {
        refused(maps.open("it"), ErrorKind::Busy, why);
        refused(maps.open_or_create("it", MapOptions::general()), ErrorKind::Busy, why);
    }
    refused(hold.maps().promote("it"), ErrorKind::Busy, why);
    let report = hold.backup(test_dir.path("it.backup")).unwrap();
    assert_eq!((report.maps, report.left_out), (0, 1));
    let early = commonhold::raw::open_unready_map(&reader, "it").unwrap();
    assert!(commonhold::raw::is_unready(&early));
    let next = commonhold::raw::create_shadow_map(&hold, "next", "it").unwrap();
    next.set("a", "1").unwrap();
    commonhold::raw::swap_in_shadow_map(&hold, "next", "it").unwrap();
    assert_eq!(early.get("a").unwrap().as_deref(), Some(&b"1"[..]));
    assert!(!commonhold::raw::is_unready(&early));
    assert!(hold.maps().open("it").unwrap().is_replica());
    assert!(hold.check().unwrap().ok);
}

/// A stream that begins at a position of another one continues with the same changes at the same
/// positions, and the change before a position tells streams of one number apart.
#[test]
fn a_stream_continues_another_one() {
    let test_dir = TestDir::memory();
    let hold = Hold::create(test_dir.path("it.hold")).unwrap();
    let first = hold.maps().create("first", MapOptions::general()).unwrap();
    hold.maps().begin_stream("first", 64 << 10).unwrap();
    let fill = |from: u32, to: u32| {
        for id in from..to {
            first.set(id.to_le_bytes(), vec![7; id as usize % 300]).unwrap();
        }
    };
    let proof = |map: &Map, at| commonhold::raw::proof_at(map.follow().unwrap(), at).unwrap();
    fill(0, 50);
    let begin = first.follow().unwrap().end().unwrap();
    let second = hold.maps().open_replica("second", MapOptions::general()).unwrap();
    assert!(commonhold::raw::begin_stream_at(&hold, "second", 64 << 10, begin).unwrap());
    assert_eq!((second.follow().unwrap().position(), proof(&second, begin)), (begin, None));
    fill(50, 2000);
    assert_eq!(proof(&first, begin), None, "the stream does not reach back that far");
    refused(first.follow_from(begin).map(drop), ErrorKind::Lapped, "behind");
    // From here on the other one gets all changes.
    let begin = first.follow().unwrap().end().unwrap();
    let third = hold.maps().open_replica("third", MapOptions::general()).unwrap();
    commonhold::raw::begin_stream_at(&hold, "third", 64 << 10, begin).unwrap();
    let mut follower = first.follow_from(begin).unwrap();
    fill(100, 150);
    let mut ends = Vec::new();
    while let Some(change) = follower.try_recv().unwrap() {
        third.apply_frame(&change).unwrap();
        ends.push(change.end);
    }
    assert_eq!(third.follow().unwrap().position(), follower.position());
    for end in ends {
        let at = StreamPosition { offset: end, ..begin };
        let known = proof(&first, at);
        assert!(known.is_some() && known == proof(&third, at), "{at}");
        let within = StreamPosition { offset: end - 8, ..begin };
        assert_eq!(proof(&first, within), None, "{within}");
    }
    assert!(hold.check().unwrap().ok);
}

/// After a resizing that was killed, a replica begins its stream again. Changes may be missing in
/// between, so a follower of the stream before must not go on in the new one.
#[test]
#[cfg(feature = "steps")]
fn a_stream_after_a_killed_resizing_is_another_one() {
    use crate::support::standstill::killed;
    use commonhold::raw::begin_stream_at;
    let test_dir = TestDir::memory();
    let path = test_dir.path("it.hold");
    let hold = Hold::create(&path).unwrap();
    let origin = hold.maps().create("origin", MapOptions::general()).unwrap();
    hold.maps().begin_stream("origin", 64 << 10).unwrap();
    let mut changes = origin.follow().unwrap();
    let map = hold.maps().open_replica("it", MapOptions::general()).unwrap();
    assert!(begin_stream_at(&hold, "it", 64 << 10, changes.position()).unwrap());
    let mut follower = map.follow().unwrap();
    let mut replicate = |key: &str| {
        origin.set(key, "value").unwrap();
        map.apply_frame(&changes.try_recv().unwrap().unwrap()).unwrap();
        changes.position()
    };
    replicate("before");
    killed("stream.ended", || {
        drop(Hold::open(&path).unwrap().maps().begin_stream("it", 1 << 17));
    });
    let reached = replicate("in no stream");
    assert!(begin_stream_at(&hold, "it", 64 << 10, reached).unwrap());
    refused(follower.try_recv(), ErrorKind::Lapped, "begins again");
    refused(follower.end(), ErrorKind::Lapped, "begins again");
    let mut follower = map.follow().unwrap();
    replicate("behind");
    assert_eq!(follower.try_recv().unwrap().unwrap().key, b"behind");
    assert!(hold.check().unwrap().ok);
}

#[test]
fn frames_are_applied_and_passed_on() {
    let test_dir = TestDir::memory();
    let hold = Hold::create(test_dir.path("it.hold")).unwrap();
    let from = hold.maps().open_or_create("from", MapOptions::cache().max_entries(4)).unwrap();
    let to = hold.maps().open_replica("to", MapOptions::general()).unwrap();
    for name in ["from", "to"] {
        hold.maps().begin_stream(name, 1 << 16).unwrap();
    }
    let (mut told, mut told_on) = (from.follow().unwrap(), to.follow().unwrap());
    for n in 0..40u32 {
        from.set(key(n), n.to_le_bytes()).unwrap();
    }
    from.delete(key(39)).unwrap();
    from.clear().unwrap();
    from.set("last", "x".repeat(40_000)).unwrap();
    let mut kinds = Vec::new();
    while let Some(frame) = told.try_recv().unwrap() {
        if frame.kind == ChangeKind::Gap {
            refused(to.apply_frame(&frame), ErrorKind::Mismatch, "gap");
            break;
        }
        kinds.push((frame.kind, frame.key.to_vec()));
        to.apply_frame(&frame).unwrap();
        to.apply_frame(&frame).unwrap();
    }
    assert!(kinds.iter().any(|(kind, _)| *kind == ChangeKind::Evict));
    assert!(kinds.iter().any(|(kind, _)| *kind == ChangeKind::Clear));
    assert!(to.is_empty().unwrap());
    // Applied twice, a setting is told twice; what is gone goes once.
    for (kind, key) in kinds {
        for _ in 0..if kind == ChangeKind::Set { 2 } else { 1 } {
            let frame = told_on.recv().unwrap();
            assert_eq!((frame.kind, frame.key), (kind, &key[..]));
        }
    }
    assert_eq!(told_on.try_recv().unwrap(), None);
}

/// What both maps have comes once, wherever the walk was when the one took the other's place.
#[test]
fn an_iteration_continues_in_the_shadow_map() {
    for options in SHAPES {
        let test_dir = TestDir::memory();
        let hold = Hold::create(test_dir.path("it.hold")).unwrap();
        let first = hold.maps().open_replica("it", options()).unwrap();
        let keys = 3000;
        for n in 0..keys {
            first.set(key(n), value(&first, 1)).unwrap();
        }
        let walks = [0, 1, 5, 60, 400, 2000, 2990].map(|given| {
            let mut walk = hold.maps().open("it").unwrap().iter();
            let seen: Vec<_> = walk.by_ref().take(given).map(|pair| pair.unwrap().0).collect();
            (walk, seen)
        });
        // More keys than before, so that its segments are others.
        renew(&hold, "it", 2, 3 * keys).unwrap();
        for (walk, mut seen) in walks {
            seen.extend(walk.map(|pair| pair.unwrap().0));
            seen.sort_unstable();
            seen.retain(|seen| *seen < key(keys).to_vec());
            let all: Vec<_> = (0..keys).map(|n| key(n).to_vec()).collect();
            assert!(seen == all, "{} of {keys}", seen.len());
        }
    }
}

/// It evicts nothing, so it does not need the memory again at once.
#[test]
fn a_cache_of_a_replica_gives_memory_back() {
    let test_dir = TestDir::memory();
    let hold = Hold::create(test_dir.path("it.hold")).unwrap();
    let own = hold.maps().open_replica("it", MapOptions::cache()).unwrap();
    for id in 0..64 {
        own.set(key(id), vec![7; 1 << 20]).unwrap();
    }
    let full = hold.stat().unwrap().memory_bytes;
    for id in 0..64 {
        assert!(own.delete(key(id)).unwrap());
    }
    until("the memory is back", || {
        // Every open handle that comes or goes frees what has been unused for a while.
        drop(Hold::open(hold.path()).unwrap());
        hold.stat().unwrap().memory_bytes < full / 4
    });
}

#[test]
fn handles_continue_with_the_shadow_map() {
    for options in SHAPES {
        let test_dir = TestDir::memory();
        let hold = Hold::create(test_dir.path("it.hold")).unwrap();
        let first = hold.maps().open_replica("it", options()).unwrap();
        first.set(key(7), value(&first, 1)).unwrap();
        let first_to_write = hold.maps().open_replica("it", options()).unwrap();
        let reader = Hold::options().read_only(true).open(test_dir.path("it.hold")).unwrap();
        for (number, eyes) in [(2, &hold), (3, &reader)] {
            // Every operation is the first to find out, on a handle of its own.
            let finders: [fn(&Map) -> usize; 7] = [
                |map| map.get(key(7)).unwrap().iter().len(),
                |map| map.get_many(&[key(7), key(8)], &mut Values::new()).unwrap(),
                |map| usize::from(map.contains(key(7)).unwrap()),
                |map| map.iter().map(Result::unwrap).count(),
                |map| map.len().unwrap() as usize,
                |map| map.random_pair().unwrap().iter().len(),
                |map| map.stat().unwrap().len as usize,
            ];
            let maps: Vec<Map> = finders.iter().map(|_| eyes.maps().open("it").unwrap()).collect();
            let walks: Vec<_> = (0..2).map(|_| eyes.maps().open("it").unwrap().iter()).collect();
            renew(&hold, "it", number, 9).unwrap();
            for (n, (finder, map)) in finders.iter().zip(&maps).enumerate() {
                let found = finder(map);
                assert!([1, 2, 9].contains(&found), "operation {n}: {found}");
                assert_eq!(map.get(key(8)).unwrap().map(|v| v.len()), Some(value(map, 1).len()));
                assert_eq!(map.name(), "it");
            }
            for walk in walks {
                assert_eq!(walk.map(Result::unwrap).count(), 9);
            }
        }
        // Whoever writes knows which map it means: the replica goes on with its handle on the shadow map.
        refused(first_to_write.set(key(1), value(&first, 9)), ErrorKind::NotFound, "was dropped");
        assert_eq!(first.get(key(8)).unwrap().map(|v| version(&v)), Some(3));
        assert!(hold.check().unwrap().ok);
        // Dropped and made anew as something else, it is gone.
        assert!(hold.maps().drop("it").unwrap());
        refused(first.get(key(7)), ErrorKind::NotFound, "was dropped");
        hold.maps().open_or_create("it", options()).unwrap();
        refused(first.get(key(7)), ErrorKind::NotFound, "was dropped");
    }
}

/// Readers see each version whole: never an older one after a newer one, and never a key missing.
#[test]
fn readers_see_one_after_the_other() {
    for options in SHAPES {
        let test_dir = TestDir::memory();
        let path = test_dir.path("it.hold");
        let hold = Hold::create(&path).unwrap();
        hold.maps().open_replica("it", options()).unwrap();
        renew(&hold, "it", 1, 50).unwrap();
        let board = Board::new(2);
        let reader = Child::run("reader", || {
            let hold = Hold::options().read_only(true).open(&path).unwrap();
            let map = hold.maps().open("it").unwrap();
            let mut last = 1;
            while board.get(0) == 0 {
                for id in 0..50 {
                    let found = map.get(key(id)).unwrap().expect("it is in every version");
                    assert!(version(&found) >= last, "{} after {last}", version(&found));
                    last = version(&found);
                    let fresh = hold.maps().open("it").unwrap();
                    let found = fresh.get(key(id)).unwrap().expect("it is in every version");
                    assert!(version(&found) >= last, "{} after {last}", version(&found));
                }
                board.count(1, 1);
            }
            assert!(last > 1);
        });
        let mut number = 1;
        while number < 60 || board.get(1) < 20 {
            number += 1;
            renew(&hold, "it", number, 50).unwrap();
        }
        board.put(0, 1);
        reader.finish();
        assert!(hold.check().unwrap().ok);
    }
}

/// Where a swap is stopped, the name leads to the old map or the new one, for all alike.
#[test]
fn a_stopped_swap_hides_neither() {
    for (step, expected) in [
        ("shadow.claimed", 1),
        ("shadow.committed", 2),
        ("shadow.renamed", 2),
        ("shadow.named", 2),
        ("drop.segment-emptied", 2),
    ] {
        let test_dir = TestDir::memory();
        let path = test_dir.path("it.hold");
        let hold = Hold::create(&path).unwrap();
        hold.maps().open_replica("it", MapOptions::general()).unwrap();
        renew(&hold, "it", 1, 9).unwrap();
        let old = hold.maps().open("it").unwrap();
        let mut victim = Child::run("victim", || {
            let hold = Hold::open(&path).unwrap();
            let next = commonhold::raw::create_shadow_map(&hold, "next", "it").unwrap();
            for id in 0..9 {
                next.set(key(id), value(&next, 2)).unwrap();
            }
            commonhold::steps::arm(&format!("{step}:stop")).unwrap();
            commonhold::raw::swap_in_shadow_map(&hold, "next", "it").unwrap();
        });
        assert!(victim.wait_stopped(), "{step}");
        let done = AtomicBool::new(false);
        std::thread::scope(|scope| {
            let read = scope.spawn(|| {
                let fresh = hold.maps().open("it").unwrap();
                let found = (fresh.get(key(3)).unwrap(), old.get(key(3)).unwrap());
                done.store(true, Ordering::Release);
                found
            });
            until("a reader to find it", || done.load(Ordering::Acquire) || read.is_finished());
            let (fresh, old) = read.join().unwrap();
            assert_eq!(fresh.map(|v| version(&v)), Some(expected), "{step}");
            assert!(old.is_some(), "{step}");
        });
        victim.signal(Signal::SIGKILL);
        victim.wait();
        hold.sweep().unwrap();
        assert_eq!(old.get(key(3)).unwrap().map(|v| version(&v)), Some(expected), "{step}");
        assert!(hold.check().unwrap().ok, "{step}");
    }
}

/// Wherever a promotion fails, the next one completes it: the map that the replica was building
/// does not stay.
#[cfg(feature = "steps")]
#[test]
fn a_promotion_that_fails_leaves_nothing_when_it_is_repeated() {
    use crate::support::process::Child;
    use commonhold::steps;
    let mut failed = 0;
    for passing in 1.. {
        let test_dir = TestDir::memory();
        let path = test_dir.path("it.hold");
        let hold = Hold::create(&path).unwrap();
        hold.maps().open_replica("it", MapOptions::general()).unwrap().set("a", "1").unwrap();
        let next = commonhold::raw::create_shadow_map(&hold, ".next/it", "it").unwrap();
        next.set("a", "2").unwrap();
        // Faults are the whole process's.
        let ended = Child::run("promotes", || {
            steps::arm_fault(&format!("lock.whole:ETIMEDOUT:once:{passing}")).unwrap();
            let promoted = hold.maps().promote("it");
            steps::arm_fault("").unwrap();
            std::process::exit(if promoted.is_err() { 3 } else { 0 });
        })
        .wait();
        drop((next, hold));
        let hold = Hold::open(&path).unwrap();
        hold.maps().promote("it").unwrap();
        let names: Vec<_> = hold.maps().list_all().unwrap().into_iter().map(|m| m.name).collect();
        assert_eq!(names, ["it"], "passing {passing}");
        hold.maps().open("it").unwrap().set("b", "1").unwrap();
        if ended == End::Well {
            break;
        }
        failed += 1;
    }
    assert!(failed > 1, "no lock was waited for");
}
