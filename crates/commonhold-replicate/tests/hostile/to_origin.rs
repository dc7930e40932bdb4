//! Peers that send wrong messages to an origin.

use super::words::{
    self, APPLIED, HELLO, ORIGIN, PROOF, Peer, SET, WELCOME, frame, greeting, preface,
};
use super::{Besieged, follow};
use crate::party::{Copy, Source};
use commonhold::map::MapOptions;
use commonhold::raw::{Proof, proof_at};
use commonhold::stream::StreamPosition;
use commonhold_replicate::Secret;
use commonhold_testing::support::Dice;
use commonhold_testing::support::process::until;
use std::time::{Duration, Instant};

#[test]
fn peers_of_other_protocols_are_disconnected() {
    let mut origin = Besieged::new();
    let other = "does not speak the protocol of replicas";
    let mut version = preface();
    version[12] = 1;
    let tls = [0x16, 3, 1, 2, 0, 1, 0, 1, 0xfc, 3, 3];
    for (words, why) in [
        (&b"GET / HTTP/1.1\r\nHost: example.org\r\n\r\n"[..], other),
        (b"\n", other),
        (b"COMMONHOLD-Q\x01\0\0\0", other),
        (b"COMMHOLD", other),
        (&tls, other),
        (&version, "speaks version 1 of the protocol, and this program version 2"),
        (b"COMMONHOLD-R\xff\xff\xff\xff", "speaks version 4294967295"),
    ] {
        origin.refuses(words, why);
    }
    origin.has_held(None);
}

/// A frame's first words with its length, and more bytes than any frame may have here.
fn of_length(bytes: u32) -> Vec<u8> {
    let mut words = frame(APPLIED, 0, &[], &[]);
    words[..4].copy_from_slice(&bytes.to_le_bytes());
    words.resize(1200, 0);
    words
}

#[test]
fn frames_that_cannot_be_are_refused_before_and_after_the_hello() {
    let mut origin = Besieged::new();
    for before in [preface(), greeting(None)] {
        for bytes in [0, 1, 8, 32, 39, 41, 44, 63, 97, 1023, u32::MAX] {
            let words = [before.clone(), of_length(bytes)].concat();
            origin.refuses(&words, "sent an invalid frame");
        }
        for bytes in [1032u32, 4096, 1 << 31, u32::MAX - 7] {
            let words = [before.clone(), of_length(bytes)].concat();
            let why = format!("announces a frame of {bytes} bytes; the maximum is 1024");
            origin.refuses(&words, &why);
        }
        for bytes in [48, 1024] {
            let words = [before.clone(), of_length(bytes)].concat();
            origin.refuses(&words, "whose checksum is wrong");
        }
        // Lengths of the parts that are not those of the whole.
        for (at, len) in [(24, 1u32), (24, u32::MAX), (28, u32::MAX - 39), (36, 1)] {
            let mut words = frame(APPLIED, 0, &[], &[]);
            words[at..at + 4].copy_from_slice(&len.to_le_bytes());
            words::seal(&mut words);
            origin.refuses(&[before.clone(), words].concat(), "checksum is wrong");
        }
        let mut dice = Dice::new(1);
        let garbage: Vec<u8> = (0..1000).map(|_| dice.roll() as u8).collect();
        origin.refuses(&[before, garbage].concat(), "frame");
    }
    origin.has_held(None);
}

#[test]
fn words_out_of_turn_are_refused() {
    let mut origin = Besieged::new();
    let turn = |code: u32| format!("sent an unexpected frame (code {code:#x})");
    let codes =
        [0, SET, 6, 7, 0xff, 0x101, WELCOME, ORIGIN, 0x110, 0x111, 0x112, 0x121, 0x999, u32::MAX];
    for code in [PROOF, APPLIED].into_iter().chain(codes) {
        let words = [preface(), frame(code, 0, &[1; 32], &[0; 64])].concat();
        origin.refuses(&words, &turn(code));
    }
    for code in [HELLO, PROOF].into_iter().chain(codes) {
        let words = [greeting(None), frame(code, 0, &[1; 32], &[0; 64])].concat();
        origin.refuses(&words, &turn(code));
    }
    let mut known = words::hello(None);
    known[16] = 2;
    for (key, value) in [
        (&[1; 31][..], &[0; 64][..]),
        (&[1; 33], &[0; 64]),
        (&[1; 32], &[0; 63]),
        (&[1; 32], &known),
        (&[], &[]),
    ] {
        let words = [preface(), frame(HELLO, 0, key, value)].concat();
        origin.refuses(&words, &turn(HELLO));
    }
    origin.has_held(None);
}

/// A replica of a later version, which keeps the greeting: it states more than this version knows.
#[test]
fn replicas_of_later_versions_are_served() {
    let mut origin = Besieged::new();
    let mut value = words::hello(None);
    value[20] = 3;
    value[32..40].fill(0xff);
    value.extend([9; 100]);
    let mut peer = origin.peer();
    peer.say(&[preface(), frame(HELLO, 0, &[1; 32], &value)].concat());
    peer.receive(16);
    let codes = [peer.receive_frame(), peer.receive_frame()].map(|frame| frame[32..36].to_vec());
    assert_eq!(codes, [ORIGIN, WELCOME].map(|code| code.to_le_bytes().to_vec()));
    drop(peer);
    origin.reports("unix:pid");
    origin.has_held(None);
}

#[test]
fn peers_that_end_in_the_middle_are_forgotten() {
    let mut origin = Besieged::new();
    let words = [greeting(None), frame(APPLIED, 8, &[], &[])].concat();
    for len in 0..=words.len() {
        // One half of the connection: the other is ended by the origin.
        let mut peer = origin.peer();
        peer.say(&words[..len]);
        peer.say_no_more();
        peer.is_sent_away();
        origin.reports("has gone");
        // All of it.
        let mut peer = origin.peer();
        peer.say(&words[..len]);
        drop(peer);
        // The bytes in flight to it report the result.
        origin.reports("unix:pid");
    }
    origin.has_held(None);
}

#[test]
fn a_flipped_bit_in_a_hello_is_noticed_wherever_it_is() {
    // An origin prints 1,000 such lines at once.
    let bits: Vec<usize> =
        (0..greeting(Some(StreamPosition { stream: 1, offset: 0 })).len() * 8).collect();
    for bits in bits.chunks(900) {
        let mut origin = Besieged::new();
        let words = greeting(Some(origin.source.end()));
        for bit in bits {
            let mut damaged = words.clone();
            damaged[bit / 8] ^= 1 << (bit % 8);
            // All of it is there, for any length that it states.
            damaged.resize(1200, 0);
            let why = match bit / 8 {
                0..12 => "does not speak",
                12..16 => "speaks version",
                16..20 => "frame",
                _ => "checksum is wrong",
            };
            origin.refuses(&damaged, why);
        }
        origin.has_held(None);
    }
}

/// Whether the origin sends the whole map to a replica of its own map at this position.
fn is_sent_the_whole(origin: &Besieged, position: StreamPosition, proof: Option<Proof>) -> bool {
    let mut peer = origin.peer();
    let mut value = words::hello(Some(position));
    if let Some(proof) = proof {
        value[24..28].copy_from_slice(&proof.bytes.to_le_bytes());
        value[28..32].copy_from_slice(&proof.sum.to_le_bytes());
    }
    let lineage = origin.source.hold.maps().open(".lineage/it").unwrap();
    let record = lineage.get("lineage").unwrap().unwrap();
    value[40..56].copy_from_slice(&record[64 + 32..64 + 48]);
    peer.say(&[preface(), frame(HELLO, 0, &[0x5a; 32], &value)].concat());
    peer.receive(16);
    peer.receive_frame();
    let welcome = peer.receive_frame();
    u32::from_le_bytes(welcome[40 + 16..][..4].try_into().unwrap()) == 1
}

#[test]
fn positions_that_never_were_get_the_whole_map() {
    let mut origin = Besieged::new();
    let end = origin.source.end();
    let follower = origin.source.map.follow().unwrap();
    let other_streams =
        [end.stream ^ 1, 0, u64::MAX].map(|stream| StreamPosition { stream, ..end });
    let offsets = (0..end.offset + 50).step_by(7).chain([1 << 32, u64::MAX - 7, u64::MAX]);
    let within = offsets.map(|offset| StreamPosition { offset, ..end });
    for position in other_streams.into_iter().chain(within) {
        let map = &origin.source.map;
        let may_go_on = map.follow_from(position).is_ok();
        let proof = proof_at(map.follow().unwrap(), position).unwrap();
        // A replica with another last change has another map.
        let other = proof.map(|proof| Proof { sum: proof.sum ^ 1, ..proof });
        for (stated, good) in [(proof, true), (other, proof.is_none())] {
            let whole = is_sent_the_whole(&origin, position, stated);
            assert_eq!(whole, !(may_go_on && good), "{position} {stated:?}");
            origin.reports("unix:pid");
        }
    }
    drop(follower);
    origin.has_held(None);
}

#[test]
fn a_replicas_own_claims_change_nothing() {
    let mut origin = Besieged::new();
    let mut peer = origin.peer();
    peer.say(&greeting(None));
    let mut dice = Dice::new(2);
    for round in 0..50 {
        let words: Vec<u8> = (0..100)
            .flat_map(|_| {
                let offset = [0, u64::MAX, dice.roll(), dice.below(9000)][dice.below(4) as usize];
                frame(APPLIED, offset, &[3; 20], &[4; 20])
            })
            .collect();
        peer.say(&words);
        if round % 10 == 0 {
            origin.holds();
        }
    }
    let tail = origin.source.end().offset;
    until("what it says to be received", || {
        let replicas = origin.source.origin().replicas();
        assert!(replicas.iter().all(|it| it.applied <= it.sent && it.sent <= tail), "{replicas:?}");
        replicas.iter().all(|it| it.applied > 0)
    });
    peer.say_no_more();
    peer.is_sent_away();
    origin.reports("has gone");
    origin.has_held(None);
}

/// Damages a conversation somewhere; sometimes so that the checksums are right.
fn mutate(frames: &[Vec<u8>], dice: &mut Dice) -> Vec<u8> {
    let mut frames = frames.to_vec();
    for _ in 0..=dice.below(3) {
        let which = dice.below(frames.len() as u64) as usize;
        let at = dice.below(frames[which].len() as u64) as usize;
        match dice.below(5) {
            0 => frames[which].truncate(at.max(1)),
            1 => frames.insert(which, frames[which].clone()),
            2 => frames.swap(0, which),
            3 => frames[which][at] ^= 1 << dice.below(8),
            _ => {
                frames[which][at] = dice.roll() as u8;
                if frames[which].len() >= 40 {
                    words::seal(&mut frames[which]);
                }
            }
        }
    }
    frames.concat()
}

#[test]
fn conversations_that_were_damaged_at_random_end() {
    let mut origin = Besieged::new();
    let end = origin.source.end();
    for seed in 0..400 {
        let mut dice = Dice::new(seed);
        let greeting = greeting([None, Some(end)][dice.below(2) as usize]);
        let applied = |offset| frame(APPLIED, offset, &[], &[]);
        let frames =
            [preface(), greeting[16..].to_vec(), applied(0), applied(end.offset), applied(1 << 40)];
        let mut peer = origin.peer();
        peer.say(&mutate(&frames, &mut dice));
        peer.say_no_more();
        peer.is_sent_away();
        origin.reports("unix:pid");
    }
    origin.has_held(None);
}

#[test]
fn a_peer_that_identifies_itself_late_is_disconnected() {
    let secret = || Some(Secret::new("the secret"));
    let mut origin = Besieged::with(secret(), |_| ());
    let began = Instant::now();
    // Some send nothing, some a byte now and then, some everything but the proof.
    let mut slow: Vec<Peer> = (0..12).map(|_| origin.peer()).collect();
    slow[8..].iter_mut().for_each(|peer| peer.say(&greeting(None)));
    let words = greeting(None);
    let (mut said, mut next) = (0, Instant::now());
    until("all to be sent away", || {
        if Instant::now() >= next {
            slow.iter_mut().take(4).for_each(|peer| peer.say(&words[said..=said]));
            (said, next) = (said + 1, Instant::now() + Duration::from_millis(200));
        }
        slow.retain_mut(|peer| !peer.has_been_sent_away());
        assert!(slow.len() == 12 || began.elapsed() > Duration::from_secs(4), "it has no patience");
        slow.is_empty()
    });
    for _ in 0..12 {
        origin.reports("did not identify itself in time");
    }
    // Peers that do not know the secret, and peers that replay messages.
    let mut peer = origin.peer();
    peer.say(&greeting(None));
    let challenge = peer.receive(16 + 72)[16 + 40..].to_vec();
    peer.say(&frame(PROOF, 0, &challenge, &[]));
    peer.is_sent_away();
    origin.reports("does not know the secret");
    for proof in [&[][..], &[0; 31], &[0; 32], &[0; 33]] {
        let words = [greeting(None), frame(PROOF, 0, proof, &[])].concat();
        origin.refuses(&words, "does not know the secret");
    }
    let words = [greeting(None), frame(APPLIED, 0, &[], &[])].concat();
    origin.refuses(&words, "unexpected frame (code 0x120)");
    origin.has_held(secret());
}

#[test]
fn users_who_are_not_allowed_are_refused() {
    let me = std::os::unix::fs::MetadataExt::uid(&std::fs::metadata("/proc/self").unwrap());
    let mut source = Source::with(MapOptions::general(), |options| {
        options.allowed_uids = Some(vec![me + 1, me + 2]);
    });
    source.map.set("a", "1").unwrap();
    // TCP knows no users.
    let tcp = source.origin().listen(&"tcp:127.0.0.1:0".parse().unwrap()).unwrap();
    let honest = Copy::at(&source, "honest.hold", &tcp);
    honest.agrees(&source);
    for _ in 0..20 {
        let mut peer = Peer::of(&source.address);
        peer.say(&greeting(None));
        assert_eq!(peer.is_sent_away(), 0, "it was told something");
    }
    let why = format!("refused: its process belongs to user {me}");
    let lines = || source.said.lock().unwrap().iter().filter(|line| line.contains(&why)).count();
    until("all to be told of", || lines() == 20);
    source.map.set("a", "2").unwrap();
    honest.agrees(&source);
    source.origin = None;
    source.begin(|options| options.allowed_uids = Some(vec![me + 1, me]));
    follow(&source, "allowed.hold", &source.address, None).agrees(&source);
}
