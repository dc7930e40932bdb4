//! A hold that is built where nobody sees it, and gets its name when it is complete.
//!
//! Invariant: whatever ends the building, an error or a kill, the name leads to the same file as
//! before, and nothing is left in the directory (but see [`Draft`]).

use crate::error::{Error, ErrorKind, Result};
use crate::hold::clean::CLEAN;
use crate::hold::handle::Hold;
use crate::hold::open;
use crate::hold::options::HoldOptions;
use crate::hold::superblock::CLEAN_OFFSET;
use crate::os::draft::{Draft, Placed};
use crate::steps::{fault, step};
use std::os::unix::fs::FileExt;
use std::path::Path;

/// Builds a hold that will become `target`, and closes it. It has no name yet.
pub(crate) fn build<T>(
    target: &Path,
    options: &HoldOptions,
    fill: impl FnOnce(&Hold) -> Result<T>,
) -> Result<(Draft, T)> {
    let draft = Draft::new(target, options.mode).map_err(|e| failed(target, "cannot write", &e))?;
    let hold = open::create_in(&draft, target, options)?;
    let result = fill(&hold)?;
    hold.close()?;
    ensure_clean(&draft, target)?;
    step!("draft.hold-built");
    Ok((draft, result))
}

/// Makes the new name of the hold durable.
pub(crate) fn sync_name(placed: &Placed, target: &Path) -> Result<()> {
    placed.sync().map_err(|e| {
        let doing = "is complete, but its name may not survive a system crash; run 'sync' until \
                     it succeeds";
        failed(target, doing, &e)
    })
}

/// Closing does not report what it could not write. The file itself shows whether it is complete.
fn ensure_clean(draft: &Draft, target: &Path) -> Result<()> {
    let synced = fault!("draft.hold-sync").and_then(|()| draft.file().sync_all());
    synced.map_err(|e| failed(target, "cannot be written to the disk", &e))?;
    let mut clean = [0; 4];
    let read = fault!("draft.hold-read")
        .and_then(|()| draft.file().read_exact_at(&mut clean, CLEAN_OFFSET));
    read.map_err(|e| failed(target, "cannot be read back", &e))?;
    if u32::from_le_bytes(clean) == CLEAN {
        return Ok(());
    }
    let text = format!(
        "{}: the disk reported an error on writing; see the system's log, and use another disk",
        target.display()
    );
    Err(Error::new(ErrorKind::Io, text))
}

pub(crate) fn failed(target: &Path, doing: &str, error: &std::io::Error) -> Error {
    Error::os(format!("{}: {doing}", target.display()), error)
}
