//! The number of this process, which differs from that of its parent and of its forked children. It
//! needs no memory from the allocator, so signal handlers may ask for it.
//!
//! Invariant: the number is in a page that the kernel clears in a forked child, also after a bare
//! `clone`. A process that finds 0 there draws a number from [`DRAWN`], which a fork copies, and so
//! gets a higher one than its parent has. Two threads may draw at once: the first one to store its
//! number wins, and no thread has used another. If the process is forked between the two steps, the
//! child finds 0, and draws a number that is higher than both.
//!
//! Where the kernel cannot clear pages (before Linux 4.14, or in an emulator), the number is the
//! pid.
//!
//! # Safety
//! Unsafe to map, to prepare and to read one private page that is never unmapped.
#![allow(unsafe_code)]

use super::mapping;
use std::ptr;
use std::sync::atomic::{AtomicPtr, AtomicU32, Ordering};

/// The page's first word, once there is one. If the kernel cannot clear it, [`NONE`].
static PAGE: AtomicPtr<AtomicU32> = AtomicPtr::new(ptr::null_mut());
/// Its address stands for "no page".
static NONE: AtomicU32 = AtomicU32::new(0);
/// The highest number that was drawn in this process, or in one that it descends from.
static DRAWN: AtomicU32 = AtomicU32::new(0);

/// The number of the calling process, never 0. Neither its parent nor a forked child has the same,
/// also if they have the same pid in namespaces of their own.
#[must_use]
pub fn process_number() -> u32 {
    let Some(word) = word() else { return pid() };
    // Relaxed: the number itself is all that is read, and only a fork changes it back to 0.
    match word.load(Ordering::Relaxed) {
        0 => draw(word),
        number => number,
    }
}

#[cold]
fn draw(word: &AtomicU32) -> u32 {
    let number = DRAWN.fetch_add(1, Ordering::Relaxed) + 1;
    match word.compare_exchange(0, number, Ordering::Relaxed, Ordering::Relaxed) {
        Ok(_) => number,
        Err(first) => first,
    }
}

fn pid() -> u32 {
    // SAFETY: the call has no arguments and cannot fail.
    unsafe { libc::getpid() as u32 }
}

/// The word in the page. `None` if there is no such page, which then never changes: the number of a
/// process must not.
fn word() -> Option<&'static AtomicU32> {
    // Acquire pairs with the Release below: the page was prepared before.
    let mut page = PAGE.load(Ordering::Acquire);
    if page.is_null() {
        page = install();
    }
    // SAFETY: the page is never unmapped, and holds zeros at first.
    (!ptr::eq(page, &raw const NONE)).then(|| unsafe { &*page })
}

/// Prepares a page, unless another thread is first.
#[cold]
fn install() -> *mut AtomicU32 {
    let page = cleared_page().unwrap_or((&raw const NONE).cast_mut());
    let none = ptr::null_mut();
    match PAGE.compare_exchange(none, page, Ordering::Release, Ordering::Acquire) {
        Ok(_) => page,
        Err(first) => {
            if !ptr::eq(page, &raw const NONE) {
                // SAFETY: our own page, which no other thread has seen.
                unsafe { libc::munmap(page.cast(), mapping::page_size()) };
            }
            first
        }
    }
}

/// A new page that the kernel clears in a forked child. It is mapped without named faults, which
/// may allocate memory.
fn cleared_page() -> Option<*mut AtomicU32> {
    let (bytes, access) = (mapping::page_size(), libc::PROT_READ | libc::PROT_WRITE);
    let flags = libc::MAP_PRIVATE | libc::MAP_ANONYMOUS;
    // SAFETY: a new mapping at an address of the kernel's choice disturbs nothing.
    let page = unsafe { libc::mmap(ptr::null_mut(), bytes, access, flags, -1, 0) };
    if page == libc::MAP_FAILED {
        return None;
    }
    // SAFETY: the page was just mapped, and nothing is stored in it yet.
    if unsafe { libc::madvise(page, bytes, libc::MADV_WIPEONFORK) } == 0 {
        return Some(page.cast());
    }
    // SAFETY: our own page.
    unsafe { libc::munmap(page, bytes) };
    None
}
