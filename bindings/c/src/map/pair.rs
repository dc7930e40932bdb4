//! Handles on one pair.

use crate::ffi::bytes::Room;
use crate::ffi::call::export;
use crate::ffi::{Alone, Give, In, NewHandle, OutBytes, Owned, Ref, yes};
use commonhold::map::{Map, PairHandle};

crate::ffi::handle::kinds! {
    Alone<PairHandle> = b"ch-pair\0", "handle on a pair";
}

export! {
    fn ch_map_pair(map: Ref<Map>, key: In, key_len: usize, pair: NewHandle<Alone<PairHandle>>) {
        let place = pair.ready()?;
        place.put(Alone::new(map.get()?.pair(key.bytes(key_len)?)?));
        Ok(yes(true))
    }

    fn ch_pair_free(pair: Owned<Alone<PairHandle>>) -> (), or (), {
        drop(pair.take())
    }

    fn ch_pair_get(pair: Ref<Alone<PairHandle>>, value: OutBytes) {
        let pair = pair.get()?.lock()?;
        value.copy(|room| pair.get_uninit(room), |out| pair.get_into(out))
    }

    fn ch_pair_get_into(pair: Ref<Alone<PairHandle>>, room: Room, room_len: usize, value_len: Give<usize>) {
        let mut room = room;
        let pair = pair.get()?.lock()?;
        let found = pair.get_uninit(room.bytes(room_len)?)?;
        value_len.set(found.unwrap_or(0));
        Ok(yes(found.is_some()))
    }

    fn ch_pair_set(pair: Ref<Alone<PairHandle>>, value: In, value_len: usize, uid: Give<u32>) {
        let pair = pair.get()?.lock()?;
        uid.set(pair.set(value.bytes(value_len)?)?.0);
        Ok(yes(true))
    }

    fn ch_pair_increment(pair: Ref<Alone<PairHandle>>, by: i64, sum: Give<i64>) {
        let pair = pair.get()?.lock()?;
        sum.set(pair.increment(by)?);
        Ok(yes(true))
    }
}
