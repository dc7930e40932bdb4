//! The codec of everything that serde can write as JSON.

use crate::error::{Error, ErrorKind, Result};
use crate::map::api::codec::Codec;
use serde::Serialize;
use serde::de::DeserializeOwned;
use std::convert::Infallible;
use std::marker::PhantomData;

/// Values of `T` as JSON.
///
/// Two programs may write one value as different JSON, so `compare_exchange` with this codec is
/// only for values that the same program has written.
#[derive(Clone, Copy, Debug)]
pub struct Json<T>(Infallible, PhantomData<fn(T) -> T>);

impl<T: Serialize + DeserializeOwned + 'static> Codec for Json<T> {
    type Value<'a> = &'a T;
    type Owned = T;
    type Encoded<'a> = Vec<u8>;

    fn encode(value: Self::Value<'_>) -> Result<Self::Encoded<'_>> {
        serde_json::to_vec(value).map_err(|error| {
            let text = format!("a value cannot be written as JSON: {error}");
            Error::new(ErrorKind::Invalid, text)
        })
    }

    fn decode(bytes: Vec<u8>) -> std::result::Result<T, String> {
        serde_json::from_slice(&bytes).map_err(|error| format!("JSON of this type ({error})"))
    }

    fn borrow(owned: &T) -> &T {
        owned
    }
}
