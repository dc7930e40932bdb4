//! `HoldOrigin` and `HoldReplica`: all maps of a hold.
//!
//! As in `net`, their threads may call Python, so every wait for them releases the interpreter.

use crate::convert::json;
use crate::errors::Answer;
use crate::hold::Hold;
use crate::net::{Listener, Slot, closed, ensure_native, lock, notices, socket};
use crate::net_options::{address, origin_options, replica_options};
use crate::shared_hold::SharedHold;
use crate::waiting::{seconds, wait};
use commonhold::raw::process_number;
use commonhold::stream::StreamPosition;
use commonhold::{Error, ErrorKind};
use commonhold_replicate::{HoldOriginOptions, HoldReplicaEvents, HoldReplicaOptions};
use pyo3::prelude::*;
use pyo3::types::PyDict;
use std::sync::{Arc, Mutex, PoisonError};

/// Serves all maps of a hold to replicas.
#[pyclass(subclass, frozen, module = "commonhold._native")]
pub struct HoldOrigin {
    origin: Slot<commonhold_replicate::HoldOrigin>,
    process: u32,
    shared: Arc<SharedHold>,
}

/// Replicates all maps of an origin's hold.
#[pyclass(subclass, frozen, module = "commonhold._native")]
pub struct HoldReplica {
    replica: Slot<Arc<commonhold_replicate::HoldReplica>>,
    process: u32,
    shared: Arc<SharedHold>,
}

impl HoldReplicaEvents for Listener {
    fn ready(&self, map: &str, position: StreamPosition) {
        self.call(|_, call| call.call1(("ready", map, position.to_string())).map(drop));
    }

    fn lost(&self, map: Option<&str>, why: &str) {
        self.call(|_, call| call.call1(("lost", map, why)).map(drop));
    }

    fn skipped(&self, map: &str, why: &str) {
        self.call(|_, call| call.call1(("skipped", map, why)).map(drop));
    }

    fn dropped(&self, map: &str) {
        self.call(|_, call| call.call1(("dropped", map)).map(drop));
    }
}

impl HoldOrigin {
    fn with<T: Send>(
        &self,
        py: Python<'_>,
        act: impl FnOnce(&commonhold_replicate::HoldOrigin) -> T + Send,
    ) -> Answer<T> {
        ensure_native(self.process)?;
        py.detach(|| lock(&self.origin).as_ref().map(act)).ok_or_else(|| closed("origin"))
    }
}

#[pymethods]
impl HoldOrigin {
    #[new]
    #[pyo3(signature = (hold, maps, *, notice=None, **options))]
    fn new(
        hold: &Bound<'_, Hold>,
        maps: Vec<String>,
        notice: Option<Py<PyAny>>,
        options: Option<&Bound<'_, PyDict>>,
    ) -> Answer<HoldOrigin> {
        use commonhold_replicate::HoldOrigin as Native;
        let (py, shared) = (hold.py(), Arc::clone(&hold.get().shared));
        let mut origin = origin_options(options)?;
        origin.notice = notices(notice);
        let (opened, options) = (shared.hold()?, HoldOriginOptions { origin, maps });
        let origin = py.detach(|| Native::start(opened, options))?;
        Ok(HoldOrigin { origin: Mutex::new(Some(origin)), process: process_number(), shared })
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

    /// Where it listens.
    #[getter]
    fn addresses(&self, py: Python<'_>) -> Answer<Vec<String>> {
        let addresses = self.with(py, |origin| origin.addresses())?;
        Ok(addresses.iter().map(ToString::to_string).collect())
    }

    fn _maps(&self, py: Python<'_>) -> Answer<String> {
        json(&self.with(py, |origin| origin.maps())?)
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

impl Drop for HoldOrigin {
    fn drop(&mut self) {
        // Not locked: see `Origin`.
        let origin = self.origin.get_mut().unwrap_or_else(PoisonError::into_inner).take();
        let _ = Python::try_attach(|py| py.detach(|| drop(origin)));
    }
}

#[pymethods]
impl HoldReplica {
    #[new]
    #[pyo3(signature = (hold, origin, maps, *, listener=None, **options))]
    fn new(
        hold: &Bound<'_, Hold>,
        origin: &str,
        maps: Vec<String>,
        listener: Option<Py<PyAny>>,
        options: Option<&Bound<'_, PyDict>>,
    ) -> Answer<HoldReplica> {
        use commonhold_replicate::HoldReplica as Native;
        let (py, shared) = (hold.py(), Arc::clone(&hold.get().shared));
        let (origin, replica) = (address(origin)?, replica_options(options)?);
        let (opened, options) = (shared.hold()?, HoldReplicaOptions { replica, maps });
        let listener = Listener(listener);
        let replica = py.detach(|| Native::connect(opened, &origin, options, listener))?;
        let replica = Mutex::new(Some(Arc::new(replica)));
        Ok(HoldReplica { replica, process: process_number(), shared })
    }

    fn _status(&self) -> Answer<String> {
        self.shared.ensure()?;
        ensure_native(self.process)?;
        let replica = lock(&self.replica).clone().ok_or_else(|| closed("replica"))?;
        json(&replica.status())
    }

    /// Waits until the origin has named its maps, and every map that can be followed has the origin's
    /// state; false if that takes longer than `timeout` seconds.
    #[pyo3(signature = (timeout=None))]
    fn wait_ready(&self, py: Python<'_>, timeout: Option<f64>) -> Answer<bool> {
        ensure_native(self.process)?;
        // In pieces, so that Ctrl-C ends it, and so does closing.
        let found = wait(py, self.shared.patience, timeout, |slice| {
            let replica = lock(&self.replica).clone();
            let replica =
                replica.ok_or_else(|| Error::new(ErrorKind::Closed, "the replica is closed"))?;
            Ok(replica.wait_ready(slice).then_some(()))
        })?;
        Ok(found.is_some())
    }

    /// Ends it; the maps stay, and another replica may continue later.
    fn close(&self, py: Python<'_>) {
        if ensure_native(self.process).is_ok() {
            let replica = lock(&self.replica).take();
            py.detach(|| drop(replica));
        }
    }
}

impl Drop for HoldReplica {
    fn drop(&mut self) {
        let replica = self.replica.get_mut().unwrap_or_else(PoisonError::into_inner).take();
        let _ = Python::try_attach(|py| py.detach(|| drop(replica)));
    }
}
