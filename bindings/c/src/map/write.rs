//! Writing by key.

use crate::ffi::call::export;
use crate::ffi::{Give, In, Many, NewHandle, OutBytes, Ref, View, yes};
use commonhold::map::Map;
use std::time::Duration;

export! {
    fn ch_map_set(map: Ref<Map>, key: In, key_len: usize, value: In, value_len: usize, uid: Give<u32>) {
        uid.set(map.get()?.set(key.bytes(key_len)?, value.bytes(value_len)?)?.0);
        Ok(yes(true))
    }

    fn ch_map_set_with_ttl(
        map: Ref<Map>,
        key: In,
        key_len: usize,
        value: In,
        value_len: usize,
        ttl_ms: u64,
        uid: Give<u32>,
    ) {
        let (key, value) = (key.bytes(key_len)?, value.bytes(value_len)?);
        uid.set(map.get()?.set_with_ttl(key, value, Duration::from_millis(ttl_ms))?.0);
        Ok(yes(true))
    }

    fn ch_map_with_ttl(map: Ref<Map>, ttl_ms: u64, with_ttl: NewHandle<Map>) {
        let place = with_ttl.ready()?;
        place.put(map.get()?.with_ttl(Duration::from_millis(ttl_ms))?);
        Ok(yes(true))
    }

    fn ch_map_set_many(map: Ref<Map>, keys: Many<View>, values: Many<View>, count: usize) {
        let (keys, values) = (keys.slices(count)?, values.slices(count)?);
        let pairs: Vec<_> = keys.iter().copied().zip(values.iter().copied()).collect();
        map.get()?.set_many(&pairs)?;
        Ok(yes(true))
    }

    fn ch_map_set_many_from(map: Ref<Map>, keys: Many<View>, values: Many<View>, count: usize, done: Give<usize>) {
        done.needed("count of those that are set")?;
        let (keys, values) = (keys.slices(count)?, values.slices(count)?);
        let pairs: Vec<_> = keys.iter().copied().zip(values.iter().copied()).collect();
        let mut set = done.get();
        let result = map.get()?.set_many_from(&pairs, &mut set);
        done.set(set);
        result?;
        Ok(yes(true))
    }

    fn ch_map_add(map: Ref<Map>, key: In, key_len: usize, value: In, value_len: usize, uid: Give<u32>) {
        let done = map.get()?.add(key.bytes(key_len)?, value.bytes(value_len)?)?;
        uid.set(done.map_or(0, |uid| uid.0));
        Ok(yes(done.is_some()))
    }

    fn ch_map_replace(map: Ref<Map>, key: In, key_len: usize, value: In, value_len: usize, uid: Give<u32>) {
        let done = map.get()?.replace(key.bytes(key_len)?, value.bytes(value_len)?)?;
        uid.set(done.map_or(0, |uid| uid.0));
        Ok(yes(done.is_some()))
    }

    fn ch_map_compare_exchange(
        map: Ref<Map>,
        key: In,
        key_len: usize,
        expected: Many<View>,
        replacement: Many<View>,
    ) {
        let (expected, replacement) = (expected.optional()?, replacement.optional()?);
        Ok(yes(map.get()?.compare_exchange(key.bytes(key_len)?, expected, replacement)?))
    }

    fn ch_map_compare_exchange_with_ttl(
        map: Ref<Map>,
        key: In,
        key_len: usize,
        expected: Many<View>,
        replacement: Many<View>,
        ttl_ms: u64,
    ) {
        let (expected, replacement) = (expected.optional()?, replacement.optional()?);
        let brief = map.get()?.with_ttl(Duration::from_millis(ttl_ms))?;
        Ok(yes(brief.compare_exchange(key.bytes(key_len)?, expected, replacement)?))
    }

    fn ch_map_remaining_ttl(map: Ref<Map>, key: In, key_len: usize, ttl_ms: Give<u64>) {
        let left = map.get()?.remaining_ttl(key.bytes(key_len)?)?;
        let ms = left.map_or(0, |left| u64::try_from(left.as_millis()).unwrap_or(u64::MAX));
        ttl_ms.set(ms);
        Ok(yes(left.is_some()))
    }

    fn ch_map_touch(map: Ref<Map>, key: In, key_len: usize, ttl_ms: u64) {
        Ok(yes(map.get()?.touch(key.bytes(key_len)?, Duration::from_millis(ttl_ms))?))
    }

    fn ch_map_delete(map: Ref<Map>, key: In, key_len: usize) {
        Ok(yes(map.get()?.delete(key.bytes(key_len)?)?))
    }

    fn ch_map_take(map: Ref<Map>, key: In, key_len: usize, value: OutBytes) {
        value.needed_if_wanted()?;
        let taken = map.get()?.take(key.bytes(key_len)?)?;
        let done = taken.is_some();
        value.put_if_wanted(taken.unwrap_or_default())?;
        Ok(yes(done))
    }

    fn ch_map_increment(map: Ref<Map>, key: In, key_len: usize, by: i64, sum: Give<i64>) {
        sum.set(map.get()?.increment(key.bytes(key_len)?, by)?);
        Ok(yes(true))
    }
}
