//! The framing of messages in a file or a pipe: lines, or frames.
//!
//! - line: the bytes of the message, then a line feed, which the last line may lack. For messages
//!   without line feeds; all other bytes are kept, even carriage returns.
//! - frame: the length of the message (4 bytes, little-endian), then its bytes. For any message.
//!
//! Invariant: frames are read back to the same messages; memory is allocated for received bytes,
//! not for an announced length.

use commonhold_terminal::failure::Failure;
use commonhold_terminal::output::Output;
use std::io::{BufRead, Read, Write};

/// Bytes of a frame before its message.
const HEAD: usize = 4;

/// How messages are read and written.
#[derive(clap::Args, Debug, Clone, Copy, Default)]
pub struct Framing {
    /// Use frames (a 4-byte little-endian length, then the bytes) instead of lines
    #[arg(long)]
    pub frames: bool,
}

impl Framing {
    /// Fails if the options request both JSON and frames.
    pub fn ensure_text(self, output: &Output) -> Result<(), Failure> {
        match self.frames && output.is_json() {
            true => Err(Failure::usage("--frames and --format json: choose one")),
            false => Ok(()),
        }
    }

    /// Writes a message.
    pub fn write(self, out: &mut dyn Write, message: &[u8]) -> std::io::Result<()> {
        if !self.frames {
            return out.write_all(message).and_then(|()| out.write_all(b"\n"));
        }
        let length = u32::try_from(message.len()).map_err(|_| {
            super::unfit(format!("a message of {} bytes is too long for a frame", message.len()))
        })?;
        out.write_all(&length.to_le_bytes()).and_then(|()| out.write_all(message))
    }
}

/// Reads messages.
pub struct Reader<R> {
    input: R,
    framing: Framing,
    most: usize,
    number: u64,
}

impl<R: BufRead> Reader<R> {
    /// Reads messages of at most `most` bytes.
    pub fn new(input: R, framing: Framing, most: usize) -> Self {
        Reader { input, framing, most, number: 0 }
    }

    /// Reads the next message into `message`; false at the end.
    ///
    /// # Errors
    /// The error, its place, and advice; nothing can be read after it.
    pub fn read(&mut self, message: &mut Vec<u8>) -> Result<bool, String> {
        message.clear();
        self.number += 1;
        match self.framing.frames {
            true => self.frame(message),
            false => self.line(message),
        }
    }

    fn line(&mut self, line: &mut Vec<u8>) -> Result<bool, String> {
        // One byte more than the longest line with its newline: enough to detect a line that is too
        // long.
        let most = (self.most as u64).saturating_add(1);
        let read = self.input.by_ref().take(most).read_until(b'\n', line);
        if read.map_err(|e| e.to_string())? == 0 {
            return Ok(false);
        }
        match line.pop_if(|last| *last == b'\n') {
            None if line.len() > self.most => Err(self.too_long("line", None)),
            _ => Ok(true),
        }
    }

    fn frame(&mut self, message: &mut Vec<u8>) -> Result<bool, String> {
        let mut head = Vec::with_capacity(HEAD);
        self.append(HEAD, &mut head)?;
        if head.is_empty() {
            return Ok(false);
        }
        let Ok(head) = <[u8; HEAD]>::try_from(&head[..]) else {
            return Err(self.cut("length", HEAD, head.len()));
        };
        let length = u32::from_le_bytes(head) as usize;
        if length > self.most {
            return Err(self.too_long("frame", Some(length)));
        }
        self.append(length, message)?;
        match message.len() == length {
            true => Ok(true),
            false => Err(self.cut("message", length, message.len())),
        }
    }

    fn append(&mut self, length: usize, to: &mut Vec<u8>) -> Result<usize, String> {
        self.input.by_ref().take(length as u64).read_to_end(to).map_err(|e| e.to_string())
    }

    fn too_long(&self, what: &str, length: Option<usize>) -> String {
        let (number, most) = (self.number, self.most);
        match length {
            None => {
                format!("{what} {number} has more than {most} bytes, the maximum for a message")
            }
            Some(length) => format!(
                "{what} {number} has {length} bytes; the maximum for a message is {most}; check \
                 that the input consists of frames (a 4-byte little-endian length, then the bytes)"
            ),
        }
    }

    fn cut(&self, what: &str, wanted: usize, found: usize) -> String {
        let number = self.number;
        format!("frame {number} is truncated: expected {wanted} bytes of its {what}, got {found}")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read(input: &[u8], frames: bool, most: usize) -> Result<Vec<Vec<u8>>, String> {
        let mut reader = Reader::new(input, Framing { frames }, most);
        let (mut all, mut message) = (Vec::new(), Vec::new());
        while reader.read(&mut message)? {
            all.push(message.clone());
        }
        Ok(all)
    }

    #[test]
    fn frames_are_exact_for_every_byte() {
        let messages = [(0..=255).collect(), Vec::new(), b"\n\n".to_vec(), vec![0; 300]];
        let mut written = Vec::new();
        for message in &messages {
            Framing { frames: true }.write(&mut written, message).unwrap();
        }
        assert_eq!(written[..5], [0, 1, 0, 0, 0]);
        assert_eq!(read(&written, true, 300).unwrap(), messages);
        for end in [1, 3, written.len() - 1] {
            assert!(read(&written[..end], true, 300).unwrap_err().contains("is truncated"));
        }
        assert!(read(&written, true, 299).unwrap_err().contains("frame 4 has 300 bytes"));
        assert!(
            read(b"plain text\n", true, 99).unwrap_err().contains("check that the input consists")
        );
    }

    #[test]
    fn lines_end_with_a_line_feed_or_the_input() {
        let lines = read(b"one\n\ntwo\r\n\0\xffthree", false, 7).unwrap();
        assert_eq!(lines, [&b"one"[..], b"", b"two\r", b"\0\xffthree"]);
        assert!(
            read(b"one\n12345678\n", false, 7).unwrap_err().starts_with("line 2 has more than")
        );
        assert_eq!(read(b"1234567\n", false, 7).unwrap(), [b"1234567"]);
        assert_eq!(read(b"", false, 7).unwrap(), Vec::<Vec<u8>>::new());
    }
}
