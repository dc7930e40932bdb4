//! What a channel does when something is wrong around it: forks, a hold that is full of nonsense, nobody who sends.

use crate::support::Dice;
use crate::support::process::{
    Board, Child, End, Watchdog, end_here, fork_here, until, wait_for_clone,
};
use crate::support::test_dir::TestDir;
use commonhold::channel::{ChannelOptions, Join, Policy, Producer, Wait};
use commonhold::{ErrorKind, Hold};
use std::fs::OpenOptions;
use std::os::unix::fs::FileExt;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::path::Path;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

const RING: u64 = 4096;

fn options() -> ChannelOptions {
    ChannelOptions::new(RING)
}

fn nothing() -> Duration {
    Duration::from_millis(1)
}

#[test]
fn a_forked_child_takes_its_own_place() {
    let test_dir = TestDir::memory();
    let path = test_dir.path("it.hold");
    Child::run("parent", || {
        let hold = Hold::create(&path).unwrap();
        let channel = hold.channels().open_or_create("it", options()).unwrap();
        let mut producer = channel.producer().unwrap();
        let consumer = channel.consumer(Join::Now, Policy::Lossless).unwrap();
        let mut buffer = Vec::new();
        producer.send(b"before").unwrap();
        let board = Board::new(1);
        let mut ends = Some((producer, consumer));
        let child = Child::run("child", || {
            let (mut producer, mut consumer) = ends.take().unwrap();
            for error in [
                producer.send(b"from the child").unwrap_err(),
                consumer.try_recv(&mut buffer).unwrap_err(),
                consumer.rejoin(Join::Now).unwrap_err(),
            ] {
                assert_eq!(error.kind(), ErrorKind::Closed);
                assert!(error.to_string().contains("parent"), "{error}");
            }
            assert_eq!(channel.producer().unwrap_err().kind(), ErrorKind::Busy);
            // What belongs to the parent stays there.
            drop((producer, consumer));
            assert!(channel.stat().unwrap().producer.is_some());
            let mut own = channel.consumer(Join::Oldest, Policy::Lossless).unwrap();
            let stat = channel.stat().unwrap();
            assert_eq!(stat.consumers.len(), 2);
            assert_eq!(stat.consumers[1].peer.pid, std::process::id());
            for expected in [&b"before"[..], b"after"] {
                own.recv(&mut buffer).unwrap();
                assert_eq!(buffer, expected);
                board.put(0, 1);
            }
        });
        let (mut producer, mut consumer) = ends.take().unwrap();
        until("the child has joined", || board.get(0) == 1 || child.is_gone());
        producer.send(b"after").unwrap();
        child.finish();
        for expected in [&b"before"[..], b"after"] {
            consumer.recv(&mut buffer).unwrap();
            assert_eq!(buffer, expected);
        }
        assert_eq!(channel.stat().unwrap().consumers.len(), 1);
    })
    .finish();
    Child::run("afterwards", || {
        let hold = Hold::open(&path).unwrap();
        assert!(hold.channels().drop("it").unwrap());
        let report = hold.check().unwrap();
        assert!(report.ok && report.allocated == report.reachable, "{report:?}");
    })
    .finish();
}

/// Messages for `send_many`; before each it notes how often consumers were woken by then.
fn woken_before_each(count: u64, seen: &mut Vec<u64>) -> impl Iterator<Item = [u8; 8]> {
    static WOKEN: AtomicU64 = AtomicU64::new(0);
    commonhold::steps::observe(|step| {
        if step == "channel.woken" {
            WOKEN.fetch_add(1, Ordering::SeqCst);
        }
    });
    (0..count).map(|number| {
        seen.push(WOKEN.load(Ordering::SeqCst));
        number.to_le_bytes()
    })
}

#[test]
fn a_batch_from_a_slow_iterator_wakes_for_every_message() {
    let test_dir = TestDir::memory();
    let path = test_dir.path("it.hold");
    Child::run("producer", || {
        let hold = Hold::create(&path).unwrap();
        let channel = hold.channels().open_or_create("it", options()).unwrap();
        let mut producer = channel.producer().unwrap();
        let mut seen = Vec::new();
        assert_eq!(producer.send_many(woken_before_each(4, &mut seen)).unwrap(), 4);
        assert_eq!(seen, [0, 1, 2, 3]);
    })
    .finish();
}

#[test]
fn a_batch_whose_iterator_panics_has_woken_for_what_was_sent() {
    let test_dir = TestDir::memory();
    let path = test_dir.path("it.hold");
    Child::run("producer", || {
        let hold = Hold::create(&path).unwrap();
        let channel = hold.channels().open_or_create("it", options()).unwrap();
        let mut consumer = channel.consumer(Join::Now, Policy::Lossless).unwrap();
        let mut producer = channel.producer().unwrap();
        let mut seen = Vec::new();
        let failed = catch_unwind(AssertUnwindSafe(|| {
            let messages = woken_before_each(9, &mut seen);
            producer.send_many(messages.inspect(|m| assert!(m[0] != 2, "it fails")))
        }));
        assert!(failed.is_err());
        assert_eq!(seen, [0, 1, 2]);
        assert_eq!(producer.send(b"after").unwrap(), 2);
        let mut buffer = Vec::new();
        for wanted in [&0u64.to_le_bytes()[..], &1u64.to_le_bytes(), b"after"] {
            consumer.try_recv(&mut buffer).unwrap().unwrap();
            assert_eq!(buffer, wanted);
        }
    })
    .finish();
}

#[test]
fn an_idle_consumer_sleeps_and_wakes() {
    let test_dir = TestDir::memory();
    let (path, board) = (test_dir.path("it.hold"), Board::new(2));
    Child::run("preparation", || {
        Hold::create(&path).unwrap().channels().open_or_create("it", options()).unwrap();
    })
    .finish();
    let idle = Child::run("idle", || {
        let hold = Hold::open(&path).unwrap();
        let channel = hold.channels().open("it").unwrap();
        let mut consumer = channel.consumer(Join::Now, Policy::Lossless).unwrap();
        board.put(0, 1);
        let received = consumer.recv(&mut Vec::new()).unwrap();
        board.put(1, received.sequence + 1);
    });
    until("it has joined", || board.get(0) == 1 || idle.is_gone());
    let is_asleep = || {
        let stat = std::fs::read_to_string(format!("/proc/{}/stat", idle.pid())).unwrap();
        stat.rsplit(')').next().unwrap().trim_start().starts_with('S')
    };
    until("it sleeps", is_asleep);
    // It looks around now and then, which takes it far less time than this gives it.
    let looks = (0..100).filter(|_| {
        std::thread::sleep(Duration::from_millis(20));
        is_asleep()
    });
    let asleep = looks.count();
    assert!(asleep > 50, "asleep in {asleep} of 100 looks");
    assert_eq!(board.get(1), 0);
    Child::run("producer", || {
        let hold = Hold::open(&path).unwrap();
        hold.channels().open("it").unwrap().producer().unwrap().send(b"wake").unwrap();
    })
    .finish();
    idle.finish();
    assert_eq!(board.get(1), 1);
}

#[test]
fn a_waiter_that_dies_asleep_disturbs_nobody() {
    let test_dir = TestDir::memory();
    let (path, board) = (test_dir.path("it.hold"), Board::new(1));
    let asleep = |policy: Policy| {
        let before = board.get(0);
        let child = Child::run("asleep", || {
            let hold = Hold::open(&path).unwrap();
            let channel = hold.channels().open("it").unwrap();
            let mut consumer = channel.consumer(Join::Now, policy).unwrap();
            board.count(0, 1);
            let _ = consumer.recv(&mut Vec::new());
        });
        until("it has joined", || board.get(0) > before || child.is_gone());
        child
    };
    Child::run("producer", || {
        let hold = Hold::create(&path).unwrap();
        let channel = hold.channels().open_or_create("it", options()).unwrap();
        let mut producer = channel.producer().unwrap();
        producer.set_wait(Wait::Sleep);
        for policy in [Policy::Lossless, Policy::Patient(Duration::from_secs(600))] {
            for _ in 0..3 {
                let all = [asleep(policy), asleep(policy)];
                assert_eq!(channel.stat().unwrap().consumers.len(), 2);
                for child in all {
                    child.slay();
                }
                for _ in 0..1000 {
                    producer.send(&[7; 40]).unwrap();
                }
            }
        }
        assert!(channel.stat().unwrap().consumers.is_empty());
    })
    .finish();
}

/// Where the channel's own bytes begin in the file: its first message is looked for.
fn place(path: &Path) -> u64 {
    let bytes = std::fs::read(path).unwrap();
    let wanted = b"the very first message of all";
    let at = bytes.windows(wanted.len()).position(|window| window == wanted).unwrap();
    at as u64 - 8 - 12288
}

/// Whatever it answers, it answers.
fn use_everything(path: &Path) -> commonhold::Result<()> {
    let hold = Hold::open(path)?;
    let channel = hold.channels().open("it")?;
    let _ = channel.stat();
    let mut buffer = Vec::new();
    let policies = [Policy::Lossless, Policy::Lossy, Policy::Patient(nothing())];
    let mut consumers = Vec::new();
    for policy in policies {
        for from in [Join::Now, Join::Oldest] {
            consumers.extend(channel.consumer(from, policy));
        }
    }
    let producer = channel.producer();
    if let Ok(mut producer) = producer {
        for round in 0..60 {
            let _ = producer.try_send(&vec![round as u8; round * 17 % 1025]);
        }
        let _ = producer.send_timeout(&[1; 1000], nothing());
    }
    for consumer in &mut consumers {
        for _ in 0..100 {
            if let Ok(None) | Err(_) = consumer.try_recv(&mut buffer) {
                break;
            }
        }
        let _ = consumer.recv_timeout(&mut buffer, nothing());
        let _ = consumer.rejoin(Join::Oldest);
        let _ = consumer.try_recv_with(|raw, _| raw.len());
    }
    let _ = channel.stat();
    drop(consumers);
    hold.sweep()?;
    hold.check()?;
    hold.channels().drop("it").map(|_| ())
}

#[test]
fn nonsense_in_the_file_leads_to_errors_only() {
    let _watchdog = Watchdog::new("nonsense in a channel", Duration::from_secs(240));
    let mut dice = Dice::new(9);
    for round in 0..600u64 {
        let test_dir = TestDir::memory();
        let path = test_dir.path("it.hold");
        let hold = Hold::create(&path).unwrap();
        let channel = hold.channels().open_or_create("it", options()).unwrap();
        let mut producer = channel.producer().unwrap();
        let mut consumer = channel.consumer(Join::Now, Policy::Lossless).unwrap();
        producer.send(b"the very first message of all").unwrap();
        let start = place(&path);
        for sequence in 0..round % 200 {
            if producer.try_send(&vec![3; (sequence * 31 % 900) as usize]).unwrap().is_none() {
                while consumer.try_recv(&mut Vec::new()).unwrap().is_some() {}
            }
        }
        let file = OpenOptions::new().read(true).write(true).open(&path).unwrap();
        for _ in 0..1 + dice.below(4) {
            let (first, words) = match dice.below(4) {
                0 => (0, 96),
                1 => (256, 8),
                2 => (1024, 64),
                _ => (12288, 512),
            };
            let at = start + first + dice.below(words) * 8;
            let mut word = [0; 8];
            file.read_exact_at(&mut word, at).unwrap();
            let old = u64::from_le_bytes(word);
            let new = match dice.below(6) {
                0 => u64::MAX,
                1 => 0,
                2 => old.wrapping_add(8),
                3 => old.wrapping_sub(RING),
                4 => old ^ 1 << dice.below(64),
                _ => dice.roll(),
            };
            file.write_all_at(&new.to_le_bytes(), at).unwrap();
        }
        // Both ends that were open, then everybody afresh.
        for _ in 0..50 {
            let _ = producer.try_send(&[5; 300]);
            let _ = consumer.try_recv(&mut Vec::new());
        }
        drop((producer, consumer, channel));
        let _ = use_everything(&path);
        drop(hold);
        let _ = use_everything(&path);
    }
}

/// A consumer leaves. Before it looks whether it was the last endpoint of a closed handle, a producer
/// joins, and the handle is closed: the participant stays for that producer.
#[test]
#[cfg(feature = "steps")]
fn an_endpoint_that_joins_while_the_last_one_leaves_keeps_its_participant() {
    let test_dir = TestDir::memory();
    Child::run("an endpoint that joins", || {
        let hold = Hold::create(test_dir.path("it.hold")).unwrap();
        hold.channels().create("it", options()).unwrap();
        let own = Hold::open(test_dir.path("it.hold")).unwrap();
        let channel = own.channels().open("it").unwrap();
        let consumer = channel.consumer(Join::Now, Policy::Lossless).unwrap();
        let joined = std::sync::Arc::new(std::sync::Mutex::new(None));
        let closing = std::sync::Mutex::new(Some((own, channel, joined.clone())));
        commonhold::steps::observe(move |step| {
            if step == "channel.endpoint-released"
                && let Some((own, channel, joined)) = closing.lock().unwrap().take()
            {
                *joined.lock().unwrap() = Some(channel.producer().unwrap());
                own.close().unwrap();
            }
        });
        drop(consumer);
        assert_eq!(hold.participants().unwrap().len(), 2);
        let busy = hold.channels().open("it").unwrap().producer().map(drop).unwrap_err();
        assert_eq!(busy.kind(), ErrorKind::Busy, "{busy}");
        drop(joined.lock().unwrap().take());
        assert_eq!(hold.participants().unwrap().len(), 1);
        drop(hold.channels().open("it").unwrap().producer().unwrap());
    })
    .finish();
}

/// A child that was forked in the middle of receiving does not move its parent's cursor.
#[test]
fn a_child_of_a_callback_publishes_nothing() {
    let test_dir = TestDir::memory();
    let path = test_dir.path("it.hold");
    Child::run("parent", || {
        let hold = Hold::create(&path).unwrap();
        let channel = hold.channels().create("it", options()).unwrap();
        let mut producer = channel.producer().unwrap();
        let mut consumer = channel.consumer(Join::Now, Policy::Lossless).unwrap();
        let (board, mut buffer) = (Board::new(1), Vec::new());
        producer.send(b"first").unwrap();
        let mut child = 0;
        let received = consumer.recv_many(1, |_, _| {
            child = fork_here();
            if child == 0 {
                until("the parent has received more", || board.get(0) == 1);
            }
        });
        if child == 0 {
            end_here(received.is_ok_and(|count| count == 1));
        }
        let send = |producer: &mut Producer| {
            // Without room, the cursor was moved back.
            producer.send_timeout(&[1; 40], Duration::from_secs(30)).unwrap().expect("room")
        };
        for _ in 0..2 * RING / 64 {
            send(&mut producer);
            consumer.recv(&mut buffer).unwrap();
        }
        assert_eq!(consumer.try_recv(&mut buffer).unwrap(), None);
        board.put(0, 1);
        assert_eq!(wait_for_clone(child), End::Well);
        (0..RING / 64 / 2).for_each(|_| _ = send(&mut producer));
    })
    .finish();
}
