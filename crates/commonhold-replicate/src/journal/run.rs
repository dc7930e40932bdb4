//! The runs of a map's journals: which files belong to the present contents of the hold.
//!
//! Each run of a journal draws a random number. It notes the number in the hold, and then writes it
//! into the file, before its first change. The last number in a file is so the run that made its
//! last change. A hold that knows this run has all changes of the file: they were in the map before
//! they were in the file. An old copy of the hold does not know the later runs, and neither does
//! any other hold. This holds whatever became of the map's stream: it may have been resized, and
//! the position of the file may have left it.
//!
//! A map that was rebuilt from a file has its changes up to a position, and the notes name both.

use crate::lineage;
use crate::protocol::introduction::{Introduction, Lineage};
use crate::protocol::wire::{self, long};
use commonhold::map::Map;
use commonhold::raw::{Incarnation, RawFrame, incarnation};
use commonhold::stream::StreamPosition;
use commonhold::{Hold, Result};

/// The code of the frame with which a run begins.
pub(super) const RUN: u32 = 0x131;
/// The key of the notes, in the map of the journal's announcements.
const NOTED: &[u8] = b"runs";
/// The most runs that are noted: those of the segments of a journal that begins a new file every
/// minute for three days.
const MOST: usize = 4096;
/// Bytes before the entries: hold, root, number.
const OF: usize = 32;
/// Bytes of an entry: number, stream, offset.
const ENTRY: usize = 32;
/// The end of a run of this hold: it has all its changes.
const ANYWHERE: StreamPosition = StreamPosition { stream: 0, offset: u64::MAX };

/// The number of a run; zeros if a file has lost it.
pub(super) type RunId = [u8; 16];

/// The first frame of a run in a file.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Run {
    pub(super) id: RunId,
    /// That of the map, for a rebuilding.
    pub(super) lineage: Lineage,
}

impl Run {
    /// Appends its frame.
    pub(super) fn put(&self, out: &mut Vec<u8>, offset: u64) {
        let lineage = Introduction::new(self.lineage.clone()).value();
        wire::put(out, RUN, offset, &self.id, &lineage);
    }

    /// `None` if the frame is another.
    pub(super) fn read(frame: &RawFrame<'_>) -> Option<Run> {
        let id = frame.key.try_into().ok().filter(|_| frame.code == RUN)?;
        Some(Run { id, lineage: Introduction::of_value(frame.value)?.lineage })
    }
}

/// The noted runs of the journals of one map.
pub(super) struct Runs {
    notes: Map,
    /// The hold, and the map's incarnation there: salvaged notes are another hold's.
    of: [u8; OF],
}

#[derive(Clone, Copy)]
struct Entry {
    id: RunId,
    /// How far the map has its changes.
    until: StreamPosition,
}

impl Runs {
    /// Those of this map, in the map of its journal's announcements.
    pub(super) fn new(hold: &Hold, notes: Map, map: &Map) -> Runs {
        let (Incarnation { root, number }, mut of) = (incarnation(map), [0; OF]);
        for (to, from) in of.chunks_exact_mut(8).skip(2).zip([root, number]) {
            to.copy_from_slice(&from.to_le_bytes());
        }
        of[..16].copy_from_slice(&hold.uuid());
        Runs { notes, of }
    }

    /// Whether the map has all changes of a file whose last run is this one, and which has this
    /// position.
    ///
    /// # Errors
    /// Those of reading a map.
    pub(super) fn has(&self, id: RunId, at: StreamPosition) -> Result<bool> {
        let covers = |until: StreamPosition| {
            until == ANYWHERE || (until.stream == at.stream && until.offset >= at.offset)
        };
        Ok(self.entries()?.iter().any(|entry| entry.id == id && covers(entry.until)))
    }

    /// Begins a run, which continues or replaces a file whose last run is one of `before`.
    ///
    /// # Errors
    /// Those of drawing random numbers, and of reading and writing a map.
    pub(super) fn begin(&self, before: &[RunId]) -> Result<RunId> {
        let id = lineage::random()?.1;
        self.add(Entry { id, until: ANYWHERE }, before)?;
        Ok(id)
    }

    /// Forgets all runs: files of earlier runs are no longer the map's.
    ///
    /// # Errors
    /// Those of writing a map.
    pub(super) fn forget(&self) -> Result<()> {
        self.notes.delete(NOTED).map(drop)
    }

    /// Notes that the map was rebuilt from a file of this run, up to a position.
    ///
    /// # Errors
    /// Those of reading and writing a map.
    pub(super) fn note_rebuilt(&self, id: RunId, until: StreamPosition) -> Result<()> {
        self.add(Entry { id, until }, &[])
    }

    /// Adds an entry, behind those of the runs `before`: a file may be continued by any number of
    /// runs that write nothing, and any number of files that are to replace it may fail.
    fn add(&self, new: Entry, before: &[RunId]) -> Result<()> {
        let is_before = |entry: &Entry| before.contains(&entry.id);
        let (before, mut entries): (Vec<_>, Vec<_>) =
            self.entries()?.into_iter().partition(is_before);
        let most = MOST - 1 - before.len();
        entries.drain(..entries.len().saturating_sub(most));
        entries.extend(before);
        entries.push(new);
        let mut bytes = self.of.to_vec();
        for Entry { id, until } in entries {
            bytes.extend(id);
            bytes.extend([until.stream, until.offset].map(u64::to_le_bytes).concat());
        }
        self.notes.set(NOTED, bytes).map(drop)
    }

    /// None if they are about another map of this name.
    fn entries(&self) -> Result<Vec<Entry>> {
        let bytes = self.notes.get(NOTED)?.unwrap_or_default();
        let Some(entries) = bytes.strip_prefix(&self.of) else { return Ok(Vec::new()) };
        let entry = |bytes: &[u8]| {
            let until = StreamPosition { stream: long(bytes, 16)?, offset: long(bytes, 24)? };
            Some(Entry { id: *bytes.first_chunk()?, until })
        };
        Ok(entries.chunks_exact(ENTRY).filter_map(entry).collect())
    }
}
