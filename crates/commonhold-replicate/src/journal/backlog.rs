//! The changes of a map behind a position that its stream no longer has, from the files of its
//! journal: they spare a replica that was away for long the full sync.
//!
//! The files are read twice. The first time, nothing is returned: the changes from the position on
//! have to lead without a hole to a position that the stream still has. The second time they are
//! returned, until the stream has the rest.
//!
//! Why they are the map's changes: the change before the position is the one that the replica has
//! ([`Proof`]), and each file states the change before its own beginning. The run that wrote the
//! end of each file is noted in the hold, so the map has all changes of the file ([`Runs`]). The
//! last change is also the stream's: a copy of the hold from the middle of a run has noted the run,
//! but has other changes since.
//!
//! Invariant: each call reads a bounded number of bytes and one frame, and no file is read again
//! from its beginning unless it has grown.

use crate::journal::file::Identity;
use crate::journal::places::{self, Places};
use crate::journal::reader::{Entry, Reader};
use crate::journal::run::Runs;
use crate::protocol::introduction::proof_bytes;
use crate::protocol::key_prefix::KeyPrefix;
use crate::protocol::skip::Skip;
use commonhold::map::Map;
use commonhold::raw::{Proof, RawFrame, journal_notes, proof_at};
use commonhold::stream::StreamPosition;
use commonhold::{Error, ErrorKind, Hold, Result};
use std::path::{Path, PathBuf};

/// Bytes of a file that one call reads, without the last frame.
const READ: u64 = 1 << 20;
/// Bytes of changes that one call returns, without the last one.
const PIECE: usize = 64 << 10;
/// How many times the bytes of the map the changes may have.
const MOST_OF_MAP: u64 = 16;

/// See the module.
pub(crate) struct Backlog {
    map: Map,
    /// The reader that checks, and later the one that returns changes.
    chain: Chain,
    is_checked: bool,
    /// The changes are not many times as large as the map.
    is_worthwhile: bool,
    prefix: KeyPrefix,
}

/// The result of one call.
#[derive(Debug)]
pub(crate) enum Part {
    /// It needs further calls.
    Nothing,
    /// Frames to send, and the offset where they end.
    Changes(Vec<u8>, u64),
    /// The stream has everything that follows.
    InStream,
}

/// A position, and the change that ends there.
#[derive(Clone, Copy, Debug)]
struct Reached {
    at: StreamPosition,
    last: Proof,
}

impl Backlog {
    /// The changes of a map behind a position; `None` if the map has no journal. The change that
    /// ends at the position is `last`, for whoever needs the changes.
    ///
    /// # Errors
    /// Those of reading a map.
    pub(crate) fn of(
        hold: &Hold,
        map: &Map,
        (at, last): (StreamPosition, Proof),
        prefix: KeyPrefix,
    ) -> Result<Option<Backlog>> {
        let Some(notes) = journal_notes(hold, map.name())? else { return Ok(None) };
        let Some(places) = places::noted(&notes)? else { return Ok(None) };
        let begin = Reached { at, last };
        let runs = Runs::new(hold, notes, map);
        let chain = Chain {
            places,
            runs,
            begin,
            reached: begin,
            file: None,
            later: Vec::new(),
            ended: None,
            damage: None,
        };
        Ok(Some(Backlog {
            map: map.clone(),
            chain,
            is_checked: false,
            is_worthwhile: false,
            prefix,
        }))
    }

    /// Reads on.
    ///
    /// # Errors
    /// `NotFound` if the files do not have all changes; `Damaged`; `Mismatch` if the files are not
    /// this map's; those of files.
    pub(crate) fn next(&mut self) -> Result<Part> {
        if !self.is_checked {
            self.ensure_worthwhile()?;
            let is_at_end = self.chain.read(|_| Ok(false))?;
            if self.is_well_in_stream()? || (is_at_end && self.is_in_stream()?) {
                self.is_checked = true;
                self.chain.begin_again();
            }
            return Ok(Part::Nothing);
        }
        let is_between_files = self.chain.file.is_none();
        if self.is_well_in_stream()? || (is_between_files && self.is_in_stream()?) {
            return Ok(Part::InStream);
        }
        let mut sieve = Sieve { prefix: &self.prefix, passed: None, frames: Vec::new() };
        let before = self.chain.reached.at.offset;
        let is_at_end = self.chain.read(|frame| sieve.put(frame))?;
        let Reached { at, .. } = self.chain.reached;
        if at.offset > before {
            return Ok(Part::Changes(sieve.finish(), at.offset));
        }
        match is_at_end && self.is_in_stream()? {
            true => Ok(Part::InStream),
            false => Ok(Part::Nothing),
        }
    }

    /// Checks that the changes are not many times as large as the map, once.
    fn ensure_worthwhile(&mut self) -> Result<()> {
        if std::mem::replace(&mut self.is_worthwhile, true) {
            return Ok(());
        }
        let changes =
            self.map.follow()?.position().offset.saturating_sub(self.chain.begin.at.offset);
        let stat = self.map.stat()?;
        let map = stat.index_bytes + stat.record_bytes;
        if changes / MOST_OF_MAP <= map {
            return Ok(());
        }
        let text = format!(
            "the missing changes are {changes} bytes, more than {MOST_OF_MAP} times the whole map"
        );
        Err(Error::new(ErrorKind::TooLarge, text))
    }

    /// Whether the stream still has what follows, and the last change is its own.
    ///
    /// # Errors
    /// `Mismatch` if it is another one.
    fn is_in_stream(&self) -> Result<bool> {
        let Reached { at, last } = self.chain.reached;
        match proof_at(self.map.follow()?, at)? {
            None => Ok(false),
            Some(own) if own == last => Ok(true),
            Some(_) => Err(self.chain.of_another_life()),
        }
    }

    /// The same, with so much of the stream before it that the stream will have it for a while.
    fn is_well_in_stream(&self) -> Result<bool> {
        let follower = match self.map.follow_from(self.chain.reached.at) {
            Err(error) if error.kind() == ErrorKind::Lapped => return Ok(false),
            follower => follower?,
        };
        let (lag, most) = follower.lag_bytes()?;
        Ok(lag <= most / 2 && self.is_in_stream()?)
    }
}

/// The changes of all files in order.
struct Chain {
    places: Places,
    runs: Runs,
    begin: Reached,
    reached: Reached,
    file: Option<Reader>,
    /// The files behind it, from the last to the next one.
    later: Vec<PathBuf>,
    /// The last file, and how many bytes it had when it was read to its end.
    ended: Option<(Identity, u64)>,
    /// Where the last file that was read ends too early.
    damage: Option<String>,
}

impl Chain {
    fn begin_again(&mut self) {
        (self.reached, self.file, self.ended) = (self.begin, None, None);
        self.later.clear();
    }

    /// Reads on, until `visit` returns true for a change that follows, or for a bounded number of
    /// bytes. True at the present end of a file.
    fn read(&mut self, mut visit: impl FnMut(&RawFrame<'_>) -> Result<bool>) -> Result<bool> {
        let mut reader = match self.file.take() {
            Some(reader) => reader,
            None => self.open_next()?,
        };
        let limit = reader.sound() + READ;
        let mut is_enough = false;
        while !is_enough && reader.sound() < limit {
            let change = match reader.next()? {
                Some(Entry::Frame(frame)) => frame.change().map(|change| (frame, change.end)),
                Some(_) => None,
                None => return self.pause(reader),
            };
            let Some((frame, end)) = change else { continue };
            let at = self.reached.at.offset;
            if frame.offset >= at {
                // The reader's frames follow one another.
                is_enough = visit(&frame)?;
                self.reached.at.offset = end;
            } else if end == at {
                self.ensure(reader.proof()? == Some(self.reached.last))?;
            } else {
                self.ensure(end < at)?;
            }
        }
        self.note_last(&reader)?;
        self.file = Some(reader);
        Ok(false)
    }

    fn note_last(&mut self, reader: &Reader) -> Result<()> {
        if reader.position() == self.reached.at {
            self.reached.last = reader.proof()?.unwrap_or(self.reached.last);
        }
        Ok(())
    }

    /// At the end of a file: the next call continues there if the file has grown, and otherwise
    /// with the next file.
    fn pause(&mut self, mut reader: Reader) -> Result<bool> {
        self.ensure(self.runs.has(reader.run(), reader.position())?)?;
        self.note_last(&reader)?;
        if reader.follow_growth()? {
            self.file = Some(reader);
            return Ok(true);
        }
        self.ended = Some((reader.identity, reader.bytes()));
        self.damage = (reader.cut_off() > 0)
            .then(|| format!("; {}: byte {} is damaged", reader.path().display(), reader.sound()));
        Ok(true)
    }

    /// Opens the next file. If there is none yet, looks at all files once more: the position may be
    /// in the one that was read to its end, and has grown since.
    fn open_next(&mut self) -> Result<Reader> {
        while let Some(file) = self.later.pop() {
            if let Some(reader) = self.opened(&file)
                && self.has_next(&reader)
            {
                return Ok(reader);
            }
        }
        let mut files = self.files()?;
        while let Some(file) = files.pop() {
            let Some(reader) = self.opened(&file) else { continue };
            if self.has_next(&reader) {
                // Files before it end where it begins, or soon after.
                match self.ended == Some((reader.identity, reader.bytes())) {
                    true => break,
                    false => return Ok(reader),
                }
            }
            self.later.push(file);
        }
        let text = format!(
            "{}: this journal does not have the changes from position {} on{}",
            self.places.file.display(),
            self.reached.at,
            self.damage.as_deref().unwrap_or_default()
        );
        Err(Error::new(ErrorKind::NotFound, text))
    }

    /// The segments in the order of their names, and the present file.
    fn files(&self) -> Result<Vec<PathBuf>> {
        let segments = self.places.archive.segments()?.into_iter().map(|segment| segment.path);
        Ok(segments.chain([self.places.file.clone()]).collect())
    }

    /// `None` if the file is missing or cannot be read.
    fn opened(&mut self, file: &Path) -> Option<Reader> {
        match Reader::open(file) {
            Ok(reader) => Some(reader),
            Err(error) => {
                if !error.is_not_found() {
                    self.damage = Some(format!("; {error}"));
                }
                None
            }
        }
    }

    /// Whether a file may have the changes from the position on. At its beginning, it states the
    /// change before.
    fn has_next(&self, reader: &Reader) -> bool {
        let (begins, Reached { at, last }) = (&reader.welcome, self.reached);
        let is_before = begins.position.offset < at.offset;
        let is_there = begins.position == at && begins.proof == proof_bytes(Some(last));
        begins.position.stream == at.stream && (is_before || is_there)
    }

    fn ensure(&self, is_own: bool) -> Result<()> {
        if is_own { Ok(()) } else { Err(self.of_another_life()) }
    }

    #[cold]
    fn of_another_life(&self) -> Error {
        let text = format!(
            "{}: this journal has other changes than the map up to position {}",
            self.places.file.display(),
            self.reached.at
        );
        Error::new(ErrorKind::Mismatch, text)
    }
}

/// The wanted changes as frames, with a message in the place of others.
struct Sieve<'a> {
    prefix: &'a KeyPrefix,
    passed: Option<Skip>,
    frames: Vec<u8>,
}

impl Sieve<'_> {
    /// Takes a change; true if there are enough.
    fn put(&mut self, frame: &RawFrame<'_>) -> Result<bool> {
        if frame.key.starts_with(self.prefix.bytes()) {
            self.put_passed();
            frame.encode_into(&mut self.frames)?;
        } else {
            self.pass(frame)?;
        }
        Ok(self.frames.len() >= PIECE)
    }

    fn pass(&mut self, frame: &RawFrame<'_>) -> Result<()> {
        let mut bytes = Vec::new();
        frame.encode_into(&mut bytes)?;
        let sum = RawFrame::stated_sum(&bytes).unwrap_or_default();
        let last = Proof { bytes: bytes.len() as u32, sum };
        let from = self.passed.map_or(frame.offset, |passed| passed.from);
        self.passed = Some(Skip { from, to: frame.offset + bytes.len() as u64, last });
        Ok(())
    }

    fn put_passed(&mut self) {
        self.passed.take().iter().for_each(|passed| passed.put(&mut self.frames));
    }

    fn finish(mut self) -> Vec<u8> {
        self.put_passed();
        self.frames
    }
}
