//! Batches of elements that a caller in another language keeps by number: the same as
//! [`Element::into_raw`](crate::queue::Element::into_raw) and [`Queue::element`] for each of them,
//! without a call and a value per element.
//!
//! Each element is claimed by its own compare-and-swap ([`Numbers::take_back`]), so an element
//! that is present twice, or that another thread pushes at the same moment, is refused.
//!
//! [`Numbers::take_back`]: crate::queue::in_flight::Numbers::take_back

use crate::error::{Error, ErrorKind, Result};
use crate::queue::handle::Queue;
use crate::queue::named::NamedQueue;
use std::cell::Cell;
use std::time::Duration;

/// An element in flight, as a caller in another language sees it.
#[derive(Clone, Copy, Debug)]
pub struct RawElement {
    /// The element's number.
    pub id: u32,
    /// The participant that has it in flight.
    pub owner: u32,
    /// The address of its bytes in this process.
    pub bytes: *mut u8,
    /// The number of its bytes.
    pub len: usize,
}

/// The addresses of the elements' bytes.
#[derive(Clone, Copy)]
struct Addresses {
    first: *mut u8,
    stride: usize,
}

impl Addresses {
    fn of(queue: &Queue) -> Addresses {
        let layout = queue.layout();
        let bytes = u64::from(layout.elements) * layout.stride;
        let first = queue.space().at(layout.payload(0), bytes);
        Addresses { first, stride: layout.stride as usize }
    }

    #[inline(always)]
    fn bytes(self, id: u32) -> *mut u8 {
        self.first.wrapping_add(id as usize * self.stride)
    }
}

/// Pulls at most `max` elements, and calls `each` with their places in the batch; their number.
/// With a timeout, waits for the first one. `each` is a copy of fields and does not panic.
///
/// # Errors
/// Those of [`NamedQueue::pull_into`].
#[inline]
pub fn pull_raw(
    from: NamedQueue<'_>,
    max: usize,
    timeout: Option<Duration>,
    mut each: impl FnMut(usize, RawElement),
) -> Result<usize> {
    let queue = from.queue();
    let mut batch = queue.batch();
    let count = match timeout {
        None => from.pull_into(&mut batch, max)?,
        Some(timeout) => from.pull_into_timeout(&mut batch, max, timeout)?,
    };
    let (addresses, numbers) = (Addresses::of(queue), queue.in_flight().numbers());
    let (ids, owner) = batch.into_ids();
    let len = queue.layout().element_bytes as usize;
    for (at, id) in ids.into_iter().enumerate() {
        numbers.give_away(id, owner);
        each(at, RawElement { id, owner, bytes: addresses.bytes(id), len });
    }
    Ok(count)
}

/// Pushes the elements that `read` finds in `elements`, in order: all of them, or none. `read` is a
/// copy of fields and does not panic.
///
/// # Errors
/// Those of [`NamedQueue::push_many`]; `Invalid` if an element is not in flight, is present twice,
/// or belongs to another queue. After an error all of them are in flight as before.
#[inline]
pub fn push_raw<T>(
    to: NamedQueue<'_>,
    elements: &[T],
    read: impl Fn(&T) -> RawElement,
) -> Result<()> {
    let Some(first) = elements.first() else { return Ok(()) };
    let (queue, owner) = (to.queue(), read(first).owner);
    let (addresses, numbers) = (Addresses::of(queue), queue.in_flight().numbers());
    let ids: Vec<u32> = elements.iter().map(|element| read(element).id).collect();
    let claim = |(id, element): &(&u32, &T)| {
        let RawElement { owner: of, bytes, .. } = read(element);
        of == owner && bytes == addresses.bytes(**id) && numbers.take_back(**id, owner)
    };
    let count = ids.iter().zip(elements).take_while(claim).count();
    let claimed = Claimed { queue, owner, ids, count, are_gone: Cell::new(false) };
    if let Some(refused) = elements.get(claimed.count) {
        return Err(claimed.refuse(read(refused), read(first).id));
    }
    to.push_ids(&claimed.ids, owner, || claimed.are_gone.set(true))
}

/// Elements that were taken back from their numbers. Dropping this gives them away again, unless
/// they are in a queue by then: a panic may follow the commit.
struct Claimed<'q> {
    queue: &'q Queue,
    owner: u32,
    /// The first `count` are claimed.
    ids: Vec<u32>,
    count: usize,
    are_gone: Cell<bool>,
}

impl Claimed<'_> {
    /// The reason why this element was not claimed.
    #[cold]
    fn refuse(&self, refused: RawElement, first: u32) -> Error {
        let RawElement { id, owner, bytes, .. } = refused;
        let what = if self.ids[..self.count].contains(&id) {
            format!("element {id} is present twice")
        } else if owner != self.owner {
            format!("elements {first} and {id} are not in flight in the same process")
        } else if self.queue.in_flight().numbers().is_away(id, owner) {
            format!("element {id} belongs to another queue; {bytes:?} is not its address here")
        } else {
            return self.queue.not_in_flight(id);
        };
        Error::new(ErrorKind::Invalid, format!("queue '{}': {what}", self.queue.name()))
    }
}

impl Drop for Claimed<'_> {
    fn drop(&mut self) {
        let kept = if self.are_gone.get() { 0 } else { self.count };
        for id in &self.ids[..kept] {
            self.queue.in_flight().numbers().give_away(*id, self.owner);
        }
    }
}
