//! A bucket that is what a map is.

use crate::bridge::{Bridge, Place, ends, pairs};
use crate::client::Client;
use crate::server::{Server, eventually};
use commonhold::map::MapOptions;

fn reports(place: &Place, field: &str) -> u64 {
    place.report("m").and_then(|report| report[field].as_u64()).unwrap_or_default()
}

#[test]
fn changes_go_into_the_bucket_in_order() {
    let Some(server) = Server::start() else { return };
    let (client, place, url) = (Client::connect(&server.url()), Place::new(), server.url());
    let history =
        |config| async_nats::jetstream::stream::Config { max_messages_per_subject: -1, ..config };
    client.create_with("b", history);
    let map = place.hold.maps().create("m", MapOptions::general()).unwrap();
    for key in [&b""[..], b".", b"a..b", b"\xff "] {
        map.set(key, key).unwrap();
    }
    let publisher = Bridge::publish(&place, &url, "m", "b");
    eventually("the pairs are there", || client.pairs("b") == pairs(&map));
    for number in 0..500 {
        map.set("k", format!("{number}")).unwrap();
        map.set(format!("k{number}"), "x").unwrap();
    }
    for number in 0..250 {
        map.delete(format!("k{number}")).unwrap();
    }
    map.delete("").unwrap();
    eventually("the changes are there", || client.pairs("b") == pairs(&map));
    // 4 pairs, 1000 values and 251 deletions: each once.
    assert_eq!(client.info("b").state.last_sequence, 4 + 1000 + 251);
    eventually("it reports", || reports(&place, "messages") == 1255);
    assert_eq!(publisher.stop(), Some(0));
    // Without changes, the next one has nothing to do.
    map.set("after", "1").unwrap();
    let _publisher = Bridge::publish(&place, &url, "m", "b");
    eventually("the change is there", || client.pairs("b") == pairs(&map));
    assert_eq!(client.info("b").state.last_sequence, 1256);
}

#[test]
fn a_stream_that_was_overrun_leads_to_a_comparison() {
    let Some(server) = Server::start() else { return };
    let (client, place, url) = (Client::connect(&server.url()), Place::new(), server.url());
    client.create("b");
    let map = place.hold.maps().create("m", MapOptions::general()).unwrap();
    place.hold.maps().begin_stream("m", 64 << 10).unwrap();
    for number in 0..200 {
        map.set(format!("k{number}"), "same").unwrap();
    }
    let mut publisher = Bridge::publish(&place, &url, "m", "b");
    eventually("the pairs are there", || client.pairs("b") == pairs(&map));
    publisher.kill();
    let before = client.info("b").state.last_sequence;
    // More than the stream keeps, in few keys.
    for number in 0..5000 {
        map.set("often", format!("{number:0100}")).unwrap();
    }
    map.delete("k7").unwrap();
    let _publisher = Bridge::publish(&place, &url, "m", "b");
    eventually("the bucket is equal", || client.pairs("b") == pairs(&map));
    let sent = client.info("b").state.last_sequence - before;
    assert_eq!(sent, 2, "it published more than the difference");
    // A change that is too large for the stream.
    map.set("large", vec![b'x'; 100 << 10]).unwrap();
    eventually("the large value is there", || client.pairs("b") == pairs(&map));
    map.set("small", "1").unwrap();
    eventually("the next change is there", || client.pairs("b") == pairs(&map));
}

/// Pairs that the bucket cannot have: the others go on, and none of them stays with an old value.
#[test]
fn a_pair_that_is_too_long_is_left_out_and_named() {
    let Some(server) = Server::start_with("max_payload: 65536", "") else { return };
    let (client, place, url) = (Client::connect(&server.url()), Place::new(), server.url());
    client.create("b");
    let map = place.hold.maps().create("m", MapOptions::general()).unwrap();
    let long = "k".repeat(4000);
    map.set("k", "1").unwrap();
    map.set("grows", "1").unwrap();
    map.set(&long, "1").unwrap();
    let publisher = Bridge::publish(&place, &url, "m", "b");
    eventually("it is ready", || place.report("m").is_some_and(|report| report["ready"] == true));
    assert_eq!((client.pairs("b").len(), reports(&place, "skipped")), (2, 1));
    map.set("grows", vec![0; 65536]).unwrap();
    map.set("after", "1").unwrap();
    eventually("the next change is there", || client.pairs("b").contains_key(&b"after"[..]));
    assert!(!client.pairs("b").contains_key(&b"grows"[..]), "an old value stays");
    let text = publisher.said();
    assert!(text.contains("of 4000 bytes becomes a subject"), "{text}");
    assert!(text.contains("key 'grows'") && text.contains("has 65536 bytes"), "{text}");
    assert!(text.contains("messages of 65536") && text.contains("max_payload"), "{text}");
    eventually("it counts", || reports(&place, "skipped") == 2);
    map.set("grows", "short").unwrap();
    map.delete(&long).unwrap();
    eventually("the bucket is equal", || client.pairs("b") == pairs(&map));
    assert_eq!(publisher.stop(), Some(0));
    map.set("grows", vec![0; 65536]).unwrap();
    let text = ends(&url, &["publish", &place.path(), "m", "b", "--strict"], 3);
    assert!(text.contains("key 'grows'") && text.contains("65536"), "{text}");
}

#[test]
fn another_message_limit_of_the_bucket_is_noticed() {
    let Some(server) = Server::start() else { return };
    let (client, place, url) = (Client::connect(&server.url()), Place::new(), server.url());
    client.create("b");
    let map = place.hold.maps().create("m", MapOptions::general()).unwrap();
    map.set("k", "1").unwrap();
    let publisher = Bridge::publish(&place, &url, "m", "b");
    eventually("the pair is there", || client.pairs("b") == pairs(&map));
    let limited =
        |config| async_nats::jetstream::stream::Config { max_message_size: 2048, ..config };
    client.change("b", limited);
    map.set("large", vec![b'x'; 4000]).unwrap();
    map.set("after", "1").unwrap();
    eventually("the next change is there", || client.pairs("b").contains_key(&b"after"[..]));
    let text = publisher.said();
    assert!(text.contains("key 'large'") && text.contains("has 4000 bytes"), "{text}");
    assert!(text.contains("the bucket accepts messages of 2048"), "{text}");
}

#[test]
fn pairs_that_leave_the_bucket_come_back() {
    let Some(server) = Server::start() else { return };
    let (client, place, url) = (Client::connect(&server.url()), Place::new(), server.url());
    client.create("b");
    let map = place.hold.maps().create("m", MapOptions::general()).unwrap();
    for number in 0..20 {
        map.set(format!("k{number}"), "1").unwrap();
    }
    let publisher = Bridge::publish(&place, &url, "m", "b");
    eventually("the pairs are there", || client.pairs("b") == pairs(&map));
    // While it runs, when it has noted how many messages the bucket has.
    let notes = place.hold.maps().open(".published/m").unwrap();
    let count = || notes.get("KV_b").unwrap().and_then(|note| note.last_chunk().copied());
    eventually("it has looked", || count().map(u64::from_le_bytes) == Some(20));
    client.purge("b", Some("k7"));
    eventually("the pair is there again", || client.pairs("b") == pairs(&map));
    // While it is away: also if the next session has changes to send.
    assert_eq!(publisher.stop(), Some(0));
    client.purge("b", Some("k8"));
    map.set("more", "1").unwrap();
    let publisher = Bridge::publish(&place, &url, "m", "b");
    eventually("both are there", || client.pairs("b") == pairs(&map));
    // All of them: the last message, too.
    assert_eq!(publisher.stop(), Some(0));
    client.purge("b", None);
    let _publisher = Bridge::publish(&place, &url, "m", "b");
    eventually("all are there again", || client.pairs("b") == pairs(&map));
}

#[test]
fn a_bucket_that_is_created_again_is_filled_again() {
    let Some(server) = Server::start() else { return };
    let (client, place, url) = (Client::connect(&server.url()), Place::new(), server.url());
    client.create("b");
    let map = place.hold.maps().create("m", MapOptions::general()).unwrap();
    for number in 0..100 {
        map.set(format!("k{number}"), "1").unwrap();
    }
    let _publisher = Bridge::publish(&place, &url, "m", "b");
    eventually("the pairs are there", || client.pairs("b") == pairs(&map));
    client.drop_bucket("b");
    client.create("b");
    eventually("they are there again", || client.pairs("b") == pairs(&map));
    map.set("more", "2").unwrap();
    eventually("and the next change", || client.pairs("b") == pairs(&map));
}
