//! All maps of a hold, served and followed by one command each.

use super::{SECRET, hears, listening, stop};
use crate::support::TestDir;
use crate::support::background::{Background, until};
use serde_json::{Value, json};
use std::os::unix::fs::PermissionsExt;

/// A test directory with a hold `shop` that has these maps, each with one pair.
fn shop(maps: &[&str]) -> TestDir {
    let test_dir = TestDir::new();
    maps.iter().for_each(|map| drop(test_dir.ok(&["set", "shop", map, "name", map])));
    test_dir
}

/// An origin of the hold, once it listens.
fn origin(test_dir: &TestDir, options: &[&str]) -> Background {
    let fixed = ["origin", "shop", "--stream-size", "1M", "--listen", "unix:./sock"];
    let (origin, addresses) = listening(Background::start(
        test_dir,
        &[&fixed[..], &["--format", "json"], options].concat(),
    ));
    assert_eq!(addresses, ["unix:./sock"]);
    origin
}

fn follow(test_dir: &TestDir, options: &[&str]) -> Background {
    let fixed = ["replica", "unix:./sock", "copy", "--format", "json"];
    Background::start(test_dir, &[&fixed[..], options].concat())
}

/// Waits until it reports this event of a map.
fn hears_of(replica: &mut Background, event: &str, map: &str) -> Value {
    loop {
        let said = hears(replica, event);
        if said["map"] == map {
            return said;
        }
    }
}

/// The names of the maps that `hold stat` shows as replicas.
fn replicas(stat: &Value) -> Vec<&str> {
    let all = stat["replicas"].as_array().expect("a list").iter();
    all.map(|replica| replica["map"].as_str().expect("a name")).collect()
}

#[test]
fn a_hold_is_served_and_followed_and_each_map_is_shown() {
    let test_dir = shop(&["apples", "pears"]);
    let serves = origin(&test_dir, &[]);
    let mut replica = follow(&test_dir, &[]);
    hears(&mut replica, "ready");
    hears(&mut replica, "ready");
    assert_eq!(test_dir.ok(&["get", "copy", "pears", "name"]), "pears");
    test_dir.ok(&["set", "shop", "plums", "name", "plums"]);
    hears_of(&mut replica, "ready", "plums");
    test_dir.ok(&["wait", "shop", "plums", "--timeout", "2m"]);
    test_dir.ok(&["verify", "unix:./sock", "copy", "plums"]);
    let stat = until(&test_dir, &["stat", "copy"], |stat| replicas(stat).len() == 3);
    assert_eq!(replicas(&stat), ["apples", "pears", "plums"]);
    until(&test_dir, &["stat", "copy"], |stat| stat["hold_replicas"][0]["followed"] == 3);
    let text = test_dir.ok(&["stat", "copy"]);
    assert!(text.contains("all maps of  unix:./sock") && text.contains("follows"), "{text}");
    let stat = until(&test_dir, &["stat", "shop"], |stat| {
        let origins = stat["origins"].as_array().expect("a list");
        origins.len() == 3 && origins.iter().all(|o| o["replicas"][0]["state"] == "following")
    });
    assert_eq!(stat["origins"][1]["listens"], json!(["unix:./sock"]));

    test_dir.ok(&["drop", "shop", "pears", "--yes"]);
    hears_of(&mut replica, "dropped", "pears");
    let is_shown = |stat: &Value| stat["hold_replicas"][0]["dropped"] == json!(["pears"]);
    until(&test_dir, &["stat", "copy"], is_shown);
    until(&test_dir, &["stat", "copy", "pears"], |stat| {
        let why = stat["replicas"][0]["last_error"].as_str().unwrap_or_default();
        why.starts_with("dropped at the origin; the local map stays")
    });
    assert_eq!(test_dir.ok(&["get", "copy", "pears", "name"]), "pears");
    // Its replica no longer runs.
    test_dir.ok(&["promote", "copy", "pears"]);
    let err = test_dir.fails(3, &["promote", "copy", "apples"]);
    assert!(err.contains(&format!("process {}", replica.pid())), "{err}");
    assert_eq!(stop(replica), "");
    test_dir.ok(&["promote", "copy", "apples"]);
    test_dir.ok(&["set", "copy", "apples", "own", "1"]);
    let err = stop(serves);
    assert!(err.contains("hold origin: map 'plums': unix:pid "), "{err}");
    assert!(err.contains("hold origin: map 'pears': was dropped"), "{err}");
    assert!(!test_dir.path("sock").exists());
    assert_eq!(test_dir.leftovers(&["shop.hold", "copy.hold"]), Vec::<String>::new());
}

#[test]
fn patterns_and_one_map_of_a_hold() {
    let test_dir = shop(&["apples", "session:1", "session:2", "user:1"]);
    let _serves = origin(&test_dir, &["--maps", "session:*", "--maps", "user:?"]);
    test_dir.ok(&["replica", "unix:./sock", "copy", "--maps", "*:1", "--once"]);
    let maps = test_dir.json(&["list", "copy"]);
    let maps: Vec<_> = maps.as_array().expect("a list").iter().map(|map| &map["name"]).collect();
    assert_eq!(maps, ["session:1", "user:1"]);
    test_dir.ok(&["replica", "unix:./sock", "copy", "session:2", "--once"]);
    assert_eq!(test_dir.ok(&["get", "copy", "session:2", "name"]), "session:2");
    let once = ["replica", "unix:./sock", "copy", "apples", "--once", "--timeout", "1s"];
    let run = test_dir.run(&once);
    assert_eq!(run.code, 1, "{run:?}");
    assert!(run.err.contains("does not serve a map 'apples'"), "{run:?}");
    for both in [["origin", "shop", "apples"], ["replica", "unix:./sock", "shop"]] {
        let map = if both[0] == "replica" { "apples" } else { "--listen=unix:./other" };
        let err = test_dir.fails(2, &[&both[..], &[map, "--maps", "a*"]].concat());
        assert!(err.contains("--maps"), "{err}");
    }
    test_dir.fails(2, &["origin", "shop", "--maps", "", "--listen", "unix:./other"]);
}

/// With `--once`, a map that is skipped makes the copy incomplete.
#[test]
fn an_ordinary_map_is_skipped_and_reported() {
    let test_dir = shop(&["apples", "pears"]);
    let _serves = origin(&test_dir, &[]);
    test_dir.ok(&["set", "copy", "pears", "own", "1"]);
    let run = test_dir.run(&["replica", "unix:./sock", "copy", "--once"]);
    assert_eq!(run.code, 1, "{run:?}");
    assert!(run.err.contains("hold replica: map pears: skipped: "), "{run:?}");
    assert!(run.err.contains("these maps were skipped: pears"), "{run:?}");
    assert_eq!(test_dir.ok(&["get", "copy", "apples", "name"]), "apples");
    assert_eq!(test_dir.ok(&["get", "copy", "pears", "own"]), "1");
    let mut replica = follow(&test_dir, &[]);
    let said = hears_of(&mut replica, "skipped", "pears");
    assert!(said["why"].as_str().expect("a reason").contains("'pears'"), "{said}");
    until(&test_dir, &["stat", "copy"], |stat| {
        stat["hold_replicas"][0]["skipped"] == json!(["pears"])
    });
    test_dir.ok(&["drop", "copy", "pears", "--yes"]);
    hears_of(&mut replica, "ready", "pears");
    assert_eq!(test_dir.ok(&["get", "copy", "pears", "name"]), "pears");
}

#[test]
fn a_hold_with_a_secret_and_an_origin_of_one_map() {
    let test_dir = shop(&["apples", "pears"]);
    let path = test_dir.file("secret", SECRET);
    std::fs::set_permissions(&path, std::fs::Permissions::from_mode(0o600)).expect("a mode");
    let serves = origin(&test_dir, &["--secret-file", "secret"]);
    let limited = ["replica", "unix:./sock", "copy", "--once", "--timeout", "1s"];
    let run = test_dir.run(&limited);
    assert_eq!(run.code, 1, "{run:?}");
    assert!(run.err.contains("requires a secret"), "{run:?}");
    assert_eq!(test_dir.json(&["list", "copy"]), json!([]));
    test_dir.ok(&["replica", "unix:./sock", "copy", "--once", "--secret-file", "secret"]);
    assert_eq!(test_dir.ok(&["get", "copy", "pears", "name"]), "pears");
    stop(serves);

    let one = ["origin", "shop", "apples", "--listen", "unix:./sock", "--format", "json"];
    let (_one, _) = listening(Background::start(&test_dir, &one));
    let run = test_dir.run(&["replica", "unix:./sock", "other", "--once", "--timeout", "1s"]);
    assert_eq!(run.code, 1, "{run:?}");
    assert!(run.err.contains("serves only the map 'apples'"), "{run:?}");
}
