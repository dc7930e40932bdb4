//! What a queue does when something is wrong around it: a dead process together with a stopped one,
//! a system that refuses, a forked child that drops what it inherited, an element that is asked for
//! twice.

use crate::support::ground::Ground;
use crate::support::process::{Board, Child, until};
use crate::support::refused;
use commonhold::{ErrorKind, Hold, Join, LogOptions, Policy, Queue, QueueOptions};

fn options(elements: u32) -> QueueOptions {
    QueueOptions::new(elements, 16).queues(["free", "a2b"])
}

fn make(elements: u32) -> (Ground, Hold, Queue) {
    let ground = Ground::memory();
    let hold = Hold::create(ground.path("it.hold")).unwrap();
    let queue = hold.queue("it", options(elements)).unwrap();
    (ground, hold, queue)
}

fn lens(queue: &Queue) -> Vec<u64> {
    queue.all().map(|named| named.len().unwrap()).collect()
}

#[track_caller]
fn whole(hold: &Hold) {
    let report = hold.check().unwrap();
    assert!(report.ok, "{:?}", report.problems);
    assert_eq!(report.allocated, report.reachable);
}

#[test]
fn an_element_is_made_again_once() {
    let (_ground, hold, queue) = make(3);
    let (free, a2b) = (queue.named("free").unwrap(), queue.named("a2b").unwrap());
    let again = hold.open_queue("it").unwrap();
    for other in [&queue, &again] {
        let raw = free.pull().unwrap().unwrap().into_raw();
        let mut batch = other.batch();
        batch.add(other.element(raw).unwrap()).unwrap();
        for queue in [&queue, &again] {
            refused(queue.element(raw), ErrorKind::Invalid, "not in the hand");
        }
        a2b.push_many(&mut batch).unwrap();
        whole(&hold);
    }
    // One that was never given away as a number is somebody's value.
    let element = free.pull().unwrap().unwrap();
    let (id, owner) = (element.id(), queue.stat().unwrap().holders[0].slot);
    let raw = element.into_raw();
    assert_eq!((raw.0, raw.1 & 1023), (id, owner));
    let element = queue.element(raw).unwrap();
    refused(queue.element(raw), ErrorKind::Invalid, "not in the hand");
    a2b.push(element).unwrap();
    assert_eq!(lens(&queue), [0, 3]);
    whole(&hold);
}

#[test]
fn a_forked_child_that_drops_what_it_inherited_takes_no_part() {
    let (ground, hold, queue) = make(10);
    let channel = hold.channel("channel", commonhold::ChannelOptions::new(4096)).unwrap();
    let log = hold.log("log", LogOptions::new().rings(2).ring_bytes(4096)).unwrap();
    let free = queue.named("free").unwrap();
    let element = free.pull().unwrap().unwrap();
    let batch = free.pull_many(3).unwrap();
    let bell = queue.eventfd("a2b").unwrap();
    let again = hold.open_queue("it").unwrap();
    let producer = channel.producer().unwrap();
    let consumer = channel.consumer(Join::Now, Policy::Lossless).unwrap();
    let collector = log.collector().unwrap();
    let mut inherited = Some((element, batch, bell, again, producer, consumer, collector, log));
    let board = Board::new(2);
    let child = Child::run("a child", || {
        drop(inherited.take());
        board.put(0, 1);
        until("the parent has looked", || board.get(1) == 1);
    });
    until("the child has dropped all", || board.get(0) == 1 || child.is_gone());
    let other = Hold::open(ground.path("it.hold")).unwrap();
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
    assert!(hold.drop_queue("it").unwrap() && hold.drop_channel("channel").unwrap());
    whole(&hold);
}
