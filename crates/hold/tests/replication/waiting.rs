//! `hold wait`: a writer's shell script continues when replicas have its change.

use super::{follow, hears, origin, shop, stop};
use crate::support::TestDir;
use crate::support::background::until;
use rustix::process::Signal;
use serde_json::json;

/// Sets a price, and waits until a replica has it.
fn set_and_wait(test_dir: &TestDir, price: &str, options: &[&str]) {
    test_dir.ok(&["set", "shop", "prices", "apple", price]);
    let out = test_dir.ok(&[&["wait", "shop", "prices"][..], options].concat());
    assert_eq!(out, "");
}

#[test]
fn a_script_waits_for_replicas() {
    let test_dir = shop();
    let err = test_dir.fails(3, &["wait", "shop", "prices"]);
    assert!(err.contains("no stream"), "{err}");
    let (first, _) = origin(&test_dir, &["--listen", "unix:./sock"]);
    let briefly = ["wait", "shop", "prices", "--timeout", "10ms"];
    let err = test_dir.fails(1, &briefly);
    assert!(err.contains("timed out: 0 of 1 replicas have applied all changes"), "{err}");
    let run = test_dir.run(&[&briefly[..], &["--quiet"]].concat());
    assert_eq!((run.code, run.err.as_str()), (1, ""));
    let err = test_dir.fails(3, &[&briefly[..], &["--replica", ""]].concat());
    assert!(err.contains("expected a replica's name"), "{err}");

    let mut near = follow(&test_dir, "unix:./sock", "near", &["--name", "near"]);
    hears(&mut near, "ready");
    for price in ["4", "5", "6"] {
        set_and_wait(&test_dir, price, &[]);
        assert_eq!(test_dir.ok(&["get", "near", "prices", "apple"]), price);
    }
    set_and_wait(&test_dir, "7", &["--replica", "near"]);
    assert_eq!(test_dir.ok(&["get", "near", "prices", "apple"]), "7");
    let said = test_dir.json(&["wait", "shop", "prices", "--replicas", "1"]);
    assert_eq!(said["replicas"], 1);
    assert!(said["position"].as_str().is_some_and(|at| at.contains('.')), "{said}");
    let said = test_dir.json(&["wait", "shop", "prices", "--replica", "near"]);
    assert_eq!((&said["replica"], &said["replicas"]), (&json!("near"), &json!(null)));

    let err = test_dir.fails(1, &[&briefly[..], &["--replicas", "2"]].concat());
    assert!(err.contains("1 of 2 replicas"), "{err}");
    let err = test_dir.fails(1, &[&briefly[..], &["--replica", "far"]].concat());
    assert!(err.contains("no replica with the name 'far'"), "{err}");
    // A replica that stands still.
    near.signal(Signal::STOP);
    test_dir.ok(&["set", "shop", "prices", "apple", "8"]);
    let err = test_dir.fails(1, &[&briefly[..], &["--replica", "near"]].concat());
    assert!(err.contains("the replica 'near' has not applied all changes"), "{err}");
    near.signal(Signal::CONT);
    test_dir.ok(&["wait", "shop", "prices", "--replica", "near"]);
    assert_eq!(test_dir.ok(&["get", "near", "prices", "apple"]), "8");

    until(&test_dir, &["stat", "shop", "prices"], |stat| {
        stat["origins"][0]["replicas"][0]["name"] == "near"
    });
    assert!(test_dir.ok(&["stat", "shop", "prices"]).contains("near (unix:"));
    stop(near);
    stop(first);
}

#[test]
fn wrong_names_and_numbers_are_refused() {
    let test_dir = shop();
    let long = "n".repeat(65);
    let replica = ["replica", "unix:./sock", "copy", "prices", "--name"];
    let err = test_dir.fails(3, &[&replica[..], &[&long]].concat());
    assert!(err.contains("at most 64 bytes"), "{err}");
    let wait = ["wait", "shop", "prices"];
    for wrong in [&["--replicas", "few"][..], &["--replicas", "2", "--replica", "near"]] {
        test_dir.fails(2, &[&wait[..], wrong].concat());
    }
}
