//! Cloudflare's mmap-sync: one writer replaces a whole structure, which readers read in place.
//!
//! A write serializes all values, checks them and writes them to one of two files. A reader
//! registers as a reader of the newest file. A writer that meets a reader of the older file sleeps,
//! for a second by default, and here for a microsecond. Readers omit rkyv's check of the bytes,
//! which is faster.
//!
//! # Safety
//! A reference that `read` returns must be dropped before the writer's grace ends, and the contents
//! of the file must match the type. Each value is copied out in the same expression. The grace is
//! as long as a run. Only the workers of one run know the files, and one version of this program
//! writes them.
#![allow(unsafe_code)]

use std::{ops::Range, path::Path, time::Duration};

use anyhow::{Context, Result};
use mmap_sync::{locks::LockDisabled, synchronizer::Synchronizer};
use wyhash::WyHash;

use crate::{
    messages::{Carrier, Port},
    rival::{Rival, Shape, Sharing},
    rivals::server::Server,
    workloads::newest::{Few, PLACES, Values},
};

const SCRATCH_BYTES: usize = 1024;
const SLEEP_NS: u64 = 1000;
const GRACE: Duration = Duration::from_secs(600);

type Shared = Synchronizer<WyHash, LockDisabled, SCRATCH_BYTES, SLEEP_NS>;

/// See the module.
pub struct MmapSync;

impl Rival for MmapSync {
    fn name(&self) -> &'static str {
        "mmap-sync"
    }

    fn version(&self) -> Result<String> {
        super::locked_version("mmap-sync")
    }

    fn settings(&self) -> &'static str {
        "all values in one array, no check of bytes, its writer sleeps 1 us for a reader"
    }

    fn sharing(&self) -> Sharing {
        Sharing::Processes
    }

    /// A reader looks up the newest file, and then adds itself to its readers. A writer that
    /// replaces both files in between detects no reader, and writes while the values are being
    /// read.
    fn reads_may_be_wrong(&self) -> bool {
        true
    }

    fn plays(&self, workload: &str) -> bool {
        workload == "newest"
    }

    fn prepare(&self, site: &Path, _shape: &Shape) -> Result<Option<Server>> {
        // A reader can open the files only after a first write.
        open(site).write(0, 0)?;
        Ok(None)
    }
}

impl Carrier for MmapSync {
    fn open(&self, site: &Path, _shape: &Shape, workers: Range<u64>) -> Result<Vec<Box<dyn Port>>> {
        Ok(workers.map(|_| Box::new(Few(open(site))) as Box<dyn Port>).collect())
    }
}

fn open(site: &Path) -> All {
    All { values: [0; PLACES], shared: Shared::with_params(site.join("values").as_os_str()) }
}

struct All {
    /// The values of the last write.
    values: [u64; PLACES],
    shared: Shared,
}

impl Values for All {
    fn write(&mut self, place: usize, value: u64) -> Result<()> {
        self.values[place] = value;
        self.shared.write(&self.values, GRACE).context("mmap-sync cannot write")?;
        Ok(())
    }

    fn read(&mut self, place: usize) -> Result<u64> {
        // SAFETY: see the module.
        let all = unsafe { self.shared.read::<[u64; PLACES]>(false) };
        Ok(all.context("mmap-sync cannot read")?[place])
    }
}
