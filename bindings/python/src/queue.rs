//! `Queue`, `NamedQueue`, `Bell`, and what an element in hand holds.

use crate::border::window::{self, Held, Window};
use crate::convert::{invalid, json};
use crate::errors::Answer;
use crate::hold::Hold;
use crate::tie::Tie;
use crate::waiting::{in_time, wait};
use commonhold::{Element, QueueOptions};
use pyo3::exceptions::PyBufferError;
use pyo3::prelude::*;
use pyo3::types::PyType;
use std::os::fd::{AsRawFd, RawFd};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

/// A queue: elements of one size, shared by many processes, that move between named queues.
#[pyclass(subclass, frozen, module = "commonhold._native")]
pub struct Queue {
    queue: commonhold::Queue,
    tie: Arc<Tie>,
}

/// One of the named queues of a queue.
#[pyclass(subclass, frozen, module = "commonhold._native")]
pub struct NamedQueue {
    queue: commonhold::Queue,
    name: String,
    tie: Arc<Tie>,
    /// What elements are made as.
    class: Py<PyType>,
}

/// A file descriptor that becomes readable when elements are pushed.
#[pyclass(subclass, frozen, module = "commonhold._native")]
pub struct Bell {
    bell: Mutex<Option<commonhold::Bell>>,
}

/// An element in hand. Dropped, it goes to the orphans.
struct InHand {
    queue: commonhold::Queue,
    tie: Arc<Tie>,
    /// Number and owner, until it is pushed.
    raw: Mutex<Option<(u32, u32)>>,
}

impl InHand {
    fn raw(&self) -> MutexGuard<'_, Option<(u32, u32)>> {
        self.raw.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Held for InHand {
    fn pin(&self) -> PyResult<()> {
        match *self.raw() {
            Some(_) => Ok(self.tie.pin()?),
            None => {
                Err(PyBufferError::new_err("the element was pushed: its bytes are another's now"))
            }
        }
    }

    fn unpin(&self) {
        self.tie.unpin();
    }
}

impl Drop for InHand {
    fn drop(&mut self) {
        if let Some(raw) = self.raw().take() {
            // Closed or dropped, there is nothing to let go.
            drop(self.queue.element(raw));
        }
    }
}

impl NamedQueue {
    fn give<'py>(&self, py: Python<'py>, element: Element<'_>) -> Answer<Bound<'py, PyAny>> {
        let (start, len) = (element.as_ptr(), element.len());
        let raw = Mutex::new(Some(element.into_raw()));
        let held = Arc::new(InHand { queue: self.queue.clone(), tie: Arc::clone(&self.tie), raw });
        let window = Window { start, len, readonly: false, held };
        Ok(window::show(self.class.bind(py), window)?)
    }

    fn named(&self) -> Answer<commonhold::NamedQueue<'_>> {
        self.tie.ensure()?;
        Ok(self.queue.named(&self.name)?)
    }

    /// The element of a buffer, which is no longer in its hand; refused, it stays there.
    fn take(&self, element: &Bound<'_, PyAny>) -> Answer<(u32, u32)> {
        let held = window::held::<InHand>(element)?;
        window::ensure_unseen(element)?;
        self.ensure_own(&held.queue, &held.tie)?;
        let taken = held.raw().take();
        taken.ok_or_else(|| invalid("the element is not in hand: it was pushed already"))
    }

    /// The same of many; if one of them is refused, all stay in hand.
    fn take_all(&self, elements: &[Bound<'_, PyAny>]) -> Answer<Vec<(u32, u32)>> {
        let mut taken = Vec::with_capacity(elements.len());
        for element in elements {
            match self.take(element) {
                Ok(raw) => taken.push(raw),
                Err(refused) => {
                    for (element, raw) in elements.iter().zip(taken) {
                        *window::held::<InHand>(element)?.raw() = Some(raw);
                    }
                    return Err(refused);
                }
            }
        }
        Ok(taken)
    }

    /// Pushes what it takes from the hand; after an error it is among the orphans.
    fn push_taken(
        &self,
        py: Python<'_>,
        object: &Bound<'_, PyAny>,
        act: impl FnOnce(&commonhold::NamedQueue<'_>, (u32, u32)) -> commonhold::Result<()> + Send,
    ) -> Answer<()> {
        let named = self.named()?;
        let raw = self.take(object)?;
        Ok(py.detach(|| act(&named, raw))?)
    }

    /// # Errors
    /// `Invalid` for what is another queue's, or this one's by another handle of the hold, which is a participant of its own.
    fn ensure_own(&self, queue: &commonhold::Queue, tie: &Arc<Tie>) -> Answer<()> {
        let (one, other) = (queue.name(), self.queue.name());
        if one != other {
            return Err(invalid(format!("it is of queue '{one}', not of '{other}'")));
        }
        if !Arc::ptr_eq(tie, &self.tie) {
            return Err(invalid(format!(
                "it is of a queue '{one}' that was opened by another hold"
            )));
        }
        Ok(())
    }
}

#[pymethods]
impl Queue {
    #[new]
    #[pyo3(signature = (hold, name, elements=0, element_bytes=0, queues=None, *, orphans=None, create=true))]
    #[allow(clippy::too_many_arguments)] // They are keywords.
    fn new(
        py: Python<'_>,
        hold: &Bound<'_, Hold>,
        name: &str,
        elements: u32,
        element_bytes: u32,
        queues: Option<Vec<String>>,
        orphans: Option<String>,
        create: bool,
    ) -> Answer<Queue> {
        let tie = Arc::clone(&hold.get().tie);
        let opened = tie.hold()?;
        let queue = if create {
            let mut options = QueueOptions::new(elements, element_bytes);
            if let Some(names) = queues {
                options = options.queues(names);
            }
            if let Some(orphans) = orphans {
                options = options.orphans(orphans);
            }
            py.detach(|| opened.queue(name, options))?
        } else {
            py.detach(|| opened.open_queue(name))?
        };
        Ok(Queue { queue, tie })
    }

    /// Its name.
    #[getter]
    fn name(&self) -> &str {
        self.queue.name()
    }

    /// The names of its queues, in the order of their creation.
    #[getter]
    fn names(&self) -> Vec<String> {
        self.queue.all().map(|named| named.name().to_owned()).collect()
    }

    fn _stat(&self, py: Python<'_>) -> Answer<String> {
        self.tie.ensure()?;
        json(&py.detach(|| self.queue.stat())?)
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
        let Queue { queue, tie } = queue.get();
        tie.ensure()?;
        let (name, queue) = (queue.named(name)?.name().to_owned(), queue.clone());
        Ok(NamedQueue { queue, name, tie: Arc::clone(tie), class: element_class.unbind() })
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
        let found = py.detach(|| named.pull())?;
        found.map(|element| self.give(py, element)).transpose()
    }

    /// Takes the element at the front; waits for one for `timeout` seconds, `None`: as long as it takes. Raises `TimedOutError`.
    #[pyo3(signature = (timeout=None))]
    fn pull<'py>(&self, py: Python<'py>, timeout: Option<f64>) -> Answer<Bound<'py, PyAny>> {
        let named = self.named()?;
        let found =
            wait(py, timeout, |slice| Ok(named.pull_timeout(slice)?.map(Element::into_raw)))?;
        let raw = in_time(
            found,
            &format!("queue '{}': no element in '{}'", self.queue.name(), self.name),
        )?;
        self.give(py, self.queue.element(raw)?)
    }

    /// Takes at most `most` elements from the front, at once: a list, which may be empty.
    fn pull_many<'py>(&self, py: Python<'py>, most: usize) -> Answer<Vec<Bound<'py, PyAny>>> {
        let named = self.named()?;
        let mut batch = py.detach(|| named.pull_many(most))?;
        let mut elements = Vec::new();
        while let Some(element) = batch.pop() {
            elements.push(self.give(py, element)?);
        }
        elements.reverse();
        Ok(elements)
    }

    /// Puts an element at the end, and wakes who waits for it. `BufferError` while somebody still has a `memoryview` or an array
    /// of it.
    fn push(&self, element: &Bound<'_, PyAny>) -> Answer<()> {
        self.push_taken(element.py(), element, |named, raw| named.push(self.queue.element(raw)?))
    }

    /// Puts an element at the end, then takes one from the front of `source`, for little more than the price of one of both.
    fn push_pull<'py>(
        &self,
        element: &Bound<'py, PyAny>,
        source: &Bound<'py, NamedQueue>,
    ) -> Answer<Option<Bound<'py, PyAny>>> {
        let from = source.get();
        self.ensure_own(&from.queue, &from.tie)?;
        let mut pulled = None;
        self.push_taken(element.py(), element, |named, raw| {
            let from = self.queue.named(&from.name)?;
            pulled = named.push_pull(self.queue.element(raw)?, from)?.map(Element::into_raw);
            Ok(())
        })?;
        match pulled {
            Some(raw) => self.give(element.py(), self.queue.element(raw)?).map(Some),
            None => Ok(None),
        }
    }

    /// Puts many elements at the end, in their order, at once.
    fn push_many(&self, elements: Vec<Bound<'_, PyAny>>, py: Python<'_>) -> Answer<()> {
        let named = self.named()?;
        let mut batch = self.queue.batch();
        for raw in self.take_all(&elements)? {
            batch.add(self.queue.element(raw)?)?;
        }
        Ok(py.detach(|| named.push_many(&mut batch))?)
    }

    fn _bell(&self) -> Answer<Bell> {
        self.tie.ensure()?;
        Ok(Bell { bell: Mutex::new(Some(self.queue.eventfd(&self.name)?)) })
    }

    /// The number of an element in hand; `None` if it was pushed.
    #[staticmethod]
    fn _number(element: &Bound<'_, PyAny>) -> Answer<Option<u32>> {
        Ok(window::held::<InHand>(element)?.raw().map(|(id, _)| id))
    }

    /// Lets an element go to the orphans; nothing if it was pushed.
    #[staticmethod]
    fn _release(element: &Bound<'_, PyAny>) -> Answer<()> {
        let held = window::held::<InHand>(element)?;
        window::ensure_unseen(element)?;
        let raw = held.raw().take();
        if let Some(raw) = raw {
            drop(held.queue.element(raw));
        }
        Ok(())
    }
}

#[pymethods]
impl Bell {
    /// The descriptor, for `select` and event loops: readable when there are elements.
    fn fileno(&self) -> Answer<RawFd> {
        let bell = self.bell.lock().unwrap_or_else(PoisonError::into_inner);
        Ok(bell.as_ref().ok_or_else(|| invalid("the bell is closed"))?.as_raw_fd())
    }

    /// Makes it silent until something is pushed; before one pulls what there is.
    fn hush(&self) {
        if let Some(bell) = &*self.bell.lock().unwrap_or_else(PoisonError::into_inner) {
            bell.hush();
        }
    }

    /// Closes it.
    fn close(&self, py: Python<'_>) {
        let bell = self.bell.lock().unwrap_or_else(PoisonError::into_inner).take();
        py.detach(|| drop(bell));
    }
}
