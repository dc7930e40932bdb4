//! The runs of many processes, as a user starts them: demo, bench and crashtest.
//!
//! Each test has a folder of its own for bare names, in memory, and finds it empty afterwards:
//! a run leaves nothing behind, however it ends.

use serde_json::Value;
use std::io::{BufRead, BufReader, Read};
use std::os::unix::process::CommandExt;
use std::path::Path;
use std::process::{Child, Command, Output, Stdio};
use tempfile::TempDir;

fn folder() -> TempDir {
    tempfile::Builder::new()
        .prefix("hold-runs-")
        .tempdir_in("/dev/shm")
        .expect("a folder in memory")
}

fn hold(folder: &Path, arguments: &[&str]) -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_hold"));
    command.args(arguments).env("COMMONHOLD_DIR", folder).current_dir(folder);
    command
}

/// Runs to the end; it must succeed and leave nothing.
fn run(arguments: &[&str]) -> Output {
    let folder = folder();
    let output = hold(folder.path(), arguments).output().expect("hold starts");
    let (out, err) = (text(&output.stdout), text(&output.stderr));
    assert!(output.status.success(), "{arguments:?}: {}\n{out}\n{err}", output.status);
    wait_until_empty(folder.path());
    output
}

fn json(output: &Output) -> Value {
    let out = text(&output.stdout);
    serde_json::from_str(&out).unwrap_or_else(|e| panic!("one JSON document, not {out}: {e}"))
}

fn text(bytes: &[u8]) -> String {
    String::from_utf8_lossy(bytes).into_owned()
}

/// A hold that deletes itself with its last user is gone a moment after that user.
fn wait_until_empty(folder: &Path) {
    let names = || -> Vec<_> {
        let entries = std::fs::read_dir(folder).expect("the folder is there");
        entries.map(|e| e.expect("an entry").file_name()).collect()
    };
    for _ in 0..1000 {
        if names().is_empty() {
            return;
        }
        std::thread::sleep(std::time::Duration::from_millis(10));
    }
    panic!("left behind: {:?}", names());
}

fn signal(child: &Child, name: &str) {
    let pid = child.id().to_string();
    let done = Command::new("kill").args(["-s", name, &pid]).status().expect("kill runs");
    assert!(done.success(), "kill -s {name} {pid}");
}

/// Starts a demo and waits until its processes are at work.
fn demo_at_work(folder: &Path) -> (Child, BufReader<std::process::ChildStdout>) {
    let mut child = hold(folder, &["demo", "--seconds", "60"])
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .expect("hold starts");
    let mut out = BufReader::new(child.stdout.take().expect("a pipe"));
    let mut line = String::new();
    while !line.contains("reads/s") {
        line.clear();
        assert_ne!(out.read_line(&mut line).expect("a line"), 0, "the demo ended early");
    }
    (child, out)
}

#[test]
fn the_demo_shows_itself_in_plain_lines() {
    let out = text(&run(&["demo", "--seconds", "2"]).stdout);
    // The summary is wrapped, so a line may end within one of these phrases.
    let flowing = out.split_whitespace().collect::<Vec<_>>().join(" ");
    for wanted in [
        "is suspended",
        "is killed",
        "continues where it was suspended",
        "median",
        "Summary:",
        "(0 wrong)",
    ] {
        assert!(flowing.contains(wanted), "no '{wanted}' in:\n{out}");
    }
    assert!(!out.contains('\x1b'), "escape sequences in plain lines:\n{out}");
    assert!(!out.contains("FAILED"), "{out}");
}

#[test]
fn the_demo_prints_json() {
    let found = json(&run(&["demo", "--seconds", "2", "--format", "json"]));
    assert_eq!(found["passed"], true, "{found}");
    assert_eq!(found["wrong_reads"], 0);
    assert!(found["records"].as_u64().unwrap() > 30_000);
    assert!(found["acknowledged_edits"].as_u64().unwrap() > 0);
    for part in ["before", "during", "after"] {
        assert!(found["reads"][part]["reads"].as_u64().unwrap() > 0, "{part}: {found}");
    }
    assert_eq!(found["check"]["allocated"], found["check"]["reachable"]);
}

#[test]
fn an_interrupted_demo_leaves_nothing() {
    let folder = folder();
    let (mut child, mut out) = demo_at_work(folder.path());
    signal(&child, "INT");
    let mut rest = String::new();
    out.read_to_string(&mut rest).expect("the rest");
    assert_eq!(child.wait().expect("it ends").code(), Some(130));
    wait_until_empty(folder.path());
}

#[test]
fn a_crashtest_ended_by_timeout_leaves_nothing() {
    let folder = folder();
    // To its child and then to its group: two signals, one after the other.
    let mut command = Command::new("timeout");
    command.args(["2", env!("CARGO_BIN_EXE_hold"), "crashtest", "--seconds", "600"]);
    command.env("COMMONHOLD_DIR", folder.path()).current_dir(folder.path()).process_group(0);
    let output = command.output().expect("timeout starts");
    let out = text(&output.stdout);
    assert_eq!(output.status.code(), Some(124), "{out}{}", text(&output.stderr));
    assert!(out.contains("interrupted") && !out.contains("passed:"), "{out}");
    wait_until_empty(folder.path());
}

#[test]
fn a_killed_demo_leaves_nothing() {
    let folder = folder();
    let (mut child, _out) = demo_at_work(folder.path());
    signal(&child, "KILL");
    child.wait().expect("it ends");
    wait_until_empty(folder.path());
}

#[test]
fn the_demo_keeps_its_hold_when_asked() {
    let folder = folder();
    let output = hold(folder.path(), &["demo", "--seconds", "1", "--keep"]).output().unwrap();
    assert!(output.status.success(), "{}", text(&output.stderr));
    let entries: Vec<_> = std::fs::read_dir(folder.path()).unwrap().collect();
    assert_eq!(entries.len(), 1, "{entries:?}");
    let path = entries.into_iter().next().unwrap().unwrap().path();
    let path = path.to_str().unwrap();
    let got = hold(folder.path(), &["get", path, "names", "00E9"]).output().unwrap();
    let value = text(&got.stdout);
    assert!(value.starts_with("LATIN SMALL LETTER E WITH ACUTE | edit "), "{value}");
}

/// The value of a metric of one workload.
fn metric(found: &Value, workload: &str, metric: &str) -> f64 {
    let results = found["results"].as_array().expect("results");
    let wanted = |r: &&Value| r["workload"] == workload && r["metric"] == metric;
    let result = results.iter().find(wanted).unwrap_or_else(|| {
        panic!("no {metric} of {workload} in {found:#}");
    });
    assert!(result["unit"].is_string());
    result["value"].as_f64().expect("a number")
}

#[test]
fn bench_map_measures_every_phase() {
    for (mode, options) in [
        ("map general own", &["--order", "own"][..]),
        ("map fixed random", &["--order", "random", "--fixed"][..]),
    ] {
        let mut arguments = vec!["bench", "map", "--keys", "20000", "--format", "json"];
        arguments.extend(options);
        let found = json(&run(&arguments));
        assert!(found["machine"]["cores"].as_u64().unwrap() > 0);
        for phase in ["put", "upd", "mix", "get", "get_many"] {
            assert!(metric(&found, &format!("{mode} {phase}"), "ops_per_s") > 0.0);
        }
        assert!(metric(&found, &format!("{mode} put"), "bytes_per_pair") > 8.0);
        let slowest = metric(&found, &format!("{mode} put_latency"), "latency_ns_max");
        assert!(slowest >= metric(&found, &format!("{mode} put_latency"), "latency_ns_p9999"));
    }
}

#[test]
fn bench_map_works_with_any_sizes_and_numbers() {
    let sizes = ["--key-size", "3", "--value-size", "0", "--batch", "7", "--runs", "2"];
    let mut arguments = vec!["bench", "map", "--keys", "5001", "--processes", "3"];
    arguments.extend(sizes);
    arguments.extend(["--phases", "get,get_many"]);
    let out = text(&run(&arguments).stdout);
    assert!(out.contains("get_many"), "{out}");
    let folder = folder();
    let refused = ["bench", "map", "--keys", "300", "--key-size", "1"];
    let output = hold(folder.path(), &refused).output().unwrap();
    assert!(!output.status.success());
    assert!(text(&output.stderr).contains("--key-size"), "{}", text(&output.stderr));
}

#[test]
fn bench_loop_and_private_measure() {
    let found = json(&run(&[
        "bench", "loop", "--turns", "5000", "--runs", "1", "--path", "loop", "--format", "json",
    ]));
    assert!(metric(&found, "loop", "time_ms") > 0.0);
    let found = json(&run(&[
        "bench", "private", "--keys", "5000", "--gets", "5000", "--rounds", "3", "--format", "json",
    ]));
    for copy in ["new copy", "copy into a buffer"] {
        assert!(metric(&found, &format!("private get, {copy}"), "ratio_to_hashbrown") > 0.0);
    }
}

#[test]
fn crashtest_kills_and_finds_nothing_wrong() {
    let arguments = ["crashtest", "--seconds", "6", "--no-steps", "--format", "json"];
    let found = json(&run(&arguments));
    assert_eq!(found["passed"], true, "{found:#}");
    for counted in ["processes", "rounds", "changes", "checks"] {
        assert!(found[counted].as_u64().unwrap() > 0, "{counted}: {found:#}");
    }
    let blows = ["kills", "suspensions"].map(|blow| found[blow].as_u64().unwrap());
    assert!(blows.iter().sum::<u64>() > 0, "{found:#}");
}

#[test]
fn crashtest_survives_calls_that_fail() {
    let arguments = ["crashtest", "--faults", "--seconds", "10", "--no-steps", "--format", "json"];
    let found = json(&run(&arguments));
    assert_eq!(found["passed"], true, "{found:#}");
    let count = |what: &str| found[what].as_u64().unwrap();
    assert!(count("failures") > 0 && count("changes") > 0, "{found:#}");
    let faults = ["without_descriptors", "without_room", "long_suspensions"].map(count);
    assert!(faults.iter().sum::<u64>() > 0, "{found:#}");
}

#[test]
fn workers_options_are_not_for_users() {
    let folder = folder();
    let order = r#"{"role":"Reader","place":0,"writers":1,"hold":"/nowhere.hold",
        "board":"/nowhere","starter":1}"#;
    let output = hold(folder.path(), &["demo", "--worker", order]).output().unwrap();
    assert!(!output.status.success());
    assert!(text(&output.stderr).contains("worker processes"), "{}", text(&output.stderr));
}
