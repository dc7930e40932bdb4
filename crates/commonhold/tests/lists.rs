//! Lists as values: against a deque, with several processes at once, and under kills at every step of a write.

use crate::support::Dice;
use crate::support::process::{Board, Child, End};
use crate::support::test_dir::TestDir;
use commonhold::map::{List, MapOptions, Text, TypedMap};
use commonhold::{ErrorKind, Hold, steps};
use nix::sys::signal::Signal;
use std::collections::{BTreeSet, VecDeque};
use std::path::Path;

type Lists = TypedMap<Text, List>;

fn lists(path: &Path) -> Lists {
    Hold::open_or_create(path)
        .unwrap()
        .maps()
        .open_or_create("lists", MapOptions::general())
        .unwrap()
        .typed()
}

/// The count and the elements of a value contradict each other: nothing is removed.
#[test]
fn a_value_whose_count_is_wrong_is_not_a_list() {
    let test_dir = TestDir::memory();
    let lists = lists(&test_dir.path("it.hold"));
    let one = [&1u32.to_le_bytes()[..], b"a", &1u32.to_le_bytes()].concat();
    for (count, elements) in [(1u32, [one.clone(), one.clone()].concat()), (2, one)] {
        let value = [&count.to_le_bytes()[..], &elements].concat();
        lists.map().set("key", &value).unwrap();
        assert_eq!(lists.pop("key").unwrap_err().kind(), ErrorKind::Mismatch);
        assert_eq!(lists.shift("key").unwrap_err().kind(), ErrorKind::Mismatch);
        assert_eq!(lists.map().get("key").unwrap(), Some(value));
    }
}

/// What is in the list of the tests.
fn elements(lists: &Lists) -> Vec<Vec<u8>> {
    lists.get("key").unwrap().unwrap_or_default()
}

fn element(number: u64) -> Vec<u8> {
    let len = number % 40;
    (0..len).map(|at| (number + at) as u8).chain(number.to_le_bytes()).collect()
}

fn number(element: &[u8]) -> u64 {
    let tail = element.last_chunk().expect("every element ends with its number");
    let number = u64::from_le_bytes(*tail);
    assert_eq!(element, self::element(number), "not as it was pushed");
    number
}

#[test]
fn a_list_is_a_deque() {
    let test_dir = TestDir::memory();
    let lists = lists(&test_dir.path("it.hold"));
    let (mut model, mut dice) = (VecDeque::new(), Dice::new(7));
    for round in 0..3000u64 {
        let wanted = element(round);
        match dice.below(5) {
            0 => {
                model.push_back(wanted.clone());
                assert_eq!(lists.push("key", &wanted).unwrap() as usize, model.len());
            }
            1 => {
                model.push_front(wanted.clone());
                assert_eq!(lists.unshift("key", &wanted).unwrap() as usize, model.len());
            }
            2 => assert_eq!(lists.pop("key").unwrap(), model.pop_back()),
            3 => assert_eq!(lists.shift("key").unwrap(), model.pop_front()),
            _ => assert_eq!(elements(&lists), Vec::from(model.clone())),
        }
        assert_eq!(lists.list_len("key").unwrap() as usize, model.len());
    }
    while let Some(last) = model.pop_back() {
        assert_eq!(lists.pop("key").unwrap(), Some(last));
    }
    assert!(lists.list_len("key").unwrap() == 0 && lists.pop("key").unwrap().is_none());
    let map = Hold::open(test_dir.path("it.hold"))
        .unwrap()
        .maps()
        .open_or_create("lists", MapOptions::general());
    assert!(!map.unwrap().contains("key").unwrap(), "an empty list is no value");
}

#[test]
fn a_value_that_is_no_list_is_refused_and_kept() {
    let test_dir = TestDir::memory();
    let hold = Hold::create(test_dir.path("it.hold")).unwrap();
    let map = hold.maps().open_or_create("it", MapOptions::general()).unwrap();
    let lists: Lists = map.typed();
    lists.push("good", "element").unwrap();
    let good = map.get("good").unwrap().unwrap();
    let mut bad = vec![Vec::new(), b"text".to_vec(), vec![0; 4], [&good[..], b"more"].concat()];
    bad.extend((1..good.len()).map(|len| good[..len].to_vec()));
    for at in 0..8 {
        let mut broken = good.clone();
        broken[at] ^= 0x40;
        bad.push(broken);
    }
    for value in bad {
        map.set("bad", &value).unwrap();
        let all = lists.get("bad").map(drop);
        assert_eq!(all.expect_err("no list").kind(), ErrorKind::Mismatch, "{value:?}");
        // One end may look right; what is taken then was there, and nothing panics.
        for result in [lists.pop("bad"), lists.shift("bad")] {
            assert!(result.is_ok() || result.is_err_and(|e| e.kind() == ErrorKind::Mismatch));
        }
    }
    let fixed = hold.maps().open_or_create("fixed", MapOptions::fixed(4, 4)).unwrap();
    let fixed: Lists = fixed.typed();
    assert_eq!(fixed.push("four", "x").expect_err("a length").kind(), ErrorKind::Invalid);
}

/// Two processes push, two shift: everything arrives once, each producer's in order.
#[test]
fn processes_share_a_list() {
    const EACH: u64 = 1500;
    let test_dir = TestDir::memory();
    let path = test_dir.path("it.hold");
    let all = lists(&path);
    let board = Board::new(4 * EACH as usize + 1);
    let producers = [0, 1].map(|which| {
        let path = &path;
        Child::run(format!("producer {which}"), move || {
            let lists = lists(path);
            for at in 0..EACH {
                lists.push("jobs", element(at << 1 | which)).unwrap();
            }
        })
    });
    let consumers = [0, 1].map(|which| {
        let (path, board) = (&path, &board);
        Child::run(format!("consumer {which}"), move || {
            let (lists, mut last) = (lists(path), [None; 2]);
            let mut taken = 0;
            while board.get(0) < 2 * EACH {
                let Some(element) = lists.shift("jobs").unwrap() else { continue };
                let number = number(&element);
                let before = last[(number & 1) as usize].replace(number);
                assert!(before < Some(number), "{number} after {before:?}");
                board.count(0, 1);
                board.put(1 + (which * 2 * EACH + taken) as usize, number + 1);
                taken += 1;
            }
        })
    });
    producers.into_iter().chain(consumers).for_each(Child::finish);
    let seen: Vec<u64> =
        (1..4 * EACH as usize + 1).map(|at| board.get(at)).filter(|n| *n > 0).collect();
    let distinct: BTreeSet<u64> = seen.iter().copied().collect();
    assert_eq!((seen.len(), distinct.len()), (2 * EACH as usize, 2 * EACH as usize));
    assert!(all.list_len("jobs").unwrap() == 0);
}

#[test]
fn a_push_is_whole_or_not_at_all() {
    let test_dir = TestDir::memory();
    let path = test_dir.path("it.hold");
    let lists = lists(&path);
    let mut survived = 0;
    for (at, step) in steps::ALL.iter().enumerate() {
        if !["write.", "record.", "retire."].iter().any(|group| step.starts_with(group)) {
            continue;
        }
        let before: Vec<u64> = elements(&lists).iter().map(|e| number(e)).collect();
        let pushed = at as u64;
        let mut child = Child::run(*step, || {
            let lists = self::lists(&path);
            lists.push("other", "warm").unwrap();
            steps::arm(&format!("{step}:kill")).unwrap();
            lists.push("key", element(pushed)).unwrap();
        });
        let end = child.wait();
        assert!(end == End::Well || end == End::By(Signal::SIGKILL), "{step}: {end:?}");
        survived += u32::from(end == End::Well);
        lists.push("mine", "x").unwrap();
        let after: Vec<u64> = elements(&lists).iter().map(|e| number(e)).collect();
        let with: Vec<u64> = before.iter().copied().chain([pushed]).collect();
        assert!(after == with || (after == before && end != End::Well), "{step}: {after:?}");
        let report = Hold::open(&path).unwrap().check().unwrap();
        assert!(report.ok, "{step}: {report:?}");
    }
    assert!(survived < 4, "{survived} steps were not passed");
}
