//! `hold channel create`: makes a channel, and the hold if it does not exist yet.

use crate::making::NewHold;
use crate::target::{Directory, StructureName};
use commonhold::channel::ChannelOptions;
use commonhold::hold::StructureKind;
use commonhold_terminal::failure::Result;
use commonhold_terminal::output::Output;
use commonhold_terminal::sizes::{self, shown};
use serde_json::json;
use std::process::ExitCode;

/// Examples of `hold channel create`.
pub const EXAMPLES: &str = "\
Examples:
  hold channel create shop ticks
  hold channel create shop video --ring-bytes 64M

A message may take up to a quarter of the ring. The size of the ring limits how far consumers may
lag before the producer waits for them, or before lossy consumers miss messages. If the channel
exists with the same ring size, it remains unchanged. If it exists with a different size, the
command fails.

Exit codes:
  0     the channel was created, or already existed
  2, 3  error (see 'hold help')";

/// Options of `hold channel create`.
#[derive(clap::Args, Debug)]
pub struct Args {
    #[command(flatten)]
    name: StructureName,

    /// Size of the ring buffer: a power of two from 4K to 1G
    #[arg(long, value_name = "SIZE", default_value = "1M", value_parser = ring_bytes)]
    ring_bytes: u64,

    #[command(flatten)]
    #[command(next_help_heading = "If the hold does not exist yet")]
    hold: NewHold,
}

fn ring_bytes(text: &str) -> std::result::Result<u64, String> {
    match sizes::bytes(text)? {
        bytes if bytes.is_power_of_two() && (4 << 10..=1 << 30).contains(&bytes) => Ok(bytes),
        _ => Err("expected a power of two from 4K to 1G".to_owned()),
    }
}

/// Makes the channel.
pub fn run(args: &Args, directory: &Directory, output: &Output) -> Result<ExitCode> {
    let output = output.text_or_json("channel create")?;
    let kind = StructureKind::Channel;
    let hold = args.hold.open_or_create_for(directory, &args.name, kind, args.ring_bytes)?;
    let channel =
        hold.channels().open_or_create(&args.name.name, ChannelOptions::new(args.ring_bytes))?;
    let (name, stat) = (channel.name(), channel.stat()?);
    let json = json!({
        "name": name,
        "ring_bytes": stat.ring_bytes,
        "max_message_bytes": stat.max_message,
    });
    let (ring, most) = (shown(stat.ring_bytes), shown(stat.max_message));
    let text = format!("channel {name}: a ring of {ring}, messages of up to {most}");
    output.report(&json, &text)?;
    Ok(ExitCode::SUCCESS)
}
