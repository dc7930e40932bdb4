//! Reads a hold once a second, for all clients.
//!
//! Workers are observed all the time, so that every page shows their last minutes. Everything else
//! is read on request, and then not again for a while: a second, or longer where reading takes
//! long.

use super::history::History;
use super::inventory::Inventory;
use super::workers::Workers;
use commonhold::{Error, ErrorKind, Hold, Result};
use commonhold_io::reports::reports;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

/// How long an answer is reused.
const FRESH: Duration = Duration::from_millis(900);
/// Reading takes at most one part in this number of the time.
pub const SHARE: u32 = 20;

/// See the module.
pub struct Observer {
    /// The name of the served object, for people.
    pub title: String,
    /// `None` once it is closed.
    hold: Mutex<Option<Hold>>,
    live: Mutex<Live>,
    seen: Mutex<Option<Seen>>,
}

/// The known workers of file servers.
#[derive(Debug, Default)]
pub struct Live {
    pub workers: Workers,
    pub history: History,
}

struct Seen {
    inventory: Arc<Inventory>,
    at: Instant,
    took: Duration,
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Milliseconds since 1970.
pub fn now_ms() -> u64 {
    let since = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or(Duration::ZERO);
    u64::try_from(since.as_millis()).unwrap_or(u64::MAX)
}

impl Observer {
    pub fn new(hold: Hold, title: String) -> Observer {
        let (live, seen) = (Mutex::default(), Mutex::default());
        Observer { title, hold: Mutex::new(Some(hold)), live, seen }
    }

    fn hold(&self) -> Result<Hold> {
        let over = || Error::new(ErrorKind::Closed, "the hold is being closed");
        lock(&self.hold).clone().ok_or_else(over)
    }

    /// Reads the reports of workers; called about once a second.
    pub fn look(&self) {
        let reports = self.hold().and_then(|hold| reports(&hold)).unwrap_or_default();
        let mut live = lock(&self.live);
        let new = live.workers.learn(&reports);
        let (recent, present) = (live.workers.recent(), live.workers.present());
        let open = present.iter().fold(0u64, |sum, w| sum.saturating_add(w.says.counts.open));
        live.history.note(now_ms(), &recent, new, open);
    }

    /// The known workers, while the value lives.
    pub fn live(&self) -> MutexGuard<'_, Live> {
        lock(&self.live)
    }

    /// The contents of the hold, as of a moment ago.
    ///
    /// # Errors
    /// Those of reading the hold; `Closed` once it is closed.
    pub fn inventory(&self) -> Result<Arc<Inventory>> {
        let mut seen = lock(&self.seen);
        let fresh = seen.as_ref().filter(|seen| seen.at.elapsed() < (seen.took * SHARE).max(FRESH));
        if let Some(seen) = fresh {
            return Ok(Arc::clone(&seen.inventory));
        }
        let began = Instant::now();
        let inventory = Arc::new(Inventory::take(&self.hold()?)?);
        let (at, took) = (Instant::now(), began.elapsed());
        *seen = Some(Seen { inventory: Arc::clone(&inventory), at, took });
        Ok(inventory)
    }

    /// Releases the hold, after a reader that is using it now.
    pub fn close(&self) {
        let _seen = lock(&self.seen);
        lock(&self.hold).take();
    }
}
