//! Sender and receivers are killed at random, and the server is restarted, while messages go from
//! a channel through a stream into a channel and a queue. At the end each message is in each of
//! them once, in order.

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

/// Sends numbers until it shall stop; returns how many.
fn produce(mut producer: Producer, stop: &AtomicBool) -> u64 {
    let mut count = 0u64;
    while !stop.load(Ordering::Relaxed) {
        producer.send(count.to_string().as_bytes()).unwrap();
        count += 1;
        std::thread::sleep(Duration::from_micros(fastrand::u64(..3000)));
    }
    count
}

/// Checks that the numbers come in order, each once, until `count` of them have come.
fn check(
    what: &str,
    count: &AtomicU64,
    other: impl Fn() -> String,
    mut next: impl FnMut() -> Option<Vec<u8>>,
) {
    let (mut expected, mut begun) = (0, Instant::now());
    while expected < count.load(Ordering::Relaxed) {
        match next() {
            Some(message) => {
                let text = String::from_utf8(message).unwrap();
                assert_eq!(text, expected.to_string(), "{what}");
                (expected, begun) = (expected + 1, Instant::now());
            }
            None => assert!(begun.elapsed() < LONG, "{what}: {expected} is missing; {}", other()),
        }
    }
}

fn run(ends_server: bool) {
    let Some(server) = Server::start() else { return };
    let (client, url) = (Client::connect(&server.url()), server.url());
    let (here, there) = (Place::new(), Place::new());
    client.create_stream("ticks", "ticks", |config| config);
    let out = here.hold.channels().create("out", ChannelOptions::new(RING)).unwrap();
    let arrives = there.hold.channels().create("in", ChannelOptions::new(64 << 10)).unwrap();
    let mut consumer = arrives.consumer(Join::Oldest, Policy::Lossless).unwrap();
    let options = QueueOptions::new(16, 24).queues(["free", "full"]);
    let queue = there.hold.queues().create("jobs", options).unwrap();
    let (stop, count) = (AtomicBool::new(false), AtomicU64::new(u64::MAX));
    let start: [&dyn Fn() -> Bridge; 3] = [
        &|| Bridge::send(&here, &url, "out", "ticks"),
        &|| Bridge::receive(&there, &url, "ticks", &["in"]),
        &|| Bridge::receive(&there, &url, "ticks", &["jobs", "--to", "full"]),
    ];
    let mut bridges = start.map(|start| start());
    // The contents of the stream: a message that is not there was not sent.
    let state = || {
        let payloads = client.payloads("ticks");
        let last = payloads.last().map(|last| String::from_utf8_lossy(last).into_owned());
        format!("the stream has {} messages, the last is {last:?}", payloads.len())
    };
    std::thread::scope(|scope| {
        let producer = out.producer().unwrap();
        let written = scope.spawn(|| produce(producer, &stop));
        let (count, queue, state) = (&count, &queue, &state);
        let channel = scope.spawn(move || {
            let mut message = Vec::new();
            check("channel", count, state, || {
                let got = consumer.recv_timeout(&mut message, Duration::from_millis(100)).unwrap();
                got.map(|_| message.clone())
            });
        });
        let jobs = scope.spawn(move || {
            let (free, full) = (queue.named("free").unwrap(), queue.named("full").unwrap());
            check("queue", count, state, || {
                let element = full.pull_timeout(Duration::from_millis(100)).unwrap()?;
                let mut bytes = element.to_vec().unwrap();
                free.push(element).unwrap();
                bytes.retain(|byte| *byte != 0);
                Some(bytes)
            });
        });
        let stopper = Stop(&stop);
        let begun = Instant::now();
        while begun.elapsed() < duration() {
            std::thread::sleep(Duration::from_millis(fastrand::u64(20..500)));
            match fastrand::usize(..if ends_server { 4 } else { 3 }) {
                3 => {
                    // A killed server, if it is the only one, forgets acknowledged messages.
                    server.end();
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
            assert!(!channel.is_finished() && !jobs.is_finished(), "a message is wrong");
        }
        drop(stopper);
        count.store(written.join().unwrap(), Ordering::Relaxed);
        channel.join().unwrap();
        jobs.join().unwrap();
    });
    let count = count.load(Ordering::Relaxed);
    assert_eq!(client.count("ticks"), count);
    // Nothing more comes.
    let is_done = |name| {
        let report = there.report(name).unwrap_or_default();
        report["ready"] == true && report["lag_messages"] == 0
    };
    eventually("both receivers have caught up", || is_done("in") && is_done("jobs"));
    assert_eq!(arrives.stat().unwrap().sequence, count);
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
fn each_message_arrives_once_if_the_server_restarts_too() {
    run(true);
}
