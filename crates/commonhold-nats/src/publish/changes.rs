//! The changes of a map, from its stream.

use commonhold::stream::{ChangeKind, Follower, StreamPosition};
use commonhold::{Error, ErrorKind, Result};
use std::time::Duration;

/// The new state of a key.
#[derive(Debug)]
pub(crate) struct Change {
    pub(crate) key: Vec<u8>,
    pub(crate) value: Option<Vec<u8>>,
    /// The position behind the change; `None` in a comparison, except for the last one.
    pub(crate) end: Option<StreamPosition>,
}

/// The next change of a follower within `time`.
///
/// # Errors
/// `Lapped` also for a change that was too large for the stream.
pub(crate) fn next(follower: &mut Follower, time: Duration) -> Result<Option<Change>> {
    let stream = follower.position().stream;
    let Some(frame) = follower.recv_timeout(time)? else { return Ok(None) };
    let value = match frame.kind {
        ChangeKind::Set => Some(frame.value.to_vec()),
        ChangeKind::Gap => {
            let text = "a change was too large for the map's stream; comparing everything";
            return Err(Error::new(ErrorKind::Lapped, text));
        }
        _ => None,
    };
    let end = Some(StreamPosition { stream, offset: frame.end });
    Ok(Some(Change { key: frame.key.to_vec(), value, end }))
}
