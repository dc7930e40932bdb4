//! A rival that was not compiled in: a run reports that it is missing and how to get it.

use std::{ops::Range, path::Path};

use anyhow::{Result, bail};

use crate::{
    messages::{Carrier, Port},
    rival::{Rival, Shape, Sharing},
    rivals::server::Server,
};

/// iceoryx2, without the feature of its name.
pub static ICEORYX2: LeftOut = LeftOut { name: "iceoryx2", workloads: &["channel", "broadcast"] };
/// Its blackboard, likewise.
pub static BLACKBOARD: LeftOut = LeftOut { name: "iceoryx2 blackboard", workloads: &["newest"] };

const FEATURE: &str = "iceoryx2";

/// See the module.
pub struct LeftOut {
    name: &'static str,
    workloads: &'static [&'static str],
}

impl Rival for LeftOut {
    fn name(&self) -> &'static str {
        self.name
    }

    fn version(&self) -> Result<String> {
        bail!("{} is not compiled in", self.name)
    }

    fn settings(&self) -> &'static str {
        "not compiled in"
    }

    fn sharing(&self) -> Sharing {
        Sharing::Processes
    }

    fn plays(&self, workload: &str) -> bool {
        self.workloads.contains(&workload)
    }

    fn missing(&self) -> Option<String> {
        Some(format!("not compiled in: cargo run --release --features {FEATURE} -- ..."))
    }

    fn prepare(&self, _site: &Path, _shape: &Shape) -> Result<Option<Server>> {
        bail!("{} is not compiled in", self.name)
    }
}

impl Carrier for LeftOut {
    fn open(
        &self,
        _site: &Path,
        _shape: &Shape,
        _workers: Range<u64>,
    ) -> Result<Vec<Box<dyn Port>>> {
        bail!("{} is not compiled in", self.name)
    }
}
