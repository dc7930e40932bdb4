//! Changes on their way to the bucket: sent, and not acknowledged yet.
//!
//! Every message carries the number that the stream's last message must have. So the messages form
//! a chain: if one is lost, or if another program has written to the bucket, the server refuses
//! every later one. No message can overtake another, none can be stored twice, and of two
//! publishers only one can continue the chain.

use crate::bucket::{Bucket, OPERATION};
use crate::publish::changes::Change;
use crate::publish::place::{POSITION, PUBLISHER};
use crate::trouble::failed;
use async_nats::jetstream::context::PublishError;
use async_nats::jetstream::message::PublishMessage;
use async_nats::jetstream::publish::PublishAck;
use commonhold::stream::StreamPosition;
use commonhold::{Error, ErrorKind, Result};
use std::collections::VecDeque;
use std::pin::Pin;
use std::time::{Duration, Instant};

/// The most bytes that are on their way, apart from one message.
const BYTES: usize = 16 << 20;

type Answer = Pin<Box<dyn Future<Output = std::result::Result<PublishAck, PublishError>> + Send>>;

/// A message that was sent.
struct Sent {
    answer: Answer,
    end: Option<StreamPosition>,
    bytes: usize,
    since: Instant,
}

/// See the module.
pub(crate) struct Window {
    bucket: Bucket,
    id: String,
    sent: VecDeque<Sent>,
    bytes: usize,
    most: usize,
    /// The number of the last message that was acknowledged.
    acknowledged: u64,
    /// The position behind its change, if that is known.
    position: Option<StreamPosition>,
}

impl Window {
    /// Begins behind the message `last`.
    pub(crate) fn new(
        bucket: &Bucket,
        id: &str,
        most: usize,
        last: u64,
        position: Option<StreamPosition>,
    ) -> Window {
        Window {
            bucket: bucket.clone(),
            id: id.to_owned(),
            sent: VecDeque::new(),
            bytes: 0,
            most: most.max(1),
            acknowledged: last,
            position,
        }
    }

    pub(crate) fn has_room(&self) -> bool {
        self.sent.len() < self.most && self.bytes < BYTES
    }

    pub(crate) fn len(&self) -> usize {
        self.sent.len()
    }

    /// How long the oldest message has waited for its acknowledgement.
    pub(crate) fn age(&self) -> Duration {
        self.sent.front().map_or(Duration::ZERO, |sent| sent.since.elapsed())
    }

    /// The number of the last acknowledged message, and the position behind it.
    pub(crate) fn acknowledged(&self) -> (u64, Option<StreamPosition>) {
        (self.acknowledged, self.position)
    }

    /// The bucket is known to equal the map at a position, without a further message.
    pub(crate) fn stands_at(&mut self, position: StreamPosition) {
        self.position = Some(position);
    }

    /// Sends a change.
    ///
    /// # Errors
    /// `TooLarge`; `Io`.
    pub(crate) async fn send(&mut self, change: Change) -> Result<()> {
        let bytes = change.value.as_ref().map_or(0, Vec::len);
        self.bucket.ensure_fits(&change.key, bytes)?;
        let subject = self.bucket.put_subject(&change.key)?;
        let message = PublishMessage::build()
            .expected_last_sequence(self.acknowledged + self.sent.len() as u64)
            .expected_stream(self.bucket.stream())
            .header(PUBLISHER, &*self.id);
        let message = match change.end {
            Some(end) => message.header(POSITION, &*end.to_string()),
            None => message,
        };
        let message = match change.value {
            Some(value) => message.payload(value.into()),
            None => message.header(OPERATION, "DEL"),
        };
        let answer = self.bucket.link.js.send_publish(subject, message).await;
        let answer = answer.map_err(|error| self.failed(error))?;
        let answer = Box::pin(answer.into_future());
        self.sent.push_back(Sent { answer, end: change.end, bytes, since: Instant::now() });
        self.bytes += bytes;
        Ok(())
    }

    fn failed(&self, error: impl std::fmt::Display) -> Error {
        failed(format!("bucket '{}': cannot publish", self.bucket.name()), error)
    }

    /// Waits for the oldest acknowledgement; returns at once if there is none to wait for. May be
    /// cancelled.
    ///
    /// # Errors
    /// `Io`: then no message in this window may have been stored, or some of them.
    pub(crate) async fn settle(&mut self) -> Result<()> {
        let Some(sent) = self.sent.front_mut() else { return Ok(()) };
        let answer = (&mut sent.answer).await;
        let (end, bytes) = (sent.end, sent.bytes);
        let answer = answer.map_err(|error| self.failed(error))?;
        if answer.sequence != self.acknowledged + 1 || answer.duplicate {
            let text = format!(
                "bucket '{}': expected message {} to be stored, got {}",
                self.bucket.name(),
                self.acknowledged + 1,
                answer.sequence
            );
            return Err(Error::new(ErrorKind::Io, text));
        }
        self.sent.pop_front();
        self.bytes -= bytes;
        self.acknowledged = answer.sequence;
        self.position = end;
        Ok(())
    }
}
