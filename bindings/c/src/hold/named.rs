//! What is done to a structure by its name: dropping it, giving it a stream, making a replica an ordinary map.

use crate::ffi::call::export;
use crate::ffi::{Name, Ref, yes};
use commonhold::Hold;

export! {
    fn ch_hold_drop_map(hold: Ref<Hold>, name: Name) {
        Ok(yes(hold.get()?.maps().drop(name.text("the map's name")?)?))
    }

    fn ch_hold_drop_queue(hold: Ref<Hold>, name: Name) {
        Ok(yes(hold.get()?.queues().drop(name.text("the queue's name")?)?))
    }

    fn ch_hold_drop_channel(hold: Ref<Hold>, name: Name) {
        Ok(yes(hold.get()?.channels().drop(name.text("the channel's name")?)?))
    }

    fn ch_hold_drop_log(hold: Ref<Hold>, name: Name) {
        Ok(yes(hold.get()?.logs().drop(name.text("the log's name")?)?))
    }

    fn ch_hold_begin_stream(hold: Ref<Hold>, map: Name, bytes: u64) {
        Ok(yes(hold.get()?.maps().begin_stream(map.text("the map's name")?, bytes)?))
    }

    fn ch_hold_promote_map(hold: Ref<Hold>, map: Name) {
        Ok(yes(hold.get()?.maps().promote(map.text("the map's name")?)?))
    }
}
