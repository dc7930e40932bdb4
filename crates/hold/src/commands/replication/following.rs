//! The following side: the origin that is followed, the creation of the map, and the reports.

use super::compress::Compress;
use super::secret::SecretFile;
use super::service::Service;
use crate::making::NewHold;
use crate::target::{Directory, MapName};
use commonhold::Hold;
use commonhold::stream::StreamPosition;
use commonhold_replicate::{Address, Compression, Replica, ReplicaEvents, ReplicaOptions};
use commonhold_terminal::failure::{Failure, Result, note};
use commonhold_terminal::output::Output;
use commonhold_terminal::text::printable;
use serde_json::json;
use std::cell::Cell;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

/// The origin that is followed, and the target: the map, or the hold, that receives its changes.
#[derive(clap::Args, Debug)]
pub struct Follow<T: clap::Args> {
    /// The origin's address: unix:PATH, HOST:PORT, or :PORT (this machine)
    #[arg(value_name = "ADDRESS")]
    origin: Address,

    #[command(flatten)]
    pub target: T,

    #[command(flatten)]
    secret: SecretFile,

    /// A name for this replica, for use with 'hold wait --replica'; it should differ from the names
    /// of the origin's other replicas
    #[arg(long = "name", value_name = "NAME", default_value = "", hide_default_value = true)]
    replica_name: String,

    /// Another address of the same map: a relay, or a replica that may become the origin. If the
    /// connection is lost, the command tries all addresses in turn and continues at its position.
    /// You can give this option several times
    #[arg(long, value_name = "ADDRESS")]
    also: Vec<Address>,

    /// Accept, once, an origin of another map, or an origin that was replaced by a promotion. The
    /// origin's map then replaces the local map
    #[arg(long)]
    adopt: bool,

    #[command(flatten)]
    compress: Compress,

    #[command(flatten)]
    #[command(next_help_heading = "If the hold does not exist yet")]
    hold: NewHold,
}

/// A replica that runs.
pub struct Following {
    pub hold: Hold,
    pub replica: Replica,
    pub service: Service,
    shared: Arc<Shared>,
    map: String,
    /// Whether the map was missing at the last check.
    missing: Cell<bool>,
}

/// The state that the replica's thread shares with the other threads.
#[derive(Default)]
struct Shared {
    /// The map has had the origin's state since this program started.
    ready: AtomicBool,
    /// The replica is being stopped: its reports of that are not printed.
    ending: AtomicBool,
}

impl<T: clap::Args> Follow<T> {
    /// The origin's address.
    pub fn origin(&self) -> &Address {
        &self.origin
    }

    /// How to create the hold.
    pub fn new_hold(&self) -> &NewHold {
        &self.hold
    }

    /// The secret that each side must prove to know.
    pub fn secret(&self) -> &SecretFile {
        &self.secret
    }

    /// Whether full syncs are compressed.
    pub fn compression(&self) -> Compression {
        self.compress.into()
    }

    /// The options of a replica.
    pub fn options(&self) -> Result<ReplicaOptions> {
        Ok(ReplicaOptions {
            secret: self.secret.read()?,
            also: self.also.clone(),
            adopt: self.adopt,
            name: self.replica_name.clone(),
            compression: self.compress.into(),
            ..ReplicaOptions::default()
        })
    }

    /// Begins to follow with a map.
    pub fn begin(
        &self,
        name: &MapName,
        subcommand: &'static str,
        dir: &Directory,
        options: ReplicaOptions,
        out: &Output,
    ) -> Result<Following> {
        let hold = self.hold.open_or_create_for_map(dir, name)?;
        // Before a script reads that it is ready, and ends it.
        let service = Service::begin(&hold)?;
        let shared = Arc::default();
        let voice = Voice {
            subcommand,
            origin: self.origin.to_string(),
            output: *out,
            shared: Arc::clone(&shared),
            said: None,
        };
        let replica = Replica::connect(&hold, &name.map, &self.origin, options, voice)?;
        let (map, missing) = (name.map.clone(), Cell::new(false));
        Ok(Following { hold, replica, service, shared, map, missing })
    }
}

impl Following {
    /// Whether the map has had the origin's state since this program started.
    pub fn is_ready(&self) -> bool {
        // Relaxed: the state that it announces is read through the hold.
        self.shared.ready.load(Ordering::Relaxed)
    }

    /// Fails if the replica has ended, because its map was promoted, or if the map was dropped under
    /// it, so that it cannot continue. The map may be
    /// missing once while the replica recreates it, with the mode of another origin's map.
    pub fn ensure_map(&self) -> Result<()> {
        let status = self.replica.status();
        if let (true, Some(why)) = (status.ended, status.last_error) {
            return Err(Failure::failed(why));
        }
        let missing = self.is_ready()
            && self.hold.maps().open(&self.map).is_err_and(|error| error.is_not_found());
        match self.missing.replace(missing) && missing {
            false => Ok(()),
            true => Err(Failure::failed(format!(
                "map {} was dropped; to receive it again, restart the command",
                printable(&self.map)
            ))),
        }
    }
}

impl Drop for Following {
    fn drop(&mut self) {
        // Relaxed: a later system call ends the thread that reads it.
        self.shared.ending.store(true, Ordering::Relaxed);
    }
}

/// Reports the events of a replica.
struct Voice {
    subcommand: &'static str,
    origin: String,
    output: Output,
    shared: Arc<Shared>,
    /// The reason of the last loss, until it is ready again: the same reason is reported once.
    said: Option<String>,
}

impl Voice {
    fn say(&self, event: &serde_json::Value, text: &str) {
        if self.output.is_json() {
            // A user who no longer reads the events may still need the map.
            let _ = self.output.json_line(event);
        } else if !self.output.is_quiet() {
            note(&format!("hold {}: {text}", self.subcommand));
        }
    }
}

impl ReplicaEvents for Voice {
    fn ready(&mut self, position: StreamPosition) {
        // Relaxed: as above.
        let before = self.shared.ready.load(Ordering::Relaxed);
        self.said = None;
        let again = if before { " again" } else { "" };
        self.say(
            &json!({ "event": "ready", "position": position.to_string() }),
            &format!("ready{again}: the map has the state of {} at {position}", self.origin),
        );
        // When it is printed: a relay prints its addresses behind it.
        self.shared.ready.store(true, Ordering::Relaxed);
    }

    fn lost(&mut self, why: &str) {
        // Relaxed: see where they are set.
        if self.said.as_deref() == Some(why) || self.shared.ending.load(Ordering::Relaxed) {
            return;
        }
        let what = match self.shared.ready.load(Ordering::Relaxed) {
            true => "connection lost",
            false => "not connected",
        };
        // Errors of connecting begin with the address.
        let reason = why.strip_prefix(&format!("{}: ", self.origin)).unwrap_or(why);
        self.say(
            &json!({ "event": "lost", "why": why }),
            &format!("{what}: {}: {}; retrying", self.origin, printable(reason)),
        );
        self.said = Some(why.to_owned());
    }
}
