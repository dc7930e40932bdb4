//! Three servers, of which the leader is killed under load.

use crate::bridge::{Bridge, Place, pairs};
use crate::client::Client;
use crate::server::{Cluster, eventually};
use commonhold::map::MapOptions;
use std::time::Duration;

#[test]
fn a_killed_leader_costs_no_change() {
    let Some(cluster) = Cluster::start() else { return };
    let (client, urls) = (Client::connect(&cluster.urls()), cluster.urls());
    let (here, there) = (Place::new(), Place::new());
    client.create_with("b", |config| async_nats::jetstream::stream::Config {
        num_replicas: 3,
        ..config
    });
    let map = here.hold.maps().create("m", MapOptions::general()).unwrap();
    let mut publisher = Bridge::publish(&here, &urls, "m", "b");
    let mut mirror = Bridge::mirror(&there, &urls, "b", "m");
    let leader = || client.info("b").cluster.and_then(|cluster| cluster.leader);
    for round in 0..2 {
        for number in 0..2000 {
            map.set(format!("k{}", number % 100), format!("{round} {number}")).unwrap();
            if number == 1000 {
                eventually("there is a leader", || leader().is_some());
                let name = leader().unwrap();
                cluster.kill(&name);
                std::thread::sleep(Duration::from_millis(500));
                cluster.run_again(&name);
            }
            if number % 20 == 0 {
                std::thread::sleep(Duration::from_millis(5));
            }
        }
        eventually("the bucket agrees with the map", || client.pairs("b") == pairs(&map));
        let copy = there.map("m");
        eventually("the mirror agrees with the map", || pairs(&copy) == pairs(&map));
    }
    assert!(publisher.lives(), "{}", publisher.said());
    assert!(mirror.lives(), "{}", mirror.said());
}
