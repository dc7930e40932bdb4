//! The lines of an origin for its callback for events.

use crate::origin::Notice;
use crate::origin::limits::LineLimit;
use commonhold_io::callback_gate::CallbackGate;
use std::time::Instant;

/// See the module.
pub(crate) struct Notices {
    notice: Option<Notice>,
    line_limit: LineLimit,
    /// Closed when the origin is dropped: a thread may end later.
    pub(crate) gate: CallbackGate,
}

impl Notices {
    pub(crate) fn to(notice: Option<Notice>) -> Notices {
        Notices { notice, line_limit: LineLimit::new(), gate: CallbackGate::default() }
    }

    /// Passes a line to the callback.
    pub(crate) fn note(&self, text: &str) {
        if let Some(notice) = &self.notice {
            self.gate.call(|| notice(text));
        }
    }

    /// Passes a line about a peer that has not joined to the callback, unless there are too many.
    pub(crate) fn note_stranger(&self, text: &str) {
        match self.line_limit.allows(Instant::now()) {
            None => {}
            Some(0) => self.note(text),
            Some(before) => {
                self.note(&format!("{before} lines about other peers were left out"));
                self.note(text);
            }
        }
    }
}
