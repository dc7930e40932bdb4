//! Repairs that run when a panic unwinds through the library.
//!
//! Between the first and the last store of a protocol, the code that runs it keeps an
//! [`UnwindGuard`]. The closure of the `UnwindGuard` rolls the protocol forward or back, as
//! recovery would after a death. It runs before the surrounding locks are released, which are
//! values with a `Drop` of their own. A caller that catches the panic therefore finds the hold as
//! it was before, or as it would be after. Nothing of this runs when the work completes.
//!
//! A closure may run when everything but its own last step is done, so its work is idempotent.

use std::mem::ManuallyDrop;

/// Runs its closure when dropped, unless the work is [done](UnwindGuard::done).
#[must_use]
pub(crate) struct UnwindGuard<F: FnMut()>(F);

impl<F: FnMut()> UnwindGuard<F> {
    #[inline]
    pub(crate) fn new(recover: F) -> UnwindGuard<F> {
        UnwindGuard(recover)
    }

    /// Nothing needs a repair any more. The closure has references only.
    #[inline]
    pub(crate) fn done(self) {
        let _ = ManuallyDrop::new(self);
    }
}

impl<F: FnMut()> Drop for UnwindGuard<F> {
    fn drop(&mut self) {
        (self.0)();
    }
}
