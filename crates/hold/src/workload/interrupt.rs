//! Ctrl-C and its kin: the run ends early and still cleans up.
//!
//! Signals only set a flag, which the loops of a run look at. A second signal ends the process at
//! once; the hold's own deletion at last exit then does the cleaning.

use super::Result;
use signal_hook::consts::{SIGHUP, SIGINT, SIGTERM};
use signal_hook::flag;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

/// The exit code of a run that a signal ended, as shells give it for Ctrl-C.
pub const EXIT_CODE: u8 = 130;

/// Says whether the person at the terminal wants the run to end.
#[derive(Clone)]
pub struct Interrupt(Arc<AtomicBool>);

impl Interrupt {
    /// Begins to watch for Ctrl-C, termination and hang-up.
    pub fn watch() -> Result<Interrupt> {
        let asked = Arc::new(AtomicBool::new(false));
        for signal in [SIGINT, SIGTERM, SIGHUP] {
            // Order matters: the shutdown must find the flag as the signal before left it.
            flag::register_conditional_shutdown(signal, EXIT_CODE.into(), Arc::clone(&asked))?;
            flag::register(signal, Arc::clone(&asked))?;
        }
        Ok(Interrupt(asked))
    }

    /// Whether a signal has come.
    pub fn came(&self) -> bool {
        // Relaxed: a lone flag that orders nothing else.
        self.0.load(Ordering::Relaxed)
    }
}
