//! A local map that is what a bucket is: first the bucket's contents, shown as a whole, then every
//! change in order. Other processes read the map as that of any replica.
//!
//! | file | idea |
//! |---|---|
//! | `place` | the position, kept in the hold |
//! | `copy` | the map, and the one that is built |
//! | `removed` | keys that left the bucket without a message |
//!
//! A session ends with every error. The next one continues at the position if the bucket is still
//! the same and still has that change; otherwise it reads the whole bucket into a shadow map.

pub(crate) mod copy;
pub(crate) mod place;
mod removed;

use crate::bridge::{self, Bridge, BridgeEvent, Control};
use crate::bucket::Bucket;
use crate::mirror::copy::{Copy, Expiry};
use crate::mirror::place::{Place, Position};
use crate::reader::{Arrival, Reader, nanoseconds};
use crate::status::{BridgeStatus, StatusReport};
use crate::trouble::{Session, Trouble};
use async_nats::jetstream::consumer::DeliverPolicy;
use async_nats::jetstream::stream::Info;
use commonhold::raw::realtime_ms;
use commonhold::{Error, ErrorKind, Hold, Result};
use std::time::{Duration, Instant};

/// How long it waits for the next message before it looks at its other work.
const TURN: Duration = Duration::from_millis(100);
/// How often it removes expired pairs.
const SWEEP: Duration = Duration::from_secs(5);
/// How often it looks for keys that left without a message, if nothing hints at them.
const COMPARE: Duration = Duration::from_secs(300);

/// How a mirror works.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct MirrorOptions {
    /// How often it asks the server for the state of the bucket: the lag is known that exactly.
    pub poll: Duration,
}

impl Default for MirrorOptions {
    fn default() -> MirrorOptions {
        MirrorOptions { poll: Duration::from_secs(2) }
    }
}

/// See the module.
#[derive(Debug)]
pub struct Mirror {
    hold: Hold,
    name: String,
    bucket: Bucket,
    options: MirrorOptions,
    place: Place,
    report: StatusReport,
    /// The bucket has existed since the mirror began.
    was_there: bool,
    /// Keys in the bucket at the last poll.
    keys: u64,
    /// The session's map has everything that the bucket had at this time, since 1970.
    as_of_ms: u64,
    /// The number of the bucket's last change at the last poll of the session, and its time.
    polled: Option<(u64, u64)>,
    poll_due: Instant,
    sweep_due: Instant,
    compare_due: Instant,
}

impl Mirror {
    /// Prepares to mirror a bucket into the map of this name.
    ///
    /// # Errors
    /// `Busy` if the map has a mirror or a replica already; those of the hold.
    pub fn open(
        hold: &Hold,
        name: &str,
        bucket: &Bucket,
        options: MirrorOptions,
    ) -> Result<Mirror> {
        let place = Place::take(hold, name, bucket)?;
        let remote = format!("bucket {}", bucket.name());
        let report = StatusReport::new(hold, name, "mirror", &remote, &bucket.link)?;
        let now = Instant::now();
        Ok(Mirror {
            hold: hold.clone(),
            name: name.to_owned(),
            bucket: bucket.clone(),
            options,
            place,
            report,
            was_there: false,
            keys: 0,
            as_of_ms: 0,
            polled: None,
            poll_due: now,
            sweep_due: now,
            compare_due: now,
        })
    }

    /// The present status.
    pub fn status(&self) -> BridgeStatus {
        self.report.present()
    }

    /// Mirrors until `stop` returns true.
    ///
    /// # Errors
    /// `NotFound` if the bucket does not exist at the beginning; `Mismatch` if the map is an
    /// ordinary one; `Invalid` for a key of another style.
    pub async fn run(
        &mut self,
        stop: &(dyn Fn() -> bool + Sync),
        events: &(dyn Fn(BridgeEvent<'_>) + Sync),
    ) -> Result<()> {
        bridge::run(self, stop, events).await
    }

    async fn work(&mut self, control: &Control<'_>) -> Session<()> {
        let info = self.bucket.info().await?;
        self.was_there = true;
        let expiry = Expiry::of_bucket(&info);
        let copy = Copy::open(&self.hold, &self.name, &self.bucket, expiry)?;
        let resumed = self.resume(&copy, &info).await?;
        let (copy, reader) = match resumed {
            Some(reader) => (copy, reader),
            None => self.rebuild(copy, &info, control).await?,
        };
        (self.keys, self.as_of_ms, self.polled) = (info.state.subjects_count, 0, None);
        let now = Instant::now();
        (self.poll_due, self.sweep_due, self.compare_due) = (now, now, now);
        self.follow(&copy, reader, &info, control).await
    }

    /// A reader from the stored position on, if the bucket still has that change.
    async fn resume(&mut self, copy: &Copy, info: &Info) -> Session<Option<Reader>> {
        let stored = self.place.load(&copy.map)?;
        let (created_ns, expiry) = (nanoseconds(info.created), copy.expiry().number());
        let is_same =
            |at: &Position| (at.created_ns, at.expiry) == (created_ns, expiry) && at.sequence != 0;
        let Some(at) = stored.filter(is_same).filter(|_| copy.is_ready()) else {
            return Ok(None);
        };
        let change = self.bucket.message(at.sequence).await?;
        if change.is_none_or(|change| nanoseconds(change.time) != at.time_ns) {
            return Ok(None);
        }
        self.place.begin(&copy.map, at)?;
        let from = DeliverPolicy::ByStartSequence { start_sequence: at.sequence };
        Ok(Some(self.reader(from, info).await?))
    }

    async fn reader(&self, from: DeliverPolicy, info: &Info) -> Result<Reader> {
        let typical = info.state.bytes / info.state.messages.max(1);
        let (link, bucket) = (&self.bucket.link, &self.bucket);
        Reader::begin(link, bucket.stream(), bucket.all(), from, typical).await
    }

    /// Reads the whole bucket into a shadow map, which then takes the place of the map.
    async fn rebuild(
        &mut self,
        copy: Copy,
        info: &Info,
        control: &Control<'_>,
    ) -> Session<(Copy, Reader)> {
        let shadow = copy.begin_shadow()?;
        let mut reader = self.reader(DeliverPolicy::LastPerSubject, info).await?;
        let position = match self.fill(&shadow, &mut reader, info, control).await {
            Ok(position) => position,
            Err(trouble) => {
                copy.drop_shadow();
                return Err(trouble);
            }
        };
        // If it is killed behind this, it reads the bucket again: better than with the position of
        // another map.
        self.place.forget()?;
        let copy = copy.replace_by(shadow)?;
        self.place.begin(&copy.map, position)?;
        self.report.note(|status| status.synchronisations += 1);
        Ok((copy, reader))
    }

    /// Fills a shadow map with all that the bucket has, and returns the position behind it.
    ///
    /// A value that is replaced while the map is filled is not sent any more; its successor is. So
    /// the map is whole when everything has arrived that the server had sent at a moment at which
    /// it had nothing left to send. The server that sends may have fallen behind the bucket's
    /// leader, so the leader is asked, too.
    async fn fill(
        &mut self,
        shadow: &Copy,
        reader: &mut Reader,
        info: &Info,
        control: &Control<'_>,
    ) -> Session<Position> {
        let (created_ns, expiry) = (nanoseconds(info.created), shadow.expiry().number());
        let mut at = Position { created_ns, expiry, is_applied: true, ..Position::default() };
        let (mut left, mut last) = (reader.waiting_at_begin(), None);
        loop {
            if left == 0 && last.is_none() {
                match reader.progress().await? {
                    (0, sent) => last = Some(sent),
                    (unsent, _) => left = unsent,
                }
            }
            if last.is_some_and(|last| reader.number() >= last) {
                let next = self.bucket.next_after(at.sequence).await?;
                if next.is_none_or(|next| next > info.state.last_sequence) {
                    return Ok(at);
                }
                last = None;
            }
            control.ensure_runs()?;
            match reader.next(TURN).await? {
                Some(arrival) => {
                    shadow.apply(&arrival)?;
                    (at.sequence, at.time_ns) = (arrival.sequence, arrival.time_ns);
                    left = left.saturating_sub(1);
                }
                // The server may have counted messages that were replaced since.
                None => left = 0,
            }
        }
    }

    async fn follow(
        &mut self,
        copy: &Copy,
        mut reader: Reader,
        info: &Info,
        control: &Control<'_>,
    ) -> Session<()> {
        let mut is_ready = false;
        loop {
            let arrival = match reader.ready()? {
                Some(arrival) => Some(arrival),
                None => {
                    self.place.store()?;
                    reader.next(TURN).await?
                }
            };
            if let Some(arrival) = arrival {
                self.apply(copy, &arrival)?;
            }
            if control.stops() {
                self.place.store()?;
                return Ok(());
            }
            let now = Instant::now();
            if now >= self.poll_due {
                self.poll_due = now + self.options.poll;
                self.place.store()?;
                let has_all = self.poll(copy, &reader, info, control).await?;
                if has_all && !is_ready {
                    is_ready = true;
                    self.report.note(|status| status.ready = true);
                    control.ready();
                } else if !is_ready {
                    self.poll_due = now + TURN;
                }
            }
            if now >= self.sweep_due {
                self.sweep_due = now + SWEEP;
                copy.sweep(control)?;
            }
        }
    }

    fn apply(&mut self, copy: &Copy, arrival: &Arrival) -> Session<()> {
        if arrival.sequence < self.place.position().sequence {
            // A server that has fallen behind begins earlier than it was asked to.
            return Ok(());
        }
        self.place.applies(arrival.sequence, arrival.time_ns)?;
        if let Err(error) = copy.apply(arrival) {
            if error.is_not_found() {
                // The map was dropped, and perhaps created again by others: begin again.
                self.place.forget()?;
            }
            return Err(error.into());
        }
        self.place.applied();
        self.report.note(|status| status.messages += 1);
        Ok(())
    }

    /// Compares the bucket's state with the position. True if everything is here that the bucket
    /// had at this poll or, while others write all the time, at the one before.
    async fn poll(
        &mut self,
        copy: &Copy,
        reader: &Reader,
        begun: &Info,
        control: &Control<'_>,
    ) -> Session<bool> {
        let asked_ms = realtime_ms();
        let info = self.bucket.info().await?;
        let (last, at) = (info.state.last_sequence, self.place.position());
        if info.created != begun.created {
            return Err(lost(&self.bucket, "was deleted and created again"));
        }
        if last < at.sequence {
            return Err(lost(&self.bucket, "has lost changes that it had before"));
        }
        if Expiry::of_bucket(&info) != copy.expiry() {
            return Err(lost(&self.bucket, "has another age limit than before"));
        }
        let has_all = (last == at.sequence && at.is_applied) || self.has_all(reader).await?;
        let earlier = self.polled.replace((last, asked_ms));
        let earlier = earlier.filter(|(last, _)| at.sequence >= *last && at.is_applied);
        let equal_ms = if has_all { Some(asked_ms) } else { earlier.map(|(_, ms)| ms) };
        let of_change = u64::try_from(at.time_ns / 1_000_000).unwrap_or(0);
        let as_of_ms = equal_ms.unwrap_or(of_change);
        // Between two changes that are far apart, the map has been equal to the bucket.
        self.as_of_ms = self.as_of_ms.max(as_of_ms);
        let (lag, as_of_ms) = (if has_all { 0 } else { last - at.sequence }, self.as_of_ms);
        self.report.note(|status| (status.lag_messages, status.as_of_ms) = (lag, as_of_ms));
        if self.as_of_ms != 0 {
            self.place.note_as_of(self.as_of_ms)?;
        }
        let now = Instant::now();
        let keys = std::mem::replace(&mut self.keys, info.state.subjects_count);
        if info.state.subjects_count < keys {
            self.compare_due = now;
        }
        if equal_ms.is_some() && now >= self.compare_due {
            self.compare_due = now + COMPARE;
            removed::remove(&self.bucket, copy, control).await?;
        }
        Ok(equal_ms.is_some())
    }

    /// Whether everything is here that the bucket has. The reader's server alone does not know
    /// that if it has fallen behind the leader.
    async fn has_all(&self, reader: &Reader) -> Result<bool> {
        let at = self.place.position();
        Ok(at.is_applied
            && reader.has_all().await?
            && self.bucket.next_after(at.sequence).await?.is_none())
    }
}

impl Bridge for Mirror {
    async fn session(&mut self, control: &Control<'_>) -> Session<()> {
        self.work(control).await
    }

    fn report(&self) -> &StatusReport {
        &self.report
    }

    fn has_begun(&self) -> bool {
        self.was_there
    }
}

fn lost(bucket: &Bucket, what: &str) -> Trouble {
    let text = format!("bucket '{}' {what}; reading it whole", bucket.name());
    Trouble::Passing(Error::new(ErrorKind::Io, text))
}
