//! `hold nats publish`: keeps a bucket equal to a local map.

use crate::command::bridge_loop::{BridgeLoop, Life};
use crate::command::connection::{Connection, Keys, runtime};
use crate::command::target::{Directory, MapName};
use commonhold_nats::bucket::Bucket;
use commonhold_nats::publish::{Publisher, PublisherOptions};
use commonhold_terminal::failure::Result;
use commonhold_terminal::output::Output;
use commonhold_terminal::sizes;
use std::process::ExitCode;

/// Examples of `hold nats publish`.
pub const EXAMPLES: &str = "\
Examples:
  hold nats publish shop prices prices                   # until Ctrl-C
  hold nats publish shop prices prices --take-over       # replace what another program wrote
  hold stat shop prices                                  # the publisher's lag

The map must exist. Its changes go into the bucket in order, each exactly once. The publisher
resumes where it stopped, even after it or the server has been killed. If the map's
stream no longer has the changes since then, the publisher compares the whole map with the whole
bucket, and publishes what differs.

A bucket has one publisher and no other writer. If another program writes to the bucket, the
publisher ends with an error, which names that program if it is a publisher, too. A new publisher
does not replace the contents that another program has written, unless you give --take-over.

A pair is skipped, and reported, if its key or its value is too long for the bucket. 'hold stat'
shows the number of skipped pairs.

Exit codes:
  0     stopped by a signal
  2, 3  error (see 'hold nats --help')";

/// Options of `hold nats publish`.
#[derive(clap::Args, Debug)]
pub struct Args {
    #[command(flatten)]
    name: MapName,

    /// The bucket
    #[arg(value_name = "BUCKET")]
    bucket: String,

    /// Replace what another program has written to the bucket; if that program is a publisher, this
    /// makes it exit
    #[arg(long)]
    take_over: bool,

    /// Exit if a pair is too long for the bucket, instead of skipping it
    #[arg(long)]
    strict: bool,

    /// The maximum number of messages that wait for the server's acknowledgement
    #[arg(long, value_name = "N", default_value_t = 512)]
    #[arg(value_parser = clap::value_parser!(u32).range(1..=16384))]
    in_flight: u32,

    /// Size of the stream to create if the map has none
    #[arg(long, value_name = "SIZE", value_parser = sizes::bytes, default_value = "64M")]
    stream_size: u64,

    #[command(flatten)]
    keys: Keys,

    #[command(flatten)]
    life: Life,

    // Last: its options are under a heading of their own.
    #[command(flatten)]
    connection: Connection,
}

/// Publishes.
pub fn run(args: &Args, directory: &Directory, output: &Output) -> Result<ExitCode> {
    let output = output.text_or_json("publish")?;
    runtime()?.block_on(async {
        let link = args.connection.connect(true).await?;
        let bucket = Bucket::new(&link, &args.bucket, args.keys.into())?;
        let hold = directory.open(&args.name.hold)?;
        let name = format!("publisher of bucket {}", args.bucket);
        let bridge = BridgeLoop::begin(&hold, &output, args.life, name)?;
        let mut options = PublisherOptions::default();
        options.in_flight = args.in_flight as usize;
        options.stream_bytes = args.stream_size;
        options.take_over = args.take_over;
        options.strict = args.strict;
        let mut publisher = Publisher::open(&hold, &args.name.map, &bucket, options)?;
        publisher.run(&|| bridge.is_over(), &|event| bridge.show(&event)).await?;
        bridge.end()
    })?;
    Ok(ExitCode::SUCCESS)
}
