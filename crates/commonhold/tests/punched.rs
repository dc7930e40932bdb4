//! Readers of small records whose memory goes back to the system while they are stopped, on a file
//! system that is full when they continue. They once died of SIGBUS.

use crate::support::disk::on_small_tmpfs;
use crate::support::process::{Board, Child, End, until};
use crate::support::test_dir::TestDir;
use commonhold::map::{Map, MapOptions};
use commonhold::{ErrorKind, Hold, steps};
use nix::sys::mman::{MapFlags, ProtFlags, mmap};
use nix::sys::signal::{SaFlags, SigAction, SigHandler, SigSet, Signal, raise, sigaction};
use std::cell::Cell;
use std::fs::{self, File};
use std::io::Write;
use std::num::NonZero;
use std::os::unix::process::ExitStatusExt;
use std::path::{Path, PathBuf};
use std::process::{Command, ExitStatus, Stdio};
use std::sync::OnceLock;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

const PAIRS: u32 = 6000;
const VALUE: [u8; 2000] = [7; 2000];
/// Every hold keeps its first 4 MiB, so the pair whose memory goes back is a late one.
const READ: u32 = 5000;

fn fill(map: &Map) {
    for id in 0..PAIRS {
        map.set(id.to_le_bytes(), VALUE).unwrap();
    }
}

/// Deletes all pairs, and waits until the memory of all of them has gone back.
fn empty(hold: &Hold, map: &Map) {
    for id in 0..PAIRS {
        map.delete(id.to_le_bytes()).unwrap();
    }
    until("the memory is given back", || {
        hold.trim().unwrap();
        hold.stat().unwrap().memory_bytes <= 6 << 20
    });
}

fn fill_file_system(dir: &Path) {
    let mut other = File::create(dir.join("other")).unwrap();
    while other.write_all(&[1; 4096]).is_ok() {}
}

fn open(path: &Path, read_only: bool) -> (Hold, Map) {
    let hold = Hold::options();
    let hold = if read_only { hold.read_only(true).open(path) } else { hold.open(path) }.unwrap();
    let map = hold.maps().open("it").unwrap();
    (hold, map)
}

/// A hold with all pairs on a small file system of its own.
fn on_hold(body: impl FnOnce(&Path, &Hold, &Map)) {
    let test_dir = TestDir::memory();
    on_small_tmpfs(32, &test_dir, |dir| {
        let path = dir.join("it.hold");
        let hold = Hold::create(&path).unwrap();
        let map = hold.maps().open_or_create("it", MapOptions::general()).unwrap();
        fill(&map);
        body(&path, &hold, &map);
    });
}

/// Where a reader stops, between its look at the extent and its last touch of the record.
const PLACES: [&str; 3] = ["read.located", "read.opened", "read.copied"];

/// The reader finds the pair absent, and everything works in its process, once there is room again:
/// in the same extents.
#[test]
fn a_reader_stopped_before_a_touch_survives_a_full_file_system() {
    for (place, read_only) in PLACES.into_iter().flat_map(|place| [(place, true), (place, false)]) {
        on_hold(|path, hold, map| {
            let board = Board::new(1);
            let mut reader = Child::run("reader", || {
                let (own, map) = open(path, read_only);
                assert_eq!(map.get(READ.to_le_bytes()).unwrap().as_deref(), Some(&VALUE[..]));
                steps::arm(&format!("{place}:stop")).unwrap();
                assert_eq!(map.get(READ.to_le_bytes()).unwrap(), None, "{place}");
                board.put(0, 1);
                until("there is room again", || board.get(0) == 2);
                if !read_only {
                    fill(&map);
                }
                for id in 0..PAIRS {
                    assert_eq!(map.get(id.to_le_bytes()).unwrap().as_deref(), Some(&VALUE[..]));
                }
                drop((own, map));
            });
            assert!(reader.wait_stopped(), "{place}");
            empty(hold, map);
            fill_file_system(path.parent().unwrap());
            reader.signal(Signal::SIGCONT);
            until("the reader reads", || board.get(0) == 1 || reader.is_gone());
            fs::remove_file(path.with_file_name("other")).unwrap();
            if read_only {
                fill(map);
            }
            board.put(0, 2);
            reader.finish();
            assert!(hold.check().unwrap().ok);
        });
    }
}

/// Runs `filler` while a thread of this process is at "read.gone": it has met zeros in place of a
/// record, and has not looked at the slot again.
fn while_a_thread_meets_zeros(dir: &Path, hold: &Hold, map: &Map, filler: impl FnOnce()) {
    static PLACE: AtomicU64 = AtomicU64::new(0);
    static GO_ON: AtomicU64 = AtomicU64::new(0);
    thread_local! {
        static IS_READER: Cell<bool> = const { Cell::new(false) };
    }
    let waits_at = |place: u64| {
        PLACE.store(place, Ordering::SeqCst);
        until("the reader may go on", || GO_ON.load(Ordering::SeqCst) >= place);
    };
    PLACE.store(0, Ordering::SeqCst);
    GO_ON.store(0, Ordering::SeqCst);
    steps::observe(move |step| match (IS_READER.get(), step) {
        (true, "read.located") if PLACE.load(Ordering::SeqCst) == 0 => waits_at(1),
        (true, "read.gone") => waits_at(2),
        _ => {}
    });
    std::thread::scope(|scope| {
        scope.spawn(|| {
            IS_READER.set(true);
            map.get(READ.to_le_bytes()).unwrap();
            PLACE.store(3, Ordering::SeqCst);
        });
        until("the reader is about to touch", || PLACE.load(Ordering::SeqCst) == 1);
        empty(hold, map);
        fill_file_system(dir);
        GO_ON.store(1, Ordering::SeqCst);
        until("the reader has met zeros", || PLACE.load(Ordering::SeqCst) == 2);
        fs::remove_file(dir.join("other")).unwrap();
        filler();
        for id in 0..PAIRS {
            assert_eq!(map.get(id.to_le_bytes()).unwrap().as_deref(), Some(&VALUE[..]));
        }
        GO_ON.store(3, Ordering::SeqCst);
    });
}

/// The process that has zeros in place of memory writes to that memory itself.
#[test]
fn a_process_that_covers_an_extent_uses_it_again() {
    on_hold(|path, hold, map| {
        while_a_thread_meets_zeros(path.parent().unwrap(), hold, map, || fill(map));
        assert!(hold.check().unwrap().ok);
    });
}

/// Another process writes to that memory.
#[test]
fn a_process_that_covers_an_extent_sees_what_others_write_to_it() {
    on_hold(|path, hold, map| {
        let board = Board::new(1);
        let other = Child::run("other", || {
            let (_hold, map) = open(path, false);
            board.put(0, 1);
            until("the other one fills the map", || board.get(0) == 2);
            fill(&map);
            board.put(0, 3);
        });
        until("the other one is there", || board.get(0) == 1);
        while_a_thread_meets_zeros(path.parent().unwrap(), hold, map, || {
            board.put(0, 2);
            until("the map is full", || board.get(0) == 3);
        });
        other.finish();
        assert!(hold.check().unwrap().ok);
    });
}

/// A process that may write ends if it cannot replace the zeros by the file: a change of its own
/// could take them for free memory. Others recover its part.
#[test]
fn a_writer_that_cannot_map_the_file_again_aborts() {
    on_hold(|path, hold, map| {
        let mut writer = Child::run("writer", || {
            let (_own, map) = open(path, false);
            steps::arm("read.located:stop").unwrap();
            steps::arm_fault("os.map:ENOMEM:always").unwrap();
            let _ = map.get(READ.to_le_bytes());
            fill(&map);
        });
        assert!(writer.wait_stopped());
        empty(hold, map);
        fill_file_system(path.parent().unwrap());
        writer.signal(Signal::SIGCONT);
        assert_eq!(writer.wait_for(Duration::from_secs(60)), End::By(Signal::SIGABRT));
        fs::remove_file(path.with_file_name("other")).unwrap();
        hold.sweep().unwrap();
        fill(map);
        assert!(hold.check().unwrap().ok);
    });
}

/// Zeros do not pass for contents: a program that finds less of the file than there was gets
/// `Damaged`, or aborts.
#[test]
fn a_process_whose_file_is_shortened_misses_no_pair() {
    for (parts, read_only) in [(0, true), (0, false), (1, true), (1, false)] {
        let test_dir = TestDir::memory();
        let path = test_dir.path("it.hold");
        Child::run("writer", || {
            let hold = Hold::create(&path).unwrap();
            fill(&hold.maps().open_or_create("it", MapOptions::general()).unwrap());
        })
        .finish();
        let board = Board::new(1);
        let mut reader = Child::run("reader", || {
            let (_hold, map) = open(&path, read_only);
            board.put(0, 1);
            until("the file is shorter", || board.get(0) == 2);
            for id in 0..PAIRS {
                match map.get(id.to_le_bytes()) {
                    Ok(value) => assert_eq!(value.as_deref(), Some(&VALUE[..])),
                    Err(error) => return assert_eq!(error.kind(), ErrorKind::Damaged),
                }
            }
            panic!("all pairs are there");
        });
        until("the reader is there", || board.get(0) == 1 || reader.is_gone());
        let file = File::options().write(true).open(&path).unwrap();
        file.set_len(file.metadata().unwrap().len() / 2 * parts).unwrap();
        board.put(0, 2);
        let end = reader.wait_for(Duration::from_secs(60));
        let expected = [End::Well, End::By(Signal::SIGABRT)];
        assert!(expected.contains(&end), "{parts} of 2, read only: {read_only}: {end:?}");
    }
}

/// A map in the part of the file that remains.
static REMAINING: OnceLock<Map> = OnceLock::new();

extern "C" fn use_the_hold(_: i32) {
    assert_eq!(REMAINING.get().unwrap().get("a").unwrap().as_deref(), Some(&b"1"[..]));
}

/// The abort waits for nothing that the handler of SIGBUS holds.
#[test]
#[allow(unsafe_code)]
fn a_process_whose_file_is_shortened_may_use_the_hold_when_it_aborts() {
    let test_dir = TestDir::memory();
    let path = test_dir.path("it.hold");
    let mut reader = Child::run("reader", || {
        let hold = Hold::create(&path).unwrap();
        let [first, map] = ["first", "it"]
            .map(|name| hold.maps().open_or_create(name, MapOptions::general()).unwrap());
        first.set("a", "1").unwrap();
        fill(&map);
        REMAINING.set(first).unwrap();
        let handler = SigHandler::Handler(use_the_hold);
        let action = SigAction::new(handler, SaFlags::empty(), SigSet::empty());
        // SAFETY: the process is not in an allocation when it aborts.
        unsafe { sigaction(Signal::SIGABRT, &action) }.unwrap();
        let file = File::options().write(true).open(&path).unwrap();
        file.set_len(file.metadata().unwrap().len() / 2).unwrap();
        (0..PAIRS).for_each(|id| drop(map.get(id.to_le_bytes())));
    });
    assert_eq!(reader.wait_for(Duration::from_secs(60)), End::By(Signal::SIGABRT));
}

/// The variable with the path of the hold that a program creates.
const HOLD: &str = "PUNCHED_HOLD";

/// A program of its own: nothing in it has opened a hold yet. Returns how it ended. Its files are
/// removed here, because a program that a signal ends removes nothing.
fn program(name: &str) -> ExitStatus {
    let test_dir = TestDir::memory();
    let own = std::env::current_exe().unwrap();
    let mut program = Command::new(own);
    program.args(["--exact", "--ignored", "--quiet"]).arg(format!("punched::{name}"));
    program.env(HOLD, test_dir.path("it.hold"));
    program.stdout(Stdio::null()).stderr(Stdio::null()).status().unwrap()
}

/// A handler that the program installed before gets the signals that are not about a hold. A
/// program without one ends.
#[test]
fn other_bus_errors_go_where_they_went_before() {
    assert!(program("a_program_with_a_handler").success());
    assert_eq!(program("a_program_without_a_handler").signal(), Some(Signal::SIGBUS as i32));
}

static RECEIVED: AtomicU64 = AtomicU64::new(0);

extern "C" fn on_signal(_: i32) {
    RECEIVED.fetch_add(1, Ordering::Relaxed);
}

#[test]
#[ignore = "a part of the test above"]
#[allow(unsafe_code)]
fn a_program_with_a_handler() {
    let handler = SigHandler::Handler(on_signal);
    let action = SigAction::new(handler, SaFlags::empty(), SigSet::empty());
    // SAFETY: the handler only counts.
    unsafe { sigaction(Signal::SIGBUS, &action) }.unwrap();
    let _hold = Hold::create(std::env::var(HOLD).unwrap()).unwrap();
    raise(Signal::SIGBUS).unwrap();
    assert_eq!(RECEIVED.load(Ordering::Relaxed), 1);
}

#[test]
#[ignore = "a part of the test above"]
#[allow(unsafe_code)]
fn a_program_without_a_handler() {
    let path = PathBuf::from(std::env::var(HOLD).unwrap());
    let _hold = Hold::create(&path).unwrap();
    let path = path.with_extension("short");
    let short = File::options().read(true).write(true).create_new(true).open(path).unwrap();
    let (page, access) = (NonZero::new(4096).unwrap(), ProtFlags::PROT_READ);
    // SAFETY: a new mapping, which is only read.
    let byte = unsafe { mmap(None, page, access, MapFlags::MAP_SHARED, &short, 0).unwrap() };
    // SAFETY: the system ends the process here, because the file has no such byte.
    unsafe { byte.cast::<u8>().read_volatile() };
}
