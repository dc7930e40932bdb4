//! The lines of a text format.

use std::io::BufRead;

/// Reads lines one after the other, without their ends, and without a byte order mark.
pub struct Lines<R> {
    input: R,
    text: Vec<u8>,
    number: u64,
}

impl<R: BufRead> Lines<R> {
    /// The lines of `input`.
    pub fn new(input: R) -> Self {
        Lines { input, text: Vec::new(), number: 0 }
    }

    /// Reads the next line that is not empty; false at the end of the input.
    pub fn next(&mut self) -> std::io::Result<bool> {
        loop {
            self.text.clear();
            if self.input.read_until(b'\n', &mut self.text)? == 0 {
                return Ok(false);
            }
            self.number += 1;
            self.text.pop_if(|last| *last == b'\n');
            self.text.pop_if(|last| *last == b'\r');
            if self.number == 1 && self.text.starts_with(b"\xef\xbb\xbf") {
                self.text.drain(..3);
            }
            if !self.text.is_empty() {
                return Ok(true);
            }
        }
    }

    /// The line just read.
    pub fn text(&self) -> &[u8] {
        &self.text
    }

    /// Its number, from 1.
    pub fn number(&self) -> u64 {
        self.number
    }
}
