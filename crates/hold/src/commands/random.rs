//! `hold random`: prints pairs of a map that are picked at random.

use crate::commands::shared::answer;
use crate::formats::Writing;
use crate::target::{Directory, Hex, MapName};
use commonhold_terminal::failure::Result;
use commonhold_terminal::output::{Format, Output, Sink};
use std::process::ExitCode;

/// Examples of `hold random`.
pub const EXAMPLES: &str = "\
Examples:
  hold random shop prices
  hold random shop prices -n 5 --format json    # the same pair may be picked several times

Each pair of the map is about equally likely.

Exit codes:
  0     found
  1     the map is empty
  2, 3  error (see 'hold help')";

/// Options of `hold random`.
#[derive(clap::Args, Debug)]
pub struct Args {
    #[command(flatten)]
    name: MapName,

    /// Number of pairs to print
    #[arg(long, short = 'n', value_name = "N", default_value_t = 1)]
    number: u64,

    #[command(flatten)]
    hex: Hex,
}

/// Prints them.
pub fn run(args: &Args, directory: &Directory, output: &Output) -> Result<ExitCode> {
    let map = directory.map_to_read(&args.name)?;
    let format = output.format().unwrap_or(Format::Text);
    let mut writer = Writing { hex: args.hex.hex, ..Writing::default() }.open(format)?;
    let mut sink = Sink::stdout();
    let mut found = true;
    for _ in 0..args.number {
        let pair = map.random_pair()?;
        found = pair.is_some();
        let Some((key, value)) = pair else { break };
        sink.put(|out| writer.write(out, &key, &value))?;
    }
    sink.finish()?;
    Ok(answer(found))
}
