//! The program as a user runs it, with tiny sizes: real worker processes, every workload, and every
//! rival that is installed. The program leaves nothing behind, however it ends.

use std::{
    collections::BTreeSet,
    fs,
    io::{BufRead, BufReader},
    path::Path,
    process::{Command, Output, Stdio},
};

use commonhold_bench::rivals;
use serde_json::Value;

use crate::{absent, files};

const PROGRAM: &str = env!("CARGO_BIN_EXE_commonhold-bench");

fn run_in(directory: &Path, arguments: &[&str]) -> Output {
    let mut command = Command::new(PROGRAM);
    command.args(["run", "--dir"]).arg(directory).args(arguments);
    command.output().expect("the program starts")
}

fn memory_directory() -> tempfile::TempDir {
    tempfile::Builder::new().prefix("bench-test.").tempdir_in("/dev/shm").unwrap()
}

fn text(bytes: &[u8]) -> String {
    String::from_utf8(bytes.to_vec()).expect("output is text")
}

/// The JSON of a run that must succeed and leave its directory empty.
fn results(arguments: &[&str]) -> Value {
    let directory = memory_directory();
    let output = run_in(directory.path(), &[arguments, &["--format", "json"]].concat());
    let errors = text(&output.stderr);
    assert!(output.status.success(), "{errors}");
    // A rival that is not compiled in was not requested; `messages.rs` shows its tests as ignored.
    let absent = |line: &&str| line.starts_with("NOT RUN") && !line.contains("not compiled in");
    for line in errors.lines().filter(absent) {
        absent::tell(line);
    }
    assert_eq!(fs::read_dir(directory.path()).unwrap().count(), 0, "something was left behind");
    serde_json::from_slice(&output.stdout).expect("standard output is one JSON object")
}

fn strings<'a>(list: &'a Value, field: &str) -> BTreeSet<&'a str> {
    let list = list.as_array().expect("a list");
    list.iter().map(|one| one[field].as_str().expect("a string")).collect()
}

#[test]
fn every_workload_runs_over_every_rival() {
    let all = results(&["--keys", "300", "--rounds", "2", "--budget", "0.5"]);

    let rivals: BTreeSet<_> = rivals::all().map(|rival| rival.name()).collect();
    let installed = rivals.len() - all["not_run"].as_array().unwrap().len();
    assert_eq!(strings(&all["results"], "system").len(), installed, "{:?}", all["not_run"]);
    let workloads = strings(&all["results"], "workload");
    let expected = [
        "broadcast.stream",
        "channel.ping",
        "channel.stream",
        "files.128KiB.one",
        "files.128KiB.two",
        "files.16KiB.one",
        "files.16KiB.two",
        "files.1KiB.one",
        "files.1KiB.two",
        "files.1MiB.one",
        "files.1MiB.two",
        "files.mixed.one",
        "files.mixed.two",
        "log.burst",
        "log.flood",
        "loop.set_get",
        "map.get",
        "map.get_many",
        "map.mix",
        "map.put",
        "map.upd",
        "memory-16+64-scattered.put",
        "memory-16+64.put",
        "memory-8+8-scattered.put",
        "memory-8+8.put",
        "newest.both",
        "newest.read",
        "newest.write",
        "private.get_copy",
        "private.get_owned",
        "private.load",
        "queue.many",
        "queue.one",
        "replicate.stream",
    ];
    assert_eq!(workloads, BTreeSet::from(expected));
    for result in all["results"].as_array().unwrap() {
        assert!(result["value"].as_f64().unwrap() > 0.0 || result["unit"] == "B", "{result}");
        let fields: Vec<_> = result.as_object().unwrap().keys().map(String::as_str).collect();
        assert_eq!(fields, ["metric", "system", "unit", "value", "workload"]);
    }
    assert_eq!(
        all["rounds"].as_array().unwrap().len(),
        2 * all["results"].as_array().unwrap().len()
    );
}

#[test]
fn rounds_are_interleaved() {
    let rivals = "hashbrown-rwlock,lmdb-batch-1000";
    let all = results(&["map", "--keys", "2000", "--rounds", "3", "--rival", rivals]);
    let mut order: Vec<_> = Vec::new();
    for one in all["rounds"].as_array().unwrap() {
        let turn = (one["round"].as_u64().unwrap(), one["system"].as_str().unwrap());
        if order.last() != Some(&turn) {
            order.push(turn);
        }
    }
    let systems = ["commonhold", "hashbrown rwlock", "lmdb batch 1000"];
    let expected: Vec<_> = (1..=3).flat_map(|round| systems.map(|name| (round, name))).collect();
    assert_eq!(order, expected);
}

/// The number of values of that workload (with its phase) and metric.
fn values(all: &Value, workload: &str, metric: &str) -> usize {
    let all = all["results"].as_array().unwrap().iter();
    all.filter(|one| one["workload"] == workload && one["metric"] == metric).count()
}

#[test]
fn messages_pass_between_many_workers() {
    let workloads = ["channel", "broadcast", "queue", "newest", "replicate"];
    let all = results(&[&workloads[..], &["--keys", "20000", "--rounds", "1"]].concat());
    let systems = |workload: &str| {
        let systems = all["systems"].as_array().unwrap().iter();
        systems.filter(|one| one["workload"] == workload).count()
    };
    for (phase, metric) in [
        ("channel.stream", "messages_per_s"),
        ("channel.ping", "round_trip_ns_p50"),
        ("channel.ping", "round_trip_ns_p99"),
        ("broadcast.stream", "messages_per_s"),
        ("queue.one", "moves_per_s"),
        ("queue.many", "moves_per_s"),
        ("newest.both", "ops_per_s"),
        ("replicate.stream", "messages_per_s"),
    ] {
        let workload = phase.split('.').next().unwrap();
        assert_eq!(values(&all, phase, metric), systems(workload), "{phase} {metric}");
        assert!(systems(workload) >= 2);
    }
}

#[test]
fn all_servers_get_requests_at_the_same_rate() {
    let all = results(&["files", "--keys", "400", "--rounds", "1", "--budget", "0.3"]);
    let systems = all["systems"].as_array().unwrap();
    for phase in ["files.1KiB.one", "files.1MiB.two", "files.mixed.two"] {
        for metric in [
            "requests_per_server_cpu_s",
            "requests_per_s",
            "latency_ns_p50",
            "latency_ns_p99",
            "latency_ns_p999",
            "paced_requests_per_server_cpu_s",
        ] {
            assert_eq!(values(&all, phase, metric), systems.len(), "{phase} {metric}");
        }
    }
    for system in systems {
        assert_eq!(system["rates"].as_array().unwrap().len(), 10);
        assert_eq!(system["rates"], systems[0]["rates"]);
        assert!(system["rates"][0][1].as_u64().unwrap() > 0);
    }
    // So few requests take less than a tick of processor time, which must be reported.
    let notes = all["notes"].as_array().unwrap();
    assert!(notes.iter().any(|note| note.as_str().unwrap().contains("ticks")), "{notes:?}");
}

#[test]
fn lines_of_more_writers_than_processors_all_arrive() {
    let all = results(&["log", "--keys", "20000", "--rounds", "1", "--processes", "5"]);
    let systems = all["systems"].as_array().unwrap();
    assert_eq!(values(&all, "log.burst", "front_ns_per_line"), systems.len());
    assert_eq!(values(&all, "log.flood", "lines_per_s"), systems.len());
    assert_eq!(values(&all, "log.burst", "lines_per_s"), 0, "its pauses are no speed");
    assert_eq!(systems[0]["workers"], "6 processes");
    assert_eq!(systems[0]["counts"], "lines");
}

#[test]
fn options_reach_the_workers() {
    let options = ["map", "--keys", "2000", "--rounds", "1", "--rival", "lmdb-per-op"];
    let more = ["--order", "random", "--fixed", "--latency", "--processes", "3"];
    let all = results(&[&options[..], &more[..]].concat());
    assert!(strings(&all["results"], "metric").contains("latency_ns_p9999"));
    assert_eq!(all["systems"][0]["workers"], "3 processes");
    assert_eq!(all["systems"][0]["keys_per_worker"], 666);
    assert_eq!(all["run"]["fixed"], true);
}

#[test]
fn the_table_can_be_made_again_from_the_json() {
    let directory = memory_directory();
    let file = tempfile::NamedTempFile::new().unwrap();
    let path = file.path().to_str().unwrap();
    let options = ["map", "--keys", "2000", "--rounds", "1", "--rival", "hashbrown-mutex"];
    let output = run_in(directory.path(), &[&options[..], &["--json", path]].concat());
    assert!(output.status.success(), "{}", text(&output.stderr));
    let table = text(&output.stdout);
    assert!(table.contains("map.get_many ops_per_s") && table.contains("Losses"), "{table}");

    let again = Command::new(PROGRAM).args(["table", path]).output().unwrap();
    assert_eq!(text(&again.stdout), table);
}

#[test]
fn mistakes_are_answered_with_the_way_out() {
    let directory = memory_directory();
    let cases: [(&[&str], &str); 4] = [
        (&["--rival", "sqlite"], "no rival is named \"sqlite\"; there are commonhold"),
        (&["maps"], "no workload is named \"maps\"; there are map, loop, private, memory-8+8"),
        (&["--budget", "0"], "--budget must be more than 0"),
        (&["map", "--rival", "hashbrown"], "hashbrown takes no part in map"),
    ];
    for (arguments, message) in cases {
        let output = run_in(directory.path(), arguments);
        let errors = text(&output.stderr);
        assert!(!output.status.success() && errors.contains(message), "{arguments:?}: {errors}");
        assert_eq!(fs::read_dir(directory.path()).unwrap().count(), 0);
    }
}

/// The processes whose command line contains `word`.
fn processes_with(word: &str) -> Vec<String> {
    let all = fs::read_dir("/proc").unwrap().flatten();
    let lines = all.filter_map(|one| fs::read(one.path().join("cmdline")).ok());
    let lines = lines.map(|line| String::from_utf8_lossy(&line).replace('\0', " "));
    lines.filter(|line| line.contains(word)).collect()
}

/// Kills a run when it has started servers with workers of their own.
#[test]
fn a_killed_run_leaves_no_servers_workers() {
    let directory = memory_directory();
    let mut run = Command::new(PROGRAM)
        .args(["run", "files", "--keys", "1000000", "--rounds", "1000", "--budget", "5", "--dir"])
        .arg(directory.path())
        .stderr(Stdio::piped())
        .stdout(Stdio::null())
        .spawn()
        .unwrap();
    let lines = BufReader::new(run.stderr.take().unwrap()).lines().map_while(Result::ok);
    let systems = rivals::hosts().iter().filter(|rival| rival.missing().is_none()).count();
    // After this line, all pilots but the last are over, and the servers of the last start soon.
    lines.filter(|line| line.starts_with("pilot")).nth(systems - 1).expect("a pilot");
    let start = std::time::Instant::now();
    let family = loop {
        // Worker, supervisor or master, its worker, the client.
        let family = files::descendants(run.id());
        if family.len() >= 4 || start.elapsed().as_secs() > 60 {
            break family;
        }
        std::thread::yield_now();
    };
    assert!(family.len() >= 4, "{family:?}");
    run.kill().unwrap();
    run.wait().unwrap();
    files::await_end(&family);
}

/// Kills a run in its rounds, when its server and its workers run; returns its directory.
fn end_a_run(signal: rustix::process::Signal) -> tempfile::TempDir {
    let directory = memory_directory();
    let mut run = Command::new(PROGRAM)
        .args(["run", "map", "--keys", "100000", "--rounds", "1000", "--rival"])
        .args(["redis-pipeline-64,memcached-pipeline-64", "--dir"])
        .arg(directory.path())
        .stderr(Stdio::piped())
        .stdout(Stdio::null())
        .spawn()
        .unwrap();
    let lines = BufReader::new(run.stderr.take().unwrap()).lines().map_while(Result::ok);
    // Its third turn is that of a server, if one is installed.
    let mut turns = lines.filter(|line| line.starts_with("round"));
    turns.nth(2).expect("the run has a third turn");
    rustix::process::kill_process(rustix::process::Pid::from_child(&run), signal).unwrap();
    assert!(!run.wait().unwrap().success());
    directory
}

#[test]
fn a_stopped_run_leaves_nothing_behind() {
    let directory = end_a_run(rustix::process::Signal::TERM);
    assert_eq!(fs::read_dir(directory.path()).unwrap().count(), 0);
    let name = directory.path().to_str().unwrap();
    assert_eq!(processes_with(name), Vec::<String>::new());
}

#[test]
fn a_killed_run_leaves_no_process_and_the_next_run_removes_its_files() {
    let directory = end_a_run(rustix::process::Signal::KILL);
    let name = directory.path().to_str().unwrap();
    // The kernel kills them at once, but they take a moment to end.
    let start = std::time::Instant::now();
    let mut there = processes_with(name);
    while !there.is_empty() && start.elapsed().as_secs() < 20 {
        std::thread::yield_now();
        there = processes_with(name);
    }
    assert_eq!(there, Vec::<String>::new());

    let options = ["loop", "--keys", "10", "--rounds", "1", "--rival", "hashbrown-rwlock"];
    let next = run_in(directory.path(), &options);
    let errors = text(&next.stderr);
    assert!(next.status.success() && errors.contains("which a dead run left"), "{errors}");
    assert_eq!(fs::read_dir(directory.path()).unwrap().count(), 0);
}
