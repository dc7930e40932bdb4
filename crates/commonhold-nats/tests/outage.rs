//! Bridges report the loss of their servers, and end on a signal meanwhile.

use crate::bridge::{Bridge, Place, pairs};
use crate::client::Client;
use crate::server::{Server, eventually};
use commonhold::map::MapOptions;

#[test]
fn reports_go_on_and_a_signal_ends_the_bridges() {
    let Some(server) = Server::start() else { return };
    let (client, place, url) = (Client::connect(&server.url()), Place::new(), server.url());
    client.create("b");
    client.create("published");
    let map = place.hold.maps().create("own", MapOptions::general()).unwrap();
    map.set("k", "1").unwrap();
    let publisher = Bridge::publish(&place, &url, "own", "published");
    let mirror = Bridge::mirror(&place, &url, "b", "m");
    let ready = |map| place.report(map).is_some_and(|report| report["ready"] == true);
    eventually("both are ready", || ready("own") && ready("m"));
    eventually("the pair is there", || client.pairs("published") == pairs(&map));
    server.kill();
    for number in 0..100 {
        map.set(format!("k{number}"), "while it is away").unwrap();
    }
    let number = |map: &str, field: &str| {
        place.report(map).and_then(|report| report[field].as_u64()).unwrap_or_default()
    };
    for map in ["own", "m"] {
        eventually("the loss is reported", || number(map, "disconnected_ms") > 2000);
        eventually("with its error", || {
            place.report(map).is_some_and(|report| {
                report["connected"] == false && report["last_error"].is_string()
            })
        });
        let before = number(map, "lag_ms");
        eventually("the lag grows", || number(map, "lag_ms") > before.max(2000));
    }
    eventually("all changes count", || number("own", "lag_messages") > 50);
    assert_eq!(publisher.stop(), Some(0));
    assert_eq!(mirror.stop(), Some(0));
}
