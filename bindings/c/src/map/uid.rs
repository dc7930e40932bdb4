//! By uid: reading gives the key, writing asks for it.

use crate::ffi::call::export;
use crate::ffi::{Give, In, Many, OutBytes, Ref, View, invalid, yes};
use commonhold::map::{Map, Uid};

export! {
    fn ch_map_get_uid(map: Ref<Map>, uid: u32, key: OutBytes, value: OutBytes) {
        let Some((found_key, found)) = map.get()?.get_uid(Uid(uid))? else { return Ok(yes(false)) };
        key.put_if_wanted(found_key)?;
        value.put_if_wanted(found)?;
        Ok(yes(true))
    }

    fn ch_map_set_uid(map: Ref<Map>, uid: u32, key: In, key_len: usize, value: In, value_len: usize) {
        let (key, value) = (key.bytes(key_len)?, value.bytes(value_len)?);
        Ok(yes(map.get()?.set_uid(Uid(uid), key, value)?))
    }

    fn ch_map_delete_uid(map: Ref<Map>, uid: u32, key: In, key_len: usize) {
        Ok(yes(map.get()?.delete_uid(Uid(uid), key.bytes(key_len)?)?))
    }

    fn ch_map_take_uid(map: Ref<Map>, uid: u32, key: In, key_len: usize, value: OutBytes) {
        value.needed_if_wanted()?;
        let taken = map.get()?.take_uid(Uid(uid), key.bytes(key_len)?)?;
        let done = taken.is_some();
        value.put_if_wanted(taken.unwrap_or_default())?;
        Ok(yes(done))
    }

    fn ch_map_increment_uid(map: Ref<Map>, uid: u32, key: In, key_len: usize, by: i64, sum: Give<i64>) {
        let done = map.get()?.increment_uid(Uid(uid), key.bytes(key_len)?, by)?;
        sum.set(done.unwrap_or(0));
        Ok(yes(done.is_some()))
    }

    fn ch_map_compare_exchange_uid(
        map: Ref<Map>,
        uid: u32,
        key: In,
        key_len: usize,
        expected: Many<View>,
        replacement: Many<View>,
    ) {
        let expected = expected.optional()?.ok_or_else(|| invalid("the expected value is NULL"))?;
        let (key, replacement) = (key.bytes(key_len)?, replacement.optional()?);
        Ok(yes(map.get()?.compare_exchange_uid(Uid(uid), key, expected, replacement)?))
    }
}
