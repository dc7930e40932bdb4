//! The options of origins and replicas, from keywords.

use crate::convert::invalid;
use crate::errors::Answer;
use crate::waiting::seconds;
use commonhold_replicate::{
    Address, Compression, OriginOptions, ReplicaOptions, Secret, Transmission,
};
use pyo3::conversion::FromPyObjectOwned;
use pyo3::exceptions::PyTypeError;
use pyo3::prelude::*;
use pyo3::types::PyDict;

/// The keywords of a call that have not been taken yet.
struct Keywords<'py>(Option<Bound<'py, PyDict>>);

impl<'py> Keywords<'py> {
    fn new(given: Option<&Bound<'py, PyDict>>) -> Answer<Keywords<'py>> {
        Ok(Keywords(given.map(|given| given.copy()).transpose()?))
    }

    /// The value of a keyword; nothing if it is missing or `None`.
    fn take<T: FromPyObjectOwned<'py>>(&self, name: &str) -> Answer<Option<T>> {
        let Some(keywords) = &self.0 else { return Ok(None) };
        let Some(value) = keywords.get_item(name)? else { return Ok(None) };
        keywords.del_item(name)?;
        if value.is_none() {
            return Ok(None);
        }
        let py = value.py();
        let value = value.extract::<T>().map_err(|error| {
            let error: PyErr = error.into();
            match error.is_instance_of::<PyTypeError>(py) {
                true => PyTypeError::new_err(format!("option '{name}': {}", error.value(py))),
                false => error,
            }
        });
        Ok(Some(value?))
    }

    fn flag(&self, name: &str) -> Answer<bool> {
        Ok(self.take(name)?.unwrap_or(false))
    }

    fn secret(&self) -> Answer<Option<Secret>> {
        Ok(secret(self.take("secret")?))
    }

    fn compression(&self) -> Answer<Compression> {
        match self.take::<String>("compression")?.as_deref() {
            None | Some("auto") => Ok(Compression::Auto),
            Some("always") => Ok(Compression::Always),
            Some("never") => Ok(Compression::Never),
            Some(other) => Err(invalid(format!(
                "expected compression to be 'auto', 'always' or 'never', got {other:?}"
            ))),
        }
    }

    /// # Errors
    /// `TypeError` for a keyword that was not taken.
    fn ensure_empty(&self) -> Answer<()> {
        let left = self.0.as_ref().and_then(|keywords| keywords.keys().into_iter().next());
        left.map_or(Ok(()), |name| {
            Err(PyTypeError::new_err(format!("there is no option {}", name.repr()?)).into())
        })
    }
}

pub fn secret(secret: Option<Vec<u8>>) -> Option<Secret> {
    secret.map(Secret::new)
}

pub fn address(text: &str) -> Answer<Address> {
    Ok(text.parse::<Address>()?)
}

/// The options of an origin, without its notices.
pub fn origin_options(given: Option<&Bound<'_, PyDict>>) -> Answer<OriginOptions> {
    let (given, mut options) = (Keywords::new(given)?, OriginOptions::default());
    options.stream_bytes = given.take("stream_bytes")?.unwrap_or(options.stream_bytes);
    options.io_threads = given.take("threads")?.unwrap_or(options.io_threads);
    options.most_replicas = given.take("most_replicas")?.unwrap_or(options.most_replicas);
    options.secret = given.secret()?;
    options.allowed_uids = given.take("uids")?;
    options.allow_unauthenticated = given.flag("allow_unauthenticated")?;
    options.compression = given.compression()?;
    if given.flag("explicit")? {
        options.transmission = Transmission::Explicit;
    }
    given.ensure_empty()?;
    Ok(options)
}

/// The options of a replica.
pub fn replica_options(given: Option<&Bound<'_, PyDict>>) -> Answer<ReplicaOptions> {
    let (given, mut options) = (Keywords::new(given)?, ReplicaOptions::default());
    let pause = |name, default| given.take(name)?.map_or(Ok(default), seconds);
    options.secret = given.secret()?;
    options.first_pause = pause("first_pause", options.first_pause)?;
    options.longest_pause = pause("longest_pause", options.longest_pause)?;
    options.name = given.take("replica_name")?.unwrap_or_default();
    let also: Vec<String> = given.take("also")?.unwrap_or_default();
    options.also = also.iter().map(|text| address(text)).collect::<Answer<_>>()?;
    options.adopt = given.flag("adopt")?;
    options.map = given.take("origin_map")?;
    options.prefix = given.take("prefix")?;
    options.stream_bytes = given.take("stream_bytes")?;
    options.compression = given.compression()?;
    given.ensure_empty()?;
    Ok(options)
}
