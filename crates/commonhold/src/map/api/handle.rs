//! [`Map`]: the public handle with every operation of a map.

use crate::error::{Error, ErrorKind, Result};
use crate::map::api::binding::Binding;
use crate::map::engine::bound::Bound;
use crate::map::engine::change::Expiry;
use crate::map::options::MapOptions;
use crate::memory::arena::Arena;
use crate::stream::follow::Follower;
use crate::stream::position::StreamPosition;
use crate::sync::space::Space;
use std::fmt;
use std::sync::Arc;

/// A map from bytes to bytes in a hold, shared by every process that has the hold open.
///
/// A handle is cheap to clone. Any thread may use it, and so may a forked child. **Readers** (`get`
/// and every other operation that only takes keys) never wait, lock or write shared memory: a
/// stopped or killed writer does not delay them. **Writers** of the same segment wait for each
/// other, even for a stopped process, for
/// [`HoldOptions::lock_timeout`](crate::HoldOptions::lock_timeout) at most. If a writer is killed,
/// the next one recovers its change: either the change has happened, or it has not. Every change of
/// one key is atomic and linearizable.
///
/// Keys and values are arbitrary bytes and may be empty. A key and its value have at most 2^32 - 1
/// bytes together ([`ErrorKind::TooLarge`]).
///
/// ```
/// # let dir = std::env::temp_dir().join(format!("commonhold-doc-{}", std::process::id()));
/// # std::fs::create_dir_all(&dir).unwrap();
/// # let path = dir.join("shop.hold");
/// use commonhold::{Hold, map::MapOptions};
///
/// let hold = Hold::open_or_create(&path)?;
/// let prices = hold.maps().open_or_create("prices", MapOptions::general())?;
/// prices.set("apple", "3")?;
/// assert_eq!(prices.get("apple")?.as_deref(), Some(&b"3"[..]));
/// assert_eq!(prices.get("pear")?, None);
/// # drop((prices, hold));
/// # std::fs::remove_dir_all(&dir).unwrap();
/// # Ok::<(), commonhold::Error>(())
/// ```
#[derive(Clone)]
pub struct Map {
    pub(crate) arena: Arc<Arena>,
    pub(crate) bound: Arc<Binding>,
    options: MapOptions,
    /// Whether this handle may write a replica's map.
    applies: bool,
    /// Cache mode: when the pairs that this handle stores expire.
    pub(crate) expiry: Expiry,
}

impl fmt::Debug for Map {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let path = self.space().file().path();
        let map = &mut f.debug_struct("Map");
        map.field("name", &self.name()).field("hold", &path).finish_non_exhaustive()
    }
}

impl Map {
    pub(crate) fn new(arena: Arc<Arena>, bound: Bound) -> Map {
        let options = MapOptions { value_room: bound.value_room, ..bound.mode.into() };
        Map {
            arena,
            bound: Arc::new(Binding::new(bound)),
            options,
            applies: false,
            expiry: Expiry::Own,
        }
    }

    /// The same handle with the right to write a replica's map.
    pub(crate) fn for_replica(self) -> Map {
        Map { applies: true, ..self }
    }

    /// # Errors
    /// `ReadOnly` if the map is a replica's.
    #[inline]
    pub(crate) fn ensure_may_write(&self) -> Result<()> {
        // The map may have been made writable for everybody since it was bound.
        if self.bound.replica && self.applies != self.bound.root(self.space()).is_replica() {
            return Err(if self.applies { self.promoted() } else { self.written_by_replica() });
        }
        Ok(())
    }

    #[cold]
    fn promoted(&self) -> Error {
        if let Err(error) = self.bound.ensure_current(self.space()) {
            return error;
        }
        let text = format!(
            "map '{}' was promoted, so it is no longer a replica; to make it one again, drop it \
             and start the replica again",
            self.name()
        );
        Error::new(ErrorKind::Mismatch, text)
    }

    #[cold]
    fn written_by_replica(&self) -> Error {
        let text = format!(
            "map '{}' is a replica, so it is read-only here; write to the origin's map instead",
            self.name()
        );
        Error::new(ErrorKind::ReadOnly, text)
    }

    #[inline]
    pub(crate) fn space(&self) -> &Space {
        &self.arena.space
    }

    /// The map's name.
    pub fn name(&self) -> &str {
        &self.bound.name
    }

    /// The options that the map was created with.
    pub fn options(&self) -> &MapOptions {
        &self.options
    }

    /// Follows the map's changes from now on. The map needs a stream
    /// ([`Maps::begin_stream`](crate::hold::Maps::begin_stream)).
    ///
    /// # Errors
    /// `NotFound` if the map has no stream, or was dropped; `Closed`.
    pub fn follow(&self) -> Result<Follower> {
        let space = self.space();
        self.bound
            .read(space, |bound| Follower::new(Arc::clone(&self.arena), bound.followed(space)))
    }

    /// The number of the map's stream; `None` between two streams, while it is being resized.
    ///
    /// # Errors
    /// `NotFound` if the map was dropped; `Closed`.
    pub(crate) fn stream_number(&self) -> Result<Option<u64>> {
        match self.follow() {
            Ok(follower) => Ok(Some(follower.position().stream)),
            Err(error) if error.is_not_found() => self.len().map(|_| None),
            Err(error) => Err(error),
        }
    }

    /// Follows the map's changes from a position that a [`Follower`] returned earlier, perhaps in
    /// another process.
    ///
    /// # Errors
    /// `Mismatch` if the position is not in the map's stream (a stream ends with its map); `Lapped`
    /// if the stream does not reach back that far; those of [`follow`](Self::follow).
    pub fn follow_from(&self, position: StreamPosition) -> Result<Follower> {
        self.follow()?.seek(position)
    }
}
