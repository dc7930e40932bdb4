//! Maps against a plain `HashMap`.
//!
//! Random sequences of operations (proptest shrinks what fails) answer as the model says, in every mode,
//! through two handles in turn; what is iterated at the end is the model, and the hold is whole.

use crate::support::script::{Model, Op, read};
use crate::support::shape::{COUNTER, Shape};
use crate::support::test_dir::TestDir;
use crate::support::{Dice, long};
use commonhold::Hold;
use commonhold::map::Map;
use proptest::prelude::*;
use proptest::test_runner::FileFailurePersistence;

fn operation(shape: Shape, keys: u32) -> impl Strategy<Value = Op> {
    let key = || 0..keys;
    let version = move || (0u64..1000).prop_map(move |v| shape.fit(v));
    let maybe = move || prop::option::of(version());
    let pairs = prop::collection::vec((key(), version()), 0..20);
    let counter = || (0..8u32).prop_map(|k| k | COUNTER);
    let plain = prop_oneof![
        3 => key().prop_map(Op::Get),
        6 => (key(), version()).prop_map(|(k, v)| Op::Set(k, v)),
        2 => (key(), version()).prop_map(|(k, v)| Op::Add(k, v)),
        2 => (key(), version()).prop_map(|(k, v)| Op::Replace(k, v)),
        2 => (key(), maybe(), maybe()).prop_map(|(k, o, n)| Op::Exchange(k, o, n)),
        3 => key().prop_map(Op::Delete),
        2 => key().prop_map(Op::Take),
        2 => (key(), maybe()).prop_map(|(k, n)| Op::Update(k, n)),
        2 => (key(), version()).prop_map(|(k, v)| Op::SetUid(k, v)),
        2 => key().prop_map(Op::DeleteUid),
        1 => pairs.prop_map(|mut p| {
            // One version per key: which of two equal keys wins is another test's question.
            p.sort();
            p.dedup_by_key(|p| p.0);
            Op::SetMany(p)
        }),
    ];
    let counting = prop_oneof![
        (counter(), any::<i64>()).prop_map(|(k, by)| Op::Increment(k, by)),
        (counter(), any::<i64>()).prop_map(|(k, by)| Op::IncrementUid(k, by)),
    ];
    if shape.counts() { prop_oneof![8 => plain, 1 => counting].boxed() } else { plain.boxed() }
}

fn agree(shape: Shape, keys: u32, len: usize, cases: u32) {
    let cases = if long() { cases * 20 } else { cases };
    let config = ProptestConfig {
        cases,
        failure_persistence: Some(Box::new(FileFailurePersistence::Off)),
        ..ProptestConfig::default()
    };
    proptest!(config, |(script in prop::collection::vec(operation(shape, keys), 1..len))| {
        let test_dir = TestDir::memory();
        let holds = [0, 1].map(|_| Hold::open_or_create(test_dir.path("it.hold")).unwrap());
        let maps = [0, 1].map(|i: usize| holds[i].maps().open_or_create("it", shape.options()).unwrap());
        let mut model = Model::new();
        for (i, op) in script.iter().enumerate() {
            let wanted = op.apply(&mut model);
            let answer = op.perform(&maps[i % 2], shape).unwrap();
            prop_assert_eq!(answer, wanted, "operation {}: {:?}", i, op);
            prop_assert_eq!(maps[i % 2].len().unwrap(), model.len() as u64, "after {:?}", op);
        }
        same(&maps[0], shape, &model);
        let report = holds[1].check().unwrap();
        prop_assert!(report.ok, "{:?}", report.problems);
        prop_assert_eq!(report.allocated, report.reachable);
        prop_assert_eq!(report.records, model.len() as u64);
    });
}

/// The map holds exactly the model.
fn same(map: &Map, shape: Shape, model: &Model) {
    let mut walked = Model::new();
    for pair in map.iter() {
        let (key, value) = pair.unwrap();
        let id = shape.id(&key).unwrap();
        assert_eq!(walked.insert(id, read(shape, id, &value)), None, "key {id:#x} walked twice");
    }
    assert_eq!(&walked, model);
}

#[test]
fn general_maps_agree_with_the_model() {
    agree(Shape::General, 40, 400, 60);
    agree(Shape::General, 2000, 3000, 8);
    agree(Shape::Short, 40, 400, 60);
    agree(Shape::Short, 2000, 3000, 8);
}

#[test]
fn large_values_agree_with_the_model() {
    agree(Shape::Big, 12, 60, 12);
}

#[test]
fn fixed_maps_agree_with_the_model() {
    for (key, value) in [(4, 4), (6, 2), (4, 0), (8, 8), (4, 8), (16, 16), (8, 40)] {
        agree(Shape::Fixed(key, value), 40, 400, 20);
        agree(Shape::Fixed(key, value), 2000, 3000, 3);
    }
}

#[test]
fn cache_maps_agree_with_the_model() {
    agree(Shape::Cache, 40, 400, 40);
    agree(Shape::Cache, 2000, 3000, 6);
}

/// Random operations while a map grows to more than a million pairs and shrinks again.
fn agree_at_large(shape: Shape) {
    const IDS: u64 = 1 << 21;
    const GROWING: u64 = 1_600_000;
    const SHRINKING: u64 = 400_000;
    let test_dir = TestDir::memory();
    let hold = Hold::create(test_dir.path("it.hold")).unwrap();
    let map = hold.maps().open_or_create("it", shape.options()).unwrap();
    let (mut model, mut dice, mut most) = (Model::new(), Dice::new(11), 0);
    for turn in 0..GROWING + SHRINKING {
        let grows = turn < GROWING;
        let id = dice.below(IDS) as u32;
        let op = match dice.below(8) {
            0 => Op::Get(id),
            1..6 if grows => Op::Set(id, shape.fit(turn)),
            _ if grows => Op::Add(id, shape.fit(turn)),
            1..5 => Op::Delete(id),
            _ => Op::Take(id),
        };
        let wanted = op.apply(&mut model);
        assert_eq!(op.perform(&map, shape).unwrap(), wanted, "operation {turn}: {op:?}");
        most = most.max(model.len());
    }
    assert!(most > 1_000_000 && model.len() < most * 9 / 10, "{most}, {} at last", model.len());
    assert_eq!(map.len().unwrap(), model.len() as u64);
    same(&map, shape, &model);
    let report = hold.check().unwrap();
    assert!(report.ok && report.allocated == report.reachable, "{report:?}");
}

#[test]
fn large_general_maps_agree_with_the_model() {
    agree_at_large(Shape::General);
}

#[test]
fn large_fixed_maps_agree_with_the_model() {
    agree_at_large(Shape::Fixed(4, 4));
}

#[test]
fn large_caches_agree_with_the_model() {
    agree_at_large(Shape::Cache);
}
