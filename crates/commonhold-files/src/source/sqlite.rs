//! Files in one SQLite database that [`import`] made.
//!
//! ```sql
//! CREATE TABLE files(number INTEGER PRIMARY KEY, id BLOB NOT NULL UNIQUE, name BLOB NOT NULL,
//!                    bytes INTEGER NOT NULL, modified_ns INTEGER NOT NULL,
//!                    changed_ns INTEGER NOT NULL);
//! CREATE TABLE chunks(place INTEGER PRIMARY KEY, bytes BLOB NOT NULL);
//! ```
//!
//! A file's n-th chunk, 256 KiB of it, is at the place `number * 2^24 + n`. An import makes another
//! database and renames it over the old one; a server notices that when it looks at the path again.
//! The old one stays open, and files of it are sent, as long as a handle of them lives.

use super::{Coding, Found, Opened, Source};
use crate::directory::{Directory, identity, last_name};
use crate::layout::Layout;
use crate::stamp::{Stamp, mixed_numbers};
use commonhold::fault;
use commonhold::raw::Draft;
use rusqlite::{Connection, OpenFlags, OptionalExtension, params};
use std::cell::RefCell;
use std::io;
use std::os::fd::OwnedFd;
use std::path::{Path, PathBuf};
use std::rc::Rc;
use std::sync::Arc;

/// The bytes of a chunk.
const CHUNK: u64 = 256 << 10;
/// The most chunks of a file.
const CHUNKS: i64 = 1 << 24;
/// "comh", in the header of the database.
const APPLICATION: i32 = 0x636f_6d68;
const SCHEMA: &str = "
    PRAGMA page_size = 16384;
    PRAGMA journal_mode = OFF;
    PRAGMA synchronous = OFF;
    PRAGMA application_id = 1668246888;
    PRAGMA user_version = 1;
    CREATE TABLE files(number INTEGER PRIMARY KEY, id BLOB NOT NULL UNIQUE, name BLOB NOT NULL,
                       bytes INTEGER NOT NULL, modified_ns INTEGER NOT NULL, changed_ns INTEGER NOT NULL);
    CREATE TABLE chunks(place INTEGER PRIMARY KEY, bytes BLOB NOT NULL);";
const FIND: &str = "SELECT number, bytes, modified_ns, changed_ns, name FROM files WHERE id = ?1";
const BELOW: &str = "SELECT 1 FROM files WHERE id > ?1 AND id < ?2 LIMIT 1";

/// The files of a database.
pub struct Database {
    path: PathBuf,
    open: RefCell<Rc<Open>>,
}

struct Open {
    connection: Connection,
    /// Device and inode of the file that is open.
    identity: (u64, u64),
}

/// A file of a database, which stays open with it.
#[derive(Clone)]
pub struct Row {
    number: i64,
    stamp: Stamp,
    database: Rc<Open>,
}

struct Line {
    row: Row,
    name: Vec<u8>,
}

fn failed(error: rusqlite::Error) -> io::Error {
    io::Error::other(error)
}

impl Database {
    /// Opens a database that [`import`] made.
    ///
    /// # Errors
    /// Those of reading it; an error if it is not such a database.
    pub fn open(path: &Path) -> io::Result<Database> {
        let open = Rc::new(Open::new(path)?);
        Ok(Database { path: path.to_owned(), open: RefCell::new(open) })
    }

    fn find(&self, id: &[u8], coding: Coding) -> io::Result<Option<Line>> {
        let open = self.open.borrow();
        let identity = open.identity;
        let id = [id, coding.suffix().as_bytes()].concat();
        fault!("files.query")?;
        let mut find = open.connection.prepare_cached(FIND).map_err(failed)?;
        let line = find.query_row(params![id], |row| {
            let number: i64 = row.get(0)?;
            let stamp = Stamp {
                file: mixed_numbers(&[identity.0, identity.1, number as u64]),
                len: row.get::<_, i64>(1)? as u64,
                modified_ns: row.get::<_, i64>(2)?.into(),
                changed_ns: row.get::<_, i64>(3)?.into(),
            };
            Ok(Line { row: Row { number, stamp, database: Rc::clone(&open) }, name: row.get(4)? })
        });
        line.optional().map_err(failed)
    }
}

impl Open {
    fn new(path: &Path) -> io::Result<Open> {
        let flags = OpenFlags::SQLITE_OPEN_READ_ONLY | OpenFlags::SQLITE_OPEN_NO_MUTEX;
        // Before the opening: if it is replaced in between, it is opened once more.
        let identity = identity(path)?;
        fault!("files.open-database")?;
        let connection = Connection::open_with_flags(path, flags).map_err(failed)?;
        let id = connection.pragma_query_value(None, "application_id", |row| row.get::<_, i32>(0));
        match id {
            Ok(APPLICATION) => Ok(Open { connection, identity }),
            Ok(_) => Err(not_ours("is a database, but not one of files")),
            Err(error) => Err(not_ours(&format!("cannot be read as a database: {error}"))),
        }
    }
}

fn not_ours(what: &str) -> io::Error {
    let way_out = "create one with 'hold serve-import DIR FILE'";
    io::Error::new(io::ErrorKind::InvalidData, format!("{what}; {way_out}"))
}

impl Source for Database {
    type Handle = Row;

    fn refresh(&self) -> io::Result<bool> {
        let is_another = identity(&self.path)? != self.open.borrow().identity;
        if is_another {
            *self.open.borrow_mut() = Rc::new(Open::new(&self.path)?);
        }
        Ok(is_another)
    }

    fn look(&self, id: &[u8]) -> io::Result<Option<Found>> {
        let stamp = |coding| -> io::Result<Option<Stamp>> {
            Ok(self.find(id, coding)?.map(|line| line.row.stamp))
        };
        let Some(plain) = stamp(Coding::Plain)? else { return Ok(None) };
        let compressed = |coding| -> io::Result<Option<Stamp>> {
            Ok(stamp(coding)?.filter(|stamp| stamp.modified_ns >= plain.modified_ns))
        };
        let [brotli, gzip] = Coding::COMPRESSED;
        Ok(Some(Found { plain, compressed: [compressed(brotli)?, compressed(gzip)?] }))
    }

    fn open(&self, id: &[u8], coding: Coding) -> io::Result<Option<Opened<Row>>> {
        let line = self.find(id, coding)?;
        Ok(line.map(|mut line| {
            if line.name.ends_with(coding.suffix().as_bytes()) {
                line.name.truncate(line.name.len() - coding.suffix().len());
            }
            Opened { stamp: line.row.stamp, handle: line.row, name: line.name }
        }))
    }

    fn stamp(&self, handle: &Row) -> io::Result<Stamp> {
        // No program writes to a database that is served.
        Ok(handle.stamp)
    }

    /// Whether there is a file below the directory. A database does not store directories
    /// themselves.
    fn is_directory(&self, id: &[u8]) -> io::Result<bool> {
        let open = self.open.borrow();
        // In byte order, the digit 0 directly follows the slash.
        let (from, to) = ([id, b"/"].concat(), [id, b"0"].concat());
        fault!("files.query")?;
        let mut below = open.connection.prepare_cached(BELOW).map_err(failed)?;
        below.exists(params![from, to]).map_err(failed)
    }

    fn read(&self, handle: &Row, offset: u64, most: usize) -> io::Result<Vec<u8>> {
        let end = handle.stamp.len.min(offset.saturating_add(most as u64));
        let mut chunk = handle
            .database
            .connection
            .prepare_cached("SELECT bytes FROM chunks WHERE place = ?1")
            .map_err(failed)?;
        let mut read = Vec::with_capacity(end.saturating_sub(offset) as usize);
        while offset + (read.len() as u64) < end {
            let at = offset + read.len() as u64;
            let place = handle.number * CHUNKS + (at / CHUNK) as i64;
            let before = read.len();
            fault!("files.chunk")?;
            let found = chunk.query_row(params![place], |row| {
                let bytes = row.get_ref(0)?.as_blob()?;
                let from = bytes.len().min((at % CHUNK) as usize);
                let to = bytes.len().min(from + (end - at) as usize);
                read.extend_from_slice(&bytes[from..to]);
                Ok(())
            });
            found.optional().map_err(failed)?;
            if read.len() == before {
                // A database never changes: shorter contents would pass for all of them.
                return Err(io::ErrorKind::UnexpectedEof.into());
            }
        }
        Ok(read)
    }

    fn file(_: &Row) -> Option<Arc<OwnedFd>> {
        None
    }
}

/// A callback for the progress of an import: the numbers of files and of bytes so far.
pub type Progress<'a> = &'a mut dyn FnMut(u64, u64);

/// Makes a database of all files of a directory, under a temporary name. Then it takes its place in
/// one step, also that of an older database. Returns the number of files and their bytes.
///
/// # Errors
/// Those of reading the directory and of writing the database; then nothing has changed.
pub fn import(
    directory: &Directory,
    layout: &dyn Layout,
    database: &Path,
    progress: Progress<'_>,
) -> io::Result<(u64, u64)> {
    // SQLite writes by a path only. The next import removes the file of a killed one.
    let draft = Draft::with_name(database, 0o644)?;
    let (mut files, mut bytes) = (0, 0);
    {
        let mut connection = Connection::open(draft.path_now()).map_err(failed)?;
        connection.execute_batch(SCHEMA).map_err(failed)?;
        let transaction = connection.transaction().map_err(failed)?;
        layout.each(directory, &mut |id, path| {
            files += 1;
            bytes += import_file(&transaction, directory, files, id, path)?;
            progress(files, bytes);
            Ok(())
        })?;
        transaction.commit().map_err(failed)?;
    }
    draft.file().sync_all()?;
    draft.replace()?.sync()?;
    Ok((files, bytes))
}

fn import_file(
    connection: &Connection,
    directory: &Directory,
    number: u64,
    id: &[u8],
    path: &Path,
) -> io::Result<u64> {
    let Some((file, stamp)) = directory.open_file(path)? else {
        return Err(io::Error::new(io::ErrorKind::NotFound, format!("{}: gone", path.display())));
    };
    let mut chunk = connection
        .prepare_cached("INSERT INTO chunks(place, bytes) VALUES(?1, ?2)")
        .map_err(failed)?;
    let mut file = std::fs::File::from(file);
    let (mut bytes, mut place) = (0u64, number as i64 * CHUNKS);
    loop {
        let mut part = Vec::new();
        io::Read::read_to_end(&mut io::Read::take(&mut file, CHUNK), &mut part)?;
        if part.is_empty() {
            break;
        }
        bytes += part.len() as u64;
        chunk.execute(params![place, part]).map_err(failed)?;
        place += 1;
    }
    let ns = |ns: i128| i64::try_from(ns).unwrap_or(i64::MAX);
    connection
        .prepare_cached("INSERT INTO files VALUES(?1, ?2, ?3, ?4, ?5, ?6)")
        .and_then(|mut insert| {
            let (modified, changed) = (ns(stamp.modified_ns), ns(stamp.changed_ns));
            insert.execute(params![
                number as i64,
                id,
                last_name(path),
                bytes as i64,
                modified,
                changed
            ])
        })
        .map_err(failed)?;
    Ok(bytes)
}
