//! A position in a stream: the stream's number, and an offset in it.

use crate::error::{Error, ErrorKind, Result};
use std::fmt;
use std::str::FromStr;

/// A position in the stream of a map. It can be stored and used later, even by another process, as
/// long as the stream still contains it. As text: `STREAM.OFFSET`, the first in 16 hexadecimal
/// digits.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[cfg_attr(feature = "serde", derive(serde::Serialize), serde(into = "String"))]
pub struct StreamPosition {
    /// The stream's own number, drawn at random when it began: no other stream has it.
    pub stream: u64,
    /// Bytes since the stream's beginning.
    pub offset: u64,
}

impl From<StreamPosition> for String {
    fn from(position: StreamPosition) -> String {
        position.to_string()
    }
}

impl fmt::Display for StreamPosition {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:016x}.{}", self.stream, self.offset)
    }
}

impl FromStr for StreamPosition {
    type Err = Error;

    fn from_str(text: &str) -> Result<StreamPosition> {
        let parse = || {
            let (stream, offset) = text.split_once('.')?;
            let stream = u64::from_str_radix(stream, 16).ok()?;
            Some(StreamPosition { stream, offset: offset.parse().ok()? })
        };
        parse().ok_or_else(|| {
            let text = format!(
                "expected a stream position (STREAM.OFFSET, as 'hold watch' prints it), got '{}'",
                text.escape_default()
            );
            Error::new(ErrorKind::Invalid, text)
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn positions_are_read_as_they_are_written() {
        let position = StreamPosition { stream: 0xab, offset: 123_456 };
        let text = position.to_string();
        assert_eq!(text, "00000000000000ab.123456");
        assert_eq!(text.parse::<StreamPosition>().unwrap(), position);
        for wrong in ["", "1", "1.x", "1.2.3", "g.2", "1.-2"] {
            assert_eq!(wrong.parse::<StreamPosition>().unwrap_err().kind(), ErrorKind::Invalid);
        }
    }
}
