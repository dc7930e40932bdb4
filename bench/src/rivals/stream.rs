//! Byte streams of the kernel: unix sockets, and pipes.
//!
//! Each message is written by one call. A reader takes as many bytes as have arrived. Both wait in
//! the kernel. The socket has a name in the run's directory, and the pipes are named, because no
//! worker is a child of another. The kernel treats them like a `socketpair` and a `pipe`.

use std::{
    fs::{File, OpenOptions},
    io::{Read, Write},
    ops::Range,
    os::unix::net::{UnixListener, UnixStream},
    path::{Path, PathBuf},
    thread,
    time::{Duration, Instant},
};

use anyhow::{Context, Result, ensure};
use rustix::fs::{CWD, FileType, Mode, mknodat};

use crate::{
    messages::{Carrier, Each, Port},
    rival::{Rival, Shape, Sharing},
    rivals::server::Server,
    workloads::message,
};

/// The most bytes of one read: the capacity of a pipe.
const BUFFER_BYTES: usize = 64 << 10;
const BETWEEN_TRIES: Duration = Duration::from_millis(1);
const LIMIT: Duration = Duration::from_secs(20);

/// A unix stream socket.
pub static SOCKET: Stream =
    Stream { name: "unix socket", kind: Kind::Socket, settings: "stream socket, default buffers" };
/// A pipe in each direction.
pub static PIPE: Stream =
    Stream { name: "pipe", kind: Kind::Pipe, settings: "a named pipe each way, 64 KiB" };

enum Kind {
    Socket,
    Pipe,
}

/// One of the two.
pub struct Stream {
    name: &'static str,
    kind: Kind,
    settings: &'static str,
}

impl Rival for Stream {
    fn name(&self) -> &'static str {
        self.name
    }

    fn version(&self) -> Result<String> {
        Ok("the kernel's".to_owned())
    }

    fn settings(&self) -> &'static str {
        self.settings
    }

    fn sharing(&self) -> Sharing {
        Sharing::Processes
    }

    fn plays(&self, workload: &str) -> bool {
        workload == "channel"
    }

    fn prepare(&self, site: &Path, _shape: &Shape) -> Result<Option<Server>> {
        if let Kind::Pipe = self.kind {
            for worker in 0..2 {
                mknodat(CWD, pipe_of(site, worker), FileType::Fifo, Mode::RUSR | Mode::WUSR, 0)
                    .context("cannot make a pipe")?;
            }
        }
        Ok(None)
    }
}

impl Carrier for Stream {
    fn open(&self, site: &Path, _shape: &Shape, workers: Range<u64>) -> Result<Vec<Box<dyn Port>>> {
        match self.kind {
            Kind::Pipe => workers.map(|worker| pipe_end(site, worker)).collect(),
            Kind::Socket => socket_ends(site, workers),
        }
    }
}

fn pipe_end(site: &Path, worker: u64) -> Result<Box<dyn Port>> {
    Ok(Box::new(End::new(pipe(site, worker)?, pipe(site, 1 - worker)?)))
}

fn pipe_of(site: &Path, sender: u64) -> PathBuf {
    site.join(format!("from-{sender}"))
}

/// Opens a pipe for both reading and writing, so that opening does not wait, and needs no order.
fn pipe(site: &Path, sender: u64) -> Result<File> {
    let file = OpenOptions::new().read(true).write(true).open(pipe_of(site, sender));
    file.context("cannot open a pipe")
}

/// Worker 0 listens. If worker 1 is in this process, too, it connects before worker 0 accepts.
fn socket_ends(site: &Path, workers: Range<u64>) -> Result<Vec<Box<dyn Port>>> {
    let path = site.join("socket");
    let listener = workers.contains(&0).then(|| UnixListener::bind(&path));
    let listener = listener.transpose().context("cannot listen on a socket")?;
    let connected = workers.contains(&1).then(|| connect(&path)).transpose()?;
    let accepted = listener.map(|listener| listener.accept()).transpose()?;
    let streams = accepted.map(|(stream, _)| stream).into_iter().chain(connected);
    let end = |stream: UnixStream| Ok(Box::new(End::new(stream.try_clone()?, stream)) as Box<_>);
    streams.map(end).collect()
}

/// Connects, and retries while the other process does not listen yet: it cannot announce when it
/// does.
fn connect(path: &Path) -> Result<UnixStream> {
    let start = Instant::now();
    loop {
        match UnixStream::connect(path) {
            Ok(stream) => return Ok(stream),
            Err(error) if start.elapsed() > LIMIT => return Err(error).context("cannot connect"),
            Err(_) => thread::sleep(BETWEEN_TRIES),
        }
    }
}

struct End<S> {
    outgoing: S,
    incoming: S,
    buffer: Vec<u8>,
    /// The part of the buffer that was read, but not passed on yet.
    unread: Range<usize>,
}

impl<S: Read + Write + Send> End<S> {
    fn new(outgoing: S, incoming: S) -> End<S> {
        End { outgoing, incoming, buffer: vec![0; BUFFER_BYTES], unread: 0..0 }
    }

    /// Reads until there is a whole message.
    fn fill(&mut self) -> Result<()> {
        self.buffer.copy_within(self.unread.clone(), 0);
        self.unread = 0..self.unread.len();
        while self.unread.len() < message::BYTES {
            let read = self.incoming.read(&mut self.buffer[self.unread.end..])?;
            ensure!(read > 0, "the sender has gone");
            self.unread.end += read;
        }
        Ok(())
    }
}

impl<S: Read + Write + Send> Port for End<S> {
    fn send(&mut self, message: &[u8]) -> Result<()> {
        self.outgoing.write_all(message).context("the receiver has gone")
    }

    fn receive(&mut self, most: usize, each: Each<'_>) -> Result<usize> {
        if self.unread.len() < message::BYTES {
            self.fill()?;
        }
        let whole = self.buffer[self.unread.clone()].chunks_exact(message::BYTES).take(most);
        let count = whole.map(each).count();
        self.unread.start += count * message::BYTES;
        Ok(count)
    }
}
