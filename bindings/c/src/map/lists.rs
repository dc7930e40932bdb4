//! Lists as values.

use crate::ffi::call::export;
use crate::ffi::{Give, In, OutBytes, Ref, User, View, invalid, yes};
use commonhold::Result;
use commonhold::map::{Bytes, List, Map, TypedMap};
use std::ffi::c_int;

/// `ch_each_fn`: bytes, one after the other; anything but 0 ends it.
pub type Each = Option<extern "C" fn(User, View) -> c_int>;

fn lists(map: Ref<Map>) -> Result<TypedMap<Bytes, List>> {
    Ok(map.get()?.typed())
}

export! {
    fn ch_list_push(map: Ref<Map>, key: In, key_len: usize, element: In, element_len: usize, len: Give<u32>) {
        let (key, element) = (key.bytes(key_len)?, element.bytes(element_len)?);
        len.set(lists(map)?.push(key, element)?);
        Ok(yes(true))
    }

    fn ch_list_unshift(map: Ref<Map>, key: In, key_len: usize, element: In, element_len: usize, len: Give<u32>) {
        let (key, element) = (key.bytes(key_len)?, element.bytes(element_len)?);
        len.set(lists(map)?.unshift(key, element)?);
        Ok(yes(true))
    }

    fn ch_list_pop(map: Ref<Map>, key: In, key_len: usize, element: OutBytes) {
        element.needed_if_wanted()?;
        let taken = lists(map)?.pop(key.bytes(key_len)?)?;
        let done = taken.is_some();
        element.put_if_wanted(taken.unwrap_or_default())?;
        Ok(yes(done))
    }

    fn ch_list_shift(map: Ref<Map>, key: In, key_len: usize, element: OutBytes) {
        element.needed_if_wanted()?;
        let taken = lists(map)?.shift(key.bytes(key_len)?)?;
        let done = taken.is_some();
        element.put_if_wanted(taken.unwrap_or_default())?;
        Ok(yes(done))
    }

    fn ch_list_len(map: Ref<Map>, key: In, key_len: usize, len: Give<u32>) {
        len.needed("number")?;
        len.set(lists(map)?.list_len(key.bytes(key_len)?)?);
        Ok(yes(true))
    }

    fn ch_list_each(map: Ref<Map>, key: In, key_len: usize, call: Each, user: User) {
        let call = call.ok_or_else(|| invalid("the callback is NULL"))?;
        let elements = lists(map)?.get(key.bytes(key_len)?)?.unwrap_or_default();
        Ok(yes(elements.iter().all(|element| call(user, View::of(element)) == 0)))
    }
}
