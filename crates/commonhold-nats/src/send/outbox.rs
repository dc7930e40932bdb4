//! The messages of the channel, from the position on.
//!
//! The outbox keeps its place in the channel between sessions. A lossless one leaves a message in
//! the channel until the server has acknowledged it. So the channel's producer overwrites no
//! message that was not sent. If the sender is killed, the messages stay until the producer has
//! sent about as many bytes as the ring has.

use commonhold::Result;
use commonhold::channel::{Channel, Consumer, Join, Policy};
use commonhold::raw::{Incarnation, channel_incarnation};
use std::time::Duration;

/// A message of the channel.
#[derive(Debug)]
pub(crate) struct Message {
    pub(crate) sequence: u64,
    pub(crate) bytes: Vec<u8>,
}

/// See the module.
#[derive(Debug)]
pub(crate) struct Outbox {
    consumer: Consumer,
    incarnation: Incarnation,
    is_lossy: bool,
    current: Option<Message>,
    /// Messages that the channel overwrote before the position, and not reported yet.
    missed: u64,
}

impl Outbox {
    /// Begins with the oldest message of the channel.
    ///
    /// # Errors
    /// Those of becoming a consumer.
    pub(crate) fn begin(channel: &Channel, is_lossy: bool) -> Result<Outbox> {
        let policy = if is_lossy { Policy::Lossy } else { Policy::Lossless };
        let consumer = channel.consumer(Join::Oldest, policy)?;
        let incarnation = channel_incarnation(channel);
        Ok(Outbox { consumer, incarnation, is_lossy, current: None, missed: 0 })
    }

    /// Whether it reads this channel, and not an earlier one of the name.
    pub(crate) fn is_of(&self, channel: &Channel) -> bool {
        self.incarnation == channel_incarnation(channel)
    }

    /// Skips the messages before `next`. Those that the channel has overwritten are missed.
    ///
    /// # Errors
    /// Those of receiving.
    pub(crate) fn skip_to(&mut self, next: u64) -> Result<()> {
        let first = self.current.as_ref().map_or(self.consumer.sequence(), |it| it.sequence);
        self.missed += first.saturating_sub(next);
        while self.next(Duration::ZERO)?.is_some_and(|message| message.sequence < next) {
            self.done()?;
        }
        Ok(())
    }

    /// The number of the next message, if none is missed.
    pub(crate) fn sequence(&self) -> u64 {
        self.current.as_ref().map_or(self.consumer.sequence(), |current| current.sequence)
    }

    /// The next message, if it comes within `time`, for which this blocks. It stays the next one
    /// until [`done`](Self::done).
    ///
    /// # Errors
    /// Those of receiving.
    pub(crate) fn next(&mut self, time: Duration) -> Result<Option<&Message>> {
        if self.current.is_none() {
            self.current = self.read(time)?;
        }
        Ok(self.current.as_ref())
    }

    fn read(&mut self, time: Duration) -> Result<Option<Message>> {
        let mut bytes = Vec::new();
        if !self.is_lossy {
            let Some((found, received)) = self.consumer.peek_timeout(time)? else {
                return Ok(None);
            };
            found.copy_to(&mut bytes);
            return Ok(Some(Message { sequence: received.sequence, bytes }));
        }
        let Some(received) = self.consumer.recv_timeout(&mut bytes, time)? else {
            return Ok(None);
        };
        self.missed += received.missed;
        Ok(Some(Message { sequence: received.sequence, bytes }))
    }

    /// The next message is in the stream.
    ///
    /// # Errors
    /// Those of receiving.
    pub(crate) fn done(&mut self) -> Result<()> {
        if self.current.take().is_some() && !self.is_lossy {
            self.consumer.advance()?;
        }
        Ok(())
    }

    /// The messages that were missed since the last call.
    pub(crate) fn take_missed(&mut self) -> u64 {
        std::mem::take(&mut self.missed)
    }
}
