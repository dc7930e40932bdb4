//! Many at once, and what they leave behind: memory, threads, descriptors.

use super::words::{APPLIED, Peer, frame, greeting, preface};
use super::{Besieged, follow};
use crate::party::{Source, is_of_joining};
use commonhold::map::MapOptions;
use commonhold_io::sockets::LoopKind;
use commonhold_testing::alone::alone;
use commonhold_testing::support::process::until;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

#[test]
fn more_than_there_may_be_are_closed_at_once() {
    let mut origin = Besieged::with(None, |options| options.most_replicas = 4);
    let mut three: Vec<Peer> = (0..3).map(|_| origin.peer()).collect();
    three.iter_mut().for_each(|peer| peer.say(&greeting(None)));
    until("four to be served", || origin.source.origin().replicas().len() == 4);
    for round in 0..200 {
        let mut peer = origin.peer();
        if round % 2 == 0 {
            peer.say(&greeting(None));
        }
        assert_eq!(peer.is_sent_away(), 0, "it was told something");
        origin.reports("refused: the maximum number of replicas is connected");
    }
    origin.holds();
    for peer in three {
        drop(peer);
        origin.reports("unix:pid");
    }
    origin.has_held(None);
}

/// They have places of their own.
#[test]
fn silent_peers_take_no_place_of_a_replica() {
    let origin = Besieged::with(None, |options| options.most_replicas = 2);
    let silent: Vec<Peer> = (0..50).map(|_| origin.peer()).collect();
    until("all to be there", || origin.source.origin().replicas().len() == 51);
    let late = follow(&origin.source, "late.hold", &origin.source.address, None);
    late.agrees(&origin.source);
    drop(silent);
}

/// The pairs that they do not take exceed the room for all, and make nobody wait for long.
#[test]
fn stalled_peers_share_one_budget() {
    const VALUE: usize = 8 << 20;
    let origin = Besieged::with(None, |options| options.stream_bytes = 64 << 20);
    for id in 0..4u32 {
        origin.source.map.set(id.to_be_bytes(), vec![7; VALUE]).unwrap();
    }
    let mut stalled: Vec<Peer> = (0..24).map(|_| origin.peer()).collect();
    stalled.iter_mut().for_each(|peer| peer.say(&greeting(None)));
    let is_of_stalled = |line: &&String| line.contains("does not take its bytes");
    let said = || origin.source.said.lock().unwrap().iter().filter(is_of_stalled).count();
    until("the stalled ones to go", || said() > 0);
    let late = follow(&origin.source, "late.hold", &origin.source.address, None);
    late.agrees(&origin.source);
}

#[test]
fn peers_that_disconnect_are_forgotten() {
    let mut origin = Besieged::new();
    for round in 0..500 {
        drop(origin.peer());
        if round % 100 == 0 {
            origin.holds();
        }
    }
    origin.reports_often(500);
    origin.has_held(None);
}

/// The resources of this process: pages of memory in use, threads, descriptors.
fn possessions() -> (usize, usize, usize) {
    let read = |path: &str| std::fs::read_to_string(path).unwrap();
    let pages = read("/proc/self/statm").split(' ').nth(1).unwrap().parse().unwrap();
    let status = read("/proc/self/status");
    let threads = status.lines().find_map(|line| line.strip_prefix("Threads:")).unwrap();
    let descriptors = std::fs::read_dir("/proc/self/fd").unwrap().count();
    (pages, threads.trim().parse().unwrap(), descriptors)
}

/// The messages of bad peers, each bad in its own way.
fn bad_words() -> Vec<Vec<u8>> {
    let mut damaged = greeting(None);
    damaged[50] ^= 1;
    let mut large = [greeting(None), preface()].concat();
    large.resize(5000, 0xff);
    vec![
        b"GET / HTTP/1.1\r\n\r\n".to_vec(),
        Vec::new(),
        preface(),
        greeting(None)[..100].to_vec(),
        damaged,
        greeting(None),
        [greeting(None), frame(0x999, 0, &[], &[])].concat(),
        [greeting(None), frame(APPLIED, u64::MAX, &[1; 900], &[])].concat(),
        large,
    ]
}

#[test]
fn ten_thousand_leave_nothing_behind() {
    alone("hostile::crowds::ten_thousand_leave_nothing_behind", || {
        LoopKind::ALL.into_iter().for_each(besiege);
    });
}

fn besiege(kind: LoopKind) {
    let lines = Arc::new(AtomicUsize::new(0));
    let counted = Arc::clone(&lines);
    let source = Source::with(MapOptions::general(), |options| {
        options.kind = kind;
        options.notice = Some(Arc::new(move |line: &str| {
            counted.fetch_add(usize::from(!is_of_joining(line)), Ordering::SeqCst);
        }));
    });
    for id in 0..20u32 {
        source.map.set(id.to_be_bytes(), [7; 20]).unwrap();
    }
    let honest = follow(&source, "honest.hold", &source.address, None);
    let words = bad_words();
    let mut visitors = 0;
    let mut visit = |times: usize| {
        for round in 0..times {
            let mut peer = Peer::of(&source.address);
            peer.say(&words[round % words.len()]);
            if round % 2 == 0 {
                peer.say_no_more();
                peer.is_sent_away();
            }
        }
        visitors += times;
        until("all to be gone", || source.origin().replicas().len() == 1);
        // Their lines are limited.
        until("the first to be told of", || lines.load(Ordering::SeqCst) >= 1000);
        assert!(lines.load(Ordering::SeqCst) <= visitors);
        source.map.set("visitors", visitors.to_le_bytes()).unwrap();
        honest.agrees(&source);
    };
    visit(1000);
    let before = possessions();
    visit(10_000);
    until("descriptors and threads to be given back", || {
        let (_, threads, descriptors) = possessions();
        (threads, descriptors) == (before.1, before.2)
    });
    let grown = possessions().0.saturating_sub(before.0) * 4096;
    assert!(grown < 4 << 20, "{kind:?}: {grown} bytes more than before");
    assert_eq!(honest.replica.status().connections, 1);
}
