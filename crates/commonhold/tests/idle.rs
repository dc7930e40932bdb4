//! Waiting costs no processor time.
//!
//! A process waits for something that does not come; the system tells how long its threads ran meanwhile. In a virtual machine
//! that is often too much: one that did nothing but sleep 80 ms at a time was seen charged with 0.1 to 17 % of a core. So there has
//! to be a moment in which it is less than a hundredth: one that polls or spins all the time has none.

use crate::support::process::{Board, Child, until};
use crate::support::test_dir::TestDir;
use commonhold::Hold;
use commonhold::channel::{ChannelOptions, Join, Policy};
use commonhold::log::LogOptions;
use commonhold::queue::QueueOptions;
use std::path::Path;
use std::time::Duration;

const MOMENT: Duration = Duration::from_millis(200);
const ALLOWED_NS: u64 = 2_000_000;

/// How long all threads of a process have run.
fn ran_ns(pid: i32) -> u64 {
    let tasks = std::fs::read_dir(format!("/proc/{pid}/task")).unwrap();
    let ran = |task: std::io::Result<std::fs::DirEntry>| {
        let told = std::fs::read_to_string(task.unwrap().path().join("schedstat")).unwrap();
        told.split(' ').next().unwrap().parse::<u64>().unwrap()
    };
    tasks.map(ran).sum()
}

/// Prepares something, then waits for what `wait` waits for, which does not come.
fn costs_nothing(what: &str, wait: impl FnOnce(&Path, &dyn Fn())) {
    let test_dir = TestDir::memory();
    let (path, board) = (test_dir.path("it.hold"), Board::new(1));
    let idle = Child::run(what, || wait(&path, &|| board.put(0, 1)));
    until("it begins to wait", || board.get(0) == 1 || idle.is_gone());
    until(&format!("the {what} runs for less than a hundredth of a moment"), || {
        let before = ran_ns(idle.pid());
        std::thread::sleep(MOMENT);
        ran_ns(idle.pid()) - before < ALLOWED_NS
    });
    idle.slay();
}

#[test]
fn of_a_consumer_that_waits_for_messages() {
    costs_nothing("consumer", |path, ready| {
        let hold = Hold::create(path).unwrap();
        let channel = hold.channels().open_or_create("it", ChannelOptions::new(4096)).unwrap();
        let mut consumer = channel.consumer(Join::Now, Policy::Lossless).unwrap();
        ready();
        let _ = consumer.recv(&mut Vec::new());
    });
}

#[test]
fn of_a_producer_that_waits_for_room() {
    costs_nothing("producer", |path, ready| {
        let hold = Hold::create(path).unwrap();
        let channel = hold.channels().open_or_create("it", ChannelOptions::new(4096)).unwrap();
        let _consumer = channel.consumer(Join::Now, Policy::Lossless).unwrap();
        let mut producer = channel.producer().unwrap();
        while producer.try_send(&[7; 100]).unwrap().is_some() {}
        ready();
        let _ = producer.send(&[7; 100]);
    });
}

#[test]
fn of_one_that_waits_for_elements() {
    costs_nothing("puller", |path, ready| {
        let hold = Hold::create(path).unwrap();
        let queue = hold
            .queues()
            .open_or_create("it", QueueOptions::new(4, 8).queues(["free", "full"]))
            .unwrap();
        ready();
        let _ = queue.named("full").unwrap().pull_timeout(Duration::from_secs(600));
    });
}

#[test]
fn of_one_that_waits_for_a_notifier() {
    costs_nothing("listener", |path, ready| {
        let hold = Hold::create(path).unwrap();
        let queue = hold
            .queues()
            .open_or_create("it", QueueOptions::new(4, 8).queues(["free", "full"]))
            .unwrap();
        let _notifier = queue.eventfd("full").unwrap();
        ready();
        std::thread::sleep(Duration::from_secs(600));
    });
}

#[test]
fn of_a_collector_without_lines() {
    costs_nothing("collector", |path, ready| {
        let hold = Hold::create(path).unwrap();
        let log =
            hold.logs().open_or_create("it", LogOptions::new().rings(64).ring_bytes(4096)).unwrap();
        let mut collector = log.collector().unwrap();
        ready();
        let _ = collector.run(&mut std::io::sink(), || false);
    });
}
