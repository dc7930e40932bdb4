//! A journal read to its end: what is in it, and which parts of it are damaged.
//!
//! An unsound frame has one of two causes. Either it never became durable before the system
//! crashed; then neither did the frames behind it, and the journal ends there. Or the disk has
//! damaged it later; then the sound frames behind it count. The file states how many of its bytes
//! were durable, which tells the two apart.

use crate::journal::JournalOptions;
use crate::journal::reader::{Entry, Reader};
use crate::journal::span::Span;
use commonhold::stream::StreamPosition;
use commonhold::{Error, ErrorKind, Result};
use std::fmt;
use std::ops::Range;
use std::path::Path;

/// The most damaged parts that an error lists.
const LISTED: usize = 4;

/// A damaged part of a journal, which was durable once.
#[derive(Clone, Debug, PartialEq, Eq, serde::Serialize)]
pub struct Damage {
    /// Where it is in the file.
    pub bytes: Range<u64>,
    /// The changes at these offsets of the map's stream were in it. If there are none, it contained
    /// no change.
    pub offsets: Range<u64>,
    /// Whether it may also have contained pairs of the full copy at the beginning of the file.
    pub in_pairs: bool,
}

impl fmt::Display for Damage {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (Range { start, end }, lost) = (&self.bytes, &self.offsets);
        write!(f, "bytes {start} to {end} (")?;
        match (lost.is_empty(), self.in_pairs) {
            (true, true) => write!(f, "pairs are lost)"),
            (true, false) => write!(f, "no change is lost)"),
            (false, true) => {
                write!(f, "pairs, and the changes from {} to {} are lost)", lost.start, lost.end)
            }
            (false, false) => {
                write!(f, "the changes from {} to {} are lost)", lost.start, lost.end)
            }
        }
    }
}

/// The contents of a journal's file.
#[derive(Clone, Debug, PartialEq, Eq, serde::Serialize)]
pub struct JournalContents {
    /// The path of the file.
    pub file: String,
    /// The name of the map.
    pub map: String,
    /// Whether the map was a replica's. Then the origin has its later changes.
    pub of_replica: bool,
    /// The position in the map's stream up to which it has the map.
    pub position: StreamPosition,
    /// Whether it has a whole map, apart from damage.
    pub is_whole: bool,
    /// The offset in the map's stream from which on it is a whole map.
    pub whole_from: Option<u64>,
    /// The times of the first and the last state that can be restored; `None` if the file has no
    /// times.
    pub times: Option<Span>,
    /// The number of changes behind the last time.
    pub untimed_changes: u64,
    /// The number of pairs that it begins with.
    pub pairs: u64,
    /// The number of changes behind or between the pairs.
    pub changes: u64,
    /// The length of its sound part in bytes, with damage.
    pub bytes: u64,
    /// Bytes behind that, which had not become durable when the system crashed.
    pub cut_off_bytes: u64,
    /// The damaged parts.
    pub damage: Vec<Damage>,
}

impl JournalContents {
    /// Whether the map can be rebuilt without loss.
    pub fn is_sound(&self) -> bool {
        self.is_whole && self.damage.is_empty()
    }

    /// Whether the whole map of a later file begins no later than this one ends: there is no hole
    /// between both.
    pub(super) fn continues_into(&self, later: &JournalContents) -> bool {
        let from = later.whole_from.filter(|_| later.position.stream == self.position.stream);
        from.is_some_and(|from| self.position.offset >= from)
    }

    /// Checks that a map can be rebuilt with these options.
    ///
    /// # Errors
    /// `Damaged`, which lists the damage.
    pub fn ensure_usable(&self, options: &JournalOptions) -> Result<()> {
        if self.is_sound() || (options.skip_damaged && !self.damage.is_empty()) {
            return Ok(());
        }
        let text = match self.damage.is_empty() {
            true => format!(
                "{}: this journal ends before the map is complete: {} bytes of it are damaged",
                self.file, self.cut_off_bytes
            ),
            false => format!(
                "{}: this journal is damaged: {}; put a sound copy of it in its place, or rebuild \
                 the map without these parts ('--skip-damaged')",
                self.file,
                self.damage_listed()
            ),
        };
        Err(Error::new(ErrorKind::Damaged, text))
    }

    /// The first damaged parts, and how many more there are.
    pub fn damage_listed(&self) -> String {
        let mut parts: Vec<String> =
            self.damage.iter().take(LISTED).map(ToString::to_string).collect();
        if let Some(more) = self.damage.len().checked_sub(LISTED).filter(|more| *more > 0) {
            parts.push(format!("and {more} more parts"));
        }
        parts.join(", ")
    }
}

/// Reads a journal to its end, also past damage.
///
/// # Errors
/// `Damaged` if the file is not a journal, or its beginning is lost; `NotFound`; those of files.
pub fn inspect(path: impl AsRef<Path>) -> Result<JournalContents> {
    survey(path.as_ref()).map(|(_, contents)| contents)
}

/// The same, with the reader at the end of the sound frames.
pub(crate) fn survey(path: &Path) -> Result<(Reader, JournalContents)> {
    survey_states(path, |_, _| ())
}

/// The same. Calls `state` for each state of the map that has a time, with the number of bytes up
/// to its end and the time, also for those behind the end of the sound frames.
pub(crate) fn survey_states(
    path: &Path,
    mut state: impl FnMut(u64, u64),
) -> Result<(Reader, JournalContents)> {
    let mut reader = Reader::open(path)?;
    let (mut damage, mut ends) = (Vec::new(), Vec::new());
    let mut counted = count(&mut reader, &mut state)?;
    while let Some(next) = reader.damage()? {
        ends.push((reader.reached(), counted));
        reader.jump(&next)?;
        damage.push(next);
        let more = count(&mut reader, &mut state)?;
        counted = (counted.0 + more.0, counted.1 + more.1);
    }
    // Without its last pair, the file says nothing about what was durable.
    let durable = if reader.is_complete() { reader.durable() } else { u64::MAX };
    damage.retain(|part: &Damage| part.bytes.start < durable);
    if let Some((reached, then)) = ends.get(damage.len()) {
        reader.end_at(*reached);
        counted = *then;
    }
    let (pairs, changes) = counted;
    let contents = JournalContents {
        file: path.display().to_string(),
        map: reader.welcome.name.clone(),
        of_replica: reader.is_of_replica(),
        position: reader.position(),
        is_whole: reader.is_complete(),
        whole_from: reader.whole_from(),
        times: reader.times(),
        untimed_changes: reader.untimed(),
        pairs,
        changes,
        bytes: reader.sound(),
        cut_off_bytes: reader.cut_off(),
        damage,
    };
    Ok((reader, contents))
}

/// Reads up to the next unsound frame; the number of pairs and changes.
fn count(reader: &mut Reader, state: &mut impl FnMut(u64, u64)) -> Result<(u64, u64)> {
    let (mut pairs, mut changes) = (0, 0);
    while let Some(entry) = reader.next()? {
        match entry {
            Entry::Frame(frame) if frame.change().is_some() => changes += 1,
            Entry::Frame(_) => pairs += 1,
            Entry::State(ms) => state(reader.sound(), ms),
            _ => {}
        }
    }
    Ok((pairs, changes))
}
