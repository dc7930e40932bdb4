//! What queues answer: moves, batches, elements in flight, waiting, dropping, forks, several handles.

use crate::support::process::{Board, Child, Watchdog, until};
use crate::support::queues::{lens, make, sound};
use crate::support::refused;
use crate::support::test_dir::TestDir;
use crate::support::{Dice, mix};
use commonhold::hold::StructureKind;
use commonhold::map::MapOptions;
use commonhold::queue::{Queue, QueueOptions};
use commonhold::{ErrorKind, Hold};
use nix::poll::{PollFd, PollFlags, PollTimeout, poll};
use nix::sys::signal::Signal;
use std::os::fd::AsFd;
use std::time::Duration;

const LONG: Duration = Duration::from_secs(50);

fn options(elements: u32) -> QueueOptions {
    QueueOptions::new(elements, 16).queues(["free", "a2b", "b2a"])
}

#[test]
fn an_element_in_flight_is_found_by_number_and_owner() {
    let (_test_dir, _hold, queue) = make(options(3));
    let [free, a2b] = ["free", "a2b"].map(|name| queue.named(name).unwrap());
    let raw = free.pull().unwrap().unwrap().into_raw();
    assert_eq!(lens(&queue), [2, 0, 0]);
    let element = queue.element(raw).unwrap();
    element.write(0, b"mine").unwrap();
    a2b.push(element).unwrap();
    for wrong in [raw, (raw.0, 0), (99, raw.1), (raw.0, raw.1 + 1)] {
        refused(queue.element(wrong), ErrorKind::Invalid, "not in flight");
    }
    assert_eq!(lens(&queue), [2, 1, 0]);
}

#[test]
fn elements_move_in_order() {
    let (_test_dir, hold, queue) = make(options(5));
    let [free, a2b] = ["free", "a2b"].map(|name| queue.named(name).unwrap());
    assert_eq!(lens(&queue), [5, 0, 0]);
    assert!(a2b.pull().unwrap().is_none());
    // Round and round, past the ends of the rings.
    for round in 0..100u64 {
        for n in 0..5u64 {
            let element = free.pull().unwrap().unwrap();
            element.write(0, &(round * 5 + n).to_le_bytes()).unwrap();
            a2b.push(element).unwrap();
        }
        assert!(free.pull().unwrap().is_none());
        assert_eq!(lens(&queue), [0, 5, 0]);
        for n in 0..5u64 {
            let element = a2b.pull().unwrap().unwrap();
            let mut number = [0; 8];
            element.read(0, &mut number).unwrap();
            assert_eq!(u64::from_le_bytes(number), round * 5 + n);
            free.push(element).unwrap();
        }
    }
    let stat = queue.stat().unwrap();
    assert_eq!((stat.elements, stat.element_bytes, &*stat.orphans), (5, 16, "free"));
    let a2b = &stat.queues[1];
    assert_eq!((&*a2b.name, a2b.len, a2b.pushed, a2b.pulled), ("a2b", 0, 500, 500));
    assert!(stat.holders.is_empty());
    sound(&hold);
}

#[test]
fn batches_move_at_once() {
    let (_test_dir, hold, queue) = make(options(100));
    let [free, a2b, b2a] = ["free", "a2b", "b2a"].map(|name| queue.named(name).unwrap());
    let mut batch = free.pull_many(30).unwrap();
    assert_eq!((batch.len(), free.pull_into(&mut batch, 30).unwrap()), (30, 30));
    assert_eq!(free.pull_into(&mut batch, 1000).unwrap(), 40);
    assert_eq!(free.pull_into(&mut batch, 1000).unwrap(), 0);
    for (n, element) in (0u64..).zip(batch.iter()) {
        element.write(8, &n.to_le_bytes()).unwrap();
    }
    a2b.push_many(&mut batch).unwrap();
    a2b.push_many(&mut batch).unwrap();
    assert!(batch.is_empty());
    assert_eq!(lens(&queue), [0, 100, 0]);
    let mut seen = Vec::new();
    while a2b.pull_into(&mut batch, 7).unwrap() > 0 {
        seen.extend(batch.iter().map(|element| element.to_vec().unwrap()[8]));
        b2a.push_many(&mut batch).unwrap();
    }
    assert_eq!(seen, (0..100).collect::<Vec<u8>>());
    // One by one out of a batch and into another.
    let mut other = queue.batch();
    b2a.pull_into(&mut batch, 100).unwrap();
    while let Some(element) = batch.pop() {
        other.add(element).unwrap();
    }
    assert_eq!((batch.len(), other.len()), (0, 100));
    assert_eq!(queue.stat().unwrap().holders[0].elements, 100);
    drop(other);
    assert_eq!(lens(&queue), [100, 0, 0]);
    sound(&hold);
}

#[test]
fn push_and_pull_is_one_operation() {
    let (_test_dir, hold, queue) = make(options(3));
    let [free, a2b] = ["free", "a2b"].map(|name| queue.named(name).unwrap());
    let first = free.pull().unwrap().unwrap();
    let id = first.id();
    let second = a2b.push_pull(first, free).unwrap().unwrap();
    assert_ne!(second.id(), id);
    assert_eq!(lens(&queue), [1, 1, 0]);
    assert_eq!(a2b.push_pull(second, a2b).unwrap().unwrap().id(), id);
    // It was dropped: the orphans are the first queue.
    assert_eq!(lens(&queue), [2, 1, 0]);
    sound(&hold);
}

#[test]
fn elements_are_what_they_were_asked_to_be() {
    let test_dir = TestDir::memory();
    let hold = Hold::create(test_dir.path("it.hold")).unwrap();
    for bytes in [1, 7, 8, 63, 64, 65, 1000, 70_000] {
        let queue = hold
            .queues()
            .open_or_create(&format!("of {bytes}"), QueueOptions::new(9, bytes))
            .unwrap();
        let mut batch = queue.named("free").unwrap().pull_many(9).unwrap();
        for (n, element) in (1u8..).zip(batch.iter()) {
            assert_eq!(element.len(), bytes as usize);
            let align = if bytes >= 64 { 64 } else { 8 };
            assert_eq!(element.as_ptr() as usize % align, 0, "{bytes} bytes");
            element.write(0, &vec![n; bytes as usize]).unwrap();
            element.write(bytes as usize, &[]).unwrap();
            refused(element.write(bytes as usize, &[1]), ErrorKind::Invalid, "exceed that");
            refused(element.read(usize::MAX, &mut [0]), ErrorKind::Invalid, "exceed that");
        }
        for (n, element) in (1u8..).zip(batch.iter()) {
            assert_eq!(element.to_vec().unwrap(), vec![n; bytes as usize]);
        }
        queue.named("free").unwrap().push_many(&mut batch).unwrap();
    }
    sound(&hold);
}

#[test]
fn impossible_requests_are_refused() {
    let (_test_dir, hold, queue) = make(options(3));
    let no = |options: QueueOptions, says: &str| {
        refused(hold.queues().open_or_create("new", options), ErrorKind::Invalid, says);
    };
    no(QueueOptions::new(0, 8), "elements");
    no(QueueOptions::new(8, 0), "elements");
    no(QueueOptions::new(8, 8).queues([""; 1]), "63 bytes");
    no(QueueOptions::new(8, 8).queues(["x".repeat(64)]), "63 bytes");
    no(QueueOptions::new(8, 8).queues(["a\0b"]), "NUL");
    no(QueueOptions::new(8, 8).queues(["a", "b", "a"]), "same name");
    no(QueueOptions::new(8, 8).queues([""; 0]), "1 to 64");
    no(QueueOptions::new(8, 8).queues((0..65).map(|n| n.to_string())), "1 to 64");
    no(QueueOptions::new(8, 8).orphans("elsewhere"), "orphan queue");
    let most = QueueOptions::new(8, 8).queues((0..64).map(|n| format!("{n:063}")));
    drop(hold.queues().open_or_create("most", most.clone()).unwrap());
    assert_eq!(hold.queues().open("most").unwrap().options(), most);
    refused(hold.queues().open_or_create("", options(3)), ErrorKind::Invalid, "200 bytes");
    refused(hold.queues().open_or_create("it", options(4)), ErrorKind::Mismatch, "exists as");
    refused(
        hold.maps().open_or_create("it", MapOptions::general()),
        ErrorKind::Mismatch,
        "is a queue",
    );
    refused(hold.queues().open("none"), ErrorKind::NotFound, "none");
    refused(queue.named("none"), ErrorKind::NotFound, "a2b");
    refused(
        hold.queues().open_or_create("huge", QueueOptions::new(1 << 31, 1 << 31)),
        ErrorKind::Full,
        "room",
    );
    let read_only = Hold::options().read_only(true).open(hold.path()).unwrap();
    refused(read_only.queues().open("it"), ErrorKind::ReadOnly, "read-only");
    let kinds: Vec<_> = hold.structures().unwrap().into_iter().map(|o| (o.name, o.kind)).collect();
    let queue = StructureKind::Queue;
    assert_eq!(kinds, [("it".to_owned(), queue), ("most".to_owned(), queue)]);
    sound(&hold);
}

#[test]
fn readers_get_statistics_too() {
    let (test_dir, hold, queue) = make(options(5));
    let [free, a2b] = ["free", "a2b"].map(|name| queue.named(name).unwrap());
    a2b.push(free.pull().unwrap().unwrap()).unwrap();
    let in_flight = free.pull().unwrap().unwrap();
    hold.maps().open_or_create("a map", MapOptions::general()).unwrap();
    let reader = Hold::options().read_only(true).open(test_dir.path("it.hold")).unwrap();
    let stat = reader.queues().stat("it").unwrap();
    assert_eq!((stat.elements, stat.element_bytes), (5, 16));
    let lens: Vec<(&str, u64)> = stat.queues.iter().map(|q| (&q.name[..], q.len)).collect();
    assert_eq!(lens, [("free", 3), ("a2b", 1), ("b2a", 0)]);
    let pid = std::process::id();
    assert!(
        matches!(&stat.holders[..], [h] if h.pid == pid && h.alive && h.elements == 1),
        "{stat:?}"
    );
    refused(reader.queues().stat("none"), ErrorKind::NotFound, "none");
    refused(reader.queues().stat("a map"), ErrorKind::Mismatch, "a map");
    drop(in_flight);
}

#[test]
fn an_element_goes_only_where_it_belongs() {
    let (_test_dir, hold, queue) = make(options(3));
    let other = hold.queues().open_or_create("other", options(3)).unwrap();
    let again = hold.queues().open("it").unwrap();
    let free = queue.named("free").unwrap();
    let foreign = other.named("free").unwrap();
    refused(foreign.push(free.pull().unwrap().unwrap()), ErrorKind::Invalid, "another queue");
    let mut batch = free.pull_many(2).unwrap();
    refused(foreign.push_many(&mut batch), ErrorKind::Invalid, "another queue");
    refused(foreign.pull_into(&mut batch, 1), ErrorKind::Invalid, "another queue");
    refused(batch.add(foreign.pull().unwrap().unwrap()), ErrorKind::Invalid, "same queue");
    assert_eq!(batch.len(), 2);
    // The same queue, opened twice.
    again.named("a2b").unwrap().push_many(&mut batch).unwrap();
    assert_eq!((lens(&queue), lens(&other)), (vec![1, 2, 0], vec![3, 0, 0]));
    sound(&hold);
}

#[test]
fn a_dropped_queue_is_gone_for_its_handles() {
    let (_test_dir, hold, queue) = make(options(3));
    let free = queue.named("free").unwrap();
    let element = free.pull().unwrap().unwrap();
    refused(hold.queues().drop("it"), ErrorKind::Busy, "in flight");
    free.push(element).unwrap();
    let other = Hold::open(hold.path()).unwrap();
    let theirs = other.queues().open("it").unwrap();
    let pid = std::process::id().to_string();
    refused(hold.queues().drop("it"), ErrorKind::Busy, &pid);
    drop(theirs);
    assert!(hold.queues().drop("it").unwrap());
    assert!(!hold.queues().drop("it").unwrap());
    refused(free.pull(), ErrorKind::NotFound, "dropped");
    refused(free.pull_timeout(LONG), ErrorKind::NotFound, "dropped");
    refused(queue.stat(), ErrorKind::NotFound, "dropped");
    let again = hold.queues().open_or_create("it", options(3)).unwrap();
    refused(free.len(), ErrorKind::NotFound, "dropped");
    assert_eq!(lens(&again), [3, 0, 0]);
    sound(&hold);
}

#[test]
fn closing_the_hold_gives_back_what_is_in_flight() {
    let (_test_dir, hold, queue) = make(options(10));
    let other = Hold::open(hold.path()).unwrap();
    let theirs = other.queues().open("it").unwrap();
    let free = queue.named("free").unwrap();
    let element = free.pull().unwrap().unwrap();
    // Leaked, and its handle dropped: still accounted for.
    let again = hold.queues().open("it").unwrap();
    std::mem::forget(again.named("free").unwrap().pull().unwrap());
    drop(again);
    assert_eq!(theirs.stat().unwrap().holders[0].elements, 2);
    hold.close().unwrap();
    refused(element.write(0, &[1]), ErrorKind::Closed, "closed");
    drop(element);
    assert_eq!(lens(&theirs), [10, 0, 0]);
    sound(&other);
}

#[test]
fn a_waiter_is_woken() {
    let (_test_dir, hold, queue) = make(options(4));
    let (free, a2b) = (queue.named("free").unwrap(), queue.named("a2b").unwrap());
    assert!(a2b.pull_timeout(Duration::from_millis(30)).unwrap().is_none());
    assert_eq!(a2b.pull_into_timeout(&mut queue.batch(), 9, Duration::ZERO).unwrap(), 0);
    let path = hold.path().to_owned();
    let sum = Board::new(1);
    let waiter = Child::run("a waiter", || {
        let hold = Hold::open(&path).unwrap();
        let queue = hold.queues().open("it").unwrap();
        let (a2b, b2a) = (queue.named("a2b").unwrap(), queue.named("b2a").unwrap());
        for _ in 0..1000 {
            let element = a2b.pull_timeout(LONG).unwrap().expect("an element");
            sum.count(0, element.to_vec().unwrap()[0].into());
            b2a.push(element).unwrap();
        }
    });
    let _dog = Watchdog::new("a_waiter_is_woken", LONG * 2);
    let b2a = queue.named("b2a").unwrap();
    let mut element = free.pull().unwrap().unwrap();
    for n in 0..1000u64 {
        element.write(0, &[n as u8]).unwrap();
        a2b.push(element).unwrap();
        element = b2a.pull_timeout(LONG).unwrap().expect("it comes back");
    }
    waiter.finish();
    assert_eq!(sum.get(0), (0..1000u64).map(|n| n & 255).sum::<u64>());
    drop(element);
    sound(&hold);
}

#[test]
fn a_waiter_gets_elements_that_the_dead_had_in_flight() {
    let (_test_dir, hold, queue) = make(options(4));
    let (path, ready) = (hold.path().to_owned(), Board::new(1));
    let holder = Child::run("a holder", || {
        let hold = Hold::open(&path).unwrap();
        let queue = hold.queues().open("it").unwrap();
        let _all = queue.named("free").unwrap().pull_many(4).unwrap();
        ready.put(0, 1);
        std::thread::sleep(LONG);
    });
    until("it has them", || ready.get(0) == 1);
    let free = queue.named("free").unwrap();
    assert!(free.pull_timeout(Duration::from_millis(300)).unwrap().is_none());
    let holders = queue.stat().unwrap().holders;
    assert_eq!((holders[0].pid as i32, holders[0].elements), (holder.pid(), 4));
    holder.slay();
    let mut batch = queue.batch();
    assert_eq!(free.pull_into_timeout(&mut batch, 9, LONG).unwrap(), 4);
    drop(batch);
    sound(&hold);
}

fn is_readable(fd: &impl AsFd, wait_ms: u16) -> bool {
    let mut fds = [PollFd::new(fd.as_fd(), PollFlags::POLLIN)];
    poll(&mut fds, PollTimeout::from(wait_ms)).unwrap() > 0
}

#[test]
fn a_notifier_signals_what_is_pushed() {
    let (_test_dir, hold, queue) = make(options(8));
    let (free, a2b) = (queue.named("free").unwrap(), queue.named("a2b").unwrap());
    let (full, notifier) = (queue.eventfd("free").unwrap(), queue.eventfd("a2b").unwrap());
    assert!(is_readable(&full, 50_000), "there are elements from the beginning");
    assert!(!is_readable(&notifier, 30));
    for _ in 0..20 {
        a2b.push(free.pull().unwrap().unwrap()).unwrap();
        assert!(is_readable(&notifier, 50_000));
        notifier.clear();
        assert!(!is_readable(&notifier, 0));
        let mut all = a2b.pull_many(100).unwrap();
        assert!(!all.is_empty());
        free.push_many(&mut all).unwrap();
    }
    refused(queue.eventfd("none"), ErrorKind::NotFound, "none");
    drop((notifier, full));
    // No thread stands behind it any more.
    assert!(hold.queues().drop("it").unwrap());
}

#[test]
fn a_forked_child_does_not_take_the_signal_of_its_parents_notifier() {
    let (_test_dir, _hold, queue) = make(options(8));
    let notifier = queue.eventfd("free").unwrap();
    assert!(is_readable(&notifier, 50_000));
    Child::run("a child", || notifier.clear()).finish();
    assert!(is_readable(&notifier, 0));
}

#[test]
fn a_forked_child_tracks_its_own_elements_in_flight() {
    let (_test_dir, hold, queue) = make(options(10));
    let free = queue.named("free").unwrap();
    // Taken by the child out of its own copy.
    let mut mine = free.pull().unwrap();
    let mut batch = Some(free.pull_many(3).unwrap());
    let (path, board) = (hold.path().to_owned(), Board::new(2));
    let mut notifier = queue.eventfd("a2b").ok();
    let child = Child::run("a child", || {
        let a2b = queue.named("a2b").unwrap();
        refused(mine.as_ref().unwrap().write(0, &[1]), ErrorKind::Invalid, "forked");
        refused(a2b.push_many(batch.as_mut().unwrap()), ErrorKind::Invalid, "forked");
        let own = free.pull().unwrap().unwrap();
        own.write(0, &[7]).unwrap();
        // The parent's stay the parent's.
        drop((mine.take(), batch.take(), notifier.take()));
        assert_eq!(lens(&queue), [5, 0, 0]);
        board.put(0, 1);
        until("the parent has looked", || board.get(1) == 1);
        a2b.push(own).unwrap();
    });
    until("the child has begun", || board.get(0) == 1 || child.is_gone());
    let other = Hold::open(&path).unwrap();
    let holders = other.queues().open("it").unwrap().stat().unwrap().holders;
    let counts: Vec<_> = holders.iter().map(|h| (h.pid as i32, h.elements)).collect();
    assert_eq!(counts, [(std::process::id() as i32, 4), (child.pid(), 1)]);
    board.put(1, 1);
    child.finish();
    mine.as_ref().unwrap().write(0, &[1]).unwrap();
    drop((mine, batch, notifier));
    assert_eq!(lens(&queue), [9, 1, 0]);
    sound(&hold);
}

/// Each element carries what its content must be; 0 says that it is being written, perhaps by one that was killed.
fn seal(element: &commonhold::queue::Bytes<'_>, number: u64) {
    element.write(0, &[0; 8]).unwrap();
    element.write(8, &mix(number).to_le_bytes()).unwrap();
    element.write(0, &number.to_le_bytes()).unwrap();
}

#[track_caller]
fn is_sealed(element: &commonhold::queue::Bytes<'_>) {
    let bytes = element.to_vec().unwrap();
    let word = |at: usize| u64::from_le_bytes(bytes[at..at + 8].try_into().unwrap());
    assert!(word(8) == mix(word(0)) || word(0) == 0, "torn: {bytes:?}");
}

fn wander(queue: &Queue, seed: u64, rounds: u64) {
    let names = ["free", "a2b", "b2a"];
    let mut dice = Dice::new(seed);
    for _ in 0..rounds {
        let [from, to] = [0, 0].map(|_| queue.named(names[dice.below(3) as usize]).unwrap());
        match dice.below(4) {
            0 => {
                let Some(element) = from.pull().unwrap() else { continue };
                is_sealed(&element);
                seal(&element, dice.roll() | 1);
                to.push(element).unwrap();
            }
            1 => {
                let Some(element) = from.pull().unwrap() else { continue };
                let Some(other) = to.push_pull(element, from).unwrap() else { continue };
                seal(&other, dice.roll() | 1);
                from.push(other).unwrap();
            }
            2 => drop(from.pull().unwrap().inspect(|element| is_sealed(element))),
            _ => {
                let mut batch = from.pull_many(1 + dice.below(20) as usize).unwrap();
                for element in batch.iter() {
                    is_sealed(&element);
                    seal(&element, dice.roll() | 1);
                }
                to.push_many(&mut batch).unwrap();
            }
        }
    }
}

#[test]
fn many_processes_and_threads_lose_nothing() {
    let (_test_dir, hold, queue) = make(options(50));
    let path = hold.path().to_owned();
    let workers: Vec<Child> = (0..3u64)
        .map(|n| {
            Child::run(format!("worker {n}"), || {
                let hold = Hold::open(&path).unwrap();
                let queue = hold.queues().open("it").unwrap();
                let worker = std::thread::scope(|scope| {
                    let other = scope.spawn(|| wander(&queue, n * 2, 3000));
                    wander(&queue, n * 2 + 1, 3000);
                    other.join()
                });
                worker.unwrap();
            })
        })
        .collect();
    wander(&queue, 100, 3000);
    workers.into_iter().for_each(Child::finish);
    assert_eq!(lens(&queue).iter().sum::<u64>(), 50);
    assert!(queue.stat().unwrap().holders.is_empty());
    sound(&hold);
}

#[test]
fn killed_at_random_instants_nothing_is_lost() {
    let (_test_dir, hold, queue) = make(options(60));
    let path = hold.path().to_owned();
    let board = Board::new(2);
    let companion = Child::run("companion", || {
        let hold = Hold::open(&path).unwrap();
        let queue = hold.queues().open("it").unwrap();
        let mut round = 0;
        while board.get(0) == 0 {
            round += 1;
            wander(&queue, 1_000_000 + round, 20);
            board.put(1, round);
        }
    });
    let mut dice = Dice::new(11);
    let rounds = if crate::support::long() { 3000 } else { 120 };
    for round in 0..rounds {
        let before = board.get(1);
        let victims: Vec<Child> = (0..2)
            .map(|n| {
                Child::run(format!("victim {n} of round {round}"), || {
                    let hold = Hold::open(&path).unwrap();
                    let queue = hold.queues().open("it").unwrap();
                    wander(&queue, round * 2 + n, u64::MAX);
                })
            })
            .collect();
        let patience = dice.below(3000);
        for _ in 0..patience {
            std::hint::spin_loop();
        }
        std::thread::sleep(Duration::from_micros(500 + dice.below(4000)));
        for victim in victims {
            victim.slay();
        }
        until("the companion goes on", || board.get(1) > before || companion.is_gone());
        if round % 10 == 0 {
            hold.sweep().unwrap();
            sound(&hold);
        }
    }
    board.put(0, 1);
    companion.finish();
    hold.sweep().unwrap();
    assert_eq!(lens(&queue).iter().sum::<u64>(), 60);
    assert!(queue.stat().unwrap().holders.is_empty());
    sound(&hold);
}

#[test]
fn a_stopped_process_is_waited_for_and_loses_nothing() {
    let (_test_dir, hold, queue) = make(options(30));
    let path = hold.path().to_owned();
    let board = Board::new(1);
    let mut workers: Vec<Child> = (0..3)
        .map(|n| {
            Child::run(format!("worker {n}"), || {
                let hold = Hold::open(&path).unwrap();
                let queue = hold.queues().open("it").unwrap();
                let mut round = n * 1000;
                while board.get(0) == 0 {
                    round += 1;
                    wander(&queue, round, 10);
                }
            })
        })
        .collect();
    let mut dice = Dice::new(5);
    for _ in 0..40 {
        let worker = &mut workers[dice.below(3) as usize];
        worker.signal(Signal::SIGSTOP);
        assert!(worker.wait_stopped());
        std::thread::sleep(Duration::from_millis(dice.below(4)));
        worker.signal(Signal::SIGCONT);
    }
    board.put(0, 1);
    workers.into_iter().for_each(Child::finish);
    assert_eq!(lens(&queue).iter().sum::<u64>(), 30);
    sound(&hold);
}
