//! The servers of a subcommand, and how it connects.

use clap::builder::NonEmptyStringValueParser;
use commonhold_nats::key::KeyStyle;
use commonhold_nats::server::context_file;
use commonhold_nats::server::{Link, ServerOptions, read_line};
use commonhold_terminal::failure::{Failure, Result};
use std::path::PathBuf;
use tokio::runtime::{Builder, Runtime};

/// The options of the connection.
#[derive(clap::Args, Debug)]
#[command(next_help_heading = "Connection")]
pub struct Connection {
    /// A server's address: nats://HOST:PORT or tls://HOST:PORT. You can give this option several
    /// times
    #[arg(long, short, value_name = "URL", value_parser = NonEmptyStringValueParser::new())]
    server: Vec<String>,

    /// A context of the 'nats' tool [default: the selected one]
    #[arg(long, value_name = "NAME")]
    context: Option<String>,

    /// A credentials file
    #[arg(long, value_name = "FILE")]
    creds: Option<PathBuf>,

    /// A file with the seed of an nkey
    #[arg(long, value_name = "FILE")]
    nkey: Option<PathBuf>,

    /// A user; requires --password-file
    #[arg(long, value_name = "USER", requires = "password_file")]
    user: Option<String>,

    /// A file with the user's password
    #[arg(long, value_name = "FILE", requires = "user")]
    password_file: Option<PathBuf>,

    /// A file with the CA certificates that the server's certificate is checked against
    #[arg(long, value_name = "FILE")]
    tls_ca: Option<PathBuf>,

    /// A file with the client's certificate; requires --tls-key
    #[arg(long, value_name = "FILE", requires = "tls_key")]
    tls_cert: Option<PathBuf>,

    /// A file with the key of the client's certificate
    #[arg(long, value_name = "FILE", requires = "tls_cert")]
    tls_key: Option<PathBuf>,

    /// Begin the TLS handshake before the NATS protocol
    #[arg(long)]
    tls_first: bool,

    /// The JetStream domain
    #[arg(long, value_name = "DOMAIN", conflicts_with = "prefix")]
    domain: Option<String>,

    /// The prefix of the JetStream API, in place of $JS.API
    #[arg(long, value_name = "PREFIX")]
    prefix: Option<String>,
}

/// How keys of the bucket correspond to keys of the map.
#[derive(clap::Args, Debug, Clone, Copy)]
pub struct Keys {
    /// The bucket and the map have the same keys. Without this option, bytes that NATS does not
    /// allow become '=' and two hexadecimal digits
    #[arg(long)]
    plain_keys: bool,
}

impl From<Keys> for KeyStyle {
    fn from(keys: Keys) -> KeyStyle {
        if keys.plain_keys { KeyStyle::Plain } else { KeyStyle::Escaped }
    }
}

impl Connection {
    /// Connects. If `waits`, it returns before a server is there.
    ///
    /// # Errors
    /// Those of the options and of connecting.
    pub async fn connect(&self, waits: bool) -> Result<Link> {
        Ok(Link::connect(&self.options()?, waits).await?)
    }

    fn options(&self) -> Result<ServerOptions> {
        let mut options = self.basis()?;
        let path = |own: &Option<PathBuf>, other: Option<PathBuf>| own.clone().or(other);
        options.credentials = path(&self.creds, options.credentials);
        options.nkey = path(&self.nkey, options.nkey);
        options.tls_ca = path(&self.tls_ca, options.tls_ca);
        options.tls_cert = path(&self.tls_cert, options.tls_cert);
        options.tls_key = path(&self.tls_key, options.tls_key);
        options.tls_first |= self.tls_first;
        if let (Some(user), Some(file)) = (&self.user, &self.password_file) {
            options.user = Some(user.clone());
            options.password = Some(read_line("password", file)?);
        }
        if self.domain.is_some() || self.prefix.is_some() {
            (options.domain, options.prefix) = (self.domain.clone(), self.prefix.clone());
        }
        Ok(options)
    }

    /// The servers of the command line, of the environment or of a context.
    fn basis(&self) -> Result<ServerOptions> {
        let url = std::env::var("NATS_URL").ok().filter(|url| !url.is_empty());
        let url = url.filter(|_| self.server.is_empty() && self.context.is_none());
        let servers = |servers| ServerOptions { servers, ..ServerOptions::default() };
        if let Some(url) = url {
            return Ok(servers(vec![url]));
        }
        let directory = context_file::directory();
        let selected = || directory.as_deref().and_then(context_file::selected);
        let named = self.context.clone();
        let name = named.or_else(|| self.server.is_empty().then(selected).flatten());
        let mut options = match (name, &directory) {
            (Some(name), Some(directory)) => context_file::read(directory, &name)?,
            (Some(name), None) => {
                let text = format!("context '{name}': neither XDG_CONFIG_HOME nor HOME is set");
                return Err(Failure::failed(text));
            }
            (None, _) => ServerOptions::default(),
        };
        if !self.server.is_empty() {
            options.servers = self.server.clone();
        }
        Ok(options)
    }
}

/// The threads of the connection: one, next to the thread that waits.
///
/// # Errors
/// If the system has no thread.
pub fn runtime() -> Result<Runtime> {
    Builder::new_multi_thread().worker_threads(1).enable_all().build().map_err(Failure::failed)
}
