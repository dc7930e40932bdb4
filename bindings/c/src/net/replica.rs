//! The reading side, and comparing the two.

use crate::basics::{Position, json, time};
use crate::ffi::call::export;
use crate::ffi::fd;
use crate::ffi::take::{Growing, Plain};
use crate::ffi::{Asked, Give, In, Name, NewHandle, OutBytes, Owned, Ref, Take, User, yes};
use crate::map::follow::Change;
use crate::net::Native;
use crate::net::origin::{address, secret, tell};
use commonhold::map::Map;
use commonhold::stream::{StreamFrame, StreamPosition};
use commonhold::{Hold, Result};
use commonhold_replicate::{Replica, ReplicaEvents, ReplicaOptions};
use std::ffi::{c_char, c_int};
use std::time::Duration;

/// `ch_replica_options`.
#[repr(C)]
#[derive(Clone, Copy)]
pub struct Options {
    _size: usize,
    secret: In,
    secret_len: usize,
    first_pause_ns: u64,
    longest_pause_ns: u64,
    changed: Option<extern "C" fn(User, *const Change)>,
    ready: Option<extern "C" fn(User, Position)>,
    lost: Option<extern "C" fn(User, *const c_char)>,
    user: User,
}

impl Plain for Options {
    const ZERO: Options = Options {
        _size: 0,
        secret: In::NULL,
        secret_len: 0,
        first_pause_ns: 0,
        longest_pause_ns: 0,
        changed: None,
        ready: None,
        lost: None,
        user: User::NONE,
    };
}

impl Growing for Options {
    const INIT: &'static str = "CH_REPLICA_OPTIONS_INIT";
}

impl Options {
    fn build(&self) -> Result<ReplicaOptions> {
        let mut options =
            ReplicaOptions { secret: secret(self.secret, self.secret_len)?, ..Default::default() };
        if self.first_pause_ns != 0 {
            options.first_pause = Duration::from_nanos(self.first_pause_ns);
        }
        if self.longest_pause_ns != 0 {
            options.longest_pause = Duration::from_nanos(self.longest_pause_ns);
        }
        Ok(options)
    }

    fn events(&self) -> Events {
        Events { changed: self.changed, ready: self.ready, lost: self.lost, user: self.user }
    }
}

/// The callbacks, which the replica's thread calls.
struct Events {
    changed: Option<extern "C" fn(User, *const Change)>,
    ready: Option<extern "C" fn(User, Position)>,
    lost: Option<extern "C" fn(User, *const c_char)>,
    user: User,
}

impl ReplicaEvents for Events {
    fn changed(&mut self, change: &StreamFrame<'_>) {
        if let Some(call) = self.changed {
            call(self.user, &Change::of(change));
        }
    }

    fn ready(&mut self, position: StreamPosition) {
        if let Some(call) = self.ready {
            call(self.user, position.into());
        }
    }

    fn lost(&mut self, why: &str) {
        if let Some(call) = self.lost {
            tell(call, self.user, why);
        }
    }
}

/// `ch_replica_status`.
#[repr(C)]
#[derive(Clone, Copy)]
pub struct Status {
    position: Position,
    lag_bytes: u64,
    lag_messages: u64,
    lag_ms: u64,
    changes: u64,
    bytes: u64,
    synchronisations: u64,
    connections: u64,
    connected: u32,
    ready: u32,
    has_position: u32,
}

crate::ffi::handle::kinds! {
    Native<Replica> = b"ch-repli", "replica";
}

export! {
    fn ch_replica_connect(
        hold: Ref<Hold>,
        map: Name,
        origin: Name,
        options: Asked<Options>,
        replica: NewHandle<Native<Replica>>,
    ) {
        let place = replica.ready()?;
        let (options, map) = (options.or_defaults()?, map.text("the map's name")?);
        let origin = address(origin)?;
        let found = Replica::connect(hold.get()?, map, &origin, options.build()?, options.events())?;
        place.put(Native::new(found));
        Ok(yes(true))
    }

    fn ch_replica_attach(
        hold: Ref<Hold>,
        map: Name,
        socket: c_int,
        options: Asked<Options>,
        replica: NewHandle<Native<Replica>>,
    ) {
        let place = replica.ready()?;
        let (options, map) = (options.or_defaults()?, map.text("the map's name")?);
        let (hold, own) = (hold.get()?, fd::double(socket)?);
        let found = Replica::attach(hold, map, own, options.build()?, options.events())?;
        fd::close(socket);
        place.put(Native::new(found));
        Ok(yes(true))
    }

    fn ch_replica_free(replica: Owned<Native<Replica>>) -> (), or (), {
        drop(replica.take().map(Native::into_inner))
    }

    fn ch_replica_status(replica: Ref<Native<Replica>>, out: Give<Status>) {
        out.needed("status")?;
        let status = replica.get()?.get()?.status();
        out.set(Status {
            position: status.position.map_or(Position::ZERO, Position::from),
            lag_bytes: status.lag_bytes,
            lag_messages: status.lag_messages,
            lag_ms: status.lag_ms,
            changes: status.changes,
            bytes: status.bytes,
            synchronisations: status.synchronisations,
            connections: status.connections,
            connected: u32::from(status.connected),
            ready: u32::from(status.ready),
            has_position: u32::from(status.position.is_some()),
        });
        Ok(yes(true))
    }

    fn ch_replica_describe(replica: Ref<Native<Replica>>, out: OutBytes) {
        json(&out, &replica.get()?.get()?.status())
    }

    fn ch_replica_wait_ready(replica: Ref<Native<Replica>>, timeout_ns: u64) {
        Ok(yes(replica.get()?.get()?.wait_ready(time(timeout_ns))))
    }

    fn ch_replica_wait_for(replica: Ref<Native<Replica>>, position: Take<Position>, timeout_ns: u64) {
        let position = position.needed("position")?.into();
        Ok(yes(replica.get()?.get()?.wait_for(position, time(timeout_ns))))
    }

    fn ch_map_digest(map: Ref<Map>, digest: OutBytes) {
        digest.put(commonhold_replicate::digest(map.get()?)?)?;
        Ok(yes(true))
    }

    fn ch_replica_verify(
        hold: Ref<Hold>,
        map: Name,
        origin: Name,
        options: Asked<Options>,
        timeout_ns: u64,
        report: OutBytes,
    ) {
        let (options, map) = (options.or_defaults()?.build()?, map.text("the map's name")?);
        let limits = (Duration::from_nanos(timeout_ns), 100);
        let found = commonhold_replicate::verify(hold.get()?, map, &address(origin)?, options, limits)?;
        if report.is_wanted() {
            json(&report, &found)?;
        }
        Ok(yes(found.is_equal()))
    }
}
