//! The means to share memory safely between processes: the mapped file as atomics, the
//! participants, the detection of death, and robust locks.
//!
//! - [`space`]: the mapped file, accessed only as atomics.
//! - [`owner`]: the name that a participant writes into locks and state words.
//! - [`robust_lock`]: a lock in the file; waiters detect a dead owner and recover what it left.
//! - [`hold_clock`]: the time by which pairs of caches expire.
//! - [`patience`]: how long one call waits for others.
//! - [`event`]: waiting for an event, and waking the waiters.
//! - [`thread_patience`]: a limit on waiting for one thread, below that of its handles.
//! - [`participant`]: the table of slots, claiming a slot, and asking whether its owner is alive.
//! - [`recovery`]: the right to act as a dead participant.
//! - [`unwind`]: repairing the hold when a panic unwinds.

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
