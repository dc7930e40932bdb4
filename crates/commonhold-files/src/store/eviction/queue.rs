//! A queue of tags that counts its bytes. Lock-free: `crossbeam_queue::SegQueue`, after Michael and
//! Scott's queue, with blocks of elements.

use crate::store::tag::Tag;
use crossbeam_queue::SegQueue;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

/// First in, first out.
pub(super) struct Queue<M> {
    /// Each with the bytes that it was counted with: those of its entry may change meanwhile.
    tags: SegQueue<(Arc<Tag<M>>, u64)>,
    bytes: AtomicU64,
}

impl<M> Queue<M> {
    pub(super) fn new() -> Queue<M> {
        Queue { tags: SegQueue::new(), bytes: AtomicU64::new(0) }
    }

    pub(super) fn push(&self, tag: Arc<Tag<M>>) {
        let bytes = tag.bytes();
        // Relaxed, here and below: a number on its own. Before the push, so that it never falls
        // below 0.
        self.bytes.fetch_add(bytes, Ordering::Relaxed);
        self.tags.push((tag, bytes));
    }

    pub(super) fn pop(&self) -> Option<Arc<Tag<M>>> {
        let (tag, bytes) = self.tags.pop()?;
        self.bytes.fetch_sub(bytes, Ordering::Relaxed);
        Some(tag)
    }

    /// The bytes of all entries in it.
    pub(super) fn bytes(&self) -> u64 {
        self.bytes.load(Ordering::Relaxed)
    }

    /// The number of tags in it.
    pub(super) fn len(&self) -> usize {
        self.tags.len()
    }
}
