//! The stream of a map: every change, in each key's order, already encoded as for the wire.
//!
//! A stream is a ring of memory that the map's root links. It is written under the stream's own
//! lock, which is taken after that of the changed segment. A crash cannot separate a change of a
//! slot from its frame (protocol 4; `docs/internals/concurrency.md`). The frame is written and
//! *armed*, naming the slot and its contents. The store of the slot is the commit point. Then the
//! tail moves on. The recovery of a dead writer decides by the contents of the slot. Followers and
//! writers do not wait for each other: a follower that is too slow is lapped, and gets an error.

// The files of this folder:
//
// | idea | file |
// |---|---|
// | a change as bytes | `frame` |
// | a position in a stream | `position` |
// | the stream's words in the map's root, and their recovery | `words` |
// | writing | `append` |
// | which change ends at a position | `proof` |
// | reading | `follow`; sending the stream on unchanged: `feed` |
// | its memory | `own` |

pub(crate) mod append;
pub(crate) mod feed;
pub(crate) mod follow;
pub(crate) mod frame;
pub(crate) mod own;
pub(crate) mod position;
pub(crate) mod proof;
pub(crate) mod words;

pub use follow::Follower;
pub use frame::{ChangeKind, StreamFrame};
pub use position::StreamPosition;
pub use words::StreamStat;
