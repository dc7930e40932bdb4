//! [`Batch`]: many elements in flight, which move together.

use crate::error::{Error, ErrorKind, Result};
use crate::queue::element::{Bytes, Element};
use crate::queue::handle::Queue;
use std::cell::Cell;
use std::fmt;

/// A sequence of elements in flight in this process. A batch moves between queues at the cost of a
/// single element ([`NamedQueue::push_many`](crate::queue::NamedQueue::push_many),
/// [`pull_into`](crate::queue::NamedQueue::pull_into)). It keeps its private memory, so reuse it.
///
/// When a batch is dropped, its elements go to the orphan queue, like a dropped [`Element`]. A
/// batch cannot contain an element twice, because each element in flight has only one value.
pub struct Batch<'q> {
    queue: &'q Queue,
    ids: Vec<u32>,
    owner: u32,
}

impl fmt::Debug for Batch<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Batch").field("queue", &self.queue.name()).field("ids", &self.ids).finish()
    }
}

impl<'q> Batch<'q> {
    pub(crate) fn new(queue: &'q Queue) -> Batch<'q> {
        Batch { queue, ids: Vec::new(), owner: 0 }
    }

    /// The number of elements in the batch.
    pub fn len(&self) -> usize {
        self.ids.len()
    }

    /// True if the batch has no elements.
    pub fn is_empty(&self) -> bool {
        self.ids.is_empty()
    }

    /// Iterates over the bytes of the elements, in order.
    pub fn iter(&self) -> impl Iterator<Item = Bytes<'_>> {
        self.ids.iter().map(|id| Bytes::new(self.queue, *id, self.owner))
    }

    /// Removes and returns the last element.
    pub fn pop(&mut self) -> Option<Element<'q>> {
        self.ids.pop().map(|id| Element::new(self.queue, id, self.owner))
    }

    /// Adds an element at the end.
    ///
    /// # Errors
    /// `Invalid` if the element belongs to another queue or, in a forked child, to another process.
    /// The element is then dropped.
    pub fn add(&mut self, element: Element<'q>) -> Result<()> {
        if !self.queue.is_same(element.queue()) || !self.is_of(element.owner()) {
            let text = format!(
                "queue '{}': expected an element of the same queue and process as the others in \
                 the batch",
                self.queue.name()
            );
            return Err(Error::new(ErrorKind::Invalid, text));
        }
        self.owner = element.owner();
        self.ids.push(element.id());
        element.forget();
        Ok(())
    }

    /// The ids and their owner. The elements stay in flight, without a value.
    pub(crate) fn into_ids(mut self) -> (Vec<u32>, u32) {
        (std::mem::take(&mut self.ids), self.owner)
    }

    pub(crate) fn queue(&self) -> &'q Queue {
        self.queue
    }

    /// Pushes all elements by `push`, which calls its second argument when they are no longer in
    /// flight.
    pub(crate) fn leave<R>(&mut self, push: impl FnOnce(&[u32], &dyn Fn()) -> R) -> R {
        let leaving = Leaving { ids: &mut self.ids, are_gone: Cell::new(false) };
        push(leaving.ids, &|| leaving.are_gone.set(true))
    }

    /// True if all elements are in flight in this participant.
    pub(crate) fn is_of(&self, owner: u32) -> bool {
        self.ids.is_empty() || self.owner == owner
    }

    /// The ids, for elements that `owner` pulls.
    pub(crate) fn take_ids(&mut self, owner: u32) -> &mut Vec<u32> {
        self.owner = owner;
        &mut self.ids
    }
}

/// The elements of a batch that are being pushed.
struct Leaving<'b> {
    ids: &'b mut Vec<u32>,
    are_gone: Cell<bool>,
}

impl Drop for Leaving<'_> {
    fn drop(&mut self) {
        if self.are_gone.get() {
            self.ids.clear();
        }
    }
}

impl Drop for Batch<'_> {
    fn drop(&mut self) {
        if !self.ids.is_empty() {
            self.queue.release(&self.ids, self.owner);
        }
    }
}
