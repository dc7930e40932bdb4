//! All maps of a hold: the reading side.

use crate::basics::{Position, json, time};
use crate::ffi::call::export;
use crate::ffi::take::{Growing, Plain};
use crate::ffi::{Asked, Many, Name, NewHandle, OutBytes, Owned, Ref, User, yes};
use crate::net::origin::{address, terminated};
use crate::net::replica;
use crate::net::{Native, patterns};
use commonhold::stream::StreamPosition;
use commonhold::{Hold, Result};
use commonhold_replicate::{HoldReplica, HoldReplicaEvents, HoldReplicaOptions};
use std::ffi::{CStr, c_char};

/// A callback with the name of a map and a reason.
type Why = Option<extern "C" fn(User, *const c_char, *const c_char)>;

/// `ch_hold_replica_options`.
#[repr(C)]
#[derive(Clone, Copy)]
pub struct Options {
    _size: usize,
    replica: Asked<replica::Options>,
    maps: Many<Name>,
    map_count: usize,
    ready: Option<extern "C" fn(User, *const c_char, Position)>,
    lost: Why,
    skipped: Why,
    dropped: Option<extern "C" fn(User, *const c_char)>,
    user: User,
}

impl Plain for Options {
    const ZERO: Options = Options {
        _size: 0,
        replica: Asked::NULL,
        maps: Many::NULL,
        map_count: 0,
        ready: None,
        lost: None,
        skipped: None,
        dropped: None,
        user: User::NONE,
    };
}

impl Growing for Options {
    const INIT: &'static str = "CH_HOLD_REPLICA_OPTIONS_INIT";
}

impl Options {
    fn build(&self) -> Result<HoldReplicaOptions> {
        let replica = self.replica.or_defaults()?.build_for_all()?;
        Ok(HoldReplicaOptions { replica, maps: patterns(self.maps, self.map_count)? })
    }

    fn events(&self) -> Events {
        Events {
            ready: self.ready,
            lost: self.lost,
            skipped: self.skipped,
            dropped: self.dropped,
            user: self.user,
        }
    }
}

/// The callbacks, which the replica's threads call.
struct Events {
    ready: Option<extern "C" fn(User, *const c_char, Position)>,
    lost: Why,
    skipped: Why,
    dropped: Option<extern "C" fn(User, *const c_char)>,
    user: User,
}

impl HoldReplicaEvents for Events {
    fn ready(&self, map: &str, position: StreamPosition) {
        if let Some(call) = self.ready {
            call(self.user, terminated(map).as_ptr(), position.into());
        }
    }

    fn lost(&self, map: Option<&str>, why: &str) {
        if let Some(call) = self.lost {
            let map = map.map(terminated);
            let map = map.as_deref().map_or(std::ptr::null(), CStr::as_ptr);
            call(self.user, map, terminated(why).as_ptr());
        }
    }

    fn skipped(&self, map: &str, why: &str) {
        if let Some(call) = self.skipped {
            call(self.user, terminated(map).as_ptr(), terminated(why).as_ptr());
        }
    }

    fn dropped(&self, map: &str) {
        if let Some(call) = self.dropped {
            call(self.user, terminated(map).as_ptr());
        }
    }
}

crate::ffi::handle::kinds! {
    Native<HoldReplica> = b"ch-hrepl", "replica of a hold";
}

export! {
    fn ch_hold_replica_connect(
        hold: Ref<Hold>,
        origin: Name,
        options: Asked<Options>,
        replica: NewHandle<Native<HoldReplica>>,
    ) {
        let place = replica.ready()?;
        let (options, origin) = (options.or_defaults()?, address(origin)?);
        let found = HoldReplica::connect(hold.get()?, &origin, options.build()?, options.events())?;
        place.put(Native::new(found));
        Ok(yes(true))
    }

    fn ch_hold_replica_free(replica: Owned<Native<HoldReplica>>) -> (), or (), {
        drop(replica.take().map(Native::into_inner))
    }

    fn ch_hold_replica_describe(replica: Ref<Native<HoldReplica>>, out: OutBytes) {
        json(&out, &replica.get()?.get()?.status())
    }

    fn ch_hold_replica_wait_ready(replica: Ref<Native<HoldReplica>>, timeout_ns: u64) {
        Ok(yes(replica.get()?.get()?.wait_ready(time(timeout_ns))))
    }
}
