//! Storing and asking: set, get, del, incr, keys, scan; values byte for byte, answers as exit
//! codes, JSON.

use crate::support::TestDir;
use serde_json::{Value, json};

fn json_lines(text: &str) -> Vec<Value> {
    text.lines().map(|line| serde_json::from_str(line).expect("a line of JSON")).collect()
}

#[test]
fn get_returns_the_value_that_set_stored() {
    let test_dir = TestDir::new();
    assert_eq!(test_dir.ok(&["set", "shop", "prices", "apple", "3"]), "");
    assert_eq!(test_dir.ok(&["get", "shop", "prices", "apple"]), "3");
    assert_eq!(test_dir.ok(&["get", "-n", "shop", "prices", "apple"]), "3\n");
    test_dir.ok(&["set", "./file.hold", "prices", "apple", "4"]);
    assert_eq!(test_dir.ok(&["get", "file.hold", "prices", "apple"]), "4");
    assert!(test_dir.path("shop.hold").exists() && test_dir.path("file.hold").exists());
}

#[test]
fn an_absent_key_is_an_answer_and_no_message() {
    let test_dir = TestDir::new();
    test_dir.ok(&["set", "shop", "prices", "apple", "3"]);
    let run = test_dir.run(&["get", "shop", "prices", "pear"]);
    assert_eq!((run.code, run.out.as_str(), run.err.as_str()), (1, "", ""));
    let run = test_dir.run(&["get", "--format", "json", "shop", "prices", "pear"]);
    assert_eq!((run.code, run.err.as_str()), (1, ""));
    assert_eq!(json_lines(&run.out), [json!({"key": "pear", "uid": null, "value": null})]);
}

#[test]
fn several_keys_are_printed_line_by_line() {
    let test_dir = TestDir::new();
    test_dir.ok(&["set", "shop", "prices", "apple", "3"]);
    test_dir.ok(&["set", "shop", "prices", "pear", "4"]);
    assert_eq!(test_dir.ok(&["get", "shop", "prices", "pear", "apple"]), "4\n3\n");
    let run = test_dir.run(&["get", "shop", "prices", "pear", "plum", "apple"]);
    assert_eq!((run.code, run.out.as_str()), (1, "4\n3\n"));
    let csv = test_dir.ok(&["get", "shop", "prices", "pear", "apple", "--format", "csv"]);
    assert_eq!(csv, "pear,4\napple,3\n");
}

#[test]
fn values_of_any_bytes_go_through_standard_input_and_output() {
    let test_dir = TestDir::new();
    let value: Vec<u8> = (0..=255).cycle().take(100_000).collect();
    assert_eq!(test_dir.run_with(&["set", "shop", "photos", "apple"], &value).code, 0);
    assert_eq!(test_dir.run(&["get", "shop", "photos", "apple"]).bytes, value);
    assert_eq!(test_dir.run_with(&["set", "shop", "photos", "apple", "-"], b"\n").code, 0);
    assert_eq!(test_dir.run(&["get", "shop", "photos", "apple"]).bytes, b"\n");
    assert_eq!(test_dir.run_with(&["set", "shop", "photos", "none"], b"").code, 0);
    assert_eq!(test_dir.run(&["get", "shop", "photos", "none"]).bytes, b"");
    let json = test_dir.run(&["get", "--format", "json", "shop", "photos", "none"]);
    assert_eq!(json_lines(&json.out)[0]["value"], "");
}

#[test]
fn conditions_decide_whether_a_value_is_stored() {
    let test_dir = TestDir::new();
    let code = |args: &[&str]| test_dir.run(args).code;
    assert_eq!(code(&["set", "--replace", "shop", "locks", "door", "me"]), 1);
    assert_eq!(code(&["set", "--if", "me", "shop", "locks", "door", "you"]), 1);
    assert_eq!(test_dir.leftovers(&[]), Vec::<String>::new());
    assert_eq!(code(&["set", "--add", "shop", "locks", "door", "me"]), 0);
    assert_eq!(code(&["set", "--add", "shop", "locks", "door", "you"]), 1);
    assert_eq!(code(&["set", "--if", "you", "shop", "locks", "door", "x"]), 1);
    assert_eq!(test_dir.ok(&["get", "shop", "locks", "door"]), "me");
    assert_eq!(code(&["set", "--if", "me", "shop", "locks", "door", "you"]), 0);
    assert_eq!(code(&["set", "--replace", "shop", "locks", "door", "us"]), 0);
    assert_eq!(test_dir.ok(&["get", "shop", "locks", "door"]), "us");
    let run = test_dir.run(&["set", "--add", "shop", "locks", "door", "x", "--format", "json"]);
    assert_eq!(json_lines(&run.out), [json!({"stored": false, "uid": null})]);
    assert_eq!(code(&["set", "--add", "--replace", "shop", "locks", "door", "x"]), 2);
}

#[test]
fn a_wait_for_a_stopped_holder_can_time_out() {
    let test_dir = TestDir::new();
    test_dir.ok(&["set", "shop", "prices", "apple", "3"]);
    let hold = commonhold::Hold::open(test_dir.path("shop.hold")).unwrap();
    let freeze = hold.freeze().unwrap();
    let patient = ["--lock-timeout", "20ms"];
    let change = ["set", "shop", "prices", "apple", "4"];
    let err = test_dir.fails(3, &[&change[..], &patient].concat());
    let holder = format!("process {}", std::process::id());
    assert!(err.contains("waited 20ms") && err.contains(&holder), "{err}");
    assert_eq!(test_dir.ok(&[&["get", "shop", "prices", "apple"], &patient[..]].concat()), "3");
    drop(freeze);
    test_dir.ok(&[&change[..], &patient].concat());
    assert_eq!(test_dir.ok(&["get", "shop", "prices", "apple"]), "4");
}

#[test]
fn a_uid_is_a_condition() {
    let test_dir = TestDir::new();
    let run = |args: &[&str]| test_dir.run(&[args, &["--format", "json"]].concat());
    let code = |args: &[&str]| run(args).code;
    // It needs an existing pair, so nothing is created.
    assert_eq!(code(&["set", "--uid", "17", "shop", "prices", "apple", "3"]), 1);
    assert_eq!(test_dir.leftovers(&[]), Vec::<String>::new());
    let stored = test_dir.json(&["set", "shop", "prices", "apple", "3"]);
    let number = stored["uid"].as_u64().expect("a uid");
    let (uid, other) = (number.to_string(), (number ^ 1).to_string());
    let set = |uid: &str, more: &[&str], value: &str| {
        run(&[&["set", "--uid", uid, "shop", "prices", "apple", value], more].concat())
    };
    let done = set(&uid, &[], "4");
    assert_eq!((done.code, json_lines(&done.out)), (0, vec![stored.clone()]));
    let refused = set(&other, &[], "5");
    let expected = json!({"stored": false, "uid": null});
    assert_eq!((refused.code, json_lines(&refused.out)), (1, vec![expected]));
    assert_eq!(refused.err, "");
    // It names the key of the pair, not another one.
    assert_eq!(code(&["set", "--uid", &uid, "shop", "prices", "pear", "5"]), 1);
    assert_eq!(set(&uid, &["--if", "3"], "5").code, 1);
    assert_eq!(test_dir.ok(&["get", "shop", "prices", "apple"]), "4");
    assert_eq!(set(&uid, &["--if", "4"], "5").code, 0);
    assert_eq!(test_dir.ok(&["get", "shop", "prices", "apple"]), "5");
    for more in [&["--add"][..], &["--replace"], &["--ttl", "5s"]] {
        assert_eq!(set(&uid, more, "6").code, 2, "{more:?}");
    }

    let del = |uid: &str, more: &[&str]| {
        let run = run(&[&["del", "--uid", uid, "shop", "prices"], more].concat());
        let counts = json_lines(&run.out).pop();
        (run.code, counts.map(|counts| ["deleted", "kept", "absent"].map(|c| counts[c].clone())))
    };
    let counts = |counts: [u64; 3]| Some(counts.map(|count| json!(count)));
    assert_eq!(del(&other, &["apple"]), (1, counts([0, 1, 0])));
    assert_eq!(del(&uid, &["pear"]), (1, counts([0, 0, 1])));
    assert_eq!(del(&uid, &["apple", "--if", "4"]), (1, counts([0, 1, 0])));
    for more in [&[][..], &["apple", "pear"], &["--prefix", "a", "--yes"]] {
        assert_eq!(del(&uid, more), (2, None), "{more:?}");
    }
    assert_eq!(del(&uid, &["apple", "--if", "5"]), (0, counts([1, 0, 0])));
    assert_eq!(del(&uid, &["apple"]), (1, counts([0, 0, 1])));
    let err = test_dir.fails(2, &["del", "--uid", &uid, "shop", "prices"]);
    assert!(err.contains("--uid: expected one KEY argument, got 0"), "{err}");
}

#[test]
fn uids_find_pairs() {
    let test_dir = TestDir::new();
    let set = test_dir.json(&["set", "shop", "prices", "apple", "3"]);
    let uid = set["uid"].as_u64().expect("a uid").to_string();
    assert_eq!(test_dir.ok(&["get", "--uid", "shop", "prices", &uid]), "3");
    let got = test_dir.json(&["get", "shop", "prices", "apple"]);
    assert_eq!(got, json!({"key": "apple", "uid": set["uid"], "value": "3"}));
    test_dir.ok(&["del", "shop", "prices", "apple"]);
    assert_eq!(test_dir.run(&["get", "--uid", "shop", "prices", &uid]).code, 1);
    assert!(
        test_dir
            .fails(2, &["get", "--uid", "shop", "prices", "x"])
            .contains("--uid: expected a number")
    );
}

#[test]
fn deleting_says_whether_all_were_there() {
    let test_dir = TestDir::new();
    for key in ["apple", "pear", "plum"] {
        test_dir.ok(&["set", "shop", "prices", key, "3"]);
    }
    assert_eq!(test_dir.run(&["del", "--if", "9", "shop", "prices", "apple"]).code, 1);
    test_dir.ok(&["del", "--if", "3", "shop", "prices", "apple"]);
    let run = test_dir.run(&["del", "shop", "prices", "apple", "pear", "--format", "json"]);
    assert_eq!((run.code, run.err.as_str()), (1, ""));
    assert_eq!(json_lines(&run.out), [json!({"deleted": 1, "kept": 0, "absent": 1})]);
    test_dir.ok(&["set", "shop", "prices", "pear", "4"]);
    let del = ["del", "--if", "9", "shop", "prices", "apple", "pear", "--format", "json"];
    let run = test_dir.run(&del);
    assert_eq!(json_lines(&run.out), [json!({"deleted": 0, "kept": 1, "absent": 1})]);
    test_dir.ok(&["del", "shop", "prices", "pear"]);
    assert_eq!(test_dir.ok(&["keys", "shop", "prices"]), "plum\n");
}

#[test]
fn counters_count() {
    let test_dir = TestDir::new();
    assert_eq!(test_dir.ok(&["incr", "shop", "counts", "visits"]), "1\n");
    assert_eq!(test_dir.ok(&["incr", "shop", "counts", "visits", "10"]), "11\n");
    assert_eq!(test_dir.ok(&["incr", "shop", "counts", "visits", "-12"]), "-1\n");
    assert_eq!(test_dir.ok(&["get", "--number", "shop", "counts", "visits"]), "-1\n");
    assert_eq!(test_dir.run(&["get", "shop", "counts", "visits"]).bytes, [0xff; 8]);
    test_dir.ok(&["set", "--number", "shop", "counts", "visits", "-5"]);
    assert_eq!(test_dir.json(&["incr", "shop", "counts", "visits"]), json!({"value": -4}));
}

#[test]
fn text_is_counted_as_text_or_refused_with_the_way_out() {
    let test_dir = TestDir::new();
    test_dir.ok(&["set", "shop", "prices", "apple", "3"]);
    let err = test_dir.fails(3, &["incr", "shop", "prices", "apple"]);
    assert!(err.contains("--text"), "{err}");
    assert_eq!(test_dir.ok(&["get", "shop", "prices", "apple"]), "3");
    assert_eq!(test_dir.ok(&["incr", "--text", "shop", "prices", "apple", "4"]), "7\n");
    assert_eq!(test_dir.ok(&["get", "shop", "prices", "apple"]), "7");
    test_dir.ok(&["set", "shop", "prices", "pear", "cheap"]);
    let err = test_dir.fails(3, &["incr", "--text", "shop", "prices", "pear"]);
    assert!(err.contains("'cheap'"), "{err}");
    let err = test_dir.fails(3, &["get", "--number", "shop", "prices", "pear"]);
    assert!(err.contains("expected 8 bytes, got 5"), "{err}");
}

#[test]
fn negative_numbers_are_values_and_not_options() {
    let test_dir = TestDir::new();
    test_dir.ok(&["set", "shop", "temperatures", "oslo", "-5"]);
    assert_eq!(test_dir.ok(&["get", "shop", "temperatures", "oslo"]), "-5");
    test_dir.ok(&["set", "shop", "temperatures", "--", "--odd", "--value"]);
    assert_eq!(test_dir.ok(&["get", "shop", "temperatures", "--", "--odd"]), "--value");
}

#[test]
fn keys_and_scan_print_all_pairs() {
    let test_dir = TestDir::new();
    let map = test_dir.map("shop", "prices");
    for key in ["apple", "apricot", "pear"] {
        map.set(key, "3").unwrap();
    }
    map.set("tab\there", b"\xff\n").unwrap();
    let sorted = |out: String| {
        let mut lines: Vec<_> = out.lines().map(str::to_owned).collect();
        lines.sort();
        lines
    };
    let keys = sorted(test_dir.ok(&["keys", "shop", "prices"]));
    assert_eq!(keys, ["apple", "apricot", "pear", "tab\\there"]);
    let keys = sorted(test_dir.ok(&["keys", "shop", "prices", "--prefix", "ap"]));
    assert_eq!(keys, ["apple", "apricot"]);
    let pairs = sorted(test_dir.ok(&["scan", "shop", "prices"]));
    assert_eq!(pairs[3], "tab\\there\t\\xff\\n");
    let hex = test_dir.ok(&["scan", "--hex", "shop", "prices", "--prefix", "70"]);
    assert_eq!(hex, "70656172\t33\n");
    assert_eq!(test_dir.ok(&["keys", "shop", "prices", "--limit", "2"]).lines().count(), 2);
    let json = json_lines(&test_dir.ok(&["scan", "shop", "prices", "-p", "t", "--format", "json"]));
    assert_eq!(json, [json!({"key": "tab\there", "value": {"base64": "/wo="}})]);
    let nul = test_dir.ok(&["keys", "shop", "prices", "-p", "pe", "--format", "nul"]);
    assert_eq!(nul, "pear\0");
}

#[test]
fn pages_have_every_pair_once() {
    let test_dir = TestDir::new();
    let map = test_dir.map("shop", "numbers");
    for number in 0..5000u32 {
        map.set(number.to_string(), "x").unwrap();
    }
    let mut seen = Vec::new();
    let mut cursor = "0".to_owned();
    loop {
        let args = ["scan", "shop", "numbers", "--limit", "700", "--cursor", &cursor];
        let page = test_dir.json(&args);
        let pairs = page["pairs"].as_array().expect("pairs");
        seen.extend(pairs.iter().map(|p| p["key"].as_str().expect("text").to_owned()));
        match page["next_cursor"].as_str() {
            Some(next) => {
                assert!(pairs.len() >= 700, "a page of {} pairs", pairs.len());
                cursor = next.to_owned();
            }
            None => break,
        }
    }
    assert_eq!(seen.len(), 5000);
    seen.sort();
    seen.dedup();
    assert_eq!(seen.len(), 5000);
    let run = test_dir.run(&["keys", "shop", "numbers", "--limit", "9000", "--cursor", "0"]);
    assert_eq!((run.out.lines().count(), run.err.as_str()), (5000, "end of the map\n"));
}

#[test]
fn maps_are_created_with_the_given_options() {
    let test_dir = TestDir::new();
    let set = ["set", "--fixed", "4,2", "--hex", "shop", "ids", "01000000", "0a0b"];
    test_dir.ok(&set);
    assert_eq!(test_dir.ok(&["get", "--hex", "shop", "ids", "01000000"]), "0a0b\n");
    let err = test_dir.fails(3, &["set", "shop", "ids", "short", "value"]);
    assert!(err.contains("ids"), "{err}");
    let err = test_dir.fails(3, &["set", "--cache", "shop", "ids", "abcd", "xy"]);
    assert!(err.contains("ids"), "{err}");
    let cache = ["--cache", "--cache-max-bytes", "64M", "--cache-ttl", "1h", "--ttl", "5m"];
    test_dir.ok(&[&["set", "shop", "pages", "/", "<html>"][..], &cache].concat());
    let maps = test_dir.json(&["list", "shop"]);
    let mode = |i: usize| maps[i]["mode"].clone();
    assert_eq!(mode(0), json!({"kind": "fixed", "key_bytes": 4, "value_bytes": 2}));
    assert_eq!(mode(1)["max_bytes"], 64 << 20);
    assert_eq!(mode(1)["ttl_ms"], 3_600_000);
    assert_eq!(mode(1)["max_entries"], Value::Null);
}

#[test]
fn nothing_is_created_without_a_request() {
    let test_dir = TestDir::new();
    for subcommand in [&["get", "shop", "prices", "apple"][..], &["keys", "shop", "prices"]] {
        assert!(test_dir.fails(3, subcommand).contains("shop"), "{subcommand:?}");
    }
    test_dir.fails(3, &["set", "--no-create", "shop", "prices", "apple", "3"]);
    assert_eq!(test_dir.leftovers(&[]), Vec::<String>::new());
    test_dir.ok(&["set", "shop", "prices", "apple", "3"]);
    let err = test_dir.fails(3, &["set", "--no-create", "shop", "stock", "apple", "3"]);
    assert!(err.contains("stock"), "{err}");
    test_dir.fails(3, &["get", "shop", "stock", "apple"]);
    assert_eq!(test_dir.ok(&["list", "shop", "--format", "json"]).matches("name").count(), 1);
}

#[test]
fn holds_are_created_with_the_given_options() {
    use std::os::unix::fs::PermissionsExt;
    let test_dir = TestDir::new();
    test_dir.ok(&["set", "--mode", "640", "--max-bytes", "1G", "shop", "prices", "apple", "3"]);
    let mode = test_dir.path("shop.hold").metadata().expect("the hold").permissions().mode();
    assert_eq!(mode & 0o777, 0o640);
    assert_eq!(test_dir.json(&["stat", "shop"])["hold"]["max_bytes"], 1 << 30);
    let elsewhere = test_dir.path("elsewhere");
    std::fs::create_dir(&elsewhere).expect("a directory");
    let directory = elsewhere.to_str().expect("text");
    test_dir.ok(&["set", "--directory", directory, "shop", "prices", "apple", "4"]);
    assert_eq!(test_dir.ok(&["get", "shop", "prices", "apple"]), "3");
    assert_eq!(test_dir.ok(&["--directory", directory, "get", "shop", "prices", "apple"]), "4");
    assert!(elsewhere.join("shop.hold").exists());
}
