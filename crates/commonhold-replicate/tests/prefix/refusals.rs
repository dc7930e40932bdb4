//! The part of a map cannot become another part, or the origin of replicas.

use super::{agrees, of, part, write};
use crate::party::{Copy, LONG, Source, eager, pairs};
use commonhold::hold::restore;
use commonhold::map::MapOptions;
use commonhold::{ErrorKind, Hold};
use commonhold_replicate::journal::{Journal, JournalOptions};
use commonhold_replicate::{
    Address, HoldReplica, HoldReplicaOptions, Origin, OriginOptions, Replica, ReplicaOptions,
    ReplicaStatus, promote,
};
use commonhold_testing::support::refused;

#[test]
fn a_map_keeps_to_its_prefix_until_it_is_dropped() {
    let source = Source::new(MapOptions::general());
    write(&source.map, 1);
    let Copy { hold, replica } = {
        let copy = part(&source, "copy.hold", &[3]);
        agrees(&copy, &source, &[3]);
        copy
    };
    drop(replica);
    let start = |options| Replica::connect(&hold, "it", &source.address, options, ());
    let kept = "map 'it' replicates the keys that begin with '\\x03', and now ";
    for (options, wanted) in [
        (of(&[4]), "the keys that begin with '\\x04' are wanted"),
        (of(&[3, 7]), "the keys that begin with '\\x03\\x07' are wanted"),
        (eager(), "all keys are wanted"),
    ] {
        refused(start(options), ErrorKind::Mismatch, &format!("{kept}{wanted}: start the replica"));
    }
    drop(start(of(&[3])).unwrap());
    hold.maps().drop("it").unwrap();
    let copy = part(&source, "copy.hold", &[4]);
    agrees(&copy, &source, &[4]);
    // And the other way round.
    let whole = Copy::of(&source, "whole.hold");
    whole.agrees(&source);
    let Copy { hold, replica } = whole;
    drop(replica);
    let again = Replica::connect(&hold, "it", &source.address, of(&[3]), ());
    refused(again, ErrorKind::Mismatch, "map 'it' replicates all keys, and now the keys that");
    assert_eq!(pairs(&hold.maps().open("it").unwrap()), pairs(&source.map));
}

/// Nothing was received yet, so nothing is lost.
#[test]
fn a_map_without_contents_takes_another_prefix() {
    let source = Source::new(MapOptions::general());
    write(&source.map, 1);
    let nowhere = Address::Unix(source.test_dir.path("nowhere"));
    let hold = Hold::create(source.test_dir.path("copy.hold")).unwrap();
    for options in [eager(), of(&[4])] {
        drop(Replica::connect(&hold, "it", &nowhere, options, ()).unwrap());
    }
    let copy = part(&source, "copy.hold", &[3]);
    agrees(&copy, &source, &[3]);
}

#[test]
fn prefixes_have_one_byte_at_least_and_255_at_most() {
    let source = Source::new(MapOptions::general());
    let hold = Hold::create(source.test_dir.path("copy.hold")).unwrap();
    let start = |options| Replica::connect(&hold, "it", &source.address, options, ());
    refused(start(of(&[])), ErrorKind::Invalid, "a prefix of 0 bytes; expected 1 to 255");
    refused(start(of(&[1; 256])), ErrorKind::Invalid, "a prefix of 256 bytes; expected 1 to 255");
    refused(hold.maps().open("it"), ErrorKind::NotFound, "'it'");
    let long = [7; 255];
    source.map.set([&long[..], b"x"].concat(), "1").unwrap();
    source.map.set(&long[..254], "1").unwrap();
    let copy = part(&source, "copy.hold", &long);
    agrees(&copy, &source, &long);
    assert_eq!(copy.pairs().len(), 1);
}

#[test]
fn a_part_is_no_relay_and_no_origin_and_has_no_journal() {
    let source = Source::new(MapOptions::general());
    write(&source.map, 1);
    let copy = part(&source, "copy.hold", &[3]);
    agrees(&copy, &source, &[3]);
    let why = "map 'it' has only the keys that begin with '\\x03', so it cannot ";
    let serve = || Origin::start(&copy.hold, "it", OriginOptions::default());
    refused(serve(), ErrorKind::Mismatch, &format!("{why}serve replicas: use its origin"));
    let map = copy.hold.maps().open("it").unwrap();
    assert!(map.follow().is_err(), "the refusal has made a stream");
    let journal = source.test_dir.path("journal");
    assert!(Journal::start(&copy.hold, "it", journal, JournalOptions::default()).is_err());
    let hold = Hold::create(source.test_dir.path("relay.hold")).unwrap();
    let options = ReplicaOptions { stream_bytes: Some(1 << 20), ..of(&[3]) };
    let relay = Replica::connect(&hold, "it", &source.address, options, ());
    refused(relay, ErrorKind::Invalid, "a relay needs all keys");
    let replica = of(&[3]);
    let options = HoldReplicaOptions { replica, ..HoldReplicaOptions::default() };
    let whole = HoldReplica::connect(&hold, &source.address, options, ());
    refused(whole, ErrorKind::Invalid, "a replica of a whole hold takes all keys");
}

/// The origin was started when the map had no contents and no prefix.
#[test]
fn an_origin_refuses_replicas_of_a_map_that_has_become_a_part() {
    let source = Source::new(MapOptions::general());
    write(&source.map, 1);
    let nowhere = Address::Unix(source.test_dir.path("nowhere"));
    let hold = Hold::create(source.test_dir.path("copy.hold")).unwrap();
    drop(Replica::connect(&hold, "it", &nowhere, eager(), ()).unwrap());
    let origin = Origin::start(&hold, "it", OriginOptions::default()).unwrap();
    let address = Address::Unix(source.test_dir.path("relay"));
    origin.listen(&address).unwrap();
    let copy = part(&source, "copy.hold", &[3]);
    agrees(&copy, &source, &[3]);
    let behind = Copy::at(&source, "behind.hold", &address);
    let told = |status: &ReplicaStatus| {
        status.last_error.as_ref().is_some_and(|why| why.contains("has only the keys that begin"))
    };
    assert!(behind.replica.wait(LONG, told), "{:?}", behind.replica.status());
    assert!(!behind.replica.status().ready);
}

/// Its lineage would go on without the other keys.
#[test]
fn a_part_is_not_promoted() {
    let source = Source::new(MapOptions::general());
    write(&source.map, 1);
    let whole = Copy::of(&source, "whole.hold");
    whole.agrees(&source);
    let copy = part(&source, "copy.hold", &[3]);
    agrees(&copy, &source, &[3]);
    let Copy { hold, replica } = copy;
    drop(replica);
    let why = "has only the keys that begin with '\\x03', so it cannot become the origin";
    refused(promote(&hold, "it"), ErrorKind::Mismatch, why);
    assert!(hold.maps().open("it").unwrap().is_replica());
    // By force it becomes a map of its own, which the other replicas do not accept.
    assert!(hold.maps().promote("it").unwrap());
    let origin = Origin::start(&hold, "it", OriginOptions::default()).unwrap();
    let address = Address::Unix(source.test_dir.path("promoted"));
    origin.listen(&address).unwrap();
    drop(whole);
    let whole = Copy::at(&source, "whole.hold", &address);
    let told = |status: &ReplicaStatus| {
        status.last_error.as_ref().is_some_and(|why| why.contains("but this replica keeps"))
    };
    assert!(whole.replica.wait(LONG, told), "{:?}", whole.replica.status());
    assert_eq!(whole.pairs(), pairs(&source.map));
}

/// So does a part that comes from a backup.
#[test]
fn a_part_from_a_backup_is_a_map_of_its_own() {
    let source = Source::new(MapOptions::general());
    write(&source.map, 1);
    let whole = Copy::of(&source, "whole.hold");
    whole.agrees(&source);
    let copy = part(&source, "copy.hold", &[3]);
    agrees(&copy, &source, &[3]);
    let (backup, restored) = (source.test_dir.path("backup"), source.test_dir.path("again.hold"));
    copy.hold.backup(&backup).unwrap();
    restore(&backup, &restored).unwrap();
    let hold = Hold::open(&restored).unwrap();
    let origin = Origin::start(&hold, "it", OriginOptions::default()).unwrap();
    let address = Address::Unix(source.test_dir.path("restored"));
    origin.listen(&address).unwrap();
    drop(whole);
    let whole = Copy::at(&source, "whole.hold", &address);
    let told = |status: &ReplicaStatus| {
        status.last_error.as_ref().is_some_and(|why| why.contains("but this replica keeps"))
    };
    assert!(whole.replica.wait(LONG, told), "{:?}", whole.replica.status());
    assert_eq!(whole.pairs(), pairs(&source.map));
}
