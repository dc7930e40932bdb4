//! The crate `bus`: a bounded channel that delivers every message to every receiver.
//!
//! It works between threads of one process. Its `recv` soon puts a thread to sleep. So the
//! receivers here poll for a while before they call it, as those of Commonhold and of the standard
//! library do.

use std::{hint, ops::Range, path::Path};

use ::bus::{Bus, BusReader};
use anyhow::{Context, Result, ensure};

use crate::{
    messages::{Carrier, Each, Port},
    rival::{Rival, Shape, Sharing},
    rivals::server::Server,
    workloads::Message,
};

const ROOM: usize = 4096;
const LOOKS: u32 = 1000;

/// See the module.
pub struct Broadcast;

impl Rival for Broadcast {
    fn name(&self) -> &'static str {
        "bus"
    }

    fn version(&self) -> Result<String> {
        super::locked_version("bus")
    }

    fn settings(&self) -> &'static str {
        "Bus::new(4096), try_recv 1000 times before recv"
    }

    fn sharing(&self) -> Sharing {
        Sharing::Threads
    }

    fn plays(&self, workload: &str) -> bool {
        matches!(workload, "channel" | "broadcast")
    }

    fn prepare(&self, _site: &Path, _shape: &Shape) -> Result<Option<Server>> {
        Ok(None)
    }
}

impl Carrier for Broadcast {
    fn open(&self, _site: &Path, shape: &Shape, workers: Range<u64>) -> Result<Vec<Box<dyn Port>>> {
        ensure!(workers == (0..shape.workers), "all ends of a bus are in one process");
        let (mut there, mut back) = (Bus::new(ROOM), Bus::new(ROOM));
        let from_there = (1..shape.workers).map(|_| there.add_rx());
        let mut ends: Vec<_> = from_there.map(|rx| End { bus: None, incoming: Some(rx) }).collect();
        let mut first = End { bus: None, incoming: None };
        // With more than one receiver nothing comes back.
        if let [other] = &mut ends[..] {
            first.incoming = Some(back.add_rx());
            other.bus = Some(back);
        }
        first.bus = Some(there);
        ends.insert(0, first);
        Ok(ends.into_iter().map(|end| Box::new(end) as Box<dyn Port>).collect())
    }
}

struct End {
    bus: Option<Bus<Message>>,
    incoming: Option<BusReader<Message>>,
}

impl Port for End {
    fn send(&mut self, message: &[u8]) -> Result<()> {
        let message = message.try_into().context("a message of another length")?;
        self.bus.as_mut().context("this worker only receives")?.broadcast(message);
        Ok(())
    }

    fn receive(&mut self, most: usize, each: Each<'_>) -> Result<usize> {
        let incoming = self.incoming.as_mut().context("this worker only sends")?;
        each(&first(incoming)?);
        for count in 1..most {
            // The bus is empty, or the sender has gone: the next call reports which.
            let Ok(message) = incoming.try_recv() else { return Ok(count) };
            each(&message);
        }
        Ok(most)
    }
}

fn first(incoming: &mut BusReader<Message>) -> Result<Message> {
    for _ in 0..LOOKS {
        if let Ok(message) = incoming.try_recv() {
            return Ok(message);
        }
        hint::spin_loop();
    }
    incoming.recv().context("the sender has gone")
}
