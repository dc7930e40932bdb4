//! The most frequent methods, called without a tuple of arguments.
//!
//! CPython calls methods fastest by `METH_FASTCALL`, which is in the stable ABI since 3.10 and
//! works the same in 3.9; the macros of PyO3 use it for 3.10 and later only. So a few methods are
//! put into their classes by hand.
//!
//! # Safety
//! Each function is a method descriptor's, which proves that `own` is an instance of the class, and
//! comes with `count` borrowed arguments at `arguments`, followed by the values of the keywords in
//! the tuple `names` (or null). It runs attached to the interpreter. Panics do not leave it.
#![allow(unsafe_code)]

use crate::consumer::Consumer;
use crate::errors::{Answer, Failure, error};
use crate::ffi::input::Input;
use crate::map::Map;
use crate::producer::Producer;
use commonhold::ErrorKind;
use pyo3::exceptions::{PyRuntimeError, PyTypeError};
use pyo3::ffi;
use pyo3::prelude::*;
use pyo3::types::PyTuple;
use std::ffi::{CStr, c_char, c_int};
use std::panic::{AssertUnwindSafe, catch_unwind};

type Object = *mut ffi::PyObject;
type Fast = unsafe extern "C" fn(Object, *const Object, isize, Object) -> Object;

const FASTCALL: c_int = 0x80;

/// The arguments of a call.
struct Call<'a, 'py> {
    places: &'a [Object],
    named: &'a [Object],
    names: Object,
    py: Python<'py>,
}

impl<'a, 'py> Call<'a, 'py> {
    /// At least `least` arguments by place, at most `most`.
    #[inline]
    fn places(&self, what: &str, least: usize, most: usize) -> PyResult<()> {
        match (least..=most).contains(&self.places.len()) {
            true => Ok(()),
            false => Err(PyTypeError::new_err(format!(
                "{what}() takes {least} to {most} positional arguments, not {}",
                self.places.len()
            ))),
        }
    }

    #[inline]
    fn at(&self, number: usize) -> Borrowed<'a, 'py, PyAny> {
        // SAFETY: a borrowed argument, which lives as long as the call.
        unsafe { Borrowed::from_ptr(self.py, self.places[number]) }
    }

    #[inline]
    fn bytes(&self, number: usize) -> PyResult<Input<'a>> {
        Input::extract(self.at(number))
    }

    /// The one keyword that there may be.
    #[inline]
    fn keyword(&self, what: &str, wanted: &str) -> PyResult<Option<Borrowed<'a, 'py, PyAny>>> {
        if self.named.is_empty() {
            return Ok(None);
        }
        // SAFETY: with keywords there is a tuple of their names.
        let names = unsafe { Bound::from_borrowed_ptr(self.py, self.names) };
        let first = names.cast_into::<PyTuple>()?.get_item(0)?;
        if self.named.len() > 1 || first.extract::<String>()? != wanted {
            let text = format!("{what}() takes only the keyword {wanted}, got {first}");
            return Err(PyTypeError::new_err(text));
        }
        // SAFETY: as in `at`.
        let value = unsafe { Borrowed::from_ptr(self.py, self.named[0]) };
        Ok((!value.is_none()).then_some(value))
    }

    /// Seconds, given by place or as `timeout`.
    fn timeout(&self, what: &str, place: usize) -> PyResult<Option<f64>> {
        let named = self.keyword(what, "timeout")?;
        match named {
            Some(time) => Ok(Some(time.extract()?)),
            None if self.places.len() > place => self.at(place).extract(),
            None => Ok(None),
        }
    }
}

/// # Safety
/// As the module says.
#[inline]
unsafe fn run<T: pyo3::PyClass<Frozen = pyo3::pyclass::boolean_struct::True> + Sync>(
    own: Object,
    (arguments, count, names): (*const Object, isize, Object),
    act: impl FnOnce(&T, &Call<'_, '_>) -> Answer<Object>,
) -> Object {
    // SAFETY: the module's contract.
    unsafe {
        let py = Python::assume_attached();
        let of = |start: *const Object, len: usize| match len {
            0 => &[][..],
            len => std::slice::from_raw_parts(start, len),
        };
        let places = of(arguments, count as usize);
        let named = match names.is_null() {
            true => &[][..],
            false => of(arguments.wrapping_add(places.len()), ffi::PyTuple_Size(names) as usize),
        };
        let own = Borrowed::<PyAny>::from_ptr(py, own).cast_unchecked::<T>();
        let call = Call { places, named, names, py };
        match catch_unwind(AssertUnwindSafe(|| act(own.get(), &call))) {
            Ok(Ok(object)) => object,
            Ok(Err(failure)) => fail(py, failure),
            Err(_) => fail(
                py,
                Failure::Theirs(PyRuntimeError::new_err("a bug in commonhold: it panicked")),
            ),
        }
    }
}

#[cold]
fn fail(py: Python<'_>, failure: Failure) -> Object {
    PyErr::from(failure).restore(py);
    std::ptr::null_mut()
}

#[inline]
fn number(py: Python<'_>, number: u64) -> Answer<Object> {
    // SAFETY: attached.
    unsafe {
        Ok(Bound::from_owned_ptr_or_err(py, ffi::PyLong_FromUnsignedLongLong(number))?.into_ptr())
    }
}

#[inline]
fn or_none<T>(py: Python<'_>, found: Option<Bound<'_, T>>) -> Object {
    found.map_or_else(|| py.None().into_ptr(), Bound::into_ptr)
}

unsafe extern "C" fn map_get(
    own: Object,
    at: *const Object,
    count: isize,
    names: Object,
) -> Object {
    // SAFETY: passed on.
    unsafe {
        run::<Map>(own, (at, count, names), |map, call| {
            call.places("get", 1, 2)?;
            let default = call.keyword("get", "default")?;
            if let Some(value) = map.find(call.py, &call.bytes(0)?)? {
                return Ok(value.into_ptr());
            }
            let default = default.or_else(|| (call.places.len() == 2).then(|| call.at(1)));
            Ok(default
                .map_or_else(|| call.py.None().into_ptr(), |other| other.to_owned().into_ptr()))
        })
    }
}

unsafe extern "C" fn map_set(
    own: Object,
    at: *const Object,
    count: isize,
    names: Object,
) -> Object {
    // SAFETY: passed on.
    unsafe {
        run::<Map>(own, (at, count, names), |map, call| {
            call.places("set", 2, 2)?;
            let ttl = call.keyword("set", "ttl")?;
            let (key, value) = (call.bytes(0)?, call.bytes(1)?);
            let uid = map.store(call.py, ttl.as_deref(), |map| map.set(&key, &value))?;
            number(call.py, u64::from(uid.0))
        })
    }
}

unsafe extern "C" fn send(own: Object, at: *const Object, count: isize, names: Object) -> Object {
    // SAFETY: passed on.
    unsafe {
        run::<Producer>(own, (at, count, names), |producer, call| {
            call.places("send", 1, 2)?;
            let timeout = call.timeout("send", 1)?;
            number(call.py, producer.send_within(call.py, &call.bytes(0)?, timeout)?)
        })
    }
}

unsafe extern "C" fn try_send(
    own: Object,
    at: *const Object,
    count: isize,
    names: Object,
) -> Object {
    // SAFETY: passed on.
    unsafe {
        run::<Producer>(own, (at, count, names), |producer, call| {
            call.places("try_send", 1, 1)?;
            match producer.send_now(call.py, &call.bytes(0)?)? {
                Some(sent) => number(call.py, sent),
                None => Ok(call.py.None().into_ptr()),
            }
        })
    }
}

unsafe extern "C" fn recv(own: Object, at: *const Object, count: isize, names: Object) -> Object {
    // SAFETY: passed on.
    unsafe {
        run::<Consumer>(own, (at, count, names), |consumer, call| {
            call.places("recv", 0, 1)?;
            let timeout = call.timeout("recv", 0)?;
            let found = consumer.recv_within(call.py, timeout)?;
            let message = found.ok_or_else(|| error(ErrorKind::TimedOut, "no message in time"))?;
            Ok(message.into_ptr())
        })
    }
}

unsafe extern "C" fn try_recv(
    own: Object,
    at: *const Object,
    count: isize,
    names: Object,
) -> Object {
    // SAFETY: passed on.
    unsafe {
        run::<Consumer>(own, (at, count, names), |consumer, call| {
            call.places("try_recv", 0, 0)?;
            Ok(or_none(call.py, consumer.recv_now(call.py)?))
        })
    }
}

fn add<T: pyo3::PyClass>(
    py: Python<'_>,
    name: &'static CStr,
    doc: &'static CStr,
    function: Fast,
) -> PyResult<()> {
    let definition = Box::new(ffi::PyMethodDef {
        ml_name: name.as_ptr().cast::<c_char>(),
        ml_meth: ffi::PyMethodDefPointer {
            // SAFETY: with these flags it is called with the arguments of `Fast`.
            PyCFunctionWithKeywords: unsafe {
                std::mem::transmute::<Fast, ffi::PyCFunctionWithKeywords>(function)
            },
        },
        ml_flags: FASTCALL | ffi::METH_KEYWORDS,
        ml_doc: doc.as_ptr(),
    });
    let class = py.get_type::<T>();
    // SAFETY: a class, and a definition that lives forever, as the descriptor does.
    let method = unsafe {
        let made = ffi::PyDescr_NewMethod(class.as_type_ptr(), Box::into_raw(definition));
        Bound::from_owned_ptr_or_err(py, made)?
    };
    class.setattr(name.to_str().unwrap_or_default(), method)
}

/// Puts the methods into their classes.
pub fn install(py: Python<'_>) -> PyResult<()> {
    add::<Map>(
        py,
        c"get",
        c"get($self, key, default=None, /)\n--\n\nThe value of a key; `default` if it is absent.",
        map_get,
    )?;
    add::<Map>(
        py,
        c"set",
        c"set($self, key, value, /, *, ttl=None)\n--\n\nSets the value of a key; returns its uid. `ttl`: seconds or a timedelta, in a cache.",
        map_set,
    )?;
    add::<Producer>(
        py,
        c"send",
        c"send($self, message, /, timeout=None)\n--\n\nSends a message; returns its number. Waits \
          for room for `timeout` seconds (None: without limit), then raises TimedOutError.",
        send,
    )?;
    add::<Producer>(
        py,
        c"try_send",
        c"try_send($self, message, /)\n--\n\nSends a message if there is room now; returns its number, or None.",
        try_send,
    )?;
    add::<Consumer>(
        py,
        c"recv",
        c"recv($self, timeout=None)\n--\n\nThe next message, as bytes. Waits for `timeout` \
          seconds (None: without limit), then raises TimedOutError.",
        recv,
    )?;
    add::<Consumer>(
        py,
        c"try_recv",
        c"try_recv($self)\n--\n\nThe next message if there is one now, or None.",
        try_recv,
    )
}
