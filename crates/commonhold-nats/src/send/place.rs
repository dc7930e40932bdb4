//! The position of a sender, kept in the hold, and a slot that allows one sender of a channel only.
//!
//! The position is the number of the next message that the stream may not have. It is stored after
//! the server has acknowledged the message before. After a kill the stream may so have one message
//! more than the position shows, and never two, because the next message is sent only after the
//! acknowledgement. Two things find that message: its id, by which the server recognizes it within
//! the stream's duplicate window, and the last message of the subject, which has that id.

use crate::slot;
use commonhold::channel::{Channel, Producer};
use commonhold::map::{Map, MapOptions};
use commonhold::raw::{Incarnation, channel_incarnation, companion_name};
use commonhold::{Hold, Result};

/// Bytes of a stored position.
const BYTES: usize = 24;

/// See the module.
#[derive(Debug)]
pub(crate) struct Place {
    notes: Map,
    subject: String,
    /// While it lives no other sender of this channel can begin.
    _slot: Producer,
}

impl Place {
    /// Takes the slot.
    ///
    /// # Errors
    /// `Busy`, which names slot and process, if it is taken.
    pub(crate) fn take(hold: &Hold, channel: &str, subject: &str) -> Result<Place> {
        let what = format!("channel '{channel}' already has a sender");
        let slot = slot::take(hold, &companion_name("send", channel), &what)?;
        let notes = companion_name("sent", channel);
        let notes = hold.maps().open_or_create(&notes, MapOptions::general())?;
        Ok(Place { notes, subject: subject.to_owned(), _slot: slot })
    }

    /// The number of the next message of this channel, if one was sent before.
    pub(crate) fn load(&self, channel: &Channel) -> Result<Option<u64>> {
        let Incarnation { root, number } = channel_incarnation(channel);
        let bytes = self.notes.get(&self.subject)?;
        let bytes: Option<[u8; BYTES]> = bytes.and_then(|bytes| bytes.try_into().ok());
        let numbers = bytes.map(|bytes| {
            [0, 8, 16].map(|at| u64::from_le_bytes(std::array::from_fn(|byte| bytes[at + byte])))
        });
        Ok(numbers.filter(|numbers| numbers[1..] == [root, number]).map(|numbers| numbers[0]))
    }

    /// Stores the number of the next message of this channel.
    pub(crate) fn store(&self, channel: &Channel, next: u64) -> Result<()> {
        let Incarnation { root, number } = channel_incarnation(channel);
        let bytes = [next, root, number].map(u64::to_le_bytes).concat();
        self.notes.set(&self.subject, bytes).map(drop)
    }
}
