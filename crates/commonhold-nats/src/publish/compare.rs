//! Compares a whole map with a whole bucket, and finds the changes that make the bucket equal to
//! the map at one position of the map's stream.
//!
//! The map is read while it changes, and then all changes since the beginning of the reading are
//! laid over what was read. The result is the map's state at one position. So no key of the bucket
//! ever goes back to an older value. Pairs that differ are kept in memory until they are published;
//! of the bucket's values only checksums are kept.

use crate::bridge::Control;
use crate::bucket::{Bucket, is_removal};
use crate::publish::changes::{Change, next};
use crate::reader::Reader;
use crate::trouble::Session;
use async_nats::jetstream::consumer::DeliverPolicy;
use async_nats::jetstream::stream::Info;
use commonhold::Error;
use commonhold::map::Map;
use commonhold::stream::{Follower, StreamPosition};
use std::collections::HashMap;
use std::hash::{BuildHasher, RandomState};
use std::time::Duration;

/// How long it waits for the bucket's next message before it asks whether there is one.
const TURN: Duration = Duration::from_millis(200);

/// A value's checksum, with keys that no writer of values knows.
struct Checksum([RandomState; 2]);

impl Checksum {
    fn of(&self, value: &[u8]) -> [u64; 2] {
        self.0.each_ref().map(|state| state.hash_one(value))
    }
}

/// The difference.
pub(crate) struct Difference {
    /// The changes, of which the last has the position.
    pub(crate) changes: Vec<Change>,
    pub(crate) position: StreamPosition,
    /// Reads the map's changes from that position on.
    pub(crate) follower: Follower,
    /// One for each pair that the bucket cannot have. If it has an older value, a change removes
    /// that.
    pub(crate) refused: Vec<Error>,
}

/// Compares. The bucket has `info.state.last_sequence` as its last message, and changes only by
/// this publisher.
///
/// # Errors
/// `Lapped` if the map's stream overwrote changes meanwhile; those of both sides.
pub(crate) async fn compare(
    map: &Map,
    bucket: &Bucket,
    info: &Info,
    control: &Control<'_>,
) -> Session<Difference> {
    let checksum = Checksum([RandomState::new(), RandomState::new()]);
    let mut there = contents(bucket, info, &checksum, control).await?;
    let mut follower = map.follow()?;
    let mut wanted: HashMap<Vec<u8>, Option<Vec<u8>>> = HashMap::new();
    let mut refused = Vec::new();
    for pair in map {
        control.ensure_runs()?;
        let (key, value) = pair?;
        let found = there.remove(&key);
        if found == Some(checksum.of(&value)) {
            continue;
        }
        if let Err(error) = bucket.ensure_fits(&key, value.len()) {
            refused.push(error);
            if found.is_some() {
                wanted.insert(key, None);
            }
            continue;
        }
        wanted.insert(key, Some(value));
    }
    wanted.extend(there.into_keys().map(|key| (key, None)));
    let end = follower.end()?;
    while follower.position().offset < end.offset
        && let Some(change) = next(&mut follower, Duration::ZERO)?
    {
        wanted.insert(change.key, change.value);
    }
    let position = follower.position();
    let mut changes: Vec<Change> =
        wanted.into_iter().map(|(key, value)| Change { key, value, end: None }).collect();
    if let Some(last) = changes.last_mut() {
        last.end = Some(position);
    }
    Ok(Difference { changes, position, follower, refused })
}

/// The keys of the bucket, each with its value's checksum.
async fn contents(
    bucket: &Bucket,
    info: &Info,
    checksum: &Checksum,
    control: &Control<'_>,
) -> Session<HashMap<Vec<u8>, [u64; 2]>> {
    let typical = info.state.bytes / info.state.messages.max(1);
    let from = DeliverPolicy::LastPerSubject;
    let mut reader =
        Reader::begin(&bucket.link, bucket.stream(), bucket.all(), from, typical).await?;
    let mut contents = HashMap::new();
    // Servers count the waiting messages wrong at times, but the last message of the stream is
    // always the newest of its key.
    let (mut left, mut sequence) = (reader.waiting_at_begin(), 0);
    while sequence < info.state.last_sequence {
        control.ensure_runs()?;
        // A reader's server that has fallen behind has less than the bucket's leader.
        if left == 0 && bucket.next_after(sequence).await?.is_none() {
            break;
        }
        let Some(arrival) = reader.next(TURN).await? else {
            left = 0;
            continue;
        };
        (left, sequence) = (left.saturating_sub(1), arrival.sequence);
        if !is_removal(arrival.headers()) {
            let key = bucket.key_of(&arrival.message.subject)?;
            contents.insert(key, checksum.of(&arrival.message.payload));
        }
    }
    Ok(contents)
}
