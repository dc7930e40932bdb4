//! Durability of a map's changes: a journal announces how far it has written to the disk, and a
//! process that has changed the map waits until that is far enough.
//!
//! The hold has two structures for the journal of a map: a small map with the journal's last
//! announcement, and a channel whose producer is the journal. So there is one journal at a time,
//! other processes can see whether it lives, and a message wakes the waiting processes when the
//! journal has made progress.

use crate::channel::consumer::Consumer;
use crate::channel::options::{ChannelOptions, Join, Policy};
use crate::channel::producer::Producer;
use crate::error::{Error, ErrorKind, Result};
use crate::hold::handle::Hold;
use crate::map::handle::Map;
use crate::map::options::MapOptions;
use crate::stream::position::StreamPosition;
use crate::sync::thread_patience::with_patience;
use std::sync::Arc;
use std::time::{Duration, Instant};

/// How often a waiting process checks that the journal lives.
const LOOK: Duration = Duration::from_millis(50);
const DURABLE: &[u8] = b"durable";
const FAILED: &[u8] = b"failed";

fn said_name(map: &str) -> String {
    format!(".journal/{map}")
}

fn slot_name(map: &str) -> String {
    format!(".durable/{map}")
}

/// The slot of a map's journal: while it is taken, no other journal of the map can run. If its
/// process dies, the slot becomes free.
#[derive(Debug)]
pub struct JournalSlot {
    said: Map,
    slot: Producer,
}

impl JournalSlot {
    /// Takes the slot of the journal of a map.
    ///
    /// # Errors
    /// `Busy`, which names slot and process, if it is taken; those of creating a map and a channel.
    pub fn take(hold: &Hold, map: &str) -> Result<JournalSlot> {
        let said = hold.maps().open_or_create(&said_name(map), MapOptions::general())?;
        let options = ChannelOptions::new(4 << 10);
        let slot = hold.channels().open_or_create(&slot_name(map), options)?.producer();
        let mut slot = slot.map_err(|error| match error.kind() {
            ErrorKind::Busy => {
                Error::new(ErrorKind::Busy, format!("map '{map}' already has a journal: {error}"))
            }
            _ => error,
        })?;
        // The announcements of the journal before were about its own file.
        said.delete(DURABLE)?;
        said.delete(FAILED)?;
        slot.try_send(&[])?;
        Ok(JournalSlot { said, slot })
    }

    /// The map of the journal's announcements. The journal may keep notes of its own under other
    /// keys.
    #[must_use]
    pub fn notes(&self) -> Map {
        self.said.clone()
    }

    /// Announces that everything before a position of the map's stream is durable. Ends an
    /// announced failure.
    ///
    /// # Errors
    /// Those of writing a map.
    pub fn durable(&mut self, position: StreamPosition) -> Result<()> {
        self.said.set(DURABLE, position.to_string())?;
        self.said.delete(FAILED)?;
        self.tell()
    }

    /// Announces why changes are not becoming durable.
    ///
    /// # Errors
    /// Those of writing a map.
    pub fn failed(&mut self, why: &str) -> Result<()> {
        self.said.set(FAILED, why)?;
        self.tell()
    }

    /// Wakes the waiting processes. They are lossy consumers, so they do not hold the journal up.
    fn tell(&mut self) -> Result<()> {
        self.slot.try_send(&[]).map(drop)
    }
}

/// The time left until the deadline.
fn left(deadline: Option<Instant>) -> Duration {
    deadline.map_or(Duration::MAX, |end| end.saturating_duration_since(Instant::now()))
}

impl Map {
    /// Waits until every change of the map that was made before this call is in its journal and
    /// safe on the disk; waits at most for `time`. Returns the position up to which changes are
    /// safe.
    ///
    /// # Errors
    /// `NotFound` if the map has no running journal, or no stream; `Io` with the journal's reason
    /// if it cannot write; `TimedOut`; those of a writing operation. After an error it is not known
    /// how much of it is safe.
    pub fn sync(&self, time: Duration) -> Result<StreamPosition> {
        let deadline = Instant::now().checked_add(time);
        let end = with_patience(left(deadline), || self.follow()?.end())?;
        self.wait_until_durable(end, deadline, time)?;
        Ok(end)
    }

    /// Like [`sync`](Self::sync), for the changes before a position, which
    /// [`Follower::end`](crate::stream::Follower::end) returns. It allows waiting in several calls.
    ///
    /// # Errors
    /// As for [`sync`](Self::sync).
    pub fn sync_to(&self, end: StreamPosition, time: Duration) -> Result<()> {
        self.wait_until_durable(end, Instant::now().checked_add(time), time)
    }

    fn wait_until_durable(
        &self,
        end: StreamPosition,
        deadline: Option<Instant>,
        time: Duration,
    ) -> Result<()> {
        let hold = Hold::new(Arc::clone(&self.arena));
        let is_durable = || with_patience(left(deadline), || self.is_durable(&hold, end));
        // Joining takes the names lock, which a stopped process may hold.
        let durable_already = matches!(is_durable(), Ok(true));
        let mut patience = if durable_already { Duration::ZERO } else { LOOK };
        let (mut news, mut message) = (None, Vec::new());
        loop {
            let blocked = self.look_at_journal(&hold, &mut news, patience.min(left(deadline)))?;
            patience = LOOK;
            loop {
                if is_durable()? {
                    return Ok(());
                }
                let left = left(deadline);
                if left.is_zero() {
                    return Err(blocked.unwrap_or_else(|| self.not_in_time(time)));
                }
                let Some(news) = &mut news else { break };
                if news.recv_timeout(&mut message, left.min(LOOK))?.is_none() {
                    break;
                }
            }
        }
    }

    /// Ensures that a journal runs, and joins its channel at the first call; waits for at most
    /// `time`. Returns the error of that wait if a stopped process prevents this.
    fn look_at_journal(
        &self,
        hold: &Hold,
        news: &mut Option<Consumer>,
        time: Duration,
    ) -> Result<Option<Error>> {
        let looked = with_patience(time, || match news {
            Some(_) => self.ensure_journal_lives(hold),
            None => self.join_journal(hold).map(|joined| *news = Some(joined)),
        });
        match looked {
            Err(error) if error.kind() == ErrorKind::TimedOut => Ok(Some(error)),
            looked => looked.map(|()| None),
        }
    }

    fn join_journal(&self, hold: &Hold) -> Result<Consumer> {
        self.ensure_journal_lives(hold)?;
        hold.channels().open(&slot_name(self.name()))?.consumer(Join::Now, Policy::Lossy)
    }

    fn ensure_journal_lives(&self, hold: &Hold) -> Result<()> {
        let slot = hold.channels().open(&slot_name(self.name()));
        match slot.and_then(|slot| slot.stat()) {
            Ok(stat) if stat.producer.is_some() => Ok(()),
            Err(error) if !error.is_not_found() => Err(error),
            _ => {
                let text = format!(
                    "map '{}' has no running journal, so its changes are not durable; start 'hold \
                     journal'",
                    self.name()
                );
                Err(Error::new(ErrorKind::NotFound, text))
            }
        }
    }

    fn is_durable(&self, hold: &Hold, end: StreamPosition) -> Result<bool> {
        let said = hold.maps().open(&said_name(self.name()))?;
        if let Some(why) = said.get(FAILED)? {
            let why = String::from_utf8_lossy(&why).into_owned();
            let text = format!("map '{}': its journal cannot write: {why}", self.name());
            return Err(Error::new(ErrorKind::Io, text));
        }
        let Some(position) = said.get(DURABLE)? else { return Ok(false) };
        let position: StreamPosition = String::from_utf8_lossy(&position).parse()?;
        Ok(position.stream == end.stream && position.offset >= end.offset)
    }

    #[cold]
    fn not_in_time(&self, time: Duration) -> Error {
        let text = format!(
            "map '{}': its journal did not make all changes durable within {} ms",
            self.name(),
            time.as_millis()
        );
        Error::new(ErrorKind::TimedOut, text)
    }
}
