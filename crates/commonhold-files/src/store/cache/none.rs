//! [`NoCache`]: keeps nothing; every request goes to the file.

use super::interface::{Cache, Inserted, Old, Taken};
use crate::store::tag::Tag;
use std::sync::Arc;

/// Keeps nothing.
pub struct NoCache;

impl<M> Cache<M> for NoCache {
    type Pinned = Vec<u8>;

    fn find(&self, _: &[u8], _: impl FnOnce(&M)) -> Option<Vec<u8>> {
        None
    }

    fn reserve(&self, _: u64, _: u64) -> bool {
        false
    }

    fn release(&self, _: u64) {}

    fn insert(&self, _: &Arc<Tag<M>>, _: Vec<u8>) -> Inserted<M> {
        Inserted::Refused(Old::default())
    }

    fn take(&self, _: &[u8]) -> Option<Taken<M>> {
        None
    }

    fn take_tagged(&self, _: &Arc<Tag<M>>) -> Option<u64> {
        None
    }

    fn entries(&self) -> u64 {
        0
    }

    fn bytes(&self) -> u64 {
        0
    }
}
