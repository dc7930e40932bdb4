//! Peers that may not read the hold, and too many of them, learn nothing and hold up nothing.

use super::Shop;
use crate::cast::raise_file_limit;
use crate::hostile::words::{CHALLENGE, HELLO, PROOF, Peer, frame, hello, preface};
use crate::party::{LONG, eager};
use commonhold::raw::RawFrame;
use commonhold_replicate::{HoldReplicaOptions, ReplicaOptions, Secret};
use commonhold_testing::alone::alone;
use commonhold_testing::support::process::until;

fn secret() -> Secret {
    Secret::new("what the two of them know")
}

/// The first message of a replica with a wish.
fn greeting(kind: u16, map: &str) -> Vec<u8> {
    let mut value = hello(None);
    // The capability, the number and the name of the replica.
    value[32] = 4;
    value.extend([0; 8]);
    value.extend([0; 2]);
    value.extend(kind.to_le_bytes());
    value.extend((map.len() as u16).to_le_bytes());
    value.extend(map.as_bytes());
    [preface(), frame(HELLO, 0, &[0x5a; 32], &value)].concat()
}

#[test]
fn a_wrong_secret_learns_nothing() {
    let shop = Shop::with(&["apples"], |options| options.origin.secret = Some(secret()));
    // A map that exists, one that does not, the catalogue, and no wish.
    for (kind, map) in [(1, "apples"), (2, "apples"), (1, "none"), (2, "none"), (3, ""), (9, "")] {
        let mut peer = Peer::of(&shop.address);
        peer.say(&greeting(kind, map));
        assert_eq!(peer.receive(16), preface());
        let challenge = peer.receive_frame();
        let challenge = RawFrame::decode(&challenge).unwrap();
        assert_eq!((challenge.code, challenge.value.len()), (CHALLENGE, 0));
        peer.say(&frame(PROOF, 0, &[7; 32], &[]));
        assert_eq!(peer.is_sent_away(), 0, "it was told something about '{map}'");
    }
    shop.reports("does not know the secret");
    for secret in [None, Some(Secret::new("something that is not it"))] {
        let replica = shop.follow_with(|options| options.replica.secret = secret);
        assert!(replica.wait(LONG, |status| status.last_error.is_some()));
        let status = replica.status();
        let why = status.last_error.unwrap();
        assert!(why.contains("secret"), "{why}");
        assert!(status.maps.is_empty() && !status.listed);
    }
    let replica = shop.follow_with(|options| options.replica.secret = Some(secret()));
    assert!(replica.wait_ready(LONG), "{:?}", replica.status());
    shop.agrees("apples");
}

/// With a secret of its own, a replica follows only an origin that knows it.
#[test]
fn an_origin_that_does_not_know_the_secret_is_not_followed() {
    let shop = Shop::new(&["apples"]);
    let replica = shop.follow_with(|options| options.replica.secret = Some(secret()));
    let says = |why: &String| why.contains("the origin does not know the secret");
    assert!(replica.wait(LONG, |status| status.last_error.as_ref().is_some_and(says)));
    assert!(replica.status().maps.is_empty());
}

#[test]
fn other_users_are_refused() {
    let uid = rustix::process::getuid().as_raw();
    let other = Shop::with(&["apples"], |options| {
        options.origin.allowed_uids = Some(vec![uid + 1]);
    });
    let mut peer = Peer::of(&other.address);
    peer.say(&greeting(1, "apples"));
    assert_eq!(peer.is_sent_away(), 0);
    other.reports(&format!("refused: its process belongs to user {uid}"));
    let own = Shop::with(&["apples"], |options| options.origin.allowed_uids = Some(vec![uid]));
    assert!(own.follow().wait_ready(LONG));
}

#[test]
fn each_map_has_its_maximum_of_replicas() {
    let shop = Shop::with(&["apples", "pears"], |options| options.origin.most_replicas = 1);
    let first = shop.follow();
    assert!(first.wait_ready(LONG), "{:?}", first.status());
    for (kind, map) in [(1, "apples"), (2, "pears")] {
        let mut peer = Peer::of(&shop.address);
        peer.say(&greeting(kind, map));
        assert_eq!(peer.is_sent_away(), 0);
    }
    shop.reports("refused: the maximum number of replicas is connected");
    let mut peer = Peer::of(&shop.address);
    peer.say(&greeting(3, ""));
    peer.is_sent_away();
    drop(first);
    let next = shop.follow();
    assert!(next.wait_ready(LONG), "{:?}", next.status());
}

/// Any bytes may come: only the peer that sends them is disconnected.
#[test]
fn peers_that_send_something_else_are_disconnected() {
    let shop = Shop::new(&["apples"]);
    let replica = shop.follow();
    assert!(replica.wait_ready(LONG), "{:?}", replica.status());
    let long = vec![0xff; 4096];
    let twice = [greeting(3, ""), frame(HELLO, 0, &[0x5a; 32], &[])].concat();
    for (words, why) in [
        (&b"GET / HTTP/1.1\r\n\r\n"[..], "does not speak the protocol of replicas"),
        (&[preface(), frame(PROOF, 0, &[7; 32], &[])].concat(), "unexpected frame (code 0x102)"),
        (&[preface(), long].concat(), "sent an invalid frame"),
        (&twice, "unexpected frame (code 0x100)"),
        (&[greeting(1, "apples"), frame(HELLO, 0, &[], &[])].concat(), "unexpected frame"),
    ] {
        let mut peer = Peer::of(&shop.address);
        peer.say(words);
        peer.is_sent_away();
        shop.reports(why);
    }
    let silent = Peer::of(&shop.address);
    let mut silent_after_preface = Peer::of(&shop.address);
    silent_after_preface.say(&preface());
    for mut peer in [silent, silent_after_preface] {
        assert_eq!(peer.is_sent_away(), 0);
    }
    shop.reports("did not identify itself in time");
    shop.map("apples").set("later", "1").unwrap();
    shop.agrees("apples");
    let map = replica.status().maps[0].replica.clone().unwrap();
    assert_eq!((map.connections, map.synchronisations), (1, 1), "{map:?}");
}

/// The oldest of them make room.
#[test]
fn many_silent_peers_do_not_keep_a_replica_out() {
    alone("holds::strangers::many_silent_peers_do_not_keep_a_replica_out", || {
        raise_file_limit();
        let shop = Shop::new(&["apples"]);
        let silent: Vec<Peer> = (0..1500).map(|_| Peer::of(&shop.address)).collect();
        shop.reports("had not identified itself when many others came");
        let options = ReplicaOptions { name: "it".to_owned(), ..eager() };
        let replica = shop.follow_with(|all| {
            *all = HoldReplicaOptions { replica: options, ..HoldReplicaOptions::default() };
        });
        assert!(replica.wait_ready(LONG), "{:?}", replica.status());
        drop(silent);
        let map = shop.map("apples");
        map.wait_for_replica("it", LONG).unwrap();
        until("the copy agrees", || replica.status().is_ready());
    });
}
