//! The messages of a session's consumer, in the order of their sequences.
//!
//! The server delivers a message again if its acknowledgement does not come in time, and meanwhile
//! delivers later ones. The server counts the deliveries, and a new consumer begins with 1. So the
//! first delivery of each message comes in order, and a missing delivery shows. If one is missing,
//! or the server may have been started again, the session ends. The next one has a new consumer.

use crate::reader::Arrival;
use crate::receive::consumer::{Renewed, Wish, has, renew};
use crate::receive::place::Message;
use crate::server::Link;
use crate::trouble::failed;
use async_nats::jetstream::consumer::Consumer;
use async_nats::jetstream::consumer::pull::{Config, Stream};
use async_nats::jetstream::message::AckKind;
use async_nats::jetstream::stream::Info;
use commonhold::{Error, ErrorKind, Result};
use futures_util::{FutureExt, StreamExt};
use std::time::Duration;

/// The server reports in such intervals that it is still there.
const HEARTBEAT: Duration = Duration::from_secs(3);
/// How long one request for messages lasts.
const EXPIRES: Duration = Duration::from_secs(30);

/// See the module.
pub(crate) struct Inbox {
    link: Link,
    stream: String,
    consumer: Consumer<Config>,
    messages: Stream,
    /// The number of the last delivery.
    number: u64,
    /// The consumer begins behind this message. `None` if no look at it is necessary.
    behind: Option<Message>,
    /// The id of the connection's server, which each start of a server changes.
    server: String,
}

impl Inbox {
    /// Begins behind the message that is `done`.
    ///
    /// # Errors
    /// `Mismatch` if another receiver owns the consumer; `Io`; `TimedOut`.
    pub(crate) async fn begin(
        link: &Link,
        stream: &Info,
        wish: &Wish,
        done: Option<Message>,
    ) -> Result<Inbox> {
        let server = link.server_id();
        let Renewed { consumer, behind } = renew(link, stream, wish, done).await?;
        let stream = stream.config.name.clone();
        let doing = || format!("stream '{stream}', consumer '{}'", wish.name);
        let messages = consumer.stream().max_messages_per_batch(wish.in_flight as usize);
        let messages = messages.heartbeat(HEARTBEAT).expires(EXPIRES).messages();
        let messages =
            link.within(doing(), messages).await?.map_err(|error| failed(doing(), error))?;
        let link = link.clone();
        Ok(Inbox { link, stream, consumer, messages, number: 0, behind, server })
    }

    /// The next message in order, if it comes within `time`.
    ///
    /// # Errors
    /// `Io`.
    pub(crate) async fn next(&mut self, time: Duration) -> Result<Option<Arrival>> {
        match tokio::time::timeout(time, self.messages.next()).await {
            Err(_) => self.ensure_same_server().map(|()| None),
            Ok(next) => self.take(next).map(Some),
        }
    }

    /// The next message in order, if it is here already.
    pub(crate) fn ready(&mut self) -> Result<Option<Arrival>> {
        match self.messages.next().now_or_never() {
            None => Ok(None),
            Some(next) => self.take(next).map(Some),
        }
    }

    /// Checks, until a message has come, that the stream has lost nothing that the consumer begins
    /// behind. Precedes the use of the first message.
    ///
    /// # Errors
    /// `Io`; `TimedOut`.
    pub(crate) async fn ensure_whole(&mut self) -> Result<()> {
        let Some(behind) = self.behind else { return Ok(()) };
        if !has(&self.link, &self.stream, behind).await? {
            let text = format!("message {} is no longer in the stream", behind.0);
            return Err(failed(self.doing(), text));
        }
        self.behind = self.behind.filter(|_| self.number == 0);
        Ok(())
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

    fn take<E: std::fmt::Display>(
        &mut self,
        next: Option<std::result::Result<async_nats::jetstream::Message, E>>,
    ) -> Result<Arrival> {
        let next = next.ok_or_else(|| failed(self.doing(), "reading ended"))?;
        let message = next.map_err(|error| failed(self.doing(), error))?;
        self.ensure_same_server()?;
        let (arrival, number) = Arrival::read(message)?;
        let expected = self.number + 1;
        if number != expected {
            let text = format!("{}: expected delivery {expected}, got {number}", self.doing());
            return Err(Error::new(ErrorKind::Io, text));
        }
        self.number = number;
        Ok(arrival)
    }

    /// The client knows a new server before it passes on a message of it.
    fn ensure_same_server(&self) -> Result<()> {
        if self.link.server_id() == self.server {
            return Ok(());
        }
        let text = "the connection is to another server, or to one that was started again";
        Err(failed(self.doing(), text))
    }

    fn doing(&self) -> String {
        format!("stream '{}', consumer '{}'", self.stream, self.consumer.cached_info().name)
    }
}
