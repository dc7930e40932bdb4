//! A state of a map at a point in time: which file of a journal has it, and how much of that file.

use crate::journal::JournalOptions;
use crate::journal::archive::Archive;
use crate::journal::file::{Identity, identity_at};
use crate::journal::span::{Span, shown_time};
use crate::journal::survey::{Damage, JournalContents, survey_states};
use crate::protocol::wire::now_ms;
use commonhold::{Error, ErrorKind, Result};
use std::path::{Path, PathBuf};

/// A state of a map, in a journal's file or in one of its segments.
#[derive(Clone, Debug, serde::Serialize)]
pub struct PastState {
    /// The file.
    pub file: PathBuf,
    /// The time by which all changes up to this state had been made, in milliseconds since 1970.
    pub time_ms: u64,
    /// The number of bytes of the file that lead to this state.
    pub bytes: u64,
    /// The damaged parts among these bytes.
    pub damage: Vec<Damage>,
    /// Another file may take the path.
    #[serde(skip)]
    pub(super) identity: Identity,
}

/// A file of a journal.
struct Candidate {
    path: PathBuf,
    span: Span,
}

/// Finds the last state of a map whose time is not later than `at_ms`, in milliseconds since 1970:
/// in the journal's file, and in the segments of its [`archive`](JournalOptions::archive).
///
/// # Errors
/// `Invalid`, with the times that can be restored, if there is no such state, or if it is not known
/// because a segment is missing or the journal did not run; `Damaged` if damaged parts lead to it,
/// unless [`skip_damaged`](JournalOptions::skip_damaged) is set; `NotFound`; those of files.
pub fn find_state(
    file: impl AsRef<Path>,
    at_ms: u64,
    options: &JournalOptions,
) -> Result<PastState> {
    let past = Past::of(file.as_ref(), at_ms, options)?;
    let (contents, state) = past.state(options)?;
    past.ensure_no_hole(&contents)?;
    ensure_usable(&state, options).map_err(|error| past.explained(&error))?;
    Ok(state)
}

/// The files of a journal, and the point in time.
struct Past<'a> {
    file: &'a Path,
    at_ms: u64,
    /// In the order of their names, with the present file at the end.
    files: Vec<Candidate>,
    /// The times that can be restored, apart from holes.
    whole: Span,
    /// Why the times of the present file are not known.
    unread: Option<Error>,
}

impl Past<'_> {
    fn of<'a>(file: &'a Path, at_ms: u64, options: &JournalOptions) -> Result<Past<'a>> {
        let present = survey_states(file, |_, _| ());
        let own = identity_at(file).ok();
        let archive = Archive::of(file, options.archive.as_deref());
        let segments = archive.segments()?.into_iter();
        let mut files: Vec<_> = segments
            .filter(|segment| Some(segment.identity) != own)
            .map(|segment| Candidate { path: segment.path, span: segment.span })
            .collect();
        let unread = match present {
            Ok((_, JournalContents { times: Some(span), .. })) => {
                files.push(Candidate { path: file.to_owned(), span });
                None
            }
            Ok(_) => Some(without_times(file)),
            Err(error) => Some(error),
        };
        if let Some(error) = unread.as_ref().filter(|_| files.is_empty()) {
            return Err(Error::new(error.kind(), error.to_string()));
        }
        let all = files.iter().map(|candidate| candidate.span);
        let first_ms = all.clone().map(|span| span.first_ms).min().unwrap_or_default();
        let last_ms = all.map(|span| span.last_ms).max().unwrap_or_default();
        let this = Past { file, at_ms, files, whole: Span { first_ms, last_ms }, unread };
        if at_ms < first_ms {
            return Err(this.invalid("nothing was recorded then"));
        }
        if at_ms > now_ms() {
            return Err(this.invalid("this time is in the future"));
        }
        Ok(this)
    }

    /// The last state in the files that have this time, or else in the last file before it. One
    /// without damage comes first.
    fn state(&self, options: &JournalOptions) -> Result<(JournalContents, PastState)> {
        let (mut found, mut failed) = (Vec::new(), None);
        for candidate in self.nearest() {
            match self.state_in(&candidate.path) {
                Ok(state) => found.extend(state),
                // Another file may have the state, too.
                Err(error) => failed = Some(error),
            }
        }
        let is_usable = |state: &PastState| ensure_usable(state, options).is_ok();
        let best = found
            .into_iter()
            .max_by_key(|(_, state)| (state.damage.is_empty(), is_usable(state), state.time_ms));
        let none = || self.invalid("no file has a state of that time");
        best.ok_or_else(|| failed.unwrap_or_else(none))
    }

    fn nearest(&self) -> Vec<&Candidate> {
        let with_it = self.files.iter().filter(|candidate| candidate.span.contains(self.at_ms));
        let with_it: Vec<_> = with_it.collect();
        if !with_it.is_empty() {
            return with_it;
        }
        let before = self.files.iter().filter(|candidate| candidate.span.last_ms < self.at_ms);
        before.max_by_key(|candidate| candidate.span.last_ms).into_iter().collect()
    }

    fn state_in(&self, path: &Path) -> Result<Option<(JournalContents, PastState)>> {
        // Each of them is later than the ones before it.
        let mut states: Vec<(u64, u64)> = Vec::new();
        let surveyed = survey_states(path, |bytes, ms| {
            if ms <= self.at_ms && states.last().is_none_or(|last| ms >= last.1) {
                states.push((bytes, ms));
            }
        });
        let (reader, contents) = surveyed.map_err(|error| self.explained(&error))?;
        let state = states.into_iter().rfind(|(bytes, _)| *bytes <= reader.sound());
        Ok(state.map(|(bytes, time_ms)| {
            let mut damage = contents.damage.clone();
            damage.retain(|part| part.bytes.start < bytes);
            let (file, identity) = (path.to_owned(), reader.identity);
            (contents, PastState { file, time_ms, bytes, damage, identity })
        }))
    }

    /// Checks that no change between the file's last state and the point in time is missing: the
    /// next file continues where this one ends.
    fn ensure_no_hole(&self, contents: &JournalContents) -> Result<()> {
        if let Some(error) = self.unread.as_ref().filter(|_| self.at_ms > self.whole.last_ms) {
            return Err(self.explained(error));
        }
        let last_ms = contents.times.map_or(0, |span| span.last_ms);
        let later = self.files.iter().filter(|candidate| candidate.span.first_ms > self.at_ms);
        let next = later.min_by_key(|candidate| candidate.span.first_ms);
        let Some(next) = next.filter(|_| last_ms < self.at_ms) else { return Ok(()) };
        let (_, following) = survey_states(&next.path, |_, _| ())?;
        if contents.continues_into(&following) {
            return Ok(());
        }
        let [from, to] = [last_ms, next.span.first_ms].map(shown_time);
        Err(self.invalid(&format!("no state between {from} and {to} was recorded, or it is gone")))
    }

    #[cold]
    fn invalid(&self, why: &str) -> Error {
        let [first, last] = [self.whole.first_ms, self.whole.last_ms].map(shown_time);
        let text = format!(
            "{}: expected a time from {first} to {last} that was recorded, got {}: {why}",
            self.file.display(),
            shown_time(self.at_ms)
        );
        Error::new(ErrorKind::Invalid, text)
    }

    /// The error with the times that can be restored.
    #[cold]
    fn explained(&self, error: &Error) -> Error {
        let [first, last] = [self.whole.first_ms, self.whole.last_ms].map(shown_time);
        let text = format!("{error}; the journal has states from {first} to {last}");
        Error::new(error.kind(), text)
    }
}

fn ensure_usable(state: &PastState, options: &JournalOptions) -> Result<()> {
    if state.damage.is_empty() || options.skip_damaged {
        return Ok(());
    }
    let parts: Vec<_> = state.damage.iter().map(ToString::to_string).collect();
    let text = format!(
        "{}: parts of this file before the state are damaged: {}; restore a copy of the file or \
         an earlier state, or rebuild without these parts (--skip-damaged)",
        state.file.display(),
        parts.join(", ")
    );
    Err(Error::new(ErrorKind::Damaged, text))
}

#[cold]
fn without_times(file: &Path) -> Error {
    let text = format!(
        "{}: this journal has no times: an earlier version wrote it, or it contains no whole map; \
         rebuild the map without a point in time (omit --at)",
        file.display()
    );
    Error::new(ErrorKind::Invalid, text)
}
