//! A line for reading, its text, and short thread ids.
//!
//! ```text
//! 2026-11-21T20:04:58.123456789Z info  ab the text
//! ```

use crate::log::front::{self, Front, Mark};
use crate::log::options::LogLevel;
use std::fmt::{self, Write};

/// The number of a writing thread in a log, shown as two letters or more: `aa`, `ab`, ... `zz`,
/// `aaa`. The log announces each thread ([`LogLine::announces`]). 0, shown as `--`, is no thread.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash, PartialOrd, Ord)]
#[cfg_attr(feature = "serde", derive(serde::Serialize))]
pub struct ThreadId(pub u32);

impl fmt::Display for ThreadId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (text, len) = self.letters();
        f.pad(std::str::from_utf8(&text[..len]).unwrap_or_default())
    }
}

impl ThreadId {
    pub(crate) fn letters(self) -> ([u8; 8], usize) {
        let mut text = *b"--------";
        if self.0 == 0 {
            return (text, 2);
        }
        let (mut rest, mut count, mut digits) = (u64::from(self.0) - 1, 26 * 26, 2);
        while rest >= count {
            rest -= count;
            count *= 26;
            digits += 1;
        }
        for letter in text[..digits].iter_mut().rev() {
            *letter = b'a' + (rest % 26) as u8;
            rest /= 26;
        }
        (text, digits)
    }
}

/// Facts about a thread, which the line that announces it contains.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
#[cfg_attr(feature = "serde", derive(serde::Serialize))]
#[non_exhaustive]
pub struct ThreadInfo {
    /// Its process id, as the process sees it (another container counts differently).
    pub pid: u32,
    /// Its thread id in the system.
    pub tid: u32,
    /// The first bytes of its name.
    pub name: String,
}

impl ThreadInfo {
    /// Reads bytes of a ring, which may be damaged.
    pub(crate) fn read(bytes: &[u8]) -> ThreadInfo {
        let number = |at: usize| {
            let four = bytes.get(at..at + 4).and_then(|four| four.try_into().ok());
            u32::from_le_bytes(four.unwrap_or_default())
        };
        let name = bytes.get(8..).unwrap_or_default();
        let end = name.iter().position(|&byte| byte == 0).unwrap_or(name.len());
        let name = String::from_utf8_lossy(&name[..end.min(16)]).into_owned();
        ThreadInfo { pid: number(0), tid: number(4), name }
    }
}

/// A line of a log.
#[derive(Clone, Debug, Default)]
#[cfg_attr(feature = "serde", derive(serde::Serialize))]
pub struct LogLine {
    /// The time of writing, in nanoseconds since 1970 by its writer's clock; up to 4 us earlier.
    pub time_ns: u64,
    /// Its level; `None` for lines of the log itself.
    pub level: Option<LogLevel>,
    /// The thread that wrote it.
    pub thread: ThreadId,
    /// True if later lines were returned before it: its writer was held up for longer than the
    /// hold-back, or its clock is behind.
    pub late: bool,
    /// The number of lines of this ring that are missing before it: dropped or overwritten.
    pub lost: u32,
    /// True if a collector has it already. (Dumps only.)
    pub collected: bool,
    /// The thread that the line announces, if it announces one.
    pub announces: Option<ThreadInfo>,
    /// The text, without a line end.
    pub text: Vec<u8>,
}

impl LogLine {
    /// Appends the line with time, level, thread and line end. Control characters in it, except
    /// tabs, are escaped as in `\n` and `\x1b`. Lines lost before it are reported in a line of
    /// their own.
    pub fn append_to(&self, out: &mut Vec<u8>) {
        self.append_with(&mut Front::default(), out);
    }

    /// The same, for a caller that keeps `front` from line to line.
    pub(crate) fn append_with(&self, front: &mut Front, out: &mut Vec<u8>) {
        if self.lost > 0 {
            front.append(self.time_ns, Mark::Lost, self.thread, out);
            let lines = if self.lost == 1 { "line was" } else { "lines were" };
            let _ = writeln!(Bytes(out), "{} {lines} dropped or overwritten here", self.lost);
        }
        if let Some(ThreadInfo { pid, tid, name }) = &self.announces {
            front.append(self.time_ns, Mark::Own, self.thread, out);
            let id = self.thread;
            let _ = writeln!(Bytes(out), "thread {id} = pid {pid} tid {tid} name {name}");
            return;
        }
        let text = self.text.strip_suffix(b"\n").unwrap_or(&self.text);
        // For all of the line, if nothing of it has to be escaped.
        out.reserve(front::MOST + text.len() + 1);
        front.append(self.time_ns, self.level.map_or(Mark::Own, Mark::Level), self.thread, out);
        if self.late {
            out.extend_from_slice(b"(late) ");
        }
        append_text(out, text);
        out.push(b'\n');
    }
}

/// Appends the text as one line: control characters, except tabs, as `\n`, `\r` or `\x1b`. So no
/// text can pass for a line of its own, or send commands to a terminal.
fn append_text(out: &mut Vec<u8>, mut text: &[u8]) {
    while let Some(at) = first_control(text) {
        out.extend_from_slice(&text[..at]);
        out.extend(std::ascii::escape_default(text[at]));
        text = &text[at + 1..];
    }
    out.extend_from_slice(text);
}

/// The position of the first control character except tabs.
fn first_control(text: &[u8]) -> Option<usize> {
    let is_control = |byte: &u8| (*byte < b' ' && *byte != b'\t') | (*byte == 0x7f);
    // Without a branch per byte, so that the processor compares sixteen at a time.
    let any = |bytes: &[u8; 16]| bytes.iter().fold(false, |any, byte| any | is_control(byte));
    let (chunks, _) = text.as_chunks::<16>();
    let clean = chunks.iter().take_while(|bytes| !any(bytes)).count() * 16;
    text[clean..].iter().position(is_control).map(|at| clean + at)
}

/// A vector of bytes to format into.
struct Bytes<'a>(&'a mut Vec<u8>);

impl Write for Bytes<'_> {
    fn write_str(&mut self, text: &str) -> fmt::Result {
        self.0.extend_from_slice(text.as_bytes());
        Ok(())
    }
}

/// A short text without allocation.
pub(crate) struct Short {
    bytes: [u8; 1024],
    len: usize,
}

impl Short {
    pub(crate) fn new() -> Short {
        Short { bytes: [0; 1024], len: 0 }
    }

    pub(crate) fn bytes(&self) -> &[u8] {
        &self.bytes[..self.len]
    }

    /// Appends as much as fits; false if that was not all.
    fn push(&mut self, bytes: &[u8]) -> bool {
        let count = bytes.len().min(self.bytes.len() - self.len);
        self.bytes[self.len..self.len + count].copy_from_slice(&bytes[..count]);
        self.len += count;
        count == bytes.len()
    }
}

impl Write for Short {
    fn write_str(&mut self, text: &str) -> fmt::Result {
        if self.push(text.as_bytes()) { Ok(()) } else { Err(fmt::Error) }
    }
}

/// The text of a line that goes straight to standard error; cut if it is long.
pub(crate) fn direct(out: &mut Short, time_ns: u64, level: LogLevel, thread: u32, bytes: &[u8]) {
    out.push(Front::default().of(time_ns, Mark::Level(level), ThreadId(thread)));
    let bytes = bytes.strip_suffix(b"\n").unwrap_or(bytes);
    if !out.push(bytes) {
        out.len -= 4;
        out.push("...".as_bytes());
    }
    out.push(b"\n");
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_line_stays_one_line_and_orders_nothing() {
        let text = b"a\tb\x1b[31m\r\nc\x7f\0\xff\n".to_vec();
        let mut out = Vec::new();
        LogLine { text, level: Some(LogLevel::Info), ..LogLine::default() }.append_to(&mut out);
        let shown = b"1970-01-01T00:00:00.000000000Z info  -- a\tb\\x1b[31m\\r\\nc\\x7f\\x00\xff\n";
        assert_eq!(out.escape_ascii().to_string(), shown.escape_ascii().to_string());
    }

    #[test]
    fn control_characters_are_found_wherever_they_are() {
        for len in 0..70 {
            let mut text = vec![b'\t'; len];
            assert_eq!(first_control(&text), None);
            for at in (0..len).rev() {
                for control in [0, 8, 10, 31, 127] {
                    text[at] = control;
                    assert_eq!(first_control(&text), Some(at));
                }
            }
            for plain in [b' ', b'~', 128, 255] {
                assert_eq!(first_control(&vec![plain; len]), None);
            }
        }
    }

    #[test]
    fn threads_have_two_letters_or_more_and_all_differ() {
        let text = |n| ThreadId(n).to_string();
        assert_eq!((text(0), text(1), text(2)), ("--".into(), "aa".into(), "ab".into()));
        assert_eq!((text(27), text(676), text(677)), ("ba".into(), "zz".into(), "aaa".into()));
        assert_eq!(text(u32::MAX).len(), 7);
        let all: std::collections::BTreeSet<_> = (1..20_000).map(text).collect();
        assert_eq!(all.len(), 19_999);
    }

    #[test]
    fn long_texts_are_cut_and_marked() {
        let mut short = Short::new();
        direct(&mut short, 0, LogLevel::Warn, 1, &[b'x'; 2000]);
        assert_eq!(short.bytes().len(), 1024 - 1 + 1);
        assert!(short.bytes().ends_with(b"x...\n"));
        let mut short = Short::new();
        direct(&mut short, 0, LogLevel::Warn, 1, b"text\n");
        assert_eq!(short.bytes(), b"1970-01-01T00:00:00.000000000Z warn  aa text\n");
    }
}
