//! The writer of one file of a journal, and the stream that goes into it.

use crate::delivery::{Delivery, fit, repair_stream};
use crate::journal::file::{Identity, JournalFile, failed};
use crate::journal::reader::Reader;
use crate::journal::run::Run;
use crate::journal::span::LATEST_MS;
use crate::journal::stamps::Stamps;
use crate::journal::trust::{ALL, Trust};
use crate::protocol::introduction::proof_bytes;
use crate::protocol::payload::Payload;
use crate::protocol::wire::{Note, Welcome, now_ms};
use commonhold::map::Map;
use commonhold::raw::{RawFrame, proof_at};
use commonhold::stream::{ChangeKind, StreamPosition};
use commonhold::{Error, ErrorKind, Hold, Result};
use std::io;
use std::path::Path;
use std::time::Instant;

/// The number of bytes that are taken from the stream before they are written.
pub(super) const BATCH: usize = 1 << 20;

/// How far frames bring a file.
#[derive(Clone, Copy)]
pub(super) struct Progress {
    pub(super) position: StreamPosition,
    /// The offset where the file becomes a whole map, once it is known.
    pub(super) end: Option<u64>,
    /// The file has come to a gap, so later frames cannot be used, or it cannot get larger: only a
    /// new file helps.
    pub(super) gap: bool,
}

impl Progress {
    fn note(&mut self, frame: &RawFrame<'_>) {
        if let Some(change) = frame.change() {
            self.gap |= change.kind == ChangeKind::Gap;
            if !self.gap {
                self.position.offset = change.end;
            }
        }
        if let (Some(Note::Complete { end }), None) = (Note::read(frame), self.end) {
            self.end = Some(end);
        }
    }
}

/// A file and its position in the stream.
pub(super) struct FileWriter {
    pub(super) delivery: Delivery,
    /// Bytes that were taken from the stream and not written yet.
    buffer: Vec<u8>,
    pub(super) file: JournalFile,
    /// How far the written frames bring the file.
    pub(super) progress: Progress,
    /// The position up to which the file is durable.
    pub(super) synced: Option<StreamPosition>,
    /// The times in the file.
    pub(super) stamps: Stamps,
    /// Whether what its syncs confirm is durable. Otherwise it is continued for the history only,
    /// until the next file takes its place.
    pub(super) is_trusted: bool,
    /// Whether it states that the map is a replica's.
    pub(super) is_of_replica: bool,
}

/// A failure of a file.
pub(super) enum WriteFailure {
    /// It could not write, and may try again: nothing is lost.
    Write(Error),
    /// The file can no longer be used.
    Lost(Error),
}

impl FileWriter {
    fn new(
        delivery: Delivery,
        file: JournalFile,
        end: Option<u64>,
        stamps: Stamps,
        run: &Run,
    ) -> FileWriter {
        let progress = Progress { position: delivery.position(), end, gap: false };
        let (buffer, synced, is_trusted) = (Vec::new(), None, true);
        let is_of_replica = run.lineage.is_of_replica();
        FileWriter { delivery, buffer, file, progress, synced, stamps, is_trusted, is_of_replica }
    }

    /// Begins a new file with a full sync.
    pub(super) fn begin(hold: &Hold, map: &Map, path: &Path, run: &Run) -> Result<FileWriter> {
        repair_stream(hold, map)?;
        let delivery = Delivery::begin(map, None, || fit(map))?.without_time();
        let before = proof_at(map.follow()?, delivery.position())?;
        let welcome = Welcome {
            // Readers that come from an earlier file compare it with the last change there.
            proof: before.map_or_else(Vec::new, |change| proof_bytes(Some(change)).to_vec()),
            position: delivery.position(),
            whole: true,
            mode: map.options().mode(),
            name: map.name().to_owned(),
        };
        let file = JournalFile::create(path, &welcome, run)?;
        // An empty map has a state, too.
        let stamps = Stamps::of(None, true, clock_ms());
        Ok(FileWriter::new(delivery, file, None, stamps, run))
    }

    /// Continues a file that was read to its end. `None` if the stream no longer has the next
    /// frames, or the disk does not take the file.
    pub(super) fn resume(
        map: &Map,
        reader: Reader,
        trust: &Trust,
        run: &Run,
    ) -> Result<Option<FileWriter>> {
        let (position, identity) = (reader.position(), reader.identity);
        let delivery = Delivery::begin(map, Some(position), || fit(map))?.without_time();
        if delivery.is_syncing() || !reader.is_complete() || !reader.may_have_times {
            return Ok(None);
        }
        let stamps = Stamps::of(reader.times(), reader.untimed() > 0, clock_ms());
        if trust.len_of(identity)?.is_none_or(|len| len == ALL) {
            // This sync may fail, and this process may be killed in it: then no byte of the file is
            // trusted.
            trust.note(identity, 0)?;
        }
        let file = JournalFile::resume(reader, run)?;
        let end = Some(position.offset);
        Ok(file.map(|file| FileWriter::new(delivery, file, end, stamps, run)))
    }

    /// Moves the file, which is durable and has a note, to its path, where it may replace another.
    pub(super) fn place(self, replaces: bool) -> Result<FileWriter> {
        let path = self.file.path.clone();
        let placed = self.file.place(replaces);
        let file = placed.map_err(|e| failed(&path, "cannot be replaced", &e))?;
        Ok(FileWriter { file, ..self })
    }

    /// Device and inode of its file.
    ///
    /// # Errors
    /// Those of the system.
    pub(super) fn identity(&self) -> Result<Identity> {
        let identity = self.file.identity();
        identity.map_err(|e| failed(&self.file.path, "cannot be examined", &e))
    }

    pub(super) fn is_whole(&self) -> bool {
        let Progress { position, end, gap } = self.progress;
        end.is_some_and(|end| position.offset >= end) && !gap
    }

    /// Writes the available frames into the file, at most a batch or one frame; true if there was
    /// one.
    pub(super) fn pump(&mut self) -> std::result::Result<bool, WriteFailure> {
        let then_ms = clock_ms();
        if self.next_frame(0).map_err(WriteFailure::Lost)?.is_none() {
            self.fetch().map_err(WriteFailure::Lost)?;
        }
        // All changes that were fetched have been made by now.
        let now_ms = clock_ms();
        let (mut progress, mut frames, mut used) = (self.progress, Vec::new(), 0);
        while let Some(frame) =
            self.next_frame(used).map_err(WriteFailure::Lost)?.filter(|_| !progress.gap)
        {
            if frame.offset != progress.position.offset {
                return Err(WriteFailure::Lost(unsound("does not continue where it was")));
            }
            // A resumed delivery sends the end of the pairs again, which the file has already.
            let is_end = matches!(Note::read(&frame), Some(Note::Complete { .. }));
            let said = is_end && progress.end.is_some();
            progress.note(&frame);
            let len = (RawFrame::HEADER + frame.key.len() + frame.value.len()).next_multiple_of(8);
            if !progress.gap && !said {
                frames.extend_from_slice(&self.buffer[used..used + len]);
            }
            used += len;
        }
        let time_ms = self.stamps.due(now_ms).filter(|_| self.is_whole());
        let written = self.file.append(&frames, self.progress.position.offset, time_ms);
        if let Err(error) = written {
            self.progress.gap |= error.kind() == io::ErrorKind::FileTooLarge;
            return Err(WriteFailure::Write(failed(&self.file.path, "cannot write", &error)));
        }
        if !frames.is_empty() {
            time_ms.into_iter().for_each(|ms| self.stamps.note_written(ms));
            self.stamps.note_changes(now_ms);
        } else if used == 0 {
            self.stamps.note_unchanged(then_ms);
        }
        self.progress = progress;
        self.buffer.drain(..used);
        Ok(used > 0)
    }

    /// The frame at an offset of the buffer, if all of it is there.
    fn next_frame(&self, at: usize) -> Result<Option<RawFrame<'_>>> {
        let rest = &self.buffer[at..];
        match RawFrame::stated_length(rest) {
            Some(len) if len <= rest.len() => match RawFrame::decode(&rest[..len]) {
                Some(frame) => Ok(Some(frame)),
                None => Err(unsound("has a frame whose checksum is wrong")),
            },
            None if rest.len() >= 4 => Err(unsound("has an invalid frame")),
            _ => Ok(None),
        }
    }

    /// Takes a batch from the stream.
    fn fetch(&mut self) -> Result<()> {
        let most = self.buffer.len() + BATCH;
        while self.buffer.len() < most {
            match self.delivery.next(None, Instant::now(), true)? {
                Some(Payload::Words(words)) => self.buffer.extend_from_slice(words.rest()),
                Some(Payload::Stream(ring)) => {
                    ring.append_to(&mut self.buffer);
                    self.delivery.sent(ring.len())?;
                }
                None => break,
            }
        }
        Ok(())
    }

    /// Writes the time of the last changes, and how long there were no others.
    ///
    /// # Errors
    /// Those of the system: the file stays as it is.
    pub(super) fn stamp(&mut self) -> Result<()> {
        while let Some(ms) = self.stamps.due_at_end().filter(|_| self.is_whole()) {
            self.append_time(ms)?;
        }
        Ok(())
    }

    /// Writes the time of the last changes, if no change has come for a while.
    ///
    /// # Errors
    /// As for [`stamp`](Self::stamp).
    pub(super) fn stamp_if_idle(&mut self) -> Result<()> {
        let due = self.stamps.due_when_idle(clock_ms()).filter(|_| self.is_whole());
        due.map_or(Ok(()), |ms| self.append_time(ms))
    }

    fn append_time(&mut self, ms: u64) -> Result<()> {
        let written = self.file.append_time(self.progress.position.offset, ms);
        written.map_err(|e| failed(&self.file.path, "cannot write", &e))?;
        self.stamps.note_written(ms);
        Ok(())
    }

    /// Makes the written frames durable, and lets the file state that they are, and their time.
    /// Without room for these statements, they are durable all the same.
    pub(super) fn conclude(&mut self) -> Result<()> {
        let _ = self.stamp();
        self.sync()?;
        let before = self.file.written;
        let _ = self.file.state(self.progress.position.offset);
        if self.file.written > before { self.sync() } else { Ok(()) }
    }

    /// Makes the written frames durable. If that fails, the file can no longer be used.
    pub(super) fn sync(&mut self) -> Result<()> {
        self.file.sync().map_err(|e| failed(&self.file.path, "cannot sync", &e))?;
        self.synced = Some(self.progress.position);
        Ok(())
    }
}

/// The time, as far as a file can state it.
pub(super) fn clock_ms() -> u64 {
    now_ms().min(LATEST_MS)
}

#[cold]
fn unsound(what: &str) -> Error {
    Error::new(ErrorKind::Damaged, format!("the map's stream {what}"))
}
