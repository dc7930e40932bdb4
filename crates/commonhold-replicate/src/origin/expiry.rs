//! What has expired at the origin is removed there, so that those who follow are told: nobody else
//! may need its room for long.
//!
//! Done by the thread that waits for the stream, a few pairs at a time, and only while somebody is
//! served. It waits for no writer. A pair that has expired is told within [`ROUND`], [`TICK`] and
//! as many times [`TICK`] as the map has [`PLACES`].

use crate::origin::subscriber_table::SubscriberTable;
use commonhold::map::Cursor;
use std::time::{Duration, Instant};

/// Places for pairs that are looked at at a time: one or two milliseconds if there is a pair in
/// each and none is in a cache of the processor.
const PLACES: u64 = 16 << 10;
/// How often so many are looked at.
const TICK: Duration = Duration::from_millis(100);
/// How often the map is gone through at most.
const ROUND: Duration = Duration::from_secs(1);

/// Where it is in the map.
pub(crate) struct Expiry {
    cursor: Cursor,
    /// When the round began.
    begun: Instant,
    due: Instant,
}

impl Expiry {
    pub(crate) fn new() -> Expiry {
        let now = Instant::now();
        Expiry { cursor: Cursor::START, begun: now, due: now }
    }

    /// Removes some of what has expired, if it is time.
    pub(crate) fn turn(&mut self, table: &SubscriberTable) {
        let now = Instant::now();
        if now < self.due || table.serves_nobody() {
            return;
        }
        self.due = now + TICK;
        // An error is one of the map, dropped or damaged, of which those who serve tell.
        if table.map().try_expire(&mut self.cursor, PLACES).is_err() || self.cursor.is_end() {
            self.cursor = Cursor::START;
            self.due = self.due.max(self.begun + ROUND);
            self.begun = self.due;
        }
    }
}
