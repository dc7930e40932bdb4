//! Following a map's changes.

use crate::basics::{Position, time};
use crate::ffi::call::export;
use crate::ffi::{Alone, Give, NewHandle, Owned, Ref, Take, View, yes};
use commonhold::map::Map;
use commonhold::stream::{Follower, StreamFrame};

/// `ch_change`.
#[repr(C)]
#[derive(Clone, Copy)]
pub struct Change {
    key: View,
    value: View,
    expires_ms: u64,
    offset: u64,
    end: u64,
    kind: u32,
}

impl Change {
    pub(crate) fn of(frame: &StreamFrame<'_>) -> Change {
        Change {
            key: View::of(frame.key),
            value: View::of(frame.value),
            expires_ms: frame.expires_ms,
            offset: frame.offset,
            end: frame.end,
            kind: frame.kind as u32,
        }
    }
}

crate::ffi::handle::kinds! {
    Alone<Follower> = b"ch-follo", "follower";
}

/// Gives a change, if there is one.
fn give(change: &Give<Change>, frame: Option<StreamFrame<'_>>) -> crate::ffi::Said {
    if let Some(frame) = &frame {
        change.set(Change::of(frame));
    }
    yes(frame.is_some())
}

export! {
    fn ch_map_follow(map: Ref<Map>, from: Take<Position>, follower: NewHandle<Alone<Follower>>) {
        let place = follower.ready()?;
        let map = map.get()?;
        place.put(Alone::new(match from.optional()? {
            Some(position) => map.follow_from(position.into())?,
            None => map.follow()?,
        }));
        Ok(yes(true))
    }

    fn ch_follower_free(follower: Owned<Alone<Follower>>) -> (), or (), {
        drop(follower.take())
    }

    fn ch_follower_recv(follower: Ref<Alone<Follower>>, change: Give<Change>) {
        change.needed("change")?;
        let mut follower = follower.get()?.lock()?;
        Ok(give(&change, Some(follower.recv()?)))
    }

    fn ch_follower_try_recv(follower: Ref<Alone<Follower>>, change: Give<Change>) {
        change.needed("change")?;
        let mut follower = follower.get()?.lock()?;
        Ok(give(&change, follower.try_recv()?))
    }

    fn ch_follower_recv_timeout(follower: Ref<Alone<Follower>>, timeout_ns: u64, change: Give<Change>) {
        change.needed("change")?;
        let mut follower = follower.get()?.lock()?;
        Ok(give(&change, follower.recv_timeout(time(timeout_ns))?))
    }

    fn ch_follower_position(follower: Ref<Alone<Follower>>, position: Give<Position>) {
        position.set(follower.get()?.lock()?.position().into());
        Ok(yes(true))
    }

    fn ch_follower_end(follower: Ref<Alone<Follower>>, position: Give<Position>) {
        position.set(follower.get()?.lock()?.end()?.into());
        Ok(yes(true))
    }

    fn ch_follower_lag(follower: Ref<Alone<Follower>>, waiting: Give<u64>, kept: Give<u64>) {
        let (lag, size) = follower.get()?.lock()?.lag_bytes()?;
        waiting.set(lag);
        kept.set(size);
        Ok(yes(true))
    }
}
