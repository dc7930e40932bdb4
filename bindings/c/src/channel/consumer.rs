//! Receiving.

use crate::basics::time;
use crate::channel::wait;
use crate::ffi::call::export;
use crate::ffi::{Alone, Answer, Give, NewHandle, OutBytes, Owned, Ref, User, View, invalid, yes};
use commonhold::Result;
use commonhold::channel::{Channel, Consumer, Join, Policy, RawBytes, Received};
use std::time::Duration;

/// `ch_received`.
#[repr(C)]
#[derive(Clone, Copy)]
pub struct CReceived {
    sequence: u64,
    missed: u64,
}

impl From<Received> for CReceived {
    fn from(Received { sequence, missed }: Received) -> CReceived {
        CReceived { sequence, missed }
    }
}

/// `ch_message_fn`.
pub type EachMessage = Option<extern "C" fn(User, View, CReceived)>;

crate::ffi::handle::kinds! {
    Alone<Consumer> = b"ch-consu", "consumer";
}

fn join(from: u32) -> Result<Join> {
    match from {
        0 => Ok(Join::Now),
        1 => Ok(Join::Oldest),
        _ => {
            Err(invalid(format!("expected CH_JOIN_NOW or CH_JOIN_OLDEST to join from, got {from}")))
        }
    }
}

fn policy(policy: u32, patience_ns: u64) -> Result<Policy> {
    match policy {
        0 => Ok(Policy::Lossless),
        1 => Ok(Policy::Lossy),
        2 => Ok(Policy::Patient(Duration::from_nanos(patience_ns))),
        _ => Err(invalid(format!("expected a consumer policy (a ch_policy), got {policy}"))),
    }
}

#[inline]
fn answer(out: &Give<CReceived>, received: Option<Received>) -> Answer {
    if let Some(received) = received {
        out.set(received.into());
    }
    Ok(yes(received.is_some()))
}

fn shown(
    (message, out): (&Give<View>, &Give<CReceived>),
    found: Option<(RawBytes<'_>, Received)>,
) -> Answer {
    if let Some((raw, _)) = &found {
        message.set(View::at(raw.as_ptr(), raw.len()));
    }
    answer(out, found.map(|(_, received)| received))
}

export! {
    fn ch_channel_consumer(
        channel: Ref<Channel>,
        from: u32,
        how: u32,
        patience_ns: u64,
        consumer: NewHandle<Alone<Consumer>>,
    ) {
        let place = consumer.ready()?;
        let (from, policy) = (join(from)?, policy(how, patience_ns)?);
        place.put(Alone::new(channel.get()?.consumer(from, policy)?));
        Ok(yes(true))
    }

    fn ch_consumer_free(consumer: Owned<Alone<Consumer>>) -> (), or (), {
        drop(consumer.take())
    }

    fn ch_consumer_recv(consumer: Ref<Alone<Consumer>>, message: OutBytes, received: Give<CReceived>) {
        let mut consumer = consumer.get()?.lock()?;
        let found = message.fill(|out| consumer.recv(out))?;
        answer(&received, Some(found))
    }

    fn ch_consumer_try_recv(consumer: Ref<Alone<Consumer>>, message: OutBytes, received: Give<CReceived>) {
        let mut consumer = consumer.get()?.lock()?;
        let found = message.fill(|out| consumer.try_recv(out))?;
        answer(&received, found)
    }

    fn ch_consumer_recv_timeout(
        consumer: Ref<Alone<Consumer>>,
        message: OutBytes,
        timeout_ns: u64,
        received: Give<CReceived>,
    ) {
        let mut consumer = consumer.get()?.lock()?;
        let found = message.fill(|out| consumer.recv_timeout(out, time(timeout_ns)))?;
        answer(&received, found)
    }

    fn ch_consumer_recv_many(
        consumer: Ref<Alone<Consumer>>,
        most: usize,
        call: EachMessage,
        user: User,
        count: Give<usize>,
    ) {
        let call = call.ok_or_else(|| invalid("the callback is NULL"))?;
        let mut consumer = consumer.get()?.lock()?;
        count.set(consumer.recv_many(most, |received, message| {
            call(user, View::of(message), received.into());
        })?);
        Ok(yes(true))
    }

    fn ch_consumer_recv_many_timeout(
        consumer: Ref<Alone<Consumer>>,
        most: usize,
        timeout_ns: u64,
        call: EachMessage,
        user: User,
        count: Give<usize>,
    ) {
        let call = call.ok_or_else(|| invalid("the callback is NULL"))?;
        let mut consumer = consumer.get()?.lock()?;
        let found = consumer.recv_many_timeout(most, time(timeout_ns), |received, message| {
            call(user, View::of(message), received.into());
        })?;
        count.set(found);
        Ok(yes(found > 0))
    }

    fn ch_consumer_peek(consumer: Ref<Alone<Consumer>>, message: Give<View>, received: Give<CReceived>) {
        let mut consumer = consumer.get()?.lock()?;
        shown((&message, &received), Some(consumer.peek()?))
    }

    fn ch_consumer_try_peek(consumer: Ref<Alone<Consumer>>, message: Give<View>, received: Give<CReceived>) {
        let mut consumer = consumer.get()?.lock()?;
        shown((&message, &received), consumer.try_peek()?)
    }

    fn ch_consumer_peek_timeout(
        consumer: Ref<Alone<Consumer>>,
        timeout_ns: u64,
        message: Give<View>,
        received: Give<CReceived>,
    ) {
        let mut consumer = consumer.get()?.lock()?;
        shown((&message, &received), consumer.peek_timeout(time(timeout_ns))?)
    }

    fn ch_consumer_advance(consumer: Ref<Alone<Consumer>>) {
        Ok(yes(consumer.get()?.lock()?.advance()?))
    }

    fn ch_consumer_rejoin(consumer: Ref<Alone<Consumer>>, from: u32) {
        let from = join(from)?;
        consumer.get()?.lock()?.rejoin(from)?;
        Ok(yes(true))
    }

    fn ch_consumer_sequence(consumer: Ref<Alone<Consumer>>, sequence: Give<u64>) {
        sequence.set(consumer.get()?.lock()?.sequence());
        Ok(yes(true))
    }

    fn ch_consumer_missed(consumer: Ref<Alone<Consumer>>, missed: Give<u64>) {
        missed.set(consumer.get()?.lock()?.missed());
        Ok(yes(true))
    }

    fn ch_consumer_set_spin(consumer: Ref<Alone<Consumer>>, spin: u32) {
        consumer.get()?.lock()?.set_wait(wait(spin));
        Ok(yes(true))
    }
}
