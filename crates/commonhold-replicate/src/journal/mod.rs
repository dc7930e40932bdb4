//! A journal: a replica that is a file, from which a map is rebuilt after a crash of the system.
//!
//! | idea | file |
//! |---|---|
//! | the file: frames with checksums and positions | `file`, `reader` |
//! | what a file contains, and where it is damaged | `survey` |
//! | the thread that writes it, and rewrites it when it has grown | `journal_writer` |
//! | one such file, and the stream that goes into it | `file_writer` |
//! | a damaged file that is kept | `damaged_file` |
//! | the file that the next one replaces | `target` |
//! | how much of a file a later writer may trust | `trust` |
//! | which files belong to the present map | `run` |
//! | times in the file | `stamps`, `span` |
//! | earlier files, which are kept, and whose they are | `archive`, `owner` |
//! | all files of a journal, and holes between them | `timeline` |
//! | a state at a point in time | `past` |
//! | a map from a journal | `rebuild` |
//! | the changes that a map's stream no longer has | `backlog`, `places` |
//! | which files the maps of a hold have | `catalogue`, `map_files` |
//!
//! `docs/operations/durability.md` lists what survives which failure. A process that has changed a
//! map and must know that the change is safe calls [`Map::sync`](commonhold::map::Map::sync).

pub(crate) mod archive;
pub(crate) mod backlog;
pub(crate) mod catalogue;
mod damaged_file;
pub(crate) mod file;
mod file_writer;
mod journal_writer;
mod map_files;
mod owner;
mod past;
mod places;
mod reader;
pub(crate) mod rebuild;
mod run;
mod span;
mod stamps;
mod survey;
pub(crate) mod target;
mod timeline;
mod trust;

pub use past::{PastState, find_state};
pub use rebuild::{Rebuilt, rebuild, rebuild_state};
pub use span::{Span, read_time, shown_time};
pub use survey::{Damage, JournalContents, inspect};
pub use timeline::{Hole, InspectedFile, Timeline, inspect_all};

use commonhold::map::MapMode;
use commonhold::raw::limit_thread_patience;
use commonhold::stream::StreamPosition;
use commonhold::{Error, ErrorKind, Hold, Result};
use commonhold_io::owned_threads::OwnedThreads;
use commonhold_io::reports::Reporter;
use journal_writer::{JournalWriter, PATIENCE};
use rebuild::{interrupted, is_half_rebuilt};
use std::fmt;
use std::path::{Path, PathBuf};
use std::str::FromStr;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

/// How often the thread checks whether it should end.
const LOOK: Duration = Duration::from_millis(50);

/// When written changes are made durable (`fdatasync`).
#[derive(Clone, Copy, Debug, PartialEq, Eq, serde::Serialize)]
#[serde(rename_all = "lowercase")]
pub enum SyncPolicy {
    /// After every write; changes that come during a sync are written and made durable together.
    Always,
    /// At most this long after a write.
    Every(Duration),
    /// When the system finds time. A crash of the system may then lose any part of the end;
    /// [`Map::sync`](commonhold::map::Map::sync) fails.
    Never,
}

impl fmt::Display for SyncPolicy {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            SyncPolicy::Always => f.write_str("always"),
            SyncPolicy::Every(time) => write!(f, "every-ms {}", time.as_millis()),
            SyncPolicy::Never => f.write_str("never"),
        }
    }
}

impl FromStr for SyncPolicy {
    type Err = Error;

    fn from_str(text: &str) -> Result<SyncPolicy> {
        let every = || {
            let number = text.strip_prefix("every-ms")?.trim_start_matches(['=', ' ']);
            let ms = number.parse().ok().filter(|ms| (1..=3_600_000).contains(ms))?;
            Some(SyncPolicy::Every(Duration::from_millis(ms)))
        };
        match text {
            "always" => Ok(SyncPolicy::Always),
            "never" => Ok(SyncPolicy::Never),
            _ => every().ok_or_else(|| {
                let text = format!(
                    "expected always, never, or every-ms=N with N from 1 to 3600000, got '{text}'"
                );
                Error::new(ErrorKind::Invalid, text)
            }),
        }
    }
}

/// Options of a journal.
#[derive(Clone, Debug)]
pub struct JournalOptions {
    /// When written changes are made durable.
    pub sync: SyncPolicy,
    /// Bytes of changes that the map's stream keeps; 0 leaves the stream as it is, or begins one of
    /// 64 MiB. A stream of another size begins again: see
    /// [`Maps::begin_stream`](commonhold::hold::Maps::begin_stream). It limits how far the journal
    /// may fall behind before it has to begin again.
    pub stream_bytes: u64,
    /// The least size in bytes at which the file is compacted. It is compacted when it has twice
    /// the bytes that it had after the last time, but not below this size.
    pub compact_bytes: u64,
    /// Whether to discard the file, whatever is in it, and to begin a new one.
    pub replace: bool,
    /// Whether [`rebuild`] leaves out damaged parts of the file, instead of refusing it.
    pub skip_damaged: bool,
    /// How long earlier states of the map can be restored: a file that the next one replaces stays
    /// in the archive as a segment. `None` keeps no earlier files, and removes none.
    pub keep: Option<Duration>,
    /// The directory with the segments, which must be on the file's file system; `None` for the
    /// path of the file and `.d`.
    pub archive: Option<PathBuf>,
    /// With `keep`, the next file begins at the latest after this time, unless nothing changes.
    pub segment_time: Duration,
}

impl Default for JournalOptions {
    fn default() -> JournalOptions {
        let sync = SyncPolicy::Always;
        JournalOptions {
            sync,
            stream_bytes: 0,
            compact_bytes: 16 << 20,
            replace: false,
            skip_damaged: false,
            keep: None,
            archive: None,
            segment_time: Duration::from_secs(3600),
        }
    }
}

/// The state of a journal.
#[derive(Clone, Debug, PartialEq, Eq, serde::Serialize)]
pub struct JournalStatus {
    /// The id of its process.
    pub pid: u32,
    /// The path of its file.
    pub file: String,
    /// Its policy for syncs.
    pub sync: String,
    /// The position in the stream up to which it has written.
    pub position: Option<StreamPosition>,
    /// The position up to which it is durable.
    pub durable: Option<StreamPosition>,
    /// The length of the file in bytes.
    pub bytes: u64,
    /// How often it was compacted.
    pub compactions: u64,
    /// The directory of its segments, if it keeps any.
    pub archive: Option<String>,
    /// How many files it has kept as segments.
    pub segments: u64,
    /// The reason why segments that are older than they must be cannot be removed.
    pub archive_error: Option<String>,
    /// The path under which it keeps the file that it found, if that was damaged.
    pub damaged_file: Option<String>,
    /// The reason why changes are not becoming durable; `None` if they are.
    pub error: Option<String>,
    /// The reason why the last compaction failed, or why the file could not be kept as a segment.
    /// The file keeps growing, and the changes in it become durable.
    pub rewrite_error: Option<String>,
}

impl JournalStatus {
    pub(crate) fn new(file: &Path, sync: SyncPolicy) -> JournalStatus {
        JournalStatus {
            pid: std::process::id(),
            file: file.display().to_string(),
            sync: sync.to_string(),
            position: None,
            durable: None,
            bytes: 0,
            compactions: 0,
            archive: None,
            segments: 0,
            archive_error: None,
            damaged_file: None,
            error: None,
            rewrite_error: None,
        }
    }
}

/// Writes the journal of a map, in a thread of its own.
///
/// Any process may write the map, and wait until its changes are durable
/// ([`Map::sync`](commonhold::map::Map::sync)). If the journal's process is killed, the next
/// journal resumes the file. `sync` and [`status`](Self::status) report a disk that is full or
/// fails; the journal continues as soon as it can.
///
/// With [`JournalOptions::keep`], earlier states of the map can be restored ([`find_state`],
/// [`rebuild_state`]).
///
/// Dropping a journal writes all changes, makes them durable, and ends the thread;
/// [`finish`](Self::finish) also reports whether that succeeded. Both wait for the disk without
/// limit, and about a second for each lock of a stopped process. A forked child may drop the
/// journal, which has no effect, because the thread belongs to the parent. The child must not use
/// it otherwise.
pub struct Journal {
    shared: Arc<Shared>,
    threads: OwnedThreads,
}

struct Shared {
    end: AtomicBool,
    status: Mutex<JournalStatus>,
}

impl fmt::Debug for Journal {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Journal").field("status", &self.status()).finish_non_exhaustive()
    }
}

impl Journal {
    /// Begins the journal of a map, and a stream of the map if it has none. An existing file is
    /// resumed if the map has all its changes: journals of this map wrote it, or the map was
    /// rebuilt from it. If it is damaged, it is kept under another name, and a new file takes its
    /// place ([`JournalStatus::damaged_file`]).
    ///
    /// The map may be a replica's: the journal then records what the replica applies. When a full
    /// sync replaces the map, the journal begins a new file. A file of an earlier state of the
    /// origin's map is replaced.
    ///
    /// # Errors
    /// `NotFound` if there is no such map; `Mismatch` if it is a cache, or if the file has changes
    /// that the map lacks: [`rebuild`] from it first, or move it away; `Busy` if the map, or the
    /// file, has a journal already, or if a replica's map has not received its contents yet;
    /// `Invalid` if the archive is on another file system than the file; those
    /// of files and of [`Maps::begin_stream`](commonhold::hold::Maps::begin_stream).
    pub fn start(
        hold: &Hold,
        map: &str,
        file: impl AsRef<Path>,
        options: JournalOptions,
    ) -> Result<Journal> {
        let name = map;
        // The absolute path leads to the file after a change of the working directory, too.
        let file = &std::path::absolute(file.as_ref())
            .map_err(|e| file::failed(file.as_ref(), "cannot find", &e))?;
        let mut options = options;
        if let Some(archive) = &mut options.archive {
            let absolute = std::path::absolute(&*archive);
            *archive = absolute.map_err(|e| file::failed(archive, "cannot find", &e))?;
        }
        let map = hold.maps().open(name)?;
        if matches!(map.options().mode(), MapMode::Cache { .. }) {
            let text = format!(
                "map '{name}' is a cache, which may evict pairs at any time; only other maps have \
                 journals"
            );
            return Err(Error::new(ErrorKind::Mismatch, text));
        }
        let slot = commonhold::raw::JournalSlot::take(hold, name)?;
        if is_half_rebuilt(hold, &slot.notes(), &map)? {
            return Err(interrupted(name));
        }
        let writer = JournalWriter::new(hold, map, file, options, slot)?;
        let status = Mutex::new(writer.status.clone());
        let shared = Arc::new(Shared { end: AtomicBool::new(false), status });
        let reporter = Reporter::new(hold, "journal", name).ok();
        let seen = Arc::clone(&shared);
        let thread = std::thread::Builder::new().name("journal".into());
        let thread = commonhold::fault!("journal.thread")
            .and_then(|()| thread.spawn(move || keep(writer, &seen, reporter)));
        let thread =
            thread.map_err(|e| Error::new(ErrorKind::Io, format!("cannot start a thread: {e}")))?;
        let mut threads = OwnedThreads::default();
        threads.push(thread);
        Ok(Journal { shared, threads })
    }

    /// The journal's state at this moment.
    pub fn status(&self) -> JournalStatus {
        self.shared.status.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }

    /// True if the thread has ended by itself, because its map was dropped.
    pub fn is_over(&self) -> bool {
        self.threads.have_ended()
    }

    /// Writes all changes, makes them durable, and ends the thread. Waits for the disk without
    /// limit.
    ///
    /// # Errors
    /// `Io` with the reason, if not everything has become durable.
    pub fn finish(mut self) -> Result<()> {
        self.end();
        match self.status().error {
            None => Ok(()),
            Some(why) => Err(Error::new(ErrorKind::Io, why)),
        }
    }

    /// Requests the end of the thread, which writes all changes before.
    pub(crate) fn begin_end(&self) {
        self.shared.end.store(true, Ordering::Release);
    }

    fn end(&mut self) {
        self.begin_end();
        self.threads.join();
    }
}

impl Drop for Journal {
    fn drop(&mut self) {
        self.end();
    }
}

/// Notes the end of the journal's thread if it is a panic: not everything has become durable then.
struct Ending<'a>(&'a Shared);

impl Drop for Ending<'_> {
    fn drop(&mut self) {
        if std::thread::panicking() {
            let mut status = self.0.status.lock().unwrap_or_else(PoisonError::into_inner);
            status.error = Some("the journal's thread has panicked".to_owned());
        }
    }
}

fn keep(mut writer: JournalWriter, shared: &Shared, mut reporter: Option<Reporter>) {
    let _ending = Ending(shared);
    limit_thread_patience(PATIENCE);
    let mut show = |status: &JournalStatus| {
        *shared.status.lock().unwrap_or_else(PoisonError::into_inner) = status.clone();
        if let Some(reporter) = &mut reporter {
            reporter.report(false, || status.clone());
        }
    };
    while !shared.end.load(Ordering::Acquire) {
        let over = writer.turn(LOOK).is_err();
        if over {
            writer.conclude_dropped();
        }
        show(&writer.status);
        if over {
            return;
        }
    }
    if let Err(error) = writer.finish() {
        writer.status.error = Some(error.to_string());
    }
    show(&writer.status);
}
