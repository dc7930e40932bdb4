//! `hold relay`: a replica and an origin on the same map, so that one connection serves many
//! readers.

use super::following::Follow;
use super::serving::Serve;
use crate::target::Directory;
use commonhold_terminal::failure::Result;
use commonhold_terminal::output::Output;
use std::process::ExitCode;

/// Examples of `hold relay`.
pub const EXAMPLES: &str = "\
Examples:
  hold relay tcp:db.example:7400 copy prices --listen unix:/run/prices.sock
  hold replica unix:/run/prices.sock second prices          # follows the relay

A relay is a replica (see 'hold replica --help') that is also an origin for other replicas (see
'hold origin --help'). It starts to listen when it has received the map from its own origin. After
that, it serves its map even while its origin is unavailable. If a relay receives the whole map
again, so do its replicas. --secret-file applies to the connection to the origin and to the
connections from replicas.

Exit codes: 0 = stopped by a signal; 2, 3 see 'hold help'";

/// Options of `hold relay`.
#[derive(clap::Args, Debug)]
pub struct Args {
    #[command(flatten)]
    serving: Serve,

    // Last: its options are under a heading of their own.
    #[command(flatten)]
    following: Follow,
}

/// Follows and serves.
pub fn run(args: &Args, directory: &Directory, output: &Output) -> Result<ExitCode> {
    let output = output.text_or_json("relay")?;
    let places = args.serving.places("relay")?;
    let following = args.following.begin("relay", directory, &output)?;
    if !following.service.until(None, |time| following.replica.wait_ready(time))? {
        return Ok(ExitCode::SUCCESS);
    }
    let secret = args.following.secret().read()?;
    let hold = &following.hold;
    let serving = args.serving.begin("relay", hold, args.following.map(), secret, &output)?;
    let serving = serving.listen(places, &output)?;
    let check = || following.ensure_map().and_then(|()| serving.ensure_map());
    let served = following.service.run(check);
    // A later signal is for the next wait.
    drop(following);
    serving.finish();
    served.map(|()| ExitCode::SUCCESS)
}
