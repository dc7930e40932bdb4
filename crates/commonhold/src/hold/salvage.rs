//! Salvages the intact pairs of a file hold that was open when the system stopped.
//!
//! Pages reached the disk in any order, so the salvage trusts neither the index nor the extent
//! table. It tries every place where a record can lie. A record counts if its checksum (over map,
//! lengths, key, value and sequence) is intact and its key has the hash that the record names. Per
//! key the highest sequence wins. A salvage guarantees nothing: a deleted key returns if the page
//! with its deletion was lost. The guarantee comes from `backup`.

use crate::error::{Error, ErrorKind, Result};
use crate::hold::draft_hold;
use crate::hold::handle::Hold;
use crate::hold::open::{Damaged, LEAST_BYTES, MOST_BYTES, open_for_salvage};
use crate::map::engine::bound::Bound;
use crate::map::layout::record::{Record, offset_of};
use crate::map::layout::root::{self, Status};
use crate::map::layout::segment::{BUCKET_SLOTS, Phase, Segment};
use crate::map::options::MapOptions;
use crate::memory::block;
use crate::memory::classes::{EXTENT, SEGMENT_BYTES};
use crate::memory::extents::{Kind, growth, header};
use crate::memory::roots::{self, StructureKind};
use crate::memory::slab;
use crate::os::clock;
use crate::os::location;
use crate::steps::{fault, step};
use crate::sync::hold_clock;
use crate::sync::space::Space;
use std::collections::HashMap;
use std::collections::hash_map::Entry;
use std::ops::Range;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};
use std::sync::atomic::Ordering;
use std::time::Duration;

/// The part behind the name of a damaged file that is kept, after a dot; a number follows.
const KEPT: &str = "unclean-";

/// The number of names that are tried for the damaged file.
const MOST_TRIES: u64 = 100;

/// The result of [`salvage`].
#[derive(Clone, Debug, Default)]
#[cfg_attr(feature = "serde", derive(serde::Serialize))]
#[non_exhaustive]
pub struct SalvageReport {
    /// The number of maps saved.
    pub maps: u32,
    /// The number of pairs saved.
    pub kept: u64,
    /// The number of intact records that are replaced by a newer record of the same key.
    pub superseded: u64,
    /// The number of published records that fail their checksum: they are lost.
    pub dropped: u64,
    /// The number of pairs in the index whose records are missing: they are lost, unless an older
    /// record was found.
    pub missing: u64,
    /// The number of bytes that are missing at the end of the file, compared with the length it
    /// records.
    pub cut_off: u64,
    /// The number of saved pairs without a checksum (fixed-length pairs in the index): their values
    /// are plausible, but not proven.
    pub undecidable: u64,
    /// Other remarks about the salvage.
    pub notes: Vec<String>,
    /// The path of the old file.
    pub kept_old_as: PathBuf,
}

struct Salvage<'a> {
    space: &'a Space,
    maps: HashMap<u32, Bound>,
    /// Per map and key: the best sequence and its find.
    found: HashMap<(u32, Vec<u8>), (u64, Find)>,
    report: SalvageReport,
}

/// A find for a key.
#[derive(PartialEq)]
enum Find {
    /// A record, at this offset.
    Record(u64),
    /// The value of a pair in the index.
    Value(Vec<u8>),
}

/// Recovers the intact records of a file hold that was open when the system stopped.
///
/// It keeps every record whose checksum is intact, and of each key the one with the highest
/// sequence. **Deleted keys may return**, because the page that records the deletion may not have
/// reached the disk. The old file is kept under another name ([`SalvageReport::kept_old_as`]).
///
/// # Errors
/// `Busy` if a process has the hold open; `NotAHold`; those of writing files.
pub fn salvage(name: impl AsRef<Path>) -> Result<SalvageReport> {
    let name = name.as_ref();
    // The file's own name, not a link that leads to it: the new file replaces the own name.
    let path = location::resolve(name, None)?;
    let path = path.canonicalize().unwrap_or(path);
    let failed = |e: std::io::Error| Error::os(path.display(), &e);
    let damaged = open_for_salvage(&path)?;
    let Damaged { space, alone, identity, len, cut_off, unreadable } = damaged;
    let mut salvage = Salvage::new(&space);
    salvage.report.cut_off = cut_off;
    for Range { start, end } in unreadable {
        let text = format!("bytes {start} to {end} of the file cannot be read (a bad sector?)");
        salvage.report.notes.push(text);
    }
    salvage.search(len);
    let limit = growth(&space).max_bytes.load(Ordering::Relaxed);
    let mut options = Hold::options().mode(space.file().mode().map_err(failed)? | 0o600);
    if (LEAST_BYTES..=MOST_BYTES).contains(&limit) {
        options = options.max_bytes(limit);
    }
    let (draft, ()) = draft_hold::build(&path, &options, |hold| salvage.write(hold))?;
    // A process that takes the name away has the hold alone, as this one has, unless it is done by
    // hand.
    if identity_of(&path) != Some(identity) {
        let text = format!("{}: was replaced during the salvage, and is unchanged", path.display());
        return Err(Error::new(ErrorKind::Busy, text));
    }
    let kept = Kept::of(&path, identity)?;
    step!("salvage.kept");
    let placed =
        draft.replace().map_err(|e| draft_hold::failed(&path, "cannot be replaced", &e))?;
    drop(alone);
    let kept_old_as = kept.stays();
    draft_hold::sync_name(&placed, &path)?;
    Ok(SalvageReport { kept_old_as, ..salvage.report })
}

/// The name under which the damaged file is kept: its second one, until the new file has taken the
/// first.
///
/// If the value is dropped before that, the name is removed. A killed salvage leaves the name. The
/// next salvage recognizes it by the file that it names, and continues with it.
struct Kept(Option<PathBuf>);

impl Kept {
    fn of(path: &Path, identity: (u64, u64)) -> Result<Kept> {
        let failed =
            |e: std::io::Error| draft_hold::failed(path, "cannot be kept under another name", &e);
        if let Some(left) = second_name(path, identity) {
            return Ok(Kept(Some(left)));
        }
        let first = clock::realtime_ms();
        for now_ms in first..first + MOST_TRIES {
            let name = path.with_added_extension(format!("{KEPT}{now_ms}"));
            match fault!("salvage.link").and_then(|()| std::fs::hard_link(path, &name)) {
                Err(error) if error.kind() == std::io::ErrorKind::AlreadyExists => {}
                linked => return linked.map(|()| Kept(Some(name))).map_err(failed),
            }
        }
        Err(failed(std::io::ErrorKind::AlreadyExists.into()))
    }

    fn stays(mut self) -> PathBuf {
        self.0.take().unwrap_or_default()
    }
}

impl Drop for Kept {
    fn drop(&mut self) {
        if let Some(name) = &self.0 {
            // If this fails, the next salvage finds it.
            let _ = std::fs::remove_file(name);
        }
    }
}

/// Device and inode of the file that has the name.
fn identity_of(path: &Path) -> Option<(u64, u64)> {
    path.symlink_metadata().ok().map(|found| (found.dev(), found.ino()))
}

/// The name of this form that leads to that file.
fn second_name(path: &Path, identity: (u64, u64)) -> Option<PathBuf> {
    let mut beginning = path.file_name()?.as_encoded_bytes().to_vec();
    beginning.extend(format!(".{KEPT}").bytes());
    let parent = path.parent().filter(|parent| !parent.as_os_str().is_empty());
    let entries = std::fs::read_dir(parent.unwrap_or(Path::new("."))).ok()?;
    let is_meant = |name: &PathBuf| {
        let of_this =
            name.file_name().is_some_and(|n| n.as_encoded_bytes().starts_with(&beginning));
        of_this && identity_of(name) == Some(identity)
    };
    entries.flatten().map(|entry| entry.path()).find(is_meant)
}

impl<'a> Salvage<'a> {
    fn new(space: &'a Space) -> Salvage<'a> {
        let mut report = SalvageReport::default();
        let mut maps = HashMap::new();
        for (id, root) in root::all(space).filter(|(_, root)| root.status() != Status::Free) {
            match Bound::new(space, id, root) {
                Ok(bound) if root.status() == Status::Live => {
                    if let Some(bound) = usable(bound, &maps, &mut report) {
                        maps.insert(id, bound);
                    }
                }
                Ok(bound) => {
                    report.notes.push(format!("map '{}' was being created or dropped", bound.name))
                }
                Err(error) => report.notes.push(error.to_string()),
            }
        }
        for (_, kind, root) in block::all(space) {
            report.notes.push(format!("{kind} '{}': messages are not salvaged", root.name()));
        }
        Salvage { space, maps, found: HashMap::new(), report }
    }

    fn search(&mut self, len: u64) {
        for extent in 0..len.div_ceil(EXTENT) {
            let state = header(self.space, extent).state();
            match state.kind() {
                Kind::Records => {
                    for offset in slab::offsets(extent, state.class()) {
                        self.try_record(offset, len, true);
                    }
                }
                Kind::Run => self.try_record(extent * EXTENT, len, true),
                Kind::Segments => self.try_segments(extent, len),
                Kind::Body | Kind::Table | Kind::Directory | Kind::SpareDirectory | Kind::Block => {
                }
                // Its header may be lost: any place may be a record.
                Kind::Empty | Kind::Free | Kind::Claimed | Kind::Unknown => {
                    for offset in (extent * EXTENT..(extent + 1) * EXTENT).step_by(8) {
                        self.try_record(offset, len, false);
                    }
                }
            }
        }
    }

    /// Takes the record at `offset` if it is intact; `expected` if there should be one.
    fn try_record(&mut self, offset: u64, len: u64, expected: bool) {
        let sequence = self.space.word(offset).load(Ordering::Relaxed);
        if !slab::is_sequence(sequence) || offset + 16 > len {
            return;
        }
        let map = (self.space.word(offset + 8).load(Ordering::Relaxed) >> 28) as u32 & 0xfff;
        let bound = self.maps.get(&map).filter(|bound| bound.inline.is_none());
        let record = bound.and_then(|bound| {
            let record = bound.shape.measure(self.space, offset, sequence, len - offset)?;
            Some((record, intact_key(bound, &record)?))
        });
        match record {
            Some((_, key)) => self.keep(map, key, sequence, Find::Record(offset)),
            None => self.report.dropped += u64::from(expected),
        }
    }

    fn keep(&mut self, map: u32, key: Vec<u8>, sequence: u64, find: Find) {
        match self.found.entry((map, key)) {
            Entry::Vacant(place) => {
                place.insert((sequence, find));
            }
            Entry::Occupied(mut place) if place.get().1 != find => {
                self.report.superseded += 1;
                if sequence > place.get().0 {
                    place.insert((sequence, find));
                }
            }
            Entry::Occupied(_) => {}
        }
    }

    /// Fixed-length pairs lie in the segments themselves: a pair is kept where its hash fits the
    /// place.
    fn try_segments(&mut self, extent: u64, len: u64) {
        for at in 0..EXTENT / SEGMENT_BYTES {
            let offset = extent * EXTENT + at * SEGMENT_BYTES;
            let Some(segment) = Segment::at(self.space, offset) else { continue };
            let live = slab::is_sequence(segment.header().state_word.load(Ordering::Relaxed));
            let phase: Phase = segment.phase();
            let Some(bound) = live.then(|| self.maps.get(&segment.map())).flatten() else {
                continue;
            };
            let Some(inline) = &bound.inline else {
                let is_missing = |position: &u32| self.is_missing(bound, segment, *position, len);
                let missing = (0..bound.positions()).filter(is_missing).count();
                self.report.missing += missing as u64;
                continue;
            };
            let sequence = segment.header().state_word.load(Ordering::Relaxed);
            let mut pairs = Vec::new();
            for position in 0..bound.positions() {
                let Some((key, value)) = inline.pair(segment, position) else { continue };
                let hash = bound.hasher.hash(&key);
                let fits = phase.covers(hash.directory())
                    && hash.buckets(bound.buckets).contains(&(position / BUCKET_SLOTS));
                match fits {
                    true => pairs.push((key, value)),
                    false => self.report.dropped += 1,
                }
            }
            let map = bound.id;
            for (key, value) in pairs {
                // The sequence is the segment's.
                self.keep(map, key, sequence, Find::Value(value));
            }
        }
    }

    /// True if a slot names a record and there is no such record.
    fn is_missing(&self, bound: &Bound, segment: Segment<'_>, position: u32, len: u64) -> bool {
        let word = segment.slot(position).load(Ordering::Relaxed);
        let offset = offset_of(word);
        let is_there = || {
            let sequence = self.space.word(offset).load(Ordering::Relaxed);
            let map = (self.space.word(offset + 8).load(Ordering::Relaxed) >> 28) as u32 & 0xfff;
            slab::is_sequence(sequence) && map == bound.id
        };
        word != 0 && (offset + 16 > len || !is_there())
    }

    fn write(&mut self, hold: &crate::hold::handle::Hold) -> Result<()> {
        let mut targets = HashMap::new();
        for bound in self.maps.values() {
            targets.insert(
                bound.id,
                hold.maps().open_or_create(&bound.name, MapOptions::from(bound.mode))?,
            );
        }
        self.report.maps = targets.len() as u32;
        let now = hold_clock::now(self.space);
        for ((id, key), (sequence, find)) in &self.found {
            let (Some(bound), Some(target)) = (self.maps.get(id), targets.get(id)) else {
                continue;
            };
            let place = match find {
                Find::Record(offset) => offset,
                Find::Value(value) => {
                    target.set(key, value)?;
                    self.report.undecidable += 1;
                    self.report.kept += 1;
                    continue;
                }
            };
            let room = self.space.file().len().unwrap_or(0).saturating_sub(*place);
            let Some(record) = bound.shape.measure(self.space, *place, *sequence, room) else {
                self.report.dropped += 1;
                continue;
            };
            let mut value = Vec::new();
            record.append_value(&mut value);
            match record.expiry() {
                0 => target.set(key, &value)?,
                expiry if expiry > now => {
                    target.set_with_ttl(key, &value, Duration::from_millis(expiry - now))?
                }
                _ => continue,
            };
            self.report.kept += 1;
        }
        Ok(())
    }
}

/// The map, under another name if its own is damaged; `None`, with a note, if no map can have such
/// a root.
fn usable(
    mut bound: Bound,
    maps: &HashMap<u32, Bound>,
    report: &mut SalvageReport,
) -> Option<Bound> {
    if let Err(error) = MapOptions::from(bound.mode).validate() {
        report.notes.push(format!("map '{}' is lost: {error}", bound.name.escape_default()));
        return None;
    }
    let taken = maps.values().any(|other| other.name == bound.name);
    if taken || roots::check_name(StructureKind::Map, &bound.name).is_err() {
        let name = format!("salvaged-{}", bound.id);
        report.notes.push(format!(
            "the name of map '{}' is damaged: its pairs are in '{name}'",
            bound.name.escape_default()
        ));
        bound.name = name;
    }
    Some(bound)
}

/// The key of a record whose checksum is intact.
fn intact_key(bound: &Bound, record: &Record<'_>) -> Option<Vec<u8>> {
    let (mut key, mut value) = (Vec::new(), Vec::new());
    record.append_key(&mut key);
    // The key's hash first: it is cheap and rules nearly everything else out.
    if !record.is_of(bound.id, bound.hasher.hash(&key)) {
        return None;
    }
    record.append_value(&mut value);
    record.is_intact(&key, &value).then_some(key)
}
