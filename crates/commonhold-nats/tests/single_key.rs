//! Single keys of a bucket: read your writes, and conditions.

use crate::bridge::{Bridge, Place, ends};
use crate::client::Client;
use crate::server::{Server, eventually};

#[test]
fn a_write_returns_when_the_local_map_shows_it() {
    let Some(server) = Server::start() else { return };
    let (client, place, url) = (Client::connect(&server.url()), Place::new(), server.url());
    ends(&url, &["create-bucket", "b"], 0);
    ends(&url, &["create-bucket", "b"], 1);
    let _mirror = Bridge::mirror(&place, &url, "b", "m");
    let (map, path) = (place.map("m"), place.path());
    for number in 0..20 {
        let value = number.to_string();
        ends(&url, &["put", "b", &path, "m", "a key", &value], 0);
        assert_eq!(map.get("a key").unwrap().unwrap(), value.as_bytes());
    }
    assert_eq!(ends(&url, &["get", "b", "a key"], 0), "19\n");
    let text = ends(&url, &["put", "b", &path, "m", "a key", "x", "--revision", "1"], 1);
    assert!(text.contains("another revision"), "{text}");
    assert_eq!(map.get("a key").unwrap().unwrap(), b"19");
    let json = ends(&url, &["get", "b", "a key", "--format", "json"], 0);
    let json: serde_json::Value = serde_json::from_str(&json).unwrap();
    assert_eq!((&json["value"], &json["revision"]), (&"19".into(), &20.into()));
    ends(&url, &["put", "b", &path, "m", "a key", "-x", "--revision", "20"], 0);
    assert_eq!(map.get("a key").unwrap().unwrap(), b"-x");
    ends(&url, &["delete", "b", &path, "m", "a key"], 0);
    assert!(map.get("a key").unwrap().is_none());
    ends(&url, &["get", "b", "a key"], 1);
    ends(&url, &["put", "b", &path, "m", "fresh", "1", "--revision", "0"], 0);
    ends(&url, &["put", "b", &path, "m", "fresh", "2", "--revision", "0"], 1);
    let there = client.pairs("b");
    assert_eq!(there.len(), 1);
}

#[test]
fn without_a_mirror_the_wait_ends_with_the_reason() {
    let Some(server) = Server::start() else { return };
    let (client, place, url) = (Client::connect(&server.url()), Place::new(), server.url());
    client.create("b");
    let path = place.path();
    let text = ends(&url, &["put", "b", &path, "m", "k", "v"], 3);
    assert!(text.contains("map 'm'") && client.pairs("b").is_empty(), "{text}");
    let mirror = Bridge::mirror(&place, &url, "b", "m");
    place.map("m");
    eventually("it runs", || place.report("m").is_some_and(|report| report["ready"] == true));
    mirror.stop();
    let text = ends(&url, &["put", "b", &path, "m", "k", "v", "--timeout", "200ms"], 3);
    assert!(text.contains("does not show revision 1") && text.contains("mirror"), "{text}");
    assert_eq!(client.pairs("b").len(), 1);
}
