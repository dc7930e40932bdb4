//! Queues, channels, logs and lists as values: real processes that pass messages, and are killed.

use crate::support::{Ground, Run};
use rustix::process::{Pid, Signal, kill_process};
use serde_json::{Value, json};
use std::io::{BufRead, BufReader, Read, Write};
use std::path::Path;
use std::process::{Child, ChildStdin, ChildStdout, Stdio};
use std::time::{Duration, Instant};

/// A process that goes on beside the test; it is killed if the test fails.
struct Beside {
    child: Child,
    input: Option<ChildStdin>,
    out: BufReader<ChildStdout>,
}

impl Beside {
    fn start(ground: &Ground, args: &[&str]) -> Beside {
        let mut command = ground.command(args);
        command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped());
        let mut child = command.spawn().expect("hold starts");
        let input = child.stdin.take();
        let out = BufReader::new(child.stdout.take().expect("a pipe"));
        Beside { child, input, out }
    }

    fn pid(&self) -> u32 {
        self.child.id()
    }

    fn signal(&self, signal: Signal) {
        let pid = Pid::from_raw(self.pid() as i32).expect("a process id");
        kill_process(pid, signal).expect("it lives");
    }

    fn write(&mut self, text: &[u8]) {
        let input = self.input.as_mut().expect("an open input");
        input.write_all(text).and_then(|()| input.flush()).expect("it reads");
    }

    fn line(&mut self) -> String {
        let mut line = String::new();
        self.out.read_line(&mut line).expect("text");
        line
    }

    /// The first line on standard error.
    fn first_error(&mut self) -> String {
        let mut line = String::new();
        let err = self.child.stderr.take().expect("nobody else reads it");
        BufReader::new(err).read_line(&mut line).expect("text");
        line
    }

    /// Waits for its end; what it has still written, and how it ended.
    fn end(mut self) -> Run {
        drop(self.input.take());
        let mut bytes = Vec::new();
        self.out.read_to_end(&mut bytes).expect("bytes");
        let mut err = String::new();
        if let Some(mut stderr) = self.child.stderr.take() {
            stderr.read_to_string(&mut err).expect("text");
        }
        let code = self.child.wait().expect("it ends").code().unwrap_or(-1);
        Run { code, out: String::from_utf8_lossy(&bytes).into_owned(), err, bytes }
    }

    fn kill(mut self) {
        self.child.kill().and_then(|()| self.child.wait()).expect("it lived");
    }
}

impl Drop for Beside {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// Waits until the verb's JSON is as wanted.
fn until(ground: &Ground, args: &[&str], wanted: impl Fn(&Value) -> bool) -> Value {
    let end = Instant::now() + Duration::from_secs(120);
    loop {
        let seen = ground.json(args);
        if wanted(&seen) {
            return seen;
        }
        assert!(Instant::now() < end, "hold {args:?} stays {seen:#}");
        std::thread::sleep(Duration::from_millis(5));
    }
}

/// Messages that are hard on framing, and the frames of them.
fn nasty() -> (Vec<Vec<u8>>, Vec<u8>) {
    let messages =
        vec![(0..=255).collect(), Vec::new(), b"\n\n".to_vec(), vec![0; 9], b"\xff\0".to_vec()];
    let frame = |m: &Vec<u8>| [&(m.len() as u32).to_le_bytes()[..], m].concat();
    let frames = messages.iter().flat_map(frame).collect();
    (messages, frames)
}

fn lines(out: &str) -> Vec<&str> {
    out.lines().collect()
}

fn objects(out: &str) -> Vec<Value> {
    out.lines().map(|line| serde_json::from_str(line).expect("a line of JSON")).collect()
}

/// Ground with a hold `shop` that has a queue `jobs` of 8 elements of `element_bytes`.
fn with_queue(element_bytes: &str, more: &[&str]) -> Ground {
    let ground = Ground::new();
    let create = ["queue", "create", "shop", "jobs", "--elements", "8", "--element-bytes"];
    ground.ok(&[&create[..], &[element_bytes], more].concat());
    ground
}

/// Ground with a hold `shop` that has a channel `ticks` with such a ring.
fn with_channel(ring_bytes: &str) -> Ground {
    let ground = Ground::new();
    ground.ok(&["channel", "create", "shop", "ticks", "--ring-bytes", ring_bytes]);
    ground
}

#[test]
fn a_queue_gives_each_message_once_in_order() {
    let ground = with_queue("64", &[]);
    ground.ok(&["queue", "push", "shop", "jobs", "full", "one", "-2", ""]);
    let run = ground.run_with(&["queue", "push", "shop", "jobs", "full"], b"three\n\xff\xfe\nfive");
    assert_eq!(run.code, 0, "{run:?}");
    let list = ground.json(&["queue", "list", "shop", "jobs"]);
    assert_eq!(list[0], json!({"name": "free", "length": 2, "pushed": 8, "pulled": 6}));
    assert_eq!(list[1], json!({"name": "full", "length": 6, "pushed": 6, "pulled": 0}));
    let pull =
        |more: &[&str]| ground.run(&[&["queue", "pull", "shop", "jobs", "full"], more].concat());
    assert_eq!(pull(&[]).out, "one\n");
    assert_eq!(pull(&["--count", "2"]).out, "-2\n\n");
    let run = pull(&["--count", "2", "--format", "json"]);
    let messages: Vec<_> = objects(&run.out).iter().map(|m| m["message"].clone()).collect();
    assert_eq!(messages, [json!("three"), json!({"base64": "//4="})]);
    let run = pull(&["--count", "2"]);
    assert_eq!((run.code, run.out.as_str(), run.err.as_str()), (1, "five\n", ""));
    assert_eq!(pull(&["--timeout", "1ms"]).code, 1);
    assert_eq!(ground.json(&["queue", "list", "shop", "jobs"])[0]["length"], 8);
}

#[test]
fn every_byte_goes_through_a_queue() {
    let ground = with_queue("300", &[]);
    let (messages, frames) = nasty();
    let push = ["queue", "push", "shop", "jobs", "full", "--frames", "--sized"];
    assert_eq!(ground.run_with(&push, &frames).code, 0);
    let count = messages.len().to_string();
    let pull = ["queue", "pull", "shop", "jobs", "full", "--frames", "--sized", "-n", &count];
    assert_eq!(ground.run(&pull).bytes, frames);
    // As others see it: the length, the message, zeros.
    assert_eq!(ground.run_with(&push, b"\x02\0\0\0ab").code, 0);
    let whole = ["queue", "pull", "shop", "jobs", "full", "--frames", "--whole"];
    let mut element = b"\x2c\x01\0\0\x02\0\0\0ab".to_vec();
    element.resize(304, 0);
    assert_eq!(ground.run(&whole).bytes, element);
    let run = ground.run_with(&push, &frames[..100]);
    assert_eq!(run.code, 3);
    assert!(run.err.contains("frame 1 is cut off: 96 of the 256 bytes"), "{}", run.err);
    let run = ground.run_with(&push[..5], format!("short\n{}\n", "x".repeat(301)).as_bytes());
    assert!(run.err.contains("line 2 has more than 300 bytes"), "{}", run.err);
    assert!(run.err.ends_with("pushed before it: 1 message\n"), "{}", run.err);
    let run = ground.run(&["queue", "pull", "shop", "jobs", "full", "--sized"]);
    assert!(run.code == 3 && run.err.contains("--sized"), "{run:?}");
    assert_eq!(ground.ok(&["queue", "pull", "shop", "jobs", "full"]), "short\n");
}

#[test]
fn a_full_queue_is_waited_for_or_told() {
    let ground = with_queue("8", &[]);
    let push = ["queue", "push", "shop", "jobs", "full"];
    let input = b"1\n2\n3\n4\n5\n6\n7\n8\n9\n10\n";
    let run =
        ground.run_with(&[&push[..], &["--timeout", "0", "--format", "json"]].concat(), input);
    assert_eq!((run.code, objects(&run.out)[0].clone()), (1, json!({"pushed": 8, "all": false})));
    assert!(run.err.contains("8 in queue full"), "{}", run.err);
    let mut waiting = Beside::start(&ground, &push);
    waiting.write(b"9\n10\n");
    assert!(waiting.first_error().contains("queue free is empty"));
    let pull = ["queue", "pull", "shop", "jobs", "full", "--timeout", "1m", "-n", "10"];
    assert_eq!(lines(&ground.ok(&pull)), ["1", "2", "3", "4", "5", "6", "7", "8", "9", "10"]);
    assert_eq!(waiting.end().code, 0);
}

#[test]
fn what_a_killed_puller_had_in_hand_comes_back() {
    let ground = with_queue("256K", &["--orphans", "full"]);
    let job = "x".repeat(200 << 10);
    let run = ground.run_with(&["queue", "push", "shop", "jobs", "full"], job.as_bytes());
    assert_eq!(run.code, 0, "{run:?}");
    // The pipe has no room for the message, so the puller stops with it in hand.
    let puller = Beside::start(&ground, &["queue", "pull", "shop", "jobs", "full", "--follow"]);
    let stat = until(&ground, &["queue", "stat", "shop", "jobs"], |s| s["holders"] != json!([]));
    let holder = &stat["holders"][0];
    assert_eq!((&holder["pid"], &holder["elements"]), (&json!(puller.pid()), &json!(1)));
    assert!(
        ground.ok(&["stat", "shop", "jobs"]).contains("in hand of slot".to_uppercase().as_str())
    );
    puller.kill();
    let pull = ["queue", "pull", "shop", "jobs", "full", "--timeout", "1m"];
    assert_eq!(ground.ok(&pull), format!("{job}\n"));
    assert_eq!(ground.json(&["check", "shop"])["ok"], true);
}

#[test]
fn a_message_that_nobody_takes_from_the_pipe_stays_in_its_queue() {
    let ground = with_queue("8", &[]);
    ground.ok(&["queue", "push", "shop", "jobs", "full", "job"]);
    let (reader, writer) = std::io::pipe().expect("a pipe");
    drop(reader);
    let mut command = ground.command(&["queue", "pull", "shop", "jobs", "full"]);
    let run = Run::of(command.stdout(writer).output().expect("hold runs"));
    assert_eq!((run.code, run.err.as_str()), (0, ""));
    assert_eq!(ground.ok(&["queue", "pull", "shop", "jobs", "full"]), "job\n");
}

#[test]
fn who_waits_ends_with_the_reader_or_a_signal() {
    let ground = with_channel("4K");
    ground.ok(&["queue", "create", "shop", "jobs"]);
    ground.ok(&["log", "create", "shop", "events", "--rings", "2", "--ring-bytes", "4K"]);
    let waiters: [&[&str]; 4] = [
        &["channel", "recv", "shop", "ticks"],
        &["queue", "pull", "shop", "jobs", "full", "--follow"],
        &["log", "tail", "--follow", "shop", "events"],
        &["log", "collect", "shop", "events"],
    ];
    for args in waiters {
        let (reader, writer) = std::io::pipe().expect("a pipe");
        let mut child = ground.command(args).stdout(writer).spawn().expect("hold starts");
        drop(reader);
        assert_eq!(child.wait().expect("it ends").code(), Some(0), "{args:?}");
    }
    let is_there = |pid: u32| move |s: &Value| s["consumers"][0]["pid"] == pid;
    for (more, code) in [(&[][..], 0), (&["--count", "2"], 130)] {
        let recv = Beside::start(&ground, &[&["channel", "recv", "shop", "ticks"], more].concat());
        until(&ground, &["channel", "stat", "shop", "ticks"], is_there(recv.pid()));
        let mut recv = recv;
        ground.ok(&["channel", "send", "shop", "ticks", "hello"]);
        assert_eq!(recv.line(), "hello\n");
        recv.signal(Signal::TERM);
        let run = recv.end();
        assert_eq!((run.code, run.out.as_str(), run.err.as_str()), (code, "", ""), "{more:?}");
        assert_eq!(ground.json(&["channel", "stat", "shop", "ticks"])["consumers"], json!([]));
    }
    assert_eq!(ground.json(&["stat", "shop"])["participants"], json!([]));
}

#[test]
fn every_consumer_receives_every_message() {
    let ground = with_channel("64K");
    let (messages, frames) = nasty();
    let recv = ["channel", "recv", "shop", "ticks", "--count"];
    let count = messages.len().to_string();
    let first = Beside::start(&ground, &[&recv[..], &[&count, "--frames"]].concat());
    let second = Beside::start(&ground, &[&recv[..], &[&count, "--format", "json"]].concat());
    until(&ground, &["channel", "stat", "shop", "ticks"], |stat| {
        stat["consumers"].as_array().is_some_and(|all| all.len() == 2)
    });
    let run = ground.run_with(&["channel", "send", "shop", "ticks", "--frames"], &frames);
    assert_eq!(run.code, 0, "{run:?}");
    assert_eq!(first.end().bytes, frames);
    let seen = objects(&second.end().out);
    assert_eq!(seen[1], json!({"message": "", "missed": 0, "sequence": 1}));
    assert_eq!(seen[4], json!({"message": {"base64": "/wA="}, "missed": 0, "sequence": 4}));
    let sent = ground.json(&["channel", "send", "shop", "ticks", "-1", "last"]);
    assert_eq!(sent, json!({"sent": 2, "all": true, "first": 5}));
    let oldest = ["channel", "recv", "shop", "ticks", "--oldest", "--timeout", "0", "--frames"];
    let kept = ground.run(&oldest);
    // Of the latest producer.
    assert_eq!((kept.code, &kept.bytes[..]), (0, &b"\x02\0\0\0-1\x04\0\0\0last"[..]));
    let run = ground.run(&["channel", "recv", "shop", "ticks", "--timeout", "0"]);
    assert_eq!((run.code, run.out.as_str(), run.err.as_str()), (1, "", ""));
    let err = ground.fails(3, &["channel", "send", "shop", "ticks", &"x".repeat(16385)]);
    assert!(err.contains("16385 bytes, more than 16384"), "{err}");
}

#[test]
fn a_second_producer_is_refused_by_name() {
    let ground = with_channel("4K");
    let mut first = Beside::start(&ground, &["channel", "send", "shop", "ticks"]);
    first.write(b"one\n");
    let pid = first.pid();
    let stat = until(&ground, &["channel", "stat", "shop", "ticks"], |s| s["sequence"] == 1);
    assert_eq!(stat["producer"]["pid"], pid);
    let err = ground.fails(3, &["channel", "send", "shop", "ticks", "two"]);
    assert!(err.contains(&format!("process {pid}")), "{err}");
    first.kill();
    ground.ok(&["channel", "send", "shop", "ticks", "two"]);
    let kept = ["channel", "recv", "shop", "ticks", "--oldest", "--format", "json", "--count", "1"];
    // The sequence goes on.
    let message = json!({"message": "two", "missed": 0, "sequence": 1});
    assert_eq!(objects(&ground.ok(&kept)), [message]);
}

#[test]
fn a_consumer_that_stands_is_waited_for_by_name_until_it_is_killed() {
    let ground = with_channel("4K");
    let stat = ["channel", "stat", "shop", "ticks"];
    // Nobody reads its output: it stops when the pipe is full.
    let stuck = Beside::start(&ground, &["channel", "recv", "shop", "ticks"]);
    let pid = stuck.pid();
    until(&ground, &stat, |s| s["consumers"][0]["pid"] == pid);
    let text = format!("{}\n", "x".repeat(1000)).repeat(400);
    let mut sender = Beside::start(&ground, &["channel", "send", "shop", "ticks"]);
    let mut input = sender.input.take().expect("a pipe");
    let feeder = std::thread::spawn(move || input.write_all(text.as_bytes()));
    let told = sender.first_error();
    assert!(told.starts_with("waiting: channel ticks is full; slot "), "{told}");
    assert!(told.contains(&format!("(process {pid})")), "{told}");
    assert_eq!(ground.json(&stat)["slowest"]["pid"], pid);
    sender.kill();
    drop(feeder.join().expect("the feeder ends"));
    let long = "y".repeat(1000);
    let send = ["channel", "send", "shop", "ticks", "--timeout", "0", &long, &long, &long, &long];
    let run = ground.run(&send);
    assert!(run.code == 1 && run.err.contains(&format!("(process {pid})")), "{run:?}");
    stuck.kill();
    ground.ok(&send);
}

#[test]
fn a_lossy_consumer_is_told_what_it_missed() {
    let ground = with_channel("4K");
    let args = ["channel", "recv", "shop", "ticks", "--policy", "lossy", "--format", "json"];
    let mut lossy = Beside::start(&ground, &args);
    let pid = lossy.pid();
    until(&ground, &["channel", "stat", "shop", "ticks"], |s| s["consumers"][0]["pid"] == pid);
    let text = format!("{}\n", "x".repeat(1000)).repeat(400);
    assert_eq!(ground.run_with(&["channel", "send", "shop", "ticks"], text.as_bytes()).code, 0);
    // Its pipe has room for fewer than 400 messages, and the ring for three: some are missed. That is told with the
    // next message, which is sent when it has caught up.
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
        until(&ground, &["channel", "stat", "shop", "ticks"], |s| {
            s["consumers"][0]["lag_messages"] == 0
        });
        ground.ok(&["channel", "send", "shop", "ticks", "last"]);
    });
    assert!(missed > 0);
    lossy.signal(Signal::INT);
    let run = lossy.end();
    assert!(run.code == 0 && run.err.starts_with("hold: missed "), "{run:?}");
    let args = ["channel", "recv", "shop", "ticks", "--patience", "1s"];
    assert!(ground.fails(2, &args).contains("--policy patient"));
}

#[test]
fn a_patient_consumer_is_dropped_and_told() {
    let ground = with_channel("4K");
    let args = ["channel", "recv", "shop", "ticks", "--policy", "patient", "--patience", "1ms"];
    let patient = Beside::start(&ground, &args);
    let pid = patient.pid();
    until(&ground, &["channel", "stat", "shop", "ticks"], |s| s["consumers"][0]["pid"] == pid);
    let text = format!("{}\n", "x".repeat(1000)).repeat(400);
    assert_eq!(ground.run_with(&["channel", "send", "shop", "ticks"], text.as_bytes()).code, 0);
    let run = patient.end();
    assert_eq!(run.code, 3, "{}", run.err);
    assert!(run.err.contains("longer --patience"), "{}", run.err);
    let all = lines(&run.out);
    assert!(all.len() < 400 && all.iter().all(|line| line.len() == 1000), "{}", all.len());
}

/// Ground with a hold `shop` that has a log `events` of rings of 16 KiB.
fn with_log() -> Ground {
    let ground = Ground::new();
    ground.ok(&["log", "create", "shop", "events", "--rings", "8", "--ring-bytes", "16K"]);
    ground
}

/// What people wrote: the text of the lines of a dump, a tail or a file.
fn texts(out: &str) -> Vec<String> {
    let written = out.lines().filter(|line| !line.contains(" ----- "));
    // Behind the time and the level.
    written.map(|line| line[37..].to_owned()).collect()
}

#[test]
fn a_log_keeps_what_a_killed_process_wrote() {
    let ground = with_log();
    let mut writer = Beside::start(&ground, &["log", "write", "shop", "events"]);
    writer.write(b"one\ntwo\nthree\n");
    until(&ground, &["log", "stat", "shop", "events"], |s| s["used"][0]["lines"] == 4);
    let pid = writer.pid();
    writer.kill();
    let dumped = ground.ok(&["log", "dump", "shop", "events"]);
    assert_eq!(texts(&dumped), ["aa one", "aa two", "aa three"]);
    assert!(dumped.contains(&format!("thread aa = pid {pid} ")), "{dumped}");
    ground.ok(&["log", "write", "shop", "events", "--level", "error", "four"]);
    let tail = ["log", "tail", "shop", "events", "-n", "1", "--format", "json"];
    let line = objects(&ground.ok(&tail)).remove(0);
    assert_eq!((&line["text"], &line["level"]), (&json!("four"), &json!("error")));
    assert!(line["time"].as_str().is_some_and(|time| time.ends_with('Z') && time.len() == 30));
    let json = ground.ok(&["log", "dump", "shop", "events", "--format", "json"]);
    assert_eq!(objects(&json)[0]["announces"]["pid"], pid);
    let errors = ground.ok(&["log", "dump", "shop", "events", "--level", "warn"]);
    assert_eq!(texts(&errors), ["ab four"]);
    assert_eq!(ground.json(&["check", "shop"])["ok"], true);
}

#[test]
fn a_log_tells_what_it_does_not_want_and_has_no_room_for() {
    let ground = with_log();
    let write = ["log", "write", "shop", "events", "--format", "json", "--level"];
    let written = |level: &str| {
        let run = ground.run_with(&[&write[..], &[level]].concat(), "x\n".repeat(2000).as_bytes());
        (run.code, objects(&run.out).remove(0))
    };
    assert_eq!(written("debug"), (0, json!({"accepted": 0, "filtered": 2000, "dropped": 0})));
    assert_eq!(ground.ok(&["log", "level", "shop", "events"]), "info\n");
    ground.ok(&["log", "level", "shop", "events", "debug"]);
    let (code, json) = written("debug");
    let (accepted, dropped) = (json["accepted"].as_u64(), json["dropped"].as_u64());
    assert!(code == 1 && dropped > Some(0), "{json}");
    assert_eq!(accepted.unwrap_or(0) + dropped.unwrap_or(0), 2000);
    assert_eq!(ground.json(&["log", "stat", "shop", "events"])["dropped"], dropped.unwrap_or(0));
    let err = ground.run(&["log", "write", "shop", "events", &"x".repeat(5000)]).err;
    assert!(err.contains("5000 bytes"), "{err}");
}

/// The files that a collector rotated, from the oldest.
fn files(ground: &Ground) -> Vec<String> {
    let aged = |age: u32| ground.path(&format!("shop.log.{age}"));
    let last = (1..).take_while(|age| aged(*age).exists()).last().unwrap_or(0);
    let read = |path: &Path| std::fs::read_to_string(path).expect("a file of the collector");
    let mut all: Vec<_> = (1..=last).rev().map(|age| read(&aged(age))).collect();
    all.push(read(&ground.path("shop.log")));
    all
}

#[test]
fn a_collector_that_is_killed_has_a_successor_and_no_line_is_lost_or_twice() {
    let ground = with_log();
    let collect = ["log", "collect", "shop", "events", "--file", "shop.log", "--max-bytes"];
    let collect = [&collect[..], &["2000", "--keep", "99"]].concat();
    let write = |numbers: std::ops::Range<u32>| {
        let text: String = numbers.map(|n| format!("{n}\n")).collect();
        let run = ground.run_with(&["log", "write", "shop", "events"], text.as_bytes());
        assert_eq!(run.code, 0, "{run:?}");
    };
    let stat = ["log", "stat", "shop", "events"];
    let first = Beside::start(&ground, &collect);
    let pid = first.pid();
    until(&ground, &stat, |s| s["collector"]["pid"] == pid);
    let err = ground.fails(3, &["log", "collect", "shop", "events", "--once"]);
    assert!(err.contains(&format!("process {pid}")), "{err}");
    write(0..100);
    until(&ground, &stat, |s| s["waiting_bytes"] == 0);
    first.kill();
    write(100..200);
    let second = Beside::start(&ground, &collect);
    let pid = second.pid();
    until(&ground, &stat, |s| s["collector"]["pid"] == pid);
    write(200..300);
    // It takes out what is there before it ends.
    second.signal(Signal::TERM);
    let run = second.end();
    assert!(run.code == 0 && run.err.contains("written to shop.log"), "{run:?}");
    let files = files(&ground);
    assert!(files.len() > 5 && files.iter().all(|text| text.len() <= 2000), "{}", files.len());
    let numbers: Vec<_> = texts(&files.concat())
        .iter()
        .map(|text| {
            text.split(' ').next_back().and_then(|n| n.parse::<u32>().ok()).expect("a number")
        })
        .collect();
    assert_eq!(numbers, (0..300).collect::<Vec<_>>());
    assert_eq!(ground.ok(&["log", "collect", "shop", "events", "--once"]), "");
}

#[test]
fn tail_follows_beside_a_collector() {
    let ground = with_log();
    let write = |text: &str| ground.ok(&["log", "write", "shop", "events", text]);
    write("one");
    write("two");
    let mut tail = Beside::start(&ground, &["log", "tail", "-f", "-n", "1", "shop", "events"]);
    let next = |tail: &mut Beside| loop {
        let line = tail.line();
        assert!(!line.is_empty(), "the tail ended early");
        if let Some(text) = texts(&line).pop() {
            return text;
        }
    };
    assert_eq!(next(&mut tail), "ab two");
    write("three");
    assert_eq!(next(&mut tail), "ac three");
    let collected = ground.ok(&["log", "collect", "shop", "events", "--once"]);
    assert_eq!(texts(&collected).len(), 3);
    write("four");
    assert_eq!(next(&mut tail), "ad four");
    tail.signal(Signal::INT);
    assert_eq!(tail.end().code, 0);
    let all = ["log", "collect", "shop", "events", "--once", "--format", "json"];
    assert_eq!(objects(&ground.ok(&all)).last().expect("lines")["text"], "four");
}

#[test]
fn names_that_are_absent_or_of_another_kind_are_told_with_the_way_out() {
    let ground = Ground::new();
    let verbs: [(&str, &[&str], &[&str]); 10] = [
        ("queue", &["push"], &["full", "x"]),
        ("queue", &["pull"], &["full"]),
        ("queue", &["list"], &[]),
        ("queue", &["stat"], &[]),
        ("channel", &["send"], &["x"]),
        ("channel", &["recv"], &[]),
        ("channel", &["stat"], &[]),
        ("log", &["write"], &["x"]),
        ("log", &["collect"], &[]),
        ("log", &["tail"], &[]),
    ];
    let every = |name: &str, wanted: &dyn Fn(&str) -> Vec<String>| {
        for (kind, verb, more) in verbs {
            let err = ground.fails(3, &[&[kind], verb, &["shop", name], more].concat());
            let all = wanted(kind).iter().all(|word| err.contains(word));
            assert!(all, "{kind} {verb:?} {name}: {err}");
        }
    };
    let create = |kind: &str| vec![format!("'hold {kind} create shop none'"), "shop".to_owned()];
    every("none", &create);
    assert_eq!(ground.leftovers(&[]), Vec::<String>::new());
    ground.ok(&["set", "shop", "prices", "apple", "3"]);
    every("none", &create);
    every("prices", &|kind| vec![format!("'prices' is a map, not a {kind}")]);
    ground.ok(&["queue", "create", "shop", "jobs"]);
    let pull = ["queue", "pull", "shop", "jobs"];
    assert!(ground.fails(3, &[&pull[..], &["none"]].concat()).contains("'none'"));
    assert!(ground.fails(2, &[&pull[..], &["free"]].concat()).contains("--to"));
    let other = ["queue", "create", "shop", "jobs", "--elements", "9"];
    assert!(ground.fails(3, &other).contains("'jobs' exists"));
    let twice = ["queue", "create", "shop", "more", "--queues", "a,a"];
    assert!(ground.fails(3, &twice).contains("same name"));
    assert!(ground.fails(3, &["push", "shop", "prices", "apple", "x"]).contains("'apple'"));
}

#[test]
fn lists_are_changed_at_both_ends() {
    let ground = Ground::new();
    let key = ["shop", "lists", "fruit"];
    let with = |verb: &str, more: &[&str]| ground.run(&[&[verb], &key[..], more].concat());
    let pushed = with("push", &["c", "-4", "--format", "json"]);
    assert_eq!(objects(&pushed.out), [json!({"added": 2, "length": 2})]);
    assert_eq!(with("unshift", &["a", "b"]).code, 0);
    assert_eq!(ground.ok(&["get", "--list", "shop", "lists", "fruit"]), "a\nb\nc\n-4\n");
    assert_eq!(with("pop", &[]).out, "-4");
    assert_eq!(with("shift", &["-n"]).out, "a\n");
    assert_eq!(objects(&with("shift", &["--format", "json"]).out), [json!({"value": "b"})]);
    let run = with("pop", &["--count", "2"]);
    assert_eq!((run.code, run.out.as_str(), run.err.as_str()), (1, "c\n", ""));
    assert_eq!(ground.run(&["get", "--list", "shop", "lists", "fruit"]).code, 1);
    let (messages, frames) = nasty();
    let push = ["push", "shop", "lists", "fruit", "--frames"];
    assert_eq!(ground.run_with(&push, &frames).code, 0);
    let got = ground.json(&["get", "--list", "shop", "lists", "fruit"]);
    assert_eq!(got["values"].as_array().map(Vec::len), Some(messages.len()));
    assert_eq!(with("shift", &["--frames", "--count", "5"]).bytes, frames);
    ground.ok(&["push", "--hex", "shop", "lists", "00ff", "0a00"]);
    assert_eq!(ground.ok(&["get", "--list", "--hex", "shop", "lists", "00ff"]), "0a00\n");
}

#[test]
fn lists_lose_nothing_to_each_other() {
    let ground = Ground::new();
    ground.map("shop", "lists");
    std::thread::scope(|scope| {
        for _ in 0..3 {
            scope.spawn(|| {
                let run =
                    ground.run_with(&["push", "shop", "lists", "all"], "x\n".repeat(50).as_bytes());
                assert_eq!(run.code, 0, "{run:?}");
            });
        }
    });
    let all = ground.ok(&["shift", "shop", "lists", "all", "--count", "150"]);
    assert_eq!(all.len(), 300);
    assert_eq!(ground.run(&["shift", "shop", "lists", "all"]).code, 1);
}

#[test]
fn verbs_within_verbs_have_pages_and_completions() {
    let ground = Ground::new();
    ground.ok(&["man", "pages"]);
    let page = ground.read("pages/hold-queue-push.1");
    assert!(String::from_utf8_lossy(&page).contains("sized"));
    assert!(ground.ok(&["completions", "bash"]).contains("hold__subcmd__channel__subcmd__recv"));
    assert!(ground.ok(&["log", "tail", "--help"]).contains("hold log tail -n 100 -f shop events"));
}
