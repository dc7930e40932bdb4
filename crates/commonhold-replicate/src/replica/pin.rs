//! The lineage that a replica keeps to: it refuses an origin of another map or an earlier epoch.

use crate::lineage::{self, Record};
use crate::protocol::introduction::{Introduction, MOST_RELAYS, Refusal};
use crate::protocol::key_prefix::KeyPrefix;
use crate::protocol::wire::{Broken, broken};
use commonhold::map::Map;
use commonhold::raw::{incarnation, is_unready};
use commonhold::{Error, ErrorKind, Hold, Result};

/// See the module.
pub(crate) struct Pin {
    hold: Hold,
    name: String,
    record: Record,
}

impl Pin {
    /// The stored one, if it belongs to this map. The map keeps to the prefix of its keys as soon
    /// as it has contents.
    ///
    /// # Errors
    /// `Mismatch` if it keeps to another prefix; those of reading the hold.
    pub(crate) fn open(hold: &Hold, map: &Map, prefix: &KeyPrefix) -> Result<Pin> {
        let (hold, name) = (hold.clone(), map.name().to_owned());
        let stored = lineage::stored(&hold, &name)?;
        let mut record = match stored {
            Some(record) if record.is_of(&hold, map) => {
                if record.prefix != *prefix && !is_unready(map) {
                    return Err(other_prefix(&name, &record.prefix, prefix));
                }
                // A replacement that it had noted did not happen.
                record.of_map(map)
            }
            Some(record) if record.continues_with(&hold, map) => record.of_map(map),
            // The node of another map may be that of the hold which this one is a copy of.
            _ => Record::of_replica(&hold, map)?,
        };
        record.prefix = prefix.clone();
        let this = Pin { hold, name, record };
        this.store()?;
        Ok(this)
    }

    /// The identifier and the epoch, zeros if it keeps to none.
    pub(crate) fn lineage(&self) -> ([u8; 16], u64) {
        (self.record.lineage.id, self.record.lineage.epoch)
    }

    /// The keys that the replica wants.
    pub(crate) fn prefix(&self) -> &KeyPrefix {
        &self.record.prefix
    }

    /// The number of the replica's map, which no other has.
    pub(crate) fn node(&self) -> u64 {
        self.record.node
    }

    /// Checks the origin's identity, and keeps to its lineage from now on. With `adopt`, a replica
    /// accepts another map and an earlier epoch.
    ///
    /// # Errors
    /// The origin is refused, or has refused the replica.
    pub(crate) fn meet(
        &mut self,
        origin: &Introduction,
        adopt: bool,
    ) -> std::result::Result<(), Broken> {
        let (own, its) = (&self.record.lineage, &origin.lineage);
        let at = its.path.iter().position(|node| *node == self.record.node);
        if let Some(at) = at {
            let behind = its.path[at + 1..].to_vec();
            let relays = behind.len();
            // So that the others in the cycle find themselves in the path, too.
            self.note_path(behind)?;
            return broken(format!(
                "follows this map itself, directly or through other relays ({relays} in all): a \
                 cycle never gets any changes; follow an origin outside it"
            ));
        }
        if its.path.len() >= MOST_RELAYS {
            return broken(format!(
                "has {MOST_RELAYS} relays before it, the maximum; follow one of them"
            ));
        }
        if let Some((refusal, text)) = &origin.refusal {
            if *refusal == Refusal::Unready {
                self.note_path(its.path.clone())?;
            }
            return broken(text.clone());
        }
        if own.is_known() && own.id != its.id && !adopt {
            return broken(format!(
                "serves {}, but this replica keeps {}; follow an origin of that map, or accept \
                 the other one with --adopt (ReplicaOptions::adopt)",
                its.shown(),
                own.shown()
            ));
        }
        if own.id == its.id && its.epoch < own.epoch && !adopt {
            return broken(format!(
                "is an origin of epoch {}, but this replica has seen epoch {}: another copy of the \
                 map was promoted or restored meanwhile; follow that one, or go back to this one with --adopt \
                 (ReplicaOptions::adopt)",
                its.epoch, own.epoch
            ));
        }
        if own != its {
            self.record.lineage = its.clone();
            return self.store().map_err(|e| Broken(e.to_string()));
        }
        Ok(())
    }

    fn note_path(&mut self, path: Vec<u64>) -> std::result::Result<(), Broken> {
        if self.record.lineage.path == path {
            return Ok(());
        }
        self.record.lineage.path = path;
        self.store().map_err(|e| Broken(e.to_string()))
    }

    /// Keeps to the lineage when this map is dropped for one of another mode.
    pub(crate) fn leaves(&mut self, map: &Map) -> Result<()> {
        self.record.await_next(map);
        self.store()
    }

    /// Keeps to the lineage when `next` takes the place of `map`.
    pub(crate) fn moves(&mut self, map: &Map, next: &Map) -> Result<()> {
        self.record.replica = Some([incarnation(map), incarnation(next)]);
        self.store()
    }

    fn store(&self) -> Result<()> {
        lineage::store(&self.hold, &self.name, &self.record)
    }
}

fn other_prefix(name: &str, kept: &KeyPrefix, wanted: &KeyPrefix) -> Error {
    let text = format!(
        "map '{name}' replicates {kept}, and now {wanted} are wanted: start the replica with the \
         same prefix as before, or drop the map ('hold drop') and start again"
    );
    Error::new(ErrorKind::Mismatch, text)
}
