//! A log whose writers, collectors and recoverers are killed or stopped, at every named step and at random.
//!
//! What was accepted is there, half a line never is; a collector's successor loses nothing and repeats one round at most;
//! whoever is stopped holds up nobody.

use crate::support::process::{Board, Child, End, until};
use crate::support::test_dir::TestDir;
use crate::support::{Dice, long, mix, whole};
use commonhold::log::{
    Collector, Log, LogLevel, LogOptions, Overflow, RotatedFile, Round, Written,
};
use commonhold::{Hold, steps};
use nix::sys::signal::Signal;
use std::collections::BTreeMap;
use std::fs::OpenOptions;
use std::path::Path;
use std::time::{Duration, Instant};

fn text(who: u64, number: u64) -> String {
    format!("{who} {number} {}", "y".repeat(mix(who << 40 | number) as usize % 70))
}

#[track_caller]
fn prove(line: &[u8]) -> (u64, u64) {
    let line = std::str::from_utf8(line).unwrap();
    let mut words = line.split(' ').map(|word| word.parse::<u64>());
    let (who, number) = (words.next().unwrap().unwrap(), words.next().unwrap().unwrap());
    assert_eq!(line, text(who, number), "a line that nobody wrote");
    (who, number)
}

fn options() -> LogOptions {
    LogOptions::new().rings(6).ring_bytes(16 << 10).overflow(Overflow::Overwrite)
}

fn open(path: &Path) -> (Hold, Log) {
    let hold = Hold::open_or_create(path).unwrap();
    let log = hold.logs().open_or_create("it", options()).unwrap();
    (hold, log)
}

/// Numbers of each writer in a dump; none is missing between the first and the last.
#[track_caller]
fn numbers(log: &Log, what: &str) -> BTreeMap<u64, Vec<u64>> {
    let mut all: BTreeMap<u64, Vec<u64>> = BTreeMap::new();
    for line in log.dump().unwrap().iter().filter(|line| line.level.is_some()) {
        let (who, number) = prove(&line.text);
        all.entry(who).or_default().push(number);
    }
    for (who, numbers) in &all {
        assert!(numbers.windows(2).all(|two| two[0] + 1 == two[1]), "{what}: {who}: {numbers:?}");
    }
    all
}

/// Two threads after each other, in one ring or two; the board says what was accepted.
fn write_and_leave(path: &Path, first: u64, lines: u64, board: &Board) {
    let (hold, log) = open(path);
    for who in first..first + 2 {
        let (log, board) = (&log, &board);
        std::thread::scope(|scope| {
            scope.spawn(move || {
                for number in 0..lines {
                    let written = log.write(LogLevel::Info, text(who, number)).unwrap();
                    assert_eq!(written, Written::Accepted);
                    board.put(who as usize % 16, number + 1);
                }
            });
        });
    }
    let _ = log.write(LogLevel::Info, text(first + 2, 0)).unwrap();
    drop(log);
    hold.close().unwrap();
}

/// Steps of logs that a run passes.
fn passed(work: impl FnOnce(&Path)) -> Vec<&'static str> {
    let test_dir = TestDir::memory();
    let board: &'static Board = Box::leak(Box::new(Board::new(steps::ALL.len())));
    let path = test_dir.path("it.hold");
    drop(open(&path));
    Child::run("observed", || {
        steps::observe(|step| {
            let at = steps::ALL.iter().position(|name| *name == step);
            board.put(at.expect("a step of the list"), 1);
        });
        work(&path);
    })
    .finish();
    let of_logs = |name: &str| name.starts_with("log.") || name.starts_with("collect.");
    let all = steps::ALL.iter().enumerate();
    all.filter(|(at, name)| board.get(*at) == 1 && of_logs(name)).map(|(_, name)| *name).collect()
}

/// Runs `work` until a step is passed for the `time`-th time, and kills it there; false if it is not.
#[track_caller]
fn kill_at(step: &str, time: u64, work: impl FnOnce()) -> bool {
    let what = format!("killed at {step}, time {time}");
    let mut child = Child::run(&what, || {
        steps::arm(&format!("{step}:kill:{time}")).unwrap();
        work();
    });
    match child.wait() {
        End::By(Signal::SIGKILL) => true,
        End::Well => false,
        other => panic!("{what}: {other:?}"),
    }
}

const LINES: u64 = 400;

fn writer_steps() -> Vec<&'static str> {
    passed(|path| write_and_leave(path, 16, LINES, &Board::new(16)))
}

/// Appends to whatever there is.
fn collect(path: &Path, out: &Path) {
    let mut out = OpenOptions::new().append(true).create(true).open(out).unwrap();
    collect_with(path, |collector| collector.finish(&mut out).unwrap());
}

/// Collects into files of at most 2,000 bytes.
fn collect_to_files(path: &Path, out: &Path) {
    let mut file = RotatedFile::open(out, 2000, 100).unwrap();
    collect_with(path, |collector| collector.finish_to_file(&mut file).unwrap());
}

fn collect_with(path: &Path, finish: impl FnOnce(&mut Collector) -> Round) {
    let (_hold, log) = open(path);
    let mut collector = log.collector().unwrap().format(|line, out| {
        if line.level.is_some() {
            out.extend([&line.text[..], b"\n"].concat());
        }
    });
    finish(&mut collector);
}

fn collector_steps(collect: fn(&Path, &Path)) -> Vec<&'static str> {
    let steps = passed(|path| {
        write_and_leave(path, 16, 20, &Board::new(16));
        collect(path, &path.with_extension("out"));
    });
    steps.into_iter().filter(|step| step.starts_with("collect.")).collect()
}

/// The text in a file, after that in its older ones.
fn all_text(out: &Path) -> Vec<u8> {
    let aged = |age: u32| out.with_added_extension(age.to_string());
    let older = (1..).map(aged).take_while(|path| path.exists()).collect::<Vec<_>>();
    let files = older.iter().rev().map(std::path::PathBuf::as_path).chain([out]);
    files.flat_map(|file| std::fs::read(file).unwrap()).collect()
}

/// One more thread than there are rings: it is refused.
fn crowd(path: &Path) {
    let (hold, log) = open(path);
    assert_eq!(behind(&log, 6), Written::Dropped);
    drop(log);
    hold.close().unwrap();
}

/// The result of a thread that writes while `others` other threads have rings.
fn behind(log: &Log, others: u32) -> Written {
    std::thread::scope(|scope| {
        let thread = scope.spawn(|| match others {
            0 => log.write(LogLevel::Info, text(16, 0)).unwrap(),
            _ => {
                assert!(log.prepare().unwrap());
                behind(log, others - 1)
            }
        });
        thread.join().unwrap()
    })
}

#[test]
fn every_step_of_logs_is_passed() {
    let writers = [writer_steps(), passed(crowd)].concat();
    let collectors = collector_steps(collect_to_files);
    for step in steps::ALL.iter().filter(|s| s.starts_with("log.") || s.starts_with("collect.")) {
        // These only after a death: `recoverers_are_killed`, `successors_are_killed_as_they_take_back`.
        let later = ["log.ring-released", "collect.emptied", "collect.truncated"].contains(step);
        assert!(
            later || writers.contains(step) || collectors.contains(step),
            "nobody passes {step}"
        );
    }
}

#[test]
fn writers_are_killed_at_every_step() {
    let test_dir = TestDir::memory();
    let (path, board) = (test_dir.path("it.hold"), Board::new(16));
    let (hold, log) = open(&path);
    let (mut kills, mut own) = (0, 0);
    let mut first = 16;
    for step in writer_steps() {
        for time in [1, 2, 3, 5, 130] {
            (0..16).for_each(|at| board.put(at, 0));
            let killed = kill_at(step, time, || write_and_leave(&path, first, LINES, &board));
            kills += u32::from(killed);
            let what = format!("killed at {step}, time {time}");
            // Both before anybody has looked after the dead, and after.
            for recovered in [false, true] {
                if recovered {
                    whole(&hold, &what);
                }
                let found = numbers(&log, &what);
                for who in first..first + 2 {
                    let told = board.get(who as usize % 16);
                    let next = found.get(&who).map_or(0, |numbers| numbers.last().unwrap() + 1);
                    assert!((told..=told + 1).contains(&next), "{what}: {told} told, {next} there");
                }
            }
            // The survivor goes on, in its own ring and in one of the dead.
            assert_eq!(log.write(LogLevel::Info, text(1, own)).unwrap(), Written::Accepted);
            own += 1;
            // Rings that are not collected are taken last: nothing of this round is overwritten in the next.
            log.collector().unwrap().finish(&mut std::io::sink()).unwrap();
            first += 16;
        }
    }
    assert!(kills >= 15, "only {kills} kills");
    assert_eq!(log.stat().unwrap().refused, 0);
}

#[test]
fn a_refused_writer_is_killed() {
    let test_dir = TestDir::memory();
    let path = test_dir.path("it.hold");
    let (hold, log) = open(&path);
    assert!(kill_at("log.refused", 1, || crowd(&path)));
    // What the dead one had is free again, asked for or not.
    assert_eq!(behind(&log, 5), Written::Accepted);
    whole(&hold, "refused");
    assert_eq!(behind(&log, 6), Written::Dropped);
}

#[test]
fn collectors_are_killed_at_every_step() {
    kill_collectors(collect, &|step| match step {
        // Written out and not marked; nothing of it can be taken back.
        "collect.written" => 121,
        _ => 0,
    });
}

#[test]
fn collectors_of_files_are_killed_at_every_step() {
    kill_collectors(collect_to_files, &|_| 0);
}

#[test]
fn successors_are_killed_as_they_take_back() {
    for (step, time) in [("collect.emptied", 1), ("collect.emptied", 2), ("collect.truncated", 1)] {
        let test_dir = TestDir::memory();
        let (path, out) = (test_dir.path("it.hold"), test_dir.path("out"));
        let (hold, log) = open(&path);
        write_and_leave(&path, 16, 60, &Board::new(16));
        for (step, time) in [("collect.written", 1), (step, time)] {
            assert!(kill_at(step, time, || collect_to_files(&path, &out)), "{step} is not passed");
        }
        Child::run("third", || collect_to_files(&path, &out)).finish();
        assert_eq!(repeated(&out, &[(16, 60), (17, 60), (18, 1)], step), 0, "{step}, time {time}");
        assert_eq!(log.stat().unwrap().waiting_bytes, 0);
        whole(&hold, step);
    }
}

/// The number of lines that are there twice. Every line of each writer must be there.
#[track_caller]
fn repeated(out: &Path, writers: &[(u64, u64)], what: &str) -> usize {
    let text = all_text(out);
    let mut all: BTreeMap<u64, Vec<u64>> = BTreeMap::new();
    for line in text.split(|byte| *byte == b'\n').filter(|line| !line.is_empty()) {
        let (who, number) = prove(line);
        all.entry(who).or_default().push(number);
    }
    let mut repeated = 0;
    for (who, count) in writers {
        let mut numbers = all.remove(who).unwrap_or_default();
        let len = numbers.len();
        numbers.sort_unstable();
        numbers.dedup();
        assert!(numbers.iter().copied().eq(0..*count), "{what}: {who}: {numbers:?}");
        repeated += len - numbers.len();
    }
    assert!(all.is_empty(), "{what}: {all:?}");
    repeated
}

/// Kills collectors. A successor repeats as many lines as `repeats` returns for the step, and only
/// after the first passage of it.
fn kill_collectors(collect: fn(&Path, &Path), repeats: &dyn Fn(&str) -> usize) {
    let steps = collector_steps(collect);
    assert!(steps.len() >= 7, "{steps:?}");
    for step in steps {
        for time in 1..=3 {
            let test_dir = TestDir::memory();
            let (path, out) = (test_dir.path("it.hold"), test_dir.path("out"));
            let (hold, log) = open(&path);
            write_and_leave(&path, 16, 60, &Board::new(16));
            let killed = kill_at(step, time, || collect(&path, &out));
            for number in 0..5 {
                assert_eq!(log.write(LogLevel::Info, text(1, number)).unwrap(), Written::Accepted);
            }
            // The dead one is in nobody's way, swept or not.
            Child::run("successor", || collect(&path, &out)).finish();
            let repeated = repeated(&out, &[(1, 5), (16, 60), (17, 60), (18, 1)], step);
            // The second time that it is passed there is nothing to write.
            let wanted = if killed && time == 1 { repeats(step) } else { 0 };
            assert_eq!(repeated, wanted, "{step}, time {time}");
            assert!(killed || time > 1, "{step} is not passed");
            assert_eq!(log.stat().unwrap().waiting_bytes, 0);
            whole(&hold, step);
        }
    }
}

#[test]
fn recoverers_are_killed() {
    let all: Vec<&str> = steps::ALL.iter().copied().filter(|s| s.starts_with("recover.")).collect();
    let mut kills = Vec::new();
    let victims = ["log.copied", "log.committed", "collect.written"];
    for step in victims {
        for recovering in all.iter().chain(&["log.ring-released"]) {
            let test_dir = TestDir::memory();
            let (path, board) = (test_dir.path("it.hold"), Board::new(16));
            drop(open(&path));
            let killed = kill_at(step, 1, || {
                let (hold, log) = open(&path);
                for number in 0..10 {
                    let _ = log.write(LogLevel::Info, text(1, number)).unwrap();
                    board.put(0, number + 1);
                }
                log.collector().unwrap().finish(&mut std::io::sink()).unwrap();
                drop((log, hold));
            });
            assert!(killed, "{step}");
            let mut second = Child::run("recoverer", || {
                steps::arm(&format!("{recovering}:kill")).unwrap();
                Hold::open(&path).unwrap().sweep().unwrap();
            });
            if second.wait() == End::By(Signal::SIGKILL) {
                kills.push((step, *recovering));
            }
            let (hold, log) = open(&path);
            let what = format!("{step}, {recovering}");
            whole(&hold, &what);
            let found = numbers(&log, &what).get(&1).map_or(0, |numbers| numbers.len() as u64);
            assert!((board.get(0)..=board.get(0) + 1).contains(&found), "{what}: {found}");
            assert!(log.stat().unwrap().used.iter().all(|ring| ring.slot.is_none()), "{what}");
            drop(log.collector().unwrap());
        }
    }
    for step in victims {
        for passed in
            ["recover.begun", "log.ring-released", "recover.forgotten", "recover.finished"]
        {
            assert!(kills.contains(&(step, passed)), "{step}: no recoverer died at {passed}");
        }
    }
}

#[test]
fn a_writer_stopped_in_a_line_holds_up_nobody() {
    for step in ["log.claimed", "log.copied", "log.committed", "log.made-room", "log.returned"] {
        let test_dir = TestDir::memory();
        let path = test_dir.path("it.hold");
        let (hold, log) = open(&path);
        // So few that none is overwritten, but where it is that which is looked at.
        let lines = if step == "log.made-room" { LINES } else { 60 };
        let mut victim = Child::run(format!("victim at {step}"), || {
            // The first line is the thread's announcement.
            let time = if step == "log.copied" { 5 } else { 1 };
            steps::arm(&format!("{step}:stop:{time}")).unwrap();
            // By the main thread, which is the one that a signal to the process stops at once.
            let (hold, log) = open(&path);
            for number in 0..lines {
                let written = log.write(LogLevel::Info, text(17, number)).unwrap();
                assert_eq!(written, Written::Accepted);
            }
            drop((log, hold));
        });
        assert!(victim.wait_stopped(), "{step}");
        let mut collector = log.collector().unwrap().hold_back(Duration::from_millis(1));
        let (mut text_of, mut seen) = (Vec::new(), 0);
        for number in 0..20 {
            assert_eq!(log.write(LogLevel::Info, text(1, number)).unwrap(), Written::Accepted);
        }
        until("the others' lines come", || {
            collector.poll(&mut text_of).unwrap();
            let text = String::from_utf8_lossy(&text_of);
            seen =
                text.lines().filter(|line| line.contains(" 1 ") || line.contains(" aa ")).count();
            text.contains(" 1 19 ")
        });
        assert!(seen >= 20 && hold.check().unwrap().ok);
        victim.signal(Signal::SIGCONT);
        assert_eq!(victim.wait(), End::Well, "{step}");
        collector.finish(&mut text_of).unwrap();
        let text = String::from_utf8_lossy(&text_of);
        if step == "log.copied" {
            assert!(text.contains("(late)"), "{step}: its time was before what is written already");
        }
        let last = format!(" 17 {} ", lines - 1);
        assert!(text.contains(&last), "{step}: {last} is missing");
        drop(collector);
        whole(&hold, step);
    }
}

#[test]
fn writers_are_killed_at_random() {
    let test_dir = TestDir::memory();
    let (path, board) = (test_dir.path("it.hold"), Board::new(16));
    let hold = Hold::create(&path).unwrap();
    let options = LogOptions::new().rings(6).ring_bytes(64 << 10);
    let log = hold.logs().open_or_create("it", options).unwrap();
    let (sender, receiver) = std::sync::mpsc::channel();
    let mut collector = log.collector().unwrap().format(move |line, _| {
        if line.level.is_some() {
            sender.send(prove(&line.text)).unwrap();
        }
    });
    let mut next: BTreeMap<u64, u64> = BTreeMap::new();
    let mut dice = Dice::new(11);
    let late = Instant::now() + Duration::from_secs(if long() { 300 } else { 8 });
    let mut kills = 0;
    let mut first = 16;
    while Instant::now() < late {
        board.put(0, 0);
        board.put(1, 0);
        let victims: Vec<Child> = (first..first + 2)
            .map(|who| {
                Child::run("victim", || {
                    let hold = Hold::open(&path).unwrap();
                    let log = hold.logs().open("it").unwrap();
                    let mut number = 0;
                    loop {
                        // Full: the collector comes.
                        match log.write(LogLevel::Info, text(who, number)).unwrap() {
                            Written::Accepted => number += 1,
                            _ => std::thread::yield_now(),
                        }
                        board.put(who as usize % 2, number);
                    }
                })
            })
            .collect();
        let begun = dice.below(300);
        until("the victims write", || {
            collector.poll(&mut std::io::sink()).unwrap();
            (0..2).all(|at| board.get(at) >= begun)
        });
        for victim in victims {
            assert_eq!(victim.slay(), End::By(Signal::SIGKILL));
            kills += 1;
        }
        collector.finish(&mut std::io::sink()).unwrap();
        for (who, number) in receiver.try_iter() {
            let expected = next.insert(who, number + 1).unwrap_or(0);
            assert_eq!(number, expected, "victim {who}");
        }
        for who in first..first + 2 {
            let there = next.get(&who).copied().unwrap_or(0);
            let told = board.get(who as usize % 2);
            assert!((told..=told + 1).contains(&there), "victim {who}: {told} told, {there} there");
        }
        first += 2;
        if kills % 20 == 0 {
            whole(&hold, "after kills");
        }
    }
    eprintln!("{kills} writers were killed");
    assert!(kills > 40, "only {kills}");
    assert_eq!(log.stat().unwrap().refused, 0);
    drop(collector);
    whole(&hold, "at the end");
}
