//! The tables of a private cache: the same code over hash tables that differ in their hash.

use super::private::{Content, Table};
use crate::store::tag::{ByKey, Tag};
use std::sync::Arc;

macro_rules! hash_table {
    ($(#[$doc:meta])* $name:ident, $table:ty) => {
        $(#[$doc])*
        pub struct $name<M>($table);

        impl<M> Default for $name<M> {
            fn default() -> Self {
                $name(<$table>::new())
            }
        }

        impl<M: Send + Sync + 'static> Table<M> for $name<M> {
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
    };
}

hash_table! {
    /// The standard library's hash table, whose SipHash withstands hostile keys.
    StdTable, std::collections::HashMap<ByKey<M>, Content>
}
hash_table! {
    /// The same table from the crate hashbrown, with foldhash, which is faster for short keys.
    HashbrownTable, hashbrown::HashMap<ByKey<M>, Content>
}
