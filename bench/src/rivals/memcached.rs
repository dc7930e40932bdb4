//! memcached over a unix socket, with the binary protocol, which accepts keys of any bytes.
//!
//! At depth 1, the client waits for each answer. At depth 64, it sends 64 requests before it reads.
//! These have the quiet forms, which the server answers only if necessary. `get_many` is 64 quiet
//! gets at both depths.

use std::path::{Path, PathBuf};

use anyhow::{Context, Result, bail, ensure};

use super::{
    server::{self, Server},
    socket::Socket,
};
use crate::rival::{Rival, Shape, Sharing};
use crate::store::{AnyStore, Found, Keeper, Op, Store};

const PROGRAM: &str = "memcached";
const REQUEST: u8 = 0x80;
const RESPONSE: u8 = 0x81;
const HEADER_BYTES: usize = 24;
const STATUS_OK: u16 = 0;
const STATUS_ABSENT: u16 = 1;

const GET: u8 = 0x00;
const SET: u8 = 0x01;
const DELETE: u8 = 0x04;
const GET_QUIETLY: u8 = 0x09;
const NOTHING: u8 = 0x0a;
const SET_QUIETLY: u8 = 0x11;
const DELETE_QUIETLY: u8 = 0x14;

/// A request at a time.
pub static PER_OPERATION: Memcached = Memcached {
    name: "memcached pipeline 1",
    batch: 1,
    settings: "unix socket, 2 threads, room for 8 GiB, no eviction, one request at a time; \
               get_many: 64 quiet gets",
};
/// 64 requests at a time.
pub static PIPELINED: Memcached = Memcached {
    name: "memcached pipeline 64",
    batch: 64,
    settings: "unix socket, 2 threads, room for 8 GiB, no eviction, 64 quiet requests in one \
               write; get_many: 64 quiet gets",
};

/// memcached at a depth of pipelining.
pub struct Memcached {
    name: &'static str,
    batch: usize,
    settings: &'static str,
}

fn socket(site: &Path) -> PathBuf {
    site.join("memcached.sock")
}

impl Rival for Memcached {
    fn name(&self) -> &'static str {
        self.name
    }

    fn version(&self) -> Result<String> {
        server::version(PROGRAM)
    }

    fn settings(&self) -> &'static str {
        self.settings
    }

    fn sharing(&self) -> Sharing {
        Sharing::Processes
    }

    fn missing(&self) -> Option<String> {
        server::missing(PROGRAM, "memcached")
    }

    fn prepare(&self, site: &Path, _shape: &Shape) -> Result<Option<Server>> {
        let socket = socket(site);
        let path = socket.to_str().context("the socket's path is not UTF-8")?;
        // -M: when memory is full, return an error, instead of silently evicting keys.
        let mut arguments = vec!["-s", path, "-a", "0700", "-m", "8192", "-M", "-t", "2"];
        if rustix::process::geteuid().is_root() {
            // memcached refuses to run as root without this option. It is our own process, on our
            // own socket.
            arguments.extend(["-u", "root"]);
        }
        let arguments: Vec<String> = arguments.into_iter().map(str::to_owned).collect();
        Ok(Some(Server::start(PROGRAM, &arguments, &socket)?))
    }
}

impl Keeper for Memcached {
    fn batch(&self) -> usize {
        self.batch
    }

    fn open(&self, site: &Path, _shape: &Shape, threads: usize) -> Result<Vec<Box<AnyStore>>> {
        let connect = || {
            let socket = Socket::connect(&socket(site))?;
            Ok(Box::new(Client { socket, body: Vec::new() }) as Box<AnyStore>)
        };
        (0..threads).map(|_| connect()).collect()
    }
}

struct Client {
    socket: Socket,
    body: Vec<u8>,
}

/// The head of an answer; the value is in [`Client::body`].
struct Answer {
    code: u8,
    status: u16,
    place: usize,
}

impl Client {
    /// `extras` are the fields that SET sends between header and key: flags and time to live.
    fn ask(&mut self, code: u8, place: usize, extras: &[u8], key: &[u8], value: &[u8]) {
        let body = extras.len() + key.len() + value.len();
        let mut header = [0; HEADER_BYTES];
        header[0] = REQUEST;
        header[1] = code;
        header[2..4].copy_from_slice(&(key.len() as u16).to_be_bytes());
        header[4] = extras.len() as u8;
        header[8..12].copy_from_slice(&(body as u32).to_be_bytes());
        header[12..16].copy_from_slice(&(place as u32).to_be_bytes());
        let outgoing = &mut self.socket.outgoing;
        for part in [&header, extras, key, value] {
            outgoing.extend_from_slice(part);
        }
    }

    fn answer(&mut self) -> Result<Answer> {
        let header = self.socket.take(HEADER_BYTES)?;
        ensure!(header[0] == RESPONSE, "memcached sent no answer but a byte {:#x}", header[0]);
        let code = header[1];
        let key = usize::from(u16::from_be_bytes([header[2], header[3]]));
        let extras = usize::from(header[4]);
        let status = u16::from_be_bytes([header[6], header[7]]);
        let body = u32::from_be_bytes([header[8], header[9], header[10], header[11]]) as usize;
        let place = u32::from_be_bytes([header[12], header[13], header[14], header[15]]) as usize;
        let body = self.socket.take(body)?;
        let value = body.get(extras + key..).context("memcached sent odd lengths")?;
        self.body.clear();
        self.body.extend_from_slice(value);
        ensure!(
            matches!(status, STATUS_OK | STATUS_ABSENT),
            "memcached refused: {}",
            String::from_utf8_lossy(&self.body)
        );
        Ok(Answer { code, status, place })
    }

    /// Sends one loud request and reads its answer. Returns whether it found something.
    fn call(&mut self, code: u8, extras: &[u8], key: &[u8], value: &[u8]) -> Result<bool> {
        self.ask(code, 0, extras, key, value);
        self.socket.send()?;
        let answer = self.answer()?;
        ensure!(answer.code == code, "memcached answered another request");
        Ok(answer.status == STATUS_OK)
    }

    /// Sends the quiet requests with a loud one at the end, and reads up to its answer.
    fn call_quietly(&mut self, found: Found<'_>) -> Result<()> {
        self.ask(NOTHING, 0, &[], &[], &[]);
        self.socket.send()?;
        loop {
            let answer = self.answer()?;
            match answer.code {
                NOTHING => return Ok(()),
                GET_QUIETLY => found(answer.place, &self.body),
                // The server answers only failures. A missing key to delete does not count as one
                // here.
                DELETE_QUIETLY if answer.status == STATUS_ABSENT => {}
                other => bail!("memcached answered {other:#x} to quiet requests"),
            }
        }
    }
}

// No flags, no time to live.
const SET_EXTRAS: [u8; 8] = [0; 8];

impl Store for Client {
    type Error = anyhow::Error;

    fn put(&mut self, key: &[u8], value: &[u8]) -> Result<()> {
        let stored = self.call(SET, &SET_EXTRAS, key, value)?;
        ensure!(stored, "memcached did not confirm a set");
        Ok(())
    }

    fn get(&mut self, key: &[u8], out: &mut Vec<u8>) -> Result<bool> {
        let there = self.call(GET, &[], key, &[])?;
        if there {
            out.clear();
            out.extend_from_slice(&self.body);
        }
        Ok(there)
    }

    fn delete(&mut self, key: &[u8]) -> Result<bool> {
        self.call(DELETE, &[], key, &[])
    }

    fn get_many(&mut self, keys: &[&[u8]], found: Found<'_>) -> Result<()> {
        for (place, key) in keys.iter().enumerate() {
            self.ask(GET_QUIETLY, place, &[], key, &[]);
        }
        self.call_quietly(found)
    }

    fn run(&mut self, ops: &[Op<'_>], found: Found<'_>) -> Result<()> {
        for (place, op) in ops.iter().enumerate() {
            match op {
                Op::Put(key, value) => self.ask(SET_QUIETLY, place, &SET_EXTRAS, key, value),
                Op::Get(key) => self.ask(GET_QUIETLY, place, &[], key, &[]),
                Op::Delete(key) => self.ask(DELETE_QUIETLY, place, &[], key, &[]),
            }
        }
        self.call_quietly(found)
    }
}
