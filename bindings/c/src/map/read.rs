//! Reading by key, one and many.

use crate::ffi::bytes::Room;
use crate::ffi::call::export;
use crate::ffi::{Alone, Give, In, Many, NewHandle, OutBytes, Owned, Ref, View, yes};
use commonhold::map::{Map, Values};

crate::ffi::handle::kinds! {
    Alone<Values> = b"ch-value", "batch of values";
}

/// A key of a type of its own: so the lookup is compiled into each of the two functions below,
/// which costs 30 instructions less than a call of one that both share.
struct Key<'a>(&'a [u8]);

impl AsRef<[u8]> for Key<'_> {
    #[inline]
    fn as_ref(&self) -> &[u8] {
        self.0
    }
}

export! {
    fn ch_map_get(map: Ref<Map>, key: In, key_len: usize, value: OutBytes) {
        let (map, key) = (map.get()?, Key(key.bytes(key_len)?));
        value.copy(|room| map.get_uninit(&key, room), |out| map.get_into(&key, out))
    }

    fn ch_map_get_into(map: Ref<Map>, key: In, key_len: usize, room: Room, room_len: usize, value_len: Give<usize>) {
        let mut room = room;
        let (map, key) = (map.get()?, key.bytes(key_len)?);
        let found = map.get_uninit(key, room.bytes(room_len)?)?;
        value_len.set(found.unwrap_or(0));
        Ok(yes(found.is_some()))
    }

    fn ch_map_contains(map: Ref<Map>, key: In, key_len: usize) {
        Ok(yes(map.get()?.contains(key.bytes(key_len)?)?))
    }

    fn ch_map_uid(map: Ref<Map>, key: In, key_len: usize, uid: Give<u32>) {
        let found = map.get()?.uid(key.bytes(key_len)?)?;
        uid.set(found.map_or(0, |uid| uid.0));
        Ok(yes(found.is_some()))
    }

    fn ch_values_new(values: NewHandle<Alone<Values>>) {
        values.ready()?.put(Alone::new(Values::new()));
        Ok(yes(true))
    }

    fn ch_values_free(values: Owned<Alone<Values>>) -> (), or (), {
        drop(values.take())
    }

    fn ch_map_get_many(
        map: Ref<Map>,
        keys: Many<View>,
        count: usize,
        values: Ref<Alone<Values>>,
        found: Give<View>,
        present: Give<usize>,
    ) {
        found.needed_many("values", count)?;
        let mut values = values.get()?.lock()?;
        let hits = map.get()?.get_many(keys.slices(count)?, &mut values)?;
        for (at, value) in values.iter().enumerate() {
            found.set_at(at, value.map_or(View::NONE, View::of));
        }
        present.set(hits);
        Ok(yes(true))
    }

    fn ch_map_random_pair(map: Ref<Map>, key: OutBytes, value: OutBytes) {
        let Some((found_key, found)) = map.get()?.random_pair()? else { return Ok(yes(false)) };
        key.put_if_wanted(found_key)?;
        value.put_if_wanted(found)?;
        Ok(yes(true))
    }
}
