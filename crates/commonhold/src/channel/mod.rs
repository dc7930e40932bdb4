//! Channels: one producer, many consumers, nothing lost (protocol 6).
//!
//! A channel is a ring of bytes. The producer writes a message, zeroes the header after it, and
//! releases its own header. Consumers poll the header that comes next, so one line of memory
//! travels per message. Each consumer has a line of its own with a cursor. The producer looks at
//! the cursors only when it reaches its *write limit*, which it moves by an eighth of the ring.

// The files of this folder:
//
// | module | idea |
// |---|---|
// | `handle` | `Channel`: opening, status, its producer and consumers |
// | `options` | options for opening, joining, waiting |
// | `producer`, `reserve` | `Producer`: sending; writing a message in place |
// | `write_limit` | how far the producer may write, and the consumers that limit it |
// | `takeover` | becoming the producer, where the previous one stopped |
// | `consumer` | `Consumer`: receiving |
// | `join` | becoming a consumer, from now or the oldest message kept |
// | `endpoint_slot` | ties both to their participant: closed handles, forks, death |
// | `status` | the sender, the receivers, and their backlog |
// | `bound`, `layout`, `frame`, `raw_bytes` | its location, words, headers, bytes |

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

pub use consumer::Consumer;
pub use handle::Channel;
pub use options::{ChannelOptions, Join, Peer, Policy, Received, Wait};
pub use producer::Producer;
pub use raw_bytes::RawBytes;
pub use reserve::Reservation;
pub use status::{ChannelStat, ConsumerInfo, ConsumerState};
