//! The verbs: one file each, with its options, its examples and its `run`.
//!
//! - storing and asking: [`set`], [`get`], [`del`], [`incr`], [`keys`], [`scan`]
//! - lists as values: [`push`], [`unshift`], [`pop`], [`shift`], with [`ends`]
//! - files: [`load`], [`dump`], [`backup`], [`restore`]
//! - messages: [`queue`], [`channel`], [`log`], with verbs of their own
//! - changes as they happen: [`watch`]
//! - maps over the network: [`replication`], with `origin`, `replica`, `relay`, `verify`, `journal` and `sync`
//! - files over the network: [`serve`]; a hold in the browser: [`monitor`]
//! - the hold as a whole: [`stat`], [`check`], [`repair`], [`mod@drop`], [`list`]
//! - around it: [`doctor`], [`completions`], [`man`] with [`page`]
//! - what several verbs show: [`mode`], [`table`], [`progress`], [`walk`]
//! - messages that are given, that come, that wait for room: [`given`], [`flow`], [`room`]

pub mod backup;
pub mod channel;
pub mod check;
mod choice;
pub mod completions;
pub mod del;
pub mod doctor;
pub mod drop;
pub mod dump;
mod ends;
mod flow;
pub mod get;
mod given;
pub mod incr;
pub mod keys;
pub mod list;
pub mod load;
pub mod log;
pub mod man;
pub mod mode;
pub mod monitor;
mod page;
pub mod pop;
pub mod progress;
pub mod push;
pub mod queue;
pub mod repair;
pub mod replication;
pub mod restore;
mod room;
pub mod scan;
pub mod serve;
pub mod set;
pub mod shift;
pub mod stat;
mod table;
pub mod unshift;
mod walk;
pub mod watch;

use self::replication::{journal, origin, relay, replica, sync, verify};
use crate::cli::{Cli, Verb};
use crate::failure::{NO, Result};
use crate::{bench, crashtest, demo};
use std::process::ExitCode;

/// Does what the command line says.
pub fn run(cli: &Cli) -> Result<ExitCode> {
    let (directory, output) = (&cli.directory, &cli.output());
    match &cli.verb {
        Verb::Set(args) => set::run(args, directory, output),
        Verb::Get(args) => get::run(args, directory, output),
        Verb::Del(args) => del::run(args, directory, output),
        Verb::Incr(args) => incr::run(args, directory, output),
        Verb::Push(args) => push::run(args, directory, output),
        Verb::Pop(args) => pop::run(args, directory, output),
        Verb::Shift(args) => shift::run(args, directory, output),
        Verb::Unshift(args) => unshift::run(args, directory, output),
        Verb::Keys(args) => keys::run(args, directory, output),
        Verb::Scan(args) => scan::run(args, directory, output),
        Verb::Load(args) => load::run(args, directory, output),
        Verb::Dump(args) => dump::run(args, directory, output),
        Verb::Queue(args) => queue::run(args, directory, output),
        Verb::Channel(args) => channel::run(args, directory, output),
        Verb::Log(args) => log::run(args, directory, output),
        Verb::Watch(args) => watch::run(args, directory, output),
        Verb::Origin(args) => origin::run(args, directory, output),
        Verb::Replica(args) => replica::run(args, directory, output),
        Verb::Relay(args) => relay::run(args, directory, output),
        Verb::Verify(args) => verify::run(args, directory, output),
        Verb::Journal(args) => journal::run(args, directory, output),
        Verb::Sync(args) => sync::run(args, directory, output),
        Verb::Serve(args) => serve::run(args, directory, output),
        Verb::ServeImport(args) => serve::import::run(args, output),
        Verb::Monitor(args) => monitor::run(args, directory, output),
        Verb::Backup(args) => backup::run(args, directory, output),
        Verb::Restore(args) => restore::run(args, directory, output),
        Verb::Stat(args) => stat::run(args, directory, output),
        Verb::Check(args) => check::run(args, directory, output),
        Verb::Repair(args) => repair::run(args, directory, output),
        Verb::Drop(args) => drop::run(args, directory, output),
        Verb::List(args) => list::run(args, directory, output),
        Verb::Doctor(args) => doctor::run(args, directory, output),
        Verb::Demo(args) => Ok(demo::run(args, output.text_or_json("demo")?.is_json())?),
        Verb::Bench(args) => Ok(bench::run(args, output.text_or_json("bench")?.is_json())?),
        Verb::Crashtest(args) => {
            Ok(crashtest::run(args, output.text_or_json("crashtest")?.is_json())?)
        }
        Verb::Completions(args) => completions::run(args, output),
        Verb::Man(args) => man::run(args, output),
    }
}

/// Exit code 0 for yes, 1 for no.
fn answer(yes: bool) -> ExitCode {
    if yes { ExitCode::SUCCESS } else { NO.into() }
}
