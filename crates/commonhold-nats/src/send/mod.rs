//! The messages of a channel in a stream: in order, each of them once.
//!
//! | file | idea |
//! |---|---|
//! | `place` | the position, kept in the hold |
//! | `outbox` | the messages of the channel, from the position on |
//!
//! One message is on its way at a time. If there were more, one could be lost with a connection
//! while a later one is stored, and their order would change: other programs may write to the same
//! stream, so the server cannot be asked to check the order.
//!
//! Every message has an id, made from the hold, the channel, its incarnation and the message's
//! number. The server stores no second message of the same id within the stream's duplicate window.
//! After a longer interruption, the sender looks at the last message of the subject: if that is the
//! message in question, it is not sent again. So a message can be in the stream twice only if the
//! interruption was longer than the window *and* another program wrote to the same subject.

mod outbox;
mod place;

use crate::bridge::{self, Bridge, BridgeEvent, Control};
use crate::feed::TURN;
use crate::key::KeyStyle;
use crate::send::outbox::{Message, Outbox};
use crate::send::place::Place;
use crate::server::Link;
use crate::status::{BridgeStatus, StatusReport};
use crate::stream::{HEADERS, check_name, check_subject, exceeded, find};
use crate::trouble::{Session, Trouble, failed};
use async_nats::jetstream::message::PublishMessage;
use async_nats::jetstream::stream::{Info, LastRawMessageErrorKind};
use commonhold::channel::Channel;
use commonhold::raw::{Incarnation, channel_incarnation, realtime_ms};
use commonhold::{Error, ErrorKind, Hold, Result};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

/// The header of a message's id.
const ID: &str = "Nats-Msg-Id";

/// How a sender works.
#[derive(Clone, Debug, Default)]
#[non_exhaustive]
pub struct SenderOptions {
    /// The stream; `None` for the one that has the subject.
    pub stream: Option<String>,
    /// End at a message that the stream cannot have, instead of leaving it out.
    pub strict: bool,
    /// The channel's producer never waits for the sender: what it overwrites is missed, and
    /// counted.
    pub lossy: bool,
}

/// See the module.
#[derive(Debug)]
pub struct Sender {
    hold: Hold,
    name: String,
    subject: String,
    link: Link,
    options: SenderOptions,
    place: Place,
    outbox: Option<Outbox>,
    report: StatusReport,
    /// The number of the next message, for the report.
    next: Arc<AtomicU64>,
    has_begun: bool,
}

impl Sender {
    /// Prepares to send the channel of this name to a subject.
    ///
    /// # Errors
    /// `Busy` if another process does that; `NotFound` if there is no such channel; `Invalid` for a
    /// subject that no message can have.
    pub fn open(
        hold: &Hold,
        name: &str,
        link: &Link,
        subject: &str,
        options: SenderOptions,
    ) -> Result<Sender> {
        check_subject(subject, false)?;
        options.stream.iter().try_for_each(|name| check_name("stream", name))?;
        hold.channels().open(name)?;
        let place = Place::take(hold, name, subject)?;
        let report = StatusReport::new(hold, name, "send", &format!("subject {subject}"), link)?;
        let next = Arc::new(AtomicU64::new(0));
        report.set_probe(probe(hold, name, &next));
        Ok(Sender {
            hold: hold.clone(),
            name: name.to_owned(),
            subject: subject.to_owned(),
            link: link.clone(),
            options,
            place,
            outbox: None,
            report,
            next,
            has_begun: false,
        })
    }

    /// The present status.
    pub fn status(&self) -> BridgeStatus {
        self.report.present()
    }

    /// Sends until `stop` returns true. Blocks its thread for moments while it waits for a message,
    /// so the connection should have another one.
    ///
    /// # Errors
    /// `NotFound` if no stream has the subject at the beginning; with `strict`, `TooLarge` for a
    /// message that the stream cannot have.
    pub async fn run(
        &mut self,
        stop: &(dyn Fn() -> bool + Sync),
        events: &(dyn Fn(BridgeEvent<'_>) + Sync),
    ) -> Result<()> {
        bridge::run(self, stop, events).await
    }

    async fn work(&mut self, control: &Control<'_>) -> Session<()> {
        let info = find(&self.link, self.options.stream.as_deref(), &self.subject).await?;
        self.has_begun = true;
        let channel = self.hold.channels().open(&self.name)?;
        let identity = self.identity(&channel)?;
        let next = self.next_message(&channel, &info, &identity).await?;
        let mut outbox = match self.outbox.take().filter(|outbox| outbox.is_of(&channel)) {
            Some(outbox) => outbox,
            None => Outbox::begin(&channel, self.options.lossy)?,
        };
        outbox.skip_to(next.unwrap_or(outbox.sequence()))?;
        let mut is_ready = false;
        let ended = loop {
            self.next.store(outbox.sequence(), Ordering::Relaxed);
            if !is_ready && outbox.sequence() >= channel.stat()?.sequence {
                is_ready = true;
                self.report.note(|status| status.ready = true);
                control.ready();
            }
            let turn = self.turn(&mut outbox, &info, &identity, &channel, control);
            if let Err(trouble) = turn.await {
                break trouble;
            }
        };
        self.outbox = Some(outbox);
        Err(ended)
    }

    /// Sends the next message, if there is one.
    async fn turn(
        &self,
        outbox: &mut Outbox,
        info: &Info,
        identity: &str,
        channel: &Channel,
        control: &Control<'_>,
    ) -> Session<()> {
        control.ensure_runs()?;
        // Lets the other tasks of this thread work after a wait that blocked it.
        tokio::task::yield_now().await;
        let Some(message) = outbox.next(TURN)? else { return Ok(()) };
        let next = message.sequence + 1;
        self.send(message, info, identity, control).await?;
        self.place.store(channel, next)?;
        outbox.done()?;
        let missed = outbox.take_missed();
        self.report.note(|status| status.missed += missed);
        Ok(())
    }

    /// The beginning of the ids of this channel's messages.
    fn identity(&self, channel: &Channel) -> Result<String> {
        let uuid: String = self.hold.uuid().iter().map(|byte| format!("{byte:02x}")).collect();
        let name = KeyStyle::Escaped.encode(self.name.as_bytes())?;
        let Incarnation { root, number } = channel_incarnation(channel);
        Ok(format!("{uuid}/{name}/{root}.{number}/"))
    }

    /// The number of the next message, by the hold and by the last message of the subject; `None`
    /// if none was sent.
    async fn next_message(
        &self,
        channel: &Channel,
        info: &Info,
        identity: &str,
    ) -> Result<Option<u64>> {
        let stored = self.place.load(channel)?;
        let doing = || format!("stream '{}'", info.config.name);
        let stream = self.link.js.get_stream_no_info(&info.config.name);
        let stream = self.link.within(doing(), stream).await?;
        let stream = stream.map_err(|error| failed(doing(), error))?;
        let last = stream.get_last_raw_message_by_subject(&self.subject);
        let last = match self.link.within(doing(), last).await? {
            Ok(message) => Some(message),
            Err(error) if matches!(error.kind(), LastRawMessageErrorKind::NoMessageFound) => None,
            Err(error) => return Err(failed(doing(), error)),
        };
        let id = last.as_ref().and_then(|message| message.headers.get(ID));
        let number = id.and_then(|id| id.as_str().strip_prefix(identity)?.parse::<u64>().ok());
        let behind = number.map(|number| number.saturating_add(1));
        Ok(stored.max(behind))
    }

    async fn send(
        &self,
        message: &Message,
        info: &Info,
        identity: &str,
        control: &Control<'_>,
    ) -> Session<()> {
        if let Err(error) = self.ensure_fits(message, info) {
            if self.options.strict {
                return Err(Trouble::Final(error));
            }
            self.report.note(|status| {
                status.skipped += 1;
                status.last_error = Some(error.to_string());
            });
            control.skipped(&error);
            return Ok(());
        }
        let doing = || format!("subject '{}': cannot send", self.subject);
        let built = PublishMessage::build()
            .message_id(format!("{identity}{}", message.sequence))
            .expected_stream(&info.config.name)
            .payload(message.bytes.clone().into());
        self.report.note(|status| status.in_flight = 1);
        let (js, subject) = (&self.link.js, self.subject.clone());
        let stored = async { js.send_publish(subject, built).await?.await };
        let stored = self.link.within(doing(), stored).await?;
        stored.map_err(|error| failed(doing(), error))?;
        self.report.note(|status| {
            status.in_flight = 0;
            status.messages += 1;
        });
        Ok(())
    }

    fn ensure_fits(&self, message: &Message, info: &Info) -> Result<()> {
        let (bytes, of_stream) = (message.bytes.len(), info.config.max_message_size);
        let Some(limit) = exceeded(&self.link, of_stream.into(), bytes) else { return Ok(()) };
        let (most, what) = (limit.most, if limit.is_of_server { "server" } else { "stream" });
        let text = format!(
            "channel '{}': message {} has {bytes} bytes, and the {what} accepts messages of {most} \
             with up to {HEADERS} bytes of headers; raise that limit, or send smaller messages",
            self.name, message.sequence
        );
        Err(Error::new(ErrorKind::TooLarge, text))
    }
}

impl Bridge for Sender {
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

/// Measures the lag against the end of the channel.
fn probe(hold: &Hold, name: &str, next: &Arc<AtomicU64>) -> impl Fn(&mut BridgeStatus) + use<> {
    let (hold, name, next) = (hold.clone(), name.to_owned(), Arc::clone(next));
    move |status| {
        let stat = hold.channels().open(&name).and_then(|channel| channel.stat());
        if let Ok(stat) = stat {
            // Relaxed: for display.
            let lag = stat.sequence.saturating_sub(next.load(Ordering::Relaxed));
            status.lag_messages = lag;
            if lag == 0 {
                status.as_of_ms = realtime_ms();
            }
        }
    }
}
