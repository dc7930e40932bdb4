//! `Queue`, `NamedQueue`, `Notifier`, and the contents of an element in flight.

use crate::by_name::How;
use crate::convert::{invalid, json};
use crate::errors::{Answer, Failure};
use crate::ffi::window::{self, Held, Window};
use crate::hold::Hold;
use crate::shared_hold::SharedHold;
use crate::waiting::{Patience, in_time, patiently, wait};
use commonhold::queue::{Element, QueueOptions};
use commonhold::raw::process_number;
use commonhold::{Error, ErrorKind};
use pyo3::exceptions::PyBufferError;
use pyo3::prelude::*;
use pyo3::types::PyType;
use std::os::fd::{AsRawFd, RawFd};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

/// A queue: elements of one size, shared by many processes, that move between named queues.
#[pyclass(subclass, frozen, module = "commonhold._native")]
pub struct Queue {
    ours: Arc<Ours>,
}

/// One of the named queues of a queue.
#[pyclass(subclass, frozen, module = "commonhold._native")]
pub struct NamedQueue {
    ours: Arc<Ours>,
    name: String,
    /// The class of elements.
    class: Py<PyType>,
}

/// The shared state of a queue, its named queues and its elements.
struct Ours {
    queue: commonhold::queue::Queue,
    shared: Arc<SharedHold>,
}

/// An element's number and owner.
type Raw = (u32, u32);

/// A file descriptor that becomes readable when elements are pushed.
#[pyclass(subclass, frozen, module = "commonhold._native")]
pub struct Notifier {
    notifier: Mutex<Option<commonhold::queue::Notifier>>,
}

/// An element in flight. Dropped, it goes to the orphans.
struct InFlight {
    ours: Arc<Ours>,
    /// Until it is pushed. Locked for moments, while holding the interpreter.
    raw: Mutex<Option<Raw>>,
    /// The process that has it in flight.
    process: u32,
}

impl Ours {
    /// Sends an element in flight to the orphans.
    ///
    /// # Errors
    /// Those of pushing; it is in flight then as before.
    fn release(&self, raw: Raw) -> commonhold::Result<()> {
        self.queue.orphans().try_push(self.queue.element(raw)?).map_err(kept)
    }
}

/// Elements that were not pushed stay in flight.
fn kept((element, error): (Element<'_>, Error)) -> Error {
    element.into_raw();
    error
}

impl InFlight {
    fn raw(&self) -> MutexGuard<'_, Option<Raw>> {
        self.raw.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Held for InFlight {
    fn pin(&self) -> PyResult<()> {
        match *self.raw() {
            Some(_) => Ok(self.ours.shared.pin()?),
            None => Err(PyBufferError::new_err(
                "the element was pushed; its bytes belong to another process now",
            )),
        }
    }

    fn unpin(&self) {
        self.ours.shared.unpin();
    }
}

impl Drop for InFlight {
    fn drop(&mut self) {
        let Some(raw) = self.raw().take() else { return };
        // The garbage collector may run anywhere and holds the interpreter: a release that would
        // block is done later. Closed or dropped, there is nothing to release.
        let _patience = Patience::none();
        drop(self.ours.queue.element(raw));
    }
}

impl NamedQueue {
    fn give<'py>(&self, py: Python<'py>, element: Element<'_>) -> Answer<Bound<'py, PyAny>> {
        let (start, len) = (element.as_ptr(), element.len());
        let raw = Mutex::new(Some(element.into_raw()));
        let (ours, process) = (Arc::clone(&self.ours), process_number());
        let held = Arc::new(InFlight { ours, raw, process });
        let window = Window { start, len, readonly: false, held };
        Ok(window::show(self.class.bind(py), window)?)
    }

    fn named(&self) -> Answer<commonhold::queue::NamedQueue<'_>> {
        self.ours.shared.ensure()?;
        Ok(self.ours.queue.named(&self.name)?)
    }

    /// The element of a buffer, which is no longer in flight; refused, it stays in flight.
    fn take(&self, element: &Bound<'_, PyAny>) -> Answer<Raw> {
        let held = window::held::<InFlight>(element)?;
        window::ensure_unseen(element)?;
        self.ensure_own(&held.ours)?;
        let taken = held.raw().take();
        taken.ok_or_else(|| invalid("the element is not in flight: it was pushed already"))
    }

    /// The same of many; if one of them is refused, all stay in flight.
    fn take_all(&self, elements: &[Bound<'_, PyAny>]) -> Answer<Vec<Raw>> {
        let mut taken = Vec::with_capacity(elements.len());
        for element in elements {
            match self.take(element) {
                Ok(raw) => taken.push(raw),
                Err(refused) => {
                    give_back(elements, &taken)?;
                    return Err(refused);
                }
            }
        }
        Ok(taken)
    }

    /// Pushes what it takes from it; after an error it is in flight again.
    fn push_taken<T: Send>(
        &self,
        object: &Bound<'_, PyAny>,
        act: impl Fn(&commonhold::queue::NamedQueue<'_>, Element<'_>) -> std::result::Result<T, Error>
        + Sync,
    ) -> Answer<T> {
        let named = self.named()?;
        let raw = self.take(object)?;
        let Ours { queue, shared } = &*self.ours;
        let pushed =
            patiently(object.py(), shared.patience, || Ok(act(&named, queue.element(raw)?)?));
        if pushed.is_err() {
            give_back(std::slice::from_ref(object), &[raw])?;
        }
        pushed
    }

    /// # Errors
    /// `Invalid` for what is another queue's, or this one's by another handle of the hold, which is
    /// a participant of its own.
    fn ensure_own(&self, other: &Ours) -> Answer<()> {
        let (one, own) = (other.queue.name(), self.ours.queue.name());
        if one != own {
            return Err(invalid(format!(
                "expected an element of queue '{own}', got one of '{one}'"
            )));
        }
        if !Arc::ptr_eq(&other.shared, &self.ours.shared) {
            return Err(invalid(format!(
                "expected an element of this handle's queue '{one}', got one of another handle's"
            )));
        }
        Ok(())
    }
}

/// Elements that were not pushed are in flight again.
fn give_back(elements: &[Bound<'_, PyAny>], taken: &[Raw]) -> Answer<()> {
    for (element, raw) in elements.iter().zip(taken) {
        *window::held::<InFlight>(element)?.raw() = Some(*raw);
    }
    Ok(())
}

#[pymethods]
impl Queue {
    #[new]
    #[pyo3(signature = (hold, name, elements=0, element_bytes=0, queues=None, *, orphans=None, how="open_or_create"))]
    #[allow(clippy::too_many_arguments)] // They are keywords.
    fn new(
        py: Python<'_>,
        hold: &Bound<'_, Hold>,
        name: &str,
        elements: u32,
        element_bytes: u32,
        queues: Option<Vec<String>>,
        orphans: Option<String>,
        how: &str,
    ) -> Answer<Queue> {
        let (how, shared) = (How::of(how)?, Arc::clone(&hold.get().shared));
        let mut options = QueueOptions::new(elements, element_bytes);
        if let Some(names) = queues {
            options = options.queues(names);
        }
        if let Some(orphans) = orphans {
            options = options.orphans(orphans);
        }
        let queue = shared.act(py, |hold| match how {
            How::Open => hold.queues().open(name),
            How::OpenOrCreate => hold.queues().open_or_create(name, options.clone()),
            How::Create => hold.queues().create(name, options.clone()),
        })?;
        Ok(Queue { ours: Arc::new(Ours { queue, shared }) })
    }

    /// Its name.
    #[getter]
    fn name(&self) -> &str {
        self.ours.queue.name()
    }

    /// The names of its queues, in the order of their creation.
    #[getter]
    fn names(&self) -> Vec<String> {
        self.ours.queue.all().map(|named| named.name().to_owned()).collect()
    }

    fn _stat(&self, py: Python<'_>) -> Answer<String> {
        let Ours { queue, shared } = &*self.ours;
        shared.ensure()?;
        json(&patiently(py, shared.patience, || Ok(queue.stat()?))?)
    }
}

#[pymethods]
impl NamedQueue {
    #[new]
    fn new(
        queue: &Bound<'_, Queue>,
        name: &str,
        element_class: Bound<'_, PyType>,
    ) -> Answer<NamedQueue> {
        let ours = Arc::clone(&queue.get().ours);
        ours.shared.ensure()?;
        let name = ours.queue.named(name)?.name().to_owned();
        Ok(NamedQueue { ours, name, class: element_class.unbind() })
    }

    /// Its name.
    #[getter]
    fn name(&self) -> &str {
        &self.name
    }

    fn __len__(&self) -> Answer<usize> {
        Ok(self.named()?.len()? as usize)
    }

    fn __bool__(&self) -> Answer<bool> {
        Ok(!self.named()?.is_empty()?)
    }

    /// Takes the element at the front; `None` if the queue is empty.
    fn try_pull<'py>(&self, py: Python<'py>) -> Answer<Option<Bound<'py, PyAny>>> {
        let named = self.named()?;
        let found = patiently(py, self.ours.shared.patience, || Ok(named.pull()?))?;
        found.map(|element| self.give(py, element)).transpose()
    }

    /// Takes the element at the front; waits for one for `timeout` seconds, `None`: as long as it
    /// takes. Raises `TimedOutError`.
    #[pyo3(signature = (timeout=None))]
    fn pull<'py>(&self, py: Python<'py>, timeout: Option<f64>) -> Answer<Bound<'py, PyAny>> {
        let named = self.named()?;
        let Ours { queue, shared } = &*self.ours;
        let found = wait(py, shared.patience, timeout, |slice| {
            Ok(named.pull_timeout(slice)?.map(Element::into_raw))
        })?;
        let text = format!("queue '{}' has no element in '{}'", queue.name(), self.name);
        self.give(py, queue.element(in_time(found, &text)?)?)
    }

    /// Takes at most `most` elements from the front, at once: a list, which may be empty.
    fn pull_many<'py>(&self, py: Python<'py>, most: usize) -> Answer<Vec<Bound<'py, PyAny>>> {
        let named = self.named()?;
        let mut batch = patiently(py, self.ours.shared.patience, || Ok(named.pull_many(most)?))?;
        let mut elements = Vec::new();
        while let Some(element) = batch.pop() {
            elements.push(self.give(py, element)?);
        }
        elements.reverse();
        Ok(elements)
    }

    /// Puts an element at the end, and wakes a waiting process. `BufferError` while a `memoryview`
    /// or an array of it exists. After an error it is still in flight.
    fn push(&self, element: &Bound<'_, PyAny>) -> Answer<()> {
        self.push_taken(element, |named, element| named.try_push(element).map_err(kept))
    }

    /// Puts an element at the end, then takes one from the front of `source`, for little more than
    /// the price of one of both.
    fn push_pull<'py>(
        &self,
        element: &Bound<'py, PyAny>,
        source: &Bound<'py, NamedQueue>,
    ) -> Answer<Option<Bound<'py, PyAny>>> {
        let (from, py) = (source.get(), element.py());
        self.ensure_own(&from.ours)?;
        let queue = &self.ours.queue;
        let source = queue.named(&from.name)?;
        let pulled = self.push_taken(element, |named, element| {
            let pulled = named.try_push_pull(element, source).map_err(kept)?;
            Ok(pulled.map(|pulled| pulled.map(Element::into_raw)))
        })?;
        let pulled = match pulled {
            Ok(pulled) => pulled,
            // It is pushed; only the pull remains.
            Err(error) if error.kind() == ErrorKind::TimedOut => {
                return from.try_pull(py);
            }
            Err(error) => return Err(error.into()),
        };
        pulled.map(|raw| self.give(py, queue.element(raw)?)).transpose()
    }

    /// Puts many elements at the end, in their order, at once. After an error all are in flight as
    /// before.
    fn push_many(&self, elements: Vec<Bound<'_, PyAny>>, py: Python<'_>) -> Answer<()> {
        let named = self.named()?;
        let taken = self.take_all(&elements)?;
        let Ours { queue, shared } = &*self.ours;
        let pushed = patiently(py, shared.patience, || {
            let mut batch = queue.batch();
            let all = taken.iter().try_for_each(|raw| batch.add(queue.element(*raw)?));
            let pushed = all.and_then(|()| named.push_many(&mut batch));
            while let Some(element) = batch.pop() {
                element.into_raw();
            }
            Ok(pushed?)
        });
        if pushed.is_err() {
            give_back(&elements, &taken)?;
        }
        pushed
    }

    fn _notifier(&self, py: Python<'_>) -> Answer<Notifier> {
        let Ours { queue, shared } = &*self.ours;
        shared.ensure()?;
        let notifier = patiently(py, shared.patience, || Ok(queue.eventfd(&self.name)?))?;
        Ok(Notifier { notifier: Mutex::new(Some(notifier)) })
    }

    /// The number of an element in flight; `None` if it was pushed.
    #[staticmethod]
    fn _number(element: &Bound<'_, PyAny>) -> Answer<Option<u32>> {
        Ok(window::held::<InFlight>(element)?.raw().map(|(id, _)| id))
    }

    /// Releases an element to the orphan queue; does nothing if it was pushed, or in a forked
    /// child, where it is the parent's.
    #[staticmethod]
    fn _release(element: &Bound<'_, PyAny>) -> Answer<()> {
        let held = window::held::<InFlight>(element)?;
        if held.process != process_number() {
            return Ok(());
        }
        window::ensure_unseen(element)?;
        let Some(raw) = held.raw().take() else { return Ok(()) };
        let ours = &held.ours;
        let gone = patiently(element.py(), ours.shared.patience, || Ok(ours.release(raw)?));
        match gone {
            // There is nothing to release.
            Err(Failure::Ours(error)) if is_gone(&error) => Ok(()),
            Err(error) => {
                *held.raw() = Some(raw);
                Err(error)
            }
            Ok(()) => Ok(()),
        }
    }
}

/// Whether the hold is closed, or the queue was dropped.
fn is_gone(error: &Error) -> bool {
    matches!(error.kind(), ErrorKind::Closed | ErrorKind::NotFound)
}

#[pymethods]
impl Notifier {
    /// The descriptor, for `select` and event loops: readable when there are elements.
    fn fileno(&self) -> Answer<RawFd> {
        let notifier = self.notifier.lock().unwrap_or_else(PoisonError::into_inner);
        Ok(notifier.as_ref().ok_or_else(|| invalid("the notifier is closed"))?.as_raw_fd())
    }

    /// Clears the signal. Call it before pulling.
    fn clear(&self) {
        if let Some(notifier) = &*self.notifier.lock().unwrap_or_else(PoisonError::into_inner) {
            notifier.clear();
        }
    }

    /// Closes it.
    fn close(&self, py: Python<'_>) {
        let notifier = self.notifier.lock().unwrap_or_else(PoisonError::into_inner).take();
        py.detach(|| drop(notifier));
    }
}
