//! The places of entries. A cache does not know which entries go; it has them, and counts their
//! bytes.
//!
//! | module | idea |
//! |---|---|
//! | `interface` | the trait |
//! | `none` | keeps nothing |
//! | `private` | a table of this process, behind a lock |
//! | `hash_tables` | the tables |
//! | `hold` | a map that all processes share, with its bytes in a second map |
//! | `shared_map` | such a map as a cache uses it: without long waits, without stale values |
//! | `buffers` | reused memory for copies |

mod buffers;
mod hash_tables;
mod hold;
mod interface;
mod none;
mod private;
pub(super) mod shared_map;

pub use hash_tables::{HashbrownTable, StdTable};
pub use hold::HoldCache;
pub use interface::{Cache, Inserted, Old, Taken};
pub use none::NoCache;
pub use private::{Content, Private, Table};
pub(super) use shared_map::SharedMap;
