//! `hold origin`: serves a map, or all maps of a hold, to replicas.

use super::compress::Compress;
use super::secret::SecretFile;
use super::service::Service;
use super::serving::Serve;
use crate::target::{Directory, MapOrHold};
use commonhold_terminal::failure::Result;
use commonhold_terminal::output::Output;
use std::process::ExitCode;

/// Examples of `hold origin`.
pub const EXAMPLES: &str = "\
Examples:
  hold origin shop prices --listen unix:/run/user/1000/prices.sock
  hold origin shop prices --listen tcp:7400                 # this machine only
  hold origin shop prices --listen tcp:0.0.0.0:7400 --secret-file ~/.prices.secret
  hold origin shop prices --listen tcp:7400 --watermark 64K --delay 5ms
  hold origin shop prices --listen tcp:0 --format json      # prints the port
  hold replica tcp:7400 copy prices                         # the other side
  hold stat shop prices                                     # replicas and their lag
  hold origin shop --listen tcp:7400                        # all maps of the hold
  hold origin shop --maps 'session:*' --listen tcp:7400

Programs may write to the map before an origin starts, while it runs and after it exits. They never
wait for replicas, except when they clear the map. If a replica needs a change that the stream no
longer contains, it receives the whole map again. On standard error, the command reports each
replica that joins, with its position, and each replica that leaves, with the reason; --quiet
suppresses these lines.

Without MAP, one process serves all maps of the hold at the same addresses: those that exist, and
those that are created later. 'hold replica ADDRESS HOLD' follows them all, and 'hold replica
ADDRESS HOLD MAP' follows one of them. Queues, channels and logs are not served. --io-threads,
--stream-size and --max-replicas apply to each map.

A unix socket has mode 0600. Over TCP, the origin serves every client that can connect, unless
--secret-file is given. Without a secret, the command refuses to listen on an address that other
machines can connect to, unless --allow-unauthenticated is given. TCP is not encrypted: between
machines, use a tunnel (WireGuard, ssh, stunnel).

Under systemd, or any other program that passes listening sockets (LISTEN_FDS), --listen is
optional. After a signal, the command exits when the replicas have read all changes, or after 5
seconds. A second signal stops it immediately.

Exit codes:
  0     stopped by a signal
  2, 3  error (see 'hold help')";

/// Options of `hold origin`.
#[derive(clap::Args, Debug)]
pub struct Args {
    #[command(flatten)]
    name: MapOrHold,

    #[command(flatten)]
    serving: Serve,

    #[command(flatten)]
    secret: SecretFile,

    #[command(flatten)]
    compress: Compress,
}

/// Serves.
pub fn run(args: &Args, directory: &Directory, output: &Output) -> Result<ExitCode> {
    let output = output.text_or_json("origin")?;
    let places = args.serving.places("origin", &args.secret)?;
    let secret = args.secret.read()?;
    let hold = directory.open_to_write(&args.name.hold)?;
    let service = Service::begin(&hold)?;
    let with = (secret, args.compress.into());
    let serving = match args.name.one() {
        Some(name) => args.serving.begin("origin", &hold, &name.map, with, &output)?,
        None => args.serving.begin_hold(&hold, &args.name.patterns, with, &output)?,
    };
    let listening = serving.listen(places)?;
    serving.announce(&listening, &output)?;
    let served = service.run(|| serving.ensure_map());
    serving.finish();
    served.map(|()| ExitCode::SUCCESS)
}
