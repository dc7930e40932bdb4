//! What a log does when something goes wrong around it: a thread that ends while another begins,
//! an output or a format that fails in the middle of a round.

use crate::support::process::Child;
use crate::support::refused;
use crate::support::test_dir::TestDir;
use commonhold::channel::ChannelOptions;
use commonhold::hold::Freeze;
use commonhold::log::{Log, LogLevel, LogLine, LogOptions, Written};
use commonhold::{ErrorKind, Hold};
use std::cell::{Cell, RefCell};
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::path::Path;
use std::sync::atomic::{AtomicBool, AtomicU32, Ordering};
use std::time::{Duration, Instant};

thread_local! {
    /// Which thread of the test this is, for the observer of steps.
    static ROLE: Cell<&'static str> = const { Cell::new("") };
}

fn wait_for(flag: &AtomicBool) {
    while !flag.load(Ordering::SeqCst) {
        std::thread::yield_now();
    }
}

#[test]
fn a_thread_that_ends_leaves_the_next_tenants_guard_alone() {
    static RETURNED: AtomicBool = AtomicBool::new(false);
    static COPIED: AtomicU32 = AtomicU32::new(0);
    static WRITING: AtomicBool = AtomicBool::new(false);
    static MARKED: AtomicBool = AtomicBool::new(false);
    static GONE: AtomicBool = AtomicBool::new(false);
    let test_dir = TestDir::memory();
    let path = test_dir.path("it.hold");
    Child::run("process", || {
        let hold = Hold::create(&path).unwrap();
        // One ring: the second thread gets the one that the first hands back.
        let log =
            hold.logs().open_or_create("it", LogOptions::new().rings(1).ring_bytes(4096)).unwrap();
        commonhold::steps::observe(|step| match (ROLE.get(), step) {
            ("ending", "log.returned") => {
                RETURNED.store(true, Ordering::SeqCst);
                wait_for(&WRITING);
            }
            // The first is the announcement of the thread, inside an operation that the drop waits
            // for, too.
            ("writing", "log.copied") if COPIED.fetch_add(1, Ordering::SeqCst) == 1 => {
                WRITING.store(true, Ordering::SeqCst);
                wait_for(&MARKED);
                // Time for the drop to do what it must not.
                let late = Instant::now() + Duration::from_millis(300);
                while Instant::now() < late {
                    assert!(!GONE.load(Ordering::SeqCst), "dropped in the middle of a line");
                    std::thread::yield_now();
                }
            }
            (_, "drop.marked") => MARKED.store(true, Ordering::SeqCst),
            (_, "drop.begun") => GONE.store(true, Ordering::SeqCst),
            _ => {}
        });
        let write = |role| {
            ROLE.set(role);
            log.write(LogLevel::Info, "a line").unwrap()
        };
        std::thread::scope(|scope| {
            let ending = scope.spawn(|| assert_eq!(write("ending"), Written::Accepted));
            let writing = scope.spawn(|| {
                wait_for(&RETURNED);
                assert_eq!(write("writing"), Written::Accepted);
            });
            // Joined by its handle: a scope does not wait for the destructors of a thread's locals.
            ending.join().unwrap();
            wait_for(&WRITING);
            let dropping = scope.spawn(|| hold.logs().drop("it").unwrap());
            writing.join().unwrap();
            assert!(dropping.join().unwrap());
        });
        assert!(GONE.load(Ordering::SeqCst));
    })
    .finish();
}

thread_local! {
    static FROZEN: RefCell<Option<Freeze<'static>>> = const { RefCell::new(None) };
}

/// From now on each operation of this thread is refused (`Busy`), until [`thaw`].
pub fn freeze(hold: &'static Hold) {
    FROZEN.set(Some(hold.freeze().unwrap()));
}

pub fn thaw() {
    FROZEN.set(None);
}

pub const LINES: usize = 300;

/// A hold for the rest of the process, with a log of some lines.
pub fn filled(path: &Path) -> (&'static Hold, Log) {
    let hold: &'static Hold = Box::leak(Box::new(Hold::create(path).unwrap()));
    let log =
        hold.logs().open_or_create("it", LogOptions::new().rings(2).ring_bytes(1 << 16)).unwrap();
    for number in 0..LINES {
        let text = format!("line {number}");
        assert_eq!(log.write(LogLevel::Info, text).unwrap(), Written::Accepted);
    }
    (hold, log)
}

/// Makes text of a line as it was written; announcements are left out.
pub fn plain(line: &LogLine, out: &mut Vec<u8>) {
    if line.level.is_some() {
        out.extend_from_slice(&line.text);
        out.push(b'\n');
    }
}

#[track_caller]
pub fn is_complete(text: &[u8]) {
    let lines = String::from_utf8(text.to_vec()).unwrap();
    let wanted: Vec<String> = (0..LINES).map(|number| format!("line {number}")).collect();
    let count = lines.lines().count();
    assert!(lines.lines().eq(&wanted), "{count} lines, from {:?}", lines.lines().next());
}

#[test]
fn a_format_that_panics_loses_no_line() {
    let test_dir = TestDir::memory();
    let path = test_dir.path("it.hold");
    Child::run("collector", || {
        let (_, log) = filled(&path);
        let mut calls = 0;
        let mut collector = log.collector().unwrap().format(move |line, out| {
            calls += 1;
            assert!(calls != 200, "a format that fails once");
            plain(line, out);
        });
        let mut text = Vec::new();
        let failed = catch_unwind(AssertUnwindSafe(|| collector.finish(&mut text)));
        assert!(failed.is_err() && text.is_empty());
        collector.finish(&mut text).unwrap();
        is_complete(&text);
    })
    .finish();
}

#[test]
fn an_error_in_the_middle_of_a_round_loses_no_line() {
    let test_dir = TestDir::memory();
    let path = test_dir.path("it.hold");
    Child::run("collector", || {
        let (hold, log) = filled(&path);
        let mut calls = 0;
        let mut collector = log.collector().unwrap().format(move |line, out| {
            calls += 1;
            if calls == 200 {
                freeze(hold);
            }
            plain(line, out);
        });
        let mut text = Vec::new();
        refused(collector.finish(&mut text), ErrorKind::Busy, "frozen");
        assert!(text.is_empty());
        thaw();
        collector.finish(&mut text).unwrap();
        is_complete(&text);
    })
    .finish();
}

/// A child that uses the log takes part itself, and yet is not the one who collects it.
#[test]
fn a_forked_child_leaves_collecting_to_its_parent() {
    let test_dir = TestDir::memory();
    let path = test_dir.path("it.hold");
    Child::run("collector", || {
        let (hold, log) = filled(&path);
        let mut collector = Some(log.collector().unwrap());
        static IN_CHILD: AtomicBool = AtomicBool::new(false);
        static FAILS: AtomicBool = AtomicBool::new(true);
        commonhold::steps::observe(move |step| {
            if step == "collect.written" && FAILS.swap(false, Ordering::SeqCst) {
                freeze(hold);
            }
            let commits = step == "collect.committed" && IN_CHILD.load(Ordering::SeqCst);
            assert!(!commits, "the child marks the parent's round");
        });
        // A round that is written out and not marked.
        let own = collector.as_mut().unwrap();
        refused(own.finish(&mut Vec::new()), ErrorKind::Busy, "frozen");
        thaw();
        Child::run("child", || {
            IN_CHILD.store(true, Ordering::SeqCst);
            assert_eq!(log.write(LogLevel::Info, "by the child").unwrap(), Written::Accepted);
            let own = collector.as_mut().unwrap();
            refused(own.finish(&mut Vec::new()), ErrorKind::Busy, "collect");
            drop(collector.take());
        })
        .finish();
        refused(log.collector(), ErrorKind::Busy, "collect");
        let mut text = Vec::new();
        collector.as_mut().unwrap().finish(&mut text).unwrap();
        assert!(String::from_utf8(text).unwrap().contains("by the child"));
    })
    .finish();
}

/// Another thread closes the handle. The collector may be in the middle of a round, so no other one
/// begins before it is gone.
#[test]
fn a_collector_stays_until_it_is_dropped() {
    let test_dir = TestDir::memory();
    let hold = Hold::create(test_dir.path("it.hold")).unwrap();
    let log = hold.logs().create("it", LogOptions::new()).unwrap();
    let own = Hold::open(test_dir.path("it.hold")).unwrap();
    let mut collector = own.logs().open("it").unwrap().collector().unwrap();
    // It keeps the participant longer than the collector does.
    let channel = own.channels().create("a channel", ChannelOptions::new(4096)).unwrap();
    let producer = channel.producer().unwrap();
    own.close().unwrap();
    refused(log.collector().map(drop), ErrorKind::Busy, "already has a collector");
    refused(collector.finish(&mut Vec::new()), ErrorKind::Closed, "was closed");
    drop(collector);
    drop(log.collector().unwrap());
    drop(producer);
    assert_eq!(hold.participants().unwrap().len(), 1);
}

/// An output that does what a function does.
pub struct Output<F>(pub F);

impl<F: FnMut() -> std::io::Result<()>> std::io::Write for Output<F> {
    fn write(&mut self, text: &[u8]) -> std::io::Result<usize> {
        (self.0)().map(|()| text.len())
    }

    fn flush(&mut self) -> std::io::Result<()> {
        Ok(())
    }
}

/// The output is slower than the writers: it gets what was there when the call began, and returns.
#[test]
fn finish_ends_while_lines_arrive() {
    let test_dir = TestDir::memory();
    let hold = Hold::create(test_dir.path("it.hold")).unwrap();
    let log = hold.logs().create("it", LogOptions::new().ring_bytes(1 << 20)).unwrap();
    let fill = || {
        (0..600).for_each(|_| {
            let _ = log.write(LogLevel::Info, "x".repeat(1000)).unwrap();
        })
    };
    fill();
    let mut calls = 0;
    let mut out = Output(|| {
        calls += 1;
        assert!(calls < 50, "it does not end");
        fill();
        Ok(())
    });
    let round = log.collector().unwrap().finish(&mut out).unwrap();
    assert!(round.lines >= 600 && round.more, "{round:?}");
}
