//! The thread of a journal: writes the stream's changes into the file, and rewrites the file when
//! it has grown.
//!
//! There is always at most one *current* file, which has the journal's path and is a whole map with
//! the later changes. There is at most one *next* file without a name, which is to replace it. Only
//! when the next one is whole and durable does it take the path, in one step. So whenever the
//! system crashes, the file at the path is a whole map up to some position, and that position is
//! not before the last one that was announced as durable.

use crate::journal::file::Reader;
use crate::journal::file_writer::{FileWriter, WriteFailure};
use crate::journal::rebuild::was_rebuilt_from;
use crate::journal::trust::{ALL, Trust};
use crate::journal::{JournalOptions, JournalStatus, SyncPolicy};
use commonhold::map::Map;
use commonhold::raw::JournalSlot;
use commonhold::stream::StreamPosition;
use commonhold::{Error, ErrorKind, Hold, Result};
use commonhold_io::thread_patience::with_patience;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

/// How often a journal that cannot write tries again.
const RETRY: Duration = Duration::from_secs(1);
/// The longest time until a sync.
const LONGEST: Duration = Duration::from_secs(3600);
/// The pause while the end of a full sync is not known, and the patience of a sweep then.
const SHORT: Duration = Duration::from_millis(1);
/// How long a journal's thread waits for a stopped process before it tries again, or ends if its
/// handle requested that.
pub(super) const PATIENCE: Duration = Duration::from_secs(1);

/// See the module.
pub(crate) struct JournalWriter {
    hold: Hold,
    map: Map,
    path: PathBuf,
    options: JournalOptions,
    slot: JournalSlot,
    trust: Trust,
    current: Option<FileWriter>,
    next: Option<FileWriter>,
    /// The number of bytes at which the file is rewritten.
    compact_at: u64,
    sync_due: Instant,
    /// The file is not rewritten before this time.
    renew_at: Instant,
    retry_at: Option<Instant>,
    /// The current file has taken the path, and that is not announced yet.
    is_unannounced: bool,
    /// The last position that was announced as durable.
    announced: Option<StreamPosition>,
    pub(crate) status: JournalStatus,
}

impl JournalWriter {
    /// Continues the file, if it is of this map's stream; otherwise begins a new one without a
    /// name.
    ///
    /// # Errors
    /// `Mismatch` if the file is of another stream, unless it may be replaced; those of files.
    pub(crate) fn new(
        hold: &Hold,
        map: Map,
        path: &Path,
        options: JournalOptions,
        slot: JournalSlot,
    ) -> Result<JournalWriter> {
        let status = JournalStatus::new(path, options.sync);
        let trust = Trust::new(slot.notes(), path.to_owned());
        let mut this = JournalWriter {
            hold: hold.clone(),
            map,
            path: path.to_owned(),
            options,
            slot,
            trust,
            current: None,
            next: None,
            compact_at: 0,
            sync_due: Instant::now(),
            renew_at: Instant::now(),
            retry_at: None,
            is_unannounced: false,
            announced: None,
            status,
        };
        this.current = this.existing()?;
        if this.current.is_none() {
            this.next = Some(FileWriter::begin(&this.map, &this.path)?);
        }
        if this.options.sync == SyncPolicy::Never {
            this.slot
                .failed("it runs with --sync never, which makes no change durable on request")?;
        }
        Ok(this)
    }

    fn existing(&mut self) -> Result<Option<FileWriter>> {
        let mut reader = match Reader::open(&self.path) {
            Ok(reader) => reader,
            Err(error) if error.is_not_found() || self.options.replace => return Ok(None),
            Err(error) => return Err(error),
        };
        let (stream, from) = (self.map.follow()?.position().stream, reader.welcome.position.stream);
        if from != stream {
            let known = was_rebuilt_from(&self.hold, self.map.name(), stream, from)?;
            return match known || self.options.replace {
                true => Ok(None),
                false => Err(self.of_another_life()),
            };
        }
        while reader.next()?.is_some() {}
        // Old contents of a file hold that were restored keep the stream's number, and the notes of
        // their time.
        let is_ahead = reader.position.offset > self.map.follow()?.end()?.offset;
        if is_ahead && !self.options.replace {
            return Err(self.of_another_life());
        }
        let Some(reader) = self.believable(reader)? else { return Ok(None) };
        self.plan(reader.whole_bytes());
        let resumed = FileWriter::resume(&self.map, reader, &self.trust)?;
        if let Some(track) = &resumed {
            self.note(track)?;
        }
        Ok(resumed)
    }

    /// The same file, read as far as it can be trusted; `None` if no byte of it can.
    fn believable(&self, reader: Reader) -> Result<Option<Reader>> {
        let durable = match self.trust.len_of(reader.identity)? {
            Some(0) => return Ok(None),
            Some(durable) if durable != ALL => durable,
            _ => return Ok(Some(reader)),
        };
        let mut again = Reader::open(&self.path)?;
        if again.identity != reader.identity {
            return Ok(None);
        }
        again.trust_only(durable);
        while again.next()?.is_some() {}
        Ok(Some(again))
    }

    /// Notes how many bytes of the file at the path a later writer may trust: all of them, if
    /// nothing is synced.
    fn note(&self, track: &FileWriter) -> Result<()> {
        let len = match self.options.sync {
            SyncPolicy::Never => ALL,
            _ => track.file.synced,
        };
        self.trust.note(track.identity()?, len)
    }

    #[cold]
    fn of_another_life(&self) -> commonhold::Error {
        let text = format!(
            "{}: this journal does not belong to the present map '{}'; rebuild the map from it, \
             or move it away",
            self.path.display(),
            self.map.name()
        );
        commonhold::Error::new(ErrorKind::Mismatch, text)
    }

    /// Plans the next rewriting: when the file has twice the bytes that it had when it took the
    /// path.
    /// journal.
    fn plan(&mut self, then: u64) {
        self.compact_at = then.saturating_mul(2).max(self.options.compact_bytes);
    }

    /// Works if there is something to do; otherwise sleeps up to `time`.
    ///
    /// # Errors
    /// `NotFound` if the map was dropped: the journal ends.
    pub(crate) fn turn(&mut self, time: Duration) -> Result<()> {
        if let Some(at) = self.retry_at {
            let left = at.saturating_duration_since(Instant::now());
            std::thread::sleep(left.min(time));
            if !left.is_zero() {
                return Ok(());
            }
            self.retry_at = None;
        }
        match self.work() {
            Ok(true) => Ok(()),
            Ok(false) => self.wait(time),
            Err(error) => self.cope(error),
        }
    }

    /// Returns an error of the current file, or, if there is none, of the next.
    fn work(&mut self) -> Result<bool> {
        let mut busy = match self.pump_current() {
            Ok(busy) => busy,
            Err(error) => {
                // The next file may be taking the space.
                if self.current.is_some() {
                    self.put_off_next();
                }
                return Err(error);
            }
        };
        match self.renew() {
            Ok(more) => busy |= more,
            Err(error) if !self.goes_on() => {
                self.next = None;
                return Err(error);
            }
            // The current file is intact: only time is lost.
            Err(error) => {
                self.status.rewrite_error = Some(error.to_string());
                self.put_off_next();
            }
        }
        self.sync_if_due()?;
        self.show();
        Ok(busy)
    }

    /// Whether the current file can take later frames: behind a gap only the next one can.
    fn goes_on(&self) -> bool {
        self.current.as_ref().is_some_and(|track| !track.progress.gap)
    }

    fn pump_current(&mut self) -> Result<bool> {
        let Some(current) = self.current.as_mut().filter(|track| !track.progress.gap) else {
            return Ok(false);
        };
        match current.pump() {
            Ok(busy) => Ok(busy),
            Err(WriteFailure::Write(error)) => Err(error),
            Err(WriteFailure::Lost(error)) => {
                self.current = None;
                Err(error)
            }
        }
    }

    /// Continues the next file, or begins one if it is needed.
    fn renew(&mut self) -> Result<bool> {
        let wanted = self
            .current
            .as_ref()
            .is_none_or(|track| track.progress.gap || track.file.written > self.compact_at);
        if self.next.is_none() {
            if !wanted || Instant::now() < self.renew_at {
                return Ok(false);
            }
            self.next = Some(FileWriter::begin(&self.map, &self.path)?);
            self.status.compactions += u64::from(self.current.is_some());
        }
        let Some(next) = &mut self.next else { return Ok(false) };
        let busy = match next.pump() {
            Ok(busy) => busy,
            Err(WriteFailure::Write(error) | WriteFailure::Lost(error)) => return Err(error),
        };
        if next.progress.gap {
            // The full sync may have missed that change: another full sync is needed.
            self.next = None;
        }
        self.switch()?;
        Ok(busy)
    }

    /// Drops the next file; the current one continues alone for a while.
    fn put_off_next(&mut self) {
        self.next = None;
        self.renew_at = Instant::now() + RETRY;
    }

    /// Moves the next file to the path, if it is whole and not behind the durable position.
    fn switch(&mut self) -> Result<()> {
        let Some(next) = self.next.as_mut().filter(|next| next.is_whole()) else { return Ok(()) };
        // An announced position stays valid when its file is replaced.
        let ahead = |durable: &StreamPosition| {
            let StreamPosition { stream, offset } = next.progress.position;
            durable.stream == stream && durable.offset > offset
        };
        if self.status.durable.as_ref().is_some_and(ahead) {
            return Ok(());
        }
        let file = next.identity()?;
        // Before anything else: if a stopped process prevents this note, both files continue. No
        // byte of the next one is trusted before its path is durable as well.
        match self.trust.note(file, 0) {
            Err(error) if error.kind() == ErrorKind::TimedOut => return Ok(()),
            noted => noted?,
        }
        // If removing the note fails, too, it stays until it is the oldest one.
        self.place_next().inspect_err(|_| drop(self.trust.forget(file)))
    }

    /// The next file becomes durable and takes the path.
    fn place_next(&mut self) -> Result<()> {
        let Some(next) = &mut self.next else { return Ok(()) };
        next.sync()?;
        // Whether the move succeeds or not, the previous file can no longer be trusted.
        self.current = None;
        let Some(next) = self.next.take() else { return Ok(()) };
        let next = next.place()?;
        self.status.rewrite_error = None;
        self.plan(next.file.written);
        self.is_unannounced = true;
        self.current = Some(next);
        Ok(())
    }

    fn sync_if_due(&mut self) -> Result<()> {
        if self.is_unannounced {
            // Durable since it took the path, whichever policy applies.
            self.announce()?;
        }
        if self.status.error.is_some() && !self.goes_on() {
            // The journal is sound again only with the next file.
            return Ok(());
        }
        let Some(current) = &mut self.current else { return Ok(()) };
        let due = match self.options.sync {
            SyncPolicy::Always => true,
            SyncPolicy::Every(_) => Instant::now() >= self.sync_due,
            SyncPolicy::Never => false,
        };
        let is_new = self.announced != Some(current.progress.position);
        if !due || !(is_new || self.status.error.is_some()) {
            return Ok(());
        }
        if let Err(error) = current.sync() {
            // Frames written since the last sync may be lost, and another sync would not report
            // that: only a new file helps.
            self.current = None;
            return Err(error);
        }
        if let SyncPolicy::Every(time) = self.options.sync {
            self.sync_due = Instant::now() + time.min(LONGEST);
        }
        self.announce()
    }

    fn announce(&mut self) -> Result<()> {
        let Some(current) = &self.current else { return Ok(()) };
        if !current.file.is_at(&self.path) {
            let text = format!("{}: this journal was moved away or replaced", self.path.display());
            self.current = None;
            return Err(Error::new(ErrorKind::Io, text));
        }
        let Some(durable) = current.synced else { return Ok(()) };
        // A later writer must find in the file everything that is announced now.
        self.note(current)?;
        if self.options.sync != SyncPolicy::Never {
            // First: others may read it although the call that announces it fails.
            self.status.durable = Some(durable);
            self.slot.durable(durable)?;
            self.announced = Some(durable);
        }
        self.status.error = None;
        self.is_unannounced = false;
        Ok(())
    }

    fn show(&mut self) {
        if let Some(track) = self.current.as_ref().or(self.next.as_ref()) {
            self.status.position = Some(track.progress.position);
            self.status.bytes = track.file.written;
        }
    }

    fn wait(&mut self, time: Duration) -> Result<()> {
        let unsynced = self
            .current
            .as_ref()
            .is_some_and(|track| track.synced != Some(track.progress.position));
        let time = match self.options.sync {
            SyncPolicy::Every(_) if unsynced => {
                let due = self.sync_due.saturating_duration_since(Instant::now());
                time.min(due.max(Duration::from_millis(1)))
            }
            _ => time,
        };
        let whole = self.current.as_ref().filter(|track| !track.progress.gap);
        match whole.or(self.next.as_ref()) {
            Some(track) if track.delivery.is_end_due() => {
                // A change is being made, perhaps by a process that has died.
                std::thread::sleep(SHORT);
                // If that fails, the next process that meets the dead one recovers its change.
                let _ = with_patience(SHORT, || self.hold.sweep());
                Ok(())
            }
            Some(track) => match track.delivery.wait(time) {
                Ok(_) => Ok(()),
                Err(error) => self.cope(error),
            },
            None => {
                std::thread::sleep(time);
                Ok(())
            }
        }
    }

    /// Reports an error and reacts to it: begins a new file if the stream no longer has the next
    /// frames, and otherwise tries again later.
    fn cope(&mut self, error: Error) -> Result<()> {
        if error.kind() == ErrorKind::Lapped {
            self.current = None;
            self.next = None;
            return Ok(());
        }
        self.status.error = Some(error.to_string());
        if error.kind() != ErrorKind::TimedOut {
            // If that cannot be announced either, the next attempt announces it.
            let _ = self.slot.failed(&error.to_string());
        }
        if matches!(error.kind(), ErrorKind::NotFound | ErrorKind::Closed)
            && self.map.len().is_err()
        {
            return Err(error);
        }
        self.retry_at = Some(Instant::now() + RETRY);
        Ok(())
    }

    /// Writes all frames into the file, and makes it durable.
    ///
    /// # Errors
    /// The reason why not everything is durable.
    pub(crate) fn finish(&mut self) -> Result<()> {
        // The cause of the last error may have ended.
        self.retry_at = None;
        let follower = self.map.follow()?;
        let (end, blocked) = match follower.end() {
            // A writer is stopped in the middle of a change. All changes before it are written.
            Err(error) if error.kind() == ErrorKind::TimedOut => {
                (follower.position().offset, Some(error))
            }
            end => (end?.offset, None),
        };
        let is_all = self.come_to(end)?;
        if let Some(track) = &mut self.current {
            self.trust.note(track.identity()?, track.file.synced)?;
            track.sync()?;
        }
        match self.status.error.take() {
            Some(why) if !is_all => Err(Error::new(ErrorKind::Io, why)),
            _ if !is_all => Err(self.not_all()),
            _ => self.announce(),
        }?;
        blocked.map_or(Ok(()), Err)
    }

    /// Works until the current file has reached an offset; true if it has. Stops after an error,
    /// and when neither file has grown for [`PATIENCE`].
    fn come_to(&mut self, end: u64) -> Result<bool> {
        let there = |track: &FileWriter| track.progress.position.offset >= end;
        let mut moved = (self.bytes(), Instant::now());
        loop {
            let current = self.current.as_ref().filter(|track| !track.progress.gap);
            if current.is_some_and(there) {
                return Ok(true);
            }
            if moved.0 != self.bytes() {
                moved = (self.bytes(), Instant::now());
            }
            // Until then the next file does not even begin.
            let waits_since = moved.1.max(self.renew_at);
            if self.retry_at.is_some() || waits_since.elapsed() > PATIENCE {
                return Ok(false);
            }
            self.turn(Duration::from_millis(10))?;
        }
    }

    /// The lengths of both files.
    fn bytes(&self) -> [Option<u64>; 2] {
        [&self.current, &self.next].map(|track| track.as_ref().map(|track| track.file.written))
    }

    #[cold]
    fn not_all(&self) -> Error {
        let text = format!(
            "{}: expected all changes up to the end of the map's stream in this journal; a process \
             is stopped in the middle of a change; continue it, and start the journal again",
            self.path.display()
        );
        Error::new(ErrorKind::TimedOut, text)
    }
}

#[cfg(test)]
mod tests;
