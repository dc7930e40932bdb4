//! Commonhold's log, through its public API and nothing else: writers in their own processes, and a
//! collector in another process, which merges their lines into a file.

use std::{
    fs::File,
    ops::Range,
    path::Path,
    sync::{
        Arc,
        atomic::{AtomicU64, Ordering},
    },
    thread,
    time::Duration,
};

use anyhow::{Context, Result, bail};
use commonhold::Hold;
use commonhold::log::{Collector, Log, LogLevel, LogOptions, Written};

use super::OURS;
use crate::{
    messages::{Carrier, Port},
    rival::{Rival, Shape, Sharing},
    rivals::server::Server,
    workloads::log,
};

const HOLD: &str = "bench";
const LOG: &str = "lines";
const RING_BYTES: u64 = 4 << 20;
const HOLD_BACK: Duration = Duration::from_millis(1);

/// See the module.
pub struct CommonholdLog;

impl Rival for CommonholdLog {
    fn name(&self) -> &'static str {
        OURS
    }

    fn version(&self) -> Result<String> {
        super::locked_version("commonhold")
    }

    fn settings(&self) -> &'static str {
        "memory hold, rings of 4 MiB, a full ring is tried again; collector in a process of its own, \
         hold-back 1 ms, default text (time, level, thread, line)"
    }

    fn sharing(&self) -> Sharing {
        Sharing::Processes
    }

    fn plays(&self, workload: &str) -> bool {
        workload == "log"
    }

    fn prepare(&self, site: &Path, shape: &Shape) -> Result<Option<Server>> {
        let hold = Hold::options().directory(site).create(HOLD);
        let hold = hold.context("cannot create the hold")?;
        hold.logs().open_or_create(LOG, options(shape)?).context("cannot make the log")?;
        hold.close().context("cannot close the hold")?;
        Ok(None)
    }
}

/// A ring for each writer, and a spare one.
fn options(shape: &Shape) -> Result<LogOptions> {
    Ok(LogOptions::new().rings(u32::try_from(shape.workers)?).ring_bytes(RING_BYTES))
}

impl Carrier for CommonholdLog {
    fn open(&self, site: &Path, shape: &Shape, workers: Range<u64>) -> Result<Vec<Box<dyn Port>>> {
        let hold = Hold::options().directory(site).open(HOLD).context("cannot open the hold")?;
        let open = |worker| -> Result<Box<dyn Port>> {
            let log =
                hold.logs().open_or_create(LOG, options(shape)?).context("cannot open the log")?;
            Ok(if worker + 1 < shape.workers {
                Box::new(Writer(log))
            } else {
                Box::new(Reader::new(&log, site)?)
            })
        };
        workers.map(open).collect()
    }
}

struct Writer(Log);

impl Port for Writer {
    fn send(&mut self, line: &[u8]) -> Result<()> {
        loop {
            match self.0.write(LogLevel::Info, line)? {
                Written::Accepted => return Ok(()),
                Written::Dropped => thread::yield_now(),
                Written::Filtered => bail!("the log filters its lines"),
            }
        }
    }
}

struct Reader {
    collector: Collector,
    file: File,
    /// The lines of the writers, without the log's own lines.
    seen: Arc<AtomicU64>,
    expected: u64,
}

impl Reader {
    fn new(log: &Log, site: &Path) -> Result<Reader> {
        let file = File::create(log::file(site)).context("cannot make the lines' file")?;
        let seen = Arc::new(AtomicU64::new(0));
        let counter = seen.clone();
        let collector = log.collector().context("cannot collect")?;
        let collector = collector.hold_back(HOLD_BACK).format(move |line, out| {
            counter.fetch_add(u64::from(line.level.is_some()), Ordering::Relaxed);
            line.append_to(out);
        });
        Ok(Reader { collector, file, seen, expected: 0 })
    }
}

impl Port for Reader {
    fn deliver(&mut self, lines: u64) -> Result<()> {
        self.expected += lines;
        while self.seen.load(Ordering::Relaxed) < self.expected {
            // Lines that the log counts as lost found no room, and the writer wrote them again.
            let round = self.collector.poll(&mut self.file)?;
            self.collector.pause(&round);
        }
        Ok(())
    }
}
