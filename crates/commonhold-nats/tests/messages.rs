//! Messages of a channel in a stream, and of a stream in a channel or a queue.

use crate::bridge::{Bridge, Place, ends};
use crate::client::Client;
use crate::server::{Server, eventually};
use async_nats::jetstream::stream::{Config, RetentionPolicy};
use commonhold::channel::{ChannelOptions, Consumer, Join, Policy};
use commonhold::queue::QueueOptions;
use std::time::Duration;

pub const RING: u64 = 1 << 20;

pub fn numbers(range: std::ops::Range<u32>) -> Vec<Vec<u8>> {
    range.map(|number| number.to_string().into_bytes()).collect()
}

/// The next messages, each within a long time.
#[track_caller]
pub fn take(consumer: &mut Consumer, count: usize) -> Vec<Vec<u8>> {
    let mut message = Vec::new();
    let mut next = || {
        let got = consumer.recv_timeout(&mut message, crate::server::LONG).unwrap();
        assert!(got.is_some(), "a message is missing");
        message.clone()
    };
    (0..count).map(|_| next()).collect()
}

#[test]
fn a_channel_goes_through_a_stream_into_a_channel_and_a_queue() {
    let Some(server) = Server::start() else { return };
    let (client, url) = (Client::connect(&server.url()), server.url());
    let (here, there) = (Place::new(), Place::new());
    client.create_stream("ticks", "ticks.>", |config| config);
    let out = here.hold.channels().create("out", ChannelOptions::new(RING)).unwrap();
    let mut producer = out.producer().unwrap();
    for message in numbers(0..50) {
        producer.send(&message).unwrap();
    }
    let arrives = there.hold.channels().create("in", ChannelOptions::new(RING)).unwrap();
    let mut consumer = arrives.consumer(Join::Oldest, Policy::Lossless).unwrap();
    let options = QueueOptions::new(4, 8).queues(["free", "full"]);
    let queue = there.hold.queues().create("jobs", options).unwrap();
    let sender = Bridge::send(&here, &url, "out", "ticks.a");
    let to_channel = Bridge::receive(&there, &url, "ticks.>", &["in"]);
    let to_queue = Bridge::receive(&there, &url, "ticks.a", &["jobs", "--to", "full"]);
    for message in numbers(50..100) {
        producer.send(&message).unwrap();
    }
    assert_eq!(take(&mut consumer, 100), numbers(0..100));
    let (free, full) = (queue.named("free").unwrap(), queue.named("full").unwrap());
    for wanted in numbers(0..100) {
        let element = full.pull_timeout(crate::server::LONG).unwrap().expect("a message");
        let bytes = element.to_vec().unwrap();
        assert_eq!(&bytes[..wanted.len()], &wanted[..]);
        assert!(bytes[wanted.len()..].iter().all(|byte| *byte == 0), "{bytes:?}");
        free.push(element).unwrap();
    }
    assert_eq!(client.payloads("ticks"), numbers(0..100));
    let report = |place: &Place, name| place.report(name).unwrap_or_default();
    let is_equal = |place: &Place, name| {
        let report = report(place, name);
        report["ready"] == true && report["lag_messages"] == 0 && report["messages"] == 100
    };
    for (place, name) in [(&here, "out"), (&there, "in"), (&there, "jobs")] {
        eventually("it reports", || is_equal(place, name));
    }
    assert_eq!(report(&here, "out")["remote"], "subject ticks.a");
    for bridge in [sender, to_channel, to_queue] {
        assert_eq!(bridge.stop(), Some(0));
    }
    // Nothing comes twice after all of them begin again.
    let _sender = Bridge::send(&here, &url, "out", "ticks.a");
    let _receiver = Bridge::receive(&there, &url, "ticks.>", &["in"]);
    producer.send(b"last").unwrap();
    assert_eq!(take(&mut consumer, 1), [b"last"]);
    assert_eq!(client.count("ticks"), 101);
}

/// The position in the hold is lost, and the server no longer knows the id.
#[test]
fn the_last_message_of_the_subject_shows_what_was_sent() {
    let Some(server) = Server::start() else { return };
    let (client, place, url) = (Client::connect(&server.url()), Place::new(), server.url());
    client.create_stream("ticks", "ticks.>", |config| Config {
        duplicate_window: Duration::from_millis(100),
        ..config
    });
    let out = place.hold.channels().create("out", ChannelOptions::new(RING)).unwrap();
    let mut producer = out.producer().unwrap();
    for message in numbers(0..3) {
        producer.send(&message).unwrap();
    }
    let sender = Bridge::send(&place, &url, "out", "ticks.a");
    eventually("they are sent", || client.count("ticks") == 3);
    eventually("it has noted that", || {
        place.report("out").is_some_and(|report| report["messages"] == 3)
    });
    assert_eq!(sender.stop(), Some(0));
    let notes = place.hold.maps().open(".sent/out").unwrap();
    assert!(notes.delete("ticks.a").unwrap());
    client.publish("ticks.other", Some("probe"), b"");
    eventually("the window is over", || !client.publish("ticks.other", Some("probe"), b""));
    client.purge_stream("ticks", "ticks.other");
    let _sender = Bridge::send(&place, &url, "out", "ticks.a");
    producer.send(b"3").unwrap();
    eventually("the next one is sent", || client.count("ticks") > 3);
    assert_eq!(client.payloads("ticks"), numbers(0..4));
}

/// Messages of a channel that was created again are no duplicates of the first one's.
#[test]
fn a_channel_that_is_created_again_is_another_one() {
    let Some(server) = Server::start() else { return };
    let (client, place, url) = (Client::connect(&server.url()), Place::new(), server.url());
    client.create_stream("ticks", "ticks", |config| config);
    for round in 1..3 {
        let out = place.hold.channels().create("out", ChannelOptions::new(RING)).unwrap();
        let mut producer = out.producer().unwrap();
        for message in numbers(0..3) {
            producer.send(&message).unwrap();
        }
        let sender = Bridge::send(&place, &url, "out", "ticks");
        eventually("they are sent", || client.count("ticks") == 3 * round);
        assert_eq!(sender.stop(), Some(0));
        drop((producer, out));
        assert!(place.hold.channels().drop("out").unwrap());
    }
}

/// A work queue forgets what was acknowledged: the receiver does that, and only then.
#[test]
fn a_work_queue_is_emptied_into_the_hold() {
    let Some(server) = Server::start() else { return };
    let (client, place, url) = (Client::connect(&server.url()), Place::new(), server.url());
    client.create_stream("work", "work.>", |config| Config {
        retention: RetentionPolicy::WorkQueue,
        ..config
    });
    let options = QueueOptions::new(2, 16).queues(["free", "full"]);
    let queue = place.hold.queues().create("jobs", options).unwrap();
    for message in numbers(0..6) {
        client.publish("work.a", None, &message);
    }
    let args = ["jobs", "--to", "full", "--sized"];
    let mut receiver = Bridge::receive(&place, &url, "work.>", &args);
    let (free, full) = (queue.named("free").unwrap(), queue.named("full").unwrap());
    eventually("the queue is full", || full.len().unwrap() == 2);
    eventually("two are acknowledged", || client.count("work") == 4);
    receiver.kill();
    let _receiver = Bridge::receive(&place, &url, "work.>", &args);
    for wanted in numbers(0..6) {
        let element = full.pull_timeout(crate::server::LONG).unwrap().expect("a message");
        let bytes = element.to_vec().unwrap();
        assert_eq!(bytes[..4], [1, 0, 0, 0], "{bytes:?}");
        assert_eq!(bytes[4..5], wanted[..]);
        free.push(element).unwrap();
    }
    eventually("all are acknowledged", || client.count("work") == 0);
}

#[test]
fn messages_that_are_too_long_are_left_out() {
    let Some(server) = Server::start_with("max_payload: 65536", "") else { return };
    let (client, place, url) = (Client::connect(&server.url()), Place::new(), server.url());
    client.create_stream("ticks", "ticks.>", |config| config);
    let out = place.hold.channels().create("out", ChannelOptions::new(RING)).unwrap();
    let mut producer = out.producer().unwrap();
    producer.send(&[0; 65536]).unwrap();
    producer.send(b"short").unwrap();
    let sender = Bridge::send(&place, &url, "out", "ticks.a");
    eventually("the short one is sent", || client.count("ticks") == 1);
    let text = sender.said();
    assert!(text.contains("message 0 has 65536 bytes"), "{text}");
    let arrives = place.hold.channels().create("in", ChannelOptions::new(4 << 10)).unwrap();
    let mut consumer = arrives.consumer(Join::Oldest, Policy::Lossless).unwrap();
    client.publish("ticks.a", None, &[0; 2000]);
    client.publish("ticks.a", None, b"last");
    let receiver = Bridge::receive(&place, &url, "ticks.a", &["in"]);
    assert_eq!(take(&mut consumer, 2), [b"short".to_vec(), b"last".to_vec()]);
    let text = receiver.said();
    assert!(text.contains("has 2000 bytes, and there is room for 1024"), "{text}");
    let skipped = |name: &str| place.report(name).is_some_and(|report| report["skipped"] == 1);
    eventually("both count", || skipped("out") && skipped("in"));
    assert_eq!(sender.stop(), Some(0));
    producer.send(&[0; 65536]).unwrap();
    let text = ends(&url, &["send", &place.path(), "out", "ticks.a", "--strict"], 3);
    assert!(text.contains("message 2 has 65536 bytes"), "{text}");
}

/// While the servers are away, the producer of the channel goes on.
#[test]
fn a_lossy_sender_holds_nobody_up() {
    let Some(server) = Server::start() else { return };
    let (client, place, url) = (Client::connect(&server.url()), Place::new(), server.url());
    client.create_stream("ticks", "ticks", |config| config);
    let out = place.hold.channels().create("out", ChannelOptions::new(4 << 10)).unwrap();
    let mut producer = out.producer().unwrap();
    let path = place.path();
    let _sender = Bridge::start(&place, &url, &["send", &path, "out", "ticks", "--lossy"]);
    eventually("it runs", || place.report("out").is_some_and(|report| report["ready"] == true));
    server.kill();
    // Much more than the ring and what the sender reads ahead.
    for message in numbers(0..20_000) {
        assert!(producer.send_timeout(&message, crate::server::LONG).unwrap().is_some());
    }
    server.run_again();
    let last = || client.payloads("ticks").last().cloned();
    eventually("the last one is sent", || last().as_deref() == Some(b"19999"));
    let sent: Vec<u32> = client.payloads("ticks").iter().map(|text| number(text)).collect();
    assert!(sent.is_sorted_by(|a, b| a < b), "{sent:?}");
    let missed = || place.report("out").and_then(|report| report["missed"].as_u64());
    eventually("what is missing counts", || missed() == Some(20_000 - sent.len() as u64));
}

fn number(text: &[u8]) -> u32 {
    std::str::from_utf8(text).unwrap().parse().unwrap()
}

#[test]
fn mistakes_are_named() {
    let Some(server) = Server::start() else { return };
    let (client, place, url) = (Client::connect(&server.url()), Place::new(), server.url());
    let path = place.path();
    place.hold.channels().create("c", ChannelOptions::new(RING)).unwrap();
    let options = QueueOptions::new(2, 16).queues(["free", "full"]);
    place.hold.queues().create("q", options).unwrap();
    for (args, part) in [
        (&["send", &path, "c", "none"][..], "no stream on"),
        (&["send", &path, "c", "a.*"], "without wildcards"),
        (&["send", &path, "none", "a"], "no channel 'none'"),
        (&["receive", "none", &path, "c"], "no stream on"),
        (&["receive", "a", &path, "q", "--to", "free"], "another named queue"),
        (&["receive", "a", &path, "q", "--to", "none"], "no named queue 'none'"),
        (&["receive", "a", &path, "c", "--consumer", "a.b"], "the name of a consumer"),
        (&["receive", "a", &path, "c", "--stream", "none"], "stream 'none' does not exist"),
    ] {
        let text = ends(&url, args, 3);
        assert!(text.contains(part), "{args:?}: {text}");
    }
    client.create_stream("s", "a", |config| config);
    let first = Bridge::receive(&place, &url, "a", &["c", "--consumer", "mine"]);
    eventually("it runs", || place.report("c").is_some_and(|report| report["ready"] == true));
    let text = ends(&url, &["receive", "a", &path, "c"], 3);
    assert!(text.contains("already has a receiver"), "{text}");
    let args = ["receive", "a", &path, "q", "--to", "full", "--consumer", "mine"];
    let text = ends(&url, &args, 3);
    assert!(text.contains("expected the owner") && text.contains("--consumer"), "{text}");
    assert_eq!(first.stop(), Some(0));
}
