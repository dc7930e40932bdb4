//! The connection to NATS: its options, and the client with the state of the connection.

pub mod context_file;

use crate::trouble::failed;
use async_nats::jetstream;
use async_nats::jetstream::context::ContextBuilder;
use async_nats::{ConnectOptions, Event};
use commonhold::{Error, ErrorKind, Result};
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

/// How long a request or an acknowledgement may take.
pub const PATIENCE: Duration = Duration::from_secs(5);
/// Messages that wait in the client for their reader.
const SUBSCRIPTION: usize = 16 << 10;
/// Publishes whose acknowledgement is not there yet, with those of earlier sessions.
const IN_FLIGHT: usize = 64 << 10;
/// How long anything may take, also without a connection: longer than the client's own limit.
const LIMIT: Duration = Duration::from_secs(6);
const LOCAL: &str = "nats://127.0.0.1:4222";

/// The servers, and how to connect to them.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ServerOptions {
    /// Addresses such as `nats://host:4222` or `tls://host`; if there are none, a server on this
    /// machine.
    pub servers: Vec<String>,
    /// A file of credentials (a JWT and its seed).
    pub credentials: Option<PathBuf>,
    /// A file with the seed of an nkey.
    pub nkey: Option<PathBuf>,
    /// A user, with the password.
    pub user: Option<String>,
    /// The password of that user.
    pub password: Option<String>,
    /// A token.
    pub token: Option<String>,
    /// A file of certificates that the server's certificate is checked against.
    pub tls_ca: Option<PathBuf>,
    /// A file with the client's certificate; it needs `tls_key`.
    pub tls_cert: Option<PathBuf>,
    /// A file with the key of the client's certificate.
    pub tls_key: Option<PathBuf>,
    /// The TLS handshake comes before the protocol.
    pub tls_first: bool,
    /// The JetStream domain.
    pub domain: Option<String>,
    /// The prefix of the JetStream API, in place of `$JS.API`.
    pub prefix: Option<String>,
    /// The prefix of the subjects of replies, in place of `_INBOX`.
    pub inbox_prefix: Option<String>,
}

/// The state of the connection, which the client's own task writes.
#[derive(Debug, Default)]
struct LinkState {
    connected: AtomicBool,
    connections: AtomicU64,
    last_error: Mutex<Option<String>>,
    /// Since when there is no connection.
    lost: Mutex<Option<Instant>>,
}

impl LinkState {
    fn note(&self, event: &Event) {
        // Relaxed: numbers for reports, which order nothing else.
        match event {
            Event::Connected => {
                self.connected.store(true, Ordering::Relaxed);
                self.connections.fetch_add(1, Ordering::Relaxed);
                *locked(&self.lost) = None;
            }
            Event::Disconnected | Event::Closed => {
                self.connected.store(false, Ordering::Relaxed);
                locked(&self.lost).get_or_insert_with(Instant::now);
            }
            Event::ServerError(_) | Event::ClientError(_) | Event::SlowConsumer(_) => {
                *locked(&self.last_error) = Some(event.to_string());
            }
            Event::LameDuckMode | Event::Draining => {}
        }
    }
}

/// A connection, which the client makes again whenever it is lost.
#[derive(Clone, Debug)]
pub struct Link {
    pub(crate) client: async_nats::Client,
    pub(crate) js: jetstream::Context,
    /// The beginning of the subjects of buckets: empty without a domain or a prefix.
    pub(crate) before: String,
    servers: String,
    state: Arc<LinkState>,
}

impl Link {
    /// Connects. If `waits`, it returns at once, and the client connects as soon as it can.
    ///
    /// # Errors
    /// `Invalid` for options that contradict each other; `NotFound` for a missing file; `Io`, with
    /// the servers, if none of them can be reached.
    pub async fn connect(options: &ServerOptions, waits: bool) -> Result<Link> {
        let servers = match options.servers.is_empty() {
            true => LOCAL.to_owned(),
            false => options.servers.join(","),
        };
        let state = Arc::new(LinkState::default());
        *locked(&state.lost) = Some(Instant::now());
        let connect = with_authority(options, with_events(&state)).await?;
        let connect = if waits { connect.retry_on_initial_connect() } else { connect };
        let addresses = addresses(&servers)?;
        let servers = without_passwords(&servers);
        let client = connect.connect(addresses).await.map_err(|error| {
            let way = "check that a server runs there, and check --server";
            failed(format!("cannot connect to {servers}"), format!("{error}; {way}"))
        })?;
        let prefix = api_prefix(options)?;
        let builder = ContextBuilder::new().api_prefix(prefix.as_deref().unwrap_or("$JS.API"));
        let js = builder.timeout(PATIENCE).max_ack_inflight(IN_FLIGHT).build(client.clone());
        let before = prefix.map_or(String::new(), |prefix| format!("{prefix}."));
        Ok(Link { client, js, before, servers, state })
    }

    /// The servers that the options name.
    pub fn servers(&self) -> &str {
        &self.servers
    }

    /// Whether the connection is there.
    pub fn is_connected(&self) -> bool {
        self.state.connected.load(Ordering::Relaxed)
    }

    /// The id of the server; empty before the first connection. A server has another one after each
    /// start.
    pub(crate) fn server_id(&self) -> String {
        self.client.server_info().server_id
    }

    /// How often a lost connection was made again.
    pub fn reconnects(&self) -> u64 {
        self.state.connections.load(Ordering::Relaxed).saturating_sub(1)
    }

    /// The last error that the client or the server reported.
    pub fn last_error(&self) -> Option<String> {
        locked(&self.state.last_error).clone()
    }

    /// How long there has been no connection; zero while there is one.
    pub fn disconnected(&self) -> Duration {
        locked(&self.state.lost).map_or(Duration::ZERO, |since| since.elapsed())
    }

    /// Waits for the servers, with a limit: the client alone waits without limit where it has no
    /// connection and its queue is full.
    ///
    /// # Errors
    /// `TimedOut`, with the servers; then a message may have been sent or not.
    pub(crate) async fn within<T>(
        &self,
        doing: impl std::fmt::Display,
        answer: impl Future<Output = T>,
    ) -> Result<T> {
        tokio::time::timeout(LIMIT, answer).await.map_err(|_| {
            let text = format!("{doing}: {} did not answer within {LIMIT:?}", self.servers);
            Error::new(ErrorKind::TimedOut, text)
        })
    }

    /// The most bytes of a message with its headers.
    pub fn max_payload(&self) -> usize {
        self.client.max_payload()
    }
}

/// A panic of another thread leaves what the lock protects whole: one value.
pub(crate) fn locked<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

/// The addresses without the user and the password in them, for messages and reports.
fn without_passwords(servers: &str) -> String {
    let one = |text: &str| {
        let (scheme, rest) = text.split_at(text.find("://").map_or(0, |at| at + 3));
        format!("{scheme}{}", rest.rsplit_once('@').map_or(rest, |(_, host)| host))
    };
    servers.split(',').map(one).collect::<Vec<_>>().join(",")
}

fn addresses(servers: &str) -> Result<Vec<async_nats::ServerAddr>> {
    let one = |text: &str| {
        text.trim().parse::<async_nats::ServerAddr>().map_err(|error| {
            let text = format!(
                "'{}' is not a server's address ({error}); expected nats://HOST:PORT or \
                 tls://HOST:PORT",
                without_passwords(text)
            );
            Error::new(ErrorKind::Invalid, text)
        })
    };
    servers.split(',').map(one).collect()
}

fn api_prefix(options: &ServerOptions) -> Result<Option<String>> {
    match (&options.domain, &options.prefix) {
        (Some(_), Some(_)) => {
            let text = "expected a JetStream domain or a prefix, got both; leave out one of them";
            Err(Error::new(ErrorKind::Invalid, text))
        }
        (Some(domain), None) => Ok(Some(format!("$JS.{domain}.API"))),
        (None, prefix) => Ok(prefix.as_ref().map(|text| text.trim_end_matches('.').to_owned())),
    }
}

fn with_events(state: &Arc<LinkState>) -> ConnectOptions {
    let state = Arc::clone(state);
    ConnectOptions::new()
        .name("hold-nats")
        .request_timeout(Some(PATIENCE))
        .connection_timeout(PATIENCE)
        .subscription_capacity(SUBSCRIPTION)
        .event_callback(move |event| {
            state.note(&event);
            std::future::ready(())
        })
}

/// Adds what the server checks, and what the client checks the server by.
async fn with_authority(options: &ServerOptions, to: ConnectOptions) -> Result<ConnectOptions> {
    let mut to = to;
    if let Some(file) = &options.credentials {
        let read = to.credentials_file(file).await;
        to = read.map_err(|error| unreadable("credentials", file, error))?;
    }
    if let Some(file) = &options.nkey {
        to = to.nkey(read_line("nkey", file)?);
    }
    if let Some(user) = &options.user {
        to = to.user_and_password(user.clone(), options.password.clone().unwrap_or_default());
    }
    if let Some(token) = &options.token {
        to = to.token(token.clone());
    }
    if let Some(file) = &options.tls_ca {
        ensure_readable("certificates", file)?;
        to = to.add_root_certificates(file.clone());
    }
    match (&options.tls_cert, &options.tls_key) {
        (Some(cert), Some(key)) => {
            ensure_readable("certificate", cert)?;
            ensure_readable("key", key)?;
            to = to.add_client_certificate(cert.clone(), key.clone());
        }
        (None, None) => {}
        _ => {
            let text = "a client's certificate needs its key: give both --tls-cert and --tls-key";
            return Err(Error::new(ErrorKind::Invalid, text));
        }
    }
    if options.tls_first {
        to = to.tls_first();
    }
    Ok(match &options.inbox_prefix {
        Some(prefix) => to.custom_inbox_prefix(prefix),
        None => to,
    })
}

fn ensure_readable(what: &str, file: &Path) -> Result<()> {
    std::fs::File::open(file).map(drop).map_err(|error| unreadable(what, file, error))
}

/// The text of a file that contains one line.
///
/// # Errors
/// `NotFound`, with the file, if it cannot be read.
pub fn read_line(what: &str, file: &Path) -> Result<String> {
    let text = std::fs::read_to_string(file).map_err(|error| unreadable(what, file, error))?;
    Ok(text.trim().to_owned())
}

pub(crate) fn unreadable(what: &str, file: &Path, error: impl std::fmt::Display) -> Error {
    let text = format!("cannot read the file of the {what}, {}: {error}", file.display());
    Error::new(ErrorKind::NotFound, text)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn passwords_are_not_shown() {
        let shown = without_passwords("nats://anna:p@ss@one:4222,two:4222,tls://token@[::1]:1");
        assert_eq!(shown, "nats://one:4222,two:4222,tls://[::1]:1");
    }
}
