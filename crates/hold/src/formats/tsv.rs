//! Tab-separated values: one pair per line, with the escapes of
//! [`bytes`](commonhold_terminal::bytes); exact for any bytes, and the format on a terminal.
//!
//! Files from other programs may have backslashes that are not escapes; an option reads them so.

use super::columns::{Columns, Places};
use super::delimiter::Delimiter;
use super::lines::Lines;
use super::{Flaw, Pair, ReadPairs, WritePairs, Writing};
use commonhold_terminal::bytes::{escape, hex, unescape};
use std::io::{BufRead, Write};

/// Reads pairs from TSV.
pub struct Reader<R> {
    lines: Lines<R>,
    columns: Columns,
    places: Option<Places>,
    delimiter: Delimiter,
    /// A hint at another delimiter, for the first error.
    other: String,
    escapes: bool,
}

impl<R: BufRead> Reader<R> {
    /// Reads `input`, with backslash escapes or without.
    pub fn new(input: R, columns: Columns, delimiter: Delimiter, escapes: bool) -> Self {
        let (lines, other) = (Lines::new(input), String::new());
        Reader { lines, columns, places: None, delimiter, other, escapes }
    }

    fn row(&self) -> Vec<&[u8]> {
        self.lines.text().split(|b| *b == self.delimiter.0).collect()
    }

    /// Finds the columns, by the header if there is one.
    fn find_places(&mut self) -> std::result::Result<Places, Flaw> {
        if self.columns.has_header() {
            self.lines.next()?;
            self.other = self.delimiter.hint(&self.row());
        }
        self.columns.find(&self.row(), &self.other)
    }

    fn take(&self, field: &[u8], out: &mut Vec<u8>) -> std::result::Result<(), Flaw> {
        out.clear();
        if !self.escapes {
            out.extend_from_slice(field);
            return Ok(());
        }
        unescape(field, out).map_err(|what| {
            Flaw::Record(format!(
                "{what}; if backslashes are not escapes in this file, add --no-escapes"
            ))
        })
    }
}

impl<R: BufRead> ReadPairs for Reader<R> {
    fn read(&mut self, pair: &mut Pair) -> std::result::Result<bool, Flaw> {
        let places = match self.places {
            Some(places) => places,
            None => self.find_places()?,
        };
        let is_first = self.places.is_none() && !self.columns.has_header();
        self.places = Some(places);
        if !self.lines.next()? {
            return Ok(false);
        }
        if is_first {
            self.other = self.delimiter.hint(&self.row());
        }
        let row = self.row();
        let (key, value) = match places.pick(&row) {
            Ok(picked) => picked,
            Err(what) => {
                return Err(Flaw::Record(format!("{what}{}", std::mem::take(&mut self.other))));
            }
        };
        self.take(key, &mut pair.key)?;
        self.take(value, &mut pair.value)?;
        Ok(true)
    }

    fn line(&self) -> u64 {
        self.lines.number()
    }
}

/// Writes TSV.
pub struct Writer {
    writing: Writing,
    line: String,
}

impl Writer {
    /// A writer with the options `writing`.
    pub fn new(writing: Writing) -> Self {
        Writer { writing, line: String::new() }
    }

    fn add(&mut self, field: &[u8]) {
        match self.writing.hex {
            true => self.line.push_str(&hex(field)),
            false => escape(field, &mut self.line),
        }
    }

    fn end(&mut self, out: &mut dyn Write) -> std::io::Result<()> {
        self.line.push('\n');
        let written = out.write_all(self.line.as_bytes());
        self.line.clear();
        written
    }
}

impl WritePairs for Writer {
    fn begin(&mut self, out: &mut dyn Write) -> std::io::Result<()> {
        if self.writing.header { out.write_all(b"key\tvalue\n") } else { Ok(()) }
    }

    fn write(&mut self, out: &mut dyn Write, key: &[u8], value: &[u8]) -> std::io::Result<()> {
        self.add(key);
        self.line.push('\t');
        self.add(value);
        self.end(out)
    }

    fn write_key(&mut self, out: &mut dyn Write, key: &[u8]) -> std::io::Result<()> {
        self.add(key);
        self.end(out)
    }
}
