//! Whether an extent is in use, asked by the handler that may cover it by zeros
//! ([`os::page_guard`](crate::os::page_guard)).
//!
//! An extent in use has memory: it is populated while its state is CLAIMED, and punched only after
//! it has been claimed again. So a page of it that the system cannot provide was lost: the file was
//! made shorter, or the system could not read the page. Zeros would pass for an empty map there.

use crate::memory::classes::EXTENT;
use crate::memory::extents::{Kind, State, header_offset};

/// True if the extent of `offset` is in use, or if that cannot be known because its header has
/// gone. `word` loads the word at an offset: `None` if its page has gone, 0 beyond the mapping.
///
/// Runs in a signal handler: no system calls of its own, no allocation.
pub(crate) fn is_in_use(offset: u64, word: &dyn Fn(u64) -> Option<u64>) -> bool {
    let state = |extent| word(header_offset(extent)).map(State);
    let Some(own) = state(offset / EXTENT) else {
        return true;
    };
    match own.kind() {
        // A body is populated while the first extent of its run is CLAIMED. That extent lies before
        // it, unless the state is damaged.
        Kind::Body if own.first() >= offset / EXTENT => false,
        Kind::Body => state(own.first()).is_none_or(|first| has_memory(first.kind())),
        kind => has_memory(kind),
    }
}

/// True for kinds that data may be read from. Damage does not prove that there was memory.
fn has_memory(kind: Kind) -> bool {
    use Kind::{Claimed, Empty, Free, SpareDirectory, Unknown};
    !matches!(kind, Empty | Free | Claimed | SpareDirectory | Unknown)
}
