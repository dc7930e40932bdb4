//! What a channel answers: one process, every operation, every border.

use crate::support::Dice;
use crate::support::test_dir::TestDir;
use commonhold::channel::{ChannelOptions, ConsumerState, Join, Policy, Received, Wait};
use commonhold::map::MapOptions;
use commonhold::{ErrorKind, Hold};
use std::time::{Duration, Instant};

const SMALL: u64 = 4096;

fn hold(test_dir: &TestDir) -> Hold {
    Hold::open_or_create(test_dir.path("it.hold")).unwrap()
}

fn options() -> ChannelOptions {
    ChannelOptions::new(SMALL)
}

/// A message whose bytes follow from its number.
fn message(sequence: u64) -> Vec<u8> {
    let mut dice = Dice::new(sequence);
    let len = match dice.below(8) {
        0 => 0,
        1 => dice.below(1025),
        _ => dice.below(60),
    };
    (0..len).map(|_| dice.roll() as u8).collect()
}

#[track_caller]
fn kind<T: std::fmt::Debug>(result: commonhold::Result<T>, kind: ErrorKind, words: &str) {
    let error = result.unwrap_err();
    assert_eq!(error.kind(), kind, "{error}");
    assert!(error.to_string().contains(words), "{error}");
}

#[test]
fn every_length_comes_through_many_laps() {
    let test_dir = TestDir::memory();
    let hold = hold(&test_dir);
    for ring_bytes in [SMALL, 1 << 16] {
        let channel =
            hold.channels().open_or_create("it", ChannelOptions::new(ring_bytes)).unwrap();
        let mut consumer = channel.consumer(Join::Now, Policy::Lossless).unwrap();
        let mut late = channel.consumer(Join::Oldest, Policy::Lossy).unwrap();
        let mut producer = channel.producer().unwrap();
        let mut buffer = vec![1, 2, 3];
        for sequence in 0..20_000 {
            assert_eq!(producer.send(&message(sequence)).unwrap(), sequence);
            for consumer in [&mut consumer, &mut late] {
                let received = consumer.try_recv(&mut buffer).unwrap().unwrap();
                assert_eq!(received, Received { sequence, missed: 0 });
                assert!(buffer == message(sequence), "message {sequence}");
            }
        }
        assert_eq!(consumer.try_recv(&mut buffer).unwrap(), None);
        drop((consumer, late, producer, channel));
        assert!(hold.channels().drop("it").unwrap());
        assert!(!hold.channels().drop("it").unwrap());
    }
    let report = hold.check().unwrap();
    assert!(report.ok && report.allocated == report.reachable, "{report:?}");
}

#[test]
fn borders_of_rings_messages_and_names() {
    let test_dir = TestDir::memory();
    let hold = hold(&test_dir);
    for bytes in [0, 4095, 2048, 5000, 2 << 30] {
        kind(
            hold.channels().open_or_create("it", ChannelOptions::new(bytes)),
            ErrorKind::Invalid,
            "power of two",
        );
    }
    kind(hold.channels().open("it"), ErrorKind::NotFound, "no channel 'it'");
    let channel = hold.channels().open_or_create("it", options()).unwrap();
    assert_eq!(hold.channels().open("it").unwrap().options(), options());
    kind(
        hold.channels().open_or_create("it", ChannelOptions::new(8192)),
        ErrorKind::Mismatch,
        "4096",
    );
    kind(hold.maps().open_or_create("it", MapOptions::general()), ErrorKind::Mismatch, "channel");
    let mut producer = channel.producer().unwrap();
    let mut consumer = channel.consumer(Join::Now, Policy::Lossless).unwrap();
    assert_eq!(producer.max_message(), 1024);
    kind(producer.send(&[0; 1025]), ErrorKind::TooLarge, "1024");
    kind(producer.reserve(1025), ErrorKind::TooLarge, "1024");
    kind(producer.try_send(&vec![0; 1 << 20]), ErrorKind::TooLarge, "1024");
    // The longest message fits wherever the position is, if all was read.
    let mut buffer = Vec::new();
    for round in 0..700u64 {
        let len = if round % 2 == 0 { 1024 } else { (round * 8 % 1000) as usize };
        assert_eq!(producer.try_send(&vec![round as u8; len]).unwrap(), Some(round));
        consumer.try_recv(&mut buffer).unwrap().unwrap();
        assert_eq!(consumer.try_recv(&mut Vec::new()).unwrap(), None);
        assert_eq!(buffer, vec![round as u8; len]);
    }
}

#[test]
fn a_lossless_consumer_holds_the_producer_back_and_is_named() {
    let test_dir = TestDir::memory();
    let hold = hold(&test_dir);
    let channel = hold.channels().open_or_create("it", options()).unwrap();
    let mut producer = channel.producer().unwrap();
    let mut slow = channel.consumer(Join::Now, Policy::Lossless).unwrap();
    let mut sent = 0;
    while producer.try_send(&message(sent)).unwrap().is_some() {
        sent += 1;
    }
    assert!(sent > 20);
    let peer = producer.waits_for().unwrap();
    assert_eq!(peer.pid, std::process::id());
    let stat = channel.stat().unwrap();
    assert_eq!((stat.sequence, stat.slowest), (sent, Some(peer)));
    assert_eq!(stat.producer, Some(peer));
    assert_eq!(stat.consumers[0].lag_messages, sent);
    assert!(stat.consumers[0].lag_bytes > SMALL / 2, "{stat:?}");
    let begun = Instant::now();
    let timeout = Duration::from_millis(30);
    assert_eq!(producer.send_timeout(&message(sent), timeout).unwrap(), None);
    assert!(begun.elapsed() >= timeout);
    producer.set_wait(Wait::Spin);
    assert_eq!(producer.send_timeout(&message(sent), timeout).unwrap(), None);
    // One that joins from the oldest gets all of it, too.
    let mut late = channel.consumer(Join::Oldest, Policy::Lossless).unwrap();
    let mut buffer = Vec::new();
    for consumer in [&mut slow, &mut late] {
        for sequence in 0..sent {
            assert_eq!(consumer.recv(&mut buffer).unwrap().sequence, sequence);
            assert_eq!(buffer, message(sequence));
        }
        assert_eq!(consumer.recv_timeout(&mut buffer, timeout).unwrap(), None);
    }
    assert_eq!(producer.send(&message(sent)).unwrap(), sent);
    // Who leaves holds nobody back.
    drop((slow, late));
    for sequence in sent + 1..sent + 1000 {
        assert_eq!(producer.try_send(&message(sequence)).unwrap(), Some(sequence));
    }
    assert!(producer.waits_for().is_none() && channel.stat().unwrap().consumers.is_empty());
}

#[test]
fn joining_now_and_from_the_oldest() {
    let test_dir = TestDir::memory();
    let hold = hold(&test_dir);
    let channel = hold.channels().open_or_create("it", options()).unwrap();
    let mut buffer = Vec::new();
    let first = channel.consumer(Join::Oldest, Policy::Lossless).unwrap();
    assert_eq!(first.sequence(), 0);
    drop(first);
    let mut producer = channel.producer().unwrap();
    for sequence in 0..5000 {
        if sequence % 13 == 0 {
            // What the one before has sent is kept as long as it would be by that one.
            drop(producer);
            producer = channel.producer().unwrap();
        }
        producer.send(&message(sequence)).unwrap();
        if sequence % 7 == 0 {
            for policy in [Policy::Lossless, Policy::Lossy, Policy::Patient(Duration::ZERO)] {
                let now = channel.consumer(Join::Now, policy).unwrap();
                assert_eq!(now.sequence(), sequence + 1);
                let mut oldest = channel.consumer(Join::Oldest, policy).unwrap();
                let from = oldest.sequence();
                let mut kept = 0;
                for expected in from..=sequence {
                    let received = oldest.try_recv(&mut buffer).unwrap().unwrap();
                    assert_eq!(received, Received { sequence: expected, missed: 0 });
                    assert_eq!(buffer, message(expected));
                    kept += 8 + buffer.len().next_multiple_of(8) as u64;
                }
                assert_eq!(oldest.try_recv(&mut buffer).unwrap(), None);
                // A message and a filler may be missing of what is promised.
                assert!(
                    from == 0 || kept >= SMALL * 3 / 4 - 2 * 1040,
                    "{kept} bytes at {sequence}"
                );
            }
        }
    }
    let stat = channel.stat().unwrap();
    assert!(stat.kept_bytes > SMALL / 2 && stat.kept_bytes <= SMALL, "{stat:?}");
    assert_eq!(stat.sequence, 5000);
}

#[test]
fn a_lossy_consumer_learns_how_many_it_missed() {
    let test_dir = TestDir::memory();
    let hold = hold(&test_dir);
    let channel = hold.channels().open_or_create("it", options()).unwrap();
    let mut producer = channel.producer().unwrap();
    let mut lossy = channel.consumer(Join::Now, Policy::Lossy).unwrap();
    let (mut buffer, mut dice) = (Vec::new(), Dice::new(3));
    let (mut sent, mut received, mut missed) = (0, 0, 0);
    while sent < 30_000 {
        for _ in 0..dice.below(300) {
            producer.try_send(&message(sent)).unwrap().expect("nobody holds it back");
            sent += 1;
        }
        for _ in 0..dice.below(200) {
            let Some(got) = lossy.try_recv(&mut buffer).unwrap() else { break };
            assert_eq!(got.sequence, received + missed + got.missed);
            assert_eq!(buffer, message(got.sequence));
            (received, missed) = (received + 1, missed + got.missed);
        }
    }
    assert!(received > 1000 && missed > 1000, "{received} received, {missed} missed");
    assert_eq!(lossy.missed(), missed);
    let stat = channel.stat().unwrap();
    assert_eq!(stat.consumers[0].policy, ConsumerState::Lossy);
    assert_eq!(stat.consumers[0].missed, missed);
    kind(lossy.try_recv_with(|_, _| ()), ErrorKind::Invalid, "lossless");
}

/// A producer that spun did not look at the consumers any more once the time was over, and spun for ever.
#[test]
fn a_spinning_producer_drops_a_patient_consumer() {
    let test_dir = TestDir::memory();
    let hold = hold(&test_dir);
    let channel = hold.channels().open_or_create("it", options()).unwrap();
    let mut producer = channel.producer().unwrap();
    producer.set_wait(Wait::Spin);
    let patience = Policy::Patient(Duration::from_millis(5));
    let _patient = channel.consumer(Join::Now, patience).unwrap();
    let mut sent = 0;
    while producer.try_send(&message(sent)).unwrap().is_some() {
        sent += 1;
    }
    let found = producer.send_timeout(&message(sent), Duration::from_secs(20)).unwrap();
    assert_eq!(found, Some(sent));
    assert_eq!(channel.stat().unwrap().consumers[0].policy, ConsumerState::Dropped);
}

#[test]
fn a_patient_consumer_is_dropped_and_gets_an_error() {
    let test_dir = TestDir::memory();
    let hold = hold(&test_dir);
    let channel = hold.channels().open_or_create("it", options()).unwrap();
    let mut producer = channel.producer().unwrap();
    let patience = Duration::from_millis(40);
    let mut patient = channel.consumer(Join::Now, Policy::Patient(patience)).unwrap();
    let mut sent = 0;
    while producer.try_send(&message(sent)).unwrap().is_some() {
        sent += 1;
    }
    let begun = Instant::now();
    producer.send(&message(sent)).unwrap();
    assert!(begun.elapsed() < Duration::from_secs(20) && producer.waits_for().is_none());
    assert_eq!(channel.stat().unwrap().consumers[0].policy, ConsumerState::Dropped);
    let mut buffer = Vec::new();
    for _ in 0..2 {
        kind(patient.try_recv(&mut buffer), ErrorKind::Closed, "dropped");
    }
    patient.rejoin(Join::Now).unwrap();
    assert_eq!(patient.try_recv(&mut buffer).unwrap(), None);
    producer.send(&message(sent + 1)).unwrap();
    assert_eq!(patient.recv(&mut buffer).unwrap().sequence, sent + 1);
    // One that moves is not dropped, however long it takes altogether.
    for sequence in sent + 2..sent + 400 {
        if producer.try_send(&message(sequence)).unwrap().is_none() {
            while patient.try_recv(&mut buffer).unwrap().is_some() {}
            producer.send(&message(sequence)).unwrap();
        }
    }
}

#[test]
fn reservations_and_batches() {
    let test_dir = TestDir::memory();
    let hold = hold(&test_dir);
    let channel = hold.channels().open_or_create("it", ChannelOptions::new(1 << 16)).unwrap();
    let mut producer = channel.producer().unwrap();
    let mut consumer = channel.consumer(Join::Now, Policy::Lossless).unwrap();
    let mut dice = Dice::new(5);
    let mut next = 0;
    for _ in 0..3000 {
        let bytes = message(next);
        if dice.one_in(3) {
            let mut cancelled = producer.reserve(900).unwrap();
            cancelled.write(0, &[0xff; 900]).unwrap();
        }
        let mut reservation = producer.reserve(bytes.len() + 16).unwrap();
        assert_eq!(reservation.len(), bytes.len() + 16);
        assert_eq!(reservation.as_mut_ptr() as usize % 8, 0);
        kind(reservation.write(bytes.len() + 10, &[1; 7]), ErrorKind::TooLarge, "reserved bytes");
        reservation.write(0, &bytes).unwrap();
        assert_eq!(reservation.commit_first(bytes.len()).unwrap(), next);
        let mut whole = producer.try_reserve(8).unwrap().unwrap();
        whole.write(0, &next.to_le_bytes()).unwrap();
        whole.commit().unwrap();
        consumer
            .recv_with(|raw, received| {
                assert_eq!((received.sequence, raw.len()), (next, bytes.len()));
                assert!(raw.equals(&bytes) && raw.is_empty() == bytes.is_empty());
                let mut copy = Vec::new();
                raw.copy_to(&mut copy);
                assert_eq!(copy, bytes);
            })
            .unwrap();
        let number = consumer.try_recv_with(|raw, _| raw.equals(&next.to_le_bytes())).unwrap();
        assert_eq!(number, Some(true));
        next += 2;
    }
    let (mut got, first) = (Vec::new(), next);
    for round in 1..50 {
        let batch: Vec<Vec<u8>> = (0..round % 30).map(|n| message(next + n)).collect();
        assert_eq!(producer.send_many(&batch).unwrap(), batch.len() as u64);
        next += batch.len() as u64;
        while first + (got.len() as u64) < next {
            let most = 1 + dice.below(20) as usize;
            let count = consumer.recv_many(most, |r, bytes| got.push((r.sequence, bytes.to_vec())));
            assert!((1..=most).contains(&count.unwrap()));
        }
    }
    for ((sequence, bytes), expected) in got.iter().zip(first..) {
        assert!(*sequence == expected && *bytes == message(expected));
    }
    kind(producer.send_many([vec![1], vec![0; 16385]]), ErrorKind::TooLarge, "16385");
    assert_eq!(producer.sequence(), next + 1);
}

#[test]
fn a_peeked_message_stays_until_the_consumer_advances() {
    let test_dir = TestDir::memory();
    let channel = hold(&test_dir).channels().open_or_create("it", options()).unwrap();
    let mut producer = channel.producer().unwrap();
    let mut consumer = channel.consumer(Join::Now, Policy::Lossless).unwrap();
    let mut lossy = channel.consumer(Join::Now, Policy::Lossy).unwrap();
    assert!(consumer.try_peek().unwrap().is_none() && !consumer.advance().unwrap());
    assert!(consumer.peek_timeout(Duration::from_millis(1)).unwrap().is_none());
    for sequence in 0..2000 {
        let bytes = message(sequence);
        producer.send(&bytes).unwrap();
        for _ in 0..2 {
            let (raw, received) = consumer.peek().unwrap();
            assert!(raw.equals(&bytes) && received.sequence == sequence);
        }
        assert!(consumer.advance().unwrap());
    }
    kind(lossy.try_peek().map(drop), ErrorKind::Invalid, "only a lossless");
    kind(lossy.advance(), ErrorKind::Invalid, "only a lossless");
}

#[test]
fn one_producer_at_a_time_and_the_next_continues() {
    let test_dir = TestDir::memory();
    let hold = hold(&test_dir);
    let other = Hold::open(hold.path()).unwrap();
    let channel = hold.channels().open_or_create("it", options()).unwrap();
    let mut consumer = channel.consumer(Join::Now, Policy::Lossless).unwrap();
    let mut buffer = Vec::new();
    let mut expected = 0;
    for round in 0..200u64 {
        let theirs = other.channels().open("it").unwrap();
        let mut producer =
            if round % 2 == 0 { channel.producer() } else { theirs.producer() }.unwrap();
        let pid = std::process::id().to_string();
        kind(channel.producer(), ErrorKind::Busy, &pid);
        kind(theirs.producer(), ErrorKind::Busy, "slot");
        for _ in 0..round % 40 {
            producer.send(&message(producer.sequence())).unwrap();
            consumer.recv(&mut buffer).unwrap();
            assert_eq!(buffer, message(expected));
            expected += 1;
        }
        if round % 3 == 0 {
            // Reserved and never sent.
            producer.reserve(700).unwrap().write(0, &[0x55; 700]).unwrap();
        }
    }
}

#[test]
fn a_closed_handle_releases_its_producers_and_consumers() {
    let test_dir = TestDir::memory();
    let (first, second) = (hold(&test_dir), hold(&test_dir));
    let channel = first.channels().open_or_create("it", options()).unwrap();
    let mut consumer = channel.consumer(Join::Now, Policy::Lossless).unwrap();
    let mut producer = channel.producer().unwrap();
    producer.send(b"one").unwrap();
    let theirs = second.channels().open("it").unwrap();
    kind(second.channels().drop("it"), ErrorKind::Busy, "slot");
    kind(first.channels().drop("it"), ErrorKind::Busy, "slot");
    drop(theirs);
    kind(first.channels().drop("it"), ErrorKind::Busy, "producer or consumer");
    first.close().unwrap();
    kind(producer.send(b"two"), ErrorKind::Closed, "closed");
    kind(consumer.try_recv(&mut Vec::new()), ErrorKind::Closed, "closed");
    kind(channel.producer(), ErrorKind::Closed, "closed");
    // They are somebody's as long as they are there.
    kind(second.channels().open("it").unwrap().producer(), ErrorKind::Busy, "slot");
    drop(producer);
    let theirs = second.channels().open("it").unwrap();
    let mut next = theirs.producer().unwrap();
    assert_eq!(next.send(b"two").unwrap(), 1);
    drop((consumer, channel, next, theirs));
    assert_eq!(second.participants().unwrap().len(), 1);
    assert!(second.channels().drop("it").unwrap());
}

#[test]
fn a_sleeper_learns_that_its_handle_was_closed() {
    let test_dir = TestDir::memory();
    let hold = hold(&test_dir);
    let channel = hold.channels().open_or_create("it", options()).unwrap();
    let mut consumer = channel.consumer(Join::Now, Policy::Lossless).unwrap();
    let asleep = std::thread::spawn(move || consumer.recv(&mut Vec::new()).map(|_| ()));
    crate::support::process::until("it sleeps", || !channel.stat().unwrap().consumers.is_empty());
    hold.clone().close().unwrap();
    kind(asleep.join().unwrap(), ErrorKind::Closed, "closed");
    assert_eq!(hold.participants().unwrap_err().kind(), ErrorKind::Closed);
    assert!(Hold::open(hold.path()).unwrap().participants().unwrap().len() == 1);
}

#[test]
fn threads_pass_messages_asleep_and_awake() {
    let test_dir = TestDir::memory();
    let hold = hold(&test_dir);
    for wait in [Wait::Sleep, Wait::Spin] {
        let (to, from) = (
            hold.channels().open_or_create("to", options()),
            hold.channels().open_or_create("from", options()),
        );
        let (to, from) = (to.unwrap(), from.unwrap());
        let mut back = from.consumer(Join::Now, Policy::Lossless).unwrap();
        let mut forth = to.consumer(Join::Now, Policy::Patient(Duration::from_secs(60))).unwrap();
        back.set_wait(wait);
        forth.set_wait(wait);
        let rounds = if wait == Wait::Sleep { 3000 } else { 300 };
        std::thread::scope(|scope| {
            scope.spawn(|| {
                let (mut producer, mut buffer) = (from.producer().unwrap(), Vec::new());
                for _ in 0..rounds {
                    forth.recv(&mut buffer).unwrap();
                    producer.send(&buffer).unwrap();
                }
            });
            let (mut producer, mut buffer) = (to.producer().unwrap(), Vec::new());
            for round in 0..rounds {
                producer.send(&message(round)).unwrap();
                let received = back.recv(&mut buffer).unwrap();
                assert_eq!((received.sequence, &buffer), (round, &message(round)));
            }
        });
        drop((back, forth, to, from));
        assert!(hold.channels().drop("to").unwrap() && hold.channels().drop("from").unwrap());
    }
}

#[test]
fn sixty_four_consumers_and_no_more() {
    let test_dir = TestDir::memory();
    let hold = hold(&test_dir);
    let channel = hold.channels().open_or_create("it", options()).unwrap();
    let mut producer = channel.producer().unwrap();
    let join = || channel.consumer(Join::Now, Policy::Lossless);
    let mut all: Vec<_> = (0..64).map(|_| join().unwrap()).collect();
    kind(join(), ErrorKind::Full, "64");
    let mut buffer = Vec::new();
    for sequence in 0..300 {
        producer.send(&message(sequence)).unwrap();
        for consumer in &mut all {
            assert_eq!(consumer.recv(&mut buffer).unwrap().sequence, sequence);
            assert_eq!(consumer.try_recv(&mut Vec::new()).unwrap(), None);
        }
    }
    all.swap_remove(10);
    all.push(join().unwrap());
    kind(join(), ErrorKind::Full, "64");
    assert_eq!(channel.stat().unwrap().consumers.len(), 64);
}

#[test]
fn a_read_only_handle_can_be_lossy_only() {
    let test_dir = TestDir::memory();
    let hold = hold(&test_dir);
    let channel = hold.channels().open_or_create("it", options()).unwrap();
    let mut producer = channel.producer().unwrap();
    let view = Hold::options().read_only(true).open(hold.path()).unwrap();
    let theirs = view.channels().open_or_create("it", options()).unwrap();
    kind(view.channels().open_or_create("none", options()), ErrorKind::NotFound, "none");
    kind(theirs.producer(), ErrorKind::ReadOnly, "lossy");
    kind(theirs.consumer(Join::Now, Policy::Lossless), ErrorKind::ReadOnly, "lossy");
    let mut lossy = theirs.consumer(Join::Oldest, Policy::Lossy).unwrap();
    let (mut buffer, mut expected) = (Vec::new(), 0);
    for sequence in 0..5000 {
        producer.send(&message(sequence)).unwrap();
        if sequence % 90 > 80 {
            while let Some(got) = lossy.try_recv(&mut buffer).unwrap() {
                assert_eq!(got.sequence, expected + got.missed);
                assert_eq!(buffer, message(got.sequence));
                expected = got.sequence + 1;
            }
            assert_eq!(expected, sequence + 1);
        }
    }
    assert!(lossy.missed() > 0);
    let timeout = Duration::from_millis(20);
    lossy.rejoin(Join::Now).unwrap();
    assert_eq!(lossy.recv_timeout(&mut buffer, timeout).unwrap(), None);
    assert_eq!(theirs.stat().unwrap().sequence, 5000);
    let waits = std::thread::spawn(move || {
        let mut buffer = Vec::new();
        lossy.recv(&mut buffer).map(|_| (lossy, buffer))
    });
    producer.send(b"awaited").unwrap();
    let (mut lossy, last) = waits.join().unwrap().unwrap();
    assert_eq!(last, b"awaited");
    drop((producer, channel));
    assert!(hold.channels().drop("it").unwrap());
    kind(lossy.try_recv(&mut buffer), ErrorKind::NotFound, "dropped");
    kind(theirs.stat(), ErrorKind::NotFound, "dropped");
}
