//! [`Eviction`]: what decides which entries go.

use crate::store::tag::Tag;
use std::sync::Arc;

/// Decides which entries go. From any thread; in what order threads arrive is for it to bear: an
/// entry may be removed before it was told that it was added.
pub trait Eviction: Send + Sync + 'static {
    /// What it notes in an entry's tag.
    type Mark: Default + Send + Sync + 'static;

    /// Whether anything ever goes.
    const EVICTS: bool = true;

    /// For a cache of so many bytes.
    fn new(limit_bytes: u64) -> Self;

    /// A look-up has found the entry. False if it is not known here.
    fn used(&self, key: &[u8], mark: &Self::Mark) -> bool;

    /// Whether the entry of a key is known here. Asked only where other processes have entries,
    /// too.
    fn knows(&self, _key: &[u8]) -> bool {
        true
    }

    /// An entry is in the cache now.
    fn added(&self, tag: &Arc<Tag<Self::Mark>>);

    /// The entry of a key is not there any more; of this tag, if it is known.
    fn removed(&self, key: &[u8], tag: Option<&Arc<Tag<Self::Mark>>>);

    /// Which entry goes next; from now on it is not known here.
    fn victim(&self) -> Option<Arc<Tag<Self::Mark>>>;
}
