//! `Channel` and `Producer`.

use crate::by_name::How;
use crate::convert::{invalid, json};
use crate::errors::Answer;
use crate::ffi::input::Input;
use crate::ffi::window::{self, Held, Window};
use crate::hold::Hold;
use crate::shared_hold::SharedHold;
use crate::turn::{Turn, Used, closed};
use crate::waiting::{in_time, patiently};
use commonhold::Result;
use commonhold::channel::{ChannelOptions, Wait};
use pyo3::exceptions::PyBufferError;
use pyo3::prelude::*;
use pyo3::types::PyType;
use std::sync::{Arc, MutexGuard};

/// A channel: one producer sends messages, every consumer receives all of them.
#[pyclass(subclass, frozen, module = "commonhold._native")]
pub struct Channel {
    pub channel: commonhold::channel::Channel,
    pub shared: Arc<SharedHold>,
}

/// Sends the messages of a channel.
#[pyclass(subclass, frozen, module = "commonhold._native")]
pub struct Producer {
    ours: Arc<Ours>,
}

/// The shared state of a producer and its reservation.
type Ours = Turn<Sending>;

struct Sending {
    /// None: closed.
    producer: Option<commonhold::channel::Producer>,
    /// The number of reserved bytes, and the number of the reservation.
    reserved: Option<(usize, u64)>,
    number: u64,
    /// The number of views of the reservation.
    seen: usize,
}

/// Bytes that are reserved.
struct Reserved {
    ours: Arc<Ours>,
    number: u64,
}

impl Held for Reserved {
    fn pin(&self) -> PyResult<()> {
        // The thread that has it locked sends something else.
        let sending = self.ours.try_lock();
        let own = |sending: &MutexGuard<'_, Sending>| {
            sending.reserved.is_some_and(|(_, number)| number == self.number)
        };
        let Some(mut sending) = sending.filter(own) else {
            let text = "the reservation has ended: it was committed or cancelled, or something \
                        else was sent";
            return Err(PyBufferError::new_err(text));
        };
        self.ours.shared.pin()?;
        sending.seen += 1;
        Ok(())
    }

    fn unpin(&self) {
        let mut sending = self.ours.lock();
        sending.seen -= 1;
        if self.ours.ends() {
            sending.end();
        }
        drop(sending);
        self.ours.shared.unpin();
    }
}

impl Used for Sending {
    const NAME: &'static str = "producer";

    fn end(&mut self) {
        if self.seen == 0 {
            (self.reserved, self.producer) = (None, None);
        }
    }
}

impl Sending {
    /// The producer, to send a message: this cancels the reservation.
    #[inline]
    fn producer(&mut self) -> Answer<&mut commonhold::channel::Producer> {
        if self.seen > 0 {
            let text =
                "memoryviews or arrays of a reservation are still in use: release them first";
            return Err(PyBufferError::new_err(text).into());
        }
        self.reserved = None;
        Ok(self.open()?)
    }

    #[inline]
    fn open(&mut self) -> Result<&mut commonhold::channel::Producer> {
        self.producer.as_mut().ok_or_else(closed::<Sending>)
    }
}

fn no_room(producer: &commonhold::channel::Producer) -> String {
    match producer.waits_for() {
        Some(peer) => {
            format!(
                "no room, because the consumer in slot {} (process {}) lags",
                peer.slot, peer.pid
            )
        }
        None => "no room".to_owned(),
    }
}

#[pymethods]
impl Channel {
    #[new]
    #[pyo3(signature = (hold, name, ring_bytes=1 << 20, *, how="open_or_create"))]
    fn new(
        py: Python<'_>,
        hold: &Bound<'_, Hold>,
        name: &str,
        ring_bytes: u64,
        how: &str,
    ) -> Answer<Channel> {
        let (how, shared) = (How::of(how)?, Arc::clone(&hold.get().shared));
        let options = ChannelOptions::new(ring_bytes);
        let channel = shared.act(py, |hold| match how {
            How::Open => hold.channels().open(name),
            How::OpenOrCreate => hold.channels().open_or_create(name, options),
            How::Create => hold.channels().create(name, options),
        })?;
        Ok(Channel { channel, shared })
    }

    /// Its name.
    #[getter]
    fn name(&self) -> &str {
        self.channel.name()
    }

    /// Bytes of its ring.
    #[getter]
    fn ring_bytes(&self) -> u64 {
        self.channel.options().ring_bytes
    }

    fn _stat(&self, py: Python<'_>) -> Answer<String> {
        self.shared.ensure()?;
        json(&patiently(py, self.shared.patience, || Ok(self.channel.stat()?))?)
    }
}

#[pymethods]
impl Producer {
    #[new]
    #[pyo3(signature = (channel, *, spin=false))]
    fn new(py: Python<'_>, channel: &Bound<'_, Channel>, spin: bool) -> Answer<Producer> {
        let Channel { channel, shared } = channel.get();
        shared.ensure()?;
        let mut producer = patiently(py, shared.patience, || Ok(channel.producer()?))?;
        if spin {
            producer.set_wait(Wait::Spin);
        }
        let producer = Some(producer);
        let sending = Sending { producer, reserved: None, number: 0, seen: 0 };
        Ok(Producer { ours: Turn::new(sending, shared) })
    }

    /// The number of the next message.
    #[getter]
    fn sequence(&self, py: Python<'_>) -> Answer<u64> {
        Ok(self.ours.enter(py)?.open()?.sequence())
    }

    /// The longest message in bytes.
    #[getter]
    fn max_message(&self, py: Python<'_>) -> Answer<usize> {
        Ok(self.ours.enter(py)?.open()?.max_message())
    }

    /// The consumer in the way when there was no room the last time: slot and process.
    fn waits_for(&self, py: Python<'_>) -> Answer<Option<(u32, u32)>> {
        let peer = self.ours.enter(py)?.open()?.waits_for();
        Ok(peer.map(|peer| (peer.slot, peer.pid)))
    }

    /// Sends a message; returns its number. Waits for room for `timeout` seconds (None: without
    /// limit), then raises TimedOutError.
    #[pyo3(signature = (message, /, timeout=None))]
    fn send(&self, py: Python<'_>, message: Input<'_>, timeout: Option<f64>) -> Answer<u64> {
        let mut sending = self.ours.enter(py)?;
        if let Some(number) = sending.producer()?.try_send(&message)? {
            return Ok(number);
        }
        let sent = self.ours.wait(py, &mut sending, timeout, |sending, slice| {
            sending.open()?.send_timeout(&message, slice)
        })?;
        in_time(sent, &no_room(sending.open()?))
    }

    /// Sends a message if there is room now; returns its number, or None.
    #[pyo3(signature = (message, /))]
    fn try_send(&self, py: Python<'_>, message: Input<'_>) -> Answer<Option<u64>> {
        let mut sending = self.ours.enter(py)?;
        Ok(sending.producer()?.try_send(&message)?)
    }

    /// Sends messages one after the other; waits for room for `timeout` seconds in all, `None`:
    /// without limit. Returns the number sent: fewer than all if it timed out. After a signal's
    /// handler has raised an exception, the messages sent so far stay sent: `sequence` shows their
    /// number.
    #[pyo3(signature = (messages, timeout=None))]
    fn send_many(
        &self,
        py: Python<'_>,
        messages: &Bound<'_, PyAny>,
        timeout: Option<f64>,
    ) -> Answer<usize> {
        let listed: Vec<Bound<'_, PyAny>> = messages.try_iter()?.collect::<PyResult<_>>()?;
        let all = listed.iter().map(|message| message.extract());
        let all = all.collect::<PyResult<Vec<Input<'_>>>>()?;
        let mut sending = self.ours.enter(py)?;
        sending.producer()?;
        let mut sent = 0;
        self.ours.wait(py, &mut sending, timeout, |sending, slice| {
            sent += sending.open()?.send_many_timeout(&all[sent..], slice)? as usize;
            Ok((sent == all.len()).then_some(()))
        })?;
        Ok(sent)
    }

    /// Reserves room for a message of `len` bytes, to be written in place.
    #[pyo3(signature = (len, class, timeout=None))]
    fn _reserve<'py>(
        &self,
        len: usize,
        class: &Bound<'py, PyType>,
        timeout: Option<f64>,
    ) -> Answer<Bound<'py, PyAny>> {
        let py = class.py();
        let mut sending = self.ours.enter(py)?;
        sending.producer()?;
        let start = self.ours.wait(py, &mut sending, timeout, |sending, slice| {
            let room = sending.open()?.reserve_timeout(len, slice)?;
            Ok(room.map(|mut room| room.as_mut_ptr() as usize))
        })?;
        let start = in_time(start, &no_room(sending.open()?))? as *mut u8;
        sending.number += 1;
        let number = sending.number;
        sending.reserved = Some((len, number));
        drop(sending);
        let held = Arc::new(Reserved { ours: Arc::clone(&self.ours), number });
        Ok(window::show(class, Window { start, len, readonly: false, held })?)
    }

    /// Sends the reserved message, or only the first `len` bytes of it; returns its number.
    #[staticmethod]
    #[pyo3(signature = (reservation, len=None))]
    fn _commit(reservation: &Bound<'_, PyAny>, len: Option<usize>) -> Answer<u64> {
        let Reserved { ours, number } = window::held::<Reserved>(reservation)?;
        window::ensure_unseen(reservation)?;
        let mut sending = ours.enter(reservation.py())?;
        let reserved = sending.reserved.filter(|(_, other)| other == number);
        let (most, _) = reserved.ok_or_else(|| invalid("the reservation has already ended"))?;
        // Checked again: while another thread had its turn, a new view may have been created.
        window::ensure_unseen(reservation)?;
        // The room is the same when it is requested again, because nothing was sent since.
        let room = sending.open()?.try_reserve(most)?;
        let room = room.ok_or_else(|| invalid("the reservation is gone"))?;
        let sent = room.commit_first(len.unwrap_or(most))?;
        sending.reserved = None;
        Ok(sent)
    }

    /// Cancels the reservation; false if it has ended already.
    #[staticmethod]
    fn _cancel(reservation: &Bound<'_, PyAny>) -> Answer<bool> {
        let Reserved { ours, number } = window::held::<Reserved>(reservation)?;
        window::ensure_unseen(reservation)?;
        let mut sending = ours.enter_last(reservation.py())?;
        let own = sending.reserved.is_some_and(|(_, other)| other == *number);
        if own {
            window::ensure_unseen(reservation)?;
            sending.reserved = None;
        }
        Ok(own)
    }

    /// Lets another one begin. While views of a reservation exist, the end of the last one does it.
    /// In a signal's handler it ends the sending that the signal interrupted, as from another
    /// thread; all else raises `BusyError` there.
    fn close(&self, py: Python<'_>) -> Answer<()> {
        self.ours.close(py)
    }
}
