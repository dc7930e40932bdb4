//! Commonhold's origin, through its public API and nothing else: a map with a stream, and replicas
//! over a unix socket.

use std::{
    ops::Range,
    path::{Path, PathBuf},
    time::{Duration, Instant},
};

use anyhow::{Context, Result, bail, ensure};
use commonhold::Hold;
use commonhold::map::{Map, MapOptions};
use commonhold_replicate::{Address, Origin, OriginOptions, Tap};
use rustix::event::{PollFd, PollFlags, Timespec, poll};

use super::OURS;
use crate::{
    messages::{Carrier, Port},
    rival::{Rival, Shape, Sharing},
    rivals::server::Server,
    workloads::replicate::{FOLLOWERS, KEY, VALUE},
};

const HOLD: &str = "bench";
const MAP: &str = "table";
const STREAM_BYTES: u64 = 64 << 20;
/// Bytes of a change in the stream.
const FRAME: u64 = 40 + (KEY + VALUE) as u64;
/// The most changes by which the writer may be ahead of the slowest replica. The stream keeps far
/// more.
const AHEAD: u64 = 16_384;
const PATIENCE: Duration = Duration::from_secs(20);
const READ_BYTES: usize = 256 << 10;

/// See the module.
pub struct CommonholdOrigin;

fn address(site: &Path) -> PathBuf {
    site.join("origin.sock")
}

impl Rival for CommonholdOrigin {
    fn name(&self) -> &'static str {
        OURS
    }

    fn version(&self) -> Result<String> {
        super::locked_version("commonhold")
    }

    fn settings(&self) -> &'static str {
        "memory hold, a stream of 64 MiB, one thread that sends (epoll), unix sockets; the writer at most 16384 changes ahead"
    }

    fn sharing(&self) -> Sharing {
        Sharing::Processes
    }

    fn plays(&self, workload: &str) -> bool {
        workload == "replicate"
    }

    fn prepare(&self, site: &Path, _shape: &Shape) -> Result<Option<Server>> {
        let hold = Hold::options().directory(site).create(HOLD);
        let hold = hold.context("cannot create the hold")?;
        hold.maps().open_or_create(MAP, MapOptions::general()).context("cannot make the map")?;
        hold.maps().begin_stream(MAP, STREAM_BYTES).context("cannot make the stream")?;
        hold.close().context("cannot close the hold")?;
        Ok(None)
    }
}

impl Carrier for CommonholdOrigin {
    fn open(&self, site: &Path, _shape: &Shape, workers: Range<u64>) -> Result<Vec<Box<dyn Port>>> {
        let open = |worker| -> Result<Box<dyn Port>> {
            match worker {
                0 => Ok(Box::new(Writer::open(site)?)),
                _ => Ok(Box::new(Replicas::open(site)?)),
            }
        };
        workers.map(open).collect()
    }
}

struct Writer {
    origin: Origin,
    map: Map,
    /// The number of changes that it may make before it looks at the replicas again.
    budget: u64,
}

impl Writer {
    fn open(site: &Path) -> Result<Writer> {
        let hold = Hold::options().directory(site).open(HOLD).context("cannot open the hold")?;
        let origin = Origin::start(&hold, MAP, OriginOptions::default())?;
        origin.listen(&Address::Unix(address(site)))?;
        Ok(Writer { origin, map: hold.maps().open(MAP)?, budget: 0 })
    }

    fn wait(&mut self) -> Result<()> {
        while self.budget == 0 {
            let tail = self.map.follow()?.position().offset;
            let sent = self.origin.sent_to_all().unwrap_or(0);
            self.budget = AHEAD.saturating_sub(tail.saturating_sub(sent) / FRAME);
            if self.budget == 0 {
                std::thread::sleep(Duration::from_micros(20));
            }
        }
        self.budget -= 1;
        Ok(())
    }
}

impl Port for Writer {
    fn send(&mut self, message: &[u8]) -> Result<()> {
        self.wait()?;
        let (key, value) = message.split_at(KEY);
        self.map.set(key, value)?;
        Ok(())
    }
}

struct Replicas {
    taps: Vec<Tap>,
    offset: u64,
}

impl Replicas {
    fn open(site: &Path) -> Result<Replicas> {
        let address = Address::Unix(address(site));
        let start = Instant::now();
        let connect = |_| loop {
            match Tap::connect(&address, PATIENCE) {
                Ok(tap) => return Ok(tap),
                Err(error) if start.elapsed() > PATIENCE => bail!("no origin: {error}"),
                // The other worker will listen soon.
                Err(_) => std::thread::sleep(Duration::from_millis(2)),
            }
        };
        let mut taps = (0..FOLLOWERS).map(connect).collect::<Result<Vec<_>>>()?;
        taps.iter_mut().try_for_each(synchronised)?;
        Ok(Replicas { taps, offset: 0 })
    }
}

/// Waits until the origin has sent the whole map, which is empty: the origin would send an earlier
/// key as part of the map, not as a change.
fn synchronised(tap: &mut Tap) -> Result<()> {
    let (start, mut buffer) = (Instant::now(), vec![0; READ_BYTES]);
    while tap.bytes() == 0 {
        let left = PATIENCE.saturating_sub(start.elapsed());
        ensure!(!left.is_zero(), "the origin does not report that the map is empty");
        let timeout = Timespec::try_from(left).ok();
        poll(&mut [PollFd::new(&tap.socket(), PollFlags::IN)], timeout.as_ref())
            .context("cannot wait for the origin")?;
        ensure!(tap.drain(&mut buffer)? != Some(0), "the origin has closed a connection");
    }
    Ok(())
}

impl Port for Replicas {
    fn deliver(&mut self, changes: u64) -> Result<()> {
        self.offset += changes * FRAME;
        let (end, mut buffer) = (self.offset, vec![0; READ_BYTES]);
        let mut waiting: Vec<&mut Tap> = self.taps.iter_mut().collect();
        while !waiting.is_empty() {
            let sockets = waiting.iter().map(|tap| tap.socket().try_clone_to_owned());
            let sockets = sockets.collect::<std::io::Result<Vec<_>>>()?;
            let mut polled: Vec<_> =
                sockets.iter().map(|socket| PollFd::new(socket, PollFlags::IN)).collect();
            poll(&mut polled, None).context("cannot wait for changes")?;
            for (tap, polled) in waiting.iter_mut().zip(&polled) {
                if !polled.revents().is_empty() && tap.drain(&mut buffer)? == Some(0) {
                    bail!("the origin has closed a connection");
                }
            }
            // Besides changes, the origin sends some clock frames, so only the offset shows the
            // end.
            waiting.retain(|tap| tap.bytes() < end || tap.offset() != Some(end));
        }
        Ok(())
    }
}
