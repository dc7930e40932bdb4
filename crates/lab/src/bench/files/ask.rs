//! The requests: one for each id, in memory before the measurement begins, and the choice of the
//! next one.

use super::content::Content;
use super::http;
use super::layout::{Found, Layout};
use super::protocol::Protocol;
use super::zipf::Zipf;
use crate::workload::{Result, RunError, random::Permutation};
use commonhold_terminal::bytes::escaped;
use commonhold_terminal::interrupt::Interrupt;
use indicatif::ProgressBar;
use std::path::{Path, PathBuf};

/// The number of different unknown ids to request.
const UNKNOWN: usize = 1024;

/// One request that may be sent any number of times.
pub struct Request {
    /// The id, for people.
    pub id: String,
    /// The bytes to send.
    pub wire: Box<[u8]>,
    /// The expected answer; `None` if the id is unknown.
    pub content: Option<Content>,
}

/// Options of the requests.
#[derive(clap::Args, Clone, Debug)]
#[command(next_help_heading = "The requests")]
pub struct Asking {
    /// The directory's layout
    #[arg(long, value_enum, default_value_t = Layout::Tree)]
    pub layout: Layout,

    /// The client's protocol
    #[arg(long, value_enum, default_value_t = Protocol::Http)]
    pub protocol: Protocol,

    /// Request the file of rank K with a frequency proportional to 1 / K^S; with S = 0, all files
    /// are requested equally often
    #[arg(long, value_name = "S", default_value_t = 0.0)]
    pub zipf: f64,

    /// Percentage of requests for ids that do not exist
    #[arg(long, value_name = "PERCENT", default_value_t = 0.0)]
    pub unknown: f64,

    /// Request only N of the files, chosen at random
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u64).range(1..))]
    pub limit_files: Option<u64>,

    /// Seed for the random order
    #[arg(long, value_name = "N", default_value_t = 1)]
    pub seed: u64,

    /// Open a new HTTP connection for each request, as the simple protocol always does
    #[arg(long)]
    pub no_keep_alive: bool,
}

/// All requests.
pub struct Requests {
    all: Vec<Request>,
    /// The first ones, in this number, are for files.
    known: usize,
    zipf: Option<Zipf>,
    /// Of 0 to 1.
    unknown: f64,
    /// Bytes of all files.
    pub bytes: u64,
    /// Files or folders that cannot be requested.
    pub left_out: u64,
}

impl Asking {
    /// # Errors
    /// Invalid options.
    pub fn validate(&self) -> Result<()> {
        if !self.zipf.is_finite() || self.zipf < 0.0 {
            return Err(RunError::new("expected a --zipf of 0 or more, such as 0.99"));
        }
        if !(0.0..=100.0).contains(&self.unknown) {
            return Err(RunError::new("expected a percentage from 0 to 100 for --unknown"));
        }
        Ok(())
    }

    /// Whether a connection serves more than one request.
    pub fn keeps_alive(&self) -> bool {
        self.protocol == Protocol::Http && !self.no_keep_alive
    }

    /// Reads the files of `directory` and prepares a request for each.
    pub fn prepare(
        &self,
        directory: &Path,
        interrupt: &Interrupt,
        progress: &ProgressBar,
    ) -> Result<Requests> {
        let found = self.layout.find(directory)?;
        let ids = self.choose(&found);
        if ids.is_empty() {
            return Err(self.nothing(directory));
        }
        let left_out = found.left_out + (found.files.len() - self.askable(&found).len()) as u64;
        let (mut all, mut bytes, mut piece) = (Vec::new(), 0, Vec::new());
        progress.set_length(ids.len() as u64);
        for (id, path) in ids {
            let content = Content::of_file(path, &mut piece)?;
            bytes += content.bytes;
            all.push(self.request(id, Some(content)));
            progress.inc(1);
            if interrupt.came() {
                return Err(RunError::Interrupted);
            }
        }
        progress.finish_and_clear();
        let known = all.len();
        if self.unknown > 0.0 {
            all.extend(self.invent(&found).iter().map(|id| self.request(id, None)));
        }
        let (zipf, unknown) = (Zipf::new(known, self.zipf), self.unknown / 100.0);
        Ok(Requests { all, known, zipf, unknown, bytes, left_out })
    }

    /// Files whose id the protocol can carry.
    fn askable<'a>(&self, found: &'a Found) -> Vec<(&'a Vec<u8>, &'a PathBuf)> {
        let simple = self.protocol == Protocol::Simple;
        found.files.iter().filter(|(id, _)| !(simple && id.contains(&b'\n'))).collect()
    }

    /// In an order that does not depend on names; the first one is the most popular.
    fn choose<'a>(&self, found: &'a Found) -> Vec<(&'a Vec<u8>, &'a PathBuf)> {
        let askable = self.askable(found);
        let count = askable.len() as u64;
        let order = Permutation::new(count, self.seed);
        let wanted = self.limit_files.unwrap_or(count).min(count);
        (0..wanted).map(|rank| askable[order.at(rank) as usize]).collect()
    }

    fn invent(&self, found: &Found) -> Vec<Vec<u8>> {
        let mut rng = fastrand::Rng::with_seed(self.seed);
        let ids = std::iter::repeat_with(|| self.layout.invent(&mut rng));
        ids.filter(|id| !found.files.contains_key(id)).take(UNKNOWN).collect()
    }

    fn request(&self, id: &[u8], content: Option<Content>) -> Request {
        let wire = match (self.protocol, self.layout) {
            (Protocol::Http, _) => http::request(id, "localhost", self.keeps_alive()),
            // A fixed length needs no terminator.
            (Protocol::Simple, Layout::Zotero) => id.into(),
            (Protocol::Simple, Layout::Tree) => [id, b"\n"].concat().into(),
        };
        Request { id: escaped(id), wire, content }
    }

    fn nothing(&self, directory: &Path) -> RunError {
        let wanted = match self.layout {
            Layout::Tree => "files",
            Layout::Zotero => {
                "folders named by 8 characters of A-Z0-9 with one .pdf in each (--layout zotero)"
            }
        };
        RunError::new(format!(
            "{} has no {wanted}; 'hold bench files --make 1000 --layout {} DIR' creates some for \
             tests",
            directory.display(),
            self.layout.name()
        ))
    }
}

impl Requests {
    /// The number of the next one.
    #[inline]
    pub fn draw(&self, rng: &mut fastrand::Rng) -> usize {
        if self.unknown > 0.0 && rng.f64() < self.unknown {
            return rng.usize(self.known..self.all.len());
        }
        match &self.zipf {
            Some(zipf) => zipf.draw(rng),
            None => rng.usize(..self.known),
        }
    }

    /// Request `number`.
    #[inline]
    pub fn at(&self, number: usize) -> &Request {
        &self.all[number]
    }

    /// How many files there are.
    pub fn files(&self) -> usize {
        self.known
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use clap::Parser;

    #[derive(Parser)]
    struct Line {
        #[command(flatten)]
        asking: Asking,
    }

    fn asking(options: &[&str]) -> Asking {
        let line = std::iter::once("files").chain(options.iter().copied());
        Line::try_parse_from(line).unwrap().asking
    }

    fn prepared(asking: &Asking, count: usize) -> Requests {
        let folder = tempfile::tempdir().unwrap();
        for number in 0..count {
            std::fs::write(folder.path().join(format!("{number:04}")), vec![b'x'; number]).unwrap();
        }
        asking.prepare(folder.path(), &Interrupt::default(), &ProgressBar::hidden()).unwrap()
    }

    #[test]
    fn unknown_ids_are_mixed_in_as_often_as_wanted() {
        let requests = prepared(&asking(&["--unknown", "25"]), 50);
        let mut rng = fastrand::Rng::with_seed(1);
        let drawn: Vec<usize> = (0..40_000).map(|_| requests.draw(&mut rng)).collect();
        let unknown = drawn.iter().filter(|n| requests.at(**n).content.is_none()).count();
        assert!((9_500..10_500).contains(&unknown), "{unknown}");
        assert!((0..50).all(|known| drawn.contains(&known)), "every file is requested");
    }

    #[test]
    fn a_seed_chooses_the_same_files_again() {
        let ids = |seed: &str| -> Vec<String> {
            let requests = prepared(&asking(&["--limit-files", "5", "--seed", seed]), 100);
            (0..requests.files()).map(|n| requests.at(n).id.clone()).collect()
        };
        assert_eq!(ids("7").len(), 5);
        assert_eq!(ids("7"), ids("7"));
        assert_ne!(ids("7"), ids("8"));
    }

    #[test]
    fn ids_are_written_in_the_form_of_the_protocol() {
        let wire = |options: &[&str]| {
            let wire = asking(options).request(b"ABCD0123", None).wire;
            String::from_utf8(wire.into_vec()).unwrap()
        };
        assert_eq!(wire(&["--protocol", "simple"]), "ABCD0123\n");
        assert_eq!(wire(&["--protocol", "simple", "--layout", "zotero"]), "ABCD0123");
        assert!(wire(&["--no-keep-alive"]).contains("Connection: close\r\n"));
        assert!(wire(&[]).starts_with("GET /ABCD0123 HTTP/1.1\r\nHost: localhost\r\n\r\n"));
    }
}
