//! **Commonhold**: one file of memory, a *hold*, that many processes share. Maps inside it are read and written at
//! memory speed by any process, without a server, and cannot be broken by killing anybody.
//!
//! ```
//! # let dir = std::env::temp_dir().join(format!("commonhold-lib-{}", std::process::id()));
//! # std::fs::create_dir_all(&dir).unwrap();
//! # let name = dir.join("shop.hold");
//! use commonhold::{Hold, map::MapOptions};
//!
//! let hold = Hold::open_or_create(&name)?; // "shop" would be /dev/shm/shop.hold
//! let stock = hold.map("stock", MapOptions::general())?;
//! stock.set("apple", "12 crates")?;
//! let uid = stock.set("pear", "3 crates")?;
//! assert_eq!(stock.get("apple")?.as_deref(), Some(&b"12 crates"[..]));
//! assert_eq!(stock.get_uid(uid)?.map(|(key, _)| key).as_deref(), Some(&b"pear"[..]));
//! assert_eq!(stock.increment("visits", 1)?, 1);
//! # drop((stock, hold));
//! # std::fs::remove_dir_all(&dir).unwrap();
//! # Ok::<(), commonhold::Error>(())
//! ```
//!
//! [`Hold`] is the file; [`Map`] the hash table; [`Queue`] moves elements between processes; [`Channel`] has one producer
//! and many consumers; [`Log`] merges what many threads write; [`MapOptions`] says general, fixed-length or cache; [`Error`]
//! tells what is wrong and the way out. Layers point down: `hold -> {map, queue, channel, log} -> memory -> sync -> os`.
//! ARCHITECTURE.md is the tour,
//! docs/internals/concurrency.md the argument.

pub mod channel;
pub mod error;
pub mod hold;
pub mod log;
pub mod map;
mod memory;
mod os;
pub mod queue;
#[doc(hidden)]
pub mod raw;
#[cfg_attr(not(feature = "steps"), allow(unused))]
#[doc(hidden)]
pub mod steps;
pub mod stream;
mod sync;

pub use error::{Error, ErrorKind, Result};
pub use hold::handle::Hold;
pub use hold::options::HoldOptions;

/// The programs in the documents, so that one that no longer compiles fails.
#[cfg(doctest)]
mod documents {
    #[doc = include_str!("../../../README.md")]
    struct Readme;
    #[doc = include_str!("../../../docs/guide/rust.md")]
    struct Rust;
    #[doc = include_str!("../../../docs/guide/caching.md")]
    struct Caching;
    #[doc = include_str!("../../../docs/guide/messaging.md")]
    struct Messaging;
}
