//! The layout of a map: the words of its structures, and the packing of pairs.

// The files of this folder:
//
// | idea | file |
// |---|---|
// | a map's entry by name | `root` |
// | buckets and slots | `segment`, `hash` (which bits of a hash select what) |
// | pairs with a record | `record`, `short_value` (it may change in place) |
// | pairs in the index | `packing` (the trait), `words` and `cells`, `inline` (either) |

pub(crate) mod cells;
pub(crate) mod hash;
pub(crate) mod inline;
pub(crate) mod packing;
pub(crate) mod record;
pub(crate) mod root;
pub(crate) mod segment;
pub(crate) mod short_value;
pub(crate) mod words;
