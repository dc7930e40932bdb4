//! Commonhold's channel, through its public API and nothing else: one channel in each direction,
//! both in one memory hold.

use std::{ops::Range, path::Path};

use anyhow::{Context, Result};
use commonhold::Hold;
use commonhold::channel::{ChannelOptions, Consumer, Join, Policy, Producer};

use super::OURS;
use crate::{
    messages::{Carrier, Each, Port},
    rival::{Rival, Shape, Sharing},
    rivals::server::Server,
};

const HOLD: &str = "bench";
/// Room for some 6,500 messages of 32 bytes.
const RING_BYTES: u64 = 256 << 10;
const THERE: &str = "there";
const BACK: &str = "back";

/// See the module.
pub struct CommonholdChannel;

impl Rival for CommonholdChannel {
    fn name(&self) -> &'static str {
        OURS
    }

    fn version(&self) -> Result<String> {
        super::locked_version("commonhold")
    }

    fn settings(&self) -> &'static str {
        "memory hold, rings of 256 KiB, lossless, default waiting (spin for a moment, then sleep)"
    }

    fn sharing(&self) -> Sharing {
        Sharing::Processes
    }

    fn plays(&self, workload: &str) -> bool {
        matches!(workload, "channel" | "broadcast")
    }

    fn prepare(&self, site: &Path, _shape: &Shape) -> Result<Option<Server>> {
        let hold = Hold::options().directory(site).create(HOLD);
        let hold = hold.context("cannot create the hold")?;
        for name in [THERE, BACK] {
            hold.channels()
                .open_or_create(name, ChannelOptions::new(RING_BYTES))
                .context("cannot make a channel")?;
        }
        hold.close().context("cannot close the hold")?;
        Ok(None)
    }
}

impl Carrier for CommonholdChannel {
    fn open(&self, site: &Path, shape: &Shape, workers: Range<u64>) -> Result<Vec<Box<dyn Port>>> {
        let hold = Hold::options().directory(site).open(HOLD).context("cannot open the hold")?;
        let both = shape.workers == 2;
        let open = |worker| Ok(Box::new(End::open(&hold, worker, both)?) as Box<dyn Port>);
        workers.map(open).collect()
    }
}

/// The hold stays open as long as one of these exists.
struct End {
    producer: Option<Producer>,
    consumer: Option<Consumer>,
    buffer: Vec<u8>,
}

impl End {
    fn open(hold: &Hold, worker: u64, both: bool) -> Result<End> {
        let options = ChannelOptions::new(RING_BYTES);
        let (there, back) = (
            hold.channels().open_or_create(THERE, options)?,
            hold.channels().open_or_create(BACK, options)?,
        );
        let (outgoing, incoming) = if worker == 0 { (there, back) } else { (back, there) };
        // Without a way back, worker 0 only sends and the others only receive.
        let producer = (both || worker == 0).then(|| outgoing.producer()).transpose()?;
        let receives = both || worker > 0;
        let consumer = receives.then(|| incoming.consumer(Join::Oldest, Policy::Lossless));
        Ok(End { producer, consumer: consumer.transpose()?, buffer: Vec::new() })
    }
}

impl Port for End {
    fn send(&mut self, message: &[u8]) -> Result<()> {
        self.producer.as_mut().context("this worker only receives")?.send(message)?;
        Ok(())
    }

    fn receive(&mut self, most: usize, each: Each<'_>) -> Result<usize> {
        let consumer = self.consumer.as_mut().context("this worker only sends")?;
        if most == 1 {
            consumer.recv(&mut self.buffer)?;
            each(&self.buffer);
            return Ok(1);
        }
        Ok(consumer.recv_many(most, |_, bytes| each(bytes))?)
    }
}
