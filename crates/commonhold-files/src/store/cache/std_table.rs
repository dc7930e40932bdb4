//! [`StdTable`]: the standard library's hash table, whose SipHash withstands hostile keys.

use super::private::{Content, Table};
use crate::store::tag::{ByKey, Tag};
use std::collections::HashMap;
use std::sync::Arc;

/// Entries in a [`HashMap`].
pub struct StdTable<M>(HashMap<ByKey<M>, Content>);

impl<M> Default for StdTable<M> {
    fn default() -> StdTable<M> {
        StdTable(HashMap::new())
    }
}

impl<M: Send + Sync + 'static> Table<M> for StdTable<M> {
    fn find(&self, key: &[u8]) -> Option<(&Arc<Tag<M>>, &Content)> {
        self.0.get_key_value(key).map(|(tag, content)| (&tag.0, content))
    }

    fn insert(&mut self, tag: &Arc<Tag<M>>, content: Content) -> Option<Content> {
        // A key that is there already stays, and so does its tag.
        self.0.insert(ByKey(Arc::clone(tag)), content)
    }

    fn take(&mut self, key: &[u8]) -> Option<(Arc<Tag<M>>, Content)> {
        self.0.remove_entry(key).map(|(tag, content)| (tag.0, content))
    }

    fn entries(&self) -> usize {
        self.0.len()
    }
}
