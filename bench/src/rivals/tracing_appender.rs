//! The non-blocking writer of the crate `tracing-appender`: lines go through a channel to a thread
//! that writes them.
//!
//! It serves the threads of one process. It is configured to wait rather than to lose lines. Its
//! file is buffered, because its thread flushes whenever it has nothing more to do.

use std::{
    fs::{self, File},
    io::{BufWriter, Write},
    ops::Range,
    path::{Path, PathBuf},
    thread,
    time::Duration,
};

use ::tracing_appender::non_blocking::{NonBlocking as Front, NonBlockingBuilder, WorkerGuard};
use anyhow::{Context, Result, ensure};

use crate::{
    messages::{Carrier, Port},
    rival::{Rival, Shape, Sharing},
    rivals::server::Server,
    workloads::log,
};

const BUFFER_BYTES: usize = 64 << 10;
const BETWEEN_LOOKS: Duration = Duration::from_micros(200);

/// See the module.
pub struct NonBlocking;

impl Rival for NonBlocking {
    fn name(&self) -> &'static str {
        "tracing-appender"
    }

    fn version(&self) -> Result<String> {
        super::locked_version("tracing-appender")
    }

    fn settings(&self) -> &'static str {
        "non_blocking, lossy(false), default room (128,000 lines), file buffered; the bare line"
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

impl Carrier for NonBlocking {
    fn open(&self, site: &Path, shape: &Shape, workers: Range<u64>) -> Result<Vec<Box<dyn Port>>> {
        ensure!(workers == (0..shape.workers), "all writers of an appender are in one process");
        let path = log::file(site);
        let file = File::create(&path).context("cannot make the lines' file")?;
        let builder = NonBlockingBuilder::default().lossy(false);
        let (front, guard) = builder.finish(BufWriter::with_capacity(BUFFER_BYTES, file));
        let writer = |_| Box::new(Writer(front.clone())) as Box<dyn Port>;
        let mut ports: Vec<_> = (1..shape.workers).map(writer).collect();
        ports.push(Box::new(Arrivals::new(path, Some(guard))));
        Ok(ports)
    }
}

struct Writer(Front);

impl Port for Writer {
    fn send(&mut self, line: &[u8]) -> Result<()> {
        self.0.write_all(line).context("cannot write a line")
    }
}

/// Detects by the length of a file that lines have arrived in it, which costs the writers nothing.
/// The file must contain nothing else.
pub struct Arrivals {
    path: PathBuf,
    bytes: u64,
    /// The appender's thread ends with it.
    guard: Option<WorkerGuard>,
}

impl Arrivals {
    /// Watches that file.
    pub fn new(path: PathBuf, guard: Option<WorkerGuard>) -> Arrivals {
        Arrivals { path, bytes: 0, guard }
    }
}

impl Port for Arrivals {
    fn deliver(&mut self, lines: u64) -> Result<()> {
        self.bytes += lines * log::LINE_BYTES as u64;
        while fs::metadata(&self.path).context("cannot look at the file")?.len() < self.bytes {
            thread::sleep(BETWEEN_LOOKS);
        }
        Ok(())
    }

    fn finish(&mut self) -> Result<()> {
        drop(self.guard.take());
        Ok(())
    }
}
