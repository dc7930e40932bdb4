//! Channels: one producer, many consumers, nothing lost (protocol 6).
//!
//! A byte ring. The producer writes a message, zeroes the header behind it, and releases its own header; consumers poll
//! the header that comes next, so one line of memory travels per message. Each consumer has a line of its own with a
//! cursor; the producer looks at them only when it comes to its *write limit*, and moves that by an eighth of the ring.
//!
//! | module | idea |
//! |---|---|
//! | [`handle`] | `Channel`: opening, status, its producer and consumers |
//! | [`options`] | what one says when opening, joining, waiting |
//! | [`producer`], [`reserve`] | `Producer`: sending; a message written where it lies |
//! | [`write_limit`] | how far the producer may write, whom it waits for, who is dropped |
//! | [`takeover`] | becoming the producer, where the one before stopped |
//! | [`consumer`] | `Consumer`: receiving |
//! | [`join`] | becoming a consumer, from now or the oldest message kept |
//! | [`endpoint_slot`] | what ties both to their participant: closed handles, forks, death |
//! | [`status`] | who sends, who receives, who is behind |
//! | [`bound`], [`layout`], [`frame`], [`raw_bytes`] | where the channel lies, its words, its headers, its bytes |

mod bound;
pub(crate) mod consumer;
mod endpoint_slot;
mod frame;
pub(crate) mod handle;
mod join;
mod layout;
pub(crate) mod options;
pub(crate) mod producer;
pub(crate) mod raw_bytes;
pub(crate) mod recover;
pub(crate) mod reserve;
pub(crate) mod status;
mod takeover;
mod write_limit;
