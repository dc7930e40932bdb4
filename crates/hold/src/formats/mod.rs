//! The formats of pairs and messages outside of a hold: the four formats that `load` reads and
//! `dump` writes, and the frames of messages.
//!
//! - [`csv`], [`tsv`], [`json`], [`nul`]: one format each, its reader and its writer
//! - [`frames`]: messages one after the other, as lines or with their lengths
//! - [`columns`]: which fields of a row are key and value; [`delimiter`]: what separates them
//! - [`lines`]: the lines of JSON and TSV
//!
//! Invariant: the reader of a format restores exactly the bytes that its writer has written; bytes
//! that a format cannot carry are an error that names another format.

pub mod columns;
pub mod csv;
pub mod delimiter;
pub mod frames;
pub mod json;
pub mod lines;
pub mod nul;
pub mod tsv;

use columns::Columns;
use commonhold_terminal::failure::{Failure, Result};
use commonhold_terminal::output::{Format, Output};
use delimiter::Delimiter;
use std::io::{BufRead, Write};
use std::path::Path;

/// One key with its value, reused from record to record.
#[derive(Default, Clone, Debug, PartialEq, Eq)]
pub struct Pair {
    /// The key.
    pub key: Vec<u8>,
    /// The value.
    pub value: Vec<u8>,
}

/// Why a record could not be read.
#[derive(Debug)]
pub enum Flaw {
    /// This record is invalid; the ones after it can be read.
    Record(String),
    /// Reading cannot continue.
    Stream(std::io::Error),
}

impl From<std::io::Error> for Flaw {
    fn from(error: std::io::Error) -> Self {
        Flaw::Stream(error)
    }
}

/// Reads pairs from a file of one format.
pub trait ReadPairs {
    /// Reads the next pair into `pair`; false at the end of the file.
    fn read(&mut self, pair: &mut Pair) -> std::result::Result<bool, Flaw>;

    /// The place of the record just read: the number of its line, or its own number in formats
    /// without lines.
    fn line(&self) -> u64;
}

/// Writes pairs in one format.
pub trait WritePairs {
    /// Writes what precedes the first pair.
    fn begin(&mut self, _out: &mut dyn Write) -> std::io::Result<()> {
        Ok(())
    }

    /// Writes one pair.
    ///
    /// # Errors
    /// Those of `out`; [`unfit`] if the format cannot carry the pair.
    fn write(&mut self, out: &mut dyn Write, key: &[u8], value: &[u8]) -> std::io::Result<()>;

    /// Writes one key alone.
    fn write_key(&mut self, out: &mut dyn Write, key: &[u8]) -> std::io::Result<()>;
}

/// Options of a reader.
#[derive(Clone, Debug)]
pub struct Reading {
    /// The format of the file.
    pub format: Format,
    /// Which fields are key and value.
    pub columns: Columns,
    /// The character that separates fields, if it is not the default of the format.
    pub delimiter: Option<Delimiter>,
    /// Whether TSV has backslash escapes.
    pub escapes: bool,
}

impl Reading {
    /// Fails with a usage error if the options do not fit the format.
    pub fn ensure_sound(&self) -> Result<()> {
        self.open(Box::new(std::io::empty())).map(drop)
    }

    /// A reader of `input`.
    ///
    /// # Errors
    /// Usage, if the options do not fit the format.
    pub fn open<'a>(&self, input: Box<dyn BufRead + 'a>) -> Result<Box<dyn ReadPairs + 'a>> {
        let (columns, delimiter) = (self.columns.clone(), self.delimiter);
        if delimiter.is_some() && !matches!(self.format, Format::Csv | Format::Tsv) {
            return Err(Failure::usage("--delimiter applies only to csv and tsv"));
        }
        Ok(match self.format {
            Format::Csv => {
                let delimiter = delimiter.unwrap_or(Delimiter::COMMA);
                Box::new(csv::Reader::new(input, columns, delimiter))
            }
            Format::Tsv => {
                let delimiter = delimiter.unwrap_or(Delimiter::TAB);
                Box::new(tsv::Reader::new(input, columns, delimiter, self.escapes))
            }
            Format::Json => Box::new(json::Reader::new(input, self.columns.names()?)),
            Format::Nul => Box::new(nul::Reader::new(input, self.columns.none_for_nul()?)),
            Format::Text => {
                return Err(Failure::usage(
                    "--format text applies only to output; use csv, tsv, json or nul for input",
                ));
            }
        })
    }
}

/// Options of a writer.
#[derive(Clone, Copy, Debug, Default)]
pub struct Writing {
    /// Name the columns in a first line (CSV and TSV).
    pub header: bool,
    /// In CSV, write bytes that are not UTF-8 unchanged.
    pub raw: bool,
    /// Write keys and values as hexadecimal digits (text only).
    pub hex: bool,
}

impl Writing {
    /// A writer of `format`.
    ///
    /// # Errors
    /// Usage, if the options do not fit the format.
    pub fn open(self, format: Format) -> Result<Box<dyn WritePairs>> {
        if self.header && !matches!(format, Format::Csv | Format::Tsv | Format::Text) {
            return Err(Failure::usage("--header applies only to csv and tsv"));
        }
        if self.raw && format != Format::Csv {
            return Err(Failure::usage("--raw applies only to csv"));
        }
        if self.hex && !matches!(format, Format::Text | Format::Tsv) {
            return Err(Failure::usage("--hex applies only to text"));
        }
        Ok(match format {
            Format::Csv => Box::new(csv::Writer::new(self)),
            Format::Text | Format::Tsv => Box::new(tsv::Writer::new(self)),
            Format::Json => Box::new(json::Writer),
            Format::Nul => Box::new(nul::Writer),
        })
    }
}

/// The format of the pairs in `file`, or of a stream without a name: by the name, else by
/// `--format`, if there is one.
///
/// `--format json` also selects the format of the answer, so it is valid with any name.
///
/// # Errors
/// Usage, if the name means one format and `--format` another.
pub fn of_pairs(file: Option<&Path>, output: &Output) -> Result<Option<Format>> {
    let (Some(file), asked) = (file, output.format()) else { return Ok(output.format()) };
    let named = of_file(file);
    match (named, asked) {
        (Some(named), Some(asked @ (Format::Csv | Format::Tsv | Format::Nul)))
            if named != asked =>
        {
            Err(Failure::usage(format!(
                "{} has the extension of {}, but --format is {}; omit --format, or rename the file",
                file.display(),
                named.name(),
                asked.name()
            )))
        }
        (Some(named), _) => Ok(Some(named)),
        (None, asked) => Ok(asked),
    }
}

/// The format that the name of `file` means, if any.
fn of_file(file: &Path) -> Option<Format> {
    let extension = file.extension()?.to_str()?.to_ascii_lowercase();
    match extension.as_str() {
        "csv" => Some(Format::Csv),
        "tsv" | "tab" => Some(Format::Tsv),
        "json" | "jsonl" | "ndjson" => Some(Format::Json),
        "nul" => Some(Format::Nul),
        _ => None,
    }
}

/// The error of a pair that a format cannot carry; `text` names the way out.
pub fn unfit(text: String) -> std::io::Error {
    std::io::Error::new(std::io::ErrorKind::InvalidData, text)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_name_tells_the_format_and_json_goes_with_any() {
        let of = |name, asked| of_pairs(Some(Path::new(name)), &Output::new(asked, false)).ok();
        assert_eq!(of("a.CSV", None), Some(Some(Format::Csv)));
        assert_eq!(of("a.csv", Some(Format::Json)), Some(Some(Format::Csv)));
        assert_eq!(of("a.csv", Some(Format::Csv)), Some(Some(Format::Csv)));
        assert_eq!(of("a.json", Some(Format::Tsv)), None);
        assert_eq!(of("a.txt", Some(Format::Json)), Some(Some(Format::Json)));
        assert_eq!(of("a.txt", None), Some(None));
    }
}
