//! A channel among processes that are killed or stopped anywhere.
//!
//! A keeper receives everything from the first message on and fails on any gap, repeat, or byte that is not the
//! message's. Meanwhile a producer is killed or stopped at every named step that it passes, and its successor goes on; so is
//! a consumer, whom the producer does not wait for when it is dead, and names when it lives and stands still. Then
//! everybody at random.

use crate::support::process::{Board, Child, End, pause, until};
use crate::support::test_dir::TestDir;
use crate::support::{Dice, long};
use commonhold::channel::{ChannelOptions, Join, Policy, Producer};
use commonhold::log::LogOptions;
use commonhold::{ErrorKind, Hold, steps};
use nix::sys::signal::Signal;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

const RING: u64 = 4096;
const NAME: &str = "it";

mod word {
    pub const JOINED: usize = 0;
    pub const BLOCKED: usize = 1;
    pub const SENT: usize = 3;
    pub const END: usize = 4;
    pub const ALL: usize = 8;
}

fn message(sequence: u64) -> Vec<u8> {
    let mut dice = Dice::new(sequence);
    let len = if dice.one_in(8) { dice.below(1025) } else { dice.below(60) };
    (0..len).map(|_| dice.roll() as u8).collect()
}

fn prepare(path: &Path) {
    Child::run("preparation", || {
        Hold::create(path)
            .unwrap()
            .channels()
            .open_or_create(NAME, ChannelOptions::new(RING))
            .unwrap();
    })
    .finish();
}

/// Sends the next message or messages, in one way or another.
fn send_some(producer: &mut Producer, end: u64, dice: &mut Dice) {
    let next = producer.sequence();
    match dice.below(5) {
        0 => {
            let mut cancelled = producer.reserve(dice.below(1000) as usize).unwrap();
            cancelled.write(0, &vec![0xff; cancelled.len()]).unwrap();
        }
        1 => {
            let bytes = message(next);
            let mut reservation = producer.reserve(bytes.len()).unwrap();
            reservation.write(0, &bytes).unwrap();
            assert_eq!(reservation.commit().unwrap(), next);
        }
        2 => {
            let batch = (next..end.min(next + dice.below(9))).map(message);
            producer.send_many(batch).unwrap();
        }
        _ => assert_eq!(producer.send(&message(next)).unwrap(), next),
    }
}

/// Goes on from wherever the one before stopped.
fn send(path: &Path, end: u64, board: &Board) {
    let hold = Hold::open(path).unwrap();
    let mut producer = hold.channels().open(NAME).unwrap().producer().unwrap();
    let mut dice = Dice::new(producer.sequence());
    while producer.sequence() < end {
        send_some(&mut producer, end, &mut dice);
        board.put(word::SENT, producer.sequence());
    }
}

/// Receives everything up to message `end`, and checks it.
fn keep(path: &Path, from: Join, end: u64, board: &Board) {
    let hold = Hold::open(path).unwrap();
    let channel = hold.channels().open(NAME).unwrap();
    let mut consumer = channel.consumer(from, Policy::Lossless).unwrap();
    board.count(word::JOINED, 1);
    let mut buffer = Vec::new();
    for expected in consumer.sequence()..end {
        let received = consumer.recv(&mut buffer).unwrap();
        assert_eq!((received.sequence, received.missed), (expected, 0));
        assert!(buffer == message(expected), "message {expected}");
    }
}

/// A channel, and a child that has joined it and receives everything up to message `end`.
fn kept(what: &str, end: u64) -> (TestDir, PathBuf, Board, Child) {
    let test_dir = TestDir::memory();
    let (path, board) = (test_dir.path("it.hold"), Board::new(word::ALL));
    prepare(&path);
    let keeper = Child::run(format!("keeper; {what}"), || keep(&path, Join::Oldest, end, &board));
    until("the keeper has joined", || board.get(word::JOINED) == 1 || keeper.is_gone());
    (test_dir, path, board, keeper)
}

/// Comes, receives, goes; again and again, in every way.
fn visit(path: &Path, rounds: u64, end: u64, board: &Board) {
    let hold = Hold::open(path).unwrap();
    let channel = hold.channels().open(NAME).unwrap();
    let mut dice = Dice::new(rounds);
    let mut buffer = Vec::new();
    board.count(word::JOINED, 1);
    for _ in 0..rounds {
        let from = if dice.one_in(2) { Join::Now } else { Join::Oldest };
        let mut consumer = channel.consumer(from, Policy::Lossless).unwrap();
        let mut expected = consumer.sequence();
        for _ in 0..dice.below(400) {
            let timeout = Duration::from_millis(20);
            let Some(got) = consumer.recv_timeout(&mut buffer, timeout).unwrap() else { break };
            assert_eq!(got.sequence, expected);
            assert!(buffer == message(expected), "message {expected}");
            expected += 1;
            if expected == end {
                return;
            }
        }
    }
}

fn whole(path: &Path, end: u64, what: &str) {
    Child::run(format!("afterwards; {what}"), || {
        let hold = Hold::open(path).unwrap();
        hold.sweep().unwrap();
        let stat = hold.channels().open(NAME).unwrap().stat().unwrap();
        assert_eq!((stat.sequence, stat.producer), (end, None), "{stat:?}");
        assert!(stat.consumers.is_empty(), "{stat:?}");
        keep(path, Join::Oldest, end, &Board::new(word::ALL));
        assert!(hold.channels().drop(NAME).unwrap());
        let report = hold.check().unwrap();
        assert!(report.ok && report.allocated == report.reachable, "{report:?}");
    })
    .finish();
}

/// The successor needs nothing of the dead one to be recovered.
#[test]
fn a_recoverer_that_stands_still_keeps_no_place_taken() {
    for step in ["recover.locked", "recover.begun"] {
        let test_dir = TestDir::memory();
        let (path, board) = (test_dir.path("it.hold"), Board::new(word::ALL));
        prepare(&path);
        let take_places = || {
            let hold = Hold::open(&path).unwrap();
            let producer = hold.channels().open(NAME).unwrap().producer().unwrap();
            (
                producer,
                hold.logs().open_or_create("log", LogOptions::new()).unwrap().collector().unwrap(),
                hold,
            )
        };
        let victim = Child::run("victim", || {
            let _places = take_places();
            board.put(word::JOINED, 1);
            loop {
                pause();
            }
        });
        until("it has its places", || board.get(word::JOINED) == 1 || victim.is_gone());
        assert_eq!(victim.slay(), End::By(Signal::SIGKILL));
        let mut recoverer = Child::run(format!("recoverer, stopped at {step}"), || {
            steps::arm(&format!("{step}:stop")).unwrap();
            Hold::open(&path).unwrap().sweep().unwrap();
        });
        assert!(recoverer.wait_stopped(), "{step}");
        Child::run(format!("successor; {step}"), || drop(take_places())).finish();
        recoverer.signal(Signal::SIGCONT);
        recoverer.finish();
        whole(&path, 0, step);
    }
}

/// The steps of channels that `run` passes.
fn steps_of(run: impl FnOnce()) -> Vec<&'static str> {
    let passed: &Board = Box::leak(Box::new(Board::new(steps::ALL.len())));
    let rehearsal = Child::run("rehearsal", || {
        steps::observe(|name| {
            let number = steps::ALL.iter().position(|step| *step == name);
            passed.put(number.expect("a step of the list"), 1);
        });
        run();
    });
    rehearsal.finish();
    let all = steps::ALL.iter().enumerate();
    all.filter(|(n, s)| passed.get(*n) == 1 && s.starts_with("channel.")).map(|(_, s)| *s).collect()
}

fn producing_steps() -> Vec<&'static str> {
    let test_dir = TestDir::memory();
    let (path, board) = (test_dir.path("it.hold"), Board::new(word::ALL));
    prepare(&path);
    let steps = steps_of(|| send(&path, 500, &board));
    assert!(steps.len() > 10, "{steps:?}");
    steps
}

fn receiving_steps() -> Vec<&'static str> {
    let test_dir = TestDir::memory();
    let (path, board) = (test_dir.path("it.hold"), Board::new(word::ALL));
    prepare(&path);
    Child::run("before", || send(&path, 500, &board)).finish();
    let steps = steps_of(|| visit(&path, 3, u64::MAX, &board));
    assert!(steps.len() > 6, "{steps:?}");
    steps
}

#[test]
fn a_producer_is_killed_anywhere_and_the_next_continues() {
    let mut kills = 0;
    let steps = producing_steps();
    for step in &steps {
        for time in if long() { 1..12 } else { 1..3 } {
            kills += u32::from(kill_producer(step, 1 + (time - 1) * 17));
        }
    }
    assert!(kills as usize >= steps.len(), "{kills} kills at {steps:?}");
}

fn kill_producer(step: &str, time: u64) -> bool {
    const END: u64 = 700;
    let what = format!("killed at {step}, time {time}");
    let (_test_dir, path, board, keeper) = kept(&what, END);
    let mut victim = Child::run(what.clone(), || {
        steps::arm(&format!("{step}:kill:{time}")).unwrap();
        send(&path, END - 200, &board);
    });
    let killed = match victim.wait() {
        End::By(Signal::SIGKILL) => true,
        End::Well => false,
        other => panic!("{what}: {other:?}"),
    };
    // The successor dies on its way, too.
    let mut second = Child::run(format!("successor; {what}"), || {
        steps::arm(&format!("{step}:kill")).unwrap();
        send(&path, END - 100, &board);
    });
    let end = second.wait();
    assert!(matches!(end, End::Well | End::By(Signal::SIGKILL)), "{what}: {end:?}");
    Child::run(format!("last; {what}"), || send(&path, END, &board)).finish();
    keeper.finish();
    whole(&path, END, &what);
    killed
}

#[test]
fn a_consumer_is_killed_anywhere_and_holds_nobody_back() {
    for step in receiving_steps() {
        for time in if long() { 1..12 } else { 1..3 } {
            kill_consumer(step, 1 + (time - 1) * 13);
        }
    }
}

fn kill_consumer(step: &str, time: u64) {
    const END: u64 = 3000;
    let what = format!("killed at {step}, time {time}");
    let (_test_dir, path, board, keeper) = kept(&what, END);
    let mut victim = Child::run(what.clone(), || {
        steps::arm(&format!("{step}:kill:{time}")).unwrap();
        visit(&path, 200, END, &board);
    });
    let producer = Child::run(format!("producer; {what}"), || send(&path, END, &board));
    let end = victim.wait();
    assert!(matches!(end, End::Well | End::By(Signal::SIGKILL)), "{what}: {end:?}");
    producer.finish();
    keeper.finish();
    whole(&path, END, &what);
}

/// Steps at which a consumer's cursor counts.
const COUNTS: [&str; 5] = [
    "channel.joining",
    "channel.joined",
    "channel.copied",
    "channel.publishing",
    "channel.published",
];

#[test]
fn a_consumer_that_stands_still_is_named_and_waited_for() {
    for step in receiving_steps() {
        let blocked = stop_consumer(step, Signal::SIGCONT);
        assert_eq!(blocked, stop_consumer(step, Signal::SIGKILL), "{step}");
        if COUNTS.contains(&step) || step == "channel.line-claimed" {
            assert_eq!(blocked, COUNTS.contains(&step), "{step}");
        }
    }
}

/// True if the producer had to wait.
fn stop_consumer(step: &str, then: Signal) -> bool {
    const END: u64 = 1500;
    let what = format!("stopped at {step}, then {then}");
    let (_test_dir, path, board, keeper) = kept(&what, END);
    Child::run(format!("before; {what}"), || send(&path, 30, &board)).finish();
    let mut victim = Child::run(what.clone(), || {
        steps::arm(&format!("{step}:stop")).unwrap();
        visit(&path, 5, END, &board);
    });
    assert!(victim.wait_stopped(), "{what}: the step was not passed");
    let pid = victim.pid() as u32;
    let producer = Child::run(format!("producer; {what}"), || {
        let hold = Hold::open(&path).unwrap();
        let mut producer = hold.channels().open(NAME).unwrap().producer().unwrap();
        while producer.sequence() < END {
            let bytes = message(producer.sequence());
            let timeout = Duration::from_millis(200);
            if producer.send_timeout(&bytes, timeout).unwrap().is_none()
                && producer.waits_for().is_some_and(|peer| peer.pid == pid)
            {
                board.put(word::BLOCKED, 1);
                producer.send(&bytes).unwrap();
            }
        }
        board.put(word::SENT, END);
    });
    until("the producer waits or is done", || {
        board.get(word::BLOCKED) == 1 || board.get(word::SENT) == END || producer.is_gone()
    });
    victim.signal(then);
    let end = victim.wait();
    let killed = then == Signal::SIGKILL;
    assert_eq!(end, if killed { End::By(then) } else { End::Well }, "{what}");
    producer.finish();
    keeper.finish();
    whole(&path, END, &what);
    board.get(word::BLOCKED) == 1
}

#[test]
fn a_producer_that_stands_still_keeps_its_place_and_harms_nobody() {
    for step in producing_steps() {
        for then in [Signal::SIGCONT, Signal::SIGKILL] {
            stop_producer(step, then);
        }
    }
}

fn stop_producer(step: &str, then: Signal) {
    const END: u64 = 400;
    let what = format!("stopped at {step}, then {then}");
    let (_test_dir, path, board, keeper) = kept(&what, END);
    let mut victim = Child::run(what.clone(), || {
        steps::arm(&format!("{step}:stop:2")).unwrap();
        send(&path, END / 2, &board);
        // Steps that are passed once at the beginning and once at the end.
        send(&path, END / 2, &board);
    });
    if !victim.wait_stopped() {
        assert_eq!(victim.wait(), End::Well, "{what}");
    } else {
        let pid = victim.pid();
        Child::run(format!("bystander; {what}"), || {
            let hold = Hold::open(&path).unwrap();
            let channel = hold.channels().open(NAME).unwrap();
            let stat = channel.stat().unwrap();
            // At the very end it has given its place up.
            if !["channel.left", "channel.endpoint-released"].contains(&step) {
                assert_eq!(stat.producer.map(|peer| peer.pid), Some(pid as u32));
                let refused = channel.producer().unwrap_err();
                assert_eq!(refused.kind(), ErrorKind::Busy);
                assert!(refused.to_string().contains(&pid.to_string()), "{refused}");
            }
            let sent = stat.sequence;
            let policies = [Policy::Lossless, Policy::Lossy, Policy::Patient(Duration::ZERO)];
            for (policy, from) in policies.iter().flat_map(|p| [(p, Join::Now), (p, Join::Oldest)])
            {
                let mut consumer = channel.consumer(from, *policy).unwrap();
                let mut buffer = Vec::new();
                for expected in consumer.sequence()..sent {
                    assert_eq!(consumer.recv(&mut buffer).unwrap().sequence, expected);
                    assert!(buffer == message(expected), "message {expected}");
                }
                assert_eq!(consumer.try_recv(&mut buffer).unwrap(), None);
            }
        })
        .finish();
        victim.signal(then);
        let end = victim.wait();
        let killed = then == Signal::SIGKILL;
        assert_eq!(end, if killed { End::By(then) } else { End::Well }, "{what}");
    }
    Child::run(format!("last; {what}"), || send(&path, END, &board)).finish();
    keeper.finish();
    whole(&path, END, &what);
}

#[test]
fn killed_and_stopped_at_random() {
    const NEVER: u64 = u64::MAX;
    let test_dir = TestDir::memory();
    let (path, board) = (test_dir.path("it.hold"), Board::new(word::ALL));
    prepare(&path);
    board.put(word::END, NEVER);
    let endless = || {
        let hold = Hold::open(&path).unwrap();
        let mut producer = hold.channels().open(NAME).unwrap().producer().unwrap();
        let mut dice = Dice::new(producer.sequence());
        while producer.sequence() < board.get(word::END) {
            send_some(&mut producer, board.get(word::END), &mut dice);
            board.put(word::SENT, producer.sequence());
        }
    };
    let keeper = Child::run("keeper", || {
        let hold = Hold::open(&path).unwrap();
        let channel = hold.channels().open(NAME).unwrap();
        let mut consumer = channel.consumer(Join::Oldest, Policy::Lossless).unwrap();
        board.count(word::JOINED, 1);
        let mut buffer = Vec::new();
        let mut expected = 0;
        while expected < board.get(word::END) {
            let timeout = Duration::from_millis(50);
            let Some(got) = consumer.recv_timeout(&mut buffer, timeout).unwrap() else { continue };
            assert_eq!((got.sequence, got.missed), (expected, 0));
            assert!(buffer == message(expected), "message {expected}");
            expected += 1;
        }
    });
    until("the keeper has joined", || board.get(word::JOINED) == 1 || keeper.is_gone());
    let (mut dice, mut visitors, mut kills) = (Dice::new(11), Vec::new(), [0, 0]);
    let enough = Instant::now() + Duration::from_secs(if long() { 600 } else { 20 });
    let mut producer = Child::run("producer", endless);
    while Instant::now() < enough {
        while visitors.len() < 3 {
            let rounds = 5 + dice.below(20);
            visitors.push(Child::run("visitor", || visit(&path, rounds, NEVER, &board)));
        }
        std::thread::sleep(Duration::from_micros(dice.below(20_000)));
        let chosen = dice.below(visitors.len() as u64) as usize;
        match dice.below(8) {
            0 => {
                assert_eq!(producer.slay(), End::By(Signal::SIGKILL));
                producer = Child::run("next producer", endless);
                kills[0] += 1;
            }
            1 | 2 => {
                let one = if dice.one_in(2) { &producer } else { &visitors[chosen] };
                one.signal(Signal::SIGSTOP);
                std::thread::sleep(Duration::from_micros(dice.below(6000)));
                one.signal(Signal::SIGCONT);
            }
            3 | 4 => {
                let ended = visitors.swap_remove(chosen).slay();
                assert!(matches!(ended, End::Well | End::By(Signal::SIGKILL)), "{ended:?}");
                kills[1] += 1;
            }
            _ => {}
        }
        visitors.retain_mut(|visitor| {
            let is_gone = visitor.is_gone();
            assert!(!is_gone || visitor.wait() == End::Well, "a visitor: {:?}", visitor.wait());
            !is_gone
        });
        assert!(!keeper.is_gone(), "the keeper has ended");
    }
    for visitor in visitors {
        let ended = visitor.slay();
        assert!(matches!(ended, End::Well | End::By(Signal::SIGKILL)), "{ended:?}");
    }
    // It must not pass the end before it is told where that is.
    producer.signal(Signal::SIGSTOP);
    assert!(producer.wait_stopped());
    let end = board.get(word::SENT) + 1000;
    board.put(word::END, end);
    producer.signal(Signal::SIGCONT);
    producer.finish();
    keeper.finish();
    println!("{end} messages, {} producers and {} visitors killed", kills[0], kills[1]);
    assert!(end > 2000 && kills[0] > 5 && kills[1] > 20, "{end} messages, {kills:?} kills");
    whole(&path, end, "at random");
}
