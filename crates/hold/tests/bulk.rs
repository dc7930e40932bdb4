//! Many keys at once: `hold batch`, `clear` and `random`, and `hold del` from standard input and by
//! prefix.

use crate::support::TestDir;
use crate::support::background::Background;
use rustix::process::Signal;
use serde_json::json;

/// A map `prices` of hold `shop` with these keys, whose values are their names.
fn shop(keys: &[&str]) -> TestDir {
    let test_dir = TestDir::new();
    let map = test_dir.map("shop", "prices");
    for key in keys {
        map.set(key, key).unwrap();
    }
    test_dir
}

fn keys(test_dir: &TestDir) -> Vec<String> {
    let mut keys: Vec<_> =
        test_dir.ok(&["keys", "shop", "prices"]).lines().map(str::to_owned).collect();
    keys.sort();
    keys
}

#[test]
fn a_batch_has_a_result_for_each_line() {
    let test_dir = TestDir::new();
    let input = "set 'two words' \"a\\tb\"\n# a comment\n\nget 'two words'\nget nothing\nadd a 2\n\
                 add a 3\nreplace a 5\nreplace b 5\nget a\nincr c\nincr c 41\nincr c -2\nincr a\n\
                 incr c x\nlen\nfoo\nset x\nset 'x\ndel a\ndel a";
    let run = test_dir.run_with(&["batch", "shop", "prices"], input.as_bytes());
    let lines: Vec<&str> = run.out.lines().collect();
    let expected =
        ["ok", "= a\\\\tb", "none", "ok", "none", "ok", "none", "= 5", "= 1", "= 42", "= 40"];
    assert_eq!(lines[..11], expected, "{run:?}");
    assert!(lines[11].starts_with("error map 'prices': expected a counter"), "{}", lines[11]);
    assert_eq!(lines[12], "error expected a 64-bit integer, got 'x'");
    assert_eq!(lines[13], "= 3");
    assert!(lines[14].starts_with("error unknown operation 'foo'; expected set, add"));
    assert_eq!(
        lines[15..],
        ["error 'set' expects KEY VALUE", "error a quote is not closed", "ok", "none"]
    );
    assert_eq!((run.code, run.err.as_str()), (1, ""));

    let run = test_dir
        .run_with(&["batch", "shop", "prices", "--format", "json"], b"get nothing\nincr c\nx");
    let lines: Vec<serde_json::Value> =
        run.out.lines().map(|line| serde_json::from_str(line).unwrap()).collect();
    assert_eq!(lines[..2], [json!({ "ok": false }), json!({ "ok": true, "value": 41 })]);
    assert!(lines[2]["error"].as_str().unwrap().starts_with("unknown operation 'x'"));
    let run =
        test_dir.run_with(&["batch", "shop", "prices", "--hex"], b"set 00ff 0a\nget 00ff\nget 0");
    let lines: Vec<&str> = run.out.lines().collect();
    assert_eq!((&lines[..2], run.code), (&["ok", "= 0a"][..], 1));
    assert!(lines[2].starts_with("error "), "{run:?}");
    let fixed = ["batch", "shop", "numbers", "--fixed", "4,4"];
    let run = test_dir.run_with(&fixed, b"set abcd 1234\nget abcd\nset abc 1");
    let lines: Vec<&str> = run.out.lines().collect();
    assert_eq!((&lines[..2], run.code), (&["ok", "= 1234"][..], 1));
    assert!(lines[2].starts_with("error "), "{run:?}");
}

/// A program may wait for each result before it sends the next operation.
#[test]
fn a_batch_answers_at_once() {
    let test_dir = TestDir::new();
    let mut batch = Background::start(&test_dir, &["batch", "shop", "counts"]);
    for count in 1..=20 {
        batch.write(b"incr visits\n");
        assert_eq!(batch.line().trim_end(), format!("= {count}"));
    }
    // Each operation is done when its result is there.
    batch.signal(Signal::KILL);
    assert_ne!(batch.end().code, 0);
    assert_eq!(test_dir.ok(&["get", "--number", "shop", "counts", "visits"]), "20\n");
}

#[test]
fn keys_are_deleted_by_lines_and_by_prefix() {
    let test_dir = shop(&["apple", "apricot", "pear", "plum", "-"]);
    let run =
        test_dir.run_with(&["del", "shop", "prices", "--format", "json"], b"pear\nnothing\n-");
    assert_eq!(
        serde_json::from_str::<serde_json::Value>(&run.out).unwrap(),
        json!({ "deleted": 2, "kept": 0, "absent": 1 })
    );
    assert_eq!(run.code, 1);
    let err = test_dir.fails(2, &["del", "shop", "prices", "--prefix", "ap"]);
    assert!(err.contains("begin with 'ap': nothing is deleted without confirmation"), "{err}");
    let err = test_dir.fails(2, &["del", "shop", "prices", "--prefix", "ap", "pear", "--yes"]);
    assert!(err.contains("cannot be used with"), "{err}");
    assert_eq!(keys(&test_dir), ["apple", "apricot", "plum"]);
    let by_prefix = ["del", "shop", "prices", "--prefix", "ap", "--yes"];
    assert_eq!(test_dir.run(&[&by_prefix[..], &["--if", "apple"]].concat()).code, 1);
    assert_eq!(keys(&test_dir), ["apricot", "plum"]);
    assert_eq!(test_dir.json(&by_prefix)["deleted"], 1);
    assert_eq!(keys(&test_dir), ["plum"]);
    // An invalid key among them: nothing is deleted.
    test_dir.fails(2, &["del", "shop", "prices", "--hex", "706c756d", "x"]);
    assert_eq!(keys(&test_dir), ["plum"]);
}

#[test]
fn a_map_is_cleared_after_a_confirmation() {
    let test_dir = shop(&["apple", "pear"]);
    let err = test_dir.fails(2, &["clear", "shop", "prices"]);
    assert!(err.contains("all pairs of map prices") && err.contains("--yes"), "{err}");
    assert_eq!(keys(&test_dir).len(), 2);
    assert_eq!(test_dir.json(&["clear", "shop", "prices", "--yes"]), json!({ "deleted": 2 }));
    assert_eq!(test_dir.map_len("shop", "prices"), 0);
}

#[test]
fn random_pairs_are_of_the_map() {
    let test_dir = shop(&["apple", "pear", "plum"]);
    let out = test_dir.ok(&["random", "shop", "prices", "-n", "200", "--format", "tsv"]);
    let mut seen: Vec<_> = out.lines().collect();
    assert_eq!(seen.len(), 200);
    seen.sort_unstable();
    seen.dedup();
    assert_eq!(seen, ["apple\tapple", "pear\tpear", "plum\tplum"]);
    test_dir.ok(&["clear", "shop", "prices", "--yes"]);
    let run = test_dir.run(&["random", "shop", "prices"]);
    assert_eq!((run.code, run.out.as_str(), run.err.as_str()), (1, "", ""));
}

#[test]
fn the_time_to_live_is_printed_and_set() {
    let test_dir = TestDir::new();
    test_dir.ok(&["set", "shop", "sessions", "ann", "token", "--cache", "--ttl", "1m"]);
    let left = |test_dir: &TestDir| {
        let found = test_dir.json(&["ttl", "shop", "sessions", "ann"]);
        found["ttl_ms"].as_u64().unwrap()
    };
    assert!((1..=60_000).contains(&left(&test_dir)));
    test_dir.ok(&["touch", "shop", "sessions", "ann", "--ttl", "2h"]);
    assert!((60_001..=7_200_000).contains(&left(&test_dir)));
    assert!(test_dir.ok(&["ttl", "shop", "sessions", "ann"]).starts_with("1h 59m"));
    assert_eq!(test_dir.ok(&["get", "shop", "sessions", "ann"]).trim(), "token");
    let absent = test_dir.run(&["touch", "shop", "sessions", "bob", "--ttl", "2h"]);
    assert_eq!((absent.code, test_dir.run(&["ttl", "shop", "sessions", "bob"]).code), (1, 1));
    test_dir.ok(&["set", "shop", "prices", "apple", "3"]);
    assert_eq!(test_dir.ok(&["ttl", "shop", "prices", "apple"]).trim(), "never");
    let err = test_dir.fails(3, &["touch", "shop", "prices", "apple", "--ttl", "1h"]);
    assert!(err.contains("map 'prices' is not a cache"), "{err}");
}
