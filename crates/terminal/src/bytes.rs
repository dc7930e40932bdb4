//! Any bytes as text, three ways, and back.
//!
//! - JSON: a string if the bytes are UTF-8, else `{"base64": "..."}`
//! - escaped: UTF-8 text in which `\t \n \r \\ \0` and `\xHH` stand for what would break a line,
//!   a field or a terminal
//! - hexadecimal digits, two per byte
//!
//! Invariant: each form is exact, and each parser accepts only text that means one sequence of
//! bytes.

use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use serde_json::{Value, json};
use std::fmt::Write;

/// `bytes` in JSON.
pub fn json(bytes: &[u8]) -> Value {
    match std::str::from_utf8(bytes) {
        Ok(text) => Value::String(text.to_owned()),
        Err(_) => json!({ "base64": STANDARD.encode(bytes) }),
    }
}

/// The bytes of base64 digits.
pub fn from_base64(digits: &str) -> Result<Vec<u8>, String> {
    STANDARD.decode(digits).map_err(|e| format!("'{digits}' is not base64: {e}"))
}

/// `bytes` as escaped text.
pub fn escaped(bytes: &[u8]) -> String {
    let mut text = String::with_capacity(bytes.len());
    escape(bytes, &mut text);
    text
}

/// Appends `bytes` as escaped text to `text`.
pub fn escape(bytes: &[u8], text: &mut String) {
    for chunk in bytes.utf8_chunks() {
        for c in chunk.valid().chars() {
            escape_char(c, text);
        }
        escape_bytes(chunk.invalid(), text);
    }
}

fn escape_char(c: char, text: &mut String) {
    match c {
        '\t' => text.push_str("\\t"),
        '\n' => text.push_str("\\n"),
        '\r' => text.push_str("\\r"),
        '\\' => text.push_str("\\\\"),
        '\0' => text.push_str("\\0"),
        // A byte order mark at the beginning of a file would be taken for one.
        c if c.is_control() || c == '\u{feff}' => {
            escape_bytes(c.encode_utf8(&mut [0; 4]).as_bytes(), text);
        }
        c => text.push(c),
    }
}

fn escape_bytes(bytes: &[u8], text: &mut String) {
    for byte in bytes {
        let _ = write!(text, "\\x{byte:02x}");
    }
}

/// Appends the bytes of escaped text to `out`.
///
/// # Errors
/// The error in an invalid escape.
pub fn unescape(text: &[u8], out: &mut Vec<u8>) -> Result<(), String> {
    let mut rest = text;
    while let Some(at) = rest.iter().position(|b| *b == b'\\') {
        out.extend_from_slice(&rest[..at]);
        let (byte, length) = unescape_one(&rest[at..])?;
        out.push(byte);
        rest = &rest[at + length..];
    }
    out.extend_from_slice(rest);
    Ok(())
}

/// The byte of the escape at the beginning of `text`, and the escape's length.
fn unescape_one(text: &[u8]) -> Result<(u8, usize), String> {
    Ok(match text.get(1) {
        Some(b't') => (b'\t', 2),
        Some(b'n') => (b'\n', 2),
        Some(b'r') => (b'\r', 2),
        Some(b'0') => (0, 2),
        Some(b'\\') => (b'\\', 2),
        Some(b'x') => match text.get(2..4).and_then(hex_byte) {
            Some(byte) => (byte, 4),
            None => return Err("expected two hexadecimal digits after '\\x'".to_owned()),
        },
        Some(other) => {
            let shown = char::from(*other).escape_default();
            return Err(format!("unknown escape '\\{shown}' (a backslash is written '\\\\')"));
        }
        None => return Err("a backslash at the end (a backslash is written '\\\\')".to_owned()),
    })
}

fn hex_byte(digits: &[u8]) -> Option<u8> {
    let [high, low] = digits else { return None };
    let value = |d: u8| char::from(d).to_digit(16);
    Some((value(*high)? * 16 + value(*low)?) as u8)
}

/// `bytes` as hexadecimal digits.
pub fn hex(bytes: &[u8]) -> String {
    let mut text = String::with_capacity(bytes.len() * 2);
    for byte in bytes {
        let _ = write!(text, "{byte:02x}");
    }
    text
}

/// The bytes of hexadecimal digits.
pub fn from_hex(digits: &[u8]) -> Result<Vec<u8>, String> {
    let bytes = digits.chunks(2).map(hex_byte).collect::<Option<Vec<u8>>>();
    bytes.ok_or_else(|| {
        format!(
            "'{}' is not hexadecimal: expected two digits per byte",
            String::from_utf8_lossy(digits)
        )
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn escapes_are_exact_for_every_byte_and_safe_for_lines_and_terminals() {
        let all: Vec<u8> = (0..=255).collect();
        let text = escaped(&all);
        assert!(text.chars().all(|c| !c.is_control()), "{text}");
        let mut back = Vec::new();
        unescape(text.as_bytes(), &mut back).unwrap();
        assert_eq!(back, all);
        assert_eq!(escaped("Tab\tÄ\u{feff}\u{9b}".as_bytes()), "Tab\\tÄ\\xef\\xbb\\xbf\\xc2\\x9b");
    }

    #[test]
    fn wrong_escapes_are_named() {
        let wrong = |text: &[u8]| unescape(text, &mut Vec::new()).unwrap_err();
        assert!(wrong(b"C:\\Users").contains("unknown escape '\\U'"));
        assert!(wrong(b"\\x4").contains("two hexadecimal digits"));
        assert!(wrong(b"\\xzz").contains("two hexadecimal digits"));
        assert!(wrong(b"end\\").contains("at the end"));
    }

    #[test]
    fn json_is_a_string_where_it_can_be() {
        assert_eq!(json("Ä\0".as_bytes()), Value::String("Ä\0".to_owned()));
        assert_eq!(json(b"\xff\x00").to_string(), r#"{"base64":"/wA="}"#);
        assert_eq!(from_base64("/wA=").unwrap(), b"\xff\x00");
        assert!(from_base64("/w").unwrap_err().contains("not base64"));
    }

    #[test]
    fn hexadecimal_digits_are_exact() {
        assert_eq!(hex(b"\x00\xfe"), "00fe");
        assert_eq!(from_hex(b"00FE").unwrap(), b"\x00\xfe");
        assert!(from_hex(b"0").is_err());
        assert!(from_hex(b"+1").is_err());
        assert_eq!(from_hex(b"").unwrap(), b"");
    }
}
