//! Queues. An element in flight is a small structure of the caller's: its number, its owner, and
//! where its bytes lie.

use crate::basics::{json, time};
use crate::ffi::call::export;
use crate::ffi::take::{Growing, Plain};
use crate::ffi::{
    Answer, Asked, Give, Many, Name, NewHandle, OutBytes, Owned, Ref, Take, View, invalid, yes,
};
use commonhold::queue::{Element, NamedQueue, Notifier, Queue, QueueOptions};
use commonhold::raw::{self, RawElement};
use commonhold::{Error, Hold, Result};
use std::ffi::{c_int, c_void};
use std::os::fd::AsRawFd;
use std::time::Duration;

/// `ch_queue_options`.
#[repr(C)]
#[derive(Clone, Copy)]
pub struct Options {
    _size: usize,
    elements: u32,
    element_bytes: u32,
    queues: Many<Name>,
    queue_count: usize,
    orphans: Name,
}

impl Plain for Options {
    const ZERO: Options = Options {
        _size: 0,
        elements: 0,
        element_bytes: 0,
        queues: Many::NULL,
        queue_count: 0,
        orphans: Name::NULL,
    };
}

impl Growing for Options {
    const INIT: &'static str = "CH_QUEUE_OPTIONS_INIT";
}

impl Options {
    fn build(&self) -> Result<QueueOptions> {
        let mut options = QueueOptions::new(self.elements, self.element_bytes);
        if self.queue_count > 0 {
            options = options.queues(self.queues.texts(self.queue_count)?);
        }
        match self.orphans.optional() {
            Some(_) => Ok(options.orphans(self.orphans.text("the name of the orphan queue")?)),
            None => Ok(options),
        }
    }
}

/// `ch_queue_stat`.
#[repr(C)]
#[derive(Clone, Copy)]
pub struct Stat {
    elements: u32,
    element_bytes: u32,
    queues: u32,
    orphans: u32,
}

/// `ch_element`.
#[repr(C)]
#[derive(Clone, Copy)]
pub struct InFlight {
    data: *mut c_void,
    len: usize,
    id: u32,
    owner: u32,
}

impl Plain for InFlight {
    const ZERO: InFlight = InFlight { data: std::ptr::null_mut(), len: 0, id: 0, owner: 0 };
}

crate::ffi::handle::kinds! {
    Queue = b"ch-queue", "queue";
    Notifier = b"ch-noti\0", "notifier";
}

/// One of the queues, by its number.
#[inline]
fn named(queue: &Queue, number: u32) -> Result<NamedQueue<'_>> {
    queue.all().nth(number as usize).ok_or_else(|| {
        invalid(format!("queue '{}' has no named queue with the number {number}", queue.name()))
    })
}

#[inline]
fn take<'q>(queue: &'q Queue, element: &Take<InFlight>) -> Result<Element<'q>> {
    taken(queue, &element.needed("element")?)
}

/// # Errors
/// `Invalid` if it is not in flight, or is another queue's: numbers and owners are the same in all
/// queues of a hold, addresses are not.
#[inline]
fn taken<'q>(queue: &'q Queue, InFlight { data, id, owner, .. }: &InFlight) -> Result<Element<'q>> {
    let element = queue.element((*id, *owner))?;
    if element.as_ptr().cast() == *data {
        return Ok(element);
    }
    element.into_raw();
    Err(invalid(format!("queue '{}': element {id} belongs to another queue", queue.name())))
}

/// Elements that were not pushed stay in flight in the caller.
#[cold]
fn kept((element, error): (Element<'_>, Error)) -> Error {
    element.into_raw();
    error
}

#[inline]
fn in_flight(element: Element<'_>) -> InFlight {
    let (data, len) = (element.as_ptr().cast(), element.len());
    let (id, owner) = element.into_raw();
    InFlight { data, len, id, owner }
}

/// Gives an element, if there is one.
#[inline]
fn give(out: &Give<InFlight>, element: Option<Element<'_>>) -> Answer {
    let found = element.is_some();
    if let Some(element) = element {
        out.set(in_flight(element));
    }
    Ok(yes(found))
}

/// Pulls elements into an array, in their order.
#[inline]
fn pull_many(
    queue: &Queue,
    (number, timeout): (u32, Option<Duration>),
    (elements, most): (&Give<InFlight>, usize),
    count: &Give<usize>,
) -> Answer {
    elements.needed_many("elements", most)?;
    let from = named(queue, number)?;
    let pulled = raw::pull_raw(from, most, timeout, |at, RawElement { id, owner, bytes, len }| {
        elements.set_at(at, InFlight { data: bytes.cast(), len, id, owner });
    })?;
    count.set(pulled);
    Ok(yes(pulled > 0))
}

export! {
    fn ch_queue_open(hold: Ref<Hold>, name: Name, queue: NewHandle<Queue>) {
        let place = queue.ready()?;
        place.put(hold.get()?.queues().open(name.text("the queue's name")?)?);
        Ok(yes(true))
    }

    fn ch_queue_open_or_create(hold: Ref<Hold>, name: Name, options: Asked<Options>, queue: NewHandle<Queue>) {
        let place = queue.ready()?;
        let options = options.needed()?.build()?;
        place.put(hold.get()?.queues().open_or_create(name.text("the queue's name")?, options)?);
        Ok(yes(true))
    }

    fn ch_queue_create(hold: Ref<Hold>, name: Name, options: Asked<Options>, queue: NewHandle<Queue>) {
        let place = queue.ready()?;
        let options = options.needed()?.build()?;
        place.put(hold.get()?.queues().create(name.text("the queue's name")?, options)?);
        Ok(yes(true))
    }

    fn ch_queue_drop(hold: Ref<Hold>, name: Name) {
        Ok(yes(hold.get()?.queues().drop(name.text("the queue's name")?)?))
    }

    fn ch_queue_list(hold: Ref<Hold>, out: OutBytes) {
        json(&out, &hold.get()?.queues().list()?)
    }

    fn ch_queue_describe_by_name(hold: Ref<Hold>, name: Name, out: OutBytes) {
        json(&out, &hold.get()?.queues().stat(name.text("the queue's name")?)?)
    }

    fn ch_queue_free(queue: Owned<Queue>) -> (), or (), {
        drop(queue.take())
    }

    fn ch_queue_name(queue: Ref<Queue>, name: Give<View>) {
        name.needed("name")?;
        name.set(View::of(queue.get()?.name().as_bytes()));
        Ok(yes(true))
    }

    fn ch_queue_stat(queue: Ref<Queue>, out: Give<Stat>) {
        out.needed("stat")?;
        let stat = queue.get()?.stat()?;
        let orphans = stat.queues.iter().position(|queue| queue.name == stat.orphans);
        out.set(Stat {
            elements: stat.elements,
            element_bytes: stat.element_bytes,
            queues: stat.queues.len() as u32,
            orphans: orphans.unwrap_or(0) as u32,
        });
        Ok(yes(true))
    }

    fn ch_queue_describe(queue: Ref<Queue>, out: OutBytes) {
        json(&out, &queue.get()?.stat()?)
    }

    fn ch_queue_named(queue: Ref<Queue>, name: Name, number: Give<u32>) {
        number.needed("number")?;
        let (queue, name) = (queue.get()?, name.text("the name of a queue in the queue")?);
        let wanted = queue.named(name)?.name();
        number.set(queue.all().position(|one| one.name() == wanted).unwrap_or(0) as u32);
        Ok(yes(true))
    }

    fn ch_queue_name_of(queue: Ref<Queue>, number: u32, name: Give<View>) {
        name.needed("name")?;
        name.set(View::of(named(queue.get()?, number)?.name().as_bytes()));
        Ok(yes(true))
    }

    fn ch_queue_len(queue: Ref<Queue>, number: u32, len: Give<u64>) {
        len.needed("number")?;
        len.set(named(queue.get()?, number)?.len()?);
        Ok(yes(true))
    }

    fn ch_queue_push(queue: Ref<Queue>, number: u32, element: Take<InFlight>) {
        let queue = queue.get()?;
        named(queue, number)?.try_push(take(queue, &element)?).map_err(kept)?;
        Ok(yes(true))
    }

    fn ch_queue_pull(queue: Ref<Queue>, number: u32, element: Give<InFlight>) {
        element.needed("element")?;
        give(&element, named(queue.get()?, number)?.pull()?)
    }

    fn ch_queue_pull_timeout(queue: Ref<Queue>, number: u32, timeout_ns: u64, element: Give<InFlight>) {
        element.needed("element")?;
        give(&element, named(queue.get()?, number)?.pull_timeout(time(timeout_ns))?)
    }

    fn ch_queue_push_pull(queue: Ref<Queue>, to: u32, element: Take<InFlight>, from: u32, pulled: Give<InFlight>) {
        pulled.needed("element")?;
        let queue = queue.get()?;
        let (to, from) = (named(queue, to)?, named(queue, from)?);
        let found = to.try_push_pull(take(queue, &element)?, from).map_err(kept)?;
        // An error means that nothing was pushed. The next pull reports an error of the other end.
        give(&pulled, found.unwrap_or_default())
    }

    fn ch_queue_push_many(queue: Ref<Queue>, number: u32, elements: Many<InFlight>, count: usize) {
        let (queue, elements) = (queue.get()?, elements.all(count)?);
        raw::push_raw(named(queue, number)?, elements, |InFlight { data, len, id, owner }| {
            RawElement { id: *id, owner: *owner, bytes: data.cast(), len: *len }
        })?;
        Ok(yes(true))
    }

    fn ch_queue_pull_many(queue: Ref<Queue>, number: u32, elements: Give<InFlight>, most: usize, count: Give<usize>) {
        pull_many(queue.get()?, (number, None), (&elements, most), &count)
    }

    fn ch_queue_pull_many_timeout(
        queue: Ref<Queue>,
        number: u32,
        timeout_ns: u64,
        elements: Give<InFlight>,
        most: usize,
        count: Give<usize>,
    ) {
        pull_many(queue.get()?, (number, Some(time(timeout_ns))), (&elements, most), &count)
    }

    fn ch_queue_release(queue: Ref<Queue>, element: Take<InFlight>) {
        let queue = queue.get()?;
        queue.orphans().try_push(take(queue, &element)?).map_err(kept)?;
        Ok(yes(true))
    }

    fn ch_queue_abandon(queue: Ref<Queue>, element: Take<InFlight>) -> (), or (), {
        if let Ok(queue) = queue.get() {
            drop(take(queue, &element));
        }
    }

    fn ch_queue_notifier(queue: Ref<Queue>, number: u32, notifier: NewHandle<Notifier>) {
        let place = notifier.ready()?;
        let queue = queue.get()?;
        place.put(queue.eventfd(named(queue, number)?.name())?);
        Ok(yes(true))
    }

    fn ch_notifier_fd(notifier: Ref<Notifier>) -> c_int, or -1, {
        notifier.get().map_or(-1, AsRawFd::as_raw_fd)
    }

    fn ch_notifier_clear(notifier: Ref<Notifier>) {
        notifier.get()?.clear();
        Ok(yes(true))
    }

    fn ch_notifier_free(notifier: Owned<Notifier>) -> (), or (), {
        drop(notifier.take())
    }
}
