//! The map: extendible hashing over small segments. Readers are lock-free, growth never pauses, and
//! uids cost nothing.

// The folders, in the order of their dependencies:
//
// | idea | folder |
// |---|---|
// | what a map does: the public handle and its views | `api` |
// | how it does it: reads, changes, growth, caches, recovery | `engine` |
// | where pairs lie in memory | `layout` |
//
// All of them use `options`.

pub(crate) mod api;
pub(crate) mod engine;
pub(crate) mod layout;
pub(crate) mod options;

pub use api::codec::{Bytes, Codec, I64, Text, U64};
#[cfg(feature = "serde")]
pub use api::codec_json::Json;
#[cfg(feature = "bytemuck")]
pub use api::codec_pod::Pod;
pub use api::handle::Map;
pub use api::list::List;
pub use api::pair::PairHandle;
pub use api::typed::{TypedIter, TypedMap};
pub use api::walk::{Iter, Keys, MapInfo, MapStat, SizeStat};
pub use engine::iterate::Cursor;
pub use engine::many::Values;
pub use options::{CacheOptions, MapMode, MapOptions, Uid};
