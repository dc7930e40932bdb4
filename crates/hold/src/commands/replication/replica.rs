//! `hold replica`: replicates an origin's map, or all maps of its hold, or copies them once.

use super::following::{Follow, Following};
use super::following_hold;
use crate::commands::shared::answer;
use crate::target::{Directory, Hex, MapOrHold};
use commonhold_replicate::ReplicaOptions;
use commonhold_terminal::failure::{Result, complain};
use commonhold_terminal::output::Output;
use commonhold_terminal::sizes;
use std::ffi::OsString;
use std::process::ExitCode;
use std::time::{Duration, Instant};

/// Examples of `hold replica`.
pub const EXAMPLES: &str = "\
Examples:
  hold replica unix:/run/prices.sock copy prices            # until Ctrl-C
  hold replica tcp:db.example:7400 copy prices --secret-file ~/.prices.secret
  hold replica tcp:7400 ./copy.hold prices --once --timeout 1m || echo 'timed out'
  hold replica tcp:7400 copy prices --format json           # {\"event\":\"ready\",\"position\":...}
  hold stat copy prices                                     # the replica's lag
  hold replica tcp:7400 copy                                # all maps of the origin's hold
  hold replica tcp:7400 copy --maps 'session:*'
  hold replica tcp:7400 copy prices --prefix fruit:         # a part of the map

The command creates the hold and the map if they do not exist. Programs read the map like any
other map. They cannot write to it, and must write to the origin's map instead. When the replica
receives the whole map, the new contents become visible all at once, after the last of them has
arrived.

If the origin is unavailable, the map does not change, and the replica keeps retrying, at
intervals that grow to about 5 seconds. You can therefore start a replica before its origin. A
replica resumes where it stopped, even after it has been killed. It reports lost and restored
connections on standard error. Only one 'hold replica' process at a time can update a map.

Without MAP, the command follows all maps of an origin that was started without MAP ('hold origin
HOLD'): those that exist, and those that are created later. The local maps have the same names. A
map that is dropped at the origin stays here, and 'hold stat' shows that it was dropped. A map that
this hold already has as an ordinary map is skipped. Queues, channels and logs are not replicated.

With --prefix, the origin sends only the pairs whose keys begin with PREFIX, and the changes to
these keys. The map's prefix is fixed: to replicate other keys, drop the map first. Such a map
cannot be served to other replicas, and it cannot be promoted.

With --once, the command exits when its map has the state that the origin's map had when the
command began. The copy remains; run the same command again to update it.

TCP is not encrypted: between machines, use a tunnel.

Exit codes:
  0     stopped by a signal or, with --once, the copy is complete
  1     with --once: timed out before the copy was complete, or a map was skipped
  2, 3  error (see 'hold help')
  130   with --once, stopped by a signal before the copy was complete";

/// Options of `hold replica`.
#[derive(clap::Args, Debug)]
pub struct Args {
    /// Copy the map, or all maps, once, then exit
    #[arg(long)]
    once: bool,

    /// Time limit for the copy [default: no limit]
    #[arg(long, value_name = "TIME", value_parser = sizes::wait, requires = "once")]
    timeout: Option<Duration>,

    /// Replicate only the pairs whose keys begin with PREFIX (1 to 255 bytes)
    #[arg(long, value_name = "PREFIX", allow_negative_numbers = true, requires = "map")]
    prefix: Option<OsString>,

    /// PREFIX consists of hexadecimal digits
    #[arg(long, requires = "prefix")]
    hex: bool,

    // Last: its options are under a heading of their own.
    #[command(flatten)]
    following: Follow<MapOrHold>,
}

/// Follows.
pub fn run(args: &Args, directory: &Directory, output: &Output) -> Result<ExitCode> {
    let output = output.text_or_json("replica")?;
    let Some(name) = args.following.target.one() else {
        let once = args.once.then_some(args.timeout);
        return following_hold::run(&args.following, once, directory, &output);
    };
    let hex = Hex { hex: args.hex };
    let prefix = args.prefix.as_ref().map(|prefix| hex.bytes(prefix)).transpose()?;
    let options = ReplicaOptions { prefix, ..args.following.options()? };
    let following = args.following.begin(&name, "replica", directory, options, &output)?;
    if args.once {
        return once(args, &following, &output);
    }
    following.service.run(|| following.ensure_map())?;
    Ok(ExitCode::SUCCESS)
}

fn once(args: &Args, following: &Following, output: &Output) -> Result<ExitCode> {
    let (replica, service) = (&following.replica, &following.service);
    let begun = Instant::now();
    let left = || args.timeout.map(|time| time.saturating_sub(begun.elapsed()));
    let is_ready = |time| replica.wait(time, |_| following.is_ready());
    let is_there = service.until(left(), is_ready)?;
    if service.is_over() && !is_there {
        return Ok(commonhold_terminal::interrupt::EXIT_CODE.into());
    }
    if !is_there && !output.is_quiet() {
        let why = replica.status().last_error;
        let why = why.map_or(String::new(), |why| format!(": {why}"));
        let (target, origin) = (args.following.target.shown(), args.following.origin());
        complain(&format!("{target} of {origin}: timed out before the copy was complete{why}"));
    }
    Ok(answer(is_there))
}
