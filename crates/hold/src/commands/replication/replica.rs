//! `hold replica`: replicates an origin's map, or copies it once.

use super::following::{Follow, Following};
use crate::commands::shared::answer;
use crate::target::Directory;
use commonhold_terminal::failure::{Result, complain};
use commonhold_terminal::output::Output;
use commonhold_terminal::sizes;
use std::process::ExitCode;
use std::time::{Duration, Instant};

/// Examples of `hold replica`.
pub const EXAMPLES: &str = "\
Examples:
  hold replica unix:/run/prices.sock copy prices            # until Ctrl-C
  hold replica tcp:db.example:7400 copy prices --secret-file ~/.prices.secret
  hold replica tcp:7400 ./copy.hold prices --once --timeout 1m || echo 'not in time'
  hold replica tcp:7400 copy prices --format json           # {\"event\":\"ready\",\"position\":...}
  hold stat copy prices                                     # the replica's lag

The command creates the hold and the map if they do not exist. Programs read the map like any
other map. They cannot write to it, and must write to the origin's map instead. When the replica
receives the whole map, the new contents become visible all at once, after they are complete.

If the origin is unavailable, the map does not change, and the replica retries every few seconds.
You can therefore start a replica before its origin. A replica resumes where it stopped, even
after it has been killed. It reports lost and restored connections on standard error. Only one
replica at a time can write to a map.

With --once, the command exits when its map has the state that the origin's map had when the
command began.
The copy remains; run the same command again to update it.

TCP is not encrypted: between machines, use a tunnel.

Exit codes: 0 = stopped by a signal, or with --once, the copy is complete; with --once, if the
copy is incomplete: 1 = timed out, 130 = stopped by a signal; 2, 3 see 'hold help'";

/// Options of `hold replica`.
#[derive(clap::Args, Debug)]
pub struct Args {
    /// Copy the map once, then exit
    #[arg(long)]
    once: bool,

    /// Time limit for the copy [default: no limit]
    #[arg(long, value_name = "TIME", value_parser = sizes::wait, requires = "once")]
    timeout: Option<Duration>,

    // Last: its options are under a heading of their own.
    #[command(flatten)]
    following: Follow,
}

/// Follows.
pub fn run(args: &Args, directory: &Directory, output: &Output) -> Result<ExitCode> {
    let output = output.text_or_json("replica")?;
    let following = args.following.begin("replica", directory, &output)?;
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
        complain(&format!("{}: no copy in time{why}", args.following.shown()));
    }
    Ok(answer(is_there))
}
