//! Maps that only a replica writes: they contain the state of a map at an origin, and everybody
//! else may read them.
//!
//! A replica applies the changes of an origin's stream to a map of its own, through the one handle
//! that may write it ([`Maps::open_replica`](crate::hold::Maps::open_replica)). To start again it
//! fills a shadow map that then replaces the first one (`raw::swap_in_shadow_map`).

use crate::error::{Error, ErrorKind, Result};
use crate::map::change::{Act, Change, Rule};
use crate::map::handle::Map;
use crate::stream::frame::{ChangeKind, StreamFrame};

impl Map {
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
        let act = match frame.kind {
            ChangeKind::Set => Act::Put(frame.value),
            ChangeKind::Gap => return Err(self.gap(frame.offset)),
            _ => Act::Delete,
        };
        let change = Change::new(frame.key, Rule::Always, act);
        self.apply(&Change { removal: frame.kind, ..change }, None).map(drop)
    }

    #[cold]
    fn gap(&self, offset: u64) -> Error {
        let text = format!(
            "map '{}': at {offset} the stream has a gap, a change too large for it; read the \
             whole map again",
            self.name()
        );
        Error::new(ErrorKind::Mismatch, text)
    }
}
