//! The standard library's bounded channel: the usual choice for threads of one process.
//!
//! It cannot be shared between processes, so its workers are threads of one process, which favours
//! it. In `channel` it carries messages, in `queue` the numbers of elements.

use std::{
    array,
    ops::Range,
    path::Path,
    sync::mpsc::{Receiver, SyncSender, sync_channel},
};

use anyhow::{Context, Result, ensure};

use crate::{
    messages::{Carrier, Each, Port},
    rival::{Rival, Shape, Sharing},
    rivals::server::Server,
    workloads::{message, queue},
};

const ROOM: usize = 4096;

/// Carries messages.
pub static MESSAGES: SyncChannel = SyncChannel { workload: "channel" };
/// Carries the numbers of elements.
pub static ELEMENTS: SyncChannel = SyncChannel { workload: "queue" };

/// See the module.
pub struct SyncChannel {
    workload: &'static str,
}

impl Rival for SyncChannel {
    fn name(&self) -> &'static str {
        "sync_channel"
    }

    fn version(&self) -> Result<String> {
        Ok("the standard library's".to_owned())
    }

    fn settings(&self) -> &'static str {
        "std::sync::mpsc::sync_channel(4096), blocking send and recv"
    }

    fn sharing(&self) -> Sharing {
        Sharing::Threads
    }

    fn plays(&self, workload: &str) -> bool {
        workload == self.workload
    }

    fn prepare(&self, _site: &Path, _shape: &Shape) -> Result<Option<Server>> {
        Ok(None)
    }
}

impl Carrier for SyncChannel {
    fn open(
        &self,
        _site: &Path,
        _shape: &Shape,
        workers: Range<u64>,
    ) -> Result<Vec<Box<dyn Port>>> {
        ensure!(workers == (0..2), "a sync_channel has two ends in one process");
        match self.workload {
            "queue" => queue(),
            _ => Ok(ends::<{ message::BYTES }>().map(boxed).into()),
        }
    }
}

fn boxed<const BYTES: usize>(end: End<BYTES>) -> Box<dyn Port> {
    Box::new(end)
}

/// Worker 0 begins with all elements.
fn queue() -> Result<Vec<Box<dyn Port>>> {
    let [one, mut other] = ends::<4>();
    for number in 0..queue::ELEMENTS {
        other.send(&number.to_le_bytes())?;
    }
    Ok([one, other].map(boxed).into())
}

/// Two ends, with a channel in each direction.
fn ends<const BYTES: usize>() -> [End<BYTES>; 2] {
    let [(there, from_one), (back, from_other)] = array::from_fn(|_| sync_channel(ROOM));
    [End { outgoing: there, incoming: from_other }, End { outgoing: back, incoming: from_one }]
}

struct End<const BYTES: usize> {
    outgoing: SyncSender<[u8; BYTES]>,
    incoming: Receiver<[u8; BYTES]>,
}

impl<const BYTES: usize> Port for End<BYTES> {
    fn send(&mut self, message: &[u8]) -> Result<()> {
        let message = message.try_into().context("a message of another length")?;
        self.outgoing.send(message).context("the receiver has gone")
    }

    fn receive(&mut self, most: usize, each: Each<'_>) -> Result<usize> {
        each(&self.incoming.recv().context("the sender has gone")?);
        for count in 1..most {
            // The channel is empty, or the sender has gone: the next call reports which.
            let Ok(message) = self.incoming.try_recv() else { return Ok(count) };
            each(&message);
        }
        Ok(most)
    }
}
