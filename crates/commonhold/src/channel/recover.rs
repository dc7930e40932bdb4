//! The words that a dead participant leaves in a channel: the producer's word, and cursor lines.
//!
//! No other participant depends on this recovery: each one that meets these words asks whether
//! their owner is alive. It ensures that a sleeping producer learns of a death at once, and that no
//! word outlives its generation.

use crate::channel::bound::{head, line};
use crate::channel::layout::{LINES, Word};
use crate::memory::block::Block;
use crate::sync::owner::Owner;
use crate::sync::space::Space;
use std::sync::atomic::Ordering;

/// Releases what `owner` had of the channel in this block. The caller holds its byte, and it is
/// attached.
pub(crate) fn give_back(space: &Space, block: &Block, owner: Owner) {
    let Some(head) = head(space, block) else { return };
    let free = |word: &std::sync::atomic::AtomicU64| {
        let seen = word.load(Ordering::Acquire);
        let own = Word(seen).owner() == Some(owner);
        // Another participant that found the owner dead may be claiming it: one of the two
        // succeeds.
        own && word.compare_exchange(seen, 0, Ordering::AcqRel, Ordering::Relaxed).is_ok()
    };
    free(&head.producer);
    // All of them: a line is claimed before it counts as used.
    let left = (0..LINES).filter(|number| free(&line(space, block, *number).word));
    if left.count() > 0 {
        head.room.wake_all();
    }
}
