//! Small conversions.

use crate::errors::{Answer, error};
use commonhold::ErrorKind;
use commonhold::map::Uid;
use pyo3::prelude::*;
use pyo3::types::PyBytes;
use serde::Serialize;

/// Statistics as JSON, which the package turns into dictionaries.
pub fn json(value: &impl Serialize) -> Answer<String> {
    Ok(serde_json::to_string(value)?)
}

pub fn bytes<'py>(py: Python<'py>, value: &[u8]) -> Bound<'py, PyBytes> {
    PyBytes::new(py, value)
}

pub fn pair<'py>(
    py: Python<'py>,
    (key, value): &(Vec<u8>, Vec<u8>),
) -> (Bound<'py, PyBytes>, Bound<'py, PyBytes>) {
    (bytes(py, key), bytes(py, value))
}

pub fn uid(number: u32) -> Uid {
    Uid(number)
}

pub fn invalid(text: impl Into<String>) -> crate::errors::Failure {
    error(ErrorKind::Invalid, text)
}
