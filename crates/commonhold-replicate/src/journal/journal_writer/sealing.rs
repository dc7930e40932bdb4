//! The history of a map: a file that the next one replaces stays as a segment in the archive.
//!
//! Each segment is a whole map with the changes up to a position that is not before the position
//! from which on the next file is a whole map. So there is no hole between them.

use super::JournalWriter;
use crate::journal::JournalOptions;
use crate::journal::archive::Archive;
use crate::journal::file::{Identity, failed, identity_at};
use crate::journal::file_writer::{FileWriter, clock_ms};
use crate::journal::owner::Owner;
use crate::journal::span::Span;
use crate::journal::survey::inspect;
use commonhold::{ErrorKind, Result};
use std::io;
use std::path::Path;
use std::time::{Duration, Instant};

/// How often old segments are removed while no file is sealed.
const EXPIRE_EVERY: Duration = Duration::from_secs(60);

/// The archive of a journal that keeps earlier states.
///
/// # Errors
/// Those of [`Archive::prepare`].
pub(super) fn archive_of(path: &Path, options: &JournalOptions) -> Result<Option<Archive>> {
    if options.keep.is_none() {
        return Ok(None);
    }
    let archive = Archive::of(path, options.archive.as_deref());
    archive.prepare(path)?;
    Ok(Some(archive))
}

impl JournalWriter {
    /// Whether the current file has been the journal's file for so long that the next one is due.
    pub(super) fn is_old(&self, current: &FileWriter) -> bool {
        let Some(span) = current.stamps.span.filter(|_| self.archive.is_some()) else {
            return false;
        };
        let most = u64::try_from(self.options.segment_time.as_millis()).unwrap_or(u64::MAX);
        let is_unchanged = self.placed_at == Some(current.progress.position);
        !is_unchanged && clock_ms().saturating_sub(span.first_ms) >= most
    }

    /// Whether the current file still lacks changes that are in the next file's whole map.
    pub(super) fn would_leave_hole(&self, next: &FileWriter) -> bool {
        let current = self.current.as_ref().filter(|track| !track.progress.gap);
        self.archive.is_some()
            && current.is_some_and(|current| {
                let (has, wanted) = (current.progress.position, next.progress);
                has.stream == wanted.position.stream && Some(has.offset) < wanted.end
            })
    }

    /// Notes the times of the file at the path, which nobody writes now, before it is locked:
    /// closing a file releases the lock.
    ///
    /// # Errors
    /// Those of reading files.
    pub(super) fn note_span(&mut self) -> Result<()> {
        self.found_span = None;
        if self.archive.is_none() {
            return Ok(());
        }
        let there = match identity_at(&self.path) {
            Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(()),
            there => there.map_err(|e| failed(&self.path, "cannot be examined", &e))?,
        };
        match inspect(&self.path) {
            Ok(contents) => self.found_span = contents.times.map(|span| (there, span)),
            // It is not a journal, and may be replaced all the same.
            Err(error) if error.kind() == ErrorKind::Damaged => {}
            Err(error) => return Err(error),
        }
        Ok(())
    }

    fn owner(&self) -> Owner {
        Owner::new(self.map.name(), &self.run.lineage)
    }

    /// Checks that no other map's journal keeps segments of the same names in the archive, since a
    /// file with these times began. The file `open` is not read: closing it would release its lock.
    ///
    /// # Errors
    /// `Mismatch` if one does, unless `replace` is set; those of files.
    pub(super) fn ensure_own_archive(
        &self,
        file: Option<Span>,
        open: Option<Identity>,
    ) -> Result<()> {
        match self.archive.as_ref().filter(|_| !self.options.replace) {
            Some(archive) => {
                archive.ensure_own(&self.owner(), file.map(|span| span.first_ms), open)
            }
            None => Ok(()),
        }
    }

    /// Keeps the file at the path as a segment, if it has a state with a time.
    ///
    /// # Errors
    /// Those of files: the file stays at the path.
    pub(super) fn seal(&mut self) -> Result<()> {
        let Some(archive) = self.archive.clone() else { return Ok(()) };
        let there = match identity_at(&self.path) {
            Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(()),
            there => there.map_err(|e| failed(&self.path, "cannot be examined", &e))?,
        };
        let own = self.current.as_ref().map(FileWriter::identity).transpose()?;
        let span = match own == Some(there) {
            true => self.conclude_current()?,
            false => self.found_span.filter(|(of, _)| *of == there).map(|(_, span)| span),
        };
        let Some(span) = span else { return Ok(()) };
        self.ensure_own_archive(Some(span), Some(there))?;
        archive.seal(&self.path, there, span)?;
        self.status.segments += 1;
        Ok(())
    }

    /// Makes the current file durable, with the time of its last changes.
    fn conclude_current(&mut self) -> Result<Option<Span>> {
        let Some(current) = &mut self.current else { return Ok(None) };
        if let Err(error) = current.conclude() {
            // As after any failed sync.
            self.current = None;
            return Err(error);
        }
        Ok(current.stamps.span)
    }

    /// Takes the name in the archive from the file that this journal continues: another one was
    /// ended after it had sealed the file, and before the next file had the path.
    pub(super) fn take_back_name(&mut self, file: Identity) {
        let Some(archive) = &self.archive else { return };
        // Otherwise the file gets the right name when it is sealed.
        let taken = archive.take_names(file, None);
        self.status.archive_error = taken.err().map(|error| error.to_string());
    }

    /// The time of the clock. If the clock was set forward since the journal began, the time as it
    /// would be without that: a wrong clock must not remove the history.
    fn steady_ms(&self) -> u64 {
        let (begun_ms, begun) = self.begun;
        let passed = u64::try_from(begun.elapsed().as_millis()).unwrap_or(u64::MAX);
        clock_ms().min(begun_ms.saturating_add(passed))
    }

    /// Removes segments that are older than they have to be kept.
    pub(super) fn expire_if_due(&mut self) {
        let (Some(archive), Some(keep)) = (&self.archive, self.options.keep) else { return };
        if Instant::now() < self.expiry_due {
            return;
        }
        self.expiry_due = Instant::now() + EXPIRE_EVERY;
        let keep_ms = u64::try_from(keep.as_millis()).unwrap_or(u64::MAX);
        let span = self.current.as_ref().and_then(|current| current.stamps.span);
        let limit_ms = self.steady_ms().saturating_sub(keep_ms);
        let target = self.target.as_ref().map(|target| target.identity);
        let current = self.current.as_ref().and_then(|current| current.identity().ok());
        let open = current.or(target);
        let present = span.map(|span| span.first_ms);
        let expired = archive.expire(&self.owner(), limit_ms, present, open);
        self.status.archive_error = expired.err().map(|error| error.to_string());
    }
}
