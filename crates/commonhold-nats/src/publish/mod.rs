//! A bucket that is what a map is: the map's changes go into it, in order.
//!
//! | file | idea |
//! |---|---|
//! | `place` | the position, which lies in the bucket, and who wrote last |
//! | `window` | messages without acknowledgement, which form a chain |
//! | `changes` | the changes of the map's stream |
//! | `compare` | the difference between the whole map and the whole bucket |
//! | `fence` | takes the bucket from another program |
//! | `lag` | how far the bucket is behind the map |
//!
//! A session ends with every error. The next one reads the bucket's last message, and by that knows
//! which messages of the session before were stored. A message on its way at that moment may still
//! arrive: then the chain of the new session breaks, and the next one reads again.
//!
//! Pairs can leave the bucket without a message: they expire, or others purge them. So a session
//! that continues at a position compares everything once it has caught up, unless the bucket has as
//! many messages as it had. Later it compares when the bucket has fewer, and every five minutes.

mod changes;
mod compare;
mod fence;
mod lag;
mod place;
mod window;

use crate::bridge::{self, Bridge, BridgeEvent, Control};
use crate::bucket::Bucket;
use crate::feed::{Feed, TURN};
use crate::publish::changes::{Change, next};
use crate::publish::lag::Lag;
use crate::publish::place::{Place, Start};
use crate::publish::window::Window;
use crate::reader::nanoseconds;
use crate::status::{BridgeStatus, StatusReport};
use crate::trouble::{Session, Trouble};
use async_nats::jetstream::stream::Info;
use commonhold::map::Map;
use commonhold::stream::Follower;
use commonhold::{Error, ErrorKind, Hold, Result};
use futures_util::future::{Either, select};
use std::pin::pin;
use std::time::{Duration, Instant};

/// How often it looks whether another program has written.
const POLL: Duration = Duration::from_secs(2);
/// How often it compares everything, if nothing hints at a difference.
const COMPARE: Duration = Duration::from_secs(300);
/// How often it takes a bucket from a program that writes on, before it gives up.
const TAKES: u32 = 20;

/// How a publisher works.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct PublisherOptions {
    /// The most messages without acknowledgement.
    pub in_flight: usize,
    /// The size of the map's stream, if the map has none.
    pub stream_bytes: u64,
    /// Replace the contents of a bucket that another program has written, and fence that program.
    pub take_over: bool,
    /// End at a pair that the bucket cannot have, instead of leaving it out.
    pub strict: bool,
}

impl Default for PublisherOptions {
    fn default() -> PublisherOptions {
        let stream_bytes = 64 << 20;
        PublisherOptions { in_flight: 512, stream_bytes, take_over: false, strict: false }
    }
}

/// See the module.
#[derive(Debug)]
pub struct Publisher {
    hold: Hold,
    name: String,
    bucket: Bucket,
    options: PublisherOptions,
    place: Place,
    report: StatusReport,
    lag: Lag,
    /// The bucket was this publisher's once since it began.
    was_own: bool,
    /// The bucket was equal to the map once since it began.
    was_ready: bool,
    /// The stream has no longer the changes behind the position, or one of them never was there.
    must_compare: bool,
    /// The stream's last message was this publisher's once since it began.
    has_written: bool,
    /// How often it took the bucket from another program, since it was ready.
    takes: u32,
    /// Messages in the bucket at the last poll.
    messages: u64,
    poll_due: Instant,
    compare_due: Instant,
}

/// The outcome of a turn of a session.
enum Turn {
    Change(Change),
    /// The number of messages that were acknowledged.
    Settled(u64),
    Nothing,
}

/// Why a session stopped following the map.
#[derive(PartialEq, Eq)]
enum Pause {
    Stop,
    Compare,
}

impl Publisher {
    /// Prepares to publish the map of this name to a bucket.
    ///
    /// # Errors
    /// `Busy` if another process does that; `NotFound` if there is no such map.
    pub fn open(
        hold: &Hold,
        name: &str,
        bucket: &Bucket,
        options: PublisherOptions,
    ) -> Result<Publisher> {
        hold.maps().open(name)?;
        let place = Place::take(hold, name, bucket)?;
        let remote = format!("bucket {}", bucket.name());
        let report = StatusReport::new(hold, name, "publish", &remote, &bucket.link)?;
        let lag = Lag::default();
        report.set_probe(lag.probe(hold, name));
        let now = Instant::now();
        Ok(Publisher {
            hold: hold.clone(),
            name: name.to_owned(),
            bucket: bucket.clone(),
            options,
            place,
            report,
            lag,
            was_own: false,
            was_ready: false,
            must_compare: false,
            has_written: false,
            takes: 0,
            messages: 0,
            poll_due: now,
            compare_due: now,
        })
    }

    /// The present status.
    pub fn status(&self) -> BridgeStatus {
        self.report.present()
    }

    /// Publishes until `stop` returns true.
    ///
    /// # Errors
    /// `NotFound` if the bucket does not exist at the beginning; `Mismatch` if another program has
    /// written to the bucket; with `strict`, `TooLarge` or `Invalid` for a pair that the bucket
    /// cannot have.
    pub async fn run(
        &mut self,
        stop: &(dyn Fn() -> bool + Sync),
        events: &(dyn Fn(BridgeEvent<'_>) + Sync),
    ) -> Result<()> {
        bridge::run(self, stop, events).await
    }

    async fn work(&mut self, control: &Control<'_>) -> Session<()> {
        let map = self.hold.maps().open(&self.name)?;
        if map.follow().is_err_and(|error| error.is_not_found()) {
            self.hold.maps().begin_stream(&self.name, self.options.stream_bytes)?;
        }
        let mut is_ready = false;
        loop {
            let info = self.bucket.info().await?;
            let (window, follower) = self.begin(&map, &info, control).await?;
            let created_ns = nanoseconds(info.created);
            let pause = self.follow(&map, window, follower, created_ns, &mut is_ready, control);
            if pause.await? == Pause::Stop {
                return Ok(());
            }
            self.must_compare = true;
        }
    }

    /// Sends the changes of the map as they come.
    async fn follow(
        &mut self,
        map: &Map,
        mut window: Window,
        mut follower: Follower,
        created_ns: i64,
        is_ready: &mut bool,
        control: &Control<'_>,
    ) -> Session<Pause> {
        let goal = map.follow()?.position();
        let mut changes = Feed::begin(move || next(&mut follower, TURN))?;
        loop {
            if control.stops() {
                return self.end(window, created_ns).await;
            }
            let is_due = *is_ready && Instant::now() >= self.compare_due;
            if is_due && window.len() == 0 && changes.waiting() == 0 {
                return Ok(Pause::Compare);
            }
            match turn(&mut window, &mut changes).await? {
                Turn::Change(change) => self.send(&mut window, map, change, control).await?,
                Turn::Settled(messages) => {
                    self.has_written |= messages > 0;
                    self.report.note(|status| status.messages += messages);
                    self.save(&window, created_ns, 0)?;
                }
                Turn::Nothing => {}
            }
            let (_, at) = window.acknowledged();
            self.lag.reached(at, window.len());
            if !*is_ready && at.is_some_and(|at| at.offset >= goal.offset) {
                (*is_ready, self.was_ready) = (true, true);
                self.report.note(|status| status.ready = true);
                control.ready();
            }
            if Instant::now() >= self.poll_due {
                self.poll_due = Instant::now() + POLL;
                self.report.note(|status| status.in_flight = window.len() as u64);
                self.poll(&window, created_ns).await?;
            }
        }
    }

    /// Finds where to continue, or makes the bucket equal to the map.
    async fn begin(
        &mut self,
        map: &Map,
        info: &Info,
        control: &Control<'_>,
    ) -> Session<(Window, Follower)> {
        let start = self.place.start(info).await?;
        let (last, most) = (info.state.last_sequence, self.options.in_flight);
        (self.poll_due, self.messages) = (Instant::now() + POLL, 0);
        if let Start::Foreign(writer) = &start {
            self.ensure_may_replace(writer, last)?;
            (self.was_own, self.takes) = (true, self.takes + 1);
            // The first time without a fence: a bucket that is equal already gets no message.
            if self.takes > 1 {
                let last = fence::fence(&self.bucket, map, &self.place.id).await?;
                self.has_written = true;
                let info = self.bucket.info().await?;
                return self.equalize(map, &info, last, control).await;
            }
            return self.equalize(map, info, last, control).await;
        }
        (self.was_own, self.has_written) = (true, true);
        if let Start::At(position, is_proven) = start
            && !self.must_compare
        {
            match map.follow_from(position) {
                Ok(follower) => {
                    let wait = if is_proven { COMPARE } else { Duration::ZERO };
                    self.compare_due = Instant::now() + wait;
                    let (bucket, id) = (&self.bucket, &self.place.id);
                    return Ok((Window::new(bucket, id, most, last, Some(position)), follower));
                }
                Err(error) if [ErrorKind::Lapped, ErrorKind::Mismatch].contains(&error.kind()) => {}
                Err(error) => return Err(error.into()),
            }
        }
        self.equalize(map, info, last, control).await
    }

    /// Compares, and makes the bucket, whose last message this is, equal to the map.
    async fn equalize(
        &mut self,
        map: &Map,
        info: &Info,
        last: u64,
        control: &Control<'_>,
    ) -> Session<(Window, Follower)> {
        let difference = compare::compare(map, &self.bucket, info, control).await?;
        self.report.note(|status| {
            status.synchronisations += 1;
            status.skipped = 0;
        });
        for error in difference.refused {
            self.skip(error, control)?;
        }
        let most = self.options.in_flight;
        let mut window = Window::new(&self.bucket, &self.place.id, most, last, None);
        for change in difference.changes {
            control.ensure_runs()?;
            while !window.has_room() {
                self.settle(&mut window).await?;
            }
            self.send(&mut window, map, change, control).await?;
        }
        while window.len() > 0 {
            self.settle(&mut window).await?;
        }
        window.stands_at(difference.position);
        self.save(&window, nanoseconds(info.created), 0)?;
        self.must_compare = false;
        self.compare_due = Instant::now() + COMPARE;
        Ok((window, difference.follower))
    }

    async fn settle(&mut self, window: &mut Window) -> Result<()> {
        let settled = window.settle().await?;
        self.has_written |= settled > 0;
        self.report.note(|status| status.messages += settled);
        Ok(())
    }

    /// Whether the contents of a bucket that another program wrote may be replaced.
    fn ensure_may_replace(&self, writer: &str, last: u64) -> Session<()> {
        let (map, bucket) = (&self.name, self.bucket.name());
        let took_over = self.options.take_over && !(self.was_ready && self.has_written);
        let text = if took_over && self.takes < TAKES {
            return Ok(());
        } else if took_over {
            format!(
                "{writer} wrote message {last} of bucket '{bucket}' after the publisher of map \
                 '{map}' had taken the bucket over {TAKES} times; stop that program first"
            )
        } else if self.was_own {
            format!(
                "{writer} wrote message {last} of bucket '{bucket}', so the publisher of map \
                 '{map}' has ended: a bucket has one publisher and no other writer"
            )
        } else {
            format!(
                "{writer} wrote message {last} of bucket '{bucket}'; to replace the bucket's \
                 contents with map '{map}', and to end another publisher, use --take-over"
            )
        };
        Err(Trouble::Final(Error::new(ErrorKind::Mismatch, text)))
    }

    /// Sends a change. A pair that the bucket cannot have is left out.
    async fn send(
        &self,
        window: &mut Window,
        map: &Map,
        change: Change,
        control: &Control<'_>,
    ) -> Session<()> {
        if let Some(end) = change.end {
            self.lag.took(end);
        }
        let Change { key, value, end } = change;
        let Err(error) = self.bucket.ensure_fits(&key, value.as_ref().map_or(0, Vec::len)) else {
            return Ok(window.send(Change { key, value, end }).await?);
        };
        if value.is_some() && map.get(&key)? == value {
            self.skip(error, control)?;
        }
        match self.bucket.subject_of(&key) {
            // An older value of the key must not stay.
            Ok(_) => Ok(window.send(Change { key, value: None, end }).await?),
            Err(_) => {
                window.pass(end);
                Ok(())
            }
        }
    }

    /// Reports a pair that the bucket cannot have.
    fn skip(&self, error: Error, control: &Control<'_>) -> Session<()> {
        if self.options.strict {
            return Err(Trouble::Final(error));
        }
        self.report.note(|status| {
            status.skipped += 1;
            status.last_error = Some(error.to_string());
        });
        control.skipped(&error);
        Ok(())
    }

    fn save(&mut self, window: &Window, created_ns: i64, messages: u64) -> Result<()> {
        match window.acknowledged() {
            (sequence, Some(position)) => self.place.save(created_ns, sequence, position, messages),
            _ => Ok(()),
        }
    }

    /// Without messages on their way, looks whether another program has written, and whether pairs
    /// have left the bucket.
    async fn poll(&mut self, window: &Window, created_ns: i64) -> Session<()> {
        if window.len() > 0 {
            return Ok(());
        }
        let info = self.bucket.info().await?;
        let is_same = nanoseconds(info.created) == created_ns;
        if !is_same || info.state.last_sequence != window.acknowledged().0 {
            let text = format!("bucket '{}' has unexpected messages", self.bucket.name());
            return Err(Trouble::Passing(Error::new(ErrorKind::Io, text)));
        }
        let before = std::mem::replace(&mut self.messages, info.state.messages);
        if self.messages < before {
            self.compare_due = Instant::now();
        }
        let is_equal = Instant::now() < self.compare_due;
        Ok(self.save(window, created_ns, if is_equal { self.messages } else { 0 })?)
    }

    /// Waits for the acknowledgements, as long as they come.
    async fn end(&mut self, mut window: Window, created_ns: i64) -> Session<Pause> {
        while window.len() > 0 {
            // The next publisher finds out what was stored.
            if window.settle().await.is_err() {
                return Ok(Pause::Stop);
            }
            self.save(&window, created_ns, 0)?;
        }
        Ok(Pause::Stop)
    }
}

impl Bridge for Publisher {
    async fn session(&mut self, control: &Control<'_>) -> Session<()> {
        self.work(control).await
    }

    fn report(&self) -> &StatusReport {
        &self.report
    }

    fn has_begun(&self) -> bool {
        self.was_own
    }

    fn interrupted(&mut self, error: &Error) {
        self.must_compare |= error.kind() == ErrorKind::Lapped;
    }
}

/// Waits a moment for an acknowledgement, and for a change if there is room for it.
async fn turn(window: &mut Window, changes: &mut Feed<Change>) -> Result<Turn> {
    let (has_room, is_waiting) = (window.has_room(), window.len() > 0);
    let next = async {
        match (has_room, is_waiting) {
            (true, false) => changes.next().await.map(Turn::Change),
            (false, _) => window.settle().await.map(Turn::Settled),
            (true, true) => match select(pin!(changes.next()), pin!(window.settle())).await {
                Either::Left((change, _)) => change.map(Turn::Change),
                Either::Right((settled, _)) => settled.map(Turn::Settled),
            },
        }
    };
    tokio::time::timeout(TURN, next).await.unwrap_or(Ok(Turn::Nothing))
}
