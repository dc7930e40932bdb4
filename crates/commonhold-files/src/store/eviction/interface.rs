//! [`Eviction`]: the choice of the entries that go.

use crate::store::tag::Tag;
use std::sync::Arc;

/// Decides which entries go. Any thread may call it, and it has to accept any order of the calls:
/// an entry may be removed before it was added.
pub trait Eviction: Send + Sync + 'static {
    /// Its notes in an entry's tag.
    type Mark: Default + Send + Sync + 'static;

    /// Whether entries ever go.
    const EVICTS: bool = true;

    /// An eviction for a cache of `limit_bytes` bytes.
    fn new(limit_bytes: u64) -> Self;

    /// A look-up has found the entry. False if the eviction does not know it.
    fn used(&self, key: &[u8], mark: &Self::Mark) -> bool;

    /// Whether the eviction knows the entry of a key. Called only where other processes have
    /// entries, too.
    fn knows(&self, _key: &[u8]) -> bool {
        true
    }

    /// An entry was added to the cache.
    fn added(&self, tag: &Arc<Tag<Self::Mark>>);

    /// The entry of a key was removed; with its tag, if the tag is known.
    fn removed(&self, key: &[u8], tag: Option<&Arc<Tag<Self::Mark>>>);

    /// The entry that goes next; from now on the eviction does not know it.
    fn victim(&self) -> Option<Arc<Tag<Self::Mark>>>;
}
