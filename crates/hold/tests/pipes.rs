//! `hold load` at the end of a pipe: pairs that arrive one by one, signals, readers that are gone.

use crate::support::TestDir;
use crate::support::background::Background;
use rustix::process::Signal;
use serde_json::json;
use std::io::Write;
use std::process::Stdio;
use std::time::{Duration, Instant};

/// Waits until `key` of the map `prices` in the hold `shop` has this value.
fn until_stored(test_dir: &TestDir, key: &str, value: &str) {
    let end = Instant::now() + Duration::from_secs(120);
    while test_dir.run(&["get", "shop", "prices", key]).out != value {
        assert!(Instant::now() < end, "{key} is not stored");
        std::thread::sleep(Duration::from_millis(5));
    }
}

/// The input stays open, so only a load that stores before it waits passes.
#[test]
fn other_processes_see_a_pair_while_the_pipe_is_idle() {
    let inputs: [(&str, [&str; 2]); 4] = [
        ("tsv", ["apple\t3\n", "pear\t4\nplum\t"]),
        ("csv", ["apple,3\n", "\"pear\",4\n\"plu"]),
        ("json", ["{\"key\":\"apple\",\"value\":3}\n", "{\"key\":\"pear\",\"value\":\"4\"}\n{"]),
        ("nul", ["apple\x003\0", "pear\x004\0plum\0"]),
    ];
    for (format, [first, second]) in inputs {
        let test_dir = TestDir::new();
        let args = ["load", "shop", "prices", "--format", format];
        let mut load = Background::start(&test_dir, &args);
        load.write(first.as_bytes());
        until_stored(&test_dir, "apple", "3");
        // The second pair ends in the middle of what is written: the third is not there yet.
        load.write(second.as_bytes());
        until_stored(&test_dir, "pear", "4");
        assert_eq!(test_dir.map_len("shop", "prices"), 2, "{format}");
        load.signal(Signal::TERM);
        let run = load.end();
        assert_eq!((run.code, run.err.as_str()), (130, ""), "{format}: {run:?}");
        assert_eq!(test_dir.map_len("shop", "prices"), 2, "{format}: half a record is stored");
    }
}

#[test]
fn a_signal_ends_a_load_with_a_report() {
    for signal in [Signal::INT, Signal::TERM, Signal::HUP] {
        let test_dir = TestDir::new();
        let args = ["load", "shop", "prices", "--on-error", "skip", "--format"];
        let mut load = Background::start(&test_dir, &[&args[..], &["json"]].concat());
        load.write(b"{\"key\":\"a\",\"value\":1}\nx\n{\"key\":\"b\",\"value\":2}\n");
        until_stored(&test_dir, "b", "2");
        load.signal(signal);
        let run = load.end();
        let report: serde_json::Value = serde_json::from_str(&run.out).expect("a report");
        assert_eq!(run.code, 130, "{run:?}");
        assert_eq!([&report["stored"], &report["skipped"]], [2, 1], "{run:?}");
        assert_eq!(report["interrupted"], json!(true));
        let mut load = Background::start(&test_dir, &[&args[..], &["tsv"]].concat());
        load.write(b"c\t3\n");
        until_stored(&test_dir, "c", "3");
        load.signal(signal);
        let run = load.end();
        assert_eq!(
            (run.code, run.out.as_str()),
            (
                130,
                "1 pair stored in map prices; a signal ended the load before the end of the input\n"
            )
        );
    }
}

/// A stream that never pauses: what the report counts is what is stored.
#[test]
fn a_signal_in_the_middle_of_a_fast_stream_loses_no_pair_that_was_counted() {
    let test_dir = TestDir::new();
    let args = ["load", "shop", "prices", "--format", "json"];
    let mut load = Background::start(&test_dir, &args);
    let mut input = load.input.take().expect("an open input");
    let writer = std::thread::spawn(move || {
        // Until the load has gone.
        for number in 0u64.. {
            let line = format!("{{\"key\":\"key {number}\",\"value\":{number}}}\n");
            if input.write_all(line.as_bytes()).is_err() {
                return number;
            }
        }
        0
    });
    until_stored(&test_dir, "key 9999", "9999");
    load.signal(Signal::INT);
    let run = load.end();
    assert!(writer.join().expect("it ends") > 9999);
    assert_eq!(run.code, 130, "{run:?}");
    let report: serde_json::Value = serde_json::from_str(&run.out).expect("a report");
    let stored = report["stored"].as_u64().expect("a number");
    assert_eq!(test_dir.map_len("shop", "prices"), stored);
    assert_eq!(test_dir.run(&["get", "shop", "prices", &format!("key {stored}")]).code, 1);
}

/// The report has no reader: nothing else changes.
#[test]
fn a_load_whose_report_nobody_reads_stores_all_pairs() {
    let test_dir = TestDir::new();
    let mut command = test_dir.command(&["load", "shop", "prices"]);
    command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped());
    let mut child = command.spawn().expect("the command starts");
    drop(child.stdout.take());
    let mut input = child.stdin.take().expect("a pipe");
    input.write_all(b"apple\t3\n").expect("it reads");
    until_stored(&test_dir, "apple", "3");
    let pid = rustix::process::Pid::from_child(&child);
    rustix::process::kill_process(pid, Signal::PIPE).expect("it lives");
    input.write_all(b"pear\t4\n").expect("it reads on");
    drop(input);
    let output = child.wait_with_output().expect("it ends");
    assert_eq!((output.status.code(), output.stderr.as_slice()), (Some(0), &b""[..]));
    assert_eq!(test_dir.map_len("shop", "prices"), 2);
}

#[test]
fn a_delimiter_is_chosen_and_a_wrong_one_is_noticed() {
    let test_dir = TestDir::new();
    for (name, contents, delimiter) in [
        ("semicolon.csv", "sku;price\na1;\"3;50\"\n", "semicolon"),
        ("tab.csv", "sku\tprice\na1\t\"3;50\"\n", "\\t"),
        ("bar.csv", "sku|price\na1|3;50\n", "|"),
        ("comma.tsv", "sku,price\na1,3;50\n", "comma"),
        ("bar.tsv", "sku|price\na1|3\\x3b50\n", "|"),
    ] {
        test_dir.file(name, contents);
        let load = ["load", "shop", name, name, "--key-column", "sku", "--value-column", "price"];
        let err = test_dir.fails(3, &load);
        let option = if delimiter == "\\t" { "tab" } else { delimiter };
        let way_out = [format!("--delimiter {option}"), format!("--delimiter '{option}'")];
        assert!(way_out.iter().any(|text| err.contains(text)), "{name}: {err}");
        test_dir.ok(&[&load[..], &["--delimiter", delimiter]].concat());
        assert_eq!(test_dir.ok(&["get", "shop", name, "a1"]), "3;50", "{name}");
    }
    // Without a header the first record is the error, and only the first error has the hint.
    test_dir.file("data.csv", "a;1\nb;2\n");
    let run = test_dir.run(&["load", "shop", "p", "data.csv", "--on-error", "skip"]);
    let hints = run.err.matches("--delimiter semicolon").count();
    assert_eq!((run.code, hints, run.err.lines().count()), (1, 1, 2), "{run:?}");
    assert!(run.err.contains("data.csv:1: expected 2 fields, found 1 (the first line contains"));
    let err = test_dir.fails(2, &["load", "shop", "p", "data.csv", "--delimiter", "\""]);
    assert!(err.contains("--delimiter <CHAR>"), "{err}");
    let err = test_dir.fails(2, &["load", "shop", "p", "--format", "nul", "--delimiter", ";"]);
    assert!(err.contains("--delimiter applies only to csv and tsv"), "{err}");
}
