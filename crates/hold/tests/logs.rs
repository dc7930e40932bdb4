//! Logs from the command line: writers and collectors, killed and followed.

use crate::support::TestDir;
use crate::support::background::{Background, objects, until};
use rustix::process::Signal;
use serde_json::json;
use std::io::Write;
use std::path::Path;

/// A test directory with a hold `shop` that has a log `events` of rings of 16 KiB.
fn with_log() -> TestDir {
    let test_dir = TestDir::new();
    test_dir.ok(&["log", "create", "shop", "events", "--rings", "8", "--ring-bytes", "16K"]);
    test_dir
}

/// The text of the users' lines in a dump, a tail or a file.
fn texts(out: &str) -> Vec<String> {
    let written = out.lines().filter(|line| !line.contains(" ----- "));
    // Behind the time and the level.
    written.map(|line| line[37..].to_owned()).collect()
}

#[test]
fn a_log_keeps_the_lines_of_a_killed_process() {
    let test_dir = with_log();
    let mut writer = Background::start(&test_dir, &["log", "write", "shop", "events"]);
    writer.write(b"one\ntwo\nthree\n");
    until(&test_dir, &["log", "stat", "shop", "events"], |s| s["used"][0]["lines"] == 4);
    let pid = writer.pid();
    writer.kill();
    let dumped = test_dir.ok(&["log", "dump", "shop", "events"]);
    assert_eq!(texts(&dumped), ["aa one", "aa two", "aa three"]);
    assert!(dumped.contains(&format!("thread aa = pid {pid} ")), "{dumped}");
    test_dir.ok(&["log", "write", "shop", "events", "--level", "error", "four"]);
    let tail = ["log", "tail", "shop", "events", "-n", "1", "--format", "json"];
    let line = objects(&test_dir.ok(&tail)).remove(0);
    assert_eq!((&line["text"], &line["level"]), (&json!("four"), &json!("error")));
    assert!(line["time"].as_str().is_some_and(|time| time.ends_with('Z') && time.len() == 30));
    let json = test_dir.ok(&["log", "dump", "shop", "events", "--format", "json"]);
    assert_eq!(objects(&json)[0]["announces"]["pid"], pid);
    let errors = test_dir.ok(&["log", "dump", "shop", "events", "--level", "warn"]);
    assert_eq!(texts(&errors), ["ab four"]);
    assert_eq!(test_dir.json(&["check", "shop"])["ok"], true);
}

#[test]
fn a_log_reports_filtered_and_dropped_lines() {
    let test_dir = with_log();
    let write = ["log", "write", "shop", "events", "--format", "json", "--level"];
    let written = |level: &str| {
        let run =
            test_dir.run_with(&[&write[..], &[level]].concat(), "x\n".repeat(2000).as_bytes());
        (run.code, objects(&run.out).remove(0))
    };
    assert_eq!(written("debug"), (0, json!({"accepted": 0, "filtered": 2000, "dropped": 0})));
    assert_eq!(test_dir.ok(&["log", "level", "shop", "events"]), "info\n");
    test_dir.ok(&["log", "level", "shop", "events", "debug"]);
    let (code, json) = written("debug");
    let (accepted, dropped) = (json["accepted"].as_u64(), json["dropped"].as_u64());
    assert!(code == 1 && dropped > Some(0), "{json}");
    assert_eq!(accepted.unwrap_or(0) + dropped.unwrap_or(0), 2000);
    assert_eq!(test_dir.json(&["log", "stat", "shop", "events"])["dropped"], dropped.unwrap_or(0));
    let err = test_dir.run(&["log", "write", "shop", "events", &"x".repeat(5000)]).err;
    assert!(err.contains("5000 bytes"), "{err}");
}

/// The files that a collector rotated, from the oldest.
fn files(test_dir: &TestDir) -> Vec<String> {
    let aged = |age: u32| test_dir.path(&format!("shop.log.{age}"));
    let last = (1..).take_while(|age| aged(*age).exists()).last().unwrap_or(0);
    let read = |path: &Path| std::fs::read_to_string(path).expect("a file of the collector");
    let mut all: Vec<_> = (1..=last).rev().map(|age| read(&aged(age))).collect();
    all.push(read(&test_dir.path("shop.log")));
    all
}

#[test]
fn a_collector_that_is_killed_has_a_successor_and_no_line_is_lost_or_twice() {
    let test_dir = with_log();
    let collect = ["log", "collect", "shop", "events", "--file", "shop.log", "--max-bytes"];
    let collect = [&collect[..], &["2000", "--keep", "99"]].concat();
    let write = |numbers: std::ops::Range<u32>| {
        let text: String = numbers.map(|n| format!("{n}\n")).collect();
        let run = test_dir.run_with(&["log", "write", "shop", "events"], text.as_bytes());
        assert_eq!(run.code, 0, "{run:?}");
    };
    let stat = ["log", "stat", "shop", "events"];
    let first = Background::start(&test_dir, &collect);
    let pid = first.pid();
    until(&test_dir, &stat, |s| s["collector"]["pid"] == pid);
    let err = test_dir.fails(3, &["log", "collect", "shop", "events", "--once"]);
    assert!(err.contains(&format!("process {pid}")), "{err}");
    write(0..100);
    until(&test_dir, &stat, |s| s["waiting_bytes"] == 0);
    first.kill();
    write(100..200);
    let second = Background::start(&test_dir, &collect);
    let pid = second.pid();
    until(&test_dir, &stat, |s| s["collector"]["pid"] == pid);
    write(200..300);
    // It collects all lines in the log before it ends.
    second.signal(Signal::TERM);
    let run = second.end();
    assert!(run.code == 0 && run.err.contains("written to shop.log"), "{run:?}");
    let files = files(&test_dir);
    assert!(files.len() > 5 && files.iter().all(|text| text.len() <= 2000), "{}", files.len());
    let numbers: Vec<_> = texts(&files.concat())
        .iter()
        .map(|text| {
            text.split(' ').next_back().and_then(|n| n.parse::<u32>().ok()).expect("a number")
        })
        .collect();
    assert_eq!(numbers, (0..300).collect::<Vec<_>>());
    assert_eq!(test_dir.ok(&["log", "collect", "shop", "events", "--once"]), "");
}

#[test]
fn lines_of_a_pipe_wait_for_the_collector_unless_they_are_to_be_dropped() {
    let test_dir = with_log();
    let stat = ["log", "stat", "shop", "events"];
    let text: String = (0..20_000).map(|n| format!("{n}\n")).collect();
    let write = |more: &[&str]| {
        let args = [&["log", "write", "shop", "events"], more].concat();
        test_dir.run_with(&args, text.as_bytes())
    };
    // Without a collector no line waits.
    let run = write(&[]);
    assert_eq!(run.code, 1, "{run:?}");
    assert!(run.err.contains(" of 20,000 lines were dropped: log 'events' is full"), "{run:?}");
    let dropped = test_dir.json(&stat)["dropped"].as_u64().expect("a number");
    let collect = ["log", "collect", "shop", "events", "--file", "shop.log"];
    let collector = Background::start(&test_dir, &collect);
    until(&test_dir, &stat, |s| !s["collector"].is_null() && s["waiting_bytes"] == 0);
    let run = write(&["--format", "json"]);
    let all = json!({"accepted": 20_000, "filtered": 0, "dropped": 0});
    assert_eq!((run.code, objects(&run.out).remove(0)), (0, all));
    // Waiting is not counted as dropping.
    assert_eq!(test_dir.json(&stat)["dropped"], dropped);
    // A stopped collector makes no room; with --drop that delays no writer.
    collector.signal(Signal::STOP);
    let run = write(&["--drop"]);
    assert!(run.code == 1 && run.err.contains(" of 20,000 lines were dropped"), "{run:?}");
    let mut waiting = Background::start(&test_dir, &["log", "write", "shop", "events"]);
    let pid = collector.pid();
    let mut input = waiting.input.take().expect("a pipe");
    let feeder = std::thread::spawn(move || input.write_all(text.as_bytes()));
    let told = waiting.first_error();
    assert!(told.starts_with("waiting: log events is full; ") && told.contains(&pid.to_string()));
    collector.signal(Signal::CONT);
    assert_eq!(waiting.end().code, 0);
    feeder.join().expect("the feeder ends").expect("all is read");
    collector.signal(Signal::TERM);
    assert_eq!(collector.end().code, 0);
    let collected = std::fs::read_to_string(test_dir.path("shop.log")).expect("a file");
    let last = texts(&collected).iter().filter(|line| line.ends_with(" 19999")).count();
    assert_eq!(last, 2);
}

#[test]
fn tail_follows_next_to_a_collector() {
    let test_dir = with_log();
    let write = |text: &str| test_dir.ok(&["log", "write", "shop", "events", text]);
    write("one");
    write("two");
    let mut tail =
        Background::start(&test_dir, &["log", "tail", "-f", "-n", "1", "shop", "events"]);
    let next = |tail: &mut Background| loop {
        let line = tail.line();
        assert!(!line.is_empty(), "the tail ended early");
        if let Some(text) = texts(&line).pop() {
            return text;
        }
    };
    assert_eq!(next(&mut tail), "ab two");
    write("three");
    assert_eq!(next(&mut tail), "ac three");
    let collected = test_dir.ok(&["log", "collect", "shop", "events", "--once"]);
    assert_eq!(texts(&collected).len(), 3);
    write("four");
    assert_eq!(next(&mut tail), "ad four");
    tail.signal(Signal::INT);
    assert_eq!(tail.end().code, 0);
    let all = ["log", "collect", "shop", "events", "--once", "--format", "json"];
    assert_eq!(objects(&test_dir.ok(&all)).last().expect("lines")["text"], "four");
}
