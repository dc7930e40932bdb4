//! The memory of a hold: extents, records in them, and the lanes from which writing threads
//! allocate.
//!
//! - [`copy`]: racing copies between the file and private memory.
//! - [`fetch`]: copies of large values by readers that hold no lock.
//! - [`classes`]: record sizes and their geometry within an extent.
//! - [`extents`]: the extent table; claiming, freeing, growing; [`runs`] of extents for large
//!   objects.
//! - [`trim`]: freeing unused memory to the system; [`in_use`]: whether an extent must have memory.
//! - [`slab`]: state words and bitmaps: allocating and retiring records inside an extent.
//! - [`lane`]: the place of a writing thread: its sequence numbers, its lists, and its [`supply`]
//!   of memory.
//! - [`lock_retry`]: waiting for a lock without a lane, and beginning again.
//! - [`roots`]: the table of structures by name; [`freeze_lock`]: the locks over the hold as a
//!   whole.
//! - [`block`]: one contiguous block of memory for a structure that is not a map; [`attach`]: the
//!   participants that use it.
//! - [`ring`]: the bytes of a ring buffer.
//! - [`guests`]: threads that work in a structure without a lane.
//! - [`endpoint`]: keeps a participant registered after its handle was closed.
//! - [`private_records`]: what a process knows about a structure and the file does not contain.
//! - [`arena`]: one open handle's memory; entering an operation; [`own_participant`]: the handle's
//!   registration.
//! - [`writer`]: a lane or a recoverer, as writers of structures.
//! - [`recover`]: recovering the extents of a dead participant.

pub(crate) mod arena;
pub(crate) mod attach;
pub(crate) mod block;
pub(crate) mod classes;
pub(crate) mod copy;
pub(crate) mod endpoint;
pub(crate) mod extents;
pub(crate) mod fetch;
pub(crate) mod freeze_lock;
pub(crate) mod guests;
pub(crate) mod in_use;
pub(crate) mod lane;
pub(crate) mod lock_retry;
pub(crate) mod own_participant;
pub(crate) mod private_records;
pub(crate) mod recover;
pub(crate) mod ring;
pub(crate) mod roots;
pub(crate) mod runs;
pub(crate) mod slab;
pub(crate) mod supply;
pub(crate) mod trim;
pub(crate) mod writer;
