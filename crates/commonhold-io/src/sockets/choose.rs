//! The edge: from a word on the command line to a driver that runs, and what to say about it.
//!
//! The loop over a driver is generic; it is compiled once for each here, and nowhere is a driver
//! behind a pointer.

use super::driver::Driver;
use super::epoll::Epoll;
use super::outgoing::Outgoing;
use super::pool::Pool;
use super::uring::Uring;
use std::fmt;
use std::io;
use std::num::NonZeroUsize;
use std::thread;

/// Which driver is wanted.
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

/// How drivers are made.
#[derive(Clone, Debug)]
pub struct Options {
    /// Threads of a [`Pool`]; `None` for as many as there are cores to run on.
    pub threads: Option<NonZeroUsize>,
    /// Operations that a [`Uring`] gives the kernel with one call, 1 to 32,768, rounded up to a
    /// power of two; more take more calls. Each costs about 300 bytes.
    pub ring_entries: u32,
}

impl Default for Options {
    fn default() -> Options {
        Options { threads: None, ring_entries: 1024 }
    }
}

impl Options {
    /// How many threads that is.
    pub(super) fn threads(&self) -> usize {
        let cores = || thread::available_parallelism().unwrap_or(NonZeroUsize::MIN);
        self.threads.unwrap_or_else(cores).get()
    }
}

/// Which driver runs. Displayed: its name, and why it is not the one that was wanted.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Chosen {
    /// The driver that runs.
    pub kind: LoopKind,
    /// Why the wanted one does not.
    pub instead: Option<String>,
}

impl fmt::Display for Chosen {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.kind.fmt(f)?;
        self.instead.as_ref().map_or(Ok(()), |why| write!(f, ": {why}"))
    }
}

/// What runs on a driver, whichever it is.
pub trait WithDriver<P: Outgoing> {
    /// What it leaves behind.
    type Output;

    /// Runs, in the thread that chose. `chosen` is for the log.
    fn run<D: Driver<P>>(self, driver: D, chosen: Chosen) -> Self::Output;
}

/// Makes the wanted driver and runs `with` on it. If io_uring is wanted and there is none, takes
/// [`Epoll`].
///
/// # Errors
/// Those of making [`Epoll`] or [`Pool`]; then nothing has run.
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
