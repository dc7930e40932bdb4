//! Contents of files, kept in memory up to a number of bytes.
//!
//! [`Store`] is the one interface. Two choices make a store: where entries are kept ([`Cache`]),
//! and which of them go when there is no room ([`Eviction`]). [`Bounded`] joins any two of them and
//! counts the bytes; it is compiled for each pair, and nothing is called through a table of
//! functions. [`choose_store`] makes one from two words of a command line.
//!
//! | cache | where entries are | what a look-up gives |
//! |---|---|---|
//! | `none` | nowhere | nothing |
//! | `std`, `hashbrown` | in a table of the process, behind a lock for many readers | a share of the entry |
//! | `hold` | in a map of a hold: all processes have the same ones, and they are still there after a restart | a copy |
//!
//! | eviction | what goes |
//! |---|---|
//! | `none` | nothing: what finds no room is not kept |
//! | `mutex` | what was not used for the longest time, exactly |
//! | `lockfree` | what was not used again soon, by queues and visited bits: S3-FIFO; of `hold`, the map's own |
//!
//! | module | idea |
//! |---|---|
//! | `contract` | the interface, its statistics |
//! | `bounded` | a cache and an eviction, joined; the limit |
//! | `cache` | where entries are kept |
//! | `eviction` | which of them go |
//! | `evicting` | a map in cache mode, which evicts by itself: the store of `hold` and `lockfree` |
//! | `tag`, `striped_counters` | a key with what an eviction notes about it; counters that threads do not fight for |
//! | `choose` | from two words to a store |
//!
//! Common to all: a store never fails a request. What it cannot keep, it does not keep; whatever
//! the reason, an older value of the same key is not given out any more.
//!
//! ```
//! use commonhold_files::store::{CacheKind, EvictionKind, Store, WithStore, choose_store};
//! use std::sync::Arc;
//!
//! struct Greet;
//! impl WithStore for Greet {
//!     type Output = usize;
//!     fn run<S: Store>(self, store: Arc<S>) -> usize {
//!         store.put(b"greeting.txt", b"hello".to_vec());
//!         store.get(b"greeting.txt").map_or(0, |found| found.as_ref().len())
//!     }
//! }
//! let (cache, eviction) = ("hashbrown".parse()?, "lockfree".parse()?);
//! assert_eq!(choose_store(cache, eviction, 1 << 20, None, ".files", Greet)?, 5);
//! assert_eq!(choose_store(CacheKind::None, EvictionKind::None, 0, None, ".files", Greet)?, 0);
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```

mod bounded;
pub mod cache;
pub mod caches;
mod choose;
mod contract;
mod evicting;
pub mod eviction;
mod striped_counters;
mod tag;

pub use bounded::{Bounded, ENTRY_BYTES};
pub use cache::Cache;
pub use choose::{CacheKind, EvictionKind, WithStore, choose_store};
pub use contract::{Store, StoreStat};
pub use evicting::Evicting;
pub use eviction::Eviction;
pub use tag::Tag;
