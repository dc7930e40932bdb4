//! Sizes at every border, what the cache mode forgets, and every refusal by its kind.

use crate::support::process::{Zeros, until};
use crate::support::test_dir::TestDir;
use crate::support::{Dice, long};
use commonhold::map::{Cursor, MapOptions};
use commonhold::stream::ChangeKind;
use commonhold::{ErrorKind, Hold, Result};
use std::collections::{HashMap, HashSet};
use std::time::Duration;

#[track_caller]
fn refused<T>(result: Result<T>, kind: ErrorKind) {
    match result {
        Ok(_) => panic!("succeeded, instead of {kind:?}"),
        Err(e) => {
            assert_eq!(e.kind(), kind, "{e}");
            assert!(e.to_string().len() > 10, "an error that says too little: {e}");
        }
    }
}

fn bytes(len: usize, dice: &mut Dice) -> Vec<u8> {
    (0..len).map(|_| dice.roll() as u8).collect()
}

/// The records and extents in use, which must all be reachable.
#[track_caller]
fn used(hold: &Hold) -> u64 {
    let report = hold.check().unwrap();
    assert!(report.ok && report.allocated == report.reachable, "{report:?}");
    hold.stat().unwrap().used_bytes
}

#[test]
fn values_grow_into_the_room_that_was_asked_for() {
    for room in [0u32, 2000, 200_000] {
        let test_dir = TestDir::memory();
        let hold = Hold::create(test_dir.path("it.hold")).unwrap();
        let map = hold.maps().open_or_create("it", MapOptions::general().value_room(room)).unwrap();
        for key in 0..200u32 {
            map.set(key.to_le_bytes(), b"").unwrap();
        }
        let before = used(&hold);
        for len in [1, 100, 1900] {
            for key in 0..200u32 {
                map.set(key.to_le_bytes(), vec![key as u8; len]).unwrap();
                assert_eq!(map.get(key.to_le_bytes()).unwrap(), Some(vec![key as u8; len]));
            }
        }
        // One class for all lengths up to the room; without it each length needs extents of its own.
        let grown = used(&hold).saturating_sub(before);
        assert_eq!(grown < 2 * 65_536, room > 0, "{room} bytes of room: {grown} bytes more");
        // Another handle asks for none, and reads and changes what this one has stored.
        let other = hold.maps().open("it").unwrap();
        assert_eq!(other.get(7u32.to_le_bytes()).unwrap(), Some(vec![7; 1900]));
        other.set(7u32.to_le_bytes(), b"short").unwrap();
        for key in 0..200u32 {
            assert!(other.delete(key.to_le_bytes()).unwrap());
        }
        used(&hold);
    }
}

/// Every length around which a size class, a bucket line or a page may end.
fn lengths() -> Vec<usize> {
    let mut all: Vec<usize> = (0..700).collect();
    for power in 9..17 {
        for quarter in 4..8usize {
            let border = (quarter << power) / 4;
            all.extend(border - 72..border + 10);
        }
    }
    all.extend([65_535, 65_536, 65_537, 131_000, 1 << 20, (1 << 20) + 1]);
    all.sort_unstable();
    all.dedup();
    all
}

#[test]
fn values_of_every_length_come_back() {
    let test_dir = TestDir::memory();
    let hold = Hold::create(test_dir.path("it.hold")).unwrap();
    let map = hold.maps().open_or_create("it", MapOptions::general()).unwrap();
    let mut dice = Dice::new(1);
    let mut all = HashMap::new();
    for len in lengths() {
        let (key, value) = ((len as u32).to_le_bytes(), bytes(len, &mut dice));
        map.set(key, &value).unwrap();
        assert_eq!(map.get(key).unwrap().as_ref(), Some(&value), "{len} bytes");
        all.insert(key, value);
    }
    for (key, value) in &all {
        assert_eq!(map.get(key).unwrap().as_ref(), Some(value));
    }
    // Each one the next one's length: every class is left and entered.
    for (key, value) in &all {
        map.set(key, &value[..value.len() / 2]).unwrap();
    }
    for (key, value) in &all {
        assert_eq!(map.get(key).unwrap().as_deref(), Some(&value[..value.len() / 2]));
    }
    assert!(hold.check().unwrap().ok);
}

#[test]
fn keys_of_every_length_come_back() {
    let test_dir = TestDir::memory();
    let hold = Hold::create(test_dir.path("it.hold")).unwrap();
    let map = hold.maps().open_or_create("it", MapOptions::general()).unwrap();
    let mut dice = Dice::new(2);
    let keys: Vec<Vec<u8>> = lengths().into_iter().map(|len| bytes(len, &mut dice)).collect();
    for (i, key) in keys.iter().enumerate() {
        // Lengths 0 and 1 may collide with nothing: keys differ in length.
        assert!(map.add(key, i.to_le_bytes()).unwrap().is_some(), "{} bytes", key.len());
    }
    for (i, key) in keys.iter().enumerate() {
        assert_eq!(map.get(key).unwrap().unwrap(), i.to_le_bytes(), "{} bytes", key.len());
        // A key that is the same but for its last byte is another key.
        if let Some((last, rest)) = key.split_last() {
            let other = [rest, &[last ^ 1]].concat();
            assert_eq!(map.get(&other).unwrap(), None);
        }
    }
    assert_eq!(map.len().unwrap(), keys.len() as u64);
    assert!(hold.check().unwrap().ok);
}

#[test]
fn empty_keys_and_values_are_ordinary() {
    let test_dir = TestDir::memory();
    let hold = Hold::create(test_dir.path("it.hold")).unwrap();
    for options in [MapOptions::general(), MapOptions::cache().into()] {
        let map = hold.maps().open_or_create(&format!("{options:?}"), options).unwrap();
        assert_eq!(map.get("").unwrap(), None);
        map.set("", "").unwrap();
        assert_eq!(map.get("").unwrap(), Some(vec![]));
        map.set("a", "").unwrap();
        assert!(map.compare_exchange("a", Some(b""), Some(b"b")).unwrap());
        assert!(!map.compare_exchange("a", Some(b""), None).unwrap());
        assert_eq!(map.take("").unwrap(), Some(vec![]));
        assert_eq!(map.keys().map(Result::unwrap).collect::<Vec<_>>(), [b"a"]);
    }
    assert!(hold.check().unwrap().ok);
}

#[test]
fn a_hundred_mebibytes_in_one_value() {
    let test_dir = TestDir::memory();
    let hold = Hold::create(test_dir.path("it.hold")).unwrap();
    let map = hold.maps().open_or_create("it", MapOptions::general()).unwrap();
    let mut value = vec![7u8; 100 << 20];
    for (i, page) in value.chunks_mut(4096).enumerate() {
        page[..8].copy_from_slice(&i.to_le_bytes());
    }
    map.set("large", &value).unwrap();
    assert!(map.get("large").unwrap().unwrap() == value, "the value differs");
    value[50 << 20] ^= 1;
    map.set("large", &value).unwrap();
    assert!(map.get("large").unwrap().unwrap() == value, "the overwritten value differs");
    assert!(map.delete("large").unwrap());
    assert!(hold.check().unwrap().ok);
    // Memory goes back only when it has been free for a moment.
    until("the memory of the only value is given back", || {
        hold.trim().unwrap();
        hold.stat().unwrap().memory_bytes < 16 << 20
    });
}

#[test]
fn over_four_gibibytes_is_too_large_and_takes_no_memory() {
    let test_dir = TestDir::memory();
    let hold = Hold::options().max_bytes(64 << 20).create(test_dir.path("it.hold")).unwrap();
    let map = hold.maps().open_or_create("it", MapOptions::general()).unwrap();
    map.set("there", "before").unwrap();
    let before = hold.stat().unwrap().memory_bytes;
    let zeros = Zeros::new((1 << 32) + 8);
    for (key, value) in [(1, (1usize << 32) - 1), (4, (1 << 32) - 4), (0, 1 << 32), (1 << 32, 0)] {
        let (key, value) = (&zeros[..key], &zeros[..value]);
        refused(map.set(key, value), ErrorKind::TooLarge);
        refused(map.add(key, value), ErrorKind::TooLarge);
        refused(map.replace(key, value), ErrorKind::TooLarge);
        refused(map.set_many(&[(key, value)]), ErrorKind::TooLarge);
        refused(map.compare_exchange(key, None, Some(value)), ErrorKind::TooLarge);
    }
    assert_eq!(hold.stat().unwrap().memory_bytes, before);
    // The limit itself is allowed: only this hold has no room for it.
    refused(map.set(&zeros[..4], &zeros[..(1 << 32) - 1 - 4]), ErrorKind::Full);
    assert_eq!(map.get("there").unwrap().unwrap(), b"before");
    assert_eq!(map.len().unwrap(), 1);
    if long() {
        let hold = Hold::create(test_dir.path("large.hold")).unwrap();
        let map = hold.maps().open_or_create("it", MapOptions::general()).unwrap();
        map.set(&zeros[..4], &zeros[..(1 << 32) - 1 - 4]).unwrap();
        assert_eq!(map.get(&zeros[..4]).unwrap().unwrap().len(), (1 << 32) - 1 - 4);
        assert!(hold.check().unwrap().ok);
    }
}

#[test]
fn fixed_lengths_are_exact() {
    let test_dir = TestDir::memory();
    let hold = Hold::create(test_dir.path("it.hold")).unwrap();
    for (k, v) in [(4, 4), (8, 8), (16, 16)] {
        let map = hold.maps().open_or_create(&format!("{k}"), MapOptions::fixed(k, v)).unwrap();
        let (key, value) = (vec![1; k as usize], vec![2; v as usize]);
        map.set(&key, &value).unwrap();
        for (k, v) in [(k - 1, v), (k + 1, v), (k, v - 1), (k, v + 1), (k, 0), (0, v)] {
            let error = map.set(vec![1; k as usize], vec![3; v as usize]).unwrap_err();
            let fits = [ErrorKind::Invalid, ErrorKind::TooLarge, ErrorKind::Mismatch];
            assert!(fits.contains(&error.kind()), "{error:?}");
        }
        assert_eq!((map.len().unwrap(), map.get(&key).unwrap()), (1, Some(value)));
    }
}

#[test]
fn every_pair_of_four_and_four_bytes_is_legal() {
    // One word per pair: the words that mean "empty" or "filler" must not be lost among them.
    let test_dir = TestDir::memory();
    let hold = Hold::create(test_dir.path("it.hold")).unwrap();
    let map = hold.maps().open_or_create("it", MapOptions::fixed(4, 4)).unwrap();
    let mut dice = Dice::new(3);
    let edges = [0u32, 1, 2, 0x7fff_ffff, 0x8000_0000, u32::MAX - 1, u32::MAX];
    let mut wanted = HashMap::new();
    for i in 0..200_000u32 {
        let key = if i < 7 { edges[i as usize] } else { dice.roll() as u32 };
        let value = edges[dice.below(7) as usize];
        map.set(key.to_le_bytes(), value.to_le_bytes()).unwrap();
        wanted.insert(key, value);
    }
    for round in 0..3 {
        for (key, value) in &mut wanted {
            let got = map.get(key.to_le_bytes()).unwrap().map(|v| v.try_into().unwrap());
            assert_eq!(got.map(u32::from_le_bytes), Some(*value), "round {round}, key {key:#x}");
            *value = edges[dice.below(7) as usize];
            map.set(key.to_le_bytes(), value.to_le_bytes()).unwrap();
        }
    }
    assert_eq!(map.len().unwrap(), wanted.len() as u64);
    assert!(hold.check().unwrap().ok);
}

#[test]
fn time_to_live_ends() {
    let test_dir = TestDir::memory();
    let hold = Hold::create(test_dir.path("it.hold")).unwrap();
    let hour = Duration::from_secs(3600);
    let map = hold.maps().open_or_create("it", MapOptions::cache().ttl(hour)).unwrap();
    map.set("stays", "1").unwrap();
    map.set_with_ttl("goes", "2", Duration::from_millis(30)).unwrap();
    until("a pair has expired", || map.get("goes").unwrap().is_none());
    assert!(!map.contains("goes").unwrap());
    assert!(map.iter().map(Result::unwrap).all(|p| p.0 == b"stays"));
    assert!(map.add("goes", "3").unwrap().is_some(), "an expired pair is absent to add");
    assert_eq!(map.get("goes").unwrap(), Some(b"3".to_vec()));
    assert_eq!(map.get("stays").unwrap(), Some(b"1".to_vec()));
    map.set_with_ttl("renewed", "4", Duration::from_millis(30)).unwrap();
    map.set_with_ttl("renewed", "5", hour).unwrap();
    map.set_with_ttl("other", "6", Duration::from_millis(40)).unwrap();
    until("the other has expired", || map.get("other").unwrap().is_none());
    assert_eq!(map.get("renewed").unwrap(), Some(b"5".to_vec()));
    assert!(map.stat().unwrap().expired >= 1);
    assert!(hold.check().unwrap().ok);
    let plain = hold.maps().open_or_create("plain", MapOptions::general()).unwrap();
    assert!(plain.set_with_ttl("a", "b", hour).is_err(), "only a cache forgets");
    assert!(plain.with_ttl(hour).is_err(), "only a cache forgets");
}

#[test]
fn a_handle_with_a_time_to_live_gives_it_to_all_that_it_stores() {
    let test_dir = TestDir::memory();
    let hold = Hold::create(test_dir.path("it.hold")).unwrap();
    let map = hold
        .maps()
        .open_or_create("it", MapOptions::cache().ttl(Duration::from_secs(3600)))
        .unwrap();
    let brief = map.with_ttl(Duration::from_millis(30)).unwrap();
    for key in ["set", "replaced", "exchanged", "stays"] {
        map.set(key, "1").unwrap();
    }
    brief.set("set", "2").unwrap();
    assert!(brief.add("added", "2").unwrap().is_some());
    assert!(brief.replace("replaced", "2").unwrap().is_some());
    assert!(brief.compare_exchange("exchanged", Some(b"1"), Some(b"2")).unwrap());
    brief.update("updated", |_| Some(b"2".to_vec())).unwrap();
    brief.increment("number", 2).unwrap();
    brief.set_many(&[("one", "2"), ("other", "2")]).unwrap();
    until("all but one have expired", || map.iter().count() == 1);
    assert_eq!(map.get("stays").unwrap().as_deref(), Some(&b"1"[..]));
    map.set("set", "3").unwrap();
    std::thread::sleep(Duration::from_millis(40));
    assert_eq!(brief.get("set").unwrap().as_deref(), Some(&b"3"[..]), "only what it stores");
}

#[test]
fn the_time_to_live_is_read_and_set_without_the_value() {
    let test_dir = TestDir::memory();
    let hold = Hold::create(test_dir.path("it.hold")).unwrap();
    let [minute, hour] = [60, 3600].map(Duration::from_secs);
    let map = hold.maps().open_or_create("it", MapOptions::cache()).unwrap();
    map.set("stays", "1").unwrap();
    assert_eq!(map.remaining_ttl("stays").unwrap(), Some(Duration::MAX));
    assert_eq!(map.remaining_ttl("absent").unwrap(), None);
    assert!(!map.touch("absent", hour).unwrap());
    assert!(!map.contains("absent").unwrap());
    map.set_with_ttl("goes", "2", minute).unwrap();
    let left = |key: &str| map.remaining_ttl(key).unwrap().unwrap();
    assert!(left("goes") <= minute && left("goes") > minute / 2);
    hold.maps().begin_stream("it", 1 << 20).unwrap();
    let mut follower = map.follow().unwrap();
    assert!(map.touch("goes", hour).unwrap());
    assert!(left("goes") > minute && left("goes") <= hour);
    assert_eq!(map.get("goes").unwrap().as_deref(), Some(&b"2"[..]));
    let change = follower.try_recv().unwrap().unwrap();
    assert!(change.kind == ChangeKind::Set && change.value == b"2" && change.expires_ms > 0);
    assert!(map.touch("goes", Duration::ZERO).unwrap());
    until("it has expired", || map.remaining_ttl("goes").unwrap().is_none());
    assert!(!map.touch("goes", hour).unwrap(), "an expired pair is absent");
    for (name, options) in [("plain", MapOptions::general()), ("fixed", MapOptions::fixed(1, 1))] {
        let map = hold.maps().open_or_create(name, options).unwrap();
        assert_eq!(map.remaining_ttl("a").unwrap(), None);
        map.set("a", "b").unwrap();
        assert_eq!(map.remaining_ttl("a").unwrap(), Some(Duration::MAX));
        assert_eq!(map.touch("a", hour).unwrap_err().kind(), ErrorKind::Mismatch);
    }
}

#[test]
fn expired_pairs_are_removed_and_streamed_on_request() {
    let test_dir = TestDir::memory();
    let hold = Hold::create(test_dir.path("it.hold")).unwrap();
    let hour = Duration::from_secs(3600);
    let map = hold.maps().open_or_create("it", MapOptions::cache().ttl(hour)).unwrap();
    hold.maps().begin_stream("it", 4 << 20).unwrap();
    // Enough for some growth.
    for id in 0..6000u32 {
        let time = if id % 3 == 0 { hour } else { Duration::from_millis(1 + u64::from(id % 20)) };
        map.set_with_ttl(id.to_le_bytes(), [1; 20], time).unwrap();
    }
    until("all that is to expire has", || map.iter().count() == 2000);
    assert_eq!(map.len().unwrap(), 6000, "nobody removes them");
    let mut follower = map.follow().unwrap();
    // A few at a time.
    let (mut cursor, mut removed, mut calls) = (Cursor::START, 0, 0);
    while !cursor.is_end() {
        let some = map.try_expire(&mut cursor, 1000).unwrap();
        assert!(some <= 1000 + 216, "{some} at once");
        (removed, calls) = (removed + some, calls + 1);
    }
    assert!(removed == 4000 && calls > 5, "{removed} in {calls} calls");
    assert_eq!((map.len().unwrap(), map.stat().unwrap().expired), (2000, 4000));
    let mut told = HashSet::new();
    while let Some(frame) = follower.try_recv().unwrap() {
        assert_eq!(frame.kind, ChangeKind::Expire);
        assert!(told.insert(u32::from_le_bytes(frame.key.try_into().unwrap())));
    }
    assert!(told.len() == 4000 && told.iter().all(|id| id % 3 != 0));
    // Nothing more comes of it, also behind the end; what was used lately is left alone.
    for mut cursor in [Cursor::START, Cursor::END] {
        assert_eq!(map.try_expire(&mut cursor, u64::MAX).unwrap(), 0);
        assert!(cursor.is_end());
    }
    assert_eq!(map.iter().count(), 2000);
    let mut cursor = Cursor::START;
    let plain = hold.maps().open_or_create("plain", MapOptions::general()).unwrap();
    assert_eq!(plain.try_expire(&mut cursor, 1).unwrap(), 0);
    assert!(cursor.is_end(), "in other modes there is nothing to do");
    let view = Hold::options().read_only(true).open(test_dir.path("it.hold")).unwrap();
    refused(view.maps().open("it").unwrap().try_expire(&mut cursor, 1), ErrorKind::ReadOnly);
    used(&hold);
}

#[test]
fn a_cache_keeps_its_limits_and_what_is_used() {
    let test_dir = TestDir::memory();
    let hold = Hold::create(test_dir.path("it.hold")).unwrap();
    let by_count =
        hold.maps().open_or_create("count", MapOptions::cache().max_entries(1000)).unwrap();
    let by_bytes =
        hold.maps().open_or_create("bytes", MapOptions::cache().max_bytes(1 << 20)).unwrap();
    for map in [&by_count, &by_bytes] {
        map.set("used", [0; 100]).unwrap();
        for i in 0..30_000u32 {
            map.set(i.to_le_bytes(), [1; 100]).unwrap();
            assert!(map.get("used").unwrap().is_some(), "evicted though used, at {i}");
        }
        let stat = map.stat().unwrap();
        assert!(stat.evicted > 15_000 && stat.hits >= 30_000, "{stat:?}");
        assert_eq!(map.get(29_999u32.to_le_bytes()).unwrap(), Some(vec![1; 100]));
    }
    assert!((500..=1000).contains(&by_count.len().unwrap()), "{}", by_count.len().unwrap());
    let len = by_bytes.len().unwrap();
    assert!(len * 100 <= 1 << 20 && len * 100 > 1 << 18, "{len} pairs of 100 bytes in 1 MiB");
    assert!(hold.check().unwrap().ok);
}

/// The hand once took the visited bits of a whole segment for each pair that had to go, so it forgot uses a hundred times as fast as it
/// evicted.
#[test]
fn occasionally_used_pairs_outlive_unused_ones() {
    let test_dir = TestDir::memory();
    let hold = Hold::create(test_dir.path("it.hold")).unwrap();
    let map = hold.maps().open_or_create("it", MapOptions::cache().max_entries(10_000)).unwrap();
    for used in 0..500u64 {
        map.set(used.to_le_bytes(), "used").unwrap();
    }
    for round in 1..=10u64 {
        for used in 0..500u64 {
            assert!(map.get(used.to_le_bytes()).unwrap().is_some(), "{used} evicted, in {round}");
        }
        // Half of what there is room for.
        for new in 0..5_000u64 {
            map.set((round << 32 | new).to_le_bytes(), "once").unwrap();
        }
    }
    assert!(map.stat().unwrap().evicted > 40_000);
}

#[test]
fn a_closed_hold_answers_closed() {
    let test_dir = TestDir::memory();
    let hold = Hold::create(test_dir.path("it.hold")).unwrap();
    let map = hold.maps().open_or_create("it", MapOptions::general()).unwrap();
    map.set("a", "b").unwrap();
    let (other, mut walk) = (hold.clone(), map.iter());
    hold.close().unwrap();
    refused(map.get("a"), ErrorKind::Closed);
    refused(map.set("a", "c"), ErrorKind::Closed);
    refused(map.delete("a"), ErrorKind::Closed);
    refused(map.increment("n", 1), ErrorKind::Closed);
    refused(map.len(), ErrorKind::Closed);
    refused(other.maps().open_or_create("it", MapOptions::general()), ErrorKind::Closed);
    refused(other.stat(), ErrorKind::Closed);
    refused(other.check(), ErrorKind::Closed);
    refused(walk.next().expect("an error"), ErrorKind::Closed);
    let again = Hold::open(test_dir.path("it.hold")).unwrap().maps().open("it").unwrap();
    assert_eq!(again.get("a").unwrap(), Some(b"b".to_vec()));
}

#[test]
fn a_read_only_hold_reads_and_refuses_changes() {
    let test_dir = TestDir::memory();
    let path = test_dir.path("it.hold");
    let hold = Hold::create(&path).unwrap();
    let map = hold.maps().open_or_create("it", MapOptions::general()).unwrap();
    map.set("a", "b").unwrap();
    let mine = hold.participants().unwrap().len();
    let reader = Hold::options().read_only(true).open(&path).unwrap();
    assert_eq!(hold.participants().unwrap().len(), mine, "a reader takes no slot");
    let view = reader.maps().open("it").unwrap();
    assert_eq!(view.get("a").unwrap(), Some(b"b".to_vec()));
    assert_eq!((view.len().unwrap(), view.iter().count()), (1, 1));
    refused(view.set("a", "c"), ErrorKind::ReadOnly);
    refused(view.delete("a"), ErrorKind::ReadOnly);
    refused(view.update("a", |_| None), ErrorKind::ReadOnly);
    refused(view.clear(), ErrorKind::ReadOnly);
    // Nothing is made through it: what is not there is not found.
    refused(reader.maps().open_or_create("new", MapOptions::general()), ErrorKind::NotFound);
    refused(reader.maps().drop("it"), ErrorKind::ReadOnly);
    map.set("a", "d").unwrap();
    assert_eq!(view.get("a").unwrap(), Some(b"d".to_vec()));
}

#[test]
fn holds_are_there_or_not() {
    let test_dir = TestDir::memory();
    let path = test_dir.path("it.hold");
    refused(Hold::open(&path), ErrorKind::NotFound);
    let hold = Hold::create(&path).unwrap();
    refused(Hold::create(&path), ErrorKind::Exists);
    assert_eq!(Hold::open_or_create(&path).unwrap().uuid(), hold.uuid());
    refused(commonhold::hold::remove(&path, false), ErrorKind::Busy);
    hold.close().unwrap();
    commonhold::hold::remove(&path, false).unwrap();
    refused(commonhold::hold::remove(&path, false), ErrorKind::NotFound);
    refused(Hold::open(test_dir.path("no/such/directory.hold")), ErrorKind::NotFound);
    for name in ["", "a\0b"] {
        refused(Hold::create(name), ErrorKind::Invalid);
    }
}

#[test]
fn maps_are_there_or_not() {
    let test_dir = TestDir::memory();
    let hold = Hold::create(test_dir.path("it.hold")).unwrap();
    refused(hold.maps().open("it"), ErrorKind::NotFound);
    assert!(!hold.maps().drop("it").unwrap());
    let map = hold.maps().open_or_create("it", MapOptions::fixed(4, 4)).unwrap();
    refused(hold.maps().open_or_create("it", MapOptions::general()), ErrorKind::Mismatch);
    refused(hold.maps().open_or_create("it", MapOptions::fixed(4, 8)), ErrorKind::Mismatch);
    refused(hold.maps().open_or_create("it", MapOptions::cache()), ErrorKind::Mismatch);
    for name in ["", "a\0b", &"x".repeat(201)] {
        refused(hold.maps().open_or_create(name, MapOptions::general()), ErrorKind::Invalid);
    }
    let longest = "é".repeat(100);
    hold.maps().open_or_create(&longest, MapOptions::general()).unwrap().set("a", "b").unwrap();
    let names: Vec<_> = hold.maps().list().unwrap().into_iter().map(|m| m.name).collect();
    assert_eq!(names, ["it", longest.as_str()]);
    map.set([1; 4], [2; 4]).unwrap();
    assert!(hold.maps().drop("it").unwrap());
    refused(map.get([1; 4]), ErrorKind::NotFound);
    refused(map.set([1; 4], [2; 4]), ErrorKind::NotFound);
    refused(hold.maps().open("it"), ErrorKind::NotFound);
    let again = hold.maps().open_or_create("it", MapOptions::general()).unwrap();
    assert_eq!(again.get([1; 4]).unwrap(), None, "a new map begins empty");
    assert!(hold.check().unwrap().ok);
}

#[test]
fn an_operation_inside_an_operation_is_refused_or_works() {
    let test_dir = TestDir::memory();
    let hold = Hold::create(test_dir.path("it.hold")).unwrap();
    let map = hold.maps().open_or_create("it", MapOptions::general()).unwrap();
    map.set("a", "1").unwrap();
    // No lock is held while the callback runs: whatever it answers, nothing may hang.
    let mut inner = None;
    map.update("a", |_| {
        inner = Some(map.set("b", "2").map_err(|e| e.kind()));
        Some(b"3".to_vec())
    })
    .unwrap();
    assert!(matches!(inner, Some(Ok(_) | Err(ErrorKind::Reentrant))), "{inner:?}");
    assert_eq!(map.get("a").unwrap(), Some(b"3".to_vec()));
    // A panic in the callback leaves no lock behind.
    let panicked = std::panic::catch_unwind(std::panic::AssertUnwindSafe(|| {
        map.update("a", |_| panic!("on purpose")).unwrap();
    }));
    assert!(panicked.is_err());
    map.set("a", "4").unwrap();
    assert!(hold.check().unwrap().ok);
}
