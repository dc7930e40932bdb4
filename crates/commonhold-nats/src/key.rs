//! Keys of any bytes as keys of a bucket, and back.
//!
//! NATS allows the characters `A-Z a-z 0-9 - / _ = .` in keys, and no empty part between two dots.
//! Letters, digits, `-`, `/`, `_` and single inner dots stay as they are, so readable keys stay
//! readable. Every other byte becomes `=` and two hexadecimal digits. The empty key is `=` alone.
//!
//! Invariant: the encoding is injective, and the decoder accepts only what the encoder writes. So
//! two keys of a bucket never become one key of a map.

use commonhold::{Error, ErrorKind, Result};
use commonhold_terminal::text::shown;
use std::fmt::Write;

/// The longest subject. The server reads a line of at most 4096 bytes, which contains the subject,
/// the subject of the reply and two lengths.
pub const LONGEST_SUBJECT: usize = 3072;

/// How keys of a map and keys of a bucket correspond.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum KeyStyle {
    /// Any bytes; see the [module](self).
    #[default]
    Escaped,
    /// Both keys are the same. A map's key that NATS does not allow is an error.
    Plain,
}

impl KeyStyle {
    /// The bucket's key for a key of a map.
    ///
    /// # Errors
    /// `Invalid` for a key that is plain and that NATS does not allow.
    pub fn encode(self, key: &[u8]) -> Result<String> {
        let escaped = escape(key);
        if self == KeyStyle::Escaped {
            return Ok(escaped);
        }
        let plain = std::str::from_utf8(key).ok().filter(|key| is_legal(key));
        plain.map(str::to_owned).ok_or_else(|| {
            let text = format!(
                "key '{}': with plain keys, expected letters, digits, '-', '/', '_', '=' and \
                 single inner dots; use escaped keys",
                shown(key)
            );
            Error::new(ErrorKind::Invalid, text)
        })
    }

    /// The map's key for a key of a bucket.
    ///
    /// # Errors
    /// `Invalid` for a key that no encoder has written.
    pub fn decode(self, key: &str) -> Result<Vec<u8>> {
        if self == KeyStyle::Plain {
            return Ok(key.as_bytes().to_vec());
        }
        unescape(key).filter(|bytes| escape(bytes) == key).ok_or_else(|| {
            let text = format!(
                "the bucket's key '{key}' was not written by Commonhold: expected two hexadecimal \
                 digits after each '='; use plain keys for this bucket"
            );
            Error::new(ErrorKind::Invalid, text)
        })
    }

    /// The name of the style.
    pub fn name(self) -> &'static str {
        match self {
            KeyStyle::Escaped => "escaped",
            KeyStyle::Plain => "plain",
        }
    }
}

fn is_plain(byte: u8) -> bool {
    byte.is_ascii_alphanumeric() || b"-/_".contains(&byte)
}

fn is_legal(key: &str) -> bool {
    let allowed = key.bytes().all(|byte| is_plain(byte) || b"=.".contains(&byte));
    allowed && !key.split('.').any(str::is_empty)
}

fn escape(key: &[u8]) -> String {
    if key.is_empty() {
        return "=".to_owned();
    }
    let mut text = String::with_capacity(key.len());
    for (place, byte) in key.iter().enumerate() {
        let is_inner = place > 0 && place + 1 < key.len();
        let is_dot = *byte == b'.' && is_inner && key[place - 1] != b'.';
        if is_plain(*byte) || is_dot {
            text.push(char::from(*byte));
        } else {
            // Writing to a string cannot fail.
            let _ = write!(text, "={byte:02X}");
        }
    }
    text
}

fn unescape(key: &str) -> Option<Vec<u8>> {
    if key == "=" {
        return Some(Vec::new());
    }
    let mut bytes = Vec::with_capacity(key.len());
    let mut rest = key.bytes();
    while let Some(byte) = rest.next() {
        if byte != b'=' {
            bytes.push(byte);
            continue;
        }
        let digit = |byte: u8| char::from(byte).to_digit(16);
        let (high, low) = (digit(rest.next()?)?, digit(rest.next()?)?);
        bytes.push((high * 16 + low) as u8);
    }
    Some(bytes)
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::collections::HashSet;

    /// All keys of up to 5 bytes from those that the encoding treats differently.
    fn keys() -> Vec<Vec<u8>> {
        let bytes = [b'a', b'.', b'=', b' ', b'2', b'E', 0xff];
        let mut all = vec![Vec::new()];
        let mut last = all.clone();
        for _ in 0..5 {
            let longer = |key: &Vec<u8>| bytes.map(|byte| [&key[..], &[byte]].concat());
            last = last.iter().flat_map(longer).collect();
            all.extend(last.iter().cloned());
        }
        all.extend((0..=255).map(|byte| vec![byte]));
        all
    }

    #[test]
    fn every_key_is_legal_unique_and_comes_back() {
        let keys: HashSet<_> = keys().into_iter().collect();
        let mut seen = HashSet::new();
        for key in &keys {
            let text = KeyStyle::Escaped.encode(key).unwrap();
            assert!(is_legal(&text), "{key:?} became {text}");
            assert_eq!(&KeyStyle::Escaped.decode(&text).unwrap(), key, "{text}");
            seen.insert(text);
        }
        assert_eq!(seen.len(), keys.len());
    }

    #[test]
    fn readable_keys_stay_readable() {
        for key in ["eu/shop-1.price", "a_b", "x.y.z", "42"] {
            assert_eq!(KeyStyle::Escaped.encode(key.as_bytes()).unwrap(), key);
        }
        for (key, text) in [("", "="), (".a..b.", "=2Ea.=2Eb=2E"), ("ä b", "=C3=A4=20b")] {
            assert_eq!(KeyStyle::Escaped.encode(key.as_bytes()).unwrap(), text);
        }
    }

    #[test]
    fn foreign_keys_are_refused_and_plain_ones_stay() {
        for key in ["a=b", "a=3d", "a=", "=61", "=2"] {
            let error = KeyStyle::Escaped.decode(key).unwrap_err();
            assert_eq!(error.kind(), ErrorKind::Invalid);
            assert!(error.to_string().contains(&format!("'{key}'")), "{error}");
            assert_eq!(KeyStyle::Plain.decode(key).unwrap(), key.as_bytes());
        }
        assert_eq!(KeyStyle::Plain.encode(b"a=b.c").unwrap(), "a=b.c");
        for key in [&b""[..], b".a", b"a..b", b"a b", b"\xff"] {
            assert_eq!(KeyStyle::Plain.encode(key).unwrap_err().kind(), ErrorKind::Invalid);
        }
    }
}
