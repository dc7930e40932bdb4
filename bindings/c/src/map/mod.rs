//! Maps.
//!
//! | idea | file |
//! |---|---|
//! | making and opening; what it is | [`open`] |
//! | reading by key; batches | [`read`] |
//! | writing by key | [`write`] |
//! | by uid | [`uid`] |
//! | callbacks that decide on a new value | [`update`] |
//! | walking all pairs | [`walk`] |
//! | lists as values | [`lists`] |
//! | following changes | [`follow`] |

pub(crate) mod follow;
mod lists;
pub(crate) mod open;
mod read;
mod uid;
mod update;
mod walk;
mod write;

use commonhold::map::Map;

crate::ffi::handle::kinds! {
    Map = b"ch-map\0\0", "map";
}
