//! The archive of a journal: the files that it has replaced, so that earlier states of the map can
//! be restored.
//!
//! A file is *sealed* before the next one takes the journal's path: it gets a second name in the
//! archive. The next one then takes the path from it in one step. So at every instant each file has
//! a name. A journal that is killed in between leaves a file with both names. The next journal
//! continues that file, and removes its name in the archive.
//!
//! The name of a segment begins with the times of its first and last state, and ends with the name
//! of the journal's file. Other files in the directory are never touched. Several journals may
//! share a directory that was chosen for them: there, a journal removes only segments of its own
//! map.

use crate::journal::file::{Identity, failed, identity, identity_at, sync_directory};
use crate::journal::owner::Owner;
use crate::journal::span::Span;
use commonhold::fault;
use commonhold::{Error, ErrorKind, Result};
use rustix::fs::{AtFlags, CWD, linkat};
use std::ffi::OsString;
use std::fs::DirBuilder;
use std::io;
use std::os::unix::fs::{DirBuilderExt, MetadataExt};
use std::path::{Path, PathBuf};

/// How many other files may have the name that a segment is to get.
const MOST_TAKEN: u64 = 100;
/// The longest name that file systems allow.
const MOST_NAME: usize = 255;

/// A file in an archive.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Segment {
    pub(super) path: PathBuf,
    /// As its name states it.
    pub(super) span: Span,
    /// The name of the journal's file.
    pub(super) of: String,
    pub(super) identity: Identity,
}

/// See the module.
#[derive(Clone, Debug)]
pub(crate) struct Archive {
    pub(super) directory: PathBuf,
    /// The name of the journal's file.
    file: String,
    /// Whether journals of other files may have segments of the same names in it.
    is_shared: bool,
}

impl Archive {
    /// That of the journal at `path`: this directory, or the path with `.d`.
    pub(crate) fn of(path: &Path, directory: Option<&Path>) -> Archive {
        let default_directory = || {
            let mut name = OsString::from(path);
            name.push(".d");
            PathBuf::from(name)
        };
        let is_shared = directory.is_some();
        let directory = directory.map_or_else(default_directory, Path::to_owned);
        let file = path.file_name().unwrap_or_default().to_string_lossy().into_owned();
        Archive { directory, file, is_shared }
    }

    /// Makes the directory if it is missing.
    ///
    /// # Errors
    /// `Invalid` if it is on another file system than the journal's file: a file there cannot get
    /// a second name; those of files.
    pub(super) fn prepare(&self, path: &Path) -> Result<()> {
        let most = MOST_NAME - Span { first_ms: 0, last_ms: 0 }.name().len() - 1;
        if self.file.len() > most {
            let text = format!(
                "{}: expected a file name of at most {most} bytes, because segments have longer \
                 names, got one of {} bytes",
                path.display(),
                self.file.len()
            );
            return Err(Error::new(ErrorKind::Invalid, text));
        }
        self.make()?;
        let device = |path: &Path| {
            let found = std::fs::metadata(path);
            found.map(|found| found.dev()).map_err(|e| failed(path, "cannot be examined", &e))
        };
        if device(&self.directory)? == device(parent(path))? {
            return Ok(());
        }
        let text = format!(
            "{}: this directory is not on the file system of {}; choose another one (--archive), \
             and copy its segments to other storage with another program",
            self.directory.display(),
            path.display()
        );
        Err(Error::new(ErrorKind::Invalid, text))
    }

    /// Checks that the last segment is one of this map, unless it is older than the journal's file,
    /// whose first state has the time `since_ms`: two journals whose files have one name must not
    /// share a directory, where the states of both would be mixed. The file `open` is not read.
    ///
    /// # Errors
    /// `Mismatch` if it is another map's; those of files.
    pub(super) fn ensure_own(
        &self,
        owner: &Owner,
        since_ms: Option<u64>,
        open: Option<Identity>,
    ) -> Result<()> {
        let is_other = |segment: &Segment| Some(segment.identity) != open;
        let Some(last) = self.segments()?.into_iter().rfind(is_other) else { return Ok(()) };
        if since_ms.is_some_and(|since_ms| last.span.last_ms <= since_ms) {
            return Ok(());
        }
        // A file that is not a journal is of nobody.
        let Some(its) = Owner::of_file(&last.path)? else { return Ok(()) };
        let has_name = its.map == owner.map;
        if owner.has(&its) || (has_name && !(self.is_shared && owner.is_known())) {
            return Ok(());
        }
        let text = format!(
            "{}: expected a segment of map '{}', found one of another map of the name '{}', whose \
             journal keeps its segments here, too; choose another directory (--archive), or add \
             --replace to keep both here",
            last.path.display(),
            owner.map,
            its.map
        );
        Err(Error::new(ErrorKind::Mismatch, text))
    }

    fn make(&self) -> Result<()> {
        let made = fault!("journal.make-archive")
            .and_then(|()| DirBuilder::new().mode(0o700).create(&self.directory));
        match made {
            Err(error) if error.kind() == io::ErrorKind::AlreadyExists => Ok(()),
            Err(error) => Err(failed(&self.directory, "cannot make this directory", &error)),
            Ok(()) => self.sync_names(&self.directory),
        }
    }

    /// Makes the names in the directory of this file durable.
    fn sync_names(&self, path: &Path) -> Result<()> {
        let synced = sync_directory(path);
        synced.map_err(|e| failed(&self.directory, "cannot sync this directory", &e))
    }

    /// The segments of this journal, in the order of their names.
    ///
    /// # Errors
    /// Those of files.
    pub(super) fn segments(&self) -> Result<Vec<Segment>> {
        let mut segments = segments_in(&self.directory)?;
        segments.retain(|segment| segment.of == self.file);
        Ok(segments)
    }

    /// Gives the file at `path`, whose states have these times, a durable name in the archive, and
    /// takes other names from it that it has there.
    ///
    /// # Errors
    /// Those of files. The file has its former names at least.
    pub(super) fn seal(&self, path: &Path, file: Identity, span: Span) -> Result<()> {
        self.make()?;
        let sealed = self.link(path, file, span)?;
        self.take_names(file, Some(&sealed))?;
        self.sync_names(&sealed)
    }

    fn link(&self, path: &Path, file: Identity, span: Span) -> Result<PathBuf> {
        for later in 0..MOST_TAKEN {
            // A file that was copied here may have this name.
            let span = Span { last_ms: span.last_ms + later, ..span };
            let name = self.directory.join(format!("{}.{}", span.name(), self.file));
            match fault!("journal.seal").and_then(|()| link_file(path, &name)) {
                Err(error) if error.kind() == io::ErrorKind::AlreadyExists => {
                    if identity_at(&name).is_ok_and(|there| there == file) {
                        return Ok(name);
                    }
                }
                Err(error) => return Err(failed(path, &self.cannot_seal(), &error)),
                Ok(()) => return Ok(name),
            }
        }
        let error = io::Error::from(io::ErrorKind::AlreadyExists);
        Err(failed(path, &self.cannot_seal(), &error))
    }

    fn cannot_seal(&self) -> String {
        format!("cannot be kept as a segment in {}", self.directory.display())
    }

    /// Takes all names in the archive from a file that has another name, except this one.
    ///
    /// # Errors
    /// Those of files.
    pub(super) fn take_names(&self, file: Identity, except: Option<&Path>) -> Result<()> {
        let is_other = |segment: &Segment| {
            segment.identity == file && except.is_none_or(|except| segment.path != except)
        };
        self.segments()?.iter().filter(|segment| is_other(segment)).try_for_each(remove)
    }

    /// Removes all segments of the journal with the file at `path`. If that file is missing, those
    /// in a shared directory stay, because it is not known whose they are.
    ///
    /// # Errors
    /// Those of files.
    pub(crate) fn clear(&self, path: &Path) -> Result<()> {
        let owner = match self.is_shared.then(|| Owner::of_file(path)).transpose() {
            Err(error) if error.is_not_found() => None,
            owner => owner?.flatten(),
        };
        let segments = self.segments()?;
        self.own(segments, owner.as_ref(), None)?.iter().try_for_each(remove)
    }

    /// Those of the segments that are this map's. The file `open`, which this process has locked,
    /// is one of them, and is not read: closing it would release the lock.
    fn own(
        &self,
        segments: Vec<Segment>,
        owner: Option<&Owner>,
        open: Option<Identity>,
    ) -> Result<Vec<Segment>> {
        if !self.is_shared {
            return Ok(segments);
        }
        let Some(owner) = owner else { return Ok(Vec::new()) };
        let mut own = Vec::new();
        for segment in segments {
            if Some(segment.identity) == open {
                own.push(segment);
                continue;
            }
            match Owner::of_file(&segment.path) {
                Ok(its) if its.as_ref().is_none_or(|its| owner.has(its)) => own.push(segment),
                Ok(_) => {}
                // Another process has just removed it.
                Err(error) if error.is_not_found() => {}
                Err(error) => return Err(error),
            }
        }
        Ok(own)
    }

    /// Removes the segments of this map that no restoration to a time from `limit_ms` on needs.
    /// `present` is the time of the first state in the journal's file, and `open` that file.
    ///
    /// # Errors
    /// Those of files.
    pub(super) fn expire(
        &self,
        owner: &Owner,
        limit_ms: u64,
        present: Option<u64>,
        open: Option<Identity>,
    ) -> Result<()> {
        let segments = self.segments()?;
        if !segments.iter().any(|segment| segment.span.last_ms < limit_ms) {
            return Ok(());
        }
        let segments = self.own(segments, Some(owner), open)?;
        let later = segments.iter().skip(1).map(|segment| Some(segment.span.first_ms));
        for (segment, next) in segments.iter().zip(later.chain([present])) {
            // Otherwise it has the state at the limit.
            let is_next_enough = next.is_some_and(|first_ms| first_ms <= limit_ms);
            if segment.span.last_ms < limit_ms && is_next_enough {
                remove(segment)?;
            }
        }
        Ok(())
    }
}

/// Gives the file that a path leads to, also through a symbolic link, a second name.
fn link_file(path: &Path, name: &Path) -> io::Result<()> {
    Ok(linkat(CWD, path, CWD, name, AtFlags::SYMLINK_FOLLOW)?)
}

fn remove(segment: &Segment) -> Result<()> {
    let removed = fault!("journal.remove-segment");
    match removed.and_then(|()| std::fs::remove_file(&segment.path)) {
        Err(error) if error.kind() != io::ErrorKind::NotFound => {
            Err(failed(&segment.path, "cannot be removed", &error))
        }
        _ => Ok(()),
    }
}

fn parent(path: &Path) -> &Path {
    path.parent().filter(|path| !path.as_os_str().is_empty()).unwrap_or(Path::new("."))
}

/// All segments in a directory, in the order of their names; none if it is missing.
///
/// # Errors
/// Those of files.
pub(super) fn segments_in(directory: &Path) -> Result<Vec<Segment>> {
    let failed = |error: io::Error| failed(directory, "cannot be listed", &error);
    let listed = fault!("journal.list-archive").and_then(|()| std::fs::read_dir(directory));
    let entries = match listed {
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(Vec::new()),
        listed => listed.map_err(failed)?,
    };
    let mut segments = Vec::new();
    for entry in entries {
        let entry = entry.map_err(failed)?;
        let name = entry.file_name().to_string_lossy().into_owned();
        let Some((span, of)) = Span::of_name(&name) else { continue };
        match std::fs::metadata(entry.path()) {
            // Another process has just removed it.
            Err(error) if error.kind() == io::ErrorKind::NotFound => {}
            found => {
                let (path, of) = (entry.path(), of.to_owned());
                segments.push(Segment {
                    path,
                    span,
                    of,
                    identity: identity(&found.map_err(failed)?),
                });
            }
        }
    }
    segments.sort_by(|one, other| one.path.cmp(&other.path));
    Ok(segments)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::protocol::introduction::Lineage;

    /// The ends of the segments that remain, of these.
    fn remaining(spans: &[(u64, u64)], limit_ms: u64, present: Option<u64>) -> Vec<u64> {
        let directory = tempfile::tempdir_in("/dev/shm").unwrap();
        let archive = Archive::of(&directory.path().join("it.journal"), None);
        archive.make().unwrap();
        for (first_ms, last_ms) in spans {
            let name = Span { first_ms: *first_ms, last_ms: *last_ms }.name();
            std::fs::write(archive.directory.join(format!("{name}.it.journal")), "it").unwrap();
        }
        let others = ["notes", "20261123T101500.123Z-20261123T111500.004Z.other.journal"];
        for other in others {
            std::fs::write(archive.directory.join(other), "it").unwrap();
        }
        let owner = Owner::new("it", &Lineage::default());
        archive.expire(&owner, limit_ms, present, None).unwrap();
        assert!(others.iter().all(|other| archive.directory.join(other).exists()));
        archive.segments().unwrap().iter().map(|segment| segment.span.last_ms).collect()
    }

    #[test]
    fn segments_expire_unless_the_state_at_the_limit_is_in_them() {
        let spans = [(10, 20), (20, 30), (30, 40), (50, 60)];
        assert_eq!(remaining(&spans, 15, Some(60)), [20, 30, 40, 60]);
        assert_eq!(remaining(&spans, 25, Some(60)), [30, 40, 60]);
        // Nothing was recorded between 40 and 50.
        assert_eq!(remaining(&spans, 45, Some(60)), [40, 60]);
        assert_eq!(remaining(&spans, 70, Some(60)), [0; 0]);
        // The present file is not whole yet, or cannot be read.
        assert_eq!(remaining(&spans, 70, Some(80)), [60]);
        assert_eq!(remaining(&spans, 70, None), [60]);
    }

    #[test]
    fn a_file_has_one_name_in_the_archive() {
        let directory = tempfile::tempdir_in("/dev/shm").unwrap();
        let path = directory.path().join("it.journal");
        std::fs::write(&path, "it").unwrap();
        let (archive, file) = (Archive::of(&path, None), identity_at(&path).unwrap());
        archive.prepare(&path).unwrap();
        let span = Span { first_ms: 10, last_ms: 20 };
        // A copy that was put there has the same name.
        let taken = archive.directory.join(format!("{}.it.journal", span.name()));
        std::fs::write(&taken, "copy").unwrap();
        for last_ms in [20, 20, 30] {
            archive.seal(&path, file, Span { last_ms, ..span }).unwrap();
            let segments = archive.segments().unwrap();
            let ends: Vec<_> = segments.iter().map(|segment| segment.span.last_ms).collect();
            assert_eq!(ends, [20, if last_ms == 20 { 21 } else { 30 }]);
            assert_eq!(segments[1].identity, file);
        }
        archive.take_names(file, None).unwrap();
        assert_eq!(archive.segments().unwrap().len(), 1);
        assert_eq!(std::fs::read(&taken).unwrap(), b"copy");
    }
}
