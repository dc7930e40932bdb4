//! Origins that lie. The replica refuses their messages, reports the reason and tries again, and
//! its map stays unchanged; or it becomes another whole one.

use super::deceived::{Deceived, Pairs, key};
use super::words::{
    CHALLENGE, COMPLETE, DELETE, GAP, HELLO, ORIGIN, PAIR, PROOF, SET, TIME, WELCOME, Welcome,
    frame, place, preface,
};
use crate::party::{LONG, Source};
use commonhold::Hold;
use commonhold::map::MapOptions;
use commonhold::stream::StreamPosition;
use commonhold_replicate::{Address, Replica, ReplicaOptions, Secret};
use commonhold_testing::alone::alone;
use commonhold_testing::support::process::until;
use commonhold_testing::support::test_dir::TestDir;
use std::collections::BTreeMap;
use std::io::{Read, Write};
use std::net::Shutdown;
use std::os::unix::net::{UnixListener, UnixStream};
use std::sync::mpsc::channel;
use std::time::{Duration, Instant};

fn of_length(bytes: u32, offset: u64) -> Vec<u8> {
    let mut words = frame(PAIR, offset, &key(1), &[1; 4]);
    words[..4].copy_from_slice(&bytes.to_le_bytes());
    words
}

#[test]
fn handshakes_that_are_none_are_left() {
    let mut replica = Deceived::new(MapOptions::general());
    let other = "does not speak the protocol of replicas";
    let none = "the origin sent an unexpected frame";
    let mut version = preface();
    version[12] = 7;
    replica.is_not_believed(b"HTTP/1.1 400 Bad Request\r\n\r\n", other);
    replica.is_not_believed(b"C\0", other);
    replica
        .is_not_believed(&version, "speaks version 7 of the protocol, and this program version 2");
    for (bytes, why) in [
        (0, "sent an invalid frame"),
        (41, "sent an invalid frame"),
        (u32::MAX, "sent an invalid frame"),
        (1032, "announces a frame of 1032 bytes; the maximum is 1024"),
        (u32::MAX - 7, "announces a frame of 4294967288 bytes; the maximum is 1024"),
        (40, "checksum is wrong"),
    ] {
        replica.is_not_believed(&[preface(), of_length(bytes, 0)].concat(), why);
    }
    let welcome = replica.welcome();
    for code in [0, SET, GAP, HELLO, PROOF, PAIR, COMPLETE, TIME, 0x120, 0x999, u32::MAX] {
        let words = frame(code, 4096, &[1; 31], &welcome.value());
        let words = [preface(), welcome.origin(), words].concat();
        replica.is_not_believed(&words, none);
    }
    let wants = "requires a secret";
    replica.is_not_believed(&[preface(), frame(CHALLENGE, 0, &[1; 32], &[])].concat(), wants);
    for (offset, change) in [
        // Its position twice, and not the same.
        (4095, &(|_: &mut Vec<u8>| ()) as &dyn Fn(&mut Vec<u8>)),
        (4096, &|value| value[16] = 2),
        (4096, &|value| value[20] = 2),
        (4096, &|value| value[24] = 1),
        (4096, &|value| value[28] = 1),
        (4096, &|value| value.truncate(31)),
        (4096, &|value| value.clear()),
        (4096, &|value| value.push(0xff)),
    ] {
        let mut value = welcome.value();
        change(&mut value);
        let words = frame(WELCOME, offset, &[], &value);
        let words = [preface(), welcome.origin(), words].concat();
        replica.is_not_believed(&words, none);
    }
    let there = replica.position;
    for position in [
        StreamPosition { offset: there.offset + 8, ..there },
        StreamPosition { offset: 0, ..there },
        StreamPosition { stream: there.stream ^ 1, ..there },
    ] {
        let words = Welcome { position, whole: 0, ..welcome }.words();
        replica.is_not_believed(&words, "continues at a position that this replica never had");
    }
    replica.finds_back();
}

#[test]
fn maps_that_cannot_be_do_not_cost_the_one_that_is() {
    for options in [MapOptions::general(), MapOptions::fixed(4, 4)] {
        let mut replica = Deceived::new(options);
        let wrong = "keys of at least 1 byte";
        let none = "the origin sent an unexpected frame";
        for (mode, why) in [
            ([1, 0, 0], wrong),
            ([1, 0, 4], wrong),
            ([1, u32::MAX, u32::MAX], wrong),
            ([2, 0, 0], none),
            ([0, 4, 4], none),
            ([u32::MAX; 3], none),
        ] {
            let words = Welcome { mode, ..replica.welcome() }.words();
            replica.is_not_believed(&words, why);
        }
        // Ones that can be, and never come.
        for mode in [[1, 8, 8], [1, 1, u32::MAX - 1], [1, 4, 12], [0; 3]] {
            let words = Welcome { mode, ..replica.welcome() }.words();
            let words = [words, frame(PAIR, 4096, &[1; 8], &[2; 8]), vec![0; 40]].concat();
            replica.is_not_believed(&words, "");
        }
        replica.finds_back();
    }
}

#[test]
fn a_map_of_another_mode_takes_its_place_when_it_is_whole() {
    for options in [MapOptions::general(), MapOptions::fixed(4, 4)] {
        let mut replica = Deceived::new(options);
        let mode = [1, 8, 8];
        let words = Welcome { mode, ..replica.welcome() }.words();
        let pair = frame(PAIR, 4096, &[1; 8], &[2; 8]);
        replica.say(&[words, pair, frame(COMPLETE, 4096, &[], &0u64.to_le_bytes())].concat());
        let there = StreamPosition { stream: 77, offset: 4096 };
        assert!(replica.replica.wait_for(there, LONG), "{:?}", replica.replica.status());
        assert_eq!(replica.has(), BTreeMap::from([(vec![1; 8], vec![2; 8])]));
        replica.finds_back();
    }
}

/// An origin of a later version, which keeps the greeting: it states more than this version knows.
#[test]
fn origins_of_later_versions_are_followed() {
    let mut replica = Deceived::new(MapOptions::general());
    let welcome = replica.welcome();
    let origin = welcome.origin();
    let mut value = origin[40..40 + 64].to_vec();
    value[0] = 3;
    value[8..16].fill(0xff);
    value.extend([9; 100]);
    let words = [preface(), frame(ORIGIN, 0, &[], &value)].concat();
    let at = welcome.position.offset;
    let then = frame(WELCOME, at, &[], &welcome.value());
    let pair = frame(PAIR, at, &key(1), &[1; 4]);
    replica.say(&[words, then, pair, frame(COMPLETE, at, &[], &[0; 8])].concat());
    assert!(replica.replica.wait_for(welcome.position, LONG), "{:?}", replica.replica.status());
    assert_eq!(replica.has(), BTreeMap::from([(key(1).to_vec(), vec![1; 4])]));
    replica.finds_back();
}

#[test]
fn full_syncs_that_go_wrong_are_never_seen() {
    let mut replica = Deceived::new(MapOptions::general());
    let at = 4096u64;
    let end = |end: u64| end.to_le_bytes();
    let pair = frame(PAIR, at, &key(1), &[1; 4]);
    let complete = frame(COMPLETE, at, &[], &end(at + 1000));
    let mut damaged = pair.clone();
    damaged[44] ^= 1;
    let turn = "sent an unexpected frame";
    for (words, why) in [
        (frame(PAIR, at + 8, &key(1), &[1; 4]), "sent offset 4104 after 4096"),
        (frame(PAIR, 0, &key(1), &[1; 4]), "sent offset 0 after 4096"),
        (frame(SET, at - 8, &key(1), &[1; 4]), "sent offset 4088 after 4096"),
        (
            [frame(SET, at, &key(1), &[]), frame(SET, at, &key(1), &[])].concat(),
            "sent offset 4096 after 4144",
        ),
        (frame(TIME, u64::MAX, &[], &[0; 16]), "sent offset 18446744073709551615"),
        (damaged, "checksum is wrong"),
        (of_length(0, at), "sent an invalid frame"),
        (of_length(44, at), "sent an invalid frame"),
        ([complete.clone(), complete.clone()].concat(), turn),
        ([complete.clone(), pair.clone()].concat(), turn),
        (frame(COMPLETE, at, &[], &[0; 7]), turn),
        (frame(COMPLETE, at, &[], &[0; 9]), turn),
        (frame(TIME, at, &[], &[0; 15]), turn),
        (frame(WELCOME, at, &[], &replica.welcome().value()), turn),
        (frame(ORIGIN, at, &[], &[0; 64]), turn),
        (frame(HELLO, at, &[1; 32], &[0; 24]), turn),
        (frame(0x120, at, &[], &[]), turn),
        (frame(7, at, &[], &[]), turn),
        (frame(0, at, &[], &[]), turn),
        (frame(u32::MAX, at, &[], &[]), turn),
    ] {
        let words = [replica.welcome().words(), pair.clone(), words].concat();
        replica.is_not_believed(&words, why);
    }
    replica.finds_back();
}

#[test]
fn a_gap_makes_it_want_the_whole_map_and_keep_the_old_one() {
    for whole in [false, true] {
        let mut replica = Deceived::new(MapOptions::general());
        let welcome = if whole { replica.welcome() } else { replica.nowhere_else() };
        let gap = frame(GAP, welcome.position.offset, &[], &[]);
        replica.say(&[welcome.words(), gap].concat());
        replica.comes_again();
        let error = replica.replica.status().last_error.unwrap();
        assert!(error.contains("too large for its stream"), "{error}");
        assert_eq!(replica.has(), replica.was);
        assert_eq!(replica.greeting[16 + 72..16 + 92], place(None));
        let words = replica.nowhere_else().words();
        replica.say(&words);
        replica.comes_again();
        let error = replica.replica.status().last_error.unwrap();
        assert!(error.contains("continues at a position that this replica never had"), "{error}");
        replica.finds_back();
    }
}

#[test]
fn frames_that_do_not_fit_the_map_are_not_applied() {
    let mut replica = Deceived::new(MapOptions::fixed(4, 4));
    for whole in [true, false] {
        let welcome = if whole { replica.welcome() } else { replica.nowhere_else() };
        let at = welcome.position.offset;
        let codes = if whole { &[PAIR, SET, DELETE][..] } else { &[SET, DELETE] };
        for code in codes {
            for (key, value) in [
                (&[][..], &[][..]),
                (&[1; 3], &[1; 4]),
                (&[1; 5], &[1; 4]),
                (&[1; 4], &[1; 3]),
                (&[1; 4], &[1; 5]),
                (&[], &[1; 8]),
            ] {
                if *code == DELETE && key.len() == 4 {
                    continue;
                }
                let words = [welcome.words(), frame(*code, at, key, value)].concat();
                replica.is_not_believed(&words, "bytes");
            }
        }
    }
    replica.finds_back();
}

#[test]
fn an_origin_without_the_secret_is_not_believed() {
    let secret = Some(Secret::new("the secret"));
    let mut replica = Deceived::with(MapOptions::general(), secret);
    let unknown = "the origin does not know the secret";
    let turn = "the origin sent an unexpected frame";
    let challenge = [preface(), frame(CHALLENGE, 0, &[9; 32], &[])].concat();
    let welcome = |replica: &Deceived, proof: &[u8]| {
        let welcome = replica.welcome();
        [welcome.origin(), frame(WELCOME, 4096, proof, &welcome.value())].concat()
    };
    let words = replica.welcome().words();
    replica.is_not_believed(&words, unknown);
    replica
        .is_not_believed(&[challenge.clone(), frame(CHALLENGE, 0, &[8; 32], &[])].concat(), turn);
    replica.is_not_believed(&[preface(), frame(CHALLENGE, 0, &[9; 31], &[])].concat(), turn);
    for proof in [&[][..], &[0; 31], &[0; 32], &[0; 33]] {
        let words = [challenge.clone(), welcome(&replica, proof)].concat();
        replica.is_not_believed(&words, unknown);
    }
    // Its own proof is not the origin's.
    replica.say(&challenge);
    let mut heard = [0; 40 + 32];
    replica.talk.read_exact(&mut heard).unwrap();
    let words = welcome(&replica, &heard[40..]);
    replica.is_not_believed(&words, unknown);
    replica.finds_back();
}

/// The messages of an origin, and the replica's map after each number of them.
struct Script {
    words: Vec<u8>,
    at: u64,
    then: Vec<(usize, Pairs)>,
}

impl Script {
    fn say(&mut self, code: u32, key: &[u8], value: &[u8]) {
        let words = frame(code, self.at, key, value);
        self.at += if code < 7 { words.len() as u64 } else { 0 };
        self.words.extend(words);
    }

    fn set(&mut self, code: u32, id: u32, value: u32) {
        self.say(code, &key(id), &key(value));
    }

    fn is(&mut self, pairs: &[(u32, u32)]) {
        let pair = |(id, value): &(u32, u32)| (key(*id).to_vec(), key(*value).to_vec());
        self.then.push((self.words.len(), pairs.iter().map(pair).collect()));
    }

    /// A whole conversation.
    fn new(welcome: Welcome) -> Script {
        let (words, at) = (welcome.words(), welcome.position.offset);
        let mut script = Script { words, at, then: Vec::new() };
        script.set(PAIR, 1, 10);
        script.set(PAIR, 2, 20);
        script.set(SET, 3, 30);
        let end = script.at + 48;
        script.say(COMPLETE, &[], &end.to_le_bytes());
        script.set(SET, 4, 40);
        script.is(&[(1, 10), (2, 20), (3, 30), (4, 40)]);
        script.say(DELETE, &key(1), &[]);
        script.is(&[(2, 20), (3, 30), (4, 40)]);
        script.say(TIME, &[], &[1; 16]);
        script.set(SET, 2, 21);
        script.is(&[(2, 21), (3, 30), (4, 40)]);
        script
    }
}

#[test]
fn a_conversation_that_ends_anywhere_leaves_a_whole_map() {
    for options in [MapOptions::general(), MapOptions::fixed(4, 4)] {
        let mut replica = Deceived::new(options);
        let script = Script::new(replica.welcome());
        for len in 0..=script.words.len() {
            replica.say(&script.words[..len]);
            replica.talk.shutdown(Shutdown::Both).unwrap();
            replica.comes_again();
            let then = script.then.iter().rev().find(|(words, _)| *words <= len);
            let expected = then.map_or(&replica.was, |(_, map)| map);
            assert_eq!(replica.has(), *expected, "after {len} bytes");
            let error = replica.replica.status().last_error.unwrap();
            assert!(error.contains("closed the connection"), "{error}");
        }
        replica.finds_back();
    }
}

#[test]
fn an_origin_that_identifies_itself_late_is_left() {
    let mut replica = Deceived::new(MapOptions::general());
    let (words, begun) = (replica.welcome().words(), Instant::now());
    let told = |replica: &Replica| replica.status().last_error.unwrap_or_default();
    let (why, mut said) = ("did not identify itself in time", 0);
    // Never silent for long, and never done.
    until("the replica leaves", || {
        if begun.elapsed() > Duration::from_millis(200) * said as u32 && said < words.len() - 1 {
            replica.say(&words[said..=said]);
            said += 1;
        }
        told(&replica.replica).contains(why)
    });
    assert!(said > 5, "it has left after {said} bytes");
    replica.comes_again();
    replica.is_as_it_was(why);
    replica.finds_back();
}

#[test]
fn positions_at_the_end_of_all_numbers_are_numbers() {
    let mut replica = Deceived::new(MapOptions::general());
    for offset in [u64::MAX - 47, u64::MAX - 40, u64::MAX] {
        let position = StreamPosition { stream: 78, offset };
        let words = Welcome { position, ..replica.welcome() }.words();
        let pair = frame(PAIR, offset, &key(1), &[1; 4]);
        replica.say(&[words, pair, frame(COMPLETE, offset, &[], &[0; 8])].concat());
        assert!(replica.replica.wait_for(position, LONG), "{:?}", replica.replica.status());
        let time = frame(TIME, offset, &[], &[0xff; 16]);
        replica.say(&[time, frame(SET, offset, &key(2), &[2; 4])].concat());
        replica.comes_again();
        let error = replica.replica.status().last_error.unwrap();
        assert!(error.contains("unexpected frame (code 0x1)"), "{error}");
        assert_eq!(replica.has(), BTreeMap::from([(key(1).to_vec(), vec![1; 4])]));
    }
    replica.finds_back();
}

/// Pages of addresses, and of memory in use, in bytes.
fn memory() -> [u64; 2] {
    let text = std::fs::read_to_string("/proc/self/statm").unwrap();
    let mut pages = text.split(' ').map(|pages| pages.parse::<u64>().unwrap() * 4096);
    [pages.next().unwrap(), pages.next().unwrap()]
}

#[test]
fn lengths_that_are_announced_take_no_memory() {
    alone("hostile::to_replica::lengths_that_are_announced_take_no_memory", || {
        let mut replica = Deceived::new(MapOptions::general());
        for _ in 0..3 {
            let before = memory();
            let words = [replica.welcome().words(), of_length(u32::MAX - 7, 4096)].concat();
            replica.say(&words);
            // More than the socket keeps: most of it has been received when all is sent.
            const SAID: u64 = 8 << 20;
            (0..SAID >> 16).for_each(|_| replica.say(&[1; 1 << 16]));
            (0..1000).for_each(|_| replica.say(&[1]));
            let now = memory();
            assert!(now[0] - before[0].min(now[0]) < 5 * SAID, "{before:?} {now:?}");
            assert!(now[1] - before[1].min(now[1]) < 3 * SAID, "{before:?} {now:?}");
            replica.talk.shutdown(Shutdown::Both).unwrap();
            replica.comes_again();
            replica.is_as_it_was("closed the connection");
        }
        replica.finds_back();
    });
}

#[test]
fn an_origin_that_never_listens_holds_up_nothing() {
    let source = Source::new(MapOptions::general());
    let (here, mut there) = UnixStream::pair().unwrap();
    // It is full after a few words.
    rustix::net::sockopt::set_socket_send_buffer_size(&here, 4096).unwrap();
    let hold = Hold::create(source.test_dir.path("copy.hold")).unwrap();
    let options = ReplicaOptions::default();
    let replica = Replica::attach(&hold, "it", here.into(), options, ()).unwrap();
    let position = StreamPosition { stream: 77, offset: 0 };
    let welcome = Welcome::to(MapOptions::general().mode(), position).words();
    let mut at = 0;
    there.set_write_timeout(Some(LONG)).unwrap();
    there.write_all(&[welcome, frame(COMPLETE, 0, &[], &[0; 8])].concat()).unwrap();
    let mut next = Instant::now();
    until("it to apply what comes for some seconds", || {
        if Instant::now() >= next {
            let change = frame(SET, at, &key(1), &[1; 4]);
            at += change.len() as u64;
            there.write_all(&change).unwrap();
            next = Instant::now() + Duration::from_millis(10);
        }
        replica.status().changes >= 250
    });
    // Nor does it keep it from ending.
    let (ended, end) = channel();
    std::thread::spawn(move || {
        drop(replica);
        ended.send(()).unwrap();
    });
    end.recv_timeout(LONG).unwrap();
}

#[test]
fn an_origin_that_accepts_nobody_is_not_waited_for_for_ever() {
    let test_dir = TestDir::memory();
    let address = Address::Unix(test_dir.path("socket"));
    let _listener = UnixListener::bind(test_dir.path("socket")).unwrap();
    let (full, is_full) = channel();
    std::thread::spawn(move || {
        let (mut waiting, patience) = (Vec::new(), Duration::from_millis(100));
        // As many as the system lets wait, and one.
        let error = loop {
            match address.connect(patience) {
                Ok(socket) => waiting.push(socket),
                Err(error) => break error,
            }
        };
        full.send(error).unwrap();
    });
    let error = is_full.recv_timeout(LONG).expect("a connection that is given up");
    assert_eq!(error.kind(), commonhold::ErrorKind::TimedOut, "{error}");
}
