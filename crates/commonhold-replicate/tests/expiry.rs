//! Caches: pairs that expire at the origin are removed there, and replicas get the removals, even
//! if no process writes.

use crate::party::{Copy, LONG, SMALL_STREAM, Source, eager};
use commonhold::Hold;
use commonhold::map::MapOptions;
use commonhold::stream::{ChangeKind, StreamFrame};
use commonhold_replicate::{Replica, ReplicaEvents, Transmission, verify};
use commonhold_testing::support::process::until;
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

const HOUR: Duration = Duration::from_secs(3600);
const SHORT: Duration = Duration::from_millis(200);
/// The removals come within this time (docs/guide/replication.md), with much to spare for a busy
/// machine.
const REPORT_TIME: Duration = Duration::from_secs(20);

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
    let hold = Hold::create(source.ground.path("copy.hold")).unwrap();
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
    until("all have left the replica", || copy.pairs().len() == 1);
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
    until("they have left the replica", || copy.pairs().len() == 250);
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
    until("all have left the replica", || copy.pairs().is_empty());
    copy.agrees(&source);
}
