//! A log among processes: many writers and a collector, forks, signal handlers, rotation, dumps under way, damage.
//!
//! Every line proves itself: it says who wrote it, its number, and ends in a filling that follows from both.
//!
//! # Safety
//! Unsafe to install a signal handler that does what a log promises to allow in one.
#![allow(unsafe_code)]

use crate::support::process::{Board, Child, End, PATIENCE, until};
use crate::support::test_dir::TestDir;
use crate::support::{Dice, long, mix};
use commonhold::log::{Log, LogLevel, LogLine, LogOptions, Overflow, RotatedFile, Written};
use commonhold::{ErrorKind, Hold};
use nix::sys::signal::{SaFlags, SigAction, SigHandler, SigSet, Signal, sigaction};
use std::collections::BTreeMap;
use std::fmt;
use std::io;
use std::path::Path;
use std::sync::OnceLock;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::{Duration, Instant};

fn text(who: u64, number: u64) -> String {
    Text(who, number).to_string()
}

/// The same without an allocation, for a signal handler, which may have interrupted one.
struct Text(u64, u64);

impl fmt::Display for Text {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        const FILLING: &str = "xxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxx";
        let Text(who, number) = self;
        let len = mix(who << 40 | number) as usize % FILLING.len();
        write!(f, "{who} {number} {}", &FILLING[..len])
    }
}

/// Who wrote the line, and its number.
#[track_caller]
fn prove(line: &[u8]) -> (u64, u64) {
    let line = std::str::from_utf8(line).unwrap();
    let mut words = line.split(' ').map(|word| word.parse::<u64>());
    let (who, number) = (words.next().unwrap().unwrap(), words.next().unwrap().unwrap());
    assert_eq!(line, text(who, number), "a line that nobody wrote");
    (who, number)
}

/// Numbers by writer, as they came; who wrote in which order.
#[derive(Default)]
struct Found {
    numbers: BTreeMap<u64, Vec<u64>>,
    late: u64,
    last_ns: u64,
}

impl Found {
    #[track_caller]
    fn add(&mut self, line: &LogLine) {
        if line.level.is_none() {
            return;
        }
        let (who, number) = prove(&line.text);
        let all = self.numbers.entry(who).or_default();
        assert!(all.last().is_none_or(|last| *last < number), "{who}: {number} after {all:?}");
        all.push(number);
        self.late += u64::from(line.late);
        assert!(line.late || line.time_ns >= self.last_ns, "not in the order of time");
        self.last_ns = self.last_ns.max(line.time_ns);
    }
}

/// Writes `count` lines as `who`; counts in the board what was accepted and what was dropped.
fn write_lines(log: &Log, who: u64, count: u64, board: &Board) {
    for number in 0..count {
        match log.write(LogLevel::Info, text(who, number)).unwrap() {
            Written::Accepted => board.count(who as usize * 2, 1),
            Written::Dropped => board.count(who as usize * 2 + 1, 1),
            Written::Filtered => panic!("filtered"),
        };
        if number % 64 == 0 {
            std::thread::yield_now();
        }
    }
}

fn whole(hold: &Hold) {
    hold.sweep().unwrap();
    let report = hold.check().unwrap();
    assert!(report.ok, "{:?}", report.problems);
}

const WRITERS: u64 = 3;
const THREADS: u64 = 2;

fn many_writers(options: LogOptions, count: u64) {
    let test_dir = TestDir::memory();
    let path = test_dir.path("it.hold");
    let hold = Hold::create(&path).unwrap();
    let log = hold.logs().open_or_create("it", options.clone()).unwrap();
    let board = Board::new(20);
    let writers: Vec<Child> = (0..WRITERS)
        .map(|writer| {
            Child::run(format!("writer {writer}"), || {
                let log = Hold::open(&path)
                    .unwrap()
                    .logs()
                    .open_or_create("it", options.clone())
                    .unwrap();
                std::thread::scope(|scope| {
                    for thread in 0..THREADS {
                        let (log, board) = (&log, &board);
                        scope.spawn(move || {
                            write_lines(log, writer * THREADS + thread, count, board)
                        });
                    }
                });
            })
        })
        .collect();
    let found = std::sync::Arc::new(std::sync::Mutex::new(Found::default()));
    let theirs = found.clone();
    let mut collector = log.collector().unwrap().format(move |line, out| {
        theirs.lock().unwrap().add(line);
        out.push(b'\n');
    });
    let late = Instant::now() + PATIENCE;
    let done = || Instant::now() > late || writers.iter().all(Child::is_gone);
    let round = collector.run(&mut io::sink(), done).unwrap();
    writers.into_iter().for_each(Child::finish);
    let found = found.lock().unwrap();
    let mut missing = 0;
    for who in 0..WRITERS * THREADS {
        let (accepted, dropped) = (board.get(who as usize * 2), board.get(who as usize * 2 + 1));
        assert_eq!(accepted + dropped, count);
        let got = found.numbers.get(&who).map_or(0, |numbers| numbers.len() as u64);
        missing += dropped;
        match options_overwrite(&log) {
            false => assert_eq!(got, accepted, "writer {who}"),
            true => missing += accepted - got,
        }
    }
    if options_overwrite(&log) {
        // Announcements of threads may be overwritten, too.
        let most = missing + WRITERS * THREADS;
        assert!((missing..=most).contains(&round.lost), "{} lost, {missing} missing", round.lost);
    } else {
        // Dropped after the last line that was accepted: no line tells of those.
        assert!(round.lost <= missing, "{} lost, {missing} dropped", round.lost);
        assert_eq!(log.stat().unwrap().dropped, missing);
    }
    assert_eq!(log.stat().unwrap().refused, 0);
    eprintln!("{missing} of {} missing, {} late", count * WRITERS * THREADS, found.late);
    whole(&hold);
}

fn options_overwrite(log: &Log) -> bool {
    log.stat().unwrap().overflow == Overflow::Overwrite
}

#[test]
fn many_write_and_one_collects_with_room() {
    many_writers(LogOptions::new().rings(8).ring_bytes(4 << 20), 20_000);
}

#[test]
fn many_write_and_one_collects_without_room() {
    many_writers(LogOptions::new().rings(8).ring_bytes(8 << 10), 20_000);
}

#[test]
fn many_write_and_one_collects_what_is_not_overwritten() {
    let options = LogOptions::new().rings(8).ring_bytes(8 << 10);
    many_writers(options.overflow(Overflow::Overwrite), 20_000);
}

#[test]
fn dumps_of_rings_that_are_written() {
    let test_dir = TestDir::memory();
    let path = test_dir.path("it.hold");
    let hold = Hold::create(&path).unwrap();
    let options = LogOptions::new().rings(4).ring_bytes(4 << 10).overflow(Overflow::Overwrite);
    let log = hold.logs().open_or_create("it", options).unwrap();
    let stop = Board::new(1);
    let writers: Vec<Child> = (0..2)
        .map(|who| {
            Child::run(format!("writer {who}"), || {
                let log = Hold::open(&path).unwrap().logs().open("it").unwrap();
                let numbers = (0..).take_while(|_| stop.get(0) == 0);
                numbers.for_each(|number| {
                    let written = log.write(LogLevel::Info, text(who, number)).unwrap();
                    assert_eq!(written, Written::Accepted);
                });
            })
        })
        .collect();
    until("both write", || log.stat().unwrap().used.len() == 2);
    let view = Hold::options().read_only(true).open(&path).unwrap().logs().open("it").unwrap();
    let mut seen = 0;
    for _ in 0..if long() { 20_000 } else { 1500 } {
        let mut last: BTreeMap<u64, u64> = BTreeMap::new();
        for line in view.dump().unwrap().iter().filter(|line| line.level.is_some()) {
            let (who, number) = prove(&line.text);
            let before = last.insert(who, number);
            let ahead = before.map_or(0, |before| number - before - 1);
            assert_eq!(u64::from(line.lost), ahead, "writer {who}: {before:?}, then {number}");
            seen += 1;
        }
        assert!(hold.check().unwrap().ok);
    }
    stop.put(0, 1);
    writers.into_iter().for_each(Child::finish);
    assert!(seen > 1000, "only {seen} lines");
    assert!(log.dump().unwrap().len() > 50, "the last lines are there");
}

#[test]
fn four_writers_and_a_rotated_file() {
    let test_dir = TestDir::memory();
    let path = test_dir.path("it.hold");
    let hold = Hold::create(&path).unwrap();
    let log =
        hold.logs().open_or_create("it", LogOptions::new().rings(8).ring_bytes(4 << 20)).unwrap();
    let writers: Vec<Child> = (0..4)
        .map(|who| {
            Child::run(format!("writer {who}"), || {
                let log = Hold::open(&path).unwrap().logs().open("it").unwrap();
                for number in 0..10_000 {
                    let written = log.write(LogLevel::Info, text(who, number)).unwrap();
                    assert_eq!(written, Written::Accepted);
                }
            })
        })
        .collect();
    let file = test_dir.path("it.log");
    let mut out = RotatedFile::open(&file, 100_000, 1000).unwrap();
    let mut collector = log.collector().unwrap().format(|line, out| {
        if line.level.is_some() {
            out.extend([&line.text[..], b"\n"].concat());
        }
    });
    collector.run(&mut out, || writers.iter().all(Child::is_gone)).unwrap();
    writers.into_iter().for_each(Child::finish);
    let name =
        |age: u32| if age == 0 { file.clone() } else { test_dir.path(&format!("it.log.{age}")) };
    let oldest = (1..).take_while(|age| name(*age).exists()).last().unwrap();
    let mut next = [0; 4];
    for age in (0..=oldest).rev() {
        let text = std::fs::read(name(age)).unwrap();
        assert!(text.len() <= 100_000);
        for line in text.split(|byte| *byte == b'\n').filter(|line| !line.is_empty()) {
            let (who, number) = prove(line);
            assert_eq!(number, next[who as usize], "writer {who}");
            next[who as usize] += 1;
        }
    }
    assert_eq!(next, [10_000; 4]);
    assert!(oldest > 10);
}

#[test]
fn forked_children_have_rings_of_their_own() {
    let test_dir = TestDir::memory();
    let path = test_dir.path("it.hold");
    let board = Board::new(10);
    Child::run("parent", || {
        let hold = Hold::create(&path).unwrap();
        let log = hold
            .logs()
            .open_or_create("it", LogOptions::new().rings(8).ring_bytes(64 << 10))
            .unwrap();
        let accepted = |who, number| {
            let written = log.write(LogLevel::Info, text(who, number)).unwrap();
            assert_eq!(written, Written::Accepted);
        };
        accepted(0, 0);
        let mut collector = log.collector().unwrap();
        let child = Child::run("child", || {
            (0..100).for_each(|number| accepted(1, number));
            let error = collector.poll(&mut io::sink()).unwrap_err();
            assert_eq!(error.kind(), ErrorKind::Busy);
            board.put(1, u64::from(std::process::id()));
            Child::run("grandchild", || {
                (0..100).for_each(|number| accepted(2, number));
                std::thread::scope(|scope| {
                    scope.spawn(|| (0..100).for_each(|number| accepted(3, number)));
                });
                board.put(2, u64::from(std::process::id()));
                hold.clone().close().unwrap();
            })
            .finish();
            (100..200).for_each(|number| accepted(1, number));
        });
        (1..100).for_each(|number| accepted(0, number));
        child.finish();
        (100..200).for_each(|number| accepted(0, number));
        let mut found = Found::default();
        let lines = log.dump().unwrap();
        lines.iter().for_each(|line| found.add(line));
        let counts: Vec<usize> = found.numbers.values().map(Vec::len).collect();
        assert_eq!(counts, [200, 200, 100, 100]);
        let pids: Vec<u64> =
            lines.iter().filter_map(|l| Some(u64::from(l.announces.as_ref()?.pid))).collect();
        let own = u64::from(std::process::id());
        for (pid, threads) in [(own, 1), (board.get(1), 1), (board.get(2), 2)] {
            assert_eq!(pids.iter().filter(|p| **p == pid).count(), threads, "{pids:?}");
        }
        whole(&hold);
        assert_eq!(collector.finish(&mut io::sink()).unwrap().lines, 604);
    })
    .finish();
}

static SIGNALLED: OnceLock<Log> = OnceLock::new();
static INNER: AtomicU64 = AtomicU64::new(0);

extern "C" fn on_signal(_: i32) {
    let number = INNER.load(Ordering::Relaxed);
    let log = SIGNALLED.get().unwrap();
    let written = log.print(LogLevel::Warn, format_args!("{}", Text(1, number)));
    if written.unwrap() == Written::Accepted {
        INNER.store(number + 1, Ordering::Relaxed);
    }
}

#[test]
fn signal_handlers_write_in_the_middle_of_lines() {
    let test_dir = TestDir::memory();
    let path = test_dir.path("it.hold");
    Child::run("signalled", || {
        let hold = Hold::create(&path).unwrap();
        let options = LogOptions::new().rings(8).ring_bytes(16 << 20);
        SIGNALLED.set(hold.logs().open_or_create("it", options).unwrap()).unwrap();
        let log = SIGNALLED.get().unwrap();
        assert!(log.prepare().unwrap());
        let action =
            SigAction::new(SigHandler::Handler(on_signal), SaFlags::SA_RESTART, SigSet::empty());
        // SAFETY: the handler writes a line, and formats on the stack.
        unsafe { sigaction(Signal::SIGUSR1, &action) }.unwrap();
        commonhold::steps::observe(|step| {
            // In the very middle, now and then; not of the handler's own line.
            static INSIDE: AtomicBool = AtomicBool::new(false);
            static TURN: AtomicU64 = AtomicU64::new(0);
            let middle = ["log.copied", "log.committed"].contains(&step);
            if middle
                && TURN.fetch_add(1, Ordering::Relaxed).is_multiple_of(7)
                && !INSIDE.swap(true, Ordering::Relaxed)
            {
                nix::sys::signal::raise(Signal::SIGUSR1).unwrap();
                INSIDE.store(false, Ordering::Relaxed);
            }
        });
        // SAFETY: no arguments.
        let (stop, own) = (AtomicBool::new(false), unsafe { libc::pthread_self() });
        let outer = std::thread::scope(|scope| {
            // No more than the rings have room for.
            scope.spawn(|| {
                for _ in 0..50_000 {
                    // SAFETY: the thread outlives the scope.
                    assert_eq!(unsafe { libc::pthread_kill(own, libc::SIGUSR1) }, 0);
                    std::thread::yield_now();
                    if stop.load(Ordering::Relaxed) {
                        break;
                    }
                }
            });
            let mut number = 0;
            let few = || INNER.load(Ordering::Relaxed) < 1000;
            while number < 30_000 || (few() && number < 150_000) {
                let written = log.write(LogLevel::Info, text(0, number)).unwrap();
                assert_eq!(written, Written::Accepted);
                number += 1;
            }
            stop.store(true, Ordering::Relaxed);
            number
        });
        let inner = INNER.load(Ordering::Relaxed);
        let mut found: BTreeMap<u64, Vec<u64>> = BTreeMap::new();
        for line in log.dump().unwrap().iter().filter(|line| line.level.is_some()) {
            let (who, number) = prove(&line.text);
            found.entry(who).or_default().push(number);
            let level = if who == 0 { LogLevel::Info } else { LogLevel::Warn };
            assert_eq!(line.level, Some(level));
        }
        assert!(inner >= 1000, "only {inner} signals");
        assert!(found[&0].iter().copied().eq(0..outer), "{} of {outer}", found[&0].len());
        // Those of the handler lie in several rings; times may be equal.
        found.get_mut(&1).unwrap().sort_unstable();
        assert!(found[&1].iter().copied().eq(0..inner), "{} of {inner}", found[&1].len());
        whole(&hold);
    })
    .finish();
}

#[test]
fn lines_go_straight_to_standard_error_while_nobody_collects() {
    let test_dir = TestDir::memory();
    let file = test_dir.path("stderr");
    let path = test_dir.path("it.hold");
    Child::run("direct", || {
        let out = std::fs::File::create(&file).unwrap();
        // SAFETY: the child's own descriptors.
        assert_eq!(unsafe { libc::dup2(std::os::fd::AsRawFd::as_raw_fd(&out), 2) }, 2);
        let hold = Hold::create(&path).unwrap();
        let log =
            hold.logs().open_or_create("it", LogOptions::new().rings(2).direct(true)).unwrap();
        assert_eq!(log.write(LogLevel::Warn, "first").unwrap(), Written::Accepted);
        assert_eq!(log.write(LogLevel::Debug, "filtered").unwrap(), Written::Filtered);
        let mut collector = log.collector().unwrap();
        assert_eq!(log.write(LogLevel::Warn, "second").unwrap(), Written::Accepted);
        assert_eq!(collector.finish(&mut io::sink()).unwrap().lines, 3);
        drop(collector);
        assert_eq!(log.write(LogLevel::Info, "third\n").unwrap(), Written::Accepted);
    })
    .finish();
    let text = std::fs::read_to_string(&file).unwrap();
    let lines: Vec<&str> = text.lines().map(|line| line.split_once(' ').unwrap().1).collect();
    assert_eq!(lines, ["warn  aa first", "info  aa third"]);
}

/// A closed hold with a log, and where the log's block begins in it.
fn sample(path: &Path, overflow: Overflow) -> (Vec<u8>, usize) {
    let hold = Hold::options().max_bytes(16 << 20).create(path).unwrap();
    let options = LogOptions::new().rings(4).ring_bytes(4096).overflow(overflow);
    let log = hold.logs().open_or_create("it", options).unwrap();
    std::thread::scope(|scope| {
        for who in 0..3 {
            let log = &log;
            scope.spawn(move || {
                for number in 0..200 {
                    let _ = log.write(LogLevel::Info, text(who, number)).unwrap();
                }
            });
        }
    });
    drop(log);
    hold.close().unwrap();
    let bytes = std::fs::read(path).unwrap();
    let needle = text(0, 0);
    let needle = if overflow == Overflow::Drop { needle } else { text(0, 199) };
    let at = bytes.windows(needle.len()).position(|w| w == needle.as_bytes()).unwrap();
    (bytes, at / 65536 * 65536)
}

/// Everything that can be done with a log; errors are fine.
fn use_it(path: &Path) {
    for read_only in [true, false] {
        let Ok(hold) = Hold::options().read_only(read_only).open(path) else { continue };
        let Ok(log) = hold.logs().open("it") else { continue };
        let _ = (log.dump(), log.stat());
        for number in 0..150 {
            let _ = log.write(LogLevel::Info, text(9, number));
        }
        if let Ok(mut collector) = log.collector() {
            let mut text = Vec::new();
            let _ = collector.finish(&mut text);
            let _ = log.write(LogLevel::Info, "after");
            let _ = collector.finish(&mut text);
        }
        let _ = (log.dump(), log.stat(), hold.check(), hold.sweep());
        drop(log);
        let _ = hold.logs().drop("it");
    }
}

#[test]
fn damaged_logs_never_panic_or_hang() {
    let test_dir = TestDir::memory();
    let mut found = 0;
    for overflow in [Overflow::Drop, Overflow::Overwrite] {
        let (whole, block) = sample(&test_dir.path(&format!("{overflow:?}.hold")), overflow);
        let (board, path) = (Board::new(2), test_dir.path(&format!("{overflow:?}-mutant.hold")));
        let mutants = if long() { 20_000 } else { 600 };
        let mut child = Child::run("damaged", || {
            let mut dice = Dice::new(5);
            for mutant in 0..mutants {
                board.put(0, mutant);
                let mut bytes = whole.clone();
                for _ in 0..=dice.below(4) {
                    // The header, the rings' headers, lines.
                    let span = [128, 1024, 4096 + 16384][dice.below(3) as usize];
                    let at = block + 8192 + dice.below(span) as usize / 8 * 8;
                    let old = u64::from_le_bytes(bytes[at..at + 8].try_into().unwrap());
                    let new = match dice.below(5) {
                        0 => old ^ 1 << dice.below(64),
                        1 => dice.roll(),
                        2 => old.wrapping_add(dice.below(9).wrapping_sub(4).wrapping_mul(8)),
                        3 => 0,
                        _ => u64::MAX >> dice.below(64),
                    };
                    bytes[at..at + 8].copy_from_slice(&new.to_le_bytes());
                }
                std::fs::write(&path, &bytes).unwrap();
                let is_damaged = Hold::open(&path).is_ok_and(|h| h.check().is_ok_and(|r| !r.ok));
                board.count(1, u64::from(is_damaged));
                use_it(&path);
            }
        });
        let end = child.wait_for(PATIENCE * 4);
        assert_eq!(end, End::Well, "mutant {} of seed 5, {overflow:?}", board.get(0));
        found += board.get(1);
    }
    assert!(found > 100, "the check found only {found} mutants");
}

#[test]
fn an_idle_collector_sleeps() {
    let test_dir = TestDir::memory();
    let hold = Hold::create(test_dir.path("it.hold")).unwrap();
    let log =
        hold.logs().open_or_create("it", LogOptions::new().rings(2).ring_bytes(4096)).unwrap();
    let mut collector = log.collector().unwrap();
    let (begun, mut rounds) = (Instant::now(), 0u32);
    let enough = || {
        rounds += 1;
        begun.elapsed() > Duration::from_millis(300)
    };
    collector.run(&mut io::sink(), enough).unwrap();
    assert!(rounds < 60, "{rounds} rounds in 0.3 s");
}
