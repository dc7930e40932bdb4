//! `hold nats put`, `get` and `delete`: single keys of a bucket.

use crate::command::connection::{Connection, Keys, runtime};
use crate::command::target::{Directory, MapName};
use commonhold_nats::bucket::{Bucket, Condition};
use commonhold_nats::local_copy::LocalCopy;
use commonhold_terminal::failure::{NO, Result, complain};
use commonhold_terminal::output::Output;
use commonhold_terminal::{bytes, sizes};
use serde_json::json;
use std::ffi::OsString;
use std::os::unix::ffi::OsStrExt;
use std::process::ExitCode;
use std::time::Duration;

/// Examples of `hold nats put`.
pub const PUT_EXAMPLES: &str = "\
Examples:
  hold nats put flags shop flags dark-mode on            # waits until map flags shows it
  hold nats put flags shop flags dark-mode on --revision 7 || echo 'the value has changed'
  hold nats put flags shop flags leader $$ --revision 0  # only if the key never had a value

The command writes to the bucket, and returns when the map, which 'hold nats mirror' updates, shows
the change. It prints the revision of the change.

Exit codes:
  0     the map shows the change
  1     with --revision: the key has a different revision
  2, 3  error (see 'hold nats --help'); after a timeout, the change may have been made";

/// Examples of `hold nats get`.
pub const GET_EXAMPLES: &str = "\
Examples:
  hold nats get flags dark-mode
  hold nats get flags dark-mode --format json            # with the revision

The command asks the servers. To read the local map of a mirror, which is faster, use 'hold get'.

Exit codes:
  0     the value was printed
  1     the key is absent
  2, 3  error (see 'hold nats --help')";

/// Examples of `hold nats delete`.
pub const DELETE_EXAMPLES: &str = "\
Examples:
  hold nats delete flags shop flags dark-mode            # waits until map flags no longer has it
  hold nats delete flags shop flags dark-mode --revision 7

Exit codes:
  0     the map shows the change
  1     with --revision: the key has a different revision
  2, 3  error (see 'hold nats --help'); after a timeout, the change may have been made";

/// A change of a key.
#[derive(clap::Args, Debug)]
struct Change {
    /// Make the change only if the key's last change has this revision; 0: only if the key has
    /// never changed
    #[arg(long, value_name = "N")]
    revision: Option<u64>,

    /// Maximum time to wait until the map shows the change
    #[arg(long, value_name = "TIME", value_parser = sizes::wait, default_value = "10s")]
    timeout: Duration,

    #[command(flatten)]
    keys: Keys,

    // Last: its options are under a heading of their own.
    #[command(flatten)]
    connection: Connection,
}

/// Options of `hold nats put`.
#[derive(clap::Args, Debug)]
pub struct PutArgs {
    /// The bucket
    #[arg(value_name = "BUCKET")]
    bucket: String,

    #[command(flatten)]
    name: MapName,

    /// The key
    #[arg(value_name = "KEY")]
    key: OsString,

    /// The value
    #[arg(value_name = "VALUE", allow_hyphen_values = true)]
    value: OsString,

    #[command(flatten)]
    change: Change,
}

/// Options of `hold nats delete`.
#[derive(clap::Args, Debug)]
pub struct DeleteArgs {
    /// The bucket
    #[arg(value_name = "BUCKET")]
    bucket: String,

    #[command(flatten)]
    name: MapName,

    /// The key
    #[arg(value_name = "KEY")]
    key: OsString,

    #[command(flatten)]
    change: Change,
}

/// Options of `hold nats get`.
#[derive(clap::Args, Debug)]
pub struct GetArgs {
    /// The bucket
    #[arg(value_name = "BUCKET")]
    bucket: String,

    /// The key
    #[arg(value_name = "KEY")]
    key: OsString,

    #[command(flatten)]
    keys: Keys,

    // Last: its options are under a heading of their own.
    #[command(flatten)]
    connection: Connection,
}

/// Stores a value.
pub fn put(args: &PutArgs, directory: &Directory, output: &Output) -> Result<ExitCode> {
    let value = Some(args.value.as_bytes());
    write((&args.bucket, &args.name, &args.key), value, &args.change, directory, output)
}

/// Deletes a key.
pub fn delete(args: &DeleteArgs, directory: &Directory, output: &Output) -> Result<ExitCode> {
    write((&args.bucket, &args.name, &args.key), None, &args.change, directory, output)
}

fn write(
    (bucket, name, key): (&str, &MapName, &OsString),
    value: Option<&[u8]>,
    change: &Change,
    directory: &Directory,
    output: &Output,
) -> Result<ExitCode> {
    let output = output.text_or_json(if value.is_some() { "put" } else { "delete" })?;
    let condition = change.revision.map_or(Condition::None, Condition::Revision);
    runtime()?.block_on(async {
        let link = change.connection.connect(false).await?;
        let bucket = Bucket::new(&link, bucket, change.keys.into())?;
        // Before the change: a map that does not exist would never show it.
        let hold = directory.open_to_read(&name.hold)?;
        let copy = LocalCopy::open(&hold, &name.map, &bucket).await?;
        let written = match value {
            Some(value) => bucket.put(key.as_bytes(), value, condition).await?,
            None => bucket.delete(key.as_bytes(), condition).await?,
        };
        let Some(revision) = written else {
            if !output.is_quiet() {
                complain("the key has another revision; nothing was changed");
            }
            return Ok(NO.into());
        };
        copy.wait(revision, change.timeout).await?;
        output.report(&json!({ "revision": revision }), &format!("revision {revision}"))?;
        Ok(ExitCode::SUCCESS)
    })
}

/// Prints a value.
pub fn get(args: &GetArgs, output: &Output) -> Result<ExitCode> {
    let output = output.text_or_json("get")?;
    runtime()?.block_on(async {
        let link = args.connection.connect(false).await?;
        let bucket = Bucket::new(&link, &args.bucket, args.keys.into())?;
        let entry = bucket.get(args.key.as_bytes()).await?;
        let Some((value, revision)) = entry.and_then(|e| Some((e.value?, e.revision))) else {
            return Ok(NO.into());
        };
        match output.is_json() {
            true => {
                let value = bytes::json(&value);
                output.json_line(&json!({ "value": value, "revision": revision }))?;
            }
            false => output.bytes(&[&value[..], b"\n"].concat())?,
        }
        Ok(ExitCode::SUCCESS)
    })
}
