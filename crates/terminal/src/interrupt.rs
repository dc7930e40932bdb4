//! Ctrl-C and its kin: the run ends early and still cleans up.
//!
//! Signals only set a flag, which the loops of a run look at. A second one, more than a moment
//! after the first, ends the process at once; the hold's own deletion at last exit then does most
//! of the cleaning. (Not simply the second signal: `timeout` sends two together, one to its child
//! and one to the group.) A run that may block outside of its loop, as it writes to a reader that
//! does not read, sets the time after which one signal is enough.

use signal_hook::consts::{SIGHUP, SIGINT, SIGTERM};
use signal_hook::iterator::Signals;
use std::io::Result;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Condvar, Mutex, PoisonError};
use std::thread;
use std::time::{Duration, Instant};

/// The exit code of a run that a signal ended, as shells give it for Ctrl-C.
pub const EXIT_CODE: u8 = 130;
/// Signals this soon after the first one belong to it.
pub const MOMENT: Duration = Duration::from_secs(1);

/// Reports whether the user has asked the run to end.
#[derive(Clone, Default)]
pub struct Interrupt {
    asked: Arc<Asked>,
}

/// The state that the thread that waits for signals shares with the others.
#[derive(Default)]
struct Asked {
    /// The signal handler sets this flag, too, so a read that the signal interrupts sees it.
    came: Arc<AtomicBool>,
    /// Held to change the flag and to wait for it, so that no waiter misses the wake-up.
    change: Mutex<()>,
    changed: Condvar,
}

impl Asked {
    fn tell(&self) {
        let _change = self.change.lock().unwrap_or_else(PoisonError::into_inner);
        // Relaxed: a lone flag that orders nothing else.
        self.came.store(true, Ordering::Relaxed);
        self.changed.notify_all();
    }
}

impl Interrupt {
    /// Begins to watch for Ctrl-C, termination and hang-up; not for hang-up where it is ignored
    /// (`nohup`).
    ///
    /// # Errors
    /// Those of setting up signal handlers.
    pub fn watch() -> Result<Interrupt> {
        Interrupt::begin(None)
    }

    /// Like [`watch`](Self::watch), but the process ends `grace` after a signal, whatever it is
    /// doing.
    pub fn watch_strictly(grace: Duration) -> Result<Interrupt> {
        Interrupt::begin(Some(grace))
    }

    fn begin(grace: Option<Duration>) -> Result<Interrupt> {
        let hang_up = (!is_ignored(SIGHUP)).then_some(SIGHUP);
        let all: Vec<_> = [SIGINT, SIGTERM].into_iter().chain(hang_up).collect();
        let interrupt = Interrupt::default();
        for signal in &all {
            signal_hook::flag::register(*signal, Arc::clone(&interrupt.asked.came))?;
        }
        let mut signals = Signals::new(all)?;
        let asked = Arc::clone(&interrupt.asked);
        thread::spawn(move || {
            let mut first = None;
            for _ in signals.forever() {
                asked.tell();
                match (first, grace) {
                    (None, Some(grace)) => drop(thread::spawn(move || end_after(grace))),
                    (Some(at), _) if Instant::now() > at + MOMENT => end_after(Duration::ZERO),
                    _ => {}
                }
                first = first.or_else(|| Some(Instant::now()));
            }
        });
        Ok(interrupt)
    }

    /// Whether a signal has come, or comes within `time`.
    pub fn comes_within(&self, time: Duration) -> bool {
        let end = Instant::now() + time;
        while !self.came() && Instant::now() < end {
            thread::sleep(Duration::from_millis(1));
        }
        self.came()
    }

    /// Sleeps until a signal comes, for at most `time`; returns whether one has come.
    pub fn wait(&self, time: Duration) -> bool {
        let change = self.asked.change.lock().unwrap_or_else(PoisonError::into_inner);
        // Whatever ends the wait, the flag shows whether a signal has come.
        drop(self.asked.changed.wait_timeout_while(change, time, |()| !self.came()));
        self.came()
    }

    /// Whether a signal has come.
    pub fn came(&self) -> bool {
        // Relaxed: as above.
        self.asked.came.load(Ordering::Relaxed)
    }
}

/// Whether this process ignores a signal, as under `nohup`. Without /proc: no.
fn is_ignored(signal: i32) -> bool {
    let status = std::fs::read_to_string("/proc/self/status").unwrap_or_default();
    let mask = status.lines().find_map(|line| line.strip_prefix("SigIgn:"));
    let mask = mask.and_then(|mask| u64::from_str_radix(mask.trim(), 16).ok());
    mask.is_some_and(|mask| mask >> (signal - 1) & 1 == 1)
}

fn end_after(time: Duration) {
    thread::sleep(time);
    signal_hook::low_level::exit(EXIT_CODE.into());
}
