//! `Origin` and `Replica`.
//!
//! Their threads may call Python, so every wait for them releases the interpreter: also what
//! drops them.

use crate::convert::{bytes, invalid, json};
use crate::errors::{Answer, error};
use crate::hold::Hold;
use crate::net_options::{address, origin_options, replica_options, secret};
use crate::shared_hold::SharedHold;
use crate::waiting::{in_a_thread, patiently, seconds, wait};
use commonhold::raw::process_number;
use commonhold::stream::{StreamFrame, StreamPosition};
use commonhold::{Error, ErrorKind};
use commonhold_replicate::{Notice, ReplicaEvents, ReplicaOptions};
use pyo3::prelude::*;
use pyo3::types::PyDict;
use std::os::fd::OwnedFd;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

/// How many differing keys a report names.
const MOST_DIFFERING: usize = 100;

/// Serves a map to replicas.
#[pyclass(subclass, frozen, module = "commonhold._native")]
pub struct Origin {
    origin: Mutex<Option<commonhold_replicate::Origin>>,
    process: u32,
    shared: Arc<SharedHold>,
}

/// Replicates an origin's map.
#[pyclass(subclass, frozen, module = "commonhold._native")]
pub struct Replica {
    replica: Mutex<Option<Arc<commonhold_replicate::Replica>>>,
    process: u32,
    shared: Arc<SharedHold>,
}

/// Calls Python: `call(what, ...)`.
pub(crate) struct Listener(pub(crate) Option<Py<PyAny>>);

impl Listener {
    pub(crate) fn call(&self, act: impl FnOnce(Python<'_>, &Bound<'_, PyAny>) -> PyResult<()>) {
        if let Some(call) = &self.0 {
            // An interpreter that is ending cannot be called.
            let _ = Python::try_attach(|py| {
                let call = call.bind(py);
                if let Err(error) = act(py, call) {
                    error.write_unraisable(py, Some(call));
                }
            });
        }
    }
}

impl ReplicaEvents for Listener {
    fn changed(&mut self, change: &StreamFrame<'_>) {
        self.call(|py, call| {
            let (key, value) = (bytes(py, change.key), bytes(py, change.value));
            let frame = (change.kind as u32, key, value, change.expires_ms, change.end);
            call.call1(("changed", frame)).map(drop)
        });
    }

    fn ready(&mut self, position: StreamPosition) {
        self.call(|_, call| call.call1(("ready", position.to_string())).map(drop));
    }

    fn lost(&mut self, why: &str) {
        self.call(|_, call| call.call1(("lost", why)).map(drop));
    }
}

/// Notices that call Python.
pub(crate) fn notices(call: Option<Py<PyAny>>) -> Option<Notice> {
    let listener = Listener(Some(call?));
    Some(Arc::new(move |text: &str| {
        listener.call(|_, call| call.call1((text,)).map(drop));
    }))
}

/// # Errors
/// `Invalid` in a forked child, where the threads are not, and where its lock may be one of theirs.
pub(crate) fn ensure_native(process: u32) -> Answer<()> {
    if process == process_number() {
        return Ok(());
    }
    Err(invalid(
        "this handle belongs to the parent process, where its threads run; open another one in \
         this process",
    ))
}

pub(crate) fn closed(what: &str) -> crate::errors::Failure {
    error(ErrorKind::Closed, format!("the {what} is closed"))
}

/// A descriptor of the library's own, made from one that stays Python's.
pub(crate) fn socket(fd: &Bound<'_, PyAny>) -> Answer<OwnedFd> {
    crate::ffi::descriptor::copy(fd)
}

pub(crate) type Slot<T> = Mutex<Option<T>>;

pub(crate) fn lock<T>(slot: &Slot<T>) -> MutexGuard<'_, Option<T>> {
    slot.lock().unwrap_or_else(PoisonError::into_inner)
}

impl Origin {
    /// The thread that has the slot locked may call Python (its notices), so no thread waits for it
    /// while holding the interpreter.
    fn with<T: Send>(
        &self,
        py: Python<'_>,
        act: impl FnOnce(&commonhold_replicate::Origin) -> T + Send,
    ) -> Answer<T> {
        ensure_native(self.process)?;
        py.detach(|| lock(&self.origin).as_ref().map(act)).ok_or_else(|| closed("origin"))
    }
}

#[pymethods]
impl Origin {
    #[new]
    #[pyo3(signature = (hold, name, *, notice=None, **options))]
    fn new(
        py: Python<'_>,
        hold: &Bound<'_, Hold>,
        name: &str,
        notice: Option<Py<PyAny>>,
        options: Option<&Bound<'_, PyDict>>,
    ) -> Answer<Origin> {
        let shared = Arc::clone(&hold.get().shared);
        let mut options = origin_options(options)?;
        options.notice = notices(notice);
        let opened = shared.hold()?;
        let origin = py.detach(|| commonhold_replicate::Origin::start(opened, name, options))?;
        Ok(Origin { origin: Mutex::new(Some(origin)), process: process_number(), shared })
    }

    /// Listens at `unix:PATH`, `tcp:PORT` (loopback) or `tcp:HOST:PORT`; returns the address, for
    /// port 0 with the one that it got.
    fn listen(&self, py: Python<'_>, at: &str) -> Answer<String> {
        self.shared.ensure()?;
        let at = address(at)?;
        Ok(self.with(py, |origin| origin.listen(&at))??.to_string())
    }

    /// Accepts connections from a socket that listens already (socket activation), of which it uses a
    /// copy; returns the address.
    fn listen_on(&self, socket: &Bound<'_, PyAny>) -> Answer<String> {
        self.shared.ensure()?;
        let copy = self::socket(socket)?;
        Ok(self.with(socket.py(), |origin| origin.listen_on(copy))??.to_string())
    }

    /// Serves the replica at the other end of a connected stream socket (an object with `fileno()`,
    /// or a number), of which it uses a copy. Returns a number for `detach`.
    fn attach(&self, socket: &Bound<'_, PyAny>) -> Answer<u64> {
        self.shared.ensure()?;
        let copy = self::socket(socket)?;
        Ok(self.with(socket.py(), |origin| origin.attach(copy))??)
    }

    /// Closes the connection to a replica; false if there is none of this number.
    fn detach(&self, py: Python<'_>, number: u64) -> Answer<bool> {
        self.with(py, |origin| origin.detach(number))
    }

    /// With `explicit=True`: sends every change made before. Does not wait.
    fn transmit(&self, py: Python<'_>) -> Answer<()> {
        patiently(py, self.shared.patience, || {
            ensure_native(self.process)?;
            let origin = lock(&self.origin);
            Ok(origin.as_ref().ok_or_else(|| closed("origin"))?.transmit()?)
        })
    }

    fn _replicas(&self, py: Python<'_>) -> Answer<String> {
        json(&self.with(py, |origin| origin.replicas())?)
    }

    /// Where it listens.
    #[getter]
    fn addresses(&self, py: Python<'_>) -> Answer<Vec<String>> {
        let addresses = self.with(py, |origin| origin.addresses())?;
        Ok(addresses.iter().map(ToString::to_string).collect())
    }

    /// Ends it; first sends the waiting changes, for at most `timeout` seconds.
    #[pyo3(signature = (timeout=0.0))]
    fn close(&self, py: Python<'_>, timeout: f64) -> Answer<()> {
        let time = seconds(timeout)?;
        if ensure_native(self.process).is_ok() {
            py.detach(|| {
                let origin = lock(&self.origin).take();
                origin.map(|origin| origin.finish(time))
            });
        }
        Ok(())
    }
}

impl Drop for Origin {
    fn drop(&mut self) {
        // Not locked: in a forked child it may stay locked forever, by a thread that does not exist
        // there.
        let origin = self.origin.get_mut().unwrap_or_else(PoisonError::into_inner).take();
        let _ = Python::try_attach(|py| py.detach(|| drop(origin)));
    }
}

impl Replica {
    fn replica(&self) -> Answer<Arc<commonhold_replicate::Replica>> {
        self.shared.ensure()?;
        ensure_native(self.process)?;
        Ok(Arc::clone(lock(&self.replica).as_ref().ok_or_else(|| closed("replica"))?))
    }

    /// Waits in pieces, so that Ctrl-C ends it, and so does closing.
    fn wait(
        &self,
        py: Python<'_>,
        timeout: Option<f64>,
        such: impl Fn(&commonhold_replicate::Replica, Duration) -> bool + Send + Sync,
    ) -> Answer<bool> {
        ensure_native(self.process)?;
        let found = wait(py, self.shared.patience, timeout, |slice| {
            let replica = lock(&self.replica).clone();
            let replica =
                replica.ok_or_else(|| Error::new(ErrorKind::Closed, "the replica is closed"))?;
            let over = such(&replica, slice) || replica.status().ended;
            // It may have been reached just before the end.
            Ok(over.then(|| such(&replica, Duration::ZERO)))
        })?;
        Ok(found.unwrap_or(false))
    }
}

#[pymethods]
impl Replica {
    #[new]
    #[pyo3(signature = (hold, name, origin, *, listener=None, **options))]
    fn new(
        hold: &Bound<'_, Hold>,
        name: &str,
        origin: &Bound<'_, PyAny>,
        listener: Option<Py<PyAny>>,
        options: Option<&Bound<'_, PyDict>>,
    ) -> Answer<Replica> {
        use commonhold_replicate::Replica as Native;
        let py = hold.py();
        let shared = Arc::clone(&hold.get().shared);
        let options = replica_options(options)?;
        let (opened, listener) = (shared.hold()?, Listener(listener));
        let replica = match origin.extract::<String>() {
            Ok(text) => {
                let at = address(&text)?;
                py.detach(|| Native::connect(opened, name, &at, options, listener))?
            }
            Err(_) => {
                let socket = socket(origin)?;
                py.detach(|| Native::attach(opened, name, socket, options, listener))?
            }
        };
        let replica = Mutex::new(Some(Arc::new(replica)));
        Ok(Replica { replica, process: process_number(), shared })
    }

    fn _status(&self) -> Answer<String> {
        json(&self.replica()?.status())
    }

    /// Whether they are equal, and a report.
    #[staticmethod]
    fn _verify(
        hold: &Bound<'_, Hold>,
        map: String,
        origin: &str,
        secret: Option<Vec<u8>>,
        timeout: f64,
    ) -> Answer<(bool, String)> {
        let (hold, py) = (hold.get().shared.hold()?.clone(), hold.py());
        let (origin, limits) = (address(origin)?, (seconds(timeout)?, MOST_DIFFERING));
        let options = ReplicaOptions { secret: self::secret(secret), ..Default::default() };
        let verify = move || commonhold_replicate::verify(&hold, &map, &origin, options, limits);
        let found = in_a_thread(py, verify)?;
        Ok((found.is_equal(), json(&found)?))
    }

    /// Waits until the map has the origin's state; false if that takes longer than `timeout`
    /// seconds, or if the replica has ended because its socket was closed.
    #[pyo3(signature = (timeout=None))]
    fn wait_ready(&self, py: Python<'_>, timeout: Option<f64>) -> Answer<bool> {
        self.wait(py, timeout, |replica, time| replica.wait_ready(time))
    }

    /// Waits until the map has come to a position of the origin's stream (`Map.watch().position`).
    #[pyo3(signature = (position, timeout=None))]
    fn wait_for(&self, py: Python<'_>, position: &str, timeout: Option<f64>) -> Answer<bool> {
        let at: StreamPosition =
            position.parse().map_err(|_| invalid(format!("{position:?} is not a position")))?;
        self.wait(py, timeout, |replica, time| replica.wait_for(at, time))
    }

    /// Ends it; the map stays, and another replica may continue later.
    fn close(&self, py: Python<'_>) {
        if ensure_native(self.process).is_ok() {
            let replica = lock(&self.replica).take();
            py.detach(|| drop(replica));
        }
    }
}

impl Drop for Replica {
    fn drop(&mut self) {
        let replica = self.replica.get_mut().unwrap_or_else(PoisonError::into_inner).take();
        let _ = Python::try_attach(|py| py.detach(|| drop(replica)));
    }
}
