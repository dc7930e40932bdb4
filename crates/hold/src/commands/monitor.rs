//! `hold monitor`: a hold in the browser, live, and its metrics for Prometheus.

use super::replication::secret::read_for_http;
use super::replication::service::Service;
use crate::monitor::Monitor;
use crate::target::{Directory, HoldName};
use commonhold_io::address::Address;
use commonhold_terminal::failure::{Result, note};
use commonhold_terminal::output::Output;
use serde_json::json;
use std::path::PathBuf;
use std::process::ExitCode;

/// The default address.
const DEFAULT: &str = "tcp:8081";

/// Examples of `hold monitor`.
pub const EXAMPLES: &str = "\
Examples:
  hold monitor shop                             # http://127.0.0.1:8081/_hold/, this machine only
  hold monitor shop --listen tcp:9100
  hold monitor shop --listen unix:/run/shop-metrics.sock
  hold monitor shop --listen 0.0.0.0:8081 --auth-file /etc/commonhold/monitor.secret
  curl -s localhost:8081/metrics                # for Prometheus: all metrics of the hold
  curl -s localhost:8081/_hold/status.json | jq .maps
  hold serve ./public --admin tcp:8081          # the same for a file server and its hold

The page shows maps, queues, channels, logs, origins, replicas, journals and the workers of file
servers over the last few minutes. The monitor only reads the hold.

Every client that can connect can read all names and statistics, unless --auth-file names a file with
a secret. Then clients must send the secret: a browser as the password of any user, Prometheus as
'credentials_file' or 'password_file', curl with '-u :SECRET'. The connection is not encrypted, so
accept connections from other machines only on trusted networks, or through a proxy with TLS.
Clients cannot change or start anything.

Exit codes:
  0     stopped by a signal
  2, 3  error (see 'hold help')";

/// Options of `hold monitor`.
#[derive(clap::Args, Debug)]
pub struct Args {
    #[command(flatten)]
    name: HoldName,

    /// Address to listen on: unix:PATH, HOST:PORT, or :PORT (this machine only); port 0
    /// selects a free port
    #[arg(long, value_name = "ADDRESS", default_value = DEFAULT)]
    listen: Address,

    /// Serve only clients that send the secret in this file (at least 16 printable ASCII
    /// characters), as an HTTP password or bearer token
    #[arg(long, value_name = "FILE")]
    auth_file: Option<PathBuf>,
}

/// Serves until a signal comes.
pub fn run(args: &Args, directory: &Directory, output: &Output) -> Result<ExitCode> {
    let output = output.text_or_json("monitor")?;
    let secret = args.auth_file.as_deref().map(read_for_http).transpose()?;
    let hold = directory.open_to_read(&args.name.hold)?;
    let service = Service::begin(&hold)?;
    let title = hold.path().to_string_lossy().into_owned();
    let monitor = Monitor::start(&hold, title, &args.listen, secret)?;
    match output.is_json() {
        true => output.json_line(&json!({ "listening": [monitor.address().to_string()] }))?,
        false if output.is_quiet() => {}
        false => note(&format!("hold monitor: {}", monitor.url())),
    }
    service.run(|| Ok(()))?;
    Ok(ExitCode::SUCCESS)
}
