//! Versions, codes, buffers, positions.

use crate::ffi::call::export;
use crate::ffi::take::Plain;
use crate::ffi::{Give, In, Name, OutBytes, Take, invalid, yes};
use commonhold::stream::StreamPosition;
use serde::Serialize;
use std::ffi::{c_char, c_int};
use std::str::FromStr;
use std::time::Duration;

/// `ch_position`.
#[repr(C)]
#[derive(Clone, Copy)]
pub struct Position {
    stream: u64,
    offset: u64,
}

impl Plain for Position {
    const ZERO: Position = Position { stream: 0, offset: 0 };
}

impl From<StreamPosition> for Position {
    fn from(StreamPosition { stream, offset }: StreamPosition) -> Position {
        Position { stream, offset }
    }
}

impl From<Position> for StreamPosition {
    fn from(Position { stream, offset }: Position) -> StreamPosition {
        StreamPosition { stream, offset }
    }
}

/// Nanoseconds from C; the largest number means without limit.
#[inline]
pub(crate) fn time(ns: u64) -> Duration {
    if ns == u64::MAX { Duration::MAX } else { Duration::from_nanos(ns) }
}

/// Text for programs: what the command prints with `--format json`.
///
/// # Errors
/// `Invalid` if there is nowhere to put it.
pub(crate) fn json(out: &OutBytes, value: &impl Serialize) -> crate::ffi::Answer {
    let text = serde_json::to_vec(value).map_err(|error| invalid(error.to_string()))?;
    out.put(text)?;
    Ok(yes(true))
}

const CODES: [(c_int, &str); 25] = [
    (-1, "none\0"),
    (0, "ok\0"),
    (1, "not found\0"),
    (2, "exists\0"),
    (3, "full\0"),
    (4, "too large\0"),
    (5, "closed\0"),
    (6, "read-only\0"),
    (7, "permission\0"),
    (8, "not a hold\0"),
    (9, "version\0"),
    (10, "truncated\0"),
    (11, "damaged\0"),
    (12, "unclean\0"),
    (13, "busy\0"),
    (14, "unsupported\0"),
    (15, "invalid\0"),
    (16, "mismatch\0"),
    (17, "reentrant\0"),
    (18, "timed out\0"),
    (19, "too many participants\0"),
    (20, "io\0"),
    (21, "lapped\0"),
    (22, "stale\0"),
    (99, "panic\0"),
];

/// A static text that ends with a NUL.
fn text(text: &'static str) -> *const c_char {
    debug_assert!(text.ends_with('\0'));
    text.as_ptr().cast()
}

export! {
    fn ch_version() -> *const c_char, or std::ptr::null(), {
        text(concat!(env!("CARGO_PKG_VERSION"), "\0"))
    }

    fn ch_code_name(code: c_int) -> *const c_char, or std::ptr::null(), {
        let known = CODES.iter().find(|(known, _)| *known == code);
        text(known.map_or("unknown\0", |(_, name)| name))
    }

    fn ch_thread_patience(limit_ns: u64) -> u64, or u64::MAX, {
        commonhold::raw::limit_thread_patience_ns(limit_ns)
    }

    fn ch_bytes_set(bytes: OutBytes, data: In, len: usize) {
        let data = data.bytes(len)?;
        bytes.fill(|out| {
            out.clear();
            out.extend_from_slice(data);
            Ok(yes(true))
        })
    }

    fn ch_bytes_append(bytes: OutBytes, data: In, len: usize) {
        let data = data.bytes(len)?;
        bytes.fill(|out| {
            out.extend_from_slice(data);
            Ok(yes(true))
        })
    }

    fn ch_bytes_resize(bytes: OutBytes, len: usize) {
        if len > u32::MAX as usize {
            return Err(commonhold::Error::new(
                commonhold::ErrorKind::TooLarge,
                format!("expected at most 2^32 - 1 bytes, got {len}"),
            ));
        }
        bytes.fill(|out| {
            out.resize(len, 0);
            Ok(yes(true))
        })
    }

    fn ch_bytes_free(bytes: OutBytes) -> (), or (), {
        bytes.free()
    }

    fn ch_position_text(position: Take<Position>, out: OutBytes) {
        let position = StreamPosition::from(position.needed("position")?);
        out.put(position.to_string())?;
        Ok(yes(true))
    }

    fn ch_position_parse(text: Name, out: Give<Position>) {
        out.needed("position")?;
        out.set(StreamPosition::from_str(text.text("the position")?)?.into());
        Ok(yes(true))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_code_has_its_name() {
        assert!(CODES.iter().all(|(_, name)| name.ends_with('\0')));
        assert!(CODES.is_sorted());
        let last = commonhold::ErrorKind::Stale as c_int;
        assert!((-1..=last).all(|code| CODES.iter().any(|(known, _)| *known == code)));
    }
}
