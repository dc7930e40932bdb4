//! The messages of a durable consumer, in the order of their sequences.
//!
//! The server delivers a message again if its acknowledgement does not come in time, and meanwhile
//! delivers later ones. So at the beginning of a session, messages that an earlier session got may
//! be missing between those that arrive. The inbox therefore *drains* first: it keeps what arrives
//! until the server has no unacknowledged message that is not here. Then it returns what it has, in
//! order. From then on the server's numbers of deliveries show that no delivery is missing. If one
//! is, the session ends, and the next one drains again.

use crate::reader::Arrival;
use crate::server::Link;
use crate::trouble::failed;
use async_nats::jetstream::consumer::pull::{Config, Stream};
use async_nats::jetstream::consumer::{AckPolicy, Consumer, DeliverPolicy};
use async_nats::jetstream::context::ConsumerInfoErrorKind;
use async_nats::jetstream::message::AckKind;
use commonhold::{Error, ErrorKind, Result};
use futures_util::{FutureExt, StreamExt};
use std::collections::BTreeMap;
use std::time::Duration;

/// The server reports in such intervals that it is still there.
const HEARTBEAT: Duration = Duration::from_secs(3);
/// How long one request for messages lasts.
const EXPIRES: Duration = Duration::from_secs(30);

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

/// See the module.
pub(crate) struct Inbox {
    link: Link,
    stream: String,
    consumer: Consumer<Config>,
    messages: Stream,
    /// The number of the last delivery.
    number: Option<u64>,
    kept: BTreeMap<u64, Arrival>,
    is_drained: bool,
}

impl Inbox {
    /// Begins with the durable consumer, and creates it if it does not exist.
    ///
    /// # Errors
    /// `Mismatch` if another receiver owns it; `Io`; `TimedOut`.
    pub(crate) async fn begin(link: &Link, stream: &str, wish: &Wish) -> Result<Inbox> {
        let doing = || format!("stream '{stream}', consumer '{}'", wish.name);
        ensure_own(link, stream, wish).await?;
        let config = Config {
            durable_name: Some(wish.name.clone()),
            description: Some(wish.owner.clone()),
            deliver_policy: DeliverPolicy::All,
            ack_policy: AckPolicy::Explicit,
            ack_wait: wish.ack_wait,
            max_ack_pending: wish.in_flight.into(),
            filter_subject: wish.subject.clone(),
            ..Config::default()
        };
        let consumer = link.js.create_consumer_on_stream(config, stream);
        let consumer: Consumer<Config> =
            link.within(doing(), consumer).await?.map_err(|error| failed(doing(), error))?;
        let messages = consumer.stream().max_messages_per_batch(wish.in_flight as usize);
        let messages = messages.heartbeat(HEARTBEAT).expires(EXPIRES).messages();
        let messages =
            link.within(doing(), messages).await?.map_err(|error| failed(doing(), error))?;
        let info = consumer.cached_info();
        let is_drained = info.num_ack_pending == 0;
        let number = is_drained.then_some(info.delivered.consumer_sequence);
        let (link, stream, kept) = (link.clone(), stream.to_owned(), BTreeMap::new());
        Ok(Inbox { link, stream, consumer, messages, number, kept, is_drained })
    }

    /// Whether what [`next`](Self::next) returns is in order.
    pub(crate) fn is_drained(&self) -> bool {
        self.is_drained
    }

    /// Drains for a moment. Acknowledges what `is_done` knows.
    ///
    /// # Errors
    /// `Io`; `TimedOut`.
    pub(crate) async fn drain(
        &mut self,
        time: Duration,
        is_done: impl Fn(&Arrival) -> bool,
    ) -> Result<()> {
        match self.arrive(time).await? {
            Some(arrival) if is_done(&arrival) => self.acknowledge(&arrival, AckKind::Ack).await,
            Some(arrival) => {
                self.kept.insert(arrival.sequence, arrival);
                Ok(())
            }
            None => {
                let (_, unacknowledged) = self.state().await?;
                self.is_drained = unacknowledged <= self.kept_there().await?;
                Ok(())
            }
        }
    }

    /// The messages here that the stream still has: those that have left it meanwhile are not
    /// among the unacknowledged ones.
    async fn kept_there(&self) -> Result<u64> {
        let stream = self.link.within(self.doing(), self.link.js.get_stream_no_info(&self.stream));
        let stream = stream.await?.map_err(|error| failed(self.doing(), error))?;
        let mut count = 0;
        for sequence in self.kept.keys() {
            let message = stream.get_raw_message(*sequence);
            count += u64::from(self.link.within(self.doing(), message).await?.is_ok());
        }
        Ok(count)
    }

    /// The next message in order, if it comes within `time`.
    ///
    /// # Errors
    /// `Io`.
    pub(crate) async fn next(&mut self, time: Duration) -> Result<Option<Arrival>> {
        match self.kept.pop_first() {
            Some((_, arrival)) => Ok(Some(arrival)),
            None => self.arrive(time).await,
        }
    }

    /// The next message in order, if it is here already.
    pub(crate) fn ready(&mut self) -> Result<Option<Arrival>> {
        if let Some((_, arrival)) = self.kept.pop_first() {
            return Ok(Some(arrival));
        }
        match self.messages.next().now_or_never() {
            None => Ok(None),
            Some(next) => self.take(next).map(Some),
        }
    }

    /// Messages that the server has not delivered yet, and those that were not acknowledged.
    pub(crate) async fn state(&self) -> Result<(u64, u64)> {
        let info = self.link.within(self.doing(), self.consumer.get_info()).await?;
        let info = info.map_err(|error| failed(self.doing(), error))?;
        Ok((info.num_pending, info.num_ack_pending as u64))
    }

    /// Acknowledges a message, without waiting for the server. If that is lost, the message comes
    /// again.
    pub(crate) async fn acknowledge(&self, arrival: &Arrival, kind: AckKind) -> Result<()> {
        let sent = self.link.within(self.doing(), arrival.message.ack_with(kind)).await?;
        sent.map_err(|error| failed(self.doing(), error))
    }

    async fn arrive(&mut self, time: Duration) -> Result<Option<Arrival>> {
        match tokio::time::timeout(time, self.messages.next()).await {
            Err(_) => Ok(None),
            Ok(next) => self.take(next).map(Some),
        }
    }

    fn take<E: std::fmt::Display>(
        &mut self,
        next: Option<std::result::Result<async_nats::jetstream::Message, E>>,
    ) -> Result<Arrival> {
        let next = next.ok_or_else(|| failed(self.doing(), "reading ended"))?;
        let message = next.map_err(|error| failed(self.doing(), error))?;
        let (arrival, number) = Arrival::read(message)?;
        if let Some(before) = self.number
            && number != before + 1
        {
            let expected = before + 1;
            let text = format!("{}: expected delivery {expected}, got {number}", self.doing());
            return Err(Error::new(ErrorKind::Io, text));
        }
        self.number = Some(number);
        Ok(arrival)
    }

    fn doing(&self) -> String {
        format!("stream '{}', consumer '{}'", self.stream, self.consumer.cached_info().name)
    }
}

/// # Errors
/// `Mismatch` if the consumer exists and is another receiver's.
async fn ensure_own(link: &Link, stream: &str, wish: &Wish) -> Result<()> {
    let doing = || format!("stream '{stream}', consumer '{}'", wish.name);
    let handle = link.within(doing(), link.js.get_stream_no_info(stream)).await?;
    let handle = handle.map_err(|error| failed(doing(), error))?;
    let info = match link.within(doing(), handle.consumer_info(&wish.name)).await? {
        Ok(info) => info,
        Err(error) if error.kind() == ConsumerInfoErrorKind::NotFound => return Ok(()),
        Err(error) => return Err(failed(doing(), error)),
    };
    let owner = info.config.description.unwrap_or_default();
    if owner == wish.owner {
        return Ok(());
    }
    let text = format!(
        "{}: expected the owner '{}', got '{owner}'; choose another name with --consumer",
        doing(),
        wish.owner
    );
    Err(Error::new(ErrorKind::Mismatch, text))
}
