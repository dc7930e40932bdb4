//! `hold relay`: a replica and an origin on the same map, so that one connection serves many
//! readers.

use super::following::Follow;
use super::serving::Serve;
use crate::target::{Directory, MapName};
use commonhold_replicate::ReplicaOptions;
use commonhold_terminal::failure::Result;
use commonhold_terminal::output::Output;
use std::process::ExitCode;

/// Examples of `hold relay`.
pub const EXAMPLES: &str = "\
Examples:
  hold relay tcp:db.example:7400 copy prices --listen unix:/run/prices.sock
  hold replica unix:/run/prices.sock second prices          # follows the relay

A relay is a replica (see 'hold replica --help') that is also an origin for other replicas (see
'hold origin --help'). Until it has received the map from its own origin, it refuses replicas, which
retry. After that, it serves its map even while its origin is unavailable. If a relay receives the
whole map again, so do its replicas. --secret-file and --compress apply to the connection to the
origin and to the connections from replicas.

Exit codes:
  0     stopped by a signal
  2, 3  error (see 'hold help')";

/// Options of `hold relay`.
#[derive(clap::Args, Debug)]
pub struct Args {
    #[command(flatten)]
    serving: Serve,

    // Last: its options are under a heading of their own.
    #[command(flatten)]
    following: Follow<MapName>,
}

/// Follows and serves.
pub fn run(args: &Args, directory: &Directory, output: &Output) -> Result<ExitCode> {
    let output = output.text_or_json("relay")?;
    let places = args.serving.places("relay", args.following.secret())?;
    let stream_bytes = Some(args.serving.stream_bytes());
    let options = ReplicaOptions { stream_bytes, ..args.following.options()? };
    let name = &args.following.target;
    let following = args.following.begin(name, "relay", directory, options, &output)?;
    let secret = args.following.secret().read()?;
    let hold = &following.hold;
    let with = (secret, args.following.compression());
    let serving = args.serving.begin("relay", hold, &name.map, with, &output)?;
    // Before it has the map, it answers that it is not ready, and which relays are before it.
    let listening = serving.listen(places)?;
    let is_ready = |time| following.replica.wait(time, |_| following.is_ready());
    if !following.service.until(None, is_ready)? {
        return Ok(ExitCode::SUCCESS);
    }
    serving.announce(&listening, &output)?;
    let served = following.service.run(|| following.ensure_map());
    // A later signal is for the next wait.
    drop(following);
    serving.finish();
    served.map(|()| ExitCode::SUCCESS)
}
