//! The reading side, and comparing the two.

use crate::basics::{Position, json, time};
use crate::ffi::call::export;
use crate::ffi::fd;
use crate::ffi::take::{Growing, Plain};
use crate::ffi::{
    Asked, Give, In, Many, Name, NewHandle, OutBytes, Owned, Ref, Take, User, invalid, yes,
};
use crate::map::follow::Change;
use crate::net::origin::{address, secret, tell};
use crate::net::{Native, compression};
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
    name: Name,
    also: Many<Name>,
    also_count: usize,
    origin_map: Name,
    stream_bytes: u64,
    adopt: u32,
    compression: u32,
    prefix: In,
    prefix_len: usize,
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
        name: Name::NULL,
        also: Many::NULL,
        also_count: 0,
        origin_map: Name::NULL,
        stream_bytes: 0,
        adopt: 0,
        compression: 0,
        prefix: In::NULL,
        prefix_len: 0,
    };
}

impl Growing for Options {
    const INIT: &'static str = "CH_REPLICA_OPTIONS_INIT";
}

impl Options {
    pub(super) fn build(&self) -> Result<ReplicaOptions> {
        let mut options =
            ReplicaOptions { secret: secret(self.secret, self.secret_len)?, ..Default::default() };
        if self.first_pause_ns != 0 {
            options.first_pause = Duration::from_nanos(self.first_pause_ns);
        }
        if self.longest_pause_ns != 0 {
            options.longest_pause = Duration::from_nanos(self.longest_pause_ns);
        }
        if self.name.optional().is_some() {
            options.name = self.name.text("the replica's name")?.to_owned();
        }
        let also = self.also.all(self.also_count)?.iter().copied();
        options.also = also.map(address).collect::<Result<_>>()?;
        if self.origin_map.optional().is_some() {
            options.map = Some(self.origin_map.text("the name of the origin's map")?.to_owned());
        }
        options.stream_bytes = (self.stream_bytes != 0).then_some(self.stream_bytes);
        options.adopt = self.adopt != 0;
        options.compression = compression(self.compression)?;
        options.prefix = self.prefix.optional(self.prefix_len)?.map(<[u8]>::to_vec);
        Ok(options)
    }

    /// The same for each map of a hold.
    ///
    /// # Errors
    /// `Invalid` also for options that only the replica of one map has.
    pub(super) fn build_for_all(&self) -> Result<ReplicaOptions> {
        if self.changed.is_some() || self.ready.is_some() || self.lost.is_some() {
            return Err(invalid(
                "the replica of a whole hold does not use the callbacks of ch_replica_options: set \
                 those of ch_hold_replica_options",
            ));
        }
        if self.origin_map.optional().is_some() {
            return Err(invalid(
                "the replica of a whole hold has all maps under their own names: do not set \
                 origin_map, or use ch_replica_connect()",
            ));
        }
        self.build()
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
    ended: u32,
}

/// `ch_promotion`.
#[repr(C)]
#[derive(Clone, Copy)]
pub struct Promotion {
    position: Position,
    epoch: u64,
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
            ended: u32::from(status.ended),
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

    fn ch_map_promote(hold: Ref<Hold>, name: Name, promotion: Give<Promotion>) {
        let done = commonhold_replicate::promote(hold.get()?, name.text("the map's name")?)?;
        let Some(done) = done else { return Ok(yes(false)) };
        promotion.set(Promotion {
            position: done.position.map_or(Position::ZERO, Position::from),
            epoch: done.epoch,
            has_position: u32::from(done.position.is_some()),
        });
        Ok(yes(true))
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
