//! Scenarios of which only errors are tested: what uses other files, logs, a notifier.
//!
//! Each can be repeated, up to whatever it came before.

use super::messages::{SHARED, mingle, queue_options};
use super::process::{Board, pause};
use super::scenario::{Scenario, is_own, own, visit, whole};
use super::shape::Shape;
use commonhold::log::{LogLevel, LogOptions, Overflow, RotatedFile, Written};
use commonhold::map::{Map, MapOptions};
use commonhold::{Error, ErrorKind, Hold, Result};
use nix::poll::{PollFd, PollFlags, PollTimeout, poll};
use std::collections::BTreeSet;
use std::os::fd::AsFd;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

/// All of them.
pub const ERRANDS: &[Scenario] = &[
    whole("files", copy_and_delete, files_are_whole_or_absent),
    whole("log", write_and_collect, no_line_is_lost),
    whole("notifier", ring_and_pull, |_, _, _| ()),
    whole("mingling", only_mingle, |_, _, _| ()),
    whole("memory", free_and_give_back, |_, _, _| ()),
];

const ROUNDS: u64 = 2;
const KEYS: u32 = 30;

fn sibling(path: &Path, what: &str, n: u64) -> PathBuf {
    path.with_extension(format!("{what}-{n}.hold"))
}

fn fill(map: &Map, version: u64) -> Result<()> {
    (0..KEYS).try_for_each(|id| {
        map.set(Shape::General.key(id), Shape::General.value(id, version)).map(drop)
    })
}

#[track_caller]
fn is_filled(map: &Map, version: u64) {
    assert_eq!(map.len().unwrap(), u64::from(KEYS));
    for id in 0..KEYS {
        let value = map.get(Shape::General.key(id)).unwrap().expect("a key that was set");
        assert_eq!(Shape::General.version(id, &value), Ok(version));
    }
}

/// Makes holds in the same directory, backs them up, restores, lists and deletes them.
fn copy_and_delete(path: &Path, board: &Board, at: usize) -> Result<()> {
    let name = |what, n| sibling(path, what, n);
    for n in 1..=ROUNDS {
        board.put(at, n);
        for what in ["first", "copy", "second", "passing"] {
            let _ = std::fs::remove_file(name(what, n));
        }
        let first = Hold::create(name("first", n))?;
        fill(&first.maps().open_or_create("it", MapOptions::general())?, n)?;
        first.backup(name("copy", n))?;
        first.close()?;
        commonhold::hold::restore(name("copy", n), name("second", n))?;
        commonhold::hold::remove(name("first", n), false)?;
        let listed = commonhold::hold::list(path.parent())?;
        let second = name("second", n);
        assert!(listed.iter().any(|hold| hold.path == second), "{listed:?}");
        let passing = Hold::options().delete_on_last_exit(true).create(name("passing", n))?;
        passing.maps().open_or_create("it", MapOptions::general())?.set("a", "b")?;
        passing.close()?;
        board.put(at + 1, n);
    }
    Ok(())
}

fn files_are_whole_or_absent(hold: &Hold, board: &Board, at: usize) {
    let path = hold.path().to_owned();
    let (begun, done) = (board.get(at), board.get(at + 1));
    let mut known: BTreeSet<PathBuf> = [path.clone()].into();
    for n in 1..=begun {
        let [first, copy, second, passing] =
            ["first", "copy", "second", "passing"].map(|what| sibling(&path, what, n));
        assert!(n > done || second.exists(), "round {n} was done");
        let whole = |name: &Path| {
            let opened = Hold::open(name).unwrap_or_else(|e| panic!("{}: {e}", name.display()));
            is_filled(&opened.maps().open("it").unwrap(), n);
        };
        if second.exists() {
            whole(&second);
        } else if copy.exists() {
            commonhold::hold::restore(&copy, &second).unwrap();
            whole(&second);
        } else if first.exists() {
            drop(Hold::open(&first).unwrap());
        }
        known.extend([first, copy, second, passing]);
    }
    for entry in std::fs::read_dir(path.parent().unwrap()).unwrap() {
        let found = entry.unwrap().path();
        assert!(known.contains(&found), "left over: {}", found.display());
    }
}

fn line(number: u64) -> String {
    format!("{number} {}", "x".repeat(number as usize * 7 % 60))
}

/// From the scenario's first word on: how many lines were accepted.
const ACCEPTED: usize = 100;

/// Writes lines of a log and collects them into files that are rotated.
fn write_and_collect(path: &Path, board: &Board, at: usize) -> Result<()> {
    let hold = visit(path)?;
    let options = LogOptions::new().rings(4).ring_bytes(16 << 10).overflow(Overflow::Drop);
    let log = hold.logs().open_or_create(&own("it", at), options)?;
    let named = |what| path.with_extension(own(what, at));
    for n in 1..=ROUNDS {
        board.put(at, n);
        for _ in 0..60 {
            if log.write(LogLevel::Info, line(board.get(at + ACCEPTED)))? == Written::Accepted {
                board.count(at + ACCEPTED, 1);
            }
        }
        let mut file = RotatedFile::open(named("lines"), 600, 100)?;
        // A round that failed is repeated in the place of what it has written.
        collect(&log, &mut file).or_else(|_| collect(&log, &mut file))?;
        let mut short = RotatedFile::open(named("last-lines"), 300, 0)?;
        for number in 0..30 {
            let _ = log.write(LogLevel::Error, line(number))?;
        }
        collect(&log, &mut short)?;
        board.put(at + 1, n);
    }
    Ok(())
}

fn collect(log: &commonhold::log::Log, file: &mut RotatedFile) -> Result<()> {
    let mut collector = log.collector()?.format(|line, out| {
        if line.level.is_some() {
            out.extend([&line.text[..], b"\n"].concat());
        }
    });
    collector.finish_to_file(file).map(drop)
}

/// What was accepted is in one of the files, or still in the log.
fn no_line_is_lost(hold: &Hold, board: &Board, at: usize) {
    let path = hold.path().to_owned();
    let Ok(log) = hold.logs().open(&own("it", at)) else {
        return assert_eq!(board.get(at + ACCEPTED), 0);
    };
    let mut file = RotatedFile::open(path.with_extension(own("lines", at)), 600, 100).unwrap();
    collect(&log, &mut file).unwrap();
    let is_file = |path: &Path| {
        let name = path.to_string_lossy();
        name.contains("lines") && is_own(&name, at)
    };
    let mut found = BTreeSet::new();
    for entry in std::fs::read_dir(path.parent().unwrap()).unwrap() {
        let path = entry.unwrap().path();
        if is_file(&path) {
            let text = std::fs::read_to_string(path).unwrap();
            assert!(text.is_empty() || text.ends_with('\n'), "half a line at the end");
            found.extend(text.lines().map(str::to_owned));
        }
    }
    let missing: Vec<u64> =
        (0..board.get(at + ACCEPTED)).filter(|n| !found.contains(&line(*n))).collect();
    assert!(missing.is_empty(), "lines that were accepted are lost: {missing:?}");
    assert!(hold.logs().drop(&own("it", at)).unwrap());
    for entry in std::fs::read_dir(path.parent().unwrap()).unwrap() {
        let path = entry.unwrap().path();
        if is_file(&path) {
            std::fs::remove_file(path).unwrap();
        }
    }
    board.put(at + ACCEPTED, 0);
}

/// Waits for elements by a descriptor.
fn ring_and_pull(path: &Path, board: &Board, at: usize) -> Result<()> {
    let hold = visit(path)?;
    let queue = hold.queues().open_or_create(&own("rung", at), queue_options())?;
    let [free, full] = ["free", "full"].map(|name| queue.named(name).unwrap());
    let notifier = queue.eventfd("full")?;
    for n in 1..=4 {
        board.put(at, n);
        notifier.clear();
        let Some(element) = free.pull()? else { continue };
        full.push(element)?;
        let mut waited = [PollFd::new(notifier.as_fd(), PollFlags::POLLIN)];
        if poll(&mut waited, PollTimeout::from(5000u16)).unwrap() == 0 {
            return Err(Error::new(ErrorKind::TimedOut, "the notifier keeps silent"));
        }
        while let Some(element) = full.pull()? {
            free.push(element)?;
        }
        board.put(at + 1, n);
    }
    Ok(())
}

/// Frees more than small holds keep, until memory is given back to the system.
fn free_and_give_back(path: &Path, board: &Board, at: usize) -> Result<()> {
    let hold = visit(path)?;
    let map = hold.maps().open_or_create(&own("large", at), MapOptions::general())?;
    board.put(at, 1);
    for id in 0..12 {
        map.set(Shape::General.key(id), vec![1; 1 << 20])?;
    }
    map.clear()?;
    // Only after a while, and never if the system refuses.
    let late = Instant::now() + Duration::from_secs(2);
    while hold.trim()? == 0 && Instant::now() < late {
        pause();
    }
    board.put(at + 1, 1);
    Ok(())
}

/// Moves elements of the queue in which others do so, too.
fn only_mingle(path: &Path, board: &Board, at: usize) -> Result<()> {
    let hold = visit(path)?;
    let shared = hold.queues().open_or_create(SHARED, queue_options())?;
    for n in 1..=12 {
        board.put(at, n);
        mingle(&shared)?;
        board.put(at + 1, n);
    }
    Ok(())
}
