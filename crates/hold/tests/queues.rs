//! Queues from the command line: real processes that pass elements, and are killed.

use crate::support::Run;
use crate::support::background::{
    Background, lines, nasty, objects, until, with_channel, with_queue,
};
use rustix::process::Signal;
use serde_json::{Value, json};

#[test]
fn a_queue_gives_each_message_once_in_order() {
    let test_dir = with_queue("64", &[]);
    test_dir.ok(&["queue", "push", "shop", "jobs", "full", "one", "-2", ""]);
    let run =
        test_dir.run_with(&["queue", "push", "shop", "jobs", "full"], b"three\n\xff\xfe\nfive");
    assert_eq!(run.code, 0, "{run:?}");
    let list = test_dir.json(&["queue", "list", "shop", "jobs"]);
    assert_eq!(list[0], json!({"name": "free", "length": 2, "pushed": 8, "pulled": 6}));
    assert_eq!(list[1], json!({"name": "full", "length": 6, "pushed": 6, "pulled": 0}));
    let pull =
        |more: &[&str]| test_dir.run(&[&["queue", "pull", "shop", "jobs", "full"], more].concat());
    assert_eq!(pull(&[]).out, "one\n");
    assert_eq!(pull(&["--count", "2"]).out, "-2\n\n");
    let run = pull(&["--count", "2", "--format", "json"]);
    let messages: Vec<_> = objects(&run.out).iter().map(|m| m["message"].clone()).collect();
    assert_eq!(messages, [json!("three"), json!({"base64": "//4="})]);
    let run = pull(&["--count", "2"]);
    assert_eq!((run.code, run.out.as_str(), run.err.as_str()), (1, "five\n", ""));
    assert_eq!(pull(&["--timeout", "1ms"]).code, 1);
    assert_eq!(test_dir.json(&["queue", "list", "shop", "jobs"])[0]["length"], 8);
}

#[test]
fn every_byte_goes_through_a_queue() {
    let test_dir = with_queue("300", &[]);
    let (messages, frames) = nasty();
    let push = ["queue", "push", "shop", "jobs", "full", "--frames", "--sized"];
    assert_eq!(test_dir.run_with(&push, &frames).code, 0);
    let count = messages.len().to_string();
    let pull = ["queue", "pull", "shop", "jobs", "full", "--frames", "--sized", "-n", &count];
    assert_eq!(test_dir.run(&pull).bytes, frames);
    // As others see it: the length, the message, zeros.
    assert_eq!(test_dir.run_with(&push, b"\x02\0\0\0ab").code, 0);
    let whole = ["queue", "pull", "shop", "jobs", "full", "--frames", "--whole"];
    let mut element = b"\x2c\x01\0\0\x02\0\0\0ab".to_vec();
    element.resize(304, 0);
    assert_eq!(test_dir.run(&whole).bytes, element);
    let run = test_dir.run_with(&push, &frames[..100]);
    assert_eq!(run.code, 3);
    assert!(run.err.contains("frame 1 is truncated: expected 256 bytes"), "{}", run.err);
    let run = test_dir.run_with(&push[..5], format!("short\n{}\n", "x".repeat(301)).as_bytes());
    assert!(run.err.contains("line 2 has more than 300 bytes"), "{}", run.err);
    assert!(run.err.ends_with("pushed before the error: 1 message\n"), "{}", run.err);
    let run = test_dir.run(&["queue", "pull", "shop", "jobs", "full", "--sized"]);
    assert!(run.code == 3 && run.err.contains("--sized"), "{run:?}");
    assert_eq!(test_dir.ok(&["queue", "pull", "shop", "jobs", "full"]), "short\n");
}

#[test]
fn push_waits_for_a_full_queue_or_times_out() {
    let test_dir = with_queue("8", &[]);
    let push = ["queue", "push", "shop", "jobs", "full"];
    let input = b"1\n2\n3\n4\n5\n6\n7\n8\n9\n10\n";
    let run =
        test_dir.run_with(&[&push[..], &["--timeout", "0", "--format", "json"]].concat(), input);
    assert_eq!((run.code, objects(&run.out)[0].clone()), (1, json!({"pushed": 8, "all": false})));
    assert!(run.err.contains("8 in queue full"), "{}", run.err);
    let mut waiting = Background::start(&test_dir, &push);
    waiting.write(b"9\n10\n");
    assert!(waiting.first_error().contains("queue free is empty"));
    let pull = ["queue", "pull", "shop", "jobs", "full", "--timeout", "1m", "-n", "10"];
    assert_eq!(lines(&test_dir.ok(&pull)), ["1", "2", "3", "4", "5", "6", "7", "8", "9", "10"]);
    assert_eq!(waiting.end().code, 0);
}

#[test]
fn the_element_of_a_killed_puller_comes_back() {
    let test_dir = with_queue("256K", &["--orphans", "full"]);
    let job = "x".repeat(200 << 10);
    let run = test_dir.run_with(&["queue", "push", "shop", "jobs", "full"], job.as_bytes());
    assert_eq!(run.code, 0, "{run:?}");
    // The pipe has no room for the message, so the puller stops with it in flight.
    let puller =
        Background::start(&test_dir, &["queue", "pull", "shop", "jobs", "full", "--follow"]);
    let stat = until(&test_dir, &["queue", "stat", "shop", "jobs"], |s| s["holders"] != json!([]));
    let holder = &stat["holders"][0];
    assert_eq!((&holder["pid"], &holder["elements"]), (&json!(puller.pid()), &json!(1)));
    assert!(
        test_dir
            .ok(&["stat", "shop", "jobs"])
            .contains("in flight in slot".to_uppercase().as_str())
    );
    puller.kill();
    let pull = ["queue", "pull", "shop", "jobs", "full", "--timeout", "1m"];
    assert_eq!(test_dir.ok(&pull), format!("{job}\n"));
    assert_eq!(test_dir.json(&["check", "shop"])["ok"], true);
}

#[test]
fn a_message_that_the_pipe_does_not_take_stays_in_its_queue() {
    let test_dir = with_queue("8", &[]);
    test_dir.ok(&["queue", "push", "shop", "jobs", "full", "job"]);
    let (reader, writer) = std::io::pipe().expect("a pipe");
    drop(reader);
    let mut command = test_dir.command(&["queue", "pull", "shop", "jobs", "full"]);
    let run = Run::of(command.stdout(writer).output().expect("hold runs"));
    assert_eq!((run.code, run.err.as_str()), (0, ""));
    assert_eq!(test_dir.ok(&["queue", "pull", "shop", "jobs", "full"]), "job\n");
}

#[test]
fn a_wait_ends_with_the_reader_or_a_signal() {
    let test_dir = with_channel("4K");
    test_dir.ok(&["queue", "create", "shop", "jobs"]);
    test_dir.ok(&["log", "create", "shop", "events", "--rings", "2", "--ring-bytes", "4K"]);
    let waiters: [&[&str]; 4] = [
        &["channel", "recv", "shop", "ticks"],
        &["queue", "pull", "shop", "jobs", "full", "--follow"],
        &["log", "tail", "--follow", "shop", "events"],
        &["log", "collect", "shop", "events"],
    ];
    for args in waiters {
        let (reader, writer) = std::io::pipe().expect("a pipe");
        let mut child = test_dir.command(args).stdout(writer).spawn().expect("hold starts");
        drop(reader);
        assert_eq!(child.wait().expect("it ends").code(), Some(0), "{args:?}");
    }
    let is_there = |pid: u32| move |s: &Value| s["consumers"][0]["pid"] == pid;
    for (more, code) in [(&[][..], 0), (&["--count", "2"], 130)] {
        let recv =
            Background::start(&test_dir, &[&["channel", "recv", "shop", "ticks"], more].concat());
        until(&test_dir, &["channel", "stat", "shop", "ticks"], is_there(recv.pid()));
        let mut recv = recv;
        test_dir.ok(&["channel", "send", "shop", "ticks", "hello"]);
        assert_eq!(recv.line(), "hello\n");
        recv.signal(Signal::TERM);
        let run = recv.end();
        assert_eq!((run.code, run.out.as_str(), run.err.as_str()), (code, "", ""), "{more:?}");
        assert_eq!(test_dir.json(&["channel", "stat", "shop", "ticks"])["consumers"], json!([]));
    }
    assert_eq!(test_dir.json(&["stat", "shop"])["participants"], json!([]));
}
