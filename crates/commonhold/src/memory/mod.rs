//! Memory of a hold: extents, records in them, and the lanes that writing threads allocate from.
//!
//! - [`copy`]: racing copies between the file and private memory.
//! - [`fetch`]: copies of large values by readers who have nothing locked.
//! - [`classes`]: record sizes and their geometry within an extent.
//! - [`extents`]: the extent table; claiming, freeing, growing; [`runs`] of them for large things.
//! - [`trim`]: giving free memory back to the system.
//! - [`slab`]: marks and bitmaps: allocating and retiring records inside an extent.
//! - [`lane`]: a writing thread's place: its sequence numbers, its lists, and its [`supply`] of memory.
//! - [`lock_retry`]: waiting for a lock without a lane, and beginning again.
//! - [`roots`]: the table of structures by name; [`freeze_lock`]: the locks over the hold as a whole.
//! - [`block`]: one contiguous block of memory for a structure that is not a map; [`attach`]: who uses it.
//! - [`ring`]: bytes that go round.
//! - [`guests`]: threads that are inside a structure without a lane.
//! - [`arena`]: one open handle's memory and registration; entering an operation.
//! - [`recover`]: settling the extents of a dead participant.

pub(crate) mod arena;
pub(crate) mod attach;
pub(crate) mod block;
pub(crate) mod classes;
pub(crate) mod copy;
pub(crate) mod extents;
pub(crate) mod fetch;
pub(crate) mod freeze_lock;
pub(crate) mod guests;
pub(crate) mod lane;
pub(crate) mod lock_retry;
pub(crate) mod recover;
pub(crate) mod ring;
pub(crate) mod roots;
pub(crate) mod runs;
pub(crate) mod slab;
pub(crate) mod supply;
pub(crate) mod trim;
