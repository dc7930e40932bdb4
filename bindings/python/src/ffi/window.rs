//! Memory of a hold, shown to Python without a copy: the class `Buffer`.
//!
//! An instance owns a [`Window`]: a range of bytes and what keeps them there. A program that takes
//! a buffer of it (a `memoryview`, an array of numpy) keeps the instance alive, so the bytes stay
//! mapped and stay whose they are until the last of them is gone, whatever is closed or collected
//! meanwhile ([`Held::pin`]).
//!
//! # Safety
//! The range is given by the library, which keeps it mapped as long as what [`Held`] owns lives.
//! The package derives classes from this one. PyO3 creates an instance of a derived class only by
//! its constructor, which programs could call, too; so the class is made by hand. An instance's
//! window is set before any other code sees the instance, and freed with it. No panic leaves a
//! function that Python calls.
#![allow(unsafe_code)]

use pyo3::exceptions::{PyBufferError, PyTypeError};
use pyo3::ffi;
use pyo3::prelude::*;
use pyo3::sync::PyOnceLock;
use pyo3::types::PyType;
use std::any::Any;
use std::ffi::{c_int, c_uint, c_void};
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

/// The owner that keeps the bytes of a window in place.
pub trait Held: Any + Send + Sync {
    /// A new view of the bytes exists from now on.
    ///
    /// # Errors
    /// They are given away already, or closed.
    fn pin(&self) -> PyResult<()>;

    /// A view of them has ended.
    fn unpin(&self);
}

/// Where the bytes are.
pub struct Window {
    pub start: *mut u8,
    pub len: usize,
    pub readonly: bool,
    pub held: Arc<dyn Held>,
}

struct Shown {
    window: Window,
    exports: AtomicUsize,
}

/// An instance as Python lays it out.
#[repr(C)]
struct Instance {
    head: ffi::PyObject,
    shown: *mut Shown,
}

static CLASS: PyOnceLock<Py<PyType>> = PyOnceLock::new();

/// The class `Buffer`.
pub fn class(py: Python<'_>) -> PyResult<&Bound<'_, PyType>> {
    CLASS.get_or_try_init(py, || make(py)).map(|class| class.bind(py))
}

fn make(py: Python<'_>) -> PyResult<Py<PyType>> {
    let doc = c"Bytes of a hold in place, for memoryview() and every other user of the buffer \
                protocol.";
    let slot = |slot, pfunc| ffi::PyType_Slot { slot, pfunc };
    let mut slots = [
        slot(ffi::Py_bf_getbuffer, get_buffer as *mut c_void),
        slot(ffi::Py_bf_releasebuffer, release_buffer as *mut c_void),
        slot(ffi::Py_tp_new, refuse as *mut c_void),
        slot(ffi::Py_tp_dealloc, deallocate as *mut c_void),
        slot(ffi::Py_sq_length, length as *mut c_void),
        slot(ffi::Py_tp_doc, doc.as_ptr() as *mut c_void),
        slot(0, std::ptr::null_mut()),
    ];
    let mut spec = ffi::PyType_Spec {
        name: c"commonhold._native.Buffer".as_ptr(),
        basicsize: size_of::<Instance>() as c_int,
        itemsize: 0,
        flags: (ffi::Py_TPFLAGS_DEFAULT | ffi::Py_TPFLAGS_BASETYPE) as c_uint,
        slots: slots.as_mut_ptr(),
    };
    // SAFETY: the slots' functions have the types that their numbers ask for; the specification is
    // copied.
    let made = unsafe { Bound::from_owned_ptr_or_err(py, ffi::PyType_FromSpec(&raw mut spec)) }?;
    Ok(made.cast_into::<PyType>()?.unbind())
}

/// A new instance of `class`, which derives from `Buffer`.
pub fn show<'py>(class: &Bound<'py, PyType>, window: Window) -> PyResult<Bound<'py, PyAny>> {
    let py = class.py();
    if !class.is_subclass(self::class(py)?)? {
        return Err(PyTypeError::new_err("expected a class that derives from Buffer"));
    }
    let shown = Box::new(Shown { window, exports: AtomicUsize::new(0) });
    // SAFETY: a class whose instances begin as `Instance` does; the memory is zeroed, and no other
    // thread has seen it.
    unsafe {
        let made = ffi::PyType_GenericAlloc(class.as_type_ptr(), 0);
        let made = Bound::from_owned_ptr_or_err(py, made)?;
        (*made.as_ptr().cast::<Instance>()).shown = Box::into_raw(shown);
        Ok(made)
    }
}

fn shown<'a>(object: &'a Bound<'_, PyAny>) -> PyResult<&'a Shown> {
    if !object.is_instance(class(object.py())?)? {
        let text = format!("not an element, message or reservation: {}", object.get_type().name()?);
        return Err(PyTypeError::new_err(text));
    }
    // SAFETY: an instance; its window lives as long as it does.
    unsafe { (*object.as_ptr().cast::<Instance>()).shown.as_ref() }.ok_or_else(gone)
}

/// The contents of an instance, if it is a `T`.
pub fn held<'a, T: Held>(object: &'a Bound<'_, PyAny>) -> PyResult<&'a T> {
    let held: &dyn Any = &*shown(object)?.window.held;
    held.downcast_ref().ok_or_else(|| PyTypeError::new_err("it is another kind of buffer"))
}

/// # Errors
/// `BufferError` while a buffer of the instance exists.
pub fn ensure_unseen(object: &Bound<'_, PyAny>) -> PyResult<()> {
    match shown(object)?.exports.load(Ordering::Relaxed) {
        0 => Ok(()),
        count => Err(PyBufferError::new_err(format!(
            "{count} memoryviews or arrays of it are still in use: release or delete them first"
        ))),
    }
}

fn gone() -> PyErr {
    PyBufferError::new_err(
        "these bytes are no longer available: they were pushed, released or committed",
    )
}

unsafe extern "C" fn refuse(
    _: *mut ffi::PyTypeObject,
    _: *mut ffi::PyObject,
    _: *mut ffi::PyObject,
) -> *mut ffi::PyObject {
    Python::attach(|py| {
        PyTypeError::new_err("only queues and channels create these").restore(py);
    });
    std::ptr::null_mut()
}

unsafe extern "C" fn length(object: *mut ffi::PyObject) -> isize {
    // SAFETY: Python calls it with an instance.
    unsafe { (*object.cast::<Instance>()).shown.as_ref() }
        .map_or(0, |shown| shown.window.len as isize)
}

unsafe extern "C" fn get_buffer(
    object: *mut ffi::PyObject,
    view: *mut ffi::Py_buffer,
    flags: c_int,
) -> c_int {
    // SAFETY: Python calls it with an instance and a place for the answer. The bytes live as long as
    // the instance, to which the view gets a reference.
    unsafe {
        (*view).obj = std::ptr::null_mut();
        let Some(shown) = (*object.cast::<Instance>()).shown.as_ref() else { return fail(gone()) };
        let Window { start, len, readonly, held } = &shown.window;
        let Ok(pinned) = catch_unwind(AssertUnwindSafe(|| held.pin())) else {
            return fail(PyBufferError::new_err("a bug in commonhold: it panicked"));
        };
        if let Err(error) = pinned {
            return fail(error);
        }
        let (len, readonly) = (*len as isize, c_int::from(*readonly));
        if ffi::PyBuffer_FillInfo(view, object, start.cast(), len, readonly, flags) != 0 {
            unpin(&**held);
            return -1;
        }
        shown.exports.fetch_add(1, Ordering::Relaxed);
        0
    }
}

fn fail(error: PyErr) -> c_int {
    Python::attach(|py| error.restore(py));
    -1
}

unsafe extern "C" fn release_buffer(object: *mut ffi::PyObject, _: *mut ffi::Py_buffer) {
    // SAFETY: Python calls it once for each buffer that it got.
    if let Some(shown) = unsafe { (*object.cast::<Instance>()).shown.as_ref() } {
        shown.exports.fetch_sub(1, Ordering::Relaxed);
        unpin(&*shown.window.held);
    }
}

fn unpin(held: &dyn Held) {
    // There is no caller to report it to.
    let _ = catch_unwind(AssertUnwindSafe(|| held.unpin()));
}

unsafe extern "C" fn deallocate(object: *mut ffi::PyObject) {
    // SAFETY: there is no reference to the instance any more. Its class is on the heap and was
    // referred to by it.
    unsafe {
        let class = ffi::Py_TYPE(object);
        let shown = (*object.cast::<Instance>()).shown;
        if !shown.is_null() {
            let shown = Box::from_raw(shown);
            // There is no caller to report it to.
            let _ = catch_unwind(AssertUnwindSafe(|| drop(shown)));
        }
        // As the class says: those that derive from this one are known to the garbage collector, it
        // is not.
        let free = ffi::PyType_GetSlot(class, ffi::Py_tp_free);
        std::mem::transmute::<*mut c_void, ffi::freefunc>(free)(object.cast());
        ffi::Py_DecRef(class.cast());
    }
}
