//! Options of a map: general, fixed-length or cache mode.

use crate::error::{Error, ErrorKind, Result};
use std::fmt;
use std::time::Duration;

/// Options of a map, fixed when it is created. A map is general ([`general`](MapOptions::general)),
/// has fixed lengths ([`fixed`](MapOptions::fixed)) or is a cache ([`CacheOptions`]).
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct MapOptions {
    pub(crate) mode: MapMode,
    pub(crate) value_room: u32,
    /// Only its replica writes it.
    pub(crate) replica: bool,
    /// Nobody may read it yet.
    pub(crate) unready: bool,
    /// The seed of another map, so that cursors are valid in both.
    pub(crate) seed: Option<u64>,
}

/// The mode of a map.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[cfg_attr(feature = "serde", derive(serde::Serialize))]
pub enum MapMode {
    /// Keys and values of any length.
    #[default]
    General,
    /// Every key and every value has a fixed length.
    Fixed {
        /// Bytes of every key, at least 1.
        key_bytes: u32,
        /// Bytes of every value.
        value_bytes: u32,
    },
    /// A cache: pairs may expire or be evicted.
    Cache {
        /// The most bytes of records; `None` for no limit.
        max_bytes: Option<u64>,
        /// The most pairs; `None` for no limit.
        max_entries: Option<u64>,
        /// The time to live, in milliseconds, of a pair that is set without one; `None` for no
        /// limit.
        ttl_ms: Option<u64>,
    },
}

impl MapMode {
    /// A cache with these limits of bytes, pairs and milliseconds, as a hold stores them: 0 for no
    /// limit.
    pub(crate) fn cache(limits: [u64; 3]) -> MapMode {
        let [max_bytes, max_entries, ttl_ms] =
            limits.map(|limit| Some(limit).filter(|limit| *limit != 0));
        MapMode::Cache { max_bytes, max_entries, ttl_ms }
    }
}

impl MapOptions {
    /// Keys and values of any length, at most 2^32 - 1 bytes together. The default.
    #[must_use]
    pub fn general() -> MapOptions {
        MapOptions::default()
    }

    /// Every key has `key_bytes` bytes, and every value `value_bytes`. The index itself stores
    /// pairs of at most 8 bytes (32 in a hold in memory), in a third to two thirds of the memory
    /// that records would take.
    #[must_use]
    pub fn fixed(key_bytes: u32, value_bytes: u32) -> MapOptions {
        MapMode::Fixed { key_bytes, value_bytes }.into()
    }

    /// A cache without limits; set them on the result.
    #[must_use]
    pub fn cache() -> CacheOptions {
        CacheOptions::new()
    }

    /// Reserves space for values that grow: every value that this handle stores gets at least
    /// `bytes` bytes, so that a growing value does not pass through every size class. This is a
    /// property of the handle; the hold does not store it. It has no effect on pairs in the index
    /// itself.
    #[must_use]
    pub fn value_room(mut self, bytes: u32) -> MapOptions {
        self.value_room = bytes;
        self
    }

    /// The mode of the map.
    #[must_use]
    pub fn mode(&self) -> MapMode {
        self.mode
    }

    pub(crate) fn validate(&self) -> Result<()> {
        let invalid = |text: String| Err(Error::new(ErrorKind::Invalid, text));
        match self.mode {
            MapMode::General => Ok(()),
            MapMode::Fixed { key_bytes, value_bytes } => {
                let total = u64::from(key_bytes) + u64::from(value_bytes);
                if key_bytes > 0 && total <= u64::from(u32::MAX) {
                    return Ok(());
                }
                invalid(format!(
                    "expected keys of at least 1 byte, and keys and values of at most 2^32 - 1 \
                     bytes together, got {key_bytes}-byte keys and {value_bytes}-byte values"
                ))
            }
            MapMode::Cache { max_bytes, max_entries, ttl_ms } => {
                let limits =
                    [("max_bytes", max_bytes), ("max_entries", max_entries), ("ttl", ttl_ms)];
                match limits.iter().find(|(_, limit)| *limit == Some(0)) {
                    None => Ok(()),
                    Some((limit, _)) => invalid(format!(
                        "expected a {limit} above 0, got 0; leave {limit} out for no limit"
                    )),
                }
            }
        }
    }
}

/// Options of a cache, fixed when it is created. A cache without limits grows as far as the hold
/// does and evicts nothing.
///
/// ```
/// # let dir = std::env::temp_dir().join(format!("commonhold-cache-{}", std::process::id()));
/// # std::fs::create_dir_all(&dir).unwrap();
/// # let hold = commonhold::Hold::open_or_create(&dir.join("it.hold"))?;
/// use commonhold::map::CacheOptions;
/// use std::time::Duration;
///
/// let options = CacheOptions::new().max_bytes(64 << 20).ttl(Duration::from_secs(600));
/// let sessions = hold.maps().open_or_create("sessions", options)?;
/// sessions.set("4711", "anna")?;
/// # drop(sessions);
/// # drop(hold);
/// # std::fs::remove_dir_all(&dir).unwrap();
/// # Ok::<(), commonhold::Error>(())
/// ```
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct CacheOptions {
    max_bytes: Option<u64>,
    max_entries: Option<u64>,
    ttl_ms: Option<u64>,
    value_room: u32,
}

impl CacheOptions {
    /// A cache without limits.
    #[must_use]
    pub fn new() -> CacheOptions {
        CacheOptions::default()
    }

    /// The most bytes that the cache's records take, at least 1. Each record is rounded up to its
    /// size class.
    #[must_use]
    pub fn max_bytes(mut self, bytes: u64) -> CacheOptions {
        self.max_bytes = Some(bytes);
        self
    }

    /// The most pairs that the cache keeps, at least 1.
    #[must_use]
    pub fn max_entries(mut self, entries: u64) -> CacheOptions {
        self.max_entries = Some(entries);
        self
    }

    /// The time to live of a pair that is set without one. Rounded up to a millisecond.
    #[must_use]
    pub fn ttl(mut self, ttl: Duration) -> CacheOptions {
        self.ttl_ms = Some(milliseconds(ttl));
        self
    }

    /// See [`MapOptions::value_room`].
    #[must_use]
    pub fn value_room(mut self, bytes: u32) -> CacheOptions {
        self.value_room = bytes;
        self
    }
}

impl From<CacheOptions> for MapOptions {
    fn from(options: CacheOptions) -> MapOptions {
        let CacheOptions { max_bytes, max_entries, ttl_ms, value_room } = options;
        MapOptions::from(MapMode::Cache { max_bytes, max_entries, ttl_ms }).value_room(value_room)
    }
}

impl From<MapMode> for MapOptions {
    fn from(mode: MapMode) -> MapOptions {
        MapOptions { mode, ..MapOptions::default() }
    }
}

impl fmt::Display for MapMode {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let limit = |value: Option<u64>, unit: &str| match value {
            None => format!("any {unit}"),
            Some(value) => format!("at most {value} {unit}"),
        };
        match *self {
            MapMode::General => f.write_str("a general map"),
            MapMode::Fixed { key_bytes, value_bytes } => {
                write!(f, "a map of fixed lengths, {key_bytes} + {value_bytes} bytes")
            }
            MapMode::Cache { max_bytes, max_entries, ttl_ms } => {
                let (bytes, pairs) = (limit(max_bytes, "bytes"), limit(max_entries, "pairs"));
                write!(f, "a cache of {bytes}, {pairs}, time to live ")?;
                match ttl_ms {
                    None => f.write_str("unlimited"),
                    Some(ttl_ms) => write!(f, "{ttl_ms} ms"),
                }
            }
        }
    }
}

/// Whole milliseconds, rounded up.
pub(crate) fn milliseconds(time: Duration) -> u64 {
    u64::try_from(time.as_nanos().div_ceil(1_000_000)).unwrap_or(u64::MAX)
}

/// The stable id of a key in its map. It stays valid while the map grows and the key is updated.
///
/// A uid is a hint: after its key is deleted, the uid may name another key. Reads by uid therefore
/// return the key, and changes by uid require it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Uid(pub u32);

impl std::fmt::Display for Uid {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        self.0.fmt(f)
    }
}
