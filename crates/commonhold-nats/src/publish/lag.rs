//! How far a bucket is behind its map: measured against the end of the map's stream, also while the
//! publisher waits for its servers.

use crate::server::locked;
use crate::status::BridgeStatus;
use commonhold::Hold;
use commonhold::raw::realtime_ms;
use commonhold::stream::StreamPosition;
use std::sync::{Arc, Mutex};

/// The progress of the publisher.
#[derive(Clone, Copy, Debug, Default)]
struct Done {
    /// The position that the bucket has reached.
    acknowledged: Option<StreamPosition>,
    /// The position up to which changes were taken.
    taken: Option<StreamPosition>,
    /// The changes that were taken, and their bytes in the stream.
    changes: u64,
    bytes: u64,
    /// Changes without acknowledgement.
    in_flight: u64,
}

/// See the module.
#[derive(Clone, Debug, Default)]
pub(crate) struct Lag(Arc<Mutex<Done>>);

impl Lag {
    /// Notes that a change was taken whose end this is.
    pub(crate) fn took(&self, end: StreamPosition) {
        let mut done = locked(&self.0);
        if let Some(before) = done.taken.filter(|before| before.stream == end.stream) {
            done.bytes += end.offset.saturating_sub(before.offset);
            done.changes += 1;
        }
        done.taken = Some(end);
    }

    /// Notes what the bucket has reached, and how many changes are on their way.
    pub(crate) fn reached(&self, position: Option<StreamPosition>, in_flight: usize) {
        let mut done = locked(&self.0);
        done.acknowledged = position.or(done.acknowledged);
        done.in_flight = in_flight as u64;
        if in_flight == 0 {
            done.taken = position.or(done.taken);
        }
    }

    /// A function that brings a status up to date.
    pub(crate) fn probe(&self, hold: &Hold, map: &str) -> impl Fn(&mut BridgeStatus) + use<> {
        let (lag, hold, map) = (self.clone(), hold.clone(), map.to_owned());
        move |status| {
            let end = hold.maps().open(&map).and_then(|map| Ok(map.follow()?.position()));
            if let Ok(end) = end {
                status.lag_messages = locked(&lag.0).messages_before(end);
                if status.lag_messages == 0 {
                    status.as_of_ms = realtime_ms();
                }
            }
        }
    }
}

impl Done {
    /// About the number of changes between the bucket and a position of the map's stream.
    fn messages_before(&self, end: StreamPosition) -> u64 {
        let bytes_from = |from: Option<StreamPosition>| {
            let from = from.filter(|from| from.stream == end.stream);
            from.map(|from| end.offset.saturating_sub(from.offset))
        };
        if bytes_from(self.acknowledged) == Some(0) {
            return 0;
        }
        let typical = (self.bytes / self.changes.max(1)).max(1);
        // Without a typical change, a short one.
        let typical = if self.changes == 0 { 64 } else { typical };
        let waiting = bytes_from(self.taken).unwrap_or(0).div_ceil(typical);
        (self.in_flight + waiting).max(1)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_changes_behind_the_window_count() {
        let at = |offset| StreamPosition { stream: 7, offset };
        let lag = Lag::default();
        lag.reached(Some(at(1000)), 0);
        let before = |end| locked(&lag.0).messages_before(end);
        assert_eq!(before(at(1000)), 0);
        for end in [1100, 1200] {
            lag.took(at(end));
        }
        lag.reached(Some(at(1000)), 2);
        // Two in flight, and eight of a hundred bytes that nobody has taken yet.
        assert_eq!(before(at(2000)), 10);
        lag.reached(Some(at(1200)), 0);
        assert_eq!(before(at(1200)), 0);
        // Another stream: something is different.
        assert_eq!(before(StreamPosition { stream: 8, offset: 5 }), 1);
    }
}
