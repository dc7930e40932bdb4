//! Descriptions that a process keeps open in case it can open nothing later: one of each hold's
//! file, and another one for each child that it forks.
//!
//! A life byte needs an open file description that nobody else shares ([`super::byte_lock`]). A
//! process may be unable to open one when it needs it. It may have dropped its rights since it
//! opened the hold (a prefork server opens as root, forks, and becomes another user), it may be in
//! a chroot, a filter may forbid the call, or its table of descriptors may be full. So the process
//! keeps a description from the time of opening. Just before a fork it opens a fresh one for the
//! child. The parent closes its copy of that, and the child closes its copy of what its parent
//! keeps. A lock is therefore put on a description that belongs to one process alone.
//!
//! A hold that is deleted when its last user ends must not be deleted while a child has only
//! inherited it. So the child's description of such a hold has the open byte before the fork. The
//! child keeps it until it closes its handle.
//!
//! A fresh description is always preferred, since a child of a bare `clone`, which runs no
//! handlers, has copies of the reserved ones.
//!
//! A look at a descriptor may fail. Then it is unknown whether the descriptor is ours, so it is
//! neither used nor closed, but looked at again later.
//!
//! Invariant: entries change only under the fork lock of [`super::fork`], and nothing here
//! allocates memory.
//!
//! # Safety
//! Unsafe only to adopt and to close descriptors that were opened here and are verified to be of
//! their file still.
#![allow(unsafe_code)]

use super::byte_lock;
use super::file::{self, identity};
use std::ffi::CStr;
use std::io::{self, Write};
use std::os::fd::{FromRawFd, IntoRawFd, OwnedFd, RawFd};
use std::sync::atomic::{AtomicBool, AtomicI32, AtomicU64, Ordering};

/// The number of holds that a process can have open for writing with a reserved description. For
/// further holds it opens a description when it needs one.
const MOST: usize = 128;
const NONE: RawFd = -1;

/// One file. Relaxed throughout: the fork lock orders everything.
struct Entry {
    used: AtomicBool,
    /// A child has the open byte from the fork on.
    counts_children: AtomicBool,
    dev: AtomicU64,
    ino: AtomicU64,
    /// The descriptor that identifies the hold; another description is opened through it.
    known: AtomicI32,
    /// This process's own description, kept for a time when none can be opened.
    kept: AtomicI32,
    /// The next child's description, from just before a fork until just after it.
    next: AtomicI32,
    /// Descriptors to close at the next look that succeeds, of a fork and of a close, each perhaps
    /// twice.
    left: [AtomicI32; 4],
}

static ENTRIES: [Entry; MOST] = [const {
    Entry {
        used: AtomicBool::new(false),
        counts_children: AtomicBool::new(false),
        dev: AtomicU64::new(0),
        ino: AtomicU64::new(0),
        known: AtomicI32::new(NONE),
        kept: AtomicI32::new(NONE),
        next: AtomicI32::new(NONE),
        left: [const { AtomicI32::new(NONE) }; 4],
    }
}; MOST];

impl Entry {
    fn is_of(&self, fd: RawFd) -> bool {
        self.look(fd).unwrap_or(false)
    }

    /// Whether the descriptor is of the file.
    fn look(&self, fd: RawFd) -> io::Result<bool> {
        let file = (self.dev.load(Ordering::Relaxed), self.ino.load(Ordering::Relaxed));
        Ok(fd != NONE && identity(fd)? == Some(file))
    }

    /// A new description of the file; `NONE` if none can be opened.
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

    /// Empties a place and closes its descriptor, if that is still of the file.
    fn close(&self, place: &AtomicI32) {
        self.close_left();
        let fd = place.swap(NONE, Ordering::Relaxed);
        match self.look(fd) {
            Ok(true) => close(fd),
            Ok(false) => {}
            Err(_) => self.leave(fd),
        }
    }

    fn leave(&self, fd: RawFd) {
        let free = self.left.iter().find(|place| place.load(Ordering::Relaxed) == NONE);
        free.inspect(|place| place.store(fd, Ordering::Relaxed));
    }

    fn has_left(&self) -> bool {
        self.left.iter().any(|place| place.load(Ordering::Relaxed) != NONE)
    }

    fn close_left(&self) {
        for place in &self.left {
            let fd = place.load(Ordering::Relaxed);
            if let Ok(is_ours) = self.look(fd) {
                place.store(NONE, Ordering::Relaxed);
                if is_ours {
                    close(fd);
                }
            }
        }
    }
}

/// Opens the file of a descriptor once more, for writing. Allocates no memory.
fn open_again(fd: RawFd) -> Option<RawFd> {
    let mut name = [0u8; 32];
    // The buffer is longer than the longest number needs, and its last byte stays 0.
    write!(&mut name[..31], "/proc/self/fd/{fd}").ok()?;
    let name = CStr::from_bytes_until_nul(&name).ok()?;
    file::open(name, true).ok().map(IntoRawFd::into_raw_fd)
}

fn close(fd: RawFd) {
    // SAFETY: opened here, and no other code knows its number.
    unsafe { libc::close(fd) };
}

/// Notes the file that `known` leads to, and keeps a description of it. Returns the entry's number,
/// if there is room. The caller holds the fork lock, as for all of these functions.
pub(super) fn enter(known: RawFd, dev: u64, ino: u64, counts_children: bool) -> Option<usize> {
    let is_free = |entry: &Entry| {
        !entry.used.load(Ordering::Relaxed) && {
            entry.close_left();
            !entry.has_left()
        }
    };
    let number = ENTRIES.iter().position(is_free)?;
    let entry = &ENTRIES[number];
    entry.dev.store(dev, Ordering::Relaxed);
    entry.ino.store(ino, Ordering::Relaxed);
    entry.known.store(known, Ordering::Relaxed);
    entry.counts_children.store(counts_children, Ordering::Relaxed);
    entry.kept.store(entry.open(), Ordering::Relaxed);
    entry.used.store(true, Ordering::Relaxed);
    Some(number)
}

/// Another descriptor identifies the hold now.
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

/// Takes the reserved description, for a lock. It stays in its place unless it is of the file.
pub(super) fn take(number: usize) -> Option<OwnedFd> {
    let entry = &ENTRIES[number];
    let fd = entry.kept.load(Ordering::Relaxed);
    entry.is_of(fd).then(|| {
        entry.kept.store(NONE, Ordering::Relaxed);
        // SAFETY: opened here, verified to be of the file still, and no longer in its place.
        unsafe { OwnedFd::from_raw_fd(fd) }
    })
}

/// Closes a descriptor that could not be closed before. Otherwise a lock that is put on its
/// description later, in the process that owns it, would outlive that process.
pub(super) fn close_left(number: usize) {
    ENTRIES[number].close_left();
}

/// Whether a child has the open byte from the fork on.
pub(super) fn counts_children(number: usize) -> bool {
    ENTRIES[number].counts_children.load(Ordering::Relaxed)
}

/// The handle is closed: this process and the children that it forks from now on do not count as
/// users because of their descriptions.
pub(super) fn leave_open_byte(number: usize) {
    let entry = &ENTRIES[number];
    if entry.counts_children.swap(false, Ordering::Relaxed) {
        // It is closed and not unlocked: a child of a bare `clone` shares the description with its
        // parent.
        entry.close(&entry.kept);
    }
}

/// Puts back a description that has no lock on it, except perhaps of the open byte.
pub(super) fn put_back(number: usize, description: OwnedFd) {
    ENTRIES[number].kept.store(description.into_raw_fd(), Ordering::Relaxed);
}

fn used() -> impl Iterator<Item = &'static Entry> {
    ENTRIES.iter().filter(|entry| entry.used.load(Ordering::Relaxed))
}

/// Before a fork, in the parent.
pub(super) fn prepare() {
    for entry in used() {
        let next = entry.open();
        if next != NONE && entry.counts_children.load(Ordering::Relaxed) {
            byte_lock::share_open_byte(next);
        }
        entry.next.store(next, Ordering::Relaxed);
    }
}

/// After a fork, in the parent: the new description is the child's.
pub(super) fn went_to_child() {
    used().for_each(|entry| entry.close(&entry.next));
}

/// After a fork, in the child: the reserved description is the parent's.
pub(super) fn come_from_parent() {
    for entry in used() {
        entry.close(&entry.kept);
        entry.kept.store(entry.next.swap(NONE, Ordering::Relaxed), Ordering::Relaxed);
    }
}
