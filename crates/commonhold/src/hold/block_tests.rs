//! Blocks of memory as the structures use them: created, shared, dropped.

use crate::error::{Error, ErrorKind, Result};
use crate::hold::handle::Hold;
use crate::log::options::{LogLevel, LogOptions};
use crate::map::options::MapOptions;
use crate::memory::attach::Attachment;
use crate::memory::block::{Block, Wanted, drop_named, open};
use crate::memory::guests::Guests;
use crate::memory::lane::LaneGuard;
use crate::memory::roots::{self, Existing, StructureKind};
use crate::stream::own::Resizing;
use crate::sync::owner::Owner;
use crate::sync::participant::LANES;
use crate::sync::patience::Patience;
use crate::sync::space::Space;
use std::sync::atomic::{AtomicU32, Ordering};
use std::sync::{Arc, Barrier, Mutex};
use std::time::{Duration, Instant};

fn new_hold() -> (tempfile::TempDir, Hold) {
    let folder = tempfile::tempdir_in("/dev/shm").unwrap();
    let hold = Hold::create(folder.path().join("it.hold")).unwrap();
    (folder, hold)
}

fn make(hold: &Hold, name: &str, bytes: u64) -> Result<Attachment> {
    let wanted = Wanted { kind: StructureKind::Log, name, bytes, existing: Existing::Open };
    let fill = |space: &Space, block: &Block| {
        assert_eq!(block.own_bytes(), bytes);
        for offset in (0..bytes).step_by(8) {
            assert_eq!(space.word(block.own() + offset).load(Ordering::Relaxed), 0);
        }
        space.word(block.own()).store(!0, Ordering::Relaxed);
    };
    Ok(open(hold.arena(), &wanted, Some(&fill))?.unwrap())
}

fn drop_log(hold: &Hold, name: &str) -> Result<bool> {
    drop_named(hold.arena(), StructureKind::Log, name, &|_, _, _| Ok(()))
}

fn problems(hold: &Hold) -> Vec<String> {
    // These blocks are logs only by name, which the check reports.
    let is_of_block =
        |text: &String| !text.contains("describes no log") && !text.contains("too short for a log");
    hold.check().unwrap().problems.into_iter().filter(is_of_block).collect()
}

/// While the last handle looks for what its participant owns, another one comes, may leave
/// something behind, and goes.
#[test]
fn a_handle_that_comes_and_goes_makes_the_last_one_look_again() {
    let (_folder, hold) = new_hold();
    let last = make(&hold, "it", 4096).unwrap();
    let looks = AtomicU32::new(0);
    last.leave(|_| {
        if looks.fetch_add(1, Ordering::Relaxed) == 0 {
            let other = || make(&hold, "it", 4096).unwrap().leave(|_| false);
            std::thread::scope(|scope| scope.spawn(other).join().unwrap());
        }
        false
    });
    assert_eq!(looks.into_inner(), 2);
    assert_eq!(hold.structures().unwrap()[0].attached, 0);
}

#[test]
fn blocks_come_zeroed_and_go_as_a_whole() {
    let (_folder, hold) = new_hold();
    let before = hold.stat().unwrap().used_bytes;
    for round in 0..3u64 {
        let log = make(&hold, "it", 300_000).unwrap();
        let info = &hold.structures().unwrap()[0];
        assert_eq!((&*info.name, info.kind, info.attached), ("it", StructureKind::Log, 1));
        assert_eq!(problems(&hold), [""; 0]);
        assert!(hold.stat().unwrap().used_bytes >= before + 300_000, "round {round}");
        assert!(drop_log(&hold, "it").unwrap());
        assert!(!drop_log(&hold, "it").unwrap());
        assert_eq!(log.enter().map(drop).unwrap_err().kind(), ErrorKind::NotFound);
        assert_eq!(problems(&hold), [""; 0]);
        assert_eq!(hold.stat().unwrap().used_bytes, before, "round {round}");
    }
}

#[test]
fn one_name_is_one_structure() {
    let (_folder, hold) = new_hold();
    hold.maps().open_or_create("a map", MapOptions::general()).unwrap();
    let _log = make(&hold, "a log", 100).unwrap();
    let mismatch = |error: Error, what: &str| {
        assert_eq!(error.kind(), ErrorKind::Mismatch);
        assert!(error.to_string().contains(what), "{error}");
    };
    mismatch(make(&hold, "a map", 100).map(drop).unwrap_err(), "is a map");
    mismatch(drop_log(&hold, "a map").unwrap_err(), "is a map");
    let options = MapOptions::general();
    mismatch(hold.maps().open_or_create("a log", options).map(drop).unwrap_err(), "is a log");
    mismatch(hold.maps().open("a log").map(drop).unwrap_err(), "is a log");
    mismatch(hold.maps().drop("a log").unwrap_err(), "is a log");
    assert_eq!((hold.maps().list().unwrap().len(), hold.structures().unwrap().len()), (1, 1));
}

#[test]
fn nobody_drops_what_another_has_open() {
    let (_folder, hold) = new_hold();
    let other = Hold::open(hold.path()).unwrap();
    let first = make(&hold, "it", 100).unwrap();
    let (second, third) = (make(&other, "it", 100).unwrap(), make(&other, "it", 100).unwrap());
    drop(second);
    let error = drop_log(&hold, "it").unwrap_err();
    let pid = format!("process {}", std::process::id());
    assert_eq!(error.kind(), ErrorKind::Busy);
    assert!(error.to_string().contains(&pid), "{error}");
    drop(first.enter().unwrap());
    drop(third);
    assert!(drop_log(&hold, "it").unwrap());
    let again = make(&other, "it", 100).unwrap();
    assert_eq!(first.enter().map(drop).unwrap_err().kind(), ErrorKind::NotFound);
    drop(first);
    assert_eq!(drop_log(&hold, "it").unwrap_err().kind(), ErrorKind::Busy);
    drop((other, again));
}

#[test]
fn an_objection_leaves_everything_as_it_was() {
    let (_folder, hold) = new_hold();
    let log = make(&hold, "it", 100).unwrap();
    let object =
        |_: &Space, _: &Block, _: &LaneGuard<'_>| Err(Error::new(ErrorKind::Busy, "not now"));
    let kind = StructureKind::Log;
    assert!(drop_named(hold.arena(), kind, "it", &object).is_err());
    drop(log.enter().unwrap());
    assert_eq!(problems(&hold), [""; 0]);
}

/// A handle is closed while a producer or consumer joins: between the moment that this is counted
/// and the moment that it looks whether the handle is open.
#[test]
fn a_registration_ends_with_an_endpoint_that_finds_the_handle_closed() {
    let (_folder, hold) = new_hold();
    let other = Hold::open(hold.path()).unwrap();
    let lane = hold.arena().enter().unwrap();
    hold.arena().take_endpoint_slot();
    hold.clone().close().unwrap();
    assert_eq!(hold.arena().ensure_open().unwrap_err().kind(), ErrorKind::Closed);
    drop(lane);
    assert_eq!(other.stat().unwrap().participants, 2);
    hold.arena().release_endpoint_slot();
    assert_eq!(other.stat().unwrap().participants, 1);
}

/// While one thread drops a structure and finds that it must not, another thread closes a handle of
/// it: that handle is gone afterwards.
#[test]
fn a_handle_leaves_although_a_drop_is_taken_back() {
    let (_folder, hold) = new_hold();
    let other = Hold::open(hold.path()).unwrap();
    let stays = make(&hold, "it", 100).unwrap();
    let leaves = Mutex::new(Some(make(&hold, "it", 100).unwrap()));
    std::thread::scope(|scope| {
        let object = |_: &Space, _: &Block, _: &LaneGuard<'_>| {
            let handle = leaves.lock().unwrap().take();
            let leaving = scope.spawn(move || drop(handle));
            // Time to leave too early.
            let begun = Instant::now();
            while !leaving.is_finished() && begun.elapsed() < Duration::from_millis(20) {
                std::thread::yield_now();
            }
            Err(Error::new(ErrorKind::Busy, "not now"))
        };
        drop_named(hold.arena(), StructureKind::Log, "it", &object).unwrap_err();
    });
    drop(stays);
    assert_eq!(hold.structures().unwrap()[0].attached, 0);
    assert!(drop_log(&other, "it").unwrap());
}

/// A damaged root: its structure counts as dropped, and closing its handle does not hang.
#[test]
fn a_handle_leaves_a_structure_with_a_damaged_state() {
    let (_folder, hold) = new_hold();
    let log = make(&hold, "it", 100).unwrap();
    let root = roots::root(hold.space(), log.block.id).unwrap();
    root.state.fetch_or(1 << 8, Ordering::Relaxed);
    assert_eq!(log.enter().map(drop).unwrap_err().kind(), ErrorKind::NotFound);
    drop(log);
}

#[test]
fn a_dropper_waits_for_the_operations_of_its_own_process() {
    const BRIEFLY: Duration = Duration::from_millis(300);
    use std::sync::atomic::AtomicBool;
    let (_folder, hold) = new_hold();
    let log = make(&hold, "it", 100).unwrap();
    let (entered, left) = (AtomicBool::new(false), AtomicBool::new(false));
    std::thread::scope(|scope| {
        scope.spawn(|| {
            let lane = log.enter().unwrap();
            entered.store(true, Ordering::Release);
            // The name is away for a moment each time that the dropper looks for other threads. A
            // thread that does not run in that moment would miss it, and both would wait.
            let begun = Instant::now();
            while roots::find(hold.space(), "it").is_some() && begun.elapsed() < BRIEFLY {
                std::thread::yield_now();
            }
            left.store(true, Ordering::Release);
            drop(lane);
        });
        while !entered.load(Ordering::Acquire) {
            std::thread::yield_now();
        }
        assert!(drop_log(&hold, "it").unwrap());
        assert!(left.load(Ordering::Acquire));
    });
}

/// Two participants may both find that a change did not fit. The one that comes last must not
/// replace the larger stream of the other.
#[test]
fn a_stream_that_is_to_grow_never_shrinks() {
    let (_folder, hold) = new_hold();
    let map = hold.maps().create("it", MapOptions::general()).unwrap();
    hold.maps().begin_stream("it", 1 << 20).unwrap();
    let grow = |bytes| hold.maps().begin_stream_at("it", (bytes, Resizing::Grow), None).unwrap();
    assert!(grow(4 << 20));
    let number = map.follow().unwrap().position().stream;
    assert!(!grow(2 << 20) && !grow(4 << 20));
    assert_eq!(map.follow().unwrap().position().stream, number);
    assert_eq!(map.follow().unwrap().lag_bytes().unwrap().1, 4 << 20);
}

/// A call that waits for a lock in a block is in no lane. Meanwhile the structure may be dropped,
/// and its memory may become anything: here the first bytes of the hold, which name no participant.
#[test]
fn memory_that_was_a_lock_is_not_taken_for_one() {
    let (_folder, hold) = new_hold();
    let error = Error::new(ErrorKind::TimedOut, "a lock").in_the_way(8);
    hold.arena().stand_aside(&error, Patience::new(None)).unwrap();
}

/// A thread that stays inside a log, for example because a signal handler interrupted it, delays
/// only the drop of that log, and that no longer than the drop may wait.
#[test]
fn a_guest_that_stays_delays_no_other_operation() {
    struct Staying(u32);
    impl Guests for Staying {
        fn root(&self) -> u32 {
            self.0
        }
        fn is_anybody_inside(&self, _me: Owner) -> bool {
            true
        }
    }
    let folder = tempfile::tempdir_in("/dev/shm").unwrap();
    let patience = Duration::from_secs(1);
    let hold = Hold::options().lock_timeout(patience).create(folder.path().join("it.hold"));
    let hold = hold.unwrap();
    let log = hold.logs().create("it", LogOptions::new()).unwrap();
    let (root, _) = roots::find(hold.space(), "it").unwrap();
    let staying: Arc<dyn Guests> = Arc::new(Staying(root));
    hold.arena().guests.add(Arc::downgrade(&staying));
    let (sender, result) = std::sync::mpsc::channel();
    let dropping = hold.clone();
    let dropper = std::thread::spawn(move || sender.send(dropping.logs().drop("it")));
    let (mut created, begun) = (0, Instant::now());
    let result = loop {
        match result.try_recv() {
            Ok(result) => break result,
            Err(_) if begun.elapsed() < 30 * patience => {
                hold.maps().create("other", MapOptions::general()).unwrap();
                hold.maps().drop("other").unwrap();
                created += 1;
            }
            Err(_) => panic!("the drop waits without limit"),
        }
    };
    assert_eq!(result.unwrap_err().kind(), ErrorKind::TimedOut);
    assert!(created > 0);
    dropper.join().unwrap().unwrap();
    assert!(log.write(LogLevel::Info, "still here").is_ok());
    drop(staying);
    assert!(hold.logs().drop("it").unwrap());
    assert_eq!(problems(&hold), [""; 0]);
}

/// Threads of this process are in all lanes and do not run.
#[test]
fn dropping_a_log_waits_for_a_lane_only_once() {
    let (_folder, hold) = new_hold();
    let log = hold.logs().create("it", LogOptions::new()).unwrap();
    let both = Barrier::new(LANES + 1);
    let stays = || {
        let _lane = hold.arena().enter().unwrap();
        both.wait();
        both.wait();
    };
    let time = std::thread::scope(|scope| {
        (0..LANES).for_each(|_| drop(scope.spawn(stays)));
        both.wait();
        let begin = Instant::now();
        drop(log);
        let time = begin.elapsed();
        both.wait();
        time
    });
    // Twice would be four seconds.
    assert!(time < Duration::from_secs(4), "{time:?}");
    assert_eq!(problems(&hold), [""; 0]);
}

#[test]
fn an_element_in_two_places_or_none_is_found() {
    use crate::queue::options::QueueOptions;
    let (_folder, hold) = new_hold();
    let queue = hold
        .queues()
        .open_or_create("it", QueueOptions::new(10, 8).queues(["free", "full"]))
        .unwrap();
    let (space, layout) = (hold.space(), queue.layout());
    let say = |what: &str| {
        let problems = problems(&hold);
        assert!(problems.iter().any(|text| text.contains(what)), "{what}: {problems:?}");
    };
    let me = hold.arena().participant().unwrap().registration.owner.bits();
    let holder = &layout.holders(space)[4];
    holder.store(me, Ordering::Relaxed);
    say("element 4 is in 2 places");
    holder.store(me + (7 << 10), Ordering::Relaxed);
    say("whose generation has ended");
    holder.store(0, Ordering::Relaxed);
    let place = &layout.places_at(space, 0, 3, 1)[0][0];
    place.store(5, Ordering::Relaxed);
    say("element 3 is in 0 places");
    place.store(u32::MAX, Ordering::Relaxed);
    say("names element 4294967295");
    assert_eq!(queue.named("free").unwrap().pull_many(10).unwrap_err().kind(), ErrorKind::Damaged);
    place.store(3, Ordering::Relaxed);
    assert_eq!(problems(&hold), [""; 0]);
}
