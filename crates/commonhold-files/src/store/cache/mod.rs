//! Where entries are kept. A cache knows nothing of which ones go; it has them, and counts what
//! they take.
//!
//! | module | idea |
//! |---|---|
//! | `interface` | the trait |
//! | `none` | keeps nothing |
//! | `private` | a table of this process, behind a lock |
//! | `std_table`, `hashbrown_table` | the tables |
//! | `hold` | a map that all processes share, with its bytes beside it |
//! | `shared_map` | such a map as a cache uses it: without long waits, without stale values |
//! | `buffers` | memory of copies, used again |

mod buffers;
mod hashbrown_table;
mod hold;
mod interface;
mod none;
mod private;
pub(super) mod shared_map;
mod std_table;

pub use hashbrown_table::HashbrownTable;
pub use hold::HoldCache;
pub use interface::{Cache, Inserted, Old, Taken};
pub use none::NoCache;
pub use private::{Content, Private, Table};
pub(super) use shared_map::SharedMap;
pub use std_table::StdTable;
