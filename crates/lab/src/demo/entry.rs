//! The demo's value of each code point: self-verifying text.
//!
//! `LATIN SMALL LETTER A | edit 17 by writer 2 | 8d1f03aa`: the last field is the CRC-32 of the
//! key and everything before it, so that every reader detects a torn value, a value of another key,
//! or a mix of two values.

use super::names::Character;
use std::io::Write;

/// The changing part of a value.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Edit {
    /// How often the value was changed; 0 as loaded.
    pub number: u32,
    /// Which writer changed it, from 1; 0 as loaded.
    pub writer: u32,
}

/// Replaces `out` by the value of `character` after `edit`.
pub fn write(out: &mut Vec<u8>, character: Character, edit: Edit) {
    out.clear();
    let Edit { number, writer } = edit;
    write!(out, "{} | edit {number} by writer {writer} | ", character.name)
        .expect("writing to memory cannot fail");
    let proof = proof(character.code_point, out);
    write!(out, "{proof:08x}").expect("writing to memory cannot fail");
}

/// The edit that `value` shows, or the error in it as a value of `character`.
pub fn read(value: &[u8], character: Character) -> Result<Edit, &'static str> {
    let (body, shown) = value.split_at_checked(value.len().wrapping_sub(8)).ok_or("too short")?;
    let shown = parse_hex(shown).ok_or("no checksum at the end")?;
    if shown != proof(character.code_point, body) {
        return Err("the checksum does not match");
    }
    let rest = body.strip_prefix(character.name.as_bytes()).ok_or("another character's name")?;
    let rest = rest.strip_prefix(b" | edit ").and_then(|r| r.strip_suffix(b" | "));
    let rest = std::str::from_utf8(rest.ok_or("no edit")?).map_err(|_| "the edit is not text")?;
    let (number, writer) = rest.split_once(" by writer ").ok_or("no writer")?;
    let parse = |text: &str| text.parse().map_err(|_| "a number is invalid");
    Ok(Edit { number: parse(number)?, writer: parse(writer)? })
}

fn proof(code_point: &str, body: &[u8]) -> u32 {
    let mut hasher = crc32fast::Hasher::new();
    hasher.update(code_point.as_bytes());
    hasher.update(body);
    hasher.finalize()
}

fn parse_hex(text: &[u8]) -> Option<u32> {
    u32::from_str_radix(std::str::from_utf8(text).ok()?, 16).ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    const A: Character = Character { code_point: "0061", name: "LATIN SMALL LETTER A" };

    #[test]
    fn a_value_is_read_back() {
        let mut value = Vec::new();
        let edit = Edit { number: 17, writer: 2 };
        write(&mut value, A, edit);
        assert!(value.starts_with(b"LATIN SMALL LETTER A | edit 17 by writer 2 | "));
        assert_eq!(read(&value, A), Ok(edit));
    }

    #[test]
    fn any_other_bytes_are_found_out() {
        let mut value = Vec::new();
        write(&mut value, A, Edit { number: 17, writer: 2 });
        for at in 0..value.len() {
            let mut torn = value.clone();
            torn[at] ^= 1;
            assert!(read(&torn, A).is_err(), "byte {at}");
            assert!(read(&value[..at], A).is_err(), "cut at {at}");
        }
        let other = Character { code_point: "0062", name: A.name };
        assert!(read(&value, other).is_err(), "a value of another key");
    }
}
