//! The messages of a stream in a channel or a queue: in order, each of them once, and acknowledged
//! to the server only when they are there.
//!
//! | file | idea |
//! |---|---|
//! | `consumer` | the consumer of a session, which begins behind the last message that is done |
//! | `inbox` | the messages of that consumer, in the order of their sequences |
//! | `place` | the position, kept in the hold, and why each message is there once |
//! | `target` | the channel or the queue |
//!
//! The messages have no other writer than the receiver: a channel has one producer anyway, and
//! nobody else may push to the named queue. A queue's messages that are to be tried again go to
//! another named queue.

mod consumer;
mod inbox;
mod place;
mod target;

pub use target::Destination;

use crate::bridge::{self, Bridge, BridgeEvent, Control};
use crate::feed::TURN;
use crate::reader::{Arrival, nanoseconds};
use crate::receive::consumer::Wish;
use crate::receive::inbox::Inbox;
use crate::receive::place::Place;
use crate::receive::target::Target;
use crate::server::Link;
use crate::status::{BridgeStatus, StatusReport};
use crate::stream::{check_name, check_subject, find};
use crate::trouble::{Session, Trouble};
use async_nats::jetstream::message::AckKind;
use commonhold::raw::realtime_ms;
use commonhold::{Error, ErrorKind, Hold, Result};
use std::time::{Duration, Instant};

/// How often it asks the server how many messages wait.
const POLL: Duration = Duration::from_secs(2);

/// How a receiver works.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct ReceiverOptions {
    /// The stream; `None` for the one that has the subject.
    pub stream: Option<String>,
    /// The name of the durable consumer; `None` for one that the hold and the target determine.
    pub consumer: Option<String>,
    /// After this time without an acknowledgement, the server delivers a message again.
    pub ack_wait: Duration,
    /// The most messages without acknowledgement.
    pub in_flight: u32,
    /// End with an error at a message that is too long for the target, instead of skipping it.
    pub strict: bool,
}

impl Default for ReceiverOptions {
    fn default() -> ReceiverOptions {
        ReceiverOptions {
            stream: None,
            consumer: None,
            ack_wait: Duration::from_secs(5),
            in_flight: 256,
            strict: false,
        }
    }
}

/// See the module.
#[derive(Debug)]
pub struct Receiver {
    link: Link,
    options: ReceiverOptions,
    wish: Wish,
    hold: Hold,
    name: String,
    destination: Destination,
    place: Place,
    /// Kept between sessions, so that no other program becomes the producer of a channel.
    target: Option<Target>,
    report: StatusReport,
    has_begun: bool,
    poll_due: Instant,
}

impl Receiver {
    /// Prepares to receive the messages of a subject into the channel or the queue of this name.
    ///
    /// # Errors
    /// `Busy` if the target has a receiver, or the channel has a producer; `NotFound` if there is
    /// no such target; `Invalid` for a subject, a name or named queues that cannot work; `Mismatch`
    /// if a receiver was killed and another program has written to the target since.
    pub fn open(
        hold: &Hold,
        link: &Link,
        subject: &str,
        name: &str,
        destination: Destination,
        options: ReceiverOptions,
    ) -> Result<Receiver> {
        check_subject(subject, true)?;
        options.stream.iter().try_for_each(|name| check_name("stream", name))?;
        let target = match &destination {
            Destination::Channel => name.to_owned(),
            Destination::Queue { to, .. } => format!("{name}/{to}"),
        };
        let place = Place::take(hold, &target)?;
        let opened = Target::open(hold, name, &destination)?;
        place.recover(&opened)?;
        let uuid: String = hold.uuid().iter().map(|byte| format!("{byte:02x}")).collect();
        let wish = Wish {
            name: options.consumer.clone().unwrap_or_else(|| durable(&uuid, &target)),
            owner: format!("hold-nats receive {subject} {uuid} {}", target.escape_default()),
            subject: subject.to_owned(),
            ack_wait: options.ack_wait,
            in_flight: options.in_flight.max(1),
        };
        check_name("consumer", &wish.name)?;
        check_name("consumer", &wish.guard())?;
        let remote = format!("subject {subject}");
        let report = StatusReport::new(hold, name, "receive", &remote, link)?;
        Ok(Receiver {
            link: link.clone(),
            options,
            wish,
            hold: hold.clone(),
            name: name.to_owned(),
            destination,
            place,
            target: Some(opened),
            report,
            has_begun: false,
            poll_due: Instant::now(),
        })
    }

    /// The present status.
    pub fn status(&self) -> BridgeStatus {
        self.report.present()
    }

    /// Receives until `stop` returns true. Blocks its thread for moments while it waits for room,
    /// so the connection should have another one.
    ///
    /// # Errors
    /// `NotFound` if no stream has the subject at the beginning; `Mismatch` if another receiver
    /// owns the durable consumer; with `strict`, `TooLarge` for a message that the target cannot
    /// have.
    pub async fn run(
        &mut self,
        stop: &(dyn Fn() -> bool + Sync),
        events: &(dyn Fn(BridgeEvent<'_>) + Sync),
    ) -> Result<()> {
        bridge::run(self, stop, events).await
    }

    async fn work(&mut self, control: &Control<'_>) -> Session<()> {
        let mut target = match self.target.take() {
            Some(target) => target,
            None => Target::open(&self.hold, &self.name, &self.destination)?,
        };
        let ended = self.follow(&mut target, control).await;
        let is_gone =
            |error: &Error| [ErrorKind::NotFound, ErrorKind::Closed].contains(&error.kind());
        if !matches!(&ended, Err(Trouble::Passing(error) | Trouble::Final(error)) if is_gone(error))
        {
            self.target = Some(target);
        }
        ended
    }

    async fn follow(&mut self, target: &mut Target, control: &Control<'_>) -> Session<()> {
        let info = find(&self.link, self.options.stream.as_deref(), &self.wish.subject).await?;
        // The session before may have ended, like a kill, between two steps.
        self.place.recover(target)?;
        let key = format!("{} {}", info.config.name, self.wish.name);
        self.place.begin(key, nanoseconds(info.created))?;
        let mut inbox = Inbox::begin(&self.link, &info, &self.wish, self.place.done()).await?;
        self.has_begun = true;
        let mut is_ready = false;
        self.poll_due = Instant::now();
        loop {
            let arrival = match inbox.ready()? {
                Some(arrival) => Some(arrival),
                None => {
                    self.place.store()?;
                    inbox.next(TURN).await?
                }
            };
            if let Some(arrival) = arrival {
                inbox.ensure_whole().await?;
                self.take(&arrival, &inbox, target, control).await?;
            }
            if control.stops() {
                return Ok(self.place.store()?);
            }
            if Instant::now() >= self.poll_due {
                inbox.ensure_whole().await?;
                let has_all = self.poll(&inbox).await?;
                if has_all && !is_ready {
                    is_ready = true;
                    self.report.note(|status| status.ready = true);
                    control.ready();
                }
                self.poll_due = Instant::now() + if is_ready { POLL } else { TURN };
            }
        }
    }

    /// Puts a message into the target, if it is not there, and acknowledges it.
    async fn take(
        &mut self,
        arrival: &Arrival,
        inbox: &Inbox,
        target: &mut Target,
        control: &Control<'_>,
    ) -> Session<()> {
        let this = message(arrival);
        if self.place.is_done(this) {
            return Ok(inbox.acknowledge(arrival, AckKind::Ack).await?);
        }
        let payload = &arrival.message.payload;
        if payload.len() > target.max_message() {
            self.skip(arrival, target.max_message(), control)?;
            self.place.came(this);
            self.place.store()?;
            return Ok(inbox.acknowledge(arrival, AckKind::Term).await?);
        }
        self.place.comes(this, target)?;
        while !target.put(payload)? {
            control.ensure_runs()?;
            tokio::task::yield_now().await;
        }
        self.place.came(this);
        self.report.note(|status| status.messages += 1);
        Ok(inbox.acknowledge(arrival, AckKind::Ack).await?)
    }

    fn skip(&self, arrival: &Arrival, most: usize, control: &Control<'_>) -> Session<()> {
        let (bytes, sequence) = (arrival.message.payload.len(), arrival.sequence);
        let text = format!(
            "'{}': message {sequence} of the stream has {bytes} bytes, and there is room for \
             {most}; create the channel with a larger ring, or the queue with larger elements",
            self.name
        );
        let error = Error::new(ErrorKind::TooLarge, text);
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

    /// Asks how many messages wait. True if there is none.
    async fn poll(&self, inbox: &Inbox) -> Result<bool> {
        let asked_ms = realtime_ms();
        let (undelivered, unacknowledged) = inbox.state().await?;
        let has_all = undelivered + unacknowledged == 0;
        self.report.note(|status| {
            status.lag_messages = undelivered + unacknowledged;
            status.in_flight = unacknowledged;
            if has_all {
                status.as_of_ms = asked_ms;
            }
        });
        Ok(has_all)
    }
}

impl Bridge for Receiver {
    async fn session(&mut self, control: &Control<'_>) -> Session<()> {
        self.work(control).await
    }

    fn report(&self) -> &StatusReport {
        &self.report
    }

    fn has_begun(&self) -> bool {
        self.has_begun
    }
}

/// The sequence and the time of a message.
fn message(arrival: &Arrival) -> place::Message {
    (arrival.sequence, arrival.time_ns)
}

/// A consumer's name, which has letters, digits, `-`, `_` and `=` only.
fn durable(uuid: &str, target: &str) -> String {
    let mut name = format!("hold-{uuid}-");
    for byte in target.bytes() {
        match byte {
            b'0'..=b'9' | b'A'..=b'Z' | b'a'..=b'z' | b'-' | b'_' => name.push(byte.into()),
            _ => name.push_str(&format!("={byte:02X}")),
        }
    }
    name
}
