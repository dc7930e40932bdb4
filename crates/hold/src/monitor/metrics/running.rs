//! Whether the journals, replicas and bridges of a hold run. Each of them has a slot in the hold,
//! a channel whose producer it is. The slot stays when it ends or is killed, so its absence is
//! seen, and the labels are the same after a restart.

use super::text::{Kind, Labels, Text};
use crate::monitor::inventory::Inventory;

/// The slots of a kind of service.
struct Slots<'a> {
    inventory: &'a Inventory,
}

impl<'a> Slots<'a> {
    /// The rest of the name of each slot with this prefix, and whether it is taken.
    fn of(&self, prefix: &'static str) -> impl Iterator<Item = (&'a str, f64)> + use<'a> {
        self.inventory.channels.iter().filter_map(move |(name, stat)| {
            Some((name.strip_prefix(prefix)?, f64::from(stat.producer.is_some())))
        })
    }

    fn has_map(&self, name: &str) -> bool {
        self.inventory.map(name).is_some()
    }

    /// A replica's map that was promoted needs no replica any more.
    fn has_replica(&self, name: &str) -> bool {
        self.inventory.map(name).is_some_and(|map| map.replica)
    }

    /// Whether a bridge can have this source or target.
    fn has_structure(&self, name: &str) -> bool {
        self.has_map(name)
            || self.inventory.channels.iter().any(|(channel, _)| channel == name)
            || self.inventory.queues.iter().any(|queue| queue.name == name)
    }

    fn bridges(&self) -> Vec<(Labels<'a>, f64)> {
        let publish = self.of(".publish/").filter_map(|(name, up)| {
            let (bucket, map) = name.split_once('/')?;
            Some((vec![("map", map), ("direction", "publish"), ("bucket", bucket)], up))
        });
        let others = [(".send/", "send"), (".receive/", "receive")];
        let others = others.into_iter().flat_map(|(prefix, direction)| {
            self.of(prefix)
                .map(move |(name, up)| (vec![("map", name), ("direction", direction)], up))
        });
        publish.chain(others).filter(|(labels, _)| self.has_structure(labels[0].1)).collect()
    }
}

pub fn write(text: &mut Text, inventory: &Inventory) {
    let slots = Slots { inventory };
    let journals = slots.of(".durable/").filter(|(map, _)| slots.has_map(map));
    text.family(
        "hold_journal_up",
        Kind::Gauge,
        "1 while the journal of a map runs, 0 if it has ended.",
        journals.map(|(map, up)| (vec![("map", map)], up)),
    );
    let replicas = slots.of(".replica/").filter(|(map, _)| slots.has_replica(map));
    text.family(
        "hold_replica_up",
        Kind::Gauge,
        "1 while the replica or the mirror of a map runs, 0 if it has ended.",
        replicas.map(|(map, up)| (vec![("map", map)], up)),
    );
    text.family(
        "hold_bridge_up",
        Kind::Gauge,
        "1 while a bridge to NATS runs, 0 if it has ended.",
        slots.bridges(),
    );
}
