//! The expected answers: the length of each file and the hash of its bytes, and the check of a body
//! against them.
//!
//! The hash is rapidhash, 64 bits: made to find errors at the speed of memory, not to withstand
//! forgery.

use crate::workload::{Result, RunError};
use rapidhash::v3::{RapidSecrets, RapidStreamHasherV3};
use std::fs::File;
use std::io::Read;
use std::path::Path;

static SECRETS: RapidSecrets = RapidSecrets::seed(0);

/// Bytes that are read from a file at once.
const PIECE: usize = 256 << 10;

/// A file's contents, as far as a client needs to know them.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Content {
    /// How many.
    pub bytes: u64,
    /// Of all of them.
    pub hash: u64,
}

/// A body as it comes in.
pub struct Body {
    hasher: RapidStreamHasherV3<'static>,
    bytes: u64,
}

impl Content {
    /// Reads a file, through `piece`.
    pub fn of_file(path: &Path, piece: &mut Vec<u8>) -> Result<Content> {
        let failed = |e| RunError::new(format!("cannot read {}: {e}", path.display()));
        let mut file = File::open(path).map_err(failed)?;
        piece.resize(PIECE, 0);
        let mut body = Body::new();
        loop {
            match file.read(piece).map_err(failed)? {
                0 => return Ok(body.content()),
                count => body.take(&piece[..count]),
            }
        }
    }

    /// The error in a body that should be this, if there is one.
    pub fn fault(&self, body: &Body) -> Option<String> {
        let came = body.content();
        if came.bytes != self.bytes {
            return Some(format!("expected {} bytes, got {}", self.bytes, came.bytes));
        }
        (came.hash != self.hash).then(|| {
            format!(
                "the {} bytes that arrived are not those of the file: their hash is {:016x} instead of {:016x}",
                came.bytes, came.hash, self.hash
            )
        })
    }
}

impl Body {
    /// Nothing has come yet.
    pub fn new() -> Body {
        Body { hasher: RapidStreamHasherV3::new(&SECRETS), bytes: 0 }
    }

    /// The next bytes of it.
    #[inline]
    pub fn take(&mut self, bytes: &[u8]) {
        self.hasher.write(bytes);
        self.bytes += bytes.len() as u64;
    }

    /// How many bytes have come.
    pub fn bytes(&self) -> u64 {
        self.bytes
    }

    /// Forgets what came.
    pub fn clear(&mut self) {
        self.hasher.reset();
        self.bytes = 0;
    }

    fn content(&self) -> Content {
        Content { bytes: self.bytes, hash: self.hasher.finish() }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_body_may_come_in_any_pieces_but_not_changed() {
        let mut file = tempfile::NamedTempFile::new().unwrap();
        let bytes: Vec<u8> = (0..700_000u64).map(|n| ((n * n) >> 7) as u8).collect();
        std::io::Write::write_all(&mut file, &bytes).unwrap();
        let content = Content::of_file(file.path(), &mut Vec::new()).unwrap();
        let mut body = Body::new();
        for piece in [1, 7, 111, 112, 113, 65_536, bytes.len()] {
            bytes.chunks(piece).for_each(|chunk| body.take(chunk));
            assert_eq!(content.fault(&body), None, "in pieces of {piece}");
            body.clear();
        }
        let mut other = bytes.clone();
        other[333_333] ^= 1;
        body.take(&other);
        assert!(content.fault(&body).unwrap().contains("not those of the file"));
        body.clear();
        body.take(&bytes[1..]);
        assert!(content.fault(&body).unwrap().contains("expected 700000 bytes, got 699999"));
    }

    #[test]
    fn an_empty_file_has_an_empty_body() {
        let file = tempfile::NamedTempFile::new().unwrap();
        let content = Content::of_file(file.path(), &mut Vec::new()).unwrap();
        assert_eq!((content.bytes, content.fault(&Body::new())), (0, None));
    }
}
