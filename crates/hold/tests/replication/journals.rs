//! Journals as a user has them: each a process, and the map that is rebuilt from its file.

use super::{follow, hears, origin, sees, shop, stop};
use crate::support::TestDir;
use crate::support::background::{Background, until};
use rustix::process::Signal;

/// The journal of `shop prices`, once it runs.
fn journal(test_dir: &TestDir, options: &[&str]) -> Background {
    let fixed = ["journal", "shop", "prices", "./it.journal", "--format", "json"];
    let mut journal = Background::start(test_dir, &[&fixed[..], options].concat());
    hears(&mut journal, "journal");
    journal
}

#[test]
fn a_map_is_rebuilt_from_its_journal() {
    let test_dir = shop();
    let err = test_dir.fails(3, &["sync", "shop", "prices"]);
    assert!(err.contains("no stream") || err.contains("no journal"), "{err}");
    let first = journal(&test_dir, &[]);
    test_dir.ok(&["set", "shop", "prices", "pear", "5"]);
    test_dir.ok(&["sync", "shop", "prices"]);
    until(&test_dir, &["stat", "shop", "prices"], |stat| {
        stat["journals"][0]["durable"].is_string() && stat["journals"][0]["error"].is_null()
    });
    let text = test_dir.ok(&["stat", "shop", "prices"]);
    assert!(text.contains("journal of") && text.contains("durable to"), "{text}");
    let err = test_dir.fails(3, &["journal", "shop", "prices", "./other.journal"]);
    assert!(err.contains("already has a journal"), "{err}");
    first.signal(Signal::KILL);
    first.end();
    let err = test_dir.fails(3, &["sync", "shop", "prices"]);
    assert!(err.contains("no running journal"), "{err}");
    // As after a system crash: the contents of memory are gone.
    test_dir.ok(&["drop", "shop", "--yes"]);
    let second = journal(&test_dir, &["--sync", "every-ms", "5"]);
    assert_eq!(test_dir.ok(&["get", "shop", "prices", "pear"]), "5");
    assert_eq!(test_dir.ok(&["get", "shop", "prices", "apple"]), "3");
    test_dir.ok(&["set", "shop", "prices", "plum", "7"]);
    test_dir.ok(&["sync", "shop", "prices"]);
    let said = stop(second);
    assert!(!said.contains("error"), "{said}");
    // Another map of this name is not the journal's.
    test_dir.ok(&["drop", "shop", "prices", "--yes"]);
    test_dir.ok(&["set", "shop", "prices", "new", "1"]);
    let err = test_dir.fails(3, &["journal", "shop", "prices", "./it.journal"]);
    assert!(err.contains("rebuild the map from it"), "{err}");
    let rebuild = ["journal", "rebuild", "shop", "prices", "./it.journal"];
    let err = test_dir.fails(3, &rebuild);
    assert!(err.contains("drop it first"), "{err}");
    test_dir.ok(&[&rebuild[..], &["--drop"]].concat());
    assert_eq!(test_dir.ok(&["get", "shop", "prices", "plum"]), "7");
    assert!(!test_dir.ok(&["keys", "shop", "prices"]).contains("new"));
    for wrong in [&["--sync", "sometimes"][..], &["--sync", "every-ms", "0"], &["7"]] {
        let keep = ["journal", "shop", "prices", "./it.journal"];
        let err = test_dir.fails(2, &[&keep[..], wrong].concat());
        assert!(err.contains("expected always") || err.contains("got one more"), "{err}");
    }
}

#[test]
fn a_damaged_journal_is_reported_and_kept() {
    let test_dir = shop();
    let first = journal(&test_dir, &[]);
    for key in ["pear", "plum", "lemon"] {
        test_dir.ok(&["set", "shop", "prices", key, "5"]);
    }
    test_dir.ok(&["sync", "shop", "prices"]);
    stop(first);
    let verify = ["journal", "verify", "./it.journal"];
    let sound = test_dir.ok(&verify);
    assert!(sound.contains("3 later changes") && !sound.contains("damaged"), "{sound}");
    let path = test_dir.path("it.journal");
    let mut bytes = std::fs::read(&path).unwrap();
    let at = bytes.windows(4).rposition(|key| key == b"plum").unwrap();
    bytes[at] ^= 1;
    std::fs::write(&path, &bytes).unwrap();
    let run = test_dir.run(&[&verify[..], &["--format", "json"]].concat());
    let shown: serde_json::Value = serde_json::from_str(&run.out).unwrap();
    assert_eq!(run.code, 1);
    let contents = &shown["files"][0]["contents"];
    assert_eq!(contents["damage"].as_array().unwrap().len(), 1, "{shown}");
    assert_eq!(shown["is_sound"], false);
    test_dir.ok(&["drop", "shop", "--yes"]);
    let rebuild = ["journal", "rebuild", "shop", "prices", "./it.journal"];
    let err = test_dir.fails(3, &rebuild);
    assert!(err.contains("damaged: bytes") && err.contains("--skip-damaged"), "{err}");
    let mut second = journal(&test_dir, &["--skip-damaged"]);
    let kept = hears(&mut second, "damaged");
    assert!(kept["kept"].as_str().unwrap().ends_with("it.journal.damaged"), "{kept}");
    assert_eq!(test_dir.ok(&["get", "shop", "prices", "lemon"]), "5");
    assert_eq!(test_dir.run(&["get", "shop", "prices", "plum"]).code, 1);
    test_dir.ok(&["sync", "shop", "prices"]);
    stop(second);
    assert_eq!(std::fs::read(test_dir.path("it.journal.damaged")).unwrap(), bytes);
    let sound = test_dir.ok(&verify);
    assert!(sound.contains("3 pairs"), "{sound}");
}

/// The times of the states in a journal's files, as `verify` shows them.
fn verified(test_dir: &TestDir, options: &[&str]) -> serde_json::Value {
    let verify = ["journal", "verify", "./it.journal", "--format", "json"];
    let run = test_dir.run(&[&verify[..], options].concat());
    serde_json::from_str(&run.out).unwrap_or_else(|_| panic!("{}", run.err))
}

fn text_of(ms: &serde_json::Value) -> String {
    let time = std::time::UNIX_EPOCH + std::time::Duration::from_millis(ms.as_u64().unwrap());
    humantime::format_rfc3339_millis(time).to_string()
}

#[test]
fn an_earlier_state_is_rebuilt() {
    let test_dir = shop();
    let kept = journal(&test_dir, &["--keep", "7d", "--segment-time", "0"]);
    let segments = || {
        let found = std::fs::read_dir(test_dir.path("it.journal.d")).unwrap();
        let mut found: Vec<_> = found.map(|entry| entry.unwrap().path()).collect();
        found.sort();
        found
    };
    let price = std::cell::Cell::new(0);
    until(&test_dir, &["stat", "shop", "prices"], |stat| {
        price.set(price.get() + 1);
        test_dir.ok(&["set", "shop", "prices", "pear", &price.get().to_string()]);
        stat["journals"][0]["segments"].as_u64().is_some_and(|segments| segments >= 3)
    });
    let text = test_dir.ok(&["stat", "shop", "prices"]);
    assert!(text.contains("history") && text.contains("it.journal.d"), "{text}");
    test_dir.ok(&["set", "shop", "prices", "pear", "last"]);
    // The map stays as long as its journal runs.
    let drop = ["journal", "rebuild", "shop", "prices", "./it.journal", "--drop"];
    let err = test_dir.fails(3, &drop);
    assert!(err.contains("already has a journal"), "{err}");
    assert_eq!(test_dir.ok(&["get", "shop", "prices", "pear"]), "last");
    stop(kept);
    let shown = verified(&test_dir, &[]);
    assert_eq!(shown["is_sound"], true, "{shown}");
    let files = shown["files"].as_array().unwrap();
    assert_eq!(files.len(), segments().len() + 1);
    let first = &files[0]["contents"]["times"]["first_ms"];
    let at = text_of(first);
    let rebuild = ["journal", "rebuild", "shop", "then", "./it.journal"];
    let text = test_dir.run(&[&rebuild[..], &["--at", &at]].concat());
    assert!(text.code == 0 && text.err.contains(&format!("as of {at}")), "{}", text.err);
    assert_eq!(test_dir.ok(&["get", "shop", "then", "apple"]), "3");
    assert_ne!(test_dir.run(&["get", "shop", "then", "pear"]).out, "last");
    let run = test_dir.run(&[&rebuild[..], &["--at", &at, "--drop", "--format", "json"]].concat());
    let event: serde_json::Value = serde_json::from_str(&run.out).unwrap();
    assert_eq!((run.code, &event["time_ms"]), (0, first));
    // Times that no state has.
    for (wrong, why) in [
        ("2001-01-01 00:00", format!("expected a time from {at} to ")),
        ("2999-01-01T00:00:00+02:00", "in the future".to_owned()),
    ] {
        let err = test_dir.fails(3, &[&rebuild[..4], &["./it.journal", "--at", wrong]].concat());
        assert!(err.contains(&why), "{err}");
    }
    let err = test_dir.fails(2, &[&rebuild[..], &["--at", "yesterday"]].concat());
    assert!(err.contains("expected a time such as '2026-11-23 10:15'"), "{err}");
    // A segment is gone.
    std::fs::remove_file(&segments()[1]).unwrap();
    let shown = verified(&test_dir, &[]);
    assert_eq!(shown["holes"].as_array().unwrap().len(), 1, "{shown}");
    let run = test_dir.run(&["journal", "verify", "./it.journal.d"]);
    assert!(run.code == 1 && run.out.contains("hole: no state between"), "{}", run.out);
    // Another directory has none.
    let run = test_dir.run(&["journal", "verify", "./it.journal", "--archive", "./nowhere"]);
    assert!(run.code == 0 && run.out.contains("from 20"), "{}", run.out);
    for wrong in [["--archive", "x"], ["--segment-time", "1h"]] {
        let keep = ["journal", "shop", "prices", "./it.journal"];
        let err = test_dir.fails(2, &[&keep[..], &wrong].concat());
        assert!(err.contains("--keep"), "{err}");
    }
}

#[test]
fn a_replica_is_recorded() {
    let test_dir = shop();
    let (first, addresses) = origin(&test_dir, &["--listen", "tcp:0"]);
    let mut replica = follow(&test_dir, &addresses[0], "copy", &[]);
    hears(&mut replica, "ready");
    let start = |options: &[&str]| {
        let args = ["journal", "copy", "prices", "./it.journal", "--format", "json"];
        let mut journal = Background::start(&test_dir, &[&args[..], options].concat());
        hears(&mut journal, "journal");
        journal
    };
    let journal = start(&[]);
    test_dir.ok(&["set", "shop", "prices", "pear", "5"]);
    sees(&test_dir, "copy", "pear", "5");
    test_dir.ok(&["sync", "copy", "prices"]);
    journal.signal(Signal::KILL);
    journal.end();
    stop(replica);
    test_dir.ok(&["drop", "copy", "--yes"]);
    // A rebuilt map could not be a replica any more.
    let err = test_dir.fails(3, &["journal", "copy", "prices", "./it.journal"]);
    assert!(err.contains("start the replica"), "{err}");
    let mut replica = follow(&test_dir, &addresses[0], "copy", &[]);
    hears(&mut replica, "ready");
    // The file may have changes that the new copy lacks.
    let err = test_dir.fails(3, &["journal", "copy", "prices", "./it.journal"]);
    assert!(err.contains("positions of different streams") && err.contains("--replace"), "{err}");
    let journal = start(&["--replace"]);
    test_dir.ok(&["sync", "copy", "prices"]);
    stop(journal);
    test_dir.ok(&["journal", "rebuild", "ordinary", "prices", "./it.journal"]);
    assert_eq!(test_dir.ok(&["get", "ordinary", "prices", "pear"]), "5");
    test_dir.ok(&["set", "ordinary", "prices", "pear", "6"]);
    stop(replica);
    stop(first);
}
