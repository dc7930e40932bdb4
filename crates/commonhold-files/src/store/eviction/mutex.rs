//! [`Lru`]: exactly the least recently used entry goes. Every use moves an entry to the front of
//! one list, so all threads meet at its mutex.
//!
//! The list is linked by indices in a vector; a table finds the node of a key. Both are small: the
//! work under the mutex is a look-up and a few stores.

use super::interface::Eviction;
use crate::store::tag::{ByKey, Tag};
use std::collections::HashMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

/// No node.
const NONE: u32 = u32::MAX;

/// Least recently used first.
pub struct Lru(Mutex<Order>);

/// An entry in the order.
struct Node {
    tag: Arc<Tag<()>>,
    newer: u32,
    older: u32,
}

/// The order of use.
struct Order {
    index: HashMap<ByKey<()>, u32>,
    /// Nodes; `None` at a free place.
    nodes: Vec<Option<Node>>,
    vacant: Vec<u32>,
    newest: u32,
    oldest: u32,
}

impl Lru {
    fn order(&self) -> MutexGuard<'_, Order> {
        // Nothing panics halfway through a change of the order.
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Eviction for Lru {
    type Mark = ();

    fn new(_: u64) -> Lru {
        Lru(Mutex::new(Order {
            index: HashMap::new(),
            nodes: Vec::new(),
            vacant: Vec::new(),
            newest: NONE,
            oldest: NONE,
        }))
    }

    fn used(&self, key: &[u8], _: &()) -> bool {
        let mut order = self.order();
        let Some(&at) = order.index.get(key) else { return false };
        if order.newest != at {
            order.unlink(at);
            order.link(at);
        }
        true
    }

    fn knows(&self, key: &[u8]) -> bool {
        self.order().index.contains_key(key)
    }

    fn added(&self, tag: &Arc<Tag<()>>) {
        let mut order = self.order();
        let older = order.forget(tag.key());
        order.add(Arc::clone(tag));
        drop(order);
        drop(older);
    }

    fn removed(&self, key: &[u8], tag: Option<&Arc<Tag<()>>>) {
        let mut order = self.order();
        let Some(&at) = order.index.get(key) else { return };
        let known = order.nodes[at as usize].as_ref().map(|node| &node.tag);
        // A tag that was added since belongs to another entry.
        if tag.is_none_or(|tag| known.is_some_and(|known| Arc::ptr_eq(known, tag))) {
            order.forget(key);
        }
    }

    fn victim(&self) -> Option<Arc<Tag<()>>> {
        let mut order = self.order();
        let oldest = order.nodes.get(order.oldest as usize)?.as_ref()?;
        let tag = Arc::clone(&oldest.tag);
        order.forget(tag.key());
        Some(tag)
    }
}

impl Order {
    fn add(&mut self, tag: Arc<Tag<()>>) {
        let node = Some(Node { tag: Arc::clone(&tag), newer: NONE, older: NONE });
        let at = match self.vacant.pop() {
            Some(at) => {
                self.nodes[at as usize] = node;
                at
            }
            None => {
                self.nodes.push(node);
                (self.nodes.len() - 1) as u32
            }
        };
        self.index.insert(ByKey(tag), at);
        self.link(at);
    }

    fn forget(&mut self, key: &[u8]) -> Option<Node> {
        let at = self.index.remove(key)?;
        self.unlink(at);
        self.vacant.push(at);
        self.nodes[at as usize].take()
    }

    /// Makes an unlinked node the newest.
    fn link(&mut self, at: u32) {
        let before = self.newest;
        if let Some(node) = self.node(at) {
            (node.newer, node.older) = (NONE, before);
        }
        match self.node(before) {
            Some(before) => before.newer = at,
            None => self.oldest = at,
        }
        self.newest = at;
    }

    fn unlink(&mut self, at: u32) {
        let Some(node) = self.node(at) else { return };
        let (newer, older) = (node.newer, node.older);
        match self.node(newer) {
            Some(node) => node.older = older,
            None => self.newest = older,
        }
        match self.node(older) {
            Some(node) => node.newer = newer,
            None => self.oldest = newer,
        }
    }

    fn node(&mut self, at: u32) -> Option<&mut Node> {
        self.nodes.get_mut(at as usize)?.as_mut()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn victims(lru: &Lru) -> Vec<Vec<u8>> {
        std::iter::from_fn(|| lru.victim()).map(|tag| tag.key().to_vec()).collect()
    }

    #[test]
    fn the_least_recently_used_goes_first() {
        let lru = Lru::new(0);
        let tags = ["a", "b", "c", "d"].map(|key| Tag::new(key.as_bytes(), 1));
        tags.iter().for_each(|tag| lru.added(tag));
        assert!(lru.used(b"b", &()) && lru.used(b"a", &()) && lru.used(b"a", &()));
        assert!(!lru.used(b"e", &()));
        lru.removed(b"d", None);
        assert_eq!(victims(&lru), [b"c", b"b", b"a"]);
        assert_eq!(victims(&lru), [[0; 0]; 0]);
        tags.iter().rev().for_each(|tag| lru.added(tag));
        assert_eq!(victims(&lru), [b"d", b"c", b"b", b"a"]);
    }

    #[test]
    fn a_key_that_was_added_again_is_not_removed_in_the_old_ones_name() {
        let lru = Lru::new(0);
        let [old, new] = [(); 2].map(|()| Tag::new(b"a", 1));
        lru.added(&old);
        lru.added(&new);
        lru.removed(b"a", Some(&old));
        assert_eq!(victims(&lru), [b"a"]);
        lru.added(&new);
        lru.removed(b"a", Some(&new));
        assert!(lru.victim().is_none());
    }

    #[test]
    fn agrees_with_a_list_that_is_searched() {
        let lru = Lru::new(0);
        let mut list: Vec<u8> = Vec::new();
        let mut rng = fastrand::Rng::with_seed(1);
        for _ in 0..20_000 {
            let key = rng.u8(..40);
            let place = list.iter().position(|other| *other == key);
            match rng.u8(..10) {
                0..6 => {
                    assert_eq!(lru.used(&[key], &()), place.is_some());
                    place.into_iter().for_each(|at| list[at..].rotate_left(1));
                }
                6..8 => {
                    lru.added(&Tag::new(&[key], 1));
                    place.into_iter().for_each(|at| _ = list.remove(at));
                    list.push(key);
                }
                8 => {
                    lru.removed(&[key], None);
                    place.into_iter().for_each(|at| _ = list.remove(at));
                }
                _ => {
                    let oldest = (!list.is_empty()).then(|| list.remove(0));
                    assert_eq!(lru.victim().map(|tag| tag.key()[0]), oldest);
                }
            }
        }
    }
}
