//! Tests of the replica's side of the messages, without a connection.

use super::*;
use crate::protocol::introduction::Lineage;
use crate::protocol::wire;

/// The offset of one of some changes of one pair.
fn offset(number: u64) -> u64 {
    number * 48
}

/// Takes a change; returns the beginnings and ends of the changes that are shown then.
fn take(intake: &mut Intake, number: u64) -> Vec<(u64, u64)> {
    let (code, value) = (ChangeKind::Set as u32, number.to_string());
    let (key, value, offset) = (&b"key"[..], value.as_bytes(), offset(number));
    let frame = RawFrame { code, key, value, expires_ms: 0, offset };
    match intake.take(&frame, 0).unwrap() {
        Effect::Changed(change) => vec![(change.offset, change.end)],
        Effect::Regained(regain) => {
            regain.changes().map(|change| (change.offset, change.end)).collect()
        }
        _ => Vec::new(),
    }
}

fn places(numbers: std::ops::Range<u64>) -> Vec<(u64, u64)> {
    numbers.map(|number| (offset(number), offset(number + 1))).collect()
}

fn say(intake: &mut Intake, note: impl FnOnce(&mut Vec<u8>)) {
    let mut words = Vec::new();
    note(&mut words);
    intake.take(&RawFrame::decode(&words).unwrap(), 0).unwrap();
}

/// The announcement of a whole map.
fn welcome(mode: MapMode) -> Welcome {
    let (proof, name) = (Vec::new(), "it".to_owned());
    Welcome { proof, position: StreamPosition { stream: 7, offset: 0 }, whole: true, mode, name }
}

/// An earlier arrival does not count as one by a later connection that fails.
#[test]
fn each_connection_arrives_once() {
    let directory = tempfile::tempdir_in("/dev/shm").unwrap();
    let hold = Hold::create(directory.path().join("it.hold")).unwrap();
    let mut intake = Intake::open(&hold, "it", &KeyPrefix::default()).unwrap();
    intake.begin(&welcome(MapMode::General), &Introduction::new(Lineage::default())).unwrap();
    say(&mut intake, |words| wire::put_complete(words, 0, 0));
    assert!(intake.arrive().unwrap() && intake.has_arrived());
    intake.abandon();
    assert!(!intake.has_arrived() && !intake.arrive().unwrap());
}

/// The whole map has come, and its position could not be stored, which is the one of before.
#[test]
fn a_position_that_is_reached_again_is_stored_again() {
    let directory = tempfile::tempdir_in("/dev/shm").unwrap();
    let hold = Hold::create(directory.path().join("it.hold")).unwrap();
    let mut intake = Intake::open(&hold, "it", &KeyPrefix::default()).unwrap();
    let (end, origin) = (offset(1), Introduction::new(Lineage::default()));
    intake.begin(&welcome(MapMode::General), &origin).unwrap();
    say(&mut intake, |words| wire::put_complete(words, 0, 0));
    assert!(intake.arrive().unwrap());
    take(&mut intake, 0);
    intake.save_position().unwrap();
    intake.abandon();
    let mut welcome = welcome(MapMode::General);
    welcome.position.offset = end;
    intake.begin(&welcome, &origin).unwrap();
    say(&mut intake, |words| wire::put_complete(words, end, end));
    assert!(intake.arrive().unwrap());
    // As after an error behind the swap.
    intake.place.forget().unwrap();
    intake.save_position().unwrap();
    assert_eq!(intake.place.applied().unwrap(), Some(welcome.position));
}

/// The stored positions: it had applied two changes, and might apply six; it had applied four.
#[test]
fn a_killed_replica_shows_nothing_older_when_it_resumes() {
    let directory = tempfile::tempdir_in("/dev/shm").unwrap();
    let hold = Hold::create(directory.path().join("it.hold")).unwrap();
    let map = hold.maps().open_replica("it", MapOptions::general()).unwrap();
    let at = |number| StreamPosition { stream: 7, offset: offset(number) };
    let mut intake = Intake::open(&hold, "it", &KeyPrefix::default()).unwrap();
    intake.position = Some(at(0));
    for number in 0..4 {
        assert_eq!(take(&mut intake, number), places(number..number + 1));
    }
    intake.place.reached(at(2), None).unwrap();
    intake.place.applying(at(6), Some(Proof { bytes: 48, sum: 0 })).unwrap();
    drop(intake);

    let mut intake = Intake::open(&hold, "it", &KeyPrefix::default()).unwrap();
    for interrupted in [true, false] {
        for number in 2..5 {
            assert_eq!(intake.position(), Some(at(2)), "it does not know of more yet");
            let shown = take(&mut intake, number);
            assert!(shown.is_empty(), "the map has not {shown:?} yet");
            assert_eq!(map.get("key").unwrap().as_deref(), Some(&b"3"[..]), "after {number}");
        }
        if interrupted {
            intake.abandon();
        }
    }
    assert_eq!(take(&mut intake, 5), places(2..6));
    assert_eq!(intake.position(), Some(at(6)));
    assert_eq!(map.get("key").unwrap().as_deref(), Some(&b"5"[..]));
}

/// A replica that was killed while it applied changes that this origin lacks cannot know what it
/// has: the changes up to there are others.
#[test]
fn a_killed_replica_continues_no_other_history() {
    let directory = tempfile::tempdir_in("/dev/shm").unwrap();
    let hold = Hold::create(directory.path().join("it.hold")).unwrap();
    let map = hold.maps().open_replica("it", MapOptions::general()).unwrap();
    let at = |number| StreamPosition { stream: 7, offset: offset(number) };
    // The last of the announced changes had another checksum, or is not known; or a change of this
    // origin goes on beyond its end.
    let proof = |bytes, sum| Some(Proof { bytes, sum });
    for (end, last) in [(6 * 48, proof(48, 1)), (6 * 48, None), (6 * 48 - 8, proof(48, 0))] {
        let intake = Intake::open(&hold, "it", &KeyPrefix::default()).unwrap();
        map.set("of the old origin", "1").unwrap();
        intake.place.reached(at(2), None).unwrap();
        intake.place.applying(StreamPosition { offset: end, ..at(2) }, last).unwrap();
        drop(intake);
        let mut intake = Intake::open(&hold, "it", &KeyPrefix::default()).unwrap();
        (2..5).for_each(|number| assert_eq!(take(&mut intake, number), []));
        let value = b"5";
        let (code, key, offset) = (ChangeKind::Set as u32, &b"key"[..], offset(5));
        let frame = RawFrame { code, key, value, expires_ms: 0, offset };
        let refused = intake.take(&frame, 0).map(drop).unwrap_err();
        assert!(refused.0.contains("requesting the whole map"), "{refused:?}");
        assert_eq!((intake.position(), intake.place.applied().unwrap()), (None, None));
        assert_eq!(map.get("key").unwrap(), None);
    }
}

/// Tells a replica of a prefix that it does not want the changes with these numbers.
fn skip(intake: &mut Intake, numbers: std::ops::Range<u64>) -> std::result::Result<(), Broken> {
    let last = Proof { bytes: 48, sum: 7 };
    let mut words = Vec::new();
    Skip { from: offset(numbers.start), to: offset(numbers.end), last }.put(&mut words);
    intake.take(&RawFrame::decode(&words).unwrap(), 0).map(drop)
}

/// The stored positions: it had applied two changes, and might apply the third, the sixth and the
/// seventh, with others between them that it does not want.
#[test]
fn a_killed_replica_of_a_prefix_resumes_whatever_the_skips() {
    let directory = tempfile::tempdir_in("/dev/shm").unwrap();
    let prefix = KeyPrefix::wanted(Some(b"k")).unwrap();
    let at = |number| StreamPosition { stream: 7, offset: offset(number) };
    let killed = |name: &str| {
        let hold = Hold::create(directory.path().join(name)).unwrap();
        let map = hold.maps().open_replica("it", MapOptions::general()).unwrap();
        let mut intake = Intake::open(&hold, "it", &prefix).unwrap();
        intake.position = Some(at(0));
        (0..3).for_each(|number| assert_eq!(take(&mut intake, number).len(), 1));
        skip(&mut intake, 3..5).unwrap();
        assert_eq!(take(&mut intake, 5), places(5..6));
        intake.place.reached(at(2), None).unwrap();
        intake.place.applying(at(7), Some(Proof { bytes: 48, sum: 0 })).unwrap();
        drop(intake);
        (Intake::open(&hold, "it", &prefix).unwrap(), map)
    };
    let (mut intake, map) = killed("same.hold");
    assert!(take(&mut intake, 2).is_empty());
    skip(&mut intake, 3..4).unwrap();
    skip(&mut intake, 4..5).unwrap();
    assert!(take(&mut intake, 5).is_empty());
    assert_eq!(intake.position(), Some(at(2)), "it does not know of more yet");
    assert_eq!(map.get("key").unwrap().as_deref(), Some(&b"5"[..]));
    let shown = take(&mut intake, 6);
    assert_eq!(shown, [places(2..3), places(5..7)].concat());
    assert_eq!(map.get("key").unwrap().as_deref(), Some(&b"6"[..]));
    skip(&mut intake, 7..9).unwrap();
    assert_eq!(intake.position(), Some(at(9)));
    assert_eq!(intake.proof(), Some(Proof { bytes: 48, sum: 7 }));
    // The change that it waits for, which it had wanted, was another one.
    for (number, to) in [7, 8].into_iter().enumerate() {
        let (mut intake, _) = killed(&format!("{number}.hold"));
        assert!(take(&mut intake, 2).is_empty());
        let refused = skip(&mut intake, 3..to).unwrap_err();
        assert!(refused.0.contains("requesting the whole map"), "{refused:?}");
        assert_eq!((intake.position(), intake.place.applied().unwrap()), (None, None));
    }
}

/// Received bytes with changes that it wants, and others: up to the last one that it wants.
#[test]
fn a_range_ends_with_a_change_that_is_wanted() {
    let mut words = Vec::new();
    let frame = |offset| RawFrame { code: 1, key: b"key", value: b"v", expires_ms: 0, offset };
    let last = Proof { bytes: 48, sum: 7 };
    Skip { from: 0, to: 480, last }.put(&mut words);
    let changes = |words: &[u8]| {
        let mut inbox = crate::protocol::inbox::Inbox::default();
        inbox.put(words.to_vec());
        inbox.changes()
    };
    assert_eq!(changes(&words), (0, None));
    frame(480).encode_into(&mut words).unwrap();
    let sum = RawFrame::stated_sum(&words[Skip::FRAME..]).unwrap();
    let there = (528, Some(Proof { bytes: 48, sum }));
    assert_eq!(changes(&words), there);
    wire::put_time(&mut words, 528, 9000, 1);
    Skip { from: 528, to: 9000, last }.put(&mut words);
    assert_eq!(changes(&words), there);
}

/// The origin's clock is an hour behind this machine's. Expired pairs are there until the origin
/// removes them, so that the stream of a relay has the same changes.
#[test]
fn pairs_expire_by_the_origins_clock() {
    const MINUTE: u64 = 60_000;
    let directory = tempfile::tempdir_in("/dev/shm").unwrap();
    let hold = Hold::create(directory.path().join("it.hold")).unwrap();
    let mut intake = Intake::open(&hold, "it", &KeyPrefix::default()).unwrap();
    let mut origin = Introduction::new(Lineage::default());
    origin.clock_ms = wire::now_ms() - 60 * MINUTE;
    intake.begin(&welcome(wire::cache(None)), &origin).unwrap();
    let (later, before) = (origin.clock_ms + 30 * MINUTE, origin.clock_ms - MINUTE);
    let frame = |code, key: &'static str, expires_ms, offset| RawFrame {
        code,
        key: key.as_bytes(),
        value: &[],
        expires_ms,
        offset,
    };
    let (pair, set, expire) = (wire::code::PAIR, ChangeKind::Set, ChangeKind::Expire);
    for (key, expires_ms) in [("never", 0), ("later", later), ("before", before)] {
        intake.take(&frame(pair, key, expires_ms, 0), 0).unwrap();
    }
    say(&mut intake, |words| wire::put_complete(words, 0, 0));
    assert!(intake.arrive().unwrap());
    let map = hold.maps().open("it").unwrap();
    let has = |key| map.contains(key).unwrap();
    assert_eq!([has("never"), has("later"), has("before")], [true, true, false]);
    assert_eq!(OriginClock::of(&hold, &map), intake.clock);

    assert!(intake.begin_stream(64 << 10).is_ok());
    let mut follower = map.follow().unwrap();
    let changes = [(set, "later", before), (expire, "before", 0), (expire, "later", 0)];
    for (number, (kind, key, expires_ms)) in changes.into_iter().enumerate() {
        let offset = intake.offset();
        intake.take(&frame(kind as u32, key, expires_ms, offset), 0).unwrap();
        assert_eq!(map.len().unwrap(), [3, 2, 1][number]);
        let told = follower.try_recv().unwrap().unwrap();
        assert_eq!((told.kind, told.key, told.expires_ms), (kind, key.as_bytes(), expires_ms));
        assert_eq!((told.offset, told.end), (offset, intake.offset()));
    }
    assert_eq!([has("never"), has("later"), has("before")], [true, false, false]);
}

/// The process is stopped while it makes its slot, and the map is promoted and served.
#[cfg(feature = "steps")]
#[test]
fn a_replica_that_begins_leaves_the_lineage_of_a_promoted_map() {
    use crate::lineage::of_origin;
    use commonhold_testing::support::standstill::{go_on, stopped};
    let directory = tempfile::tempdir_in("/dev/shm").unwrap();
    let path = directory.path().join("it.hold");
    let hold = Hold::create(&path).unwrap();
    hold.maps().open_replica("it", MapOptions::general()).unwrap();
    let still = stopped("block.zeroed", || {
        let intake = Intake::open(&Hold::open(&path).unwrap(), "it", &KeyPrefix::default());
        assert!(intake.is_err_and(|error| error.kind() == ErrorKind::Mismatch));
    });
    hold.maps().promote("it").unwrap();
    let lineage = of_origin(&hold, "it").unwrap();
    go_on(still);
    assert_eq!(of_origin(&hold, "it").unwrap(), lineage);
}

/// The map has contents of one mode, and is about to be replaced by one of another mode.
#[cfg(feature = "steps")]
#[test]
fn a_replica_killed_between_two_modes_keeps_to_its_lineage() {
    use commonhold::steps;
    use commonhold_testing::support::process::{Child, End};
    use nix::sys::signal::Signal;
    let lineage = Lineage { id: [1; 16], epoch: 3, ..Lineage::default() };
    let origin = Introduction::new(lineage);
    let fill = |intake: &mut Intake, mode| {
        intake.begin(&welcome(mode), &origin).unwrap();
        say(intake, |words| wire::put_complete(words, 0, 0));
    };
    for step in ["drop.done", "create.live"] {
        let directory = tempfile::tempdir_in("/dev/shm").unwrap();
        let path = directory.path().join("it.hold");
        let hold = Hold::create(&path).unwrap();
        let open = |hold: &Hold| Intake::open(hold, "it", &KeyPrefix::default()).unwrap();
        let mut intake = open(&hold);
        intake.pin.meet(&origin, false).unwrap();
        fill(&mut intake, MapMode::General);
        assert!(intake.arrive().unwrap());
        drop(intake);
        let mut victim = Child::run(step, || {
            let mut intake = open(&Hold::open(&path).unwrap());
            fill(&mut intake, MapOptions::fixed(4, 4).mode());
            steps::arm(&format!("{step}:kill")).unwrap();
            intake.arrive().unwrap();
        });
        assert_eq!(victim.wait(), End::By(Signal::SIGKILL), "{step}");
        // Also by the next process but one.
        for _ in 0..2 {
            assert_eq!(open(&hold).pin.lineage(), ([1; 16], 3), "{step}");
        }
        // A map that is dropped later does not continue it.
        hold.maps().drop("it").unwrap();
        assert_eq!(open(&hold).pin.lineage(), ([0; 16], 0), "{step}");
    }
}
