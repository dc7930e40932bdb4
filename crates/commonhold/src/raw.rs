//! Items that only the project's own programs need. They may change in any release.

pub use crate::channel::handle::channel_incarnation;
pub use crate::hold::handle::hold_time_ms;
pub use crate::hold::held_locks::{HeldLock, held_locks};
pub use crate::hold::journal_slot::{JournalSlot, journal_notes};
pub use crate::hold::map_identity::{MapIdentity, map_identity};
pub use crate::hold::maps::{companion_name, fit_stream, has_replica, lineage_name, next_name};
pub use crate::hold::replica_acks::{ReplicaAcks, check_replica_name};
pub use crate::hold::shadow_maps::{
    begin_stream_at, create_shadow_map, create_unready_map, map_names, open_unready_map,
    swap_in_shadow_map,
};
pub use crate::hold::superblock::FORMAT;
pub use crate::map::api::age::AS_OF;
pub use crate::map::api::replica::{incarnation, is_unready, replay_frame, set_until};
pub use crate::map::api::walk::{Charged, IterStep, StepIter, iter_steps};
pub use crate::memory::block::Incarnation;
pub use crate::os::barrier;
pub use crate::os::clock::realtime_ms;
pub use crate::os::draft::{Draft, Placed};
pub use crate::os::file::check_size_limit;
pub use crate::os::lines::SharedLines;
pub use crate::os::process_number::process_number;
pub use crate::queue::handle::queue_incarnation;
pub use crate::queue::named::pushed;
pub use crate::queue::raw_batch::{RawElement, pull_raw, push_raw};
pub use crate::stream::feed::{Feed, FrameHead, RingBytes};
pub use crate::stream::frame::RawFrame;
pub use crate::stream::proof::{Proof, proof_at};
pub use crate::sync::thread_patience::{limit_thread_patience, limit_thread_patience_ns};
