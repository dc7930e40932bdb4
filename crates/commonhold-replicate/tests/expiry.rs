//! Caches: pairs that expire at the origin are removed there, and replicas get the removals, even
//! if no process writes. A replica's reader sees no expired pair, even if the origin has ended.

use crate::party::{Copy, LONG, SMALL_STREAM, Source, eager};
use commonhold::Hold;
use commonhold::map::{Map, MapMode, MapOptions};
use commonhold::stream::{ChangeKind, StreamFrame};
use commonhold_replicate::{
    Address, Origin, OriginOptions, Replica, ReplicaEvents, ReplicaOptions, Transmission, promote,
    verify,
};
use commonhold_testing::support::process::until;
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

const HOUR: Duration = Duration::from_secs(3600);
const SHORT: Duration = Duration::from_millis(200);
/// The removals come within this time (docs/guide/replication.md), with much to spare for a busy
/// machine.
const REPORT_TIME: Duration = Duration::from_secs(20);

/// The number of pairs in a replica, expired ones included.
fn stored(copy: &Copy) -> u64 {
    copy.hold.maps().open("it").unwrap().len().unwrap()
}

/// The kind of a change, and its key.
type Removal = (ChangeKind, Vec<u8>);

/// The removals that came.
#[derive(Clone, Default)]
struct Removals(Arc<Mutex<Vec<Removal>>>);

impl ReplicaEvents for Removals {
    fn changed(&mut self, change: &StreamFrame<'_>) {
        if change.kind != ChangeKind::Set {
            self.0.lock().unwrap().push((change.kind, change.key.to_vec()));
        }
    }
}

#[test]
fn pairs_that_expire_leave_replicas_though_nobody_writes() {
    let source = Source::new(MapOptions::cache().ttl(SHORT).into());
    let hold = Hold::create(source.test_dir.path("copy.hold")).unwrap();
    let removals = Removals::default();
    let options = eager();
    let replica =
        Replica::connect(&hold, "it", &source.address, options, removals.clone()).unwrap();
    let copy = Copy { hold, replica };
    source.map.set_with_ttl("stays", "1", HOUR).unwrap();
    let passing: Vec<Vec<u8>> = (0..1000u32).map(|id| id.to_be_bytes().into()).collect();
    for key in &passing {
        source.map.set(key, "2").unwrap();
    }
    assert!(copy.replica.wait_ready(LONG));
    let begun = Instant::now();
    until("all have left the replica", || stored(&copy) == 1);
    assert!(begun.elapsed() < SHORT + REPORT_TIME, "{:?}", begun.elapsed());
    assert_eq!(copy.pairs()[&b"stays"[..]], b"1");
    assert_eq!(source.map.len().unwrap(), 1, "they have left the origin, too");
    copy.agrees(&source);
    let mut told = removals.0.lock().unwrap().clone();
    assert!(told.iter().all(|(kind, _)| *kind == ChangeKind::Expire), "{told:?}");
    told.sort_by(|a, b| a.1.cmp(&b.1));
    assert_eq!(told.into_iter().map(|(_, key)| key).collect::<Vec<_>>(), passing);
}

#[test]
fn a_replica_that_was_away_receives_expirations() {
    let mut source = Source::new(MapOptions::cache().into());
    for id in 0..500u32 {
        let time = if id % 2 == 0 { HOUR } else { SHORT };
        source.map.set_with_ttl(id.to_be_bytes(), "value", time).unwrap();
    }
    let copy = Copy::of(&source, "copy.hold");
    assert!(copy.replica.wait_ready(LONG));
    source.origin = None;
    until("half of them have expired", || source.map.iter().count() == 250);
    source.begin(|_| ());
    until("they have left the replica", || stored(&copy) == 250);
    copy.agrees(&source);
    assert_eq!(copy.replica.status().synchronisations, 1);
}

#[test]
fn a_replica_of_a_cache_whose_pairs_expire_is_verified() {
    let source = Source::new(MapOptions::cache().into());
    let copy = Copy::of(&source, "copy.hold");
    for round in 0..3u64 {
        for id in 0..300u32 {
            let time = if id % 3 == 0 { HOUR } else { SHORT / 2 * (1 + id % 2) };
            source.map.set_with_ttl(id.to_be_bytes(), round.to_le_bytes(), time).unwrap();
        }
        assert!(copy.replica.wait_ready(LONG) && copy.replica.wait_for(source.end(), LONG));
        until("some have expired", || source.map.iter().count() < 300);
        let found = verify(&copy.hold, "it", &source.address, eager(), (LONG, 10)).unwrap();
        assert!(found.is_equal(), "round {round}: {found:?}");
    }
}

#[test]
fn watermarks_and_small_streams_do_not_delay_expirations() {
    let source = Source::with(MapOptions::cache().ttl(SHORT).into(), |options| {
        options.stream_bytes = SMALL_STREAM;
        let delay = Duration::from_millis(300);
        options.transmission = Transmission::Automatic { watermark: 1 << 20, delay };
    });
    let copy = Copy::of(&source, "copy.hold");
    assert!(copy.replica.wait_ready(LONG));
    // More than the stream keeps.
    for id in 0..3000u32 {
        source.map.set(id.to_be_bytes(), [7; 40]).unwrap();
    }
    until("all have left the origin", || source.map.len().unwrap() == 0);
    until("all have left the replica", || stored(&copy) == 0);
    copy.agrees(&source);
}

/// Long enough to be seen before it is over.
const BRIEF: Duration = Duration::from_secs(2);
/// The clocks of two holds differ by less.
const INACCURACY: Duration = Duration::from_millis(500);

/// Whether replicas' maps have a key, which got `BRIEF` to live not before `begun`, and lose it.
fn lose(copies: &[&Map], key: &str, begun: Instant) {
    for copy in copies {
        let is_here = copy.contains(key).unwrap();
        assert!(is_here || begun.elapsed() > BRIEF - INACCURACY, "{key} was lost too early");
    }
    until("it has expired everywhere", || copies.iter().all(|copy| !copy.contains(key).unwrap()));
}

/// A replica and an origin on the same map.
struct Relay {
    copy: Copy,
    /// It ends first.
    origin: Option<Origin>,
    address: Address,
}

impl Relay {
    fn of(source: &Source) -> Relay {
        let hold = Hold::create(source.test_dir.path("relay.hold")).unwrap();
        let options = ReplicaOptions { stream_bytes: Some(1 << 20), ..eager() };
        let replica = Replica::connect(&hold, "it", &source.address, options, ()).unwrap();
        assert!(replica.wait_ready(LONG));
        let origin = Origin::start(&hold, "it", OriginOptions::default()).unwrap();
        let address = Address::Unix(source.test_dir.path("relay"));
        origin.listen(&address).unwrap();
        Relay { copy: Copy { hold, replica }, origin: Some(origin), address }
    }
}

#[test]
fn pairs_expire_on_replicas_and_relays_whose_origin_has_ended() {
    let mut source = Source::new(MapOptions::cache().into());
    let relay = Relay::of(&source);
    source.map.set("stays", "1").unwrap();
    let begun = Instant::now();
    source.map.set_with_ttl("before", "1", BRIEF).unwrap();
    let copies = [Copy::of(&source, "copy.hold"), Copy::at(&source, "leaf.hold", &relay.address)];
    copies.iter().for_each(|copy| assert!(copy.replica.wait_ready(LONG)));
    source.map.set_with_ttl("behind", "1", BRIEF).unwrap();
    let end = source.end();
    assert!(relay.copy.replica.wait_for(end, LONG));
    copies.iter().for_each(|copy| assert!(copy.replica.wait_for(end, LONG)));
    // No process removes what expires from now on.
    source.origin = None;
    let late = Copy::at(&source, "late.hold", &relay.address);
    assert!(late.replica.wait_ready(LONG));
    let holds = [&relay.copy.hold, &copies[0].hold, &copies[1].hold, &late.hold];
    let maps = holds.map(|hold| hold.maps().open("it").unwrap());
    for key in ["before", "behind"] {
        lose(&maps.each_ref(), key, begun);
    }
    for map in &maps {
        assert_eq!(map.keys().map(Result::unwrap).collect::<Vec<_>>(), [b"stays"]);
        assert_eq!(map.len().unwrap(), 3, "the removals have not come");
    }
    // They come when an origin serves again, through the relay, too.
    source.begin(|_| ());
    until("the removals have come", || maps.iter().all(|map| map.len().unwrap() == 1));
    for copy in copies.iter().chain([&late, &relay.copy]) {
        copy.agrees(&source);
        assert_eq!(copy.replica.status().synchronisations, 1);
    }
}

#[test]
fn relays_have_the_origins_frames_with_their_expiry() {
    let source = Source::new(MapOptions::cache().into());
    let mut relay = Relay::of(&source);
    let hold = Hold::create(source.test_dir.path("leaf.hold")).unwrap();
    let also = vec![source.address.clone()];
    let options = ReplicaOptions { also, ..eager() };
    let replica = Replica::connect(&hold, "it", &relay.address, options, ()).unwrap();
    let leaf = Copy { hold, replica };
    assert!(leaf.replica.wait_ready(LONG));
    source.map.set_with_ttl("a", "1", HOUR).unwrap();
    assert!(leaf.replica.wait_for(source.end(), LONG));
    relay.origin = None;
    // It resumes at the origin only if the last change is the same there.
    source.map.set_with_ttl("b", "1", HOUR).unwrap();
    leaf.agrees(&source);
    let status = leaf.replica.status();
    assert_eq!((status.synchronisations, status.origin), (1, source.address.to_string()));
}

#[test]
fn a_promoted_cache_keeps_its_times_to_live() {
    let mut source = Source::new(MapOptions::cache().ttl(HOUR).max_entries(1000).into());
    let copy = Copy::of(&source, "copy.hold");
    let begun = Instant::now();
    source.map.set_with_ttl("brief", "1", BRIEF).unwrap();
    source.map.set("stays", "1").unwrap();
    assert!(copy.replica.wait_ready(LONG) && copy.replica.wait_for(source.end(), LONG));
    source.origin = None;
    drop(copy.replica);
    assert!(promote(&copy.hold, "it").unwrap().is_some());
    let map = copy.hold.maps().open("it").unwrap();
    let MapMode::Cache { max_entries, ttl_ms, .. } = map.options().mode() else {
        panic!("{}", map.options().mode())
    };
    assert_eq!((max_entries, ttl_ms), (None, Some(3_600_000)));
    map.set_with_ttl("own", "1", SHORT).unwrap();
    lose(&[&map], "brief", begun);
    until("its own has expired", || !map.contains("own").unwrap());
    assert!(map.contains("stays").unwrap());
    assert!(copy.hold.check().unwrap().ok);
}
