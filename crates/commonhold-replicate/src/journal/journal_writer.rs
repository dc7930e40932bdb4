//! The thread of a journal: writes the stream's changes into the file, and rewrites the file when
//! it has grown.
//!
//! There is always at most one *current* file, which has the journal's path and is a whole map with
//! the later changes. There is at most one *next* file without a name, which is to replace it. Only
//! when the next one is whole and durable does it take the path, in one step. So whenever the
//! system crashes, the file at the path is a whole map up to some position, and that position is
//! not before the last one that was announced as durable.

mod ending;
mod existing;
mod replica;
mod sealing;

use crate::growing_pause::GrowingPause;
use crate::journal::archive::Archive;
use crate::journal::file::{Identity, identity_at};
use crate::journal::file_writer::{FileWriter, WriteFailure, clock_ms};
use crate::journal::places;
use crate::journal::reader::Reader;
use crate::journal::run::{Run, RunId, Runs};
use crate::journal::span::Span;
use crate::journal::target::{OwnPath, Target};
use crate::journal::trust::{ALL, Trust};
use crate::journal::{JournalOptions, JournalStatus, SyncPolicy};
use commonhold::map::Map;
use commonhold::raw::{Incarnation, JournalSlot, incarnation};
use commonhold::stream::StreamPosition;
use commonhold::{Error, ErrorKind, Hold, Result};
use commonhold_io::thread_patience::with_patience;
use std::io;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

/// How often a journal that cannot write tries again.
const RETRY: Duration = Duration::from_secs(1);
/// The longest pause between attempts to write a next file, each of which copies the whole map.
const RENEW_AT_MOST: Duration = Duration::from_secs(30);
/// The longest time until a sync.
const LONGEST: Duration = Duration::from_secs(3600);
/// The pause while the end of a full sync is not known, and the patience of a sweep then.
const SHORT: Duration = Duration::from_millis(1);
/// The most runs that the file at the path may have.
const MOST_AT_PATH: usize = 8;
/// How long a journal's thread waits for a stopped process before it tries again, or ends if its
/// handle requested that.
pub(super) const PATIENCE: Duration = Duration::from_secs(1);

/// See the module.
pub(crate) struct JournalWriter {
    hold: Hold,
    map: Map,
    /// The map that the files are about. The handle may have another one by now, which a full sync
    /// has put in its place.
    recorded: Incarnation,
    path: PathBuf,
    options: JournalOptions,
    slot: JournalSlot,
    trust: Trust,
    run: Run,
    runs: Runs,
    /// The file at the path which may be replaced: the map has all its changes.
    approved: Option<Identity>,
    /// The runs of which one is the last in the file at the path: they stay noted.
    at_path: Vec<RunId>,
    current: Option<FileWriter>,
    next: Option<FileWriter>,
    /// The file at the path before the first one of this writer is there.
    target: Option<Target>,
    /// Where replaced files stay, if they do.
    archive: Option<Archive>,
    /// The times of the file at the path, which is not the current one.
    found_span: Option<(Identity, Span)>,
    /// Old segments are removed at this time.
    expiry_due: Instant,
    /// The time of the clock when the journal began.
    begun: (u64, Instant),
    /// The position with which the current file took the path.
    placed_at: Option<StreamPosition>,
    _own_path: OwnPath,
    /// The number of bytes at which the file is rewritten.
    compact_at: u64,
    sync_due: Instant,
    /// The file is not rewritten before this time.
    renew_at: Instant,
    /// The pause after an attempt to rewrite it that fails.
    renew_pause: GrowingPause,
    retry_at: Option<Instant>,
    /// The current file has taken the path, and that is not announced yet.
    is_unannounced: bool,
    /// The last position that was announced as durable.
    announced: Option<StreamPosition>,
    pub(crate) status: JournalStatus,
}

impl JournalWriter {
    /// Continues the file, if the map's stream has what comes next; otherwise begins a new one
    /// without a name. Begins the map's stream, or changes its size.
    ///
    /// # Errors
    /// `Mismatch` if the file has changes that the map lacks, unless it may be replaced; `Busy` if
    /// another journal writes it; those of files and of beginning a stream.
    pub(crate) fn new(
        hold: &Hold,
        map: Map,
        path: &Path,
        options: JournalOptions,
        slot: JournalSlot,
    ) -> Result<JournalWriter> {
        let status = JournalStatus::new(path, options.sync);
        let trust = Trust::new(slot.notes(), path.to_owned());
        let (runs, recorded) = (Runs::new(hold, slot.notes(), &map), incarnation(&map));
        let own_path = OwnPath::take(path)?;
        let archive = sealing::archive_of(path, &options)?;
        let directory = archive.as_ref().map(|archive| archive.directory.display().to_string());
        let status = JournalStatus { archive: directory, ..status };
        let lineage = replica::lineage_of(hold, &map)?;
        let mut this = JournalWriter {
            hold: hold.clone(),
            map,
            recorded,
            path: path.to_owned(),
            options,
            slot,
            trust,
            run: Run { id: [0; 16], lineage },
            runs,
            approved: None,
            at_path: Vec::new(),
            current: None,
            next: None,
            target: None,
            archive,
            found_span: None,
            expiry_due: Instant::now(),
            begun: (clock_ms(), Instant::now()),
            placed_at: None,
            _own_path: own_path,
            compact_at: 0,
            sync_due: Instant::now(),
            renew_at: Instant::now(),
            renew_pause: GrowingPause::new(RETRY, RENEW_AT_MOST),
            retry_at: None,
            is_unannounced: false,
            announced: None,
            status,
        };
        // Before the stream changes: it has the last change of the file, or not.
        let found = this.existing()?;
        this.ensure_own_archive(found.as_ref().and_then(Reader::times), None)?;
        if this.options.replace {
            // Files in the archive may be another life's.
            this.runs.forget()?;
        }
        this.run.id = this.runs.begin(&this.at_path)?;
        hold.maps().begin_stream(this.map.name(), this.options.stream_bytes)?;
        if let Some(reader) = found {
            this.current = this.resume(reader)?;
            // With its next change, the file gets the new run.
            this.at_path.push(this.run.id);
        }
        if this.current.is_none() {
            this.lock_target()?;
            this.next = Some(FileWriter::begin(hold, &this.map, &this.path, &this.run)?);
        }
        places::note(&this.slot.notes(), path, this.archive.as_ref())?;
        if this.options.sync == SyncPolicy::Never {
            this.slot
                .failed("it runs with --sync never, which makes no change durable on request")?;
        }
        Ok(this)
    }

    /// Continues the file; `None` if only a new one helps.
    fn resume(&mut self, reader: Reader) -> Result<Option<FileWriter>> {
        if reader.position().stream != self.map.follow()?.position().stream {
            return Ok(None);
        }
        let is_trusted = self.trust.len_of(reader.identity)? != Some(0);
        if !is_trusted && self.archive.is_none() {
            return Ok(None);
        }
        let Some(reader) = self.believable(reader)? else { return Ok(None) };
        self.plan(reader.whole_bytes());
        let states_replica = reader.is_of_replica();
        let mut resumed = FileWriter::resume(&self.map, reader, &self.trust, &self.run)?;
        if let Some(track) = &mut resumed {
            track.is_trusted = is_trusted;
            // The map may have been promoted while no journal ran.
            track.is_of_replica |= states_replica;
            self.placed_at = Some(track.progress.position);
            self.take_back_name(track.identity()?);
        }
        match &resumed {
            Some(track) if is_trusted => self.note(track)?,
            _ => {}
        }
        Ok(resumed)
    }

    /// The same file, read as far as it can be trusted; all of it if no byte of it can.
    fn believable(&self, reader: Reader) -> Result<Option<Reader>> {
        let durable = match self.trust.len_of(reader.identity)? {
            Some(durable) if durable != 0 && durable != ALL => durable,
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

    /// Plans the next rewriting: when the file has twice the bytes that it had when it took the
    /// path.
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
        if self.is_rebound() {
            self.follow_replaced_map()?;
        }
        let mut busy = match self.pump_current() {
            Ok(busy) => busy,
            Err(error) => {
                // The next file may be taking the space.
                if self.current.as_ref().is_some_and(|track| !track.progress.gap) {
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
        if let Some(current) = self.current.as_mut().filter(|_| !busy) {
            // Without room for the time, only a state in the past is lost.
            let _ = current.stamp_if_idle();
        }
        self.sync_if_due()?;
        self.expire_if_due();
        self.show();
        Ok(busy)
    }

    /// Whether the current file can take later frames, and make them durable: behind a gap only the
    /// next one can, and the same if another map has taken the place of the recorded one.
    fn goes_on(&self) -> bool {
        let current = self.current.as_ref().filter(|_| !self.is_rebound());
        current.is_some_and(|track| !track.progress.gap && track.is_trusted)
    }

    fn pump_current(&mut self) -> Result<bool> {
        let Some(current) = self.current.as_mut().filter(|track| !track.progress.gap) else {
            return Ok(false);
        };
        match current.pump() {
            Ok(busy) => Ok(busy),
            Err(WriteFailure::Write(error)) => Err(error),
            Err(WriteFailure::Lost(error)) => {
                // If its map is gone, the file ends with all that it has.
                if !self.is_gone() {
                    self.current = None;
                }
                Err(error)
            }
        }
    }

    /// Continues the next file, or begins one if it is needed.
    fn renew(&mut self) -> Result<bool> {
        let wanted = self.current.as_ref().is_none_or(|track| {
            let is_large = track.file.written > self.compact_at;
            let is_of_another = !track.is_trusted || self.was_promoted(track);
            track.progress.gap || is_of_another || is_large || self.is_old(track)
        });
        if self.next.is_none() {
            if !wanted || Instant::now() < self.renew_at {
                return Ok(false);
            }
            // An old copy of the hold does not know this number, wherever the file begins.
            self.run.id = match self.runs.begin(&self.at_path) {
                // A stopped process prevents this note: the current file continues.
                Err(error) if error.kind() == ErrorKind::TimedOut && self.current.is_some() => {
                    self.put_off_next();
                    return Ok(false);
                }
                begun => begun?,
            };
            self.run.lineage = replica::lineage_of(&self.hold, &self.map)?;
            let next = FileWriter::begin(&self.hold, &self.map, &self.path, &self.run)?;
            if self.is_rebound() {
                // The run and the lineage are those of the map before.
                return Ok(true);
            }
            self.next = Some(next);
            self.status.compactions += u64::from(self.current.is_some());
        }
        let Some(next) = &mut self.next else { return Ok(false) };
        let busy = match next.pump() {
            Ok(busy) => busy,
            Err(WriteFailure::Write(error) | WriteFailure::Lost(error)) => return Err(error),
        };
        if next.progress.gap {
            // The full sync may have missed that change: another full sync is needed.
            self.status.rewrite_error = Some(gap_text(next.delivery.too_small()));
            self.next = None;
        }
        self.switch()?;
        Ok(busy)
    }

    /// Drops the next file; the current one continues alone for a while.
    fn put_off_next(&mut self) {
        self.next = None;
        self.renew_at = Instant::now() + self.renew_pause.after_failure();
    }

    /// Moves the next file to the path, if it is whole and not behind the durable position.
    fn switch(&mut self) -> Result<()> {
        let Some(next) = self.next.as_ref().filter(|next| next.is_whole()) else { return Ok(()) };
        // An announced position stays valid when its file is replaced.
        let ahead = |durable: &StreamPosition| {
            let StreamPosition { stream, offset } = next.progress.position;
            durable.stream == stream && durable.offset > offset
        };
        if self.status.durable.as_ref().is_some_and(ahead) || self.would_leave_hole(next) {
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
        let replaces = self.is_own_at_path() || {
            self.lock_target()?;
            self.target.is_some()
        };
        let Some(next) = &mut self.next else { return Ok(()) };
        next.stamp()?;
        next.sync()?;
        if replaces {
            self.seal()?;
        }
        // Whether the move succeeds or not, the previous file can no longer be trusted.
        self.current = None;
        let Some(next) = self.next.take() else { return Ok(()) };
        let file = next.identity()?;
        let placed = next.place(replaces);
        self.note_placed(file);
        let next = placed?;
        (self.target, self.found_span) = (None, None);
        self.placed_at = Some(next.progress.position);
        self.expiry_due = Instant::now();
        self.status.rewrite_error = None;
        self.renew_pause.reset();
        self.plan(next.file.written);
        self.is_unannounced = true;
        self.current = Some(next);
        Ok(())
    }

    /// Keeps the run of a file that was to take the path: it may be there although its directory
    /// could not be synced.
    fn note_placed(&mut self, file: Identity) {
        match identity_at(&self.path) {
            Ok(there) if there == file => self.at_path = vec![self.run.id],
            Ok(_) => {}
            Err(error) if error.kind() == io::ErrorKind::NotFound => {}
            // It cannot be known.
            Err(_) if self.at_path.len() < MOST_AT_PATH => self.at_path.push(self.run.id),
            Err(_) => {}
        }
    }

    /// Whether the file at the path is this writer's, or one that it has locked.
    fn is_own_at_path(&self) -> bool {
        let locked = self.target.as_ref().map(|target| target.identity);
        match &self.current {
            Some(current) => current.file.is_at(&self.path),
            None => locked.is_some() && identity_at(&self.path).ok() == locked,
        }
    }

    fn sync_if_due(&mut self) -> Result<()> {
        self.distrust_file_of_replica();
        if self.is_unannounced {
            // Durable since it took the path, whichever policy applies.
            self.announce()?;
        }
        if self.status.error.is_some() && !self.goes_on() {
            // The journal is sound again only with the next file.
            return Ok(());
        }
        let current = self.current.as_mut().filter(|track| track.is_trusted);
        let Some(current) = current else { return Ok(()) };
        let due = match self.options.sync {
            SyncPolicy::Always => true,
            SyncPolicy::Every(_) => Instant::now() >= self.sync_due,
            SyncPolicy::Never => {
                // The file can be written again, and nothing more is promised.
                self.status.error = None;
                false
            }
        };
        let is_new = self.announced != Some(current.progress.position)
            || current.file.synced < current.file.written;
        if !due || !(is_new || self.status.error.is_some()) {
            return self.check_place();
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
        self.check_place()?;
        let Some(current) = &self.current else { return Ok(()) };
        let Some(durable) = current.synced.filter(|_| !self.is_rebound()) else { return Ok(()) };
        // A later writer must find in the file everything that is announced now.
        self.note(current)?;
        if self.options.sync != SyncPolicy::Never {
            // First: others may read it although the call that announces it fails.
            self.status.durable = Some(durable);
            self.slot.file(&self.path, current.identity()?)?;
            self.slot.durable(&self.map, durable)?;
            self.announced = Some(durable);
        }
        self.status.error = None;
        self.is_unannounced = false;
        Ok(())
    }

    /// Checks that the current file is at its path, and answers those who have asked.
    ///
    /// # Errors
    /// `Io` if it is not.
    fn check_place(&mut self) -> Result<()> {
        let Some(current) = &self.current else { return Ok(()) };
        let question = self.slot.question()?;
        if !current.file.is_at(&self.path) {
            let text = format!(
                "{}: this journal was deleted, moved away or replaced; a new file begins",
                self.path.display()
            );
            self.current = None;
            return Err(Error::new(ErrorKind::Io, text));
        }
        question.map_or(Ok(()), |question| self.slot.answer(question))
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
        let has_ended = matches!(error.kind(), ErrorKind::NotFound | ErrorKind::Closed);
        if has_ended && self.follow_replaced_map().unwrap_or(false) {
            return Ok(());
        }
        self.status.error = Some(error.to_string());
        if error.kind() != ErrorKind::TimedOut {
            // If that cannot be announced either, the next attempt announces it.
            let _ = self.slot.failed(&error.to_string());
        }
        if has_ended && self.map.len().is_err() {
            return Err(error);
        }
        // Each attempt to write a next file copies the whole map.
        let is_copy = !self.goes_on() && error.kind() != ErrorKind::TimedOut;
        let pause = if is_copy { self.renew_pause.after_failure() } else { RETRY };
        self.retry_at = Some(Instant::now() + pause);
        Ok(())
    }
}

#[cold]
fn gap_text(too_small: Option<&Error>) -> String {
    let why = too_small.map_or(String::new(), |error| format!(": {error}"));
    format!("a change is too large for the map's stream, which could not be made larger{why}")
}

#[cfg(test)]
mod tests;
