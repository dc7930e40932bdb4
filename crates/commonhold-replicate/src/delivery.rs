//! The bytes for one replica: a full sync of the map, if the replica has nothing, and the stream
//! from the position where the full sync began.
//!
//! The stream's bytes go out as they lie in its memory. All other messages go between two frames,
//! so the stream is always sent up to a *frame boundary*, an offset that was its end at some
//! moment. There, the next piece of the full sync is sent, and the boundary moves to the present
//! end. So a full sync never falls behind the stream however long it takes, and the room of the
//! replica's socket limits how much of either is in flight.
//!
//! A replica that was away for longer than the stream keeps gets the changes in between from
//! elsewhere, if they can be had ([`EarlierChanges`]), and then the stream.
//!
//! For a replica that wants only the keys of a prefix, a filter is between the stream and the sends
//! ([`crate::filter`]), and the full sync leaves out the same keys.
//!
//! Why the replica ends up with the map: every change after the full sync's beginning is sent after
//! it was made, and contains the pair's new state. The full sync has seen every key that does not
//! change meanwhile; for any other key, the last frame has its state. The end is read after the
//! full sync, under the stream's lock: everything that the full sync has seen lies before it.

use crate::filter::Filter;
use crate::origin_clock::OriginClock;
use crate::protocol::key_prefix::KeyPrefix;
use crate::protocol::packed::{MOST_UNPACKED, SyncBytes, pack};
use crate::protocol::payload::Payload;
use crate::protocol::wire::{self, code};
use commonhold::map::Map;
use commonhold::raw::{Feed, IterStep, RawFrame, StepIter, fit_stream, iter_steps};
use commonhold::stream::{Follower, StreamPosition};
use commonhold::{Error, ErrorKind, Hold, Result};
use commonhold_io::sockets::Bytes;
use commonhold_io::thread_patience::with_patience;
use std::time::{Duration, Instant};

/// The most bytes per send: more does not make it faster, and others wait for their turn.
const MOST: usize = 256 << 10;
/// Bytes of the full sync that are sent at a time, without the last pair.
const PIECE: usize = 64 << 10;
/// The work of passing over a segment of the map, as bytes of a piece.
const SEGMENT: usize = 1 << 10;
/// How long the stream waits for a stopped process before it becomes larger.
const PATIENCE: Duration = Duration::from_millis(100);
/// How often a replica gets the time and the end of the stream.
const TIME_EVERY: Duration = Duration::from_millis(500);

/// Changes before those that a stream has, from elsewhere.
pub(crate) trait EarlierChanges: Send {
    /// The next of them, without waiting. Without `has_room`, no large ones.
    ///
    /// # Errors
    /// They cannot be had.
    fn next(&mut self, has_room: bool) -> Result<Earlier>;
}

/// The next part of [`EarlierChanges`].
#[derive(Debug)]
pub(crate) enum Earlier {
    /// There is none yet.
    Later,
    /// Frames, and the offset where they end.
    Changes(Vec<u8>, u64),
    /// The stream has everything that follows.
    InStream,
}

/// A delivery that has not come to the stream yet.
struct Behind {
    changes: Box<dyn EarlierChanges>,
    map: Map,
    at: StreamPosition,
    /// The position is one of the map: otherwise nothing would have been sent.
    is_proved: bool,
}

impl Behind {
    /// Follows the stream of the position.
    ///
    /// # Errors
    /// `Lapped` if the map has another stream; those of following.
    fn follow(&self) -> Result<Follower> {
        let follower = self.map.follow()?;
        if follower.position().stream == self.at.stream {
            return Ok(follower);
        }
        let text = format!("the stream of map '{}' has begun again", self.map.name());
        Err(Error::new(ErrorKind::Lapped, text))
    }
}

/// Makes the map's stream large enough for the changes that did not fit into it: otherwise the next
/// change of that size would end a full sync, too. Returns why it could not.
pub(crate) fn fit(map: &Map) -> Option<Error> {
    with_patience(PATIENCE, || fit_stream(map)).err()
}

/// Begins the map's stream if a process was killed while it gave it another size.
///
/// # Errors
/// Those of beginning a stream.
pub(crate) fn repair_stream(hold: &Hold, map: &Map) -> Result<()> {
    match map.follow() {
        Err(error) if error.is_not_found() && map.len().is_ok() => {
            hold.maps().begin_stream(map.name(), 0).map(drop)
        }
        _ => Ok(()),
    }
}

/// See the module.
pub(crate) struct Delivery {
    feed: Feed,
    /// The changes before those of the stream, while it sends these.
    behind: Option<Behind>,
    /// For a replica that wants only the keys of a prefix.
    filter: Option<Filter>,
    /// The full sync, until it is over.
    pairs: Option<StepIter>,
    /// The work of passing over unwanted pairs, as bytes, since it was taken.
    passed: usize,
    /// The clock of the pairs' expiry; `None` if they are sent without expiry.
    clock: Option<OriginClock>,
    /// Whether the pairs are compressed.
    packs: bool,
    /// Bytes of the pairs so far.
    sync_bytes: SyncBytes,
    /// The replica does not know yet from which position on its map equals the origin's.
    end_due: bool,
    boundary: u64,
    /// Why the stream could not get room for changes that did not fit into it.
    too_small: Option<Error>,
    /// When the replica gets the time again, if it gets it.
    time_due: Option<Instant>,
    /// The time of which the map has everything.
    as_of_ms: Box<dyn Fn() -> u64 + Send>,
}

impl Delivery {
    /// Begins at a position, if the stream still has it; otherwise with a full sync, before which
    /// `make_room` makes the stream large enough, or returns why it could not.
    ///
    /// # Errors
    /// Those of following.
    pub(crate) fn begin(
        map: &Map,
        position: Option<StreamPosition>,
        make_room: impl FnOnce() -> Option<Error>,
    ) -> Result<Delivery> {
        let resumed = position.and_then(|position| map.follow_from(position).ok());
        let mut too_small = None;
        let (follower, pairs) = match resumed {
            Some(follower) => (follower, None),
            None => {
                too_small = make_room();
                (map.follow()?, Some(iter_steps(map, &[], false)))
            }
        };
        Ok(Delivery { pairs, too_small, ..Delivery::of(follower) })
    }

    /// Begins at a position that the stream no longer has, with changes from elsewhere.
    ///
    /// # Errors
    /// Those of following.
    pub(crate) fn begin_behind(
        map: &Map,
        at: StreamPosition,
        changes: impl EarlierChanges + 'static,
    ) -> Result<Delivery> {
        let (changes, map) = (Box::new(changes), map.clone());
        let behind = Behind { changes, map, at, is_proved: false };
        let delivery = Delivery::of(behind.follow()?);
        Ok(Delivery { behind: Some(behind), ..delivery })
    }

    fn of(follower: Follower) -> Delivery {
        let feed = follower.into_feed();
        let boundary = feed.position().offset;
        let time_due = Some(Instant::now());
        let as_of_ms = Box::new(wire::now_ms);
        Delivery {
            feed,
            behind: None,
            filter: None,
            pairs: None,
            passed: 0,
            clock: None,
            packs: false,
            sync_bytes: SyncBytes::default(),
            end_due: true,
            boundary,
            too_small: None,
            time_due,
            as_of_ms,
        }
    }

    /// The same delivery with the keys of a prefix only, before it has sent any.
    pub(crate) fn with_prefix(self, map: &Map, prefix: KeyPrefix) -> Delivery {
        if prefix.is_of_all() {
            return self;
        }
        let pairs = self.pairs.map(|_| iter_steps(map, prefix.bytes(), false));
        Delivery { pairs, filter: Some(Filter::new(prefix)), ..self }
    }

    /// The same delivery with the expiry of the pairs, before it has sent any. It includes pairs
    /// that have expired, because their removals come as changes.
    pub(crate) fn with_expiry(self, map: &Map, clock: OriginClock) -> Delivery {
        let prefix = self.filter.as_ref().map_or(&[][..], |filter| filter.prefix().bytes());
        let pairs = self.pairs.map(|_| iter_steps(map, prefix, true));
        Delivery { pairs, clock: Some(clock), ..self }
    }

    /// The same delivery with compressed pairs.
    pub(crate) fn with_packing(self) -> Delivery {
        Delivery { packs: true, ..self }
    }

    /// Bytes of the pairs that were taken for sending.
    pub(crate) fn sync_bytes(&self) -> SyncBytes {
        self.sync_bytes
    }

    /// The same delivery with the time of a map that follows another one.
    pub(crate) fn with_time(self, as_of_ms: impl Fn() -> u64 + Send + 'static) -> Delivery {
        Delivery { as_of_ms: Box::new(as_of_ms), ..self }
    }

    /// Why the stream could not get room for changes that did not fit into it, if it needs room.
    pub(crate) fn too_small(&self) -> Option<&Error> {
        self.too_small.as_ref()
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
        if let Some(behind) = &self.behind {
            return behind.at;
        }
        let at = self.feed.position();
        let sent = self.filter.as_ref().map_or(at.offset, |filter| filter.sent(at.offset));
        StreamPosition { offset: sent, ..at }
    }

    /// The offset from which on it needs the stream: everything before was sent, or passed over.
    /// `None` if it does not need the stream yet.
    pub(crate) fn offset(&self) -> Option<u64> {
        self.behind.is_none().then(|| self.feed.position().offset)
    }

    /// When it has something to send although the stream does not grow: the position behind changes
    /// that were passed over.
    pub(crate) fn due(&self) -> Option<Instant> {
        self.filter.as_ref().and_then(Filter::due)
    }

    /// The work of passing over unwanted pairs since the last call, as bytes.
    pub(crate) fn take_passed(&mut self) -> usize {
        std::mem::take(&mut self.passed)
    }

    /// True if the position is the replica's own statement, which is not proved yet.
    pub(crate) fn is_unproved(&self) -> bool {
        self.behind.as_ref().is_some_and(|behind| !behind.is_proved)
    }

    /// True until the full sync is over.
    pub(crate) fn is_syncing(&self) -> bool {
        self.pairs.is_some()
    }

    /// True if the next bytes are pairs of the full sync: all changes before them were sent. Also
    /// if they are changes from elsewhere: both wait for their turn behind the stream of others.
    pub(crate) fn is_next_bulk(&self) -> bool {
        self.behind.is_some() || (self.is_syncing() && self.feed.position().offset >= self.boundary)
    }

    /// True until the replica knows from which position on its map equals the origin's.
    pub(crate) fn is_end_due(&self) -> bool {
        self.end_due
    }

    /// Returns the next bytes to send, and of the stream none beyond `limit`. `None` if there is
    /// nothing now. Without `has_room`, it reads no further pairs of the full sync.
    ///
    /// # Errors
    /// `Lapped`, `NotFound` if the map was dropped or replaced by its shadow map: then the replica
    /// cannot use what was sent; those of reading the map.
    pub(crate) fn next(
        &mut self,
        limit: Option<StreamPosition>,
        now: Instant,
        has_room: bool,
    ) -> Result<Option<Payload>> {
        // A position of another stream may lie inside a frame of this one: then nothing goes out.
        let own = self.feed.position().stream;
        let limit = limit.map_or(u64::MAX, |limit| match limit.stream == own {
            true => limit.offset,
            false => 0,
        });
        if let Some(payload) = self.next_behind(now, has_room)? {
            return Ok(Some(payload));
        }
        if self.behind.is_some() {
            return Ok(None);
        }
        loop {
            if let Some(payload) = self.next_of_stream(now)? {
                return Ok(Some(payload));
            }
            // A frame ends here.
            let before = self.boundary;
            self.boundary = self.feed.tail().min(limit).max(before);
            let mut words = Vec::new();
            if has_room || !self.is_syncing() {
                self.continue_sync(&mut words)?;
                if words.is_empty() && self.is_syncing() {
                    // It has only passed over pairs. Something has to be sent so that it goes on.
                    self.time_due = self.time_due.map(|_| now);
                }
            }
            self.put_time_if_due(&mut words, before, now);
            if !words.is_empty() {
                self.put_pending_before(&mut words);
                return Ok(Some(Payload::Words(Bytes::from(words))));
            }
            if self.boundary == before {
                return Ok(None);
            }
        }
    }

    fn put_time_if_due(&mut self, words: &mut Vec<u8>, offset: u64, now: Instant) {
        if self.time_due.is_some_and(|due| now >= due) {
            // Before the end of the stream, which may grow meanwhile.
            let as_of_ms = (self.as_of_ms)();
            wire::put_time(words, offset, self.feed.tail(), as_of_ms);
            self.time_due = Some(now + TIME_EVERY);
        }
    }

    /// The next changes before those of the stream, or the time meanwhile. Goes over to the stream
    /// as soon as it has the rest.
    fn next_behind(&mut self, now: Instant, has_room: bool) -> Result<Option<Payload>> {
        let Some(behind) = &mut self.behind else { return Ok(None) };
        let at = behind.at;
        match behind.changes.next(has_room)? {
            Earlier::Changes(frames, end) => {
                (behind.at.offset, behind.is_proved) = (end, true);
                return Ok(Some(Payload::Words(Bytes::from(frames))));
            }
            Earlier::InStream => {
                self.feed = behind.map.follow_from(at)?.into_feed();
                (self.boundary, self.behind) = (at.offset, None);
                return Ok(None);
            }
            Earlier::Later => {}
        }
        // The end of another stream would make the replica look up to date.
        self.feed = behind.follow()?.into_feed();
        let mut words = Vec::new();
        self.put_time_if_due(&mut words, at.offset, now);
        Ok((!words.is_empty()).then(|| Payload::Words(Bytes::from(words))))
    }

    /// Puts the message about changes that were passed over before others: these have the position
    /// behind them.
    fn put_pending_before(&mut self, words: &mut Vec<u8>) {
        let Some(filter) = &mut self.filter else { return };
        let mut all = Vec::new();
        filter.put_pending(&mut all);
        if !all.is_empty() {
            all.append(words);
            *words = all;
        }
    }

    /// The next bytes of the stream, up to the boundary.
    fn next_of_stream(&mut self, now: Instant) -> Result<Option<Payload>> {
        match &mut self.filter {
            Some(filter) => filter.next(&mut self.feed, self.boundary, now),
            None => Ok(self.feed.pending(self.boundary, MOST)?.map(Payload::Stream)),
        }
    }

    /// Appends the next piece of the full sync, and behind it the position from which on the
    /// replica's map equals the origin's.
    fn continue_sync(&mut self, words: &mut Vec<u8>) -> Result<()> {
        let offset = self.feed.position().offset;
        // Where the last pair begins, which may be large.
        let (mut last, mut passed) = (0, 0);
        while let Some(pairs) = self.pairs.as_mut().filter(|_| words.len() + passed < PIECE) {
            let ((key, value), expiry) = match pairs.step()? {
                IterStep::Pair(pair, expiry) => (pair, expiry),
                IterStep::Segment => {
                    passed += self.filter.as_ref().map_or(0, |_| SEGMENT);
                    continue;
                }
                IterStep::End => {
                    self.pairs = None;
                    break;
                }
            };
            last = words.len();
            let expires_ms = self.clock.map_or(0, |clock| clock.at_origin(expiry));
            let frame = RawFrame { code: code::PAIR, key: &key, value: &value, expires_ms, offset };
            frame.encode_into(words)?;
        }
        self.passed += passed;
        let plain = words.len();
        if self.packs {
            let large = words.split_off(if plain > MOST_UNPACKED { last } else { plain });
            pack(words, offset);
            words.extend(large);
        }
        self.sync_bytes.add(plain, words.len());
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
        if self.behind.is_some() {
            return Ok(());
        }
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
