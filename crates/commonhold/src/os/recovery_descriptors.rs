//! What a process keeps open in case it can open nothing later: one description of each hold's file, and another one for
//! each child that it forks.
//!
//! A life byte needs an open file description that nobody else shares ([`super::byte_lock`]). A process may be unable to open
//! one when it needs it: it has given up its rights since it opened the hold (a prefork server opens as root, forks, and
//! becomes somebody else), it is in a chroot, a filter forbids the call, its table of descriptors is full. So a description is
//! kept from the time of opening, and just before a fork a fresh one is opened for the child; the parent closes its copy of
//! that, and the child closes its copy of what its parent keeps. What a lock is put on is therefore its process's alone.
//!
//! A fresh description is always preferred, since a child of a bare `clone`, which runs no handlers, has copies of what is kept.
//!
//! Invariant: entries change with the fork lock of [`super::fork`] held only; nothing here allocates memory.
//!
//! # Safety
//! Unsafe only to adopt and to close descriptors that were opened here and are verified to be of their file still.
#![allow(unsafe_code)]

use super::file::{self, status};
use std::ffi::CStr;
use std::io::Write;
use std::os::fd::{FromRawFd, IntoRawFd, OwnedFd, RawFd};
use std::sync::atomic::{AtomicBool, AtomicI32, AtomicU64, Ordering};

/// Holds that a process can have open for writing and be prepared for; those beyond it open what they need when they need it.
const MOST: usize = 128;
const NONE: RawFd = -1;

/// One file. Relaxed throughout: the fork lock orders everything.
struct Entry {
    used: AtomicBool,
    dev: AtomicU64,
    ino: AtomicU64,
    /// The descriptor that the hold is known by; another description is opened through it.
    known: AtomicI32,
    /// This process's own description, kept for when none can be opened.
    kept: AtomicI32,
    /// The next child's, from just before a fork until just behind it.
    next: AtomicI32,
}

static ENTRIES: [Entry; MOST] = [const {
    Entry {
        used: AtomicBool::new(false),
        dev: AtomicU64::new(0),
        ino: AtomicU64::new(0),
        known: AtomicI32::new(NONE),
        kept: AtomicI32::new(NONE),
        next: AtomicI32::new(NONE),
    }
}; MOST];

impl Entry {
    fn is_of(&self, fd: RawFd) -> bool {
        let file = (self.dev.load(Ordering::Relaxed), self.ino.load(Ordering::Relaxed));
        fd != NONE && status(fd).is_ok_and(|now| (now.st_dev, now.st_ino) == file)
    }

    /// A new description of the file; `NONE` if that cannot be.
    fn open(&self) -> RawFd {
        let known = self.known.load(Ordering::Relaxed);
        let fresh = if self.is_of(known) { open_again(known) } else { None };
        match fresh {
            Some(fresh) if self.is_of(fresh) => fresh,
            Some(other) => {
                close(other);
                NONE
            }
            None => NONE,
        }
    }

    /// Empties a place; closes what was in it, if it is of the file still.
    fn close(&self, place: &AtomicI32) {
        let fd = place.swap(NONE, Ordering::Relaxed);
        if self.is_of(fd) {
            close(fd);
        }
    }
}

/// Opens what is behind a descriptor once more, for writing. Allocates no memory.
fn open_again(fd: RawFd) -> Option<RawFd> {
    let mut name = [0u8; 32];
    // The buffer is longer than the longest number needs, and its last byte stays 0.
    write!(&mut name[..31], "/proc/self/fd/{fd}").ok()?;
    let name = CStr::from_bytes_until_nul(&name).ok()?;
    file::open(name, true).ok().map(IntoRawFd::into_raw_fd)
}

fn close(fd: RawFd) {
    // SAFETY: opened here, and nobody else was told its number.
    unsafe { libc::close(fd) };
}

/// Notes the file that `known` leads to, and keeps a description of it. The entry's number, if there is room. With the fork lock
/// held, as all of these.
pub(super) fn enter(known: RawFd, dev: u64, ino: u64) -> Option<usize> {
    let number = ENTRIES.iter().position(|entry| !entry.used.load(Ordering::Relaxed))?;
    let entry = &ENTRIES[number];
    entry.dev.store(dev, Ordering::Relaxed);
    entry.ino.store(ino, Ordering::Relaxed);
    entry.known.store(known, Ordering::Relaxed);
    entry.kept.store(entry.open(), Ordering::Relaxed);
    entry.used.store(true, Ordering::Relaxed);
    Some(number)
}

/// The hold is known by another descriptor now.
pub(super) fn is_known_by(number: usize, fd: RawFd) {
    ENTRIES[number].known.store(fd, Ordering::Relaxed);
}

/// Forgets the file.
pub(super) fn leave(number: usize) {
    let entry = &ENTRIES[number];
    entry.used.store(false, Ordering::Relaxed);
    entry.close(&entry.kept);
    entry.known.store(NONE, Ordering::Relaxed);
}

/// Takes what is kept, for a lock.
pub(super) fn take(number: usize) -> Option<OwnedFd> {
    let entry = &ENTRIES[number];
    let fd = entry.kept.swap(NONE, Ordering::Relaxed);
    // SAFETY: opened here, verified to be of the file still, and no longer in its place.
    entry.is_of(fd).then(|| unsafe { OwnedFd::from_raw_fd(fd) })
}

/// Puts back what no lock was put on.
pub(super) fn put_back(number: usize, description: OwnedFd) {
    ENTRIES[number].kept.store(description.into_raw_fd(), Ordering::Relaxed);
}

fn used() -> impl Iterator<Item = &'static Entry> {
    ENTRIES.iter().filter(|entry| entry.used.load(Ordering::Relaxed))
}

/// Before a fork, in the parent.
pub(super) fn prepare() {
    used().for_each(|entry| entry.next.store(entry.open(), Ordering::Relaxed));
}

/// After a fork, in the parent: what was opened is the child's.
pub(super) fn went_to_child() {
    used().for_each(|entry| entry.close(&entry.next));
}

/// After a fork, in the child: what the parent keeps is the parent's.
pub(super) fn come_from_parent() {
    for entry in used() {
        entry.close(&entry.kept);
        entry.kept.store(entry.next.swap(NONE, Ordering::Relaxed), Ordering::Relaxed);
    }
}
