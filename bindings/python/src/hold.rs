//! `Hold`: the file, and the operations on all of it.

use crate::convert::json;
use crate::errors::{Answer, Failure, error};
use crate::ffi::frozen::Frozen;
use crate::shared_hold::SharedHold;
use crate::waiting::{patiently, seconds};
use commonhold::{ErrorKind, HoldOptions};
use pyo3::prelude::*;
use std::path::PathBuf;
use std::sync::Arc;

/// A memory-mapped file that many processes share.
#[pyclass(subclass, frozen, module = "commonhold._native")]
pub struct Hold {
    pub shared: Arc<SharedHold>,
}

/// Keeps all writers of a hold's maps waiting; of the thread that made it.
#[pyclass(unsendable, module = "commonhold._native")]
pub struct Freeze {
    frozen: Option<Frozen>,
}

#[pymethods]
impl Hold {
    #[new]
    #[pyo3(signature = (name, *, create=true, exclusive=false, read_only=false, max_bytes=None, mode=0o600, directory=None, delete_on_last_exit=false, lock_timeout=None))]
    #[allow(clippy::too_many_arguments)] // They are keywords.
    fn new(
        py: Python<'_>,
        name: PathBuf,
        create: bool,
        exclusive: bool,
        read_only: bool,
        max_bytes: Option<u64>,
        mode: u32,
        directory: Option<PathBuf>,
        delete_on_last_exit: bool,
        lock_timeout: Option<f64>,
    ) -> Answer<Hold> {
        let mut options = HoldOptions::default()
            .read_only(read_only)
            .mode(mode)
            .delete_on_last_exit(delete_on_last_exit);
        if let Some(bytes) = max_bytes {
            options = options.max_bytes(bytes);
        }
        if let Some(directory) = directory {
            options = options.directory(directory);
        }
        let patience = lock_timeout.map(seconds).transpose()?;
        if let Some(time) = patience {
            options = options.lock_timeout(time);
        }
        let hold = patiently(py, patience, || {
            Ok(match (create && !read_only, exclusive) {
                (_, true) => options.create(&name),
                (true, false) => options.open_or_create(&name),
                (false, false) => options.open(&name),
            }?)
        })?;
        Ok(Hold { shared: SharedHold::new(hold, patience) })
    }

    /// Closes the hold for everything that was made from it: later operations raise `ClosedError`.
    /// Waits for operations in other threads. A buffer in use (a memoryview, an array) stays valid;
    /// the end of the last one completes the closing.
    fn close(&self, py: Python<'_>) {
        self.shared.close(py);
    }

    /// True after `close()`.
    #[getter]
    fn closed(&self) -> bool {
        self.shared.is_closed()
    }

    #[getter]
    fn _path(&self) -> PathBuf {
        self.shared.name_of().path().to_owned()
    }

    /// The hold's identity, as 32 hexadecimal digits.
    #[getter]
    fn uuid(&self) -> String {
        self.shared.name_of().uuid().iter().map(|byte| format!("{byte:02x}")).collect()
    }

    fn _stat(&self, py: Python<'_>) -> Answer<String> {
        json(&self.shared.act(py, |hold| hold.stat())?)
    }

    fn _structures(&self, py: Python<'_>) -> Answer<String> {
        json(&self.shared.act(py, |hold| hold.structures())?)
    }

    fn _list(&self, py: Python<'_>, kind: &str) -> Answer<String> {
        match kind {
            "map" => json(&self.shared.act(py, |hold| hold.maps().list())?),
            "queue" => json(&self.shared.act(py, |hold| hold.queues().list())?),
            "channel" => json(&self.shared.act(py, |hold| hold.channels().list())?),
            "log" => json(&self.shared.act(py, |hold| hold.logs().list())?),
            other => Err(unknown(other)),
        }
    }

    fn _drop(&self, py: Python<'_>, kind: &str, name: &str) -> Answer<bool> {
        match kind {
            "map" => self.shared.act(py, |hold| hold.maps().drop(name)),
            "queue" => self.shared.act(py, |hold| hold.queues().drop(name)),
            "channel" => self.shared.act(py, |hold| hold.channels().drop(name)),
            "log" => self.shared.act(py, |hold| hold.logs().drop(name)),
            other => Err(unknown(other)),
        }
    }

    fn _begin_stream(&self, py: Python<'_>, map: &str, bytes: u64) -> Answer<bool> {
        self.shared.act(py, |hold| hold.maps().begin_stream(map, bytes))
    }

    fn _promote(&self, py: Python<'_>, map: &str) -> Answer<Option<String>> {
        let done = self.shared.act(py, |hold| commonhold_replicate::promote(hold, map))?;
        done.as_ref().map(json).transpose()
    }

    fn _queue_stat(&self, py: Python<'_>, name: &str) -> Answer<String> {
        json(&self.shared.act(py, |hold| hold.queues().stat(name))?)
    }

    fn _participants(&self, py: Python<'_>) -> Answer<String> {
        json(&self.shared.act(py, |hold| hold.participants())?)
    }

    fn _participant(&self, py: Python<'_>) -> Answer<String> {
        json(&self.shared.act(py, |hold| hold.participant())?)
    }

    fn _check(&self, py: Python<'_>) -> Answer<String> {
        json(&self.shared.act(py, |hold| hold.check())?)
    }

    fn _backup(&self, py: Python<'_>, to: PathBuf) -> Answer<String> {
        json(&self.shared.act(py, |hold| hold.backup(&to))?)
    }

    /// Recovers dead participants, as opening and closing do too. Returns their number.
    fn sweep(&self, py: Python<'_>) -> Answer<usize> {
        self.shared.act(py, |hold| hold.sweep())
    }

    /// Returns free memory to the system; the result is the number of bytes.
    fn trim(&self, py: Python<'_>) -> Answer<u64> {
        self.shared.act(py, |hold| hold.trim())
    }

    /// Keeps all writers of maps waiting until the result is released: a context manager, for a
    /// consistent view of several keys. Only the thread that made it may release it; writing from
    /// this thread meanwhile raises `BusyError`.
    fn freeze(&self, py: Python<'_>) -> Answer<Freeze> {
        Ok(Freeze { frozen: Some(Frozen::new(py, &self.shared)?) })
    }
}

#[pymethods]
impl Freeze {
    fn __enter__(own: PyRef<'_, Self>) -> PyRef<'_, Self> {
        own
    }

    fn __exit__(
        &mut self,
        _type: &Bound<'_, PyAny>,
        _value: &Bound<'_, PyAny>,
        _traceback: &Bound<'_, PyAny>,
    ) {
        self.release();
    }

    /// Releases the writers.
    fn release(&mut self) {
        if let Some(frozen) = self.frozen.take() {
            drop(frozen.thaw());
        }
    }
}

#[cold]
fn unknown(kind: &str) -> Failure {
    let text = format!("expected 'map', 'queue', 'channel' or 'log', got '{kind}'");
    error(ErrorKind::Invalid, text)
}

/// The path that a name stands for.
#[pyfunction]
#[pyo3(signature = (name, directory=None))]
pub fn resolve(name: PathBuf, directory: Option<PathBuf>) -> Answer<PathBuf> {
    Ok(commonhold::hold::resolve(name, directory.as_deref())?)
}

#[pyfunction]
#[pyo3(signature = (directory=None))]
pub fn list(directory: Option<PathBuf>) -> Answer<String> {
    json(&commonhold::hold::list(directory.as_deref())?)
}

/// Deletes the file of a hold; `BusyError` if a process has it open, unless `force`.
#[pyfunction]
#[pyo3(signature = (name, *, force=false))]
pub fn remove(py: Python<'_>, name: PathBuf, force: bool) -> Answer<()> {
    Ok(py.detach(|| commonhold::hold::remove(&name, force))?)
}

#[pyfunction]
pub fn restore(py: Python<'_>, backup: PathBuf, name: PathBuf) -> Answer<String> {
    json(&py.detach(|| commonhold::hold::restore(&backup, &name))?)
}

#[pyfunction]
pub fn salvage(py: Python<'_>, name: PathBuf) -> Answer<String> {
    json(&py.detach(|| commonhold::hold::salvage(&name))?)
}
