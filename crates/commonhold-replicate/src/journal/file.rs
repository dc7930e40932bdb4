//! The file of a journal: 16 bytes that identify it, then frames as an origin sends them
//! (`docs/operations/journal.md`).
//!
//! Invariant: the bytes before `written` are whole frames, in order. After a crash of the system
//! any part that was not synced may be missing or have any contents. Every frame has a checksum and
//! its position, so the first unsound frame is the end.

use crate::protocol::inbox::Inbox;
use crate::protocol::wire::{Note, Welcome};
use commonhold::raw::{Draft, RawFrame};
use commonhold::stream::{ChangeKind, StreamPosition};
use commonhold::{Error, ErrorKind, Result};
use commonhold::{fault, shortened};
use rustix::fs::{FlockOperation, fcntl_lock};
use std::fs::{File, OpenOptions};
use std::io::{self, Read};
use std::os::unix::fs::{FileExt, MetadataExt};
use std::path::{Path, PathBuf};

/// The first bytes of the file.
const MAGIC: &[u8; 16] = b"COMMONHOLD-JNL1\n";
/// The number of bytes that are read at a time.
const READ: usize = 256 << 10;

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

fn damaged(path: &Path, what: &str) -> Error {
    Error::new(ErrorKind::Damaged, format!("{}: {what}", path.display()))
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
}

impl JournalFile {
    /// Makes a new file, which begins with an origin's announcement and is going to have this path.
    /// If it is dropped before that, or its process is killed, nothing of it stays (see [`Draft`]).
    ///
    /// # Errors
    /// Those of files.
    pub(crate) fn create(path: &Path, welcome: &Welcome) -> Result<JournalFile> {
        let draft = Draft::new(path, 0o600).map_err(|e| failed(path, "cannot write", &e))?;
        lock(draft.file(), path)?;
        let mut first = MAGIC.to_vec();
        welcome.put(&mut first);
        let stage = Stage::Draft(draft);
        let mut this = JournalFile { stage, path: path.to_owned(), written: 0, synced: 0 };
        this.append(&first).map_err(|e| failed(path, "cannot write", &e))?;
        Ok(this)
    }

    /// Continues the file that a reader has read to its end. `None` if the file cannot be shortened
    /// to that end or made durable: then only a new file helps.
    ///
    /// # Errors
    /// `Busy` if another process writes it, or has replaced it; those of files.
    pub(crate) fn resume(reader: Reader) -> Result<Option<JournalFile>> {
        let (path, sound, read) = (&reader.path.clone(), reader.sound, reader.identity);
        // Closing a file releases all locks that the process has on it.
        drop(reader);
        let opened = fault!("journal.open-again");
        let opened = opened.and_then(|()| OpenOptions::new().read(true).write(true).open(path));
        let file = opened.map_err(|e| failed(path, "cannot write", &e))?;
        lock(&file, path)?;
        let found = file.metadata().map_err(|e| failed(path, "cannot read", &e))?;
        if identity(&found) != read {
            let text = format!(
                "{}: another file took this path while it was read; start the journal again",
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
        let stage = Stage::Placed(file);
        Ok(Some(JournalFile { stage, path: path.clone(), written: sound, synced: sound }))
    }

    fn file(&self) -> &File {
        match &self.stage {
            Stage::Draft(draft) => draft.file(),
            Stage::Placed(file) => file,
        }
    }

    /// Appends whole frames; all of them or none.
    ///
    /// # Errors
    /// Those of the system.
    pub(crate) fn append(&mut self, frames: &[u8]) -> io::Result<()> {
        let result = write_all(self.file(), frames, self.written);
        match result {
            Ok(()) => self.written += frames.len() as u64,
            // A part that was written does not belong to the file; the next frames overwrite it.
            Err(_) => drop(shorten(self.file(), self.written)),
        }
        result
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

    /// Moves the file to its path, durably; it replaces the old file there in one step.
    ///
    /// # Errors
    /// Those of the system.
    pub(crate) fn place(self) -> io::Result<JournalFile> {
        let Stage::Draft(draft) = self.stage else { return Ok(self) };
        let placed = draft.replace()?;
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

fn identity(metadata: &std::fs::Metadata) -> Identity {
    (metadata.dev(), metadata.ino())
}

/// Writes all bytes from this place on, in as many calls as it takes.
fn write_all(file: &File, mut bytes: &[u8], mut at: u64) -> io::Result<()> {
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

fn sync_data(file: &File) -> io::Result<()> {
    fault!("journal.fdatasync")?;
    file.sync_data()
}

fn shorten(file: &File, len: u64) -> io::Result<()> {
    fault!("journal.ftruncate")?;
    file.set_len(len)
}

/// Makes the names in a file's directory durable, as far as the file system does so.
fn sync_directory(path: &Path) -> io::Result<()> {
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
fn lock(file: &File, path: &Path) -> Result<()> {
    let locked = fault!("journal.lock")
        .and_then(|()| Ok(fcntl_lock(file, FlockOperation::NonBlockingLockExclusive)?));
    locked.map_err(|error| match error.raw_os_error() {
        Some(libc::EAGAIN | libc::EACCES) => {
            let text = format!("{}: another process writes this journal", path.display());
            Error::new(ErrorKind::Busy, text)
        }
        _ => failed(path, "cannot lock", &error),
    })
}

/// The next entry of a journal.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum Entry<'a> {
    /// A pair of the map, or a change of it.
    Frame(RawFrame<'a>),
    /// The pairs are complete: from the stated end on, the journal is a whole map.
    Complete,
}

/// Reads a journal frame by frame, up to the first unsound frame.
pub(crate) struct Reader {
    file: File,
    path: PathBuf,
    inbox: Inbox,
    /// The length of the file in bytes.
    len: u64,
    /// The number of bytes that were received into the inbox.
    read: u64,
    /// The number of bytes up to the end of the last sound frame.
    sound: u64,
    pub(crate) welcome: Welcome,
    pub(crate) position: StreamPosition,
    pub(crate) identity: Identity,
    /// The offset where the journal becomes a whole map, once it is stated.
    end: Option<u64>,
    /// The number of bytes that it had when it became a whole map.
    whole: Option<u64>,
    over: bool,
}

impl Reader {
    /// Opens a journal.
    ///
    /// # Errors
    /// `NotFound`; `Damaged` if the file is not a journal, or its beginning is lost; those of
    /// files.
    pub(crate) fn open(path: &Path) -> Result<Reader> {
        let opened = fault!("journal.open").and_then(|()| File::open(path));
        let file = opened.map_err(|e| failed(path, "cannot read", &e))?;
        let metadata = fault!("journal.fstat").and_then(|()| file.metadata());
        let metadata = metadata.map_err(|e| failed(path, "cannot read", &e))?;
        let (len, identity) = (metadata.len(), identity(&metadata));
        let position = StreamPosition { stream: 0, offset: 0 };
        let mode = commonhold::map::MapMode::General;
        let name = String::new();
        let welcome = Welcome { proof: Vec::new(), position, whole: true, mode, name };
        let (path, inbox) = (path.to_owned(), Inbox::default());
        let (read, sound, end, whole, over) = (0, 0, None, None, false);
        let mut this = Reader {
            file,
            path,
            inbox,
            len,
            read,
            sound,
            welcome,
            position,
            identity,
            end,
            whole,
            over,
        };
        this.begin()?;
        Ok(this)
    }

    /// Reads no further than `len` bytes: later bytes may never have reached the disk.
    pub(crate) fn trust_only(&mut self, len: u64) {
        self.len = self.len.min(len);
        let behind = self.read.saturating_sub(self.len);
        let mut buffer = self.inbox.take();
        buffer.truncate(buffer.len().saturating_sub(behind as usize));
        self.inbox.put(buffer);
        self.read -= behind;
    }

    fn begin(&mut self) -> Result<()> {
        // A read may return fewer bytes than there are.
        while self.inbox.rest().len() < READ && self.more()? {}
        if self.inbox.rest().get(..MAGIC.len()) != Some(MAGIC) {
            return Err(damaged(&self.path, "is not a journal"));
        }
        self.inbox.advance(MAGIC.len());
        let welcome = self.inbox.next(READ - MAGIC.len());
        let welcome = welcome.ok().flatten().and_then(|frame| Welcome::read(&frame));
        let Some(welcome) = welcome else {
            return Err(damaged(&self.path, "the beginning of this journal is damaged"));
        };
        self.position = welcome.position;
        self.welcome = welcome;
        self.sound = self.read - self.inbox.rest().len() as u64;
        Ok(())
    }

    /// Receives more; false at the end of the file.
    fn more(&mut self) -> Result<bool> {
        let mut buffer = self.inbox.take();
        let before = buffer.len();
        let most = (self.len - self.read).min(READ as u64) as usize;
        buffer.resize(before + shortened!("journal.read-bytes", most), 0);
        let read = loop {
            match fault!("journal.read").and_then(|()| (&self.file).read(&mut buffer[before..])) {
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                read => break read,
            }
        };
        buffer.truncate(before + read.as_ref().map_or(0, |len| *len));
        self.inbox.put(buffer);
        let read = read.map_err(|e| failed(&self.path, "cannot read", &e))?;
        self.read += read as u64;
        Ok(read > 0)
    }

    /// Whether it is a whole map: all pairs, and the changes up to the stated end.
    pub(crate) fn is_complete(&self) -> bool {
        self.whole.is_some()
    }

    /// The number of bytes that it had when it became a whole map.
    pub(crate) fn whole_bytes(&self) -> u64 {
        self.whole.unwrap_or_default()
    }

    /// Bytes behind the last sound frame.
    pub(crate) fn cut_off(&self) -> u64 {
        self.len.saturating_sub(self.sound)
    }

    /// The next entry; `None` at the end, which is the first unsound frame.
    ///
    /// # Errors
    /// Those of reading files.
    pub(crate) fn next(&mut self) -> Result<Option<Entry<'_>>> {
        while !self.over && !self.is_whole() {
            if !self.more()? {
                self.over = true;
            }
        }
        Ok(self.entry())
    }

    /// True if all of the next frame is in the inbox, or there is none.
    fn is_whole(&self) -> bool {
        let rest = self.inbox.rest();
        let left = self.len.saturating_sub(self.sound);
        match RawFrame::stated_length(rest) {
            Some(len) => len <= rest.len() || len as u64 > left,
            None => rest.len() >= 4,
        }
    }

    fn entry(&mut self) -> Option<Entry<'_>> {
        if self.over && self.inbox.rest().len() < RawFrame::HEADER {
            return None;
        }
        let before = self.inbox.rest().len();
        let expected = self.position.offset;
        let (sound, end) = (&mut self.sound, &mut self.end);
        let frame = self
            .inbox
            .next_if(|frame| frame.offset == expected && kind_of(frame, end.is_some()).is_some());
        let Some(frame) = frame else {
            self.over = true;
            return None;
        };
        let len = (RawFrame::HEADER + frame.key.len() + frame.value.len()).next_multiple_of(8);
        debug_assert!(before >= len);
        *sound += len as u64;
        let entry = match kind_of(&frame, end.is_some()) {
            Some(Kind::Complete(at)) => {
                *end = Some(at);
                Entry::Complete
            }
            Some(Kind::Change(to)) => {
                self.position.offset = to;
                Entry::Frame(frame)
            }
            _ => Entry::Frame(frame),
        };
        if self.whole.is_none() && end.is_some_and(|end| self.position.offset >= end) {
            self.whole = Some(*sound);
        }
        Some(entry)
    }
}

enum Kind {
    Pair,
    Change(u64),
    Complete(u64),
}

/// The kind of a frame, if it may stand in a journal: pairs may stand only before the end of the
/// pairs. A gap is an end: the contents behind it are unknown.
fn kind_of(frame: &RawFrame<'_>, complete: bool) -> Option<Kind> {
    if let Some(change) = frame.change() {
        return (change.kind != ChangeKind::Gap).then_some(Kind::Change(change.end));
    }
    match Note::read(frame)? {
        Note::Pair if !complete => Some(Kind::Pair),
        Note::Complete { end } if !complete => Some(Kind::Complete(end)),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::protocol::wire;
    use commonhold::map::MapMode;

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
        let mut file = JournalFile::create(&path, &welcome).unwrap();
        let mut frames = Vec::new();
        wire::put_complete(&mut frames, 0, 0);
        file.append(&frames).unwrap();
        let written = file.written;
        drop(file.place().unwrap());
        let mut reader = Reader::open(&path).unwrap();
        while reader.next().unwrap().is_some() {}
        let file = JournalFile::resume(reader).unwrap().unwrap();
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
        drop(JournalFile::create(&path, &welcome).unwrap().place().unwrap());
        let mut reader = Reader::open(&path).unwrap();
        while reader.next().unwrap().is_some() {}
        std::fs::write(&other, vec![7; 1000]).unwrap();
        std::fs::rename(&other, &path).unwrap();
        let error = JournalFile::resume(reader).unwrap_err();
        assert_eq!(error.kind(), ErrorKind::Busy, "{error}");
        assert_eq!(std::fs::metadata(&path).unwrap().len(), 1000);
    }
}
