//! All files of a journal: which of them are sound, and which times they have.

use crate::journal::archive::{Archive, Segment, segments_in};
use crate::journal::catalogue::{Catalogue, catalogue_of, file_of, is_damaged};
use crate::journal::file::identity_at;
use crate::journal::span::Span;
use crate::journal::survey::{JournalContents, inspect};
use commonhold::{Error, ErrorKind, Result};
use std::path::{Path, PathBuf};

/// A file of a journal.
#[derive(Clone, Debug, serde::Serialize)]
pub struct InspectedFile {
    /// Its path.
    pub file: PathBuf,
    /// Its contents; `None` if it cannot be read.
    pub contents: Option<JournalContents>,
    /// Why it cannot be read.
    pub error: Option<String>,
}

/// A time of which the files of a journal do not have the changes.
#[derive(Clone, Debug, PartialEq, Eq, serde::Serialize)]
pub struct Hole {
    /// The file with the last state before it.
    pub after: PathBuf,
    /// The file with the first state behind it.
    pub before: PathBuf,
    /// The time of the last state before it, in milliseconds since 1970.
    pub from_ms: u64,
    /// The time of the first state behind it.
    pub to_ms: u64,
}

/// The files of a journal, or of all journals whose segments are in one directory.
#[derive(Clone, Debug, serde::Serialize)]
pub struct Timeline {
    /// The segments in the order of their names, and the present file.
    pub files: Vec<InspectedFile>,
    /// The holes between them.
    pub holes: Vec<Hole>,
}

impl InspectedFile {
    fn of(file: &Path) -> InspectedFile {
        let (contents, error) = match inspect(file) {
            Ok(contents) => (Some(contents), None),
            Err(error) => (None, Some(error.to_string())),
        };
        InspectedFile { file: file.to_owned(), contents, error }
    }

    /// Whether a map can be rebuilt from it without loss.
    pub fn is_sound(&self) -> bool {
        self.contents.as_ref().is_some_and(JournalContents::is_sound)
    }

    fn unread(file: PathBuf, error: &Error) -> InspectedFile {
        InspectedFile { file, contents: None, error: Some(error.to_string()) }
    }

    fn timed(&self) -> Option<(&Path, &JournalContents, Span)> {
        let contents = self.contents.as_ref()?;
        Some((&self.file, contents, contents.times?))
    }
}

impl Timeline {
    /// Whether every state between the first and the last one can be restored.
    pub fn is_sound(&self) -> bool {
        self.holes.is_empty() && self.files.iter().all(InspectedFile::is_sound)
    }
}

/// Reads the file of a journal and its segments, in this archive or else in the directory with the
/// name of the file and `.d`. If the path is a directory of a
/// [`HoldJournal`](crate::HoldJournal), reads the files and segments of all maps; if it is another
/// directory, reads all segments in it.
///
/// # Errors
/// `NotFound` if there is no such file, or no segment in the directory; those of files.
pub fn inspect_all(path: impl AsRef<Path>, archive: Option<&Path>) -> Result<Timeline> {
    let path = path.as_ref();
    if catalogue_of(path).exists() {
        return Ok(of_catalogue(path, archive));
    }
    if path.is_dir() {
        return of_directory(path);
    }
    of_file(path, archive)
}

fn of_file(path: &Path, archive: Option<&Path>) -> Result<Timeline> {
    let own = identity_at(path).ok();
    let mut segments = Archive::of(path, archive).segments()?;
    segments.retain(|segment| Some(segment.identity) != own);
    if own.is_none() && segments.is_empty() {
        // The reason why it cannot be read.
        inspect(path)?;
    }
    let mut files = inspected(&segments);
    files.push(InspectedFile::of(path));
    let holes = holes(&files);
    Ok(Timeline { files, holes })
}

/// The files of all maps. A catalogue that has lost events is one more file that cannot be read.
fn of_catalogue(directory: &Path, archive: Option<&Path>) -> Timeline {
    let mut timeline = Timeline { files: Vec::new(), holes: Vec::new() };
    let mut unread = |file: PathBuf, error: &Error| {
        timeline.files.push(InspectedFile::unread(file, error));
    };
    let catalogue = Catalogue::read(directory).unwrap_or_else(|error| {
        unread(catalogue_of(directory), &error);
        Catalogue::default()
    });
    if catalogue.is_damaged {
        unread(catalogue_of(directory), &is_damaged(directory));
    }
    for (map, lives) in &catalogue.maps {
        for life in lives.iter().filter(|life| life.has_files()) {
            let file = file_of(directory, map, life.number);
            match of_file(&file, archive) {
                Ok(of_map) => {
                    timeline.files.extend(of_map.files);
                    timeline.holes.extend(of_map.holes);
                }
                Err(error) => timeline.files.push(InspectedFile::unread(file, &error)),
            }
        }
    }
    timeline
}

fn of_directory(directory: &Path) -> Result<Timeline> {
    let mut segments = segments_in(directory)?;
    if segments.is_empty() {
        let text = format!(
            "{}: expected segments of a journal in this directory, found none",
            directory.display()
        );
        return Err(Error::new(ErrorKind::NotFound, text));
    }
    segments.sort_by(|one, other| (&one.of, &one.path).cmp(&(&other.of, &other.path)));
    let mut timeline = Timeline { files: Vec::new(), holes: Vec::new() };
    for journal in segments.chunk_by(|one, other| one.of == other.of) {
        let files = inspected(journal);
        timeline.holes.extend(holes(&files));
        timeline.files.extend(files);
    }
    Ok(timeline)
}

fn inspected(segments: &[Segment]) -> Vec<InspectedFile> {
    segments.iter().map(|segment| InspectedFile::of(&segment.path)).collect()
}

/// The holes between the files of one journal. A file that cannot be read leaves one, too.
fn holes(files: &[InspectedFile]) -> Vec<Hole> {
    let mut timed: Vec<_> = files.iter().filter_map(InspectedFile::timed).collect();
    timed.sort_by_key(|(_, _, span)| span.first_ms);
    let mut holes = Vec::new();
    for (at, (file, contents, span)) in timed.iter().enumerate().skip(1) {
        let before = &timed[..at];
        let Some(last) = before.iter().max_by_key(|(_, _, span)| span.last_ms) else { continue };
        if !before.iter().any(|(_, earlier, _)| earlier.continues_into(contents)) {
            holes.push(Hole {
                after: last.0.to_owned(),
                before: (*file).to_owned(),
                from_ms: last.2.last_ms,
                to_ms: span.first_ms,
            });
        }
    }
    holes
}
