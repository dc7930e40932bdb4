//! Where a receiver puts the messages: a channel, or a named queue.
//!
//! Both have a position, which grows by one in the very step that shows a message: a channel's next
//! number, and the count of elements that were ever pushed to a named queue.

use commonhold::channel::Producer;
use commonhold::queue::Queue;
use commonhold::raw::{Incarnation, channel_incarnation, pushed, queue_incarnation};
use commonhold::{Error, ErrorKind, Hold, Result};
use std::time::Duration;

/// How long it waits for room before it returns.
const TURN: Duration = Duration::from_millis(100);
/// Bytes of the length in an element.
const HEAD: usize = 4;

/// The kind of a target, and the name of its parts.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Destination {
    /// A channel.
    Channel,
    /// A queue.
    Queue {
        /// The named queue for the messages.
        to: String,
        /// The named queue of free elements; `None` for the first one.
        from: Option<String>,
        /// Elements begin with the length of the message (4 bytes, little-endian). Otherwise the
        /// rest of an element is zeros.
        sized: bool,
    },
}

/// See the module.
#[derive(Debug)]
pub(crate) enum Target {
    Channel { producer: Box<Producer>, incarnation: Incarnation },
    Queue { queue: Queue, to: String, from: String, sized: bool, element: Vec<u8> },
}

impl Target {
    /// Opens the channel or the queue of this name.
    ///
    /// # Errors
    /// `NotFound`; `Busy` if the channel has a producer; `Invalid` for named queues that cannot
    /// work.
    pub(crate) fn open(hold: &Hold, name: &str, destination: &Destination) -> Result<Target> {
        let Destination::Queue { to, from, sized } = destination else {
            let channel = hold.channels().open(name)?;
            let incarnation = channel_incarnation(&channel);
            let producer = Box::new(channel.producer()?);
            return Ok(Target::Channel { producer, incarnation });
        };
        let queue = hold.queues().open(name)?;
        let first = || queue.all().next().map_or(String::new(), |first| first.name().to_owned());
        let from = from.clone().unwrap_or_else(first);
        let orphans = queue.orphans().name().to_owned();
        for (other, what) in [(&from, "free elements come from"), (&orphans, "orphans go to")] {
            if other == to {
                let text = format!(
                    "queue '{name}': {what} '{to}', so messages need another named queue than that"
                );
                return Err(Error::new(ErrorKind::Invalid, text));
            }
        }
        queue.named(to)?;
        queue.named(&from)?;
        let element = vec![0; queue.stat()?.element_bytes as usize];
        Ok(Target::Queue { queue, to: to.clone(), from, sized: *sized, element })
    }

    /// The position of the next message.
    ///
    /// # Errors
    /// `NotFound` if the queue was dropped; `Closed`.
    pub(crate) fn position(&self) -> Result<u64> {
        match self {
            Target::Channel { producer, .. } => Ok(producer.sequence()),
            Target::Queue { queue, to, .. } => pushed(queue.named(to)?),
        }
    }

    pub(crate) fn incarnation(&self) -> Incarnation {
        match self {
            Target::Channel { incarnation, .. } => *incarnation,
            Target::Queue { queue, .. } => queue_incarnation(queue),
        }
    }

    /// The longest message in bytes.
    pub(crate) fn max_message(&self) -> usize {
        match self {
            Target::Channel { producer, .. } => producer.max_message(),
            Target::Queue { sized: true, element, .. } => element.len().saturating_sub(HEAD),
            Target::Queue { element, .. } => element.len(),
        }
    }

    /// Puts a message, which is not longer than the longest one. False if there is no room for a
    /// moment.
    ///
    /// # Errors
    /// Those of channels and queues.
    pub(crate) fn put(&mut self, message: &[u8]) -> Result<bool> {
        match self {
            Target::Channel { producer, .. } => Ok(producer.send_timeout(message, TURN)?.is_some()),
            Target::Queue { queue, to, from, sized, element } => {
                let Some(free) = queue.named(from)?.pull_timeout(TURN)? else { return Ok(false) };
                pack(message, *sized, element);
                free.write(0, element)?;
                queue.named(to)?.push(free)?;
                Ok(true)
            }
        }
    }
}

/// Fills every byte of an element, as `hold queue push` does.
fn pack(message: &[u8], sized: bool, element: &mut [u8]) {
    let (head, rest) = element.split_at_mut(if sized { HEAD } else { 0 });
    if sized {
        // The length fits: an element has less than 4 GiB.
        head.copy_from_slice(&(message.len() as u32).to_le_bytes());
    }
    let (own, zeros) = rest.split_at_mut(message.len());
    own.copy_from_slice(message);
    zeros.fill(0);
}
