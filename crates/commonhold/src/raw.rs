//! Items that only the project's own programs need. They may change in any release.

pub use crate::hold::journal_slot::JournalSlot;
pub use crate::hold::shadow_maps::{create_shadow_map, swap_in_shadow_map};
pub use crate::map::walk::Charged;
pub use crate::os::barrier;
pub use crate::os::draft::{Draft, Placed};
pub use crate::os::lines::SharedLines;
pub use crate::stream::feed::{Feed, RingBytes};
pub use crate::stream::frame::RawFrame;
pub use crate::sync::thread_patience::limit_thread_patience;
