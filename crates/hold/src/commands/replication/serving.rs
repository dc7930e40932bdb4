//! The serving side: its addresses, its options, and its reports.

use crate::commands::shared::inherited_sockets::inherited_sockets;
use clap::ValueEnum;
use commonhold::Hold;
use commonhold::map::Map;
use commonhold_io::sockets::LoopKind;
use commonhold_replicate::{Address, Notice, Origin, OriginOptions, Secret, Transmission};
use commonhold_terminal::descriptors;
use commonhold_terminal::failure::{Failure, Result, note};
use commonhold_terminal::output::Output;
use commonhold_terminal::sizes;
use commonhold_terminal::text::printable;
use serde_json::json;
use std::os::fd::OwnedFd;
use std::sync::Arc;
use std::time::Duration;

/// How long shutdown may take.
const GRACE: Duration = Duration::from_secs(5);
/// Descriptors that an origin needs besides one for each replica.
const OTHER_DESCRIPTORS: u64 = 64;

/// Addresses and server options.
#[derive(clap::Args, Debug)]
pub struct Serve {
    /// Address to listen on: unix:PATH, tcp:HOST:PORT, or tcp:PORT (this machine only); port 0
    /// selects a free port. You can give this option several times
    #[arg(long, value_name = "ADDRESS")]
    listen: Vec<Address>,

    /// Number of threads that serve replicas
    #[arg(long, value_name = "N", default_value_t = 1,
        value_parser = clap::value_parser!(u8).range(1..=64))]
    io_threads: u8,

    /// How these threads wait for the network
    #[arg(long = "loop", value_enum, default_value_t = Loop::Epoll)]
    kind: Loop,

    /// Size of the map's stream, if the map does not have one yet
    #[arg(long, value_name = "SIZE", value_parser = sizes::bytes, default_value = "64MiB")]
    stream_size: u64,

    /// Send when this many bytes of changes are pending, or after --delay, instead of immediately
    #[arg(long, value_name = "SIZE", value_parser = sizes::bytes, requires = "delay")]
    watermark: Option<u64>,

    /// Maximum delay of changes while fewer bytes than --watermark are pending
    #[arg(long, value_name = "TIME", value_parser = sizes::wait, requires = "watermark")]
    delay: Option<Duration>,

    /// Accept connections to unix sockets only from these users; the sockets' permissions apply,
    /// too
    #[arg(long, value_name = "UID", value_delimiter = ',')]
    allow_uid: Vec<u32>,

    /// Maximum number of connections
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

impl Serve {
    /// The requested listeners.
    ///
    /// # Errors
    /// Usage, if there are none; if the sockets that were passed are not stream sockets.
    pub fn places(&self, subcommand: &str) -> Result<Places> {
        let sockets = inherited_sockets()?;
        if sockets.is_empty() && self.listen.is_empty() {
            return Err(Failure::usage(format!(
                "'hold {subcommand}' has no address to listen on; add --listen \
                 unix:/path/of/socket or --listen tcp:PORT (this machine), --listen \
                 tcp:ADDRESS:PORT (others, too), or start it by a systemd socket"
            )));
        }
        Ok(Places { addresses: self.listen.clone(), sockets })
    }

    /// Begins to serve; no replica can connect yet.
    pub fn begin(
        &self,
        subcommand: &'static str,
        hold: &Hold,
        map: &str,
        secret: Option<Secret>,
        output: &Output,
    ) -> Result<Serving> {
        descriptors::allow(u64::from(self.max_replicas) + OTHER_DESCRIPTORS);
        let voice = Voice { subcommand, quiet: output.is_quiet() };
        let has_secret = secret.is_some();
        let options = OriginOptions {
            stream_bytes: self.stream_size,
            io_threads: self.io_threads.into(),
            kind: self.kind.into(),
            transmission: Transmission::Automatic {
                watermark: self.watermark.unwrap_or_default(),
                delay: self.delay.unwrap_or_default(),
            },
            secret,
            allowed_uids: (!self.allow_uid.is_empty()).then(|| self.allow_uid.clone()),
            most_replicas: usize::try_from(self.max_replicas).unwrap_or(usize::MAX),
            notice: Some(voice.as_notice()),
        };
        let origin = Origin::start(hold, map, options)?;
        Ok(Serving { origin, map: hold.maps().open(map)?, voice, has_secret })
    }
}

/// An origin that runs.
pub struct Serving {
    origin: Origin,
    map: Map,
    voice: Voice,
    has_secret: bool,
}

impl Serving {
    /// Listens, and prints the addresses.
    pub fn listen(self, places: Places, output: &Output) -> Result<Serving> {
        let mut listening = Vec::new();
        for socket in places.sockets {
            listening.push(self.origin.listen_on(socket)?);
        }
        for address in &places.addresses {
            listening.push(self.origin.listen(address)?);
        }
        if !self.has_secret && listening.iter().any(|a| matches!(a, Address::Tcp(..))) {
            self.voice
                .say("every client that can connect over tcp receives the map; see --secret-file");
        }
        let names: Vec<String> = listening.iter().map(ToString::to_string).collect();
        match output.is_json() {
            true => output.json_line(&json!({ "listening": names }))?,
            false => self.voice.say(&format!(
                "map {}: listens on {}",
                printable(self.map.name()),
                names.join(", ")
            )),
        }
        Ok(self)
    }

    /// Fails if the map was dropped: there is nothing left to serve.
    pub fn ensure_map(&self) -> Result<()> {
        match self.map.follow() {
            Err(error) if error.is_not_found() => Err(Failure::failed(format!(
                "map {} was dropped or replaced; start the command again",
                printable(self.map.name())
            ))),
            _ => Ok(()),
        }
    }

    /// Sends the remaining changes, and ends.
    pub fn finish(self) {
        self.origin.finish(GRACE);
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
