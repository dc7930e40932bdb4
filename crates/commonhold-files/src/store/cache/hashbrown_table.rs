//! [`HashbrownTable`]: the same table as the standard library's, from the crate itself, with
//! foldhash, which is faster for short keys.

use super::private::{Content, Table};
use crate::store::tag::{ByKey, Tag};
use hashbrown::HashMap;
use std::sync::Arc;

/// Entries in a [`HashMap`].
pub struct HashbrownTable<M>(HashMap<ByKey<M>, Content>);

impl<M> Default for HashbrownTable<M> {
    fn default() -> HashbrownTable<M> {
        HashbrownTable(HashMap::new())
    }
}

impl<M: Send + Sync + 'static> Table<M> for HashbrownTable<M> {
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
