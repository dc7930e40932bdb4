//! Guests: threads that are inside a structure without a lane, so that they never wait for one and may be
//! interrupted by a signal handler that does the same.
//!
//! A guest first says that it is inside (a SeqCst exchange on a private word), then looks whether the handle is closed and
//! the structure is there ([`Attachment::is_current`](crate::memory::attach::Attachment::is_current)); who closes or drops first
//! says so, then looks for guests. All four are SeqCst, so one sees the other. Only the guests of one's own
//! process count: nobody drops what another process is attached to.

use crate::os::fork_cell::ForkCell;
use crate::sync::owner::Owner;
use std::sync::Weak;

/// The guests of one structure in this process.
pub(crate) trait Guests: Send + Sync {
    /// The number of the structure's root.
    fn root(&self) -> u32;
    /// True if a thread is inside that said so as `me`. Says that were copied by a fork name the parent and do not
    /// count.
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
    /// Enters a structure; those that are gone are struck out.
    pub(crate) fn add(&self, guests: Weak<dyn Guests>) {
        self.0.update(|all| {
            let there = all.iter().filter(|guests| guests.strong_count() != 0);
            there.chain([&guests]).cloned().collect()
        });
    }

    /// Waits until no guest is inside the structure of this root, or any. No other comes, because the caller has
    /// closed or is dropping what they would look at.
    pub(crate) fn wait(&self, me: Owner, root: Option<u32>) {
        let all: Vec<_> = self.0.load().iter().filter_map(Weak::upgrade).collect();
        for guests in all.iter().filter(|guests| root.is_none_or(|root| guests.root() == root)) {
            while guests.is_anybody_inside(me) {
                std::thread::yield_now();
            }
        }
    }
}
