//! A value that threads replace as a whole. No forked child ever finds it half replaced or locked.
//!
//! A mutex of the process would suffice if not for `fork`: a child that is forked while another
//! thread holds the mutex can never lock it. This value is read and replaced while forks are
//! prevented ([`super::fork`]), for a few instructions each time. The new value is built before
//! that.
//!
//! # Safety
//! The value is accessed only under the fork lock, of which the process has one.
#![allow(unsafe_code)]

use super::fork::with_fork_lock;
use std::cell::UnsafeCell;
use std::mem;
use std::sync::Arc;

/// See the module. Rarely used: each use blocks signals for a moment.
pub(crate) struct ForkCell<T>(UnsafeCell<Arc<T>>);

// SAFETY: a thread that accesses the value has the fork lock, and only an `Arc` leaves.
unsafe impl<T: Send + Sync> Sync for ForkCell<T> {}
// SAFETY: as for an `Arc`.
unsafe impl<T: Send + Sync> Send for ForkCell<T> {}

impl<T> ForkCell<T> {
    pub(crate) fn new(value: T) -> ForkCell<T> {
        ForkCell(UnsafeCell::new(Arc::new(value)))
    }

    /// The current value.
    pub(crate) fn load(&self) -> Arc<T> {
        // SAFETY: with the fork lock held nobody replaces it.
        with_fork_lock(|| unsafe { Arc::clone(&*self.0.get()) })
    }

    /// Replaces the value by the result of `change`. Repeats `change` if another thread has
    /// replaced the value meanwhile.
    pub(crate) fn update(&self, mut change: impl FnMut(&T) -> T) {
        loop {
            let old = self.load();
            let mut new = Arc::new(change(&old));
            let is_replaced = with_fork_lock(|| {
                // SAFETY: with the fork lock held nobody else accesses it.
                let value = unsafe { &mut *self.0.get() };
                let is_same = Arc::ptr_eq(value, &old);
                if is_same {
                    mem::swap(value, &mut new);
                }
                is_same
            });
            // The old value is dropped here, outside of the lock, because that frees memory.
            if is_replaced {
                return;
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn no_change_is_lost() {
        let all = ForkCell::new(Vec::new());
        std::thread::scope(|scope| {
            for thread in 0..4 {
                let all = &all;
                scope.spawn(move || {
                    for n in 0..500 {
                        all.update(|all: &Vec<u32>| {
                            let mut all = all.clone();
                            all.push(thread * 1_000 + n);
                            all
                        });
                    }
                });
            }
        });
        let mut all = all.load().to_vec();
        all.sort_unstable();
        all.dedup();
        assert_eq!(all.len(), 2_000);
    }
}
