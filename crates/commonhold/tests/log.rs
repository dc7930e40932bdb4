//! What a log answers: writing, levels, collecting, dumping, options, errors, front ends.

use crate::support::test_dir::TestDir;
use commonhold::log::{Collector, Log, LogLevel, LogLine, LogOptions, Overflow, Written};
use commonhold::map::MapOptions;
use commonhold::{ErrorKind, Hold, log_line};
use std::io::{self, Write};
use std::sync::mpsc;
use std::time::Duration;

fn small() -> LogOptions {
    LogOptions::new().rings(4).ring_bytes(4096)
}

fn test_dir(options: LogOptions) -> (TestDir, Hold, Log) {
    let test_dir = TestDir::memory();
    let hold = Hold::create(test_dir.path("it.hold")).unwrap();
    let log = hold.logs().open_or_create("it", options).unwrap();
    (test_dir, hold, log)
}

fn accepted(log: &Log, text: impl AsRef<[u8]>) {
    assert_eq!(log.write(LogLevel::Info, text).unwrap(), Written::Accepted);
}

/// What people wrote, without what the log tells.
fn texts(lines: &[LogLine]) -> Vec<String> {
    let written = lines.iter().filter(|line| line.level.is_some());
    written.map(|line| String::from_utf8_lossy(&line.text).into_owned()).collect()
}

fn collect(collector: &mut Collector) -> Vec<String> {
    let mut text = Vec::new();
    collector.finish(&mut text).unwrap();
    String::from_utf8(text).unwrap().lines().map(str::to_owned).collect()
}

#[track_caller]
fn is_whole(hold: &Hold) {
    let report = hold.check().unwrap();
    assert!(report.ok, "{:?}", report.problems);
}

#[test]
fn lines_come_out_as_they_went_in() {
    let (_test_dir, hold, log) = test_dir(small().ring_bytes(16 << 10));
    let all: Vec<Vec<u8>> = (0..80).map(|len| vec![b'a' + len % 26; usize::from(len)]).collect();
    all.iter().for_each(|line| accepted(&log, line));
    let dumped = log.dump().unwrap();
    let told: Vec<&[u8]> = dumped.iter().skip(1).map(|line| &line.text[..]).collect();
    assert_eq!(told, all);
    let who = dumped[0].announces.as_ref().unwrap();
    assert_eq!(who.pid, std::process::id());
    assert!(dumped.iter().all(|l| l.thread == dumped[0].thread && l.lost == 0 && !l.late));
    assert!(dumped.windows(2).all(|pair| pair[0].time_ns <= pair[1].time_ns));
    let lines = collect(&mut log.collector().unwrap());
    assert_eq!(lines.len(), 81);
    assert!(lines[0].ends_with(&format!("name {}", who.name)), "{}", lines[0]);
    assert!(lines[80].contains(" info  aa bbbbb"), "{}", lines[80]);
    assert!(log.dump().unwrap().iter().all(|line| line.collected));
    assert_eq!(collect(&mut log.collector().unwrap()), [""; 0]);
    is_whole(&hold);
}

#[test]
fn a_full_ring_drops_and_reports_where() {
    let (_test_dir, hold, log) = test_dir(small());
    let write = |n: u32| log.print(LogLevel::Info, format_args!("line {n:03}")).unwrap();
    let count = (0..).take_while(|n| write(*n) == Written::Accepted).count() as u32;
    assert!((90..=128).contains(&count), "{count} lines of 32 bytes in 4096");
    (1..5).for_each(|n| assert_eq!(write(count + n), Written::Dropped));
    assert_eq!(log.stat().unwrap().dropped, 5);
    let mut collector = log.collector().unwrap();
    assert_eq!(collect(&mut collector).len() as u32, count + 1);
    assert_eq!(write(count + 5), Written::Accepted);
    let lines = collect(&mut collector);
    assert_eq!(lines.len(), 2, "{lines:?}");
    assert!(lines[0].ends_with(" 5 lines were dropped or overwritten here"), "{lines:?}");
    assert!(lines[1].ends_with(&format!("line {:03}", count + 5)));
    assert_eq!(log.stat().unwrap().waiting_bytes, 0);
    is_whole(&hold);
}

#[test]
fn a_ring_may_overwrite_the_oldest_instead() {
    let (_test_dir, hold, log) = test_dir(small().overflow(Overflow::Overwrite));
    for n in 0..10_000u32 {
        accepted(&log, format!("{n} {}", "x".repeat(n as usize % 300)));
    }
    let number = |text: &String| text.split(' ').next().unwrap().parse::<u32>().unwrap();
    let last: Vec<u32> = texts(&log.dump().unwrap()).iter().map(number).collect();
    assert!(last.len() > 10 && *last.last().unwrap() == 9999);
    assert!(last.windows(2).all(|pair| pair[0] + 1 == pair[1]), "{last:?}");
    let lost = log.collector().unwrap().finish(&mut io::sink()).unwrap().lost;
    // The thread's announcement is lost, too.
    assert_eq!(lost + last.len() as u64, 10_001);
    assert_eq!(log.stat().unwrap().overwritten + last.len() as u64, 10_000);
    is_whole(&hold);
}

#[test]
fn levels_filter_at_the_writer_and_at_the_collector() {
    let (_test_dir, hold, log) = test_dir(small().level(LogLevel::Warn));
    assert_eq!(log.write(LogLevel::Info, "no").unwrap(), Written::Filtered);
    assert_eq!(log.write(LogLevel::Error, "a").unwrap(), Written::Accepted);
    let other = Hold::open(hold.path()).unwrap();
    other.logs().open("it").unwrap().set_level(LogLevel::Debug).unwrap();
    assert_eq!(log.level(), LogLevel::Debug);
    assert_eq!(log.write(LogLevel::Trace, "no").unwrap(), Written::Filtered);
    assert_eq!(log_line!(log, Debug, "{}", "b").unwrap(), Written::Accepted);
    let never = || -> u32 { panic!("evaluated") };
    assert_eq!(log_line!(log, Trace, "{}", never()).unwrap(), Written::Filtered);
    assert_eq!(texts(&log.dump().unwrap()), ["a", "b"]);
    let mut collector = log.collector().unwrap().level(LogLevel::Info);
    let lines = collect(&mut collector);
    assert!(lines.len() == 2 && lines[1].ends_with(" a"), "{lines:?}");
    drop(collector);
    assert_eq!(collect(&mut log.collector().unwrap()), [""; 0], "what was filtered is collected");
}

#[test]
fn one_collects_and_others_get_an_error_that_names_it() {
    let (_test_dir, hold, log) = test_dir(small());
    let other = Hold::open(hold.path()).unwrap().logs().open("it").unwrap();
    let collector = log.collector().unwrap();
    for log in [&log, &other] {
        let error = log.collector().unwrap_err();
        assert_eq!(error.kind(), ErrorKind::Busy);
        let pid = format!("process {}", std::process::id());
        assert!(error.to_string().contains(&pid), "{error}");
    }
    assert_eq!(log.stat().unwrap().collector.unwrap().1, std::process::id());
    drop(collector);
    assert_eq!(log.stat().unwrap().collector, None);
    accepted(&log, "one");
    assert!(collect(&mut other.collector().unwrap())[1].ends_with("one"));
    is_whole(&hold);
}

/// Fails until it is told to work.
struct Stubborn {
    works: bool,
    got: Vec<u8>,
}

impl Write for Stubborn {
    fn write(&mut self, text: &[u8]) -> io::Result<usize> {
        if !self.works {
            return Err(io::Error::other("no"));
        }
        self.got.extend_from_slice(text);
        Ok(text.len())
    }
    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

#[test]
fn lines_that_cannot_be_written_out_are_not_collected() {
    let (_test_dir, _hold, log) = test_dir(small());
    (0..50).for_each(|n| accepted(&log, format!("line {n}")));
    let mut collector = log.collector().unwrap();
    let mut out = Stubborn { works: false, got: Vec::new() };
    for _ in 0..3 {
        assert_eq!(collector.finish(&mut out).unwrap_err().kind(), ErrorKind::Io);
    }
    assert!(log.dump().unwrap().iter().all(|line| !line.collected));
    out.works = true;
    collector.finish(&mut out).unwrap();
    let text = String::from_utf8(out.got).unwrap();
    assert_eq!(text.lines().filter(|line| line.contains(" info ")).count(), 50, "{text}");
    // The thread is announced, and no line is late because it was read before.
    assert!(text.lines().count() == 51 && !text.contains("(late)"), "{text}");
    assert!(log.dump().unwrap().iter().all(|line| line.collected));
}

#[test]
fn the_process_that_froze_the_hold_releases_its_dropped_log() {
    let (_test_dir, hold, log) = test_dir(small());
    accepted(&log, "one");
    let other = Hold::open(hold.path()).unwrap();
    let collector = log.collector().unwrap();
    let frozen = hold.freeze().unwrap();
    drop((collector, log));
    drop(frozen);
    let theirs = other.logs().open("it").unwrap();
    assert!(theirs.stat().unwrap().used.iter().all(|ring| ring.slot.is_none()));
    drop((theirs.collector().unwrap(), theirs));
    assert!(other.logs().drop("it").unwrap());
}

#[test]
fn young_lines_wait_for_the_hold_back_while_a_thread_is_silent() {
    let (_test_dir, _hold, log) = test_dir(small());
    let mut collector = log.collector().unwrap().hold_back(Duration::from_secs(1000));
    let mut text = Vec::new();
    let (go, told) = mpsc::channel();
    let (tell, done) = mpsc::channel();
    let other = log.clone();
    let silent = std::thread::spawn(move || {
        other.prepare().unwrap();
        tell.send(()).unwrap();
        told.recv().unwrap();
        accepted(&other, "younger");
        tell.send(()).unwrap();
        told.recv()
    });
    done.recv().unwrap();
    accepted(&log, "young");
    let round = collector.poll(&mut text).unwrap();
    assert!(round.more && !String::from_utf8_lossy(&text).contains(" young\n"));
    go.send(()).unwrap();
    done.recv().unwrap();
    // The other thread cannot write an older line any more; this one still can write one older than "younger".
    let round = collector.poll(&mut text).unwrap();
    let shown = String::from_utf8_lossy(&text);
    assert!(round.more && shown.contains(" young\n") && !shown.contains(" younger\n"), "{shown}");
    let mut collector = collector.hold_back(Duration::ZERO);
    collector.poll(&mut text).unwrap();
    assert!(String::from_utf8_lossy(&text).ends_with(" younger\n"));
    drop(go);
    assert!(silent.join().unwrap().is_err());
}

#[test]
fn young_lines_need_not_wait_for_anybody_if_nobody_else_has_a_ring() {
    let (_test_dir, _hold, log) = test_dir(small());
    std::thread::scope(|scope| {
        scope.spawn(|| accepted(&log, "of one that is gone")).join().unwrap();
    });
    accepted(&log, "of one that is here");
    let mut collector = log.collector().unwrap().hold_back(Duration::from_secs(1000));
    let mut text = Vec::new();
    assert!(!collector.poll(&mut text).unwrap().more);
    let shown = String::from_utf8_lossy(&text);
    assert!(shown.ends_with(" of one that is here\n") && shown.contains(" gone\n"), "{shown}");
}

#[test]
fn threads_have_rings_of_their_own_and_hand_them_back() {
    let (_test_dir, hold, log) = test_dir(small());
    for round in 0..20 {
        std::thread::scope(|scope| {
            for thread in 0..4 {
                let log = &log;
                scope.spawn(move || accepted(log, format!("{round} {thread}")));
            }
        });
        let stat = log.stat().unwrap();
        crate::support::process::until("the rings are back", || {
            log.stat().unwrap().used.iter().all(|ring| ring.slot.is_none())
        });
        assert_eq!((stat.refused, stat.dropped), (0, 0));
    }
    assert_eq!(log.stat().unwrap().threads, 80);
    let lines = log.dump().unwrap();
    assert_eq!((texts(&lines).len(), lines.len()), (80, 160));
    let letters: std::collections::BTreeSet<_> =
        lines.iter().map(|line| line.thread.to_string()).collect();
    assert_eq!(letters.len(), 80);
    is_whole(&hold);
}

#[test]
fn without_a_free_ring_lines_are_refused_and_counted() {
    let (_test_dir, _hold, log) = test_dir(small().rings(1));
    accepted(&log, "mine");
    std::thread::scope(|scope| {
        scope.spawn(|| {
            assert_eq!(log.write(LogLevel::Info, "no").unwrap(), Written::Dropped);
            assert!(!log.prepare().unwrap());
        });
    });
    assert_eq!(log.stat().unwrap().refused, 1);
    drop(log);
}

#[test]
fn a_line_from_the_destructor_of_a_thread_is_taken() {
    struct Late(Log);
    impl Drop for Late {
        fn drop(&mut self) {
            accepted(&self.0, "late");
        }
    }
    thread_local! {
        static LATE: std::cell::RefCell<Option<Late>> = const { std::cell::RefCell::new(None) };
    }
    let (_test_dir, hold, log) = test_dir(small());
    for early in [true, false] {
        let theirs = log.clone();
        let thread = std::thread::spawn(move || {
            if early {
                LATE.with(|late| *late.borrow_mut() = Some(Late(theirs.clone())));
            }
            accepted(&theirs, "early");
            LATE.with(|late| *late.borrow_mut() = Some(Late(theirs)));
        });
        thread.join().unwrap();
    }
    // The destructors run in either order.
    let texts = texts(&log.dump().unwrap());
    assert_eq!(texts.iter().filter(|text| *text == "early").count(), 2, "{texts:?}");
    assert!(texts.iter().filter(|text| *text == "late").count() >= 2, "{texts:?}");
    assert!(log.stat().unwrap().used.iter().all(|ring| ring.slot.is_none()));
    is_whole(&hold);
}

#[test]
fn handles_come_and_go() {
    let (_test_dir, hold, log) = test_dir(small());
    for n in 0..10 {
        let again = hold.logs().open_or_create("it", small()).unwrap();
        accepted(&again, format!("{n}"));
        accepted(&log, format!("and {n}"));
    }
    let stat = log.stat().unwrap();
    assert_eq!(stat.used.iter().filter(|ring| ring.slot.is_some()).count(), 1, "{stat:?}");
    drop(log);
    let log = hold.logs().open("it").unwrap();
    assert_eq!(texts(&log.dump().unwrap()).len(), 20);
    assert!(log.stat().unwrap().used.iter().all(|ring| ring.slot.is_none()));
    is_whole(&hold);
}

#[test]
fn names_options_and_lengths_are_checked() {
    let (_test_dir, hold, log) = test_dir(small());
    hold.maps().open_or_create("a map", MapOptions::general()).unwrap();
    let kind = |name: &str, options| hold.logs().open_or_create(name, options).unwrap_err().kind();
    assert_eq!(kind("a map", small()), ErrorKind::Mismatch);
    assert_eq!(kind("it", small().rings(5)), ErrorKind::Mismatch);
    assert_eq!(kind("it", small().overflow(Overflow::Overwrite)), ErrorKind::Mismatch);
    assert_eq!(kind("", small()), ErrorKind::Invalid);
    assert_eq!(kind("x", small().rings(0)), ErrorKind::Invalid);
    assert_eq!(kind("x", small().rings(4097)), ErrorKind::Invalid);
    assert_eq!(kind("x", small().ring_bytes(100)), ErrorKind::Invalid);
    assert_eq!(kind("x", small().ring_bytes(u64::MAX)), ErrorKind::Invalid);
    assert_eq!(hold.logs().open("none").unwrap_err().kind(), ErrorKind::NotFound);
    assert_eq!(hold.logs().open("a map").unwrap_err().kind(), ErrorKind::Mismatch);
    accepted(&log, [1; 960]);
    let error = log.write(LogLevel::Info, [1; 961]).unwrap_err();
    assert_eq!(error.kind(), ErrorKind::TooLarge);
    assert!(error.to_string().contains("961"), "{error}");
    is_whole(&hold);
}

#[test]
fn dropped_and_closed_logs_return_errors() {
    let (_test_dir, hold, log) = test_dir(small());
    accepted(&log, "one");
    let collector = log.collector().unwrap();
    let other = Hold::open(hold.path()).unwrap();
    assert_eq!(other.logs().drop("it").unwrap_err().kind(), ErrorKind::Busy);
    assert!(hold.logs().drop("it").unwrap() && !hold.logs().drop("it").unwrap());
    let gone = ErrorKind::NotFound;
    assert_eq!(log.write(LogLevel::Info, "two").unwrap_err().kind(), gone);
    assert_eq!(log.dump().unwrap_err().kind(), gone);
    assert_eq!(log.stat().unwrap_err().kind(), gone);
    assert_eq!(log.collector().unwrap_err().kind(), gone);
    drop(collector);
    let again = hold.logs().open_or_create("it", small()).unwrap();
    accepted(&again, "three");
    assert_eq!(texts(&again.dump().unwrap()), ["three"]);
    is_whole(&hold);
    hold.close().unwrap();
    let closed = ErrorKind::Closed;
    assert_eq!(again.write(LogLevel::Info, "four").unwrap_err().kind(), closed);
    assert_eq!(again.dump().unwrap_err().kind(), closed);
    let log = other.logs().open("it").unwrap();
    assert_eq!(texts(&log.dump().unwrap()), ["three"]);
    assert!(log.stat().unwrap().used.iter().all(|ring| ring.slot.is_none()));
    is_whole(&other);
}

#[test]
fn a_read_only_handle_dumps() {
    let (_test_dir, hold, log) = test_dir(small());
    accepted(&log, "one");
    let view = Hold::options().read_only(true).open(hold.path()).unwrap();
    let log = view.logs().open("it").unwrap();
    assert_eq!(texts(&log.dump().unwrap()), ["one"]);
    assert_eq!(log.stat().unwrap().rings, 4);
    for error in [
        log.write(LogLevel::Info, "two").unwrap_err(),
        log.collector().unwrap_err(),
        log.set_level(LogLevel::Error).unwrap_err(),
    ] {
        assert_eq!(error.kind(), ErrorKind::ReadOnly);
    }
    assert_eq!(view.logs().open("none").unwrap_err().kind(), ErrorKind::NotFound);
}

#[test]
fn a_reader_follows_what_is_written_and_leaves_no_trace() {
    let (test_dir, hold, log) = test_dir(small().overflow(Overflow::Overwrite));
    accepted(&log, "one");
    let looking = Hold::options().read_only(true).open(test_dir.path("it.hold")).unwrap();
    let mut reader = looking.logs().open("it").unwrap().reader().unwrap();
    assert_eq!(texts(&reader.finish().unwrap()), ["one"]);
    assert_eq!(texts(&reader.finish().unwrap()), [""; 0]);
    accepted(&log, "two");
    assert_eq!(collect(&mut log.collector().unwrap()).len(), 3, "a thread and two lines");
    let lines = reader.finish().unwrap();
    assert_eq!((texts(&lines), lines[0].lost), (vec!["two".to_owned()], 0));
    for n in 0..1000 {
        accepted(&log, format!("line {n}"));
    }
    let lines = reader.finish().unwrap();
    assert_eq!(texts(&lines).last().unwrap(), "line 999");
    let lost: u32 = lines.iter().map(|line| line.lost).sum();
    assert_eq!(lost as usize + lines.len(), 1000);
    drop(log);
    hold.logs().drop("it").unwrap();
    assert_eq!(reader.poll().unwrap_err().kind(), ErrorKind::NotFound);
}

#[test]
fn closing_and_dropping_race_with_writers() {
    for round in 0..40 {
        let (_test_dir, hold, log) = test_dir(small().overflow(Overflow::Overwrite));
        std::thread::scope(|scope| {
            for _ in 0..3 {
                scope.spawn(|| while log.write(LogLevel::Info, "a line").is_ok() {});
            }
            while log.stat().unwrap().used.len() < 3 {
                std::thread::yield_now();
            }
            match round % 2 {
                0 => assert!(hold.logs().drop("it").unwrap()),
                _ => hold.clone().close().unwrap(),
            }
        });
        let hold = Hold::open(hold.path()).unwrap();
        is_whole(&hold);
    }
}

#[cfg(feature = "log")]
#[test]
fn the_crate_log_writes_lines() {
    use log::Log as _;
    let (_test_dir, _hold, events) = test_dir(small());
    let facade = commonhold::log::LogFacade::new(events.clone());
    for level in [log::Level::Warn, log::Level::Debug] {
        let text = format_args!("a {} b", 5);
        facade.log(&log::Record::builder().target("shop").level(level).args(text).build());
    }
    let lines = events.dump().unwrap();
    assert_eq!(texts(&lines), ["shop: a 5 b"]);
    assert_eq!(lines[1].level, Some(LogLevel::Warn));
}

#[cfg(feature = "tracing")]
#[test]
fn the_crate_tracing_writes_lines() {
    use tracing_subscriber::layer::SubscriberExt;
    let (_test_dir, _hold, events) = test_dir(small());
    let layer = commonhold::log::LogLayer::new(events.clone());
    tracing::subscriber::with_default(tracing_subscriber::registry().with(layer), || {
        tracing::warn!(target: "shop", count = 5, name = "pear", "a {}", "b");
        tracing::debug!("no");
        tracing::error!(target: "shop", only = true);
    });
    let lines = events.dump().unwrap();
    assert_eq!(texts(&lines), ["shop: a b count=5 name=\"pear\"", "shop: only=true"]);
    assert_eq!(lines[1].level, Some(LogLevel::Warn));
}

/// In a program that has closed its standard error, the hold may have got that descriptor. A line
/// for standard error must not be written over the hold.
#[test]
fn a_direct_line_never_damages_a_hold() {
    use crate::support::process::Child;
    let test_dir = TestDir::memory();
    let path = test_dir.path("it.hold");
    Hold::create(&path).unwrap().logs().create("it", small()).unwrap();
    Child::run("writes a direct line", || {
        nix::unistd::close(2).unwrap();
        let hold = Hold::open(&path).unwrap();
        let opened = std::fs::read_link("/proc/self/fd/2").unwrap();
        assert_eq!(opened, path);
        let log = hold.logs().open_or_create("it", small().direct(true)).unwrap();
        accepted(&log, "for standard error");
    })
    .finish();
    let hold = Hold::open(&path).unwrap();
    is_whole(&hold);
    assert_eq!(texts(&hold.logs().open("it").unwrap().dump().unwrap()), ["for standard error"]);
}
