//! The thread that waits for the stream to grow, on behalf of the serving threads: they sleep in
//! their drivers, where only descriptors wake them. It also removes expired pairs (`expiry`).
//!
//! It waits for the stream only while a thread requests that, so that writers pay for waking it
//! only when everything has been sent.

use crate::origin::Transmission;
use crate::origin::expiry::Expiry;
use crate::origin::subscriber_table::SubscriberTable;
use commonhold::raw::Feed;
use commonhold_io::reports::Reporter;
use std::time::{Duration, Instant};

/// How often it checks whether the origin ends.
const LOOK: Duration = Duration::from_millis(100);

/// The longest wait.
const LONGEST: Duration = Duration::from_secs(3600);

/// Runs until the origin ends.
pub(crate) fn run(table: &SubscriberTable) {
    let mut feed = follow(table);
    let mut reporter = Reporter::new(&table.hold, "origin", &table.name).ok();
    let mut expiry = Expiry::new();
    while let Some(asked) = table.asked(LOOK) {
        expiry.turn(table);
        if let Some(reporter) = &mut reporter {
            reporter.report(false, || table.report());
        }
        if table.options.transmission == Transmission::Explicit {
            // A call of `transmit` wakes them.
            table.renew();
            std::thread::sleep(LOOK);
            continue;
        }
        let Some(beyond) = asked else {
            // The next session finds the map that is there then.
            table.renew();
            continue;
        };
        match feed.as_ref().map(|feed| feed.wait_beyond(beyond, LOOK)) {
            Some(Ok(false)) => {}
            Some(Ok(true)) => {
                let tail = feed.as_ref().map(|feed| collect(table, feed, beyond, &mut expiry));
                table.reached(tail);
            }
            // Dropped, or replaced by another map: the serving threads notice that themselves.
            Some(Err(_)) | None => {
                feed = follow(table);
                table.reached(None);
                if feed.is_none() {
                    std::thread::sleep(LOOK);
                }
            }
        }
    }
}

fn follow(table: &SubscriberTable) -> Option<Feed> {
    table.renew();
    Some(table.map().follow().ok()?.into_feed())
}

/// Waits until there is enough to be worth sending; returns the end of the stream then.
fn collect(table: &SubscriberTable, feed: &Feed, beyond: u64, expiry: &mut Expiry) -> u64 {
    if let Transmission::Automatic { watermark, delay } = table.options.transmission {
        let now = Instant::now();
        let end = now.checked_add(delay).unwrap_or(now + LONGEST);
        let enough = beyond.saturating_add(watermark.saturating_sub(1));
        while feed.tail() <= enough && Instant::now() < end && !table.is_over() {
            let left = end.saturating_duration_since(Instant::now());
            if feed.wait_beyond(enough, left.min(LOOK)).is_err() {
                break;
            }
            expiry.turn(table);
        }
    }
    feed.tail()
}
