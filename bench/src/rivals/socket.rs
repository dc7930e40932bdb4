//! A connection to a server: outgoing and received bytes, each in one buffer.
//!
//! The clients of redis and memcached are written here rather than taken from a crate so that they
//! cost the rivals as little as possible, and so that a pipeline is exactly one write and as few
//! reads as the answers need. Called by those two rivals only.

use std::{
    io::{Read, Write},
    os::unix::net::UnixStream,
    path::Path,
};

use anyhow::{Context, Result, ensure};

const READ_BYTES: usize = 64 << 10;

/// One connection. Fill [`Socket::outgoing`], [`Socket::send`] it, and then take the answers.
pub struct Socket {
    stream: UnixStream,
    /// Collects requests until they are sent.
    pub outgoing: Vec<u8>,
    incoming: Vec<u8>,
    taken: usize,
    filled: usize,
}

impl Socket {
    /// Connects to the server that listens on `path`.
    pub fn connect(path: &Path) -> Result<Socket> {
        let stream = UnixStream::connect(path)
            .with_context(|| format!("cannot connect to {}", path.display()))?;
        Ok(Socket {
            stream,
            outgoing: Vec::new(),
            incoming: vec![0; READ_BYTES],
            taken: 0,
            filled: 0,
        })
    }

    /// Sends all collected requests, in one write unless the kernel accepts less.
    pub fn send(&mut self) -> Result<()> {
        self.stream.write_all(&self.outgoing).context("the server does not accept a request")?;
        self.outgoing.clear();
        Ok(())
    }

    /// Waits for exactly `count` bytes and takes them.
    pub fn take(&mut self, count: usize) -> Result<&[u8]> {
        while self.filled - self.taken < count {
            self.receive(count)?;
        }
        self.taken += count;
        Ok(&self.incoming[self.taken - count..self.taken])
    }

    /// Waits for a line that ends in CR LF and takes it; returns it without the two.
    pub fn take_line(&mut self) -> Result<&[u8]> {
        let mut searched = 0;
        loop {
            let waiting = &self.incoming[self.taken..self.filled];
            if let Some(at) = waiting[searched..].iter().position(|byte| *byte == b'\n') {
                let line = self.take(searched + at + 1)?;
                return line.strip_suffix(b"\r\n").context("a line ends without CR LF");
            }
            searched = waiting.len();
            self.receive(searched + 1)?;
        }
    }

    /// Makes room for `count` bytes from `taken` on, and reads the available bytes.
    fn receive(&mut self, count: usize) -> Result<()> {
        if self.taken == self.filled {
            (self.taken, self.filled) = (0, 0);
        }
        if self.taken + count > self.incoming.len() {
            self.incoming.copy_within(self.taken..self.filled, 0);
            (self.taken, self.filled) = (0, self.filled - self.taken);
            if count > self.incoming.len() {
                self.incoming.resize(count.next_power_of_two(), 0);
            }
        }
        let read = self.stream.read(&mut self.incoming[self.filled..]);
        let read = read.context("cannot read the server's answer")?;
        ensure!(read > 0, "the server closed the connection");
        self.filled += read;
        Ok(())
    }
}
