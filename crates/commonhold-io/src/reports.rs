//! Reports of origins, replicas, journals, bridges and file servers about themselves, for every
//! process that has the hold open (`hold stat`). Each report is one line of JSON in a map of the
//! hold, which removes a report that was not renewed for 4 seconds.

use crate::thread_patience::with_patience;
use commonhold::map::{Map, MapOptions};
use commonhold::{ErrorKind, Hold, Result};
use serde::Serialize;
use std::time::{Duration, Instant};

/// The map of the reports.
pub const REPORTS: &str = ".reports";
/// How often a reporter writes its report.
const EVERY: Duration = Duration::from_secs(1);
/// The age at which a report is removed: its reporter no longer runs.
const FORGET: Duration = Duration::from_secs(4);
/// No work depends on a report, so writing one waits no longer than this for a stopped process.
const MOMENT: Duration = Duration::from_millis(10);

/// Writes the report of one origin, replica, journal or server, and removes it when dropped.
#[derive(Debug)]
pub struct Reporter {
    hold: Hold,
    /// `None` while a stopped process prevents opening it.
    map: Option<Map>,
    key: String,
    due: Instant,
}

impl Reporter {
    /// A reporter for `map`. `what` is `origin`, `replica`, `journal`, `bridge`, `server` or, for
    /// a replica of a whole hold, `hold` without a map.
    ///
    /// # Errors
    /// Those of creating the map of the reports.
    pub fn new(hold: &Hold, what: &str, map: &str) -> Result<Reporter> {
        let reports = open(hold)?;
        // The number: one process may have several reporters.
        let number = fastrand::u32(..);
        let key = format!("{what} {map} {} {number:08x}", std::process::id());
        Ok(Reporter { hold: hold.clone(), map: reports, key, due: Instant::now() })
    }

    /// Writes the result of `report` if a second has passed since the last report, or if `at_once`.
    /// Waits for stopped processes for 10 ms at most.
    pub fn report<R: Serialize>(&mut self, at_once: bool, report: impl FnOnce() -> R) {
        let now = Instant::now();
        if now < self.due && !at_once {
            return;
        }
        self.due = now + EVERY;
        if self.map.is_none() {
            self.map = open(&self.hold).ok().flatten();
        }
        // A report that cannot be written is dropped: no work depends on it.
        if let (Some(map), Ok(text)) = (&self.map, serde_json::to_vec(&report())) {
            let _ = with_patience(MOMENT, || map.set(&self.key, text));
        }
    }
}

impl Drop for Reporter {
    fn drop(&mut self) {
        if let Some(map) = &self.map {
            let _ = with_patience(MOMENT, || map.delete(&self.key));
        }
    }
}

/// The map of the reports; `None` if a stopped process prevents opening it.
fn open(hold: &Hold) -> Result<Option<Map>> {
    let options = MapOptions::cache().ttl(FORGET);
    match with_patience(MOMENT, || hold.maps().open_or_create(REPORTS, options)) {
        Err(error) if error.kind() == ErrorKind::TimedOut => Ok(None),
        opened => opened.map(Some),
    }
}

/// One report.
#[derive(Clone, Debug, Serialize)]
pub struct Report {
    /// `origin`, `replica`, `journal`, `bridge`, `server`, or `hold` for a replica of a whole hold.
    pub what: String,
    /// The map of the reporter, or the source of a file server.
    pub map: String,
    /// Identifies the reporter among all that ever reported: process and a number.
    pub id: String,
    /// The report: an `OriginReport`, a `ReplicaStatus` or a `JournalStatus` of
    /// `commonhold-replicate`, a `BridgeStatus` of `commonhold-nats`, or a `ServerReport` of
    /// `commonhold-files`.
    pub says: serde_json::Value,
}

/// The reports that origins, replicas, journals and servers of a hold wrote in the last seconds,
/// sorted by kind, then map.
///
/// # Errors
/// Those of reading a map.
pub fn reports(hold: &Hold) -> Result<Vec<Report>> {
    let map = match hold.maps().open(REPORTS) {
        Ok(map) => map,
        Err(error) if error.is_not_found() => return Ok(Vec::new()),
        Err(error) => return Err(error),
    };
    let mut reports = Vec::new();
    for pair in map.iter() {
        let (key, value) = pair?;
        let key = String::from_utf8_lossy(&key).into_owned();
        // `what MAP pid number`; a map's name may have spaces.
        let parts = key.split_once(' ').and_then(|(what, rest)| {
            let (rest, number) = rest.rsplit_once(' ')?;
            let (map, pid) = rest.rsplit_once(' ')?;
            Some((what, map, format!("{pid}-{number}")))
        });
        if let (Some((what, map, id)), Ok(says)) = (parts, serde_json::from_slice(&value)) {
            reports.push(Report { what: what.to_owned(), map: map.to_owned(), id, says });
        }
    }
    reports.sort_by(|a, b| (&a.what, &a.map, &a.id).cmp(&(&b.what, &b.map, &b.id)));
    Ok(reports)
}
