//! The first origin's clock, as a hold knows it: the pairs of its caches expire by that clock.
//!
//! Frames contain the time at which a pair expires by the first origin's clock. An origin sends the
//! time of that clock when it greets a replica. The replica notes how far the clock of its own hold
//! is ahead of it. No process can set the hold's clock, so neither a difference between the
//! machines' clocks nor a later change of the replica's clock counts. A relay sends its replicas
//! the time that it has noted in this way.
//!
//! Invariant: times from the wire may be any numbers, and no sum of them overflows.

use crate::protocol::wire::{long, now_ms};
use commonhold::map::{Map, MapMode};
use commonhold::raw::{companion_name, hold_time_ms};
use commonhold::{Hold, Result};

/// The key of a replica's note, in `.applied/NAME`.
const CLOCK: &[u8; 8] = b"clock\0\0\0";

/// See the module.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct OriginClock {
    /// The hold's time minus the first origin's, in milliseconds.
    ahead_ms: i64,
}

impl OriginClock {
    /// The clock that shows `origin_ms` now; that of this machine if it is 0.
    pub(crate) fn showing(hold: &Hold, origin_ms: u64) -> OriginClock {
        let shown = if origin_ms == 0 { now_ms() } else { origin_ms };
        OriginClock { ahead_ms: hold_time_ms(hold).wrapping_sub(shown) as i64 }
    }

    /// The clock that a map's pairs expire by: this machine's, unless the map is a replica.
    pub(crate) fn of(hold: &Hold, map: &Map) -> OriginClock {
        let noted = map.is_replica().then(|| noted(hold, map.name()).ok().flatten());
        noted.flatten().unwrap_or_else(|| OriginClock::showing(hold, 0))
    }

    /// Notes the clock in a replica's positions.
    pub(crate) fn note(self, positions: &Map) -> Result<()> {
        let value = [self.ahead_ms, 0].map(i64::to_le_bytes).concat();
        positions.set(CLOCK, value).map(drop)
    }

    /// The time that the clock shows now.
    pub(crate) fn now_ms(self, hold: &Hold) -> u64 {
        self.at_origin(hold_time_ms(hold))
    }

    /// A time of the hold's clock at which a pair expires, by this clock; 0 for never.
    pub(crate) fn at_origin(self, hold_ms: u64) -> u64 {
        shifted(hold_ms, self.ahead_ms.saturating_neg())
    }

    /// A time of this clock at which a pair expires, by the hold's clock; 0 for never.
    pub(crate) fn in_hold(self, origin_ms: u64) -> u64 {
        shifted(origin_ms, self.ahead_ms)
    }
}

fn shifted(time: u64, by: i64) -> u64 {
    match time {
        0 => 0,
        _ => time.saturating_add_signed(by).max(1),
    }
}

fn noted(hold: &Hold, map: &str) -> Result<Option<OriginClock>> {
    let positions = hold.maps().open(&companion_name("applied", map))?;
    let value = positions.get(CLOCK)?.and_then(|value| long(&value, 0));
    Ok(value.map(|ahead| OriginClock { ahead_ms: ahead as i64 }))
}

/// Whether the pairs of a map may expire.
pub(crate) fn has_expiry(map: &Map) -> bool {
    matches!(map.options().mode(), MapMode::Cache { .. })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn times_are_shifted_and_never_stays_never() {
        for ahead_ms in [0, 5, -5, i64::MAX, i64::MIN] {
            let clock = OriginClock { ahead_ms };
            assert_eq!((clock.in_hold(0), clock.at_origin(0)), (0, 0));
            for time in [1, 1_000_000, u64::MAX] {
                assert!(clock.in_hold(time) > 0 && clock.at_origin(time) > 0);
            }
        }
        let clock = OriginClock { ahead_ms: -300 };
        assert_eq!((clock.in_hold(1000), clock.at_origin(700)), (700, 1000));
    }
}
