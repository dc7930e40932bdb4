//! Processes that are killed or stopped while they put: the store continues, and no process waits.

use super::shared::open;
use super::{Kinds, value, version};
use commonhold::{Hold, steps};
use commonhold_testing::support::process::{Child, End};
use commonhold_testing::support::test_dir::TestDir;
use nix::sys::signal::Signal;
use std::collections::BTreeSet;
use std::time::{Duration, Instant};

const LIMIT: u64 = 256 << 10;
/// The bytes that one entry counts in these tests, at most.
const ENTRY: u64 = 4096;

/// Puts, looks and removes until every event of a store has happened.
fn scribble(kinds: Kinds, test_dir: &TestDir) {
    let store = open(kinds, test_dir, LIMIT);
    for turn in 0..600 {
        let key = turn * 7 % 200;
        store.put(key, value(key, turn, 500 + turn as usize % 1500));
        if turn % 10 == 0 {
            store.remove(turn * 3 % 200);
        }
    }
}

#[test]
fn killed_at_every_step_of_a_change() {
    let mut killed = BTreeSet::new();
    for kinds in Kinds::shared() {
        let test_dir = TestDir::memory();
        let store = open(kinds, &test_dir, LIMIT);
        let of_a_change = |step: &&&str| {
            let changes = ["write.", "retire.", "record.", "cell.", "inline.", "cache."];
            changes.iter().any(|change| step.starts_with(change))
        };
        let mut kills = 0;
        for (number, step) in (0..).zip(steps::ALL.iter().filter(of_a_change)) {
            let when = format!("{kinds:?}, killed at {step}");
            let mut victim = Child::run(when.clone(), || {
                steps::arm(&format!("{step}:kill:{}", 20 + number % 50)).unwrap();
                scribble(kinds, &test_dir);
            });
            match victim.wait() {
                End::By(Signal::SIGKILL) => {
                    killed.insert(*step);
                    kills += 1;
                }
                End::Well => {}
                end => panic!("{when}: {end:?}"),
            }
            for key in 0..200 {
                store.look(key).into_iter().for_each(|seen| _ = version(key, &seen));
            }
            store.put(1000 + number, value(1000 + number, 1, 1000));
            // Of a store that evicts nothing there may be no room.
            assert!(!kinds.evicts() || store.look(1000 + number).is_some(), "{when}");
            assert!(store.stat().bytes <= LIMIT + ENTRY, "{when}: {:?}", store.stat());
        }
        assert!(kills > 8, "{kinds:?}: {kills}");
        let hold = Hold::open(test_dir.path("it.hold")).unwrap();
        hold.sweep().unwrap();
        assert!(hold.check().unwrap().ok, "{kinds:?}");
        // The surplus that killed processes have left is at most one entry each.
        (0..2000).for_each(|key| store.remove(key));
        let stat = store.stat();
        assert_eq!(stat.entries, 0, "{kinds:?}");
        assert!(stat.bytes <= kills * ENTRY, "{kinds:?}: {stat:?}");
        drop(store);
        // A process that is alone counts again.
        assert_eq!(open(kinds, &test_dir, LIMIT).stat().bytes, 0, "{kinds:?}");
    }
    assert!(killed.len() > 12, "{killed:?}");
}

#[test]
fn nobody_waits_for_a_process_that_is_stopped_while_it_puts() {
    for kinds in Kinds::shared() {
        for step in ["write.locked", "write.committed"] {
            let test_dir = TestDir::memory();
            let store = open(kinds, &test_dir, LIMIT);
            (0..50).for_each(|key| store.put(key, value(key, 1, 1000)));
            let mut victim = Child::run(format!("{kinds:?}, stopped at {step}"), || {
                let store = open(kinds, &test_dir, LIMIT);
                steps::arm(&format!("{step}:stop")).unwrap();
                store.put(7, value(7, 2, 1000));
            });
            assert!(victim.wait_stopped());
            let begun = Instant::now();
            for key in 0..50 {
                store.look(key).into_iter().for_each(|seen| assert!(version(key, &seen) < 3));
                store.put(key, value(key, 3, 1000));
                // It is the value that was put, or nothing at all.
                store.look(key).into_iter().for_each(|seen| assert_eq!(version(key, &seen), 3));
                store.remove(key);
                assert_eq!(store.look(key), None, "{kinds:?}");
            }
            // At most this many waits of milliseconds, on however busy a machine.
            assert!(begun.elapsed() < Duration::from_secs(10), "{kinds:?}");
            victim.signal(Signal::SIGCONT);
            assert_eq!(victim.wait(), End::Well);
            // Keys that could not be removed then are removed now.
            commonhold_testing::support::process::until("it is changed again", || {
                store.put(7, value(7, 4, 1000));
                store.look(7).is_some()
            });
            assert_eq!(version(7, &store.look(7).unwrap()), 4, "{kinds:?}");
            // Other doomed keys are removed with the next put; on a busy machine with one after
            // that.
            commonhold_testing::support::process::until("all that had to go is gone", || {
                store.remove(7);
                let is_empty = (store.stat().entries, store.look(7)) == (0, None);
                store.put(7, value(7, 5, 1000));
                is_empty
            });
        }
    }
}
