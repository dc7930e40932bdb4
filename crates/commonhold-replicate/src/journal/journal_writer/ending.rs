//! The end of a journal: everything becomes durable before it.

use super::{JournalWriter, PATIENCE};
use crate::journal::file_writer::{FileWriter, clock_ms};
use commonhold::stream::StreamPosition;
use commonhold::{Error, ErrorKind, Result};
use std::time::{Duration, Instant};

impl JournalWriter {
    /// Writes all frames into the file, and makes it durable.
    ///
    /// # Errors
    /// The reason why not everything is durable.
    pub(crate) fn finish(&mut self) -> Result<()> {
        // The cause of the last error may have ended.
        self.retry_at = None;
        self.renew_at = Instant::now();
        let then_ms = clock_ms();
        let end = self.end();
        let is_all = match &end {
            Ok((end, _)) => self.come_to(*end),
            // Perhaps the stream is being resized. The file keeps what it has all the same.
            Err(_) => Ok(false),
        };
        if let Some(track) = self.current.as_mut().filter(|track| track.is_trusted) {
            self.trust.note(track.identity()?, track.file.synced)?;
            if end.as_ref().is_ok_and(|(end, _)| track.progress.position == *end) {
                track.stamps.note_unchanged(then_ms);
            }
            track.conclude()?;
        }
        let (_, blocked) = end?;
        let is_all = is_all?;
        match self.status.error.take() {
            Some(why) if !is_all => Err(Error::new(ErrorKind::Io, why)),
            _ if !is_all => Err(self.not_all()),
            _ => self.announce(),
        }?;
        blocked.map_or(Ok(()), Err)
    }

    /// Makes the file of a map that was dropped durable, with the time of its last changes.
    pub(crate) fn conclude_dropped(&mut self) {
        let Some(current) = self.current.as_mut().filter(|track| track.is_trusted) else { return };
        if let Err(error) = current.conclude() {
            self.status.error = Some(error.to_string());
        }
    }

    /// The position up to which the file should have everything, and the reason if there may be
    /// more.
    fn end(&self) -> Result<(StreamPosition, Option<Error>)> {
        let follower = self.map.follow()?;
        match follower.end() {
            // A writer is stopped in the middle of a change. All changes before it are written.
            Err(error) if error.kind() == ErrorKind::TimedOut => {
                Ok((follower.position(), Some(error)))
            }
            end => Ok((end?, None)),
        }
    }

    /// Whether a file has everything up to `end`. If the stream has begun again since, a file of
    /// the new stream has: it began with the whole map.
    fn has_come_to(&self, track: &FileWriter, end: StreamPosition) -> bool {
        let StreamPosition { stream, offset } = track.progress.position;
        match stream == end.stream {
            true => offset >= end.offset,
            false => self.map.follow().is_ok_and(|now| now.position().stream == stream),
        }
    }

    /// Works until the current file has reached a position; true if it has. Stops after an error,
    /// and when neither file has grown for [`PATIENCE`].
    fn come_to(&mut self, end: StreamPosition) -> Result<bool> {
        let mut moved = (self.bytes(), Instant::now());
        loop {
            let current = self.current.as_ref().filter(|_| self.goes_on());
            if current.is_some_and(|track| self.has_come_to(track, end)) {
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
