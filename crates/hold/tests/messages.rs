//! Common properties of the subcommands for all kinds of messages; lists as values.

use crate::support::TestDir;
use crate::support::background::{nasty, objects};
use serde_json::json;

#[test]
fn absent_names_and_other_kinds_are_errors_with_a_remedy() {
    let test_dir = TestDir::new();
    let subcommands: [(&str, &[&str], &[&str]); 10] = [
        ("queue", &["push"], &["full", "x"]),
        ("queue", &["pull"], &["full"]),
        ("queue", &["list"], &[]),
        ("queue", &["stat"], &[]),
        ("channel", &["send"], &["x"]),
        ("channel", &["recv"], &[]),
        ("channel", &["stat"], &[]),
        ("log", &["write"], &["x"]),
        ("log", &["collect"], &[]),
        ("log", &["tail"], &[]),
    ];
    let every = |name: &str, wanted: &dyn Fn(&str) -> Vec<String>| {
        for (kind, subcommand, more) in subcommands {
            let err = test_dir.fails(3, &[&[kind], subcommand, &["shop", name], more].concat());
            let all = wanted(kind).iter().all(|word| err.contains(word));
            assert!(all, "{kind} {subcommand:?} {name}: {err}");
        }
    };
    let create = |kind: &str| vec![format!("'hold {kind} create shop none'"), "shop".to_owned()];
    every("none", &create);
    assert_eq!(test_dir.leftovers(&[]), Vec::<String>::new());
    test_dir.ok(&["set", "shop", "prices", "apple", "3"]);
    every("none", &create);
    every("prices", &|kind| vec![format!("expected a {kind}, but 'prices' is a map")]);
    test_dir.ok(&["queue", "create", "shop", "jobs"]);
    let pull = ["queue", "pull", "shop", "jobs"];
    assert!(test_dir.fails(3, &[&pull[..], &["none"]].concat()).contains("'none'"));
    assert!(test_dir.fails(2, &[&pull[..], &["free"]].concat()).contains("--to"));
    let other = ["queue", "create", "shop", "jobs", "--elements", "9"];
    assert!(test_dir.fails(3, &other).contains("'jobs' exists"));
    let twice = ["queue", "create", "shop", "more", "--queues", "a,a"];
    assert!(test_dir.fails(2, &twice).contains("same name"));
    assert!(test_dir.fails(3, &["push", "shop", "prices", "apple", "x"]).contains("'apple'"));
}

#[test]
fn lists_are_changed_at_both_ends() {
    let test_dir = TestDir::new();
    let key = ["shop", "lists", "fruit"];
    let with =
        |subcommand: &str, more: &[&str]| test_dir.run(&[&[subcommand], &key[..], more].concat());
    let pushed = with("push", &["c", "-4", "--format", "json"]);
    assert_eq!(objects(&pushed.out), [json!({"added": 2, "length": 2})]);
    assert_eq!(with("unshift", &["a", "b"]).code, 0);
    assert_eq!(test_dir.ok(&["get", "--list", "shop", "lists", "fruit"]), "a\nb\nc\n-4\n");
    assert_eq!(with("pop", &[]).out, "-4");
    assert_eq!(with("shift", &["-n"]).out, "a\n");
    assert_eq!(objects(&with("shift", &["--format", "json"]).out), [json!({"value": "b"})]);
    let run = with("pop", &["--count", "2"]);
    assert_eq!((run.code, run.out.as_str(), run.err.as_str()), (1, "c\n", ""));
    assert_eq!(test_dir.run(&["get", "--list", "shop", "lists", "fruit"]).code, 1);
    let (messages, frames) = nasty();
    let push = ["push", "shop", "lists", "fruit", "--frames"];
    assert_eq!(test_dir.run_with(&push, &frames).code, 0);
    let got = test_dir.json(&["get", "--list", "shop", "lists", "fruit"]);
    assert_eq!(got["values"].as_array().map(Vec::len), Some(messages.len()));
    assert_eq!(with("shift", &["--frames", "--count", "5"]).bytes, frames);
    test_dir.ok(&["push", "--hex", "shop", "lists", "00ff", "0a00"]);
    assert_eq!(test_dir.ok(&["get", "--list", "--hex", "shop", "lists", "00ff"]), "0a00\n");
}

#[test]
fn lists_lose_nothing_to_each_other() {
    let test_dir = TestDir::new();
    test_dir.map("shop", "lists");
    std::thread::scope(|scope| {
        for _ in 0..3 {
            scope.spawn(|| {
                let run = test_dir
                    .run_with(&["push", "shop", "lists", "all"], "x\n".repeat(50).as_bytes());
                assert_eq!(run.code, 0, "{run:?}");
            });
        }
    });
    let all = test_dir.ok(&["shift", "shop", "lists", "all", "--count", "150"]);
    assert_eq!(all.len(), 300);
    assert_eq!(test_dir.run(&["shift", "shop", "lists", "all"]).code, 1);
}

#[test]
fn nested_subcommands_have_pages_and_completions() {
    let test_dir = TestDir::new();
    test_dir.ok(&["man", "pages"]);
    let page = test_dir.read("pages/hold-queue-push.1");
    assert!(String::from_utf8_lossy(&page).contains("sized"));
    assert!(test_dir.ok(&["completions", "bash"]).contains("hold__subcmd__channel__subcmd__recv"));
    assert!(
        test_dir.ok(&["log", "tail", "--help"]).contains("hold log tail -n 100 -f shop events")
    );
}
