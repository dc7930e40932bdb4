//! Makes a hold from a backup.
//!
//! The frames are read twice: first to learn which images are replaced by later ones, then to set
//! the pairs that remain. The file is opened once, because its name may lead to another backup
//! meanwhile. The hold is built without a name and gets its name when it is whole.

use crate::error::{Error, ErrorKind, Result};
use crate::hold::draft_hold;
use crate::hold::frames::{Frame, Reader};
use crate::hold::handle::Hold;
use crate::hold::options::HoldOptions;
use crate::map::api::handle::Map;
use crate::map::engine::image::ImagePair;
use crate::map::options::MapOptions;
use crate::memory::roots::is_own;
use crate::os::clock;
use crate::os::location;
use std::collections::{HashMap, HashSet};
use std::fs::File;
use std::io::{BufReader, Seek};
use std::path::Path;
use std::time::Duration;

/// The result of [`restore`].
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
    /// Images in the order of the file: map number, prefix, depth.
    images: Vec<(u32, u32, u32)>,
    dropped: HashSet<u32>,
    /// Real time when the backup was made, or 0.
    made_ms: u64,
}

/// Creates a hold from a backup. No other process can see it before it is complete.
///
/// # Errors
/// `Exists`; `Damaged` or `Truncated` if the backup is incomplete; `Full`.
pub fn restore(backup: impl AsRef<Path>, name: impl AsRef<Path>) -> Result<RestoreReport> {
    let (backup, name) = (backup.as_ref(), name.as_ref());
    let target = location::resolve(name, None)?;
    let file = File::open(backup).map_err(|e| Error::os(backup.display(), &e))?;
    let plan = plan(read(&file, backup)?)?;
    if target.symlink_metadata().is_ok() {
        return Err(exists(&target));
    }
    let (draft, report) =
        draft_hold::build(&target, &plan.options, |hold| fill(hold, read(&file, backup)?, &plan))?;
    let placed = draft.commit().map_err(|error| match error.kind() {
        std::io::ErrorKind::AlreadyExists => exists(&target),
        _ => draft_hold::failed(&target, "cannot be named", &error),
    })?;
    draft_hold::sync_name(&placed, &target)?;
    Ok(report)
}

fn exists(target: &Path) -> Error {
    let text =
        format!("{}: already exists; choose another name or drop it first", target.display());
    Error::new(ErrorKind::Exists, text)
}

type BackupReader<'a> = Reader<BufReader<&'a File>>;

/// Reads the file at the path `backup` from its beginning.
fn read<'a>(mut file: &'a File, backup: &Path) -> Result<BackupReader<'a>> {
    let failed = |e: std::io::Error| Error::os(backup.display(), &e);
    file.rewind().map_err(failed)?;
    let len = file.metadata().map_err(failed)?.len();
    Reader::new(BufReader::with_capacity(1 << 20, file), len, backup.display().to_string())
}

fn plan(mut reader: BackupReader<'_>) -> Result<Plan> {
    let (mut plan, mut frames) = (Plan::default(), 0);
    let mut maps = HashSet::new();
    loop {
        match reader.next()? {
            Frame::Hold { max_bytes, mode, made_ms } if frames == 0 => {
                // The owner must be able to open the restored hold.
                plan.options = Hold::options().max_bytes(max_bytes).mode(mode | 0o600);
                plan.made_ms = made_ms;
            }
            Frame::Map { number, .. } => {
                maps.insert(number);
            }
            Frame::Segment { number, prefix, depth, .. } if maps.contains(&number) => {
                plan.images.push((number, prefix, depth));
            }
            Frame::Dropped { number } => {
                plan.dropped.insert(number);
            }
            Frame::End { frames: expected } if expected == frames => return Ok(plan),
            _ => return Err(reader.damaged()),
        }
        frames += 1;
    }
}

/// The hash ranges of one map that later images replace, at the finest resolution needed.
struct Covered {
    bits: Vec<bool>,
}

impl Covered {
    fn covers(&self, directory: u32) -> bool {
        self.bits[directory as usize & (self.bits.len() - 1)]
    }

    fn add(&mut self, prefix: u32, depth: u32) {
        for index in (prefix as usize..self.bits.len()).step_by(1 << depth) {
            self.bits[index] = true;
        }
    }
}

impl Plan {
    /// For every image, the ranges that later images of the same map replace, as one bit each: the
    /// images behind it decide whether a pair with these directory bits survives.
    fn survivors(&self) -> Vec<Vec<(u32, u32)>> {
        // From the back: the ranges that are replaced later, restricted to those that overlap the
        // image.
        let mut finest: HashMap<u32, u32> = HashMap::new();
        for (number, _, depth) in &self.images {
            let deepest = finest.entry(*number).or_default();
            *deepest = (*deepest).max(*depth);
        }
        let mut covered: HashMap<u32, Covered> = finest
            .iter()
            .map(|(number, depth)| (*number, Covered { bits: vec![false; 1 << depth] }))
            .collect();
        let mut all = vec![Vec::new(); self.images.len()];
        for (at, (number, prefix, depth)) in self.images.iter().enumerate().rev() {
            let Some(covered) = covered.get_mut(number) else { continue };
            let len = covered.bits.len();
            let finest = len.ilog2();
            // Indices of this image's range that no later image replaces.
            let alive = (*prefix as usize..len).step_by(1 << depth);
            all[at] =
                alive.filter(|i| !covered.covers(*i as u32)).map(|i| (i as u32, finest)).collect();
            covered.add(*prefix, *depth);
        }
        all
    }
}

fn fill(hold: &Hold, mut reader: BackupReader<'_>, plan: &Plan) -> Result<RestoreReport> {
    let survivors = plan.survivors();
    // A clock that is behind that of the backup must not let pairs live longer than they had left.
    let now_ms = clock::realtime_ms().max(plan.made_ms);
    let mut maps: HashMap<u32, Map> = HashMap::new();
    let (mut pairs_set, mut at) = (0, 0);
    loop {
        match reader.next()? {
            Frame::Map { number, mode, name } => {
                if !plan.dropped.contains(&number) {
                    maps.insert(number, hold.maps().open_or_create(&name, MapOptions::from(mode))?);
                }
            }
            Frame::Segment { number, prefix, depth, pairs } => {
                // Others than before, if a process has written to the file.
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
