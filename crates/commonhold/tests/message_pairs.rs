//! One process dead and another stopped, each at a named step of queues, channels or logs, while a
//! third one makes every call with a timeout: each of its calls returns.
//!
//! The one that is stopped goes on only when the third has ended, so a call that waits for it
//! without limit hangs, and its process is killed as hanging. Some pairs of steps, chosen by a seed
//! (`COMMONHOLD_SEED`); with `COMMONHOLD_LONG=1` all.

use crate::support::process::{Board, Child, End};
use crate::support::standstill::in_time;
use crate::support::test_dir::TestDir;
use crate::support::{Dice, long};
use commonhold::channel::{ChannelOptions, Join, Policy};
use commonhold::log::{LogLevel, LogOptions};
use commonhold::queue::{Queue, QueueOptions};
use commonhold::{Hold, steps};
use nix::sys::signal::Signal;
use std::io;
use std::path::Path;
use std::time::Duration;

/// What a call of the third is given.
const SHORT: Duration = Duration::from_millis(40);
/// How many pairs of each structure are tried, unless all are.
const SAMPLE: usize = 8;
const ELEMENTS: u32 = 12;

/// A structure: what makes it, what passes its steps, what the third does with it, and what must
/// hold afterwards.
struct Kind {
    prefixes: &'static [&'static str],
    make: fn(&Hold),
    work: fn(&Hold),
    third: fn(&Hold),
    after: fn(&Hold),
}

/// Opens the hold as somebody who waits briefly.
fn brief(path: &Path) -> Hold {
    Hold::options().lock_timeout(SHORT).open(path).unwrap()
}

const QUEUE: Kind = Kind {
    prefixes: &["queue.", "pull.", "push.", "recover.roll", "recover.requeued"],
    make: |hold| {
        let options = QueueOptions::new(ELEMENTS, 16).queues(["free", "a2b"]);
        let queue = hold.queues().open_or_create("it", options).unwrap();
        let (free, a2b) = (queue.named("free").unwrap(), queue.named("a2b").unwrap());
        a2b.push_many(&mut free.pull_many(ELEMENTS as usize / 2).unwrap()).unwrap();
    },
    work: |hold| {
        // What the dead one has left, for the steps of recovery.
        let _ = hold.sweep();
        let Ok(queue) = hold.queues().open("it") else { return };
        let _ = work_in_queue(&queue);
    },
    third: |hold| {
        let Some(queue) = in_time(hold.queues().open("it")) else { return };
        for named in queue.all() {
            named.len().unwrap();
            let first = in_time(named.pull_timeout(SHORT)).flatten();
            let second = in_time(named.pull()).flatten();
            let mut batch = queue.batch();
            in_time(named.pull_into_timeout(&mut batch, 2, SHORT));
            in_time(named.pull_into(&mut batch, 1));
            in_time(named.push_many(&mut batch));
            if let Some(element) = first
                && let Err((element, error)) = named.try_push_pull(element, queue.orphans())
            {
                in_time(Err::<(), _>(error));
                drop(element);
            }
            drop((second, batch));
            let notifier = queue.eventfd(named.name()).unwrap();
            drop(notifier);
        }
        queue.stat().unwrap();
    },
    after: |hold| {
        let queue = hold.queues().open("it").unwrap();
        let lens: u64 = queue.all().map(|named| named.len().unwrap()).sum();
        assert_eq!((lens, queue.stat().unwrap().holders.len()), (ELEMENTS.into(), 0));
    },
};

fn work_in_queue(queue: &Queue) -> commonhold::Result<()> {
    let (free, a2b) = (queue.named("free")?, queue.named("a2b")?);
    for _ in 0..2 {
        if let Some(element) = a2b.pull()? {
            free.push(element)?;
        }
        drop(free.pull()?);
        a2b.push_many(&mut free.pull_many(2)?)?;
    }
    Ok(())
}

const CHANNEL: Kind = Kind {
    prefixes: &["channel."],
    make: |hold| drop(hold.channels().open_or_create("it", ChannelOptions::new(4096)).unwrap()),
    work: |hold| {
        let Ok(channel) = hold.channels().open("it") else { return };
        let (mut consumer, mut buffer) =
            (channel.consumer(Join::Oldest, Policy::Lossless).unwrap(), Vec::new());
        let Ok(mut producer) = channel.producer() else {
            // The stopped one sends; this one is the consumer that it may be waiting for.
            let _ = consumer.recv_timeout(&mut buffer, SHORT);
            return;
        };
        for round in 0..20 {
            producer.send_timeout(&[round; 400], SHORT).unwrap();
            while consumer.try_recv(&mut buffer).unwrap().is_some() {}
        }
        // Until the ring is full, and somebody has to be waited for.
        while producer.send_timeout(&[0; 900], SHORT).unwrap().is_some() {}
        let _ = consumer.recv_timeout(&mut buffer, SHORT);
        drop((producer, consumer));
    },
    third: |hold| {
        let Some(channel) = in_time(hold.channels().open("it")) else { return };
        let (mut buffer, mut consumers) = (Vec::new(), Vec::new());
        for policy in [Policy::Lossless, Policy::Lossy, Policy::Patient(SHORT)] {
            for from in [Join::Now, Join::Oldest] {
                consumers.push(channel.consumer(from, policy).unwrap());
            }
        }
        if let Some(mut producer) = in_time(channel.producer()) {
            while producer.send_timeout(&[7; 900], SHORT).unwrap().is_some() {}
            producer.try_send(&[7; 900]).unwrap();
            let _ = producer.try_reserve(900).unwrap();
        }
        for consumer in &mut consumers {
            for _ in 0..3 {
                // A patient one may have been dropped.
                if consumer.recv_timeout(&mut buffer, SHORT).is_err() {
                    consumer.rejoin(Join::Now).unwrap();
                }
            }
        }
        channel.stat().unwrap();
    },
    after: |hold| {
        let channel = hold.channels().open("it").unwrap();
        let stat = channel.stat().unwrap();
        assert!(stat.producer.is_none() && stat.consumers.is_empty(), "{stat:?}");
        channel.producer().unwrap().send(b"goes on").unwrap();
    },
};

const LOG: Kind = Kind {
    prefixes: &["log.", "collect."],
    make: |hold| {
        drop(hold.logs().open_or_create("it", LogOptions::new().rings(2).ring_bytes(4096)).unwrap())
    },
    work: |hold| {
        let Ok(log) = hold.logs().open("it") else { return };
        for round in 0..2 {
            // Each thread claims a ring, and hands it back.
            std::thread::scope(|scope| {
                scope.spawn(|| {
                    for _ in 0..100 {
                        let _ = log.write(LogLevel::Info, format!("a line of round {round}"));
                    }
                });
            });
            if let Ok(mut collector) = log.collector() {
                let _ = collector.finish(&mut io::sink());
            }
        }
    },
    third: |hold| {
        let Some(log) = in_time(hold.logs().open("it")) else { return };
        let mut reader = log.reader().unwrap();
        log.prepare().unwrap();
        for _ in 0..200 {
            let _ = log.write(LogLevel::Info, "a line of the third").unwrap();
        }
        reader.poll().unwrap();
        reader.finish().unwrap();
        if let Some(mut collector) = in_time(log.collector()) {
            collector.poll(&mut io::sink()).unwrap();
            collector.finish(&mut io::sink()).unwrap();
        }
        log.dump().unwrap();
        log.stat().unwrap();
    },
    after: |hold| {
        let log = hold.logs().open("it").unwrap();
        log.collector().unwrap().finish(&mut io::sink()).unwrap();
        let stat = log.stat().unwrap();
        assert!(stat.used.iter().all(|ring| ring.slot.is_none()), "{stat:?}");
    },
};

impl Kind {
    /// The steps that its work passes, of its own.
    fn steps(&self) -> Vec<&'static str> {
        let test_dir = TestDir::memory();
        let path = test_dir.path("it.hold");
        (self.make)(&Hold::create(&path).unwrap());
        // For the steps of recovery.
        self.kill("pull.held", &path);
        self.kill("push.armed", &path);
        let passed: &'static Board = Box::leak(Box::new(Board::new(steps::ALL.len())));
        Child::run("observed", || {
            steps::observe(|step| {
                let at = steps::ALL.iter().position(|name| *name == step);
                passed.put(at.expect("a step of the list"), 1);
            });
            (self.work)(&Hold::open(&path).unwrap());
        })
        .finish();
        let own = |name: &str| self.prefixes.iter().any(|prefix| name.starts_with(prefix));
        let all = steps::ALL.iter().enumerate();
        all.filter(|(at, name)| passed.get(*at) == 1 && own(name)).map(|(_, name)| *name).collect()
    }

    fn kill(&self, step: &str, path: &Path) {
        let mut dead = Child::run(format!("killed at {step}"), || {
            let hold = Hold::open(path).unwrap();
            steps::arm(&format!("{step}:kill")).unwrap();
            (self.work)(&hold);
        });
        let end = dead.wait();
        assert!(matches!(end, End::By(Signal::SIGKILL) | End::Well), "killed at {step}: {end:?}");
    }

    /// One is killed at `first`, one stopped at `second`, a third does everything.
    fn meet(&self, first: &str, second: &str) {
        let test_dir = TestDir::memory();
        let path = test_dir.path("it.hold");
        (self.make)(&Hold::create(&path).unwrap());
        // A handle that was open before: the third opens another one, too.
        self.kill(first, &path);
        let mut stopped = Child::run(format!("stopped at {second}, behind {first}"), || {
            let hold = Hold::open(&path).unwrap();
            steps::arm(&format!("{second}:stop")).unwrap();
            (self.work)(&hold);
        });
        let stands = stopped.wait_stopped();
        Child::run(
            format!("third, with one killed at {first} and one stopped at {second}"),
            || {
                for _ in 0..2 {
                    let hold = brief(&path);
                    (self.third)(&hold);
                    in_time(hold.sweep());
                    hold.participants().unwrap();
                    hold.close().unwrap();
                }
            },
        )
        .finish();
        if stands {
            stopped.signal(Signal::SIGCONT);
            let end = stopped.wait();
            assert_eq!(end, End::Well, "stopped at {second}, behind {first}");
        }
        self.is_whole(&path, first, second);
    }

    fn is_whole(&self, path: &Path, first: &str, second: &str) {
        let hold = Hold::open(path).unwrap();
        hold.sweep().unwrap();
        (self.after)(&hold);
        let report = hold.check().unwrap();
        let whole = report.ok && report.allocated == report.reachable;
        assert!(whole, "killed at {first}, stopped at {second}: {report:?}");
    }

    fn all_or_some(&self) {
        let steps = self.steps();
        assert!(steps.len() > 8, "{steps:?}");
        let mut pairs: Vec<_> =
            steps.iter().flat_map(|a| steps.iter().map(move |b| (a, b))).collect();
        let seed = std::env::var("COMMONHOLD_SEED").ok().and_then(|seed| seed.parse().ok());
        let mut dice = Dice::new(seed.unwrap_or(14));
        while !long() && pairs.len() > SAMPLE {
            pairs.swap_remove(dice.below(pairs.len() as u64) as usize);
        }
        for (first, second) in pairs {
            self.meet(first, second);
        }
    }
}

#[test]
fn dead_and_stopped_users_of_a_queue_hold_up_nobody() {
    QUEUE.all_or_some();
}

#[test]
fn dead_and_stopped_users_of_a_channel_hold_up_nobody() {
    CHANNEL.all_or_some();
}

#[test]
fn dead_and_stopped_users_of_a_log_hold_up_nobody() {
    LOG.all_or_some();
}
