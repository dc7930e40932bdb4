//! Bytes that Python gives.
//!
//! # Safety
//! Python's `bytes` never change, and live as long as the call that they are an argument of: they
//! are used where they lie. All others that have the buffer protocol (`bytearray`, `memoryview`,
//! arrays) may change at any moment, also by another process, so they are copied by raw reads while
//! their exporter keeps them in place.
#![allow(unsafe_code)]

use pyo3::exceptions::PyTypeError;
use pyo3::ffi;
use pyo3::prelude::*;
use pyo3::types::{PyBytes, PyString};
use std::ops::Deref;

/// An argument that is bytes, or anything like it.
pub enum Input<'a> {
    /// The bytes of a `bytes`, where they lie.
    There(&'a [u8]),
    /// A copy.
    Copy(Vec<u8>),
}

impl Deref for Input<'_> {
    type Target = [u8];
    #[inline]
    fn deref(&self) -> &[u8] {
        match self {
            Input::There(bytes) => bytes,
            Input::Copy(bytes) => bytes,
        }
    }
}

impl AsRef<[u8]> for Input<'_> {
    #[inline]
    fn as_ref(&self) -> &[u8] {
        self
    }
}

impl<'a, 'py> FromPyObject<'a, 'py> for Input<'a> {
    type Error = PyErr;

    #[inline]
    fn extract(object: Borrowed<'a, 'py, PyAny>) -> PyResult<Input<'a>> {
        match object.cast::<PyBytes>() {
            Ok(bytes) => Ok(Input::There(bytes_of(bytes))),
            Err(_) => copied(&object).map(Input::Copy),
        }
    }
}

#[inline]
fn bytes_of<'a>(bytes: Borrowed<'a, '_, PyBytes>) -> &'a [u8] {
    let pointer = bytes.as_ptr();
    // SAFETY: it is a `bytes`, which lives for `'a` and does not change.
    unsafe {
        let start = ffi::PyBytes_AsString(pointer).cast::<u8>();
        std::slice::from_raw_parts(start, ffi::PyBytes_Size(pointer) as usize)
    }
}

#[cold]
fn copied(object: &Bound<'_, PyAny>) -> PyResult<Vec<u8>> {
    if object.is_instance_of::<PyString>() {
        let text = "a bytes-like object is required, not 'str': encode it, or use the view .str()";
        return Err(PyTypeError::new_err(text));
    }
    let mut view = ffi::Py_buffer::new();
    // SAFETY: a live object and a place for the answer, which is contiguous bytes.
    if unsafe { ffi::PyObject_GetBuffer(object.as_ptr(), &raw mut view, ffi::PyBUF_SIMPLE) } != 0 {
        return Err(PyErr::fetch(object.py()));
    }
    // SAFETY: it was filled in, and is released once. The exporter keeps `len` bytes at `buf` until
    // then; they may change meanwhile, so no slice of them is made.
    unsafe {
        let len = view.len as usize;
        let mut copy = Vec::<u8>::with_capacity(len);
        if len > 0 {
            std::ptr::copy(view.buf.cast(), copy.as_mut_ptr(), len);
            copy.set_len(len);
        }
        ffi::PyBuffer_Release(&raw mut view);
        Ok(copy)
    }
}
