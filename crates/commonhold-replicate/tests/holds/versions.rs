//! Programs of different kinds and versions meet: each gets a reason that names the way out.

use super::{Shop, one};
use crate::hostile::words::{ORIGIN, Peer, Welcome, greeting};
use crate::party::{Copy, LONG, Source, eager};
use commonhold::Hold;
use commonhold::map::{MapMode, MapOptions};
use commonhold::raw::RawFrame;
use commonhold::stream::StreamPosition;
use commonhold_replicate::{Address, HoldReplica, HoldReplicaOptions, Replica, ReplicaOptions};
use commonhold_testing::support::test_dir::TestDir;
use std::io::{Read, Write};
use std::os::unix::net::UnixListener;

/// An origin of a version that does not know of whole holds: it serves its only map to everybody.
fn old_origin(test_dir: &TestDir) -> Address {
    let path = test_dir.path("old");
    let listener = UnixListener::bind(&path).unwrap();
    std::thread::spawn(move || {
        for socket in listener.incoming() {
            let mut socket = socket.unwrap();
            let mut hello = [0; 16 + 72 + 64];
            // A replica that is refused may leave in the middle.
            let _ = socket.read_exact(&mut hello);
            let position = StreamPosition { stream: 7, offset: 0 };
            let _ = socket.write_all(&Welcome::to(MapMode::General, position).words());
            let _ = socket.read_to_end(&mut Vec::new());
        }
    });
    Address::Unix(path)
}

#[track_caller]
fn complains(replica: &HoldReplica, text: &str) {
    let says = |why: &String| why.contains(text);
    let complained = replica.wait(LONG, |status| status.last_error.as_ref().is_some_and(says));
    assert!(complained, "no '{text}': {:?}", replica.status());
    assert!(replica.status().maps.is_empty() && !replica.status().listed);
}

fn follow(test_dir: &TestDir, address: &Address) -> HoldReplica {
    let hold = Hold::open_or_create(test_dir.path("copy.hold")).unwrap();
    let options = HoldReplicaOptions { replica: eager(), maps: Vec::new() };
    HoldReplica::connect(&hold, address, options, ()).unwrap()
}

#[test]
fn a_replica_of_a_hold_reports_that_the_origin_is_too_old() {
    let test_dir = TestDir::memory();
    let address = old_origin(&test_dir);
    let replica = follow(&test_dir, &address);
    let text = "its version of the program cannot serve the maps of a whole hold; update the \
                origin's program, or follow this one map";
    complains(&replica, text);
    drop(replica);
    // The same for a map by name. A map that may have any name is followed as before.
    let hold = Hold::open_or_create(test_dir.path("copy.hold")).unwrap();
    let options = ReplicaOptions { map: Some("pears".to_owned()), ..eager() };
    let replica = Replica::connect(&hold, "pears", &address, options, ()).unwrap();
    let says = |why: &String| why.contains("cannot serve the map 'pears' of a hold");
    let refused = replica.wait(LONG, |status| status.last_error.as_ref().is_some_and(says));
    assert!(refused, "{:?}", replica.status());
    let any = Replica::connect(&hold, "any", &address, eager(), ()).unwrap();
    assert!(any.wait(LONG, |status| status.connected), "{:?}", any.status());
}

#[test]
fn an_origin_of_one_map_refuses_other_wishes() {
    let source = Source::new(MapOptions::general());
    source.map.set("a", "1").unwrap();
    let replica = follow(&source.test_dir, &source.address);
    complains(&replica, "serves only the map 'it', not the maps of a whole hold");
    let hold = Hold::open_or_create(source.test_dir.path("other.hold")).unwrap();
    let wants = |of: &str| {
        let options = ReplicaOptions { map: Some(of.to_owned()), ..eager() };
        Replica::connect(&hold, &format!("of {of}"), &source.address, options, ()).unwrap()
    };
    let other = wants("pears");
    let text = "serves only the map 'it', not the map 'pears'";
    let says = |why: &String| why.contains(text);
    let refused = other.wait(LONG, |status| status.last_error.as_ref().is_some_and(says));
    assert!(refused, "{:?}", other.status());
    assert!(wants("it").wait_ready(LONG));
    // Without a wish, the name does not matter.
    Copy::of(&source, "copy.hold").agrees(&source);
}

/// A replica of an earlier version does not name a map.
#[test]
fn a_replica_that_names_no_map_is_refused_with_a_reason() {
    let shop = Shop::new(&["apples"]);
    let mut peer = Peer::of(&shop.address);
    peer.say(&greeting(None));
    peer.receive(16);
    let frame = peer.receive_frame();
    let frame = RawFrame::decode(&frame).unwrap();
    let text = String::from_utf8_lossy(frame.value).into_owned();
    assert!(frame.code == ORIGIN && text.contains("does not name one of them"), "{text}");
    peer.is_sent_away();
    shop.reports("refused: serves all maps of a hold");
    let replica = shop.follow();
    assert!(replica.wait_ready(LONG), "{:?}", replica.status());
    assert!(one(&replica.status(), "apples").is_some());
}
