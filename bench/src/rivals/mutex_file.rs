//! A plain file behind the standard library's mutex: the simplest code without a log. For each
//! line, its writer makes one system call, after which the line is in the file.

use std::{
    fs::File,
    io::Write,
    ops::Range,
    path::Path,
    sync::{Arc, Mutex, PoisonError},
};

use anyhow::{Context, Result, ensure};

use super::tracing_appender::Arrivals;
use crate::{
    messages::{Carrier, Port},
    rival::{Rival, Shape, Sharing},
    rivals::server::Server,
    workloads::log,
};

/// See the module.
pub struct MutexFile;

impl Rival for MutexFile {
    fn name(&self) -> &'static str {
        "file mutex"
    }

    fn version(&self) -> Result<String> {
        Ok("the standard library's".to_owned())
    }

    fn settings(&self) -> &'static str {
        "one Mutex<File>, one write per line, no buffer; the bare line"
    }

    fn sharing(&self) -> Sharing {
        Sharing::Threads
    }

    fn plays(&self, workload: &str) -> bool {
        workload == "log"
    }

    fn prepare(&self, _site: &Path, _shape: &Shape) -> Result<Option<Server>> {
        Ok(None)
    }
}

impl Carrier for MutexFile {
    fn open(&self, site: &Path, shape: &Shape, workers: Range<u64>) -> Result<Vec<Box<dyn Port>>> {
        ensure!(workers == (0..shape.workers), "all writers of the file are in one process");
        let path = log::file(site);
        let file = File::create(&path).context("cannot make the lines' file")?;
        let file = Arc::new(Mutex::new(file));
        let writer = |_| Box::new(Writer(file.clone())) as Box<dyn Port>;
        let mut ports: Vec<_> = (1..shape.workers).map(writer).collect();
        ports.push(Box::new(Arrivals::new(path, None)));
        Ok(ports)
    }
}

struct Writer(Arc<Mutex<File>>);

impl Port for Writer {
    fn send(&mut self, line: &[u8]) -> Result<()> {
        // Poisoning is ignored, because the panic is reported anyway.
        let mut file = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        file.write_all(line).context("cannot write a line")
    }
}
