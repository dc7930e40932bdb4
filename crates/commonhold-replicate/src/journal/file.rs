//! The file of a journal: 16 bytes that identify it, then frames as an origin sends them
//! (`docs/operations/journal.md`).
//!
//! Invariant: the bytes before `written` are whole frames, in order. After a crash of the system
//! any part that was not synced may be missing or have any contents. Every frame has a checksum and
//! its position, so an unsound frame is detected. Frames of the code [`DURABLE`] state how many
//! bytes were durable: an unsound frame among those was damaged later, on the disk.

use crate::journal::reader::Reader;
use crate::journal::run::Run;
use crate::protocol::wire::{self, Welcome};
use commonhold::raw::{Draft, check_size_limit};
use commonhold::{Error, ErrorKind, Result};
use commonhold::{fault, shortened};
use rustix::fs::{FlockOperation, fcntl_lock};
use rustix::process::{Flock, FlockType, Pid, fcntl_getlk};
use std::fs::{File, OpenOptions};
use std::io;
use std::os::unix::fs::{FileExt, MetadataExt};
use std::path::{Path, PathBuf};

/// The first bytes of the file.
pub(super) const MAGIC: &[u8; 16] = b"COMMONHOLD-JNL4\n";
/// Those of a file without times, which is read, and not continued.
pub(super) const MAGIC_WITHOUT_TIMES: &[u8; 16] = b"COMMONHOLD-JNL3\n";
/// The code of a frame that states how many bytes of the file were durable before it was written.
pub(super) const DURABLE: u32 = 0x130;
/// The code of a frame that states a time by which all changes before it had been made.
pub(super) const TIME: u32 = 0x132;
/// The file states that more bytes are durable after at least this many.
const STATE_EVERY: u64 = 4 << 10;

/// An error of the system on a journal.
pub(crate) fn failed(path: &Path, doing: &str, error: &io::Error) -> Error {
    let kind = match error.kind() {
        io::ErrorKind::NotFound => ErrorKind::NotFound,
        io::ErrorKind::PermissionDenied => ErrorKind::Permission,
        io::ErrorKind::StorageFull | io::ErrorKind::QuotaExceeded | io::ErrorKind::FileTooLarge => {
            ErrorKind::Full
        }
        _ => ErrorKind::Io,
    };
    Error::new(kind, format!("{}: {doing}: {error}", path.display()))
}

/// A file before or after it has its name.
#[derive(Debug)]
enum Stage {
    Draft(Draft),
    Placed(File),
}

/// A journal's file for writing.
#[derive(Debug)]
pub(crate) struct JournalFile {
    stage: Stage,
    /// The path that it has, or is going to have.
    pub(crate) path: PathBuf,
    pub(crate) written: u64,
    /// Bytes that are durable.
    pub(crate) synced: u64,
    /// Bytes that the file states to be durable.
    stated: u64,
    /// The run that writes it, until the file states it.
    run: Option<Run>,
}

impl JournalFile {
    /// Makes a new file, which begins with an origin's announcement and is going to have this path.
    /// If it is dropped before that, or its process is killed, nothing of it stays (see [`Draft`]).
    ///
    /// # Errors
    /// Those of files.
    pub(super) fn create(path: &Path, welcome: &Welcome, run: &Run) -> Result<JournalFile> {
        let draft = Draft::new(path, 0o600).map_err(|e| failed(path, "cannot write", &e))?;
        lock(draft.file(), path)?;
        let mut first = MAGIC.to_vec();
        welcome.put(&mut first);
        run.put(&mut first, welcome.position.offset);
        let (stage, path) = (Stage::Draft(draft), path.to_owned());
        let mut this = JournalFile { stage, path, written: 0, synced: 0, stated: 0, run: None };
        this.append_all(&first).map_err(|e| failed(&this.path, "cannot write", &e))?;
        Ok(this)
    }

    /// Continues the file that a reader has read to its end. `None` if the file cannot be shortened
    /// to that end or made durable: then only a new file helps.
    ///
    /// # Errors
    /// `Busy` if another process writes it, or has replaced it; those of files.
    pub(super) fn resume(reader: Reader, run: &Run) -> Result<Option<JournalFile>> {
        let (path, read) = (&reader.path().to_owned(), reader.identity);
        let (sound, stated) = (reader.sound(), reader.durable());
        // Closing a file releases all locks that the process has on it.
        drop(reader);
        let opened = fault!("journal.open-again");
        let opened = opened.and_then(|()| OpenOptions::new().read(true).write(true).open(path));
        let file = opened.map_err(|e| failed(path, "cannot write", &e))?;
        lock(&file, path)?;
        let found = file.metadata().map_err(|e| failed(path, "cannot read", &e))?;
        if identity(&found) != read {
            let text = format!(
                "{}: another file took this path while the journal was being read; start the \
                 journal again",
                path.display()
            );
            return Err(Error::new(ErrorKind::Busy, text));
        }
        // Bytes that a crash left behind the end could pass for the next frames.
        if shorten(&file, sound).is_err() {
            return Ok(None);
        }
        // The previous writer may have been killed before its name was durable.
        sync_directory(path).map_err(|e| failed(path, "cannot sync its directory", &e))?;
        // The previous writer may have been killed before it had synced what can be read.
        if sync_data(&file).is_err() {
            return Ok(None);
        }
        let (stage, path, run) = (Stage::Placed(file), path.clone(), Some(run.clone()));
        Ok(Some(JournalFile { stage, path, written: sound, synced: sound, stated, run }))
    }

    fn file(&self) -> &File {
        match &self.stage {
            Stage::Draft(draft) => draft.file(),
            Stage::Placed(file) => file,
        }
    }

    /// Appends whole frames, which begin at this offset of the stream, behind a time in
    /// milliseconds since 1970, if there is one; all of them or none. Before the first ones the
    /// file states its run, and now and then how many of its bytes are durable.
    ///
    /// # Errors
    /// Those of the system.
    pub(crate) fn append(
        &mut self,
        frames: &[u8],
        offset: u64,
        time_ms: Option<u64>,
    ) -> io::Result<()> {
        let states = self.synced >= self.stated + STATE_EVERY;
        if frames.is_empty() || !(states || self.run.is_some() || time_ms.is_some()) {
            return self.append_all(frames);
        }
        let mut all = time_ms.map_or_else(Vec::new, |ms| time_frame(offset, ms));
        if let Some(run) = &self.run {
            run.put(&mut all, offset);
        }
        if states {
            all.extend(self.statement(offset));
        }
        all.extend_from_slice(frames);
        self.append_all(&all)?;
        self.run = None;
        if states {
            self.stated = self.synced;
        }
        Ok(())
    }

    /// Appends a time by which all changes in the file had been made.
    ///
    /// # Errors
    /// Those of the system.
    pub(crate) fn append_time(&mut self, offset: u64, ms: u64) -> io::Result<()> {
        self.append_all(&time_frame(offset, ms))
    }

    /// Appends how many bytes are durable, unless the file states that already.
    ///
    /// # Errors
    /// Those of the system.
    pub(crate) fn state(&mut self, offset: u64) -> io::Result<()> {
        if self.synced > self.stated {
            self.append_all(&self.statement(offset))?;
            self.stated = self.written;
        }
        Ok(())
    }

    fn statement(&self, offset: u64) -> Vec<u8> {
        let mut frame = Vec::new();
        wire::put(&mut frame, DURABLE, offset, &[], &self.synced.to_le_bytes());
        frame
    }

    fn append_all(&mut self, frames: &[u8]) -> io::Result<()> {
        self.keep_locked()?;
        let result = write_all(self.file(), &self.path, frames, self.written);
        match result {
            Ok(()) => self.written += frames.len() as u64,
            // A part that was written does not belong to the file; the next frames overwrite it.
            Err(_) => drop(shorten(self.file(), self.written)),
        }
        result
    }

    /// Takes the lock again, if this process lost it: it does so when it closes the file after
    /// reading it elsewhere, such as for a replica that catches up.
    fn keep_locked(&self) -> io::Result<()> {
        let locked = lock(self.file(), &self.path);
        locked.map_err(|error| match error.kind() {
            ErrorKind::Busy => io::Error::new(io::ErrorKind::ResourceBusy, error.to_string()),
            _ => io::Error::other(error.to_string()),
        })
    }

    /// Makes all appended frames durable.
    ///
    /// # Errors
    /// Those of the system: frames that were appended since the last time may be lost, although the
    /// system may still show them.
    pub(crate) fn sync(&mut self) -> io::Result<()> {
        let result = sync_data(self.file());
        match result {
            Ok(()) => self.synced = self.written,
            Err(_) => drop(shorten(self.file(), self.synced)),
        }
        result
    }

    /// Device and inode of the file.
    ///
    /// # Errors
    /// Those of the system.
    pub(crate) fn identity(&self) -> io::Result<Identity> {
        self.file().metadata().map(|metadata| identity(&metadata))
    }

    /// Whether the path still leads to this file.
    pub(crate) fn is_at(&self, path: &Path) -> bool {
        let there = identity_at(path);
        matches!((self.identity(), there), (Ok(own), Ok(there)) if own == there)
    }

    /// Moves the file to its path, durably. If `replaces`, it replaces the old file there in one
    /// step.
    ///
    /// # Errors
    /// Those of the system.
    pub(crate) fn place(self, replaces: bool) -> io::Result<JournalFile> {
        let Stage::Draft(draft) = self.stage else { return Ok(self) };
        let placed = if replaces { draft.replace()? } else { draft.commit()? };
        placed.sync()?;
        Ok(JournalFile { stage: Stage::Placed(placed.into_file()), ..self })
    }
}

/// The identity of a file: device and inode.
pub(crate) type Identity = (u64, u64);

/// The identity of the file at this path.
///
/// # Errors
/// Those of the system.
pub(crate) fn identity_at(path: &Path) -> io::Result<Identity> {
    fault!("journal.stat")?;
    std::fs::metadata(path).map(|metadata| identity(&metadata))
}

pub(super) fn identity(metadata: &std::fs::Metadata) -> Identity {
    (metadata.dev(), metadata.ino())
}

fn time_frame(offset: u64, ms: u64) -> Vec<u8> {
    let mut frame = Vec::new();
    wire::put(&mut frame, TIME, offset, &[], &ms.to_le_bytes());
    frame
}

/// Writes all bytes from this place on, in as many calls as it takes. Fails with `FileTooLarge` if
/// they exceed the file size limit of the process, where the bare call would end the process by a
/// signal.
pub(super) fn write_all(file: &File, path: &Path, mut bytes: &[u8], mut at: u64) -> io::Result<()> {
    if bytes.is_empty() {
        return Ok(());
    }
    check_size_limit(path, at.saturating_add(bytes.len() as u64))
        .map_err(|error| io::Error::new(io::ErrorKind::FileTooLarge, error))?;
    while !bytes.is_empty() {
        let most = shortened!("journal.write-bytes", bytes.len());
        match fault!("journal.write").and_then(|()| file.write_at(&bytes[..most], at)) {
            Ok(0) => return Err(io::ErrorKind::WriteZero.into()),
            Ok(len) => (bytes, at) = (&bytes[len..], at + len as u64),
            Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
            Err(error) => return Err(error),
        }
    }
    Ok(())
}

pub(super) fn sync_data(file: &File) -> io::Result<()> {
    fault!("journal.fdatasync")?;
    file.sync_data()
}

pub(super) fn shorten(file: &File, len: u64) -> io::Result<()> {
    fault!("journal.ftruncate")?;
    file.set_len(len)
}

/// Makes the names in a file's directory durable, as far as the file system does so.
pub(crate) fn sync_directory(path: &Path) -> io::Result<()> {
    let directory = path.parent().filter(|path| !path.as_os_str().is_empty());
    let directory = directory.unwrap_or(Path::new("."));
    let directory = match fault!("journal.open-directory").and_then(|()| File::open(directory)) {
        // A process that may not read the directory can make names in it, and leaves this to the
        // system.
        Err(error) if error.kind() == io::ErrorKind::PermissionDenied => return Ok(()),
        opened => opened?,
    };
    match fault!("journal.sync-directory").and_then(|()| directory.sync_all()) {
        // The file system does not support it.
        Err(error) if matches!(error.raw_os_error(), Some(libc::EINVAL | libc::EROFS)) => Ok(()),
        synced => synced,
    }
}

/// A lock of the process: a forked child does not keep it, unlike a lock of the open file.
pub(super) fn lock(file: &File, path: &Path) -> Result<()> {
    lock_for(file, path, "file")
}

/// The same. An error advises to use another one of `what`.
pub(super) fn lock_for(file: &File, path: &Path, what: &str) -> Result<()> {
    let locked = fault!("journal.lock")
        .and_then(|()| Ok(fcntl_lock(file, FlockOperation::NonBlockingLockExclusive)?));
    locked.map_err(|error| match error.raw_os_error() {
        Some(libc::EAGAIN | libc::EACCES) => {
            let holder = holder(file).map_or(String::new(), |pid| format!(" ({pid})"));
            let text = format!(
                "{}: another process{holder} writes this journal; end it first, or use another \
                 {what}",
                path.display()
            );
            Error::new(ErrorKind::Busy, text)
        }
        _ => failed(path, "cannot lock", &error),
    })
}

/// The process that has locked this file.
fn holder(file: &File) -> Option<Pid> {
    let whole = Flock::from(FlockType::WriteLock);
    fcntl_getlk(file, &whole).ok()??.pid
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::protocol::introduction::Lineage;
    use commonhold::map::MapMode;
    use commonhold::stream::StreamPosition;

    fn run() -> Run {
        Run { id: [1; 16], lineage: Lineage::default() }
    }

    impl JournalFile {
        /// Makes every later write fail.
        pub(crate) fn make_read_only(&mut self) {
            self.stage = Stage::Placed(File::open(&self.path).unwrap());
        }
    }

    /// A sync that fails later removes only what has come since.
    #[test]
    fn a_resumed_journal_is_durable() {
        let directory = tempfile::tempdir_in("/dev/shm").unwrap();
        let path = directory.path().join("it.journal");
        let position = StreamPosition { stream: 7, offset: 0 };
        let (mode, name) = (MapMode::General, "it".to_owned());
        let welcome = Welcome { proof: Vec::new(), position, whole: true, mode, name };
        let mut file = JournalFile::create(&path, &welcome, &run()).unwrap();
        let mut frames = Vec::new();
        wire::put_complete(&mut frames, 0, 0);
        file.append(&frames, 0, None).unwrap();
        let written = file.written;
        drop(file.place(false).unwrap());
        let mut reader = Reader::open(&path).unwrap();
        while reader.next().unwrap().is_some() {}
        let file = JournalFile::resume(reader, &run()).unwrap().unwrap();
        assert_eq!((file.written, file.synced), (written, written));
    }

    /// Another file took the path while the old one was read: this process must not shorten it.
    #[test]
    fn another_file_at_the_path_is_left_alone() {
        let directory = tempfile::tempdir_in("/dev/shm").unwrap();
        let [path, other] = ["it.journal", "other"].map(|name| directory.path().join(name));
        let position = StreamPosition { stream: 7, offset: 0 };
        let (mode, name) = (MapMode::General, "it".to_owned());
        let welcome = Welcome { proof: Vec::new(), position, whole: true, mode, name };
        drop(JournalFile::create(&path, &welcome, &run()).unwrap().place(false).unwrap());
        let mut reader = Reader::open(&path).unwrap();
        while reader.next().unwrap().is_some() {}
        std::fs::write(&other, vec![7; 1000]).unwrap();
        std::fs::rename(&other, &path).unwrap();
        let error = JournalFile::resume(reader, &run()).unwrap_err();
        assert_eq!(error.kind(), ErrorKind::Busy, "{error}");
        assert_eq!(std::fs::metadata(&path).unwrap().len(), 1000);
    }
}
