//! The number of changes of a map, counted frame by frame in its stream. The stream itself records
//! only its length.
//!
//! Counting reads the head of each frame, needs no write permission, and makes no process wait. If
//! the stream has overwritten frames that were not counted yet, the number of changes is unknown
//! until the next look.

use commonhold::map::Map;
use commonhold::raw::Feed;

/// Counts the changes after the first look.
pub struct ChangeCount {
    /// `None` until the stream can be followed.
    feed: Option<Feed>,
    /// Since the last look.
    counted: u64,
    head: Vec<u8>,
}

impl ChangeCount {
    /// Counts from now on, if the map has a stream.
    pub fn begin(map: &Map) -> ChangeCount {
        let feed = map.follow().ok().map(commonhold::stream::Follower::into_feed);
        ChangeCount { feed, counted: 0, head: Vec::new() }
    }

    /// Counts the changes up to now.
    pub fn advance(&mut self) {
        let Some(feed) = &mut self.feed else { return };
        match counted(feed, &mut self.head) {
            Ok(new) => self.counted += new,
            // Overwritten, dropped, or another stream.
            Err(_) => self.feed = None,
        }
    }

    /// The changes since the last look; `None` if some of them could not be counted. In that case,
    /// counting begins again.
    pub fn take(&mut self, map: &Map) -> Option<u64> {
        self.advance();
        match self.feed {
            Some(_) => Some(std::mem::take(&mut self.counted)),
            None => {
                *self = ChangeCount::begin(map);
                None
            }
        }
    }
}

/// Passes over all frames up to the end of the stream.
fn counted(feed: &mut Feed, head: &mut Vec<u8>) -> commonhold::Result<u64> {
    let (from, to) = (feed.position().offset, feed.tail());
    let (mut at, mut count) = (from, 0);
    while at < to {
        at += u64::from(feed.head((at, to), 0, head)?.proof.bytes);
        count += 1;
    }
    feed.sent(usize::try_from(at - from).unwrap_or(usize::MAX))?;
    Ok(count)
}
