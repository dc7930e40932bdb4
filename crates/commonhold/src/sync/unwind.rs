//! What has to be mended when a panic unwinds through the library.
//!
//! Between the first and the last store of a protocol the one who makes it keeps a [`Mend`]: its
//! closure brings what was begun to one of its ends, as the recoverer of a death would, and runs
//! before the locks around it are let go, which are values with a `Drop` of their own. So a caller
//! that catches the panic finds the hold as it was, or as it would have been. Where the work comes to its
//! end, nothing of this is executed.
//!
//! A closure may be run with everything done but its own last step, so what it does is idempotent.

use std::mem::ManuallyDrop;

/// Runs its closure when it is dropped, unless the work was [done](Mend::done).
#[must_use]
pub(crate) struct Mend<F: FnMut()>(F);

impl<F: FnMut()> Mend<F> {
    #[inline]
    pub(crate) fn new(mend: F) -> Mend<F> {
        Mend(mend)
    }

    /// There is nothing to mend any more. The closure has references only.
    #[inline]
    pub(crate) fn done(self) {
        let _ = ManuallyDrop::new(self);
    }
}

impl<F: FnMut()> Drop for Mend<F> {
    fn drop(&mut self) {
        (self.0)();
    }
}
