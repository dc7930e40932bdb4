//! A map's options and properties.

use crate::basics::{Position, json, time};
use crate::ffi::call::export;
use crate::ffi::take::{Growing, Plain};
use crate::ffi::{Give, GiveOptions, Name, OutBytes, Owned, Ref, Take, View, invalid, yes};
use commonhold::Result;
use commonhold::map::{CacheOptions, Map, MapMode, MapOptions};
use std::time::Duration;

/// `ch_map_options`.
#[repr(C)]
#[derive(Clone, Copy)]
pub struct Options {
    _size: usize,
    mode: u32,
    key_bytes: u32,
    value_bytes: u32,
    value_room: u32,
    max_bytes: u64,
    max_entries: u64,
    ttl_ms: u64,
}

impl Plain for Options {
    const ZERO: Options = Options {
        _size: 0,
        mode: 0,
        key_bytes: 0,
        value_bytes: 0,
        value_room: 0,
        max_bytes: 0,
        max_entries: 0,
        ttl_ms: 0,
    };
}

impl Growing for Options {
    const INIT: &'static str = "CH_MAP_OPTIONS_INIT";
}

impl Options {
    pub(super) fn build(&self) -> Result<MapOptions> {
        let options = match self.mode {
            0 => MapOptions::general(),
            1 => MapOptions::fixed(self.key_bytes, self.value_bytes),
            2 => self.cache().into(),
            mode => return Err(invalid(format!("{mode} is not a mode of a map"))),
        };
        Ok(options.value_room(self.value_room))
    }

    /// In C, 0 is no limit.
    fn cache(&self) -> CacheOptions {
        let mut options = CacheOptions::new();
        if self.max_bytes != 0 {
            options = options.max_bytes(self.max_bytes);
        }
        if self.max_entries != 0 {
            options = options.max_entries(self.max_entries);
        }
        if self.ttl_ms != 0 {
            options = options.ttl(Duration::from_millis(self.ttl_ms));
        }
        options
    }

    fn of(options: &MapOptions) -> Options {
        match options.mode() {
            MapMode::General => Options::ZERO,
            MapMode::Fixed { key_bytes, value_bytes } => {
                Options { mode: 1, key_bytes, value_bytes, ..Options::ZERO }
            }
            MapMode::Cache { max_bytes, max_entries, ttl_ms } => {
                let [max_bytes, max_entries, ttl_ms] =
                    [max_bytes, max_entries, ttl_ms].map(Option::unwrap_or_default);
                Options { mode: 2, max_bytes, max_entries, ttl_ms, ..Options::ZERO }
            }
        }
    }
}

/// `ch_map_stat`.
#[repr(C)]
#[derive(Clone, Copy)]
pub struct Stat {
    len: u64,
    segments: u64,
    index_bytes: u64,
    record_bytes: u64,
    hits: u64,
    misses: u64,
    expired: u64,
    evicted: u64,
    stream_bytes: u64,
    stream_end: Position,
    load: f64,
    depth: u32,
    replica: u32,
}

export! {
    fn ch_map_free(map: Owned<Map>) -> (), or (), {
        drop(map.take())
    }

    fn ch_map_name(map: Ref<Map>, name: Give<View>) {
        name.needed("name")?;
        name.set(View::of(map.get()?.name().as_bytes()));
        Ok(yes(true))
    }

    fn ch_map_get_options(map: Ref<Map>, out: GiveOptions<Options>) {
        out.needed()?;
        out.set(Options::of(map.get()?.options()))?;
        Ok(yes(true))
    }

    fn ch_map_is_replica(map: Ref<Map>) {
        Ok(yes(map.get()?.is_replica()))
    }

    fn ch_map_len(map: Ref<Map>, len: Give<u64>) {
        len.needed("number")?;
        len.set(map.get()?.len()?);
        Ok(yes(true))
    }

    fn ch_map_stat(map: Ref<Map>, out: Give<Stat>) {
        out.needed("stat")?;
        let stat = map.get()?.stat()?;
        let stream = stat.stream.as_ref();
        out.set(Stat {
            len: stat.len,
            segments: stat.segments,
            index_bytes: stat.index_bytes,
            record_bytes: stat.record_bytes,
            hits: stat.hits,
            misses: stat.misses,
            expired: stat.expired,
            evicted: stat.evicted,
            stream_bytes: stream.map_or(0, |stream| stream.bytes),
            stream_end: stream.map_or(Position::ZERO, |stream| stream.end.into()),
            load: stat.load,
            depth: stat.depth,
            replica: u32::from(stat.replica),
        });
        Ok(yes(true))
    }

    fn ch_map_describe(map: Ref<Map>, out: OutBytes) {
        json(&out, &map.get()?.stat()?)
    }

    fn ch_map_clear(map: Ref<Map>, deleted: Give<u64>) {
        deleted.set(map.get()?.clear()?);
        Ok(yes(true))
    }

    fn ch_map_sync(map: Ref<Map>, timeout_ns: u64, position: Give<Position>) {
        position.set(map.get()?.sync(time(timeout_ns))?.into());
        Ok(yes(true))
    }

    fn ch_map_sync_to(map: Ref<Map>, end: Take<Position>, timeout_ns: u64) {
        map.get()?.sync_to(end.needed("position")?.into(), time(timeout_ns))?;
        Ok(yes(true))
    }

    fn ch_map_wait_for_replicas(
        map: Ref<Map>,
        end: Take<Position>,
        count: u64,
        timeout_ns: u64,
        applied: Give<u64>,
    ) {
        let (map, time) = (map.get()?, time(timeout_ns));
        // More than there can be are never there.
        let count = usize::try_from(count).unwrap_or(usize::MAX);
        let found = match end.optional()? {
            Some(end) => map.wait_for_replicas_to(end.into(), count, time)?,
            None => map.wait_for_replicas(count, time)?,
        };
        applied.set(found as u64);
        Ok(yes(true))
    }

    fn ch_map_wait_for_replica(
        map: Ref<Map>,
        end: Take<Position>,
        name: Name,
        timeout_ns: u64,
    ) {
        let (map, time) = (map.get()?, time(timeout_ns));
        let name = name.text("the replica's name")?;
        match end.optional()? {
            Some(end) => map.wait_for_replica_to(end.into(), name, time)?,
            None => map.wait_for_replica(name, time)?,
        }
        Ok(yes(true))
    }
}
