//! Guests: threads that work in a structure without a lane. They never wait for a lane, and a
//! signal handler that does the same may interrupt them.
//!
//! A guest first announces that it is inside (a store to a private word). Then it checks that the
//! handle is open and the structure exists
//! ([`Attachment::is_current`](crate::memory::attach::Attachment::is_current)). A thread that
//! closes or drops announces that first, then looks for guests. Each side fences between its store
//! and its look, so one sees the other. Guests are frequent, so the other side pays for both fences
//! ([`barrier`]). Only the guests of the own process count: nobody drops a structure to which
//! another process is attached.

use crate::os::barrier;
use crate::os::fork_cell::ForkCell;
use crate::sync::owner::Owner;
use std::sync::{Arc, Weak};

/// The guests of one structure in this process.
pub(crate) trait Guests: Send + Sync {
    /// The number of the structure's root.
    fn root(&self) -> u32;
    /// True if a thread is inside that announced itself as `me`. Announcements that were copied by
    /// a fork name the parent and do not count.
    fn is_anybody_inside(&self, me: Owner) -> bool;
}

/// All structures of a handle that may have guests.
pub(crate) struct Guestbook(ForkCell<Vec<Weak<dyn Guests>>>);

impl Default for Guestbook {
    fn default() -> Guestbook {
        Guestbook(ForkCell::new(Vec::new()))
    }
}

impl Guestbook {
    /// Adds a structure, and removes those that no longer exist.
    pub(crate) fn add(&self, guests: Weak<dyn Guests>) {
        self.0.update(|all| {
            let there = all.iter().filter(|guests| guests.strong_count() != 0);
            there.chain([&guests]).cloned().collect()
        });
    }

    /// Waits until no guest is inside any structure. No other guest comes, because the caller has
    /// closed what the guest would check.
    pub(crate) fn wait(&self, me: Owner) {
        let all = self.of(|_| true);
        barrier::heavy();
        for guests in &all {
            while guests.is_anybody_inside(me) {
                std::thread::yield_now();
            }
        }
    }

    /// Whether a guest is inside the structure of this root. If the caller is dropping it, no other
    /// guest comes.
    pub(crate) fn are_inside(&self, me: Owner, root: u32) -> bool {
        let of_root = self.of(|guests| guests.root() == root);
        if of_root.is_empty() {
            return false;
        }
        barrier::heavy();
        of_root.iter().any(|guests| guests.is_anybody_inside(me))
    }

    /// The structures to look at. Behind it, the caller fences: its announcement comes before the
    /// look at the guests, which pairs with the light fence of a guest. If the system refuses,
    /// light fences are full ones from here on.
    fn of(&self, wanted: impl Fn(&dyn Guests) -> bool) -> Vec<Arc<dyn Guests>> {
        let all = self.0.load();
        all.iter().filter_map(Weak::upgrade).filter(|guests| wanted(&**guests)).collect()
    }
}
