//! Every call that may wait: what a third party does while one process is dead and another stands
//! still.
//!
//! Calls that need nothing of the two have no limit and must succeed; the others have [`SHORT`]. A
//! call that hangs is found by the line that it noted last ([`Third::line`]).

use super::messages::{SHARED, mingle, queue_options};
use super::process::{Board, Child};
use super::scenario::{self, Scenario};
use super::shape::Shape;
use super::standstill::in_time;
use super::{Dice, script, uncertain};
use commonhold::channel::{ChannelOptions, Join, Policy};
use commonhold::log::{LogLevel, LogOptions};
use commonhold::map::{Cursor, Map, MapOptions, Values};
use commonhold::queue::{Queue, QueueOptions};
use commonhold::{ErrorKind, Hold, Result};
use std::io;
use std::panic::Location;
use std::path::Path;
use std::time::Duration;

/// The patience of calls that may need something of the other two.
pub const SHORT: Duration = Duration::from_millis(50);
/// That of calls that need at most what belongs to the hold as a whole.
const LONG: Duration = Duration::from_millis(400);
/// Structures that nobody else uses.
const ELSEWHERE: &str = "elsewhere";
const TOLD: &str = "told elsewhere";
const KEYS: u32 = 20;

/// Makes what the third one has for itself; nobody else is there.
pub fn prepare(path: &Path) {
    Child::run("preparation of the third", || {
        let hold = Hold::open(path).unwrap();
        for name in [ELSEWHERE, TOLD] {
            let map = hold.maps().open_or_create(name, MapOptions::general()).unwrap();
            for id in 0..KEYS {
                map.set(Shape::General.key(id), Shape::General.value(id, 1)).unwrap();
            }
        }
        hold.maps().begin_stream(TOLD, 1 << 16).unwrap();
        let options = QueueOptions::new(8, 16).queues(["free", "full"]);
        drop(hold.queues().open_or_create(ELSEWHERE_QUEUE, options).unwrap());
        drop(hold.channels().open_or_create(ELSEWHERE_CHANNEL, ChannelOptions::new(4096)).unwrap());
        drop(
            hold.logs()
                .open_or_create(ELSEWHERE_LOG, LogOptions::new().rings(2).ring_bytes(4096))
                .unwrap(),
        );
    })
    .finish();
}

const ELSEWHERE_QUEUE: &str = "elsewhere, a queue";
const ELSEWHERE_CHANNEL: &str = "elsewhere, a channel";
const ELSEWHERE_LOG: &str = "elsewhere, a log";

/// A third party.
pub struct Third<'a> {
    pub path: &'a Path,
    /// The scenario in whose common map it works as well, and who it is there.
    pub scenario: &'a Scenario,
    pub actor: u32,
    /// Where it notes what it is at; then, how its operations ended.
    pub board: &'a Board,
    pub at: usize,
    /// Whether the one that stands still may have what belongs to the hold as a whole.
    pub is_global: bool,
}

impl Third<'_> {
    /// Where the call stands that it was at last.
    pub fn line(&self) -> u64 {
        self.board.get(self.at)
    }

    #[track_caller]
    fn note(&self) {
        self.board.put(self.at, u64::from(Location::caller().line()));
    }

    /// A call that needs nobody.
    #[track_caller]
    fn freely<T>(&self, call: impl FnOnce() -> Result<T>) -> T {
        self.note();
        call().unwrap_or_else(|error| panic!("it needs nobody: {error}"))
    }

    /// A call that needs at most what belongs to the hold as a whole: its names, its growth, its
    /// not being frozen.
    #[track_caller]
    fn globally<T>(&self, call: impl FnOnce() -> Result<T>) -> Option<T> {
        self.note();
        match call() {
            Ok(value) => Some(value),
            Err(error) => {
                let text = error.to_string();
                let all = ["the names of the hold", "more memory", "the end of a freeze"];
                let is_expected = self.is_global
                    && error.kind() == ErrorKind::TimedOut
                    && all.iter().any(|lock| text.contains(lock));
                assert!(is_expected, "it needs none of the two: {error}");
                None
            }
        }
    }

    /// A call that may need what one of the two has.
    #[track_caller]
    fn briefly<T>(&self, call: impl FnOnce() -> Result<T>) -> Option<T> {
        self.note();
        in_time(call())
    }

    fn open(&self, patience: Option<Duration>) -> Hold {
        let options = Hold::options();
        let options = match patience {
            Some(time) => options.lock_timeout(time),
            None => options,
        };
        self.freely(|| options.open(self.path))
    }

    /// Makes all calls.
    pub fn run(&self) {
        self.need_nobody();
        self.work_elsewhere();
        self.wait_briefly();
    }

    fn need_nobody(&self) {
        let hold = self.open(None);
        let read_only = self.freely(|| Hold::options().read_only(true).open(self.path));
        for hold in [&hold, &read_only] {
            let common = (self.scenario.map, self.scenario.shape);
            for (name, shape) in [(ELSEWHERE, Shape::General), (TOLD, Shape::General), common] {
                let map = self.freely(|| hold.maps().open(name));
                self.read(&map, shape);
            }
            self.freely(|| hold.stat());
            self.freely(|| hold.participants());
            self.freely(|| hold.maps().list());
            self.freely(|| hold.structures());
            self.freely(|| hold.queues().stat(ELSEWHERE_QUEUE));
        }
        self.freely(|| read_only.logs().open(ELSEWHERE_LOG)?.dump());
        self.freely(|| hold.trim());
        self.freely(|| hold.close());
        self.freely(|| read_only.close());
    }

    fn read(&self, map: &Map, shape: Shape) {
        let keys: Vec<_> = (0..KEYS).map(|id| shape.key(id)).collect();
        self.freely(|| map.get_many(&keys, &mut Values::default()));
        for key in &keys[..2] {
            self.freely(|| map.get(key));
            self.freely(|| map.uid(key));
        }
        self.freely(|| map.iter().try_for_each(|pair| pair.map(drop)));
        self.freely(|| map.len());
        self.freely(|| map.random_pair());
        self.freely(|| map.stat());
        if let Ok(mut follower) = map.follow() {
            assert!(self.freely(|| follower.recv_timeout(Duration::ZERO).map(|f| f.is_none())));
            self.freely(|| follower.lag_bytes());
        }
    }

    /// In structures that nobody else uses.
    fn work_elsewhere(&self) {
        let hold = self.open(Some(LONG));
        for name in [ELSEWHERE, TOLD] {
            let map = self.freely(|| hold.maps().open(name));
            for id in 0..3 {
                let key = Shape::General.key(id);
                self.globally(|| map.set(&key, Shape::General.value(id, 2)));
                self.globally(|| map.delete(&key));
                self.globally(|| map.update(&key, |_| Some(Shape::General.value(id, 3))));
            }
            let mut cursor = Cursor::START;
            self.globally(|| map.try_expire(&mut cursor, 100));
        }
        self.globally(|| hold.maps().open(TOLD)?.follow()?.end());
        self.pass_elements(&hold);
        self.pass_messages(&hold);
        self.write_lines(&hold);
        self.freely(|| hold.close());
    }

    fn pass_elements(&self, hold: &Hold) {
        let Some(queue) = self.globally(|| hold.queues().open(ELSEWHERE_QUEUE)) else { return };
        let [free, full] = ["free", "full"].map(|name| queue.named(name).unwrap());
        let notifier = self.freely(|| queue.eventfd("full"));
        let pulled = self.freely(|| free.pull_timeout(LONG));
        self.freely(|| full.push(pulled.expect("an element that nobody has")));
        let pulled = self.freely(|| full.pull()).expect("an element that was pushed");
        let other = self.freely(|| full.push_pull(pulled, full)).expect("the same again");
        self.freely(|| free.push(other));
        self.note();
        drop(notifier);
        drop(queue);
    }

    fn pass_messages(&self, hold: &Hold) {
        let Some(channel) = self.globally(|| hold.channels().open(ELSEWHERE_CHANNEL)) else {
            return;
        };
        let mut producer = self.freely(|| channel.producer());
        let mut consumer = self.freely(|| channel.consumer(Join::Now, Policy::Lossless));
        let mut buffer = Vec::new();
        self.freely(|| producer.send(b"a message"));
        self.freely(|| consumer.recv(&mut buffer));
        self.freely(|| channel.stat());
        self.note();
        drop((consumer, producer));
    }

    fn write_lines(&self, hold: &Hold) {
        let Some(log) = self.globally(|| hold.logs().open(ELSEWHERE_LOG)) else { return };
        let _ = self.freely(|| log.write(LogLevel::Info, "a line"));
        let mut collector = self.freely(|| log.collector());
        self.freely(|| collector.finish(&mut io::sink()));
        self.freely(|| log.stat());
    }

    /// Where the other two are, and over the hold as a whole.
    fn wait_briefly(&self) {
        let hold = self.open(Some(SHORT));
        let map = self.freely(|| hold.maps().open(self.scenario.map));
        let script = self.script();
        self.note();
        uncertain::run(&map, self.scenario.shape, &script, self.board, self.at + 1);
        self.make_and_drop(&hold);
        self.follow(&hold);
        self.join_in(&hold);
        self.briefly(|| hold.sweep());
        if let Some(report) = self.briefly(|| hold.check()) {
            assert!(report.ok, "{:?}", report.problems);
        }
        self.briefly(|| hold.freeze().map(drop));
        let copy = self.path.with_extension("copy");
        self.briefly(|| hold.backup(&copy));
        self.freely(|| hold.trim());
        self.freely(|| hold.close());
    }

    /// What it does in the common map.
    pub fn script(&self) -> Vec<script::Op> {
        let (first, mut dice) = (scenario::first(self.actor), Dice::new(u64::from(self.actor)));
        script::mixed(self.scenario.shape, first, 12, 40, &mut dice)
    }

    /// What it did there is there, and what it did not is not.
    pub fn verify(&self, hold: &Hold) {
        let map = hold.maps().open(self.scenario.map).unwrap();
        let notes = (self.board, self.at + 1);
        let expected = uncertain::expected(self.scenario.shape, &self.script(), notes.0, notes.1);
        expected.verify(&map, "of the third");
    }

    /// How many words of the board its notes take.
    pub const fn room() -> usize {
        1 + uncertain::ROOM
    }

    fn make_and_drop(&self, hold: &Hold) {
        let made =
            self.briefly(|| hold.maps().open_or_create("made by the third", MapOptions::general()));
        if let Some(map) = made {
            self.briefly(|| map.set("a", "b").map(drop));
            self.briefly(|| map.clear());
            self.briefly(|| hold.maps().begin_stream("made by the third", 1 << 16));
        }
        let name = "a replica of the third";
        if self.briefly(|| hold.maps().open_replica(name, MapOptions::general())).is_some() {
            if self
                .briefly(|| commonhold::raw::create_shadow_map(hold, "its shadow", name))
                .is_some()
            {
                self.briefly(|| commonhold::raw::swap_in_shadow_map(hold, "its shadow", name));
            }
            self.briefly(|| hold.maps().promote(name));
        }
        for name in ["made by the third", name, "its shadow"] {
            self.briefly(|| hold.maps().drop(name));
        }
        let options = QueueOptions::new(4, 8).queues(["free"]);
        self.briefly(|| hold.queues().open_or_create("a queue of the third", options).map(drop));
        self.briefly(|| hold.queues().drop("a queue of the third"));
        let options = ChannelOptions::new(4096);
        self.briefly(|| {
            hold.channels().open_or_create("a channel of the third", options).map(drop)
        });
        self.briefly(|| hold.channels().drop("a channel of the third"));
        let options = LogOptions::new().rings(2).ring_bytes(4096);
        self.briefly(|| hold.logs().open_or_create("a log of the third", options).map(drop));
        self.briefly(|| hold.logs().drop("a log of the third"));
    }

    fn follow(&self, hold: &Hold) {
        let map = self.freely(|| hold.maps().open(self.scenario.map));
        if let Ok(mut follower) = map.follow() {
            self.briefly(|| follower.end());
            self.freely(|| follower.recv_timeout(SHORT).map(drop));
            // Nobody keeps a journal of it.
            self.note();
            assert!(map.sync(SHORT).is_err());
        }
    }

    /// In a queue and a channel of the others.
    fn join_in(&self, hold: &Hold) {
        if let Some(queue) = self.briefly(|| hold.queues().open_or_create(SHARED, queue_options()))
        {
            self.pull_from(&queue);
        }
        for at in [scenario::word::VICTIM, scenario::word::SECOND] {
            let name = scenario::own("passing", at);
            let found = hold.channels().open(&name);
            if found.as_ref().is_err_and(|error| error.is_not_found()) {
                continue;
            }
            let Some(channel) = self.briefly(|| found) else { continue };
            for policy in [Policy::Lossy, Policy::Lossless] {
                let joined = self.briefly(|| channel.consumer(Join::Oldest, policy));
                let Some(mut consumer) = joined else { continue };
                self.freely(|| consumer.recv_timeout(&mut Vec::new(), SHORT));
                self.note();
                drop(consumer);
            }
            self.freely(|| channel.stat());
        }
    }

    fn pull_from(&self, queue: &Queue) {
        self.briefly(|| mingle(queue));
        for named in queue.all() {
            self.briefly(|| named.pull_timeout(SHORT).map(drop));
            self.briefly(|| named.pull_many(2).map(drop));
        }
        let notifier = self.freely(|| queue.eventfd("free"));
        self.note();
        drop(notifier);
        self.freely(|| queue.stat());
    }
}
