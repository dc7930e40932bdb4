//! The bridge between the structures of a hold and NATS JetStream: a map that mirrors a key-value
//! bucket, a bucket that has the changes of a map, and messages in both directions.
//!
//! | module | idea |
//! |---|---|
//! | [`server`] | the connection, its options, contexts of the tool `nats` |
//! | [`bucket`] | a key-value bucket: single keys, conditions |
//! | [`mirror`] | keeps a map equal to a bucket |
//! | [`publish`] | keeps a bucket equal to a map |
//! | [`send`] | publishes the messages of a channel to a stream |
//! | [`receive`] | delivers the messages of a stream to a channel or a queue |
//! | [`bridge`] | runs the sessions of these four |
//! | [`local_copy`] | waits until a mirror shows a change |
//! | [`key`] | keys of any bytes as keys of a bucket |
//! | [`status`] | what a bridge reports about itself |
//! | `reader` | reads a stream in order |
//! | `feed` | a thread that reads from a hold for a task |
//! | `stream` | finds streams, and knows what they accept |
//! | `slot` | allows one bridge of a kind only |
//! | `trouble` | errors that end a bridge, and others |
//!
//! The program `hold-nats` is this library with a command line; `hold nats` starts it.
//!
//! Invariant: a bridge may be killed at any moment. The next one continues where it was, because
//! the position lies next to the data: in the hold for a mirror, a sender and a receiver, in the
//! bucket for a publisher.

#![forbid(unsafe_code)]

pub mod bridge;
pub mod bucket;
mod feed;
pub mod key;
pub mod local_copy;
pub mod mirror;
pub mod publish;
mod reader;
pub mod receive;
pub mod send;
pub mod server;
mod slot;
pub mod status;
mod stream;
mod trouble;
