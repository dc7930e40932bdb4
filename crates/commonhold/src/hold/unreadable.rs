//! The parts of a damaged file that cannot be read at all, for example because a sector of a disk
//! has failed.
//!
//! Touching them through the mapping would raise SIGBUS. So before salvage looks at anything, it
//! reads the whole file once by calls that return an error, and replaces each page that fails by
//! zeros. No record begins with zeros, so the index entries that led there count as missing.

use crate::os::file::{HoldFile, is_of_the_contents};
use crate::os::mapping::Mapping;
use crate::steps::fault;
use std::io;
use std::mem::MaybeUninit;
use std::ops::Range;

/// Bytes that are read at once, and those that are covered at once.
const PIECE: u64 = 1 << 20;
const PAGE: u64 = 4096;

/// Covers the unreadable parts of the first `len` bytes. Returns them in order.
///
/// # Errors
/// Those that do not concern the file's contents.
pub(super) fn cover(file: &HoldFile, mapping: &Mapping, len: u64) -> io::Result<Vec<Range<u64>>> {
    let mut buffer = vec![MaybeUninit::uninit(); PIECE as usize];
    let mut read = |from: u64, to: u64, asked: io::Result<()>| {
        let buffer = &mut buffer[..(to - from) as usize];
        match asked.and_then(|()| file.read_at(from, buffer)) {
            Ok(()) => Ok(true),
            Err(error) if is_of_the_contents(&error) => Ok(false),
            Err(error) => Err(error),
        }
    };
    let mut found: Vec<Range<u64>> = Vec::new();
    for from in (0..len).step_by(PIECE as usize) {
        let to = len.min(from + PIECE);
        if read(from, to, fault!("salvage.read"))? {
            continue;
        }
        for page in (from..to).step_by(PAGE as usize) {
            if read(page, to.min(page + PAGE), fault!("salvage.read-page"))? {
                continue;
            }
            mapping.cover(page, PAGE)?;
            match found.last_mut().filter(|last| last.end == page) {
                Some(last) => last.end = page + PAGE,
                None => found.push(page..page + PAGE),
            }
        }
    }
    Ok(found)
}
