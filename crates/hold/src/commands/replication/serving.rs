//! The serving side: its addresses, its options, and its reports.

use super::secret::SecretFile;
use crate::commands::shared::inherited_sockets::inherited_sockets;
use clap::ValueEnum;
use commonhold::Hold;
use commonhold::map::Map;
use commonhold_io::address;
use commonhold_io::sockets::LoopKind;
use commonhold_replicate::{
    Address, Compression, HoldOrigin, HoldOriginOptions, Notice, Origin, OriginOptions, Secret,
    Transmission,
};
use commonhold_terminal::descriptors;
use commonhold_terminal::failure::{Failure, Result, note};
use commonhold_terminal::output::Output;
use commonhold_terminal::sizes::{self, things};
use commonhold_terminal::text::printable;
use serde_json::json;
use std::os::fd::{AsFd, OwnedFd};
use std::sync::Arc;
use std::time::Duration;

/// How long shutdown may take.
const GRACE: Duration = Duration::from_secs(5);
/// Descriptors that an origin needs besides one for each replica.
const OTHER_DESCRIPTORS: u64 = 128;

/// Addresses and server options.
#[derive(clap::Args, Debug)]
pub struct Serve {
    /// Address to listen on: unix:PATH, HOST:PORT, or :PORT (this machine only); port 0
    /// selects a free port. You can give this option several times. An address that other machines
    /// can connect to requires --secret-file or --allow-unauthenticated
    #[arg(long, value_name = "ADDRESS")]
    listen: Vec<Address>,

    /// Number of threads that serve replicas
    #[arg(long, value_name = "N", default_value_t = 1,
        value_parser = clap::value_parser!(u8).range(1..=64))]
    io_threads: u8,

    /// How these threads wait for the network
    #[arg(long = "loop", value_enum, default_value_t = Loop::Epoll)]
    kind: Loop,

    /// Size of the map's stream; without this option, an existing stream keeps its size, and a new
    /// one is 64M
    #[arg(long, value_name = "SIZE", value_parser = sizes::bytes, default_value = "0")]
    #[arg(hide_default_value = true)]
    stream_size: u64,

    /// Send in batches: when this many bytes of changes are pending, or when the time set by
    /// --delay has passed; requires --delay [default: send each change immediately]
    #[arg(long, value_name = "SIZE", value_parser = sizes::bytes, requires = "delay")]
    watermark: Option<u64>,

    /// Maximum time to delay changes while fewer than --watermark bytes are pending; a time
    /// above 100ms is treated as 100ms; requires --watermark
    #[arg(long, value_name = "TIME", value_parser = sizes::wait, requires = "watermark")]
    delay: Option<Duration>,

    /// Accept connections to unix sockets only from these users; the sockets' permissions also
    /// apply
    #[arg(long, value_name = "UID,...", value_delimiter = ',')]
    allow_uid: Vec<u32>,

    /// Listen without a secret on addresses that other machines can connect to: every client that
    /// connects can then read the map
    #[arg(long, conflicts_with = "secret_file")]
    allow_unauthenticated: bool,

    /// Maximum number of replicas; connections that have not yet identified themselves do not count
    #[arg(long, value_name = "N", default_value_t = 8192,
        value_parser = clap::value_parser!(u32).range(1..))]
    max_replicas: u32,
}

/// How threads wait for the network.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
enum Loop {
    /// epoll, with one system call for each replica
    Epoll,
    /// epoll, with a pool of threads for the system calls
    Pool,
    /// io_uring, with one system call for many replicas; epoll if io_uring is not available
    Uring,
}

impl From<Loop> for LoopKind {
    fn from(kind: Loop) -> LoopKind {
        match kind {
            Loop::Epoll => LoopKind::Epoll,
            Loop::Pool => LoopKind::Pool,
            Loop::Uring => LoopKind::Uring,
        }
    }
}

/// The listeners: addresses, and sockets that were passed to this process.
pub struct Places {
    addresses: Vec<Address>,
    sockets: Vec<OwnedFd>,
}

impl Places {
    /// Refuses addresses that other machines can connect to.
    fn ensure_local(&self) -> Result<()> {
        let passed = self.sockets.iter().filter_map(|socket| Address::of_socket(socket.as_fd()));
        let mut all = self.addresses.iter().cloned().chain(passed);
        match all.find(|address| !address::is_local(address)) {
            None => Ok(()),
            Some(address) => Err(Failure::usage(format!(
                "{address}: other machines can connect, but no secret is set; add --secret-file \
                 FILE, or --allow-unauthenticated to let every client read the map"
            ))),
        }
    }
}

impl Serve {
    /// The requested listeners.
    ///
    /// # Errors
    /// Usage, if there are none, or if other machines can connect to one of them without a secret;
    /// if the sockets that were passed are not stream sockets.
    pub fn places(&self, subcommand: &str, secret: &SecretFile) -> Result<Places> {
        let sockets = inherited_sockets()?;
        if sockets.is_empty() && self.listen.is_empty() {
            return Err(Failure::usage(format!(
                "'hold {subcommand}' has no address to listen on; add --listen unix:PATH, \
                 --listen :PORT (this machine only) or --listen HOST:PORT (other machines \
                 as well), or start it from a systemd socket unit"
            )));
        }
        let places = Places { addresses: self.listen.clone(), sockets };
        if !secret.is_given() && !self.allow_unauthenticated {
            places.ensure_local()?;
        }
        Ok(places)
    }

    /// The size of the map's stream.
    pub fn stream_bytes(&self) -> u64 {
        self.stream_size
    }

    /// Begins to serve; no replica can connect yet.
    pub fn begin(
        &self,
        subcommand: &'static str,
        hold: &Hold,
        map: &str,
        (secret, compression): (Option<Secret>, Compression),
        output: &Output,
    ) -> Result<Serving> {
        descriptors::allow(u64::from(self.max_replicas) + OTHER_DESCRIPTORS);
        let voice = Voice { subcommand, quiet: output.is_quiet() };
        let has_secret = secret.is_some();
        let origin = Origin::start(hold, map, self.options(voice, secret, compression))?;
        let map = commonhold::raw::open_unready_map(hold, map)?;
        Ok(Serving { served: Served::Map(Box::new(origin), map), voice, has_secret })
    }

    /// Begins to serve the maps of a hold whose names match; no replica can connect yet.
    pub fn begin_hold(
        &self,
        hold: &Hold,
        patterns: &[String],
        (secret, compression): (Option<Secret>, Compression),
        output: &Output,
    ) -> Result<Serving> {
        // Each map may have as many replicas.
        descriptors::allow(u64::MAX);
        let voice = Voice { subcommand: "origin", quiet: output.is_quiet() };
        let has_secret = secret.is_some();
        let (origin, maps) = (self.options(voice, secret, compression), patterns.to_vec());
        let origin = HoldOrigin::start(hold, HoldOriginOptions { origin, maps })?;
        Ok(Serving { served: Served::Hold(Box::new(origin)), voice, has_secret })
    }

    fn options(
        &self,
        voice: Voice,
        secret: Option<Secret>,
        compression: Compression,
    ) -> OriginOptions {
        OriginOptions {
            stream_bytes: self.stream_size,
            io_threads: self.io_threads.into(),
            kind: self.kind.into(),
            transmission: Transmission::Automatic {
                watermark: self.watermark.unwrap_or_default(),
                delay: self.delay.unwrap_or_default(),
            },
            secret,
            allow_unauthenticated: self.allow_unauthenticated,
            allowed_uids: (!self.allow_uid.is_empty()).then(|| self.allow_uid.clone()),
            most_replicas: usize::try_from(self.max_replicas).unwrap_or(usize::MAX),
            compression,
            notice: Some(voice.as_notice()),
        }
    }
}

/// What an origin serves.
enum Served {
    Map(Box<Origin>, Map),
    Hold(Box<HoldOrigin>),
}

/// An origin that runs.
pub struct Serving {
    served: Served,
    voice: Voice,
    has_secret: bool,
}

impl Serving {
    /// Listens; returns the addresses.
    pub fn listen(&self, places: Places) -> Result<Vec<Address>> {
        let mut listening = Vec::new();
        for socket in places.sockets {
            listening.push(match &self.served {
                Served::Map(origin, _) => origin.listen_on(socket)?,
                Served::Hold(origin) => origin.listen_on(socket)?,
            });
        }
        for address in &places.addresses {
            listening.push(match &self.served {
                Served::Map(origin, _) => origin.listen(address)?,
                Served::Hold(origin) => origin.listen(address)?,
            });
        }
        if !self.has_secret && listening.iter().any(|a| matches!(a, Address::Tcp(..))) {
            self.voice.say(
                "every client that can connect over TCP can read what is served; see --secret-file",
            );
        }
        Ok(listening)
    }

    /// Prints the addresses.
    pub fn announce(&self, listening: &[Address], output: &Output) -> Result<()> {
        let names: Vec<String> = listening.iter().map(ToString::to_string).collect();
        match output.is_json() {
            true => output.json_line(&json!({ "listening": names }))?,
            false => {
                let what = match &self.served {
                    Served::Map(_, map) => format!("map {}", printable(map.name())),
                    Served::Hold(origin) => {
                        things(origin.maps().len() as u64, "map of the hold", "maps of the hold")
                    }
                };
                self.voice.say(&format!("{what}: listening on {}", names.join(", ")));
            }
        }
        Ok(())
    }

    /// Fails if the only map was dropped: there is nothing left to serve.
    pub fn ensure_map(&self) -> Result<()> {
        let Served::Map(_, map) = &self.served else { return Ok(()) };
        match map.follow() {
            Err(error) if error.is_not_found() => Err(Failure::failed(format!(
                "map {} was dropped or replaced; start the command again",
                printable(map.name())
            ))),
            _ => Ok(()),
        }
    }

    /// Sends the remaining changes, and ends.
    pub fn finish(self) {
        match self.served {
            Served::Map(origin, _) => origin.finish(GRACE),
            Served::Hold(origin) => origin.finish(GRACE),
        }
    }
}

/// Reports the events of an origin.
#[derive(Clone, Copy)]
struct Voice {
    subcommand: &'static str,
    quiet: bool,
}

impl Voice {
    fn say(self, text: &str) {
        if !self.quiet {
            note(&format!("hold {}: {text}", self.subcommand));
        }
    }

    fn as_notice(self) -> Notice {
        Arc::new(move |text: &str| self.say(&printable(text)))
    }
}
