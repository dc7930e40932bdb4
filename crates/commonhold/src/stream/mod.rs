//! The stream of a map: every change, in each key's order, already encoded as it goes over the wire.
//!
//! A ring of memory that the map's root links, written under the stream's own lock, which is taken behind that of the
//! changed segment. A change of a slot and its frame cannot be separated by a crash (protocol 4; `docs/internals/concurrency.md`):
//! the frame is written and *armed*, naming the slot and what it holds; the slot is stored, the commit point; the tail moves
//! on. Who settles after a dead writer asks the slot. Followers wait for nobody and nobody waits for them: one that is too slow is
//! lapped, and told so.
//!
//! | idea | file |
//! |---|---|
//! | a change as bytes | [`frame`] |
//! | where a stream is read from | [`position`] |
//! | its words in the map's root; settling them after a death | [`words`] |
//! | writing | [`append`] |
//! | reading | [`follow`]; sending it on as it is: [`feed`] |
//! | its memory | [`own`] |

pub(crate) mod append;
pub(crate) mod feed;
pub(crate) mod follow;
pub(crate) mod frame;
pub(crate) mod own;
pub(crate) mod position;
pub(crate) mod words;
