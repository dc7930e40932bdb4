//! `Log`, `LogReader`, `Collector`.

use crate::by_name::How;
use crate::convert::{bytes, invalid, json};
use crate::errors::{Answer, error};
use crate::ffi::input::Input;
use crate::hold::Hold;
use crate::shared_hold::SharedHold;
use crate::waiting::{patiently, seconds};
use commonhold::ErrorKind;
use commonhold::log::{LogLevel, LogLine, LogOptions, Overflow, RotatedFile, Written};
use pyo3::prelude::*;
use pyo3::types::{PyBytes, PyString};
use std::path::PathBuf;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, MutexGuard};

/// Many writing threads, in many processes, one merged log.
#[pyclass(subclass, frozen, module = "commonhold._native")]
pub struct Log {
    pub log: commonhold::log::Log,
    pub shared: Arc<SharedHold>,
}

/// Reads a log as it grows, without collecting it.
#[pyclass(frozen, module = "commonhold._native")]
pub struct LogReader {
    reader: Mutex<commonhold::log::LogReader>,
    shared: Arc<SharedHold>,
}

/// Collects a log.
#[pyclass(subclass, frozen, module = "commonhold._native")]
pub struct Collector {
    collector: Mutex<Option<commonhold::log::Collector>>,
    stops: AtomicBool,
    shared: Arc<SharedHold>,
}

/// time_ns, level, thread, text, late, lost, collected, who (pid, tid, name) if it announces a
/// thread.
type Line<'py> =
    (u64, Option<u32>, String, Bound<'py, PyBytes>, bool, u32, bool, Option<(u32, u32, String)>);

fn line<'py>(py: Python<'py>, line: &LogLine) -> Line<'py> {
    let who = line.announces.as_ref().map(|who| (who.pid, who.tid, who.name.clone()));
    let level = line.level.map(|level| level as u32);
    let (thread, text) = (line.thread.to_string(), bytes(py, &line.text));
    (line.time_ns, level, thread, text, line.late, line.lost, line.collected, who)
}

fn level(code: u32) -> Answer<LogLevel> {
    let found = LogLevel::ALL.into_iter().find(|level| *level as u32 == code);
    found
        .ok_or_else(|| invalid(format!("expected a level from 1 (error) to 5 (trace), got {code}")))
}

impl Log {
    fn log(&self) -> Answer<&commonhold::log::Log> {
        self.shared.ensure()?;
        Ok(&self.log)
    }
}

#[pymethods]
impl Log {
    #[new]
    #[pyo3(signature = (hold, name, *, rings=64, ring_bytes=256 << 10, overwrite=false, level=3, direct=false, how="open_or_create"))]
    #[allow(clippy::too_many_arguments)] // They are keywords.
    fn new(
        py: Python<'_>,
        hold: &Bound<'_, Hold>,
        name: &str,
        rings: u32,
        ring_bytes: u64,
        overwrite: bool,
        level: u32,
        direct: bool,
        how: &str,
    ) -> Answer<Log> {
        let how = How::of(how)?;
        let shared = Arc::clone(&hold.get().shared);
        let overflow = if overwrite { Overflow::Overwrite } else { Overflow::Drop };
        let options = LogOptions::new()
            .rings(rings)
            .ring_bytes(ring_bytes)
            .overflow(overflow)
            .level(self::level(level)?)
            .direct(direct);
        let log = shared.act(py, |hold| match how {
            How::Open => hold.logs().open(name),
            How::OpenOrCreate => hold.logs().open_or_create(name, options.clone()),
            How::Create => hold.logs().create(name, options.clone()),
        })?;
        Ok(Log { log, shared })
    }

    /// Its name.
    #[getter]
    fn name(&self) -> &str {
        self.log.name()
    }

    /// Writes one line, of text or bytes. Never waits, and never raises for want of room:
    /// `"accepted"`, `"filtered"` (the level is not enabled) or `"dropped"` (counted).
    fn _write(&self, level: u32, text: &Bound<'_, PyAny>) -> Answer<&'static str> {
        let (log, level) = (self.log()?, self::level(level)?);
        let written = match text.cast::<PyString>() {
            Ok(text) => match text.to_cow() {
                Ok(text) => log.write(level, text.as_bytes())?,
                // Characters that UTF-8 cannot represent become question marks, as in `logging`.
                Err(_) => log.write(level, text.to_string_lossy().as_bytes())?,
            },
            Err(_) => log.write(level, text.extract::<Input<'_>>()?)?,
        };
        Ok(match written {
            Written::Accepted => "accepted",
            Written::Filtered => "filtered",
            Written::Dropped => "dropped",
        })
    }

    /// The least important level that is enabled.
    #[getter]
    fn _level(&self) -> Answer<u32> {
        Ok(self.log()?.level() as u32)
    }

    fn _set_level(&self, py: Python<'_>, code: u32) -> Answer<()> {
        let (log, level) = (self.log()?, level(code)?);
        patiently(py, self.shared.patience, || Ok(log.set_level(level)?))
    }

    fn _enabled(&self, code: u32) -> Answer<bool> {
        Ok(self.log()?.enabled(level(code)?))
    }

    fn _dump<'py>(&self, py: Python<'py>) -> Answer<Vec<Line<'py>>> {
        let log = self.log()?;
        let lines = py.detach(|| log.dump())?;
        Ok(lines.iter().map(|found| line(py, found)).collect())
    }

    fn _reader(&self, py: Python<'_>) -> Answer<LogReader> {
        let log = self.log()?;
        let reader = Mutex::new(patiently(py, self.shared.patience, || Ok(log.reader()?))?);
        Ok(LogReader { reader, shared: Arc::clone(&self.shared) })
    }

    fn _stat(&self, py: Python<'_>) -> Answer<String> {
        let log = self.log()?;
        json(&patiently(py, self.shared.patience, || Ok(log.stat()?))?)
    }
}

#[pymethods]
impl LogReader {
    /// The lines that were written since, those old enough; `all`: however young.
    #[pyo3(signature = (all=false))]
    fn poll<'py>(&self, py: Python<'py>, all: bool) -> Answer<Vec<Line<'py>>> {
        self.shared.ensure()?;
        let reader = self.reader.try_lock();
        let mut reader =
            reader.map_err(|_| error(ErrorKind::Busy, "another thread uses this reader"))?;
        let reader = &mut *reader;
        let lines = py.detach(|| if all { reader.finish() } else { reader.poll() })?;
        Ok(lines.iter().map(|found| line(py, found)).collect())
    }
}

impl Collector {
    fn alone(&self) -> Answer<MutexGuard<'_, Option<commonhold::log::Collector>>> {
        self.shared.ensure()?;
        self.collector.try_lock().map_err(|_| error(ErrorKind::Busy, "another thread collects"))
    }
}

fn closed() -> crate::errors::Failure {
    error(ErrorKind::Closed, "the collector is closed")
}

#[pymethods]
impl Collector {
    #[new]
    #[pyo3(signature = (log, *, hold_back=0.005, level=5))]
    fn new(log: &Bound<'_, Log>, hold_back: f64, level: u32) -> Answer<Collector> {
        let py = log.py();
        let Log { log, shared } = log.get();
        shared.ensure()?;
        let (hold_back, level) = (seconds(hold_back)?, self::level(level)?);
        let collector = patiently(py, shared.patience, || Ok(log.collector()?))?;
        let collector = collector.hold_back(hold_back).level(level);
        let collector = Mutex::new(Some(collector));
        Ok(Collector { collector, stops: AtomicBool::new(false), shared: Arc::clone(shared) })
    }

    /// The text of the lines that are old enough, one round, marked as collected; `finish`: of all
    /// there is, however young.
    #[pyo3(signature = (finish=false))]
    fn poll<'py>(&self, py: Python<'py>, finish: bool) -> Answer<Bound<'py, PyBytes>> {
        let mut collector = self.alone()?;
        let collector = collector.as_mut().ok_or_else(closed)?;
        let mut text = Vec::new();
        py.detach(|| if finish { collector.finish(&mut text) } else { collector.poll(&mut text) })?;
        Ok(bytes(py, &text))
    }

    /// Collects into a file until `stop()` is called by another thread, then finishes. Beyond
    /// `max_bytes` (0: no limit) the file is rotated, `keep` old ones are kept. Each line is there
    /// once, whichever process is killed at whichever moment. Returns how many lines there were.
    #[pyo3(signature = (path, *, max_bytes=0, keep=5))]
    fn run(&self, py: Python<'_>, path: PathBuf, max_bytes: u64, keep: u32) -> Answer<u64> {
        let mut collector = self.alone()?;
        let collector = collector.as_mut().ok_or_else(closed)?;
        let max_bytes = if max_bytes == 0 { u64::MAX } else { max_bytes };
        let mut file = RotatedFile::open(&path, max_bytes, keep)?;
        let mut lines = 0;
        while !self.stops.load(Ordering::Relaxed) {
            let round = py.detach(|| {
                let round = collector.poll_to_file(&mut file)?;
                collector.pause(&round);
                commonhold::Result::Ok(round)
            })?;
            lines += round.lines;
            py.check_signals()?;
        }
        Ok(lines + py.detach(|| collector.finish_to_file(&mut file))?.lines)
    }

    /// Ends `run`.
    fn stop(&self) {
        self.stops.store(true, Ordering::Relaxed);
    }

    /// Lets the next collector begin.
    fn close(&self) -> Answer<()> {
        let found = self.collector.try_lock();
        *found.map_err(|_| error(ErrorKind::Busy, "another thread collects: stop() it first"))? =
            None;
        Ok(())
    }
}
