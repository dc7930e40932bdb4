//! Callbacks that decide on a new value. They run under no lock, and may use the map.

use crate::ffi::call::export;
use crate::ffi::{Answer, Buffer, Give, In, OutBytes, Ref, User, View, invalid, yes};
use commonhold::map::{Map, Uid};
use commonhold::{Error, ErrorKind, Result};
use std::ffi::c_int;

/// `ch_update_fn`: the old value (data NULL: the key is absent), and a buffer for the new one.
pub type Update = Option<extern "C" fn(User, View, *mut Buffer) -> c_int>;

/// Asks the callback. `None` deletes.
///
/// # Errors
/// `Invalid` with a text that says so if the callback returned an error.
fn ask(call: Update, user: User, value: Option<&[u8]>) -> Result<Option<Vec<u8>>> {
    let call = call.ok_or_else(|| invalid("the callback is NULL"))?;
    let mut buffer = Buffer::EMPTY;
    let view = value.map_or(View::NONE, View::of);
    let said = call(user, view, &mut buffer);
    let new = OutBytes::lend(&mut buffer).fill(|bytes| Ok(std::mem::take(bytes)))?;
    match said {
        0 => Ok(Some(new)),
        -1 => Ok(None),
        said => Err(gave_up(said)),
    }
}

/// An error of the callback's has the code that it gave, if there is one of that number.
fn gave_up(said: c_int) -> Error {
    use ErrorKind::*;
    let kinds = [
        NotFound,
        Exists,
        Full,
        TooLarge,
        Closed,
        ReadOnly,
        Permission,
        NotAHold,
        Version,
        Truncated,
        Damaged,
        Unclean,
        Busy,
        Unsupported,
        Invalid,
        Mismatch,
        Reentrant,
        TimedOut,
        TooManyParticipants,
        Io,
        Lapped,
        Stale,
    ];
    let kind = kinds.into_iter().find(|kind| *kind as c_int == said).unwrap_or(Invalid);
    Error::new(kind, format!("the callback returned {said}; nothing was changed"))
}

/// The effect of an update.
fn answer(uid: Give<u32>, done: Option<Uid>) -> Answer {
    uid.set(done.map_or(0, |uid| uid.0));
    Ok(yes(done.is_some()))
}

export! {
    fn ch_map_update(map: Ref<Map>, key: In, key_len: usize, call: Update, user: User, uid: Give<u32>) {
        let key = key.bytes(key_len)?;
        answer(uid, map.get()?.try_update(key, |value| ask(call, user, value))?)
    }

    fn ch_map_update_uid(map: Ref<Map>, uid: u32, key: In, key_len: usize, call: Update, user: User) {
        let (map, key, uid) = (map.get()?, key.bytes(key_len)?, Uid(uid));
        loop {
            let found = map.get_uid(uid)?.filter(|(found, _)| found == key);
            let Some((_, value)) = found else { return Ok(yes(false)) };
            let new = ask(call, user, Some(&value))?;
            if map.compare_exchange_uid(uid, key, &value, new.as_deref())? {
                return Ok(yes(true));
            }
        }
    }
}
