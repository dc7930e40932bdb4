//! The file that a journal finds at its path: whether the map has all its changes, so that it may
//! be continued or replaced.

use super::JournalWriter;
use crate::journal::damaged_file::keep_damaged;
use crate::journal::file::{Identity, identity_at};
use crate::journal::reader::Reader;
use crate::journal::survey::survey;
use crate::journal::target::Target;
use commonhold::raw::proof_at;
use commonhold::{ErrorKind, Result};

/// How often the file at the path may be another one when it is locked.
const MOST_CHANGED: u32 = 10;

impl JournalWriter {
    /// The file at the path, which the map has all changes of; `None` if there is none, or if it is
    /// not to be continued.
    ///
    /// # Errors
    /// `Mismatch` if the map lacks changes of it.
    pub(super) fn existing(&mut self) -> Result<Option<Reader>> {
        if self.options.replace {
            return Ok(None);
        }
        let (reader, contents) = match survey(&self.path) {
            Ok(found) => found,
            Err(error) if error.is_not_found() => return Ok(None),
            Err(error) => return Err(error),
        };
        let is_damaged = !contents.damage.is_empty();
        // A damaged file stays, whatever is in it.
        let is_lost = is_damaged && reader.run() == [0; 16];
        let is_own =
            || Ok(self.runs.has(reader.run(), reader.position())? && self.agrees(&reader)?);
        let is_own = is_lost || is_own()?;
        let may_replace = is_own || self.is_superseded(&reader)?;
        if may_replace {
            self.approved = Some(reader.identity);
            self.at_path = vec![reader.run()];
        }
        match may_replace {
            false => Err(self.of_another_life()),
            true if is_damaged => self.keep_damaged().map(|()| None),
            true if !is_own => Ok(None),
            true => Ok(Some(reader)),
        }
    }

    /// Whether the last change of a file is the map's, as far as the map's stream has it: contents
    /// of a hold that were copied in the middle of a run know that run.
    fn agrees(&self, reader: &Reader) -> Result<bool> {
        let position = reader.position();
        let follower = match self.map.follow() {
            Err(error) if error.is_not_found() => return Ok(true),
            follower => follower?,
        };
        if follower.position().stream != position.stream {
            return Ok(true);
        }
        match self.map.follow_from(position) {
            Err(error) if error.kind() == ErrorKind::Mismatch => {
                // Or another process has just changed the stream's size.
                return Ok(self.map.follow()?.position().stream != position.stream);
            }
            Err(error) if error.kind() != ErrorKind::Lapped => return Err(error),
            _ => {}
        }
        let proofs = reader.proof()?.zip(proof_at(follower, position)?);
        Ok(proofs.is_none_or(|(its, own)| its == own))
    }

    /// Keeps the damaged file at the path under another name until a new one, which contains the
    /// whole map, takes its place.
    pub(super) fn keep_damaged(&mut self) -> Result<()> {
        let kept = keep_damaged(&self.path)?;
        self.status.damaged_file = Some(kept.display().to_string());
        Ok(())
    }

    /// Locks the file at the path, if there is one. The map has all changes of it: another journal
    /// may have put it there since this one began.
    ///
    /// # Errors
    /// `Busy` if another journal writes it; `Mismatch` if the map lacks changes of it.
    pub(super) fn lock_target(&mut self) -> Result<()> {
        for _ in 0..MOST_CHANGED {
            // First: closing it releases the lock that is taken below, if the file is the same.
            self.target = None;
            self.note_span()?;
            // It is read before it is locked: closing a file releases all locks that the process
            // has on it.
            if identity_at(&self.path).is_ok_and(|there| !self.may_replace(there)) {
                self.existing()?;
            }
            let target = Target::lock(&self.path)?;
            if target.as_ref().is_none_or(|target| self.may_replace(target.identity)) {
                self.target = target;
                return Ok(());
            }
        }
        Err(self.of_another_life())
    }

    fn may_replace(&self, file: Identity) -> bool {
        self.options.replace || self.approved == Some(file)
    }

    #[cold]
    fn of_another_life(&self) -> commonhold::Error {
        let text = format!(
            "{}: this journal does not belong to the present map '{}': it is another map's, or \
             has changes that the map lacks; rebuild the map from it (--rebuild), move it away, or \
             discard it (--replace)",
            self.path.display(),
            self.map.name()
        );
        commonhold::Error::new(ErrorKind::Mismatch, text)
    }
}
