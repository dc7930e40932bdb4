//! Changes of a table, sent to sixteen followers: keys of 16 bytes, values of 64.
//!
//! stream: the first worker sets keys, 65,536 different ones in turn. The second worker has sixteen
//! connections, like those of replicas or subscribers. One thread reads all that arrives, and
//! discards it. The phase is over when everything has arrived on all connections. A change counts
//! once for each connection.

use anyhow::Result;

use super::{OfMessages, Workload, tally::Tally};
use crate::{messages::Port, rival::Shape};

/// The number of followers.
pub const FOLLOWERS: u64 = 16;
/// Bytes of a key and of a value.
pub const KEY: usize = 16;
/// See [`KEY`].
pub const VALUE: usize = 64;
const CARDINALITY: u64 = 65_536;

/// See the module.
pub struct Replicate;

/// The change with that number: the key, and then the value, which proves the number.
pub fn change(number: u64) -> [u8; KEY + VALUE] {
    let mut bytes = [b'.'; KEY + VALUE];
    bytes[..8].copy_from_slice(&(number % CARDINALITY).to_be_bytes());
    bytes[KEY..KEY + 8].copy_from_slice(&number.to_be_bytes());
    bytes
}

impl Workload for Replicate {
    fn name(&self) -> &'static str {
        "replicate"
    }

    fn phases(&self) -> &'static [&'static str] {
        &["stream"]
    }

    fn shape(&self, asked: Shape) -> Shape {
        Shape { workers: 2, keys: asked.workers * asked.keys, ..asked }
    }

    fn counts(&self) -> &'static str {
        "changes"
    }

    fn rate(&self, _phase: &str) -> Option<&'static str> {
        Some("messages_per_s")
    }
}

impl OfMessages for Replicate {
    fn run(
        &self,
        _phase: &str,
        worker: u64,
        shape: &Shape,
        port: &mut dyn Port,
        tally: &mut Tally,
    ) -> Result<()> {
        if worker > 0 {
            tally.operations = shape.keys * FOLLOWERS;
            return port.deliver(shape.keys);
        }
        for number in 0..shape.keys {
            port.send(&change(number))?;
        }
        port.flush()
    }
}
