//! Stopped and dead processes in the hold: origins, replicas and journals wait for none that they
//! do not need, and end although they need one.
#![cfg(feature = "steps")]

use crate::party::{Copy, LONG, Source, eager};
use commonhold::map::{Map, MapOptions};
use commonhold::stream::StreamFrame;
use commonhold::{ErrorKind, Hold, steps};
use commonhold_io::reports::REPORTS;
use commonhold_replicate::journal::{Journal, JournalOptions, rebuild};
use commonhold_replicate::{Address, Origin, OriginOptions, Replica, ReplicaEvents};
use commonhold_testing::alone::cast;
use commonhold_testing::support::process::{Board, Child, End, until};
use commonhold_testing::support::standstill::{go_on, killed, stopped, third};
use commonhold_testing::support::test_dir::TestDir;
use nix::sys::signal::Signal;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::time::Duration;

/// The segments that a map begins with.
const SEGMENTS: u32 = 16;
/// Words of the board.
const SEEN: usize = 0;
const GO: usize = 1;

struct Stage {
    test_dir: TestDir,
    path: PathBuf,
}

impl Stage {
    /// A hold with the followed map `it`, and another one.
    fn new() -> Stage {
        let test_dir = TestDir::memory();
        let path = test_dir.path("it.hold");
        let hold = Hold::create(&path).unwrap();
        hold.maps().open_or_create("it", MapOptions::general()).unwrap().set("a", "1").unwrap();
        hold.maps().open_or_create("other", MapOptions::general()).unwrap();
        hold.maps().begin_stream("it", 1 << 20).unwrap();
        Stage { test_dir, path }
    }

    fn open(&self) -> Hold {
        Hold::open(&self.path).unwrap()
    }

    /// A writer that stands still with the lock of the stream.
    fn stopped_writer(&self) -> Child {
        stopped("stream.locked", || drop(self.open().maps().open("it").unwrap().set("b", "2")))
    }

    /// A process that stands still with a lock that the recovery of a dead one needs.
    fn dead_behind_stopped(&self) -> Child {
        let other = self.open().maps().open("other").unwrap();
        let of = |segment| keys(&other, segment, 400);
        let (dead, still) = (of(0), of(1));
        let fill = |hold: &Hold, keys: &[String]| {
            let map = hold.maps().open("other").unwrap();
            for key in keys {
                map.set(key, "new").unwrap();
            }
        };
        stopped("split.entries-locked", || {
            // Opened before: the opening recovers nothing of the dead one.
            let hold = self.open();
            killed("split.publishing", || fill(&self.open(), &dead));
            fill(&hold, &still);
        })
    }

    fn journal(&self, hold: &Hold) -> Journal {
        let file = self.test_dir.path("it.journal");
        Journal::start(hold, "it", file, JournalOptions::default()).unwrap()
    }

    fn origin(&self, hold: &Hold) -> (Origin, Address) {
        let address = Address::Unix(self.test_dir.path("socket"));
        let origin = Origin::start(hold, "it", OriginOptions::default()).unwrap();
        origin.listen(&address).unwrap();
        (origin, address)
    }

    fn replica(&self, address: &Address) -> (Hold, Replica) {
        let hold = Hold::open_or_create(self.test_dir.path("copy.hold")).unwrap();
        let replica = Replica::connect(&hold, "it", address, eager(), ()).unwrap();
        (hold, replica)
    }
}

/// Keys of one of the segments that a map begins with.
fn keys(map: &Map, segment: u32, count: usize) -> Vec<String> {
    let all = (0..).map(|n| format!("{segment}-{n}")).filter(|key| {
        let uid = map.set(key, "probe").unwrap();
        map.delete(key).unwrap();
        uid.0 >> 8 & (SEGMENTS - 1) == segment
    });
    all.take(count).collect()
}

/// Counts on the board how often a thread of this name passes a step.
fn watch(board: &'static Board, thread: &'static str, step: &'static str) {
    steps::observe(move |passed| {
        if passed == step && std::thread::current().name() == Some(thread) {
            board.count(SEEN, 1);
        }
    });
}

fn new_board() -> &'static Board {
    Box::leak(Box::new(Board::new(2)))
}

/// The end of the stream is not known yet, so the dead processes are recovered; one of these
/// recoveries needs a lock that a stopped process has.
#[test]
fn settling_the_dead_stops_no_journal() {
    let (stage, board) = (Stage::new(), new_board());
    let still = stage.dead_behind_stopped();
    let writer = stage.stopped_writer();
    let mut journals = Child::run("keeps a journal", || {
        watch(board, "journal", "recover.begun");
        let hold = stage.open();
        let journal = stage.journal(&hold);
        until("it recovers the dead", || board.get(SEEN) > 0);
        board.put(GO, 1);
        hold.maps().open("it").unwrap().sync(LONG).unwrap();
        journal.finish().unwrap();
    });
    until("the journal recovers the dead", || board.get(GO) == 1 || journals.is_gone());
    go_on(writer);
    assert_eq!(journals.wait_for(LONG / 2), End::Well);
    go_on(still);
}

#[test]
fn settling_the_dead_stops_no_origin() {
    let (stage, board) = (Stage::new(), new_board());
    let still = stage.dead_behind_stopped();
    let mut serves = cast("serves", || {
        watch(board, "origin 0", "recover.begun");
        let (origin, address) = stage.origin(&stage.open());
        board.put(GO, 1);
        until("a writer has stopped", || board.get(GO) == 2);
        let (_hold, replica) = stage.replica(&address);
        until("it recovers the dead", || board.get(SEEN) > 0);
        board.put(GO, 3);
        assert!(replica.wait_ready(LONG));
        drop(replica);
        drop(origin);
    });
    until("it serves", || board.get(GO) == 1 || serves.is_gone());
    let writer = stage.stopped_writer();
    board.put(GO, 2);
    until("the origin recovers the dead", || board.get(GO) == 3 || serves.is_gone());
    go_on(writer);
    assert_eq!(serves.wait_for(LONG / 2), End::Well);
    go_on(still);
}

/// A process whose threads stand still with every segment of a map.
fn holds(stage: &Stage, map: &str) -> Child {
    let board = Board::new(1);
    let child = Child::run(format!("holds {map}"), || {
        static LOCKED: AtomicUsize = AtomicUsize::new(0);
        static BEGUN: AtomicBool = AtomicBool::new(false);
        let map = stage.open().maps().open(map).unwrap();
        let keys: Vec<_> = (0..SEGMENTS).map(|segment| keys(&map, segment, 1)).collect();
        steps::observe(|step| {
            if step == "write.locked" && BEGUN.load(Ordering::SeqCst) {
                LOCKED.fetch_add(1, Ordering::SeqCst);
                loop {
                    std::thread::park();
                }
            }
        });
        BEGUN.store(true, Ordering::SeqCst);
        std::thread::scope(|scope| {
            for key in &keys {
                scope.spawn(|| map.set(&key[0], "in the way"));
            }
            until("all are locked", || LOCKED.load(Ordering::SeqCst) == SEGMENTS as usize);
            board.put(SEEN, 1);
        });
    });
    until("its segments are locked", || board.get(SEEN) == 1 || child.is_gone());
    child
}

#[test]
fn reports_wait_for_nobody() {
    let stage = Stage::new();
    let reports = MapOptions::cache().ttl(Duration::from_secs(4));
    drop(stage.open().maps().open_or_create(REPORTS, reports).unwrap());
    let holder = holds(&stage, REPORTS);
    third("keeps a journal", || {
        let hold = stage.open();
        let journal = stage.journal(&hold);
        let map = hold.maps().open("it").unwrap();
        for number in 0..30u32 {
            map.set("a", number.to_le_bytes()).unwrap();
            map.sync(LONG).unwrap();
        }
        journal.finish().unwrap();
    });
    third("serves", || {
        let (origin, address) = stage.origin(&stage.open());
        let (_hold, replica) = stage.replica(&address);
        assert!(replica.wait_ready(LONG));
        drop(replica);
        origin.finish(LONG);
    });
    assert_eq!(holder.slay(), End::By(Signal::SIGKILL));
}

/// The end of the stream cannot be known: everything before it is in the file all the same.
#[test]
fn a_journal_ends_behind_a_stopped_writer() {
    for is_limited in [false, true] {
        let stage = Stage::new();
        let writer = stage.stopped_writer();
        third("ends", || {
            let options = Hold::options();
            let limited = options.clone().lock_timeout(Duration::from_millis(50));
            let hold = if is_limited { limited } else { options }.open(&stage.path).unwrap();
            let error = stage.journal(&hold).finish().unwrap_err();
            assert_eq!(error.kind(), ErrorKind::Io, "{error}");
        });
        third("is dropped", || drop(stage.journal(&stage.open())));
        go_on(writer);
        let hold = stage.open();
        stage.journal(&hold).finish().unwrap();
        rebuilt(&stage, 2);
    }
}

/// A journal that has begun before writes everything into the file, and returns an error because it
/// cannot know whether that is everything.
#[test]
fn a_journal_keeps_what_came_before_a_stopped_writer() {
    let (stage, board) = (Stage::new(), new_board());
    let mut keeps = Child::run("keeps a journal", || {
        let hold = stage.open();
        let journal = stage.journal(&hold);
        hold.maps().open("it").unwrap().sync(LONG).unwrap();
        board.put(SEEN, 1);
        until("the writer has stopped", || board.get(GO) == 1);
        let error = journal.finish().unwrap_err();
        assert!(error.to_string().contains("waited"), "{error}");
    });
    until("the journal runs", || board.get(SEEN) == 1 || keeps.is_gone());
    let writer = stage.stopped_writer();
    board.put(GO, 1);
    assert_eq!(keeps.wait_for(LONG / 2), End::Well);
    rebuilt(&stage, 1);
    go_on(writer);
}

fn rebuilt(stage: &Stage, pairs: u64) {
    let path = stage.test_dir.path("again.hold");
    let hold = Hold::create(&path).unwrap();
    let options = JournalOptions::default();
    rebuild(&hold, "it", stage.test_dir.path("it.journal"), &options).unwrap();
    assert_eq!(hold.maps().open("it").unwrap().len().unwrap(), pairs);
}

/// A journal cannot announce durable changes while a stopped process has the map for that. It
/// continues afterwards, and announces them although nothing has changed since.
#[test]
fn a_journal_announces_later_what_it_could_not() {
    let (stage, board) = (Stage::new(), new_board());
    let mut keeps = Child::run("keeps a journal", || {
        let hold = stage.open();
        let journal = stage.journal(&hold);
        let map = hold.maps().open("it").unwrap();
        map.sync(LONG).unwrap();
        board.put(SEEN, 1);
        until("somebody is in the way", || board.get(GO) == 1);
        map.set("b", "2").unwrap();
        until("it gives up", || journal.status().error.is_some_and(|why| why.contains("waited")));
        board.put(SEEN, 2);
        map.sync(LONG).unwrap();
        until("all is well", || journal.status().error.is_none());
    });
    until("the journal runs", || board.get(SEEN) == 1 || keeps.is_gone());
    let holder = holds(&stage, ".journal/it");
    board.put(GO, 1);
    until("the journal gives up", || board.get(SEEN) == 2 || keeps.is_gone());
    assert_eq!(holder.slay(), End::By(Signal::SIGKILL));
    assert_eq!(keeps.wait_for(LONG / 2), End::Well);
}

/// A process that has the notes about replicas locked holds up no change on its way to them. The
/// notes are written when it is gone.
#[test]
fn notes_about_replicas_hold_up_no_replica() {
    let stage = Stage::new();
    let hold = stage.open();
    let map = hold.maps().open("it").unwrap();
    let (origin, address) = stage.origin(&hold);
    let (copy, replica) = stage.replica(&address);
    map.wait_for_replicas(1, LONG).unwrap();
    let holder = holds(&stage, ".acks/it");
    for number in 0..50u32 {
        map.set("a", number.to_le_bytes()).unwrap();
        let end = map.follow().unwrap().end().unwrap();
        assert!(replica.wait_for(end, LONG), "{:?}", replica.status());
    }
    let short = Duration::from_millis(100);
    let error = map.wait_for_replicas(1, short).unwrap_err();
    assert!(error.kind() == ErrorKind::TimedOut && error.to_string().contains("0 of 1"), "{error}");
    assert_eq!(holder.slay(), End::By(Signal::SIGKILL));
    assert_eq!(map.wait_for_replicas(1, LONG).unwrap(), 1);
    drop((origin, copy));
}

/// A replica whose thread waits for a process that stands still while it grows the hold.
#[test]
fn a_replica_ends_behind_a_stopped_process() {
    let (source, board) = (Source::new(MapOptions::general()), new_board());
    source.map.set("a", "1").unwrap();
    let path = source.test_dir.path("copy.hold");
    let mut follows = cast("follows", || {
        let Copy { hold, replica } = Copy::of(&source, "copy.hold");
        assert!(replica.wait_ready(LONG));
        board.put(SEEN, 1);
        until("there is more", || board.get(GO) == 1);
        assert!(!replica.wait_for(source.end(), Duration::from_secs(1)), "it needs no memory");
        drop(replica);
        drop(hold);
    });
    until("the replica is ready", || board.get(SEEN) == 1 || follows.is_gone());
    let still = stopped("grow.locked", || fill(&path));
    for number in 0..200u32 {
        source.map.set(number.to_le_bytes(), vec![7; 30 << 10]).unwrap();
    }
    board.put(GO, 1);
    assert_eq!(follows.wait_for(LONG / 2), End::Well);
    go_on(still);
    Copy::of(&source, "copy.hold").agrees(&source);
}

/// Callbacks that take long: a program may free what they refer to once the drop has returned.
struct Slow(Arc<AtomicUsize>);

impl ReplicaEvents for Slow {
    fn changed(&mut self, _: &StreamFrame<'_>) {
        self.0.fetch_add(1, Ordering::SeqCst);
        std::thread::sleep(Duration::from_millis(100));
    }
}

#[test]
fn no_callback_runs_after_the_drop() {
    let source = Source::new(MapOptions::general());
    let hold = Hold::create(source.test_dir.path("copy.hold")).unwrap();
    let calls = Arc::new(AtomicUsize::new(0));
    let slow = Slow(Arc::clone(&calls));
    let replica = Replica::connect(&hold, "it", &source.address, eager(), slow).unwrap();
    assert!(replica.wait_ready(LONG));
    for number in 0..200u32 {
        source.map.set(number.to_le_bytes(), "1").unwrap();
    }
    until("the callbacks have begun", || calls.load(Ordering::SeqCst) > 0);
    drop(replica);
    let then = calls.load(Ordering::SeqCst);
    assert!(then < 200, "the drop waits for no more than the callback that runs");
    std::thread::sleep(Duration::from_secs(1));
    assert_eq!(calls.load(Ordering::SeqCst), then);
}

/// Looking up a name can take any time. A replica that is dropped meanwhile leaves its place to the
/// next one at once.
#[test]
fn a_replica_that_connects_ends_at_once() {
    static MAY_END: AtomicBool = AtomicBool::new(false);
    let (test_dir, board) = (TestDir::memory(), new_board());
    let address: Address = "tcp:localhost:1".parse().unwrap();
    let mut connects = cast("connects", || {
        steps::observe_faults(|call| {
            if call == "connect.resolve" {
                board.count(SEEN, 1);
                while !MAY_END.load(Ordering::SeqCst) {
                    std::thread::sleep(Duration::from_millis(1));
                }
            }
        });
        let hold = Hold::create(test_dir.path("it.hold")).unwrap();
        for number in 1..=2 {
            let replica = Replica::connect(&hold, "it", &address, eager(), ()).unwrap();
            until("it looks the name up", || board.get(SEEN) == number);
            drop(replica);
        }
        MAY_END.store(true, Ordering::SeqCst);
    });
    assert_eq!(connects.wait_for(LONG / 2), End::Well);
}

/// Sets pairs until the hold has grown.
fn fill(path: &Path) {
    let map =
        Hold::open(path).unwrap().maps().open_or_create("other", MapOptions::general()).unwrap();
    for number in 0..2000u32 {
        map.set(number.to_le_bytes(), [1; 1000]).unwrap();
    }
}

/// An origin whose map was made again, and whose new stream waits for a stopped writer.
#[test]
fn an_origin_ends_behind_a_stopped_process() {
    let (stage, board) = (Stage::new(), new_board());
    let mut serves = cast("serves", || {
        watch(board, "origin watch", "stream.claimed-memory");
        let hold = stage.open();
        let (origin, _) = stage.origin(&hold);
        board.put(GO, 1);
        until("a writer has stopped", || board.get(GO) == 2);
        assert!(hold.maps().drop("it").unwrap());
        drop(hold.maps().open_or_create("it", MapOptions::general()).unwrap());
        until("it begins the stream", || board.get(SEEN) > 0);
        drop(origin);
    });
    until("it serves", || board.get(GO) == 1 || serves.is_gone());
    let still =
        stopped("write.locked", || drop(stage.open().maps().open("other").unwrap().set("a", "1")));
    board.put(GO, 2);
    assert_eq!(serves.wait_for(LONG / 2), End::Well);
    go_on(still);
}

/// The changes that come after a panic of the journal's thread are in no file.
#[test]
fn a_journal_whose_thread_panics_does_not_end_well() {
    let stage = Stage::new();
    let writing = Hold::open(&stage.path).unwrap();
    let map = writing.maps().open("it").unwrap();
    let board = Board::new(2);
    let child = Child::run("a journal that panics", || {
        let hold = Hold::open(&stage.path).unwrap();
        let file = stage.test_dir.path("it.journal");
        let journal = Journal::start(&hold, "it", file, JournalOptions::default()).unwrap();
        hold.maps().open("it").unwrap().sync(LONG).unwrap();
        // Its thread alone changes the hold from now on.
        commonhold::steps::arm("write.committed:panic").unwrap();
        board.put(GO, 1);
        until("the journal's thread has ended", || journal.is_over());
        assert!(journal.finish().is_err());
    });
    until("the journal is armed", || board.get(GO) == 1);
    map.set("b", "1").unwrap();
    child.finish();
}
