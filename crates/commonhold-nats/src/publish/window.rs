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

/// The most bytes that are on their way, apart from one message.
const BYTES: usize = 16 << 20;

type Answer = Pin<Box<dyn Future<Output = std::result::Result<PublishAck, PublishError>> + Send>>;

/// A message that was sent.
struct Sent {
    /// `None` for a change without a message.
    answer: Option<Answer>,
    end: Option<StreamPosition>,
    bytes: usize,
}

/// See the module.
pub(crate) struct Window {
    bucket: Bucket,
    id: String,
    sent: VecDeque<Sent>,
    /// Those that have a message.
    messages: u64,
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
            messages: 0,
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
            .expected_last_sequence(self.acknowledged + self.messages)
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
        let link = &self.bucket.link;
        let answer = link.within(self.doing(), link.js.send_publish(subject, message)).await?;
        let answer = answer.map_err(|error| failed(self.doing(), error))?;
        let answer: Answer = Box::pin(answer.into_future());
        self.sent.push_back(Sent { answer: Some(answer), end: change.end, bytes });
        (self.bytes, self.messages) = (self.bytes + bytes, self.messages + 1);
        Ok(())
    }

    /// Passes a change that needs no message; its end counts when everything before it has been
    /// acknowledged.
    pub(crate) fn pass(&mut self, end: Option<StreamPosition>) {
        self.sent.push_back(Sent { answer: None, end, bytes: 0 });
    }

    fn doing(&self) -> String {
        format!("bucket '{}': cannot publish", self.bucket.name())
    }

    /// Waits for the oldest acknowledgement; returns at once if there is none to wait for. May be
    /// cancelled. Returns the number of messages that were acknowledged, 0 or 1.
    ///
    /// # Errors
    /// `Io`: then no message in this window may have been stored, or some of them.
    pub(crate) async fn settle(&mut self) -> Result<u64> {
        let Some(sent) = self.sent.front_mut() else { return Ok(0) };
        let answer = match &mut sent.answer {
            Some(answer) => Some(answer.await),
            None => None,
        };
        let (end, bytes) = (sent.end, sent.bytes);
        let settled = u64::from(answer.is_some());
        if let Some(answer) = answer {
            let answer = answer.map_err(|error| failed(self.doing(), error))?;
            self.ensure_next(&answer)?;
            self.acknowledged = answer.sequence;
        }
        self.sent.pop_front();
        (self.bytes, self.messages) = (self.bytes - bytes, self.messages - settled);
        self.position = end;
        Ok(settled)
    }

    fn ensure_next(&self, answer: &PublishAck) -> Result<()> {
        let expected = self.acknowledged + 1;
        if answer.sequence == expected && !answer.duplicate {
            return Ok(());
        }
        let text = format!(
            "bucket '{}': expected message {expected} to be stored, got {}",
            self.bucket.name(),
            answer.sequence
        );
        Err(Error::new(ErrorKind::Io, text))
    }
}
