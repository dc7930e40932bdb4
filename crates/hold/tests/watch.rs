//! Watching a map: the output, resuming where it stopped, and its ends.

use crate::support::TestDir;
use serde_json::{Value, json};
use std::io::{BufRead, BufReader};
use std::process::Stdio;

#[test]
fn changes_are_printed_as_they_happen() {
    let test_dir = TestDir::new();
    test_dir.ok(&["set", "shop", "prices", "apple", "3"]);
    let mut watch = test_dir.command(&["watch", "shop", "prices", "--all", "--count", "6"]);
    let mut child = watch.stdout(Stdio::piped()).stderr(Stdio::null()).spawn().unwrap();
    let mut lines = BufReader::new(child.stdout.take().unwrap()).lines().map(Result::unwrap);
    // The existing pairs show that it watches.
    assert_eq!(lines.next().unwrap(), "set\tapple\t3");
    test_dir.ok(&["set", "shop", "prices", "apple", "4"]);
    assert_eq!(lines.next().unwrap(), "set\tapple\t4");
    test_dir.ok(&["incr", "shop", "prices", "visits"]);
    assert_eq!(lines.next().unwrap(), "set\tvisits\t\\x01\\0\\0\\0\\0\\0\\0\\0");
    test_dir.ok(&["set", "shop", "prices", "a\tb", "c\nd"]);
    assert_eq!(lines.next().unwrap(), "set\ta\\tb\tc\\nd");
    test_dir.ok(&["del", "shop", "prices", "apple"]);
    assert_eq!(lines.next().unwrap(), "delete\tapple");
    test_dir.ok(&["push", "shop", "prices", "list", "1"]);
    assert!(lines.next().unwrap().starts_with("set\tlist\t"));
    assert_eq!(child.wait().unwrap().code(), Some(0));
    assert_eq!(lines.next(), None);
}

#[test]
fn a_watch_resumes_where_it_stopped() {
    let test_dir = TestDir::new();
    test_dir.ok(&["set", "shop", "prices", "apple", "3"]);
    let run = test_dir.run(&["watch", "shop", "prices", "--timeout", "0"]);
    assert_eq!((run.code, run.out.as_str()), (1, ""));
    let position = run.err.split("--from ").nth(1).unwrap().split('\'').next().unwrap().to_owned();
    test_dir.ok(&["set", "shop", "prices", "apple", "4"]);
    test_dir.ok(&["set", "shop", "prices", "pear", "5"]);
    let from = ["watch", "shop", "prices", "--timeout", "0", "--from", &position];
    let run = test_dir.run(&from);
    assert_eq!((run.code, run.out.as_str()), (0, "set\tapple\t4\nset\tpear\t5\n"));
    let run = test_dir.run(&[&from[..], &["--format", "json", "--count", "1"]].concat());
    let change: Value = serde_json::from_str(&run.out).unwrap();
    assert_eq!(
        (&change["change"], &change["key"], &change["value"]),
        (&json!("set"), &json!("apple"), &json!("4"))
    );
    let next = change["position"].as_str().unwrap();
    let then = ["watch", "shop", "prices", "--timeout", "0", "--from", next, "--positions"];
    let out = test_dir.run(&then).out;
    assert!(out.ends_with("\tset\tpear\t5\n") && out.starts_with(&position[..16]), "{out}");
    let stream = &test_dir.json(&["stat", "shop", "prices"])["stream"];
    assert_eq!(stream["bytes"], 64 << 20);
    assert!(stream["end"].as_str().unwrap().starts_with(&position[..16]));
    let text = test_dir.ok(&["stat", "shop", "prices"]);
    assert!(text.contains("keeps 64.00 MiB, "), "{text}");
    let some = [&from[..], &["--prefix", "pe"]].concat();
    assert_eq!(test_dir.run(&some).out, "set\tpear\t5\n");
    assert_eq!(test_dir.json(&["check", "shop"])["ok"], true);
}

#[test]
fn a_watch_reports_why_it_ends() {
    let test_dir = TestDir::new();
    let err = test_dir.fails(3, &["watch", "shop", "prices"]);
    assert!(err.contains("this hold does not exist"), "{err}");
    test_dir.ok(&["set", "shop", "prices", "apple", "3"]);
    let err = test_dir.fails(3, &["watch", "shop", "pears"]);
    assert!(err.contains("pears"), "{err}");
    let err = test_dir.fails(2, &["watch", "shop", "prices", "--from", "here"]);
    assert!(err.contains("STREAM.OFFSET"), "{err}");
    let err = test_dir.fails(2, &["watch", "shop", "prices", "--all", "--from", "1.2"]);
    assert!(err.contains("--from"), "{err}");
    let small = ["watch", "shop", "prices", "--stream-size", "64KiB", "--timeout", "0"];
    let run = test_dir.run(&small);
    let position = run.err.split("--from ").nth(1).unwrap().split('\'').next().unwrap().to_owned();
    let pairs: String = (0..3000).map(|n| format!("{n},value\n")).collect();
    test_dir.file("pairs.csv", pairs);
    test_dir.ok(&["load", "shop", "prices", "pairs.csv", "--quiet"]);
    let err = test_dir.fails(3, &["watch", "shop", "prices", "--from", &position]);
    assert!(err.contains("65536 bytes"), "{err}");
    test_dir.ok(&["drop", "--yes", "shop", "prices"]);
    test_dir.ok(&["set", "shop", "prices", "apple", "3"]);
    let err = test_dir.fails(3, &["watch", "shop", "prices", "--from", &position]);
    assert!(err.contains("no stream"), "{err}");
}
