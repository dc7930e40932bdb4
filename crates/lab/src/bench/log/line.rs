//! A self-verifying line, and a tally of lines that shows whether two processes have the same ones.
//!
//! ```text
//! 0001 0000000004d2 aaaaaaaaaaaaaaaaaaaaaaaaaaaaaa 000004d2
//! ```
//!
//! Writer, number (hexadecimal), filling, the number's last digits again: if two lines are mixed
//! up, beginning and end do not match.

use serde::{Deserialize, Serialize};

/// The fewest bytes of a line.
pub const LEAST_BYTES: usize = 40;

const WRITER_END: usize = 4;
const NUMBER: std::ops::Range<usize> = 5..17;
const FILLING: usize = 18;
const TAIL: usize = 8;

/// A writer's line, in which only the number changes.
pub struct Line(Vec<u8>);

impl Line {
    /// Line 0 of `writer`, `bytes` long.
    pub fn new(writer: u32, bytes: usize) -> Line {
        let letter = b'a' + (writer % 26) as u8;
        let mut line = vec![letter; bytes];
        digits(&mut line[..WRITER_END], u64::from(writer));
        line[WRITER_END] = b' ';
        line[NUMBER.end] = b' ';
        line[bytes - TAIL - 1] = b' ';
        let mut line = Line(line);
        line.number(0);
        line
    }

    /// Gives it another number.
    #[inline]
    pub fn number(&mut self, number: u64) {
        let tail = self.0.len() - TAIL;
        digits(&mut self.0[NUMBER], number);
        digits(&mut self.0[tail..], number);
    }

    /// Its bytes.
    pub fn bytes(&self) -> &[u8] {
        &self.0
    }

    /// The number of a line like this one, if `bytes` are one.
    pub fn read(&self, bytes: &[u8]) -> Option<u64> {
        let tail = self.0.len() - TAIL;
        if bytes.len() != self.0.len()
            || bytes[..NUMBER.start] != self.0[..NUMBER.start]
            || bytes[FILLING - 1..tail] != self.0[FILLING - 1..tail]
        {
            return None;
        }
        let number = value(&bytes[NUMBER])?;
        (value(&bytes[tail..])? == number & 0xffff_ffff).then_some(number)
    }
}

/// The writer that a line names.
pub fn writer_of(bytes: &[u8]) -> Option<u32> {
    u32::try_from(value(bytes.get(..WRITER_END)?)?).ok()
}

fn digits(out: &mut [u8], mut number: u64) {
    for digit in out.iter_mut().rev() {
        *digit = b"0123456789abcdef"[(number & 15) as usize];
        number >>= 4;
    }
}

fn value(digits: &[u8]) -> Option<u64> {
    digits.iter().try_fold(0, |value, digit| {
        let digit = (*digit as char).to_digit(16)?;
        Some(value << 4 | u64::from(digit))
    })
}

/// How many lines, and which.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Tally {
    /// How many.
    pub lines: u64,
    /// A sum over their numbers, mixed.
    sum: u64,
}

impl Tally {
    /// Counts line `number`.
    #[inline]
    pub fn count(&mut self, number: u64) {
        self.lines += 1;
        let mixed = (number + 1).wrapping_mul(0x9e37_79b9_7f4a_7c15);
        self.sum = self.sum.wrapping_add(mixed ^ (mixed >> 32));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_line_is_read_back_and_a_wrong_one_is_not() {
        let mut line = Line::new(300, 60);
        line.number(0x4_0000_04d2);
        let text = String::from_utf8(line.bytes().to_vec()).unwrap();
        assert!(
            text.starts_with("012c 0004000004d2 ooo") && text.ends_with("o 000004d2"),
            "{text}"
        );
        assert_eq!(writer_of(text.as_bytes()), Some(300));
        assert_eq!(line.read(text.as_bytes()), Some(0x4_0000_04d2));
        for at in 0..60 {
            let mut wrong = text.clone().into_bytes();
            wrong[at] = b'#';
            assert_eq!(line.read(&wrong), None, "byte {at}");
        }
        assert_eq!(line.read(&text.as_bytes()[..59]), None);
        assert_eq!(Line::new(0, LEAST_BYTES).bytes().len(), LEAST_BYTES);
    }

    #[test]
    fn tallies_tell_other_lines() {
        let of = |numbers: &[u64]| {
            let mut tally = Tally::default();
            numbers.iter().for_each(|number| tally.count(*number));
            tally
        };
        assert_eq!(of(&[1, 2, 3]), of(&[1, 2, 3]));
        assert_ne!(of(&[1, 2, 3]), of(&[1, 1, 4]));
        assert_ne!(of(&[1, 2, 3]), of(&[0, 2, 4]));
    }
}
