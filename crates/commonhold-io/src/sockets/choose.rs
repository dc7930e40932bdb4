//! The edge: from a word on the command line to a running driver, and its description.
//!
//! The loop over a driver is generic. It is compiled here once for each driver, and no driver is
//! called through a pointer.

use super::driver::Driver;
use super::epoll::Epoll;
use super::outgoing::Outgoing;
use super::pool::Pool;
use super::uring::Uring;
use std::fmt;
use std::io;
use std::num::NonZeroUsize;
use std::thread;

/// The kinds of drivers.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum LoopKind {
    /// [`Epoll`], all in one thread.
    Epoll,
    /// [`Pool`], epoll with threads for the calls.
    Pool,
    /// [`Uring`], io_uring.
    Uring,
}

crate::named_choice!(LoopKind { Epoll => "epoll", Pool => "pool", Uring => "uring" });

/// Options of drivers.
#[derive(Clone, Debug)]
pub struct Options {
    /// Threads of a [`Pool`]; `None` for one per available core.
    pub threads: Option<NonZeroUsize>,
    /// The number of operations that a [`Uring`] gives the kernel with one call: 1 to 32,768,
    /// rounded up to a power of two. More operations take more calls. Each entry costs about 300
    /// bytes.
    pub ring_entries: u32,
}

impl Default for Options {
    fn default() -> Options {
        Options { threads: None, ring_entries: 1024 }
    }
}

impl Options {
    /// The number of threads.
    pub(super) fn threads(&self) -> usize {
        let cores = || thread::available_parallelism().unwrap_or(NonZeroUsize::MIN);
        self.threads.unwrap_or_else(cores).get()
    }
}

/// The driver that runs. It displays its name, and why it replaces the requested driver.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Chosen {
    /// The driver that runs.
    pub kind: LoopKind,
    /// Why the requested driver does not run; `None` if it does.
    pub instead: Option<String>,
}

impl fmt::Display for Chosen {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.kind.fmt(f)?;
        self.instead.as_ref().map_or(Ok(()), |why| write!(f, ": {why}"))
    }
}

/// A computation that runs on any driver.
pub trait WithDriver<P: Outgoing> {
    /// The result of the computation.
    type Output;

    /// Runs in the calling thread of [`choose`]. `chosen` is for the log.
    fn run<D: Driver<P>>(self, driver: D, chosen: Chosen) -> Self::Output;
}

/// Makes the requested driver and runs `with` on it. Uses [`Epoll`] instead of an io_uring that is
/// not available.
///
/// # Errors
/// Those of making [`Epoll`] or [`Pool`]; then `with` has not run.
pub fn choose<P: Outgoing, W: WithDriver<P>>(
    wanted: LoopKind,
    options: &Options,
    with: W,
) -> io::Result<W::Output> {
    let mut chosen = Chosen { kind: wanted, instead: None };
    if wanted == LoopKind::Uring {
        match Uring::new(options) {
            Ok(driver) => return Ok(with.run(driver, chosen)),
            Err(error) => {
                chosen = Chosen { kind: LoopKind::Epoll, instead: Some(error.to_string()) };
            }
        }
    }
    match chosen.kind {
        LoopKind::Pool => Ok(with.run(Pool::new(options)?, chosen)),
        _ => Ok(with.run(Epoll::new(options)?, chosen)),
    }
}
