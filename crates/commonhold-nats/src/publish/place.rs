//! The position of a publisher, and a slot that allows one publisher of a map to a bucket only.
//!
//! The position lies in the bucket: each message names the publisher and the position behind its
//! change. So it changes in the same step as the data, and whoever reads the last message of the
//! stream knows who wrote it and how far. The hold keeps a copy, which shows that the bucket is
//! this publisher's when the last message is gone. It counts as the position only if the last
//! message is another program's, and still the one that a comparison found to be equal to the map.

use crate::bucket::Bucket;
use crate::key::KeyStyle;
use crate::reader::nanoseconds;
use crate::slot;
use async_nats::HeaderMap;
use async_nats::jetstream::stream::Info;
use commonhold::channel::Producer;
use commonhold::map::{Map, MapOptions};
use commonhold::raw::companion_name;
use commonhold::stream::StreamPosition;
use commonhold::{Hold, Result};

/// The header that names the hold and the map.
pub(crate) const PUBLISHER: &str = "Hold-Publisher";
/// The header of the position behind a change.
pub(crate) const POSITION: &str = "Hold-Position";
/// Bytes of a stored position.
const BYTES: usize = 48;

/// Where a publisher may continue.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum Start {
    /// The bucket got every change before this position, and no other. If the flag is set, nothing
    /// has left it since.
    At(StreamPosition, bool),
    /// The bucket is this publisher's, or empty, and its contents are not known.
    Compare,
    /// Another program wrote the last message: the text names it.
    Foreign(String),
}

/// The writer of a message.
enum Judgement {
    /// This publisher, at this position if the message has one.
    Own(Option<StreamPosition>),
    /// Another program: the text names it.
    Foreign(String),
}

/// A message of the stream by its number and its time, which differs if the number was given twice.
type Message = (u64, i64);

/// The copy of the position in the hold.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Stored {
    created_ns: i64,
    message: Message,
    position: StreamPosition,
    /// The number of messages in the bucket, if that was known; 0 otherwise.
    messages: u64,
}

impl Stored {
    fn bytes(&self) -> Vec<u8> {
        let Stored { created_ns, message: (sequence, time_ns), position, messages } = *self;
        let StreamPosition { stream, offset } = position;
        let numbers = [created_ns as u64, sequence, time_ns as u64, stream, offset, messages];
        numbers.map(u64::to_le_bytes).concat()
    }

    fn of_bytes(bytes: &[u8]) -> Option<Stored> {
        let bytes: &[u8; BYTES] = bytes.try_into().ok()?;
        let (numbers, _) = bytes.as_chunks();
        let [created, sequence, time, stream, offset, messages] =
            [0, 1, 2, 3, 4, 5].map(|place| u64::from_le_bytes(numbers[place]));
        Some(Stored {
            created_ns: created as i64,
            message: (sequence, time as i64),
            position: StreamPosition { stream, offset },
            messages,
        })
    }
}

/// See the module.
#[derive(Debug)]
pub(crate) struct Place {
    notes: Map,
    bucket: Bucket,
    /// Identifies this publisher in the bucket.
    pub(crate) id: String,
    /// The last message of the stream when the session began.
    found: Message,
    saved: Option<Stored>,
    /// While it lives no other publisher of this map to this bucket can begin.
    _slot: Producer,
}

impl Place {
    /// Takes the slot.
    ///
    /// # Errors
    /// `Busy`, which names slot and process, if it is taken.
    pub(crate) fn take(hold: &Hold, map: &str, bucket: &Bucket) -> Result<Place> {
        let slot = companion_name("publish", &format!("{}/{map}", bucket.name()));
        let what = format!("map '{map}' is already published to bucket '{}'", bucket.name());
        let slot = slot::take(hold, &slot, &what)?;
        let notes = companion_name("published", map);
        let notes = hold.maps().open_or_create(&notes, MapOptions::general())?;
        let uuid: String = hold.uuid().iter().map(|byte| format!("{byte:02x}")).collect();
        let id = format!("{uuid}/{}", KeyStyle::Escaped.encode(map.as_bytes())?);
        let (bucket, found, saved) = (bucket.clone(), (0, 0), None);
        Ok(Place { notes, bucket, id, found, saved, _slot: slot })
    }

    /// Where to continue, by the bucket's last message and by the stored position.
    pub(crate) async fn start(&mut self, info: &Info) -> Result<Start> {
        let last = info.state.last_sequence;
        let own = self.notes.get(self.bucket.stream())?.and_then(|bytes| Stored::of_bytes(&bytes));
        let own = own.filter(|own| own.created_ns == nanoseconds(info.created));
        let message = match last {
            0 => None,
            last => self.bucket.message(last).await?,
        };
        let Some(message) = message else {
            self.found = (last, 0);
            // Another program may have written since, and its messages may be gone, too. So the
            // bucket is this publisher's only if the stream's last number is.
            let is_own = last == 0 || own.is_some_and(|own| own.message.0 == last);
            let gone = || Start::Foreign("a program whose message is gone".to_owned());
            return Ok(if is_own { Start::Compare } else { gone() });
        };
        self.found = (last, nanoseconds(message.time));
        let is_whole = |own: &Stored| own.messages != 0 && own.messages == info.state.messages;
        Ok(match (self.judge(&message.headers), own) {
            (Judgement::Own(Some(position)), own) => {
                let is_proven = own.is_some_and(|own| own.message.0 == last && is_whole(&own));
                Start::At(position, is_proven)
            }
            (Judgement::Own(None), _) => Start::Compare,
            (Judgement::Foreign(_), Some(own)) if own.message == self.found => {
                Start::At(own.position, is_whole(&own))
            }
            (Judgement::Foreign(writer), _) => Start::Foreign(writer),
        })
    }

    fn judge(&self, headers: &HeaderMap) -> Judgement {
        let text = |name: &str| headers.get(name).map(|value| value.as_str().to_owned());
        match text(PUBLISHER) {
            Some(id) if id == self.id => {
                Judgement::Own(text(POSITION).and_then(|text| text.parse().ok()))
            }
            Some(id) => Judgement::Foreign(format!("publisher {id}")),
            None => Judgement::Foreign("a program that is not a publisher".to_owned()),
        }
    }

    /// Stores that the bucket of this creation equals the map at a position, behind its message
    /// `sequence`, and then has this number of messages; 0 if that is not known.
    pub(crate) fn save(
        &mut self,
        created_ns: i64,
        sequence: u64,
        position: StreamPosition,
        messages: u64,
    ) -> Result<()> {
        let found = Some(self.found).filter(|found| found.0 == sequence);
        let message = found.unwrap_or((sequence, 0));
        let stored = Stored { created_ns, message, position, messages };
        if self.saved != Some(stored) {
            self.notes.set(self.bucket.stream(), stored.bytes())?;
            self.saved = Some(stored);
        }
        Ok(())
    }
}
