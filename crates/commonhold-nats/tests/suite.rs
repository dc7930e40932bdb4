//! The bridge against real servers, as a user runs it: with `hold-nats` as a process of its own.
//!
//! | module | idea |
//! |---|---|
//! | `server` | `nats-server` on the loopback interface, alone or as a cluster |
//! | `bridge` | `hold-nats` as a process, and a hold of its own |
//! | `client` | the servers as another program sees them |
//!
//! Without `nats-server` the tests fail in CI (`CI=true`), and elsewhere print that it is missing.

mod bridge;
mod client;
mod cluster;
mod connection;
mod help;
mod kills;
mod message_kills;
mod message_loss;
mod messages;
mod mirror;
mod outage;
mod publish;
mod server;
mod single_key;
mod take_over;
