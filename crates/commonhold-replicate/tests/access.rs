//! Without a secret, an origin listens only where this machine connects, unless its options allow
//! other clients by name.

use crate::party::{Copy, Source, eager};
use commonhold::map::MapOptions;
use commonhold::{ErrorKind, Hold};
use commonhold_replicate::{Address, OriginOptions, Replica, ReplicaOptions, Secret};
use commonhold_testing::support::refused;
use std::net::TcpListener;

const WIDE: &str = "tcp:0.0.0.0:0";

fn wide_socket() -> TcpListener {
    TcpListener::bind("0.0.0.0:0").unwrap()
}

fn source(change: impl FnOnce(&mut OriginOptions)) -> Source {
    let source = Source::with(MapOptions::general(), change);
    source.map.set("a", "1").unwrap();
    source
}

#[test]
fn without_a_secret_an_origin_listens_only_on_this_machine() {
    let source = source(|_| ());
    for wide in [WIDE, "tcp:[::]:0", "tcp:192.0.2.1:7400", "tcp:example.org:7400"] {
        let text = format!("{wide}: other machines can connect, but the origin has no secret");
        refused(source.origin().listen(&wide.parse().unwrap()), ErrorKind::Invalid, &text);
    }
    let socket = wide_socket();
    let address = socket.local_addr().unwrap();
    let text = format!("tcp:{address}: other machines can connect");
    refused(source.origin().listen_on(socket.into()), ErrorKind::Invalid, &text);
    // The refused socket is closed, and no other socket listens.
    TcpListener::bind(address).unwrap();
    assert_eq!(source.origin().addresses(), std::slice::from_ref(&source.address));
    assert!(!source.has_said("other machines"), "{:?}", source.said);

    for local in ["tcp:0", "tcp:localhost:0", "tcp:127.0.0.1:0"] {
        let address = source.origin().listen(&local.parse().unwrap()).unwrap();
        Copy::at(&source, "copy.hold", &address).agrees(&source);
    }
    let own = TcpListener::bind("127.0.0.1:0").unwrap();
    source.origin().listen_on(own.into()).unwrap();
}

/// The same address, through the loopback interface.
fn near(address: &Address) -> Address {
    let Address::Tcp(_, port) = address else { panic!("{address} is not TCP") };
    Address::Tcp("127.0.0.1".into(), *port)
}

#[test]
fn other_machines_connect_with_a_secret_or_by_name() {
    let secret = || Secret::new("what the two of them know");
    for with_secret in [true, false] {
        let source = source(|options| {
            options.secret = with_secret.then(secret);
            options.allow_unauthenticated = !with_secret;
        });
        let addresses = [
            source.origin().listen(&WIDE.parse().unwrap()).unwrap(),
            source.origin().listen_on(wide_socket().into()).unwrap(),
        ];
        for (number, address) in addresses.iter().enumerate() {
            assert!(source.has_said(&format!("{address}: other machines")), "{:?}", source.said);
            let hold = Hold::create(source.test_dir.path(&format!("{number}.hold"))).unwrap();
            let options = ReplicaOptions { secret: with_secret.then(secret), ..eager() };
            let replica = Replica::connect(&hold, "it", &near(address), options, ()).unwrap();
            Copy { hold, replica }.agrees(&source);
        }
    }
}
