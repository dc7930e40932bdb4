//! Models of Commonhold's protocols.
//!
//! [`explorer`] visits every interleaving of a model, with a kill before any step; [`participants`]
//! is what all models share. [`record`] is records and publishing (protocols 1 and 2), [`split`] is splits
//! and doubling (protocol 3), [`order`] is the lock order under recovery, [`lock`] is the robust lock in
//! detail, [`stream`] is changes and their stream (protocol 4), [`queue`] is moving elements (protocol 5), [`channel`] is the channel (protocol 6), [`wake`] is waiting and waking
//! (protocol 7), [`charge`] is what a cache is charged with. [`weak`] has the models of memory
//! orderings.
//!
//! What they cover, and what they do not: `docs/internals/models.md`.

pub mod channel;
pub mod charge;
pub mod explorer;
pub mod lock;
pub mod order;
pub mod participants;
pub mod processes;
pub mod queue;
pub mod record;
pub mod scenario;
pub mod split;
pub mod stream;
pub mod wake;
pub mod weak;
