//! Changing a map that exists, while others use it.

use crate::support::TestDir;
use crate::support::background::Background;
use commonhold::ErrorKind;
use serde_json::json;

fn shop() -> TestDir {
    let test_dir = TestDir::new();
    test_dir.ok(&["set", "shop", "prices", "apple", "3"]);
    test_dir
}

fn alter(test_dir: &TestDir, size: &str) -> serde_json::Value {
    test_dir.json(&["alter", "shop", "prices", "--stream-size", size])
}

#[test]
fn the_stream_of_a_map_gets_another_size() {
    let test_dir = shop();
    let report = |changed: bool, bytes: u64, before: Option<u64>| {
        json!({"map": "prices", "changed": changed, "stream_bytes": bytes,
               "stream_bytes_before": before})
    };
    assert_eq!(alter(&test_dir, "100K"), report(true, 128 << 10, None));
    assert_eq!(alter(&test_dir, "128K"), report(false, 128 << 10, Some(128 << 10)));
    // One that follows learns that the stream has ended.
    let map = test_dir.map("shop", "prices");
    let mut follower = map.follow().unwrap();
    assert_eq!(alter(&test_dir, "1M"), report(true, 1 << 20, Some(128 << 10)));
    assert_eq!(follower.try_recv().unwrap_err().kind(), ErrorKind::Lapped);
    assert_eq!(alter(&test_dir, "64K"), report(true, 64 << 10, Some(1 << 20)));
    assert_eq!(test_dir.json(&["stat", "shop", "prices"])["stream"]["bytes"], 64 << 10);
    // The size stays for those that need a stream.
    assert_eq!(test_dir.run(&["watch", "shop", "prices", "--timeout", "0"]).code, 1);
    assert_eq!(alter(&test_dir, "64K"), report(false, 64 << 10, Some(64 << 10)));
    let run = test_dir.run(&["alter", "shop", "prices", "--stream-size", "1M"]);
    let text = "map prices: a stream of 1.00 MiB begins (before: 64.00 KiB)";
    assert!(run.code == 0 && run.err.contains(text), "{run:?}");
    let run = test_dir.run(&["alter", "shop", "prices", "--stream-size", "1M"]);
    assert!(run.err.contains("map prices: the stream has 1.00 MiB already"), "{run:?}");
    assert_eq!(test_dir.ok(&["get", "shop", "prices", "apple"]), "3");
    assert!(test_dir.ok(&["check", "shop"]).starts_with("ok"));
}

/// No change is lost while streams begin and end: a replica has all of them in the end.
#[test]
fn a_replica_follows_while_the_stream_changes_its_size() {
    let test_dir = shop();
    let listen = ["origin", "shop", "prices", "--listen", "unix:./sock", "--format", "json"];
    let mut origin = Background::start(&test_dir, &listen);
    origin.line();
    let replica = Background::start(&test_dir, &["replica", "unix:./sock", "copy", "prices"]);
    let writer = {
        let map = test_dir.map("shop", "prices");
        std::thread::spawn(move || {
            for number in 0..20_000u32 {
                map.set(number.to_le_bytes(), number.to_string()).unwrap();
            }
            map.len().unwrap()
        })
    };
    let mut sizes = ["64K", "1M", "128K"].iter().cycle();
    while !writer.is_finished() {
        alter(&test_dir, sizes.next().unwrap());
    }
    let pairs = writer.join().unwrap();
    assert_eq!(pairs, 20_001);
    let all = ["wait", "shop", "prices", "--replicas", "1", "--timeout", "20s"];
    test_dir.ok(&all);
    assert_eq!(test_dir.map_len("copy", "prices"), pairs);
    assert!(test_dir.ok(&["check", "shop"]).starts_with("ok"));
    replica.kill();
    origin.kill();
}

#[test]
fn what_cannot_be_changed_is_an_error() {
    let test_dir = shop();
    let fails = |code: i32, more: &[&str]| {
        test_dir.fails(code, &[&["alter", "shop", "prices"], more].concat())
    };
    let fixed = [
        (&["--cache"][..], "--cache: the kind of a map is fixed"),
        (&["--fixed", "4,8"], "--fixed: the kind of a map is fixed"),
        (&["--cache-max-bytes", "1M"], "--cache-max-bytes: a limit of a cache is fixed"),
        (&["--cache-max-entries", "5"], "--cache-max-entries: a limit of a cache is fixed"),
        (&["--cache-ttl", "5s"], "--cache-ttl: the default time to live of a cache is fixed"),
    ];
    for (more, expected) in fixed {
        // Nothing else that the command line asks for is done.
        let err = fails(2, &[more, &["--stream-size", "1M"]].concat());
        assert!(err.contains(expected), "{err}");
        assert!(err.contains("'hold dump shop prices -o FILE'"), "{err}");
    }
    assert!(fails(2, &[]).contains("expected the property to change: --stream-size SIZE"));
    for size in ["0", "1K", "5G", "x"] {
        assert!(fails(2, &["--stream-size", size]).contains("--stream-size"), "{size}");
    }
    assert_eq!(test_dir.json(&["stat", "shop", "prices"])["stream"], json!(null));
    let err = test_dir.fails(3, &["alter", "shop", "none", "--stream-size", "1M"]);
    assert!(err.contains("none"), "{err}");
}
