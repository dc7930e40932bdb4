//! What processes need to share memory safely: the mapped file as atomics, who is taking part, who
//! has died, and robust locks.
//!
//! - [`space`]: the mapped file, seen only as atomics.
//! - [`owner`]: the name a participant signs locks and marks with.
//! - [`robust_lock`]: a lock in the file whose dead owner is found out and cleaned up after.
//! - [`hold_clock`]: the time by which pairs of caches expire.
//! - [`patience`]: how long one call waits for others.
//! - [`event`]: waiting for something, and waking who waits.
//! - [`thread_patience`]: a thread that waits less than its handles would.
//! - [`participant`]: the table of slots, claiming one, asking whether its owner lives.
//! - [`recovery`]: who may act as a dead participant.
//! - [`unwind`]: what has to be mended when a panic unwinds.

pub(crate) mod event;
pub(crate) mod hold_clock;
pub(crate) mod owner;
pub(crate) mod participant;
pub(crate) mod patience;
pub(crate) mod recovery;
pub(crate) mod robust_lock;
pub(crate) mod space;
pub(crate) mod thread_patience;
pub(crate) mod unwind;
