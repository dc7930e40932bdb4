//! `hold serve`: serves a directory of files, by workers that share one cache.
//!
//! - [`options`]: the options of the command line
//! - [`supervisor`]: the process that the user started: it listens, starts the workers and restarts
//!   them
//! - [`worker`]: a worker process
//! - [`control`]: the messages between the two
//! - [`connections`]: the number of connections that a worker may have
//! - [`reports`]: workers, as 'hold stat' shows them
//! - [`import`]: creates a database from a directory
//!
//! Invariant: the listening sockets belong to the supervisor as well as to the workers, so a
//! worker that dies takes no waiting connection with it, and new workers accept before old ones
//! stop.

mod connections;
mod control;
pub mod import;
mod options;
mod supervisor;
mod worker;

use crate::target::Directory;
use commonhold_terminal::failure::Result;
use commonhold_terminal::output::Output;
use std::process::ExitCode;

pub use options::Args;

/// Examples of `hold serve`.
pub const EXAMPLES: &str = "\
Examples:
  hold serve ./public                                   # http://127.0.0.1:8080/, local only
  hold serve ./public --listen tcp:0.0.0.0:80 --workers 4
  hold serve ./public --listen unix:/run/files.sock
  hold serve ~/Zotero/storage --layout zotero           # /ABCD1234 is the PDF of that item
  hold serve-import ./public files.db && hold serve files.db --files sqlite
  hold serve ./public --admin tcp:8081                  # status page and metrics
  curl -s localhost:8080/index.html; echo index.html | nc localhost 8080
  hold serve ./public --access-log access.log --access-log-format json
  hold serve ./public --hold files --request-log requests
  hold log tail files requests                          # in another terminal
  hold bench files ./public --matrix                    # the best choices for these files

The server accepts two protocols at the same address. The first is HTTP/1.1: GET, HEAD, OPTIONS,
ranges, conditional requests, and precompressed .br and .gz versions stored next to a file. In HTTP,
a file's id is the path of its URL without the leading slash. The second is a simple protocol: a
client sends an id and a newline, and reads the file's bytes until the end of the stream. A single
zero byte means that the id does not exist or that its file cannot be read.

Each worker is a separate process. All workers share one cache in a hold. The cache survives a
crash of the server, and with --hold it survives any exit. If a worker dies, the server starts
another one, and the other workers continue. After a file changes or disappears, the server sends
its old contents for at most the time set by --fresh. Without --follow-symlinks, it serves no
files outside DIR.

After SIGTERM or SIGINT, the server exits when all responses have been sent, or when the time set
by --grace has passed. A second signal stops it immediately. SIGHUP starts new workers, which may
run a new version of this program, and then lets the old workers finish. All of them reopen the
file of --access-log.

TCP is not encrypted: on the public Internet, put the server behind a TLS proxy.

Exit codes:
  0     stopped by a signal
  2, 3  error (see 'hold help')";

/// Serves, as the supervisor or as one of its workers.
pub fn run(args: &Args, directory: &Directory, output: &Output) -> Result<ExitCode> {
    let output = output.text_or_json("serve")?;
    match args.is_worker() {
        true => worker::run(args, directory),
        false => supervisor::run(args, directory, &output),
    }
}
