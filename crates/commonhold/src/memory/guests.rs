//! Guests: threads that work in a structure without a lane. They never wait for a lane, and a
//! signal handler that does the same may interrupt them.
//!
//! A guest first announces that it is inside (a SeqCst exchange on a private word). Then it checks
//! that the handle is open and the structure exists
//! ([`Attachment::is_current`](crate::memory::attach::Attachment::is_current)). A thread that
//! closes or drops announces that first, then looks for guests. All four accesses are SeqCst, so
//! one sees the other. Only the guests of the own process count: nobody drops a structure to which
//! another process is attached.

use crate::os::fork_cell::ForkCell;
use crate::sync::owner::Owner;
use std::sync::Weak;

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

    /// Waits until no guest is inside the structure of this root, or inside any. No other guest
    /// comes, because the caller has closed or is dropping what the guest would check.
    pub(crate) fn wait(&self, me: Owner, root: Option<u32>) {
        let all: Vec<_> = self.0.load().iter().filter_map(Weak::upgrade).collect();
        for guests in all.iter().filter(|guests| root.is_none_or(|root| guests.root() == root)) {
            while guests.is_anybody_inside(me) {
                std::thread::yield_now();
            }
        }
    }
}
