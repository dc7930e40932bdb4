//! Peers that read slowly, or never, or leave in the middle.

use super::Besieged;
use super::words::{APPLIED, Peer, frame, greeting};
use crate::party::{LONG, Source};
use commonhold::map::MapOptions;
use commonhold_io::sockets::LoopKind;
use commonhold_replicate::Tap;
use commonhold_testing::support::process::until;
use std::io::Write;
use std::net::{Shutdown, TcpStream};
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

/// Bytes of a value; with them a full sync is longer than what sockets take.
const VALUE: usize = 400;
const KEYS: u32 = 3000;
/// Changes that the stream keeps all of.
const PORTION: u32 = 600;

fn write(origin: &Besieged, keys: impl Iterator<Item = u32>, with: u8) {
    for id in keys {
        origin.source.map.set(id.to_be_bytes(), [with; VALUE]).unwrap();
    }
}

#[test]
fn slow_readers_hold_up_nobody() {
    for kind in LoopKind::ALL {
        let mut origin = Besieged::with(None, |options| {
            (options.kind, options.stream_bytes) = (kind, 1 << 20);
        });
        // In portions: the honest one is never lapped.
        for portion in 0..KEYS / PORTION {
            write(&origin, portion * PORTION..(portion + 1) * PORTION, 1);
            origin.holds();
        }
        let mut slow: Vec<Peer> = (0..4).map(|_| origin.peer()).collect();
        slow.iter_mut().for_each(|peer| peer.say(&greeting(None)));
        let [_never, never_a_word, ..] = &mut slow[..] else { unreachable!() };
        never_a_word.say_no_more();
        for round in 0..12 {
            write(&origin, 0..PORTION, round);
            origin.holds();
            // One byte at a time.
            slow[2..].iter_mut().for_each(|peer| drop(peer.receive(1)));
            // Some peers come, read as far as the middle of a frame, and leave.
            let mut hasty = origin.peer();
            hasty.say(&greeting(None));
            hasty.receive(5001);
        }
        // The hasty peers, the one that had ended one half of the connection, and those that the
        // stream has lapped.
        origin.reports_often(16);
        let said = origin.source.said.lock().unwrap().clone();
        let lapped = said.iter().filter(|line| line.contains("its stream keeps")).count();
        assert_eq!(lapped, 3, "{said:?}");
        for peer in &mut slow[2..] {
            peer.is_sent_away();
        }
        drop(slow);
        origin.has_held(None);
    }
}

#[test]
fn a_peer_that_sends_all_the_time_loses_nothing() {
    for kind in LoopKind::ALL {
        let mut source = Source::with(MapOptions::general(), |options| options.kind = kind);
        let address = source.origin().listen(&"tcp:127.0.0.1:0".parse().unwrap()).unwrap();
        let mut tap = Tap::connect(&address, LONG).unwrap();
        // The full sync ends before there is more to it: it would come behind the changes, and the
        // tap knows only what came last.
        let mut buffer = vec![0; 4 << 10];
        source.map.set("first", "").unwrap();
        until("the tap follows", || {
            tap.drain(&mut buffer).unwrap();
            tap.offset() == Some(source.end().offset)
        });
        for id in 0..20_000u32 {
            source.map.set(id.to_be_bytes(), [7; 100]).unwrap();
        }
        let (end, over) = (source.end().offset, AtomicBool::new(false));
        let words = TcpStream::from(tap.socket().try_clone_to_owned().unwrap());
        words.set_write_timeout(Some(Duration::from_millis(10))).unwrap();
        std::thread::scope(|scope| {
            // More than the origin reads: were it to close the connection, the system would reset
            // it.
            let talker = scope.spawn(|| {
                let said = frame(APPLIED, 0, &[], &[]);
                let (many, mut at) = (said.repeat(100), 0);
                while !over.load(Ordering::Relaxed) {
                    at = (at + (&words).write(&many[at..]).unwrap_or(0)) % said.len();
                }
            });
            let origin = source.origin.take().unwrap();
            let finishing = scope.spawn(|| origin.finish(LONG));
            let ended = loop {
                match tap.drain(&mut buffer) {
                    Ok(Some(0)) => break Ok(()),
                    Ok(_) => std::thread::sleep(Duration::from_micros(100)),
                    Err(error) => break Err(error),
                }
            };
            over.store(true, Ordering::Relaxed);
            talker.join().unwrap();
            let _ = words.shutdown(Shutdown::Both);
            finishing.join().unwrap();
            assert!(ended.is_ok(), "{ended:?}");
            assert_eq!(tap.offset(), Some(end), "{kind}");
        });
    }
}
