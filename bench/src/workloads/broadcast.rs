//! Messages of 32 bytes from one sender to two receivers, which both receive all of them.
//!
//! stream: as in the workload `channel`, with worker 2 as a second receiver. A message counts once.
//! Only rivals that give every message to every receiver take part.

use anyhow::Result;

use super::{
    OfMessages, Workload,
    channel::{receive_all, send_all},
    tally::Tally,
};
use crate::{messages::Port, rival::Shape};

const RECEIVERS: u64 = 2;

/// See the module.
pub struct Broadcast;

impl Workload for Broadcast {
    fn name(&self) -> &'static str {
        "broadcast"
    }

    fn phases(&self) -> &'static [&'static str] {
        &["stream"]
    }

    fn shape(&self, asked: Shape) -> Shape {
        Shape { workers: 1 + RECEIVERS, keys: asked.workers * asked.keys, ..asked }
    }

    fn counts(&self) -> &'static str {
        "messages"
    }

    fn rate(&self, _phase: &str) -> Option<&'static str> {
        Some("messages_per_s")
    }
}

impl OfMessages for Broadcast {
    fn run(
        &self,
        _phase: &str,
        worker: u64,
        shape: &Shape,
        port: &mut dyn Port,
        tally: &mut Tally,
    ) -> Result<()> {
        if worker == 0 {
            send_all(shape.keys, port, tally)
        } else {
            receive_all(shape.keys, port, tally)
        }
    }
}
