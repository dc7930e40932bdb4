//! [`NoEviction`]: a full cache keeps its entries.

use super::interface::Eviction;
use crate::store::tag::Tag;
use std::sync::Arc;

/// No entry goes.
pub struct NoEviction;

impl Eviction for NoEviction {
    type Mark = ();

    const EVICTS: bool = false;

    fn new(_: u64) -> NoEviction {
        NoEviction
    }

    fn used(&self, _: &[u8], _: &()) -> bool {
        true
    }

    fn added(&self, _: &Arc<Tag<()>>) {}

    fn removed(&self, _: &[u8], _: Option<&Arc<Tag<()>>>) {}

    fn victim(&self) -> Option<Arc<Tag<()>>> {
        None
    }
}
