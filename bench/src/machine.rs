//! The machine on which the numbers were measured, and the file system of the stores.

use std::path::Path;

use anyhow::{Context, Result};
use commonhold_lab::workload::machine;
use rustix::fs::statfs;
use serde::{Deserialize, Serialize};

/// Magic numbers of file systems, from statfs(2).
const TMPFS: u32 = 0x0102_1994;

/// The facts about the machine that affect the numbers.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct Machine {
    /// The facts that every benchmark of the project reports.
    #[serde(flatten)]
    pub machine: machine::Machine,
    /// Whether the stores lie on a memory file system.
    pub stores_in_memory: bool,
    /// Load of the last minute when the run began; anything over 0.2 casts doubt on the run.
    pub load_before: f64,
}

impl Machine {
    /// The facts of this machine; the stores will be in `directory`.
    pub fn look(directory: &Path) -> Result<Machine> {
        let file_system = statfs(directory).with_context(|| {
            format!("cannot look at the file system of {}", directory.display())
        })?;
        Ok(Machine {
            machine: machine::Machine::here(),
            stores_in_memory: file_system.f_type as u32 == TMPFS,
            load_before: machine::load(),
        })
    }
}
