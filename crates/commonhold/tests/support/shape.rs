//! Keys and values that prove where they come from, for every mode of a map.
//!
//! A key is made from a number, a value from the key's number and a version. [`Shape::version`] reads
//! the version back and refuses bytes that were never written for this key: torn, foreign or stale
//! memory. Numbers with [`COUNTER`] set carry bare 8-byte counters, for `increment`.

use super::mix;
use commonhold::map::MapOptions;

/// In a key's number: its value is a counter, any version is possible.
pub const COUNTER: u32 = 1 << 31;

/// How keys and values look.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Shape {
    /// General mode, values of 16 to 200 bytes.
    General,
    /// General mode, values of 1 to 118 KiB.
    Big,
    /// General mode, keys of 4 or 8 bytes, and values of 8 bytes, sometimes of 12: many change in
    /// place.
    Short,
    /// Fixed-length mode.
    Fixed(u32, u32),
    /// Cache mode without limits: an ordinary map with the cache's bookkeeping.
    Cache,
    /// Cache mode with at most this many entries: anything may be absent.
    Evicting(u64),
}

impl Shape {
    /// The map's options.
    pub fn options(self) -> MapOptions {
        match self {
            Shape::General | Shape::Big | Shape::Short => MapOptions::general(),
            Shape::Fixed(key, value) => MapOptions::fixed(key, value),
            Shape::Cache => MapOptions::cache().into(),
            Shape::Evicting(entries) => MapOptions::cache().max_entries(entries).into(),
        }
    }

    /// True if the map may forget.
    pub fn forgets(self) -> bool {
        matches!(self, Shape::Evicting(_))
    }

    /// True if `increment` makes sense: values of eight bytes are possible.
    pub fn counts(self) -> bool {
        !matches!(self, Shape::Fixed(_, v) if v != 8)
    }

    /// The bytes of key number `id`.
    pub fn key(self, id: u32) -> Vec<u8> {
        match self {
            Shape::Fixed(len, _) => stretch(id.to_le_bytes().to_vec(), len as usize, id as u64),
            Shape::Short => {
                let len = if mix(id as u64).is_multiple_of(4) { 4 } else { 8 };
                stretch(id.to_le_bytes().to_vec(), len, id as u64)
            }
            _ => {
                let padding = mix(id as u64) as usize % 13;
                stretch(id.to_le_bytes().to_vec(), 4 + padding, id as u64)
            }
        }
    }

    /// The number of a key, or why these bytes are no key.
    pub fn id(self, key: &[u8]) -> Result<u32, String> {
        let start = key.first_chunk().ok_or_else(|| format!("a key of {} bytes", key.len()))?;
        let id = u32::from_le_bytes(*start);
        if self.key(id) == key { Ok(id) } else { Err(format!("key {key:?} is not key {id}")) }
    }

    /// The version that a value as short as this map's can carry.
    pub fn fit(self, version: u64) -> u64 {
        match self {
            Shape::Fixed(_, 0) => 0,
            Shape::Fixed(_, v) if v < 4 => version & 0xff,
            Shape::Fixed(_, v) if v < 8 => version & 0xffff,
            _ => version & 0xffff_ffff_ffff,
        }
    }

    /// The bytes of `version` of the value of key `id`.
    pub fn value(self, id: u32, version: u64) -> Vec<u8> {
        if id & COUNTER != 0 {
            return version.to_le_bytes().to_vec();
        }
        let seed = mix((id as u64) << 48 ^ version);
        let proof = mix(id as u64) & 0xffff;
        match self {
            Shape::Fixed(_, len) if len < 4 => {
                let word = (version & 0xff) | proof << 8;
                word.to_le_bytes()[..len as usize].to_vec()
            }
            Shape::Fixed(_, len) if len < 8 => {
                let word = (version & 0xffff) | proof << 16;
                stretch((word as u32).to_le_bytes().to_vec(), len as usize, seed)
            }
            Shape::Fixed(_, len) => {
                stretch((version | proof << 48).to_le_bytes().to_vec(), len as usize, seed)
            }
            Shape::Big => {
                let len = 1024 + seed % 120_000;
                stretch((version | proof << 48).to_le_bytes().to_vec(), len as usize, seed)
            }
            Shape::Short => {
                let len = if seed.is_multiple_of(8) { 12 } else { 8 };
                stretch((version | proof << 48).to_le_bytes().to_vec(), len, seed)
            }
            _ => {
                let len = 16 + seed % 185;
                stretch((version | proof << 48).to_le_bytes().to_vec(), len as usize, seed)
            }
        }
    }

    /// The version of a value of key `id`, or why these bytes were never written there.
    pub fn version(self, id: u32, value: &[u8]) -> Result<u64, String> {
        if id & COUNTER != 0 {
            let bytes: Result<[u8; 8], _> = value.try_into();
            return bytes.map(u64::from_le_bytes).map_err(|_| wrong(id, value));
        }
        let mut start = [0; 8];
        let len = value.len().min(8);
        start[..len].copy_from_slice(&value[..len]);
        let version = self.fit(u64::from_le_bytes(start));
        if self.value(id, version) == value { Ok(version) } else { Err(wrong(id, value)) }
    }
}

fn wrong(id: u32, value: &[u8]) -> String {
    let start = &value[..value.len().min(32)];
    format!("key {id:#x} has a value never written: {} bytes, {start:02x?}...", value.len())
}

/// Lengthens with bytes that follow from `seed`; never shortens below what fits.
fn stretch(mut bytes: Vec<u8>, len: usize, seed: u64) -> Vec<u8> {
    bytes.truncate(len);
    let mut word = seed;
    while bytes.len() < len {
        word = mix(word.wrapping_add(0x9e37_79b9));
        let part = word.to_le_bytes();
        bytes.extend_from_slice(&part[..part.len().min(len - bytes.len())]);
    }
    bytes
}
