//! Maps that only a replica writes: they hold what is so at an origin, and everybody else may read them.
//!
//! A replica applies the changes of an origin's stream to a map of its own, through the one handle
//! that may write it ([`Hold::replica_map`](crate::Hold::replica_map)). To start again it fills a
//! shadow map and lets it take the first one's place
//! ([`Hold::swap_in_shadow_map`](crate::Hold::swap_in_shadow_map)).

use crate::error::{Error, ErrorKind, Result};
use crate::map::change::{Act, Change, Rule};
use crate::map::handle::Map;
use crate::stream::frame::{ChangeKind, StreamFrame};

impl Map {
    /// True if only a replica writes the map: a writing operation of this handle is the error `ReadOnly`, unless the handle
    /// is the replica's own.
    pub fn is_replica(&self) -> bool {
        self.bound.replica && self.bound.root(self.space()).is_replica()
    }

    /// Makes so what a frame of another map's stream says is so. May be repeated; frames of one key have to come in their
    /// order. If this map has a stream, it tells the change by the same kind; when the pair expires at the origin is not
    /// kept: it goes when the origin says so.
    ///
    /// # Errors
    /// `Mismatch` for a [`Gap`](ChangeKind::Gap), which does not say what is so; those of [`set`](Self::set).
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
            "map '{}': at {offset} the stream has a gap, a change too large for it; read the whole map again",
            self.name()
        );
        Error::new(ErrorKind::Mismatch, text)
    }
}
