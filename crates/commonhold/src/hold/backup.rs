//! A point-in-time copy of all maps while other processes write.
//!
//! It works like the live migration of a machine. The first pass writes images of all segments and
//! blocks no writer. The next passes write those that changed meanwhile. The last pass keeps
//! writers out and writes the few that changed since. An image replaces everything before it in its
//! hash range, so the file as a whole is the state at the freeze.
//!
//! The reader of a stream may be slow, or stopped. Only the first pass goes to it directly. The
//! frames of the others are held back until writers may continue: each of these passes is short,
//! however long the first one took.

use crate::error::{Error, ErrorKind, Result};
use crate::hold::draft_hold;
use crate::hold::frames;
use crate::hold::freeze;
use crate::hold::handle::Hold;
use crate::hold::maps::is_kept;
use crate::hold::spool::Spool;
use crate::map::engine::bound::{self, Bound};
use crate::map::engine::image::{self, ImagePair, Stamp};
use crate::map::engine::iterate::Cursor;
use crate::map::layout::root::{self, Status};
use crate::memory::block;
use crate::memory::extents::growth;
use crate::memory::roots::is_own;
use crate::os::clock;
use crate::os::draft::Draft;
use crate::os::file::check_size_limit;
use crate::steps::{fault, step};
use crate::sync::hold_clock;
use std::collections::HashMap;
use std::io::{BufWriter, Write};
use std::path::Path;
use std::sync::atomic::Ordering;
use std::time::SystemTime;

/// The number of passes that do not keep writers out.
const PASSES: u32 = 3;
/// The maximum number of bytes of frames that are held back in memory.
const MOST_HELD: usize = 64 << 20;

/// The result of [`Hold::backup`].
#[derive(Clone, Debug)]
#[cfg_attr(feature = "serde", derive(serde::Serialize))]
#[non_exhaustive]
pub struct BackupReport {
    /// The number of maps copied.
    pub maps: u32,
    /// The number of pairs in the maps at the moment of the copy.
    pub pairs: u64,
    /// The number of structures in the hold that a backup omits: queues, channels, logs, and maps
    /// that are being replicated or rebuilt and have no contents yet.
    pub left_out: u32,
    /// The length of the backup in bytes.
    pub bytes: u64,
    /// How long writers waited, in milliseconds.
    pub paused_ms: f64,
}

/// A backup under way.
struct Backup<'a, W: Write> {
    hold: &'a Hold,
    out: BufWriter<W>,
    target: Target<'a>,
    frames: u64,
    bytes: u64,
    /// Real time less hold time at the beginning: it converts a pair's time to other clocks.
    ahead: u64,
    /// The written state of each map, by the map's id and incarnation.
    maps: HashMap<(u32, u64), Written>,
    /// Frames that are written to the backup only when the hold is no longer frozen.
    held: Held,
    holds_back: bool,
}

/// Where a backup goes.
#[derive(Clone, Copy)]
enum Target<'a> {
    File(&'a Path),
    Stream,
}

impl Target<'_> {
    fn failed(self, error: &std::io::Error) -> Error {
        match self {
            Target::File(path) => Error::os(format!("backup to {}", path.display()), error),
            Target::Stream => Error::os("the backup cannot be written", error),
        }
    }
}

/// Bytes that are held back, in memory or, above a limit, in a file.
#[derive(Default)]
struct Held {
    memory: Vec<u8>,
    file: Option<Spool>,
}

impl Held {
    /// Moves the bytes to the file if there are many.
    fn limit(&mut self, most: usize) -> Result<()> {
        if self.memory.len() < most {
            return Ok(());
        }
        let file = match self.file.take() {
            Some(file) => file,
            None => Spool::new()?,
        };
        file.write(&self.memory)?;
        self.memory.clear();
        self.file = Some(file);
        Ok(())
    }
}

struct Written {
    number: u32,
    name: String,
    /// Segments by prefix: their stamp and number of pairs.
    segments: HashMap<(u32, u32), (Stamp, u64)>,
}

impl Hold {
    /// Writes a copy of all maps, as they are at one moment, to a new file, while other processes
    /// keep writing. Queues, channels and logs carry messages and are omitted
    /// ([`BackupReport::left_out`]). Writers wait only for the last, short part
    /// ([`BackupReport::paused_ms`]).
    ///
    /// # Errors
    /// `Exists` if there is a file already; those of [`freeze`](Self::freeze) and of writing files.
    pub fn backup(&self, to: impl AsRef<Path>) -> Result<BackupReport> {
        let to = to.as_ref();
        self.arena().ensure_open()?;
        if to.symlink_metadata().is_ok() {
            let text =
                format!("{}: already exists; choose another name for the backup", to.display());
            return Err(Error::new(ErrorKind::Exists, text));
        }
        let (draft, report) = draft(self, to)?;
        let placed = draft.commit().map_err(|e| Target::File(to).failed(&e))?;
        draft_hold::sync_name(&placed, to)?;
        Ok(report)
    }

    /// Like [`backup`](Self::backup), but writes to a stream, such as a pipe. The reader of the
    /// stream may be slow: writers to the hold never wait for it. If their changes in the meantime
    /// exceed 64 MiB, these wait in a temporary file.
    ///
    /// # Errors
    /// Those of [`freeze`](Self::freeze) and of writing.
    pub fn backup_to(&self, out: impl Write) -> Result<BackupReport> {
        self.arena().ensure_open()?;
        write(self, out, Target::Stream).map(|copied| copied.report)
    }
}

/// A backup that was written.
struct Copied<W> {
    out: W,
    report: BackupReport,
    /// The moment of its contents.
    moment: SystemTime,
}

/// Writes a backup that will become `to`, and makes its bytes durable. It has no name yet. Its time
/// of modification is the moment of its contents, if the file system lets it be set.
pub(super) fn draft(hold: &Hold, to: &Path) -> Result<(Draft, BackupReport)> {
    let failed = |e: std::io::Error| Target::File(to).failed(&e);
    // As private as the hold, whatever the umask. Nameless until it is whole: a killed backup
    // leaves no file behind.
    let draft = Draft::new(to, 0o600).map_err(failed)?;
    step!("backup.begun");
    fault!("backup.duplicate").map_err(failed)?;
    let file = draft.file().try_clone().map_err(failed)?;
    let Copied { out: file, report, moment } = write(hold, file, Target::File(to))?;
    let _ = file.set_modified(moment);
    fault!("backup.sync").and_then(|()| file.sync_all()).map_err(failed)?;
    Ok((draft, report))
}

fn write<W: Write>(hold: &Hold, out: W, target: Target<'_>) -> Result<Copied<W>> {
    let mut backup = Backup {
        hold,
        out: BufWriter::new(out),
        target,
        frames: 0,
        bytes: 0,
        ahead: hold_clock::ahead(hold.space()),
        maps: HashMap::new(),
        held: Held::default(),
        holds_back: false,
    };
    let (report, moment) = backup.run()?;
    let flushed = backup.out.flush();
    flushed.map_err(|e| target.failed(&e))?;
    let out = backup.out.into_inner();
    Ok(Copied { out: out.map_err(|e| target.failed(e.error()))?, report, moment })
}

impl<W: Write> Backup<'_, W> {
    fn run(&mut self) -> Result<(BackupReport, SystemTime)> {
        self.write(frames::HEADER)?;
        let (space, mut first) = (self.hold.space(), Vec::new());
        let max_bytes = growth(space).max_bytes.load(Ordering::Relaxed);
        let failed = |e: std::io::Error| Error::os(space.file().path().display(), &e);
        let made_ms = clock::realtime_ms();
        frames::hold(&mut first, max_bytes, space.file().mode().map_err(failed)?, made_ms);
        self.write(&first)?;
        self.frames += 1;
        for _ in 0..PASSES {
            let changed = self.pass()?;
            if changed < 64 {
                break;
            }
            self.holds_back = matches!(self.target, Target::Stream);
        }
        let frozen = freeze::freeze(self.hold.arena())?;
        let (begun, moment) = (clock::monotonic_ns(), SystemTime::now());
        let rest = self.last_pass();
        let others = block::all(space).filter(|(_, _, root)| root.status() == Status::Live).count();
        let left_out = others + self.unready_maps();
        let paused_ns = clock::monotonic_ns() - begun;
        let held = frozen.ensure_held();
        drop(frozen);
        held.and(rest)?;
        self.write_held()?;
        let mut end = Vec::new();
        frames::end(&mut end, self.frames);
        self.write(&end)?;
        let users: Vec<_> = self.maps.values().filter(|map| !is_own(&map.name)).collect();
        let pairs = users.iter().flat_map(|map| map.segments.values()).map(|(_, pairs)| pairs);
        let report = BackupReport {
            maps: users.len() as u32,
            pairs: pairs.sum(),
            left_out: left_out as u32,
            bytes: self.bytes,
            paused_ms: paused_ns as f64 / 1e6,
        };
        Ok((report, moment))
    }

    fn write(&mut self, bytes: &[u8]) -> Result<()> {
        self.bytes += bytes.len() as u64;
        let failed = |e: std::io::Error| self.target.failed(&e);
        if let Target::File(path) = self.target {
            check_size_limit(path, self.bytes).map_err(failed)?;
        }
        fault!("backup.write").and_then(|()| self.out.write_all(bytes)).map_err(failed)
    }

    /// Writes frames, or holds them back.
    fn put(&mut self, frames: &[u8]) -> Result<()> {
        if !self.holds_back {
            return self.write(frames);
        }
        self.held.memory.extend_from_slice(frames);
        self.held.limit(MOST_HELD)
    }

    fn write_held(&mut self) -> Result<()> {
        let held = std::mem::take(&mut self.held);
        if let Some(file) = &held.file {
            file.drain(|piece| self.write(piece))?;
        }
        self.write(&held.memory)
    }

    /// All maps that belong into a backup.
    fn live_maps(&self) -> Result<Vec<Bound>> {
        let space = self.hold.space();
        let belongs = |map: &Bound| is_kept(&map.name) && !map.root(space).is_unready();
        self.all_maps().filter(|map| map.as_ref().map_or(true, belongs)).collect()
    }

    fn unready_maps(&self) -> usize {
        let is_unready = |map: &Bound| map.root(self.hold.space()).is_unready();
        self.all_maps().filter(|map| map.as_ref().is_ok_and(is_unready)).count()
    }

    fn all_maps(&self) -> impl Iterator<Item = Result<Bound>> {
        let space = self.hold.space();
        root::all(space).filter_map(|(id, root)| bound::read_live(space, id, root))
    }

    /// Writes what changed since the last pass; returns the number of segments written.
    fn pass(&mut self) -> Result<u64> {
        let mut changed = 0;
        for bound in self.live_maps()? {
            match self.pass_map(&bound) {
                Ok(count) => changed += count,
                // Dropped meanwhile: the last pass records that.
                Err(error) if error.is_not_found() => changed += 1,
                Err(error) => return Err(error),
            }
        }
        Ok(changed)
    }

    fn pass_map(&mut self, bound: &Bound) -> Result<u64> {
        let (mut cursor, mut changed, mut pairs) = (Cursor::START, 0, Vec::new());
        let mut frame = Vec::new();
        self.announce(bound, &mut frame);
        self.put(&frame)?;
        while !cursor.is_end() {
            let (stamp, next) = image::read(self.hold.space(), bound, cursor, false, &mut pairs)?;
            if let Some(stamp) = stamp {
                let mut frame = Vec::new();
                if self.note(bound, stamp, &pairs, &mut frame) {
                    self.put(&frame)?;
                    changed += 1;
                }
            }
            cursor = next;
        }
        Ok(changed)
    }

    /// Appends a map's frame if it is new.
    fn announce(&mut self, bound: &Bound, out: &mut Vec<u8>) {
        let key = (bound.id, bound.incarnation);
        if self.maps.contains_key(&key) {
            return;
        }
        let number = self.frames as u32;
        frames::map(out, number, bound.mode, &bound.name);
        self.frames += 1;
        let name = bound.name.clone();
        self.maps.insert(key, Written { number, name, segments: HashMap::new() });
    }

    /// Appends the frame of an image unless the same image was written before.
    fn note(
        &mut self,
        bound: &Bound,
        stamp: Stamp,
        pairs: &[ImagePair],
        out: &mut Vec<u8>,
    ) -> bool {
        let Some(map) = self.maps.get_mut(&(bound.id, bound.incarnation)) else { return false };
        let range = (stamp.prefix, stamp.depth);
        if map.segments.get(&range).is_some_and(|(before, _)| *before == stamp) {
            return false;
        }
        map.segments.insert(range, (stamp, pairs.len() as u64));
        frames::segment(out, map.number, range, pairs, self.ahead);
        self.frames += 1;
        true
    }

    /// With writers kept out: holds the frames of everything that changed since the last pass.
    /// Nothing is written to the backup meanwhile.
    fn last_pass(&mut self) -> Result<()> {
        let space = self.hold.space();
        let mut out = std::mem::take(&mut self.held);
        let live = self.live_maps()?;
        // A map that was renamed meanwhile, as a replica's new map is, is another map for a
        // restore.
        let is_live = |key: &(u32, u64), name: &str| {
            live.iter().any(|b| (b.id, b.incarnation) == *key && b.name == name)
        };
        let gone = self.maps.iter().filter(|(key, map)| !is_live(key, &map.name));
        let gone: Vec<_> = gone.map(|(key, _)| *key).collect();
        for key in gone {
            if let Some(map) = self.maps.remove(&key) {
                frames::dropped(&mut out.memory, map.number);
                self.frames += 1;
            }
        }
        for bound in &live {
            self.announce(bound, &mut out.memory);
            let (mut cursor, mut pairs) = (Cursor::START, Vec::new());
            let mut ranges = HashMap::new();
            while !cursor.is_end() {
                let (mut stamp, next) = image::stamp_at(space, bound, cursor)?;
                let known = self.maps.get(&(bound.id, bound.incarnation));
                let before = known.and_then(|m| m.segments.get(&(stamp.prefix, stamp.depth)));
                if before.is_none_or(|(before, _)| *before != stamp) {
                    match image::read(space, bound, cursor, true, &mut pairs)? {
                        (Some(again), _) => stamp = again,
                        _ => return Err(bound.damaged("a segment changes while no process writes")),
                    }
                    self.note(bound, stamp, &pairs, &mut out.memory);
                    out.limit(MOST_HELD)?;
                }
                let count = self.maps.get(&(bound.id, bound.incarnation));
                let count = count.and_then(|m| m.segments.get(&(stamp.prefix, stamp.depth)));
                ranges.insert((stamp.prefix, stamp.depth), count.map_or((stamp, 0), |c| *c));
                cursor = next;
            }
            if let Some(map) = self.maps.get_mut(&(bound.id, bound.incarnation)) {
                map.segments = ranges;
            }
        }
        self.held = out;
        Ok(())
    }
}
