//! The bytes for one replica: a full sync of the map, if the replica has nothing, and the stream
//! from the position where the full sync began.
//!
//! The stream's bytes go out as they lie in its memory. All other messages go between two frames,
//! so the stream is always sent up to a *frame boundary*, an offset that was its end at some
//! moment. There, the next piece of the full sync is sent, and the boundary moves to the present
//! end. So a full sync never falls behind the stream however long it takes, and the room of the
//! replica's socket limits how much of either is in flight.
//!
//! Why the replica ends up with the map: every change after the full sync's beginning is sent after
//! it was made, and contains the pair's new state. The full sync has seen every key that does not
//! change meanwhile; for any other key, the last frame has its state. The end is read after the
//! full sync, under the stream's lock: everything that the full sync has seen lies before it.

use crate::protocol::payload::Payload;
use crate::protocol::wire::{self, code};
use commonhold::Result;
use commonhold::map::{Iter, Map};
use commonhold::raw::{Feed, RawFrame};
use commonhold::stream::StreamPosition;
use commonhold_io::sockets::Bytes;
use std::time::{Duration, Instant};

/// The most bytes per send: more does not make it faster, and others wait for their turn.
const MOST: usize = 256 << 10;
/// Bytes of the full sync that are sent at a time, without the last pair.
const PIECE: usize = 64 << 10;
/// How often a replica gets the time and the end of the stream.
const TIME_EVERY: Duration = Duration::from_millis(500);

/// See the module.
pub(crate) struct Delivery {
    feed: Feed,
    /// The full sync, until it is over.
    pairs: Option<Iter>,
    /// The replica does not know yet from which position on its map equals the origin's.
    end_due: bool,
    boundary: u64,
    /// When the replica gets the time again, if it gets it.
    time_due: Option<Instant>,
}

impl Delivery {
    /// Begins at a position, if the stream still has it; otherwise with a full sync.
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

    /// The same delivery without messages about the time.
    pub(crate) fn without_time(self) -> Delivery {
        Delivery { time_due: None, ..self }
    }

    /// Waits until the stream has more than was sent, at most for `time`.
    ///
    /// # Errors
    /// `NotFound` if the map was dropped; `Closed`.
    pub(crate) fn wait(&self, time: Duration) -> Result<bool> {
        self.feed.wait_beyond(self.feed.position().offset, time)
    }

    /// The position in the stream up to which everything was sent.
    pub(crate) fn position(&self) -> StreamPosition {
        self.feed.position()
    }

    /// True until the full sync is over.
    pub(crate) fn is_syncing(&self) -> bool {
        self.pairs.is_some()
    }

    /// True until the replica knows from which position on its map equals the origin's.
    pub(crate) fn is_end_due(&self) -> bool {
        self.end_due
    }

    /// Returns the next bytes to send, and of the stream none beyond `limit`. `None` if there is
    /// nothing now.
    ///
    /// # Errors
    /// `Lapped`, `NotFound` if the map was dropped or replaced by its shadow map: then the replica
    /// cannot use what was sent; those of reading the map.
    pub(crate) fn next(
        &mut self,
        limit: Option<StreamPosition>,
        now: Instant,
    ) -> Result<Option<Payload>> {
        // A position of another stream may lie inside a frame of this one: then nothing goes out.
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

    /// Appends the next piece of the full sync, and behind it the position from which on the
    /// replica's map equals the origin's.
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
            // While a change is being made, the end is not known: it is sent later.
            if let Some(end) = self.feed.try_end()? {
                wire::put_complete(words, offset, end);
                self.end_due = false;
            }
        }
        Ok(())
    }

    /// Checks that the bytes to send are still there.
    ///
    /// # Errors
    /// As for [`next`](Self::next).
    pub(crate) fn ensure_kept(&self) -> Result<()> {
        self.feed.pending(self.boundary, 0).map(drop)
    }

    /// Notes that `bytes` bytes of the stream were sent.
    ///
    /// # Errors
    /// As for [`next`](Self::next): the stream overwrote some of the bytes while they were sent.
    pub(crate) fn sent(&mut self, bytes: usize) -> Result<()> {
        self.feed.sent(bytes)
    }
}
