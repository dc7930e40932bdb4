//! The protocol of `docs/reference/wire.md`: `reader.py` was written from that page alone, and has
//! to end with the map that the origin had at the reader's position.

use crate::party::{SMALL_STREAM, Source, pairs};
use commonhold::map::{MapMode, MapOptions};
use commonhold::stream::{ChangeKind, Follower, StreamPosition};
use commonhold_replicate::{Address, Secret};
use commonhold_testing::support::Dice;
use commonhold_testing::support::process::pause;
use serde_json::Value;
use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};

type Pairs = BTreeMap<Vec<u8>, Vec<u8>>;

const READER: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/reader.py");

/// The output of the reader.
struct Reading {
    position: StreamPosition,
    whole: bool,
    mode: (u64, u64, u64),
    changes: u64,
    pairs: Pairs,
    text: Vec<u8>,
}

impl Reading {
    fn of(reader: Child) -> Reading {
        let output = reader.wait_with_output().unwrap();
        let complaint = String::from_utf8_lossy(&output.stderr);
        assert!(output.status.success(), "{complaint}");
        let said: Value = serde_json::from_slice(&output.stdout).unwrap();
        let number = |value: &Value| value.as_u64().expect("a number");
        let pairs = said["pairs"].as_object().expect("pairs");
        let pair = |(key, value): (&String, &Value)| (bytes(key), bytes(value.as_str().unwrap()));
        Reading {
            position: StreamPosition {
                stream: number(&said["stream"]),
                offset: number(&said["offset"]),
            },
            whole: number(&said["whole"]) == 1,
            mode: (number(&said["mode"][0]), number(&said["mode"][1]), number(&said["mode"][2])),
            changes: number(&said["changes"]),
            pairs: pairs.iter().map(pair).collect(),
            text: output.stdout,
        }
    }

    /// Keeps it for a reader that resumes from it.
    fn keep(&self, source: &Source) -> PathBuf {
        let path = source.test_dir.path("state.json");
        std::fs::write(&path, &self.text).unwrap();
        path
    }
}

fn bytes(hex: &str) -> Vec<u8> {
    let byte = |at| u8::from_str_radix(&hex[at..at + 2], 16).expect("hexadecimal digits");
    (0..hex.len()).step_by(2).map(byte).collect()
}

/// Starts the reader, which reads until `changes` changes have come, and everything that was there.
fn start(address: &Address, secret: &str, state: Option<&Path>, changes: u64) -> Child {
    let address = match address {
        Address::Unix(path) => path.display().to_string(),
        Address::Tcp(host, port) => format!("{host}:{port}"),
    };
    let state = state.map_or("-".into(), |path| path.display().to_string());
    Command::new("python3")
        .args([READER, &address, secret, &state, &changes.to_string()])
        .stdin(Stdio::null())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .unwrap()
}

/// False if there is no Python, which a line reports; in the project's CI that is a failure.
fn can_read() -> bool {
    let found = Command::new("python3").arg("--version").output();
    if found.is_ok_and(|output| output.status.success()) {
        return true;
    }
    assert!(std::env::var_os("CI").is_none_or(|ci| ci != "true"), "missing in CI: python3");
    // Past libtest's capture, so that it is seen although the test passes.
    use std::io::Write;
    let text = "\n*** SKIPPED: the independent reader of docs/reference/wire.md: no python3 here\n";
    writeln!(std::io::stderr(), "{text}").expect("standard error takes a line");
    false
}

/// Sets and deletes at random.
fn stir(source: &Source, dice: &mut Dice, changes: u64) {
    for number in 0..changes {
        let key = (dice.below(300) as u32).to_be_bytes();
        let len = match source.map.options().mode() {
            MapMode::Fixed { value_bytes, .. } => value_bytes as usize,
            _ => dice.below(50) as usize,
        };
        match dice.below(8) {
            0 => drop(source.map.delete(key).unwrap()),
            _ => drop(source.map.set(key, vec![number as u8; len]).unwrap()),
        }
    }
}

/// Turns an earlier state of a map into the one at a position, by the changes since then.
fn advance(map: &mut Pairs, since: &mut Follower, to: StreamPosition) {
    assert_eq!(since.position().stream, to.stream);
    while since.position().offset < to.offset {
        let frame = since.try_recv().unwrap().expect("the stream has got there");
        assert_ne!(frame.kind, ChangeKind::Gap);
        match frame.kind {
            ChangeKind::Set => drop(map.insert(frame.key.to_vec(), frame.value.to_vec())),
            _ => drop(map.remove(frame.key)),
        }
    }
    assert_eq!(since.position(), to, "a position between two frames");
}

type Shape = (fn() -> MapOptions, (u64, u64, u64));

/// Maps, and the numbers of their mode on the page.
const SHAPES: [Shape; 4] = [
    (MapOptions::general, (0, 0, 0)),
    (|| MapOptions::fixed(4, 4), (1, 4, 4)),
    (|| MapOptions::fixed(4, 12), (1, 4, 12)),
    (|| MapOptions::cache().max_entries(100).into(), (0, 0, 0)),
];

#[test]
fn a_reader_written_from_the_page_has_the_map() {
    if !can_read() {
        return;
    }
    for (seed, (shape, mode)) in SHAPES.into_iter().enumerate() {
        let source = Source::new(shape());
        let mut dice = Dice::new(seed as u64);
        stir(&source, &mut dice, 1000);
        let first = Reading::of(start(&source.address, "-", None, 0));
        assert!(first.whole);
        assert_eq!((first.mode, first.position), (mode, source.end()));
        assert_eq!(first.pairs, pairs(&source.map));
        // It resumes: only later changes come.
        let before = source.end().offset;
        stir(&source, &mut dice, 500);
        let state = first.keep(&source);
        let second = Reading::of(start(&source.address, "-", Some(&state), 0));
        assert!(!second.whole && second.changes > 0);
        assert!(second.position.offset > before);
        assert_eq!((second.position, second.pairs), (source.end(), pairs(&source.map)));
    }
}

#[test]
fn a_reader_that_was_away_too_long_has_the_whole_map() {
    if !can_read() {
        return;
    }
    let source = Source::with(MapOptions::general(), |options| options.stream_bytes = SMALL_STREAM);
    let mut dice = Dice::new(7);
    stir(&source, &mut dice, 100);
    let state = Reading::of(start(&source.address, "-", None, 0)).keep(&source);
    stir(&source, &mut dice, 3000);
    let again = Reading::of(start(&source.address, "-", Some(&state), 0));
    assert!(again.whole);
    assert_eq!((again.position, again.pairs), (source.end(), pairs(&source.map)));
}

#[test]
fn a_reader_that_knows_the_secret_is_served_and_no_other() {
    if !can_read() {
        return;
    }
    let secret = "a secret of some bytes: äöü";
    let mut source = Source::with(MapOptions::general(), |options| {
        options.secret = Some(Secret::new(secret));
    });
    stir(&source, &mut Dice::new(9), 200);
    let tcp = source.origin().listen(&"tcp:127.0.0.1:0".parse().unwrap()).unwrap();
    let first = Reading::of(start(&tcp, secret, None, 0));
    assert_eq!(first.pairs, pairs(&source.map));
    // The position is part of what is proved.
    stir(&source, &mut Dice::new(10), 200);
    let state = first.keep(&source);
    let second = Reading::of(start(&source.address, secret, Some(&state), 0));
    assert!(!second.whole);
    assert_eq!(second.pairs, pairs(&source.map));
    let fails = |secret: &str, why: &str| {
        let output = start(&source.address, secret, None, 0).wait_with_output().unwrap();
        let text = String::from_utf8_lossy(&output.stderr).into_owned();
        assert!(!output.status.success() && text.contains(why), "{text}");
    };
    fails("another", "the origin has closed");
    fails("-", "code 0x101 for an origin");
    assert!(source.has_said("does not know the secret"));
    source.origin = None;
}

#[test]
fn a_reader_has_the_map_of_one_moment_while_others_write() {
    if !can_read() {
        return;
    }
    for (seed, shape) in [MapOptions::general, || MapOptions::fixed(4, 12)].into_iter().enumerate()
    {
        let source = Source::with(shape(), |options| options.stream_bytes = 64 << 20);
        let mut dice = Dice::new(20 + seed as u64);
        stir(&source, &mut dice, 2000);
        let (mut map, mut since) = (pairs(&source.map), source.map.follow().unwrap());
        let mut stirred_until_it_ends = |state: Option<&Path>| {
            let reader = start(&source.address, "-", state, 2000);
            let reading = std::thread::spawn(|| Reading::of(reader));
            while !reading.is_finished() {
                stir(&source, &mut dice, 20);
                pause();
            }
            reading.join().expect("a reading")
        };
        let first = stirred_until_it_ends(None);
        advance(&mut map, &mut since, first.position);
        assert_eq!(first.pairs, map);
        assert!(first.whole && first.changes >= 2000);
        let second = stirred_until_it_ends(Some(&first.keep(&source)));
        advance(&mut map, &mut since, second.position);
        assert_eq!(second.pairs, map);
        assert!(!second.whole && second.changes >= 2000);
    }
}
