//! `hold nats create-bucket`: creates a bucket.

use crate::command::connection::{Connection, runtime};
use commonhold_nats::bucket::{Bucket, BucketOptions};
use commonhold_nats::key::KeyStyle;
use commonhold_terminal::failure::{NO, Result};
use commonhold_terminal::output::Output;
use commonhold_terminal::sizes;
use serde_json::json;
use std::process::ExitCode;
use std::time::Duration;

/// Examples of `hold nats create-bucket`.
pub const EXAMPLES: &str = "\
Examples:
  hold nats create-bucket flags --replicas 3
  hold nats create-bucket sessions --ttl 1h --max-bytes 1G

The 'nats' tool has more options. An existing bucket stays as it is.

Exit codes:
  0     the bucket was created
  1     the bucket existed already
  2, 3  error (see 'hold nats --help')";

/// Options of `hold nats create-bucket`.
#[derive(clap::Args, Debug)]
pub struct Args {
    /// The bucket
    #[arg(value_name = "BUCKET")]
    bucket: String,

    /// The number of servers that keep the bucket
    #[arg(long, value_name = "N", default_value_t = 1)]
    #[arg(value_parser = clap::value_parser!(u8).range(1..=5))]
    replicas: u8,

    /// The number of values that the bucket keeps for each key
    #[arg(long, value_name = "N", default_value_t = 1)]
    #[arg(value_parser = clap::value_parser!(u8).range(1..=64))]
    history: u8,

    /// The age at which values expire [default: never]
    #[arg(long, value_name = "TIME", value_parser = sizes::duration)]
    ttl: Option<Duration>,

    /// The maximum size of the bucket [default: no limit]
    #[arg(long, value_name = "SIZE", value_parser = sizes::bytes)]
    max_bytes: Option<u64>,

    /// Keep the bucket in the memory of the servers, not on their disks
    #[arg(long)]
    memory: bool,

    // Last: its options are under a heading of their own.
    #[command(flatten)]
    connection: Connection,
}

/// Creates the bucket.
pub fn run(args: &Args, output: &Output) -> Result<ExitCode> {
    let output = output.text_or_json("create-bucket")?;
    runtime()?.block_on(async {
        let link = args.connection.connect(false).await?;
        let bucket = Bucket::new(&link, &args.bucket, KeyStyle::Escaped)?;
        let mut options = BucketOptions::default();
        options.replicas = args.replicas.into();
        options.history = args.history.into();
        options.max_age = args.ttl;
        options.max_bytes = args.max_bytes;
        options.in_memory = args.memory;
        let is_new = bucket.create(&options).await?;
        let text = if is_new { "created" } else { "already exists" };
        let text = format!("bucket {} {text}", args.bucket);
        output.report(&json!({ "created": is_new }), &text)?;
        Ok(if is_new { ExitCode::SUCCESS } else { NO.into() })
    })
}
