//! Removes pairs that have expired at the origin, so that followers get the removals: no other
//! process may need the memory for long.
//!
//! The thread that waits for the stream does this, a few pairs at a time, and only while the origin
//! serves replicas. It waits for no writer. The removal of an expired pair comes within [`ROUND`],
//! [`TICK`], and one more [`TICK`] for every [`PLACES`] of the map.

use crate::origin::subscriber_table::SubscriberTable;
use commonhold::map::Cursor;
use std::time::{Duration, Instant};

/// The places for pairs that one turn checks: one or two milliseconds if each has a pair and none
/// is in a cache of the processor.
const PLACES: u64 = 16 << 10;
/// The time between two turns.
const TICK: Duration = Duration::from_millis(100);
/// The shortest time from one round through the map to the next.
const ROUND: Duration = Duration::from_secs(1);

/// The progress of the present round.
pub(crate) struct Expiry {
    cursor: Cursor,
    /// The time when the round began.
    begun: Instant,
    due: Instant,
}

impl Expiry {
    pub(crate) fn new() -> Expiry {
        let now = Instant::now();
        Expiry { cursor: Cursor::START, begun: now, due: now }
    }

    /// Removes some expired pairs, if it is time.
    pub(crate) fn turn(&mut self, table: &SubscriberTable) {
        let now = Instant::now();
        if now < self.due || table.serves_nobody() {
            return;
        }
        self.due = now + TICK;
        // An error concerns the map, dropped or damaged; the serving threads report it.
        if table.map().try_expire(&mut self.cursor, PLACES).is_err() || self.cursor.is_end() {
            self.cursor = Cursor::START;
            self.due = self.due.max(self.begun + ROUND);
            self.begun = self.due;
        }
    }
}
