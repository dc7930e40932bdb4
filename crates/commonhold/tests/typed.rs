//! Typed maps: what each codec writes and reads, and every operation of one.

#![cfg(all(feature = "serde", feature = "bytemuck"))]

use crate::support::test_dir::TestDir;
use commonhold::map::{
    Bytes, CacheOptions, Codec, I64, Json, List, MapOptions, Pod, Text, TypedMap, U64,
};
use commonhold::{ErrorKind, Hold};
use std::collections::BTreeMap;
use std::time::Duration;

fn hold() -> (TestDir, Hold) {
    let test_dir = TestDir::memory();
    let hold = Hold::create(test_dir.path("it.hold")).unwrap();
    (test_dir, hold)
}

fn general<K: Codec, V: Codec>(hold: &Hold, name: &str) -> TypedMap<K, V> {
    hold.maps().open_or_create(name, MapOptions::general()).unwrap().typed()
}

#[test]
fn every_operation_is_that_of_the_map() {
    let (_test_dir, hold) = hold();
    let ages: TypedMap<Text, U64> = general(&hold, "ages");
    let uid = ages.set("anna", 41).unwrap();
    assert_eq!(ages.uid("anna").unwrap(), Some(uid));
    assert_eq!(ages.get_uid(uid).unwrap(), Some(("anna".to_owned(), 41)));
    assert!(ages.set_uid(uid, "anna", 42).unwrap());
    assert!(!ages.set_uid(uid, "bert", 42).unwrap());
    assert_eq!((ages.get("anna").unwrap(), ages.get("bert").unwrap()), (Some(42), None));
    assert!(ages.add("anna", 1).unwrap().is_none() && ages.add("bert", 7).unwrap().is_some());
    assert!(ages.replace("carl", 1).unwrap().is_none());
    assert!(ages.replace("bert", 8).unwrap().is_some());
    assert!(ages.compare_exchange("bert", Some(8), Some(9)).unwrap());
    assert!(!ages.compare_exchange("bert", Some(8), None).unwrap());
    assert_eq!(ages.increment("bert", 1).unwrap(), 10);
    ages.update("bert", |age| age.map(|age| age * 2)).unwrap();
    ages.set_many(&[("dora", 1), ("emil", 2)]).unwrap();
    let many = ages.get_many(&["emil", "fritz", "bert"]).unwrap();
    assert_eq!(many, [Some(2), None, Some(20)]);
    let pairs: BTreeMap<_, _> = ages.iter().map(Result::unwrap).collect();
    let wanted = [("anna", 42), ("bert", 20), ("dora", 1), ("emil", 2)];
    assert_eq!(pairs, wanted.map(|(key, age)| (key.to_owned(), age)).into());
    assert_eq!((&ages).into_iter().count(), 4);
    assert!(ages.keys().all(|key| pairs.contains_key(&key.unwrap())));
    let (key, age) = ages.random_pair().unwrap().unwrap();
    assert_eq!(pairs[&key], age);
    assert_eq!(ages.take("dora").unwrap(), Some(1));
    assert!(ages.delete("emil").unwrap() && !ages.contains("emil").unwrap());
    assert!(ages.delete_uid(uid, "anna").unwrap());
    assert_eq!((ages.len().unwrap(), ages.clear().unwrap()), (1, 1));
    assert!(ages.is_empty().unwrap());
}

#[test]
fn an_error_of_the_closure_ends_an_update() {
    let (_test_dir, hold) = hold();
    let map: TypedMap<Text, I64> = general(&hold, "it");
    map.set("n", -1).unwrap();
    let failed = map.try_update("n", |_| Err(commonhold::Error::new(ErrorKind::Busy, "no")));
    assert_eq!(failed.unwrap_err().kind(), ErrorKind::Busy);
    assert_eq!(map.increment("n", -2).unwrap(), -3);
}

#[test]
fn codecs_write_what_other_languages_read() {
    let (_test_dir, hold) = hold();
    let map = hold.maps().open_or_create("it", MapOptions::general()).unwrap();
    map.typed::<Text, U64>().set("n", 258).unwrap();
    assert_eq!(map.get("n").unwrap().unwrap(), 258u64.to_le_bytes());
    map.typed::<Text, Json<Vec<u32>>>().set("j", &vec![1, 2]).unwrap();
    assert_eq!(map.get("j").unwrap().unwrap(), b"[1,2]");
    map.typed::<Text, Pod<[u16; 2]>>().set("p", &[1, 2]).unwrap();
    assert_eq!(map.get("p").unwrap().unwrap(), [1u16.to_ne_bytes(), 2u16.to_ne_bytes()].concat());
    assert_eq!(map.typed::<Text, Pod<[u16; 2]>>().get("p").unwrap(), Some([1, 2]));
    map.typed::<U64, Bytes>().set(7, b"seven").unwrap();
    assert_eq!(map.get(7u64.to_le_bytes()).unwrap().unwrap(), b"seven");
    let list = vec![b"a".to_vec(), Vec::new()];
    map.typed::<Text, List>().set("l", &list).unwrap();
    let lists = map.typed::<Text, List>();
    assert_eq!(lists.push("l", "c").unwrap(), 3);
    assert_eq!(lists.get("l").unwrap().unwrap(), [&b"a"[..], b"", b"c"]);
    assert_eq!(lists.set("l", &[]).unwrap_err().kind(), ErrorKind::Invalid);
}

#[test]
fn an_unreadable_value_is_an_error_that_names_the_codec() {
    let (_test_dir, hold) = hold();
    let map = hold.maps().open_or_create("it", MapOptions::general()).unwrap();
    map.set("key", [0xff, 0xfe]).unwrap();
    let kinds = [
        map.typed::<Text, Text>().get("key").unwrap_err(),
        map.typed::<Text, U64>().get("key").unwrap_err(),
        map.typed::<Text, I64>().get_many(&["key"]).unwrap_err(),
        map.typed::<Text, Json<u8>>().get("key").unwrap_err(),
        map.typed::<Text, Pod<u32>>().get("key").unwrap_err(),
        map.typed::<Text, List>().get("key").unwrap_err(),
        map.typed::<U64, Bytes>().iter().next().unwrap().unwrap_err(),
        map.typed::<U64, Bytes>().keys().next().unwrap().unwrap_err(),
        map.typed::<Text, U64>().update("key", |_| None).unwrap_err(),
    ];
    for error in kinds {
        assert_eq!(error.kind(), ErrorKind::Mismatch);
        let text = error.to_string();
        assert!(text.starts_with("map 'it': expected ") && text.contains(" got "), "{text}");
    }
    assert_eq!(map.get("key").unwrap().unwrap(), [0xff, 0xfe]);
}

#[test]
fn typed_caches_let_pairs_expire() {
    let (_test_dir, hold) = hold();
    let cache = hold.maps().open_or_create("it", CacheOptions::new()).unwrap();
    let cache = cache.typed::<Text, Text>();
    cache.set_with_ttl("a", "1", Duration::from_millis(1)).unwrap();
    cache.with_ttl(Duration::from_millis(1)).unwrap().set("b", "2").unwrap();
    cache.set("c", "3").unwrap();
    crate::support::process::until("two pairs have expired", || {
        !cache.contains("a").unwrap() && !cache.contains("b").unwrap()
    });
    assert_eq!(cache.get("c").unwrap().as_deref(), Some("3"));
}
