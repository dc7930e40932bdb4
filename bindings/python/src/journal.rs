//! `Journal`.
//!
//! Its thread never calls Python. Its end waits for the disk, with the interpreter released.

use crate::convert::{invalid, json};
use crate::errors::Answer;
use crate::hold::Hold;
use crate::net::{closed, ensure_native, lock};
use crate::waiting::{in_a_thread, time_span};
use commonhold::raw::process_number;
use commonhold_replicate::journal::{
    Journal as Native, JournalOptions, Rebuilt, find_state, read_time, rebuild, rebuild_state,
};
use pyo3::prelude::*;
use serde::Serialize;
use std::path::PathBuf;
use std::sync::{Mutex, PoisonError};

/// Records every change of a map in a file.
#[pyclass(subclass, frozen, module = "commonhold._native")]
pub struct Journal {
    journal: Mutex<Option<Native>>,
    process: u32,
}

/// A map that was rebuilt; of an earlier state also its file and its time.
#[derive(Serialize)]
struct Report {
    #[serde(flatten)]
    rebuilt: Rebuilt,
    #[serde(skip_serializing_if = "Option::is_none")]
    file: Option<PathBuf>,
    #[serde(skip_serializing_if = "Option::is_none")]
    time_ms: Option<u64>,
}

impl Journal {
    fn with<T: Send>(&self, py: Python<'_>, act: impl FnOnce(&Native) -> T + Send) -> Answer<T> {
        ensure_native(self.process)?;
        py.detach(|| lock(&self.journal).as_ref().map(act)).ok_or_else(|| closed("journal"))
    }
}

#[pymethods]
impl Journal {
    #[new]
    #[pyo3(signature = (hold, map, file, *, sync="always", stream_bytes=None, compact_bytes=None, replace=false, keep=None, archive=None, segment_time=None))]
    #[allow(clippy::too_many_arguments)] // They are keywords.
    fn new(
        hold: &Bound<'_, Hold>,
        map: &str,
        file: PathBuf,
        sync: &str,
        stream_bytes: Option<u64>,
        compact_bytes: Option<u64>,
        replace: bool,
        keep: Option<&Bound<'_, PyAny>>,
        archive: Option<PathBuf>,
        segment_time: Option<&Bound<'_, PyAny>>,
    ) -> Answer<Journal> {
        if keep.is_none() && (archive.is_some() || segment_time.is_some()) {
            return Err(invalid(
                "archive and segment_time have no effect without segments: set keep, too",
            ));
        }
        let mut options = JournalOptions { sync: sync.parse()?, replace, ..Default::default() };
        options.stream_bytes = stream_bytes.unwrap_or(options.stream_bytes);
        options.compact_bytes = compact_bytes.unwrap_or(options.compact_bytes);
        (options.keep, options.archive) = (keep.map(time_span).transpose()?, archive);
        options.segment_time = segment_time.map_or(Ok(options.segment_time), time_span)?;
        let opened = hold.get().shared.hold()?;
        let journal = hold.py().detach(|| Native::start(opened, map, file, options))?;
        Ok(Journal { journal: Mutex::new(Some(journal)), process: process_number() })
    }

    #[staticmethod]
    fn _rebuild(
        hold: &Bound<'_, Hold>,
        map: &str,
        file: PathBuf,
        at_ms: Option<u64>,
        archive: Option<PathBuf>,
        skip_damaged: bool,
    ) -> Answer<String> {
        let options = JournalOptions { skip_damaged, archive, ..Default::default() };
        let opened = hold.get().shared.hold()?;
        let rebuilt = hold.py().detach(|| match at_ms {
            None => rebuild(opened, map, file, &options).map(|rebuilt| (rebuilt, None)),
            Some(at_ms) => {
                let state = find_state(file, at_ms, &options)?;
                let rebuilt = rebuild_state(opened, map, &state, &options)?;
                Ok((rebuilt, Some(state)))
            }
        });
        json(&rebuilt.map(|(rebuilt, state)| Report {
            rebuilt,
            file: state.as_ref().map(|state| state.file.clone()),
            time_ms: state.map(|state| state.time_ms),
        })?)
    }

    #[staticmethod]
    fn _find_state(
        py: Python<'_>,
        file: PathBuf,
        at_ms: u64,
        archive: Option<PathBuf>,
        skip_damaged: bool,
    ) -> Answer<String> {
        let options = JournalOptions { skip_damaged, archive, ..Default::default() };
        json(&py.detach(|| find_state(file, at_ms, &options))?)
    }

    /// A time as text, in milliseconds since 1970.
    #[staticmethod]
    fn _time(text: &str) -> Answer<u64> {
        Ok(read_time(text)?)
    }

    fn _status(&self, py: Python<'_>) -> Answer<String> {
        json(&self.with(py, Native::status)?)
    }

    /// True if it has ended by itself, because its map is gone.
    #[getter]
    fn is_over(&self, py: Python<'_>) -> Answer<bool> {
        self.with(py, Native::is_over)
    }

    /// Writes all changes, makes them durable, and ends. Raises ``SystemFailedError`` if not everything has
    /// become durable. Close a journal before its hold. Waits for the disk without limit; if Ctrl-C ends the wait, the journal still
    /// ends when the disk answers.
    fn close(&self, py: Python<'_>) -> Answer<()> {
        if ensure_native(self.process).is_err() {
            return Ok(());
        }
        let Some(journal) = py.detach(|| lock(&self.journal).take()) else { return Ok(()) };
        in_a_thread(py, move || journal.finish())
    }
}

impl Drop for Journal {
    fn drop(&mut self) {
        let journal = self.journal.get_mut().unwrap_or_else(PoisonError::into_inner).take();
        let _ = Python::try_attach(|py| py.detach(|| drop(journal)));
    }
}
