//! Channels from the command line: real processes that pass messages, and are killed.

use crate::support::background::{Background, lines, nasty, objects, until, with_channel};
use rustix::process::Signal;
use serde_json::json;
use std::io::Write;
use std::os::unix::fs::PermissionsExt;
use std::os::unix::process::CommandExt;

#[test]
fn every_consumer_receives_every_message() {
    let test_dir = with_channel("64K");
    let (messages, frames) = nasty();
    let recv = ["channel", "recv", "shop", "ticks", "--count"];
    let count = messages.len().to_string();
    let first = Background::start(&test_dir, &[&recv[..], &[&count, "--frames"]].concat());
    let second = Background::start(&test_dir, &[&recv[..], &[&count, "--format", "json"]].concat());
    until(&test_dir, &["channel", "stat", "shop", "ticks"], |stat| {
        stat["consumers"].as_array().is_some_and(|all| all.len() == 2)
    });
    let run = test_dir.run_with(&["channel", "send", "shop", "ticks", "--frames"], &frames);
    assert_eq!(run.code, 0, "{run:?}");
    assert_eq!(first.end().bytes, frames);
    let seen = objects(&second.end().out);
    assert_eq!(seen[1], json!({"message": "", "missed": 0, "sequence": 1}));
    assert_eq!(seen[4], json!({"message": {"base64": "/wA="}, "missed": 0, "sequence": 4}));
    let sent = test_dir.json(&["channel", "send", "shop", "ticks", "-1", "last"]);
    assert_eq!(sent, json!({"sent": 2, "all": true, "first": 5}));
    let oldest = ["channel", "recv", "shop", "ticks", "--oldest", "--timeout", "0", "--frames"];
    let kept = test_dir.run(&oldest);
    let all = [&frames[..], b"\x02\0\0\0-1\x04\0\0\0last"].concat();
    assert_eq!((kept.code, kept.bytes), (0, all));
    let run = test_dir.run(&["channel", "recv", "shop", "ticks", "--timeout", "0"]);
    assert_eq!((run.code, run.out.as_str(), run.err.as_str()), (1, "", ""));
    let err = test_dir.fails(3, &["channel", "send", "shop", "ticks", &"x".repeat(16385)]);
    assert!(err.contains("16385 bytes; the maximum is 16384"), "{err}");
}

#[test]
fn a_second_producer_is_refused_by_name() {
    let test_dir = with_channel("4K");
    let mut first = Background::start(&test_dir, &["channel", "send", "shop", "ticks"]);
    first.write(b"one\n");
    let pid = first.pid();
    let stat = until(&test_dir, &["channel", "stat", "shop", "ticks"], |s| s["sequence"] == 1);
    assert_eq!(stat["producer"]["pid"], pid);
    let err = test_dir.fails(3, &["channel", "send", "shop", "ticks", "two"]);
    assert!(err.contains(&format!("process {pid}")), "{err}");
    first.kill();
    test_dir.ok(&["channel", "send", "shop", "ticks", "two"]);
    let kept = ["channel", "recv", "shop", "ticks", "--oldest", "--format", "json", "--count", "2"];
    // The messages of the dead one are there, and the sequence continues.
    let message = |text, sequence| json!({"message": text, "missed": 0, "sequence": sequence});
    assert_eq!(objects(&test_dir.ok(&kept)), [message("one", 0), message("two", 1)]);
}

#[test]
fn a_consumer_that_stands_is_waited_for_by_name_until_it_is_killed() {
    let test_dir = with_channel("4K");
    let stat = ["channel", "stat", "shop", "ticks"];
    // No process reads its output: it stops when the pipe is full.
    let stuck = Background::start(&test_dir, &["channel", "recv", "shop", "ticks"]);
    let pid = stuck.pid();
    until(&test_dir, &stat, |s| s["consumers"][0]["pid"] == pid);
    let text = format!("{}\n", "x".repeat(1000)).repeat(400);
    let mut sender = Background::start(&test_dir, &["channel", "send", "shop", "ticks"]);
    let mut input = sender.input.take().expect("a pipe");
    let feeder = std::thread::spawn(move || input.write_all(text.as_bytes()));
    let told = sender.first_error();
    assert!(told.starts_with("waiting: channel ticks is full; slot "), "{told}");
    assert!(told.contains(&format!("(process {pid})")), "{told}");
    assert_eq!(test_dir.json(&stat)["slowest"]["pid"], pid);
    sender.kill();
    drop(feeder.join().expect("the feeder ends"));
    let long = "y".repeat(1000);
    let send = ["channel", "send", "shop", "ticks", "--timeout", "0", &long, &long, &long, &long];
    let run = test_dir.run(&send);
    assert!(run.code == 1 && run.err.contains(&format!("(process {pid})")), "{run:?}");
    stuck.kill();
    test_dir.ok(&send);
}

#[test]
fn a_lossy_consumer_learns_how_many_it_missed() {
    let test_dir = with_channel("4K");
    let args = ["channel", "recv", "shop", "ticks", "--policy", "lossy", "--format", "json"];
    let mut lossy = Background::start(&test_dir, &args);
    let pid = lossy.pid();
    until(&test_dir, &["channel", "stat", "shop", "ticks"], |s| s["consumers"][0]["pid"] == pid);
    let text = format!("{}\n", "x".repeat(1000)).repeat(400);
    assert_eq!(test_dir.run_with(&["channel", "send", "shop", "ticks"], text.as_bytes()).code, 0);
    // Its pipe has room for fewer than 400 messages, and the ring for three: some are missed. That
    // is reported with the next message, which is sent when it has caught up.
    let (mut seen, mut missed) = (0, 0);
    std::thread::scope(|scope| {
        scope.spawn(|| {
            while seen + missed < 401 {
                let line = objects(&lossy.line()).remove(0);
                missed += line["missed"].as_u64().expect("a number");
                seen += 1;
                assert_eq!(line["sequence"], seen + missed - 1);
            }
        });
        until(&test_dir, &["channel", "stat", "shop", "ticks"], |s| {
            s["consumers"][0]["lag_messages"] == 0
        });
        test_dir.ok(&["channel", "send", "shop", "ticks", "last"]);
    });
    assert!(missed > 0);
    lossy.signal(Signal::INT);
    let run = lossy.end();
    assert!(run.code == 0 && run.err.starts_with("hold: missed "), "{run:?}");
    let args = ["channel", "recv", "shop", "ticks", "--patience", "1s"];
    assert!(test_dir.fails(2, &args).contains("--policy patient"));
}

#[test]
fn a_dropped_patient_consumer_gets_an_error() {
    let test_dir = with_channel("4K");
    let args = ["channel", "recv", "shop", "ticks", "--policy", "patient", "--patience", "1ms"];
    let patient = Background::start(&test_dir, &args);
    let pid = patient.pid();
    until(&test_dir, &["channel", "stat", "shop", "ticks"], |s| s["consumers"][0]["pid"] == pid);
    let text = format!("{}\n", "x".repeat(1000)).repeat(400);
    assert_eq!(test_dir.run_with(&["channel", "send", "shop", "ticks"], text.as_bytes()).code, 0);
    let run = patient.end();
    assert_eq!(run.code, 3, "{}", run.err);
    assert!(run.err.contains("longer --patience"), "{}", run.err);
    let all = lines(&run.out);
    assert!(all.len() < 400 && all.iter().all(|line| line.len() == 1000), "{}", all.len());
}

#[test]
fn a_read_only_user_receives_as_a_lossy_consumer() {
    let test_dir = with_channel("4K");
    test_dir.ok(&["channel", "send", "shop", "ticks", "one"]);
    let open = |name: &str, mode| {
        let allowed = std::fs::Permissions::from_mode(mode);
        std::fs::set_permissions(test_dir.path(name), allowed).expect("a mode");
    };
    open("", 0o755);
    open("shop.hold", 0o644);
    let as_nobody = |policy: &str| {
        let args = ["channel", "recv", "shop", "ticks", "--oldest", "-n", "1", "--policy", policy];
        // Not of this process's user: only root can be that.
        test_dir.command(&args).uid(65534).gid(65534).output()
    };
    let output = match as_nobody("lossy") {
        Ok(output) => output,
        Err(error) => return eprintln!("SKIPPED: cannot start hold as another user: {error}"),
    };
    assert_eq!((output.status.code(), &output.stdout[..]), (Some(0), &b"one\n"[..]), "{output:?}");
    let refused = as_nobody("lossless").expect("a start");
    let err = String::from_utf8_lossy(&refused.stderr);
    assert_eq!(refused.status.code(), Some(3), "{err}");
    assert!(err.contains("with read permission only, use '--policy lossy'"), "{err}");
}

/// A bridge to NATS of a channel or a queue: `hold stat` shows its report.
#[test]
fn a_bridge_of_a_channel_or_a_queue_is_shown() {
    let test_dir = with_channel("4K");
    test_dir.ok(&["queue", "create", "shop", "jobs"]);
    let hold = commonhold::Hold::options().open(test_dir.path("shop.hold")).unwrap();
    for (name, direction, shown) in
        [("ticks", "send", "sender of"), ("jobs", "receive", "receiver into")]
    {
        assert!(!test_dir.ok(&["stat", "shop", name]).contains(shown));
        let mut reporter = commonhold_io::reports::Reporter::new(&hold, "bridge", name).unwrap();
        reporter.report(true, || json!({ "direction": direction, "connected": true }));
        let text = test_dir.ok(&["stat", "shop", name]);
        assert!(text.contains(shown), "{text}");
        assert_eq!(test_dir.json(&["stat", "shop", name])["bridges"][0]["direction"], direction);
    }
}
