//! The journal of a replica's map, which its replica writes.
//!
//! A full sync puts another map in the place of the one that is recorded, in one step. The journal
//! continues with that map, in a new file: the changes between both are not known. The map is
//! always one that the origin had, and the file is a copy of the replica, not the other way round.
//! So a file of the same lineage may be replaced by one of the present map, although the map never
//! had some of its states.

use super::JournalWriter;
use crate::journal::file_writer::FileWriter;
use crate::journal::reader::Reader;
use crate::journal::run::{Run, Runs};
use crate::lineage;
use crate::protocol::introduction::Lineage;
use crate::replica::position::{bounds, has_replaced};
use commonhold::map::Map;
use commonhold::raw::incarnation;
use commonhold::stream::StreamPosition;
use commonhold::{Error, ErrorKind, Hold, Result};

/// The lineage that a file states: with the path from the origin if the map is a replica's.
///
/// # Errors
/// Those of reading and writing the hold.
pub(super) fn lineage_of(hold: &Hold, map: &Map) -> Result<Lineage> {
    let lineage = lineage::of_origin(hold, map.name())?;
    Ok(match map.is_replica() {
        true => lineage,
        false => Lineage { path: Vec::new(), ..lineage },
    })
}

impl JournalWriter {
    /// Whether the file is one of this replica, in an earlier state of the origin's map.
    ///
    /// # Errors
    /// `Mismatch` if the file is ahead of the map, or if that is not known; those of reading the
    /// hold.
    pub(super) fn is_superseded(&self, reader: &Reader) -> Result<bool> {
        let (Some(its), own) = (reader.lineage(), &self.run.lineage) else { return Ok(false) };
        let is_older = its.is_of_replica() && its.id == own.id && its.epoch <= own.epoch;
        if !(self.map.is_replica() && is_older) {
            return Ok(false);
        }
        let (file, name) = (reader.position(), self.map.name());
        let own = match self.map.follow() {
            Err(error) if error.is_not_found() => None,
            follower => Some(follower?.position()),
        };
        // In the stream of the origin, as far as everything is applied.
        let applied = match bounds(&self.hold, name) {
            Err(error) if error.is_not_found() => None,
            bounds => bounds?.map(|(applied, _)| applied),
        };
        let mut present = [own, applied].into_iter().flatten();
        if let Some(present) = present.clone().find(|present| present.stream == file.stream) {
            return match present.offset >= file.offset {
                true => Ok(true),
                false => Err(self.not_superseded(file, Some(present))),
            };
        }
        let by = own.map(|own| own.stream);
        match by.map_or(Ok(false), |by| has_replaced(&self.hold, name, file.stream, by))? {
            true => Ok(true),
            false => Err(self.not_superseded(file, present.next())),
        }
    }

    #[cold]
    fn not_superseded(&self, file: StreamPosition, present: Option<StreamPosition>) -> Error {
        let is_same = present.is_some_and(|present| present.stream == file.stream);
        let present = present.map_or("no position".to_owned(), |present| present.to_string());
        let why = match is_same {
            true => "so the map lacks changes of the file; wait until the replica has caught up",
            false => {
                "and positions of different streams cannot be compared, so the map may lack \
                 changes of the file; move the file away"
            }
        };
        let text = format!(
            "{}: this journal of the replica '{}' ends at {file}, and the map is at {present}, \
             {why}, or replace the file (--replace)",
            self.path.display(),
            self.map.name()
        );
        Error::new(ErrorKind::Mismatch, text)
    }

    /// Whether the map was promoted since the file began.
    pub(super) fn was_promoted(&self, current: &FileWriter) -> bool {
        current.is_of_replica && !self.map.is_replica()
    }

    /// Confirms nothing more in the file of a replica whose map was promoted: the file states that
    /// the replica brings the map, so it would not be rebuilt from the file, and the file may be
    /// replaced. Everything is durable again with the next file, which begins at once.
    pub(super) fn distrust_file_of_replica(&mut self) {
        if self.current.as_ref().is_some_and(|current| self.was_promoted(current)) {
            self.current.iter_mut().for_each(|current| current.is_trusted = false);
        }
    }

    /// Whether the handle continues with a map that a full sync has put in the place of the
    /// recorded one: any call that reads the map may have found it.
    pub(super) fn is_rebound(&self) -> bool {
        incarnation(&self.map) != self.recorded
    }

    /// Whether the recorded map was dropped, or another one has taken its place.
    pub(super) fn is_gone(&self) -> bool {
        let present = self.hold.maps().open(self.map.name());
        present.map_or(true, |map| incarnation(&map) != self.recorded)
    }

    /// Continues with the map that a full sync has put in the place of the recorded one; false if
    /// there is none.
    ///
    /// # Errors
    /// Those of files, and of reading and writing the hold.
    pub(super) fn follow_replaced_map(&mut self) -> Result<bool> {
        // Otherwise the map was dropped, or is being dropped.
        let Ok(map) = self.hold.maps().open(self.map.name()) else { return Ok(false) };
        // The old handle has another map only if that has taken its place.
        if incarnation(&map) == self.recorded || self.map.len().is_err() {
            return Ok(false);
        }
        let runs = Runs::new(&self.hold, self.slot.notes(), &map);
        let lineage = lineage_of(&self.hold, &map)?;
        let id = runs.begin(&self.at_path)?;
        if let Some(current) = &mut self.current {
            // It remains in the history as far as it is durable.
            let _ = current.conclude();
            self.approved = Some(current.identity()?);
        }
        (self.current, self.next, self.placed_at) = (None, None, None);
        // The durable position of the old map means nothing for the new one.
        (self.status.durable, self.announced) = (None, None);
        self.recorded = incarnation(&map);
        (self.map, self.runs, self.run) = (map, runs, Run { id, lineage });
        Ok(true)
    }
}
