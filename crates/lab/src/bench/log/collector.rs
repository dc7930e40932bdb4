//! The process that collects: verifies every line on its way to the file.

use super::super::crew;
use super::LOG;
use super::line::{Line, Tally, writer_of};
use crate::workload::{Result, RunError, board::Board, clock::now_ns};
use commonhold::Hold;
use commonhold::log::LogLine;
use serde::{Deserialize, Serialize};
use std::fs::File;
use std::io::Write;
use std::path::PathBuf;
use std::sync::mpsc::{self, Sender};

/// The word of the board that says that no more lines come.
pub const STOP: u64 = 0;

/// The orders of the collector.
#[derive(Serialize, Deserialize)]
pub struct Job {
    /// The shared hold.
    pub hold: PathBuf,
    /// The board with the word [`STOP`].
    pub board: PathBuf,
    /// The file for the lines.
    pub file: PathBuf,
    /// How many writers there are.
    pub writers: u32,
    /// Bytes of a line.
    pub line_bytes: usize,
}

/// The report of the collector.
#[derive(Serialize, Deserialize)]
pub struct Delivered {
    /// The lines of each writer.
    pub each: Vec<Tally>,
    /// Lines that the log reports as missing before others.
    pub lost: u64,
    /// Lines that came after younger ones had been delivered.
    pub late: u64,
    /// Bytes of text.
    pub bytes: u64,
    /// When the last line was delivered.
    pub end_ns: u64,
}

/// The lines of one writer delivered so far.
struct Source {
    line: Line,
    tally: Tally,
    next: u64,
}

/// Verifies every line; sends its tally when it is dropped, together with the collector that owns
/// it.
struct Audit {
    sources: Vec<Source>,
    late: u64,
    lost: u64,
    wrong: Option<String>,
    seen: Sender<Seen>,
}

struct Seen {
    each: Vec<Tally>,
    lost: u64,
    late: u64,
    wrong: Option<String>,
}

/// A file that counts its bytes.
struct Counted {
    file: File,
    bytes: u64,
}

/// Runs the collector.
pub fn run(job: &Job) -> Result<()> {
    let board = Board::open(&job.board)?;
    let log = Hold::open(&job.hold)?.logs().open(LOG)?;
    let file = File::options().write(true).create(true).truncate(true).open(&job.file);
    let file = file.map_err(|e| RunError::new(format!("{}: {e}", job.file.display())))?;
    let (seen, recorded) = mpsc::channel();
    let mut audit = Audit::new(job, seen);
    let mut collector = log.collector()?.format(move |line, text| audit.pass(line, text));
    let mut out = Counted { file, bytes: 0 };
    crew::perform(|_| {
        // A board that cannot be read is the end of the run, too.
        collector.run(&mut out, || board.get(STOP).unwrap_or(1) != 0)?;
        let end_ns = now_ns();
        drop(collector);
        let Seen { each, lost, late, wrong } =
            recorded.recv().map_err(|_| RunError::new("the collector has reported nothing"))?;
        match wrong {
            None => Ok(Delivered { each, lost, late, bytes: out.bytes, end_ns }),
            Some(text) => Err(RunError::new(text)),
        }
    })
}

impl Audit {
    fn new(job: &Job, seen: Sender<Seen>) -> Audit {
        let source = |writer| Source {
            line: Line::new(writer, job.line_bytes),
            tally: Tally::default(),
            next: 0,
        };
        let sources = (0..job.writers).map(source).collect();
        Audit { sources, late: 0, lost: 0, wrong: None, seen }
    }

    /// Makes text of a line as the log does by itself, and verifies it.
    fn pass(&mut self, line: &LogLine, text: &mut Vec<u8>) {
        line.append_to(text);
        self.lost += u64::from(line.lost);
        self.late += u64::from(line.late);
        if line.announces.is_none() && !self.is_next(&line.text) {
            let shown = String::from_utf8_lossy(&line.text);
            self.wrong.get_or_insert_with(|| {
                format!(
                    "'{shown}' is damaged, duplicated or out of order: this is a bug; please \
                     report it"
                )
            });
        }
    }

    fn is_next(&mut self, text: &[u8]) -> bool {
        let writer = writer_of(text).map_or(usize::MAX, |writer| writer as usize);
        let Some(source) = self.sources.get_mut(writer) else { return false };
        match source.line.read(text) {
            Some(number) if number >= source.next => {
                source.next = number + 1;
                source.tally.count(number);
                true
            }
            _ => false,
        }
    }
}

impl Drop for Audit {
    fn drop(&mut self) {
        let each = self.sources.iter().map(|source| source.tally).collect();
        let (lost, late, wrong) = (self.lost, self.late, self.wrong.take());
        // There is no receiver if the run has failed already.
        let _ = self.seen.send(Seen { each, lost, late, wrong });
    }
}

impl Write for Counted {
    fn write(&mut self, bytes: &[u8]) -> std::io::Result<usize> {
        let count = self.file.write(bytes)?;
        self.bytes += count as u64;
        Ok(count)
    }

    fn flush(&mut self) -> std::io::Result<()> {
        self.file.flush()
    }
}
