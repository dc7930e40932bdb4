//! NATS: one publisher on a subject, sixteen subscribers. It has no table, and only passes messages
//! on.

use std::{
    fs,
    io::{Read, Write},
    net::{Ipv4Addr, TcpListener, TcpStream},
    ops::Range,
    path::{Path, PathBuf},
};

use anyhow::{Context, Result, ensure};

use super::{
    followers::Followers,
    server::{self, Server},
};
use crate::{
    messages::{Carrier, Port},
    rival::{Rival, Shape, Sharing},
    workloads::replicate::{FOLLOWERS, KEY, VALUE, change},
};

const PROGRAM: &str = "nats-server";
const LENGTH: usize = KEY + VALUE;
/// Bytes in one write.
const BATCH: usize = 8 << 10;
const CONNECT: &[u8] = b"CONNECT {\"verbose\":false,\"pedantic\":false}\r\n";

/// See the module.
pub struct Nats;

/// The file that contains the port.
fn port_file(site: &Path) -> PathBuf {
    site.join("nats.port")
}

impl Rival for Nats {
    fn name(&self) -> &'static str {
        "nats"
    }

    fn version(&self) -> Result<String> {
        server::version(PROGRAM)
    }

    fn settings(&self) -> &'static str {
        "TCP on the loopback interface, some 80 PUBs in one write, max_pending 4GB"
    }

    fn sharing(&self) -> Sharing {
        Sharing::Processes
    }

    fn plays(&self, workload: &str) -> bool {
        workload == "replicate"
    }

    fn missing(&self) -> Option<String> {
        server::missing(PROGRAM, "nats-server")
    }

    fn prepare(&self, site: &Path, _shape: &Shape) -> Result<Option<Server>> {
        // It has no unix sockets. A port that was free a moment ago is probably still free;
        // otherwise the server reports it.
        let free = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).context("no port is free")?;
        let port = free.local_addr()?.port();
        drop(free);
        let settings = site.join("nats.conf");
        let text = format!(
            "listen: \"127.0.0.1:{port}\"\nmax_pending: 4GB\nwrite_deadline: \"60s\"\nping_interval: \"1h\"\n"
        );
        fs::write(&settings, text).context("cannot write its settings")?;
        fs::write(port_file(site), port.to_string()).context("cannot record its port")?;
        let path = settings.to_str().context("the path of its settings is not UTF-8")?;
        let arguments = ["-c".to_owned(), path.to_owned()];
        let answers = || TcpStream::connect((Ipv4Addr::LOCALHOST, port)).is_ok();
        Ok(Some(Server::start_when(PROGRAM, &arguments, &site.join("nats.log"), &answers)?))
    }
}

impl Carrier for Nats {
    fn open(&self, site: &Path, _shape: &Shape, workers: Range<u64>) -> Result<Vec<Box<dyn Port>>> {
        let open = |worker| -> Result<Box<dyn Port>> {
            match worker {
                0 => Ok(Box::new(Publisher { stream: connect(site, b"")?, outgoing: Vec::new() })),
                _ => Ok(Box::new(Subscribers::open(site)?)),
            }
        };
        workers.map(open).collect()
    }
}

/// Connects, sends `words`, and waits until the server has processed all of them.
fn connect(site: &Path, words: &[u8]) -> Result<TcpStream> {
    let port = fs::read_to_string(port_file(site)).context("its port is not recorded")?;
    let port: u16 = port.parse().context("its port is not a number")?;
    let mut stream = TcpStream::connect((Ipv4Addr::LOCALHOST, port)).context("cannot connect")?;
    stream.set_nodelay(true)?;
    stream.write_all(&[CONNECT, words, b"PING\r\n"].concat()).context("it takes no commands")?;
    hear_pong(&mut stream)?;
    Ok(stream)
}

/// Reads up to its PONG, and not further.
fn hear_pong(stream: &mut TcpStream) -> Result<()> {
    let mut heard = Vec::new();
    while !heard.ends_with(b"PONG\r\n") {
        let mut byte = [0];
        stream.read_exact(&mut byte).context("nats has closed the connection")?;
        heard.push(byte[0]);
    }
    let refused = heard.windows(4).any(|part| part == b"-ERR");
    ensure!(!refused, "nats refused: {}", String::from_utf8_lossy(&heard));
    Ok(())
}

struct Publisher {
    stream: TcpStream,
    outgoing: Vec<u8>,
}

impl Publisher {
    fn write(&mut self) -> Result<()> {
        self.stream.write_all(&self.outgoing).context("nats does not accept messages")?;
        self.outgoing.clear();
        Ok(())
    }
}

impl Port for Publisher {
    fn send(&mut self, message: &[u8]) -> Result<()> {
        self.outgoing.extend_from_slice(format!("PUB s {LENGTH}\r\n").as_bytes());
        self.outgoing.extend_from_slice(message);
        self.outgoing.extend_from_slice(b"\r\n");
        if self.outgoing.len() >= BATCH { self.write() } else { Ok(()) }
    }

    fn flush(&mut self) -> Result<()> {
        self.outgoing.extend_from_slice(b"PING\r\n");
        self.write()?;
        hear_pong(&mut self.stream)
    }
}

struct Subscribers {
    followers: Followers,
    changes: u64,
}

impl Subscribers {
    fn open(site: &Path) -> Result<Subscribers> {
        let subscribe = |_| Ok(connect(site, b"SUB s 1\r\n")?.into());
        let sockets = (0..FOLLOWERS).map(subscribe).collect::<Result<Vec<_>>>()?;
        Ok(Subscribers { followers: Followers::new(sockets), changes: 0 })
    }
}

impl Port for Subscribers {
    fn deliver(&mut self, changes: u64) -> Result<()> {
        self.changes += changes;
        let head = format!("MSG s 1 {LENGTH}\r\n");
        let last = [head.as_bytes(), &change(self.changes - 1), b"\r\n"].concat();
        self.followers.read(self.changes * last.len() as u64, &last)
    }
}
