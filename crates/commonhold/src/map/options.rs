//! How a map is made: general, fixed-length or cache mode.

use crate::error::{Error, ErrorKind, Result};
use std::fmt;
use std::time::Duration;

/// Options of a map, fixed at its creation. Start with [`general`](MapOptions::general),
/// [`fixed`](MapOptions::fixed) or [`cache`](MapOptions::cache).
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct MapOptions {
    pub(crate) mode: MapMode,
    pub(crate) value_room: u32,
    /// Only its replica writes it.
    pub(crate) replica: bool,
    /// The seed of another map, whose cursors are good for this one, too.
    pub(crate) seed: Option<u64>,
}

/// What kind of map it is.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[cfg_attr(feature = "serde", derive(serde::Serialize))]
pub enum MapMode {
    /// Keys and values of any length.
    #[default]
    General,
    /// Every key and every value has exactly this many bytes.
    Fixed {
        /// Bytes of every key, at least 1.
        key_bytes: u32,
        /// Bytes of every value.
        value_bytes: u32,
    },
    /// Pairs may be evicted, and expire.
    Cache {
        /// Bytes of records at most; 0 for no limit.
        max_bytes: u64,
        /// Pairs at most; 0 for no limit.
        max_entries: u64,
        /// Milliseconds that a pair lives unless told otherwise; 0 for ever.
        ttl_ms: u64,
    },
}

impl MapOptions {
    /// Keys and values of any length, at most 2^32 - 1 bytes together. The default.
    pub fn general() -> MapOptions {
        MapOptions::default()
    }

    /// Every key has `key_bytes`, every value `value_bytes`. Pairs of at most 8 bytes (in a hold in memory: 32)
    /// are kept in the index itself, in a third to two thirds of the memory.
    pub fn fixed(key_bytes: u32, value_bytes: u32) -> MapOptions {
        MapMode::Fixed { key_bytes, value_bytes }.into()
    }

    /// A cache: set limits with [`max_bytes`](Self::max_bytes), [`max_entries`](Self::max_entries) and
    /// [`ttl`](Self::ttl).
    pub fn cache() -> MapOptions {
        MapMode::Cache { max_bytes: 0, max_entries: 0, ttl_ms: 0 }.into()
    }

    /// The most bytes that a cache's records take (whole records, rounded up to their size class).
    /// No effect in other modes.
    pub fn max_bytes(mut self, bytes: u64) -> MapOptions {
        if let MapMode::Cache { max_bytes, .. } = &mut self.mode {
            *max_bytes = bytes;
        }
        self
    }

    /// The most pairs that a cache keeps. No effect in other modes.
    pub fn max_entries(mut self, entries: u64) -> MapOptions {
        if let MapMode::Cache { max_entries, .. } = &mut self.mode {
            *max_entries = entries;
        }
        self
    }

    /// How long a cache's pairs live unless set with a time of their own; rounded up to a millisecond.
    /// No effect in other modes.
    pub fn ttl(mut self, ttl: Duration) -> MapOptions {
        if let MapMode::Cache { ttl_ms, .. } = &mut self.mode {
            *ttl_ms = milliseconds(ttl);
        }
        self
    }

    /// A hint for values that grow: what this handle stores gets room for a value of at least so many bytes, so that it
    /// does not pass through every size class on its way. The handle's own; not kept in the hold. No effect
    /// where pairs are kept in the index itself.
    pub fn value_room(mut self, bytes: u32) -> MapOptions {
        self.value_room = bytes;
        self
    }

    /// What kind of map this makes.
    pub fn mode(&self) -> MapMode {
        self.mode
    }

    pub(crate) fn validate(&self) -> Result<()> {
        if let MapMode::Fixed { key_bytes, value_bytes } = self.mode {
            let total = u64::from(key_bytes) + u64::from(value_bytes);
            if key_bytes == 0 || total > u64::from(u32::MAX) {
                let text = format!(
                    "a fixed-length map with {key_bytes}-byte keys and {value_bytes}-byte values: \
                     expected keys of at least 1 byte, and at most 2^32 - 1 bytes together"
                );
                return Err(Error::new(ErrorKind::Invalid, text));
            }
        }
        Ok(())
    }
}

impl From<MapMode> for MapOptions {
    fn from(mode: MapMode) -> MapOptions {
        MapOptions { mode, ..MapOptions::default() }
    }
}

impl fmt::Display for MapMode {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let limit = |value: u64, unit: &str| match value {
            0 => format!("any {unit}"),
            value => format!("at most {value} {unit}"),
        };
        match *self {
            MapMode::General => f.write_str("a general map"),
            MapMode::Fixed { key_bytes, value_bytes } => {
                write!(f, "a map of fixed lengths, {key_bytes} + {value_bytes} bytes")
            }
            MapMode::Cache { max_bytes, max_entries, ttl_ms } => {
                let (bytes, pairs) = (limit(max_bytes, "bytes"), limit(max_entries, "pairs"));
                write!(f, "a cache of {bytes}, {pairs}, time to live {ttl_ms} ms")
            }
        }
    }
}

/// Whole milliseconds, rounded up.
pub(crate) fn milliseconds(time: Duration) -> u64 {
    u64::try_from(time.as_nanos().div_ceil(1_000_000)).unwrap_or(u64::MAX)
}

/// Stable id of a key in its map: valid through growth and updates of the key.
///
/// A uid is a hint: after its key was deleted it may come to name another key. So reads by uid return
/// the key, and changes by uid ask for it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Uid(pub u32);

impl std::fmt::Display for Uid {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        self.0.fmt(f)
    }
}
