//! Sending.

use crate::basics::time;
use crate::channel::{CPeer, wait};
use crate::ffi::call::export;
use crate::ffi::take::Plain;
use crate::ffi::{Alone, Answer, Give, In, Many, NewHandle, Owned, Ref, Take, View, invalid, yes};
use commonhold::channel::{Channel, Producer, Reservation};
use commonhold::{Error, Result};
use std::ffi::c_void;
use std::sync::atomic::{AtomicU64, Ordering};

/// `ch_producer`.
pub struct Sending {
    producer: Producer,
    /// The reservation. The room is the same when it is requested again, because nothing was sent
    /// since.
    reserved: Option<Reserved>,
}

/// The number of bytes, and the number of the reservation.
#[derive(Clone, Copy)]
struct Reserved {
    len: usize,
    number: u64,
}

/// `ch_reservation`.
#[repr(C)]
#[derive(Clone, Copy)]
pub struct CReservation {
    room: *mut c_void,
    len: usize,
    number: u64,
}

impl Plain for CReservation {
    const ZERO: CReservation = CReservation { room: std::ptr::null_mut(), len: 0, number: 0 };
}

/// Numbers of reservations, of all producers: one is never another's.
static NEXT: AtomicU64 = AtomicU64::new(1);

crate::ffi::handle::kinds! {
    Alone<Sending> = b"ch-produ", "producer";
}

/// Gives the number of a message, if one was sent.
#[inline]
fn sent(sequence: &Give<u64>, number: Option<u64>) -> Answer {
    sequence.set(number.unwrap_or(0));
    Ok(yes(number.is_some()))
}

/// Sends many, and returns the number sent, even after an error.
fn many(
    producer: &mut Producer,
    sent: &Give<usize>,
    send: impl FnOnce(&mut Producer) -> Result<u64>,
) -> Result<u64> {
    let first = producer.sequence();
    let result = send(producer);
    sent.set((producer.sequence() - first) as usize);
    result
}

impl Sending {
    /// The producer, to send a message: this ends the reservation.
    #[inline]
    fn producer(&mut self) -> &mut Producer {
        self.reserved = None;
        &mut self.producer
    }

    /// Makes room, for a reservation of its own.
    fn reserve(
        &mut self,
        len: usize,
        place: impl FnOnce(&mut Producer) -> Result<Option<Reservation<'_>>>,
    ) -> Result<Option<CReservation>> {
        let Some(mut made) = place(self.producer())? else { return Ok(None) };
        let room = made.as_mut_ptr().cast();
        // Relaxed: only that no two are the same.
        let number = NEXT.fetch_add(1, Ordering::Relaxed);
        self.reserved = Some(Reserved { len, number });
        Ok(Some(CReservation { room, len, number }))
    }

    /// The room of this reservation.
    fn reserved(&self, reservation: &Take<CReservation>) -> Result<Reserved> {
        let CReservation { number, .. } = reservation.needed("reservation")?;
        self.reserved.filter(|reserved| reserved.number == number).ok_or_else(over)
    }
}

#[cold]
fn over() -> Error {
    invalid(
        "the reservation is no longer valid: it was committed or cancelled, belongs to another \
         producer, or was followed by another reservation or message",
    )
}

/// Gives a reservation, if there is one.
fn give(out: &Give<CReservation>, made: Option<CReservation>) -> Answer {
    out.set(made.unwrap_or(CReservation::ZERO));
    Ok(yes(made.is_some()))
}

export! {
    fn ch_channel_producer(channel: Ref<Channel>, producer: NewHandle<Alone<Sending>>) {
        let place = producer.ready()?;
        let producer = channel.get()?.producer()?;
        place.put(Alone::new(Sending { producer, reserved: None }));
        Ok(yes(true))
    }

    fn ch_producer_free(producer: Owned<Alone<Sending>>) -> (), or (), {
        drop(producer.take())
    }

    fn ch_producer_send(producer: Ref<Alone<Sending>>, message: In, len: usize, sequence: Give<u64>) {
        let mut sending = producer.get()?.lock()?;
        sent(&sequence, Some(sending.producer().send(message.bytes(len)?)?))
    }

    fn ch_producer_try_send(producer: Ref<Alone<Sending>>, message: In, len: usize, sequence: Give<u64>) {
        let mut sending = producer.get()?.lock()?;
        sent(&sequence, sending.producer().try_send(message.bytes(len)?)?)
    }

    fn ch_producer_send_timeout(
        producer: Ref<Alone<Sending>>,
        message: In,
        len: usize,
        timeout_ns: u64,
        sequence: Give<u64>,
    ) {
        let mut sending = producer.get()?.lock()?;
        sent(&sequence, sending.producer().send_timeout(message.bytes(len)?, time(timeout_ns))?)
    }

    fn ch_producer_send_many(
        producer: Ref<Alone<Sending>>,
        messages: Many<View>,
        count: usize,
        sent: Give<usize>,
    ) {
        let mut sending = producer.get()?.lock()?;
        many(sending.producer(), &sent, |producer| producer.send_many(messages.slices(count)?))?;
        Ok(yes(true))
    }

    fn ch_producer_send_many_timeout(
        producer: Ref<Alone<Sending>>,
        messages: Many<View>,
        count: usize,
        timeout_ns: u64,
        sent: Give<usize>,
    ) {
        let mut sending = producer.get()?.lock()?;
        let done = many(sending.producer(), &sent, |producer| {
            producer.send_many_timeout(messages.slices(count)?, time(timeout_ns))
        })?;
        Ok(yes(done == count as u64))
    }

    fn ch_producer_reserve(producer: Ref<Alone<Sending>>, len: usize, reservation: Give<CReservation>) {
        reservation.needed("reservation")?;
        let mut sending = producer.get()?.lock()?;
        give(&reservation, sending.reserve(len, |producer| producer.reserve(len).map(Some))?)
    }

    fn ch_producer_try_reserve(producer: Ref<Alone<Sending>>, len: usize, reservation: Give<CReservation>) {
        reservation.needed("reservation")?;
        let mut sending = producer.get()?.lock()?;
        give(&reservation, sending.reserve(len, |producer| producer.try_reserve(len))?)
    }

    fn ch_producer_reserve_timeout(
        producer: Ref<Alone<Sending>>,
        len: usize,
        timeout_ns: u64,
        reservation: Give<CReservation>,
    ) {
        reservation.needed("reservation")?;
        let mut sending = producer.get()?.lock()?;
        let timeout = time(timeout_ns);
        give(&reservation, sending.reserve(len, |producer| producer.reserve_timeout(len, timeout))?)
    }

    fn ch_producer_commit(
        producer: Ref<Alone<Sending>>,
        reservation: Take<CReservation>,
        len: usize,
        sequence: Give<u64>,
    ) {
        let mut sending = producer.get()?.lock()?;
        let Reserved { len: most, .. } = sending.reserved(&reservation)?;
        let room = sending.producer.try_reserve(most)?;
        let number = room.ok_or_else(|| invalid("the reservation is gone"))?.commit_first(len)?;
        sending.reserved = None;
        sent(&sequence, Some(number))
    }

    fn ch_producer_cancel(producer: Ref<Alone<Sending>>, reservation: Take<CReservation>) {
        let mut sending = producer.get()?.lock()?;
        sending.reserved(&reservation)?;
        sending.reserved = None;
        Ok(yes(true))
    }

    fn ch_producer_sequence(producer: Ref<Alone<Sending>>, sequence: Give<u64>) {
        sequence.set(producer.get()?.lock()?.producer.sequence());
        Ok(yes(true))
    }

    fn ch_producer_max_message(producer: Ref<Alone<Sending>>, bytes: Give<usize>) {
        bytes.set(producer.get()?.lock()?.producer.max_message());
        Ok(yes(true))
    }

    fn ch_producer_waits_for(producer: Ref<Alone<Sending>>, peer: Give<CPeer>) {
        let found = producer.get()?.lock()?.producer.waits_for();
        if let Some(found) = found {
            peer.set(found.into());
        }
        Ok(yes(found.is_some()))
    }

    fn ch_producer_set_spin(producer: Ref<Alone<Sending>>, spin: u32) {
        producer.get()?.lock()?.producer.set_wait(wait(spin));
        Ok(yes(true))
    }
}
