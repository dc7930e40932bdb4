//! `Consumer`: receiving.

use crate::convert::{bytes, invalid};
use crate::errors::{Answer, error};
use crate::ffi::window::{self, Held, Window};
use crate::producer::Channel;
use crate::turn::{Turn, Used, closed};
use crate::waiting::{in_time, patiently, seconds};
use commonhold::channel::{Join, Policy, Wait};
use commonhold::{ErrorKind, Result};
use pyo3::exceptions::PyBufferError;
use pyo3::prelude::*;
use pyo3::types::{PyBytes, PyType};
use std::sync::Arc;

/// Receives the messages of a channel.
#[pyclass(subclass, frozen, module = "commonhold._native")]
pub struct Consumer {
    ours: Arc<Ours>,
}

/// The shared state of a consumer and the message that it shows.
type Ours = Turn<Reading>;

struct Reading {
    /// None: closed.
    consumer: Option<commonhold::channel::Consumer>,
    buffer: Vec<u8>,
    /// The shown message, if there is one: no two views have the same number, though they may be of
    /// the same message.
    shown: Option<u64>,
    showings: u64,
    /// The number of views of it.
    seen: usize,
}

/// A message that is shown.
struct Message {
    ours: Arc<Ours>,
    showing: u64,
    sequence: u64,
}

impl Held for Message {
    fn pin(&self) -> PyResult<()> {
        // The thread that has it locked continues with the next message.
        let reading = self.ours.try_lock();
        let Some(mut reading) = reading.filter(|reading| reading.shown == Some(self.showing))
        else {
            let text = "the message is no longer available: it was released, or the consumer has \
                        moved on";
            return Err(PyBufferError::new_err(text));
        };
        self.ours.shared.pin()?;
        reading.seen += 1;
        Ok(())
    }

    fn unpin(&self) {
        let mut reading = self.ours.lock();
        reading.seen -= 1;
        if self.ours.ends() {
            reading.end();
        }
        drop(reading);
        self.ours.shared.unpin();
    }
}

impl Drop for Message {
    fn drop(&mut self) {
        // Nobody looks at it: who does keeps the buffer, and the buffer this. An error comes again
        // with the next call.
        if let Some(mut reading) = self.ours.try_lock()
            && reading.shown == Some(self.showing)
        {
            let _ = reading.go_on();
        }
    }
}

impl Used for Reading {
    const NAME: &'static str = "consumer";

    fn end(&mut self) {
        if self.seen == 0 {
            (self.shown, self.consumer) = (None, None);
        }
    }
}

impl Reading {
    /// The consumer, to continue: a shown message counts as received.
    #[inline]
    fn parts(&mut self) -> Answer<(&mut commonhold::channel::Consumer, &mut Vec<u8>)> {
        if self.seen > 0 {
            let text =
                "memoryviews or arrays of the last message are still in use: release them first";
            return Err(PyBufferError::new_err(text).into());
        }
        if self.shown.is_some() {
            self.go_on()?;
        }
        Ok(self.open()?)
    }

    fn go_on(&mut self) -> Answer<()> {
        self.shown = None;
        match &mut self.consumer {
            Some(consumer) => Ok(consumer.advance().map(drop)?),
            None => Ok(()),
        }
    }

    #[inline]
    fn open(&mut self) -> Result<(&mut commonhold::channel::Consumer, &mut Vec<u8>)> {
        Ok((self.consumer.as_mut().ok_or_else(closed::<Reading>)?, &mut self.buffer))
    }
}

fn join(from: &str) -> Answer<Join> {
    match from {
        "now" => Ok(Join::Now),
        "oldest" => Ok(Join::Oldest),
        _ => Err(invalid(format!("expected join from \"now\" or \"oldest\", got {from:?}"))),
    }
}

impl Consumer {
    /// The next message if there is one now.
    #[inline]
    fn recv_now<'py>(&self, py: Python<'py>) -> Answer<Option<Bound<'py, PyBytes>>> {
        let mut reading = self.ours.enter(py)?;
        let (consumer, buffer) = reading.parts()?;
        Ok(consumer.try_recv(buffer)?.map(|_| bytes(py, buffer)))
    }

    /// The next message; waits for it.
    fn recv_within<'py>(
        &self,
        py: Python<'py>,
        timeout: Option<f64>,
    ) -> Answer<Option<Bound<'py, PyBytes>>> {
        if let Some(message) = self.recv_now(py)? {
            return Ok(Some(message));
        }
        let mut reading = self.ours.enter(py)?;
        reading.parts()?;
        let found = self.ours.wait(py, &mut reading, timeout, |reading, slice| {
            let (consumer, buffer) = reading.open()?;
            consumer.recv_timeout(buffer, slice)
        })?;
        Ok(found.map(|_| bytes(py, &reading.buffer)))
    }
}

#[pymethods]
impl Consumer {
    #[new]
    #[pyo3(signature = (channel, join="now", policy="lossless", *, patience=None, spin=false))]
    fn new(
        py: Python<'_>,
        channel: &Bound<'_, Channel>,
        join: &str,
        policy: &str,
        patience: Option<f64>,
        spin: bool,
    ) -> Answer<Consumer> {
        let Channel { channel, shared } = channel.get();
        shared.ensure()?;
        let policy = match (policy, patience) {
            ("lossless", None) => Policy::Lossless,
            ("lossy", None) => Policy::Lossy,
            ("patient", Some(time)) => Policy::Patient(seconds(time)?),
            ("patient", None) => return Err(invalid("a patient consumer needs patience=SECONDS")),
            ("lossless" | "lossy", Some(_)) => {
                return Err(invalid("patience applies only to the policy \"patient\""));
            }
            _ => {
                let text = format!(
                    "expected the policy \"lossless\", \"lossy\" or \"patient\", got {policy:?}"
                );
                return Err(invalid(text));
            }
        };
        let from = self::join(join)?;
        let mut consumer = patiently(py, shared.patience, || Ok(channel.consumer(from, policy)?))?;
        if spin {
            consumer.set_wait(Wait::Spin);
        }
        let consumer = Some(consumer);
        let reading = Reading { consumer, buffer: Vec::new(), shown: None, showings: 0, seen: 0 };
        Ok(Consumer { ours: Turn::new(reading, shared) })
    }

    /// The number of the next message.
    #[getter]
    fn sequence(&self, py: Python<'_>) -> Answer<u64> {
        Ok(self.ours.enter(py)?.open()?.0.sequence())
    }

    /// Messages missed since it joined; always 0 unless it is lossy.
    #[getter]
    fn missed(&self, py: Python<'_>) -> Answer<u64> {
        Ok(self.ours.enter(py)?.open()?.0.missed())
    }

    /// The next message, as bytes. Waits for `timeout` seconds (None: without limit), then raises
    /// TimedOutError.
    #[pyo3(signature = (timeout=None))]
    fn recv<'py>(&self, py: Python<'py>, timeout: Option<f64>) -> Answer<Bound<'py, PyBytes>> {
        let found = self.recv_within(py, timeout)?;
        found.ok_or_else(|| error(ErrorKind::TimedOut, "timed out while waiting for a message"))
    }

    /// The next message if there is one now, or None.
    fn try_recv<'py>(&self, py: Python<'py>) -> Answer<Option<Bound<'py, PyBytes>>> {
        self.recv_now(py)
    }

    /// Waits for messages, for the first only, and returns what there is, at most `most`: a list,
    /// empty if the time ran out.
    #[pyo3(signature = (most=1024, timeout=None))]
    fn recv_many<'py>(
        &self,
        py: Python<'py>,
        most: usize,
        timeout: Option<f64>,
    ) -> Answer<Vec<Bound<'py, PyBytes>>> {
        let mut messages = Vec::new();
        if most == 0 {
            return Ok(messages);
        }
        messages.extend(self.recv_within(py, timeout)?);
        while !messages.is_empty() && messages.len() < most {
            match self.recv_now(py)? {
                Some(message) => messages.push(message),
                None => break,
            }
        }
        Ok(messages)
    }

    /// Shows the next message in place.
    #[pyo3(signature = (class, timeout=None))]
    fn _view<'py>(
        &self,
        class: &Bound<'py, PyType>,
        timeout: Option<f64>,
    ) -> Answer<Bound<'py, PyAny>> {
        let py = class.py();
        let mut reading = self.ours.enter(py)?;
        reading.parts()?;
        let found = self.ours.wait(py, &mut reading, timeout, |reading, slice| {
            let seen = reading.open()?.0.peek_timeout(slice)?;
            Ok(seen.map(|(raw, got)| (raw.as_ptr() as usize, raw.len(), got.sequence)))
        })?;
        let (start, len, sequence) = in_time(found, "no message arrived")?;
        reading.showings += 1;
        let showing = reading.showings;
        reading.shown = Some(showing);
        drop(reading);
        let held = Arc::new(Message { ours: Arc::clone(&self.ours), showing, sequence });
        let window = Window { start: start as *mut u8, len, readonly: true, held };
        Ok(window::show(class, window)?)
    }

    /// The number of a message that was shown.
    #[staticmethod]
    fn _sequence(message: &Bound<'_, PyAny>) -> Answer<u64> {
        Ok(window::held::<Message>(message)?.sequence)
    }

    /// The message counts as received.
    #[staticmethod]
    fn _release(message: &Bound<'_, PyAny>) -> Answer<()> {
        let held = window::held::<Message>(message)?;
        window::ensure_unseen(message)?;
        let mut reading = held.ours.enter_last(message.py())?;
        if reading.shown != Some(held.showing) {
            return Ok(());
        }
        // Checked again: while another thread had its turn, a new view may have been created.
        window::ensure_unseen(message)?;
        reading.go_on()
    }

    /// Begins again, `"now"` or at the `"oldest"` message kept, after a patient consumer was
    /// dropped or whenever it likes.
    #[pyo3(signature = (join="now"))]
    fn rejoin(&self, py: Python<'_>, join: &str) -> Answer<()> {
        let from = self::join(join)?;
        let mut reading = self.ours.enter(py)?;
        if reading.seen == 0 {
            reading.shown = None;
        }
        let (consumer, _) = reading.parts()?;
        patiently(py, self.ours.shared.patience, || Ok(consumer.rejoin(from)?))
    }

    /// Leaves the channel. While views of a message exist, the end of the last one does it. In a
    /// signal's handler it ends the receiving that the signal interrupted, as from another thread;
    /// all else raises `BusyError` there.
    fn close(&self, py: Python<'_>) -> Answer<()> {
        self.ours.close(py)
    }
}
