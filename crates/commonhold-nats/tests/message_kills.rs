//! Sender, receivers and the server are killed at random, while messages go from a channel through
//! a stream into a channel and a queue. At the end each message is in each of them once, in order.
//! If the server was killed, this holds for the messages that it still has.

use crate::bridge::{Bridge, Place};
use crate::client::Client;
use crate::kills::{Stop, duration};
use crate::server::{LONG, Server, eventually};
use commonhold::channel::{ChannelOptions, Join, Policy, Producer};
use commonhold::queue::QueueOptions;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::{Duration, Instant};

/// Larger than all messages, because they wait in it while no sender runs.
const RING: u64 = 64 << 20;

/// Sends numbers until it shall stop, and one more; returns how many.
fn produce(mut producer: Producer, stop: &AtomicBool) -> u64 {
    let mut count = 0u64;
    loop {
        let stops = stop.load(Ordering::Relaxed);
        producer.send(count.to_string().as_bytes()).unwrap();
        count += 1;
        if stops {
            return count;
        }
        std::thread::sleep(Duration::from_micros(fastrand::u64(..3000)));
    }
}

/// The numbers that come, up to the last one of `count`. The server is not killed after that one
/// was sent, so it comes.
fn collect(what: &str, count: &AtomicU64, mut next: impl FnMut() -> Option<Vec<u8>>) -> Vec<u64> {
    let (mut numbers, mut begun) = (Vec::new(), Instant::now());
    while numbers.last().is_none_or(|last| last + 1 < count.load(Ordering::Relaxed)) {
        match next() {
            Some(message) => {
                numbers.push(number(&message));
                begun = Instant::now();
            }
            None => assert!(begun.elapsed() < LONG, "{what}: nothing after {:?}", numbers.last()),
        }
    }
    numbers
}

fn number(message: &[u8]) -> u64 {
    std::str::from_utf8(message).unwrap().parse().unwrap()
}

/// Checks that what came is in order, and has everything that the stream has. A server that forgets
/// a message before it acknowledges it gets it again: at most one at each of its `kills`.
#[track_caller]
fn check(what: &str, came: &[u64], stream: &[u64], kills: usize) {
    let wrong: Vec<_> = came.windows(2).filter(|pair| pair[0] >= pair[1]).collect();
    let doubled = wrong.iter().filter(|pair| pair[0] == pair[1]).count();
    assert!(doubled == wrong.len() && doubled <= kills, "{what}: {wrong:?}, {kills} kills");
    let missing: Vec<_> =
        stream.iter().filter(|number| came.binary_search(number).is_err()).collect();
    assert!(missing.is_empty(), "{what}: the stream has {missing:?}, which did not come");
}

fn run(kills_server: bool) {
    let Some(server) = Server::start() else { return };
    let (client, url) = (Client::connect(&server.url()), server.url());
    let (here, there) = (Place::new(), Place::new());
    client.create_stream("ticks", "ticks", |config| config);
    let out = here.hold.channels().create("out", ChannelOptions::new(RING)).unwrap();
    let arrives = there.hold.channels().create("in", ChannelOptions::new(64 << 10)).unwrap();
    let mut consumer = arrives.consumer(Join::Oldest, Policy::Lossless).unwrap();
    let options = QueueOptions::new(16, 24).queues(["free", "full"]);
    let queue = there.hold.queues().create("jobs", options).unwrap();
    let (stop, last) = (AtomicBool::new(false), AtomicU64::new(u64::MAX));
    let start: [&dyn Fn() -> Bridge; 3] = [
        &|| Bridge::send(&here, &url, "out", "ticks"),
        &|| Bridge::receive(&there, &url, "ticks", &["in"]),
        &|| Bridge::receive(&there, &url, "ticks", &["jobs", "--to", "full"]),
    ];
    let mut bridges = start.map(|start| start());
    let (count, kills, [channel, jobs]) = std::thread::scope(|scope| {
        let producer = out.producer().unwrap();
        let written = scope.spawn(|| produce(producer, &stop));
        let (last, queue) = (&last, &queue);
        let channel = scope.spawn(move || {
            let mut message = Vec::new();
            collect("channel", last, || {
                let got = consumer.recv_timeout(&mut message, Duration::from_millis(100)).unwrap();
                got.map(|_| message.clone())
            })
        });
        let jobs = scope.spawn(move || {
            let (free, full) = (queue.named("free").unwrap(), queue.named("full").unwrap());
            collect("queue", last, || {
                let element = full.pull_timeout(Duration::from_millis(100)).unwrap()?;
                let mut bytes = element.to_vec().unwrap();
                free.push(element).unwrap();
                bytes.retain(|byte| *byte != 0);
                Some(bytes)
            })
        });
        let stopper = Stop(&stop);
        let (begun, mut kills) = (Instant::now(), 0);
        while begun.elapsed() < duration() {
            std::thread::sleep(Duration::from_millis(fastrand::u64(20..500)));
            match fastrand::usize(..if kills_server { 4 } else { 3 }) {
                3 => {
                    server.kill();
                    kills += 1;
                    std::thread::sleep(Duration::from_millis(fastrand::u64(..300)));
                    server.run_again();
                }
                which => {
                    bridges[which].kill();
                    bridges[which] = start[which]();
                }
            }
            for bridge in &mut bridges {
                assert!(bridge.lives(), "{}", bridge.said());
            }
        }
        drop(stopper);
        let count = written.join().unwrap();
        last.store(count, Ordering::Relaxed);
        (count, kills, [channel, jobs].map(|came| came.join().unwrap()))
    });
    let stream: Vec<u64> = client.payloads("ticks").iter().map(|it| number(it)).collect();
    // A killed server, if it is the only one, may forget messages that it has acknowledged.
    if !kills_server {
        let all: Vec<u64> = (0..count).collect();
        assert!(stream == all && channel == all && jobs == all, "not each of {count} once");
    }
    check("stream", &stream, &stream, 0);
    check("channel", &channel, &stream, kills);
    check("queue", &jobs, &stream, kills);
    // Nothing more comes.
    let is_done = |name| {
        let report = there.report(name).unwrap_or_default();
        report["ready"] == true && report["lag_messages"] == 0
    };
    eventually("both receivers have caught up", || is_done("in") && is_done("jobs"));
    assert_eq!(arrives.stat().unwrap().sequence, channel.len() as u64);
    assert_eq!(queue.named("full").unwrap().len().unwrap(), 0);
    for bridge in &mut bridges {
        assert!(bridge.lives(), "{}", bridge.said());
    }
    assert!(here.hold.check().unwrap().ok && there.hold.check().unwrap().ok);
}

#[test]
fn each_message_arrives_once_whichever_bridge_is_killed() {
    run(false);
}

#[test]
fn the_messages_that_a_killed_server_has_arrive_once() {
    run(true);
}
