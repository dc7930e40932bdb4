//! The keys that a replica wants: all, or those that begin with certain bytes.

use crate::protocol::wire::{Broken, broken};
use commonhold::{Error, ErrorKind, Result};
use std::fmt;

/// The most bytes of a prefix.
const MOST: usize = 255;

/// A prefix of keys; without bytes, that of all keys.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct KeyPrefix(Vec<u8>);

impl KeyPrefix {
    /// The prefix that a user asks for.
    ///
    /// # Errors
    /// `Invalid` if it has no bytes, or too many.
    pub(crate) fn wanted(bytes: Option<&[u8]>) -> Result<KeyPrefix> {
        let Some(bytes) = bytes else { return Ok(KeyPrefix::default()) };
        if (1..=MOST).contains(&bytes.len()) {
            return Ok(KeyPrefix(bytes.to_vec()));
        }
        let text = format!(
            "a prefix of {} bytes; expected 1 to {MOST}, or no prefix for all keys",
            bytes.len()
        );
        Err(Error::new(ErrorKind::Invalid, text))
    }

    /// Whether it is that of all keys.
    pub(crate) fn is_of_all(&self) -> bool {
        self.0.is_empty()
    }

    pub(crate) fn bytes(&self) -> &[u8] {
        &self.0
    }

    /// Appends its bytes, with their number before them.
    pub(crate) fn put(&self, out: &mut Vec<u8>) {
        out.extend((self.0.len() as u16).to_le_bytes());
        out.extend(&self.0);
    }

    /// The same, read from the beginning of some bytes that may continue behind it.
    ///
    /// # Errors
    /// They are too short, or the prefix is too long.
    pub(crate) fn read(bytes: &[u8]) -> std::result::Result<KeyPrefix, Broken> {
        let Some((len, rest)) = bytes.split_first_chunk() else {
            return broken("asks for a prefix of keys without its length");
        };
        let len = usize::from(u16::from_le_bytes(*len));
        if len > MOST {
            return broken(format!("asks for a prefix of {len} bytes; the maximum is {MOST}"));
        }
        match rest.get(..len) {
            Some(prefix) => Ok(KeyPrefix(prefix.to_vec())),
            None => broken(format!("asks for a prefix of {len} bytes, and sends {}", rest.len())),
        }
    }

    /// The prefix for people and reports; `None` for all keys.
    pub(crate) fn shown(&self) -> Option<String> {
        let escaped = |bytes: &[u8]| bytes.escape_ascii().to_string();
        let is_plain = |text: &&str| !text.chars().any(char::is_control);
        let text = std::str::from_utf8(&self.0).ok().filter(is_plain);
        (!self.is_of_all()).then(|| text.map_or_else(|| escaped(&self.0), str::to_owned))
    }
}

impl fmt::Display for KeyPrefix {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.shown() {
            None => f.write_str("all keys"),
            Some(prefix) => write!(f, "the keys that begin with '{prefix}'"),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn prefixes_are_read_as_they_were_written_and_have_limits() {
        for bytes in [&b"user:"[..], &[0xff], &[7; MOST]] {
            let prefix = KeyPrefix::wanted(Some(bytes)).unwrap();
            let mut put = Vec::new();
            prefix.put(&mut put);
            for len in 0..put.len() {
                let Broken(why) = KeyPrefix::read(&put[..len]).unwrap_err();
                assert!(why.contains("asks for a prefix of"), "{why}");
            }
            put.extend([9; 3]);
            assert_eq!(KeyPrefix::read(&put), Ok(prefix));
        }
        for len in [0, MOST + 1] {
            let error = KeyPrefix::wanted(Some(&vec![1; len])).unwrap_err();
            assert_eq!(error.kind(), ErrorKind::Invalid);
            assert!(error.to_string().contains(&format!("a prefix of {len} bytes")), "{error}");
        }
        let Broken(why) = KeyPrefix::read(&[0, 1, 0]).unwrap_err();
        assert_eq!(why, "asks for a prefix of 256 bytes; the maximum is 255");
        assert!(KeyPrefix::read(&[0, 0]).unwrap().is_of_all());
    }

    #[test]
    fn prefixes_are_shown_without_control_characters() {
        let shown = |bytes: &[u8]| KeyPrefix::wanted(Some(bytes)).unwrap().to_string();
        assert_eq!(shown("größe:".as_bytes()), "the keys that begin with 'größe:'");
        assert_eq!(shown(b"\x1b[2J"), "the keys that begin with '\\x1b[2J'");
        assert_eq!(shown(&[0xff, 0]), "the keys that begin with '\\xff\\x00'");
        assert_eq!(KeyPrefix::default().to_string(), "all keys");
    }
}
