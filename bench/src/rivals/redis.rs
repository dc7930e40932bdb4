//! Redis over a unix socket, protocol RESP2.
//!
//! At depth 1, the client waits for each answer. At depth 64, it sends 64 commands before it reads.
//! `get_many` is one MGET at both depths.

use std::path::{Path, PathBuf};

use anyhow::{Context, Result, bail, ensure};

use super::{
    server::{self, Server},
    socket::Socket,
};
use crate::rival::{Rival, Shape, Sharing};
use crate::store::{AnyStore, Found, Keeper, Op, Store};

const PROGRAM: &str = "redis-server";

/// A command at a time.
pub static PER_OPERATION: Redis = Redis {
    name: "redis pipeline 1",
    batch: 1,
    settings: "unix socket, no saving, one command at a time; get_many: MGET of 64",
};
/// 64 commands at a time.
pub static PIPELINED: Redis = Redis {
    name: "redis pipeline 64",
    batch: 64,
    settings: "unix socket, no saving, 64 commands in one write; get_many: MGET of 64",
};

/// Redis at a depth of pipelining.
pub struct Redis {
    name: &'static str,
    batch: usize,
    settings: &'static str,
}

fn socket(site: &Path) -> PathBuf {
    site.join("redis.sock")
}

impl Rival for Redis {
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
        server::missing(PROGRAM, "redis-server")
    }

    fn prepare(&self, site: &Path, _shape: &Shape) -> Result<Option<Server>> {
        let socket = socket(site);
        let path = socket.to_str().context("the socket's path is not UTF-8")?;
        let directory = site.to_str().context("the directory's path is not UTF-8")?;
        // No configuration file is read when the first argument is an option.
        let arguments = ["--port", "0", "--unixsocket", path, "--unixsocketperm", "700"];
        let arguments = arguments.into_iter().chain(["--dir", directory, "--daemonize", "no"]);
        let arguments = arguments.chain(["--save", "", "--appendonly", "no"]);
        let arguments: Vec<String> = arguments.map(str::to_owned).collect();
        Ok(Some(Server::start(PROGRAM, &arguments, &socket)?))
    }
}

impl Keeper for Redis {
    fn batch(&self) -> usize {
        self.batch
    }

    fn open(&self, site: &Path, _shape: &Shape, threads: usize) -> Result<Vec<Box<AnyStore>>> {
        let connect = || Ok(Box::new(Client(Socket::connect(&socket(site))?)) as Box<AnyStore>);
        (0..threads).map(|_| connect()).collect()
    }
}

struct Client(Socket);

/// An answer, of the kinds that this client's commands get.
enum Answer<'a> {
    Done,
    Count(usize),
    Absent,
    Value(&'a [u8]),
}

impl Client {
    fn ask(&mut self, words: &[&[u8]]) {
        self.ask_head(words.len());
        for word in words {
            self.ask_word(word);
        }
    }

    fn ask_head(&mut self, words: usize) {
        self.number(b'*', words);
    }

    fn ask_word(&mut self, word: &[u8]) {
        self.number(b'$', word.len());
        self.0.outgoing.extend_from_slice(word);
        self.0.outgoing.extend_from_slice(b"\r\n");
    }

    fn number(&mut self, kind: u8, number: usize) {
        use std::io::Write;
        self.0.outgoing.push(kind);
        // Writing to a vector cannot fail.
        let _ = write!(self.0.outgoing, "{number}\r\n");
    }

    fn ask_op(&mut self, op: &Op<'_>) {
        match op {
            Op::Put(key, value) => self.ask(&[b"SET", key, value]),
            Op::Get(key) => self.ask(&[b"GET", key]),
            Op::Delete(key) => self.ask(&[b"DEL", key]),
        }
    }

    fn answer(&mut self) -> Result<Answer<'_>> {
        let line = self.0.take_line()?;
        let (kind, rest) = line.split_first().context("redis sent an empty line")?;
        let rest = std::str::from_utf8(rest).context("redis sent a line that is not text")?;
        match (kind, rest) {
            (b'+', _) => Ok(Answer::Done),
            (b'$', "-1") => Ok(Answer::Absent),
            (b'$', length) => {
                let length: usize = length.parse().context("redis sent an odd length")?;
                Ok(Answer::Value(&self.0.take(length + 2)?[..length]))
            }
            (b':' | b'*', count) => {
                Ok(Answer::Count(count.parse().context("redis sent an odd number")?))
            }
            _ => bail!("redis refused: {}{rest}", char::from(*kind)),
        }
    }
}

impl Store for Client {
    type Error = anyhow::Error;

    fn put(&mut self, key: &[u8], value: &[u8]) -> Result<()> {
        self.ask_op(&Op::Put(key, value));
        self.0.send()?;
        ensure!(matches!(self.answer()?, Answer::Done), "redis did not confirm a SET");
        Ok(())
    }

    fn get(&mut self, key: &[u8], out: &mut Vec<u8>) -> Result<bool> {
        self.ask_op(&Op::Get(key));
        self.0.send()?;
        let Answer::Value(value) = self.answer()? else { return Ok(false) };
        out.clear();
        out.extend_from_slice(value);
        Ok(true)
    }

    fn delete(&mut self, key: &[u8]) -> Result<bool> {
        self.ask_op(&Op::Delete(key));
        self.0.send()?;
        Ok(matches!(self.answer()?, Answer::Count(1)))
    }

    fn get_many(&mut self, keys: &[&[u8]], found: Found<'_>) -> Result<()> {
        self.ask_head(keys.len() + 1);
        self.ask_word(b"MGET");
        for key in keys {
            self.ask_word(key);
        }
        self.0.send()?;
        let Answer::Count(count) = self.answer()? else { bail!("redis sent no list for an MGET") };
        ensure!(count == keys.len(), "redis answered {count} of {} keys", keys.len());
        for at in 0..count {
            if let Answer::Value(value) = self.answer()? {
                found(at, value);
            }
        }
        Ok(())
    }

    fn run(&mut self, ops: &[Op<'_>], found: Found<'_>) -> Result<()> {
        for op in ops {
            self.ask_op(op);
        }
        self.0.send()?;
        for (at, op) in ops.iter().enumerate() {
            match (op, self.answer()?) {
                (Op::Get(_), Answer::Value(value)) => found(at, value),
                (Op::Get(_), Answer::Absent)
                | (Op::Put(..), Answer::Done)
                | (Op::Delete(_), Answer::Count(_)) => {}
                _ => bail!("redis answered another command than the one at place {at}"),
            }
        }
        Ok(())
    }
}
