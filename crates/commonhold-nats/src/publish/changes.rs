//! The changes of a map, read by a thread of its own, which waits for them.

use commonhold::stream::{ChangeKind, Follower, StreamPosition};
use commonhold::{Error, ErrorKind, Result};
use std::time::Duration;
use tokio::sync::mpsc::{Receiver, Sender, channel};

/// Changes that wait for their reader.
const WAITING: usize = 256;
/// How long the thread waits for a change before it looks whether it shall end.
const TURN: Duration = Duration::from_millis(100);

/// The new state of a key.
#[derive(Debug)]
pub(crate) struct Change {
    pub(crate) key: Vec<u8>,
    pub(crate) value: Option<Vec<u8>>,
    /// The position behind the change; `None` in a comparison, except for the last one.
    pub(crate) end: Option<StreamPosition>,
}

/// See the module.
#[derive(Debug)]
pub(crate) struct Changes {
    receiver: Receiver<Result<Change>>,
}

impl Changes {
    /// Begins to read; the thread ends when this is dropped.
    pub(crate) fn begin(follower: Follower) -> Changes {
        let (sender, receiver) = channel(WAITING);
        std::thread::spawn(move || read(follower, &sender));
        Changes { receiver }
    }

    /// The next change. May be cancelled.
    ///
    /// # Errors
    /// `Lapped` if the stream has overwritten it; those of following.
    pub(crate) async fn next(&mut self) -> Result<Change> {
        let next = self.receiver.recv().await;
        next.unwrap_or_else(|| Err(Error::new(ErrorKind::Io, "the reader of the changes ended")))
    }

    /// The number of changes that wait.
    pub(crate) fn waiting(&self) -> usize {
        self.receiver.len()
    }
}

fn read(mut follower: Follower, sender: &Sender<Result<Change>>) {
    while !sender.is_closed() {
        match next(&mut follower, TURN) {
            Ok(None) => {}
            Ok(Some(change)) => {
                if sender.blocking_send(Ok(change)).is_err() {
                    return;
                }
            }
            Err(error) => {
                let _ = sender.blocking_send(Err(error));
                return;
            }
        }
    }
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
