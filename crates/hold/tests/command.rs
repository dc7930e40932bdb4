//! The command itself: help, exit codes, readers that go away, completions, man pages, doctor.

use crate::support::TestDir;
use std::io::Read;
use std::process::Stdio;

const SUBCOMMANDS: &[&str] = &[
    "set",
    "get",
    "del",
    "incr",
    "keys",
    "scan",
    "load",
    "dump",
    "origin",
    "replica",
    "relay",
    "backup",
    "restore",
    "stat",
    "check",
    "repair",
    "drop",
    "list",
    "doctor",
    #[cfg(feature = "lab")]
    "demo",
    #[cfg(feature = "lab")]
    "bench",
    #[cfg(feature = "lab")]
    "crashtest",
    "completions",
    "man",
];

#[test]
fn every_subcommand_has_help_with_examples() {
    let test_dir = TestDir::new();
    let help = test_dir.ok(&["--help"]);
    assert!(help.contains("Exit codes:") && help.contains("Examples:"), "{help}");
    for subcommand in SUBCOMMANDS {
        assert!(help.contains(&format!("\n  {subcommand} ")), "{subcommand} is not in the help");
        let help = test_dir.ok(&[subcommand, "--help"]);
        assert!(help.contains(&format!("Usage: hold {subcommand}")), "{help}");
        assert!(
            help.lines().all(|l| l.chars().count() <= 100),
            "{subcommand} has long lines: {help}"
        );
        // Text is broken to the width: no line of it ends early, for the next one's first word
        // would fit.
        let lines: Vec<_> = help.lines().collect();
        let text = |line: &str| !line.is_empty() && !line.starts_with(' ') && !line.ends_with(':');
        for pair in lines.windows(2).filter(|pair| text(pair[0]) && text(pair[1])) {
            let word = pair[1].split(' ').next().unwrap_or_default();
            let both = pair[0].chars().count() + 1 + word.chars().count();
            assert!(both > 80, "{subcommand}: {pair:?}");
        }
    }
    let version = test_dir.ok(&["--version"]);
    let format = format!(", hold format {}\n", commonhold::raw::FORMAT);
    assert!(version.starts_with("hold 0.") && version.ends_with(&format), "{version}");
}

#[test]
fn command_lines_that_make_no_sense_exit_with_2() {
    let test_dir = TestDir::new();
    let no_args: [&str; 0] = [];
    assert_eq!(test_dir.run(&no_args).code, 2);
    for args in [
        &["nonsense"][..],
        &["get"],
        &["get", "shop", "prices"],
        &["set", "shop", "prices", "apple", "3", "4"],
        &["set", "--ttl", "5", "shop", "prices", "apple", "3"],
        &["set", "--fixed", "4", "shop", "prices", "apple", "3"],
        &["set", "--fixed", "4,4", "--cache", "shop", "prices", "apple", "3"],
        &["set", "--cache-ttl", "5m", "shop", "prices", "apple", "3"],
        &["set", "--mode", "888", "shop", "prices", "apple", "3"],
        &["set", "--hex", "shop", "prices", "xyz", "00"],
        &["set", "--number", "shop", "prices", "a", "many"],
        &["scan", "shop", "prices", "--cursor", "0"],
        &["stat", "shop", "--format", "csv"],
        &["list", "--format", "yaml"],
    ] {
        test_dir.fails(2, args);
    }
    assert_eq!(test_dir.leftovers(&[]), Vec::<String>::new());
}

#[test]
fn names_that_cannot_be_are_refused() {
    let test_dir = TestDir::new();
    test_dir.fails(2, &["set", "", "prices", "apple", "3"]);
    let long = "m".repeat(201);
    let err = test_dir.fails(3, &["set", "shop", &long, "apple", "3"]);
    assert!(err.contains("200"), "{err}");
}

#[test]
fn errors_known_in_advance_leave_nothing_behind() {
    let test_dir = TestDir::new();
    test_dir.file("long.csv", "apple,3\n");
    test_dir.file("wrong.csv", "apple,3,4\n");
    let long = "n".repeat(201);
    let number = "12345";
    let all: [(i32, &[&str]); 24] = [
        (3, &["set", "nh", "m", "abcd", "xx", "--fixed", "4,4"]),
        (3, &["set", "nh", "m", "abc", "xxxx", "--fixed", "4,4"]),
        (3, &["set", "--add", "nh", "m", "abc", "xxxx", "--fixed", "4,4"]),
        (2, &["set", "nh", "m", "a", "x", "--fixed", "0,4"]),
        (2, &["set", "nh", "m", "a", "x", "--ttl", "5m"]),
        (3, &["set", "nh", "m", "a", "0123456789", "--cache", "--cache-max-bytes", "8"]),
        (3, &["set", "nh", &long, "a", "x"]),
        (3, &["incr", "nh", "m", "abcd", "--fixed", "4,4"]),
        (3, &["incr", "nh", "m", "abcd", number, "--text", "--fixed", "4,4"]),
        (2, &["push", "nh", "m", "abcd", "x", "--fixed", "4,4"]),
        (2, &["unshift", "nh", "m", "abcd", "x", "--fixed", "4,4"]),
        (3, &["push", "nh", &long, "a", "x"]),
        (3, &["load", "nh", "m", "long.csv", "--fixed", "4,4"]),
        (1, &["load", "nh", "m", "long.csv", "--fixed", "4,4", "--on-error", "skip"]),
        (3, &["load", "nh", "m", "wrong.csv"]),
        (2, &["load", "nh", "m", "long.csv", "--ttl", "5m"]),
        (2, &["queue", "create", "nh", "q", "--elements", "0"]),
        (2, &["queue", "create", "nh", "q", "--queues", "a,a"]),
        (2, &["queue", "create", "nh", "q", "--orphans", "none"]),
        (3, &["queue", "create", "nh", &long]),
        (2, &["channel", "create", "nh", "c", "--ring-bytes", "5000"]),
        (2, &["log", "create", "nh", "l", "--rings", "0"]),
        (2, &["log", "create", "nh", "l", "--ring-bytes", "2G"]),
        (3, &["log", "create", "nh", "l", "--max-bytes", "1M"]),
    ];
    for (code, args) in all {
        test_dir.fails(code, args);
        let left = test_dir.leftovers(&["long.csv", "wrong.csv"]);
        assert_eq!(left, Vec::<String>::new(), "hold {args:?}");
    }
    // The existing map decides, not the options for a new one.
    test_dir.ok(&["set", "nh", "m", "abcd", "1234", "--fixed", "4,4"]);
    let err = test_dir.fails(3, &["set", "nh", "m", "abcd", "xx"]);
    assert!(err.contains("fixed lengths"), "{err}");
    assert_eq!(
        test_dir.ok(&["incr", "nh", "m", "abcd", "1", "--text", "--fixed", "4,4"]),
        "1235\n"
    );
    let err = test_dir.fails(3, &["set", "nh", "m", "a", "x", "--cache"]);
    assert!(err.contains("'hold list nh'") && !err.contains('{'), "{err}");
}

#[test]
fn names_of_others_cannot_move_the_cursor() {
    let test_dir = TestDir::new();
    let name = "red\u{1b}[31m\nnext\r\u{7}";
    test_dir.map("shop", name).set("a", "1").unwrap();
    test_dir.ok(&["log", "create", "shop", "log\u{1b}c", "--rings", "1"]);
    std::fs::rename(test_dir.path("shop.hold"), test_dir.path("sh\u{1b}[2J.hold")).expect("a name");
    let hold = "sh\u{1b}[2J";
    let safe = |text: &str| text.chars().all(|c| c == '\n' || !c.is_control());
    for args in [
        &["list"][..],
        &["list", hold],
        &["stat", hold],
        &["stat", hold, name],
        &["stat", hold, "log\u{1b}c"],
        &["check", hold],
        &["repair", hold],
        &["get", hold, name, "x"],
        &["get", hold, "none\u{1b}c", "x"],
        &["stat", hold, "none\u{1b}c"],
        &["drop", hold, "none\u{1b}c"],
        &["drop", hold, name],
        &["set", hold, name, "a", "\u{1b}", "--number"],
        &["load", hold, name, "none\u{1b}c.csv"],
    ] {
        let run = test_dir.run(args);
        assert!(safe(&run.out) && safe(&run.err), "hold {args:?}: {run:?}");
    }
    let list = test_dir.ok(&["list", hold]);
    assert!(list.contains("\nred\\x1b[31m\\nnext\\r\\x07  general"), "{list}");
    assert_eq!(test_dir.json(&["list", hold])[0]["name"], name);
    assert_eq!(test_dir.json(&["list"])[0]["name"], hold);
    assert_eq!(test_dir.ok(&["get", hold, name, "a"]), "1");
}

#[test]
fn messages_name_things_as_people_do() {
    let test_dir = TestDir::new();
    test_dir.ok(&["set", "shop", "prices", "apple", "3"]);
    let err = test_dir.fails(3, &["stat", "shop", "none"]);
    assert!(err.contains("has no structure 'none'; 'hold list shop' shows"), "{err}");
    let run = test_dir.run(&["drop", "shop", "none", "--yes"]);
    assert_eq!(run.code, 1);
    assert!(run.err.contains("has no structure 'none'; 'hold list shop' shows"), "{run:?}");
    let err = test_dir.fails(2, &["get", "--uid", "shop", "prices", "x"]);
    assert!(err.starts_with("hold: --uid: expected a number, got 'x'"), "{err}");
    let err = test_dir.fails(2, &["set", "--number", "shop", "prices", "a", "many"]);
    assert!(err.starts_with("hold: --number: expected a 64-bit integer, got 'many'"), "{err}");
}

#[test]
fn a_reader_that_goes_away_is_no_error() {
    let test_dir = TestDir::new();
    let map = test_dir.map("shop", "numbers");
    let value = vec![b'x'; 1000];
    for number in 0..2000u32 {
        map.set(number.to_string(), &value).unwrap();
    }
    for subcommand in [&["scan"][..], &["keys"], &["dump"], &["dump", "--frozen"]] {
        let args = [subcommand, &["shop", "numbers", "--format", "json"]].concat();
        let mut command = test_dir.command(&args);
        let mut child =
            command.stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().expect("a start");
        let mut first = [0; 10];
        let mut out = child.stdout.take().expect("a pipe");
        out.read_exact(&mut first).expect("some output");
        drop(out);
        let output = child.wait_with_output().expect("an end");
        assert!(output.status.success(), "{args:?}: {output:?}");
        assert!(output.stderr.is_empty(), "{args:?}: {output:?}");
    }
}

#[test]
fn a_full_disk_for_the_output_is_an_error() {
    let test_dir = TestDir::new();
    test_dir.map("shop", "prices").set("apple", "3").unwrap();
    let full = std::path::Path::new("/dev/full");
    for args in [&["get", "shop", "prices", "apple"][..], &["scan", "shop", "prices"], &["list"]] {
        let sink = std::fs::OpenOptions::new().write(true).open(full).expect("/dev/full");
        let mut command = test_dir.command(args);
        let output = command.stdout(sink).stderr(Stdio::piped()).output().expect("a run");
        assert_eq!(output.status.code(), Some(3), "{args:?}: {output:?}");
        let err = String::from_utf8_lossy(&output.stderr);
        assert!(err.starts_with("hold: standard output: "), "{args:?}: {err}");
    }
}

#[test]
fn completions_list_the_subcommands() {
    let test_dir = TestDir::new();
    for shell in ["bash", "zsh", "fish"] {
        let script = test_dir.ok(&["completions", shell]);
        for subcommand in SUBCOMMANDS {
            assert!(script.contains(subcommand), "{shell} does not know {subcommand}");
        }
    }
    test_dir.fails(2, &["completions", "cmd"]);
}

#[test]
fn every_subcommand_has_a_man_page() {
    let test_dir = TestDir::new();
    let page = test_dir.ok(&["man"]);
    assert!(page.contains(".TH hold 1") && page.contains("COMMONHOLD_DIR"), "{page}");
    test_dir.ok(&["man", "man/man1"]);
    for subcommand in SUBCOMMANDS {
        let page = test_dir.read(&format!("man/man1/hold-{subcommand}.1"));
        assert!(page.starts_with(b".ie") || page.starts_with(b".TH"), "{subcommand}");
    }
    assert!(test_dir.path("man/man1/hold.1").exists());
    let page = String::from_utf8(test_dir.read("man/man1/hold-load.1")).expect("text");
    assert!(page.contains("\"hold\\-load ") || page.contains("\"hold-load "), "{page}");
    for text in [
        "[\\fB\\-\\-key\\-column\\fR \\fICOLUMN\\fR]",
        ".SH EXAMPLES\n.nf\nhold load shop prices data.csv\n",
        ".SH \"EXIT STATUS\"\n",
    ] {
        assert!(page.contains(text), "no {text} in {page}");
    }
    assert!(!page.contains("EXTRA"), "{page}");
    let page = String::from_utf8(test_dir.read("man/man1/hold-get.1")).expect("text");
    assert!(page.contains("\\fIKEY\\fR..."), "{page}");
}

#[test]
fn the_doctor_checks_the_machine() {
    let test_dir = TestDir::new();
    let run = test_dir.run(&["doctor", "--format", "json"]);
    let report: serde_json::Value = serde_json::from_str(&run.out).expect("JSON");
    let checks = report["checks"].as_array().expect("checks");
    let fails = checks.iter().filter(|c| c["level"] == "FAIL").count();
    assert_eq!((run.code, &report["ok"]), (i32::from(fails > 0), &(fails == 0).into()), "{run:?}");
    for name in [
        "kernel",
        "futexes",
        "boot identity",
        "bare names: directory",
        "bare names: file system",
        "bare names: room",
        "bare names: trial hold",
        "memory cgroup",
        "huge pages",
        "ulimit -f",
        "ulimit -v",
        "vm.max_map_count",
        "RemoveIPC",
        "fs.protected_regular",
    ] {
        assert!(checks.iter().any(|c| c["name"] == name), "no {name} in {run:?}");
    }
    let pages = checks.iter().find(|c| c["name"] == "huge pages").expect("looked at");
    let on_tmpfs = checks.iter().any(|c| {
        c["name"] == "bare names: file system"
            && c["seen"].as_str().is_some_and(|seen| seen.starts_with("tmpfs "))
    });
    let told = pages["seen"].as_str().expect("text").starts_with("huge=");
    assert_eq!(told, on_tmpfs, "{pages}");
    let trial = checks.iter().find(|c| c["name"] == "bare names: trial hold");
    assert_eq!(trial.expect("a trial")["level"], "ok", "{run:?}");
    assert_eq!(test_dir.leftovers(&[]), Vec::<String>::new());
}

#[test]
fn the_doctor_fails_where_no_hold_can_be() {
    let test_dir = TestDir::new();
    let run = test_dir.run(&["doctor", "/proc"]);
    assert_eq!(run.code, 1, "{run:?}");
    assert!(run.out.contains("FAIL  path: file system"), "{run:?}");
    assert!(run.out.contains("      to do: "), "{run:?}");
}

#[test]
fn the_doctor_sees_a_low_limit() {
    let test_dir = TestDir::new();
    let script = "ulimit -f 100000; exec \"$0\" doctor";
    let mut command = std::process::Command::new("sh");
    command.args(["-c", script, env!("CARGO_BIN_EXE_hold")]);
    command.env("COMMONHOLD_DIR", test_dir.path(""));
    let output = command.output().expect("a run");
    let out = String::from_utf8_lossy(&output.stdout);
    assert!(out.contains("warn  ulimit -f"), "{out}");
}

#[test]
fn the_bridge_is_a_program_next_to_this_one_or_in_path() {
    let test_dir = TestDir::new();
    let program = test_dir.path("hold");
    std::fs::copy(crate::support::PROGRAM, &program).expect("a copy of the program");
    let run = |path: &str| {
        let args = ["--directory", "/d", "--format", "json", "nats", "mirror", "b", "-s", "x"];
        let mut command = test_dir.command_of(&program, &args);
        crate::support::Run::of(command.env("PATH", path).output().expect("a run"))
    };
    let missing = run("");
    assert_eq!(missing.code, 3, "{missing:?}");
    assert!(missing.err.contains("hold-nats is not installed"), "{missing:?}");
    assert!(missing.err.contains("cargo install --path crates/commonhold-nats"), "{missing:?}");
    let script = "#!/bin/sh\necho \"$@\"; exit 7\n";
    let file = test_dir.file("hold-nats", script);
    let executable = std::os::unix::fs::PermissionsExt::from_mode(0o755);
    std::fs::set_permissions(file, executable).expect("an executable script");
    let started = run("");
    assert_eq!(started.code, 7, "{started:?}");
    assert_eq!(started.out, "--directory /d --format json mirror b -s x\n");
}
