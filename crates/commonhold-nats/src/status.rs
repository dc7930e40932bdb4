//! The report of a bridge about itself, which `hold stat` and the metrics show. A thread writes it
//! by the clock, also while the bridge waits for its servers.

use crate::server::{Link, locked};
use commonhold::raw::realtime_ms;
use commonhold::{Error, ErrorKind, Hold, Result};
use commonhold_io::reports::Reporter;
use serde::Serialize;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex};
use std::thread::JoinHandle;
use std::time::Duration;

/// How often the thread looks whether a report is due.
const EVERY: Duration = Duration::from_millis(200);

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
    /// How long there has been no connection, in milliseconds; 0 while there is one.
    pub disconnected_ms: u64,
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
    /// Messages that a channel overwrote before they were sent.
    pub missed: u64,
    /// Pairs or messages that were skipped, because they or their keys are too long.
    pub skipped: u64,
    /// Times that a lost connection was made again.
    pub reconnects: u64,
    /// The last error, of the connection or of a session.
    pub last_error: Option<String>,
    /// The other side has everything that this side had at this time, since 1970; 0 if unknown.
    #[serde(skip)]
    pub(crate) as_of_ms: u64,
}

/// Brings a status up to date, for the thread that writes it.
type Probe = Box<dyn Fn(&mut BridgeStatus) + Send>;

struct Shared {
    status: Mutex<BridgeStatus>,
    probe: Mutex<Option<Probe>>,
    link: Link,
    is_urgent: AtomicBool,
    is_over: AtomicBool,
}

impl Shared {
    fn present(&self) -> BridgeStatus {
        let mut status = locked(&self.status);
        status.connected = self.link.is_connected();
        status.reconnects = self.link.reconnects();
        status.disconnected_ms = milliseconds(self.link.disconnected());
        if let Some(probe) = &*locked(&self.probe) {
            probe(&mut status);
        }
        if status.as_of_ms != 0 {
            status.lag_ms = realtime_ms().saturating_sub(status.as_of_ms);
        }
        if status.last_error.is_none() {
            status.last_error = self.link.last_error();
        }
        status.clone()
    }

    fn write(&self, mut reporter: Reporter) {
        // Relaxed: a flag that orders nothing; joining the thread orders the rest.
        while !self.is_over.load(Ordering::Relaxed) {
            let at_once = self.is_urgent.swap(false, Ordering::Relaxed);
            reporter.report(at_once, || self.present());
            std::thread::park_timeout(EVERY);
        }
    }
}

/// Whole milliseconds.
pub(crate) fn milliseconds(time: Duration) -> u64 {
    u64::try_from(time.as_millis()).unwrap_or(u64::MAX)
}

/// Keeps the status of one bridge, and writes it into the hold until it is dropped.
pub(crate) struct StatusReport {
    shared: Arc<Shared>,
    thread: Option<JoinHandle<()>>,
}

impl std::fmt::Debug for StatusReport {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("StatusReport").field("status", &self.present()).finish()
    }
}

impl StatusReport {
    /// For a map, a channel or a queue of this name.
    ///
    /// # Errors
    /// Those of creating the map of the reports; `Io` if the system has no thread.
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
        let shared = Arc::new(Shared {
            status: Mutex::new(status),
            probe: Mutex::default(),
            link: link.clone(),
            is_urgent: AtomicBool::new(false),
            is_over: AtomicBool::new(false),
        });
        let writer = Arc::clone(&shared);
        let thread = std::thread::Builder::new().name("hold-nats report".to_owned());
        let thread = thread.spawn(move || writer.write(reporter)).map_err(|error| {
            Error::new(ErrorKind::Io, format!("cannot start the thread of the reports: {error}"))
        })?;
        Ok(StatusReport { shared, thread: Some(thread) })
    }

    /// Lets `probe` bring the status up to date before each report.
    pub(crate) fn set_probe(&self, probe: impl Fn(&mut BridgeStatus) + Send + 'static) {
        *locked(&self.shared.probe) = Some(Box::new(probe));
    }

    /// The present status.
    pub(crate) fn present(&self) -> BridgeStatus {
        self.shared.present()
    }

    /// Changes the status.
    pub(crate) fn note(&self, change: impl FnOnce(&mut BridgeStatus)) {
        change(&mut locked(&self.shared.status));
    }

    /// Notes an error, and writes the report soon.
    pub(crate) fn failed(&self, error: &Error) {
        self.note(|status| {
            status.last_error = Some(error.to_string());
            status.in_flight = 0;
        });
        self.shared.is_urgent.store(true, Ordering::Relaxed);
        self.wake();
    }

    fn wake(&self) {
        if let Some(thread) = &self.thread {
            thread.thread().unpark();
        }
    }
}

impl Drop for StatusReport {
    fn drop(&mut self) {
        self.shared.is_over.store(true, Ordering::Relaxed);
        self.wake();
        if let Some(thread) = self.thread.take() {
            // A panic of the thread has been printed, and costs only reports.
            let _ = thread.join();
        }
    }
}
