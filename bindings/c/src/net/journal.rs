//! A map's changes in a file.

use crate::basics::json;
use crate::ffi::call::export;
use crate::ffi::take::{Growing, Plain};
use crate::ffi::{Asked, Give, Name, NewHandle, OutBytes, Owned, Ref, invalid, yes};
use crate::net::Native;
use commonhold::{Hold, Result};
use commonhold_replicate::journal::{
    self, Journal, JournalOptions, PastState, Rebuilt, SyncPolicy, find_state, rebuild_state,
};
use serde::Serialize;
use std::path::Path;
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
    keep_ms: u64,
    segment_ms: u64,
    archive: Name,
    skip_damaged: u32,
    reserved: u32,
}

impl Plain for Options {
    const ZERO: Options = Options {
        _size: 0,
        stream_bytes: 0,
        compact_bytes: 0,
        every_ms: 0,
        sync: 0,
        replace: 0,
        keep_ms: 0,
        segment_ms: 0,
        archive: Name::NULL,
        skip_damaged: 0,
        reserved: 0,
    };
}

impl Growing for Options {
    const INIT: &'static str = "CH_JOURNAL_OPTIONS_INIT";

    fn reserved(&self) -> u32 {
        self.reserved
    }
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
        options.keep = (self.keep_ms != 0).then(|| Duration::from_millis(self.keep_ms));
        options.archive = self.archive.optional_path().map(Path::to_owned);
        if self.segment_ms != 0 {
            options.segment_time = Duration::from_millis(self.segment_ms);
        }
        options.skip_damaged = self.skip_damaged != 0;
        Ok(options)
    }

    /// The same for a journal that begins.
    fn build_to_start(&self) -> Result<JournalOptions> {
        let only_segments = self.archive.optional().is_some() || self.segment_ms != 0;
        if self.keep_ms == 0 && only_segments {
            return Err(invalid(
                "the directory and the time of segments have no effect without segments: set how \
                 long earlier states are kept, too",
            ));
        }
        self.build()
    }
}

/// The report of an earlier state that was rebuilt.
#[derive(Serialize)]
struct RebuiltState<'a> {
    /// The file that has the state.
    file: &'a Path,
    time_ms: u64,
    #[serde(flatten)]
    rebuilt: Rebuilt,
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
        let options = options.or_defaults()?.build_to_start()?;
        place.put(Native::new(Journal::start(hold.get()?, map, file, options)?));
        Ok(yes(true))
    }

    fn ch_journal_free(journal: Owned<Native<Journal>>) -> (), or (), {
        drop(journal.take().map(Native::into_inner))
    }

    fn ch_journal_finish(journal: Owned<Native<Journal>>) {
        let journal = journal.take_or_refuse()?.into_inner();
        let was_ours = journal.is_some();
        journal.map_or(Ok(()), Journal::finish)?;
        Ok(yes(was_ours))
    }

    fn ch_journal_describe(journal: Ref<Native<Journal>>, out: OutBytes) {
        json(&out, &journal.get()?.get()?.status())
    }

    fn ch_journal_is_over(journal: Ref<Native<Journal>>) {
        Ok(yes(journal.get()?.get()?.is_over()))
    }

    fn ch_journal_rebuild(hold: Ref<Hold>, map: Name, file: Name, options: Asked<Options>, report: OutBytes) {
        report.needed_if_wanted()?;
        let (map, file) = (map.text("the map's name")?, file.path("the file's name")?);
        let options = options.or_defaults()?.build()?;
        let done = journal::rebuild(hold.get()?, map, file, &options)?;
        if report.is_wanted() { json(&report, &done) } else { Ok(yes(true)) }
    }

    fn ch_journal_time(text: Name, at_ms: Give<u64>) {
        at_ms.needed("time")?;
        at_ms.set(journal::read_time(text.text("the time")?)?);
        Ok(yes(true))
    }

    fn ch_journal_find_state(file: Name, at_ms: u64, options: Asked<Options>, state: OutBytes) {
        state.needed_if_wanted()?;
        let (file, options) = (file.path("the file's name")?, options.or_defaults()?.build()?);
        let found = find_state(file, at_ms, &options)?;
        if state.is_wanted() { json(&state, &found) } else { Ok(yes(true)) }
    }

    fn ch_journal_rebuild_state(
        hold: Ref<Hold>,
        map: Name,
        file: Name,
        at_ms: u64,
        options: Asked<Options>,
        report: OutBytes,
    ) {
        report.needed_if_wanted()?;
        let (map, file) = (map.text("the map's name")?, file.path("the file's name")?);
        let (hold, options) = (hold.get()?, options.or_defaults()?.build()?);
        let state = find_state(file, at_ms, &options)?;
        let rebuilt = rebuild_state(hold, map, &state, &options)?;
        let PastState { file, time_ms, .. } = &state;
        let done = RebuiltState { file, time_ms: *time_ms, rebuilt };
        if report.is_wanted() { json(&report, &done) } else { Ok(yes(true)) }
    }
}
