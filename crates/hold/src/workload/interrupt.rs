//! Ctrl-C and its kin: the run ends early and still cleans up.
//!
//! Signals only set a flag, which the loops of a run look at. A second one, more than a moment after the first was
//! seen, ends the process at once; the hold's own deletion at last exit then does most of the cleaning. (Not
//! simply the second signal: `timeout` sends two together, one to its child and one to the group.)

use super::Result;
use signal_hook::consts::{SIGHUP, SIGINT, SIGTERM};
use signal_hook::flag;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

/// The exit code of a run that a signal ended, as shells give it for Ctrl-C.
pub const EXIT_CODE: u8 = 130;
/// Signals that come so soon after the first was seen belong to it.
const MOMENT: Duration = Duration::from_secs(1);

/// Says whether the person at the terminal wants the run to end.
#[derive(Clone, Default)]
pub struct Interrupt {
    asked: Arc<AtomicBool>,
    seen: Arc<AtomicBool>,
    impatient: Arc<AtomicBool>,
}

impl Interrupt {
    /// Begins to watch for Ctrl-C, termination and hang-up.
    pub fn watch() -> Result<Interrupt> {
        let interrupt = Interrupt::default();
        for signal in [SIGINT, SIGTERM, SIGHUP] {
            let impatient = Arc::clone(&interrupt.impatient);
            flag::register_conditional_shutdown(signal, EXIT_CODE.into(), impatient)?;
            flag::register(signal, Arc::clone(&interrupt.asked))?;
        }
        Ok(interrupt)
    }

    /// Whether a signal has come.
    pub fn came(&self) -> bool {
        // Relaxed: lone flags that order nothing else.
        let came = self.asked.load(Ordering::Relaxed);
        if came && !self.seen.swap(true, Ordering::Relaxed) {
            let impatient = Arc::clone(&self.impatient);
            std::thread::spawn(move || {
                std::thread::sleep(MOMENT);
                impatient.store(true, Ordering::Relaxed);
            });
        }
        came
    }
}
