//! Sending.

use crate::basics::time;
use crate::border::call::export;
use crate::border::{Alone, Answer, Give, In, Many, NewHandle, Owned, Ref, View, invalid, yes};
use crate::channel::{CPeer, wait};
use commonhold::{Channel, Producer, Result};
use std::ffi::c_void;

/// `ch_producer`.
pub struct Sending {
    producer: Producer,
    /// So many bytes are reserved. The room is the same when it is asked for again, because nothing was sent since.
    reserved: Option<usize>,
}

crate::border::handle::kinds! {
    Alone<Sending> = b"ch-produ", "producer";
}

/// Gives the number of a message, if one was sent.
#[inline]
fn sent(sequence: &Give<u64>, number: Option<u64>) -> Answer {
    sequence.set(number.unwrap_or(0));
    Ok(yes(number.is_some()))
}

/// What is reserved.
fn reserved(sending: &mut Sending) -> Result<usize> {
    sending.reserved.take().ok_or_else(|| {
        invalid(
            "nothing is reserved: it was committed or cancelled, or something else was sent since",
        )
    })
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
        sending.reserved = None;
        sent(&sequence, Some(sending.producer.send(message.bytes(len)?)?))
    }

    fn ch_producer_try_send(producer: Ref<Alone<Sending>>, message: In, len: usize, sequence: Give<u64>) {
        let mut sending = producer.get()?.lock()?;
        sending.reserved = None;
        sent(&sequence, sending.producer.try_send(message.bytes(len)?)?)
    }

    fn ch_producer_send_timeout(
        producer: Ref<Alone<Sending>>,
        message: In,
        len: usize,
        timeout_ns: u64,
        sequence: Give<u64>,
    ) {
        let mut sending = producer.get()?.lock()?;
        sending.reserved = None;
        sent(&sequence, sending.producer.send_timeout(message.bytes(len)?, time(timeout_ns))?)
    }

    fn ch_producer_send_many(
        producer: Ref<Alone<Sending>>,
        messages: Many<View>,
        count: usize,
        sent: Give<usize>,
    ) {
        let mut sending = producer.get()?.lock()?;
        sending.reserved = None;
        let messages = messages.slices(count)?;
        let first = sending.producer.sequence();
        let result = sending.producer.send_many(messages);
        sent.set((sending.producer.sequence() - first) as usize);
        result.map(|_| yes(true))
    }

    fn ch_producer_reserve(producer: Ref<Alone<Sending>>, len: usize, room: Give<*mut c_void>) {
        room.needed("room")?;
        let mut sending = producer.get()?.lock()?;
        sending.reserved = None;
        room.set(sending.producer.reserve(len)?.as_mut_ptr().cast());
        sending.reserved = Some(len);
        Ok(yes(true))
    }

    fn ch_producer_try_reserve(producer: Ref<Alone<Sending>>, len: usize, room: Give<*mut c_void>) {
        room.needed("room")?;
        let mut sending = producer.get()?.lock()?;
        sending.reserved = None;
        let Some(mut reservation) = sending.producer.try_reserve(len)? else { return Ok(yes(false)) };
        room.set(reservation.as_mut_ptr().cast());
        sending.reserved = Some(len);
        Ok(yes(true))
    }

    fn ch_producer_commit(producer: Ref<Alone<Sending>>, len: usize, sequence: Give<u64>) {
        let mut sending = producer.get()?.lock()?;
        let most = reserved(&mut sending)?;
        let reservation = sending.producer.try_reserve(most)?;
        let reservation = reservation.ok_or_else(|| invalid("what was reserved is gone"))?;
        sent(&sequence, Some(reservation.commit_first(len)?))
    }

    fn ch_producer_cancel(producer: Ref<Alone<Sending>>) {
        let mut sending = producer.get()?.lock()?;
        Ok(yes(sending.reserved.take().is_some()))
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
