//! The command itself: help, exit codes, readers that go away, completions, man pages, doctor.

use crate::support::Ground;
use std::io::Read;
use std::process::Stdio;

const VERBS: &[&str] = &[
    "set",
    "get",
    "del",
    "incr",
    "keys",
    "scan",
    "load",
    "dump",
    "backup",
    "restore",
    "stat",
    "check",
    "repair",
    "drop",
    "list",
    "doctor",
    "demo",
    "bench",
    "crashtest",
    "completions",
    "man",
];

#[test]
fn every_verb_has_help_with_examples() {
    let ground = Ground::new();
    let help = ground.ok(&["--help"]);
    assert!(help.contains("Exit codes:") && help.contains("Examples:"), "{help}");
    for verb in VERBS {
        assert!(help.contains(&format!("\n  {verb} ")), "{verb} is not in the help");
        let help = ground.ok(&[verb, "--help"]);
        assert!(help.contains(&format!("Usage: hold {verb}")), "{help}");
        assert!(help.lines().all(|l| l.chars().count() <= 100), "{verb} has long lines: {help}");
    }
    assert!(ground.ok(&["--version"]).starts_with("hold 0."));
}

#[test]
fn command_lines_that_make_no_sense_exit_with_2() {
    let ground = Ground::new();
    let no_args: [&str; 0] = [];
    assert_eq!(ground.run(&no_args).code, 2);
    for args in [
        &["nonsense"][..],
        &["get"],
        &["get", "shop", "prices"],
        &["set", "shop", "prices", "apple", "3", "4"],
        &["set", "--ttl", "5", "shop", "prices", "apple", "3"],
        &["set", "--fixed", "4", "shop", "prices", "apple", "3"],
        &["set", "--fixed", "4,4", "--cache", "shop", "prices", "apple", "3"],
        &["set", "--cache-ttl", "5m", "shop", "prices", "apple", "3"],
        &["set", "--mode", "888", "shop", "prices", "apple", "3"],
        &["set", "--hex", "shop", "prices", "xyz", "00"],
        &["set", "--number", "shop", "prices", "a", "many"],
        &["scan", "shop", "prices", "--cursor", "0"],
        &["stat", "shop", "--format", "csv"],
        &["list", "--format", "yaml"],
    ] {
        ground.fails(2, args);
    }
    assert_eq!(ground.leftovers(&[]), Vec::<String>::new());
}

#[test]
fn names_that_cannot_be_are_refused() {
    let ground = Ground::new();
    ground.fails(2, &["set", "", "prices", "apple", "3"]);
    let long = "m".repeat(201);
    let err = ground.fails(3, &["set", "shop", &long, "apple", "3"]);
    assert!(err.contains("200"), "{err}");
}

#[test]
fn a_reader_that_goes_away_is_no_error() {
    let ground = Ground::new();
    let map = ground.map("shop", "numbers");
    let value = vec![b'x'; 1000];
    for number in 0..2000u32 {
        map.set(number.to_string(), &value).unwrap();
    }
    for verb in [&["scan"][..], &["keys"], &["dump"], &["dump", "--frozen"]] {
        let args = [verb, &["shop", "numbers", "--format", "json"]].concat();
        let mut command = ground.command(&args);
        let mut child =
            command.stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().expect("a start");
        let mut first = [0; 10];
        let mut out = child.stdout.take().expect("a pipe");
        out.read_exact(&mut first).expect("some output");
        drop(out);
        let output = child.wait_with_output().expect("an end");
        assert!(output.status.success(), "{args:?}: {output:?}");
        assert!(output.stderr.is_empty(), "{args:?}: {output:?}");
    }
}

#[test]
fn a_full_disk_for_the_output_is_an_error() {
    let ground = Ground::new();
    ground.map("shop", "prices").set("apple", "3").unwrap();
    let full = std::path::Path::new("/dev/full");
    for args in [&["get", "shop", "prices", "apple"][..], &["scan", "shop", "prices"], &["list"]] {
        let sink = std::fs::OpenOptions::new().write(true).open(full).expect("/dev/full");
        let mut command = ground.command(args);
        let output = command.stdout(sink).stderr(Stdio::piped()).output().expect("a run");
        assert_eq!(output.status.code(), Some(3), "{args:?}: {output:?}");
        let err = String::from_utf8_lossy(&output.stderr);
        assert!(err.starts_with("hold: standard output: "), "{args:?}: {err}");
    }
}

#[test]
fn completions_know_the_verbs() {
    let ground = Ground::new();
    for shell in ["bash", "zsh", "fish"] {
        let script = ground.ok(&["completions", shell]);
        for verb in VERBS {
            assert!(script.contains(verb), "{shell} does not know {verb}");
        }
    }
    ground.fails(2, &["completions", "cmd"]);
}

#[test]
fn man_pages_are_made_for_every_verb() {
    let ground = Ground::new();
    let page = ground.ok(&["man"]);
    assert!(page.contains(".TH hold 1") && page.contains("COMMONHOLD_DIR"), "{page}");
    ground.ok(&["man", "man/man1"]);
    for verb in VERBS {
        let page = ground.read(&format!("man/man1/hold-{verb}.1"));
        assert!(page.starts_with(b".ie") || page.starts_with(b".TH"), "{verb}");
    }
    assert!(ground.path("man/man1/hold.1").exists());
}

#[test]
fn the_doctor_looks_at_the_machine() {
    let ground = Ground::new();
    let run = ground.run(&["doctor", "--format", "json"]);
    let report: serde_json::Value = serde_json::from_str(&run.out).expect("JSON");
    let checks = report["checks"].as_array().expect("checks");
    let fails = checks.iter().filter(|c| c["level"] == "FAIL").count();
    assert_eq!((run.code, &report["ok"]), (i32::from(fails > 0), &(fails == 0).into()), "{run:?}");
    for name in [
        "kernel",
        "futexes",
        "boot identity",
        "bare names: directory",
        "bare names: file system",
        "bare names: room",
        "bare names: trial hold",
        "memory cgroup",
        "huge pages",
        "ulimit -f",
        "ulimit -v",
        "vm.max_map_count",
        "RemoveIPC",
        "fs.protected_regular",
    ] {
        assert!(checks.iter().any(|c| c["name"] == name), "no {name} in {run:?}");
    }
    let trial = checks.iter().find(|c| c["name"] == "bare names: trial hold");
    assert_eq!(trial.expect("a trial")["level"], "ok", "{run:?}");
    assert_eq!(ground.leftovers(&[]), Vec::<String>::new());
}

#[test]
fn the_doctor_fails_where_no_hold_can_be() {
    let ground = Ground::new();
    let run = ground.run(&["doctor", "/proc"]);
    assert_eq!(run.code, 1, "{run:?}");
    assert!(run.out.contains("FAIL  path: file system"), "{run:?}");
    assert!(run.out.contains("      to do: "), "{run:?}");
}

#[test]
fn the_doctor_sees_a_low_limit() {
    let ground = Ground::new();
    let script = "ulimit -f 100000; exec \"$0\" doctor";
    let mut command = std::process::Command::new("sh");
    command.args(["-c", script, env!("CARGO_BIN_EXE_hold")]);
    command.env("COMMONHOLD_DIR", ground.path(""));
    let output = command.output().expect("a run");
    let out = String::from_utf8_lossy(&output.stdout);
    assert!(out.contains("warn  ulimit -f"), "{out}");
}
