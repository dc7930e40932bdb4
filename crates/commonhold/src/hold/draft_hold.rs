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

/// Closing does not report what it could not write. The file itself shows whether it is complete:
/// the mark is set after everything else was synced. Closing then syncs the mark's page, which may
/// fail as well. The system then shows the mark, but does not write the page again. So the mark is
/// stored once more, which makes the page dirty, and synced here.
fn ensure_clean(draft: &Draft, target: &Path) -> Result<()> {
    let file = draft.file();
    let mut clean = [0; 4];
    let read =
        fault!("draft.hold-read").and_then(|()| file.read_exact_at(&mut clean, CLEAN_OFFSET));
    read.map_err(|e| failed(target, "cannot be read back", &e))?;
    if u32::from_le_bytes(clean) != CLEAN {
        let text = format!(
            "{}: the disk reported an error on writing; see the system's log, and use another disk",
            target.display()
        );
        return Err(Error::new(ErrorKind::Io, text));
    }
    let written = fault!("draft.hold-write").and_then(|()| file.write_all_at(&clean, CLEAN_OFFSET));
    let synced = written.and_then(|()| fault!("draft.hold-sync")).and_then(|()| file.sync_all());
    synced.map_err(|e| failed(target, "cannot be written to the disk", &e))
}

pub(crate) fn failed(target: &Path, doing: &str, error: &std::io::Error) -> Error {
    Error::os(format!("{}: {doing}", target.display()), error)
}
