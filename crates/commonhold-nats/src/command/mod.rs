//! One file per subcommand, and what they share.

pub mod bridge_loop;
pub mod bucket;
pub mod connection;
pub mod mirror;
pub mod publish;
pub mod receive;
pub mod send;
pub mod single_key;
pub mod target;
