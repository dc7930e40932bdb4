//! Options that change responses.

use super::visitor::{answer, ask, connect, get, try_get};
use super::{Serving, files, is_gone, site, until};
use rustix::process::Signal;
use serde_json::Value;
use std::fs;

#[test]
fn workers_add_the_fields_of_the_command_line() {
    let test_dir = site();
    let options = ["--header", "X-A: b c", "--header", "X-D:e", "--cache-control", "no-cache"];
    let serving = Serving::start(&test_dir, "public", &[&options[..], &["--cors", "*"]].concat());
    let found = get(serving.port, "/3.txt").head;
    let absent = get(serving.port, "/absent").head;
    for line in ["X-A: b c\r\n", "X-D: e\r\n", "Access-Control-Allow-Origin: *\r\n"] {
        assert!(found.contains(line) && absent.contains(line), "{found}{absent}");
    }
    let cache = "Cache-Control: no-cache\r\n";
    assert!(found.contains(cache) && !absent.contains(cache), "{found}{absent}");
    let mut kept = connect(serving.port).expect("it listens");
    ask(&mut kept, "/3.txt", "").expect("it listens");
    assert!(answer(&mut kept).expect("an answer").head.contains(cache));
    serving.stop();
}

#[test]
fn missing_paths_have_pages() {
    let test_dir = site();
    let options = ["--fallback", "7.txt", "--error-page", "404=/8.txt"];
    let serving = Serving::start(&test_dir, "public", &options);
    let (application, missing) = (get(serving.port, "/users/7"), get(serving.port, "/none.txt"));
    assert_eq!((application.status, application.body), (200, files()[7].1.clone()));
    assert_eq!((missing.status, missing.body), (404, files()[8].1.clone()));
    serving.stop();
}

#[test]
fn an_address_has_at_most_its_connections() {
    let test_dir = site();
    let options = ["--workers", "1", "--per-address", "1"];
    let serving = Serving::start(&test_dir, "public", &options);
    let mut first = connect(serving.port).expect("it listens");
    ask(&mut first, "/3.txt", "").expect("it listens");
    assert_eq!(answer(&mut first).expect("an answer").status, 200);
    assert_eq!(get(serving.port, "/3.txt").status, 503);
    drop(first);
    until("there is room again", || {
        try_get(serving.port, "/3.txt").is_ok_and(|answer| answer.status == 200)
    });
    serving.stop();
}

/// As logrotate does it: rename, signal.
#[test]
fn a_log_file_that_was_renamed_is_opened_again() {
    let test_dir = site();
    let options = ["--workers", "2", "--access-log", "access.log", "--access-log-format", "json"];
    let serving = Serving::start(&test_dir, "public", &options);
    let targets = |file: &str| {
        let text = fs::read_to_string(test_dir.path(file)).unwrap_or_default();
        let lines = text.lines().map(|line| serde_json::from_str(line).expect(line));
        lines.map(|line: Value| line["target"].as_str().map(str::to_owned)).collect::<Vec<_>>()
    };
    let get = |path: &str| assert_eq!(get(serving.port, path).status, 200);
    (0..20).for_each(|_| get("/1.txt"));
    until("all are in the log", || targets("access.log").len() == 20);
    fs::rename(test_dir.path("access.log"), test_dir.path("access.log.1")).expect("a log");
    let before = serving.workers();
    serving.background.signal(Signal::HUP);
    until("others serve", || before.iter().all(|&worker| is_gone(worker)));
    (0..20).for_each(|_| get("/2.txt"));
    until("all are in the new log", || targets("access.log").len() == 20);
    assert!(targets("access.log").iter().all(|target| target.as_deref() == Some("/2.txt")));
    assert_eq!(targets("access.log.1").len(), 20);
    serving.stop();
    assert_eq!(test_dir.leftovers(&["public", "access.log", "access.log.1"]), [""; 0]);
}
