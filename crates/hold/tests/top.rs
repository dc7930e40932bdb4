//! `hold top`: one look as JSON and text with traffic that is known, stopped processes, and the
//! live view on a terminal.

use crate::support::TestDir;
use crate::support::background::{Background, until, with_channel, with_queue};
use crate::support::terminal::{Left, OnScreen};
use commonhold::Hold;
use commonhold::log::{LogLevel, LogOptions};
use commonhold::map::MapOptions;
use rustix::process::Signal;
use serde_json::{Value, json};
use std::os::unix::fs::PermissionsExt;
use std::os::unix::process::CommandExt;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};

const ONCE: [&str; 5] = ["top", "shop", "--once", "--interval", "100ms"];

fn hold(test_dir: &TestDir) -> Hold {
    Hold::options().directory(test_dir.path("")).open_or_create("shop").expect("a hold")
}

/// Calls `act` in a thread until `look` is done, so that `look` sees traffic.
fn during<T>(act: impl Fn() + Sync, look: impl FnOnce() -> T) -> T {
    let over = AtomicBool::new(false);
    std::thread::scope(|scope| {
        scope.spawn(|| {
            while !over.load(Ordering::Relaxed) {
                act();
            }
        });
        let seen = look();
        over.store(true, Ordering::Relaxed);
        seen
    })
}

fn is_positive(rate: &Value) -> bool {
    rate.as_f64().is_some_and(|rate| rate > 0.0)
}

#[test]
fn totals_are_exact() {
    let test_dir = with_queue("8", &[]);
    test_dir.ok(&["channel", "create", "shop", "ticks", "--ring-bytes", "4K"]);
    for text in ["one", "two", "three"] {
        test_dir.ok(&["channel", "send", "shop", "ticks", text]);
    }
    for text in ["a", "b"] {
        test_dir.ok(&["queue", "push", "shop", "jobs", "full", text]);
    }
    test_dir.ok(&["queue", "pull", "shop", "jobs", "full"]);
    test_dir.ok(&["log", "create", "shop", "events"]);
    test_dir.ok(&["log", "write", "shop", "events", "open"]);
    let hold = hold(&test_dir);
    let prices = hold.maps().open_or_create("prices", MapOptions::general()).expect("a map");
    hold.maps().begin_stream("prices", 1 << 16).expect("a stream");
    // A frame is 40 bytes, and key and value in multiples of 8.
    for key in 0..100u32 {
        prices.set(key.to_le_bytes(), "3.14").expect("a set");
    }
    let pages = hold.maps().open_or_create("pages", MapOptions::cache()).expect("a cache");
    pages.set("/index", "html").expect("a set");
    (0..7).for_each(|_| assert!(pages.get("/index").expect("a get").is_some()));
    (0..5).for_each(|_| assert!(pages.get("/none").expect("a get").is_none()));
    // Its own lookups count for others once it has asked itself.
    pages.stat().expect("statistics");

    let seen = test_dir.json(&ONCE);
    assert!(is_positive(&seen["interval_ms"]), "{seen:#}");
    assert!(is_positive(&seen["hold"]["used_bytes"]), "{seen:#}");
    let (cache, map) = (&seen["maps"][0], &seen["maps"][1]);
    assert_eq!([&cache["name"], &map["name"]], ["pages", "prices"]);
    assert_eq!((&map["pairs"], &map["cache"]), (&json!(100), &Value::Null));
    assert_eq!(map["stream"]["written_bytes"], 4800);
    // Nothing has happened between the two looks.
    assert_eq!(map["stream"]["changes"], 0);
    assert_eq!(map["stream"]["changes_per_second"].as_f64(), Some(0.0));
    assert_eq!(map["stream"]["bytes_per_second"].as_f64(), Some(0.0));
    assert_eq!((&map["replicas"], &map["origin"]), (&json!([]), &Value::Null));
    assert_eq!((&cache["stream"], &cache["cache"]["hits"]), (&Value::Null, &json!(7)));
    assert_eq!((&cache["cache"]["misses"], &cache["cache"]["evicted"]), (&json!(5), &json!(0)));
    assert_eq!(cache["cache"]["evicted_per_second"].as_f64(), Some(0.0));

    let queue = &seen["queues"][0];
    assert_eq!((&queue["name"], &queue["elements"]), (&json!("jobs"), &json!(8)));
    let full = queue["queues"].as_array().and_then(|all| all.iter().find(|q| q["name"] == "full"));
    let full = full.expect("the queue");
    let numbers = ["length", "pushed", "pulled"].map(|field| full[field].as_u64());
    assert_eq!(numbers, [Some(1), Some(2), Some(1)]);
    let channel = &seen["channels"][0];
    assert_eq!((&channel["name"], &channel["messages"]), (&json!("ticks"), &json!(3)));
    assert_eq!((&channel["consumers"], &channel["waits_for_pid"]), (&json!([]), &Value::Null));
    let log = &seen["logs"][0];
    let numbers = ["lines", "dropped", "overwritten"].map(|field| log[field].as_u64());
    // The line, and the one that announces its thread.
    assert_eq!(numbers, [Some(2), Some(0), Some(0)]);

    let text = test_dir.ok(&ONCE);
    for part in ["shop.hold\n", " used, ", "MAP ", "prices", "CACHE ", "QUEUE ", "CHANNEL ", "LOG "]
    {
        assert!(text.contains(part), "{part}: {text}");
    }
}

#[test]
fn rates_are_those_of_the_interval() {
    let test_dir = with_channel("64K");
    let hold = hold(&test_dir);
    let prices = hold.maps().open_or_create("prices", MapOptions::general()).expect("a map");
    hold.maps().begin_stream("prices", 16 << 20).expect("a stream");
    let cache = MapOptions::cache().max_entries(1000);
    let pages = hold.maps().open_or_create("pages", cache).expect("a cache");
    hold.logs().create("events", LogOptions::default()).expect("a log");
    let log = hold.logs().open("events").expect("a log");
    let channel = hold.channels().open("ticks").expect("a channel");
    let next = AtomicU64::new(0);
    let act = || {
        prices.set("apple", "3").expect("a set");
        pages.set(next.fetch_add(1, Ordering::Relaxed).to_le_bytes(), "html").expect("a set");
        // A full ring drops lines, which nobody collects here.
        let _ = log.write(LogLevel::Info, "line").expect("a write");
        std::thread::yield_now();
    };
    drop(channel);
    // The two looks are not at one instant, so a change need not be in every number.
    let seen = during(act, || {
        until(&test_dir, &ONCE, |seen| {
            is_positive(&seen["maps"][1]["stream"]["changes_per_second"])
                && is_positive(&seen["maps"][1]["stream"]["bytes_per_second"])
                && is_positive(&seen["maps"][0]["cache"]["evicted_per_second"])
                && is_positive(&seen["logs"][0]["lines_per_second"])
        })
    });
    assert_eq!(seen["channels"][0]["messages_per_second"].as_f64(), Some(0.0));
    assert_eq!(seen["maps"][0]["cache"]["expired_per_second"].as_f64(), Some(0.0));
}

#[test]
fn a_stopped_process_is_shown() {
    let test_dir = with_channel("4K");
    let consumer = Background::start(&test_dir, &["channel", "recv", "shop", "ticks"]);
    let pid = json!(consumer.pid());
    let participant = |seen: &Value| {
        let all = seen["participants"].as_array().expect("a list");
        all.iter().find(|one| one["pid"] == pid).cloned()
    };
    let seen = until(&test_dir, &ONCE, |seen| participant(seen).is_some());
    assert_eq!(participant(&seen).expect("it takes part")["alive"], true);
    assert_eq!(seen["channels"][0]["consumers"][0]["pid"], pid);
    consumer.signal(Signal::STOP);
    let stopped = participant(&test_dir.json(&ONCE)).expect("it takes part");
    assert_eq!((&stopped["state"], &stopped["program"]), (&json!("stopped"), &json!("hold")));
    // A consumer that waits for a message holds no lock.
    assert_eq!(stopped["locks"], json!([]));
    let text = test_dir.ok(&ONCE);
    let row = text.lines().find(|line| line.contains("stopped")).expect("a row");
    assert!(row.contains(&pid.to_string()), "{text}");
    consumer.signal(Signal::CONT);
    consumer.kill();
}

/// Stops the command at a named step of the library.
#[cfg(feature = "steps")]
#[test]
fn a_stopped_process_is_shown_with_its_lock() {
    let test_dir = TestDir::new();
    let map = test_dir.map("shop", "prices");
    let mut command = test_dir.command(&["set", "shop", "prices", "apple", "3"]);
    command.env("COMMONHOLD_STEP", "write.locked:stop").stdin(std::process::Stdio::null());
    let writer = Background::run(command);
    let is_it = |one: &&Value| one["pid"] == writer.pid() && one["state"] == "stopped";
    let stopped =
        |seen: &Value| seen["participants"].as_array().expect("a list").iter().find(is_it).cloned();
    let seen = until(&test_dir, &ONCE, |seen| stopped(seen).is_some());
    let writer_seen = stopped(&seen).expect("it is stopped");
    assert_eq!(writer_seen["locks"], json!(["a segment of map 'prices'"]));
    assert!(test_dir.ok(&ONCE).contains("a segment of map 'prices'"));
    writer.signal(Signal::CONT);
    assert_eq!(writer.end().code, 0);
    assert_eq!(map.get("apple").expect("a get").as_deref(), Some(&b"3"[..]));
}

#[test]
fn replicas_are_shown_with_their_lag() {
    let test_dir = TestDir::new();
    let hold = hold(&test_dir);
    drop(test_dir.map("shop", "prices"));
    let replica = json!({ "peer": "10.0.0.1:7", "name": "", "state": "following", "lag_bytes": 7 });
    let mut reporter = commonhold_io::reports::Reporter::new(&hold, "origin", "prices").unwrap();
    reporter.report(true, || json!({ "pid": 1, "replicas": [replica] }));
    let seen = test_dir.json(&ONCE);
    let expected = json!([{ "peer": "10.0.0.1:7", "state": "following", "lag_bytes": 7 }]);
    assert_eq!(seen["maps"][0]["replicas"], expected);
    // The map of the reports is Commonhold's own.
    assert_eq!(seen["maps"].as_array().map(Vec::len), Some(1));
    let all = test_dir.json(&[&ONCE[..], &["--all"]].concat());
    assert_eq!(all["maps"].as_array().map(Vec::len), Some(2));
}

#[test]
fn read_permission_is_enough() {
    let test_dir = TestDir::new();
    drop(test_dir.map("shop", "prices"));
    let open = |name: &str, mode| {
        let allowed = std::fs::Permissions::from_mode(mode);
        std::fs::set_permissions(test_dir.path(name), allowed).expect("a mode");
    };
    open("", 0o755);
    open("shop.hold", 0o444);
    let before = test_dir.read("shop.hold");
    let seen = test_dir.json(&ONCE);
    assert_eq!(seen["participants"], json!([]));
    assert!(before == test_dir.read("shop.hold"), "it has written to the hold");
    // Not of this process's user: only root can be that.
    match test_dir.command(&ONCE).uid(65534).gid(65534).output() {
        Ok(output) => assert_eq!(output.status.code(), Some(0), "{output:?}"),
        Err(error) => eprintln!("SKIPPED: cannot start hold as another user: {error}"),
    }
}

#[test]
fn mistakes_name_the_way_out() {
    let test_dir = TestDir::new();
    let err = test_dir.fails(3, &ONCE);
    assert!(err.contains("shop.hold"), "{err}");
    assert!(test_dir.fails(3, &["top", "--once"]).contains("found no hold with a bare name"));
    drop(test_dir.map("shop", "prices"));
    assert!(test_dir.ok(&["top", "--once", "--interval", "100ms"]).contains("prices"));
    drop(test_dir.map("bar", "prices"));
    assert!(test_dir.fails(3, &["top", "--once"]).contains("bar, shop"));
    // Standard output is a pipe.
    assert!(test_dir.fails(3, &["top", "shop"]).contains("'hold top --once'"));
    assert!(test_dir.fails(2, &["top", "shop", "--format", "json"]).contains("'hold top --once'"));
    let err = test_dir.fails(2, &["top", "shop", "--once", "--interval", "99ms"]);
    assert!(err.contains("at least 100ms"), "{err}");
}

fn shop() -> TestDir {
    let test_dir = TestDir::new();
    test_dir.map("shop", "prices").set("apple", "3").expect("a set");
    test_dir
}

const LIVE: [&str; 4] = ["top", "shop", "--interval", "100ms"];

fn on_screen(test_dir: &TestDir, size: (u16, u16)) -> OnScreen {
    let mut screen = OnScreen::start(test_dir.command(&LIVE), size);
    screen.until("prices");
    assert!(screen.has_terminal());
    screen
}

/// The terminal is as before, and the screen of the command is gone.
fn assert_restored(left: &Left) {
    assert!(left.is_ordinary, "{:?}", left.bytes);
    assert!(left.bytes.ends_with("\x1b[?1049l\x1b[?25h"), "{:?}", left.bytes);
}

#[test]
fn the_screen_follows_its_size_and_q_restores_the_terminal() {
    let test_dir = shop();
    let mut screen = on_screen(&test_dir, (40, 10));
    screen.until("quit");
    // A narrow screen has no room for this column.
    screen.resize(120, 40);
    screen.until("REPLICAS");
    // By size. Only the letters that change are drawn: 'name' to 'size'.
    screen.type_text("ss");
    screen.until("siz");
    screen.type_text("p");
    screen.until("paused");
    screen.type_text("q");
    let left = screen.left();
    assert_eq!((left.code, left.err.as_str()), (Some(0), ""));
    assert_restored(&left);
}

#[test]
fn a_key_and_a_signal_end_it_in_the_same_way() {
    let test_dir = shop();
    let mut screen = on_screen(&test_dir, (80, 24));
    screen.type_text("\x03");
    let left = screen.left();
    assert_eq!((left.code, left.err.as_str()), (Some(0), ""));
    assert_restored(&left);
    for signal in [Signal::TERM, Signal::INT, Signal::HUP] {
        let screen = on_screen(&test_dir, (80, 24));
        screen.signal(signal);
        let left = screen.left();
        assert_eq!((left.code, left.err.as_str()), (Some(0), ""), "{signal:?}");
        assert_restored(&left);
    }
}

#[test]
fn a_terminal_that_hangs_up_ends_it() {
    let test_dir = shop();
    for pause in [false, true] {
        let mut screen = on_screen(&test_dir, (80, 24));
        if pause {
            screen.type_text("p");
            screen.until("paused");
        }
        assert!(screen.hang_up() == Some(0), "paused: {pause}");
    }
}

#[test]
fn a_hold_that_is_deleted_ends_it_with_a_message() {
    let test_dir = shop();
    let mut screen = on_screen(&test_dir, (80, 24));
    test_dir.ok(&["drop", "shop", "prices", "--yes"]);
    screen.until("empty");
    test_dir.ok(&["drop", "shop", "--force"]);
    let left = screen.left();
    assert_eq!(left.code, Some(3), "{}", left.err);
    assert!(left.err.contains("was deleted or replaced"), "{}", left.err);
    assert_restored(&left);
}

/// Panics at a named step of the library, as it reads the reports of origins.
#[cfg(feature = "steps")]
#[test]
fn a_panic_restores_the_terminal() {
    let test_dir = shop();
    let hold = hold(&test_dir);
    let mut reporter = commonhold_io::reports::Reporter::new(&hold, "origin", "prices").unwrap();
    let mut report = || reporter.report(true, || json!({ "pid": 1, "replicas": [] }));
    report();
    let mut command = test_dir.command(&LIVE);
    command.env("COMMONHOLD_STEP", "read.copied:panic:5");
    let mut screen = OnScreen::start(command, (80, 24));
    screen.until("prices");
    // A report is forgotten after some seconds.
    while !screen.has_ended() {
        report();
    }
    let left = screen.left();
    assert_eq!(left.code, Some(101), "{}", left.err);
    assert!(left.err.contains("panicked at"), "{}", left.err);
    assert_restored(&left);
}
