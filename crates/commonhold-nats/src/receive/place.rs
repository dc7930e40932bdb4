//! The position of a receiver, kept in the hold, so that each message is in its target once.
//!
//! A channel or a queue cannot keep a stream's sequence in the same step as a message. But each has
//! a position of its own, which grows by one in the step that shows the message. So a note in a
//! hidden map precedes each message:
//!
//! 1. store the note: the last message that is in the target (*done*), the one that comes next
//!    (*pending*), and the target's position `C` before it;
//! 2. put the message into the target: its position becomes `C + 1` in the same step;
//! 3. acknowledge the message to the server. The next note has it as done.
//!
//! One value holds the note, so it changes in one step. After a kill there are these cases:
//!
//! - The target's position is `C`: the message is not there. It stays undone, the server was not
//!   sent an acknowledgement, and delivers it again.
//! - It is `C + 1`: the message is there, and counts as done.
//! - It is higher: another program has put something in, so nobody knows. That is an error. (A
//!   receiver recovers the note before it puts anything, and a slot allows one receiver only.)
//! - The target was dropped and created again: it has another incarnation. The message is not
//!   there.
//!
//! The server may deliver a message again that is done: its acknowledgement was lost, or the
//! session began with the first message of the stream (`consumer`). Messages come in the order of
//! their sequences (`inbox`), so those up to the last that is done are in the target. But a server
//! that was killed may have lost its last messages, and give their sequences to new ones. Those
//! have a later time than the last that is done, if the server's clock did not go back meanwhile.
//! So a message is done if neither its sequence nor its time is later. The first new message
//! becomes the last that is done. The messages before it in the stream were done, and have an
//! earlier time. The messages after it have a higher sequence.

use crate::receive::target::Target;
use crate::slot;
use commonhold::channel::Producer;
use commonhold::map::{Map, MapOptions};
use commonhold::raw::{Incarnation, companion_name};
use commonhold::{Error, ErrorKind, Hold, Result};

/// Numbers of a note.
const NUMBERS: usize = 8;

/// A message of the stream: its sequence and its time.
pub(crate) type Message = (u64, i64);

/// A message that is about to be put into the target.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Pending {
    message: Message,
    /// The target's position before it.
    position: u64,
    target: Incarnation,
}

/// See the module.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
struct Note {
    created_ns: i64,
    done: Message,
    pending: Option<Pending>,
}

impl Note {
    fn bytes(&self) -> Vec<u8> {
        let none = Pending { message: (0, 0), position: 0, target: Incarnation::default() };
        let Pending { message, position, target } = self.pending.unwrap_or(none);
        let numbers: [u64; NUMBERS] = [
            self.created_ns as u64,
            self.done.0,
            self.done.1 as u64,
            message.0,
            message.1 as u64,
            position,
            target.root,
            target.number,
        ];
        numbers.map(u64::to_le_bytes).concat()
    }

    fn of_bytes(bytes: &[u8]) -> Option<Note> {
        let bytes: &[u8; NUMBERS * 8] = bytes.try_into().ok()?;
        let (numbers, _) = bytes.as_chunks();
        let [created, done, done_ns, next, next_ns, position, root, number] =
            std::array::from_fn(|place| u64::from_le_bytes(numbers[place]));
        // A stream's sequences begin with 1.
        let pending = (next != 0).then_some(Pending {
            message: (next, next_ns as i64),
            position,
            target: Incarnation { root, number },
        });
        Some(Note { created_ns: created as i64, done: (done, done_ns as i64), pending })
    }

    /// The note after a kill, for a target at this position. `None` if nobody can know.
    fn recovered(self, position: u64, target: Incarnation) -> Option<Note> {
        let Some(pending) = self.pending.filter(|pending| pending.target == target) else {
            return Some(Note { pending: None, ..self });
        };
        match position.checked_sub(pending.position) {
            Some(0) => Some(Note { pending: None, ..self }),
            Some(1) => Some(Note { pending: None, done: pending.message, ..self }),
            _ => None,
        }
    }
}

/// See the module.
#[derive(Debug)]
pub(crate) struct Place {
    notes: Map,
    key: String,
    note: Note,
    is_stored: bool,
    /// While it lives no other receiver into this target can begin.
    _slot: Producer,
}

impl Place {
    /// Takes the slot of a target.
    ///
    /// # Errors
    /// `Busy`, which names slot and process, if it is taken.
    pub(crate) fn take(hold: &Hold, target: &str) -> Result<Place> {
        let what = format!("'{target}' already has a receiver");
        let slot = slot::take(hold, &companion_name("receive", target), &what)?;
        let notes = companion_name("received", target);
        let notes = hold.maps().open_or_create(&notes, MapOptions::general())?;
        let (key, note) = (String::new(), Note::default());
        Ok(Place { notes, key, note, is_stored: true, _slot: slot })
    }

    /// Recovers what a killed receiver left, of whatever consumer.
    ///
    /// # Errors
    /// `Mismatch` if another program has put something into the target meanwhile.
    pub(crate) fn recover(&self, target: &Target) -> Result<()> {
        let position = target.position()?;
        for pair in &self.notes {
            let (key, bytes) = pair?;
            let Some(note) = Note::of_bytes(&bytes) else { continue };
            let recovered = note.recovered(position, target.incarnation());
            let recovered = recovered.ok_or_else(|| self.unknown(&key, &note, position))?;
            if recovered != note {
                self.notes.set(&key, recovered.bytes())?;
            }
        }
        Ok(())
    }

    fn unknown(&self, key: &[u8], note: &Note, position: u64) -> Error {
        let pending = note.pending.map_or((0, 0), |pending| (pending.message.0, pending.position));
        let (key, map) = (String::from_utf8_lossy(key), self.notes.name());
        let text = format!(
            "map '{map}', key '{key}': a receiver was killed at message {} and position {} of its \
             target; expected that position or the next one, found {position}: another program \
             writes to the target, so the message may be there or not. To receive it again, delete \
             that key with 'hold del'",
            pending.0, pending.1
        );
        Error::new(ErrorKind::Mismatch, text)
    }

    /// Begins with a consumer of a stream of this creation.
    pub(crate) fn begin(&mut self, key: String, created_ns: i64) -> Result<()> {
        let note = self.notes.get(&key)?.and_then(|bytes| Note::of_bytes(&bytes));
        let note = note.filter(|note| note.created_ns == created_ns);
        let fresh = Note { created_ns, ..Note::default() };
        (self.key, self.note, self.is_stored) = (key, note.unwrap_or(fresh), true);
        Ok(())
    }

    /// The last message that is in the target.
    pub(crate) fn done(&self) -> Option<Message> {
        (self.note.done.0 != 0).then_some(self.note.done)
    }

    /// Whether this message is in the target already.
    pub(crate) fn is_done(&self, message: Message) -> bool {
        message.0 <= self.note.done.0 && message.1 <= self.note.done.1
    }

    /// Stores that this message comes next.
    pub(crate) fn comes(&mut self, message: Message, target: &Target) -> Result<()> {
        let (position, target) = (target.position()?, target.incarnation());
        self.note.pending = Some(Pending { message, position, target });
        self.notes.set(&self.key, self.note.bytes()).map(drop)
    }

    /// Notes that this message is done, without storing that.
    pub(crate) fn came(&mut self, message: Message) {
        (self.note.done, self.note.pending, self.is_stored) = (message, None, false);
    }

    /// Stores the note, if it is not stored.
    pub(crate) fn store(&mut self) -> Result<()> {
        if !self.is_stored {
            self.notes.set(&self.key, self.note.bytes())?;
            self.is_stored = true;
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_note_comes_back_and_is_recovered_by_the_position() {
        let target = Incarnation { root: 3, number: 5 };
        let pending = Some(Pending { message: (12, 120), position: 40, target });
        let note = Note { created_ns: -7, done: (10, 100), pending };
        assert_eq!(Note::of_bytes(&note.bytes()), Some(note));
        let undone = Note { pending: None, ..note };
        assert_eq!(Note::of_bytes(&undone.bytes()), Some(undone));
        let done = Note { done: (12, 120), ..undone };
        let other = Incarnation { root: 3, number: 6 };
        for (position, of, recovered) in [
            (40, target, Some(undone)),
            (41, target, Some(done)),
            (42, target, None),
            (39, target, None),
            (41, other, Some(undone)),
        ] {
            assert_eq!(note.recovered(position, of), recovered, "{position}");
        }
        assert_eq!(done.recovered(99, target), Some(done));
    }
}
