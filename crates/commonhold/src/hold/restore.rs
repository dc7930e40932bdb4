//! Makes a hold from a backup.
//!
//! The frames are read twice: first to learn which images are replaced by later ones, then to set
//! the pairs that remain. The file is opened once, because its name may lead to another backup
//! meanwhile. The hold is built without a name and gets its name when it is whole.

use crate::error::{Error, ErrorKind, Result};
use crate::hold::draft_hold;
use crate::hold::frames::{Frame, HEADER, Reader};
use crate::hold::handle::Hold;
use crate::hold::options::HoldOptions;
use crate::hold::restore_options::RestoreOptions;
use crate::hold::spool::Spool;
use crate::hold::survivors::{Image, survivors};
use crate::map::api::handle::Map;
use crate::map::engine::image::ImagePair;
use crate::map::options::MapOptions;
use crate::memory::roots::is_own;
use crate::os::clock;
use crate::os::location;
use std::collections::{BTreeSet, HashMap, HashSet};
use std::fs::File;
use std::io::{BufReader, Read, Seek};
use std::path::Path;
use std::time::Duration;

/// The result of [`restore`] and of [`RestoreOptions::restore`].
#[derive(Clone, Debug)]
#[cfg_attr(feature = "serde", derive(serde::Serialize))]
#[non_exhaustive]
pub struct RestoreReport {
    /// The number of maps restored.
    pub maps: u32,
    /// The number of pairs restored; expired pairs are omitted.
    pub pairs: u64,
}

/// The results of the first reading.
#[derive(Default)]
struct Plan {
    /// The options of the hold's creation.
    options: HoldOptions,
    /// Images in the order of the file.
    images: Vec<Image>,
    /// The names of the maps at the end, by number.
    maps: HashMap<u32, String>,
    /// Real time when the backup was made, or 0.
    made_ms: u64,
}

/// Creates a hold from a backup. No other process can see it before it is complete.
///
/// # Errors
/// `Exists`; `Damaged` or `Truncated` if the backup is incomplete; `Full`.
pub fn restore(backup: impl AsRef<Path>, name: impl AsRef<Path>) -> Result<RestoreReport> {
    RestoreOptions::new().restore(backup, name)
}

/// Like [`restore`], but reads a stream, such as a pipe, to its end. A temporary file stores the
/// bytes until the hold is complete.
///
/// # Errors
/// Those of [`restore`], of reading, and of the temporary file.
pub fn restore_from(stream: impl Read, name: impl AsRef<Path>) -> Result<RestoreReport> {
    RestoreOptions::new().restore_from(stream, name)
}

impl RestoreOptions {
    /// Creates a hold from a backup. No other process can see it before it is complete.
    ///
    /// # Errors
    /// `NotFound` if the backup has no map of a given name; the error lists its maps. Those of
    /// [`restore`](crate::hold::restore).
    pub fn restore(
        &self,
        backup: impl AsRef<Path>,
        name: impl AsRef<Path>,
    ) -> Result<RestoreReport> {
        let backup = backup.as_ref();
        let target = location::resolve(name.as_ref(), None)?;
        let file = File::open(backup).map_err(|e| Error::os(backup.display(), &e))?;
        build(self, &Source { file: &file, name: backup.display().to_string() }, &target)
    }

    /// Like [`restore`](Self::restore), but reads a stream, such as a pipe, to its end. A temporary
    /// file stores the bytes until the hold is complete.
    ///
    /// # Errors
    /// Those of [`restore`](Self::restore), of reading, and of the temporary file.
    pub fn restore_from(
        &self,
        mut stream: impl Read,
        name: impl AsRef<Path>,
    ) -> Result<RestoreReport> {
        let target = location::resolve(name.as_ref(), None)?;
        if target.symlink_metadata().is_ok() {
            return Err(exists(&target));
        }
        let name = STREAM.to_owned();
        let spool = spooled(&mut stream)?;
        build(self, &Source { file: spool.file(), name }, &target)
    }
}

/// The name of a stream for errors.
pub(super) const STREAM: &str = "the input";

/// All bytes of a stream, if it begins as a backup does.
fn spooled(stream: &mut impl Read) -> Result<Spool> {
    let mut header = Vec::new();
    let read = stream.by_ref().take(HEADER.len() as u64).read_to_end(&mut header);
    read.map_err(|e| Error::os(STREAM, &e))?;
    // If it is not a backup, this fails at once, however long the stream is.
    Reader::new(&header[..], HEADER.len() as u64, STREAM.to_owned())?;
    let spool = Spool::new()?;
    spool.write(&header)?;
    spool.fill(stream, STREAM)?;
    Ok(spool)
}

/// The file of a backup, which is read twice, and its name for errors.
struct Source<'a> {
    file: &'a File,
    name: String,
}

type BackupReader<'a> = Reader<BufReader<&'a File>>;

impl<'a> Source<'a> {
    /// Reads the file from its beginning.
    fn read(&self) -> Result<BackupReader<'a>> {
        let failed = |e: std::io::Error| Error::os(&self.name, &e);
        let mut file = self.file;
        file.rewind().map_err(failed)?;
        let len = file.metadata().map_err(failed)?.len();
        Reader::new(BufReader::with_capacity(1 << 20, file), len, self.name.clone())
    }
}

fn build(options: &RestoreOptions, source: &Source<'_>, target: &Path) -> Result<RestoreReport> {
    let mut plan = plan(source.read()?)?;
    let names: BTreeSet<&str> = plan.maps.values().map(String::as_str).collect();
    options.ensure_present(&source.name, &names)?;
    plan.maps.retain(|_, name| options.include(name));
    if target.symlink_metadata().is_ok() {
        return Err(exists(target));
    }
    let (draft, report) =
        draft_hold::build(target, &plan.options, |hold| fill(hold, source.read()?, &plan))?;
    let placed = draft.commit().map_err(|error| match error.kind() {
        std::io::ErrorKind::AlreadyExists => exists(target),
        _ => draft_hold::failed(target, "cannot be named", &error),
    })?;
    draft_hold::sync_name(&placed, target)?;
    Ok(report)
}

fn exists(target: &Path) -> Error {
    let text =
        format!("{}: already exists; choose another name or drop it first", target.display());
    Error::new(ErrorKind::Exists, text)
}

fn plan(mut reader: BackupReader<'_>) -> Result<Plan> {
    let (mut plan, mut frames) = (Plan::default(), 0);
    let (mut maps, mut dropped) = (HashSet::new(), HashSet::new());
    loop {
        match reader.next()? {
            Frame::Hold { max_bytes, mode, made_ms } if frames == 0 => {
                // The owner must be able to open the restored hold.
                plan.options = Hold::options().max_bytes(max_bytes).mode(mode | 0o600);
                plan.made_ms = made_ms;
            }
            Frame::Map { number, name, .. } => {
                maps.insert(number);
                plan.maps.insert(number, name);
            }
            Frame::Segment { number, prefix, depth, .. } if maps.contains(&number) => {
                plan.images.push((number, prefix, depth));
            }
            Frame::Dropped { number } => {
                dropped.insert(number);
            }
            Frame::End { frames: expected } if expected == frames => {
                plan.maps.retain(|number, _| !dropped.contains(number));
                return Ok(plan);
            }
            _ => return Err(reader.damaged()),
        }
        frames += 1;
    }
}

fn fill(hold: &Hold, mut reader: BackupReader<'_>, plan: &Plan) -> Result<RestoreReport> {
    let survivors = survivors(&plan.images);
    // A clock that is behind that of the backup must not let pairs live longer than they had left.
    let now_ms = clock::realtime_ms().max(plan.made_ms);
    let mut maps: HashMap<u32, Map> = HashMap::new();
    let (mut pairs_set, mut at) = (0, 0);
    loop {
        match reader.next()? {
            Frame::Map { number, mode, name } => {
                if plan.maps.get(&number) == Some(&name) {
                    maps.insert(number, hold.maps().open_or_create(&name, MapOptions::from(mode))?);
                }
            }
            Frame::Segment { number, prefix, depth, pairs } => {
                // The images differ from the plan if a process has written to the file.
                if plan.images.get(at) != Some(&(number, prefix, depth)) {
                    return Err(reader.damaged());
                }
                let alive = &survivors[at];
                if let Some(map) = maps.get(&number) {
                    let set = set_pairs(map, &pairs, alive, now_ms)?;
                    pairs_set += if is_own(map.name()) { 0 } else { set };
                }
                at += 1;
            }
            Frame::Hold { made_ms, .. } if made_ms != plan.made_ms => return Err(reader.damaged()),
            Frame::Hold { .. } | Frame::Dropped { .. } => {}
            Frame::End { .. } if at != plan.images.len() => return Err(reader.damaged()),
            Frame::End { .. } => {
                let count = maps.values().filter(|map| !is_own(map.name())).count();
                return Ok(RestoreReport { maps: count as u32, pairs: pairs_set });
            }
        }
    }
}

/// Sets the pairs whose directory bits are among `alive`, and which have not expired at the real
/// time `now_ms`.
fn set_pairs(map: &Map, pairs: &[ImagePair], alive: &[(u32, u32)], now_ms: u64) -> Result<u64> {
    let Some(finest) = alive.first().map(|(_, finest)| *finest) else { return Ok(0) };
    let alive: HashSet<u32> = alive.iter().map(|(index, _)| *index).collect();
    let mask = ((1u64 << finest) - 1) as u32;
    let mut count = 0;
    for pair in pairs.iter().filter(|pair| alive.contains(&(pair.directory & mask))) {
        if pair.expiry == 0 {
            map.set(&pair.key, &pair.value)?;
        } else if pair.expiry > now_ms {
            let left = Duration::from_millis(pair.expiry - now_ms);
            map.set_with_ttl(&pair.key, &pair.value, left)?;
        } else {
            continue;
        }
        count += 1;
    }
    Ok(count)
}
