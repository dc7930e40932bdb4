//! Programs that fork while they are an origin, a replica, or keep a journal: the child may drop what it has inherited, or keep
//! it, and disturbs nobody.

use crate::party::{Copy, LONG, Source};
use crate::support::process::{Board, Child, until};
use commonhold::{Hold, MapOptions};
use commonhold_net::event::{Bytes, Done, Driver, Epoll, LoopKind, Options, Pool, Uring};
use commonhold_net::journal::{Journal, JournalOptions};
use commonhold_net::replicate::Address;
use std::io::Write;
use std::os::unix::net::UnixStream;
use std::time::Duration;

/// Drops it in a forked child, which then has threads of its own.
fn drop_in_child<T>(what: &str, value: &mut Option<T>) {
    Child::run(what, || {
        // The parent's is another copy.
        drop(value.take());
        let threads: Vec<_> = (0..4).map(|n| std::thread::spawn(move || n)).collect();
        let sum: i32 = threads.into_iter().map(|thread| thread.join().unwrap()).sum();
        assert_eq!(sum, 6);
    })
    .finish();
    assert!(value.is_some());
}

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
        // Not because nothing was heard.
        let why = copy.replica.status().last_error.unwrap_or_default();
        assert!(!why.contains("has said nothing"), "{why}");
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
    let file = source.ground.path("it.journal");
    let mut journal =
        Some(Journal::start(&source.hold, "it", &file, JournalOptions::default()).unwrap());
    source.map.set("a", "1").unwrap();
    drop_in_child("drops a journal", &mut journal);
    source.map.set("a", "2").unwrap();
    source.map.sync(LONG).unwrap();
    assert!(!journal.unwrap().is_over());
}

fn drivers_survive<D: Driver<Bytes>>(driver: D) {
    let mut driver = Some(driver);
    let own = driver.as_mut().unwrap();
    let (ours, mut theirs) = UnixStream::pair().unwrap();
    let ours = own.add(ours.into()).unwrap();
    own.receive(ours, Vec::new(), 100);
    let mut done = Vec::new();
    own.wait(Some(Duration::ZERO), &mut done).unwrap();
    assert!(done.is_empty(), "{done:?}");
    drop_in_child("drops a driver", &mut driver);
    let own = driver.as_mut().unwrap();
    theirs.write_all(b"still there").unwrap();
    own.wait(Some(LONG), &mut done).unwrap();
    let Some(Done::Received { buffer, .. }) = done.pop() else { panic!("{done:?}") };
    assert_eq!(buffer, b"still there");
}

#[test]
fn a_child_drops_its_parents_loop() {
    let options = Options::default();
    drivers_survive(Epoll::new(&options).unwrap());
    drivers_survive(Pool::new(&options).unwrap());
    drivers_survive(Uring::new(&options).unwrap());
}

#[test]
fn a_child_may_use_the_hold_all_the_same() {
    let mut source = Source::new(MapOptions::general());
    let copy = Copy::of(&source, "copy.hold");
    let path = source.ground.path("origin.hold");
    Child::run("writes", || {
        drop(source.origin.take());
        source.map.set("by the child", "1").unwrap();
        Hold::open(&path).unwrap().open_map("it").unwrap().set("anew", "2").unwrap();
    })
    .finish();
    copy.agrees(&source);
    assert_eq!(copy.pairs().len(), 2);
}
