//! `hold nats mirror`: keeps a local map equal to a bucket.

use crate::command::bridge_loop::{BridgeLoop, Life};
use crate::command::connection::{Connection, Keys, runtime};
use crate::command::target::{Directory, MapName};
use commonhold_nats::bucket::Bucket;
use commonhold_nats::mirror::{Mirror, MirrorOptions};
use commonhold_terminal::failure::Result;
use commonhold_terminal::output::Output;
use commonhold_terminal::sizes;
use std::process::ExitCode;
use std::time::Duration;

/// Examples of `hold nats mirror`.
pub const EXAMPLES: &str = "\
Examples:
  hold nats mirror flags shop flags                      # until Ctrl-C
  hold nats mirror flags shop flags --server nats://a:4222 --server nats://b:4222
  hold nats mirror flags shop flags --format json        # {\"event\":\"ready\"}
  hold stat shop flags                                   # the mirror's lag

The command creates the hold and the map if they do not exist. Programs read the map like any
other map; they cannot write to it. The bucket's contents become visible all at once, after the
last of them has arrived. If the servers are unavailable, the map does not change, and the mirror
keeps retrying. It resumes where it stopped, even after it has been killed. If the bucket was
deleted and created again, the mirror reads the whole bucket again.

If values in the bucket can expire, the map is a cache, and its pairs expire at the same time.

Exit codes:
  0     stopped by a signal
  2, 3  error (see 'hold nats --help')";

/// Options of `hold nats mirror`.
#[derive(clap::Args, Debug)]
pub struct Args {
    /// The bucket
    #[arg(value_name = "BUCKET")]
    bucket: String,

    #[command(flatten)]
    name: MapName,

    #[command(flatten)]
    keys: Keys,

    /// Interval at which the mirror asks the server for the bucket's state; it limits the precision
    /// of the lag
    #[arg(long, value_name = "TIME", value_parser = sizes::duration, default_value = "2s")]
    poll: Duration,

    #[command(flatten)]
    life: Life,

    // Last: its options are under a heading of their own.
    #[command(flatten)]
    connection: Connection,
}

/// Mirrors.
pub fn run(args: &Args, directory: &Directory, output: &Output) -> Result<ExitCode> {
    let output = output.text_or_json("mirror")?;
    runtime()?.block_on(async {
        let link = args.connection.connect(true).await?;
        let bucket = Bucket::new(&link, &args.bucket, args.keys.into())?;
        let hold = directory.open_or_create(&args.name.hold)?;
        let name = format!("mirror of bucket {}", args.bucket);
        let bridge = BridgeLoop::begin(&hold, &output, args.life, name)?;
        let mut options = MirrorOptions::default();
        options.poll = args.poll;
        let mut mirror = Mirror::open(&hold, &args.name.map, &bucket, options)?;
        mirror.run(&|| bridge.is_over(), &|event| bridge.show(&event)).await?;
        bridge.end()
    })?;
    Ok(ExitCode::SUCCESS)
}
