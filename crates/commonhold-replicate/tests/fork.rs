//! Programs that fork while they run an origin, a replica or a journal: the child may drop its
//! copies or keep them, and disturbs no other process.

use crate::party::{Copy, LONG, Source};
use commonhold::Hold;
use commonhold::map::MapOptions;
use commonhold_io::address::Address;
use commonhold_io::sockets::LoopKind;
use commonhold_replicate::journal::{Journal, JournalOptions};
use commonhold_testing::alone::drop_in_child;
use commonhold_testing::support::process::{Board, Child, until};

#[test]
fn a_child_drops_its_parents_origin_and_replica() {
    for kind in LoopKind::ALL {
        let mut source = Source::with(MapOptions::general(), |options| options.kind = kind);
        source.map.set("a", "1").unwrap();
        let Copy { hold, replica } = Copy::of(&source, "copy.hold");
        assert!(replica.wait_ready(LONG));
        let mut replica = Some(replica);
        drop_in_child("drops an origin", &mut source.origin);
        Child::run("finishes an origin", || source.origin.take().unwrap().finish(LONG)).finish();
        drop_in_child("drops a replica", &mut replica);
        let Address::Unix(path) = &source.address else { panic!("it is a path") };
        assert!(path.exists(), "the child has removed the parent's socket");
        source.map.set("a", "2").unwrap();
        let copy = Copy { hold, replica: replica.unwrap() };
        copy.agrees(&source);
        assert_eq!((copy.replica.status().connections, source.origin().replicas().len()), (1, 1));
    }
}

#[test]
fn connections_end_though_a_child_keeps_their_sockets() {
    for kind in LoopKind::ALL {
        let mut source = Source::with(MapOptions::general(), |options| options.kind = kind);
        let copy = Copy::of(&source, "copy.hold");
        assert!(copy.replica.wait_ready(LONG));
        let board = Board::new(1);
        let keeper = Child::run("keeps sockets", || until("told to end", || board.get(0) == 1));
        source.origin = None;
        assert!(copy.replica.wait(LONG, |status| !status.connected));
        // Not because no message came.
        let why = copy.replica.status().last_error.unwrap_or_default();
        assert!(!why.contains("has sent nothing"), "{why}");
        source.begin(|_| ());
        copy.agrees(&source);
        let other = Child::run("keeps sockets", || until("told to end", || board.get(0) == 1));
        drop(copy);
        until("the origin to notice", || source.origin().replicas().is_empty());
        board.put(0, 1);
        keeper.finish();
        other.finish();
    }
}

#[test]
fn a_child_drops_its_parents_journal() {
    let source = Source::new(MapOptions::general());
    let file = source.test_dir.path("it.journal");
    let mut journal =
        Some(Journal::start(&source.hold, "it", &file, JournalOptions::default()).unwrap());
    source.map.set("a", "1").unwrap();
    drop_in_child("drops a journal", &mut journal);
    source.map.set("a", "2").unwrap();
    source.map.sync(LONG).unwrap();
    assert!(!journal.unwrap().is_over());
}

#[test]
fn a_child_may_use_the_hold_all_the_same() {
    let mut source = Source::new(MapOptions::general());
    let copy = Copy::of(&source, "copy.hold");
    let path = source.test_dir.path("origin.hold");
    Child::run("writes", || {
        drop(source.origin.take());
        source.map.set("by the child", "1").unwrap();
        Hold::open(&path).unwrap().maps().open("it").unwrap().set("anew", "2").unwrap();
    })
    .finish();
    copy.agrees(&source);
    assert_eq!(copy.pairs().len(), 2);
}
