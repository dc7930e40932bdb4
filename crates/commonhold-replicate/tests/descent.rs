//! Holds that are created again, from a backup or from a journal: their maps continue the lineage.

use crate::party::{Copy, LONG, Source, eager, pairs};
use commonhold::Hold;
use commonhold::hold::restore;
use commonhold::map::{Map, MapOptions};
use commonhold_replicate::journal::{Journal, JournalOptions, rebuild};
use commonhold_replicate::{Address, Origin, OriginOptions, Replica, ReplicaOptions, promote};
use commonhold_testing::support::process::until;

/// An origin of the map of a hold that was created again, and the map.
fn served(hold: &Hold, address: &Address) -> (Origin, Map) {
    let origin = Origin::start(hold, "it", OriginOptions::default()).unwrap();
    origin.listen(address).unwrap();
    (origin, hold.maps().open("it").unwrap())
}

#[track_caller]
fn agree(map: &Map, copy: &Hold) {
    until("the copy agrees", || pairs(&copy.maps().open("it").unwrap()) == pairs(map));
}

#[track_caller]
fn is_refused(replica: &Replica, text: &str) {
    let is_named = |status: &commonhold_replicate::ReplicaStatus| {
        status.last_error.as_ref().is_some_and(|error| error.contains(text))
    };
    assert!(replica.wait(LONG, is_named), "no '{text}': {:?}", replica.status());
}

/// The replica is ahead of the backup, and both origins are alive.
#[test]
fn a_replica_follows_a_restored_map_and_then_refuses_the_original() {
    let mut source = Source::new(MapOptions::general());
    source.map.set("a", "both").unwrap();
    let backup = source.test_dir.path("backup");
    let report = source.hold.backup(&backup).unwrap();
    assert_eq!((report.maps, report.pairs), (1, 1));
    source.map.set("b", "then").unwrap();
    let Copy { hold, replica } = Copy::of(&source, "copy.hold");
    assert!(replica.wait_for(source.end(), LONG));
    drop(replica);
    let path = source.test_dir.path("restored.hold");
    let report = restore(&backup, &path).unwrap();
    assert_eq!((report.maps, report.pairs), (1, 1));
    let restored = Hold::open(&path).unwrap();
    let at = Address::Unix(source.test_dir.path("restored"));
    let (origin, map) = served(&restored, &at);
    map.set("c", "here").unwrap();
    let replica = Replica::connect(&hold, "it", &at, eager(), ()).unwrap();
    agree(&map, &hold);
    drop(replica);
    // The original is of an earlier epoch, whichever address comes first.
    source.map.set("d", "then").unwrap();
    let replica = Replica::connect(&hold, "it", &source.address, eager(), ()).unwrap();
    is_refused(&replica, "has seen epoch 2");
    agree(&map, &hold);
    drop(replica);
    let options = ReplicaOptions { also: vec![at], ..eager() };
    let replica = Replica::connect(&hold, "it", &source.address, options, ()).unwrap();
    map.set("e", "here").unwrap();
    agree(&map, &hold);
    // Served again, it is the same.
    drop((replica, origin));
    let (_origin, map) = served(&restored, &source_moves(&mut source));
    let replica = Replica::connect(&hold, "it", &source.address, eager(), ()).unwrap();
    map.set("f", "here").unwrap();
    agree(&map, &hold);
    assert!(replica.status().last_error.is_none(), "{:?}", replica.status());
}

/// The original is gone; its address is free.
fn source_moves(source: &mut Source) -> Address {
    source.origin = None;
    source.address.clone()
}

#[test]
fn a_backup_of_a_replica_continues_its_lineage() {
    let mut source = Source::new(MapOptions::general());
    source.map.set("a", "1").unwrap();
    let [first, second] = ["first.hold", "second.hold"].map(|name| Copy::of(&source, name));
    first.agrees(&source);
    second.agrees(&source);
    let backup = source.test_dir.path("backup");
    first.hold.backup(&backup).unwrap();
    let path = source.test_dir.path("restored.hold");
    restore(&backup, &path).unwrap();
    let restored = Hold::open(&path).unwrap();
    assert_eq!(promote(&restored, "it").unwrap(), None);
    let (_origin, map) = served(&restored, &source_moves(&mut source));
    map.set("b", "here").unwrap();
    agree(&map, &first.hold);
    agree(&map, &second.hold);
}

#[test]
fn a_replica_follows_a_map_that_was_rebuilt_from_its_journal() {
    let mut source = Source::new(MapOptions::general());
    let file = source.test_dir.path("it.journal");
    let journal = Journal::start(&source.hold, "it", &file, JournalOptions::default()).unwrap();
    source.map.set("a", "1").unwrap();
    let copy = Copy::of(&source, "copy.hold");
    copy.agrees(&source);
    source.map.sync(LONG).unwrap();
    drop(journal);
    source.map.set("lost", "2").unwrap();
    copy.agrees(&source);
    let address = source_moves(&mut source);
    for round in 0..3u8 {
        let path = source.test_dir.path(&format!("again{round}.hold"));
        let hold = Hold::create(path).unwrap();
        rebuild(&hold, "it", &file, &JournalOptions::default()).unwrap();
        let journal = Journal::start(&hold, "it", &file, JournalOptions::default()).unwrap();
        let (origin, map) = served(&hold, &address);
        map.set([round], "here").unwrap();
        agree(&map, &copy.hold);
        map.sync(LONG).unwrap();
        drop((origin, journal));
    }
    // The first one is behind now.
    source.begin(|_| ());
    is_refused(&copy.replica, "has seen epoch 4");
}

/// Its origin runs meanwhile, and the replica connects again and again.
#[cfg(feature = "steps")]
#[test]
fn a_replica_follows_a_map_that_is_rebuilt_under_its_origin() {
    use commonhold_testing::support::standstill::{go_on, stopped};
    let source = Source::new(MapOptions::general());
    source.map.set("a", "both").unwrap();
    let Copy { hold, replica } = Copy::of(&source, "copy.hold");
    let [path, file] = ["origin.hold", "it.journal"].map(|name| source.test_dir.path(name));
    let options = JournalOptions { stream_bytes: 4 << 20, ..JournalOptions::default() };
    let journal = Journal::start(&source.hold, "it", &file, options.clone()).unwrap();
    source.map.sync(LONG).unwrap();
    journal.finish().unwrap();
    assert!(replica.wait_for(source.end(), LONG));
    let again = || {
        let hold = Hold::open(&path).unwrap();
        hold.maps().drop("it").unwrap();
        rebuild(&hold, "it", &file, &options).unwrap();
    };
    // Its second and its third epoch.
    again();
    agree_again(&source, &hold, "then");
    let still = stopped("create.live", again);
    is_refused(&replica, "has not received the map");
    go_on(still);
    agree_again(&source, &hold, "here");
    drop(replica);
    let other = Hold::create(source.test_dir.path("other.hold")).unwrap();
    rebuild(&other, "it", &file, &options).unwrap();
    let at = Address::Unix(source.test_dir.path("other"));
    let (_origin, _) = served(&other, &at);
    let replica = Replica::connect(&hold, "it", &at, eager(), ()).unwrap();
    is_refused(&replica, "an origin of epoch 2, and the replica has seen epoch 3");
}

/// The replica gets a change of the map that was rebuilt.
#[cfg(feature = "steps")]
#[track_caller]
fn agree_again(source: &Source, copy: &Hold, value: &str) {
    let map = source.hold.maps().open("it").unwrap();
    map.set("b", value).unwrap();
    agree(&map, copy);
}
