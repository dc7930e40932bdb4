//! Comma-separated values, as RFC 4180 has them: quoted fields may hold anything.
//!
//! The `csv` crate does the reading, and accepts any bytes. The writer refuses bytes that are not
//! UTF-8, unless an option says to write them unchanged, because most readers of CSV would corrupt
//! them.

use super::columns::{Columns, Places};
use super::delimiter::Delimiter;
use super::{Flaw, Pair, ReadPairs, WritePairs, Writing, unfit};
use commonhold_terminal::text::shown;
use csv::ByteRecord;
use std::io::{BufRead, Chain, Write};

/// A line after the last one. If a quoted field swallows it, its quote was never closed.
const END: &[u8] = b"\n\x1fhold: the end of the pairs\x1f\n";

/// Reads pairs from CSV.
pub struct Reader<R> {
    csv: csv::Reader<Chain<R, &'static [u8]>>,
    columns: Columns,
    places: Option<Places>,
    delimiter: Delimiter,
    /// A hint at another delimiter, for the first error.
    other: String,
    record: ByteRecord,
    line: u64,
}

impl<R: BufRead> Reader<R> {
    /// Reads `input`.
    pub fn new(input: R, columns: Columns, delimiter: Delimiter) -> Self {
        let mut builder = csv::ReaderBuilder::new();
        builder.has_headers(false).flexible(true).delimiter(delimiter.0);
        let (csv, other) = (builder.from_reader(input.chain(END)), String::new());
        Reader { csv, columns, places: None, delimiter, other, record: ByteRecord::new(), line: 1 }
    }

    fn next(&mut self) -> std::result::Result<bool, Flaw> {
        let more = self.csv.read_byte_record(&mut self.record).map_err(|error| {
            match error.into_kind() {
                csv::ErrorKind::Io(error) => Flaw::Stream(error),
                other => Flaw::Stream(std::io::Error::other(format!("{other:?}"))),
            }
        })?;
        if let Some(position) = self.record.position() {
            self.line = position.line();
        }
        match self.record.iter().next_back() {
            Some(last) if more && last.ends_with(END) => Err(Flaw::Record(
                "a quoted field in this record is never closed (a quote within is written \"\")"
                    .to_owned(),
            )),
            Some(last) if more && self.record.len() == 1 => Ok(last != END.trim_ascii()),
            _ => Ok(more),
        }
    }

    fn row(&self) -> Vec<&[u8]> {
        self.record.iter().collect()
    }

    /// Finds the columns, by the header if there is one.
    fn find_places(&mut self) -> std::result::Result<Places, Flaw> {
        if self.columns.has_header() {
            if !self.next()? {
                self.record.clear();
            }
            self.other = self.delimiter.hint(&self.row());
        }
        self.columns.find(&self.row(), &self.other)
    }

    /// The error in a row. A quote that is closed too late swallows lines: the error says so.
    fn flaw(&mut self, what: &str) -> Flaw {
        let swallowed = self.csv.position().line() > self.line + 1;
        let quote = if swallowed { " (check for a quote that is closed too late)" } else { "" };
        Flaw::Record(format!("{what}{quote}{}", std::mem::take(&mut self.other)))
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
        if !self.next()? {
            return Ok(false);
        }
        if is_first {
            self.other = self.delimiter.hint(&self.row());
        }
        let row = self.row();
        let (key, value) = match places.pick(&row) {
            Ok(picked) => picked,
            Err(what) => return Err(self.flaw(&what)),
        };
        pair.key.clear();
        pair.key.extend_from_slice(key);
        pair.value.clear();
        pair.value.extend_from_slice(value);
        Ok(true)
    }

    fn line(&self) -> u64 {
        self.line
    }
}

/// Writes CSV.
pub struct Writer {
    writing: Writing,
    line: Vec<u8>,
}

impl Writer {
    /// A writer with the options `writing`.
    pub fn new(writing: Writing) -> Self {
        Writer { writing, line: Vec::new() }
    }

    fn put(&mut self, out: &mut dyn Write, fields: &[&[u8]]) -> std::io::Result<()> {
        self.line.clear();
        for (place, field) in fields.iter().enumerate() {
            if place > 0 {
                self.line.push(b',');
            }
            if !self.writing.raw && std::str::from_utf8(field).is_err() {
                return Err(not_text(field, fields[0]));
            }
            // An empty line is not a record, so a lone empty field is quoted.
            put_field(&mut self.line, field, fields.len() == 1);
        }
        self.line.push(b'\n');
        out.write_all(&self.line)
    }
}

fn put_field(line: &mut Vec<u8>, field: &[u8], alone: bool) {
    let breaks = |b: &u8| matches!(b, b',' | b'"' | b'\n' | b'\r');
    // Only quoted fields keep spaces at their ends in every reader; an unquoted byte order mark at
    // the beginning of the file would count as the file's own.
    let trimmed = field.first() == Some(&b' ') || field.last() == Some(&b' ');
    let marked = field.starts_with(b"\xef\xbb\xbf");
    if !(field.iter().any(breaks) || trimmed || marked || (alone && field.is_empty())) {
        return line.extend_from_slice(field);
    }
    line.push(b'"');
    for byte in field {
        if *byte == b'"' {
            line.push(b'"');
        }
        line.push(*byte);
    }
    line.push(b'"');
}

fn not_text(field: &[u8], key: &[u8]) -> std::io::Error {
    let which = if std::ptr::eq(field, key) { "the key" } else { "the value of key" };
    unfit(format!(
        "{which} '{}' has bytes that are not UTF-8, which CSV readers corrupt; use --format json, \
         tsv or nul, or add --raw to write them unchanged",
        shown(key)
    ))
}

impl WritePairs for Writer {
    fn begin(&mut self, out: &mut dyn Write) -> std::io::Result<()> {
        if self.writing.header { out.write_all(b"key,value\n") } else { Ok(()) }
    }

    fn write(&mut self, out: &mut dyn Write, key: &[u8], value: &[u8]) -> std::io::Result<()> {
        self.put(out, &[key, value])
    }

    fn write_key(&mut self, out: &mut dyn Write, key: &[u8]) -> std::io::Result<()> {
        self.put(out, &[key])
    }
}
