//! The map: extendible hashing over small segments. Readers are lock-free, growth never pauses, and
//! uids cost nothing.

// The files of this folder:
//
// | idea | file |
// |---|---|
// | the public handle | `handle`, `get`, `set`, `by_uid`, `lease`, `walk`, `options` |
// | views of a map | `typed`, `codec`, `list` |
// | the map that a handle is bound to | `binding` |
// | where things are in memory | `root`, `directory`, `chunk_cache`, `segment`, `record`, `hash` |
// | reading | `read`, `take` (what is copied), `many`, `iterate` |
// | the short ways | `short_change`, `short_inline` (pairs in the index) |
// | writing | `change` (the request), `write`, `batch`, `locked` (the commit), `split` |
// | creating and dropping maps | `lifecycle`, `dropping` |
// | maps that only a replica writes | `replica`, `shadow_map` (replaces another map) |
// | memory and copies | `compact` (sparse extents), `image` (segments for backups) |
// | fixed-length pairs in the index | `inline`, `words`, `cells` |
// | caches | `cache`, `charge` (their totals), `lookups`, `expire` |
// | after a death; proving a map sound | `recover`, `check` |

pub(crate) mod batch;
pub(crate) mod binding;
pub(crate) mod bound;
mod by_uid;
pub(crate) mod cache;
pub(crate) mod cells;
pub(crate) mod change;
pub(crate) mod charge;
pub(crate) mod check;
pub(crate) mod chunk_cache;
pub(crate) mod codec;
#[cfg(feature = "serde")]
mod codec_json;
#[cfg(feature = "bytemuck")]
mod codec_pod;
pub(crate) mod compact;
pub(crate) mod directory;
pub(crate) mod dropping;
pub(crate) mod expire;
mod get;
pub(crate) mod handle;
pub(crate) mod hash;
pub(crate) mod image;
pub(crate) mod inline;
pub(crate) mod iterate;
pub(crate) mod lease;
pub(crate) mod lifecycle;
pub(crate) mod list;
pub(crate) mod locked;
pub(crate) mod lookups;
pub(crate) mod many;
pub(crate) mod options;
pub(crate) mod read;
pub(crate) mod record;
pub(crate) mod recover;
pub(crate) mod replica;
pub(crate) mod root;
pub(crate) mod segment;
mod set;
pub(crate) mod shadow_map;
pub(crate) mod short_change;
pub(crate) mod short_inline;
pub(crate) mod split;
pub(crate) mod take;
pub(crate) mod typed;
pub(crate) mod walk;
pub(crate) mod words;
pub(crate) mod write;

pub use codec::{Bytes, Codec, I64, Text, U64};
#[cfg(feature = "serde")]
pub use codec_json::Json;
#[cfg(feature = "bytemuck")]
pub use codec_pod::Pod;
pub use handle::Map;
pub use iterate::Cursor;
pub use list::List;
pub use many::Values;
pub use options::{CacheOptions, MapMode, MapOptions, Uid};
pub use typed::{TypedIter, TypedMap};
pub use walk::{Iter, Keys, MapInfo, MapStat, SizeStat};
