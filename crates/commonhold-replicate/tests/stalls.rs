//! Stopped and slow processes: they hold up only processes that write where they write.
#![cfg(feature = "steps")]

use crate::cast::{Play, Row, scribble, word};
use crate::party::{Copy, LONG, Source};
use crate::stairs;
use commonhold::map::MapOptions;
use commonhold::{ErrorKind, Hold, steps};
use commonhold_io::sockets::LoopKind;
use commonhold_replicate::ReplicaStatus;
use commonhold_testing::support::process::{Child, End, until};
use commonhold_testing::support::standstill::{go_on, stopped};
use commonhold_testing::support::{Dice, refused};
use nix::sys::signal::Signal;
use std::time::Duration;

const ORIGIN: usize = 0;
const WRITER: usize = 1;
/// The first of several.
const REPLICA: usize = 2;

#[test]
fn a_stopped_replica_and_one_that_never_reads_hold_up_nobody() {
    for kind in LoopKind::ALL {
        let play = Play::new(MapOptions::general(), REPLICA + 4);
        stairs::fill(&play.map, 3000, 200);
        let origin = play.origin(ORIGIN, |options| {
            options.kind = kind;
            options.stream_bytes = 4 << 20;
        });
        let row = |number: usize| play.row(REPLICA + number);
        let well = [0, 1].map(|number| play.replica(REPLICA + number, &play.address));
        let is_ready = |number: usize| row(number).get(word::READY) == 1;
        // One has read everything until it is stopped; one reads nothing.
        let mut stopped = play.replica(REPLICA + 2, &play.address);
        until("three are ready", || (0..3).all(is_ready) || stopped.is_gone());
        stopped.signal(Signal::SIGSTOP);
        assert!(stopped.wait_stopped());
        let mut deaf = play.replica_armed(REPLICA + 3, &play.address, "create.live:stop:5");
        assert!(deaf.wait_stopped());
        let mut dice = Dice::new(1);
        let writer = play.writer(WRITER, |map, _| scribble(map, &mut dice, 400));
        for turn in 0..5 {
            play.row(WRITER).goes_on("the writer goes on", 20_000, &writer);
            let end = play.end().offset;
            until(&format!("others get what is new, turn {turn}"), || {
                (0..2).all(|n| row(n).get(word::AT) >= end) || well.iter().any(Child::is_gone)
            });
        }
        assert_eq!(row(3).get(word::READY), 0);
        stopped.signal(Signal::SIGCONT);
        deaf.signal(Signal::SIGCONT);
        play.finish([writer], well.into_iter().chain([stopped, deaf]), [origin]);
    }
}

/// A writer stands in the stream's lock; then it continues, or is killed.
fn stopped_writer(step: &str, then: Signal) {
    let what = format!("stopped at {step}, then {then}");
    let play = Play::new(MapOptions::general(), REPLICA + 2);
    stairs::fill(&play.map, 2000, 50);
    let origin = play.origin(ORIGIN, |_| ());
    let (old, new) = (play.row(REPLICA), play.row(REPLICA + 1));
    let before = play.replica(REPLICA, &play.address);
    until("the first is ready", || old.get(word::READY) == 1 || before.is_gone());
    let mut victim = play.writer(WRITER, |map, row| {
        if row.get(word::COUNT) == 5 {
            steps::arm(&format!("{step}:stop:3")).unwrap();
        }
        stairs::climb(map);
        if row.get(word::COUNT) > 10 {
            play.board.put(word::ENOUGH, 1);
        }
    });
    assert!(victim.wait_stopped(), "{what}");
    let patience = Duration::from_millis(20);
    let hold = Hold::options().lock_timeout(patience).open(play.test_dir.path("origin.hold"));
    let map = hold.unwrap().maps().open("it").unwrap();
    refused(map.set("another", "value"), ErrorKind::TimedOut, &victim.pid().to_string());

    let len = play.map.len().unwrap();
    let after = play.replica(REPLICA + 1, &play.address);
    let built = || {
        let hold = Hold::options().read_only(true).open(play.copy_path(REPLICA + 1)).ok()?;
        hold.maps().open(".next/it").ok()?.len().ok()
    };
    let shows = |row: Row| [word::CONNECTED, word::CONNECTIONS].map(|word| row.get(word));
    until("the second has got every pair", || {
        built() == Some(len) && shows(new) == [1, 1] || after.is_gone()
    });
    assert_eq!((new.get(word::READY), shows(old)), (0, [1, 1]), "{what}");
    victim.signal(then);
    until("the second is ready", || new.get(word::READY) == 1 || after.is_gone());
    let end = if then == Signal::SIGKILL { End::By(then) } else { End::Well };
    assert_eq!(victim.wait(), end, "{what}");
    map.set("another", "value").unwrap();
    assert_eq!((shows(old), shows(new)), ([1, 1], [1, 1]), "{what}");
    play.finish([], [before, after], [origin]);
}

#[test]
fn a_writer_stopped_in_the_stream_delays_only_writers() {
    for step in ["stream.locked", "stream.armed"] {
        for then in [Signal::SIGCONT, Signal::SIGKILL] {
            stopped_writer(step, then);
        }
    }
}

/// The record of the map's lineage is missing, and a process that changes it stands still.
#[test]
fn a_replica_that_waits_for_the_lineage_holds_up_no_other() {
    let source = Source::new(MapOptions::general());
    let copy = Copy::of(&source, "copy.hold");
    copy.agrees(&source);
    let path = source.test_dir.path("origin.hold");
    source.hold.maps().open(".lineage/it").unwrap().delete("lineage").unwrap();
    let still = stopped("write.locked", || {
        let hold = Hold::open(path).unwrap();
        hold.maps().open(".lineage/it").unwrap().set("lineage", "of another program").unwrap();
    });
    let other = Copy::of(&source, "other.hold");
    let has_failed = |status: &ReplicaStatus| {
        let error = status.last_error.as_ref();
        error.is_some_and(|error| error.contains("closed the connection"))
    };
    assert!(other.replica.wait(LONG, has_failed), "{:?}", other.replica.status());
    source.map.set("a", "1").unwrap();
    copy.agrees(&source);
    go_on(still);
    other.agrees(&source);
}
