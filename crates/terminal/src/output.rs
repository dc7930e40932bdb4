//! Standard output: the answers of a subcommand, in the requested format.
//!
//! Invariant: answers go to standard output, everything else (progress, counts of a dump,
//! messages) to standard error; a reader that goes away ends the subcommand quietly.

use crate::failure::{Failure, Result};
use crate::text::printable_lines;
use clap::ValueEnum;
use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::io::Errno;
use serde_json::Value;
use std::io::{IsTerminal, Write};

/// The format of answers and pairs.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum Format {
    /// Human-readable text
    Text,
    /// JSON; for pairs and keys, JSON Lines (one object per line)
    Json,
    /// Comma-separated values (pairs only)
    Csv,
    /// Tab-separated values with backslash escapes that preserve all bytes (pairs only)
    Tsv,
    /// key NUL value NUL ... (pairs and keys only)
    Nul,
}

/// The output of a subcommand.
#[derive(Clone, Copy, Debug)]
pub struct Output {
    format: Option<Format>,
    quiet: bool,
}

impl Output {
    /// Answers in `format` if the command line has one.
    pub fn new(format: Option<Format>, quiet: bool) -> Output {
        Output { format, quiet }
    }

    /// The requested format, if any.
    pub fn format(&self) -> Option<Format> {
        self.format
    }

    /// Whether JSON is requested.
    pub fn is_json(&self) -> bool {
        self.format == Some(Format::Json)
    }

    /// Whether to omit reports and progress.
    pub fn is_quiet(&self) -> bool {
        self.quiet
    }

    /// The output of a subcommand that answers as text or JSON only.
    ///
    /// # Errors
    /// Usage, if another format is requested.
    pub fn text_or_json(self, subcommand: &str) -> Result<Output> {
        match self.format {
            None | Some(Format::Text | Format::Json) => Ok(self),
            Some(other) => Err(Failure::usage(format!(
                "'hold {subcommand}' prints text or json, not {}: other formats are for pairs \
                 (get, scan, dump, load)",
                other.name()
            ))),
        }
    }

    /// One JSON document, on lines of its own.
    pub fn json(&self, value: &Value) -> Result<()> {
        let mut out = std::io::stdout().lock();
        writeln!(out, "{value:#}").map_err(|e| failed("standard output", &e))
    }

    /// One JSON document on one line.
    pub fn json_line(&self, value: &Value) -> Result<()> {
        let mut out = std::io::stdout().lock();
        writeln!(out, "{value}").map_err(|e| failed("standard output", &e))
    }

    /// Human-readable text, followed by a newline.
    pub fn text(&self, text: &str) -> Result<()> {
        let mut out = std::io::stdout().lock();
        writeln!(out, "{text}").map_err(|e| failed("standard output", &e))
    }

    /// Bytes, unchanged.
    pub fn bytes(&self, bytes: &[u8]) -> Result<()> {
        let mut out = std::io::stdout().lock();
        out.write_all(bytes).and_then(|()| out.flush()).map_err(|e| failed("standard output", &e))
    }

    /// A report of the work: JSON if requested, else `text`, with control characters as escapes,
    /// except with `--quiet`.
    pub fn report(&self, json: &Value, text: &str) -> Result<()> {
        match (self.is_json(), self.quiet) {
            (true, _) => self.json(json),
            (false, true) => Ok(()),
            (false, false) => self.text(&printable_lines(text)),
        }
    }
}

impl Format {
    /// Its name in the option.
    pub fn name(self) -> &'static str {
        match self {
            Format::Text => "text",
            Format::Json => "json",
            Format::Csv => "csv",
            Format::Tsv => "tsv",
            Format::Nul => "nul",
        }
    }
}

/// Whether standard output is a terminal.
pub fn is_terminal() -> bool {
    std::io::stdout().is_terminal()
}

/// Whether the reader of standard output has gone away. A command that waits for something to write
/// checks it: `hold channel recv ... | head -1` must end with `head`, not with the next message.
pub fn reader_is_gone() -> bool {
    look_for_reader(Some(&Timespec { tv_sec: 0, tv_nsec: 0 })).unwrap_or(false)
}

/// Waits until the reader of standard output has gone away; false if that cannot be determined. A
/// terminal has gone when it has hung up.
pub fn wait_until_reader_is_gone() -> bool {
    loop {
        match look_for_reader(None) {
            Err(Errno::INTR) => {}
            found => return found.unwrap_or(false),
        }
    }
}

fn look_for_reader(timeout: Option<&Timespec>) -> std::result::Result<bool, Errno> {
    let stdout = std::io::stdout();
    let mut asked = [PollFd::new(&stdout, PollFlags::empty())];
    poll(&mut asked, timeout)?;
    Ok(asked[0].revents().contains(PollFlags::ERR))
}

/// The destination of pairs, with a name for errors.
pub struct Sink<W: Write> {
    out: std::io::BufWriter<W>,
    name: String,
}

impl Sink<std::io::Stdout> {
    /// Standard output.
    pub fn stdout() -> Self {
        Sink::new(std::io::stdout(), "standard output")
    }
}

impl<W: Write> Sink<W> {
    /// Writes to `out`, which messages call `name`.
    pub fn new(out: W, name: impl Into<String>) -> Self {
        Sink { out: std::io::BufWriter::with_capacity(1 << 16, out), name: name.into() }
    }

    /// Writes with `write`.
    pub fn put(&mut self, write: impl FnOnce(&mut dyn Write) -> std::io::Result<()>) -> Result<()> {
        write(&mut self.out).map_err(|e| failed(&self.name, &e))
    }

    /// Writes out all buffers, here and below.
    pub fn flush(&mut self) -> Result<()> {
        self.out.flush().map_err(|e| failed(&self.name, &e))
    }

    /// Writes out all buffers, here and below; returns the destination.
    pub fn finish(self) -> Result<W> {
        let name = self.name;
        let mut out = self.out.into_inner().map_err(|e| failed(&name, e.error()))?;
        out.flush().map_err(|e| failed(&name, &e))?;
        Ok(out)
    }
}

fn failed(name: &str, error: &std::io::Error) -> Failure {
    match error.kind() {
        std::io::ErrorKind::BrokenPipe => Failure::ReaderGone,
        // A pair that the format cannot carry: the text names everything.
        std::io::ErrorKind::InvalidData => Failure::failed(error),
        _ => Failure::failed(format!("{name}: {error}")),
    }
}
