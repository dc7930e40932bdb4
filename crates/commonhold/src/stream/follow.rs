//! Reading a stream: every change from a position on, in order.

use crate::error::{Error, ErrorKind, Result};
use crate::memory::arena::Arena;
use crate::memory::ring::Ring;
use crate::stream::feed::Feed;
use crate::stream::frame::{self, HEADER, StreamFrame};
use crate::stream::position::StreamPosition;
use crate::stream::words::Stream;
use crate::sync::robust_lock::{self, Level, Peers};
use std::fmt;
use std::sync::Arc;
use std::sync::atomic::{Ordering, fence};
use std::time::{Duration, Instant};

/// A follower that may not write shared memory cannot ask for a wake-up, and looks again at this
/// interval.
const LOOK_AGAIN: Duration = Duration::from_millis(1);

/// The map that is followed.
pub(crate) struct Followed {
    pub(crate) name: String,
    /// Offset of its root.
    pub(crate) root: u64,
    pub(crate) incarnation: u64,
}

/// Follows the changes of a map: each one after a position, in the order in which they happened to
/// each key.
///
/// Receiving does not disturb other processes: no writer waits for a follower, and a follower that
/// is stopped or killed delays no other process. (Only [`end`](Follower::end) takes the stream's
/// lock for a moment, as a writer does.) A follower that falls behind by more than the stream keeps
/// gets an error ([`ErrorKind::Lapped`]). The stream contains every change that a killed writer
/// committed, and none that it did not commit.
///
/// To copy the whole map and stay up to date: create the follower, read the map
/// ([`Map::iter`](crate::map::Map::iter)), then apply the follower's changes from its beginning.
/// Every frame contains the state after a change, so applying changes that the reading has already
/// seen does no harm. Once the follower has reached the [`end`](Follower::end) taken after the
/// reading, the copy equals the map at that moment.
///
/// ```
/// # let dir = std::env::temp_dir().join(format!("commonhold-follow-{}", std::process::id()));
/// # std::fs::create_dir_all(&dir).unwrap();
/// # let path = dir.join("shop.hold");
/// use commonhold::{Hold, stream::ChangeKind, map::MapOptions};
///
/// let hold = Hold::open_or_create(&path)?;
/// let prices = hold.maps().open_or_create("prices", MapOptions::general())?;
/// hold.maps().begin_stream("prices", 1 << 20)?;
/// let mut follower = prices.follow()?;
/// prices.set("apple", "3")?;
/// let change = follower.try_recv()?.expect("one change");
/// assert_eq!(change.kind, ChangeKind::Set);
/// assert_eq!((change.key, change.value), (&b"apple"[..], &b"3"[..]));
/// assert_eq!(follower.try_recv()?, None);
/// # drop((follower, prices, hold));
/// # std::fs::remove_dir_all(&dir).unwrap();
/// # Ok::<(), commonhold::Error>(())
/// ```
pub struct Follower {
    arena: Arc<Arena>,
    map: Followed,
    ring: Ring,
    /// The stream's number.
    stream: u64,
    offset: u64,
    frame: Vec<u8>,
}

impl fmt::Debug for Follower {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let position = self.position().to_string();
        f.debug_struct("Follower")
            .field("map", &self.map.name)
            .field("position", &position)
            .finish()
    }
}

impl Follower {
    /// Follows from now on.
    ///
    /// # Errors
    /// `NotFound` if the map was dropped or has no stream.
    pub(crate) fn new(arena: Arc<Arena>, map: Followed) -> Result<Follower> {
        arena.ensure_open()?;
        let stream = Stream::of(&arena.space, map.root, map.incarnation);
        // The number first: if the stream begins again meanwhile, the follower notices that it has
        // another one. Acquire: the ring is not an earlier one.
        let number = stream.link.number.load(Ordering::Acquire);
        let ring = stream.ring()?.ok_or_else(|| no_stream(&map))?;
        // Acquire: the frames below are visible. A change that is committed and not yet announced
        // will come.
        let offset = stream.head.tail.load(Ordering::Acquire);
        let current = stream.is_current();
        let follower = Follower { arena, map, ring, stream: number, offset, frame: Vec::new() };
        if current { Ok(follower) } else { Err(follower.dropped()) }
    }

    /// Follows from a position on.
    ///
    /// # Errors
    /// `Mismatch` if it is not a position in this stream; `Lapped` if the stream does not reach
    /// back that far.
    pub(crate) fn seek(mut self, position: StreamPosition) -> Result<Follower> {
        if position.stream != self.stream || position.offset > self.offset {
            let text = format!(
                "map '{}': its stream has no position {position} (its end is {}); read the map \
                 and follow it again",
                self.map.name,
                self.position()
            );
            return Err(Error::new(ErrorKind::Mismatch, text));
        }
        let tail = std::mem::replace(&mut self.offset, position.offset);
        let is_frame = self.offset == tail || self.frame_len(tail).is_some();
        self.ensure_kept()?;
        if is_frame {
            return Ok(self);
        }
        let text = format!("map '{}': no frame of its stream begins at {position}", self.map.name);
        Err(Error::new(ErrorKind::Mismatch, text))
    }

    /// The position at which the next frame begins.
    pub fn position(&self) -> StreamPosition {
        StreamPosition { stream: self.stream, offset: self.offset }
    }

    /// The end of the stream: every change that was visible in the map before this call lies before
    /// it. Waits for a change in progress, as a writer would.
    ///
    /// # Errors
    /// Those of a writing operation; `NotFound` if the map was dropped; `Lapped` if the stream has
    /// begun again with another size.
    pub fn end(&self) -> Result<StreamPosition> {
        self.ensure_current()?;
        let head = self.words().head;
        let offset = self.arena.operate(|lane| {
            let _lock = robust_lock::hold(&head.lock, lane, Level::Whole)?;
            // Acquire: before the stream's number. Pairs with the release in `own::begin`.
            Ok(head.tail.load(Ordering::Acquire))
        })?;
        self.ensure_current()?;
        Ok(StreamPosition { offset, ..self.position() })
    }

    /// The bytes of frames that are waiting, and the most bytes that the stream can keep.
    ///
    /// # Errors
    /// `NotFound` if the map was dropped.
    pub fn lag_bytes(&self) -> Result<(u64, u64)> {
        let tail = self.words().head.tail.load(Ordering::Acquire);
        self.ensure_current()?;
        Ok((tail.saturating_sub(self.offset), self.ring.size()))
    }

    /// The next change, if there is one. Never waits.
    ///
    /// # Errors
    /// `Lapped`: the next change was overwritten, or the stream has begun again with another size;
    /// read the map and follow it again. `NotFound` if
    /// the map was dropped; `Closed`; `Damaged`.
    pub fn try_recv(&mut self) -> Result<Option<StreamFrame<'_>>> {
        Ok(if self.fetch()? { StreamFrame::decode(&self.frame) } else { None })
    }

    /// Waits for the next change.
    ///
    /// # Errors
    /// As [`try_recv`](Self::try_recv).
    pub fn recv(&mut self) -> Result<StreamFrame<'_>> {
        self.wait(None)?;
        StreamFrame::decode(&self.frame).ok_or_else(|| self.damaged())
    }

    /// Waits for the next change, but at most for `time`.
    ///
    /// # Errors
    /// As [`try_recv`](Self::try_recv).
    pub fn recv_timeout(&mut self, time: Duration) -> Result<Option<StreamFrame<'_>>> {
        let found = self.wait(Instant::now().checked_add(time))?;
        Ok(if found { StreamFrame::decode(&self.frame) } else { None })
    }

    fn wait(&mut self, deadline: Option<Instant>) -> Result<bool> {
        if self.arena.participant().is_none() {
            return self.look_often(deadline);
        }
        let arena = Arc::clone(&self.arena);
        let event = &Stream::of(&arena.space, self.map.root, self.map.incarnation).link.event;
        // The event lies in a root, whose memory never becomes anything else.
        let found = event.wait(deadline, || Ok(()), |(), _| Ok(self.fetch()?.then_some(())))?;
        Ok(found.is_some())
    }

    fn look_often(&mut self, deadline: Option<Instant>) -> Result<bool> {
        while !self.fetch()? {
            if deadline.is_some_and(|deadline| Instant::now() >= deadline) {
                return Ok(false);
            }
            std::thread::sleep(LOOK_AGAIN);
        }
        Ok(true)
    }

    /// The same stream as bytes to send on, from this position.
    pub fn into_feed(self) -> Feed {
        Feed::new(self)
    }

    pub(crate) fn arena(&self) -> &Arc<Arena> {
        &self.arena
    }

    pub(crate) fn ring(&self) -> &Ring {
        &self.ring
    }

    pub(crate) fn try_end(&self) -> Result<Option<u64>> {
        self.ensure_current()?;
        let lane = self.arena.enter()?;
        let head = self.words().head;
        let Some(lock) = robust_lock::try_hold(&head.lock, lane.me()) else { return Ok(None) };
        // Acquire: as in `end`.
        let offset = head.tail.load(Ordering::Acquire);
        drop(lock);
        drop(lane);
        self.ensure_current()?;
        Ok(Some(offset))
    }

    pub(crate) fn tail(&self) -> u64 {
        // Acquire: the frames below are visible.
        self.words().head.tail.load(Ordering::Acquire)
    }

    pub(crate) fn skip(&mut self, bytes: u64) {
        self.offset += bytes;
    }

    /// # Errors
    /// `Lapped` if the next bytes may be overwritten; `NotFound`; `Closed`.
    pub(crate) fn ensure_readable(&self) -> Result<()> {
        self.arena.ensure_open()?;
        self.ensure_kept()
    }

    pub(crate) fn wait_beyond(&self, offset: u64, time: Duration) -> Result<bool> {
        let look = || {
            self.arena.ensure_open()?;
            self.ensure_current()?;
            Ok((self.tail() > offset).then_some(()))
        };
        let deadline = Instant::now().checked_add(time);
        if self.arena.participant().is_some() {
            let found = self.words().link.event.wait(deadline, || Ok(()), |(), _| look())?;
            return Ok(found.is_some());
        }
        while look()?.is_none() {
            if deadline.is_some_and(|deadline| Instant::now() >= deadline) {
                return Ok(false);
            }
            std::thread::sleep(LOOK_AGAIN);
        }
        Ok(true)
    }

    fn words(&self) -> Stream<'_> {
        Stream::of(&self.arena.space, self.map.root, self.map.incarnation)
    }

    /// Copies the next frame, if there is one, and moves past it.
    fn fetch(&mut self) -> Result<bool> {
        self.arena.ensure_open()?;
        // Acquire pairs with the release in `append`: frames below the tail are visible.
        let tail = self.words().head.tail.load(Ordering::Acquire);
        if tail <= self.offset {
            self.ensure_current()?;
            return Ok(false);
        }
        let len = self.frame_len(tail);
        if let Some(len) = len {
            let rest = len - HEADER as u64;
            let space = &self.arena.space;
            let stream = Stream::of(space, self.map.root, self.map.incarnation);
            let at = (self.offset + HEADER as u64, rest);
            self.ring.fetch_around(space, at, || stream.is_current(), &mut self.frame);
        }
        self.ensure_kept()?;
        if len.is_none() || StreamFrame::decode(&self.frame).is_none() {
            return Err(self.damaged());
        }
        self.offset += self.frame.len() as u64;
        Ok(true)
    }

    /// The length of the frame at the position, below `tail`, if there is a valid one. Copies its
    /// header.
    fn frame_len(&mut self, tail: u64) -> Option<u64> {
        self.frame.clear();
        self.ring.append_around(self.offset, HEADER as u64, &mut self.frame);
        let most = self.ring.size().min(tail - self.offset);
        frame::length(&self.frame, self.offset).filter(|len| *len <= most)
    }

    /// Checks that the copied bytes were not overwritten meanwhile.
    fn ensure_kept(&self) -> Result<()> {
        // Pairs with the fence in `append`: a follower that has copied a new byte sees the claim
        // that came before it.
        fence(Ordering::Acquire);
        self.ensure_current()?;
        let claim = self.words().head.claim.load(Ordering::Relaxed);
        if claim - self.offset.min(claim) > self.ring.size() {
            Err(self.lapped(claim))
        } else {
            Ok(())
        }
    }

    fn ensure_current(&self) -> Result<()> {
        let words = self.words();
        if !words.is_current() {
            return Err(self.dropped());
        }
        // Relaxed: those who have read bytes have fenced.
        match words.link.number.load(Ordering::Relaxed) == self.stream {
            true => Ok(()),
            false => Err(self.begun_again()),
        }
    }

    #[cold]
    fn begun_again(&self) -> Error {
        let text = format!(
            "map '{}': its stream has another size now and begins again; read the map and follow \
             it again",
            self.map.name
        );
        Error::new(ErrorKind::Lapped, text)
    }

    #[cold]
    fn dropped(&self) -> Error {
        let text = format!("map '{}' was dropped; open it again by name", self.map.name);
        Error::new(ErrorKind::NotFound, text)
    }

    #[cold]
    fn lapped(&self, claim: u64) -> Error {
        let text = format!(
            "map '{}': its stream keeps {} bytes, and this follower is {} behind; read the map \
             and follow it again",
            self.map.name,
            self.ring.size(),
            claim - self.offset
        );
        Error::new(ErrorKind::Lapped, text)
    }

    #[cold]
    pub(crate) fn damaged(&self) -> Error {
        let text = format!(
            "map '{}': its stream is damaged at {}; read the map and follow it again, or drop it",
            self.map.name, self.offset
        );
        Error::new(ErrorKind::Damaged, text)
    }
}

fn no_stream(map: &Followed) -> Error {
    let text = format!(
        "map '{}' has no stream yet; a process that may write creates one ('hold watch')",
        map.name
    );
    Error::new(ErrorKind::NotFound, text)
}
