//! Reads a stream in order, from any of its messages, without acknowledgements.
//!
//! Invariant: a reader returns every message of its filter once, in order, or an error. The server
//! numbers the messages of a consumer, so a lost one is noticed. After an error, its owner begins
//! a new reader where it wants to continue.

use crate::server::Link;
use crate::trouble::failed;
use async_nats::HeaderMap;
use async_nats::jetstream::consumer::pull::{Config, Stream};
use async_nats::jetstream::consumer::{AckPolicy, Consumer, DeliverPolicy};
use async_nats::jetstream::message::Message;
use commonhold::{Error, ErrorKind, Result};
use futures_util::{FutureExt, StreamExt};
use std::time::Duration;

/// The server forgets a consumer after this time without its reader.
const FORGET: Duration = Duration::from_secs(60);
/// The server reports in such intervals that it is still there.
const HEARTBEAT: Duration = Duration::from_secs(3);
/// How long one request for messages lasts.
const EXPIRES: Duration = Duration::from_secs(30);
/// About the bytes of messages that are requested at a time.
const BATCH_BYTES: u64 = 16 << 20;

/// One message.
#[derive(Debug)]
pub(crate) struct Arrival {
    pub(crate) message: Message,
    pub(crate) sequence: u64,
    /// When the server stored it, in nanoseconds since 1970.
    pub(crate) time_ns: i64,
}

impl Arrival {
    /// # Errors
    /// `Io` if it is not a message of a stream.
    pub(crate) fn read(message: Message) -> Result<(Arrival, u64)> {
        let info = message.info().map_err(|error| failed("a message without a stream", error))?;
        let (sequence, number) = (info.stream_sequence, info.consumer_sequence);
        let time_ns = nanoseconds(info.published);
        Ok((Arrival { message, sequence, time_ns }, number))
    }

    pub(crate) fn headers(&self) -> Option<&HeaderMap> {
        self.message.headers.as_ref()
    }
}

/// A time in nanoseconds since 1970; times beyond the year 2262 are all the same.
pub(crate) fn nanoseconds(time: async_nats::datetime::DateTime) -> i64 {
    i64::try_from(time.unix_timestamp_nanos()).unwrap_or(i64::MAX)
}

/// See the module.
pub(crate) struct Reader {
    link: Link,
    stream: String,
    consumer: Consumer<Config>,
    messages: Stream,
    /// The number of the last message of the consumer.
    number: u64,
}

impl Reader {
    /// Begins. `typical` is the length of a message in the stream, about.
    pub(crate) async fn begin(
        link: &Link,
        stream: &str,
        filter: String,
        from: DeliverPolicy,
        typical: u64,
    ) -> Result<Reader> {
        let config = Config {
            deliver_policy: from,
            ack_policy: AckPolicy::None,
            filter_subject: filter,
            inactive_threshold: FORGET,
            memory_storage: true,
            num_replicas: 1,
            ..Config::default()
        };
        let doing = || format!("cannot read stream '{stream}'");
        let consumer = link.js.create_consumer_on_stream(config, stream);
        let consumer: Consumer<Config> =
            link.within(doing(), consumer).await?.map_err(|error| failed(doing(), error))?;
        let batch = (BATCH_BYTES / typical.max(1)).clamp(16, 4096) as usize;
        let messages = consumer.stream().max_messages_per_batch(batch);
        let messages = messages.heartbeat(HEARTBEAT).expires(EXPIRES).messages();
        let messages =
            link.within(doing(), messages).await?.map_err(|error| failed(doing(), error))?;
        let link = link.clone();
        Ok(Reader { link, stream: stream.to_owned(), consumer, messages, number: 0 })
    }

    /// The number of messages that were there when it began.
    pub(crate) fn waiting_at_begin(&self) -> u64 {
        self.consumer.cached_info().num_pending
    }

    /// The number of the last message that has arrived, counted by the reader.
    pub(crate) fn number(&self) -> u64 {
        self.number
    }

    /// How many messages the server has not sent yet, and the number of the last one that it has
    /// sent.
    pub(crate) async fn progress(&self) -> Result<(u64, u64)> {
        let doing = || format!("stream '{}'", self.stream);
        let info = self.link.within(doing(), self.consumer.get_info()).await?;
        let info = info.map_err(|error| failed(doing(), error))?;
        Ok((info.num_pending, info.delivered.consumer_sequence))
    }

    /// Whether everything in the stream has arrived.
    pub(crate) async fn has_all(&self) -> Result<bool> {
        let (unsent, sent) = self.progress().await?;
        Ok(unsent == 0 && sent <= self.number)
    }

    /// The next message, if it is here already.
    pub(crate) fn ready(&mut self) -> Result<Option<Arrival>> {
        match self.messages.next().now_or_never() {
            None => Ok(None),
            Some(next) => self.take(next).map(Some),
        }
    }

    /// The next message, if it comes within `time`.
    pub(crate) async fn next(&mut self, time: Duration) -> Result<Option<Arrival>> {
        match tokio::time::timeout(time, self.messages.next()).await {
            Err(_) => Ok(None),
            Ok(next) => self.take(next).map(Some),
        }
    }

    fn take<E: std::fmt::Display>(
        &mut self,
        next: Option<std::result::Result<Message, E>>,
    ) -> Result<Arrival> {
        let stream = &self.stream;
        let message = next.ok_or_else(|| failed(format!("stream '{stream}'"), "reading ended"))?;
        let message = message.map_err(|error| failed(format!("stream '{stream}'"), error))?;
        let (arrival, number) = Arrival::read(message)?;
        if number != self.number + 1 {
            let text = format!(
                "stream '{stream}': expected message {} of the reader, got {number}; reading from \
                 the last one again",
                self.number + 1
            );
            return Err(Error::new(ErrorKind::Io, text));
        }
        self.number = number;
        Ok(arrival)
    }
}
