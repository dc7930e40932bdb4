//! The edge: from two words on the command line to a store.
//!
//! What serves files from a store is generic; it is compiled once for each here, and nowhere is a
//! store behind a pointer to functions.

use super::bounded::Bounded;
use super::cache::{Cache, HashbrownTable, HoldCache, NoCache, Private, StdTable};
use super::contract::Store;
use super::evicting::Evicting;
use super::eviction::{Eviction, Lru, NoEviction, S3Fifo};
use commonhold::{Error, ErrorKind, Hold, Result};
use std::sync::Arc;

/// Where entries are kept.
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

/// Which entries go when there is no room.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum EvictionKind {
    /// None: what finds no room is not kept.
    None,
    /// The least recently used, behind a mutex.
    Mutex,
    /// [`S3Fifo`], without a lock; of [`CacheKind::Hold`], the map's own.
    Lockfree,
}

commonhold_io::named_choice!(EvictionKind { None => "none", Mutex => "mutex", Lockfree => "lockfree" });

/// What uses a store, whichever it is.
pub trait WithStore {
    /// What it leaves behind.
    type Output;

    /// Runs, in the thread that chose.
    fn run<S: Store>(self, store: Arc<S>) -> Self::Output;
}

/// Makes the wanted store, of at most `limit_bytes`, and runs `with` on it. Only
/// [`CacheKind::Hold`] needs `hold`, in which the map `map_name` belongs to the store, and so does
/// `map_name` with `.bytes`: what is there under these names and was made with other options,
/// another limit too, is dropped.
///
/// # Errors
/// `Invalid` if a hold is needed and none is given; those of opening it once more and of making
/// maps. Then nothing has run.
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

/// What a cache and an eviction are joined for.
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
