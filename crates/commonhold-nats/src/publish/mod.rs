//! A bucket that is what a map is: the map's changes go into it, in order.
//!
//! | file | idea |
//! |---|---|
//! | `place` | the position, which lies in the bucket, and who wrote last |
//! | `window` | messages without acknowledgement, which form a chain |
//! | `changes` | a thread that reads the map's stream |
//! | `compare` | the difference between the whole map and the whole bucket |
//!
//! A session ends with every error. The next one reads the bucket's last message, and by that knows
//! which messages of the session before were stored. A message on its way at that moment may still
//! arrive: then the chain of the new session breaks, and the next one reads again.

mod changes;
mod compare;
mod place;
mod window;

use crate::bucket::Bucket;
use crate::mirror::BridgeEvent;
use crate::publish::changes::{Change, Changes};
use crate::publish::place::{Place, Start};
use crate::publish::window::Window;
use crate::reader::nanoseconds;
use crate::status::{BridgeStatus, StatusReport};
use crate::trouble::{Pauses, Session, Trouble};
use async_nats::jetstream::stream::Info;
use commonhold::map::Map;
use commonhold::stream::Follower;
use commonhold::{Error, ErrorKind, Hold, Result};
use futures_util::future::{Either, select};
use std::pin::pin;
use std::time::{Duration, Instant};

/// How long it waits for a change or an acknowledgement before it looks at its other work.
const TURN: Duration = Duration::from_millis(100);
/// How often it brings its report up to date.
const NOTE: Duration = Duration::from_millis(200);
/// How often it stores its position, and looks whether another program has written.
const POLL: Duration = Duration::from_secs(2);

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
}

impl Default for PublisherOptions {
    fn default() -> PublisherOptions {
        PublisherOptions { in_flight: 512, stream_bytes: 64 << 20, take_over: false }
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
    /// The bucket was this publisher's once since it began.
    was_own: bool,
    /// The stream has no longer the changes behind the position, or one of them never was there.
    must_compare: bool,
    poll_due: Instant,
    note_due: Instant,
}

/// The outcome of a turn of a session.
enum Turn {
    Change(Change),
    Settled,
    Nothing,
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
        Ok(Publisher {
            hold: hold.clone(),
            name: name.to_owned(),
            bucket: bucket.clone(),
            options,
            place,
            report,
            was_own: false,
            must_compare: false,
            poll_due: Instant::now(),
            note_due: Instant::now(),
        })
    }

    /// The present status.
    pub fn status(&mut self) -> BridgeStatus {
        self.report.present().clone()
    }

    /// Publishes until `stop` returns true.
    ///
    /// # Errors
    /// `NotFound` if the bucket does not exist at the beginning; `Mismatch` if another program has
    /// written to the bucket; `TooLarge` for a value that the server does not accept.
    pub async fn run(
        &mut self,
        stop: &(dyn Fn() -> bool + Sync),
        events: &(dyn Fn(BridgeEvent<'_>) + Sync),
    ) -> Result<()> {
        let mut pauses = Pauses::new();
        while !stop() {
            let error = match self.session(stop, events, &mut pauses).await {
                Ok(()) => return Ok(()),
                Err(Trouble::Final(error)) => return Err(error),
                Err(Trouble::Passing(error)) if error.is_not_found() && !self.was_own => {
                    return Err(error);
                }
                Err(Trouble::Passing(error)) => error,
            };
            self.must_compare |= error.kind() == ErrorKind::Lapped;
            self.report.status.last_error = Some(error.to_string());
            self.report.status.in_flight = 0;
            self.report.write(true);
            events(BridgeEvent::Interrupted(&error));
            pauses.wait(stop).await;
        }
        Ok(())
    }

    async fn session(
        &mut self,
        stop: &(dyn Fn() -> bool + Sync),
        events: &(dyn Fn(BridgeEvent<'_>) + Sync),
        pauses: &mut Pauses,
    ) -> Session<()> {
        let map = self.hold.maps().open(&self.name)?;
        if map.follow().is_err_and(|error| error.is_not_found()) {
            self.hold.maps().begin_stream(&self.name, self.options.stream_bytes)?;
        }
        let info = self.bucket.info().await?;
        let (mut window, follower) = self.begin(&map, &info).await?;
        let created_ns = nanoseconds(info.created);
        let goal = map.follow()?.position();
        let mut changes = Changes::begin(follower);
        let mut is_ready = false;
        loop {
            if stop() {
                return self.end(window, created_ns).await;
            }
            match turn(&mut window, &mut changes).await? {
                Turn::Change(change) => self.send(&mut window, &map, change).await?,
                Turn::Settled => self.report.status.messages += 1,
                Turn::Nothing => {}
            }
            let (_, at) = window.acknowledged();
            if !is_ready && at.is_some_and(|at| at.offset >= goal.offset) {
                is_ready = true;
                pauses.reset();
                self.report.status.ready = true;
                self.save(&window, created_ns)?;
                events(BridgeEvent::Ready);
            }
            if Instant::now() >= self.poll_due {
                self.poll(&window, created_ns).await?;
            }
            if Instant::now() >= self.note_due {
                self.note(&map, &window, &changes)?;
            }
        }
    }

    /// Finds where to continue, or makes the bucket equal to the map.
    async fn begin(&mut self, map: &Map, info: &Info) -> Session<(Window, Follower)> {
        let start = self.place.start(info).await?;
        let (last, most) = (info.state.last_sequence, self.options.in_flight);
        if let Start::Foreign(writer) = &start {
            self.ensure_may_replace(writer, last)?;
        }
        self.was_own = true;
        if let Start::At(position) = start
            && !self.must_compare
        {
            match map.follow_from(position) {
                Ok(follower) => {
                    let id = &self.place.id;
                    return Ok((
                        Window::new(&self.bucket, id, most, last, Some(position)),
                        follower,
                    ));
                }
                Err(error) if [ErrorKind::Lapped, ErrorKind::Mismatch].contains(&error.kind()) => {}
                Err(error) => return Err(error.into()),
            }
        }
        let difference = compare::compare(map, &self.bucket, info).await?;
        self.report.status.synchronisations += 1;
        let mut window = Window::new(&self.bucket, &self.place.id, most, last, None);
        for change in difference.changes {
            while !window.has_room() {
                window.settle().await?;
            }
            window.send(change).await?;
            self.report.status.messages += 1;
        }
        while window.len() > 0 {
            window.settle().await?;
        }
        window.stands_at(difference.position);
        self.must_compare = false;
        Ok((window, difference.follower))
    }

    /// Whether the contents of a bucket that another program wrote may be replaced.
    fn ensure_may_replace(&self, writer: &str, last: u64) -> Session<()> {
        let (map, bucket) = (&self.name, self.bucket.name());
        let text = if self.was_own {
            format!(
                "{writer} wrote message {last} of bucket '{bucket}', so the publisher of map \
                 '{map}' has ended: a bucket has one publisher and no other writer"
            )
        } else if self.options.take_over {
            return Ok(());
        } else {
            format!(
                "{writer} wrote message {last} of bucket '{bucket}'; to replace the bucket's \
                 contents with map '{map}', and to end another publisher, use --take-over"
            )
        };
        Err(Trouble::Final(Error::new(ErrorKind::Mismatch, text)))
    }

    /// Sends a change. A value that is too large is left out if the key has another one by now.
    async fn send(&self, window: &mut Window, map: &Map, change: Change) -> Session<()> {
        let value = change.value.as_ref();
        let fits = self.bucket.ensure_fits(&change.key, value.map_or(0, Vec::len));
        if fits.is_err() && map.get(&change.key)?.as_ref() != value {
            return Ok(());
        }
        Ok(window.send(change).await?)
    }

    fn save(&mut self, window: &Window, created_ns: i64) -> Result<()> {
        match window.acknowledged() {
            (sequence, Some(position)) => self.place.save(created_ns, sequence, position),
            _ => Ok(()),
        }
    }

    /// Stores the position. Without messages on their way, also looks whether another program has
    /// written.
    async fn poll(&mut self, window: &Window, created_ns: i64) -> Session<()> {
        self.poll_due = Instant::now() + POLL;
        self.save(window, created_ns)?;
        if window.len() > 0 {
            return Ok(());
        }
        let info = self.bucket.info().await?;
        let is_same = nanoseconds(info.created) == created_ns;
        if is_same && info.state.last_sequence == window.acknowledged().0 {
            return Ok(());
        }
        let text = format!("bucket '{}' has unexpected messages", self.bucket.name());
        Err(Trouble::Passing(Error::new(ErrorKind::Io, text)))
    }

    /// Waits for the acknowledgements, as long as they come.
    async fn end(&mut self, mut window: Window, created_ns: i64) -> Session<()> {
        while window.len() > 0 {
            // The next publisher finds out what was stored.
            if window.settle().await.is_err() {
                return Ok(());
            }
        }
        Ok(self.save(&window, created_ns)?)
    }

    fn note(&mut self, map: &Map, window: &Window, changes: &Changes) -> Result<()> {
        self.note_due = Instant::now() + NOTE;
        let status = &mut self.report.status;
        status.in_flight = window.len() as u64;
        status.lag_ms = u64::try_from(window.age().as_millis()).unwrap_or(u64::MAX);
        let known = window.len() + changes.waiting();
        let end = map.follow()?.position().offset;
        let is_behind = window.acknowledged().1.is_none_or(|at| at.offset < end);
        status.lag_messages = (known as u64).max(is_behind.into());
        self.report.write(false);
        Ok(())
    }
}

/// Waits a moment for an acknowledgement, and for a change if there is room for it.
async fn turn(window: &mut Window, changes: &mut Changes) -> Result<Turn> {
    let (has_room, is_waiting) = (window.has_room(), window.len() > 0);
    let next = async {
        match (has_room, is_waiting) {
            (true, false) => changes.next().await.map(Turn::Change),
            (false, _) => window.settle().await.map(|()| Turn::Settled),
            (true, true) => match select(pin!(changes.next()), pin!(window.settle())).await {
                Either::Left((change, _)) => change.map(Turn::Change),
                Either::Right((settled, _)) => settled.map(|()| Turn::Settled),
            },
        }
    };
    tokio::time::timeout(TURN, next).await.unwrap_or(Ok(Turn::Nothing))
}
