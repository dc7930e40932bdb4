//! Reads a backup to its end, checks all of it, and reports its contents.
//!
//! Invariant: only one frame is in memory at a time, so a backup of any length can be read from a
//! pipe. Damage is part of the result, and reading continues after damage if possible.

use crate::error::{Error, Result};
use crate::hold::frames::{Frame, RawFrame, Reader};
use crate::hold::restore::STREAM;
use crate::hold::survivors::{Image, survivors};
use crate::memory::roots::is_own;
use std::collections::BTreeMap;
use std::fs::File;
use std::io::{BufReader, Read};
use std::path::Path;

/// The maximum number of damaged parts that are reported one by one.
const MOST_DAMAGE: usize = 100;

/// The contents of a backup; see [`backup_contents`].
#[derive(Clone, Debug)]
#[cfg_attr(feature = "serde", derive(serde::Serialize))]
#[non_exhaustive]
pub struct BackupContents {
    /// The time when the backup was begun, in milliseconds since 1970; `None` if the backup does
    /// not contain it.
    pub made_ms: Option<u64>,
    /// The maps, sorted by name.
    pub maps: Vec<BackupMap>,
    /// The number of pairs in the maps.
    pub pairs: u64,
    /// The number of bytes that were read.
    pub bytes: u64,
    /// The damage; empty if the backup is sound. The numbers of maps and pairs then count only
    /// what can be read.
    pub damage: Vec<String>,
}

/// A map in a backup.
#[derive(Clone, Debug)]
#[cfg_attr(feature = "serde", derive(serde::Serialize))]
#[non_exhaustive]
pub struct BackupMap {
    /// Its name.
    pub name: String,
    /// The number of its pairs, expired ones included.
    pub pairs: u64,
}

/// Reads the backup in a file to its end, and checks all checksums.
///
/// # Errors
/// `NotAHold` if it is not a backup; those of reading files. Damage is part of the result.
pub fn backup_contents(backup: impl AsRef<Path>) -> Result<BackupContents> {
    let backup = backup.as_ref();
    let failed = |e: std::io::Error| Error::os(backup.display(), &e);
    let file = File::open(backup).map_err(failed)?;
    let found = file.metadata().map_err(failed)?;
    let len = if found.is_file() { found.len() } else { u64::MAX };
    let reader = BufReader::with_capacity(1 << 20, file);
    Reading::default().read(Reader::new(reader, len, backup.display().to_string())?)
}

/// Like [`backup_contents`], but reads a stream, such as a pipe.
///
/// # Errors
/// Those of [`backup_contents`].
pub fn backup_contents_from(stream: impl Read) -> Result<BackupContents> {
    let reader = BufReader::with_capacity(1 << 20, stream);
    Reading::default().read(Reader::new(reader, u64::MAX, STREAM.to_owned())?)
}

/// The results so far.
#[derive(Default)]
struct Reading {
    made_ms: Option<u64>,
    /// By number.
    maps: BTreeMap<u32, String>,
    images: Vec<Image>,
    /// The number of pairs of each image.
    pairs: Vec<u64>,
    frames: u64,
    damage: Vec<String>,
    /// The number of damaged parts.
    damaged: usize,
}

impl Reading {
    fn read<R: Read>(mut self, mut reader: Reader<R>) -> Result<BackupContents> {
        loop {
            let begin = reader.offset();
            let Some(raw) = reader.next_raw()? else {
                reader.skip_rest()?;
                self.end_missing(begin, reader.offset());
                break;
            };
            if !raw.has_kind() {
                reader.skip_rest()?;
                self.damaged(format!("nothing from byte {begin} on can be read"));
                break;
            }
            let frame = raw.parse().filter(|_| raw.is_sound);
            match frame {
                Some(Frame::End { frames }) => {
                    self.end(frames, reader.skip_rest()?);
                    break;
                }
                Some(frame) => self.take(frame, &raw),
                None => self.damaged_frame(&raw, reader.offset()),
            }
            self.frames += 1;
        }
        Ok(self.contents(reader.offset()))
    }

    fn take(&mut self, frame: Frame, raw: &RawFrame) {
        match frame {
            Frame::Hold { made_ms, .. } if self.frames == 0 => {
                self.made_ms = (made_ms > 0).then_some(made_ms);
            }
            Frame::Map { number, name, .. } => drop(self.maps.insert(number, name)),
            Frame::Segment { number, prefix, depth, pairs } if self.maps.contains_key(&number) => {
                self.images.push((number, prefix, depth));
                self.pairs.push(pairs.len() as u64);
            }
            Frame::Dropped { number } => drop(self.maps.remove(&number)),
            // The frame of its map is damaged, which was already reported.
            Frame::Segment { .. } if self.damaged > 0 => {}
            _ => self.damaged(format!("the frame at byte {} is not valid at this place", raw.at)),
        }
    }

    /// Reports a damaged frame. Its map is only a guess, which helps the user to estimate the loss.
    fn damaged_frame(&mut self, raw: &RawFrame, end: u64) {
        let map = match raw.parse() {
            Some(Frame::Segment { number, .. }) => self.maps.get(&number),
            _ => None,
        };
        let of = map.map_or_else(String::new, |name| format!(", probably of map '{name}'"));
        self.damaged(format!("the checksum of bytes {} to {end} is wrong{of}", raw.at));
    }

    fn end_missing(&mut self, begin: u64, end: u64) {
        let text = match begin == end {
            true => format!("the backup is truncated after {end} bytes"),
            false => format!("the backup is truncated, or damaged from byte {begin} on"),
        };
        self.damaged(text);
    }

    fn end(&mut self, frames: u64, behind: u64) {
        if frames != self.frames {
            let found = self.frames;
            self.damaged(format!("expected {frames} frames, found {found}"));
        }
        if behind > 0 {
            self.damaged(format!("{behind} bytes follow the end of the backup"));
        }
    }

    fn damaged(&mut self, what: String) {
        self.damaged += 1;
        match self.damaged.cmp(&MOST_DAMAGE) {
            std::cmp::Ordering::Less => self.damage.push(what),
            std::cmp::Ordering::Equal => {
                self.damage.push(format!("{what}; further damage is not listed"))
            }
            std::cmp::Ordering::Greater => {}
        }
    }

    fn contents(self, bytes: u64) -> BackupContents {
        let mut counts: BTreeMap<u32, u64> = BTreeMap::new();
        let alive = survivors(&self.images);
        for ((image, alive), pairs) in self.images.iter().zip(alive).zip(&self.pairs) {
            // The last images of a map cover all of its hash range, so an image that is older
            // than one of them in a part of its range is older in all of it.
            *counts.entry(image.0).or_default() += if alive.is_empty() { 0 } else { *pairs };
        }
        let user = self.maps.iter().filter(|(_, name)| !is_own(name));
        let mut maps: Vec<_> = user
            .map(|(number, name)| BackupMap {
                name: name.clone(),
                pairs: counts.get(number).copied().unwrap_or(0),
            })
            .collect();
        maps.sort_by(|a, b| a.name.cmp(&b.name));
        let pairs = maps.iter().map(|map| map.pairs).sum();
        BackupContents { made_ms: self.made_ms, maps, pairs, bytes, damage: self.damage }
    }
}
