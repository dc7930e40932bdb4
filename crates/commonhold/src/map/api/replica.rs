//! Maps that only a replica writes: they contain the state of a map at an origin, and everybody
//! else may read them.
//!
//! A replica applies the changes of an origin's stream to a map of its own, through the one handle
//! that may write it ([`Maps::open_replica`](crate::hold::Maps::open_replica)). To start again it
//! fills a shadow map that then replaces the first one (`raw::swap_in_shadow_map`).

use crate::error::{Error, ErrorKind, Result};
use crate::map::api::handle::Map;
use crate::map::engine::change::{Act, Change, Expiry, Rule};
use crate::map::engine::short_act::{Put, When};
use crate::map::engine::short_change;
use crate::memory::block::Incarnation;
use crate::stream::frame::{ChangeKind, StreamFrame};

/// The incarnation of the map that this handle is bound to.
pub fn incarnation(map: &Map) -> Incarnation {
    Incarnation { root: map.bound.id.into(), number: map.bound.incarnation }
}

/// True for a replica's map that has not received its contents yet.
pub fn is_unready(map: &Map) -> bool {
    map.is_unready()
}

/// Applies a frame as [`Map::apply_frame`] does, so that the map's stream gets the very same frame.
/// In a cache, the pair expires at a time of the hold's clock; 0 for never. An expired pair stays
/// in the map until a frame removes it.
///
/// # Errors
/// Those of [`Map::apply_frame`].
pub fn replay_frame(map: &Map, frame: &StreamFrame<'_>, expiry_ms: u64) -> Result<()> {
    if frame.kind == ChangeKind::Set && map.bound.is_plain && frame.expires_ms == 0 {
        // The stream of a plain map gets the same frame: none of its pairs expires.
        map.ensure_may_write()?;
        let (key, act) = ((frame.key, When::Always), Put(frame.value));
        if short_change::try_apply_to_plain(&map.arena, &map.bound, key, act).is_some() {
            return Ok(());
        }
    }
    let (expiry, replayed) = (Expiry::At(expiry_ms), Some(frame.expires_ms));
    map.apply(&Change { expiry, replayed, ..map.change_of(frame)? }, None).map(drop)
}

/// Sets a value that expires at a time of the hold's clock, which may have passed; 0 for never. In
/// other modes than a cache's, it does not expire.
///
/// # Errors
/// Those of [`Map::set`].
pub fn set_until(map: &Map, key: &[u8], value: &[u8], expiry_ms: u64) -> Result<()> {
    let change = Change::new(key, Rule::Always, Act::Put(value));
    map.apply(&Change { expiry: Expiry::At(expiry_ms), ..change }, None).map(drop)
}

impl Map {
    pub(crate) fn is_unready(&self) -> bool {
        self.bound.replica && self.bound.root(self.space()).is_unready()
    }

    /// True if only a replica writes the map. A writing operation of this handle then returns the
    /// error `ReadOnly`, unless the handle is the replica's own.
    pub fn is_replica(&self) -> bool {
        self.bound.replica && self.bound.root(self.space()).is_replica()
    }

    /// Applies the state in a frame of another map's stream. May be repeated; frames of one key
    /// must come in their order. If this map has a stream, the change enters it with the same kind.
    /// The expiry at the origin is not kept: the pair is removed when the origin reports that.
    ///
    /// # Errors
    /// `Mismatch` for a [`Gap`](ChangeKind::Gap), which does not contain a state; those of
    /// [`set`](Self::set).
    pub fn apply_frame(&self, frame: &StreamFrame<'_>) -> Result<()> {
        self.apply(&self.change_of(frame)?, None).map(drop)
    }

    fn change_of<'a>(&self, frame: &StreamFrame<'a>) -> Result<Change<'a>> {
        let act = match frame.kind {
            ChangeKind::Set => Act::Put(frame.value),
            ChangeKind::Gap => return Err(self.gap(frame.offset)),
            _ => Act::Delete,
        };
        let change = Change::new(frame.key, Rule::Always, act);
        Ok(Change { removal: frame.kind, ..change })
    }

    #[cold]
    fn gap(&self, offset: u64) -> Error {
        let text = format!(
            "map '{}': its stream has a gap at {offset}, where a change was too large for it; \
             read the whole map again",
            self.name()
        );
        Error::new(ErrorKind::Mismatch, text)
    }
}
