//! Contents of files, kept in memory up to a number of bytes.
//!
//! [`Store`] is the one interface. Two choices make a store: the place of entries ([`Cache`]), and
//! the choice of entries that are evicted when there is no room ([`Eviction`]). [`Bounded`] joins
//! any two of them and counts the bytes. It is compiled for each pair, and nothing is called
//! through a table of functions. [`choose_store`] makes one from two words of a command line.
//!
//! | cache | place of entries | result of a look-up |
//! |---|---|---|
//! | `none` | nowhere | nothing |
//! | `std`, `hashbrown` | in a table of the process, behind a lock for many readers | a share of
//! the entry |
//! | `hold` | in a map of a hold: all processes have the same ones, and they outlive a restart | a
//! copy |
//!
//! | eviction | entries that go |
//! |---|---|
//! | `none` | none: a value that finds no room is not kept |
//! | `mutex` | exactly the least recently used |
//! | `lockfree` | those not used again soon, by queues and visited bits: S3-FIFO; of `hold`, the
//! map's own |
//!
//! | module | idea |
//! |---|---|
//! | `contract` | the interface, its statistics |
//! | `bounded` | a cache and an eviction, joined; the limit |
//! | `cache` | the places of entries |
//! | `eviction` | the choices of entries that go |
//! | `evicting` | a map in cache mode, which evicts by itself: the store of `hold` and `lockfree` |
//! | `tag`, `striped_counters` | a key with an eviction's notes; counters without contention |
//! | `choose` | from two words to a store |
//!
//! Common to all: a store never fails a request. A value that it cannot keep is not kept; for
//! whatever reason, an older value of the same key is no longer returned.
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
