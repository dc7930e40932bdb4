//! A log's files when something goes wrong: a round that fails, a file that is moved, a full disk.
//! In all files together, each line is once, and only the oldest files go.

use crate::log_faults::{LINES, Output, filled, freeze, is_complete, plain, thaw};
use crate::support::process::{Child, End};
use crate::support::refused;
use crate::support::test_dir::TestDir;
use commonhold::log::{Collector, Log, LogLevel, LogOptions, RotatedFile, Written};
use commonhold::{ErrorKind, Hold};
use nix::sys::signal::Signal;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::atomic::{AtomicBool, Ordering};

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

/// The collector, or another one each time.
fn next<'a>(log: &Log, another: bool, collector: &'a mut Option<Collector>) -> &'a mut Collector {
    if another {
        *collector = None;
    }
    collector.get_or_insert_with(|| log.collector().unwrap().format(plain))
}

/// A round fails in a file, and then in another output. Its part in the file is still taken back.
/// Once another output has got the lines, the file is not shortened any more: the other output may
/// have appended them to it.
#[test]
fn a_failed_round_in_a_file_is_taken_back_until_its_lines_are_marked() {
    for (another, elsewhere) in [(false, false), (true, false), (false, true), (true, true)] {
        let test_dir = TestDir::memory();
        let (path, out) = (test_dir.path("it.hold"), test_dir.path("it.log"));
        Child::run(format!("another collector: {another}, elsewhere: {elsewhere}"), || {
            let hold = Hold::create(&path).unwrap();
            let log = hold.logs().create("it", LogOptions::new()).unwrap();
            let write = |line: &str| {
                assert_eq!(log.write(LogLevel::Info, line).unwrap(), Written::Accepted);
            };
            let mut file = RotatedFile::open(&out, 14, 5).unwrap();
            let mut collector = None;
            write("first");
            next(&log, another, &mut collector).finish_to_file(&mut file).unwrap();
            write("second");
            write("third");
            commonhold::steps::arm_fault("rotate.write:ENOSPC:once:2").unwrap();
            refused(
                next(&log, another, &mut collector).finish_to_file(&mut file),
                ErrorKind::Full,
                "collecting",
            );
            let mut full = Output(|| Err(std::io::ErrorKind::StorageFull.into()));
            refused(
                next(&log, another, &mut collector).finish(&mut full),
                ErrorKind::Full,
                "collecting",
            );
            if elsewhere {
                let mut appended = std::fs::OpenOptions::new().append(true).open(&out).unwrap();
                next(&log, another, &mut collector).finish(&mut appended).unwrap();
            }
            write("fourth");
            next(&log, another, &mut collector).finish_to_file(&mut file).unwrap();
            let name = |age: u32| test_dir.path(&format!("it.log.{age}"));
            let files = (1..=5).rev().map(name).chain([out.clone()]);
            let text: String = files.filter_map(|f| std::fs::read_to_string(f).ok()).collect();
            let wanted = match elsewhere {
                false => "first\nsecond\nthird\nfourth\n",
                true => "first\nsecond\nsecond\nthird\nfourth\n",
            };
            assert_eq!(text, wanted);
        })
        .finish();
    }
}

/// The next line does not continue half a line that a failed write left.
#[test]
fn a_torn_line_is_ended_before_the_next() {
    let test_dir = TestDir::memory();
    let (path, out) = (test_dir.path("it.hold"), test_dir.path("it.log"));
    let (_, log) = filled(&path);
    std::fs::write(&out, "half a li").unwrap();
    let mut file = RotatedFile::open(&out, u64::MAX, 0).unwrap();
    log.collector().unwrap().format(plain).finish_to_file(&mut file).unwrap();
    let text = std::fs::read(&out).unwrap();
    is_complete(text.strip_prefix(b"half a li\n").unwrap());
}

/// Failed rounds push no older file out, and leave none that is not kept.
#[test]
fn rounds_that_are_taken_back_cost_no_older_file() {
    let test_dir = TestDir::memory();
    let (path, out) = (test_dir.path("it.hold"), test_dir.path("it.log"));
    Child::run("collectors", || {
        let (_, log) = filled(&path);
        let name = |age: u32| test_dir.path(&format!("it.log.{age}"));
        (1..=6).for_each(|age| std::fs::write(name(age), format!("old {age}\n")).unwrap());
        // The round fills five files and a part of the sixth.
        let open = || RotatedFile::open(&out, 500, 9).unwrap();
        for _ in 0..3 {
            commonhold::steps::arm_fault("rotate.write:ENOSPC:once:5").unwrap();
            let failed = log.collector().unwrap().format(plain).finish_to_file(&mut open());
            refused(failed, ErrorKind::Full, "collecting");
        }
        log.collector().unwrap().format(plain).finish_to_file(&mut open()).unwrap();
        let files = (1..=9).rev().map(name).chain([out.clone()]);
        let text: String = files.map(|f| std::fs::read_to_string(f).unwrap()).collect();
        let (old, new) = text.split_once("line 0\n").unwrap();
        assert_eq!(old, "old 4\nold 3\nold 2\nold 1\n");
        assert!(new.ends_with(&format!("line {}\n", LINES - 1)));
        assert!(!name(10).exists());
    })
    .finish();
}

/// On a full disk, the first thing that the next collector does is to delete what is not kept.
#[test]
fn a_collector_after_a_failed_round_makes_room_first() {
    let test_dir = TestDir::memory();
    let (path, out) = (test_dir.path("it.hold"), test_dir.path("it.log"));
    Child::run("collectors", || {
        let (_, log) = filled(&path);
        let name = |age: u32| test_dir.path(&format!("it.log.{age}"));
        std::fs::write(&out, "x".repeat(499) + "\n").unwrap();
        std::fs::write(name(1), "old\n").unwrap();
        for (fault, has_extra) in [("once", true), ("always", false)] {
            commonhold::steps::arm_fault(&format!("rotate.write:ENOSPC:{fault}")).unwrap();
            let mut file = RotatedFile::open(&out, 500, 1).unwrap();
            let failed = log.collector().unwrap().format(plain).finish_to_file(&mut file);
            refused(failed, ErrorKind::Full, "collecting");
            assert_eq!(name(2).exists(), has_extra);
        }
    })
    .finish();
}

/// Files that another tool has rotated stay, also after a round that failed, and so do directories.
#[test]
fn only_files_of_the_own_series_are_deleted() {
    let test_dir = TestDir::memory();
    let (path, out) = (test_dir.path("it.hold"), test_dir.path("it.log"));
    let (_, log) = filled(&path);
    let name = |age: u32| test_dir.path(&format!("it.log.{age}"));
    (1..=5).for_each(|age| std::fs::write(name(age), "of another tool\n").unwrap());
    Child::run("without rotation", || {
        let mut file = RotatedFile::open(&out, u64::MAX, 0).unwrap();
        commonhold::steps::arm_fault("rotate.write:ENOSPC:once").unwrap();
        let mut collector = log.collector().unwrap().format(plain);
        refused(collector.finish_to_file(&mut file), ErrorKind::Full, "collecting");
        collector.finish_to_file(&mut file).unwrap();
    })
    .finish();
    is_complete(&std::fs::read(&out).unwrap());
    assert!((1..=5).all(|age| name(age).exists()));

    std::fs::remove_file(name(3)).unwrap();
    std::fs::create_dir(name(3)).unwrap();
    Child::run("with rotation, keeping 2", || {
        let mut file = RotatedFile::open(&out, 5000, 2).unwrap();
        let mut collector = log.collector().unwrap().format(plain);
        for _ in 0..3 {
            let more = "x".repeat(3000);
            assert_eq!(log.write(LogLevel::Info, more).unwrap(), Written::Accepted);
            collector.finish_to_file(&mut file).unwrap();
        }
    })
    .finish();
    let left: Vec<u32> = (1..20).filter(|age| name(*age).exists()).collect();
    let directories = left.iter().filter(|age| name(**age).is_dir()).count();
    assert_eq!((left.len(), directories), (3, 1), "{left:?}");
}

/// Another tool gives the file a name of its own in the middle of a round that then fails.
#[test]
fn a_failed_round_is_taken_back_in_a_file_that_was_moved() {
    let test_dir = TestDir::memory();
    let (path, out) = (test_dir.path("it.hold"), test_dir.path("it.log"));
    Child::run("collector", || {
        let hold = Hold::create(&path).unwrap();
        let log = hold.logs().create("it", LogOptions::new()).unwrap();
        let write = |line: &str| {
            assert_eq!(log.write(LogLevel::Info, line).unwrap(), Written::Accepted);
        };
        let mut file = RotatedFile::open(&out, u64::MAX, 0).unwrap();
        let mut collector = log.collector().unwrap().format(plain);
        write("first");
        collector.finish_to_file(&mut file).unwrap();
        write("second");
        // The text is out, and the round is not marked.
        commonhold::steps::arm("collect.written:panic").unwrap();
        let failed = catch_unwind(AssertUnwindSafe(|| collector.finish_to_file(&mut file)));
        assert!(failed.is_err());
        commonhold::steps::arm("").unwrap();
        assert_eq!(std::fs::read_to_string(&out).unwrap(), "first\nsecond\n");
        drop(collector);
        std::fs::rename(&out, test_dir.path("old")).unwrap();
        let mut collector = log.collector().unwrap().format(plain);
        collector.finish_to_file(&mut file).unwrap();
        assert_eq!(std::fs::read_to_string(test_dir.path("old")).unwrap(), "first\n");
        assert_eq!(std::fs::read_to_string(&out).unwrap(), "second\n");
    })
    .finish();
}

/// What cannot be looked at keeps no other file, and a killed rotation leaves none for good.
#[test]
fn extra_files_go_whatever_else_is_there() {
    let test_dir = TestDir::memory();
    let (path, out) = (test_dir.path("it.hold"), test_dir.path("it.log"));
    let (_, log) = filled(&path);
    let name = |age: u32| test_dir.path(&format!("it.log.{age}"));
    // A link to itself, and a gap at 2: the rotation fills it and moves no file on.
    std::os::unix::fs::symlink(name(6), name(6)).unwrap();
    [1, 3, 4, 5].iter().for_each(|age| std::fs::write(name(*age), "old\n").unwrap());
    std::fs::write(&out, "x".repeat(4999) + "\n").unwrap();
    let mut file = RotatedFile::open(&out, 5000, 2).unwrap();
    log.collector().unwrap().format(plain).finish_to_file(&mut file).unwrap();
    let left: Vec<u32> = (1..20).filter(|age| name(*age).is_file()).collect();
    assert_eq!(left, [1, 2]);
    is_complete(&std::fs::read(&out).unwrap());
}

/// Older files need room for a number behind the name.
#[test]
fn a_name_without_room_for_a_number_is_refused() {
    let test_dir = TestDir::memory();
    let path = test_dir.path(&"n".repeat(245));
    refused(RotatedFile::open(&path, 1000, 0), ErrorKind::Invalid, "244 bytes");
    RotatedFile::open(&path, u64::MAX, 0).unwrap();
    RotatedFile::open(test_dir.path(&"n".repeat(244)), 1000, 0).unwrap();
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
