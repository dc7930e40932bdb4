//! The operations of a map: the public handle, and views of a map.

// The files of this folder:
//
// | idea | file |
// |---|---|
// | the public handle | `handle`, `get`, `set`, `batch` (many pairs), `by_uid`, `lease`, `walk` |
// | the handle on one pair | `pair` |
// | the map that a handle is bound to | `binding` |
// | changes that only a replica makes; the age of its contents | `replica`, `age` |
// | views of a map | `typed`, `codec`, `list` |

pub(crate) mod age;
pub(crate) mod batch;
pub(crate) mod binding;
mod by_uid;
pub(crate) mod codec;
#[cfg(feature = "serde")]
pub(crate) mod codec_json;
#[cfg(feature = "bytemuck")]
pub(crate) mod codec_pod;
mod get;
pub(crate) mod handle;
pub(crate) mod lease;
pub(crate) mod list;
pub(crate) mod pair;
pub(crate) mod replica;
mod set;
pub(crate) mod typed;
pub(crate) mod walk;
