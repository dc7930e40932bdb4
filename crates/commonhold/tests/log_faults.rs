//! What a log does when something goes wrong around it: a thread that ends while another begins,
//! an output or a format that fails in the middle of a round.

use crate::support::process::{Child, End};
use crate::support::refused;
use crate::support::test_dir::TestDir;
use commonhold::channel::ChannelOptions;
use commonhold::hold::Freeze;
use commonhold::log::{Log, LogLevel, LogLine, LogOptions, RotatedFile, Written};
use commonhold::{ErrorKind, Hold};
use nix::sys::signal::Signal;
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
fn freeze(hold: &'static Hold) {
    FROZEN.set(Some(hold.freeze().unwrap()));
}

fn thaw() {
    FROZEN.set(None);
}

const LINES: usize = 300;

/// A hold for the rest of the process, with a log of some lines.
fn filled(path: &Path) -> (&'static Hold, Log) {
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
fn plain(line: &LogLine, out: &mut Vec<u8>) {
    if line.level.is_some() {
        out.extend_from_slice(&line.text);
        out.push(b'\n');
    }
}

#[track_caller]
fn is_complete(text: &[u8]) {
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

#[test]
fn a_round_that_was_written_and_not_marked_is_marked_before_the_next() {
    let test_dir = TestDir::memory();
    let (path, out) = (test_dir.path("it.hold"), test_dir.path("it.log"));
    let mut child = Child::run("collector", || {
        let (hold, log) = filled(&path);
        let mut file = RotatedFile::open(&out, 1 << 20, 1).unwrap();
        let mut collector = log.collector().unwrap().format(plain);
        static FAILS: AtomicBool = AtomicBool::new(true);
        commonhold::steps::observe(move |step| {
            if step == "collect.written" && FAILS.swap(false, Ordering::SeqCst) {
                freeze(hold);
            }
        });
        refused(collector.finish_to_file(&mut file), ErrorKind::Busy, "frozen");
        thaw();
        // A round of which nothing is marked when this process dies.
        let more = format!("line {LINES}");
        assert_eq!(log.write(LogLevel::Info, more).unwrap(), Written::Accepted);
        commonhold::steps::arm("collect.written:kill").unwrap();
        collector.finish_to_file(&mut file).unwrap();
    });
    assert_eq!(child.wait(), End::By(Signal::SIGKILL));
    let hold = Hold::open(&path).unwrap();
    let mut collector = hold.logs().open("it").unwrap().collector().unwrap().format(plain);
    collector.finish_to_file(&mut RotatedFile::open(&out, 1 << 20, 1).unwrap()).unwrap();
    let text = std::fs::read_to_string(&out).unwrap();
    let last = format!("line {LINES}\n");
    is_complete(text.strip_suffix(&last).expect("the last line, once").as_bytes());
}

#[test]
fn a_file_that_could_not_be_begun_again_is_begun_the_next_time() {
    let test_dir = TestDir::memory();
    let (path, out) = (test_dir.path("it.hold"), test_dir.path("it.log"));
    for keep in [0, 2] {
        Child::run("collector", || {
            let _ = std::fs::remove_file(&path);
            let (_, log) = filled(&path);
            let mut file = RotatedFile::open(&out, 1000, keep).unwrap();
            let mut collector = log.collector().unwrap().format(plain);
            commonhold::steps::arm_fault("rotate.open:EMFILE:once").unwrap();
            refused(collector.finish_to_file(&mut file), ErrorKind::Io, "many open files");
            collector.finish_to_file(&mut file).unwrap();
            let text = std::fs::read_to_string(&out).unwrap();
            assert!(text.ends_with(&format!("line {}\n", LINES - 1)), "{text}");
        })
        .finish();
    }
}

/// The old file is gone by then: what went there would be lost.
#[test]
fn nothing_is_written_to_a_file_that_was_rotated_away() {
    use std::io::Write;
    for keep in [0, 2] {
        let test_dir = TestDir::memory();
        let path = test_dir.path("a.log");
        let mut rotating = Child::run(format!("rotating, keeping {keep}"), || {
            let mut file = RotatedFile::open(&path, 10, keep).unwrap();
            file.write_all(b"first\n").unwrap();
            commonhold::steps::arm_fault("rotate.open:EMFILE:once").unwrap();
            let error = file.write_all(b"too long\n").unwrap_err();
            assert_eq!(error.raw_os_error(), Some(libc::EMFILE));
            // It would have had room in the old one.
            file.write_all(b"2nd\n").unwrap();
            assert_eq!(std::fs::read_to_string(&path).unwrap(), "2nd\n", "keeping {keep}");
        });
        assert_eq!(rotating.wait(), End::Well);
        // It was put away once: a second time would have moved it on.
        let kept = std::fs::read_to_string(test_dir.path("a.log.1")).ok();
        assert_eq!(kept.as_deref(), (keep > 0).then_some("first\n"));
    }
}

/// The old file is still there, and full.
#[test]
fn a_file_that_could_not_be_put_away_is_put_away_the_next_time() {
    use std::io::Write;
    for (keep, fault) in [(0, "rotate.remove:EIO:once"), (2, "rotate.rename:EIO:once")] {
        let test_dir = TestDir::memory();
        let path = test_dir.path("a.log");
        let mut rotating = Child::run(fault, || {
            let mut file = RotatedFile::open(&path, 10, keep).unwrap();
            file.write_all(b"first\n").unwrap();
            commonhold::steps::arm_fault(fault).unwrap();
            let error = file.write_all(b"too long\n").unwrap_err();
            assert_eq!(error.raw_os_error(), Some(libc::EIO));
            file.write_all(b"too long\n").unwrap();
            assert_eq!(std::fs::read_to_string(&path).unwrap(), "too long\n", "{fault}");
        });
        assert_eq!(rotating.wait(), End::Well);
    }
}

/// What a collector has left that was killed in the middle of a round is taken back, also by a
/// round of which nothing is written.
#[test]
fn a_round_without_text_takes_back_what_was_left() {
    let test_dir = TestDir::memory();
    let (path, out) = (test_dir.path("it.hold"), test_dir.path("it.log"));
    let mut killed = Child::run("collector", || {
        let (_, log) = filled(&path);
        let mut file = RotatedFile::open(&out, 1 << 20, 1).unwrap();
        commonhold::steps::arm("collect.written:kill").unwrap();
        drop(log.collector().unwrap().format(plain).finish_to_file(&mut file));
    });
    assert_eq!(killed.wait(), End::By(Signal::SIGKILL));
    assert!(std::fs::metadata(&out).unwrap().len() > 0);
    let hold = Hold::open(&path).unwrap();
    let collector = hold.logs().open("it").unwrap().collector().unwrap();
    // Every line is less important, and so left out.
    let mut collector = collector.format(plain).level(LogLevel::Error);
    collector.finish_to_file(&mut RotatedFile::open(&out, 1 << 20, 1).unwrap()).unwrap();
    assert_eq!(std::fs::read_to_string(&out).unwrap(), "");
}

/// Whether the file that the killed collector wrote is still there is unknown: nothing is cut, and
/// nothing is written behind its text, until a look succeeds.
#[test]
fn a_failing_look_at_the_file_loses_and_doubles_no_line() {
    for keep in [0, 2] {
        let test_dir = TestDir::memory();
        let (path, out) = (test_dir.path("it.hold"), test_dir.path("it.log"));
        let file = || RotatedFile::open(&out, 1 << 20, keep).unwrap();
        let mut killed = Child::run("collector", || {
            let (_, log) = filled(&path);
            let mut collector = log.collector().unwrap().format(plain);
            collector.finish_to_file(&mut file()).unwrap();
            assert_eq!(
                log.write(LogLevel::Info, format!("line {LINES}")).unwrap(),
                Written::Accepted
            );
            commonhold::steps::arm("collect.written:kill").unwrap();
            drop(collector.finish_to_file(&mut file()));
        });
        assert_eq!(killed.wait(), End::By(Signal::SIGKILL));
        Child::run("successor", || {
            let hold = Hold::open(&path).unwrap();
            let mut collector = hold.logs().open("it").unwrap().collector().unwrap().format(plain);
            commonhold::steps::arm_fault("rotate.stat:EIO:once").unwrap();
            refused(collector.finish_to_file(&mut file()), ErrorKind::Io, "collecting log 'it'");
            collector.finish_to_file(&mut file()).unwrap();
        })
        .finish();
        let text = std::fs::read_to_string(&out).unwrap();
        let last = format!("line {LINES}\n");
        is_complete(text.strip_suffix(&last).expect("the last line, once").as_bytes());
    }
}

/// A file that has moved already is not moved again, and none is lost, by what comes after an
/// error.
#[test]
fn a_rotation_that_failed_is_continued() {
    use std::io::Write;
    for fails_at in 1..=3 {
        let test_dir = TestDir::memory();
        let path = test_dir.path("a.log");
        Child::run(format!("rotating, failing at {fails_at}"), || {
            let mut file = RotatedFile::open(&path, 2, 3).unwrap();
            (1..=4).for_each(|n| writeln!(file, "{n}").unwrap());
            commonhold::steps::arm_fault(&format!("rotate.rename:EIO:once:{fails_at}")).unwrap();
            let error = file.write_all(b"5\n").unwrap_err();
            assert_eq!(error.raw_os_error(), Some(libc::EIO));
            file.write_all(b"5\n").unwrap();
            let name = |age| test_dir.path(&format!("a.log.{age}"));
            let older = [3, 2, 1].map(|age| std::fs::read_to_string(name(age)).unwrap());
            assert_eq!(older.concat() + &std::fs::read_to_string(&path).unwrap(), "2\n3\n4\n5\n");
        })
        .finish();
    }
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

/// A collector whose file was opened before its predecessor rotated that file away.
#[test]
fn a_file_that_was_rotated_by_another_collector_is_opened_again() {
    for keep in [0, 2] {
        let test_dir = TestDir::memory();
        let (path, out) = (test_dir.path("it.hold"), test_dir.path("it.log"));
        let hold = Hold::create(&path).unwrap();
        let log = hold.logs().create("it", LogOptions::new()).unwrap();
        let write = |line: &str| {
            assert_eq!(log.write(LogLevel::Info, line).unwrap(), Written::Accepted);
        };
        let open = || RotatedFile::open(&out, 10, keep).unwrap();
        let collect = |file: &mut RotatedFile| {
            log.collector().unwrap().format(plain).finish_to_file(file).unwrap();
        };
        let (mut first, mut second) = (open(), open());
        write("line 1");
        collect(&mut first);
        write("line 2");
        collect(&mut first);
        write("3");
        collect(&mut second);
        assert_eq!(std::fs::read_to_string(&out).unwrap(), "line 2\n3\n", "keeping {keep}");
    }
}

/// The process changes its directory, as daemons do, and then a round fails half-way.
#[test]
fn a_relative_path_stays_where_it_was_opened() {
    let test_dir = TestDir::memory();
    let path = test_dir.path("it.hold");
    Child::run("daemon", || {
        std::env::set_current_dir(test_dir.dir()).unwrap();
        let (_, log) = filled(&path);
        let mut file = RotatedFile::open("it.log", 1000, 5).unwrap();
        std::env::set_current_dir("/").unwrap();
        let mut collector = log.collector().unwrap().format(plain);
        commonhold::steps::arm_fault("rotate.write:ENOSPC:once:2").unwrap();
        refused(collector.finish_to_file(&mut file), ErrorKind::Full, "collecting log 'it'");
        collector.finish_to_file(&mut file).unwrap();
        let names = ["it.log.5", "it.log.4", "it.log.3", "it.log.2", "it.log.1", "it.log"];
        let read = |name| std::fs::read_to_string(test_dir.path(name)).unwrap_or_default();
        let text = names.map(read).concat();
        let numbers: Vec<u32> = text.lines().map(|line| line[5..].parse().unwrap()).collect();
        let last = LINES as u32;
        assert!(numbers.iter().copied().eq(last - numbers.len() as u32..last), "{numbers:?}");
    })
    .finish();
}

/// After a failed round, an operator moves the file to a larger disk: its identity is another one.
/// Nothing that was collected before is removed.
#[test]
fn a_file_that_was_replaced_after_a_failed_round_keeps_its_lines() {
    for keep in [0, 2] {
        let test_dir = TestDir::memory();
        let (path, out) = (test_dir.path("it.hold"), test_dir.path("it.log"));
        let copy = test_dir.path("copy");
        Child::run("collector", || {
            let (_, log) = filled(&path);
            let open = || RotatedFile::open(&out, 1 << 20, keep).unwrap();
            let collector = || log.collector().unwrap().format(plain);
            collector().finish_to_file(&mut open()).unwrap();
            assert_eq!(log.write(LogLevel::Info, "one more").unwrap(), Written::Accepted);
            commonhold::steps::arm_fault("rotate.write:ENOSPC:once").unwrap();
            let failed = collector().finish_to_file(&mut open());
            refused(failed, ErrorKind::Full, "collecting log 'it'");
            std::fs::copy(&out, &copy).unwrap();
            std::fs::rename(&copy, &out).unwrap();
            collector().finish_to_file(&mut open()).unwrap();
            let text = std::fs::read_to_string(&out).unwrap();
            let collected = text.strip_suffix("one more\n").expect("the last line, once");
            is_complete(collected.as_bytes());
        })
        .finish();
    }
}

/// A round that fails after it has put files away is taken back from what is left of them, and no
/// more files stay than are kept. On a disk, a new file may get the number of the last one.
#[test]
fn a_failed_round_that_has_rotated_is_taken_back() {
    for dir in [TestDir::memory, TestDir::file] {
        for fails_at in 2..=4 {
            for keeps in [[0, 0], [0, 2], [1, 1], [1, 0], [2, 2]] {
                fail_and_take_back(dir(), fails_at, keeps);
            }
        }
    }
}

/// The round that fails fills several files. The first collector keeps one
/// number of older files, its successor another.
fn fail_and_take_back(test_dir: TestDir, fails_at: u32, [keep, successor]: [u32; 2]) {
    {
        let (path, out) = (test_dir.path("it.hold"), test_dir.path("it.log"));
        let mut killed = Child::run(format!("collector, failing at {fails_at}"), || {
            let hold = Hold::create(&path).unwrap();
            let options = LogOptions::new().rings(2).ring_bytes(1 << 16);
            let log = hold.logs().create("it", options).unwrap();
            let write = |number: usize| {
                let line = format!("line {number}");
                assert_eq!(log.write(LogLevel::Info, line).unwrap(), Written::Accepted);
            };
            let mut file = RotatedFile::open(&out, 500, keep).unwrap();
            let mut collector = log.collector().unwrap().format(plain);
            (0..50).for_each(write);
            collector.finish_to_file(&mut file).unwrap();
            (50..LINES).for_each(write);
            let fault = format!("rotate.write:ENOSPC:once:{fails_at}");
            commonhold::steps::arm_fault(&fault).unwrap();
            refused(collector.finish_to_file(&mut file), ErrorKind::Full, "collecting");
            commonhold::steps::arm("collect.written:kill").unwrap();
            drop(collector.finish_to_file(&mut file));
        });
        assert_eq!(killed.wait(), End::By(Signal::SIGKILL));
        let hold = Hold::open(&path).unwrap();
        let collector = hold.logs().open("it").unwrap().collector().unwrap();
        let mut file = RotatedFile::open(&out, 500, successor).unwrap();
        collector.format(plain).finish_to_file(&mut file).unwrap();
        let age = |age: u32| test_dir.path(&format!("it.log.{age}"));
        let files = (1..=successor).rev().map(age).chain([out.clone()]);
        let text: String =
            files.map(|file| std::fs::read_to_string(file).unwrap_or_default()).collect();
        let numbers: Vec<usize> = text.lines().map(|line| line[5..].parse().unwrap()).collect();
        let what = format!("failing at {fails_at}, keeping {keep} and {successor}");
        assert!(numbers.iter().copied().eq(LINES - numbers.len()..LINES), "{what}: {numbers:?}");
        assert!((successor + 1..9).all(|extra| !age(extra).exists()), "{what}");
    }
}

/// An output that does what a function does.
struct Output<F>(F);

impl<F: FnMut() -> std::io::Result<()>> std::io::Write for Output<F> {
    fn write(&mut self, text: &[u8]) -> std::io::Result<usize> {
        (self.0)().map(|()| text.len())
    }

    fn flush(&mut self) -> std::io::Result<()> {
        Ok(())
    }
}

/// A round fails in a file, and the collector goes on elsewhere, or a successor does. The part in
/// the file is still removed before the next line.
#[test]
fn a_failed_round_in_a_file_is_taken_back_after_rounds_elsewhere() {
    for another in [false, true] {
        let test_dir = TestDir::memory();
        let (path, out) = (test_dir.path("it.hold"), test_dir.path("it.log"));
        Child::run("collectors", || {
            let hold = Hold::create(&path).unwrap();
            let log = hold.logs().create("it", LogOptions::new()).unwrap();
            let write = |line: &str| {
                assert_eq!(log.write(LogLevel::Info, line).unwrap(), Written::Accepted);
            };
            let claim = || log.collector().unwrap().format(plain);
            let next = |collector| {
                if !another {
                    return collector;
                }
                drop(collector);
                claim()
            };
            let mut file = RotatedFile::open(&out, 14, 5).unwrap();
            let mut collector = claim();
            write("first");
            collector.finish_to_file(&mut file).unwrap();
            write("second");
            write("third");
            commonhold::steps::arm_fault("rotate.write:ENOSPC:once:2").unwrap();
            refused(collector.finish_to_file(&mut file), ErrorKind::Full, "collecting");
            collector = next(collector);
            let mut full = Output(|| Err(std::io::ErrorKind::StorageFull.into()));
            refused(collector.finish(&mut full), ErrorKind::Full, "collecting");
            collector = next(collector);
            let mut elsewhere = Vec::new();
            collector.finish(&mut elsewhere).unwrap();
            assert_eq!(elsewhere, b"second\nthird\n");
            write("fourth");
            collector = next(collector);
            collector.finish_to_file(&mut file).unwrap();
            let text =
                ["it.log.1", "it.log"].map(|name| std::fs::read(test_dir.path(name)).unwrap());
            assert_eq!(text.concat(), b"first\nfourth\n", "another collector: {another}");
        })
        .finish();
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
            assert_eq!(log.write(LogLevel::Info, "x".repeat(1000)).unwrap(), Written::Accepted)
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

/// The next file cannot be begun, and then the collector is killed in the round after.
#[test]
fn a_round_after_a_failed_rotation_has_a_place() {
    for keep in [0, 1, 2] {
        let test_dir = TestDir::memory();
        let (path, out) = (test_dir.path("it.hold"), test_dir.path("it.log"));
        let mut killed = Child::run(format!("collector, keeping {keep}"), || {
            let hold = Hold::create(&path).unwrap();
            let log = hold.logs().create("it", LogOptions::new()).unwrap();
            let mut file = RotatedFile::open(&out, 20, keep).unwrap();
            let mut collector = log.collector().unwrap().format(plain);
            assert_eq!(log.write(LogLevel::Info, "a first line").unwrap(), Written::Accepted);
            collector.finish_to_file(&mut file).unwrap();
            assert_eq!(log.write(LogLevel::Info, "line two").unwrap(), Written::Accepted);
            commonhold::steps::arm_fault("rotate.open:EMFILE:once").unwrap();
            refused(collector.finish_to_file(&mut file), ErrorKind::Io, "many open files");
            commonhold::steps::arm("collect.written:kill").unwrap();
            drop(collector.finish_to_file(&mut file));
        });
        assert_eq!(killed.wait(), End::By(Signal::SIGKILL));
        let hold = Hold::open(&path).unwrap();
        let collector = hold.logs().open("it").unwrap().collector().unwrap();
        let mut file = RotatedFile::open(&out, 20, keep).unwrap();
        collector.format(plain).finish_to_file(&mut file).unwrap();
        assert_eq!(std::fs::read_to_string(&out).unwrap(), "line two\n", "keeping {keep}");
    }
}

/// Another tool rotates the file, to names of its own.
#[test]
fn a_file_that_another_tool_moved_away_stays() {
    let test_dir = TestDir::memory();
    let (path, out) = (test_dir.path("it.hold"), test_dir.path("it.log"));
    let (_, log) = filled(&path);
    let mut file = RotatedFile::open(&out, u64::MAX, 0).unwrap();
    let mut collector = log.collector().unwrap().format(plain);
    collector.finish_to_file(&mut file).unwrap();
    std::fs::rename(&out, test_dir.path("it.log.0")).unwrap();
    assert_eq!(log.write(LogLevel::Info, "one more").unwrap(), Written::Accepted);
    collector.finish_to_file(&mut file).unwrap();
    is_complete(&std::fs::read(test_dir.path("it.log.0")).unwrap());
    assert_eq!(std::fs::read_to_string(&out).unwrap(), "one more\n");
}

/// One of two files was put away and could not be begun again. The other one has collected since.
#[test]
fn a_file_that_was_put_away_goes_on_behind_another_collector() {
    let test_dir = TestDir::memory();
    let (path, out) = (test_dir.path("it.hold"), test_dir.path("it.log"));
    Child::run("collectors", || {
        let hold = Hold::create(&path).unwrap();
        let log = hold.logs().create("it", LogOptions::new()).unwrap();
        let write = |line: &str| {
            assert_eq!(log.write(LogLevel::Info, line).unwrap(), Written::Accepted);
        };
        let collect = |file: &mut RotatedFile| {
            log.collector().unwrap().format(plain).finish_to_file(file).map(drop)
        };
        let open = || RotatedFile::open(&out, 14, 2).unwrap();
        let (mut first, mut second) = (open(), open());
        write("line 1");
        collect(&mut first).unwrap();
        write("line two");
        commonhold::steps::arm_fault("rotate.open:EMFILE:once").unwrap();
        refused(collect(&mut first), ErrorKind::Io, "many open files");
        collect(&mut second).unwrap();
        write("3");
        commonhold::steps::arm_fault("rotate.write:ENOSPC:once").unwrap();
        refused(collect(&mut first), ErrorKind::Full, "collecting");
        collect(&mut first).unwrap();
        assert_eq!(std::fs::read_to_string(&out).unwrap(), "line two\n3\n");
        let older = std::fs::read_to_string(test_dir.path("it.log.1")).unwrap();
        assert_eq!(older, "line 1\n");
    })
    .finish();
}
