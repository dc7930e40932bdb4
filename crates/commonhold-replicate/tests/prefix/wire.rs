//! The bytes between an origin and a replica of a prefix: few for changes that the replica does not
//! want, and none that either side believes blindly.

use super::{agrees, part, write};
use crate::hostile::words::{
    COMPLETE, HELLO, LINEAGE, Peer, SET, TIME, WELCOME, Welcome, frame, hello, preface,
};
use crate::party::{Copy, LONG, Source, pairs};
use commonhold::map::{MapMode, MapOptions};
use commonhold::raw::RawFrame;
use commonhold::stream::StreamPosition;
use commonhold_replicate::{Address, ReplicaStatus};
use commonhold_testing::support::process::until;
use std::io::{Read, Write};
use std::os::unix::net::{UnixListener, UnixStream};

const SKIP: u32 = 0x114;
/// The capabilities of a map of a hold, and of a prefix.
const CAPABILITIES: u64 = 4 | 8;

/// The first message of a replica that has nothing and wants the map `it`, with these bytes behind
/// its wish.
fn greeting(capabilities: u64, behind: &[u8]) -> Vec<u8> {
    let mut value = hello(None);
    value[32..40].copy_from_slice(&capabilities.to_le_bytes());
    let wish = [&[1, 0, 2, 0][..], b"it"].concat();
    let value = [&value[..], &[0; 8], &[1, 0, 0], &wish, behind].concat();
    [preface(), frame(HELLO, 0, &[0x5a; 32], &value)].concat()
}

/// The code, the offset, the key and the value of a frame.
fn parts(frame: &[u8]) -> (u32, u64, Vec<u8>, Vec<u8>) {
    let frame = RawFrame::decode(frame).expect("a frame");
    (frame.code, frame.offset, frame.key.to_vec(), frame.value.to_vec())
}

fn long(bytes: &[u8], at: usize) -> u64 {
    u64::from_le_bytes(bytes[at..at + 8].try_into().unwrap())
}

#[test]
fn changes_that_a_replica_does_not_want_cost_hardly_any_bytes() {
    const CHANGES: u32 = 100_000;
    let source = Source::with(MapOptions::general(), |options| options.stream_bytes = 64 << 20);
    source.map.set("wanted", "0").unwrap();
    source.map.set("other", "0").unwrap();
    let mut peer = Peer::of(&source.address);
    peer.say(&greeting(CAPABILITIES, &[3, 0, b'w', b'a', b'n']));
    assert_eq!(peer.receive(16), preface());
    let (_, _, _, origin) = parts(&peer.receive_frame());
    assert_eq!(long(&origin, 8) & CAPABILITIES, CAPABILITIES);
    let (code, mut at, _, _) = parts(&peer.receive_frame());
    assert_eq!(code, WELCOME);
    let mut keys = Vec::new();
    loop {
        let (code, _, key, _) = parts(&peer.receive_frame());
        match code {
            TIME => {}
            COMPLETE => break,
            _ => keys.push(key),
        }
    }
    assert_eq!(keys, [b"wanted"]);
    let reader = std::thread::spawn(move || {
        let mut bytes = 0;
        loop {
            let frame = peer.receive_frame();
            bytes += frame.len() as u64;
            let (code, offset, key, value) = parts(&frame);
            assert_eq!(offset, at, "each position follows the last");
            match code {
                SKIP => at = long(&value, 0),
                TIME => {}
                _ => {
                    assert_eq!((code, &key[..]), (SET, &b"wanted"[..]));
                    return (bytes, at);
                }
            }
        }
    });
    let begun = source.end().offset;
    for number in 0..CHANGES {
        source.map.set(number.to_le_bytes(), [1; 200]).unwrap();
    }
    let end = source.end().offset;
    source.map.set("wanted", "1").unwrap();
    let (bytes, at) = reader.join().unwrap();
    assert_eq!(at, end);
    assert!(bytes * 100 < end - begun, "{bytes} bytes for {}", end - begun);
}

#[test]
fn prefixes_that_cannot_be_are_refused_by_name() {
    let source = Source::new(MapOptions::general());
    write(&source.map, 1);
    let honest = part(&source, "honest.hold", &[3]);
    agrees(&honest, &source, &[3]);
    let long = [&[0, 1][..], &[7; 256]].concat();
    for (number, (behind, why)) in [
        (&[1][..], "asks for a prefix of keys without its length"),
        (&[4, 0, 1, 2, 3], "asks for a prefix of 4 bytes, and sends 3"),
        (&[255, 0], "asks for a prefix of 255 bytes, and sends 0"),
        (&[0xff, 0xff, 1], "asks for a prefix of 65535 bytes; the maximum is 255"),
        (&long, "asks for a prefix of 256 bytes; the maximum is 255"),
    ]
    .into_iter()
    .enumerate()
    {
        let mut peer = Peer::of(&source.address);
        peer.say(&greeting(CAPABILITIES, behind));
        peer.is_sent_away();
        until("the origin says why", || source.said.lock().unwrap().len() > number);
        assert!(source.has_said(why), "{:?}", source.said);
    }
    write(&source.map, 2);
    agrees(&honest, &source, &[3]);
    assert_eq!(honest.replica.status().connections, 1);
}

/// Later fields of replicas without the capability are no prefix, and no bytes stand for all keys.
#[test]
fn replicas_without_a_prefix_get_all_keys() {
    let source = Source::new(MapOptions::general());
    source.map.set("other", "0").unwrap();
    for (capabilities, behind) in
        [(4, &[0xff, 0xff, 0xff][..]), (CAPABILITIES, &[]), (CAPABILITIES, &[0, 0, 9, 9])]
    {
        let mut peer = Peer::of(&source.address);
        peer.say(&greeting(capabilities, behind));
        peer.receive(16);
        (0..2).for_each(|_| drop(peer.receive_frame()));
        let mut keys = Vec::new();
        loop {
            let (code, _, key, _) = parts(&peer.receive_frame());
            match code {
                TIME => {}
                COMPLETE => break,
                _ => keys.push(key),
            }
        }
        assert_eq!(keys, [b"other"], "{capabilities} {behind:?}");
    }
}

/// A listener in the place of an origin that has ended.
struct Liar {
    listener: UnixListener,
    /// Where the replica is.
    position: StreamPosition,
}

impl Liar {
    fn instead_of(source: &mut Source) -> Liar {
        let position = source.end();
        source.origin = None;
        let Address::Unix(path) = &source.address else { unreachable!() };
        Liar { listener: UnixListener::bind(path).unwrap(), position }
    }

    /// Welcomes the replica at its position, and sends the words behind that.
    fn say(&self, capabilities: u64, words: &[u8]) -> UnixStream {
        let (mut talk, _) = self.listener.accept().unwrap();
        talk.set_read_timeout(Some(LONG)).unwrap();
        let mut greeting = vec![0; LINEAGE.end];
        talk.read_exact(&mut greeting).unwrap();
        let lineage = greeting[LINEAGE].try_into().unwrap();
        let welcome = Welcome { whole: 0, lineage, ..Welcome::to(MapMode::General, self.position) };
        let words = [&welcome.words_with(capabilities)[..], words].concat();
        // The replica may close earlier.
        let _ = talk.write_all(&words);
        talk
    }
}

fn skip(at: u64, to: u64, bytes: u32) -> Vec<u8> {
    let value = [&to.to_le_bytes()[..], &bytes.to_le_bytes(), &9u32.to_le_bytes()].concat();
    frame(SKIP, at, &[], &value)
}

#[track_caller]
fn fails_with(copy: &Copy, why: &str) {
    let told = |status: &ReplicaStatus| {
        status.last_error.as_ref().is_some_and(|error| error.contains(why))
    };
    assert!(copy.replica.wait(LONG, told), "no '{why}': {:?}", copy.replica.status());
}

#[test]
fn skips_that_cannot_be_are_refused_by_name() {
    let mut source = Source::new(MapOptions::general());
    write(&source.map, 1);
    let copy = part(&source, "copy.hold", &[3]);
    agrees(&copy, &source, &[3]);
    let was = copy.pairs();
    let liar = Liar::instead_of(&mut source);
    let at = liar.position.offset;
    for (words, why) in [
        (skip(at, at - 48, 48), format!("sent a SKIP from offset {at} back to {}", at - 48)),
        (skip(at, at, 48), format!("sent a SKIP from offset {at} back to {at}")),
        (skip(at, 0, 48), format!("sent a SKIP from offset {at} back to 0")),
        (skip(at, u64::MAX - 7, 48), "the maximum is 8589934592 bytes".to_owned()),
        (skip(at, at + (1 << 33) + 8, 48), "the maximum is 8589934592 bytes".to_owned()),
        (skip(at, at + 48, 56), "with a last change of 56 bytes".to_owned()),
        (skip(at, at + 52, 48), format!("from offset {at} to {}", at + 52)),
        (skip(at, at + 48, 0), "without a last change".to_owned()),
        (skip(at + 8, at + 56, 48), format!("sent offset {} after {at}", at + 8)),
        (skip(at - 48, at, 48), format!("sent offset {} after {at}", at - 48)),
        (frame(SKIP, at, &[], &[1; 15]), "sent an unexpected frame (code 0x114)".to_owned()),
        (
            [skip(at, at + 96, 48), frame(SET, at, &[3], b"lie")].concat(),
            format!("sent offset {at} after {}", at + 96),
        ),
    ] {
        drop(liar.say(CAPABILITIES, &words));
        fails_with(&copy, &why);
        assert_eq!(copy.pairs(), was);
        if why.contains(&format!("after {}", at + 96)) {
            continue;
        }
        assert_eq!(copy.replica.status().position, Some(liar.position), "{why}");
    }
}

#[test]
fn a_replica_without_a_prefix_takes_no_skip() {
    let mut source = Source::new(MapOptions::general());
    write(&source.map, 1);
    let copy = Copy::of(&source, "copy.hold");
    copy.agrees(&source);
    let liar = Liar::instead_of(&mut source);
    let at = liar.position.offset;
    drop(liar.say(CAPABILITIES, &skip(at, at + 48, 48)));
    fails_with(&copy, "sent an unexpected frame (code 0x114)");
    assert_eq!(copy.pairs(), pairs(&source.map));
}

/// It would send all keys.
#[test]
fn an_origin_without_the_capability_is_not_followed() {
    let mut source = Source::new(MapOptions::general());
    write(&source.map, 1);
    let copy = part(&source, "copy.hold", &[3]);
    agrees(&copy, &source, &[3]);
    let liar = Liar::instead_of(&mut source);
    let at = liar.position.offset;
    drop(liar.say(4, &frame(SET, at, &[4], b"not wanted")));
    fails_with(&copy, "cannot send the keys that begin with '\\x03' alone; update the origin's");
    assert_eq!(copy.replica.status().position, Some(liar.position));
    // Without a prefix there is nothing to understand.
    drop(copy);
    let whole = Copy::of(&source, "whole.hold");
    drop(liar.say(0, &frame(SET, at, &[4], b"wanted")));
    fails_with(&whole, "continues at a position that this replica never had");
}
