//! The consumer of a session, which begins behind the last message that is done.
//!
//! Only the hold's note knows what is done (`place`), and the consumer's state on the server never
//! counts, for two reasons:
//!
//! - A killed server may come back with an old state of the consumer (2.9 writes it some time after
//!   the deliveries). It then uses the numbers of deliveries a second time, so numbers without a
//!   gap no longer show that nothing is missing. It also forgets which messages are unacknowledged.
//! - A stream may lose its last messages, for example in a crash of the machine, and give their
//!   sequences to new ones. A consumer that has delivered those sequences passes over the new ones.
//!
//! So each session deletes the consumer, and creates it again where the note says:
//!
//! - The stream has the message that is done, with the same sequence and time: so it has lost
//!   nothing before it. The consumer begins with the next sequence.
//! - Otherwise, with the first message of the stream. The note recognizes those that are done.
//!
//! The stream could lose messages after that look. So the look follows the creation, and this
//! consumer must not survive the server that could lose them: it is in memory. If it is gone, or
//! counts its deliveries from 1 again, the session ends. A cluster may create it again, at the same
//! place, before its first delivery. So there is another look after that one (`inbox`).
//!
//! A stream that keeps messages by interest needs a consumer all the time: without one, it deletes
//! messages and stores no new ones. So its consumer is in files, and a session ends when the
//! connection is to another server than before, or to one that was started again. While the
//! consumer is deleted, a second one, the *guard*, keeps the interest, from the first message on.
//! Nothing reads the guard. If a killed receiver leaves it, the next session uses it.

use crate::reader::nanoseconds;
use crate::receive::place::Message;
use crate::server::Link;
use crate::trouble::failed;
use async_nats::jetstream::consumer::pull::Config;
use async_nats::jetstream::consumer::{AckPolicy, Consumer, DeliverPolicy};
use async_nats::jetstream::context::ConsumerInfoErrorKind;
use async_nats::jetstream::stream::{
    Info, LastRawMessageErrorKind, RetentionPolicy, Stream as Handle,
};
use commonhold::{Error, ErrorKind, Result};
use std::time::Duration;

/// The consumer that an inbox wants.
#[derive(Clone, Debug)]
pub(crate) struct Wish {
    /// Its name.
    pub(crate) name: String,
    /// Whose it is: a receiver of another hold, target or subject must not use it.
    pub(crate) owner: String,
    pub(crate) subject: String,
    pub(crate) ack_wait: Duration,
    /// The most messages without acknowledgement.
    pub(crate) in_flight: u32,
}

impl Wish {
    /// The name of the guard.
    pub(crate) fn guard(&self) -> String {
        format!("{}-guard", self.name)
    }
}

/// The consumer of a session.
pub(crate) struct Renewed {
    pub(crate) consumer: Consumer<Config>,
    /// It begins with the next sequence after this message, and not with the first message.
    pub(crate) behind: Option<Message>,
}

/// Deletes the consumer of an earlier session, and creates it again, behind the message that is
/// `done`.
///
/// # Errors
/// `Mismatch` if another receiver owns it; `Io`; `TimedOut`.
pub(crate) async fn renew(
    link: &Link,
    stream: &Info,
    wish: &Wish,
    done: Option<Message>,
) -> Result<Renewed> {
    let handle = handle(link, &stream.config.name).await?;
    Renewal { link, handle, stream, wish }.renew(done).await
}

/// Whether the stream has this very message.
///
/// # Errors
/// `Io`; `TimedOut`.
pub(crate) async fn has(link: &Link, stream: &str, (sequence, time_ns): Message) -> Result<bool> {
    let doing = || format!("stream '{stream}', message {sequence}");
    let handle = handle(link, stream).await?;
    match link.within(doing(), handle.get_raw_message(sequence)).await? {
        Ok(found) => Ok(nanoseconds(found.time) == time_ns),
        Err(error) if error.kind() == LastRawMessageErrorKind::NoMessageFound => Ok(false),
        Err(error) => Err(failed(doing(), error)),
    }
}

async fn handle(link: &Link, stream: &str) -> Result<Handle<()>> {
    let doing = || format!("stream '{stream}'");
    let handle = link.within(doing(), link.js.get_stream_no_info(stream)).await?;
    handle.map_err(|error| failed(doing(), error))
}

struct Renewal<'a> {
    link: &'a Link,
    handle: Handle<()>,
    stream: &'a Info,
    wish: &'a Wish,
}

impl Renewal<'_> {
    async fn renew(&self, done: Option<Message>) -> Result<Renewed> {
        let (name, guard) = (&self.wish.name, self.wish.guard());
        if self.is_by_interest() {
            // An error if it is another receiver's.
            self.exists(&guard).await?;
            self.create(&guard, DeliverPolicy::All).await?;
        }
        if self.exists(name).await? {
            self.delete(name).await?;
        }
        let renewed = self.begin(done).await?;
        if self.is_by_interest() {
            self.delete(&guard).await?;
        }
        Ok(renewed)
    }

    /// A work queue accepts only consumers that begin with its first message.
    async fn begin(&self, done: Option<Message>) -> Result<Renewed> {
        let (name, config) = (&self.wish.name, &self.stream.config);
        if let Some(done) = done
            && config.retention != RetentionPolicy::WorkQueue
        {
            let from = DeliverPolicy::ByStartSequence { start_sequence: done.0 + 1 };
            let consumer = self.create(name, from).await?;
            if has(self.link, &config.name, done).await? {
                return Ok(Renewed { consumer, behind: Some(done) });
            }
            self.delete(name).await?;
        }
        let consumer = self.create(name, DeliverPolicy::All).await?;
        Ok(Renewed { consumer, behind: None })
    }

    fn is_by_interest(&self) -> bool {
        self.stream.config.retention == RetentionPolicy::Interest
    }

    async fn create(&self, name: &str, from: DeliverPolicy) -> Result<Consumer<Config>> {
        let config = Config {
            durable_name: Some(name.to_owned()),
            description: Some(self.wish.owner.clone()),
            deliver_policy: from,
            ack_policy: AckPolicy::Explicit,
            ack_wait: self.wish.ack_wait,
            max_ack_pending: self.wish.in_flight.into(),
            filter_subject: self.wish.subject.clone(),
            memory_storage: !self.is_by_interest(),
            ..Config::default()
        };
        let created = self.link.js.create_consumer_on_stream(config, &self.stream.config.name);
        let created = self.link.within(self.doing(name), created).await?;
        created.map_err(|error| failed(self.doing(name), error))
    }

    async fn delete(&self, name: &str) -> Result<()> {
        let deleted = self.link.within(self.doing(name), self.handle.delete_consumer(name)).await?;
        deleted.map(drop).map_err(|error| failed(self.doing(name), error))
    }

    /// # Errors
    /// `Mismatch` if the consumer exists and is another receiver's.
    async fn exists(&self, name: &str) -> Result<bool> {
        let info = self.handle.consumer_info(name);
        let info = match self.link.within(self.doing(name), info).await? {
            Ok(info) => info,
            Err(error) if error.kind() == ConsumerInfoErrorKind::NotFound => return Ok(false),
            Err(error) => return Err(failed(self.doing(name), error)),
        };
        let owner = info.config.description.unwrap_or_default();
        if owner == self.wish.owner {
            return Ok(true);
        }
        let text = format!(
            "{}: expected the owner '{}', got '{owner}'; choose another name with --consumer",
            self.doing(name),
            self.wish.owner
        );
        Err(Error::new(ErrorKind::Mismatch, text))
    }

    fn doing(&self, name: &str) -> String {
        format!("stream '{}', consumer '{name}'", self.stream.config.name)
    }
}
