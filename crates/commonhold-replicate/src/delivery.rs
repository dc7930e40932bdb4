//! What one replica is sent: a full sync of the map, if it has nothing, and the stream from where
//! that began.
//!
//! The stream's bytes go out as they lie in its memory. Whatever else is said goes between two
//! frames, so the stream is always sent up to a *frame boundary*, an offset that was its end at
//! some moment; there, the next piece of the full sync is said, and the boundary moves to the
//! present end. So a full sync never falls behind the stream however long it takes, and how much of
//! either is in flight is limited by what the replica's socket takes.
//!
//! Why the replica ends up with the map: every change after the full sync's beginning is sent after
//! it was made, and says what is so then. A key that nobody changes meanwhile was seen by the full
//! sync; of any other, the last frame says what is so. The end is read when the full sync is over,
//! under the stream's lock: all that the full sync has seen lies before it.

use crate::protocol::payload::Payload;
use crate::protocol::wire::{self, code};
use commonhold::Result;
use commonhold::map::{Iter, Map};
use commonhold::raw::{Feed, RawFrame};
use commonhold::stream::StreamPosition;
use commonhold_io::sockets::Bytes;
use std::time::{Duration, Instant};

/// Bytes per send at most: more does not make it faster, and others wait for their turn.
const MOST: usize = 256 << 10;
/// Bytes of the full sync that are said at a time, and one pair.
const PIECE: usize = 64 << 10;
/// How often a replica is told what time it is and where the stream ends.
const TIME_EVERY: Duration = Duration::from_millis(500);

/// See the module.
pub(crate) struct Delivery {
    feed: Feed,
    /// The full sync, until it is over.
    pairs: Option<Iter>,
    /// It is not said yet from where on the replica is the map.
    end_due: bool,
    boundary: u64,
    /// When the replica is told the time again, if it is to be.
    time_due: Option<Instant>,
}

impl Delivery {
    /// From a position on, if the stream has it still; else from the beginning of a full sync.
    ///
    /// # Errors
    /// Those of following.
    pub(crate) fn begin(map: &Map, position: Option<StreamPosition>) -> Result<Delivery> {
        let resumed = position.and_then(|position| map.follow_from(position).ok());
        let (follower, pairs) = match resumed {
            Some(follower) => (follower, None),
            None => (map.follow()?, Some(map.iter())),
        };
        let feed = follower.into_feed();
        let boundary = feed.position().offset;
        let time_due = Some(Instant::now());
        Ok(Delivery { feed, pairs, end_due: true, boundary, time_due })
    }

    /// The same, for whom the time is of no interest.
    pub(crate) fn without_time(self) -> Delivery {
        Delivery { time_due: None, ..self }
    }

    /// Waits until the stream has more than was sent, for so long at most.
    ///
    /// # Errors
    /// `NotFound` if the map was dropped; `Closed`.
    pub(crate) fn wait(&self, time: Duration) -> Result<bool> {
        self.feed.wait_beyond(self.feed.position().offset, time)
    }

    /// Where it stands in the stream.
    pub(crate) fn position(&self) -> StreamPosition {
        self.feed.position()
    }

    /// True until the full sync is over.
    pub(crate) fn is_syncing(&self) -> bool {
        self.pairs.is_some()
    }

    /// True until it is said from where on the replica is the map.
    pub(crate) fn is_end_due(&self) -> bool {
        self.end_due
    }

    /// What is to be sent next; of the stream nothing beyond `limit`. `None` if there is nothing
    /// now.
    ///
    /// # Errors
    /// `Lapped`, `NotFound` if the map was dropped or replaced by its shadow map: what was sent is
    /// worth nothing more; those of reading the map.
    pub(crate) fn next(
        &mut self,
        limit: Option<StreamPosition>,
        now: Instant,
    ) -> Result<Option<Payload>> {
        // One of another stream lies anywhere in this one, also inside a frame: then nothing goes
        // out.
        let own = self.feed.position().stream;
        let limit = limit.map_or(u64::MAX, |limit| match limit.stream == own {
            true => limit.offset,
            false => 0,
        });
        loop {
            if let Some(bytes) = self.feed.pending(self.boundary, MOST)? {
                return Ok(Some(Payload::Stream(bytes)));
            }
            // A frame ends here.
            let before = self.boundary;
            self.boundary = self.feed.tail().min(limit).max(before);
            let mut words = Vec::new();
            self.continue_sync(&mut words)?;
            if self.time_due.is_some_and(|due| now >= due) {
                wire::put_time(&mut words, before, self.feed.tail(), wire::now_ms());
                self.time_due = Some(now + TIME_EVERY);
            }
            if !words.is_empty() {
                return Ok(Some(Payload::Words(Bytes::from(words))));
            }
            if self.boundary == before {
                return Ok(None);
            }
        }
    }

    /// Says the next piece of the full sync, and behind it from where on the replica is the map.
    fn continue_sync(&mut self, words: &mut Vec<u8>) -> Result<()> {
        let offset = self.feed.position().offset;
        while let Some(pairs) = self.pairs.as_mut().filter(|_| words.len() < PIECE) {
            let Some(pair) = pairs.next() else {
                self.pairs = None;
                break;
            };
            let (key, value) = pair?;
            let frame =
                RawFrame { code: code::PAIR, key: &key, value: &value, expires_ms: 0, offset };
            frame.encode_into(words)?;
        }
        if self.pairs.is_none() && self.end_due {
            // While a change is being made nobody knows the end: the next time.
            if let Some(end) = self.feed.try_end()? {
                wire::put_complete(words, offset, end);
                self.end_due = false;
            }
        }
        Ok(())
    }

    /// Whether what is to be sent is still there.
    ///
    /// # Errors
    /// As for [`next`](Self::next).
    pub(crate) fn ensure_kept(&self) -> Result<()> {
        self.feed.pending(self.boundary, 0).map(drop)
    }

    /// Notes that so many bytes of the stream were sent.
    ///
    /// # Errors
    /// As for [`next`](Self::next): some of them were not what the stream had.
    pub(crate) fn sent(&mut self, bytes: usize) -> Result<()> {
        self.feed.sent(bytes)
    }
}
