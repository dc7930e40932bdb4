//! Origins and replicas: changes at the one can be read at the other.

use crate::party::{Copy, LONG, SMALL_STREAM, Source, eager, pairs};
use commonhold::map::MapOptions;
use commonhold::stream::{ChangeKind, StreamFrame, StreamPosition};
use commonhold::{ErrorKind, Hold};
use commonhold_io::sockets::LoopKind;
use commonhold_replicate::{
    Address, Origin, OriginOptions, Replica, ReplicaEvents, Secret, Tap, Transmission,
};
use commonhold_testing::support::Dice;
use commonhold_testing::support::process::until;
use commonhold_testing::support::refused;
use std::os::unix::net::UnixStream;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::{Sender, channel};
use std::time::{Duration, Instant};

const SHAPES: [fn() -> MapOptions; 4] = [
    MapOptions::general,
    || MapOptions::fixed(4, 4),
    || MapOptions::fixed(4, 12),
    || MapOptions::cache().max_entries(300).into(),
];

fn key(id: u64) -> [u8; 4] {
    (id as u32).to_be_bytes()
}

/// A value that the map takes.
fn value(options: &MapOptions, number: u64) -> Vec<u8> {
    let len = match options.mode() {
        commonhold::map::MapMode::Fixed { value_bytes, .. } => value_bytes as usize,
        _ => (number % 100) as usize,
    };
    (0..len).map(|at| (number >> (at % 4 * 8)) as u8).collect()
}

/// Sets and deletes at random.
fn stir(source: &Source, dice: &mut Dice, changes: u64) {
    for number in 0..changes {
        let key = key(dice.below(500));
        match dice.below(10) {
            0 => drop(source.map.delete(key).unwrap()),
            _ => drop(source.map.set(key, value(source.map.options(), number)).unwrap()),
        }
    }
}

#[test]
fn replicas_have_what_the_origin_has_in_every_mode_and_by_every_loop() {
    for kind in LoopKind::ALL {
        for (number, shape) in SHAPES.into_iter().enumerate() {
            let mut source = Source::with(shape(), |options| options.kind = kind);
            let mut dice = Dice::new(number as u64);
            stir(&source, &mut dice, 1000);
            let early = Copy::of(&source, "early.hold");
            stir(&source, &mut dice, 1000);
            early.agrees(&source);
            let tcp = "tcp:127.0.0.1:0".parse().unwrap();
            let tcp = source.origin().listen(&tcp).unwrap();
            let late = Copy::at(&source, "late.hold", &tcp);
            stir(&source, &mut dice, 1000);
            late.agrees(&source);
            early.agrees(&source);
            assert_eq!(early.replica.status().synchronisations, 1);
            assert_eq!(source.origin().replicas().len(), 2, "{:?}", source.said);
            source.map.clear().unwrap();
            late.agrees(&source);
            assert!(late.pairs().is_empty());
            source.origin = None;
        }
    }
}

#[test]
fn a_socket_pair_will_do() {
    let source = Source::new(MapOptions::general());
    source.map.set("a", "1").unwrap();
    let (here, there) = UnixStream::pair().unwrap();
    let id = source.origin().attach(here.into()).unwrap();
    let hold = Hold::create(source.test_dir.path("copy.hold")).unwrap();
    let replica = Replica::attach(&hold, "it", there.into(), eager(), ()).unwrap();
    let copy = Copy { hold, replica };
    copy.agrees(&source);
    assert_eq!(source.origin().replicas()[0].id, id);
    assert!(source.origin().detach(id));
    assert!(copy.replica.wait(LONG, |status| !status.connected));
    until("the origin to forget it", || source.origin().replicas().is_empty());
    assert!(!source.origin().detach(id));
    // It stays what it was.
    source.map.set("a", "2").unwrap();
    assert_eq!(copy.hold.maps().open("it").unwrap().get("a").unwrap().as_deref(), Some(&b"1"[..]));
}

#[test]
fn a_replica_is_read_by_all_and_written_by_none() {
    let source = Source::new(MapOptions::general());
    source.map.set("a", "1").unwrap();
    let copy = Copy::of(&source, "copy.hold");
    copy.agrees(&source);
    let other = Hold::open(source.test_dir.path("copy.hold")).unwrap().maps().open("it").unwrap();
    assert_eq!(other.get("a").unwrap().as_deref(), Some(&b"1"[..]));
    refused(other.set("a", "2"), ErrorKind::ReadOnly, "is a replica");
    let again = Replica::connect(&copy.hold, "it", &source.address, eager(), ());
    refused(again, ErrorKind::Busy, "already has a replica");
    copy.hold.maps().open_or_create("own", MapOptions::general()).unwrap();
    let own = Replica::connect(&copy.hold, "own", &source.address, eager(), ());
    refused(own, ErrorKind::Mismatch, "is not a replica");
}

/// An event of a replica.
#[derive(Debug, PartialEq)]
enum Told {
    Changed(ChangeKind, Vec<u8>),
    Ready,
    Lost,
}

struct Teller(Sender<Told>);

impl ReplicaEvents for Teller {
    fn changed(&mut self, change: &StreamFrame<'_>) {
        let _ = self.0.send(Told::Changed(change.kind, change.key.to_vec()));
    }
    fn ready(&mut self, _: StreamPosition) {
        let _ = self.0.send(Told::Ready);
    }
    fn lost(&mut self, _: &str) {
        let _ = self.0.send(Told::Lost);
    }
}

#[test]
fn changes_come_in_order_and_are_distinguished() {
    let mut source = Source::new(MapOptions::cache().max_entries(3).into());
    let hold = Hold::create(source.test_dir.path("copy.hold")).unwrap();
    let (teller, told) = channel();
    let replica = Replica::connect(&hold, "it", &source.address, eager(), Teller(teller)).unwrap();
    let next = || told.recv_timeout(LONG).unwrap();
    assert_eq!(next(), Told::Ready);
    let map = &source.map;
    map.set_with_ttl("short", "1", Duration::from_millis(1)).unwrap();
    map.add("n", 5i64.to_le_bytes()).unwrap();
    map.increment("n", 1).unwrap();
    map.compare_exchange("n", Some(&6i64.to_le_bytes()), Some(b"x")).unwrap();
    map.replace("n", "y").unwrap();
    map.delete("n").unwrap();
    let mut kinds = vec![];
    // The short pair may expire at any time.
    let mut next_of_n = || loop {
        match next() {
            Told::Changed(kind @ ChangeKind::Expire, _) => kinds.push(kind),
            other => return other,
        }
    };
    for key in ["short", "n", "n", "n", "n"] {
        assert_eq!(next_of_n(), Told::Changed(ChangeKind::Set, key.into()));
    }
    assert_eq!(next_of_n(), Told::Changed(ChangeKind::Delete, b"n".to_vec()));
    until("the pair to expire", || map.get("short").unwrap().is_none());
    for n in 0..9u8 {
        map.set([n], "v").unwrap();
    }
    map.clear().unwrap();
    while kinds.iter().filter(|kind| **kind == ChangeKind::Clear).count() < 3 {
        match next() {
            Told::Changed(kind, _) => kinds.push(kind),
            other => panic!("{other:?}"),
        }
    }
    assert!(kinds.contains(&ChangeKind::Evict) && kinds.contains(&ChangeKind::Expire), "{kinds:?}");
    source.origin = None;
    assert_eq!(next(), Told::Lost);
    drop(replica);
}

#[test]
fn a_replica_resumes_at_its_position() {
    let mut source = Source::new(MapOptions::general());
    let mut dice = Dice::new(1);
    stir(&source, &mut dice, 500);
    let copy = Copy::of(&source, "copy.hold");
    copy.agrees(&source);
    // The origin's process is another one; writers go on meanwhile.
    source.origin = None;
    stir(&source, &mut dice, 500);
    source.begin(|_| ());
    copy.agrees(&source);
    assert_eq!(copy.replica.status().synchronisations, 1);
    assert!(copy.replica.status().connections >= 2);
    // The replica's process is another one.
    drop(copy);
    stir(&source, &mut dice, 500);
    let copy = Copy::of(&source, "copy.hold");
    copy.agrees(&source);
    assert_eq!(copy.replica.status().synchronisations, 0);
}

#[test]
fn a_lapped_replica_is_sent_the_whole_map_and_shows_the_old_one_meanwhile() {
    let mut source =
        Source::with(MapOptions::general(), |options| options.stream_bytes = SMALL_STREAM);
    for id in 0..2000 {
        source.map.set(key(id), "old").unwrap();
    }
    let copy = Copy::of(&source, "copy.hold");
    copy.agrees(&source);
    source.origin = None;
    for id in 0..3000 {
        source.map.set(key(id), "new").unwrap();
    }
    source.map.delete(key(0)).unwrap();
    let map = copy.hold.maps().open("it").unwrap();
    assert_eq!(map.get(key(7)).unwrap().as_deref(), Some(&b"old"[..]));
    source.begin(|_| ());
    let mut seen = Vec::new();
    until("the new map to show", || {
        seen = pairs(&map).into_values().collect();
        seen.iter().all(|value| value == b"new")
    });
    copy.agrees(&source);
    assert_eq!(copy.replica.status().synchronisations, 2);
}

/// Each of them ends a full sync; but not the next full sync, too, without end.
#[test]
fn a_full_sync_ends_although_changes_are_too_large_for_the_stream() {
    let source = Source::with(MapOptions::general(), |options| options.stream_bytes = SMALL_STREAM);
    let over = AtomicBool::new(false);
    std::thread::scope(|scope| {
        scope.spawn(|| {
            for round in 0.. {
                source.map.set("large", vec![round as u8; 1 << 20]).unwrap();
                if over.load(Ordering::Relaxed) {
                    return;
                }
            }
        });
        let copy = Copy::of(&source, "copy.hold");
        let is_ready = copy.replica.wait_ready(LONG);
        over.store(true, Ordering::Relaxed);
        assert!(is_ready, "{:?}", copy.replica.status());
    });
}

#[test]
fn changes_too_large_for_the_stream_come_with_the_whole_map() {
    let source = Source::with(MapOptions::general(), |options| options.stream_bytes = SMALL_STREAM);
    let copy = Copy::of(&source, "copy.hold");
    copy.agrees(&source);
    let large = vec![7; 1 << 20];
    source.map.set("large", &large).unwrap();
    source.map.set("small", "1").unwrap();
    until("the whole map", || copy.replica.status().synchronisations == 2);
    copy.agrees(&source);
    let map = copy.hold.maps().open("it").unwrap();
    assert_eq!(map.get("large").unwrap(), Some(large));
}

#[test]
fn nothing_is_sent_before_serving_begins() {
    let source = Source::with(MapOptions::general(), |options| {
        options.transmission = Transmission::Explicit;
    });
    let copy = Copy::of(&source, "copy.hold");
    copy.agrees(&source);
    source.map.set("a", "1").unwrap();
    source.map.set("b", "2").unwrap();
    std::thread::sleep(Duration::from_millis(300));
    assert!(copy.pairs().is_empty());
    source.origin().transmit().unwrap();
    copy.agrees(&source);
    source.map.set("c", "3").unwrap();
    std::thread::sleep(Duration::from_millis(200));
    assert_eq!(copy.pairs().len(), 2);
    source.origin().transmit().unwrap();
    copy.agrees(&source);
}

/// A map that is dropped and created again is served, even if no replica was connected meanwhile.
#[test]
fn a_recreated_map_is_served() {
    for transmission in [OriginOptions::default().transmission, Transmission::Explicit] {
        let source =
            Source::with(MapOptions::general(), |options| options.transmission = transmission);
        assert!(source.hold.maps().drop("it").unwrap());
        let map = source.hold.maps().open_or_create("it", MapOptions::general()).unwrap();
        map.set("a", "1").unwrap();
        let copy = Copy::of(&source, "copy.hold");
        let ready = copy.replica.wait_ready(LONG);
        assert!(ready, "{transmission:?}: {:?}", copy.replica.status());
        assert_eq!(copy.pairs(), pairs(&map));
    }
}

/// The sent offset of a dropped map does not count for the new map of its name.
#[test]
fn nothing_of_a_recreated_map_is_sent_before_serving_begins() {
    let source = Source::with(MapOptions::general(), |options| {
        options.transmission = Transmission::Explicit;
    });
    source.map.set("a", vec![7; 1000]).unwrap();
    source.origin().transmit().unwrap();
    assert!(source.hold.maps().drop("it").unwrap());
    let map = source.hold.maps().open_or_create("it", MapOptions::general()).unwrap();
    let copy = Copy::of(&source, "copy.hold");
    assert!(copy.replica.wait_ready(LONG), "{:?}", copy.replica.status());
    for number in 0..20u8 {
        map.set([number], vec![number; 100]).unwrap();
    }
    std::thread::sleep(Duration::from_millis(700));
    assert!(copy.pairs().is_empty());
    source.origin().transmit().unwrap();
    until("the replica to agree", || copy.pairs() == pairs(&map));
    assert_eq!(copy.replica.status().connections, 1);
}

#[test]
fn a_watermark_collects_and_a_delay_ends_that() {
    let source = Source::with(MapOptions::general(), |options| {
        let delay = Duration::from_millis(50);
        options.transmission = Transmission::Automatic { watermark: 1 << 20, delay };
    });
    let copy = Copy::of(&source, "copy.hold");
    copy.agrees(&source);
    stir(&source, &mut Dice::new(3), 1000);
    copy.agrees(&source);
}

#[test]
fn only_replicas_with_the_secret_are_served() {
    let secret = |text: &str| Some(Secret::new(text));
    let source = Source::with(MapOptions::general(), |options| options.secret = secret("right"));
    source.map.set("a", "1").unwrap();
    let follow = |name: &str, secret| {
        let hold = Hold::create(source.test_dir.path(name)).unwrap();
        let options = commonhold_replicate::ReplicaOptions { secret, ..eager() };
        let replica = Replica::connect(&hold, "it", &source.address, options, ()).unwrap();
        Copy { hold, replica }
    };
    let right = follow("right.hold", secret("right"));
    right.agrees(&source);
    for (name, secret, why) in [
        ("wrong.hold", secret("wrong"), "closed the connection"),
        ("none.hold", None, "requires a secret"),
    ] {
        let wrong = follow(name, secret);
        let told = |text: &Option<String>| text.as_ref().is_some_and(|text| text.contains(why));
        assert!(wrong.replica.wait(LONG, |status| told(&status.last_error)), "{name}");
        assert!(!wrong.replica.status().ready);
        assert!(wrong.hold.maps().open("it").is_err(), "it was sent nothing");
    }
    assert!(source.has_said("does not know the secret"));
    // An origin that cannot prove it is not believed.
    let mut other = Source::new(MapOptions::general());
    let hold = Hold::create(source.test_dir.path("believer.hold")).unwrap();
    let options = commonhold_replicate::ReplicaOptions { secret: secret("right"), ..eager() };
    let replica = Replica::connect(&hold, "it", &other.address, options, ()).unwrap();
    let told = |text: &Option<String>| {
        text.as_ref().is_some_and(|text| text.contains("does not know the secret"))
    };
    assert!(replica.wait(LONG, |status| told(&status.last_error)));
    other.origin = None;
}

#[test]
fn relays_pass_on_changes() {
    let source = Source::new(MapOptions::general());
    let mut dice = Dice::new(5);
    stir(&source, &mut dice, 500);
    let mut relays: Vec<(Copy, Origin, Address)> = Vec::new();
    for depth in 0..3 {
        let above = relays.last().map_or(&source.address, |(_, _, address)| address).clone();
        let copy = Copy::at(&source, &format!("relay{depth}.hold"), &above);
        assert!(copy.replica.wait_ready(LONG));
        let address = Address::Unix(source.test_dir.path(&format!("relay{depth}")));
        let origin = Origin::start(&copy.hold, "it", OriginOptions::default()).unwrap();
        origin.listen(&address).unwrap();
        relays.push((copy, origin, address));
    }
    let leaf = Copy::at(&source, "leaf.hold", &relays[2].2);
    assert!(leaf.replica.wait_ready(LONG));
    stir(&source, &mut dice, 500);
    let expected = pairs(&source.map);
    until("the leaf to agree", || leaf.pairs() == expected);
    // The relay begins again: its replica does, too, and shows the old map meanwhile.
    assert_eq!(leaf.replica.status().synchronisations, 1);
    source.map.set("large", vec![1; 3 << 20]).unwrap();
    let expected = pairs(&source.map);
    until("the leaf to agree", || leaf.pairs() == expected);
    stir(&source, &mut dice, 500);
    let expected = pairs(&source.map);
    until("the leaf to agree", || leaf.pairs() == expected);
}

#[test]
fn impossible_requests_are_refused() {
    let source = Source::new(MapOptions::general());
    let threads = OriginOptions { io_threads: 0, ..OriginOptions::default() };
    refused(Origin::start(&source.hold, "it", threads), ErrorKind::Invalid, "1 to 64");
    let none = Origin::start(&source.hold, "none", OriginOptions::default());
    refused(none, ErrorKind::NotFound, "no map 'none'");
    refused(source.origin().listen(&source.address), ErrorKind::Busy, "cannot listen");
}

#[test]
fn joining_and_leaving_replicas_are_reported() {
    let mut source = Source::new(MapOptions::general());
    source.map.set("a", "1").unwrap();
    let copy = Copy::of(&source, "copy.hold");
    copy.agrees(&source);
    let beginning = StreamPosition { offset: 0, ..source.end() };
    until("its joining is said", || source.has_said("receives the whole map"));
    let said = source.joined.lock().unwrap().join("\n");
    assert!(said.contains("joined at ") && said.contains("unix:"), "{said}");
    let end = source.end();
    until("it has told how far it is", || source.origin().replicas()[0].applied == end.offset);
    drop(copy);
    until("its leaving is said", || source.has_said(&format!("left at {end}: has gone")));
    source.origin = None;
    source.map.set("a", "2").unwrap();
    source.begin(|_| ());
    let copy = Copy::of(&source, "copy.hold");
    copy.agrees(&source);
    until("its joining is said", || source.has_said(&format!("joined at {end}: resumes")));
    assert!(source.end().offset > end.offset && end.offset > beginning.offset);
}

#[test]
fn the_age_of_a_replica_grows_while_it_is_disconnected() {
    let mut source = Source::new(MapOptions::general());
    source.map.set("a", "1").unwrap();
    let copy = Copy::of(&source, "copy.hold");
    copy.agrees(&source);
    let map = copy.hold.maps().open("it").unwrap();
    let read = |max_age| map.get_fresh("a", max_age);
    until("it is young enough for its readers", || read(Duration::from_secs(2)).is_ok());
    assert_eq!(read(LONG).unwrap().as_deref(), Some(b"1".as_slice()));
    source.origin = None;
    assert!(copy.replica.wait(LONG, |status| !status.connected));
    let lag = || copy.replica.status().lag_ms;
    let begun = Instant::now();
    until("it gets older", || lag() > 300);
    let before = lag();
    until("it goes on getting older", || lag() > before + 300);
    assert!(begun.elapsed() > Duration::from_millis(300));
    refused(read(Duration::from_millis(100)).map(drop), ErrorKind::Stale, "must not be older than");
    let checked = map.ensure_fresh(Duration::from_millis(100));
    refused(checked, ErrorKind::Stale, "check in `hold stat` that its process runs");
    map.ensure_fresh(LONG).unwrap();
    assert_eq!(map.get("a").unwrap().as_deref(), Some(b"1".as_slice()));
    // The origin's own contents are never too old.
    assert!(source.map.get_fresh("a", Duration::ZERO).unwrap().is_some());
    // The age in its report grows, too.
    let told = || {
        let reports = commonhold_io::reports::reports(&copy.hold).unwrap();
        let replica = reports.iter().find(|report| report.what == "replica");
        replica.and_then(|report| report.says["lag_ms"].as_u64()).unwrap_or(0)
    };
    until("it is reported to be older", || told() > 700);
    source.begin(|_| ());
    copy.agrees(&source);
    until("it is as young as ever", || lag() < 300);
}

#[test]
fn an_origin_that_finishes_over_tcp_loses_nothing() {
    for kind in LoopKind::ALL {
        let mut source = Source::with(MapOptions::general(), |options| options.kind = kind);
        let address = source.origin().listen(&"tcp:127.0.0.1:0".parse().unwrap()).unwrap();
        let copies = ["one", "two"].map(|name| Copy::at(&source, name, &address));
        copies.iter().for_each(|copy| copy.agrees(&source));
        // A message that a replica sends at the same time must not make the system destroy bytes
        // that are in flight to the replica.
        stir(&source, &mut Dice::new(4), 20_000);
        source.origin.take().unwrap().finish(LONG);
        let end = source.end();
        for copy in &copies {
            // No origin is left that could send it.
            assert!(copy.replica.wait_for(end, LONG), "{:?}", copy.replica.status());
            assert_eq!(copy.pairs(), pairs(&source.map));
        }
    }
}

#[test]
fn an_origin_that_finishes_waits_for_nobody_for_ever() {
    let mut source = Source::new(MapOptions::general());
    // One that has not identified itself, and one that never closes.
    let Address::Unix(path) = &source.address else { panic!("it is a path") };
    let mute = UnixStream::connect(path).unwrap();
    until("it is there", || source.origin().replicas().len() == 1);
    source.origin.take().unwrap().finish(Duration::MAX);
    assert!(source.has_said("had not identified itself yet"));
    source.begin(|_| ());
    let tap = Tap::connect(&source.address, LONG).unwrap();
    source.origin.take().unwrap().finish(Duration::from_millis(50));
    drop((mute, tap));
}

#[test]
fn an_origin_that_finishes_sends_first_what_there_is() {
    let mut source = Source::new(MapOptions::general());
    let copy = Copy::of(&source, "copy.hold");
    copy.agrees(&source);
    stir(&source, &mut Dice::new(4), 20_000);
    source.origin.take().unwrap().finish(LONG);
    let Address::Unix(path) = &source.address else { panic!("it is a path") };
    assert!(!path.exists());
    copy.agrees(&source);
}
