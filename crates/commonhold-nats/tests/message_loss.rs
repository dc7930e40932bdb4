//! A server loses the last messages of a stream, which a receiver has, and gives their sequences to
//! new ones. The receiver gets those, too, and nothing twice.

use crate::bridge::{Bridge, Place};
use crate::client::Client;
use crate::messages::{RING, numbers, take};
use crate::server::{Server, eventually};
use async_nats::jetstream::stream::{Config, RetentionPolicy};
use commonhold::channel::{ChannelOptions, Join, Policy};

fn is_ready(place: &Place) -> bool {
    place.report("in").is_some_and(|report| report["ready"] == true && report["lag_messages"] == 0)
}

/// The receiver may be killed meanwhile, or lives on.
fn run(retention: RetentionPolicy, kills_receiver: bool) {
    let Some(server) = Server::start() else { return };
    let (client, place, url) = (Client::connect(&server.url()), Place::new(), server.url());
    client.create_stream("ticks", "ticks", |config| Config { retention, ..config });
    let arrives = place.hold.channels().create("in", ChannelOptions::new(RING)).unwrap();
    let mut consumer = arrives.consumer(Join::Oldest, Policy::Lossless).unwrap();
    let start = || Bridge::receive(&place, &url, "ticks", &["in"]);
    let mut receiver = start();
    eventually("it runs", || is_ready(&place));
    // A stream without interest would not store a message, so the sequence shows an interest.
    let publish = |message: &Vec<u8>| {
        client.retry(|| async {
            let sent = client.js.publish("ticks", message.clone().into()).await?;
            assert_ne!(sent.await?.sequence, 0);
            Ok::<_, async_nats::Error>(())
        });
    };
    numbers(0..3).iter().for_each(publish);
    assert_eq!(take(&mut consumer, 3), numbers(0..3));
    server.end();
    server.save_messages("ticks");
    server.run_again();
    numbers(3..6).iter().for_each(publish);
    assert_eq!(take(&mut consumer, 3), numbers(3..6));
    if kills_receiver {
        receiver.kill();
    }
    server.end();
    server.restore_messages("ticks");
    server.run_again();
    numbers(6..8).iter().for_each(publish);
    if kills_receiver {
        receiver = start();
    }
    assert_eq!(take(&mut consumer, 2), numbers(6..8));
    numbers(8..12).iter().for_each(publish);
    assert_eq!(take(&mut consumer, 4), numbers(8..12));
    eventually("it has everything", || is_ready(&place));
    assert_eq!(arrives.stat().unwrap().sequence, 12);
    assert!(receiver.lives(), "{}", receiver.said());
}

#[test]
fn messages_with_lost_sequences_arrive() {
    run(RetentionPolicy::Limits, false);
}

#[test]
fn messages_with_lost_sequences_arrive_at_the_next_receiver() {
    run(RetentionPolicy::Limits, true);
}

#[test]
fn messages_with_lost_sequences_leave_a_work_queue() {
    run(RetentionPolicy::WorkQueue, false);
    run(RetentionPolicy::WorkQueue, true);
}

#[test]
fn messages_with_lost_sequences_arrive_by_interest() {
    run(RetentionPolicy::Interest, false);
    run(RetentionPolicy::Interest, true);
}
