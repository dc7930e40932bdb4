//! The report of a bridge about itself, which `hold stat` and the metrics show.

use crate::server::Link;
use commonhold::{Hold, Result};
use commonhold_io::reports::Reporter;
use serde::Serialize;

/// A bridge's state and its counts since it began.
#[derive(Clone, Debug, Default, Serialize)]
#[non_exhaustive]
pub struct BridgeStatus {
    /// The process.
    pub pid: u32,
    /// `mirror`, `publish`, `send` or `receive`.
    pub direction: String,
    /// The bucket or the subject.
    pub remote: String,
    /// The servers that its options name.
    pub servers: String,
    /// Whether the connection is there.
    pub connected: bool,
    /// Whether both sides have been equal since it began.
    pub ready: bool,
    /// Messages that one side has and the other does not show yet, approximately.
    pub lag_messages: u64,
    /// The age of the older side, in milliseconds.
    pub lag_ms: u64,
    /// Messages whose acknowledgement is not there yet.
    pub in_flight: u64,
    /// Messages that it has brought to the other side.
    pub messages: u64,
    /// Times that it read or compared everything.
    pub synchronisations: u64,
    /// Messages that the other side never gets: a channel overwrote them.
    pub missed: u64,
    /// Times that a lost connection was made again.
    pub reconnects: u64,
    /// The last error, of the connection or of a session.
    pub last_error: Option<String>,
}

/// Keeps the status of one bridge, and writes it into the hold.
#[derive(Debug)]
pub(crate) struct StatusReport {
    pub(crate) status: BridgeStatus,
    link: Link,
    reporter: Reporter,
}

impl StatusReport {
    /// For a map, a channel or a queue of this name.
    pub(crate) fn new(
        hold: &Hold,
        name: &str,
        direction: &str,
        remote: &str,
        link: &Link,
    ) -> Result<StatusReport> {
        let status = BridgeStatus {
            pid: std::process::id(),
            direction: direction.to_owned(),
            remote: remote.to_owned(),
            servers: link.servers().to_owned(),
            ..BridgeStatus::default()
        };
        let reporter = Reporter::new(hold, "bridge", name)?;
        Ok(StatusReport { status, link: link.clone(), reporter })
    }

    /// The present status.
    pub(crate) fn present(&mut self) -> &BridgeStatus {
        let status = &mut self.status;
        status.connected = self.link.is_connected();
        status.reconnects = self.link.reconnects();
        if status.last_error.is_none() {
            status.last_error = self.link.last_error();
        }
        status
    }

    /// Writes the status if a second has passed, or if `at_once`.
    pub(crate) fn write(&mut self, at_once: bool) {
        self.present();
        let status = &self.status;
        self.reporter.report(at_once, || status);
    }
}
