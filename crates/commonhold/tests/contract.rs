//! The contract of a map: one suite, run against every mode.
//!
//! What each operation answers when the key is absent and when it is present, that refusals change
//! nothing, and that the three ways to read (one by one, many at once, iteration) agree. Widths of the
//! fixed-length mode cover its three layouts: pairs in one word, larger pairs inline, no value at all.
//! Errors are at the end, each by its kind.
//!
//! A binary of its own: `./test` runs it twice, as users build the library too, which is not to cost compiling everything twice.

#![allow(unsafe_code)] // Memory that has no values yet.

mod support;

use crate::support::shape::{COUNTER, Shape};
use crate::support::test_dir::TestDir;
use commonhold::Hold;
use commonhold::map::{Cursor, Map, Values};
use std::collections::BTreeSet;
use std::mem::MaybeUninit;

/// A fresh hold with one map in it.
struct Scene {
    hold: Hold,
    map: Map,
    shape: Shape,
    test_dir: TestDir,
}

impl Scene {
    fn new(shape: Shape) -> Scene {
        let test_dir = TestDir::memory();
        let hold = Hold::create(test_dir.path("it.hold")).unwrap();
        let map = hold.maps().open_or_create("it", shape.options()).unwrap();
        Scene { hold, map, shape, test_dir }
    }

    fn key(&self, id: u32) -> Vec<u8> {
        self.shape.key(id)
    }

    fn value(&self, id: u32, version: u64) -> Vec<u8> {
        self.shape.value(id, self.shape.fit(version))
    }

    fn set(&self, id: u32, version: u64) {
        self.map.set(self.key(id), self.value(id, version)).unwrap();
    }

    /// All ways to read agree that key `id` has this version, or is absent.
    #[track_caller]
    fn expect(&self, id: u32, version: Option<u64>) {
        let (key, map) = (self.key(id), &self.map);
        let wanted = version.map(|v| self.value(id, v));
        assert_eq!(map.get(&key).unwrap(), wanted);
        assert_eq!(map.contains(&key).unwrap(), wanted.is_some());
        let mut out = b"left over".to_vec();
        assert_eq!(map.get_into(&key, &mut out).unwrap(), wanted.is_some());
        if let Some(wanted) = &wanted {
            assert_eq!(&out, wanted);
        }
        let mut room = [MaybeUninit::new(0); 5];
        let len = map.get_uninit(&key, &mut room).unwrap();
        assert_eq!(len, wanted.as_ref().map(Vec::len));
        for (byte, wanted) in room.iter().zip(wanted.iter().flatten()) {
            // SAFETY: every byte was initialized above.
            assert_eq!(unsafe { byte.assume_init() }, *wanted);
        }
        let mut values = Values::default();
        let hits = map.get_many(std::slice::from_ref(&key), &mut values).unwrap();
        assert_eq!((hits, values.get(0)), (wanted.is_some() as usize, wanted.as_deref()));
        let uid = map.uid(&key).unwrap();
        assert_eq!(uid.is_some(), wanted.is_some());
        if let Some(uid) = uid {
            assert_eq!(map.get_uid(uid).unwrap(), wanted.clone().map(|v| (key.clone(), v)));
        }
        let walked: Vec<_> = map.iter().map(Result::unwrap).filter(|p| p.0 == key).collect();
        assert_eq!(walked, wanted.map(|v| (key, v)).into_iter().collect::<Vec<_>>());
    }

    #[track_caller]
    fn sound(&self) {
        let report = self.hold.check().unwrap();
        assert!(report.ok, "{:?}", report.problems);
        assert_eq!(report.allocated, report.reachable + report.in_flight);
        assert_eq!(report.in_flight, 0);
    }
}

macro_rules! suite {
    ($($mode:ident = $shape:expr;)*) => { $(suite_of!($mode, $shape);)* };
}

macro_rules! suite_of {
    ($mode:ident, $shape:expr) => {
        suite_cases!(
            $mode,
            $shape,
            [
                an_absent_key_is_absent_to_every_operation,
                set_and_overwrite,
                add_only_if_absent,
                replace_only_if_present,
                compare_exchange_in_every_case,
                delete_and_take,
                update_creates_changes_and_deletes,
                uids_stay_and_check_their_key,
                counters_add_up,
                many_at_once,
                iteration_is_exact_and_resumes,
                clear_empties,
                random_pairs_are_pairs,
                reopened_by_name_it_is_the_same,
                statistics_count,
            ]
        );
    };
}

macro_rules! suite_cases {
    ($mode:ident, $shape:expr, [$($case:ident),* $(,)?]) => {
        mod $mode {
            $(#[test]
            fn $case() {
                let scene = super::Scene::new($shape);
                super::$case(&scene);
                scene.sound();
            })*
        }
    };
}

suite! {
    general = crate::support::shape::Shape::General;
    short = crate::support::shape::Shape::Short;
    big = crate::support::shape::Shape::Big;
    fixed_4_4 = crate::support::shape::Shape::Fixed(4, 4);
    fixed_5_3 = crate::support::shape::Shape::Fixed(5, 3);
    fixed_4_0 = crate::support::shape::Shape::Fixed(4, 0);
    fixed_8_0 = crate::support::shape::Shape::Fixed(8, 0);
    fixed_4_8 = crate::support::shape::Shape::Fixed(4, 8);
    fixed_8_8 = crate::support::shape::Shape::Fixed(8, 8);
    fixed_16_16 = crate::support::shape::Shape::Fixed(16, 16);
    fixed_16_0 = crate::support::shape::Shape::Fixed(16, 0);
    fixed_20_100 = crate::support::shape::Shape::Fixed(20, 100);
    cache = crate::support::shape::Shape::Cache;
}

fn an_absent_key_is_absent_to_every_operation(s: &Scene) {
    let (key, value) = (s.key(1), s.value(1, 1));
    s.expect(1, None);
    assert!(!s.map.delete(&key).unwrap());
    assert_eq!(s.map.take(&key).unwrap(), None);
    assert_eq!(s.map.replace(&key, &value).unwrap(), None);
    assert!(!s.map.compare_exchange(&key, Some(&value), None).unwrap());
    assert!(!s.map.compare_exchange(&key, Some(&value), Some(&value)).unwrap());
    assert!(s.map.compare_exchange(&key, None, None).unwrap());
    assert_eq!(s.map.update(&key, |now| now.map(<[u8]>::to_vec)).unwrap(), None);
    assert_eq!(s.map.random_pair().unwrap(), None);
    assert_eq!((s.map.len().unwrap(), s.map.is_empty().unwrap()), (0, true));
    assert_eq!((s.map.iter().count(), s.map.keys().count(), s.map.clear().unwrap()), (0, 0, 0));
    s.expect(1, None);
}

fn set_and_overwrite(s: &Scene) {
    for version in [1, 2, 200, 3, 1] {
        s.set(7, version);
        s.expect(7, Some(version));
        assert_eq!((s.map.len().unwrap(), s.map.is_empty().unwrap()), (1, false));
    }
    s.expect(8, None);
}

fn add_only_if_absent(s: &Scene) {
    let uid = s.map.add(s.key(1), s.value(1, 1)).unwrap();
    assert_eq!(uid, s.map.uid(s.key(1)).unwrap());
    assert_eq!(s.map.add(s.key(1), s.value(1, 2)).unwrap(), None);
    s.expect(1, Some(1));
}

fn replace_only_if_present(s: &Scene) {
    assert_eq!(s.map.replace(s.key(1), s.value(1, 1)).unwrap(), None);
    s.expect(1, None);
    s.set(1, 1);
    assert_eq!(s.map.replace(s.key(1), s.value(1, 2)).unwrap(), s.map.uid(s.key(1)).unwrap());
    s.expect(1, Some(2));
}

fn compare_exchange_in_every_case(s: &Scene) {
    let (key, one, two) = (s.key(1), s.value(1, 1), s.value(1, 2));
    assert!(s.map.compare_exchange(&key, None, Some(&one)).unwrap());
    s.expect(1, Some(1));
    assert!(!s.map.compare_exchange(&key, None, Some(&two)).unwrap());
    if one != two {
        assert!(!s.map.compare_exchange(&key, Some(&two), Some(&two)).unwrap());
        assert!(!s.map.compare_exchange(&key, Some(&two), None).unwrap());
    }
    s.expect(1, Some(1));
    assert!(s.map.compare_exchange(&key, Some(&one), Some(&two)).unwrap());
    s.expect(1, Some(2));
    assert!(s.map.compare_exchange(&key, Some(&two), Some(&two)).unwrap());
    assert!(s.map.compare_exchange(&key, Some(&two), None).unwrap());
    s.expect(1, None);
}

fn delete_and_take(s: &Scene) {
    s.set(1, 1);
    s.set(2, 2);
    assert!(s.map.delete(s.key(1)).unwrap());
    assert!(!s.map.delete(s.key(1)).unwrap());
    s.expect(1, None);
    assert_eq!(s.map.take(s.key(2)).unwrap(), Some(s.value(2, 2)));
    assert_eq!(s.map.take(s.key(2)).unwrap(), None);
    s.expect(2, None);
    s.set(1, 3);
    s.expect(1, Some(3));
}

fn update_creates_changes_and_deletes(s: &Scene) {
    let key = s.key(1);
    let mut seen = Vec::new();
    for new in [Some(s.value(1, 1)), Some(s.value(1, 2)), None, None] {
        let uid = s.map.update(&key, |now| {
            seen.push(now.map(<[u8]>::to_vec));
            new.clone()
        });
        assert_eq!(uid.unwrap(), s.map.uid(&key).unwrap());
        assert_eq!(s.map.get(&key).unwrap(), new);
    }
    assert_eq!(seen, [None, Some(s.value(1, 1)), Some(s.value(1, 2)), None]);
}

fn uids_stay_and_check_their_key(s: &Scene) {
    let uid = s.map.set(s.key(1), s.value(1, 1)).unwrap();
    assert_eq!(s.map.set(s.key(1), s.value(1, 2)).unwrap(), uid);
    for id in 2..2000 {
        s.set(id, 1);
    }
    assert_eq!(s.map.uid(s.key(1)).unwrap(), Some(uid));
    assert_eq!(s.map.get_uid(uid).unwrap(), Some((s.key(1), s.value(1, 2))));
    assert!(!s.map.set_uid(uid, s.key(2), s.value(2, 9)).unwrap());
    assert!(!s.map.delete_uid(uid, s.key(2)).unwrap());
    s.expect(1, Some(2));
    s.expect(2, Some(1));
    assert!(s.map.set_uid(uid, s.key(1), s.value(1, 3)).unwrap());
    let [now, new] = [3, 4].map(|version| s.value(1, version));
    let exchange =
        |key: u32, from: &[u8], to| s.map.compare_exchange_uid(uid, s.key(key), from, to);
    assert!(!exchange(2, &now, Some(&new[..])).unwrap());
    assert_eq!(exchange(1, &new, Some(&now[..])).unwrap(), now == new);
    assert!(exchange(1, &now, Some(&new[..])).unwrap());
    assert!(!s.map.update_uid(uid, s.key(2), |_| panic!("another key")).unwrap());
    let back = |value: &[u8]| (value == new).then(|| now.clone());
    assert!(s.map.update_uid(uid, s.key(1), back).unwrap());
    assert_eq!(s.map.take_uid(uid, s.key(2)).unwrap(), None);
    assert_eq!(s.map.take_uid(uid, s.key(1)).unwrap(), Some(now.clone()));
    assert_eq!(s.map.take_uid(uid, s.key(1)).unwrap(), None);
    assert!(!exchange(1, &now, None).unwrap());
    // Another position, perhaps.
    let uid = s.map.set(s.key(1), &now).unwrap();
    s.expect(1, Some(3));
    assert!(s.map.delete_uid(uid, s.key(1)).unwrap());
    assert!(!s.map.delete_uid(uid, s.key(1)).unwrap());
    assert!(!s.map.set_uid(uid, s.key(1), s.value(1, 4)).unwrap());
    s.expect(1, None);
}

fn counters_add_up(s: &Scene) {
    let (counter, key) = (COUNTER | 5, s.key(COUNTER | 5));
    if !s.shape.counts() {
        // There is no room for eight bytes: a refusal that changes nothing.
        assert!(s.map.increment(&key, 1).is_err());
        assert_eq!(s.map.get(&key).unwrap(), None);
        return;
    }
    assert_eq!(s.map.increment(&key, 5).unwrap(), 5);
    assert_eq!(s.map.increment(&key, -7).unwrap(), -2);
    assert_eq!(s.map.get(&key).unwrap(), Some((-2i64).to_le_bytes().to_vec()));
    let uid = s.map.uid(&key).unwrap().unwrap();
    assert_eq!(s.map.increment_uid(uid, &key, 4).unwrap(), Some(2));
    assert_eq!(s.map.increment_uid(uid, s.key(COUNTER | 6), 4).unwrap(), None);
    s.map.set(&key, i64::MAX.to_le_bytes()).unwrap();
    assert_eq!(s.map.increment(&key, 1).unwrap(), i64::MIN);
    assert!(s.map.delete(&key).unwrap());
    assert_eq!(s.map.increment_uid(uid, &key, 1).unwrap(), None);
    assert_eq!(s.map.uid(s.key(counter)).unwrap(), None);
}

fn many_at_once(s: &Scene) {
    let pairs: Vec<_> = (0..500).map(|id| (s.key(id), s.value(id, 1))).collect();
    s.map.set_many(&pairs).unwrap();
    s.map.set_many::<Vec<u8>, Vec<u8>>(&[]).unwrap();
    assert_eq!(s.map.len().unwrap(), 500);
    let keys: Vec<_> = (0..600).map(|id| s.key(id)).collect();
    let mut values = Values::default();
    for _ in 0..2 {
        assert_eq!(s.map.get_many(&keys, &mut values).unwrap(), 500);
        for id in 0..600u32 {
            let wanted = (id < 500).then(|| s.value(id, 1));
            assert_eq!(values.get(id as usize), wanted.as_deref());
        }
    }
    assert_eq!(s.map.get_many::<Vec<u8>>(&[], &mut values).unwrap(), 0);
    assert_eq!(values.get(0), None);
}

fn iteration_is_exact_and_resumes(s: &Scene) {
    let count = if s.shape == Shape::Big { 300 } else { 3000 };
    for id in 0..count {
        s.set(id, id as u64);
    }
    let id_of = |key: &[u8]| s.shape.id(key).unwrap();
    let mut seen = BTreeSet::new();
    for pair in s.map.iter() {
        let (key, value) = pair.unwrap();
        let id = id_of(&key);
        assert_eq!(value, s.value(id, id as u64));
        assert!(seen.insert(id), "key {id} twice");
    }
    assert!(seen.iter().copied().eq(0..count), "{} of {count} seen", seen.len());
    let keys: BTreeSet<u32> = s.map.keys().map(|k| id_of(&k.unwrap())).collect();
    assert!(keys == seen, "{} keys, {count} pairs", keys.len());
    // Resumed from a cursor, nothing is missing and nothing is seen twice.
    let mut part = s.map.iter_from(Cursor::START);
    let mut found = BTreeSet::new();
    while found.len() < count as usize / 2 || !part.at_cursor() {
        found.insert(id_of(&part.next().unwrap().unwrap().0));
    }
    let cursor = part.cursor();
    for pair in s.map.iter_from(cursor) {
        assert!(found.insert(id_of(&pair.unwrap().0)), "seen before the cursor and after it");
    }
    assert!(found == seen, "{} of {count} found", found.len());
}

fn clear_empties(s: &Scene) {
    for id in 0..1000 {
        s.set(id, 1);
    }
    assert_eq!(s.map.clear().unwrap(), 1000);
    assert_eq!((s.map.len().unwrap(), s.map.iter().count()), (0, 0));
    s.expect(5, None);
    s.set(5, 2);
    s.expect(5, Some(2));
}

fn random_pairs_are_pairs(s: &Scene) {
    s.set(1, 1);
    assert_eq!(s.map.random_pair().unwrap(), Some((s.key(1), s.value(1, 1))));
    for id in 2..500 {
        s.set(id, 1);
    }
    let mut different = BTreeSet::new();
    for _ in 0..200 {
        let (key, value) = s.map.random_pair().unwrap().unwrap();
        let id = s.shape.id(&key).unwrap();
        assert_eq!(value, s.value(id, 1));
        different.insert(id);
    }
    assert!(different.len() > 20, "only {} different ones of 200 draws", different.len());
}

fn reopened_by_name_it_is_the_same(s: &Scene) {
    s.set(1, 1);
    let again = s.hold.maps().open_or_create("it", s.shape.options()).unwrap();
    assert_eq!(again.get(s.key(1)).unwrap(), Some(s.value(1, 1)));
    assert_eq!((again.name(), again.options()), ("it", &s.shape.options()));
    let other = Hold::open(s.test_dir.path("it.hold")).unwrap();
    assert_eq!(other.uuid(), s.hold.uuid());
    let other = other.maps().open("it").unwrap();
    assert_eq!(other.options(), &s.shape.options());
    assert_eq!(other.get(s.key(1)).unwrap(), Some(s.value(1, 1)));
    other.set(s.key(1), s.value(1, 2)).unwrap();
    s.expect(1, Some(2));
}

fn statistics_count(s: &Scene) {
    for id in 0..1000 {
        s.set(id, 1);
    }
    for id in 0..10 {
        assert!(s.map.delete(s.key(id)).unwrap());
    }
    let stat = s.map.stat().unwrap();
    assert_eq!((stat.len, stat.name.as_str()), (990, "it"));
    assert!(stat.segments >= 4 && stat.index_bytes > 0);
    assert!(stat.load > 0.0 && stat.load <= 1.0);
    let maps = s.hold.maps().list().unwrap();
    assert_eq!((maps.len(), maps[0].len, maps[0].name.as_str()), (1, 990, "it"));
    let stat = s.hold.stat().unwrap();
    assert!(stat.used_bytes <= stat.file_bytes && stat.file_bytes <= stat.max_bytes);
    assert_eq!((stat.maps, stat.participants), (1, 1));
}
