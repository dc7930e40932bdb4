//! Deleting all keys of a map without lapping its replicas and its journal.
//!
//! Clearing produces one frame for each key, faster than a replica can apply them. Without a pause,
//! a large map would overwrite in its stream what replicas have not read, and each of them would
//! need the whole map, perhaps several times. So the call pauses after every quarter of the stream.
//!
//! Let M(n) be the end of the stream at pause n, and M(0) that at the beginning. At pause n, a
//! reader that has reached M(n - 2) is keeping up: the call waits until it has reached M(n - 1). So
//! it is never more than about half of the stream behind. A reader that makes no progress is not
//! waited for again, because it has not reached the mark of the next pause.

use crate::error::Result;
use crate::hold::handle::Hold;
use crate::hold::journal_slot;
use crate::hold::replica_acks;
use crate::map::api::handle::Map;
use crate::map::engine::iterate::Cursor;
use crate::os::futex;
use crate::stream::follow::Follower;
use std::ops::Range;
use std::sync::Arc;
use std::time::{Duration, Instant};

/// The call waits at most for this time plus the time that clearing itself takes.
const MOST_WAIT: Duration = Duration::from_secs(5);
/// A pause ends when no reader that is waited for has made progress for this time.
const STALL: Duration = Duration::from_millis(500);
/// The time between two looks at the readers' positions.
const NAP: Duration = Duration::from_micros(200);

impl Map {
    /// Deletes every key that is present when the call begins, unless another process sets it again
    /// meanwhile. This is not one atomic step: readers may see some keys deleted and others not
    /// yet. Returns the number of keys deleted.
    ///
    /// A map with a stream is cleared at the pace of its replicas and its journal, so that they can
    /// follow. One that is stopped or gone delays the call by half a second. Slow ones delay it at
    /// most by 5 seconds plus the time that clearing itself takes. No delay is longer than the
    /// hold's lock timeout.
    ///
    /// The index keeps its memory until the map is dropped. In a hold that cannot grow any more, a
    /// cleared map whose pairs lie in the index itself may have room for only a little more than
    /// half as many other keys: the first full segment that cannot be split ends the growth.
    ///
    /// # Errors
    /// Those of [`delete`](Self::delete). The pairs deleted before the error stay deleted.
    pub fn clear(&self) -> Result<u64> {
        let (mut cursor, mut count) = (Cursor::START, 0);
        let mut pace = Pace::of(self)?;
        while !cursor.is_end() {
            self.clear_segment(&mut cursor, &mut count)?;
            if let Some(pace) = &mut pace {
                pace.keep(self)?;
            }
        }
        Ok(count)
    }
}

/// The pace at which a map with a stream is cleared.
struct Pace {
    hold: Hold,
    follower: Follower,
    begun: Instant,
    waited: Duration,
    /// The ends of the stream at the two last pauses, the later one last.
    marks: [u64; 2],
    quarter: u64,
}

impl Pace {
    /// `None` if the map has no stream.
    fn of(map: &Map) -> Result<Option<Pace>> {
        let follower = match map.follow() {
            Err(error) if error.is_not_found() => return Ok(None),
            follower => follower?,
        };
        let (end, quarter) = (follower.tail(), follower.ring().size() / 4);
        Ok(Some(Pace {
            hold: Hold::new(Arc::clone(&map.arena)),
            follower,
            begun: Instant::now(),
            waited: Duration::ZERO,
            marks: [end.saturating_sub(quarter), end],
            quarter,
        }))
    }

    /// Pauses, if a quarter of the stream has been written since the last pause.
    fn keep(&mut self, map: &Map) -> Result<()> {
        let end = self.follower.tail();
        let [before, last] = self.marks;
        if end < last + self.quarter {
            return Ok(());
        }
        let begun = Instant::now();
        let time = self.time_left(map, begun);
        let (mut seen, mut seen_at) = (Vec::new(), begun);
        while begun.elapsed() < time && seen_at.elapsed() < STALL {
            let behind = self.behind(map, before..last)?;
            if behind.is_empty() {
                break;
            }
            if behind != seen {
                (seen, seen_at) = (behind, Instant::now());
            }
            futex::nap(NAP);
        }
        self.waited += begun.elapsed();
        self.marks = [last, end];
        Ok(())
    }

    fn time_left(&self, map: &Map, now: Instant) -> Duration {
        let cleared = (now - self.begun).saturating_sub(self.waited);
        let most = MOST_WAIT + cleared;
        let most = map.arena.lock_timeout().map_or(most, |time| time.min(most));
        most.saturating_sub(self.waited)
    }

    /// The offsets of the readers that have reached one mark, and not the next one.
    fn behind(&self, map: &Map, marks: Range<u64>) -> Result<Vec<u64>> {
        let stream = self.follower.position().stream;
        let journal = journal_slot::durable_position(&self.hold, map)?;
        let replicas = replica_acks::positions(&self.hold, map)?;
        let readers = journal.into_iter().chain(replicas).filter(|at| at.stream == stream);
        Ok(readers.map(|at| at.offset).filter(|offset| marks.contains(offset)).collect())
    }
}
