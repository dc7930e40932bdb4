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
fn of_two_publishers_one_is_fenced() {
    let Some(server) = Server::start() else { return };
    let (client, url) = (Client::connect(&server.url()), server.url());
    client.create("b");
    let places = [Place::new(), Place::new()];
    let maps = places.each_ref().map(|place| {
        let map = place.hold.maps().create("m", MapOptions::general()).unwrap();
        map.set("from", place.path()).unwrap();
        map
    });
    let first = Bridge::publish(&places[0], &url, "m", "b");
    eventually("the first has published", || client.pairs("b") == pairs(&maps[0]));
    let text = ends(&url, &["publish", &places[0].path(), "m", "b"], 3);
    assert!(text.contains("already published to bucket 'b'"), "{text}");
    let text = ends(&url, &["publish", &places[1].path(), "m", "b"], 3);
    assert!(text.contains("publisher ") && text.contains("--take-over"), "{text}");
    let path = places[1].path();
    let _second = Bridge::start(&places[1], &url, &["publish", &path, "m", "b", "--take-over"]);
    eventually("the second has replaced it", || client.pairs("b") == pairs(&maps[1]));
    maps[0].set("late", "1").unwrap();
    let log = std::mem::take(&mut first.said());
    assert!(!log.contains("has ended"), "{log}");
    let said = places[0].path().replace("it.hold", "log.publish");
    assert_eq!(first.code(), Some(3));
    let log = std::fs::read_to_string(said).unwrap();
    assert!(log.contains("publisher of map 'm' has ended"), "{log}");
    assert_eq!(client.pairs("b"), pairs(&maps[1]));
    // A bucket that was equal already gets no message, and is the publisher's all the same.
    let equal = Place::new();
    let copy = equal.hold.maps().create("m", MapOptions::general()).unwrap();
    client.create("equal");
    client.put("equal", "k", b"v");
    copy.set("k", "v").unwrap();
    for args in [&["--take-over"][..], &[], &[]] {
        let path = equal.path();
        let args = [&["publish", &path, "m", "equal"], args].concat();
        let publisher = Bridge::start(&equal, &url, &args);
        let ready = || equal.report("m").is_some_and(|report| report["ready"] == true);
        eventually("it is ready", ready);
        assert_eq!(publisher.stop(), Some(0));
    }
    assert_eq!(client.info("equal").state.last_sequence, 1);
    // Another writer is no different.
    client.put("b", "x", b"y");
    eventually("the second has ended, too", || places[1].report("m").is_none());
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

#[test]
fn a_value_that_the_server_does_not_accept_is_named() {
    let Some(server) = Server::start_with("max_payload: 65536", "") else { return };
    let (client, place, url) = (Client::connect(&server.url()), Place::new(), server.url());
    client.create("b");
    let map = place.hold.maps().create("m", MapOptions::general()).unwrap();
    map.set("k", "1").unwrap();
    let publisher = Bridge::publish(&place, &url, "m", "b");
    eventually("the pair is there", || client.pairs("b") == pairs(&map));
    map.set("large", vec![0; 65536]).unwrap();
    assert_eq!(publisher.code(), Some(3));
    let text = ends(&url, &["publish", &place.path(), "m", "b"], 3);
    assert!(text.contains("key 'large'") && text.contains("65536"), "{text}");
    assert!(text.contains("max_payload"), "{text}");
    map.set("large", "small").unwrap();
    let _publisher = Bridge::publish(&place, &url, "m", "b");
    eventually("the bucket is equal", || client.pairs("b") == pairs(&map));
    let long = "k".repeat(4000);
    map.set(&long, "1").unwrap();
    eventually("the publisher has ended", || place.report("m").is_none());
    let text = ends(&url, &["publish", &place.path(), "m", "b"], 3);
    assert!(text.contains("of 4000 bytes becomes a subject"), "{text}");
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
