//! Iterators over maps.

use crate::convert::{bytes, pair};
use crate::errors::Answer;
use crate::shared_hold::SharedHold;
use commonhold::map::Iter;
use pyo3::prelude::*;
use pyo3::types::PyBytes;
use std::sync::{Arc, Mutex, PoisonError};

/// The keys of a map.
#[pyclass(frozen, module = "commonhold._native")]
pub struct Keys {
    keys: Mutex<commonhold::map::Keys>,
    shared: Arc<SharedHold>,
}

/// The pairs of a map.
#[pyclass(frozen, module = "commonhold._native")]
pub struct Pairs {
    pairs: Mutex<Iter>,
    shared: Arc<SharedHold>,
}

impl Keys {
    pub fn new(keys: commonhold::map::Keys, shared: &Arc<SharedHold>) -> Keys {
        Keys { keys: Mutex::new(keys), shared: Arc::clone(shared) }
    }
}

impl Pairs {
    pub fn new(pairs: Iter, shared: &Arc<SharedHold>) -> Pairs {
        Pairs { pairs: Mutex::new(pairs), shared: Arc::clone(shared) }
    }
}

#[pymethods]
impl Keys {
    fn __iter__(own: PyRef<'_, Self>) -> PyRef<'_, Self> {
        own
    }

    fn __next__<'py>(&self, py: Python<'py>) -> Answer<Option<Bound<'py, PyBytes>>> {
        self.shared.ensure()?;
        let next = self.keys.lock().unwrap_or_else(PoisonError::into_inner).next();
        Ok(next.transpose()?.map(|key| bytes(py, &key)))
    }
}

#[pymethods]
impl Pairs {
    fn __iter__(own: PyRef<'_, Self>) -> PyRef<'_, Self> {
        own
    }

    #[allow(clippy::type_complexity)] // A pair of bytes.
    fn __next__<'py>(
        &self,
        py: Python<'py>,
    ) -> Answer<Option<(Bound<'py, PyBytes>, Bound<'py, PyBytes>)>> {
        self.shared.ensure()?;
        let next = self.pairs.lock().unwrap_or_else(PoisonError::into_inner).next();
        Ok(next.transpose()?.map(|found| pair(py, &found)))
    }

    /// The cursor at which to resume later (`Map.pairs(cursor)`), in this or another process, so
    /// that nothing is missed.
    #[getter]
    fn cursor(&self) -> u64 {
        self.pairs.lock().unwrap_or_else(PoisonError::into_inner).cursor().0
    }

    /// True if resuming from the cursor repeats nothing.
    #[getter]
    fn at_cursor(&self) -> bool {
        self.pairs.lock().unwrap_or_else(PoisonError::into_inner).at_cursor()
    }
}
