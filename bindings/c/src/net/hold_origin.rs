//! All maps of a hold: the writable side.

use crate::basics::{json, time};
use crate::ffi::call::export;
use crate::ffi::fd;
use crate::ffi::take::{Growing, Plain};
use crate::ffi::{Asked, Give, Many, Name, NewHandle, OutBytes, Owned, Ref, yes};
use crate::net::origin::{self, address};
use crate::net::{Native, patterns};
use commonhold::{Hold, Result};
use commonhold_replicate::{HoldOrigin, HoldOriginOptions};
use std::ffi::c_int;

/// `ch_hold_origin_options`.
#[repr(C)]
#[derive(Clone, Copy)]
pub struct Options {
    _size: usize,
    origin: Asked<origin::Options>,
    maps: Many<Name>,
    map_count: usize,
}

impl Plain for Options {
    const ZERO: Options = Options { _size: 0, origin: Asked::NULL, maps: Many::NULL, map_count: 0 };
}

impl Growing for Options {
    const INIT: &'static str = "CH_HOLD_ORIGIN_OPTIONS_INIT";
}

impl Options {
    fn build(&self) -> Result<HoldOriginOptions> {
        let origin = self.origin.or_defaults()?.build()?;
        Ok(HoldOriginOptions { origin, maps: patterns(self.maps, self.map_count)? })
    }
}

crate::ffi::handle::kinds! {
    Native<HoldOrigin> = b"ch-horig", "origin of a hold";
}

export! {
    fn ch_hold_origin_start(hold: Ref<Hold>, options: Asked<Options>, origin: NewHandle<Native<HoldOrigin>>) {
        let place = origin.ready()?;
        let options = options.or_defaults()?.build()?;
        place.put(Native::new(HoldOrigin::start(hold.get()?, options)?));
        Ok(yes(true))
    }

    fn ch_hold_origin_free(origin: Owned<Native<HoldOrigin>>) -> (), or (), {
        drop(origin.take().map(Native::into_inner))
    }

    fn ch_hold_origin_finish(origin: Owned<Native<HoldOrigin>>, timeout_ns: u64) {
        let origin = origin.take_or_refuse()?.into_inner();
        let was_ours = origin.is_some();
        if let Some(origin) = origin {
            origin.finish(time(timeout_ns));
        }
        Ok(yes(was_ours))
    }

    fn ch_hold_origin_listen(origin: Ref<Native<HoldOrigin>>, at: Name, listens_at: OutBytes) {
        listens_at.needed_if_wanted()?;
        let found = origin.get()?.get()?.listen(&address(at)?)?;
        listens_at.put_if_wanted(found.to_string())?;
        Ok(yes(true))
    }

    fn ch_hold_origin_listen_on(origin: Ref<Native<HoldOrigin>>, socket: c_int, listens_at: OutBytes) {
        listens_at.needed_if_wanted()?;
        let origin = origin.get()?.get()?;
        let found = origin.listen_on(fd::double(socket)?)?;
        fd::close(socket);
        listens_at.put_if_wanted(found.to_string())?;
        Ok(yes(true))
    }

    fn ch_hold_origin_maps(origin: Ref<Native<HoldOrigin>>, count: Give<usize>, out: OutBytes) {
        let maps = origin.get()?.get()?.maps();
        count.set(maps.len());
        if out.is_wanted() { json(&out, &maps) } else { Ok(yes(true)) }
    }
}
