//! A map that is what a bucket is.

use crate::bridge::{Bridge, Place, ends, pairs};
use crate::client::Client;
use crate::server::{Server, eventually};
use commonhold::ErrorKind;
use commonhold::map::{MapMode, MapOptions};
use commonhold_nats::key::KeyStyle;
use std::time::Duration;

fn synchronisations(place: &Place) -> u64 {
    place.report("m").map_or(0, |report| report["synchronisations"].as_u64().unwrap())
}

#[test]
fn contents_and_changes_arrive_and_only_the_mirror_writes() {
    let Some(server) = Server::start() else { return };
    let (client, place) = (Client::connect(&server.url()), Place::new());
    client.create_with("b", |config| async_nats::jetstream::stream::Config {
        max_messages_per_subject: 5,
        ..config
    });
    let odd: [&[u8]; 6] = [b"", b".", b"a..b", b"=", b"\0 \xff*>", "\u{e4}".as_bytes()];
    for key in odd {
        client.put("b", &KeyStyle::Escaped.encode(key).unwrap(), key);
    }
    for number in 0..300 {
        client.put("b", &format!("k.{}", number % 100), number.to_string().as_bytes());
    }
    client.mark("b", "k.7", "DEL");
    client.mark("b", "k.8", "PURGE");
    let _mirror = Bridge::mirror(&place, &server.url(), "b", "m");
    let map = place.map("m");
    // Shown as a whole: 100 keys of which two are deleted, and the odd ones.
    assert_eq!(map.len().unwrap(), 98 + odd.len() as u64);
    assert_eq!(pairs(&map), client.pairs("b"));
    client.put("b", "k.7", b"back");
    client.mark("b", "k.9", "PURGE");
    client.put("b", "new", b"");
    let there = client.pairs("b");
    eventually("the changes are here", || pairs(&map) == there);
    assert_eq!(map.set("x", "y").unwrap_err().kind(), ErrorKind::ReadOnly);
    eventually("the lag is known", || map.lag().unwrap().is_some());
    let report = || place.report("m").unwrap_or_default();
    eventually("it reports", || report()["ready"] == true && report()["lag_messages"] == 0);
    assert_eq!(report()["remote"], "bucket b");
}

#[test]
fn a_killed_mirror_resumes_and_reads_no_more_than_it_must() {
    let Some(server) = Server::start() else { return };
    let (client, place) = (Client::connect(&server.url()), Place::new());
    client.create("b");
    for number in 0..50 {
        client.put("b", &format!("k{number}"), b"1");
    }
    for round in 0..3 {
        let mut mirror = Bridge::mirror(&place, &server.url(), "b", "m");
        let map = place.map("m");
        let there = client.pairs("b");
        eventually("it has caught up", || pairs(&map) == there);
        let last = client.put("b", &format!("last{round}"), b"2").to_string();
        eventually("the last one is here", || map.contains(format!("last{round}")).unwrap());
        mirror.kill();
        // Those that it has not seen.
        client.put("b", "k1", last.as_bytes());
        client.mark("b", &format!("k{}", 10 + round), "DEL");
    }
    let _mirror = Bridge::mirror(&place, &server.url(), "b", "m");
    let (map, there) = (place.map("m"), client.pairs("b"));
    eventually("it has caught up", || pairs(&map) == there);
    eventually("it reports", || place.report("m").is_some_and(|report| report["ready"] == true));
    assert_eq!(synchronisations(&place), 0, "it read everything again");
}

#[test]
fn a_bucket_that_is_created_again_or_purged_is_read_again() {
    let Some(server) = Server::start() else { return };
    let (client, place) = (Client::connect(&server.url()), Place::new());
    client.create("b");
    for number in 0..20 {
        client.put("b", &format!("old{number}"), b"1");
    }
    let mut mirror = Bridge::mirror(&place, &server.url(), "b", "m");
    let map = place.map("m");
    // While it runs: more messages than before, so that the numbers alone do not show it.
    client.drop_bucket("b");
    client.create("b");
    for number in 0..40 {
        client.put("b", &format!("new{number}"), b"2");
    }
    let there = client.pairs("b");
    eventually("the new bucket is here", || pairs(&map) == there);
    // While it is away.
    mirror.kill();
    client.drop_bucket("b");
    client.create("b");
    for number in 0..60 {
        client.put("b", &format!("third{number}"), b"3");
    }
    let mut mirror = Bridge::mirror(&place, &server.url(), "b", "m");
    let there = client.pairs("b");
    eventually("the third bucket is here", || pairs(&map) == there);
    // A purge leaves no message.
    client.purge("b", Some("third7"));
    eventually("the purged key is gone", || !map.contains("third7").unwrap());
    assert_eq!(map.len().unwrap(), 59);
    // As many messages and the same keys: only its creation shows that it is another bucket.
    mirror.kill();
    client.drop_bucket("b");
    client.create("b");
    for number in 0..60 {
        client.put("b", &format!("third{number}"), b"4");
    }
    let _mirror = Bridge::mirror(&place, &server.url(), "b", "m");
    let there = client.pairs("b");
    eventually("the fourth bucket is here", || pairs(&map) == there);
}

#[test]
fn another_age_limit_of_the_bucket_is_the_maps_too() {
    let Some(server) = Server::start() else { return };
    let (client, place, url) = (Client::connect(&server.url()), Place::new(), server.url());
    // The window cannot be longer than the age.
    let window = Duration::from_secs(1);
    let limit = |age| {
        move |config| async_nats::jetstream::stream::Config {
            max_age: age,
            duplicate_window: window,
            ..config
        }
    };
    client.create_with("b", limit(Duration::ZERO));
    client.put("b", "k", b"1");
    let mut mirror = Bridge::mirror(&place, &url, "b", "m");
    assert!(!matches!(place.map("m").options().mode(), MapMode::Cache { .. }));
    let is_cache = || {
        let map = place.hold.maps().open("m");
        map.is_ok_and(|map| matches!(map.options().mode(), MapMode::Cache { .. }))
    };
    // While it runs.
    client.change("b", limit(Duration::from_secs(3600)));
    eventually("the map is a cache", is_cache);
    assert_eq!(place.map("m").get("k").unwrap().unwrap(), b"1");
    // While it is away: the pair that is there gets the new limit.
    mirror.kill();
    client.change("b", limit(Duration::from_secs(3)));
    client.put("b", "k", b"2");
    let _mirror = Bridge::mirror(&place, &url, "b", "m");
    eventually("the pair has expired", || place.map("m").get("k").unwrap().is_none());
}

#[test]
fn a_stream_that_forgot_the_position_is_read_again() {
    let Some(server) = Server::start() else { return };
    let (client, place) = (Client::connect(&server.url()), Place::new());
    client.create("b");
    for number in 0..20 {
        client.put("b", &format!("k{number}"), b"1");
    }
    let mut mirror = Bridge::mirror(&place, &server.url(), "b", "m");
    let map = place.map("m");
    mirror.kill();
    let purge = async {
        let stream = client.js.get_stream("KV_b").await.unwrap();
        stream.purge().await.unwrap();
    };
    client.wait(purge);
    client.put("b", "k3", b"2");
    let _mirror = Bridge::mirror(&place, &server.url(), "b", "m");
    eventually("only the new key is here", || map.len().unwrap() == 1);
    assert_eq!(map.get("k3").unwrap().unwrap(), b"2");
    eventually("it reports", || synchronisations(&place) == 1);
}

#[test]
fn values_expire_here_when_they_expire_there() {
    let Some(server) = Server::start() else { return };
    let (client, place) = (Client::connect(&server.url()), Place::new());
    client.create_with("b", |config| async_nats::jetstream::stream::Config {
        max_age: Duration::from_secs(4),
        ..config
    });
    client.put("b", "k", b"1");
    let _mirror = Bridge::mirror(&place, &server.url(), "b", "m");
    let map = place.map("m");
    assert!(matches!(map.options().mode(), MapMode::Cache { .. }));
    client.put("b", "later", b"2");
    eventually("it is here", || map.get("later").unwrap().is_some());
    eventually("both have expired", || {
        map.get("later").unwrap().is_none() && map.get("k").unwrap().is_none()
    });
    eventually("their memory is free", || map.stat().unwrap().record_bytes == 0);
}

#[test]
fn mistakes_are_named() {
    let Some(server) = Server::start() else { return };
    let (client, place, url) = (Client::connect(&server.url()), Place::new(), server.url());
    let path = place.path();
    let text = ends(&url, &["mirror", "none", &path, "m"], 3);
    assert!(text.contains("bucket 'none' does not exist") && text.contains("create-bucket"));
    client.create("b");
    place.hold.maps().create("own", MapOptions::general()).unwrap();
    let text = ends(&url, &["mirror", "b", &path, "own"], 3);
    assert!(text.contains("map 'own' is an ordinary map"), "{text}");
    client.put("b", "a=b", b"1");
    let text = ends(&url, &["mirror", "b", &path, "m"], 3);
    assert!(text.contains("'a=b'") && text.contains("plain keys"), "{text}");
    let _plain = Bridge::start(&place, &url, &["mirror", "b", &path, "plain", "--plain-keys"]);
    assert_eq!(place.map("plain").get("a=b").unwrap().unwrap(), b"1");
    eventually("it runs", || place.report("plain").is_some());
    let text = ends(&url, &["mirror", "b", &path, "plain"], 3);
    assert!(text.contains("already has a replica"), "{text}");
    let text = ends("nats://127.0.0.1:1", &["get", "b", "k"], 3);
    assert!(text.contains("cannot connect to nats://127.0.0.1:1"), "{text}");
}

/// A value that is replaced while the bucket is read for the first time is not missing.
#[test]
fn a_bucket_that_changes_all_the_time_is_shown_whole() {
    use std::sync::atomic::{AtomicBool, Ordering};
    const KEYS: usize = 2000;
    let Some(server) = Server::start() else { return };
    let client = Client::connect(&server.url());
    client.create("b");
    for number in 0..KEYS {
        client.put("b", &format!("k{number}"), b"1");
    }
    let (is_over, url) = (AtomicBool::new(false), server.url());
    std::thread::scope(|scope| {
        scope.spawn(|| {
            let client = Client::connect(&url);
            while !is_over.load(Ordering::Relaxed) {
                client.put("b", &format!("k{}", fastrand::usize(..KEYS)), b"2");
            }
        });
        for round in 0..3 {
            let place = Place::new();
            let _mirror = Bridge::mirror(&place, &server.url(), "b", "m");
            let map = place.map("m");
            let missing = (0..KEYS).find(|number| !map.contains(format!("k{number}")).unwrap());
            assert_eq!(missing, None, "round {round}");
        }
        is_over.store(true, Ordering::Relaxed);
    });
}

/// Only while the key has a value does it matter that the mirror cannot read it.
#[test]
fn a_deleted_key_of_another_style_ends_no_mirror() {
    let Some(server) = Server::start() else { return };
    let (client, place) = (Client::connect(&server.url()), Place::new());
    client.create("b");
    client.put("b", "k", b"1");
    client.put("b", "a=b", b"1");
    client.mark("b", "a=b", "DEL");
    let _mirror = Bridge::mirror(&place, &server.url(), "b", "m");
    client.put("b", "later", b"2");
    let map = place.map("m");
    eventually("the change is here", || map.contains("later").unwrap());
    assert_eq!(map.len().unwrap(), 2);
}
