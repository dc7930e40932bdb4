//! A thread reads items from a hold, for which it may wait, and a task receives them.

use crate::trouble::Session;
use commonhold::{Error, ErrorKind, Result};
use std::time::Duration;
use tokio::sync::mpsc::{Receiver, Sender, channel};

/// Items that wait for their reader.
const WAITING: usize = 256;
/// How long the thread may wait for an item before it looks whether it shall end.
pub(crate) const TURN: Duration = Duration::from_millis(100);

/// See the module.
#[derive(Debug)]
pub(crate) struct Feed<T> {
    receiver: Receiver<Result<T>>,
}

impl<T: Send + 'static> Feed<T> {
    /// Begins to read with `next`, which waits for at most [`TURN`]. The thread ends with an error
    /// of `next`, or soon after this is dropped.
    ///
    /// # Errors
    /// `Io` if the system has no thread.
    pub(crate) fn begin(
        next: impl FnMut() -> Result<Option<T>> + Send + 'static,
    ) -> Session<Feed<T>> {
        let (sender, receiver) = channel(WAITING);
        let thread = std::thread::Builder::new().name("hold-nats feed".to_owned());
        let spawned = thread.spawn(move || read(next, &sender));
        spawned.map_err(|error| Error::new(ErrorKind::Io, format!("no thread: {error}")))?;
        Ok(Feed { receiver })
    }

    /// The next item. May be cancelled.
    ///
    /// # Errors
    /// Those of reading.
    pub(crate) async fn next(&mut self) -> Result<T> {
        let next = self.receiver.recv().await;
        next.unwrap_or_else(|| Err(Error::new(ErrorKind::Io, "the reader of the hold ended")))
    }

    /// The number of items that wait.
    pub(crate) fn waiting(&self) -> usize {
        self.receiver.len()
    }
}

fn read<T>(mut next: impl FnMut() -> Result<Option<T>>, sender: &Sender<Result<T>>) {
    while !sender.is_closed() {
        let item = match next() {
            Ok(None) => continue,
            Ok(Some(item)) => Ok(item),
            Err(error) => Err(error),
        };
        let is_last = item.is_err();
        if sender.blocking_send(item).is_err() || is_last {
            return;
        }
    }
}
