//! Creating and opening channels; their statistics.

use crate::basics::json;
use crate::channel::CPeer;
use crate::ffi::call::export;
use crate::ffi::{Give, Name, NewHandle, OutBytes, Owned, Ref, View, yes};
use commonhold::Hold;
use commonhold::channel::{Channel, ChannelOptions};

crate::ffi::handle::kinds! {
    Channel = b"ch-chann", "channel";
}

/// `ch_channel_stat`.
#[repr(C)]
#[derive(Clone, Copy)]
pub struct Stat {
    ring_bytes: u64,
    max_message: u64,
    sequence: u64,
    sent_bytes: u64,
    kept_bytes: u64,
    producer: CPeer,
    slowest: CPeer,
    consumers: u32,
    has_producer: u32,
    has_slowest: u32,
    is_waiting: u32,
}

export! {
    fn ch_channel_open(hold: Ref<Hold>, name: Name, channel: NewHandle<Channel>) {
        let place = channel.ready()?;
        place.put(hold.get()?.channels().open(name.text("the channel's name")?)?);
        Ok(yes(true))
    }

    fn ch_channel_open_or_create(hold: Ref<Hold>, name: Name, ring_bytes: u64, channel: NewHandle<Channel>) {
        let place = channel.ready()?;
        let options = ChannelOptions::new(ring_bytes);
        place.put(hold.get()?.channels().open_or_create(name.text("the channel's name")?, options)?);
        Ok(yes(true))
    }

    fn ch_channel_create(hold: Ref<Hold>, name: Name, ring_bytes: u64, channel: NewHandle<Channel>) {
        let place = channel.ready()?;
        let options = ChannelOptions::new(ring_bytes);
        place.put(hold.get()?.channels().create(name.text("the channel's name")?, options)?);
        Ok(yes(true))
    }

    fn ch_channel_drop(hold: Ref<Hold>, name: Name) {
        Ok(yes(hold.get()?.channels().drop(name.text("the channel's name")?)?))
    }

    fn ch_channel_list(hold: Ref<Hold>, out: OutBytes) {
        json(&out, &hold.get()?.channels().list()?)
    }

    fn ch_channel_free(channel: Owned<Channel>) -> (), or (), {
        drop(channel.take())
    }

    fn ch_channel_name(channel: Ref<Channel>, name: Give<View>) {
        name.needed("name")?;
        name.set(View::of(channel.get()?.name().as_bytes()));
        Ok(yes(true))
    }

    fn ch_channel_stat(channel: Ref<Channel>, out: Give<Stat>) {
        out.needed("stat")?;
        let stat = channel.get()?.stat()?;
        let nobody = CPeer { slot: 0, pid: 0 };
        out.set(Stat {
            ring_bytes: stat.ring_bytes,
            max_message: stat.max_message,
            sequence: stat.sequence,
            sent_bytes: stat.sent_bytes,
            kept_bytes: stat.kept_bytes,
            producer: stat.producer.map_or(nobody, CPeer::from),
            slowest: stat.slowest.map_or(nobody, CPeer::from),
            consumers: stat.consumers.len() as u32,
            has_producer: u32::from(stat.producer.is_some()),
            has_slowest: u32::from(stat.slowest.is_some()),
            is_waiting: u32::from(stat.is_waiting),
        });
        Ok(yes(true))
    }

    fn ch_channel_describe(channel: Ref<Channel>, out: OutBytes) {
        json(&out, &channel.get()?.stat()?)
    }
}
