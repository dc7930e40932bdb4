//! The client of all file servers: `hold bench files`, in a separate process.
//!
//! It gets only the address and the process of the server. Its output is its usual JSON. Only the
//! workload calls this module.

use std::{path::Path, process::Stdio};

use anyhow::{Context, Result, ensure};
use serde_json::Value;

use super::sets::Set;
use crate::{rivals::leash, served::Service};

/// The unit in which Linux reports processor time.
pub const TICK_SECONDS: f64 = 0.01;
/// Threads of the client, and connections of each: enough that the server never waits for them.
const THREADS: &str = "2";
const CONNECTIONS: &str = "16";

/// The client, the server and the files.
pub struct Client<'a> {
    /// `hold`.
    pub program: &'a Path,
    /// The served files.
    pub files: &'a Path,
    /// The distribution of the requests.
    pub set: &'a Set,
    /// The server.
    pub service: &'a Service,
}

/// The results, by metric.
pub struct Answers(Vec<Value>);

impl Client<'_> {
    /// Sends a number of requests, in a closed loop or at a rate per second.
    ///
    /// # Errors
    /// If a request is not answered, or if the answer differs from the file.
    pub fn ask(&self, requests: u64, rate: Option<u64>) -> Result<Answers> {
        self.request(requests, rate, self.set.zipf)
    }

    /// Sends a number of requests, uniformly for all files, even if some files are popular later.
    ///
    /// # Errors
    /// As [`Client::ask`].
    pub fn warm_up(&self, requests: u64) -> Result<()> {
        self.request(requests, None, 0.0).map(drop)
    }

    fn request(&self, requests: u64, rate: Option<u64>, zipf: f64) -> Result<Answers> {
        let words = [
            ("--address", self.service.address.clone()),
            ("--server-pid", self.service.server.pid().to_string()),
            ("--threads", THREADS.to_owned()),
            ("--connections", CONNECTIONS.to_owned()),
            ("--requests-total", requests.to_string()),
            ("--zipf", zipf.to_string()),
            ("--rate", rate.unwrap_or(0).to_string()),
        ];
        let words = words.into_iter().flat_map(|(option, value)| [option.to_owned(), value]);
        let mut said =
            files(self.program, self.files, words.chain(["--memory-unmeasured".to_owned()]))?;
        match said["results"].take() {
            Value::Array(all) => Ok(Answers(all)),
            _ => anyhow::bail!("hold bench files prints no results"),
        }
    }
}

impl Answers {
    /// The measurement of that metric.
    pub fn value(&self, metric: &str) -> Result<f64> {
        let found = self.0.iter().find(|one| one["metric"] == metric);
        let value = found.and_then(|one| one["value"].as_f64());
        value.with_context(|| format!("hold bench files does not report {metric}"))
    }
}

/// Runs `hold bench files` on a directory; returns its output.
pub fn files(
    program: &Path,
    directory: &Path,
    words: impl IntoIterator<Item = String>,
) -> Result<Value> {
    let output = leash::command(program)
        .args(["bench", "files"])
        .arg(directory)
        .args(words)
        .args(["--format", "json"])
        .stdin(Stdio::null())
        .output()
        .with_context(|| format!("cannot start {}", program.display()))?;
    let stderr = String::from_utf8_lossy(&output.stderr);
    ensure!(output.status.success(), "hold bench files: {}", stderr.trim());
    serde_json::from_slice(&output.stdout).context("expected JSON from hold bench files")
}
