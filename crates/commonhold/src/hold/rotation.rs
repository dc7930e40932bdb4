//! Several backups of one hold: `FILE` is the newest, `FILE.1` is the one before it, and so on.
//!
//! Invariant, if rotations can lock the directory: at every instant the backup that was completed
//! last is `FILE`, or `FILE.1` while there is no `FILE`. A rotation begins when the new backup is
//! complete. It renames the oldest backup first and the newest last, each in one step. A kill
//! between two steps leaves one name unused. The next rotation moves only the backups before this
//! gap, so it loses none.

use crate::error::{Error, ErrorKind, Result};
use crate::hold::backup::{self, BackupReport};
use crate::hold::draft_hold;
use crate::hold::frames::HEADER;
use crate::hold::handle::Hold;
use crate::os::file::has_no_locks;
use crate::steps::{fault, step};
use crate::sync::patience::Patience;
use std::fs::{File, Metadata, TryLockError};
use std::io::{self, Read};
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};
use std::time::{Duration, SystemTime};

/// The pause between two attempts to lock the directory.
const PAUSE: Duration = Duration::from_millis(10);
/// The longest wait for another rotation, which takes milliseconds. A process that was forked
/// during a rotation shares its lock, and may keep it for as long as it lives.
const MOST_PATIENCE: Duration = Duration::from_secs(30);

impl Hold {
    /// Like [`backup`](Self::backup), but keeps the last `keep` backups: `to` is the newest, and
    /// the earlier ones have the same name with `.1`, `.2` and so on. If there were already `keep`
    /// backups, the oldest one is deleted. At every instant, even after a kill, the backup that was
    /// completed last is `to`, or the one with `.1` if there is no `to`.
    ///
    /// # Errors
    /// `Invalid` if `keep` is 0; `Exists` if a file that is not a backup has one of the names;
    /// `TimedOut` if a process that is stopped during a rotation keeps the others out, after the
    /// hold's `lock_timeout`, and after 30 s at the latest; `Busy` if another process has made a
    /// newer backup meanwhile; those of [`backup`](Self::backup). After an error, all earlier
    /// backups still exist, except that the oldest one may have been deleted, and some may already
    /// have the next name.
    pub fn backup_rotated(&self, to: impl AsRef<Path>, keep: u32) -> Result<BackupReport> {
        let to = to.as_ref();
        self.arena().ensure_open()?;
        if keep == 0 {
            let text = "expected at least 1 backup to keep, got 0";
            return Err(Error::new(ErrorKind::Invalid, text));
        }
        // The process may change its directory meanwhile.
        let to = &std::path::absolute(to).map_err(|e| Error::os(to.display(), &e))?;
        let ensure = || ensure_backups(to, keep);
        ensure()?;
        let before = newest(to)?;
        let (draft, report) = backup::draft(self, to)?;
        step!("backup.copied");
        let _turn = lock(self, to)?;
        // Check again, because the copy may have taken long.
        ensure()?;
        ensure_newer(draft.file(), to, before)?;
        let moved = shift(to, keep)?;
        let placed = match keep {
            1 => draft.replace(),
            _ => draft.commit(),
        };
        let placed = placed.map_err(|error| {
            let before = if moved { "; the previous backup has the suffix .1" } else { "" };
            Error::os(format!("{}: the new backup cannot be named{before}", to.display()), &error)
        })?;
        draft_hold::sync_name(&placed, to)?;
        Ok(report)
    }
}

/// The name of the backup that is `age` rotations old.
fn aged(to: &Path, age: u32) -> PathBuf {
    if age == 0 {
        return to.to_owned();
    }
    let mut name = to.as_os_str().to_owned();
    name.push(format!(".{age}"));
    name.into()
}

/// Moves each backup to the next name, which deletes the oldest one if all names are used. Returns
/// whether `to` has moved.
fn shift(to: &Path, keep: u32) -> Result<bool> {
    // An unused name takes the last backup before it, so backups after it keep their names.
    let mut used = 0;
    while used < keep && look(&aged(to, used))?.is_some() {
        used += 1;
    }
    for age in (1..=used.min(keep - 1)).rev() {
        let (from, to) = (aged(to, age - 1), aged(to, age));
        let moved = fault!("backup.rename").and_then(|()| std::fs::rename(&from, &to));
        moved.map_err(|e| {
            let doing = "cannot rename this backup to";
            Error::os(format!("{}: {doing} {}", from.display(), to.display()), &e)
        })?;
        step!("backup.moved");
    }
    Ok(used > 0 && keep > 1)
}

/// One backup among all: device, inode, and the moment of its contents.
type Identity = (u64, u64, SystemTime);

/// The newest backup; `None` if there is none.
fn newest(to: &Path) -> Result<Option<Identity>> {
    for path in [to.to_owned(), aged(to, 1)] {
        if let Some(found) = look(&path)? {
            let modified = found.modified().map_err(|e| Error::os(path.display(), &e))?;
            return Ok(Some((found.dev(), found.ino(), modified)));
        }
    }
    Ok(None)
}

/// Fails if another process has made a backup since `before`, and it is newer than this one: an
/// older one must not take its place. This relies on the clock, and on times of modification as
/// fine as the file system has them.
fn ensure_newer(draft: &File, to: &Path, before: Option<Identity>) -> Result<()> {
    let found = newest(to)?;
    let modified = draft.metadata().and_then(|draft| draft.modified());
    let own = modified.map_err(|e| Error::os(to.display(), &e))?;
    match found {
        Some((.., theirs)) if found != before && theirs > own => {
            let text = format!(
                "{}: another process has made a newer backup meanwhile, so this one is not kept",
                to.display()
            );
            Err(Error::new(ErrorKind::Busy, text))
        }
        _ => Ok(()),
    }
}

/// The file of a name; `None` if there is none.
fn look(path: &Path) -> Result<Option<Metadata>> {
    match fault!("backup.stat").and_then(|()| path.symlink_metadata()) {
        Ok(found) => Ok(Some(found)),
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(None),
        Err(error) => Err(Error::os(path.display(), &error)),
    }
}

/// Fails if one of the files that would be moved is not a backup, so that a mistyped name does not
/// delete another file.
fn ensure_backups(to: &Path, keep: u32) -> Result<()> {
    for age in 0..keep {
        if !ensure_backup(&aged(to, age))? {
            break;
        }
    }
    Ok(())
}

/// Fails for a file that is not a backup. False if there is none.
fn ensure_backup(path: &Path) -> Result<bool> {
    let Some(found) = look(path)? else { return Ok(false) };
    if found.is_file() && has_header(path).map_err(|e| Error::os(path.display(), &e))? {
        return Ok(true);
    }
    let text = format!(
        "{}: exists and is not a backup, so it is not rotated; move it away, or choose another \
         name for the backups",
        path.display()
    );
    Err(Error::new(ErrorKind::Exists, text))
}

/// Whether a file begins as a backup does.
fn has_header(path: &Path) -> io::Result<bool> {
    let mut header = [0; HEADER.len()];
    let file = fault!("backup.look").and_then(|()| File::open(path));
    match file.and_then(|mut file| file.read_exact(&mut header)) {
        Ok(()) => Ok(&header == HEADER),
        // Another rotation has moved it since.
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(true),
        Err(error) if error.kind() == io::ErrorKind::UnexpectedEof => Ok(false),
        Err(error) => Err(error),
    }
}

/// The lock on the directory. A child that is forked in the meantime shares it, so dropping it
/// unlocks it explicitly.
struct Turn(File);

impl Drop for Turn {
    fn drop(&mut self) {
        let _ = self.0.unlock();
    }
}

/// Keeps other rotations in the directory out, if the directory can be read and the file system
/// supports locks. Without this lock, two rotations at once could move a backup twice: a backup
/// would be deleted too early, and if one of the two were killed, the newest could be `.2`.
/// Waits for another rotation until the hold's lock timeout has passed, or [`MOST_PATIENCE`].
fn lock(hold: &Hold, to: &Path) -> Result<Option<Turn>> {
    let parent = to.parent().filter(|parent| !parent.as_os_str().is_empty());
    let directory = parent.unwrap_or(Path::new("."));
    let failed = |e: &io::Error| {
        Error::os(format!("{}: cannot lock the directory of the backups", directory.display()), e)
    };
    let file = match fault!("backup.directory").and_then(|()| File::open(directory)) {
        Ok(file) => file,
        Err(error) if error.kind() == io::ErrorKind::PermissionDenied => return Ok(None),
        Err(error) => return Err(failed(&error)),
    };
    let timeout = hold.arena().lock_timeout().unwrap_or(MOST_PATIENCE);
    let patience = Patience::new(Some(timeout.min(MOST_PATIENCE)));
    loop {
        match file.try_lock() {
            Ok(()) => return Ok(Some(Turn(file))),
            Err(TryLockError::Error(error)) if has_no_locks(&error) => return Ok(None),
            Err(TryLockError::Error(error)) => return Err(failed(&error)),
            Err(TryLockError::WouldBlock) => {}
        }
        let Some(pause) = patience.shorten(PAUSE) else {
            let text = format!(
                "{}: another process is rotating backups there, and has not finished; continue or \
                 end that process, then try again",
                directory.display()
            );
            return Err(Error::new(ErrorKind::TimedOut, text));
        };
        std::thread::sleep(pause);
    }
}
