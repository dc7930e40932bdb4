//! The identity of a map, for notes that outlive it: another map may get its name, and the same
//! positions in its stream.

use crate::hold::handle::Hold;
use crate::map::api::handle::Map;
use crate::map::api::replica::incarnation;
use crate::memory::block::Incarnation;
use std::sync::Arc;

/// The hold, the root and the incarnation of a map.
pub type MapIdentity = [u8; 32];

/// The identity of the map of this handle.
#[must_use]
pub fn map_identity(map: &Map) -> MapIdentity {
    let (Incarnation { root, number }, mut of) = (incarnation(map), [0; 32]);
    of[..16].copy_from_slice(&Hold::new(Arc::clone(&map.arena)).uuid());
    of[16..24].copy_from_slice(&root.to_le_bytes());
    of[24..].copy_from_slice(&number.to_le_bytes());
    of
}
