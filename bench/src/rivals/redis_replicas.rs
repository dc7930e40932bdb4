//! Redis with sixteen replicas, from the primary's point of view: connections that sent `SYNC`,
//! received the (empty) table, and read the changes that the primary sends.

use std::{
    io::{BufRead, BufReader, Read, Write},
    ops::Range,
    os::{fd::OwnedFd, unix::net::UnixStream},
    path::{Path, PathBuf},
};

use anyhow::{Context, Result, ensure};

use super::{
    followers::Followers,
    server::{self, Server},
    socket::Socket,
};
use crate::{
    messages::{Carrier, Port},
    rival::{Rival, Shape, Sharing},
    workloads::replicate::{FOLLOWERS, KEY, VALUE, change},
};

const PROGRAM: &str = "redis-server";
/// Commands in one write.
const BATCH: usize = 64;
const CONFIRMED: &[u8] = b"+OK\r\n";
/// The bytes before the first change.
const SELECT: &str = "*2\r\n$6\r\nSELECT\r\n$1\r\n0\r\n";

/// See the module.
pub struct Replicas;

fn socket(site: &Path) -> PathBuf {
    site.join("redis.sock")
}

/// A change as a command, which is also how the primary passes it on.
fn command(change: &[u8]) -> Vec<u8> {
    let (key, value) = change.split_at(KEY);
    let mut bytes = format!("*3\r\n$3\r\nSET\r\n${KEY}\r\n").into_bytes();
    bytes.extend_from_slice(key);
    bytes.extend_from_slice(format!("\r\n${VALUE}\r\n").as_bytes());
    bytes.extend_from_slice(value);
    bytes.extend_from_slice(b"\r\n");
    bytes
}

impl Rival for Replicas {
    fn name(&self) -> &'static str {
        "redis replicas"
    }

    fn version(&self) -> Result<String> {
        server::version(PROGRAM)
    }

    fn settings(&self) -> &'static str {
        "unix sockets, no saving, 64 SETs in one write, replicas' buffers unlimited"
    }

    fn sharing(&self) -> Sharing {
        Sharing::Processes
    }

    fn plays(&self, workload: &str) -> bool {
        workload == "replicate"
    }

    fn missing(&self) -> Option<String> {
        server::missing(PROGRAM, "redis-server")
    }

    fn prepare(&self, site: &Path, _shape: &Shape) -> Result<Option<Server>> {
        let socket = socket(site);
        let path = socket.to_str().context("the socket's path is not UTF-8")?;
        let directory = site.to_str().context("the directory's path is not UTF-8")?;
        let arguments = ["--port", "0", "--unixsocket", path, "--unixsocketperm", "700"];
        let arguments = arguments.into_iter().chain(["--dir", directory, "--daemonize", "no"]);
        let arguments = arguments.chain(["--save", "", "--appendonly", "no"]);
        let arguments = arguments.chain(["--client-output-buffer-limit", "replica 0 0 0"]);
        let arguments = arguments.chain(["--repl-diskless-sync", "no"]);
        let arguments = arguments.chain(["--repl-ping-replica-period", "3600"]);
        let arguments: Vec<String> = arguments.map(str::to_owned).collect();
        Ok(Some(Server::start(PROGRAM, &arguments, &socket)?))
    }
}

impl Carrier for Replicas {
    fn open(&self, site: &Path, _shape: &Shape, workers: Range<u64>) -> Result<Vec<Box<dyn Port>>> {
        let open = |worker| -> Result<Box<dyn Port>> {
            match worker {
                0 => Ok(Box::new(Writer { socket: Socket::connect(&socket(site))?, waiting: 0 })),
                _ => Ok(Box::new(Readers::open(site)?)),
            }
        };
        workers.map(open).collect()
    }
}

struct Writer {
    socket: Socket,
    /// The number of commands that are not confirmed yet.
    waiting: usize,
}

impl Port for Writer {
    fn send(&mut self, message: &[u8]) -> Result<()> {
        self.socket.outgoing.extend(command(message));
        self.waiting += 1;
        if self.waiting == BATCH { self.flush() } else { Ok(()) }
    }

    fn flush(&mut self) -> Result<()> {
        self.socket.send()?;
        for _ in 0..std::mem::take(&mut self.waiting) {
            let said = self.socket.take(CONFIRMED.len())?;
            ensure!(said == CONFIRMED, "redis did not confirm a SET");
        }
        Ok(())
    }
}

struct Readers {
    followers: Followers,
    changes: u64,
}

impl Readers {
    fn open(site: &Path) -> Result<Readers> {
        let sockets = (0..FOLLOWERS).map(|_| synchronise(site)).collect::<Result<Vec<_>>>()?;
        Ok(Readers { followers: Followers::new(sockets), changes: 0 })
    }
}

/// Becomes a replica, and receives the table.
fn synchronise(site: &Path) -> Result<OwnedFd> {
    let mut stream = UnixStream::connect(socket(site)).context("cannot connect to redis")?;
    stream.write_all(b"SYNC\r\n").context("redis does not accept SYNC")?;
    // This reads byte by byte, because it must not take any bytes that follow the table.
    let mut reader = BufReader::with_capacity(1, &stream);
    let mut line = String::new();
    while line.trim().is_empty() {
        line.clear();
        let read = reader.read_line(&mut line).context("redis sends no table")?;
        ensure!(read > 0, "redis has closed the connection of a replica");
    }
    let length = line.trim().strip_prefix('$').and_then(|length| length.parse().ok());
    let length: u64 = length.with_context(|| format!("redis answered SYNC with {line:?}"))?;
    let mut table = Vec::new();
    reader.take(length).read_to_end(&mut table).context("redis sends no table")?;
    ensure!(table.len() as u64 == length, "redis sent half a table");
    Ok(stream.into())
}

impl Port for Readers {
    fn deliver(&mut self, changes: u64) -> Result<()> {
        self.changes += changes;
        let last = command(&change(self.changes - 1));
        let bytes = SELECT.len() as u64 + self.changes * last.len() as u64;
        self.followers.read(bytes, &last)
    }
}
