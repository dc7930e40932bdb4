//! The processes that have the hold open: one byte beyond the data, locked by every user.
//!
//! Invariant: **a process that removes a hold's name holds the lock on its open byte**, either
//! exclusively (the reaper, see [`os::reaper`](crate::os::reaper), salvage, and a creation whose
//! reaper cannot be started), or shared together with an exclusive lock on the byte of the name. So
//! a name that was seen to lead to the file leads there until it is removed. Otherwise another hold
//! could get the name in between, and lose it.

use crate::error::{Error, ErrorKind, Result};
use crate::os::byte_lock::{self, HeldBytes, LockKind, NAME_BYTE, OPEN_BYTE};
use crate::os::file::HoldFile;
use crate::steps::step;
use crate::sync::patience::Patience;
use crate::sync::thread_patience;
use std::os::unix::fs::MetadataExt;
use std::path::Path;
use std::time::Duration;

/// The number of attempts without a pause: most processes that are alone on a hold are so only for
/// a moment.
const BUSY_ATTEMPTS: u32 = 10;
const PAUSE: Duration = Duration::from_millis(10);

const EXCLUSIVE: [(u64, LockKind); 1] = [(OPEN_BYTE, LockKind::Exclusive)];
const SHARED: [(u64, LockKind); 1] = [(OPEN_BYTE, LockKind::Shared)];
const LEAVING: [(u64, LockKind); 2] =
    [(OPEN_BYTE, LockKind::Shared), (NAME_BYTE, LockKind::Exclusive)];

/// The open byte, locked as by every user.
pub(super) struct Shared {
    pub(super) held: HeldBytes,
    /// Nobody else had the hold open a moment ago.
    pub(super) was_alone: bool,
}

/// Locks it as a user. Waits for a process that is alone for as long as the caller's patience
/// lasts, but not forever. `None` if the name no longer leads to the file.
pub(super) fn share(
    file: &HoldFile,
    path: &Path,
    timeout: Option<Duration>,
) -> Result<Option<Shared>> {
    share_as(file, path, &SHARED, timeout)
}

/// The same for a process that is about to remove the name, of which there is at most one. A
/// process that may not write the file cannot keep others from that.
pub(super) fn share_to_remove(file: &HoldFile, path: &Path) -> Result<Option<Shared>> {
    share_as(file, path, if file.writable() { &LEAVING } else { &SHARED }, None)
}

/// The same for a file that nobody else can open yet.
pub(super) fn share_unnamed(file: &HoldFile) -> Result<Shared> {
    let held = lock(file, &SHARED)?.ok_or_else(|| {
        let text = format!(
            "{}: another process has this unnamed file open; try again",
            file.path().display()
        );
        Error::new(ErrorKind::Busy, text)
    })?;
    Ok(Shared { held, was_alone: true })
}

fn share_as(
    file: &HoldFile,
    path: &Path,
    how: &[(u64, LockKind)],
    timeout: Option<Duration>,
) -> Result<Option<Shared>> {
    let patience = Patience::for_one_alone(thread_patience::limited(timeout));
    let mut was_alone = false;
    for attempt in 0.. {
        was_alone = was_alone || (file.writable() && !in_use(file)?);
        step!("open.asked");
        if let Some(held) = lock(file, how)? {
            return Ok(leads_to(path, file).then_some(Shared { held, was_alone }));
        }
        if attempt > BUSY_ATTEMPTS {
            let Some(pause) = patience.shorten(PAUSE) else { break };
            std::thread::sleep(pause);
        }
    }
    let text = format!(
        "{}: another process uses it exclusively (perhaps to salvage it); try again later",
        path.display()
    );
    Err(Error::new(ErrorKind::Busy, text))
}

/// Whether anybody has the hold open. This is a question and not a lock, so a process that asks and
/// is then stopped delays nobody.
fn in_use(file: &HoldFile) -> Result<bool> {
    byte_lock::in_use(file).map_err(|e| Error::os(file.path().display(), &e))
}

/// Locks it exclusively, which requires that the file is open for writing. `None` if anybody has
/// the hold open.
pub(super) fn alone(file: &HoldFile) -> Result<Option<HeldBytes>> {
    lock(file, &EXCLUSIVE)
}

/// Whether this name leads to that file.
pub(super) fn leads_to(path: &Path, file: &HoldFile) -> bool {
    path.metadata().is_ok_and(|now| (now.dev(), now.ino()) == (file.dev(), file.ino()))
}

fn lock(file: &HoldFile, how: &[(u64, LockKind)]) -> Result<Option<HeldBytes>> {
    HeldBytes::try_lock(file, how).map_err(|e| Error::os(file.path().display(), &e))
}
