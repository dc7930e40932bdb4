//! Publisher, mirror and server are killed at random while a map changes. At the end the map, the
//! bucket and the mirror's map agree byte for byte.

use crate::bridge::{Bridge, Place, pairs};
use crate::client::Client;
use crate::server::{Server, eventually};
use commonhold::map::{Map, MapOptions};
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

const KEYS: u64 = 50;

/// How long the kills last.
pub fn duration() -> Duration {
    let long = std::env::var_os("COMMONHOLD_LONG").is_some();
    Duration::from_secs(if long { 180 } else { 8 })
}

/// Changes the map until it shall stop: the values of a key only grow, as text of some length.
fn change(map: &Map, stop: &AtomicBool) {
    let mut number = 0u64;
    while !stop.load(Ordering::Relaxed) {
        number += 1;
        let key = format!("k{}", fastrand::u64(..KEYS));
        let value = format!("{number} {}", "x".repeat(fastrand::usize(..300)));
        match fastrand::u8(..20) {
            0 => map.delete(&key).map(drop).unwrap(),
            _ => map.set(&key, &value).map(drop).unwrap(),
        }
        if number.is_multiple_of(20) {
            std::thread::sleep(Duration::from_millis(2));
        }
    }
}

/// The number in a value.
fn number(value: &[u8]) -> u64 {
    let text = std::str::from_utf8(value).unwrap();
    text.split(' ').next().unwrap().parse().unwrap()
}

/// Checks that no value of the mirror's map is older than one that was seen before.
fn watch(place: &Place, stop: &AtomicBool) {
    let map = place.map("m");
    let mut seen = vec![0; KEYS as usize];
    while !stop.load(Ordering::Relaxed) {
        for (place, seen) in seen.iter_mut().enumerate() {
            if let Some(value) = map.get(format!("k{place}")).unwrap() {
                assert!(number(&value) >= *seen, "k{place} went back to {}", number(&value));
                *seen = number(&value);
            }
        }
        std::thread::sleep(Duration::from_micros(200));
    }
}

pub struct Stop<'a>(pub &'a AtomicBool);

impl Drop for Stop<'_> {
    fn drop(&mut self) {
        self.0.store(true, Ordering::Relaxed);
    }
}

fn run(kills_server: bool) {
    let Some(server) = Server::start() else { return };
    let (client, url) = (Client::connect(&server.url()), server.url());
    let (here, there) = (Place::new(), Place::new());
    client.create("b");
    let map = here.hold.maps().create("m", MapOptions::general()).unwrap();
    here.hold.maps().begin_stream("m", 256 << 10).unwrap();
    let stop = AtomicBool::new(false);
    let mut publisher = Bridge::publish(&here, &url, "m", "b");
    let mut mirror = Bridge::mirror(&there, &url, "b", "m");
    std::thread::scope(|scope| {
        let writer = scope.spawn(|| change(&map, &stop));
        // A server that was killed may have lost what it had acknowledged: then values go back.
        let watcher = (!kills_server).then(|| scope.spawn(|| watch(&there, &stop)));
        let stopper = Stop(&stop);
        let begun = Instant::now();
        while begun.elapsed() < duration() {
            std::thread::sleep(Duration::from_millis(fastrand::u64(50..600)));
            match fastrand::u8(..if kills_server { 3 } else { 2 }) {
                0 => {
                    publisher.kill();
                    publisher = Bridge::publish(&here, &url, "m", "b");
                }
                1 => {
                    mirror.kill();
                    mirror = Bridge::mirror(&there, &url, "b", "m");
                }
                _ => {
                    server.kill();
                    std::thread::sleep(Duration::from_millis(fastrand::u64(..300)));
                    server.run_again();
                }
            }
            assert!(publisher.lives(), "{}", publisher.said());
            assert!(mirror.lives(), "{}", mirror.said());
        }
        drop(stopper);
        writer.join().unwrap();
        if let Some(watcher) = watcher {
            watcher.join().unwrap();
        }
    });
    let wanted = pairs(&map);
    eventually("the bucket agrees with the map", || client.pairs("b") == wanted);
    assert!(publisher.lives(), "{}", publisher.said());
    let copy = there.map("m");
    eventually("the mirror agrees with the map", || pairs(&copy) == wanted);
    assert!(mirror.lives(), "{}", mirror.said());
    assert!(here.hold.check().unwrap().ok && there.hold.check().unwrap().ok);
}

#[test]
fn killed_bridges_lose_nothing_and_never_go_back() {
    run(false);
}

#[test]
fn killed_bridges_and_servers_lose_nothing() {
    run(true);
}
