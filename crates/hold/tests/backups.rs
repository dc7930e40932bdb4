//! `hold backup` and `hold restore` through pipes, `hold backup verify`, and rotated backups.

use crate::support::TestDir;
use crate::support::background::Background;
use crate::support::{Run, pairs_of};
use rustix::process::{Pid, Signal, kill_process};
use serde_json::{Value, json};
use std::fs::File;
use std::io::{Read, Write};
use std::os::unix::process::ExitStatusExt;
use std::process::{Child, Command, Stdio};
use std::time::Duration;

/// A hold `shop` whose map `prices` has that many pairs with values of that many bytes.
fn shop(pairs: u32, value_bytes: usize) -> TestDir {
    let test_dir = TestDir::new();
    let map = test_dir.map("shop", "prices");
    for number in 0..pairs {
        map.set(format!("key {number}"), format!("{number:0value_bytes$}")).unwrap();
    }
    test_dir
}

#[test]
fn a_backup_goes_through_a_pipe() {
    let test_dir = shop(5_000, 10);
    let backup = test_dir.run(&["backup", "shop", "-"]);
    assert_eq!(backup.code, 0, "{}", backup.err);
    assert!(backup.err.starts_with("standard output: 5,000 pairs in 1 map, "), "{}", backup.err);
    let restored = test_dir.run_with(&["restore", "-", "copy", "--format", "json"], &backup.bytes);
    assert_eq!((restored.code, restored.err.as_str()), (0, ""));
    let report: Value = serde_json::from_str(&restored.out).expect("a report");
    assert_eq!([&report["maps"], &report["pairs"]], [1, 5_000]);
    assert_eq!(
        pairs_of(&test_dir.map("copy", "prices")),
        pairs_of(&test_dir.map("shop", "prices"))
    );
    let again = test_dir.run_with(&["restore", "-", "copy"], &backup.bytes);
    assert!(again.code == 3 && again.err.contains("copy.hold: already exists"), "{again:?}");
    let json = test_dir.run(&["backup", "shop", "-", "--format", "json"]);
    let report: Value = serde_json::from_str(&json.err).expect("a report on standard error");
    assert_eq!([&report["pairs"], &report["bytes"]], [5_000, json.bytes.len() as u64]);
    let quiet = test_dir.run(&["backup", "shop", "-", "--quiet"]);
    assert_eq!((quiet.code, quiet.err.as_str()), (0, ""));
    let piped = "\"$HOLD\" backup shop - -q | \"$HOLD\" restore - third -q";
    let mut shell = test_dir.command_of("sh".as_ref(), &["-c", piped]);
    assert!(shell.env("HOLD", crate::support::PROGRAM).status().expect("a shell").success());
    assert_eq!(test_dir.map_len("third", "prices"), 5_000);
    assert_eq!(test_dir.leftovers(&["shop.hold", "copy.hold", "third.hold"]), Vec::<String>::new());
}

/// The backup of a hold as [`shop`] makes it, with one bit of a value changed.
fn with_another_value(mut backup: Vec<u8>) -> Vec<u8> {
    let value = b"0000000999";
    let at = backup.windows(value.len()).position(|part| part == value).expect("the value");
    backup[at] ^= 1;
    backup
}

#[test]
fn a_damaged_stream_leaves_no_hold_and_is_described() {
    let test_dir = shop(2_000, 10);
    let whole = test_dir.run(&["backup", "shop", "-", "-q"]).bytes;
    let run = |args: &[&str], bytes: &[u8]| test_dir.run_with(args, bytes);
    let check = |bytes: &[u8], restored: &str, verified: &str| {
        let restore = run(&["restore", "-", "copy"], bytes);
        assert!(restore.code == 3 && restore.err.contains(restored), "{restore:?}");
        assert!(restore.err.starts_with("hold: the input: "), "{restore:?}");
        let verify = run(&["backup", "verify", "-"], bytes);
        assert!(verify.code == 1 && verify.out.contains(verified), "{verify:?}");
        assert!(verify.out.starts_with("standard input: DAMAGED; "), "{verify:?}");
    };
    check(&whole[..whole.len() / 2], "the backup is truncated after ", "damaged: the backup is tr");
    check(&whole[..whole.len() - 1], "the backup is truncated after ", "damaged: the backup is tr");
    let bytes = with_another_value(whole.clone());
    check(&bytes, "the backup is damaged between the bytes ", "probably of map 'prices'");
    for bytes in [&b""[..], b"key\tvalue\n"] {
        for args in [&["restore", "-", "copy"][..], &["backup", "verify", "-"]] {
            let run = run(args, bytes);
            assert!(run.code == 3 && run.err.contains("the input: not a backup made"), "{run:?}");
        }
    }
    assert_eq!(test_dir.leftovers(&["shop.hold"]), Vec::<String>::new());
}

#[test]
fn verify_prints_the_contents() {
    let test_dir = shop(2_000, 10);
    test_dir.map("shop", "names").set("a", "b").unwrap();
    let made = test_dir.json(&["backup", "shop", "shop.backup"]);
    let verify = ["backup", "verify", "shop.backup"];
    let found = test_dir.json(&verify);
    let maps = json!([{ "name": "names", "pairs": 1 }, { "name": "prices", "pairs": 2000 }]);
    assert_eq!((&found["maps"], &found["is_sound"]), (&maps, &json!(true)));
    assert_eq!((&found["pairs"], &found["bytes"]), (&made["pairs"], &made["bytes"]));
    assert!(found["made_ms"].as_u64().is_some_and(|ms| ms > 0), "{found}");
    let text = test_dir.ok(&verify);
    assert!(text.starts_with("shop.backup: complete and undamaged; 2,001 pairs in 2 maps, "));
    assert!(text.contains("made at 20") && text.contains("prices  2,000"), "{text}");
    test_dir.file("bad.backup", with_another_value(test_dir.read("shop.backup")));
    let run = test_dir.run(&["backup", "verify", "bad.backup", "--format", "json"]);
    let found: Value = serde_json::from_str(&run.out).expect("JSON");
    assert_eq!((run.code, &found["is_sound"]), (1, &json!(false)));
    assert_eq!(found["damage"].as_array().map(Vec::len), Some(1), "{found}");
    let err = test_dir.fails(3, &["backup", "verify", "none.backup"]);
    assert!(err.contains("none.backup"), "{err}");
}

#[test]
fn a_terminal_neither_gets_nor_sends_a_backup() {
    let test_dir = shop(1, 1);
    let master = rustix::pty::openpt(rustix::pty::OpenptFlags::RDWR).expect("a terminal");
    rustix::pty::grantpt(&master).and_then(|()| rustix::pty::unlockpt(&master)).expect("ours");
    let name = rustix::pty::ptsname(&master, Vec::new()).expect("its name");
    let path = name.into_string().expect("text");
    let terminal = || File::options().read(true).write(true).open(&path).expect("a terminal");
    let run = |args: &[&str], what: &str| {
        let mut command = test_dir.command(args);
        command.stdin(terminal()).stdout(terminal()).stderr(Stdio::piped());
        let run = Run::of(command.output().expect("it ends"));
        assert!(run.code == 2 && run.err.contains(what), "{args:?}: {run:?}");
    };
    run(&["backup", "shop", "-"], "standard output is a terminal");
    run(&["restore", "-", "copy"], "standard input is a terminal");
    run(&["backup", "verify", "-"], "standard input is a terminal");
    let err = test_dir.fails(2, &["backup", "shop", "-", "--rotate", "3"]);
    assert!(err.contains("--rotate: expected a file name"), "{err}");
}

fn started(command: &mut Command) -> Child {
    command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped());
    command.spawn().expect("the command starts")
}

#[test]
fn a_reader_that_is_gone_and_a_full_disk_are_errors() {
    let test_dir = shop(20_000, 100);
    let mut child = started(&mut test_dir.command(&["backup", "shop", "-"]));
    drop(child.stdout.take());
    let run = Run::of(child.wait_with_output().expect("it ends"));
    assert!(run.code == 3 && run.err.contains("Broken pipe"), "{run:?}");
    let mut command = test_dir.command(&["backup", "shop", "-"]);
    command.stdout(File::options().write(true).open("/dev/full").expect("a full disk"));
    let run = Run::of(command.stderr(Stdio::piped()).output().expect("it ends"));
    assert!(run.code == 3 && run.err.contains("No space left on device"), "{run:?}");
    // The hold is as usable as before.
    assert!(test_dir.ok(&["check", "shop"]).starts_with("ok"));
}

/// The memory of a process that is not shared: neither the hold nor files.
fn private_bytes(child: &Child) -> u64 {
    let status = std::fs::read_to_string(format!("/proc/{}/status", child.id())).unwrap();
    let line = status.lines().find_map(|line| line.strip_prefix("RssAnon:"));
    let number = line.and_then(|line| line.trim().strip_suffix(" kB")).expect("a size");
    number.trim().parse::<u64>().expect("a number") << 10
}

/// While the last bytes of a backup are missing, everything before them is somewhere.
#[test]
fn the_memory_of_backup_and_restore_does_not_grow_with_the_hold() {
    const MOST: u64 = 40 << 20;
    let test_dir = shop(80_000, 1_000);
    let mut child = started(&mut test_dir.command(&["backup", "shop", "-", "-q"]));
    let mut out = child.stdout.take().expect("a pipe");
    let mut bytes = vec![0; 60 << 20];
    out.read_exact(&mut bytes).expect("most of the backup");
    assert!(private_bytes(&child) < MOST, "{}", private_bytes(&child));
    out.read_to_end(&mut bytes).expect("the rest");
    assert!(child.wait().expect("it ends").success() && bytes.len() > 80_000_000);
    let mut restore = test_dir.command(&["restore", "-", "copy", "-q"]);
    // The temporary file has no name there.
    let mut child = started(restore.env("TMPDIR", test_dir.path("")));
    let mut input = child.stdin.take().expect("a pipe");
    let (most, last) = bytes.split_at(bytes.len() - 1);
    input.write_all(most).expect("it reads");
    assert!(private_bytes(&child) < MOST, "{}", private_bytes(&child));
    assert_eq!(test_dir.leftovers(&["shop.hold"]), Vec::<String>::new());
    input.write_all(last).expect("it reads");
    drop(input);
    assert!(child.wait().expect("it ends").success());
    assert_eq!(test_dir.map_len("copy", "prices"), 80_000);
    let mut child = started(&mut test_dir.command(&["backup", "verify", "-", "-q"]));
    let mut input = child.stdin.take().expect("a pipe");
    input.write_all(most).expect("it reads");
    assert!(private_bytes(&child) < MOST, "{}", private_bytes(&child));
    drop(input);
    assert_eq!(child.wait().expect("it ends").code(), Some(1), "the last byte is missing");
}

/// A restore that is killed while it reads leaves nothing.
#[test]
fn a_killed_restore_from_a_pipe_leaves_nothing() {
    let test_dir = shop(5_000, 10);
    let whole = test_dir.run(&["backup", "shop", "-", "-q"]).bytes;
    for signal in [Signal::INT, Signal::TERM, Signal::KILL] {
        let mut restore = Background::start(&test_dir, &["restore", "-", "copy"]);
        restore.write(&whole[..whole.len() - 1]);
        restore.signal(signal);
        assert_eq!(restore.end().code, -1, "{signal:?}");
        assert_eq!(test_dir.leftovers(&["shop.hold"]), Vec::<String>::new());
    }
}

#[test]
fn backups_are_rotated() {
    let test_dir = shop(1, 1);
    for number in 1..=4 {
        test_dir.ok(&["set", "shop", "prices", "number", &number.to_string()]);
        test_dir.ok(&["backup", "shop", "shop.backup", "--rotate", "3"]);
    }
    let backups = ["shop.backup", "shop.backup.1", "shop.backup.2"];
    for (name, number) in backups.iter().zip([4, 3, 2]) {
        test_dir.ok(&["restore", name, name]);
        assert_eq!(
            test_dir.ok(&["get", "--newline", name, "prices", "number"]),
            format!("{number}\n")
        );
        test_dir.ok(&["drop", name, "--yes"]);
    }
    assert_eq!(test_dir.leftovers(&[&backups[..], &["shop.hold"]].concat()), Vec::<String>::new());
    // Without the option an existing file is an error, as ever.
    let err = test_dir.fails(3, &["backup", "shop", "shop.backup"]);
    assert!(err.contains("already exists"), "{err}");
    let err = test_dir.fails(3, &["backup", "shop", "./shop.hold", "--rotate", "3"]);
    assert!(err.contains("shop.hold: exists and is not a backup"), "{err}");
    test_dir.fails(2, &["backup", "shop", "shop.backup", "--rotate", "0"]);
}

/// The pair `number` of the newest backup; every backup that is there is sound.
fn newest(test_dir: &TestDir) -> u64 {
    let names = test_dir.leftovers(&["shop.hold"]);
    for name in &names {
        test_dir.ok(&["backup", "verify", name]);
    }
    let newest = ["shop.backup", "shop.backup.1"]
        .into_iter()
        .find(|name| names.iter().any(|found| found == name));
    test_dir.ok(&["restore", newest.expect("a backup"), "copy", "-q"]);
    let number = test_dir.ok(&["get", "copy", "prices", "number"]);
    test_dir.ok(&["drop", "copy", "--yes"]);
    number.trim().parse().expect("a number")
}

#[test]
fn a_rotation_that_is_killed_keeps_the_newest_backup() {
    let test_dir = shop(5_000, 10);
    let map = test_dir.map("shop", "prices");
    let args = ["backup", "shop", "shop.backup", "--rotate", "3", "-q"];
    let (mut random, mut done, mut killed) = (5u64, 0, 0);
    for number in 0..40u64 {
        map.set("number", number.to_string()).unwrap();
        let mut child = started(&mut test_dir.command(&args));
        random = random.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1);
        if number > 0 {
            std::thread::sleep(Duration::from_micros((random >> 33) % 30_000));
            let _ = kill_process(Pid::from_child(&child), Signal::KILL);
        }
        let status = child.wait().expect("it ends");
        killed += u64::from(status.signal().is_some());
        if status.success() {
            done = number;
        }
        let found = newest(&test_dir);
        // One that is killed may have been complete.
        assert!(found == done || found == number, "{found}, {done}, {number}");
        done = found;
    }
    assert!(killed > 0, "none was killed in the middle");
}

#[test]
fn some_maps_of_a_backup_are_restored() {
    let test_dir = shop(1_000, 10);
    for name in ["names", "stock"] {
        test_dir.map("shop", name).set("a", name).unwrap();
    }
    let whole = test_dir.run(&["backup", "shop", "-", "-q"]).bytes;
    test_dir.file("shop.backup", &whole);
    let maps = |hold: &str| test_dir.json(&["list", hold]);
    let names = |list: &Value| -> Vec<String> {
        list.as_array().unwrap().iter().map(|map| map["name"].as_str().unwrap().into()).collect()
    };
    let report = test_dir.json(&["restore", "shop.backup", "one", "--map", "prices"]);
    assert_eq!([&report["maps"], &report["pairs"]], [1, 1_000]);
    assert_eq!(names(&maps("one")), ["prices"]);
    assert_eq!(pairs_of(&test_dir.map("one", "prices")), pairs_of(&test_dir.map("shop", "prices")));
    let two = ["restore", "-", "two", "--map", "stock", "--map", "names", "--map", "stock", "-q"];
    assert_eq!(test_dir.run_with(&two, &whole).code, 0);
    assert_eq!(names(&maps("two")), ["names", "stock"]);
    assert!(test_dir.ok(&["check", "two"]).starts_with("ok"));
    // One that is missing: nothing is made, from a file or from a pipe.
    let args = ["restore", "shop.backup", "none", "--map", "prices", "--map", "price"];
    let err = test_dir.fails(3, &args);
    let expected = "the backup does not contain map 'price'; it contains the maps 'names', \
                    'prices' and 'stock'; name one of them";
    assert!(err.contains("shop.backup: ") && err.contains(expected), "{err}");
    let run = test_dir.run_with(&["restore", "-", "none", "--map", "price"], &whole);
    assert!(run.code == 3 && run.err.contains(expected), "{run:?}");
    let left = test_dir.leftovers(&["shop.hold", "one.hold", "two.hold", "shop.backup"]);
    assert_eq!(left, Vec::<String>::new());
}
