//! Typed views: numbers, text, and anything serde can write as JSON, on top of a map of bytes.
//!
//! A view is a thin wrapper; the map underneath stays a map of bytes that other languages read as such.

use crate::error::{Error, ErrorKind, Result};
use crate::map::handle::Map;
use crate::map::options::Uid;

/// Values are unsigned 64-bit numbers, 8 bytes little-endian; see [`Map::as_u64`].
#[derive(Clone)]
pub struct U64View(Map);

/// Keys and values are UTF-8 text; see [`Map::as_str`].
#[derive(Clone)]
pub struct StrView(Map);

impl Map {
    /// A view of the values as unsigned 64-bit numbers.
    pub fn as_u64(&self) -> U64View {
        U64View(self.clone())
    }

    /// A view of keys and values as text.
    pub fn as_str(&self) -> StrView {
        StrView(self.clone())
    }

    /// A view of the values as JSON of `T`.
    #[cfg(feature = "serde")]
    pub fn as_json<T>(&self) -> JsonView<T> {
        JsonView { map: self.clone(), value: std::marker::PhantomData }
    }

    fn mismatch(&self, what: &str) -> Error {
        Error::new(ErrorKind::Mismatch, format!("map '{}': a value is not {what}", self.name()))
    }
}

impl U64View {
    /// The number of a key.
    ///
    /// # Errors
    /// `Mismatch` if the value does not have 8 bytes; those of [`Map::get`].
    pub fn get(&self, key: impl AsRef<[u8]>) -> Result<Option<u64>> {
        let Some(value) = self.0.get(key)? else { return Ok(None) };
        let bytes = value.try_into().map_err(|_| self.0.mismatch("a number of 8 bytes"))?;
        Ok(Some(u64::from_le_bytes(bytes)))
    }

    /// Sets the number of a key.
    pub fn set(&self, key: impl AsRef<[u8]>, value: u64) -> Result<Uid> {
        self.0.set(key, value.to_le_bytes())
    }

    /// Adds (wrapping) as one atomic step; an absent key counts as 0. Returns the sum.
    pub fn increment(&self, key: impl AsRef<[u8]>, by: u64) -> Result<u64> {
        Ok(self.0.increment(key, by.cast_signed())?.cast_unsigned())
    }
}

impl StrView {
    /// The text of a key.
    ///
    /// # Errors
    /// `Mismatch` if the value is not UTF-8; those of [`Map::get`].
    pub fn get(&self, key: &str) -> Result<Option<String>> {
        let Some(value) = self.0.get(key)? else { return Ok(None) };
        String::from_utf8(value).map(Some).map_err(|_| self.0.mismatch("UTF-8 text"))
    }

    /// Sets the text of a key.
    pub fn set(&self, key: &str, value: &str) -> Result<Uid> {
        self.0.set(key, value)
    }

    /// Deletes a key; false if it is absent.
    pub fn delete(&self, key: &str) -> Result<bool> {
        self.0.delete(key)
    }
}

/// Values are JSON of `T`; see [`Map::as_json`].
#[cfg(feature = "serde")]
pub struct JsonView<T> {
    map: Map,
    value: std::marker::PhantomData<fn(T) -> T>,
}

#[cfg(feature = "serde")]
impl<T: serde::Serialize + serde::de::DeserializeOwned> JsonView<T> {
    /// The value of a key.
    ///
    /// # Errors
    /// `Mismatch` if the value is not JSON of `T`; those of [`Map::get`].
    pub fn get(&self, key: impl AsRef<[u8]>) -> Result<Option<T>> {
        let Some(value) = self.map.get(key)? else { return Ok(None) };
        let parsed = serde_json::from_slice(&value);
        parsed.map(Some).map_err(|e| self.map.mismatch(&format!("JSON of this type ({e})")))
    }

    /// Sets the value of a key.
    ///
    /// # Errors
    /// `Invalid` if the value cannot be written as JSON; those of [`Map::set`].
    pub fn set(&self, key: impl AsRef<[u8]>, value: &T) -> Result<Uid> {
        let json = serde_json::to_vec(value)
            .map_err(|e| Error::new(ErrorKind::Invalid, format!("value as JSON: {e}")))?;
        self.map.set(key, json)
    }
}
