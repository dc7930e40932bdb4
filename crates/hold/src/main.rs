//! `hold`: the command for holds, maps in memory that many processes share.
//!
//! - [`cli`]: the subcommands, from which help, completions and man pages are made
//! - [`commands`]: one file per subcommand; shared code in `commands/shared`
//! - [`monitor`]: a hold in the browser and in Prometheus
//! - [`top`]: a hold in the terminal
//! - [`report`]: the statistics of a hold and its contents, as text, tables and JSON
//! - [`target`]: the hold and the map of a subcommand; [`making`]: how they are created if they do
//!   not exist
//! - [`formats`]: the formats of keys and values in files; [`version`]: the text of `--version`
//!
//! Arrows point down: `cli`, `commands`, `top`, `monitor`, `report`, then the others. Output, exit codes
//! and sizes are in `commonhold-terminal`; `demo`, `bench` and `crashtest` are in `commonhold-lab`.
//!
//! Invariant: if anything fails, the exit code shows it; only the library touches shared memory.

#![forbid(unsafe_code)]

mod cli;
mod commands;
mod formats;
mod making;
mod monitor;
mod report;
mod target;
mod top;

use std::process::ExitCode;

fn main() -> ExitCode {
    cli::Cli::of_process().run().unwrap_or_else(|failure| failure.report())
}
