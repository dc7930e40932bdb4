//! The engine of a map: reads, changes, growth, caches, recovery.

// The files of this folder:
//
// | idea | file |
// |---|---|
// | a map as one handle sees it | `bound` |
// | finding a segment | `directory`, `chunk_cache` |
// | reading | `read`, `take` (what is copied), `many`, `iterate` |
// | writing | `change` (the request), `write`, `locked` (the commit), `split` |
// | the short ways | `short_change`, `short_act`, `in_place`, `short_inline` (index) |
// | fixed-length pairs in the index | `inline_pairs` |
// | the place of a pair that a handle remembers | `place` |
// | creating and dropping maps | `lifecycle`, `dropping` |
// | a map that replaces another one | `shadow_map` |
// | memory and copies | `compact` (sparse extents), `image` (segments for backups) |
// | caches | `cache`, `charge` (their totals), `lookups`, `expire` |
// | after a death; proving a map sound | `recover`, `check` |

pub(crate) mod bound;
pub(crate) mod cache;
pub(crate) mod change;
pub(crate) mod charge;
pub(crate) mod check;
pub(crate) mod chunk_cache;
pub(crate) mod compact;
pub(crate) mod directory;
pub(crate) mod dropping;
pub(crate) mod expire;
pub(crate) mod image;
pub(crate) mod in_place;
pub(crate) mod inline_pairs;
pub(crate) mod iterate;
pub(crate) mod lifecycle;
pub(crate) mod locked;
pub(crate) mod lookups;
pub(crate) mod many;
pub(crate) mod passed_over;
pub(crate) mod place;
pub(crate) mod read;
pub(crate) mod recover;
pub(crate) mod shadow_map;
pub(crate) mod short_act;
pub(crate) mod short_change;
pub(crate) mod short_inline;
pub(crate) mod split;
pub(crate) mod take;
pub(crate) mod write;
