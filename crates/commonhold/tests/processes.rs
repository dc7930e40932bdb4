//! Several processes, one hold.
//!
//! Random operations of many processes on few keys leave histories that are checked for
//! linearizability per key ([`support::history`]; the checker is tested first, on histories that have
//! an explanation and on ones that have none), with the map growing under them, and with clients killed
//! in the middle. Then: creating the same hold or map at once, many writers and readers over many keys,
//! and deletion with the last exit.

use crate::support::history::{Ask, Call, Notes, explains, must_be_explained};
use crate::support::process::outlive_parent;
use crate::support::process::{Board, Child, End, until};
use crate::support::shape::Shape;
use crate::support::standstill::{go_on, stopped};
use crate::support::test_dir::TestDir;
use crate::support::{Dice, long};
use commonhold::map::MapOptions;
use commonhold::{ErrorKind, Hold, steps};
use nix::fcntl::{FcntlArg, fcntl};
use nix::sys::signal::Signal;
use std::fs::File;
use std::os::unix::fs::MetadataExt;
use std::path::Path;
use std::time::Duration;

fn call(ask: Ask, told: Option<u64>, start: u64, end: u64) -> Call {
    Call { key: 0, ask, told, start, end }
}

#[test]
fn the_checker_accepts_what_can_be_explained() {
    assert!(explains(&[]));
    assert!(explains(&[
        call(Ask::Set(1), Some(1), 0, 10),
        call(Ask::Get, None, 5, 6),
        call(Ask::Get, Some(1), 7, 8),
        call(Ask::Exchange(Some(1), Some(2)), Some(1), 11, 14),
        call(Ask::Exchange(Some(1), Some(3)), None, 11, 14),
        call(Ask::Increment(5), Some(7), 15, 20),
        call(Ask::Take, Some(7), 16, 30),
        call(Ask::Add(4), Some(1), 17, 31),
        call(Ask::Delete, Some(1), 32, 33),
    ]));
    // A call without an end may have happened, early or late, or not at all.
    let died = call(Ask::Set(1), None, 0, u64::MAX);
    assert!(explains(&[died, call(Ask::Get, None, 5, 6), call(Ask::Get, Some(1), 7, 8)]));
    assert!(explains(&[died, call(Ask::Get, None, 5, 6)]));
}

#[test]
fn the_checker_refuses_what_cannot_be_explained() {
    let stale = [call(Ask::Set(1), Some(1), 0, 1), call(Ask::Get, None, 2, 3)];
    let back_and_forth = [
        call(Ask::Set(1), Some(1), 0, 10),
        call(Ask::Get, Some(1), 1, 2),
        call(Ask::Get, None, 3, 4),
    ];
    let lost_update =
        [call(Ask::Increment(1), Some(1), 0, 5), call(Ask::Increment(1), Some(1), 1, 6)];
    let two_adds = [call(Ask::Add(1), Some(1), 0, 5), call(Ask::Add(2), Some(1), 1, 6)];
    let taken_twice = [
        call(Ask::Set(1), Some(1), 0, 1),
        call(Ask::Take, Some(1), 2, 5),
        call(Ask::Take, Some(1), 3, 6),
    ];
    let risen = [
        call(Ask::Set(1), None, 0, u64::MAX),
        call(Ask::Get, Some(1), 2, 3),
        call(Ask::Get, None, 4, 5),
    ];
    for history in [&stale[..], &back_and_forth, &lost_update, &two_adds, &taken_twice, &risen] {
        assert!(!explains(history), "{history:?}");
    }
}

/// Draws a call; `turn` makes new values unique.
fn draw(client: usize, turn: u64, shape: Shape, dice: &mut Dice) -> Ask {
    let fresh = (client as u64 + 1) << 20 | turn << 1;
    let counts = shape.counts();
    let any = (dice.below(6) + 1) << 20 | dice.below(turn + 1) << 1;
    match dice.below(16) {
        0..=4 => Ask::Get,
        5 | 6 => Ask::Set(fresh),
        7 => Ask::Add(fresh),
        8 => Ask::Replace(fresh),
        9 => Ask::Exchange(None, Some(fresh)),
        10 => Ask::Exchange(Some(any), Some(fresh)),
        11 => Ask::Delete,
        12 => Ask::Take,
        _ if counts => Ask::Increment(1),
        13 => Ask::Set(fresh),
        _ => Ask::Get,
    }
}

const KEYS: u32 = 4;

/// One history: `clients` processes, each with `calls` calls; some are killed.
fn history(shape: Shape, clients: usize, calls: usize, kills: usize, seed: u64) {
    let test_dir = TestDir::memory();
    let hold = Hold::create(test_dir.path("it.hold")).unwrap();
    hold.maps().open_or_create("it", shape.options()).unwrap();
    let notes = Notes::new(clients, calls);
    let board = Board::new(2);
    let client = |number: usize| {
        // A killed client's last call is open, so its room must not run out before the kill.
        let map = Hold::open(test_dir.path("it.hold")).unwrap().maps().open("it").unwrap();
        let mut dice = Dice::new(seed << 8 | number as u64);
        board.count(0, 1);
        until("all clients are there", || board.get(0) >= clients as u64);
        let mut turn = 0;
        let mut more = true;
        while more {
            turn += 1;
            let key = dice.below(KEYS as u64) as u32;
            more = if dice.one_in(12) {
                notes.call_many(number, &map, shape, &[0, 1, 2, 3])
            } else {
                let ask = draw(number, turn, shape, &mut dice);
                notes.call(number, &map, shape, key, ask)
            };
        }
    };
    let grower = || {
        let map = Hold::open(test_dir.path("it.hold")).unwrap().maps().open("it").unwrap();
        for id in (1000..).take_while(|_| board.get(1) == 0) {
            map.set(shape.key(id), crate::support::history::bytes(shape, 1)).unwrap();
            if id % 3 == 0 {
                map.delete(shape.key(id - 100)).unwrap();
            }
        }
    };
    let growing = Child::run("grower", grower);
    let mut running: Vec<Child> =
        (0..clients).map(|n| Child::run(format!("client {n}"), || client(n))).collect();
    let mut dice = Dice::new(seed);
    for (number, client) in running.iter().take(kills).enumerate() {
        let after = 1 + dice.below(calls as u64 * 2 / 3) as usize;
        until("the client has called often", || notes.of_len(number) >= after);
        client.signal(Signal::SIGKILL);
    }
    for (number, child) in running.iter_mut().enumerate() {
        let end = child.wait();
        let killed = number < kills && end == End::By(Signal::SIGKILL);
        assert!(end == End::Well || killed, "client {number}: {end:?}");
    }
    board.put(1, 1);
    growing.finish();
    let all: Vec<Call> = (0..clients).flat_map(|n| notes.of(n)).collect();
    must_be_explained(&all, &format!("{shape:?}, seed {seed}"));
    hold.sweep().unwrap();
    let report = hold.check().unwrap();
    assert!(report.ok && report.allocated == report.reachable, "{shape:?}, {seed}: {report:?}");
}

fn histories(shape: Shape, kills: usize) {
    let rounds = if long() { 300 } else { 15 };
    for seed in 0..rounds {
        history(shape, 2 + seed as usize % 5, 500, kills, seed);
    }
}

#[test]
fn histories_of_general_maps_are_linearizable() {
    histories(Shape::General, 0);
    histories(Shape::Short, 0);
}

#[test]
fn histories_of_fixed_maps_are_linearizable() {
    for shape in [Shape::Fixed(4, 4), Shape::Fixed(8, 8), Shape::Fixed(16, 16)] {
        histories(shape, 0);
    }
}

#[test]
fn histories_of_caches_are_linearizable() {
    histories(Shape::Cache, 0);
}

#[test]
fn histories_with_killed_clients_are_linearizable() {
    for shape in
        [Shape::General, Shape::Short, Shape::Fixed(4, 4), Shape::Fixed(8, 8), Shape::Cache]
    {
        histories(shape, 2);
    }
}

#[test]
fn two_processes_create_the_same_hold_at_once() {
    for _ in 0..if long() { 1000 } else { 100 } {
        let test_dir = TestDir::memory();
        let board = Board::new(4);
        let create = |number: usize| {
            board.count(0, 1);
            while board.get(0) < 3 {
                std::hint::spin_loop();
            }
            let path = test_dir.path("it.hold");
            if number == 2 {
                match Hold::create(path) {
                    Ok(_) => board.put(1, 1),
                    Err(e) => assert_eq!(e.kind(), ErrorKind::Exists, "{e:?}"),
                }
            } else {
                let map = Hold::open_or_create(path)
                    .unwrap()
                    .maps()
                    .open_or_create("it", MapOptions::general());
                map.unwrap().increment("opened", 1).unwrap();
            }
        };
        let children: Vec<_> =
            (0..3).map(|n| Child::run(format!("creator {n}"), || create(n))).collect();
        children.into_iter().for_each(Child::finish);
        let map = Hold::open(test_dir.path("it.hold")).unwrap().maps().open("it").unwrap();
        assert_eq!(map.increment("opened", 0).unwrap(), 2);
        let names: Vec<_> = std::fs::read_dir(test_dir.dir()).unwrap().collect();
        assert_eq!(names.len(), 1, "something was left behind: {names:?}");
    }
}

#[test]
fn processes_create_and_drop_the_same_maps_at_once() {
    let test_dir = TestDir::memory();
    let hold = Hold::create(test_dir.path("it.hold")).unwrap();
    let rounds = if long() { 3000 } else { 200 };
    let board = Board::new(1);
    let work = |number: u64| {
        let hold = Hold::open(test_dir.path("it.hold")).unwrap();
        for round in 0..rounds {
            board.count(0, 1);
            while board.get(0) < (round + 1) * 3 {
                std::hint::spin_loop();
            }
            let map =
                hold.maps().open_or_create(&format!("map {round}"), MapOptions::general()).unwrap();
            assert!(
                map.add(number.to_le_bytes(), "mine").unwrap().is_some(),
                "two maps of one name"
            );
            if number == 0 && round > 0 {
                assert!(hold.maps().drop(&format!("map {}", round - 1)).unwrap());
            }
        }
    };
    let children: Vec<_> = (0..3).map(|n| Child::run(format!("{n}"), move || work(n))).collect();
    children.into_iter().for_each(Child::finish);
    let maps = hold.maps().list().unwrap();
    assert_eq!(maps.len(), 1, "{maps:?}");
    assert_eq!(maps[0].len, 3, "all three wrote into the same map");
    let report = hold.check().unwrap();
    assert!(report.ok && report.allocated == report.reachable, "{report:?}");
}

#[test]
fn writers_and_readers_share_many_keys() {
    for shape in [Shape::General, Shape::Fixed(4, 4), Shape::Fixed(8, 8), Shape::Cache] {
        let test_dir = TestDir::memory();
        let hold = Hold::create(test_dir.path("it.hold")).unwrap();
        let map = hold.maps().open_or_create("it", shape.options()).unwrap();
        let board = Board::new(8);
        const EACH: u32 = 60_000;
        let write = |number: u32| {
            let map = Hold::open(test_dir.path("it.hold")).unwrap().maps().open("it").unwrap();
            for i in 0..EACH {
                let id = number * EACH + i;
                map.set(shape.key(id), shape.value(id, shape.fit(1))).unwrap();
                board.put(number as usize, i as u64 + 1);
            }
        };
        let read = |seed: u64| {
            let map = Hold::open(test_dir.path("it.hold")).unwrap().maps().open("it").unwrap();
            let mut dice = Dice::new(seed);
            while board.get(7) == 0 {
                let writer = dice.below(3) as u32;
                let there = board.get(writer as usize);
                let i = dice.below(there + 1000);
                let id = writer * EACH + i.min(EACH as u64 - 1) as u32;
                let got = map.get(shape.key(id)).unwrap();
                assert!(got.is_some() || i >= there, "key {id:#x} was set and is absent");
                if let Some(value) = got {
                    crate::support::script::read(shape, id, &value);
                }
            }
        };
        let writers: Vec<_> = (0..3).map(|n| Child::run("writer", move || write(n))).collect();
        let readers: Vec<_> = (0..2).map(|n| Child::run("reader", move || read(n))).collect();
        writers.into_iter().for_each(Child::finish);
        board.put(7, 1);
        readers.into_iter().for_each(Child::finish);
        assert_eq!(map.len().unwrap(), 3 * EACH as u64);
        assert_eq!(map.iter().count(), 3 * EACH as usize);
        let report = hold.check().unwrap();
        assert!(report.ok && report.allocated == report.reachable, "{shape:?}: {report:?}");
    }
}

/// Opens with "delete on last exit" and says on the board that it is there.
fn stay(test_dir: &TestDir, board: &Board) {
    let options = Hold::options().delete_on_last_exit(true);
    let hold = options.open_or_create(test_dir.path("it.hold")).unwrap();
    hold.maps()
        .open_or_create("it", MapOptions::general())
        .unwrap()
        .increment("visits", 1)
        .unwrap();
    board.count(0, 1);
    until("told to go", || board.get(1) == 1);
}

#[test]
fn a_hold_is_deleted_when_the_last_user_exits() {
    for last_is_killed in [false, true] {
        let test_dir = TestDir::memory();
        let (path, board) = (test_dir.path("it.hold"), Board::new(2));
        let first = Child::run("first", || stay(&test_dir, &board));
        until("the first is there", || board.get(0) == 1);
        let mut second = Child::run("second", || stay(&test_dir, &board));
        until("the second is there", || board.get(0) == 2);
        if last_is_killed {
            first.slay();
            let map = Hold::open(&path).unwrap().maps().open("it").unwrap();
            assert_eq!(map.increment("visits", 0).unwrap(), 2, "one user is left, and the hold");
            drop(map);
            second.signal(Signal::SIGKILL);
            second.wait();
        } else {
            board.put(1, 1);
            first.finish();
            second.finish();
        }
        until("the hold is deleted", || !path.exists());
    }
}

#[test]
fn a_hold_stays_while_anybody_uses_it() {
    let test_dir = TestDir::memory();
    let (path, board) = (test_dir.path("it.hold"), Board::new(2));
    // A process of its own: no child of another test inherits the hold from it.
    Child::run("user", || {
        let hold = Hold::options().delete_on_last_exit(true).create(&path).unwrap();
        let map = hold.maps().open_or_create("it", MapOptions::general()).unwrap();
        for round in 1..=20 {
            let child = Child::run("passer-by", || stay(&test_dir, &board));
            until("it is there", || board.get(0) == round);
            child.slay();
            assert_eq!(map.increment("visits", 0).unwrap(), round as i64);
            assert!(path.exists());
        }
    })
    .finish();
    until("the hold is deleted", || !path.exists());
}

/// Creates a hold without success: its reaper cannot be started.
fn create_without_reaper(path: &Path) {
    steps::arm_fault("reaper.clone:EAGAIN:once").unwrap();
    Hold::options().delete_on_last_exit(true).create(path).expect_err("no reaper");
}

/// A failed creation once deleted the file although another process had begun to use it.
#[test]
fn a_hold_without_a_reaper_is_deleted_only_if_nobody_uses_it() {
    let test_dir = TestDir::memory();
    let path = test_dir.path("it.hold");
    let creator = stopped("draft.committed", || create_without_reaper(&path));
    let hold = Hold::open(&path).unwrap();
    hold.maps().open_or_create("it", MapOptions::general()).unwrap().set("a", "b").unwrap();
    let inode = path.metadata().unwrap().ino();
    go_on(creator);
    assert_eq!(path.metadata().map(|found| found.ino()).ok(), Some(inode), "deleted in use");
    drop(hold);
    assert_eq!(Hold::open(&path).unwrap().maps().list().unwrap().len(), 1);
    std::fs::remove_file(&path).unwrap();
    Child::run("creator", || create_without_reaper(&path)).finish();
    assert!(!path.exists(), "a failed creation left its file");
}

/// The child has the hold from the fork on, and not only from its first writing operation on.
#[test]
fn a_hold_stays_while_a_forked_child_has_not_written_yet() {
    const FORKED: usize = 0;
    const GO: usize = 1;
    const WRITTEN: usize = 2;
    let test_dir = TestDir::memory();
    let path = test_dir.path("it.hold");
    let board: &'static Board = Box::leak(Box::new(Board::new(3)));
    Child::run("parent", || {
        let hold = Hold::options().delete_on_last_exit(true).create(&path).unwrap();
        let map = hold.maps().open_or_create("it", MapOptions::general()).unwrap();
        let child = Child::run("child", || {
            outlive_parent();
            board.put(FORKED, 1);
            until("it may go on", || board.get(GO) == 1);
            board.put(WRITTEN, if map.set("a", "b").is_ok() { 1 } else { 2 });
            until("it may end", || board.get(GO) == 2);
            // Whatever still has the handle: a closed hold is not in use.
            hold.close().unwrap();
            until("the hold is deleted", || !path.exists());
            board.put(WRITTEN, 3);
        });
        until("the child can do without its parent", || board.get(FORKED) == 1);
        std::mem::forget(child);
    })
    .finish();
    // Nothing else waits for the hold now: its reaper would have it within microseconds.
    std::thread::sleep(Duration::from_millis(100));
    assert!(path.exists(), "deleted before the child has written");
    board.put(GO, 1);
    until("the child has written", || board.get(WRITTEN) != 0);
    assert_eq!(board.get(WRITTEN), 1, "the child could not write");
    assert!(path.exists(), "deleted while the child uses it");
    board.put(GO, 2);
    until("the hold is deleted", || !path.exists());
    until("the child has closed it", || board.get(WRITTEN) == 3);
}

/// The lock that every user of a hold shares, and that a reaper has alone as it looks and deletes (docs/reference/format.md).
fn lock_alone(path: &Path) -> File {
    let file = File::options().read(true).write(true).open(path).unwrap();
    let lock = libc::flock {
        l_type: libc::F_WRLCK as i16,
        l_whence: libc::SEEK_SET as i16,
        l_start: 1 << 62,
        l_len: 1,
        l_pid: 0,
    };
    fcntl(&file, FcntlArg::F_OFD_SETLK(&lock)).unwrap();
    file
}

/// A child that was forked earlier and claims its slot then once heard that all slots were taken.
#[test]
fn a_forked_child_waits_for_the_process_that_has_the_hold_alone() {
    const FORKED: usize = 0;
    const GO: usize = 1;
    const TRIED: usize = 2;
    const ENDED: usize = 3;
    let test_dir = TestDir::memory();
    let path = test_dir.path("it.hold");
    let board: &'static Board = Box::leak(Box::new(Board::new(4)));
    Child::run("parent", || {
        let hold = Hold::create(&path).unwrap();
        let map = hold.maps().open_or_create("it", MapOptions::general()).unwrap();
        let child = Child::run("child", || {
            outlive_parent();
            board.put(FORKED, 1);
            until("it may go on", || board.get(GO) == 1);
            commonhold::steps::observe_faults(|name| {
                board.count(TRIED, u64::from(name == "os.lock"));
            });
            board.put(ENDED, if map.set("a", "b").is_ok() { 1 } else { 2 });
        });
        until("the child can do without its parent", || board.get(FORKED) == 1);
        std::mem::forget(child);
    })
    .finish();
    let alone = lock_alone(&path);
    board.put(GO, 1);
    // More often than there are slots.
    until("it has tried", || board.get(TRIED) > 200 || board.get(ENDED) != 0);
    drop(alone);
    until("it has ended", || board.get(ENDED) != 0);
    assert_eq!(board.get(ENDED), 1, "the child could not write");
}

/// A child that was kept from every slot, and then found that nobody has the hold alone any more, once
/// heard that all slots were taken.
#[test]
fn a_forked_child_tries_again_when_nobody_has_the_hold_alone_any_more() {
    const FORKED: usize = 0;
    const GO: usize = 1;
    const ASKS: usize = 2;
    const ENDED: usize = 3;
    let test_dir = TestDir::memory();
    let path = test_dir.path("it.hold");
    let board: &'static Board = Box::leak(Box::new(Board::new(4)));
    Child::run("parent", || {
        let hold = Hold::create(&path).unwrap();
        let map = hold.maps().open_or_create("it", MapOptions::general()).unwrap();
        let child = Child::run("child", || {
            outlive_parent();
            board.put(FORKED, 1);
            until("it may go on", || board.get(GO) == 1);
            // No slot is used, so the first question is whether somebody has the hold alone.
            steps::observe_faults(|name| {
                if name == "os.lock-question" && board.get(ASKS) == 0 {
                    board.put(ASKS, 1);
                    until("nobody has it alone", || board.get(GO) == 2);
                }
            });
            board.put(ENDED, if map.set("a", "b").is_ok() { 1 } else { 2 });
        });
        until("the child can do without its parent", || board.get(FORKED) == 1);
        std::mem::forget(child);
        hold.close().unwrap();
    })
    .finish();
    let alone = lock_alone(&path);
    board.put(GO, 1);
    until("it asks", || board.get(ASKS) == 1 || board.get(ENDED) != 0);
    drop(alone);
    board.put(GO, 2);
    until("it has ended", || board.get(ENDED) != 0);
    assert_eq!(board.get(ENDED), 1, "the child could not write");
}

#[test]
fn a_new_hold_is_safe_from_whoever_deletes_the_one_before_it() {
    for force in [false, true] {
        let test_dir = TestDir::memory();
        let path = test_dir.path("it.hold");
        Hold::create(&path).unwrap().close().unwrap();
        let reaper = lock_alone(&path);
        std::thread::scope(|scope| {
            let dropping = scope.spawn(|| commonhold::hold::remove(&path, force));
            std::thread::sleep(Duration::from_millis(50));
            assert!(path.exists(), "deleted behind the reaper's back");
            std::fs::remove_file(&path).unwrap();
            let next = Hold::create(&path).unwrap();
            drop(reaper);
            let kind = dropping.join().unwrap().unwrap_err().kind();
            assert_eq!(kind, if force { ErrorKind::NotFound } else { ErrorKind::Busy });
            assert!(path.exists(), "another hold was deleted");
            next.close().unwrap();
            commonhold::hold::remove(&path, force).unwrap();
        });
    }
}
