//! Commonhold's queue, through its public API and nothing else: elements move between two named
//! queues of one structure in a memory hold.
//!
//! In `one`, a single call (`push_pull`) passes an element on and takes the next one, as a loop
//! over a queue would do. In `many`, a batch moves the elements.

use std::{hint, ops::Range, path::Path, time::Duration};

use anyhow::{Context, Result, bail, ensure};
use commonhold::Hold;
use commonhold::queue::{Batch, Element, NamedQueue, Queue, QueueOptions};

use super::OURS;
use crate::{
    messages::{Carrier, Each, Port},
    rival::{Rival, Shape, Sharing},
    rivals::server::Server,
    workloads::queue::ELEMENTS,
};

const HOLD: &str = "bench";
const QUEUE: &str = "elements";
const ELEMENT_BYTES: u32 = 64;
const NAMES: [&str; 2] = ["b2a", "a2b"];
/// Looks before a wait, about as many as the rivals make before they sleep or yield.
const LOOKS: u64 = 1000;
const WAIT: Duration = Duration::from_secs(1);

/// Its workers are processes.
pub static PROCESSES: CommonholdQueue = CommonholdQueue { name: OURS, sharing: Sharing::Processes };
/// Its workers are threads of one process.
pub static THREADS: CommonholdQueue =
    CommonholdQueue { name: "commonhold threads", sharing: Sharing::Threads };

/// The queue, used by processes or threads.
pub struct CommonholdQueue {
    name: &'static str,
    sharing: Sharing,
}

impl Rival for CommonholdQueue {
    fn name(&self) -> &'static str {
        self.name
    }

    fn version(&self) -> Result<String> {
        super::locked_version("commonhold")
    }

    fn settings(&self) -> &'static str {
        "memory hold, 4096 elements of 64 bytes; one: push_pull; many: a batch"
    }

    fn sharing(&self) -> Sharing {
        self.sharing
    }

    fn plays(&self, workload: &str) -> bool {
        workload == "queue"
    }

    fn prepare(&self, site: &Path, _shape: &Shape) -> Result<Option<Server>> {
        let hold = Hold::options().directory(site).create(HOLD);
        let hold = hold.context("cannot create the hold")?;
        let options = QueueOptions::new(ELEMENTS, ELEMENT_BYTES).queues(NAMES);
        hold.queues().open_or_create(QUEUE, options).context("cannot make the queue")?;
        hold.close().context("cannot close the hold")?;
        Ok(None)
    }
}

impl Carrier for CommonholdQueue {
    fn open(&self, site: &Path, _shape: &Shape, workers: Range<u64>) -> Result<Vec<Box<dyn Port>>> {
        let hold = Hold::options().directory(site).open(HOLD).context("cannot open the hold")?;
        let options = QueueOptions::new(ELEMENTS, ELEMENT_BYTES).queues(NAMES);
        let queue =
            hold.queues().open_or_create(QUEUE, options).context("cannot open the queue")?;
        // An element in flight borrows the queue. A worker opens only one queue, and keeps it until
        // it ends.
        let queue: &'static Queue = Box::leak(Box::new(queue));
        let open = |worker| Ok(Box::new(End::new(queue, worker)?) as Box<dyn Port>);
        workers.map(open).collect()
    }
}

struct End {
    incoming: NamedQueue<'static>,
    outgoing: NamedQueue<'static>,
    /// In `one`: the element that is in flight, or that was sent and goes with the next call.
    element: Option<Element<'static>>,
    /// In `many`: the elements in flight.
    batch: Batch<'static>,
}

impl End {
    fn new(queue: &'static Queue, worker: u64) -> Result<End> {
        let [mut incoming, mut outgoing] = NAMES.map(|name| queue.named(name));
        if worker > 0 {
            std::mem::swap(&mut incoming, &mut outgoing);
        }
        let (incoming, outgoing) = (incoming?, outgoing?);
        Ok(End { incoming, outgoing, element: None, batch: queue.batch() })
    }

    /// Passes the element in flight on, and takes the next one.
    fn take_one(&mut self) -> Result<Element<'static>> {
        let mut found = match self.element.take() {
            Some(element) => self.outgoing.push_pull(element, self.incoming)?,
            None => self.incoming.pull()?,
        };
        for looks in 0_u64.. {
            if let Some(element) = found {
                return Ok(element);
            }
            hint::spin_loop();
            found = match looks < LOOKS {
                true => self.incoming.pull()?,
                false => self.incoming.pull_timeout(WAIT)?,
            };
        }
        bail!("no element came within the time limit")
    }

    fn take_many(&mut self, most: usize) -> Result<()> {
        for looks in 0_u64.. {
            let taken = match looks < LOOKS {
                true => self.incoming.pull_into(&mut self.batch, most)?,
                false => self.incoming.pull_into_timeout(&mut self.batch, most, WAIT)?,
            };
            if taken > 0 {
                break;
            }
            hint::spin_loop();
        }
        Ok(())
    }
}

impl Port for End {
    /// A single element goes with the next call, or with the flush.
    fn send_many(&mut self, ids: &[[u8; 4]]) -> Result<()> {
        let in_flight = self.batch.len() + usize::from(self.element.is_some());
        ensure!(ids.len() == in_flight, "{} elements are in flight, not {}", in_flight, ids.len());
        if !self.batch.is_empty() {
            self.outgoing.push_many(&mut self.batch)?;
        }
        Ok(())
    }

    fn receive(&mut self, most: usize, each: Each<'_>) -> Result<usize> {
        if most == 1 {
            let element = self.take_one()?;
            each(&element.id().to_le_bytes());
            self.element = Some(element);
            return Ok(1);
        }
        let before = self.batch.len();
        self.take_many(most)?;
        let new = self.batch.iter().skip(before);
        Ok(new.map(|element| each(&element.id().to_le_bytes())).count())
    }

    fn flush(&mut self) -> Result<()> {
        match self.element.take() {
            Some(element) => Ok(self.outgoing.push(element)?),
            None => Ok(()),
        }
    }
}
