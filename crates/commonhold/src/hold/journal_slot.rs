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
use crate::hold::map_identity::map_identity;
use crate::hold::maps::companion_name;
use crate::map::api::handle::Map;
use crate::map::engine::bound::Bound;
use crate::map::options::MapOptions;
use crate::stream::follow::Follower;
use crate::stream::position::StreamPosition;
use crate::sync::thread_patience::with_patience;
use std::os::unix::fs::MetadataExt;
use std::path::Path;
use std::sync::Arc;
use std::time::{Duration, Instant};

/// How often a waiting process checks that the journal lives.
const LOOK: Duration = Duration::from_millis(50);
/// The identity of the journal's map, and the position in its stream up to which all is durable.
const DURABLE: &[u8] = b"durable";
const FAILED: &[u8] = b"failed";
/// The journal's file: device, inode, path.
const FILE: &[u8] = b"file";
/// How often processes have asked whether the file is at its path, and up to which of these
/// questions the journal has answered.
const ASKED: &[u8] = b"asked";
const ANSWERED: &[u8] = b"answered";

fn slot_name(map: &str) -> String {
    companion_name("durable", map)
}

/// The name of the map of a journal's announcements.
fn said_name(map: &str) -> String {
    companion_name("journal", map)
}

/// The map of the announcements and the notes of a map's journal; `None` if the map never had a
/// journal. The journal may have ended.
///
/// # Errors
/// Those of opening a map.
pub fn journal_notes(hold: &Hold, map: &str) -> Result<Option<Map>> {
    match hold.maps().open(&said_name(map)) {
        Err(error) if error.is_not_found() => Ok(None),
        said => said.map(Some),
    }
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
        said.delete(FILE)?;
        slot.try_send(&[])?;
        Ok(JournalSlot { said, slot })
    }

    /// The map of the journal's announcements. The journal may keep notes of its own under other
    /// keys.
    #[must_use]
    pub fn notes(&self) -> Map {
        self.said.clone()
    }

    /// Announces the journal's file. A process that waits confirms nothing while its path leads to
    /// another file, or to none.
    ///
    /// # Errors
    /// Those of writing a map.
    pub fn file(&mut self, path: &Path, (device, inode): (u64, u64)) -> Result<()> {
        let mut value = [device.to_le_bytes(), inode.to_le_bytes()].concat();
        value.extend_from_slice(path.as_os_str().as_encoded_bytes());
        match self.said.get(FILE)? {
            Some(said) if said == value => Ok(()),
            _ => self.said.set(FILE, value).map(drop),
        }
    }

    /// The number of the last question whether the file is at its path, if it is not answered.
    ///
    /// # Errors
    /// Those of reading a map.
    pub fn question(&self) -> Result<Option<i64>> {
        let asked = number(&self.said, ASKED)?;
        Ok((asked > number(&self.said, ANSWERED)?).then_some(asked))
    }

    /// Answers the questions up to this one: the file was at its path after they had been asked.
    ///
    /// # Errors
    /// Those of writing a map.
    pub fn answer(&mut self, question: i64) -> Result<()> {
        self.said.set(ANSWERED, question.to_le_bytes())?;
        self.tell()
    }

    /// Announces that everything before a position of this map's stream is durable. Ends an
    /// announced failure.
    ///
    /// # Errors
    /// Those of writing a map.
    pub fn durable(&mut self, map: &Map, position: StreamPosition) -> Result<()> {
        let mut value = map_identity(map).to_vec();
        value.extend_from_slice(position.to_string().as_bytes());
        self.said.set(DURABLE, value)?;
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

/// A number in the map of the announcements; 0 if there is none.
fn number(said: &Map, key: &[u8]) -> Result<i64> {
    let bytes = said.get(key)?.and_then(|bytes| bytes.try_into().ok());
    Ok(bytes.map_or(0, i64::from_le_bytes))
}

/// Whether the announced file is at its path, as far as this process can see. It may have other
/// directories than the journal, or no permission.
fn is_in_place(file: &[u8]) -> bool {
    let Some((identity, path)) = file.split_at_checked(16) else { return false };
    let Ok(path) = std::str::from_utf8(path) else { return false };
    std::fs::metadata(path).is_ok_and(|found| {
        [found.dev().to_le_bytes(), found.ino().to_le_bytes()].concat() == identity
    })
}

/// The time left until the deadline.
pub(crate) fn left(deadline: Option<Instant>) -> Duration {
    deadline.map_or(Duration::MAX, |end| end.saturating_duration_since(Instant::now()))
}

/// The position that a journal has announced as durable for this map.
fn announced(said: &Map, map: &Map) -> Result<Option<StreamPosition>> {
    let Some(durable) = said.get(DURABLE)? else { return Ok(None) };
    // It may be about an earlier map of this name, until its journal has ended.
    let Some(position) = durable.strip_prefix(&map_identity(map)) else { return Ok(None) };
    String::from_utf8_lossy(position).parse().map(Some)
}

/// The same; `None` if the map never had a journal.
///
/// # Errors
/// Those of reading a map.
pub(crate) fn durable_position(hold: &Hold, map: &Map) -> Result<Option<StreamPosition>> {
    journal_notes(hold, map.name())?.map_or(Ok(None), |said| announced(&said, map))
}

impl Map {
    /// Waits until every change of the map that was made before this call is in its journal and
    /// safe on the disk; waits at most for `time`. Returns the position up to which changes are
    /// safe.
    ///
    /// # Errors
    /// `NotFound` if the map has no running journal, or no stream, or was dropped; `Io` with the
    /// journal's reason if it cannot write; `TimedOut`; those of a writing operation. After an
    /// error it is not known how much of it is safe.
    pub fn sync(&self, time: Duration) -> Result<StreamPosition> {
        let deadline = Instant::now().checked_add(time);
        // Again if a full sync replaces the map in between.
        let end = with_patience(left(deadline), || {
            self.bound.read(self.space(), |bound| self.followed_end(bound))
        })?;
        self.wait_until_durable(end, deadline, time)?;
        Ok(end)
    }

    fn followed_end(&self, bound: &Bound) -> Result<StreamPosition> {
        Follower::new(Arc::clone(&self.arena), bound.followed(self.space()))?.end()
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
        // The number of this call's question whether the file is at its path.
        let mut asked = None;
        let mut is_confirmed =
            || with_patience(left(deadline), || self.is_confirmed(&hold, end, &mut asked));
        // Joining takes the names lock, which a stopped process may hold.
        let durable_already = matches!(is_confirmed(), Ok(true));
        let mut patience = if durable_already { Duration::ZERO } else { LOOK };
        let (mut news, mut message) = (None, Vec::new());
        loop {
            let blocked = self.look_at_journal(&hold, &mut news, patience.min(left(deadline)))?;
            patience = LOOK;
            loop {
                if is_confirmed()? {
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

    /// Whether everything is durable, in the file that is at the journal's path. If this process
    /// does not see that itself, it asks the journal.
    fn is_confirmed(
        &self,
        hold: &Hold,
        end: StreamPosition,
        asked: &mut Option<i64>,
    ) -> Result<bool> {
        let said = hold.maps().open(&said_name(self.name()))?;
        if !self.is_durable(&said, end)? {
            return Ok(false);
        }
        if said.get(FILE)?.is_some_and(|file| is_in_place(&file)) {
            return Ok(true);
        }
        let question = match *asked {
            Some(question) => question,
            None => *asked.insert(said.increment(ASKED, 1)?),
        };
        Ok(number(&said, ANSWERED)? >= question)
    }

    fn is_durable(&self, said: &Map, end: StreamPosition) -> Result<bool> {
        if let Some(why) = said.get(FAILED)? {
            let why = String::from_utf8_lossy(&why).into_owned();
            let text = format!("map '{}': its journal cannot write: {why}", self.name());
            return Err(Error::new(ErrorKind::Io, text));
        }
        // A full sync may have put another map in the place of a replica's: this handle continues
        // with that one, which the journal records from now on.
        self.bound.read(self.space(), |bound| bound.ensure_current(self.space()))?;
        let Some(position) = announced(said, self)? else { return Ok(false) };
        if position.stream == end.stream {
            return Ok(position.offset >= end.offset);
        }
        // The stream has begun again since, or a full sync has replaced the map. A file of the new
        // stream began with the whole map.
        Ok(self.stream_number()? == Some(position.stream))
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
