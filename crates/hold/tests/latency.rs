//! The benchmarks of channels, queues and logs, as a user starts them, for fractions of a second
//! each.
//!
//! Each must leave nothing behind, however it ends. How fast anything is, is never asserted.

use crate::support::{Run, TestDir};
use serde_json::Value;
use std::io::Read;
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

/// How long a killed benchmark may take to notice and to clean up.
const PATIENCE: Duration = Duration::from_secs(60);

const PERCENTILES: [&str; 15] = [
    "min", "p1", "p10", "p25", "p50", "p75", "p80", "p90", "p95", "p99", "p995", "p999", "p9995",
    "p9999", "max",
];

/// Processes that spin need a processor each: one benchmark at a time.
fn alone() -> MutexGuard<'static, ()> {
    static ONE: Mutex<()> = Mutex::new(());
    ONE.lock().unwrap_or_else(PoisonError::into_inner)
}

/// The value of a metric of one workload, of this project's.
fn metric(found: &Value, workload: &str, metric: &str) -> f64 {
    of_system(found, "commonhold", workload, metric)
}

fn of_system(found: &Value, system: &str, workload: &str, metric: &str) -> f64 {
    let results = found["results"].as_array().expect("results");
    let wanted =
        |r: &&Value| r["system"] == system && r["workload"] == workload && r["metric"] == metric;
    let result = results.iter().find(wanted).unwrap_or_else(|| {
        panic!("no {metric} of {workload} in {found:#}");
    });
    assert!(result["unit"].is_string());
    result["value"].as_f64().expect("a number")
}

/// All percentiles are present, in ascending order.
fn percentiles_ascend(found: &Value, system: &str, workload: &str) {
    let at = |name: &&str| of_system(found, system, workload, &format!("latency_ns_{name}"));
    let values: Vec<f64> = PERCENTILES.iter().map(at).collect();
    assert!(values.is_sorted(), "{workload}: {values:?}");
    assert!(values[14] > 0.0, "{workload}: {values:?}");
}

/// Runs a benchmark that must succeed, and leaves the directory as it was but for `expected`.
fn measured(test_dir: &TestDir, arguments: &[&str], expected: &[&str]) -> Value {
    let found = test_dir.json(arguments);
    assert!(found["machine"]["cores"].as_u64().expect("cores") > 0);
    until_gone(test_dir, expected);
    found
}

fn until_gone(test_dir: &TestDir, expected: &[&str]) {
    let begin = Instant::now();
    while !test_dir.leftovers(expected).is_empty() {
        assert!(begin.elapsed() < PATIENCE, "left behind: {:?}", test_dir.leftovers(expected));
        std::thread::sleep(Duration::from_millis(10));
    }
}

const QUICK: [&str; 6] = ["--seconds", "0.6", "--warm-up", "50ms", "--interval", "200ms"];

#[test]
fn a_channel_is_measured_in_total_and_by_interval() {
    let _alone = alone();
    let test_dir = TestDir::new();
    let mut arguments = vec!["bench", "channel"];
    arguments.extend(QUICK);
    let found = measured(&test_dir, &arguments, &[]);
    percentiles_ascend(&found, "commonhold", "channel");
    percentiles_ascend(&found, "commonhold", "channel consumer 1");
    let sent = metric(&found, "channel", "all_sent");
    assert_eq!(metric(&found, "channel consumer 1", "all_received"), sent);
    assert_eq!(metric(&found, "channel", "missed"), 0.0);
    let intervals = (1..=3).map(|n| metric(&found, &format!("channel interval {n}"), "messages"));
    let total = metric(&found, "channel", "messages");
    assert_eq!(intervals.sum::<f64>(), total);
    assert!(total > 0.0 && total < sent, "{total} of {sent}: the warm-up does not count");
    let samples = metric(&found, "channel", "latency_samples");
    assert!(samples > 0.0 && samples <= total / 16.0 + 3.0, "{samples} of {total}");
}

#[test]
fn at_a_rate_every_message_is_timed_from_when_it_was_due() {
    let _alone = alone();
    let test_dir = TestDir::new();
    let mut arguments = vec!["bench", "channel", "--rate", "2000", "--message-size", "100"];
    arguments.extend(["--consumers", "2", "--wait", "sleep"]);
    arguments.extend(QUICK);
    let found = measured(&test_dir, &arguments, &[]);
    let (sent, unsent) =
        (metric(&found, "channel", "all_sent"), metric(&found, "channel", "all_unsent"));
    // Due in 650 ms, and the last one, which is marked as the last.
    assert_eq!(sent + unsent, 1301.0);
    for consumer in ["channel consumer 1", "channel consumer 2"] {
        percentiles_ascend(&found, "commonhold", consumer);
        assert_eq!(metric(&found, consumer, "all_received"), sent);
        let timed = metric(&found, consumer, "latency_samples");
        let counted = metric(&found, consumer, "messages");
        // The last one and those before the first timed one of an interval.
        assert!((counted - timed).abs() <= 2.0, "{timed} of {counted}");
    }
}

#[test]
fn what_a_lossy_or_patient_consumer_misses_is_counted() {
    let _alone = alone();
    for policy in ["lossy", "patient"] {
        let test_dir = TestDir::new();
        let mut arguments = vec!["bench", "channel", "--policy", policy, "--patience", "1ms"];
        arguments.extend(["--ring-bytes", "4K", "--message-size", "512"]);
        arguments.extend(QUICK);
        let found = measured(&test_dir, &arguments, &[]);
        let of = |name| metric(&found, "channel consumer 1", name);
        let sent = metric(&found, "channel", "all_sent");
        assert_eq!(of("all_received") + of("all_missed"), sent, "{policy}");
    }
}

#[test]
fn a_table_is_for_people() {
    let _alone = alone();
    let test_dir = TestDir::new();
    let mut arguments = vec!["bench", "channel", "--rate", "1000"];
    arguments.extend(QUICK);
    let out = test_dir.ok(&arguments);
    for wanted in ["99.95", "from 0.4 s", "every message received was verified", "1,000 messages"] {
        assert!(out.contains(wanted), "no '{wanted}' in:\n{out}");
    }
}

/// Whether every element of an XML text is closed in its turn; how many there are of `name`.
fn elements(text: &str, name: &str) -> usize {
    let (mut open, mut count) = (Vec::new(), 0);
    for tag in text.split('<').skip(1) {
        let (tag, _) = tag.split_once('>').expect("a tag ends");
        let first = tag.split([' ', '\n', '/']).next().unwrap_or_default();
        match tag.chars().next() {
            Some('!' | '?') => continue,
            Some('/') => assert_eq!(open.pop(), Some(tag[1..].trim()), "closes what is open"),
            _ if tag.ends_with('/') => {}
            _ => open.push(first),
        }
        count += usize::from(first == name);
    }
    assert!(open.is_empty(), "left open: {open:?}");
    count
}

#[test]
fn plots_are_drawn_as_svg_and_as_a_page() {
    let _alone = alone();
    let test_dir = TestDir::new();
    for file in ["plot.svg", "plot.html"] {
        let mut arguments = vec!["bench", "channel", "--plot", file, "--consumers", "2"];
        arguments.extend(["--wait", "sleep"]);
        arguments.extend(QUICK);
        measured(&test_dir, &arguments, &["plot.svg", "plot.html"]);
        let text = String::from_utf8(test_dir.read(file)).expect("text");
        let svg = &text[text.find("<svg").expect("a drawing")..];
        let svg = &svg[..svg.find("</svg>").expect("its end") + 6];
        // Two consumers by percentile and by rate, four curves over time.
        assert!(elements(svg, "polyline") >= 8, "{svg}");
        for wanted in ["Latency by percentile", "99.9 %", "Messages per second", "consumer 2"] {
            assert!(svg.contains(wanted), "no '{wanted}' in {svg}");
        }
    }
}

#[test]
fn round_trips_are_compared_with_a_bare_cache_line() {
    let _alone = alone();
    let test_dir = TestDir::new();
    let arguments = ["bench", "channel", "--ping-pong", "--rounds", "3", "--seconds", "0.3"];
    let found = measured(&test_dir, &arguments, &[]);
    for system in ["commonhold", "cache line"] {
        percentiles_ascend(&found, system, "channel ping-pong");
        assert!(of_system(&found, system, "channel ping-pong", "round_trip_ns") > 0.0);
        assert!(of_system(&found, system, "channel ping-pong", "round_trips") > 0.0);
    }
    assert!(metric(&found, "channel ping-pong", "ratio_to_cache_line") > 0.0);
    let out = test_dir.ok(&arguments);
    assert!(out.contains("<= 1.2x") && out.contains("cache line"), "{out}");
}

#[test]
fn a_queue_is_measured_for_each_batch_size() {
    let _alone = alone();
    for (options, names) in [
        (&["--touch", "--wait", "sleep"][..], [" touched", "_process_2"]),
        (&["--alone"][..], [" alone", "_process_1"]),
        (&["--runs", "2"][..], ["", "_process_2"]),
    ] {
        let test_dir = TestDir::new();
        let mut arguments = vec!["bench", "queue", "--elements", "3000", "--batch", "1000,7,1"];
        arguments.extend(["--seconds", "0.1"]);
        arguments.extend(options);
        let found = measured(&test_dir, &arguments, &[]);
        for batch in [1000, 7, 1] {
            let workload = format!("queue batch {batch}{}", names[0]);
            assert!(metric(&found, &workload, "elements_moved") > 0.0, "{workload}");
            // The second one may not have had its turn in so short a time.
            metric(&found, &workload, &format!("elements_per_s{}", names[1]));
        }
    }
    let test_dir = TestDir::new();
    let out = test_dir.ok(&["bench", "queue", "--batch", "1000", "--seconds", "0.1"]);
    assert!(out.contains("SharedHashFile*") && out.contains(">= 5x"), "{out}");
}

#[test]
fn a_log_delivers_what_it_accepts() {
    let _alone = alone();
    for options in [&["--full", "wait"][..], &["--rate", "5000", "--wait", "sleep"][..], &[][..]] {
        let test_dir = TestDir::new();
        let mut arguments = vec!["bench", "log", "--seconds", "0.3", "--ring-bytes", "64K"];
        arguments.extend(["--file", "lines", "--line-bytes", "64"]);
        arguments.extend(options);
        let found = measured(&test_dir, &arguments, &["lines"]);
        percentiles_ascend(&found, "commonhold", "log");
        let accepted = metric(&found, "log", "lines_accepted");
        assert!(accepted > 0.0);
        assert_eq!(metric(&found, "log", "lines_delivered"), accepted);
        if options.contains(&"--full") {
            assert_eq!(metric(&found, "log", "lines_dropped"), 0.0);
        }
        let text = test_dir.read("lines");
        assert_eq!(text.len() as f64, metric(&found, "log", "bytes_delivered"));
        let is_line = |line: &&[u8]| line.len() > 64 && line[line.len() - 9] == b' ';
        let lines = text.split(|byte| *byte == b'\n').filter(is_line).count();
        assert!(lines as f64 >= accepted, "{lines} of {accepted}");
    }
}

#[test]
fn wrong_options_are_refused_with_the_way_out() {
    let _alone = alone();
    let test_dir = TestDir::new();
    for (code, arguments, wanted) in [
        (3, "channel --cpus 0,1,2", "names 3, but there are 2 processes: producer, consumer 1"),
        (3, "channel --cpus 0,99999", "processor 99999 is not available"),
        (2, "channel --cpus 0,x", "got 'x'"),
        (3, "channel --message-size 23", "expected a --message-size of at least 24"),
        (3, "channel --message-size 1M", "raise --ring-bytes"),
        (3, "channel --ring-bytes 2G --seconds 0.1", "1 GiB"),
        (3, "channel --consumers 0", "expected at least 1"),
        (3, "channel --seconds 0", "expected --seconds of more than 0"),
        (3, "channel --interval 1ms --seconds 9", "raise --interval"),
        (2, "channel --plot curve.png", ".svg or .html"),
        (2, "channel --plot /nowhere/curve.svg", "folder /nowhere does not exist"),
        (2, "channel --ping-pong --rate 5", "cannot be used with"),
        (2, "channel --format csv", "text or json"),
        (3, "queue --batch 0", "expected at least 1"),
        (3, "queue --batch 5 --elements 4", "at most --elements"),
        (3, "queue --element-bytes 7", "--element-bytes"),
        (3, "queue --alone --cpus 0,1", "names 2, but there are 1"),
        (3, "log --line-bytes 39", "expected --line-bytes of at least 40"),
        (3, "log --writers 0", "expected at least 1"),
        (3, "log --seconds 0.1 --file /nowhere/lines", "/nowhere/lines"),
    ] {
        let words: Vec<&str> = ["bench"].into_iter().chain(arguments.split(' ')).collect();
        let err = test_dir.fails(code, &words);
        assert!(err.contains(wanted), "hold bench {arguments}: {err}");
    }
    until_gone(&test_dir, &[]);
}

/// Starts a benchmark and waits until all its processes exist; returns their ids.
fn at_work(test_dir: &TestDir, arguments: &[&str], processes: usize) -> (Child, Vec<u32>) {
    let mut command = test_dir.command(arguments);
    let mut child =
        command.stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().expect("it starts");
    let begin = Instant::now();
    loop {
        let workers = children(child.id());
        if workers.len() == processes {
            return (child, workers);
        }
        let ended = child.try_wait().expect("a state");
        assert!(ended.is_none() && begin.elapsed() < PATIENCE, "{arguments:?}: {ended:?}");
        std::thread::sleep(Duration::from_millis(5));
    }
}

fn children(pid: u32) -> Vec<u32> {
    let text = std::fs::read_to_string(format!("/proc/{pid}/task/{pid}/children"));
    let text = text.unwrap_or_default();
    text.split_whitespace().map(|number| number.parse().expect("a pid")).collect()
}

fn signal(pid: u32, name: &str) {
    let done = Command::new("kill").args(["-s", name, &pid.to_string()]).status();
    assert!(done.expect("kill runs").success(), "kill -s {name} {pid}");
}

/// How the benchmark ends, with its message.
fn end(mut child: Child) -> Run {
    let mut err = String::new();
    child.stderr.take().expect("a pipe").read_to_string(&mut err).expect("text");
    let output = child.wait_with_output().expect("it ends");
    Run { err, ..Run::of(output) }
}

/// Each benchmark, with its processes.
const LONG_RUNS: [(&str, &[&str]); 4] = [
    ("channel --seconds 600 --wait sleep", &["producer", "consumer 1"]),
    ("channel --seconds 600 --ping-pong", &["ping", "pong"]),
    ("queue --seconds 600 --wait sleep", &["process 1", "process 2"]),
    ("log --seconds 600 --rate 1000 --wait sleep", &["writer 1", "writer 2", "collector"]),
];

#[test]
fn the_death_of_any_process_ends_the_run() {
    let _alone = alone();
    for (arguments, names) in LONG_RUNS {
        let words: Vec<&str> = ["bench"].into_iter().chain(arguments.split(' ')).collect();
        for (number, name) in names.iter().enumerate() {
            let test_dir = TestDir::new();
            let (child, workers) = at_work(&test_dir, &words, names.len());
            signal(workers[number], "KILL");
            let run = end(child);
            assert_eq!(run.code, 3, "{arguments}, {name}: {run:?}");
            let wanted = format!("{name} ended in the middle of its work: signal: 9");
            assert!(run.err.contains(&wanted), "{arguments}, {name}: {run:?}");
            let alive = |pid: &&u32| Path::new(&format!("/proc/{pid}")).exists();
            assert_eq!(workers.iter().filter(alive).count(), 0, "{arguments}, {name}");
            until_gone(&test_dir, &[]);
        }
    }
}

#[test]
fn ctrl_c_ends_everything() {
    let _alone = alone();
    for (arguments, names) in LONG_RUNS {
        let words: Vec<&str> = ["bench"].into_iter().chain(arguments.split(' ')).collect();
        let test_dir = TestDir::new();
        let (child, workers) = at_work(&test_dir, &words, names.len());
        signal(child.id(), "INT");
        let run = end(child);
        assert_eq!(run.code, 130, "{arguments}: {run:?}");
        assert!(run.err.contains("interrupted"), "{arguments}: {run:?}");
        let alive = |pid: &&u32| Path::new(&format!("/proc/{pid}")).exists();
        assert_eq!(workers.iter().filter(alive).count(), 0, "{arguments}");
        until_gone(&test_dir, &[]);
    }
}

#[test]
fn each_benchmark_shows_examples_and_is_listed() {
    let _alone = alone();
    let test_dir = TestDir::new();
    for name in ["channel", "queue", "log"] {
        let help = test_dir.ok(&["bench", name, "--help"]);
        assert!(help.contains(&format!("hold bench {name} ")), "{help}");
        assert!(!help.contains("--worker"), "{help}");
        assert!(test_dir.ok(&["bench", "--help"]).contains(name));
        let order = r#"{"starter":1,"cpu":null,"job":0}"#;
        assert_eq!(test_dir.run(&["bench", name, "--worker", order]).code, 3);
    }
}
