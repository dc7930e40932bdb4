//! Exceptions: one class for each kind of error, in `commonhold.errors`.

use commonhold::{Error, ErrorKind};
use pyo3::exceptions::PyRuntimeError;
use pyo3::prelude::*;
use pyo3::sync::PyOnceLock;
use pyo3::types::{PyDict, PyType};

/// An error of the library, or an exception already.
pub enum Failure {
    Ours(Error),
    Theirs(PyErr),
}

pub type Answer<T> = Result<T, Failure>;

impl From<Error> for Failure {
    fn from(error: Error) -> Failure {
        Failure::Ours(error)
    }
}

impl From<PyErr> for Failure {
    fn from(error: PyErr) -> Failure {
        Failure::Theirs(error)
    }
}

impl From<serde_json::Error> for Failure {
    fn from(error: serde_json::Error) -> Failure {
        Failure::Theirs(PyRuntimeError::new_err(error.to_string()))
    }
}

impl From<Failure> for PyErr {
    #[cold]
    fn from(failure: Failure) -> PyErr {
        match failure {
            Failure::Theirs(error) => error,
            Failure::Ours(error) => Python::attach(|py| exception(py, &error)),
        }
    }
}

/// An error of this crate's own.
pub fn error(kind: ErrorKind, text: impl Into<String>) -> Failure {
    Failure::Ours(Error::new(kind, text))
}

static BY_CODE: PyOnceLock<Py<PyDict>> = PyOnceLock::new();

fn exception(py: Python<'_>, error: &Error) -> PyErr {
    let found = BY_CODE.get_or_try_init(py, || {
        let table = py.import("commonhold.errors")?.getattr("BY_CODE")?;
        Ok::<_, PyErr>(table.cast_into::<PyDict>()?.unbind())
    });
    let class = found.and_then(|table| {
        let class = table.bind(py).as_any().get_item(error.kind() as i32)?;
        Ok(class.cast_into::<PyType>()?)
    });
    match class {
        Ok(class) => PyErr::from_type(class, (error.to_string(),)),
        Err(error) => error,
    }
}
