//! crossbeam's `ArrayQueue`: the lock-free bounded queue that threads of one process would use.
//!
//! It cannot be shared between processes. It has no batches and no waiting calls: a worker that
//! finds it empty looks again, and yields the processor occasionally.

use std::{array, hint, ops::Range, path::Path, sync::Arc, thread};

use anyhow::{Context, Result, anyhow, ensure};
use crossbeam_queue::ArrayQueue;

use crate::{
    messages::{Carrier, Each, Port},
    rival::{Rival, Shape, Sharing},
    rivals::server::Server,
    workloads::queue::ELEMENTS,
};

/// Looks at an empty queue before a worker yields the processor.
const LOOKS: u32 = 1000;

/// See the module.
pub struct Array;

impl Rival for Array {
    fn name(&self) -> &'static str {
        "crossbeam ArrayQueue"
    }

    fn version(&self) -> Result<String> {
        super::locked_version("crossbeam-queue")
    }

    fn settings(&self) -> &'static str {
        "two queues with room for all 4096 numbers each; spinning, a yield after 1000 looks"
    }

    fn sharing(&self) -> Sharing {
        Sharing::Threads
    }

    fn plays(&self, workload: &str) -> bool {
        workload == "queue"
    }

    fn prepare(&self, _site: &Path, _shape: &Shape) -> Result<Option<Server>> {
        Ok(None)
    }
}

impl Carrier for Array {
    fn open(
        &self,
        _site: &Path,
        _shape: &Shape,
        workers: Range<u64>,
    ) -> Result<Vec<Box<dyn Port>>> {
        ensure!(workers == (0..2), "both users of an ArrayQueue are in one process");
        let [b2a, a2b] = array::from_fn(|_| Arc::new(ArrayQueue::new(ELEMENTS as usize)));
        for number in 0..ELEMENTS {
            b2a.push(number).map_err(|_| anyhow!("no room to begin with"))?;
        }
        let one = End { incoming: b2a.clone(), outgoing: a2b.clone() };
        Ok(vec![Box::new(one), Box::new(End { incoming: a2b, outgoing: b2a })])
    }
}

struct End {
    incoming: Arc<ArrayQueue<u32>>,
    outgoing: Arc<ArrayQueue<u32>>,
}

impl Port for End {
    fn send(&mut self, number: &[u8]) -> Result<()> {
        let number = number.try_into().context("a number of another length")?;
        // The queue has room for all elements.
        self.outgoing.push(u32::from_le_bytes(number)).map_err(|_| anyhow!("no room"))
    }

    fn receive(&mut self, most: usize, each: Each<'_>) -> Result<usize> {
        let mut looks = 0;
        let first = loop {
            if let Some(number) = self.incoming.pop() {
                break number;
            }
            looks += 1;
            if looks % LOOKS == 0 {
                thread::yield_now();
            }
            hint::spin_loop();
        };
        each(&first.to_le_bytes());
        for count in 1..most {
            let Some(number) = self.incoming.pop() else { return Ok(count) };
            each(&number.to_le_bytes());
        }
        Ok(most)
    }
}
