//! The codec of plain old data.

use crate::error::Result;
use crate::map::api::codec::Codec;
use std::convert::Infallible;
use std::marker::PhantomData;

/// Values of a type without pointers, padding or invalid bit patterns, as the bytes that they have
/// in memory. All programs that use the map must agree on the layout: declare the type
/// `#[repr(C)]`.
#[derive(Clone, Copy, Debug)]
pub struct Pod<T>(Infallible, PhantomData<fn(T) -> T>);

impl<T: bytemuck::Pod> Codec for Pod<T> {
    type Value<'a> = &'a T;
    type Owned = T;
    type Encoded<'a> = &'a [u8];

    fn encode(value: Self::Value<'_>) -> Result<Self::Encoded<'_>> {
        Ok(bytemuck::bytes_of(value))
    }

    fn decode(bytes: Vec<u8>) -> std::result::Result<T, String> {
        let expected = || format!("{} bytes", size_of::<T>());
        bytemuck::try_pod_read_unaligned(&bytes).map_err(|_| expected())
    }

    fn borrow(owned: &T) -> &T {
        owned
    }
}
