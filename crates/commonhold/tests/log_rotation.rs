//! A rotated file by itself: what a caller that writes to it finds after errors.

use crate::log_faults::{filled, is_complete, plain};
use crate::support::process::{Child, End};
use crate::support::test_dir::TestDir;
use commonhold::log::{LogLevel, RotatedFile, Written};
use nix::sys::resource::{Resource, setrlimit};
use std::io::Write;

/// The old file is gone by then: what went there would be lost.
#[test]
fn nothing_is_written_to_a_file_that_was_rotated_away() {
    for keep in [0, 2] {
        let test_dir = TestDir::memory();
        let path = test_dir.path("a.log");
        let mut rotating = Child::run(format!("rotating, keeping {keep}"), || {
            let mut file = RotatedFile::open(&path, 10, keep).unwrap();
            file.write_all(b"first\n").unwrap();
            commonhold::steps::arm_fault("rotate.open:EMFILE:once").unwrap();
            let error = file.write_all(b"too long\n").unwrap_err();
            assert_eq!(error.raw_os_error(), Some(libc::EMFILE));
            // It would have had room in the old one.
            file.write_all(b"2nd\n").unwrap();
            assert_eq!(std::fs::read_to_string(&path).unwrap(), "2nd\n", "keeping {keep}");
        });
        assert_eq!(rotating.wait(), End::Well);
        // It was put away once: a second time would have moved it on.
        let kept = std::fs::read_to_string(test_dir.path("a.log.1")).ok();
        assert_eq!(kept.as_deref(), (keep > 0).then_some("first\n"));
    }
}

/// The old file is still there, and full.
#[test]
fn a_file_that_could_not_be_put_away_is_put_away_the_next_time() {
    for (keep, fault) in [(0, "rotate.remove:EIO:once"), (2, "rotate.rename:EIO:once")] {
        let test_dir = TestDir::memory();
        let path = test_dir.path("a.log");
        let mut rotating = Child::run(fault, || {
            let mut file = RotatedFile::open(&path, 10, keep).unwrap();
            file.write_all(b"first\n").unwrap();
            commonhold::steps::arm_fault(fault).unwrap();
            let error = file.write_all(b"too long\n").unwrap_err();
            assert_eq!(error.raw_os_error(), Some(libc::EIO));
            file.write_all(b"too long\n").unwrap();
            assert_eq!(std::fs::read_to_string(&path).unwrap(), "too long\n", "{fault}");
        });
        assert_eq!(rotating.wait(), End::Well);
    }
}

/// A file that has moved already is not moved again, and none is lost, by what comes after an
/// error.
#[test]
fn a_rotation_that_failed_is_continued() {
    for fails_at in 1..=3 {
        let test_dir = TestDir::memory();
        let path = test_dir.path("a.log");
        Child::run(format!("rotating, failing at {fails_at}"), || {
            let mut file = RotatedFile::open(&path, 2, 3).unwrap();
            (1..=4).for_each(|n| writeln!(file, "{n}").unwrap());
            commonhold::steps::arm_fault(&format!("rotate.rename:EIO:once:{fails_at}")).unwrap();
            let error = file.write_all(b"5\n").unwrap_err();
            assert_eq!(error.raw_os_error(), Some(libc::EIO));
            file.write_all(b"5\n").unwrap();
            let name = |age| test_dir.path(&format!("a.log.{age}"));
            let older = [3, 2, 1].map(|age| std::fs::read_to_string(name(age)).unwrap());
            assert_eq!(older.concat() + &std::fs::read_to_string(&path).unwrap(), "2\n3\n4\n5\n");
        })
        .finish();
    }
}

/// A file that the collector has used before may have got half a line since.
#[test]
fn a_line_that_was_torn_since_is_ended() {
    let test_dir = TestDir::memory();
    let (path, out) = (test_dir.path("it.hold"), test_dir.path("it.log"));
    let (_, log) = filled(&path);
    let mut file = RotatedFile::open(&out, u64::MAX, 0).unwrap();
    let mut collector = log.collector().unwrap().format(plain);
    collector.finish_to_file(&mut file).unwrap();
    let mut other = std::fs::OpenOptions::new().append(true).open(&out).unwrap();
    other.write_all(b"half").unwrap();
    assert_eq!(log.write(LogLevel::Info, "whole").unwrap(), Written::Accepted);
    collector.finish_to_file(&mut file).unwrap();
    let text = std::fs::read(&out).unwrap();
    is_complete(text.strip_suffix(b"half\nwhole\n").unwrap());
}

/// A writer that gets an error writes the same text again: the file has none of it.
#[test]
fn a_write_that_fails_leaves_nothing() {
    let test_dir = TestDir::memory();
    let path = test_dir.path("a.log");
    let mut writing = Child::run("writing", || {
        let mut file = RotatedFile::open(&path, 1 << 20, 1).unwrap();
        file.write_all(b"first\n").unwrap();
        assert_eq!(file.write(b"").unwrap(), 0);
        // The limit is in the middle of the line.
        setrlimit(Resource::RLIMIT_FSIZE, 10, 10).unwrap();
        assert!(file.write_all(b"second\n").is_err());
        assert_eq!(std::fs::read_to_string(&path).unwrap(), "first\n");
    });
    assert_eq!(writing.wait(), End::Well);
}

/// An empty text needs no room, so a full file stays.
#[test]
fn writing_nothing_rotates_nothing() {
    for keep in [0, 1] {
        let test_dir = TestDir::memory();
        let path = test_dir.path("a.log");
        let mut file = RotatedFile::open(&path, 6, keep).unwrap();
        file.write_all(b"first\n").unwrap();
        assert_eq!(file.write(b"").unwrap(), 0);
        assert_eq!(std::fs::read_to_string(&path).unwrap(), "first\n");
        assert!(!test_dir.path("a.log.1").exists());
    }
}

/// The file and an older one are the same file, by two names: renaming one to the other does
/// nothing.
#[test]
fn a_file_with_two_names_of_the_series_is_reported() {
    let test_dir = TestDir::memory();
    let path = test_dir.path("a.log");
    let mut file = RotatedFile::open(&path, 6, 1).unwrap();
    file.write_all(b"first\n").unwrap();
    std::fs::hard_link(&path, test_dir.path("a.log.1")).unwrap();
    let error = file.write_all(b"second\n").unwrap_err();
    assert!(error.to_string().contains("remove one of the two names"), "{error}");
    std::fs::remove_file(test_dir.path("a.log.1")).unwrap();
    file.write_all(b"second\n").unwrap();
    assert_eq!(std::fs::read_to_string(&path).unwrap(), "second\n");
}
