//! The edge: from two words on the command line to a store.
//!
//! A server of files is generic over its store. It is compiled here once for each store, and no
//! store is called through a pointer to functions.

use super::bounded::Bounded;
use super::cache::{Cache, HashbrownTable, HoldCache, NoCache, Private, StdTable};
use super::contract::Store;
use super::evicting::Evicting;
use super::eviction::{Eviction, Lru, NoEviction, S3Fifo};
use commonhold::{Error, ErrorKind, Hold, Result};
use std::sync::Arc;

/// The places of entries.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum CacheKind {
    /// Nowhere.
    None,
    /// In the standard library's table.
    Std,
    /// In the table of the crate `hashbrown`.
    Hashbrown,
    /// In a map of a hold, for all processes.
    Hold,
}

commonhold_io::named_choice!(CacheKind { None => "none", Std => "std", Hashbrown => "hashbrown", Hold => "hold" });

/// The choices of entries that are evicted when there is no room.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum EvictionKind {
    /// None: a value that finds no room is not kept.
    None,
    /// The least recently used, behind a mutex.
    Mutex,
    /// [`S3Fifo`], without a lock; of [`CacheKind::Hold`], the map's own.
    Lockfree,
}

commonhold_io::named_choice!(EvictionKind { None => "none", Mutex => "mutex", Lockfree => "lockfree" });

/// A computation that runs on any store.
pub trait WithStore {
    /// The result of the computation.
    type Output;

    /// Runs in the calling thread of [`choose_store`].
    fn run<S: Store>(self, store: Arc<S>) -> Self::Output;
}

/// Makes the requested store, of at most `limit_bytes` bytes, and runs `with` on it. Only
/// [`CacheKind::Hold`] needs `hold`. Its maps `map_name` and `map_name` with `.bytes` belong to the
/// store: maps of these names with other options, such as another limit, are dropped.
///
/// # Errors
/// `Invalid` if a hold is needed and none is given; those of opening it once more and of making
/// maps. Then `with` has not run.
pub fn choose_store<W: WithStore>(
    cache: CacheKind,
    eviction: EvictionKind,
    limit_bytes: u64,
    hold: Option<&Hold>,
    map_name: &str,
    with: W,
) -> Result<W::Output> {
    let hold = || hold.ok_or_else(no_hold);
    let shared = || HoldCache::open(hold()?, map_name);
    let join = Join { limit_bytes, with };
    use {CacheKind as In, EvictionKind as By};
    Ok(match (cache, eviction) {
        (In::None, By::None) => join.of::<NoEviction, _>(NoCache),
        (In::None, By::Mutex) => join.of::<Lru, _>(NoCache),
        (In::None, By::Lockfree) => join.of::<S3Fifo, _>(NoCache),
        (In::Std, By::None) => join.of::<NoEviction, _>(Private::<StdTable<_>>::default()),
        (In::Std, By::Mutex) => join.of::<Lru, _>(Private::<StdTable<_>>::default()),
        (In::Std, By::Lockfree) => join.of::<S3Fifo, _>(Private::<StdTable<_>>::default()),
        (In::Hashbrown, By::None) => {
            join.of::<NoEviction, _>(Private::<HashbrownTable<_>>::default())
        }
        (In::Hashbrown, By::Mutex) => join.of::<Lru, _>(Private::<HashbrownTable<_>>::default()),
        (In::Hashbrown, By::Lockfree) => {
            join.of::<S3Fifo, _>(Private::<HashbrownTable<_>>::default())
        }
        (In::Hold, By::None) => join.of::<NoEviction, _>(shared()?),
        (In::Hold, By::Mutex) => join.of::<Lru, _>(shared()?),
        (In::Hold, By::Lockfree) => {
            join.with.run(Arc::new(Evicting::open(hold()?, map_name, limit_bytes)?))
        }
    })
}

/// The data for joining a cache and an eviction.
struct Join<W> {
    limit_bytes: u64,
    with: W,
}

impl<W: WithStore> Join<W> {
    fn of<E: Eviction, C: Cache<E::Mark>>(self, cache: C) -> W::Output {
        self.with.run(Arc::new(Bounded::<C, E>::new(cache, self.limit_bytes)))
    }
}

fn no_hold() -> Error {
    let text = "a cache in a hold needs a hold: name one, or choose another cache".to_owned();
    Error::new(ErrorKind::Invalid, text)
}
