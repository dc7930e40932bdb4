//! Every rival with keys and values returns right values: one story, run with each of them.
//!
//! A comparison with a wrongly configured rival is meaningless. So each rival must store pairs,
//! overwrite them, delete them, find many at once, and execute batches in order. Each worker must
//! read the pairs that another one writes. A server that is not installed is [`absent`].

use std::collections::BTreeMap;

use commonhold_bench::{
    rival::{Order, Shape},
    rivals,
    store::{AnyStore, Op},
};

use crate::absent;

const KEYS: u32 = 500;

fn shape(workers: u64) -> Shape {
    let keys = u64::from(KEYS);
    let order = Order::Own;
    Shape { workers, keys, order, fixed: false, in_file: false, latency: false, loads: Vec::new() }
}

/// Opens a fresh store for as many workers and lets `story` use them.
fn with(name: &str, shape: &Shape, story: impl FnOnce(&mut [Box<AnyStore>])) {
    let rival = rivals::keeper(name).unwrap();
    if let Some(why) = rival.missing() {
        return absent::tell(&format!("{name}: {why}"));
    }
    let site = tempfile::Builder::new().prefix("bench-test.").tempdir_in("/dev/shm").unwrap();
    let server = rival.prepare(site.path(), shape).unwrap();
    let mut stores = rival.open(site.path(), shape, shape.workers as usize).unwrap();
    story(&mut stores);
    for store in &mut stores {
        store.finish().unwrap();
    }
    drop(stores);
    drop(server);
}

fn read(store: &mut AnyStore, key: &[u8]) -> Option<Vec<u8>> {
    let mut out = b"left over".to_vec();
    let found = store.get(key, &mut out).unwrap().then_some(out);
    assert_eq!(store.get_owned(key).unwrap(), found, "get and get_owned differ");
    found
}

fn read_many(store: &mut AnyStore, keys: &[&[u8]]) -> BTreeMap<usize, Vec<u8>> {
    let mut answers = BTreeMap::new();
    let mut found = |at: usize, value: &[u8]| {
        assert!(answers.insert(at, value.to_vec()).is_none(), "two answers for one key");
    };
    store.get_many(keys, &mut found).unwrap();
    answers
}

fn keeps_overwrites_and_deletes(store: &mut AnyStore) {
    assert_eq!(read(store, b"\0\0\0\x01"), None);
    store.put(b"\0\0\0\x01", b"\r\n\0\xff").unwrap();
    assert_eq!(read(store, b"\0\0\0\x01").unwrap(), b"\r\n\0\xff");
    store.put(b"\0\0\0\x01", b"next").unwrap();
    assert_eq!(read(store, b"\0\0\0\x01").unwrap(), b"next");
    assert!(store.delete(b"\0\0\0\x01").unwrap());
    assert!(!store.delete(b"\0\0\0\x01").unwrap());
    assert_eq!(read(store, b"\0\0\0\x01"), None);
}

fn finds_many(store: &mut AnyStore) {
    for key in 0..KEYS {
        store.put(&key.to_be_bytes(), &(!key).to_be_bytes()).unwrap();
    }
    let keys: Vec<[u8; 4]> = (0..2 * KEYS).map(u32::to_be_bytes).collect();
    let keys: Vec<&[u8]> = keys.iter().map(|key| &key[..]).collect();
    let answers = read_many(store, &keys);
    let expected = (0..KEYS).map(|key| (key as usize, (!key).to_be_bytes().to_vec()));
    assert_eq!(answers, expected.collect::<BTreeMap<_, _>>());
    assert!(read_many(store, &keys[KEYS as usize..]).is_empty());
}

fn does_batches_in_order(store: &mut AnyStore) {
    let ops = [
        Op::Put(b"keya", b"one1"),
        Op::Get(b"keya"),
        Op::Put(b"keya", b"two2"),
        Op::Get(b"keya"),
        Op::Delete(b"keya"),
        Op::Get(b"keya"),
        Op::Delete(b"none"),
        Op::Put(b"keyb", b"last"),
    ];
    let mut answers = Vec::new();
    store.run(&ops, &mut |at, value| answers.push((at, value.to_vec()))).unwrap();
    assert_eq!(answers, [(1, b"one1".to_vec()), (3, b"two2".to_vec())]);

    // Some rivals have another path for a batch that only reads.
    let mut answers = Vec::new();
    let ops = [Op::Get(b"keya"), Op::Get(b"keyb")];
    store.run(&ops, &mut |at, value| answers.push((at, value.to_vec()))).unwrap();
    assert_eq!(answers, [(1, b"last".to_vec())]);
}

fn returns_right_values(name: &str) {
    with(name, &shape(1), |stores| {
        let store = stores[0].as_mut();
        keeps_overwrites_and_deletes(store);
        finds_many(store);
        does_batches_in_order(store);
    });
}

fn shares_between_workers(name: &str) {
    with(name, &shape(2), |stores| {
        let [one, other] = stores else { panic!("asked for two stores") };
        one.put(b"ours", b"mine").unwrap();
        assert_eq!(read(other.as_mut(), b"ours").unwrap(), b"mine");
        let other_thread =
            std::thread::scope(|scope| scope.spawn(|| other.put(b"ours", b"your")).join().unwrap());
        other_thread.unwrap();
        assert_eq!(read(one.as_mut(), b"ours").unwrap(), b"your");
    });
}

macro_rules! rivals {
    ($($test:ident $name:literal $($shared:ident)?;)*) => {
        const TESTED: &[&str] = &[$($name),*];
        $(mod $test {
            #[test]
            fn returns_right_values() {
                super::returns_right_values($name);
            }
            $(#[test]
            fn $shared() {
                super::$shared($name);
            })?
        })*
    };
}

rivals! {
    commonhold "commonhold" shares_between_workers;
    hashbrown "hashbrown";
    hashbrown_rwlock "hashbrown rwlock" shares_between_workers;
    hashbrown_mutex "hashbrown mutex" shares_between_workers;
    lmdb "lmdb per-op" shares_between_workers;
    lmdb_batched "lmdb batch 1000" shares_between_workers;
    redb "redb per-op" shares_between_workers;
    redb_batched "redb batch 1000" shares_between_workers;
    redis "redis pipeline 1" shares_between_workers;
    redis_pipelined "redis pipeline 64" shares_between_workers;
    memcached "memcached pipeline 1" shares_between_workers;
    memcached_pipelined "memcached pipeline 64" shares_between_workers;
}

#[test]
fn no_rival_is_left_untested() {
    let names: Vec<_> = rivals::keepers().iter().map(|rival| rival.name()).collect();
    assert_eq!(TESTED, names);
}

#[test]
fn commonhold_does_the_same_with_a_fixed_map_and_in_a_file() {
    for (fixed, in_file) in [(true, false), (false, true)] {
        with("commonhold", &Shape { fixed, in_file, ..shape(1) }, |stores| {
            keeps_overwrites_and_deletes(stores[0].as_mut());
            finds_many(stores[0].as_mut());
        });
    }
}
