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
use async_nats::HeaderMap;
use async_nats::jetstream::stream::Info;
use commonhold::channel::{ChannelOptions, Producer};
use commonhold::map::{Map, MapOptions};
use commonhold::raw::companion_name;
use commonhold::stream::StreamPosition;
use commonhold::{Error, ErrorKind, Hold, Result};

/// The header that names the hold and the map.
pub(crate) const PUBLISHER: &str = "Hold-Publisher";
/// The header of the position behind a change.
pub(crate) const POSITION: &str = "Hold-Position";
/// Bytes of a stored position.
const BYTES: usize = 40;

/// Where a publisher may continue.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum Start {
    /// The bucket has every change before this position, and no other.
    At(StreamPosition),
    /// The bucket is this publisher's, or empty, and its contents are not known.
    Compare,
    /// Another program wrote the last message: the text names it.
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
}

impl Stored {
    fn bytes(&self) -> Vec<u8> {
        let Stored { created_ns, message: (sequence, time_ns), position } = *self;
        let numbers =
            [created_ns as u64, sequence, time_ns as u64, position.stream, position.offset];
        numbers.map(u64::to_le_bytes).concat()
    }

    fn of_bytes(bytes: &[u8]) -> Option<Stored> {
        let bytes: &[u8; BYTES] = bytes.try_into().ok()?;
        let (numbers, _) = bytes.as_chunks();
        let [created, sequence, time, stream, offset] =
            [0, 1, 2, 3, 4].map(|place| u64::from_le_bytes(numbers[place]));
        let position = StreamPosition { stream, offset };
        Some(Stored { created_ns: created as i64, message: (sequence, time as i64), position })
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
        let slot = hold.channels().open_or_create(&slot, ChannelOptions::new(4 << 10))?;
        let slot = slot.producer().map_err(|error| is_published(map, bucket, error))?;
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
            let is_own = own.is_some() || info.state.messages == 0;
            let gone = || Start::Foreign("a program whose message is gone".to_owned());
            return Ok(if is_own { Start::Compare } else { gone() });
        };
        self.found = (last, nanoseconds(message.time));
        Ok(match (self.judge(&message.headers), own) {
            (Start::Foreign(_), Some(own)) if own.message == self.found => Start::At(own.position),
            (start, _) => start,
        })
    }

    fn judge(&self, headers: &HeaderMap) -> Start {
        let text = |name: &str| headers.get(name).map(|value| value.as_str().to_owned());
        match text(PUBLISHER) {
            Some(id) if id == self.id => {
                let position = text(POSITION).and_then(|text| text.parse().ok());
                position.map_or(Start::Compare, Start::At)
            }
            Some(id) => Start::Foreign(format!("publisher {id}")),
            None => Start::Foreign("a program that is not a publisher".to_owned()),
        }
    }

    /// Stores that the bucket of this creation equals the map at a position, behind its message
    /// `sequence`.
    pub(crate) fn save(
        &mut self,
        created_ns: i64,
        sequence: u64,
        position: StreamPosition,
    ) -> Result<()> {
        let found = Some(self.found).filter(|found| found.0 == sequence);
        let stored = Stored { created_ns, message: found.unwrap_or((sequence, 0)), position };
        if self.saved != Some(stored) {
            self.notes.set(self.bucket.stream(), stored.bytes())?;
            self.saved = Some(stored);
        }
        Ok(())
    }
}

fn is_published(map: &str, bucket: &Bucket, error: Error) -> Error {
    if error.kind() != ErrorKind::Busy {
        return error;
    }
    let bucket = bucket.name();
    let text = format!(
        "map '{map}' is already published to bucket '{bucket}': {error}; end that \
                        publisher first"
    );
    Error::new(ErrorKind::Busy, text)
}
