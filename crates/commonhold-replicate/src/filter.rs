//! The changes of a stream to the keys of one prefix.
//!
//! A filter reads the heads of the frames in the stream's memory. It copies short runs of wanted
//! changes, sends long ones straight from the stream's memory, and passes over all others. A
//! message ([`Skip`]) moves the replica past these. It is sent before the next wanted change or
//! other message, when there is enough to pass over, and otherwise when the stream has been quiet
//! for a moment: so few bytes are sent for many changes, and processes that wait for the replica
//! wait little longer.
//!
//! Invariant: a call does a bounded amount of work, and whatever it has passed over by then is
//! either sent or noted.

use crate::protocol::key_prefix::KeyPrefix;
use crate::protocol::payload::Payload;
use crate::protocol::skip::Skip;
use commonhold::Result;
use commonhold::raw::{Feed, Proof};
use commonhold_io::sockets::Bytes;
use std::time::{Duration, Instant};

/// The most bytes of the stream that are examined by one call, without the last frame.
const MOST: u64 = 1 << 20;
/// Bytes that are copied for one send, without the last run.
const PIECE: usize = 64 << 10;
/// A run of wanted changes from this length on is not copied.
const LONG_RUN: u64 = 8 << 10;
/// Bytes passed over that are worth a message at once.
const ENOUGH: u64 = 16 << 10;
/// The stream is quiet if it has not grown for this long.
const QUIET: Duration = Duration::from_millis(1);
/// The longest time that a message waits.
const LONGEST: Duration = Duration::from_millis(10);

/// See the module.
pub(crate) struct Filter {
    prefix: KeyPrefix,
    /// Where the run of wanted changes ends that is being sent from the stream's memory.
    run_end: u64,
    /// The changes that were passed over, and the replica does not know that yet.
    pending: Option<Pending>,
    /// For the heads of frames.
    buffer: Vec<u8>,
}

struct Pending {
    skip: Skip,
    /// The times when the first and the last of them were passed over.
    since: [Instant; 2],
}

impl Pending {
    /// When the replica has to know it at the latest.
    fn due(&self) -> Instant {
        let [first, last] = self.since;
        (first + LONGEST).min(last + QUIET)
    }

    fn is_due(&self, now: Instant) -> bool {
        self.skip.to - self.skip.from >= ENOUGH || now >= self.due()
    }
}

impl Filter {
    pub(crate) fn new(prefix: KeyPrefix) -> Filter {
        Filter { prefix, run_end: 0, pending: None, buffer: Vec::new() }
    }

    pub(crate) fn prefix(&self) -> &KeyPrefix {
        &self.prefix
    }

    /// The offset up to which the replica was sent everything, of a feed at this offset.
    pub(crate) fn sent(&self, offset: u64) -> u64 {
        self.pending.as_ref().map_or(offset, |pending| pending.skip.from)
    }

    /// When it has something to send although the stream does not grow.
    pub(crate) fn due(&self) -> Option<Instant> {
        self.pending.as_ref().map(Pending::due)
    }

    /// The next bytes to send, and of the stream none beyond `to`, where a frame ends. `None` if
    /// everything up to there was sent, or passed over and need not be sent yet.
    ///
    /// # Errors
    /// Those of [`Feed::head`].
    pub(crate) fn next(
        &mut self,
        feed: &mut Feed,
        to: u64,
        now: Instant,
    ) -> Result<Option<Payload>> {
        if feed.position().offset < self.run_end {
            return self.run(feed);
        }
        let (begun, mut words) = (feed.position().offset, Vec::new());
        loop {
            let at = feed.position().offset;
            if at >= to || at - begun >= MOST || words.len() >= PIECE {
                break;
            }
            let (end, last) = self.examine(feed, (at, to), false)?;
            if let Some(last) = last {
                feed.sent((end - at) as usize)?;
                self.pass_over(Skip { from: at, to: end, last }, now);
                continue;
            }
            self.put_pending(&mut words);
            let (end, _) = self.examine(feed, (at, to), true)?;
            if end - at >= LONG_RUN {
                self.run_end = end;
                break;
            }
            if let Some(bytes) = feed.pending(end, (end - at) as usize)? {
                bytes.append_to(&mut words);
            }
            feed.sent((end - at) as usize)?;
        }
        if self.pending.as_ref().is_some_and(|pending| pending.is_due(now)) {
            self.put_pending(&mut words);
        }
        match words.is_empty() {
            true => self.run(feed),
            false => Ok(Some(Payload::Words(Bytes::from(words)))),
        }
    }

    /// The next bytes of the run of wanted changes, if there is one.
    fn run(&self, feed: &Feed) -> Result<Option<Payload>> {
        Ok(feed.pending(self.run_end, MOST as usize)?.map(Payload::Stream))
    }

    /// Where the frames end, from `at` on, that are all wanted or all not, and the last of them.
    fn examine(
        &mut self,
        feed: &Feed,
        (at, to): (u64, u64),
        wanted: bool,
    ) -> Result<(u64, Option<Proof>)> {
        let (mut end, mut last) = (at, None);
        while end < to && end - at < MOST {
            let prefix = self.prefix.bytes();
            let head = feed.head((end, to), prefix.len(), &mut self.buffer)?;
            // After a gap, only the whole map helps: the key is not known.
            if (head.is_gap || head.key == prefix) != wanted {
                break;
            }
            end += u64::from(head.proof.bytes);
            last = Some(head.proof);
        }
        Ok((end, last))
    }

    fn pass_over(&mut self, skip: Skip, now: Instant) {
        let before = self.pending.take();
        let (from, first) =
            before.map_or((skip.from, now), |before| (before.skip.from, before.since[0]));
        self.pending = Some(Pending { skip: Skip { from, ..skip }, since: [first, now] });
    }

    /// Appends the message about the changes that were passed over, if there are any.
    pub(crate) fn put_pending(&mut self, words: &mut Vec<u8>) {
        if let Some(pending) = self.pending.take() {
            pending.skip.put(words);
        }
    }
}

#[cfg(test)]
mod tests;
