//! Stores pairs, thousands at a time, and counts the stored pairs and the invalid records.

use super::{Args, OnError};
use crate::formats::{Flaw, Pair};
use crate::target::Directory;
use commonhold::ErrorKind;
use commonhold::map::Map;
use commonhold_terminal::failure::{Failure, Result as Outcome, complain};
use commonhold_terminal::sizes::things;
use indicatif::ProgressBar;
use std::io;

/// Pairs stored in one step.
const BATCH_PAIRS: usize = 4096;
/// Bytes after which a batch is stored even if it has few pairs.
const BATCH_BYTES: usize = 1 << 20;
/// The number of invalid records that are reported one by one.
const MOST_TOLD: u64 = 20;

/// A running load.
pub struct Loading<'a> {
    args: &'a Args,
    directory: &'a Directory,
    /// `None` until the map exists: the first pair that fits creates it.
    map: Option<Map>,
    source: &'a str,
    bar: &'a ProgressBar,
    batch: Vec<(u64, Pair)>,
    batch_bytes: usize,
    counts: Counts,
    /// The error of storing pairs before a wait of the reader.
    failure: Option<Failure>,
}

/// The outcome so far.
#[derive(Clone, Copy)]
pub struct Counts {
    /// The number of pairs stored.
    pub stored: u64,
    /// The number of invalid records.
    pub skipped: u64,
}

impl<'a> Loading<'a> {
    /// Loads into `map`, or into a new map if there is none, from the source of this name.
    pub fn new(
        args: &'a Args,
        directory: &'a Directory,
        map: Option<Map>,
        source: &'a str,
        bar: &'a ProgressBar,
    ) -> Loading<'a> {
        let counts = Counts { stored: 0, skipped: 0 };
        let (batch, batch_bytes, failure) = (Vec::new(), 0, None);
        Loading { args, directory, map, source, bar, batch, batch_bytes, counts, failure }
    }

    /// The outcome so far.
    pub fn counts(&self) -> Counts {
        self.counts
    }

    /// Processes the result of one read; returns false at the end of the input.
    ///
    /// # Errors
    /// Those of storing and of reading; an invalid record, unless such records are skipped.
    pub fn advance(&mut self, line: u64, read: Result<Option<Pair>, Flaw>) -> Outcome<bool> {
        match read {
            Ok(Some(pair)) => self.take(line, pair)?,
            Ok(None) => {
                self.end()?;
                return Ok(false);
            }
            Err(Flaw::Record(what)) => {
                self.store()?;
                self.flaw(line, &what)?;
            }
            Err(Flaw::Stream(error)) => {
                // Storing before the wait failed, and the reader passed the failure on.
                if let Some(failure) = self.failure.take() {
                    return Err(failure);
                }
                self.store()?;
                return Err(self.stopped(format!("{}: {error}", self.source)));
            }
        }
        Ok(true)
    }

    /// Stores the pairs that were read before a signal.
    ///
    /// # Errors
    /// Those of storing, including an earlier attempt.
    pub fn stop(&mut self) -> Outcome<()> {
        self.failure.take().map_or_else(|| self.store(), Err)
    }

    /// Stores the pairs that were read, before the reader waits. A failure ends the reading.
    pub fn store_before_wait(&mut self) -> io::Result<()> {
        self.store().map_err(|failure| {
            self.failure = Some(failure);
            io::Error::other("the pairs cannot be stored")
        })
    }

    fn take(&mut self, line: u64, pair: Pair) -> Outcome<()> {
        self.batch_bytes += pair.key.len() + pair.value.len();
        self.batch.push((line, pair));
        if self.batch.len() >= BATCH_PAIRS || self.batch_bytes >= BATCH_BYTES {
            self.store()?;
        }
        Ok(())
    }

    /// The end of the file. A file without pairs creates an empty map.
    fn end(&mut self) -> Outcome<()> {
        self.store()?;
        if self.map.is_none() && self.counts.skipped == 0 {
            self.map = Some(self.args.making.make(self.directory, &self.args.name)?);
        }
        Ok(())
    }

    /// Stores the batch.
    fn store(&mut self) -> Outcome<()> {
        let batch = std::mem::take(&mut self.batch);
        self.batch_bytes = 0;
        let mut rest = &batch[..];
        while self.map.is_none()
            && let [(line, pair), later @ ..] = rest
        {
            match self.args.making.fault(pair.key.len(), pair.value.len()) {
                Some(what) => {
                    self.flaw(*line, &what)?;
                    rest = later;
                }
                None => self.map = Some(self.args.making.make(self.directory, &self.args.name)?),
            }
        }
        if let Some(map) = self.map.clone() {
            self.store_all(&map, rest)?;
        }
        self.bar.set_message(things(self.counts.stored, "pair", "pairs"));
        Ok(())
    }

    /// Stores pairs, all in one step; if one of them does not fit the map, the others one by one.
    fn store_all(&mut self, map: &Map, batch: &[(u64, Pair)]) -> Outcome<()> {
        let mut rest = batch;
        if self.args.ttl.is_none() {
            let pairs: Vec<_> = batch.iter().map(|(_, p)| (&p.key, &p.value)).collect();
            if map.set_many(&pairs).is_ok() {
                self.counts.stored += pairs.len() as u64;
                return Ok(());
            }
            // The map stores them in order: all before the first absent pair are stored, and
            // storing them one by one finds the pair that failed.
            while first_is_stored(map, rest) {
                self.counts.stored += 1;
                rest = &rest[1..];
            }
        }
        rest.iter().try_for_each(|(line, pair)| self.store_one(map, *line, pair))
    }

    fn store_one(&mut self, map: &Map, line: u64, pair: &Pair) -> Outcome<()> {
        let stored = match self.args.ttl {
            Some(ttl) => map.set_with_ttl(&pair.key, &pair.value, ttl),
            None => map.set(&pair.key, &pair.value),
        };
        match stored {
            Ok(_) => self.counts.stored += 1,
            Err(e) if is_the_pairs_own(e.kind()) => self.flaw(line, &e.to_string())?,
            Err(e) => return Err(self.stopped(format!("{}:{line}: {e}", self.source))),
        }
        Ok(())
    }

    /// Reports an invalid record, and fails unless such records are skipped.
    fn flaw(&mut self, line: u64, what: &str) -> Outcome<()> {
        let message = format!("{}:{line}: {what}", self.source);
        if self.args.on_error == OnError::Stop {
            let skip = "add --on-error skip to continue after invalid records";
            return Err(self.stopped(format!("{message}\n{skip}")));
        }
        self.counts.skipped += 1;
        self.bar.suspend(|| match self.counts.skipped.cmp(&MOST_TOLD) {
            std::cmp::Ordering::Less => complain(&message),
            std::cmp::Ordering::Equal => {
                complain(&format!("{message}\nfurther errors are counted, but not shown"))
            }
            std::cmp::Ordering::Greater => {}
        });
        Ok(())
    }

    /// The error that ends the loading early; the pairs stored so far remain.
    fn stopped(&self, message: String) -> Failure {
        self.bar.finish_and_clear();
        let stored = things(self.counts.stored, "pair", "pairs");
        Failure::failed(format!("{message}\nstored before the error: {stored}"))
    }
}

/// Whether the first of `pairs` is in the map: its value, or that of a later one of the same key.
fn first_is_stored(map: &Map, pairs: &[(u64, Pair)]) -> bool {
    let Some((_, first)) = pairs.first() else { return false };
    let Ok(Some(value)) = map.get(&first.key) else { return false };
    pairs.iter().any(|(_, pair)| pair.key == first.key && pair.value == value)
}

/// Whether an error concerns only this pair, so that the next one may be stored.
fn is_the_pairs_own(kind: ErrorKind) -> bool {
    matches!(kind, ErrorKind::TooLarge | ErrorKind::Invalid | ErrorKind::Mismatch)
}
