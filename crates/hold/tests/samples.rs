//! Holds that earlier versions wrote (`data/holds`, made by `data/holds/make`): this version reads
//! those of its own format, and refuses the others with the way out.

use crate::support::TestDir;
use serde_json::json;
use std::path::{Path, PathBuf};
use std::process::Command;

/// The sample holds: their formats and their files, compressed.
fn samples() -> Vec<(u32, PathBuf)> {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../data/holds");
    let files = std::fs::read_dir(folder).expect("the samples").flatten().map(|file| file.path());
    let format = |path: &PathBuf| {
        let name = path.file_name()?.to_str()?;
        name.strip_prefix("format-")?.strip_suffix(".hold.gz")?.parse().ok()
    };
    files.filter_map(|path| Some((format(&path)?, path))).collect()
}

/// The format that this version reads and writes.
fn current() -> u32 {
    commonhold::raw::FORMAT
}

/// A directory with the sample as `sample.hold`.
fn unpacked(sample: &Path) -> TestDir {
    let test_dir = TestDir::new();
    let output = Command::new("gzip").arg("-dc").arg(sample).output().expect("gzip");
    assert!(output.status.success(), "{output:?}");
    test_dir.file("sample.hold", output.stdout);
    test_dir
}

/// The sample of the current format.
fn of_this_format() -> TestDir {
    let (_, sample) = samples()
        .into_iter()
        .find(|(format, _)| *format == current())
        .expect("a sample of the current format; data/holds/make makes it");
    unpacked(&sample)
}

/// The pairs, elements and messages of the sample, in the hold of this name.
fn verify_contents(test_dir: &TestDir, hold: &str) {
    assert_eq!(test_dir.ok(&["get", hold, "prices", "apple"]), "3");
    assert_eq!(test_dir.ok(&["get", hold, "prices", "pear"]), "4");
    assert_eq!(test_dir.ok(&["get", hold, "prices", "long"]), "x".repeat(300));
    assert_eq!(test_dir.ok(&["get", "--number", hold, "counts", "visits"]), "41\n");
    assert_eq!(test_dir.ok(&["get", hold, "words", "abcd"]), "efgh");
    assert_eq!(test_dir.ok(&["get", hold, "pages", "/index"]), "<html>");
    assert_eq!(test_dir.ok(&["keys", hold, "prices"]).lines().count(), 3);
    let jobs = test_dir.json(&["queue", "stat", hold, "jobs"]);
    let lengths = jobs["queues"].as_array().expect("queues").iter();
    assert_eq!(lengths.map(|queue| &queue["length"]).collect::<Vec<_>>(), [2, 2]);
    let received = ["channel", "recv", hold, "ticks", "--oldest", "--policy", "lossy", "-n", "2"];
    assert_eq!(test_dir.ok(&received), "EUR 1.08\nEUR 1.09\n");
    assert!(test_dir.ok(&["check", hold]).starts_with("ok: 4 maps, "));
}

#[test]
fn a_hold_of_this_format_from_an_earlier_build_is_read() {
    let test_dir = of_this_format();
    verify_contents(&test_dir, "sample");
    let lines = test_dir.ok(&["log", "dump", "sample", "events"]);
    assert!(lines.contains("the shop is open") && lines.contains("the shop burns"), "{lines}");
    assert_eq!(test_dir.ok(&["queue", "pull", "sample", "jobs", "full"]), "first job\n");
    test_dir.ok(&["set", "sample", "prices", "plum", "7"]);
    assert_eq!(test_dir.ok(&["get", "sample", "prices", "plum"]), "7");
}

#[test]
fn nothing_is_to_be_done_for_a_hold_of_this_format() {
    let test_dir = of_this_format();
    let before = test_dir.read("sample.hold");
    let text = test_dir.ok(&["upgrade", "sample"]);
    assert!(text.contains(&format!("format {}", current())) && text.contains("nothing to do"));
    let report = test_dir.json(&["upgrade", "sample"]);
    assert_eq!((&report["format"], &report["upgraded"]), (&json!(current()), &json!(false)));
    assert!(test_dir.read("sample.hold") == before, "the file was changed");
}

#[test]
fn a_hold_is_copied_with_everything_in_it() {
    let test_dir = of_this_format();
    let err = test_dir.fails(3, &["upgrade", "sample", "--to", "new"]);
    assert!(err.contains("log 'events'") && err.contains("log collect"), "{err}");
    assert_eq!(test_dir.leftovers(&["sample.hold"]), Vec::<String>::new());
    test_dir.ok(&["log", "collect", "sample", "events", "--once"]);
    let report = test_dir.json(&["upgrade", "sample", "--to", "new"]);
    let expected = json!({
        "path": test_dir.path("new.hold"), "format": current(), "upgraded": true,
        "maps": 4, "pairs": 6, "queues": 1, "elements": 4, "channels": 1, "messages": 2, "logs": 1,
    });
    assert_eq!(report, expected);
    assert_eq!(test_dir.leftovers(&["sample.hold", "new.hold"]), Vec::<String>::new());
    for hold in ["new", "sample"] {
        verify_contents(&test_dir, hold);
        test_dir.ok(&["log", "write", hold, "events", "one more line"]);
        for job in ["first job\n", "second job\n"] {
            assert_eq!(test_dir.ok(&["queue", "pull", hold, "jobs", "full"]), job, "{hold}");
        }
    }
    let log = |hold: &str| test_dir.json(&["log", "stat", hold, "events"]);
    for field in ["rings", "ring_bytes", "overflow", "level"] {
        assert_eq!(log("new")[field], log("sample")[field], "{field}");
    }
    let err = test_dir.fails(3, &["upgrade", "sample", "--to", "new"]);
    assert!(err.contains("new.hold: already exists"), "{err}");
}

#[test]
fn a_hold_that_another_process_may_change_is_not_copied() {
    let test_dir = of_this_format();
    let map = test_dir.map("sample", "prices");
    let err = test_dir.fails(3, &["upgrade", "sample", "--to", "new"]);
    assert!(err.contains(&format!("process {}", std::process::id())), "{err}");
    drop(map);
    assert_eq!(test_dir.leftovers(&["sample.hold"]), Vec::<String>::new());
}

#[test]
fn holds_of_other_formats_are_refused_with_the_way_out() {
    let test_dir = of_this_format();
    let mut bytes = test_dir.read("sample.hold");
    for (format, way_out) in
        [(current() - 1, "'hold backup' with the version that wrote it"), (current() + 1, "newer")]
    {
        bytes[8..12].copy_from_slice(&format.to_le_bytes());
        test_dir.file("other.hold", &bytes);
        for arguments in [&["upgrade", "other"][..], &["upgrade", "other", "--to", "new"]] {
            let err = test_dir.fails(3, arguments);
            let [has, reads] = [format!("format {format}"), format!("format {}", current())];
            assert!([&has, &reads, way_out].iter().all(|part| err.contains(*part)), "{err}");
        }
        assert!(!test_dir.path("new.hold").exists());
    }
    for (format, sample) in samples().into_iter().filter(|(format, _)| *format != current()) {
        let err = unpacked(&sample).fails(3, &["upgrade", "sample"]);
        assert!(err.contains(&format!("format {format}")), "{err}");
    }
}
