//! Lines of several writers in one file.
//!
//! Workers 0 to W-1 write. The last worker ensures that everything arrives in the file, by the
//! rival's own means. burst: writers write 1000 lines at a time with pauses between, so that no
//! buffer is full. This measures the cost of a line to its writer, the front end. flood: writers
//! write as fast as they can until the last line is in the file. A writer without room waits. No
//! line may be lost; the check reads the whole file.

use std::{
    fs::File,
    io::{BufRead, BufReader},
    path::{Path, PathBuf},
    thread,
    time::{Duration, Instant},
};

use anyhow::{Context, Result, bail, ensure};

use super::{OfMessages, Quantile, Workload, tally::Tally};
use crate::{messages::Port, rival::Shape};

/// Bytes of a line, including its newline; a rival's prefix is added to it.
pub const LINE_BYTES: usize = 100;
/// Lines of a burst.
pub const BURST: u64 = 1000;
/// The pause between two bursts, in which a burst of each writer can reach the file.
pub const PAUSE: Duration = Duration::from_millis(10);
const BURSTS: u64 = 50;
const DIGITS: usize = 9;
const FILLING: u8 = b'.';

/// The file in the rival's directory.
pub fn file(site: &Path) -> PathBuf {
    site.join("lines.log")
}

/// See the module.
pub struct Log;

impl Workload for Log {
    fn name(&self) -> &'static str {
        "log"
    }

    fn phases(&self) -> &'static [&'static str] {
        &["burst", "flood"]
    }

    fn shape(&self, asked: Shape) -> Shape {
        Shape { workers: asked.workers + 1, ..asked }
    }

    fn counts(&self) -> &'static str {
        "lines"
    }

    fn rate(&self, phase: &str) -> Option<&'static str> {
        (phase == "flood").then_some("lines_per_s")
    }

    fn quantiles(&self, _phase: &str) -> &'static [Quantile] {
        &[Quantile { metric: "front_ns_per_line", quantile: 0.5, per: BURST }]
    }
}

impl OfMessages for Log {
    fn run(
        &self,
        phase: &str,
        worker: u64,
        shape: &Shape,
        port: &mut dyn Port,
        tally: &mut Tally,
    ) -> Result<()> {
        let lines = lines(phase, shape)?;
        let delivers = worker + 1 == shape.workers;
        if port.play(phase, lines, tally)? {
            return Ok(());
        }
        match phase {
            _ if delivers => port.deliver(lines * (shape.workers - 1)),
            "burst" => write_in_bursts(Line::new(phase, worker), lines, port, tally),
            _ => write(&mut Line::new(phase, worker), lines, port, tally),
        }
    }

    fn check(&self, phase: &str, worker: u64, shape: &Shape, site: &Path) -> Result<()> {
        if worker + 1 < shape.workers {
            return Ok(());
        }
        let file = File::open(file(site)).context("cannot open the lines' file")?;
        let lines = lines(phase, shape)?;
        all_there(BufReader::new(file), phase, shape.workers - 1, lines)
    }
}

/// Lines of each writer.
fn lines(phase: &str, shape: &Shape) -> Result<u64> {
    match phase {
        // Whole bursts, but a shorter one if fewer lines were requested.
        "burst" => Ok(match shape.keys / BURST {
            0 => shape.keys,
            bursts => bursts.min(BURSTS) * BURST,
        }),
        "flood" => Ok(shape.keys),
        _ => bail!("the workload log has no phase {phase:?}"),
    }
}

fn write_in_bursts(
    mut line: Line,
    lines: u64,
    port: &mut dyn Port,
    tally: &mut Tally,
) -> Result<()> {
    let mut left = lines;
    while left > 0 {
        let burst = left.min(BURST);
        let start = Instant::now();
        write(&mut line, burst, port, tally)?;
        tally.record(start.elapsed().as_nanos() as u64 * BURST / burst);
        thread::sleep(PAUSE);
        left -= burst;
    }
    Ok(())
}

fn write(line: &mut Line, count: u64, port: &mut dyn Port, tally: &mut Tally) -> Result<()> {
    for _ in 0..count {
        port.send(&line.text)?;
        line.next();
    }
    tally.operations += count;
    port.flush()
}

/// A line whose number is incremented in place, because formatting it must not be measured.
pub struct Line {
    text: [u8; LINE_BYTES],
    last_digit: usize,
}

impl Line {
    /// The first line of a writer.
    pub fn new(phase: &str, writer: u64) -> Line {
        let mut text = [FILLING; LINE_BYTES];
        let front = format!("{}{:0DIGITS$} ", front(phase, writer), 0);
        text[..front.len()].copy_from_slice(front.as_bytes());
        text[LINE_BYTES - 1] = b'\n';
        Line { text, last_digit: front.len() - 2 }
    }

    /// The current line, with its newline.
    pub fn text(&self) -> &[u8] {
        &self.text
    }

    /// The position of its number.
    pub fn digits(&self) -> std::ops::RangeInclusive<usize> {
        self.last_digit + 1 - DIGITS..=self.last_digit
    }

    #[inline]
    fn next(&mut self) {
        for digit in self.text[..=self.last_digit].iter_mut().rev() {
            if *digit < b'9' {
                *digit += 1;
                return;
            }
            *digit = b'0';
        }
    }
}

fn front(phase: &str, writer: u64) -> String {
    format!("{phase} writer {writer} line ")
}

/// Checks that every line of every writer is in the file, intact, exactly once, and in its writer's
/// order.
fn all_there(mut file: impl BufRead, phase: &str, writers: u64, lines: u64) -> Result<()> {
    let mut expected: Vec<Line> = (0..writers).map(|writer| Line::new(phase, writer)).collect();
    let mut counts = vec![0; expected.len()];
    let marker = format!("{phase} writer ");
    let mut text = Vec::new();
    while file.read_until(b'\n', &mut text).context("cannot read the lines' file")? > 0 {
        let found = text.windows(marker.len()).position(|part| part == marker.as_bytes());
        // All other lines are from another phase, or the log's own.
        if let Some(at) = found {
            let mut pairs = expected.iter_mut().zip(&mut counts);
            let Some((line, count)) = pairs.find(|(line, _)| line.text[..] == text[at..]) else {
                bail!("an unexpected line, or one in the wrong place: {}", text.escape_ascii());
            };
            line.next();
            *count += 1;
        }
        text.clear();
    }
    for (writer, count) in counts.iter().enumerate() {
        ensure!(*count == lines, "writer {writer} wrote {lines} lines, {count} are in the file");
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn text(of: &[(u64, u64)]) -> Vec<u8> {
        let line = |&(writer, number): &(u64, u64)| {
            let mut line = Line::new("flood", writer);
            (0..number).for_each(|_| line.next());
            [&b"12:00 info "[..], &line.text[..]].concat()
        };
        of.iter().flat_map(line).collect()
    }

    #[test]
    fn a_line_counts_up() {
        let mut line = Line::new("burst", 3);
        (0..1000).for_each(|_| line.next());
        assert!(line.text.starts_with(b"burst writer 3 line 000001000 ..."));
        assert_eq!(&line.text[line.digits()], b"000001000");
    }

    #[test]
    fn whole_files_are_accepted_and_others_are_not() {
        let whole = [(0, 0), (1, 0), (1, 1), (0, 1)];
        all_there(&text(&whole)[..], "flood", 2, 2).unwrap();
        all_there(&text(&whole)[..], "burst", 2, 0).unwrap();
        for broken in [&whole[..3], &[(0, 0), (0, 0), (1, 0)], &[(0, 1), (0, 0), (1, 0), (1, 1)]] {
            assert!(all_there(&text(broken)[..], "flood", 2, 2).is_err(), "{broken:?}");
        }
        let mut torn = text(&whole);
        let end = torn.len() - 5;
        torn[end] = b'!';
        assert!(all_there(&torn[..], "flood", 2, 2).is_err());
    }
}
