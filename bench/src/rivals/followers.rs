//! Connections that only receive. One thread reads all of them.
//!
//! Only the number of received bytes and the last of them are checked, because every change of the
//! workload has the same length. Called by the rivals of the workload `replicate` that are servers.

use std::os::fd::{AsFd, OwnedFd};

use anyhow::{Context, Result, ensure};
use rustix::event::{PollFd, PollFlags, poll};

const READ_BYTES: usize = 256 << 10;
/// The most bytes that a server may send after the last change, such as a ping.
const MORE: usize = 256;

/// See the module.
pub struct Followers {
    all: Vec<Follower>,
    buffer: Vec<u8>,
}

struct Follower {
    socket: OwnedFd,
    bytes: u64,
    /// The last bytes.
    end: Vec<u8>,
}

impl Followers {
    /// Follows over these connections. The caller has already read everything before the first
    /// change.
    pub fn new(sockets: impl IntoIterator<Item = OwnedFd>) -> Followers {
        let follower = |socket| Follower { socket, bytes: 0, end: Vec::new() };
        let all = sockets.into_iter().map(follower).collect();
        Followers { all, buffer: vec![0; READ_BYTES] }
    }

    /// Reads until each has received at least this number of bytes, with `end` among the last: a
    /// server may send a little more of its own.
    pub fn read(&mut self, bytes: u64, end: &[u8]) -> Result<()> {
        loop {
            let waits = |follower: &&mut Follower| !follower.has(bytes, end);
            let mut waiting: Vec<&mut Follower> = self.all.iter_mut().filter(waits).collect();
            if waiting.is_empty() {
                break;
            }
            let sockets =
                waiting.iter().map(|follower| follower.socket.as_fd().try_clone_to_owned());
            let sockets = sockets.collect::<std::io::Result<Vec<_>>>()?;
            let mut polled: Vec<_> =
                sockets.iter().map(|socket| PollFd::new(socket, PollFlags::IN)).collect();
            poll(&mut polled, None).context("cannot wait for changes")?;
            for (follower, polled) in waiting.iter_mut().zip(&polled) {
                if !polled.revents().is_empty() {
                    follower.take(&mut self.buffer, end.len() + MORE)?;
                }
            }
        }
        Ok(())
    }
}

impl Follower {
    /// Whether everything has arrived.
    fn has(&self, bytes: u64, end: &[u8]) -> bool {
        self.bytes >= bytes && self.end.windows(end.len()).any(|part| part == end)
    }

    fn take(&mut self, buffer: &mut [u8], kept: usize) -> Result<()> {
        let read = rustix::io::read(&self.socket, &mut *buffer).context("cannot read changes")?;
        ensure!(read > 0, "the server has closed a connection: it could not keep up");
        self.bytes += read as u64;
        self.end.extend_from_slice(&buffer[read.saturating_sub(kept)..read]);
        let excess = self.end.len().saturating_sub(kept);
        self.end.drain(..excess);
        Ok(())
    }
}
