//! `hold bench files` with a small server of the test's own: what is right is measured, what is
//! wrong is found and named.

use super::support::file_server::{FileServer, Manner};
use super::support::{Run, TestDir, background::Background};
use rustix::process::Signal;
use serde_json::Value;
use std::os::unix::fs::PermissionsExt;
use std::time::{Duration, Instant};

/// Files of three sizes in `try`, and a server of them.
fn served(protocol: &str, layout: &str, manner: Manner) -> (TestDir, FileServer) {
    let test_dir = TestDir::new();
    let make = ["bench", "files", "--make", "12", "--sizes", "1,1000,70000", "--layout", layout];
    test_dir.ok(&[&make[..], &["try"]].concat());
    let server = FileServer::start(&test_dir.path("try"), protocol, layout, manner);
    (test_dir, server)
}

/// The options of a run that any server can bear.
fn options<'a>(server: &'a FileServer, protocol: &'a str, layout: &'a str) -> Vec<&'a str> {
    let all = ["bench", "files", "try", "--address", &server.address, "--protocol", protocol];
    [&all[..], &["--layout", layout, "--connections", "3"]].concat()
}

fn metric(found: &Value, metric: &str) -> f64 {
    let results = found["results"].as_array().expect("results");
    let wanted = results.iter().find(|result| result["metric"] == metric);
    wanted
        .and_then(|result| result["value"].as_f64())
        .unwrap_or_else(|| panic!("{metric}: {found:#}"))
}

/// Requests to a server with this manner; the results.
fn found(protocol: &str, layout: &str, manner: Manner, more: &[&str]) -> (Value, FileServer) {
    let (test_dir, server) = served(protocol, layout, manner);
    let mut args = options(&server, protocol, layout);
    args.extend(more);
    (test_dir.json(&args), server)
}

/// The error for a server with this manner.
fn refused(protocol: &str, manner: Manner, more: &[&str]) -> String {
    let (test_dir, server) = served(protocol, "tree", manner);
    let mut args = options(&server, protocol, "tree");
    args.extend(["--requests-total", "200", "--timeout", "500ms"]);
    args.extend(more);
    let err = test_dir.fails(3, &args);
    assert!(err.contains(&server.address), "{err}");
    err
}

#[test]
fn every_request_of_a_right_server_counts() {
    for protocol in ["http", "simple"] {
        for layout in ["tree", "zotero"] {
            let more = ["--requests-total", "300", "--threads", "2"];
            let (report, server) = found(protocol, layout, Manner::Plain, &more);
            assert_eq!(metric(&report, "answered"), 300.0);
            assert_eq!(server.requests(), 300, "{protocol}, {layout}");
            assert!(metric(&report, "bytes_per_s") > 300.0);
            let latency = |name: &str| metric(&report, &format!("latency_ns_{name}"));
            assert!(latency("min") <= latency("p50") && latency("p50") <= latency("max"));
            assert!(latency("mean") > 0.0 && latency("deviation") > 0.0);
            assert_eq!(metric(&report, "latency_samples"), 300.0);
            assert_eq!(report["results"][0]["workload"], format!("files {protocol}"));
            assert_eq!(report["results"][0]["system"], server.address);
        }
    }
}

#[test]
fn answers_may_come_in_any_pieces() {
    for protocol in ["http", "simple"] {
        let more = ["--requests-total", "12"];
        let (report, _) = found(protocol, "tree", Manner::Trickle, &more);
        assert_eq!(metric(&report, "answered"), 12.0);
    }
}

#[test]
fn connections_are_kept_and_pipelined_or_not() {
    use std::sync::atomic::Ordering;
    for (more, least, most) in [
        // One more finds out whether a server listens.
        (&["--pipeline", "8"][..], 4, 4),
        (&[], 4, 4),
        (&["--no-keep-alive"], 301, 301),
    ] {
        let more = [&["--requests-total", "300"], more].concat();
        let (report, server) = found("http", "tree", Manner::Plain, &more);
        assert_eq!((metric(&report, "answered"), server.requests()), (300.0, 300));
        let connections = server.connections.load(Ordering::Relaxed);
        assert!((least..=most).contains(&connections), "{more:?}: {connections}");
        assert_eq!(metric(&report, "reopened"), 0.0);
    }
}

#[test]
fn a_server_may_end_kept_connections() {
    for manner in [Manner::ClosesAfter(7), Manner::ClosesSilently] {
        for pipeline in ["1", "5"] {
            let more = ["--requests-total", "300", "--pipeline", pipeline];
            let (report, _) = found("http", "tree", manner, &more);
            assert_eq!(metric(&report, "answered"), 300.0);
            assert!(metric(&report, "reopened") > 20.0, "{manner:?}");
        }
    }
}

#[test]
fn unknown_ids_must_be_refused() {
    for protocol in ["http", "simple"] {
        let more = ["--requests-total", "400", "--unknown", "50"];
        for layout in ["tree", "zotero"] {
            let (report, _) = found(protocol, layout, Manner::Plain, &more);
            let unknown = metric(&report, "unknown_answered");
            assert!((120.0..280.0).contains(&unknown), "{unknown}");
        }
        let err = refused(protocol, Manner::KnowsAll, &["--unknown", "50"]);
        assert!(err.contains("'unknown/") && err.contains("': unknown: expected"), "{err}");
        let err = refused(protocol, Manner::KnowsNothing, &[]);
        assert!(err.contains(".bin': the server reports it as unknown"), "{err}");
    }
}

#[test]
fn wrong_bodies_are_found_and_named() {
    for (protocol, manner, wanted) in [
        ("http", Manner::WrongBit, "are not those of the file"),
        ("http", Manner::OtherFile, "are not those of the file"),
        ("http", Manner::Truncated, "the connection was closed after"),
        ("http", Manner::TooLong, "1 byte arrived after the response"),
        ("simple", Manner::WrongBit, "are not those of the file"),
        ("simple", Manner::OtherFile, "are not those of the file"),
        ("simple", Manner::Truncated, " bytes, got "),
        ("simple", Manner::TooLong, " bytes, got "),
    ] {
        let err = refused(protocol, manner, &[]);
        assert!(err.contains(wanted), "{protocol} {manner:?}: {err}");
        assert!(err.contains("'0000/0000"), "{protocol} {manner:?}: {err}");
    }
}

#[test]
fn servers_that_say_nothing_right_are_found() {
    for (protocol, manner, wanted) in [
        ("http", Manner::ClosesAtOnce, "was closed without a response"),
        ("simple", Manner::ClosesAtOnce, " bytes, got 0"),
        ("http", Manner::Resets, "reset"),
        ("simple", Manner::Resets, "reset"),
        ("http", Manner::Stalls, "no response within 500ms (--timeout)"),
        ("simple", Manner::Stalls, "no response within 500ms (--timeout)"),
        ("simple", Manner::StaysOpen, "within 500ms (--timeout)"),
        ("http", Manner::OtherWords, "the response is not HTTP"),
        ("http", Manner::Fails, "expected the status 200, got 503"),
        ("http", Manner::NoLength, "no Content-Length"),
    ] {
        let err = refused(protocol, manner, &[]);
        assert!(err.contains(wanted) && err.contains("'0000/"), "{protocol} {manner:?}: {err}");
    }
    let err = refused("http", Manner::StaysOpen, &["--no-keep-alive"]);
    assert!(err.contains("the connection was not closed within 500ms"), "{err}");
}

#[test]
fn what_was_due_during_a_stall_is_late() {
    let timed = ["--seconds", "1", "--warm-up", "0s", "--timeout", "10s"];
    let paced = [&timed[..], &["--rate", "200", "--connections", "1"]].concat();
    let (test_dir, server) = served("http", "tree", Manner::Pauses);
    let address = ["bench", "files", "try", "--address", &server.address];
    let report = test_dir.json(&[&address[..], &paced].concat());
    // Two of five requests were due while one was answered: a quarter of all waited for long.
    assert_eq!(metric(&report, "latency_samples") + metric(&report, "unsent"), 200.0);
    assert!(metric(&report, "latency_ns_p80") > 50e6, "{report:#}");
    assert!(metric(&report, "latency_ns_max") > 390e6, "{report:#}");
}

#[test]
fn sleeps_hold_requests_back() {
    let sleeping =
        ["--seconds", "1", "--warm-up", "0s", "--sleep", "5ms", "--sleep-deviation", "1ms"];
    let (report, _) = found("http", "tree", Manner::Plain, &sleeping);
    // Three connections, each with at most 200 requests per second.
    let rate = metric(&report, "requests_per_s");
    assert!(rate > 0.0 && rate < 640.0, "{report:#}");
}

#[test]
fn zipf_asks_for_few_files_often() {
    let more = ["--requests-total", "500", "--zipf", "1.2", "--limit-files", "4", "--seed", "3"];
    let (report, _) = found("simple", "zotero", Manner::Plain, &more);
    assert_eq!(metric(&report, "answered"), 500.0);
}

#[test]
fn people_see_a_table_and_curves() {
    let (test_dir, server) = served("http", "tree", Manner::Plain);
    let mut args = options(&server, "http", "tree");
    args.extend(["--seconds", "0.3", "--warm-up", "0s", "--plot", "curves.svg"]);
    let out = test_dir.ok(&args);
    for wanted in ["99.9", "deviation", "per server CPU second", "Every response body was verified"]
    {
        assert!(out.contains(wanted), "no {wanted} in {out}");
    }
    let curves = String::from_utf8(test_dir.read("curves.svg")).expect("text");
    assert!(curves.contains("Latency by percentile") && curves.contains("Requests per second"));
}

#[test]
fn invalid_options_name_the_reason() {
    let test_dir = TestDir::new();
    std::fs::create_dir(test_dir.path("empty")).expect("a folder");
    let files = |more: &[&'static str]| [&["bench", "files"], more].concat();
    let address = ["--address", "tcp:127.0.0.1:1"];
    let err = test_dir.fails(3, &files(&["empty", address[0], address[1]]));
    assert!(err.contains("empty has no files") && err.contains("--make"), "{err}");
    let err = test_dir.fails(3, &files(&["nowhere", address[0], address[1]]));
    assert!(err.contains("cannot read nowhere"), "{err}");
    test_dir.ok(&files(&["--make", "2", "try"]));
    let err = test_dir.fails(3, &files(&["--make", "2", "try"]));
    assert!(err.contains("try is not empty"), "{err}");
    let err = test_dir.fails(3, &files(&["try", address[0], address[1]]));
    assert!(
        err.contains("tcp:127.0.0.1:1") && err.contains("check that a server runs there"),
        "{err}"
    );
    let err = test_dir.fails(3, &files(&["try", "--layout", "zotero", address[0], address[1]]));
    assert!(err.contains("8 characters of A-Z0-9"), "{err}");
    let err = test_dir.fails(2, &files(&["try", "--loop", "select"]));
    assert!(err.contains("epoll, pool, uring"), "{err}");
    let err = test_dir.fails(2, &files(&["try", "--cache", "big"]));
    assert!(err.contains("none, std, hashbrown, hold"), "{err}");
    let err = test_dir.fails(2, &files(&["try", "--matrix", "loop,colour"]));
    assert!(err.contains("loop, requests, eviction, cache, files"), "{err}");
    let err = test_dir.fails(3, &files(&["try", "--pipeline", "4", "--protocol", "simple"]));
    assert!(err.contains("--pipeline applies only to HTTP"), "{err}");
    let err = test_dir.fails(
        3,
        &files(&["try", "--worker", r#"{"starter":1,"program":"/bin/true","words":[],"cpus":[]}"#]),
    );
    assert!(err.contains("worker processes"), "{err}");
}

/// A program that is started as `hold serve`: it records its arguments, prints the address of
/// `server` as its own, and burns time until it is ended.
fn stand_in(test_dir: &TestDir, server: &FileServer, more: &str) -> String {
    let port = server.port;
    let script = format!(
        "#!/bin/sh\ncase $1 in serve-import) exit 0;; esac\necho \"$@\" >> told\n{more}\necho '{{\"listening\": [\"tcp:127.0.0.1:{port}\"]}}'\n\
         while :; do :; done\n"
    );
    let path = test_dir.file("stand-in", script);
    std::fs::set_permissions(&path, std::fs::Permissions::from_mode(0o755)).expect("a mode");
    path.to_str().expect("UTF-8").to_owned()
}

#[test]
fn a_server_is_started_with_its_choices_measured_and_ended() {
    let (test_dir, server) = served("http", "tree", Manner::Plain);
    let program = stand_in(&test_dir, &server, "echo $$ > pid");
    let given = "--workers 2 --loop uring --requests slab --eviction lockfree --cache hold --files sqlite --cache-bytes 1MiB";
    let mut args = vec!["bench", "files", "try", "--program", &program];
    args.extend(given.split(' '));
    args.extend(["--seconds", "0.5", "--warm-up", "0s", "--", "--request-log", "off"]);
    args.splice(2..2, ["--format", "json"]);
    let report: Value = serde_json::from_str(&test_dir.ok(&args)).expect("JSON");
    assert!(metric(&report, "server_cpu_s") > 0.0);
    let rate = metric(&report, "requests_per_server_cpu_s");
    let wanted = metric(&report, "answered") / metric(&report, "server_cpu_s");
    assert!((rate / wanted - 1.0).abs() < 1e-9);
    assert_eq!(report["results"][0]["system"], "commonhold");
    let told = String::from_utf8(test_dir.read("told")).expect("text");
    let database = told.split(' ').nth(1).expect("a place");
    assert!(database.ends_with("/files.db"), "--files sqlite serves a database: {told}");
    assert_eq!(
        told.trim_end().replace(database, "DATABASE"),
        "serve DATABASE --listen tcp:127.0.0.1:0 --format json --layout tree --protocol http --loop uring \
         --requests slab --eviction lockfree --cache hold --files sqlite --workers 2 --cache-bytes 1048576 \
         --request-log off"
    );
    assert_is_gone(&test_dir);
}

#[test]
fn a_server_that_was_started_ends_with_a_run_that_fails() {
    let (test_dir, server) = served("http", "tree", Manner::WrongBit);
    let program = stand_in(&test_dir, &server, "echo $$ > pid");
    let err = test_dir.fails(3, &["bench", "files", "try", "--program", &program]);
    assert!(err.contains("not those of the file"), "{err}");
    assert_is_gone(&test_dir);
}

#[test]
fn a_server_that_was_started_dies_with_the_run() {
    for (signal, code) in [(Signal::INT, 130), (Signal::KILL, -1)] {
        let (test_dir, server) = served("http", "tree", Manner::Plain);
        let program = stand_in(&test_dir, &server, "echo $$ > pid");
        let run = Background::start(&test_dir, &["bench", "files", "try", "--program", &program]);
        let patience = Instant::now() + Duration::from_secs(60);
        while server.requests() == 0 {
            assert!(Instant::now() < patience, "nothing is asked for");
            std::thread::sleep(Duration::from_millis(5));
        }
        run.signal(signal);
        let run = run.end();
        assert_eq!(run.code, code, "{run:?}");
        assert_is_gone(&test_dir);
    }
}

/// Or goes in a moment: after a kill no process waits for the server.
fn assert_is_gone(test_dir: &TestDir) {
    let pid = String::from_utf8(test_dir.read("pid")).expect("a number");
    let status = std::path::Path::new("/proc").join(pid.trim()).join("stat");
    let patience = Instant::now() + Duration::from_secs(10);
    // A zombie counts as gone: only its new parent can reap it.
    while std::fs::read_to_string(&status).is_ok_and(|stat| !stat.contains(") Z ")) {
        assert!(Instant::now() < patience, "the server is still there");
        std::thread::sleep(Duration::from_millis(5));
    }
}

#[test]
fn a_server_that_does_not_begin_reports_it() {
    let (test_dir, server) = served("http", "tree", Manner::Plain);
    let program = stand_in(&test_dir, &server, "echo 'no such directory' >&2; exit 3");
    let run: Run = test_dir.run(&["bench", "files", "try", "--program", &program]);
    assert_eq!(run.code, 3, "{run:?}");
    assert!(run.err.contains("no such directory"), "{run:?}");
    assert!(run.err.contains("the server ended before it served: exit status: 3"), "{run:?}");
    let program = stand_in(&test_dir, &server, "echo 'ready'");
    let err = test_dir.fails(3, &["bench", "files", "try", "--program", &program]);
    assert!(err.contains("expected the server's addresses, got: ready"), "{err}");
}

#[test]
fn a_matrix_has_a_turn_for_every_combination() {
    let (test_dir, server) = served("http", "tree", Manner::Plain);
    let program = stand_in(&test_dir, &server, "");
    let run =
        ["bench", "files", "try", "--program", &program, "--seconds", "0.1", "--warm-up", "0s"];
    let matrix =
        ["--matrix", "loop,files", "--rounds", "2", "--cache", "hold", "--plot", "matrix.html"];
    let out = test_dir.ok(&[&run[..], &matrix].concat());
    let rows: Vec<&str> =
        out.lines().filter(|line| line.contains("hold  ") && line.contains("/s")).collect();
    assert_eq!(rows.len(), 6, "{out}");
    let told = String::from_utf8(test_dir.read("told")).expect("text");
    assert_eq!(told.lines().count(), 12, "{told}");
    for (kind, files) in [("epoll", "sendfile"), ("pool", "sqlite"), ("uring", "sendfile")] {
        let said = told.lines().filter(|line| {
            line.contains(&format!("--loop {kind}")) && line.contains(&format!("--files {files}"))
        });
        assert_eq!(said.count(), 2, "{told}");
    }
    let page = String::from_utf8(test_dir.read("matrix.html")).expect("text");
    assert!(page.contains("by --loop, the best first") && page.contains("files sqlite"));
}

#[test]
fn a_combination_that_fails_leaves_the_others() {
    let (test_dir, server) = served("http", "tree", Manner::Plain);
    let program = stand_in(&test_dir, &server, "case \"$*\" in *pool*) exit 3;; esac");
    // By number, not by time: on a busy machine nothing may be answered within a time.
    let run = ["bench", "files", "try", "--program", &program, "--requests-total", "200"];
    let run = test_dir.run(&[&run[..], &["--matrix", "loop"]].concat());
    assert_eq!(run.code, 3, "{run:?}");
    assert!(run.out.contains("FAILED loop=pool: the server ended before it served"), "{run:?}");
    assert!(run.err.contains("1 combination failed; the first: loop=pool"), "{run:?}");
    assert!(run.out.contains("epoll") && run.out.contains("uring"), "{run:?}");
}

#[test]
fn hold_serve_answers_right_in_every_way() {
    let test_dir = TestDir::new();
    for layout in ["tree", "zotero"] {
        let make = ["bench", "files", "--make", "40", "--sizes", "0,1,1000,400000", "--layout"];
        test_dir.ok(&[&make[..], &[layout, layout]].concat());
        for protocol in ["http", "simple"] {
            for files in ["sendfile", "sqlite"] {
                let run = ["bench", "files", layout, "--layout", layout, "--protocol", protocol];
                let more = ["--files", files, "--requests-total", "400", "--unknown", "20"];
                let report = test_dir.json(&[&run[..], &more].concat());
                assert_eq!(metric(&report, "answered"), 400.0);
                assert_eq!(report["results"][0]["system"], "commonhold");
            }
        }
    }
    let piped = ["bench", "files", "tree", "--pipeline", "16", "--requests-total", "2000"];
    assert_eq!(metric(&test_dir.json(&piped), "answered"), 2000.0);
    let matrix = ["bench", "files", "tree", "--matrix", "loop,cache", "--requests-total", "200"];
    let out = test_dir.ok(&matrix);
    let loops = ["epoll ", "pool ", "uring "];
    let rows = out.lines().filter(|line| loops.iter().any(|name| line.starts_with(name)));
    assert_eq!(rows.count(), 12, "{out}");
}
