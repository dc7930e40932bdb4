//! `hold origin`: serves a map to replicas.

use super::secret::SecretFile;
use super::service::Service;
use super::serving::Serve;
use crate::target::{Directory, MapName};
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
  hold origin shop prices --listen tcp:0 --format json      # says which port
  hold replica tcp:7400 copy prices                         # the other side
  hold stat shop prices                                     # who follows, who is behind

Any program goes on writing the map, before, while and after an origin runs, and waits for no replica. A
replica that falls behind by more than the stream keeps is sent the whole map anew. Standard error has a line for
each that joins, and from where on, and one when it leaves, and why; --quiet leaves them out.

A unix socket is its owner's (mode 0600). Over tcp anybody who can connect is served unless there is a
--secret-file, and nothing is encrypted: between machines use a tunnel (WireGuard, ssh -L).

Under systemd, or whatever hands over sockets that listen (LISTEN_FDS), --listen may be left out.
A signal ends it, after replicas have taken what there is, for at most 5 seconds; a second one ends it at once.

Exit codes: 0 ended by a signal; 2, 3 see 'hold help'";

/// Options of `hold origin`.
#[derive(clap::Args, Debug)]
pub struct Args {
    #[command(flatten)]
    name: MapName,

    #[command(flatten)]
    serving: Serve,

    #[command(flatten)]
    secret: SecretFile,
}

/// Serves.
pub fn run(args: &Args, directory: &Directory, output: &Output) -> Result<ExitCode> {
    let output = output.text_or_json("origin")?;
    let places = args.serving.places("origin")?;
    let secret = args.secret.read()?;
    let hold = directory.open_to_write(&args.name.hold)?;
    let service = Service::begin(&hold)?;
    let serving = args.serving.begin("origin", &hold, &args.name.map, secret, &output)?;
    let serving = serving.listen(places, &output)?;
    let served = service.run(|| serving.ensure_map());
    serving.finish();
    served.map(|()| ExitCode::SUCCESS)
}
