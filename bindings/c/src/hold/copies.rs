//! Copies of a hold: backup, restore, salvage.

use crate::ffi::call::export;
use crate::ffi::{Give, Name, OutBytes, Ref, yes};
use commonhold::Hold;

/// `ch_backup_report`.
#[repr(C)]
#[derive(Clone, Copy)]
pub struct Backup {
    pairs: u64,
    bytes: u64,
    paused_ms: f64,
    maps: u32,
    left_out: u32,
}

/// `ch_salvage_report`.
#[repr(C)]
#[derive(Clone, Copy)]
pub struct Salvage {
    kept: u64,
    superseded: u64,
    dropped: u64,
    missing: u64,
    cut_off: u64,
    undecidable: u64,
    maps: u32,
}

export! {
    fn ch_hold_backup(hold: Ref<Hold>, to: Name, report: Give<Backup>) {
        let done = hold.get()?.backup(to.path("the backup's name")?)?;
        report.set(Backup {
            pairs: done.pairs,
            bytes: done.bytes,
            paused_ms: done.paused_ms,
            maps: done.maps,
            left_out: done.left_out,
        });
        Ok(yes(true))
    }

    fn ch_hold_restore(backup: Name, name: Name, maps: Give<u32>, pairs: Give<u64>) {
        let (backup, name) = (backup.path("the backup's name")?, name.path("the hold's name")?);
        let done = commonhold::hold::restore(backup, name)?;
        maps.set(done.maps);
        pairs.set(done.pairs);
        Ok(yes(true))
    }

    fn ch_hold_salvage(name: Name, report: Give<Salvage>, notes: OutBytes) {
        notes.needed_if_wanted()?;
        let done = commonhold::hold::salvage(name.path("the hold's name")?)?;
        report.set(Salvage {
            kept: done.kept,
            superseded: done.superseded,
            dropped: done.dropped,
            missing: done.missing,
            cut_off: done.cut_off,
            undecidable: done.undecidable,
            maps: done.maps,
        });
        let kept_as = format!("the old file is {}", done.kept_old_as.display());
        let lines: Vec<String> = done.notes.into_iter().chain([kept_as]).collect();
        notes.put_if_wanted(lines.join("\n"))?;
        Ok(yes(true))
    }
}
