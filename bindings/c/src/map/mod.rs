//! Maps.
//!
//! | idea | file |
//! |---|---|
//! | opening, creating, dropping, listing | [`by_name`] |
//! | its options and properties | [`about`] |
//! | reading by key; batches | [`read`] |
//! | writing by key | [`write`] |
//! | by uid | [`uid`] |
//! | handles on one pair | [`pair`] |
//! | callbacks that decide on a new value | [`update`] |
//! | iterating over all pairs | [`walk`] |
//! | lists as values | [`lists`] |
//! | following changes | [`follow`] |
//! | how old a replica's contents may be | [`age`] |

pub(crate) mod about;
mod age;
mod by_name;
pub(crate) mod follow;
mod lists;
mod pair;
mod read;
mod uid;
mod update;
mod walk;
mod write;

use commonhold::map::Map;

crate::ffi::handle::kinds! {
    Map = b"ch-map\0\0", "map";
}
