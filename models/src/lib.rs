//! Models of Commonhold's protocols.
//!
//! [`explorer`] visits every interleaving of a model, with a kill before any step; [`participants`]
//! is what all models share. [`record`] is records and publishing (protocols 1 and 2), [`split`] is splits
//! and doubling (protocol 3), [`order`] is the lock order under recovery.

pub mod explorer;
pub mod order;
pub mod participants;
pub mod record;
pub mod split;
