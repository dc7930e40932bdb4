//! All maps of a hold, recorded by one command, and rebuilt by one.

use super::{hears, stop};
use crate::support::TestDir;
use crate::support::background::{Background, until};
use rustix::process::Signal;
use serde_json::Value;

/// A test directory with a hold `shop` that has these maps, each with one pair.
fn shop(maps: &[&str]) -> TestDir {
    let test_dir = TestDir::new();
    maps.iter().for_each(|map| drop(test_dir.ok(&["set", "shop", map, "name", map])));
    test_dir
}

/// The journals of `shop`, once they run.
fn journals(test_dir: &TestDir, options: &[&str]) -> Background {
    let fixed = ["journal", "run", "shop", "./all", "--stream-size", "1M", "--format", "json"];
    let mut journals = Background::start(test_dir, &[&fixed[..], options].concat());
    hears(&mut journals, "journal");
    journals
}

/// Waits until it reports this event of a map.
fn hears_of(journals: &mut Background, event: &str, map: &str) -> Value {
    loop {
        let said = hears(journals, event);
        if said["map"] == map {
            return said;
        }
    }
}

/// Waits until the change of a map is durable: its journal may not have begun yet.
fn sync(test_dir: &TestDir, map: &str) {
    until(test_dir, &["stat", "shop"], |stat| {
        let all = stat["journals"].as_array().expect("a list");
        all.iter().any(|journal| journal["map"] == map && journal["durable"].is_string())
    });
    test_dir.ok(&["sync", "shop", map]);
}

#[test]
fn all_maps_are_recorded_and_rebuilt() {
    let test_dir = shop(&["apples", "pears"]);
    test_dir.ok(&["set", "shop", "cache", "--cache", "a", "b"]);
    let mut first = journals(&test_dir, &["--keep", "7d"]);
    hears_of(&mut first, "recorded", "apples");
    let skipped = hears_of(&mut first, "skipped", "cache");
    assert!(skipped["why"].as_str().expect("a reason").contains("cache"), "{skipped}");
    hears_of(&mut first, "recorded", "pears");
    test_dir.ok(&["set", "shop", "session:a/b", "name", "x"]);
    hears_of(&mut first, "recorded", "session:a/b");
    for map in ["apples", "pears", "session:a/b"] {
        sync(&test_dir, map);
    }
    let other = ["journal", "run", "shop", "./all"];
    let err = test_dir.fails(3, &other);
    assert!(err.contains(&format!("({})", first.pid())) && err.contains("directory"), "{err}");
    test_dir.ok(&["drop", "shop", "pears", "--yes"]);
    hears_of(&mut first, "dropped", "pears");
    first.signal(Signal::KILL);
    first.end();
    let verified = test_dir.ok(&["journal", "verify", "./all"]);
    assert!(verified.contains("all/session%3Aa%2Fb.journal: map 'session:a/b'"), "{verified}");
    assert!(verified.contains("all/pears.journal"), "{verified}");
    // As after a system crash.
    test_dir.ok(&["drop", "shop", "--yes"]);
    let mut second = journals(&test_dir, &["--sync", "every-ms", "5"]);
    hears_of(&mut second, "rebuilt", "apples");
    hears_of(&mut second, "rebuilt", "session:a/b");
    assert_eq!(test_dir.ok(&["get", "shop", "session:a/b", "name"]), "x");
    assert_eq!(test_dir.run(&["get", "shop", "pears", "name"]).code, 3);
    assert_eq!(stop(second), "");

    let rebuild = ["journal", "rebuild", "again", "./all"];
    let out = test_dir.ok(&[&rebuild[..], &["--format", "json"]].concat());
    let said: Vec<Value> =
        out.lines().map(|line| serde_json::from_str(line).expect("an object")).collect();
    let of = |map: &str| said.iter().find(|event| event["map"] == map).expect("an event");
    assert_eq!(of("apples")["event"], "rebuilt");
    assert_eq!(
        (&of("pears")["event"], &of("pears")["why"]),
        (&"left_out".into(), &"it was dropped".into())
    );
    assert_eq!(test_dir.ok(&["get", "again", "apples", "name"]), "apples");
    // Each of them exists now.
    let run = test_dir.run(&rebuild);
    assert!(run.code == 3 && run.err.contains("map apples: cannot be rebuilt"), "{run:?}");
    assert!(run.err.ends_with("hold: 2 maps could not be rebuilt\n"), "{run:?}");
    test_dir.ok(&[&rebuild[..], &["--drop", "--maps", "a*"]].concat());
    let err = test_dir.fails(3, &[&rebuild[..], &["--at", "1999-01-01 10:00"]].concat());
    assert!(err.contains("nothing was recorded before"), "{err}");
}

#[test]
fn mistakes_are_explained() {
    let test_dir = shop(&["apples"]);
    let err = test_dir.fails(2, &["journal", "rebuild", "again", "apples"]);
    assert!(err.contains("name its journal file, too"), "{err}");
    std::fs::create_dir(test_dir.path("empty")).expect("a directory");
    let err = test_dir.fails(3, &["journal", "rebuild", "again", "./empty"]);
    assert!(err.contains("found no catalogue"), "{err}");
    assert!(!test_dir.path("again.hold").exists());
    let err = test_dir.fails(2, &["journal", "run", "shop", "./all", "7"]);
    assert!(err.contains("expected the arguments HOLD DIR, got one more"), "{err}");
    let err = test_dir.fails(3, &["journal", "run", "missing", "./all"]);
    assert!(err.contains("missing"), "{err}");
    assert!(!test_dir.path("all").exists());
    // One map fails, and the other does not.
    test_dir.ok(&["set", "shop", "bad", "name", "x"]);
    std::fs::create_dir_all(test_dir.path("all/bad.journal")).expect("a directory");
    let mut running = journals(&test_dir, &[]);
    let error = hears_of(&mut running, "error", "bad");
    assert!(error["why"].as_str().expect("a reason").contains("bad.journal"), "{error}");
    sync(&test_dir, "apples");
    until(&test_dir, &["stat", "shop", "bad"], |stat| stat["journals"][0]["error"].is_string());
    running.signal(Signal::TERM);
    let run = running.end();
    assert!(run.code == 3 && run.err.contains("map 'bad'"), "{run:?}");
}
