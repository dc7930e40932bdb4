//! A bucket has one publisher, and another publisher may take it over.

use crate::bridge::{Bridge, Place, ends, pairs};
use crate::client::Client;
use crate::kills::Stop;
use crate::server::{Server, eventually};
use commonhold::map::MapOptions;
use std::sync::atomic::{AtomicBool, Ordering};

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

/// The first publisher has messages on their way all the time, so the stream's last message is
/// another one at every moment.
#[test]
fn a_publisher_that_writes_all_the_time_is_fenced() {
    let Some(server) = Server::start() else { return };
    let (client, url) = (Client::connect(&server.url()), server.url());
    client.create("b");
    let (busy, next) = (Place::new(), Place::new());
    let map = busy.hold.maps().create("m", MapOptions::general()).unwrap();
    map.set("from", "busy").unwrap();
    let wanted = next.hold.maps().create("m", MapOptions::general()).unwrap();
    for number in 0..500 {
        wanted.set(format!("k{number}"), "next").unwrap();
    }
    let first = Bridge::publish(&busy, &url, "m", "b");
    eventually("the first has published", || !client.pairs("b").is_empty());
    let is_over = AtomicBool::new(false);
    std::thread::scope(|scope| {
        let stopper = Stop(&is_over);
        scope.spawn(|| {
            let mut number = 0;
            while !is_over.load(Ordering::Relaxed) {
                number += 1;
                map.set(format!("busy{}", number % 100), number.to_string()).unwrap();
                if number % 50 == 0 {
                    std::thread::sleep(std::time::Duration::from_millis(1));
                }
            }
        });
        let path = next.path();
        let args = ["publish", &path, "m", "b", "--take-over"];
        let mut second = Bridge::start(&next, &url, &args);
        let code = first.code();
        let equal = || client.pairs("b") == pairs(&wanted);
        let begun = std::time::Instant::now();
        while second.lives() && !equal() && begun.elapsed() < crate::server::LONG {
            std::thread::sleep(std::time::Duration::from_millis(50));
        }
        drop(stopper);
        assert!(second.lives() && equal(), "{}", second.said());
        assert_eq!(code, Some(3));
    });
}

/// The bucket has no message any more that names the publisher that took it.
#[test]
fn a_purge_does_not_return_a_bucket_to_an_earlier_publisher() {
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
    assert_eq!(first.stop(), Some(0));
    let path = places[1].path();
    let second = Bridge::start(&places[1], &url, &["publish", &path, "m", "b", "--take-over"]);
    eventually("the second has replaced it", || client.pairs("b") == pairs(&maps[1]));
    assert_eq!(second.stop(), Some(0));
    client.purge("b", None);
    let first = Bridge::publish(&places[0], &url, "m", "b");
    let log = places[0].path().replace("it.hold", "log.publish");
    assert_eq!(first.code(), Some(3));
    let text = std::fs::read_to_string(log).unwrap();
    assert!(text.contains("whose message is gone") && text.contains("--take-over"), "{text}");
    // The stream's last number is the second one's.
    let _second = Bridge::publish(&places[1], &url, "m", "b");
    eventually("the second has published again", || client.pairs("b") == pairs(&maps[1]));
}
