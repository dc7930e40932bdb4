//! `hold replica --prefix`: a part of a map.

use super::{follow, hears, origin, sees, shop, stop};
use crate::support::TestDir;
use crate::support::background::{Background, until};
use serde_json::Value;

fn pairs(test_dir: &TestDir, hold: &str) -> Vec<String> {
    let out = test_dir.ok(&["scan", hold, "prices"]);
    let mut lines: Vec<_> = out.lines().map(str::to_owned).collect();
    lines.sort();
    lines
}

#[test]
fn a_part_of_a_map_is_replicated_compared_and_shown() {
    let test_dir = shop();
    for (key, value) in [("fruit:apple", "3"), ("fruit:pear", "5"), ("nut:hazel", "9")] {
        test_dir.ok(&["set", "shop", "prices", key, value]);
    }
    let (first, _) = origin(&test_dir, &["--listen", "unix:./sock"]);
    let options = ["--prefix", "fruit:", "--name", "near"];
    let mut replica = follow(&test_dir, "unix:./sock", "copy", &options);
    hears(&mut replica, "ready");
    assert_eq!(pairs(&test_dir, "copy"), ["fruit:apple\t3", "fruit:pear\t5"]);
    test_dir.ok(&["set", "shop", "prices", "nut:hazel", "10"]);
    test_dir.ok(&["set", "shop", "prices", "fruit:fig", "7"]);
    test_dir.ok(&["set", "shop", "prices", "nut:wal", "11"]);
    test_dir.ok(&["wait", "shop", "prices", "--replica", "near"]);
    assert_eq!(pairs(&test_dir, "copy"), ["fruit:apple\t3", "fruit:fig\t7", "fruit:pear\t5"]);

    let here = ["stat", "copy", "prices"];
    until(&test_dir, &here, |stat| stat["replicas"][0]["prefix"] == "fruit:");
    let text = test_dir.ok(&here);
    assert!(text.contains("those that begin with 'fruit:'"), "{text}");
    let there = ["stat", "shop", "prices"];
    until(&test_dir, &there, |stat| stat["origins"][0]["replicas"][0]["prefix"] == "fruit:");
    let text = test_dir.ok(&there);
    assert!(text.contains(", prefix 'fruit:'"), "{text}");

    let verify = ["verify", "unix:./sock", "copy", "prices"];
    let text = test_dir.ok(&verify);
    assert!(text.contains("for the keys that begin with 'fruit:': 3 pairs"), "{text}");
    let found: Value = test_dir.json(&verify);
    assert_eq!((&found["equal"], &found["prefix"]), (&true.into(), &"fruit:".into()));
    assert_eq!(stop(replica), "");

    // Another prefix, or none; an origin; a promotion.
    let again = ["replica", "unix:./sock", "copy", "prices"];
    let err = test_dir.fails(3, &again);
    assert!(
        err.contains("replicates the keys that begin with 'fruit:', and now all keys"),
        "{err}"
    );
    let err = test_dir.fails(3, &[&again[..], &["--prefix", "nut:"]].concat());
    assert!(
        err.contains("now the keys that begin with 'nut:'") && err.contains("hold drop"),
        "{err}"
    );
    let err = test_dir.fails(3, &["origin", "copy", "prices", "--listen", "unix:./other"]);
    assert!(err.contains("cannot serve replicas"), "{err}");
    let err = test_dir.fails(3, &["promote", "copy", "prices"]);
    assert!(err.contains("cannot become the origin"), "{err}");
    test_dir.ok(&["drop", "copy", "prices", "--yes"]);
    let mut replica = follow(&test_dir, "unix:./sock", "copy", &["--prefix", "6e75", "--hex"]);
    hears(&mut replica, "ready");
    sees(&test_dir, "copy", "nut:wal", "11");
    assert_eq!(pairs(&test_dir, "copy").len(), 2);
    stop(replica);
    stop(first);
}

#[test]
fn prefixes_that_make_no_sense_are_refused() {
    let test_dir = shop();
    let to = ["replica", "unix:./sock", "copy"];
    let err = test_dir.fails(2, &[&to[..], &["--prefix", "a"]].concat());
    assert!(err.contains("MAP"), "{err}");
    let err = test_dir.fails(2, &[&to[..], &["prices", "--hex"]].concat());
    assert!(err.contains("--prefix"), "{err}");
    let err = test_dir.fails(2, &[&to[..], &["prices", "--prefix", "xy", "--hex"]].concat());
    assert!(err.contains("xy"), "{err}");
    let err = test_dir.fails(3, &[&to[..], &["prices", "--prefix", ""]].concat());
    assert!(err.contains("a prefix of 0 bytes; expected 1 to 255"), "{err}");
    let err = test_dir.fails(3, &[&to[..], &["prices", "--prefix", &"n".repeat(256)]].concat());
    assert!(err.contains("a prefix of 256 bytes; expected 1 to 255"), "{err}");
}

/// The hold's origin serves the map by prefix, and a replica of the whole hold skips the part.
#[test]
fn a_part_of_a_map_of_a_whole_hold() {
    let test_dir = shop();
    test_dir.ok(&["set", "shop", "prices", "pear", "5"]);
    let whole = ["origin", "shop", "--listen", "unix:./sock", "--format", "json"];
    let (first, _) = super::listening(Background::start(&test_dir, &whole));
    let mut part = follow(&test_dir, "unix:./sock", "copy", &["--prefix", "p"]);
    hears(&mut part, "ready");
    assert_eq!(pairs(&test_dir, "copy"), ["pear\t5"]);
    stop(part);
    let all = ["replica", "unix:./sock", "copy", "--format", "json"];
    let mut all = Background::start(&test_dir, &all);
    let skipped = hears(&mut all, "skipped");
    let why = skipped["why"].as_str().unwrap_or_default();
    assert!(why.contains("replicates the keys that begin with 'p', and now all keys"), "{skipped}");
    stop(all);
    stop(first);
    assert_eq!(pairs(&test_dir, "copy"), ["pear\t5"]);
}
