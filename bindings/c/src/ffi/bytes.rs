//! Bytes, names and arrays from C, and buffers to fill.
//!
//! # Safety
//! The header requires of every pair of pointer and length that `length` bytes at the pointer are
//! readable (or writable) during the call, and that no other thread changes them. A name ends with
//! a NUL. A `ch_bytes` is all zero, or as a function of this library left it. In the second case its
//! memory is that of a `Vec<u8>` of the same length and capacity. NULL and impossible lengths are
//! refused.
#![allow(unsafe_code)]

use crate::ffi::give::is_place;
use crate::ffi::{Answer, Said, invalid, yes};
use commonhold::{Error, ErrorKind, Result};
use std::ffi::{CStr, OsStr, c_char, c_void};
use std::mem::{ManuallyDrop, MaybeUninit};
use std::os::unix::ffi::OsStrExt;
use std::path::Path;
use std::ptr::NonNull;

/// The most bytes that one thing can have, whatever it is.
const MOST: usize = u32::MAX as usize;

/// The reason why these bytes cannot be.
#[cold]
fn impossible(data: *const c_void, len: usize) -> Error {
    if data.is_null() {
        return invalid(format!("expected a pointer to {len} bytes, got NULL"));
    }
    Error::new(ErrorKind::TooLarge, format!("expected at most 2^32 - 1 bytes, got {len}"))
}

/// Bytes of the caller's; their number is another argument.
#[repr(transparent)]
#[derive(Clone, Copy)]
pub struct In(*const c_void);

impl In {
    pub(crate) const NULL: In = In(std::ptr::null());

    /// # Errors
    /// `Invalid` for NULL with a length; `TooLarge`.
    #[inline]
    pub(crate) fn bytes(&self, len: usize) -> Result<&[u8]> {
        // One comparison, and nothing that comes back from a cold function: both keep the usual
        // way short.
        let (data, most) = match self.0.is_null() {
            true => (NonNull::<u8>::dangling().as_ptr().cast_const(), 0),
            false => (self.0.cast(), MOST),
        };
        if len > most {
            return Err(impossible(self.0, len));
        }
        // SAFETY: see the module; NULL is no bytes.
        Ok(unsafe { std::slice::from_raw_parts(data, len) })
    }

    /// The same for bytes that may be missing: `None` for NULL.
    ///
    /// # Errors
    /// As for [`bytes`](Self::bytes).
    pub(crate) fn optional(&self, len: usize) -> Result<Option<&[u8]>> {
        let bytes = self.bytes(len)?;
        Ok((!self.0.is_null()).then_some(bytes))
    }
}

/// `ch_slice`: bytes where they lie.
#[repr(C)]
#[derive(Clone, Copy)]
pub struct View {
    data: *const u8,
    len: usize,
}

// SAFETY: an address and a number. Reading the bytes relies on the contract of the module.
unsafe impl Send for View {}

impl View {
    pub(crate) const NONE: View = View { data: std::ptr::null(), len: 0 };

    #[inline]
    pub(crate) fn of(bytes: &[u8]) -> View {
        View { data: bytes.as_ptr(), len: bytes.len() }
    }

    /// Bytes in the hold, which must not become a slice.
    pub(crate) fn at(data: *const u8, len: usize) -> View {
        View { data, len }
    }

    #[inline]
    fn checked(&self) -> Result<()> {
        let most = if self.data.is_null() { 0 } else { MOST };
        if self.len > most { Err(impossible(self.data.cast(), self.len)) } else { Ok(()) }
    }
}

/// A `ch_slice` that was checked.
#[repr(transparent)]
#[derive(Clone, Copy)]
pub(crate) struct Checked(View);

impl AsRef<[u8]> for Checked {
    #[inline]
    fn as_ref(&self) -> &[u8] {
        if self.0.len == 0 {
            return &[];
        }
        // SAFETY: see the module; it was checked.
        unsafe { std::slice::from_raw_parts(self.0.data, self.0.len) }
    }
}

/// An array of the caller's; its length is another argument. Of one, it is a pointer that may be
/// NULL.
#[repr(transparent)]
pub struct Many<T>(*const T);

impl<T> Clone for Many<T> {
    fn clone(&self) -> Self {
        *self
    }
}

impl<T> Copy for Many<T> {}

impl<T> Many<T> {
    pub(crate) const NULL: Many<T> = Many(std::ptr::null());

    /// # Errors
    /// `Invalid` for NULL with a length, or a length that no array has.
    #[inline]
    pub(crate) fn all(&self, count: usize) -> Result<&[T]> {
        if count == 0 {
            return Ok(&[]);
        }
        let most = isize::MAX as usize / size_of::<T>().max(1);
        if !is_place(self.0) || count > most {
            return Err(invalid(format!(
                "expected a valid array of {count} elements, got {:?}",
                self.0
            )));
        }
        // SAFETY: see the module.
        Ok(unsafe { std::slice::from_raw_parts(self.0, count) })
    }
}

impl Many<View> {
    /// The bytes of each.
    ///
    /// # Errors
    /// `Invalid`; `TooLarge`.
    #[inline]
    pub(crate) fn slices(&self, count: usize) -> Result<&[Checked]> {
        let all = self.all(count)?;
        all.iter().try_for_each(View::checked)?;
        // SAFETY: `Checked` is a `View`, and each was checked.
        Ok(unsafe { std::slice::from_raw_parts(all.as_ptr().cast(), all.len()) })
    }

    /// The one, if there is one.
    ///
    /// # Errors
    /// `Invalid`; `TooLarge`.
    pub(crate) fn optional(&self) -> Result<Option<&[u8]>> {
        if self.0.is_null() {
            return Ok(None);
        }
        Ok(self.slices(1)?.first().map(AsRef::as_ref))
    }
}

impl Many<Name> {
    /// The texts.
    ///
    /// # Errors
    /// `Invalid`.
    pub(crate) fn texts(&self, count: usize) -> Result<Vec<&str>> {
        self.all(count)?.iter().map(|name| name.text("a name")).collect()
    }
}

/// Text that ends with a NUL.
#[repr(transparent)]
#[derive(Clone, Copy)]
pub struct Name(*const c_char);

impl Name {
    pub(crate) const NULL: Name = Name(std::ptr::null());

    /// The text, if there is one.
    pub(crate) fn optional(&self) -> Option<&CStr> {
        // SAFETY: see the module.
        (!self.0.is_null()).then(|| unsafe { CStr::from_ptr(self.0) })
    }

    /// # Errors
    /// `Invalid` if it is NULL or not UTF-8.
    pub(crate) fn text(&self, what: &str) -> Result<&str> {
        let text = self.optional().ok_or_else(|| invalid(format!("{what} is NULL")))?;
        text.to_str().map_err(|_| {
            invalid(format!("{what} is not UTF-8: \"{}\"", text.to_bytes().escape_ascii()))
        })
    }

    /// # Errors
    /// `Invalid` if it is NULL.
    pub(crate) fn path(&self, what: &str) -> Result<&Path> {
        self.optional_path().ok_or_else(|| invalid(format!("{what} is NULL")))
    }

    pub(crate) fn optional_path(&self) -> Option<&Path> {
        self.optional().map(|text| Path::new(OsStr::from_bytes(text.to_bytes())))
    }
}

#[cold]
fn no_room(len: usize) -> Error {
    invalid(format!("expected a buffer of {len} bytes, got NULL"))
}

/// The caller's memory to fill.
#[repr(transparent)]
pub struct Room(*mut c_void);

impl Room {
    /// The memory, of which nothing has to have a value before.
    ///
    /// # Errors
    /// `Invalid` for NULL with a length.
    #[inline]
    pub(crate) fn bytes(&mut self, len: usize) -> Result<&mut [MaybeUninit<u8>]> {
        let (data, len) = match NonNull::new(self.0.cast()) {
            Some(data) => (data, len.min(MOST)),
            None if len > 0 => return Err(no_room(len)),
            None => (NonNull::dangling(), 0),
        };
        // SAFETY: see the module; NULL is no memory.
        Ok(unsafe { std::slice::from_raw_parts_mut(data.as_ptr(), len) })
    }
}

/// `ch_bytes`: a buffer that grows.
#[repr(C)]
pub struct Buffer {
    data: *mut u8,
    len: usize,
    capacity: usize,
}

impl Buffer {
    pub(crate) const EMPTY: Buffer = Buffer { data: std::ptr::null_mut(), len: 0, capacity: 0 };

    #[inline]
    fn of(bytes: Vec<u8>) -> Buffer {
        let mut bytes = ManuallyDrop::new(bytes);
        // The length was stored just now, the pointer before: read as one, both would wait until
        // they are in memory.
        let len = std::hint::black_box(bytes.len());
        Buffer { data: bytes.as_mut_ptr(), len, capacity: bytes.capacity() }
    }

    /// Whether it can be one.
    #[inline]
    fn is_sound(&self) -> bool {
        self.is_empty() || (self.len <= self.capacity && self.capacity <= isize::MAX as usize)
    }

    #[inline]
    fn is_empty(&self) -> bool {
        self.data.is_null() || self.capacity == 0
    }

    /// Its memory, of which nothing has to have a value before.
    ///
    /// # Safety
    /// It is [sound](Self::is_sound), and empty until the memory is used no more.
    #[inline]
    unsafe fn room(&mut self) -> &mut [MaybeUninit<u8>] {
        if self.is_empty() {
            return &mut [];
        }
        // SAFETY: see the module.
        unsafe { std::slice::from_raw_parts_mut(self.data.cast(), self.capacity) }
    }

    /// # Safety
    /// It is [sound](Self::is_sound).
    #[inline]
    unsafe fn into_vec(self) -> Vec<u8> {
        if self.is_empty() {
            return Vec::new();
        }
        // SAFETY: see the module.
        unsafe { Vec::from_raw_parts(self.data, self.len, self.capacity) }
    }
}

/// A buffer of the caller's.
#[repr(transparent)]
pub struct OutBytes(*mut Buffer);

impl OutBytes {
    /// Checks in advance that there is a place for the result.
    ///
    /// # Errors
    /// `Invalid` if it has not.
    #[inline]
    pub(crate) fn needed(&self) -> Result<()> {
        if !is_place(self.0) {
            return Err(invalid("the ch_bytes for the result is NULL"));
        }
        // SAFETY: see the module; only its words are read.
        if !unsafe { &*self.0 }.is_sound() {
            return Err(invalid("the ch_bytes is not initialized; set it to CH_BYTES_INIT"));
        }
        Ok(())
    }

    /// The same, where NULL means that the caller does not need the result.
    ///
    /// # Errors
    /// `Invalid` if it is neither that nor a buffer.
    #[inline]
    pub(crate) fn needed_if_wanted(&self) -> Result<()> {
        if self.is_wanted() { self.needed() } else { Ok(()) }
    }

    /// Passes the buffer's bytes to `fill`, which may change them.
    ///
    /// # Errors
    /// `Invalid` if it is none; those of `fill`.
    #[inline]
    pub(crate) fn fill<T>(&self, fill: impl FnOnce(&mut Vec<u8>) -> Result<T>) -> Result<T> {
        self.needed()?;
        // SAFETY: see the module; it is sound. Meanwhile the caller's is empty, whatever `fill`
        // does.
        let mut bytes = unsafe { self.0.replace(Buffer::EMPTY).into_vec() };
        let result = fill(&mut bytes);
        // SAFETY: as above.
        unsafe { self.0.write(Buffer::of(bytes)) };
        result
    }

    /// Gives the memory that the buffer has to `copy`, which puts a value there and returns its
    /// length; `None` leaves the buffer empty. If the value needs more memory, it is `fill` that
    /// gets the buffer's bytes.
    ///
    /// # Errors
    /// `Invalid` if it is none; those of `copy` and `fill`.
    #[inline]
    pub(crate) fn copy(
        &self,
        copy: impl FnOnce(&mut [MaybeUninit<u8>]) -> Result<Option<usize>>,
        fill: impl FnOnce(&mut Vec<u8>) -> Result<bool>,
    ) -> Answer {
        self.needed()?;
        // SAFETY: see the module.
        let buffer = unsafe { &mut *self.0 };
        buffer.len = 0;
        // SAFETY: it is sound, and was emptied.
        let room = unsafe { buffer.room() };
        let most = room.len();
        match copy(room)? {
            None => Ok(Said::None),
            Some(len) if len <= most => {
                buffer.len = len;
                Ok(Said::Done)
            }
            Some(_) => Ok(yes(self.fill(fill)?)),
        }
    }

    /// # Errors
    /// `Invalid` if it is none.
    pub(crate) fn put(&self, bytes: impl Into<Vec<u8>>) -> Result<()> {
        self.fill(|out| {
            *out = bytes.into();
            Ok(())
        })
    }

    /// The same, where NULL means that the caller does not need the result.
    ///
    /// # Errors
    /// `Invalid` if it is none.
    pub(crate) fn put_if_wanted(&self, bytes: impl Into<Vec<u8>>) -> Result<()> {
        if self.is_wanted() { self.put(bytes) } else { Ok(()) }
    }

    /// Whether there is a buffer at all.
    pub(crate) fn is_wanted(&self) -> bool {
        !self.0.is_null()
    }

    /// Gives its memory back; NULL is nothing to give back.
    pub(crate) fn free(&self) {
        if !self.0.is_null() {
            let _ = self.put(Vec::new());
            // SAFETY: see the module.
            unsafe { self.0.write(Buffer::EMPTY) };
        }
    }

    /// An empty one, to pass to a callback.
    pub(crate) fn lend(buffer: &mut Buffer) -> OutBytes {
        OutBytes(buffer)
    }
}
