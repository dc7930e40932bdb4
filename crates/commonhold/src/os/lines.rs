//! Cache lines that processes share without any protocol. They show what the machine itself can do,
//! for comparison with measurements.
//!
//! Not part of a hold. Invariant: the mapping is at least as long as its lines, and stays until the
//! value is dropped.
//!
//! # Safety
//! The range is the kernel's answer to one `mmap` of a whole file whose length was just checked.
//! Its words are accessed only as atomics, by an index that was checked. A process that shortens
//! the file meanwhile causes SIGBUS.
#![allow(unsafe_code)]

use super::mapping::mapped;
use std::fs::File;
use std::io;
use std::os::fd::AsRawFd;
use std::ptr::{self, NonNull};
use std::sync::atomic::AtomicU64;

/// Bytes from one line to the next: two lines of 64 bytes, since processors fetch them in pairs.
const LINE: usize = 128;

/// A shared mapping of a file as words that are on cache lines of their own.
pub struct SharedLines {
    base: NonNull<u8>,
    lines: usize,
}

// SAFETY: the object only owns the range, and hands out atomics.
unsafe impl Send for SharedLines {}
// SAFETY: as above.
unsafe impl Sync for SharedLines {}

impl SharedLines {
    /// Bytes of a file with this number of lines.
    pub const fn bytes(lines: usize) -> u64 {
        (lines * LINE) as u64
    }

    /// Maps all of `file`, which is open for reading and writing.
    ///
    /// # Errors
    /// Those of the system; `InvalidInput` if the file has not even one line.
    pub fn of(file: &File) -> io::Result<SharedLines> {
        let lines = usize::try_from(file.metadata()?.len()).unwrap_or(0) / LINE;
        if lines == 0 {
            return Err(io::Error::new(io::ErrorKind::InvalidInput, "too short for shared lines"));
        }
        let access = libc::PROT_READ | libc::PROT_WRITE;
        // SAFETY: a new mapping at an address of the kernel's choice disturbs nothing.
        let address = unsafe {
            libc::mmap(ptr::null_mut(), lines * LINE, access, libc::MAP_SHARED, file.as_raw_fd(), 0)
        };
        Ok(SharedLines { base: mapped(address)?, lines })
    }

    /// The word of line `number`.
    ///
    /// # Panics
    /// If there is no such line.
    #[inline]
    pub fn word(&self, number: usize) -> &AtomicU64 {
        assert!(number < self.lines, "line {number} of {}", self.lines);
        // SAFETY: inside the mapping, and aligned as a page is; atomics may be shared with anybody.
        unsafe { self.base.add(number * LINE).cast().as_ref() }
    }
}

impl Drop for SharedLines {
    fn drop(&mut self) {
        // SAFETY: the range is ours, and no reference to it outlives this value.
        unsafe { libc::munmap(self.base.as_ptr().cast(), self.lines * LINE) };
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::sync::atomic::Ordering;

    #[test]
    fn two_mappings_of_a_file_are_the_same_words() {
        let file = tempfile::tempfile().unwrap();
        assert!(SharedLines::of(&file).is_err());
        file.set_len(SharedLines::bytes(2)).unwrap();
        let (one, other) = (SharedLines::of(&file).unwrap(), SharedLines::of(&file).unwrap());
        one.word(1).store(7, Ordering::Release);
        assert_eq!(other.word(1).load(Ordering::Acquire), 7);
        assert_eq!(other.word(0).load(Ordering::Acquire), 0);
    }
}
