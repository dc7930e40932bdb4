//! `hold`: the command for holds, maps in memory that many processes share.
//!
//! - [`cli`]: the verbs, from which help, completions and man pages are made
//! - [`commands`]: one file per verb
//! - [`formats`]: how keys and values look in files and on the terminal
//! - [`target`]: which hold and which map a verb is about; [`making`]: how it is made if it is not there
//! - [`output`], [`failure`]: what goes to standard output, what to standard error, exit codes
//! - [`monitor`]: a hold in the browser and in Prometheus
//! - [`demo`], [`mod@bench`], [`crashtest`] with [`workload`]: the runs of many processes
//!
//! Invariant: whatever fails, the exit code says so ([`failure`]); nothing here touches shared
//! memory but through the library.

#![forbid(unsafe_code)]

mod bench;
mod cli;
mod commands;
mod crashtest;
mod demo;
mod failure;
mod formats;
mod making;
mod monitor;
mod output;
mod target;
mod workload;

use clap::Parser;
use std::process::ExitCode;

fn main() -> ExitCode {
    let cli = cli::Cli::parse();
    match commands::run(&cli) {
        Ok(code) => code,
        Err(failure) => failure.report(),
    }
}
