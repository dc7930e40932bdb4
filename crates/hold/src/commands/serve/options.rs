//! The options of `hold serve`.

use crate::commands::replication::secret::read_for_http;
use crate::commands::shared::choice_parser::choice;
use crate::monitor::Monitor;
use crate::target::Directory;
use commonhold::Hold;
use commonhold::log::{LogOptions, Overflow};
use commonhold_files::http::{CacheControl, CorsOrigin, HeaderField};
use commonhold_files::source::Symlinks;
use commonhold_files::store::{CacheKind, EvictionKind, caches};
use commonhold_files::{
    AccessLogFile, AccessLogFormat, ErrorPage, LayoutKind, Patience, ProtocolKind, RequestsKind,
    ServerOptions, SourceKind, worth_keeping,
};
use commonhold_io::address::Address;
use commonhold_io::sockets::LoopKind;
use commonhold_terminal::failure::{Failure, Result};
use commonhold_terminal::sizes;
use std::path::{Path, PathBuf};
use std::time::Duration;

/// The bytes that a hold needs in addition to the cache: its own structures, the index, room for contents
/// that are being replaced.
const OVERHEAD_BYTES: u64 = 64 << 20;

/// Options of `hold serve`.
#[derive(clap::Args, Debug, Clone)]
pub struct Args {
    /// The directory to serve or, with --files sqlite, the database
    #[arg(value_name = "DIR")]
    pub place: PathBuf,

    /// Address to listen on: unix:PATH, HOST:PORT, or :PORT (this machine only); port 0
    /// selects a free port. You can give this option several times [default: tcp:8080]
    #[arg(long, value_name = "ADDRESS")]
    pub listen: Vec<Address>,

    /// Number of worker processes [default: one per processor]
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u16).range(1..=256))]
    workers: Option<u16>,

    /// How ids map to files: by path, or by the names of Zotero's folders, each of which contains
    /// one .pdf
    #[arg(long, value_name = "LAYOUT", default_value_t, value_parser = choice(&LayoutKind::ALL, LayoutKind::word))]
    layout: LayoutKind,

    /// Protocols to accept
    #[arg(long, value_name = "PROTOCOL", default_value_t, value_parser = choice(&ProtocolKind::ALL, ProtocolKind::word))]
    protocol: ProtocolKind,

    /// The file to send for a directory; '' for none
    #[arg(long, value_name = "NAME", default_value = "index.html")]
    index: String,

    /// Also serve files and directories whose names begin with a dot
    #[arg(long)]
    hidden: bool,

    /// Also follow symlinks that lead out of DIR
    #[arg(long)]
    follow_symlinks: bool,

    /// Append a line for every request to this file; workers reopen it after SIGHUP
    #[arg(long, value_name = "FILE")]
    access_log: Option<PathBuf>,

    /// Form of the lines in the access log
    #[arg(long, value_name = "FORMAT", requires = "access_log", default_value_t, value_parser = choice(&AccessLogFormat::ALL, AccessLogFormat::word))]
    access_log_format: AccessLogFormat,

    /// Record every request in this log in the hold ('hold log tail HOLD NAME')
    #[arg(long, value_name = "NAME")]
    request_log: Option<String>,

    /// Address of a live status page (/_hold/), and of /metrics for Prometheus: unix:PATH,
    /// HOST:PORT, or :PORT (this machine only) [default: no status page]
    #[arg(long, value_name = "ADDRESS")]
    admin: Option<Address>,

    /// Show the status page and /metrics only to clients that send the secret in this file (at
    /// least 16 printable ASCII characters), as an HTTP password or bearer token
    #[arg(long, value_name = "FILE", requires = "admin")]
    admin_auth_file: Option<PathBuf>,

    #[command(flatten)]
    #[command(next_help_heading = "Responses over HTTP")]
    responses: Responses,

    #[command(flatten)]
    #[command(next_help_heading = "Cache")]
    cache: Cache,

    #[command(flatten)]
    #[command(next_help_heading = "Limits")]
    limits: Limits,

    #[command(flatten)]
    #[command(next_help_heading = "Alternative implementations")]
    choices: Choices,

    /// Set by the supervisor: this is a worker
    #[arg(long, hide = true)]
    as_worker: bool,
}

#[derive(clap::Args, Debug, Clone)]
struct Responses {
    /// Add this field to all responses; fields that the server itself computes are refused. You can
    /// give this option several times
    #[arg(long, value_name = "NAME: VALUE")]
    header: Vec<HeaderField>,

    /// Cache-Control of responses with contents, for example 'public, max-age=3600'; error responses
    /// have none
    #[arg(long, value_name = "VALUE")]
    cache_control: Option<CacheControl>,

    /// Let scripts of this origin, such as https://example.org, read responses; '*' for all origins
    #[arg(long, value_name = "ORIGIN")]
    cors: Option<CorsOrigin>,

    /// Send this file, a path below DIR, with error responses of this status: 403, 404, 500 or 503.
    /// You can give this option several times
    #[arg(long, value_name = "STATUS=FILE")]
    error_page: Vec<ErrorPage>,

    /// Send this file, a path below DIR, with status 200 for missing paths without an extension, as
    /// single-page applications need it
    #[arg(long, value_name = "FILE")]
    fallback: Option<String>,
}

#[derive(clap::Args, Debug, Clone)]
struct Cache {
    /// The hold for the cache; it remains when the server exits [default: a temporary hold, named
    /// after DIR, which is deleted when the server exits normally]
    #[arg(long, value_name = "HOLD")]
    hold: Option<PathBuf>,

    /// Maximum number of bytes of file contents to keep in memory
    #[arg(long, value_name = "SIZE", value_parser = sizes::bytes, default_value = "256M")]
    cache_bytes: u64,

    /// Largest file to cache; larger files are sent directly [default: 32K; 256K for a database]
    #[arg(long, value_name = "SIZE", value_parser = sizes::bytes)]
    keep_up_to: Option<u64>,

    /// Maximum time for which the server may send the old contents of a changed file
    #[arg(long, value_name = "TIME", value_parser = sizes::wait, default_value = "1s")]
    fresh: Duration,
}

#[derive(clap::Args, Debug, Clone)]
struct Limits {
    /// Maximum number of connections per worker; further connections wait
    #[arg(long, value_name = "N", default_value_t = 10_000, value_parser = clap::value_parser!(u32).range(1..))]
    max_connections: u32,

    /// Maximum number of connections from one address per worker; a request on a further connection
    /// gets a 503 response [default: no limit]
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u32).range(1..))]
    per_address: Option<u32>,

    /// Maximum time for a client to send a request's head
    #[arg(long, value_name = "TIME", value_parser = sizes::wait, default_value = "10s")]
    head_timeout: Duration,

    /// Maximum idle time of a connection between requests
    #[arg(long, value_name = "TIME", value_parser = sizes::wait, default_value = "1m")]
    idle_timeout: Duration,

    /// Maximum time for which a client may stall while it reads a response
    #[arg(long, value_name = "TIME", value_parser = sizes::wait, default_value = "1m")]
    send_timeout: Duration,

    /// Maximum time for shutdown
    #[arg(long, value_name = "TIME", value_parser = sizes::wait, default_value = "10s")]
    grace: Duration,
}

#[derive(clap::Args, Debug, Clone)]
struct Choices {
    /// How workers wait for the network
    #[arg(long = "loop", value_name = "LOOP", default_value_t = LoopKind::Epoll, value_parser = choice(&LoopKind::ALL, LoopKind::word))]
    kind: LoopKind,

    /// The table of the connections and their requests
    #[arg(long, value_name = "MAP", default_value_t, value_parser = choice(&RequestsKind::ALL, RequestsKind::word))]
    requests: RequestsKind,

    /// How to evict contents when the cache is full
    #[arg(long, value_name = "POLICY", default_value_t = EvictionKind::Lockfree, value_parser = choice(&EvictionKind::ALL, EvictionKind::word))]
    eviction: EvictionKind,

    /// Where to cache contents; only a cache in the hold is shared by the workers
    #[arg(long, value_name = "MAP", default_value_t = CacheKind::Hold, value_parser = choice(&CacheKind::ALL, CacheKind::word))]
    cache: CacheKind,

    /// Where files are stored: a directory, or a database created by 'hold serve-import'
    #[arg(long, value_name = "SOURCE", default_value_t, value_parser = choice(&SourceKind::ALL, SourceKind::word))]
    files: SourceKind,
}

impl Args {
    pub(super) fn is_worker(&self) -> bool {
        self.as_worker
    }

    /// The number of workers.
    pub(super) fn workers(&self) -> usize {
        let cores = || std::thread::available_parallelism().map_or(1, usize::from);
        self.workers.map_or_else(cores, usize::from)
    }

    pub(super) fn grace(&self) -> Duration {
        self.limits.grace
    }

    pub(super) fn max_connections(&self) -> u32 {
        self.limits.max_connections
    }

    /// The server of metrics, if an option requests one.
    ///
    /// # Errors
    /// If it cannot listen, or the file with the secret cannot be used.
    pub(super) fn monitor(&self, hold: &Hold) -> Result<Option<Monitor>> {
        let title = self.place.display().to_string();
        let secret = self.admin_auth_file.as_deref().map(read_for_http).transpose()?;
        self.admin.as_ref().map(|address| Monitor::start(hold, title, address, secret)).transpose()
    }

    /// Drops caches in the hold that have other options, if no other server may use them.
    ///
    /// # Errors
    /// Those of dropping maps.
    pub(super) fn drop_other_caches(&self, hold: &Hold) -> Result<()> {
        Ok(caches::drop_others(hold, self.choices.eviction, self.cache.cache_bytes)?)
    }

    /// Whether to keep the hold after a normal end.
    pub(super) fn keeps_hold(&self) -> bool {
        self.cache.hold.is_some()
    }

    /// The hold, created if it does not exist.
    pub(super) fn open_hold(&self, directory: &Directory) -> Result<Hold> {
        let name = match &self.cache.hold {
            Some(name) => name.clone(),
            None => default_hold(&self.place)?,
        };
        let most = self.cache.cache_bytes.saturating_mul(2).saturating_add(OVERHEAD_BYTES);
        let options = directory.options().max_bytes(most.next_multiple_of(1 << 20));
        Ok(options.open_or_create(directory.resolve(&name)?)?)
    }

    /// The server of a worker.
    pub(super) fn server(&self, hold: &Hold, listens: Vec<String>) -> Result<ServerOptions> {
        let (limits, choices, cache) = (&self.limits, &self.choices, &self.cache);
        let log = match &self.request_log {
            // Keeps the last requests if there is no collector.
            Some(name) => Some(
                hold.logs()
                    .open_or_create(name, LogOptions::new().overflow(Overflow::Overwrite))?,
            ),
            None => None,
        };
        let mut options = ServerOptions::new(&self.place);
        options.layout = self.layout;
        options.spoken = self.protocol;
        options.index = Some(self.index.clone()).filter(|name| !name.is_empty());
        options.hidden = self.hidden;
        let Responses { header, cache_control, cors, error_page, fallback } = &self.responses;
        options.headers.clone_from(header);
        options.cache_control.clone_from(cache_control);
        options.cors.clone_from(cors);
        options.error_pages.clone_from(error_page);
        options.fallback.clone_from(fallback);
        options.symlinks = if self.follow_symlinks { Symlinks::All } else { Symlinks::Inside };
        options.patience = Patience {
            head: limits.head_timeout,
            idle: limits.idle_timeout,
            send: limits.send_timeout,
            ..Patience::default()
        };
        let format = self.access_log_format;
        let path = self.access_log.clone();
        options.access_log = path.map(|path| AccessLogFile { path, format });
        options.per_address = limits.per_address;
        options.cache_bytes = cache.cache_bytes;
        options.fresh = cache.fresh;
        options.kind = choices.kind;
        options.requests = choices.requests;
        options.eviction = choices.eviction;
        options.cache = choices.cache;
        options.source = choices.files;
        options.most_kept = cache.keep_up_to.unwrap_or(worth_keeping(choices.files));
        (options.hold, options.log, options.listens) = (Some(hold.clone()), log, listens);
        Ok(options)
    }

    /// Checks everything that can be checked before anything is created.
    ///
    /// # Errors
    /// Usage.
    pub(super) fn check(&self) -> Result<()> {
        let is_database = self.choices.files == SourceKind::Sqlite;
        let place = self.place.display();
        let text = match (is_database, self.place.is_dir(), self.place.exists()) {
            (_, _, false) => format!("{place}: no such directory or file"),
            (false, false, _) => {
                format!("{place}: not a directory; to serve a database, add --files sqlite")
            }
            (true, true, _) => format!(
                "{place}: a directory, not a database; create a database with 'hold serve-import \
                 {place} FILE', or omit --files sqlite"
            ),
            _ => return self.check_pages(is_database),
        };
        Err(Failure::failed(text))
    }

    /// Checks that the pages exist, where ids are paths.
    fn check_pages(&self, is_database: bool) -> Result<()> {
        let Responses { error_page, fallback, .. } = &self.responses;
        let pages = error_page.iter().map(|page| ("--error-page", page.file()));
        let fallback = fallback.iter().map(|file| ("--fallback", file.as_str()));
        let is_path = !is_database && self.layout == LayoutKind::Tree;
        let is_there = |file: &str| self.place.join(file.trim_start_matches('/')).is_file();
        match pages.chain(fallback).find(|(_, file)| is_path && !is_there(file)) {
            None => Ok(()),
            Some((option, file)) => Err(Failure::failed(format!(
                "{option} {file}: no such file in {}; expected a path relative to it",
                self.place.display()
            ))),
        }
    }
}

/// The same name for the same directory; different names for directories of the same name.
fn default_hold(place: &Path) -> Result<PathBuf> {
    let place = place
        .canonicalize()
        .map_err(|error| Failure::failed(format!("{}: {error}", place.display())))?;
    let name = place.file_name().map(|name| name.to_string_lossy().into_owned());
    let name: String = name
        .unwrap_or_default()
        .chars()
        .filter(|c| c.is_ascii_alphanumeric() || matches!(c, '-' | '_'))
        .take(40)
        .collect();
    let sum = crc32fast::hash(place.as_os_str().as_encoded_bytes());
    Ok(format!("serve-{name}-{sum:08x}").into())
}
