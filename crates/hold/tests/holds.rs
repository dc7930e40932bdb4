//! The hold as a whole: stat, list, check, repair, backup, restore, drop.

use crate::support::terminal::PseudoTerminal;
use crate::support::{Run, TestDir, pairs_of};
use commonhold::Hold;
use commonhold::channel::ChannelOptions;
use commonhold::log::LogOptions;
use commonhold::queue::QueueOptions;
use serde_json::json;
use std::process::Stdio;

/// A test directory with a hold `shop` that has a map `prices` of 1,000 pairs.
fn shop() -> TestDir {
    let test_dir = TestDir::new();
    let map = test_dir.map("shop", "prices");
    for number in 0..1000 {
        map.set(format!("key {number}"), number.to_string()).unwrap();
    }
    test_dir
}

#[test]
fn stat_shows_hold_maps_and_participants() {
    let test_dir = shop();
    let map = test_dir.map("shop", "prices");
    let text = test_dir.ok(&["stat", "shop"]);
    for word in ["shop.hold", "uuid", "memory", "prices", "general", "1,000", "PID"] {
        assert!(text.contains(word), "no {word} in {text}");
    }
    let stat = test_dir.json(&["stat", "shop"]);
    assert_eq!(stat["hold"]["maps"], 1);
    assert_eq!(stat["maps"][0]["pairs"], 1000);
    let me = |p: &&serde_json::Value| p["pid"] == std::process::id();
    let participants = stat["participants"].as_array().expect("participants");
    assert!(participants.iter().find(me).expect("this process")["alive"] == true);
    drop(map);
    let one = test_dir.json(&["stat", "shop", "prices"]);
    assert_eq!((&one["name"], &one["pairs"]), (&json!("prices"), &json!(1000)));
    assert!(test_dir.ok(&["stat", "shop", "prices"]).contains("bytes/pair"));
    assert!(test_dir.fails(3, &["stat", "shop", "none"]).contains("none"));
}

#[test]
fn lists_show_holds_and_maps() {
    let test_dir = shop();
    test_dir.map("another", "x");
    test_dir.file("broken.hold", "no hold at all");
    let holds = test_dir.json(&["list"]);
    let names: Vec<_> = holds.as_array().expect("holds").iter().map(|h| &h["name"]).collect();
    assert_eq!(names, ["another", "broken", "shop"]);
    assert_eq!(holds[2]["problem"], serde_json::Value::Null);
    assert!(holds[1]["problem"].is_string());
    let text = test_dir.ok(&["list"]);
    assert!(text.starts_with("HOLD"), "{text}");
    let mode = json!({"kind": "general"});
    let map =
        json!({"kind": "map", "name": "prices", "mode": mode, "pairs": 1000, "replica": false});
    assert_eq!(test_dir.json(&["list", "shop"]), json!([map]));
    assert!(test_dir.ok(&["ls", "shop"]).contains("prices  general  1,000"));
    let empty = TestDir::new();
    assert_eq!(empty.ok(&["list"]), "no holds\n");
    assert_eq!(empty.json(&["list"]), json!([]));
}

#[test]
fn a_sound_hold_is_checked_and_repaired() {
    let test_dir = shop();
    let text = test_dir.ok(&["check", "shop"]);
    assert!(text.starts_with("ok: 1 map, 1,000 records, 0 queues, channels and logs;"), "{text}");
    test_dir.ok(&["queue", "create", "shop", "jobs"]);
    assert!(test_dir.ok(&["check", "shop"]).contains(", 1 queue, channel or log; "));
    assert_eq!(test_dir.json(&["check", "shop"])["others"], 1);
    let report = test_dir.json(&["check", "shop"]);
    assert_eq!(report["ok"], true);
    assert_eq!(report["problems"], json!([]));
    assert_eq!(report["allocated"], report["reachable"]);
    assert_eq!(test_dir.ok(&["check", "-q", "shop"]), "");
    assert!(test_dir.ok(&["repair", "shop"]).contains("\nok: 1 map, 1,000 records"));
    let repaired = test_dir.json(&["repair", "shop"]);
    assert_eq!((&repaired["recovered"], &repaired["check"]["ok"]), (&json!(0), &json!(true)));
}

#[test]
fn a_sound_hold_is_salvaged_by_force_only() {
    let test_dir = TestDir::new();
    test_dir.ok(&["set", "./shop.hold", "prices", "apple", "3"]);
    test_dir.ok(&["queue", "create", "./shop.hold", "jobs"]);
    test_dir.ok(&["queue", "push", "./shop.hold", "jobs", "full", "first"]);
    let err = test_dir.fails(3, &["repair", "./shop.hold", "--salvage"]);
    assert!(err.contains("is sound") && err.contains("--force"), "{err}");
    assert_eq!(test_dir.leftovers(&["shop.hold"]), Vec::<String>::new());
    assert_eq!(test_dir.ok(&["queue", "pull", "./shop.hold", "jobs", "full"]), "first\n");
    assert!(test_dir.fails(2, &["repair", "./shop.hold", "--force"]).contains("--salvage"));
    let report = test_dir.json(&["repair", "./shop.hold", "--salvage", "--force"]);
    assert_eq!(report["kept"], 1);
    let old = report["kept_old_as"].as_str().expect("a path");
    assert!(std::path::Path::new(&test_dir.path(old)).exists(), "{old}");
    assert_eq!(test_dir.ok(&["get", "./shop.hold", "prices", "apple"]), "3");
}

#[test]
fn a_file_that_is_not_a_hold_is_named() {
    let test_dir = TestDir::new();
    test_dir.file("broken.hold", "no hold at all");
    std::fs::create_dir(test_dir.path("folder.hold")).expect("a directory");
    for subcommand in ["stat", "check", "repair"] {
        assert!(test_dir.fails(3, &[subcommand, "broken"]).contains("broken.hold"), "{subcommand}");
        assert!(test_dir.fails(3, &[subcommand, "folder"]).contains("folder.hold"), "{subcommand}");
        assert!(test_dir.fails(3, &[subcommand, "none"]).contains("none.hold"), "{subcommand}");
    }
}

#[test]
fn a_backup_is_restored_pair_by_pair() {
    let test_dir = shop();
    let map = test_dir.map("shop", "prices");
    map.set(b"\0\xff", b"\xff\0").unwrap();
    let report = test_dir.json(&["backup", "shop", "shop.backup"]);
    assert_eq!((&report["maps"], &report["pairs"]), (&json!(1), &json!(1001)));
    test_dir.ok(&["set", "shop", "prices", "key 1", "changed"]);
    let restored = test_dir.json(&["restore", "shop.backup", "./copy.hold"]);
    assert_eq!(restored["pairs"], 1001);
    assert_eq!(test_dir.ok(&["get", "./copy.hold", "prices", "key 1"]), "1");
    test_dir.ok(&["set", "shop", "prices", "key 1", "1"]);
    assert_eq!(pairs_of(&test_dir.map("copy", "prices")), pairs_of(&map));
    let err = test_dir.fails(3, &["restore", "shop.backup", "./copy.hold"]);
    assert!(err.contains("copy.hold"), "{err}");
    let err = test_dir.fails(3, &["restore", "none.backup", "other"]);
    assert!(err.contains("none.backup"), "{err}");
    test_dir.file("bad.backup", "no backup at all");
    assert!(test_dir.fails(3, &["restore", "bad.backup", "other"]).contains("bad.backup"));
    assert!(!test_dir.path("other.hold").exists());
    assert!(test_dir.ok(&["check", "./copy.hold"]).starts_with("ok"));
}

#[test]
fn maps_and_holds_are_dropped_with_a_yes_only() {
    let test_dir = shop();
    assert!(test_dir.fails(2, &["drop", "shop", "prices"]).contains("--yes"));
    assert_eq!(test_dir.json(&["drop", "shop", "prices", "--yes"]), json!({"dropped": true}));
    let run = test_dir.run(&["drop", "shop", "prices", "--yes"]);
    assert_eq!(run.code, 1);
    assert!(run.err.contains("has no structure 'prices'"), "{run:?}");
    assert_eq!(test_dir.ok(&["list", "shop"]), "no maps\n");
    assert!(test_dir.fails(2, &["drop", "shop"]).contains("--yes"));
    test_dir.ok(&["drop", "shop", "--yes"]);
    assert!(!test_dir.path("shop.hold").exists());
    let run = test_dir.run(&["drop", "shop", "--yes"]);
    assert_eq!((run.code, run.out.as_str()), (1, ""));
}

#[test]
fn queues_channels_and_logs_are_listed_and_dropped() {
    let test_dir = shop();
    let hold = Hold::open(test_dir.path("shop.hold")).unwrap();
    drop(hold.queues().open_or_create("jobs", QueueOptions::new(10, 100)).unwrap());
    drop(hold.logs().open_or_create("events", LogOptions::new()).unwrap());
    let ticks = hold.channels().open_or_create("ticks", ChannelOptions::new(1 << 16)).unwrap();
    let list = test_dir.ok(&["list", "shop"]);
    for (name, kind) in [("jobs", "queue"), ("ticks", "channel"), ("events", "log")] {
        let line = list.lines().find(|line| line.starts_with(name)).expect("a line for each");
        assert!(line.contains(kind), "{list}");
        assert!(test_dir.ok(&["stat", "shop"]).contains(name));
    }
    let err = test_dir.fails(3, &["drop", "shop", "ticks", "--yes"]);
    assert!(err.contains(&format!("process {}", std::process::id())), "{err}");
    drop(ticks);
    for name in ["jobs", "ticks", "events"] {
        assert!(test_dir.fails(2, &["drop", "shop", name]).contains(name));
        assert_eq!(test_dir.json(&["drop", "shop", name, "--yes"]), json!({"dropped": true}));
        let run = test_dir.run(&["drop", "shop", name, "--yes"]);
        assert_eq!(run.code, 1, "{run:?}");
    }
    assert_eq!(test_dir.json(&["list", "shop"]).as_array().map(Vec::len), Some(1));
    assert!(test_dir.ok(&["check", "shop"]).starts_with("ok"));
}

#[test]
fn a_hold_in_use_is_dropped_by_force_only() {
    let test_dir = shop();
    let map = test_dir.map("shop", "prices");
    let err = test_dir.fails(3, &["drop", "shop", "--yes"]);
    assert!(err.contains("shop.hold"), "{err}");
    test_dir.ok(&["drop", "shop", "--force"]);
    assert!(!test_dir.path("shop.hold").exists());
    assert_eq!(map.get("key 7").unwrap().as_deref(), Some(&b"7"[..]));
}

/// Runs `hold` with a terminal as standard input on which `typed` is typed.
fn on_a_terminal(test_dir: &TestDir, args: &[&str], typed: &str) -> Run {
    let mut terminal = PseudoTerminal::open();
    let mut command = test_dir.command(args);
    command.stdin(terminal.other_side());
    let child = command.stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().expect("a start");
    terminal.type_text(typed);
    Run::of(child.wait_with_output().expect("an end"))
}

#[test]
fn on_a_terminal_drop_asks() {
    let test_dir = shop();
    let run = on_a_terminal(&test_dir, &["drop", "shop", "prices"], "n\n");
    assert_eq!(run.code, 1, "{run:?}");
    assert!(run.err.starts_with("Delete map prices of "), "{run:?}");
    assert!(run.err.contains("was not deleted"), "{run:?}");
    let run = on_a_terminal(&test_dir, &["drop", "shop", "prices"], "\n");
    assert_eq!(run.code, 1, "{run:?}");
    assert_eq!(test_dir.json(&["list", "shop"])[0]["pairs"], 1000);
    let run = on_a_terminal(&test_dir, &["drop", "shop"], "y\n");
    assert_eq!(run.code, 0, "{run:?}");
    assert!(!test_dir.path("shop.hold").exists());
}

#[test]
fn a_value_left_out_on_a_terminal_is_a_mistake() {
    let test_dir = shop();
    let run = on_a_terminal(&test_dir, &["set", "shop", "prices", "key 1"], "");
    assert_eq!(run.code, 2, "{run:?}");
    assert!(run.err.contains("the value is missing"), "{run:?}");
    let run = on_a_terminal(&test_dir, &["set", "shop", "prices", "key 1", "-"], "typed\n\u{4}");
    assert_eq!(run.code, 0, "{run:?}");
    assert_eq!(test_dir.ok(&["get", "shop", "prices", "key 1"]), "typed\n");
}
