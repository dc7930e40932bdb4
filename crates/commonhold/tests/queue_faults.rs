//! What a queue does when something is wrong around it: a dead process together with a stopped one,
//! a system that refuses, a forked child that drops what it inherited, an element that is asked for
//! twice.

use crate::support::process::{Board, Child, until};
use crate::support::queues::{lens, make, sound};
use crate::support::refused;
use commonhold::channel::{Join, Policy};
use commonhold::log::LogOptions;
use commonhold::queue::QueueOptions;
use commonhold::{ErrorKind, Hold};

fn options(elements: u32) -> QueueOptions {
    QueueOptions::new(elements, 16).queues(["free", "a2b"])
}

#[test]
fn an_element_is_made_again_once() {
    let (_test_dir, hold, queue) = make(options(3));
    let (free, a2b) = (queue.named("free").unwrap(), queue.named("a2b").unwrap());
    let again = hold.queues().open("it").unwrap();
    for other in [&queue, &again] {
        let raw = free.pull().unwrap().unwrap().into_raw();
        let mut batch = other.batch();
        batch.add(other.element(raw).unwrap()).unwrap();
        for queue in [&queue, &again] {
            refused(queue.element(raw), ErrorKind::Invalid, "not in flight");
        }
        a2b.push_many(&mut batch).unwrap();
        sound(&hold);
    }
    // One that was never given away as a number is somebody's value.
    let element = free.pull().unwrap().unwrap();
    let (id, owner) = (element.id(), queue.stat().unwrap().holders[0].slot);
    let raw = element.into_raw();
    assert_eq!((raw.0, raw.1 & 1023), (id, owner));
    let element = queue.element(raw).unwrap();
    refused(queue.element(raw), ErrorKind::Invalid, "not in flight");
    a2b.push(element).unwrap();
    assert_eq!(lens(&queue), [0, 3]);
    sound(&hold);
}

#[test]
fn a_forked_child_that_drops_what_it_inherited_takes_no_part() {
    let (test_dir, hold, queue) = make(options(10));
    let channel = hold
        .channels()
        .open_or_create("channel", commonhold::channel::ChannelOptions::new(4096))
        .unwrap();
    let log =
        hold.logs().open_or_create("log", LogOptions::new().rings(2).ring_bytes(4096)).unwrap();
    let free = queue.named("free").unwrap();
    let element = free.pull().unwrap().unwrap();
    let batch = free.pull_many(3).unwrap();
    let notifier = queue.eventfd("a2b").unwrap();
    let again = hold.queues().open("it").unwrap();
    let producer = channel.producer().unwrap();
    let consumer = channel.consumer(Join::Now, Policy::Lossless).unwrap();
    let collector = log.collector().unwrap();
    let mut inherited = Some((element, batch, notifier, again, producer, consumer, collector, log));
    let board = Board::new(2);
    let child = Child::run("a child", || {
        drop(inherited.take());
        board.put(0, 1);
        until("the parent has looked", || board.get(1) == 1);
    });
    until("the child has dropped all", || board.get(0) == 1 || child.is_gone());
    let other = Hold::open(test_dir.path("it.hold")).unwrap();
    let pids: Vec<u32> = other.participants().unwrap().iter().map(|p| p.pid).collect();
    assert!(!pids.contains(&(child.pid() as u32)), "{pids:?}");
    board.put(1, 1);
    child.finish();
    assert_eq!(queue.stat().unwrap().holders[0].elements, 4);
    assert_eq!(channel.stat().unwrap().consumers.len(), 1);
    drop(inherited);
    assert_eq!(lens(&queue), [10, 0]);
    drop((queue, channel));
    drop(other);
    assert!(hold.queues().drop("it").unwrap() && hold.channels().drop("channel").unwrap());
    sound(&hold);
}

mod at_steps {
    use super::options;
    use crate::support::process::{Board, Child, End, Watchdog, until};
    use crate::support::queues::{lens, make, sound};
    use crate::support::refused;
    use crate::support::standstill::{go_on, stopped, until_asleep};
    use crate::support::test_dir::TestDir;
    use commonhold::map::MapOptions;
    use commonhold::queue::Queue;
    use commonhold::{ErrorKind, Hold, steps};
    use nix::poll::{PollFd, PollFlags, PollTimeout, poll};
    use nix::sys::signal::Signal;
    use std::os::fd::AsFd;
    use std::path::Path;
    use std::time::Duration;

    /// Longer than any of these tests may take, so that nobody waits for its end.
    const FOR_EVER: Duration = Duration::from_secs(100_000);
    const SOON: Duration = Duration::from_millis(50);

    fn is_readable(fd: &impl AsFd) -> bool {
        poll(&mut [PollFd::new(fd.as_fd(), PollFlags::POLLIN)], PollTimeout::ZERO).unwrap() > 0
    }

    /// A queue with half of its elements in "a2b"; nobody has it open.
    fn prepare(path: &Path, elements: u32) {
        Child::run("preparation", || {
            let hold = Hold::create(path).unwrap();
            let queue = hold.queues().open_or_create("it", options(elements)).unwrap();
            let half = elements as usize / 2;
            let mut batch = queue.named("free").unwrap().pull_many(half).unwrap();
            queue.named("a2b").unwrap().push_many(&mut batch).unwrap();
        })
        .finish();
    }

    /// A process that opens the queue, and does `work` with a step armed.
    fn at(step: &str, path: &Path, work: impl FnOnce(&Queue)) -> Child {
        Child::run(step.to_owned(), || {
            let hold = Hold::open(path).unwrap();
            let queue = hold.queues().open("it").unwrap();
            steps::arm(step).unwrap();
            work(&queue);
        })
    }

    /// One is dead, which had elements in flight and the head of "a2b"; another is stopped with the
    /// tail of "free", where these elements are to go.
    fn one_dead_and_one_stopped(path: &Path) -> Child {
        let mut stopped = at("push.armed:stop", path, |queue| {
            let element = queue.named("a2b").unwrap().pull().unwrap().unwrap();
            queue.named("free").unwrap().push(element).unwrap();
        });
        assert!(stopped.wait_stopped());
        let mut dead = at("pull.held:kill:2", path, |queue| {
            let a2b = queue.named("a2b").unwrap();
            let _in_flight = a2b.pull_many(2).unwrap();
            a2b.pull().unwrap();
        });
        assert_eq!(dead.wait(), End::By(Signal::SIGKILL));
        stopped
    }

    #[test]
    fn an_operation_waits_only_for_the_processes_it_needs() {
        let test_dir = TestDir::memory();
        let path = test_dir.path("it.hold");
        prepare(&path, 20);
        let mut stopped = one_dead_and_one_stopped(&path);
        Child::run("third", || {
            let hold = Hold::open(&path).unwrap();
            let queue = hold.queues().open("it").unwrap();
            let (free, a2b) = (queue.named("free").unwrap(), queue.named("a2b").unwrap());
            // The head of "a2b" is the dead one's; of what it had in flight nobody needs anything.
            let element = a2b.pull_timeout(FOR_EVER).unwrap().expect("it is there");
            element.write(0, b"taken").unwrap();
            let notifier = queue.eventfd("a2b").unwrap();
            until("the notifier signals", || is_readable(&notifier));
            // It goes where the stopped one keeps the lock.
            drop(element);
            assert_eq!(queue.stat().unwrap().holders.len(), 3);
            let mut all = free.pull_many(100).unwrap();
            assert_eq!((all.len(), a2b.len().unwrap()), (10, 6));
            a2b.push_many(&mut all).unwrap();
            assert!(free.pull_timeout(SOON).unwrap().is_none());
            let waits = queue.eventfd("free").unwrap();
            drop((all, notifier, waits));
            drop(queue);
            hold.close().unwrap();
        })
        .finish();
        stopped.signal(Signal::SIGCONT);
        assert_eq!(stopped.wait(), End::Well);
        let hold = Hold::open(&path).unwrap();
        hold.sweep().unwrap();
        let queue = hold.queues().open("it").unwrap();
        assert_eq!(lens(&queue), [4, 16]);
        sound(&hold);
    }

    #[test]
    fn a_wait_for_a_stopped_process_ends_with_its_timeout() {
        let test_dir = TestDir::memory();
        let path = test_dir.path("it.hold");
        prepare(&path, 20);
        let stopped = one_dead_and_one_stopped(&path);
        let mut at_head = at("pull.armed:stop", &path, |queue| {
            drop(queue.named("free").unwrap().pull().unwrap());
        });
        assert!(at_head.wait_stopped());
        Child::run("patient", || {
            let hold = Hold::open(&path).unwrap();
            let queue = hold.queues().open("it").unwrap();
            let free = queue.named("free").unwrap();
            // The time of the call, although the hold has no timeout of its own.
            refused(free.pull_timeout(SOON), ErrorKind::TimedOut, "stopped");
            let pulled = free.pull_into_timeout(&mut queue.batch(), 3, SOON);
            refused(pulled, ErrorKind::TimedOut, "stopped");
        })
        .finish();
        Child::run("brief", || {
            let hold = Hold::options().lock_timeout(SOON).open(&path).unwrap();
            let queue = hold.queues().open("it").unwrap();
            let free = queue.named("free").unwrap();
            let element = queue.named("a2b").unwrap().pull().unwrap().unwrap();
            let (element, error) = free.try_push(element).unwrap_err();
            assert_eq!(error.kind(), ErrorKind::TimedOut, "{error}");
            queue.named("a2b").unwrap().push(element).unwrap();
            refused(free.pull(), ErrorKind::TimedOut, "stopped");
            refused(free.pull_timeout(FOR_EVER), ErrorKind::TimedOut, "stopped");
            refused(hold.sweep(), ErrorKind::TimedOut, "");
        })
        .finish();
        for mut child in [at_head, stopped] {
            child.signal(Signal::SIGCONT);
            assert_eq!(child.wait(), End::Well);
        }
        let hold = Hold::open(&path).unwrap();
        hold.sweep().unwrap();
        assert_eq!(lens(&hold.queues().open("it").unwrap()).iter().sum::<u64>(), 20);
        sound(&hold);
    }

    #[test]
    fn elements_that_could_not_go_to_the_orphans_go_there_later() {
        let test_dir = TestDir::memory();
        let path = test_dir.path("it.hold");
        prepare(&path, 20);
        let mut stopped = at("push.armed:stop", &path, |queue| {
            let element = queue.named("a2b").unwrap().pull().unwrap().unwrap();
            queue.named("free").unwrap().push(element).unwrap();
        });
        assert!(stopped.wait_stopped());
        let board = Board::new(1);
        let third = Child::run("third", || {
            let hold = Hold::open(&path).unwrap();
            let queue = hold.queues().open("it").unwrap();
            let (free, a2b) = (queue.named("free").unwrap(), queue.named("a2b").unwrap());
            drop((a2b.pull().unwrap(), a2b.pull_many(3).unwrap()));
            assert_eq!((a2b.len().unwrap(), free.len().unwrap()), (5, 10));
            board.put(0, 1);
            until("the stopped one goes on", || free.len().unwrap() == 11);
            // A pull that finds nothing, a wait, another drop: each brings them back.
            let all = free.pull_many(100).unwrap();
            assert_eq!(all.len(), 11);
            let back = free.pull_many(100).unwrap();
            assert_eq!(back.len(), 4);
            drop((all, back));
            assert_eq!(lens(&queue), [15, 5]);
        });
        until("it has dropped them", || board.get(0) == 1 || third.is_gone());
        stopped.signal(Signal::SIGCONT);
        assert_eq!(stopped.wait(), End::Well);
        third.finish();
        sound(&Hold::open(&path).unwrap());
    }

    #[test]
    fn threads_that_wait_for_one_end_leave_the_lanes_to_others() {
        let test_dir = TestDir::memory();
        let path = test_dir.path("it.hold");
        prepare(&path, 4);
        let stopped = stopped("pull.armed", || {
            let queue = Hold::open(&path).unwrap().queues().open("it").unwrap();
            drop(queue.named("free").unwrap().pull().unwrap());
        });
        let asleep = Board::new(1);
        let crowd = Child::run("a crowd", || {
            let hold = Hold::open(&path).unwrap();
            let (queue, map) = (
                hold.queues().open("it").unwrap(),
                hold.maps().open_or_create("map", MapOptions::general()),
            );
            std::thread::scope(|scope| {
                for _ in 0..20 {
                    let wait = || drop(queue.named("free").unwrap().pull().unwrap());
                    let named = std::thread::Builder::new().name("waits".into());
                    named.spawn_scoped(scope, wait).unwrap();
                }
                until_asleep(std::process::id() as i32, "waits", 20);
                map.unwrap().set("key", "value").unwrap();
                assert!(queue.named("a2b").unwrap().pull().unwrap().is_some());
                asleep.put(0, 1);
            });
        });
        until("others are done", || asleep.get(0) == 1 || crowd.is_gone());
        assert_eq!(asleep.get(0), 1);
        go_on(stopped);
        crowd.finish();
        sound(&Hold::open(&path).unwrap());
    }

    #[test]
    fn an_error_of_tidying_keeps_nobody_from_what_is_there() {
        let test_dir = TestDir::memory();
        let path = test_dir.path("it.hold");
        prepare(&path, 8);
        let (board, dead) = (Board::new(1), Board::new(1));
        let waiter = Child::run("waiter", || {
            let _watchdog = Watchdog::new("a wait with errors", Duration::from_secs(50));
            let hold = Hold::open(&path).unwrap();
            let queue = hold.queues().open("it").unwrap();
            let (free, a2b) = (queue.named("free").unwrap(), queue.named("a2b").unwrap());
            let mut all = free.pull_many(4).unwrap();
            let notifier = queue.eventfd("free").unwrap();
            steps::arm_fault("recover.begin:EMFILE:always").unwrap();
            board.put(0, 1);
            until("the other has died", || dead.get(0) == 1);
            let refused = |error: commonhold::Error| error.kind() == ErrorKind::Io;
            until("the notifier meets the error", || notifier.error().is_some_and(refused));
            assert!(free.pull_timeout(SOON).unwrap().is_none() && !is_readable(&notifier));
            // What is pushed meanwhile is found by both.
            a2b.push(all.pop().unwrap()).unwrap();
            assert!(a2b.pull_timeout(FOR_EVER).unwrap().is_some());
            free.push(all.pop().unwrap()).unwrap();
            until("the notifier signals", || is_readable(&notifier));
            notifier.clear();
            assert!(free.pull_timeout(FOR_EVER).unwrap().is_some());
            while free.pull().unwrap().is_some_and(|element| all.add(element).is_ok()) {}
            notifier.clear();
            // Once the error has gone, what the dead one had in flight comes.
            steps::arm_fault("").unwrap();
            until("the notifier signals again", || is_readable(&notifier));
            until("the error has gone", || notifier.error().is_none());
            assert!(free.pull_timeout(FOR_EVER).unwrap().is_some());
        });
        until("it waits", || board.get(0) == 1 || waiter.is_gone());
        let mut other = at("queue.unlocked:kill", &path, |queue| {
            queue.named("a2b").unwrap().pull_many(4).unwrap();
        });
        assert_eq!(other.wait(), End::By(Signal::SIGKILL));
        dead.put(0, 1);
        waiter.finish();
        let hold = Hold::open(&path).unwrap();
        assert_eq!(lens(&hold.queues().open("it").unwrap()).iter().sum::<u64>(), 8);
        sound(&hold);
    }

    #[test]
    fn an_error_of_a_notifier_ends_with_the_next_signal() {
        let test_dir = TestDir::memory();
        let path = test_dir.path("it.hold");
        prepare(&path, 8);
        let (board, dead) = (Board::new(1), Board::new(1));
        let busy = Child::run("busy", || {
            let hold = Hold::open(&path).unwrap();
            let queue = hold.queues().open("it").unwrap();
            let free = queue.named("free").unwrap();
            let mut all = free.pull_many(4).unwrap();
            let notifier = queue.eventfd("free").unwrap();
            steps::arm_fault("recover.begin:EMFILE:always").unwrap();
            board.put(0, 1);
            until("the other has died", || dead.get(0) == 1);
            until("the notifier meets the error", || notifier.error().is_some());
            until("the notifier has signalled", || {
                free.push(all.pop().unwrap()).unwrap();
                let is_over = notifier.error().is_none();
                notifier.clear();
                all.add(free.pull().unwrap().unwrap()).unwrap();
                is_over
            });
        });
        until("it waits", || board.get(0) == 1 || busy.is_gone());
        let mut other = at("queue.unlocked:kill", &path, |queue| {
            queue.named("a2b").unwrap().pull_many(4).unwrap();
        });
        assert_eq!(other.wait(), End::By(Signal::SIGKILL));
        dead.put(0, 1);
        busy.finish();
    }

    #[test]
    fn a_notifier_reports_its_end() {
        let (_test_dir, hold, queue) = make(options(4));
        let notifier = queue.eventfd("a2b").unwrap();
        assert!(notifier.error().is_none());
        assert!(hold.queues().drop("it").unwrap());
        until("the notifier signals", || is_readable(&notifier));
        assert_eq!(notifier.error().unwrap().kind(), ErrorKind::NotFound);
    }
}
