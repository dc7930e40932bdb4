//! Foreign text on a terminal.

use crate::bytes;

/// A field for messages, shortened to fit a line.
pub fn shown(bytes: &[u8]) -> String {
    const MOST: usize = 40;
    let mut text = bytes::escaped(&bytes[..bytes.len().min(MOST)]);
    if bytes.len() > MOST {
        text.push_str("...");
    }
    text
}

/// Foreign text for people: control characters, which could move a terminal's cursor or break a
/// table, become escapes.
pub fn printable(text: &str) -> String {
    let mut shown = String::with_capacity(text.len());
    for c in text.chars() {
        match c.is_control() {
            true => bytes::escape(c.encode_utf8(&mut [0; 4]).as_bytes(), &mut shown),
            false => shown.push(c),
        }
    }
    shown
}

/// A message of several lines with foreign parts: like [`printable`], but newlines stay.
pub fn printable_lines(text: &str) -> String {
    text.split('\n').map(printable).collect::<Vec<_>>().join("\n")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn text_of_others_cannot_move_the_cursor() {
        assert_eq!(printable("a\u{1b}[2Jb\nc\u{9b}\\ü"), "a\\x1b[2Jb\\nc\\xc2\\x9b\\ü");
        assert_eq!(printable_lines("a\u{7}\nb\rc"), "a\\x07\nb\\rc");
    }
}
