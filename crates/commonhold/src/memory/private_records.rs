//! [`PrivateRecords`]: what this process knows about structures and the file does not contain.
//!
//! All handles of a process on a structure, through one handle on the hold, share one record. A
//! record that is in use outlives these handles. No forked child finds the list locked.

use crate::os::fork_cell::ForkCell;
use std::any::Any;
use std::sync::Arc;

/// Root and incarnation of a structure.
type Key = (u32, u64);

/// The records of one handle on a hold.
pub(crate) struct PrivateRecords(ForkCell<Vec<Entry>>);

#[derive(Clone)]
struct Entry {
    key: Key,
    record: Arc<dyn Any + Send + Sync>,
}

impl Entry {
    fn get<R: Any + Send + Sync>(&self) -> Option<Arc<R>> {
        Arc::clone(&self.record).downcast().ok()
    }
}

impl Default for PrivateRecords {
    fn default() -> PrivateRecords {
        PrivateRecords(ForkCell::new(Vec::new()))
    }
}

impl PrivateRecords {
    /// The record of a structure, made by `fresh` if there is none. Removes other records of this
    /// type that have no handle and are not `in_use`.
    pub(crate) fn of<R: Any + Send + Sync>(
        &self,
        key: Key,
        fresh: impl Fn() -> R,
        in_use: impl Fn(&R) -> bool,
    ) -> Arc<R> {
        let find = |all: &[Entry]| all.iter().find(|entry| entry.key == key).and_then(Entry::get);
        let mut record = find(&self.0.load()).unwrap_or_else(|| Arc::new(fresh()));
        self.0.update(|all| {
            // The list decides: another thread may have been faster.
            record = find(all).unwrap_or_else(|| Arc::clone(&record));
            let stays = |entry: &&Entry| {
                let has_handle = Arc::strong_count(&entry.record) > 1;
                let is_used = || entry.record.downcast_ref().is_none_or(&in_use);
                entry.key != key && (has_handle || is_used())
            };
            let own = Entry { key, record: Arc::clone(&record) as _ };
            all.iter().filter(stays).cloned().chain([own]).collect()
        });
        record
    }
}
