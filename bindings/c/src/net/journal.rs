//! A map's changes in a file.

use crate::basics::json;
use crate::ffi::call::export;
use crate::ffi::take::{Growing, Plain};
use crate::ffi::{Asked, Name, NewHandle, OutBytes, Owned, Ref, invalid, yes};
use crate::net::Native;
use commonhold::{Hold, Result};
use commonhold_replicate::journal::{self, Journal, JournalOptions, SyncPolicy};
use std::time::Duration;

/// `ch_journal_options`.
#[repr(C)]
#[derive(Clone, Copy)]
pub struct Options {
    _size: usize,
    stream_bytes: u64,
    compact_bytes: u64,
    every_ms: u64,
    sync: u32,
    replace: u32,
}

impl Plain for Options {
    const ZERO: Options =
        Options { _size: 0, stream_bytes: 0, compact_bytes: 0, every_ms: 0, sync: 0, replace: 0 };
}

impl Growing for Options {
    const INIT: &'static str = "CH_JOURNAL_OPTIONS_INIT";
}

impl Options {
    fn build(&self) -> Result<JournalOptions> {
        let mut options = JournalOptions { replace: self.replace != 0, ..Default::default() };
        if self.stream_bytes != 0 {
            options.stream_bytes = self.stream_bytes;
        }
        if self.compact_bytes != 0 {
            options.compact_bytes = self.compact_bytes;
        }
        options.sync = match self.sync {
            0 => SyncPolicy::Always,
            1 => SyncPolicy::Every(Duration::from_millis(self.every_ms.max(1))),
            2 => SyncPolicy::Never,
            other => return Err(invalid(format!("{other} is not a policy of a journal"))),
        };
        Ok(options)
    }
}

crate::ffi::handle::kinds! {
    Native<Journal> = b"ch-journ", "journal";
}

export! {
    fn ch_journal_start(
        hold: Ref<Hold>,
        map: Name,
        file: Name,
        options: Asked<Options>,
        journal: NewHandle<Native<Journal>>,
    ) {
        let place = journal.ready()?;
        let (map, file) = (map.text("the map's name")?, file.path("the file's name")?);
        let options = options.or_defaults()?.build()?;
        place.put(Native::new(Journal::start(hold.get()?, map, file, options)?));
        Ok(yes(true))
    }

    fn ch_journal_free(journal: Owned<Native<Journal>>) -> (), or (), {
        drop(journal.take().map(Native::into_inner))
    }

    fn ch_journal_describe(journal: Ref<Native<Journal>>, out: OutBytes) {
        json(&out, &journal.get()?.get()?.status())
    }

    fn ch_journal_is_over(journal: Ref<Native<Journal>>) {
        Ok(yes(journal.get()?.get()?.is_over()))
    }

    fn ch_journal_rebuild(hold: Ref<Hold>, map: Name, file: Name, report: OutBytes) {
        report.needed_if_wanted()?;
        let (map, file) = (map.text("the map's name")?, file.path("the file's name")?);
        let done = journal::rebuild(hold.get()?, map, file, &JournalOptions::default())?;
        if report.is_wanted() { json(&report, &done) } else { Ok(yes(true)) }
    }
}
