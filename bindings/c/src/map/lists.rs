//! Lists as values.

use crate::ffi::call::export;
use crate::ffi::{Give, In, OutBytes, Ref, User, View, invalid, yes};
use commonhold::Map;
use std::ffi::c_int;

/// `ch_each_fn`: bytes, one after the other; anything but 0 ends it.
pub type Each = Option<extern "C" fn(User, View) -> c_int>;

export! {
    fn ch_list_push(map: Ref<Map>, key: In, key_len: usize, element: In, element_len: usize, len: Give<u32>) {
        let (key, element) = (key.bytes(key_len)?, element.bytes(element_len)?);
        len.set(map.get()?.as_lists().push(key, element)?);
        Ok(yes(true))
    }

    fn ch_list_unshift(map: Ref<Map>, key: In, key_len: usize, element: In, element_len: usize, len: Give<u32>) {
        let (key, element) = (key.bytes(key_len)?, element.bytes(element_len)?);
        len.set(map.get()?.as_lists().unshift(key, element)?);
        Ok(yes(true))
    }

    fn ch_list_pop(map: Ref<Map>, key: In, key_len: usize, element: OutBytes) {
        let taken = map.get()?.as_lists().pop(key.bytes(key_len)?)?;
        let done = taken.is_some();
        element.put_if_wanted(taken.unwrap_or_default())?;
        Ok(yes(done))
    }

    fn ch_list_shift(map: Ref<Map>, key: In, key_len: usize, element: OutBytes) {
        let taken = map.get()?.as_lists().shift(key.bytes(key_len)?)?;
        let done = taken.is_some();
        element.put_if_wanted(taken.unwrap_or_default())?;
        Ok(yes(done))
    }

    fn ch_list_len(map: Ref<Map>, key: In, key_len: usize, len: Give<u32>) {
        len.needed("number")?;
        len.set(map.get()?.as_lists().len(key.bytes(key_len)?)?);
        Ok(yes(true))
    }

    fn ch_list_each(map: Ref<Map>, key: In, key_len: usize, call: Each, user: User) {
        let call = call.ok_or_else(|| invalid("the callback is NULL"))?;
        let elements = map.get()?.as_lists().get(key.bytes(key_len)?)?;
        Ok(yes(elements.iter().all(|element| call(user, View::of(element)) == 0)))
    }
}
