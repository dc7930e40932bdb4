//! The subcommands of `hold` and their options: the one definition from which parsing, `--help`,
//! shell completions and man pages are made.

use crate::commands::list_values::End;
use crate::commands::replication::{journal, origin, promote, relay, replica, sync, verify, wait};
use crate::commands::{
    alter, backup, batch, channel, check, clear, completions, del, doctor, drop, dump, get, incr,
    keys, list, list_values, load, log, man, monitor, nats, queue, random, repair, restore, scan,
    serve, set, stat, top, ttl, upgrade, watch,
};
use crate::target::Directory;
use clap::error::{ContextKind, ContextValue, ErrorKind};
use clap::{CommandFactory, Parser};
#[cfg(feature = "lab")]
use commonhold_lab::{bench, crashtest, demo};
use commonhold_terminal::failure::Result;
use commonhold_terminal::help::flowing;
use commonhold_terminal::output::{Format, Output};
use commonhold_terminal::version;
use std::process::ExitCode;

const LONG_ABOUT: &str = "\
A hold is a memory-mapped file that many processes share. It contains maps, queues, channels and
logs. All processes read and change them at memory speed, without a server. A process that is
killed loses only its unfinished operation.

A bare name such as 'shop' stands for a hold in memory (in /dev/shm). A name that contains a slash
or ends in .hold is the path of a file.";

const AFTER_HELP: &str = "\
Examples:
  hold set shop prices apple 3           # creates the hold 'shop' and its map 'prices'
  hold get shop prices apple
  hold load shop prices data.csv
  hold dump shop prices --format json > prices.jsonl
  hold scan shop prices | head
  hold push shop lists fruit apple pear  # a list as a value
  hold queue create shop jobs; hold queue push shop jobs full 'first job'
  hold channel create shop ticks; hold channel recv shop ticks
  hold log create shop events; hold log write shop events 'the shop is open'
  hold watch shop prices                 # changes as they happen
  hold origin shop prices --listen unix:./prices.sock
  hold replica unix:./prices.sock copy prices
  hold list shop
  hold top shop                          # live view of sizes, rates and processes
  hold check ./shop.hold
  hold demo

Exit codes:
  0    success, or a positive result
  1    a negative result: for example, a key is absent, a condition is false, a queue is empty, a
       wait timed out, records were skipped, or a check found problems
  2    the command line is invalid
  3    the command failed; a message on standard error gives the reason
  130  stopped by Ctrl-C (demo, bench, crashtest), or by a signal before all requested messages
       or changes had arrived, or before 'load', 'replica --once' or 'top --once' was complete

Sizes are written like 4096, 64K or 1.5G (K = 1024 bytes), and times like 250ms, 90s or 1h30m.

Environment:
  COMMONHOLD_DIR  directory for holds with bare names, instead of /dev/shm";

/// The subcommands of the feature `lab`.
const LAB: [&str; 3] = ["demo", "bench", "crashtest"];

/// The text after the help. A build without the feature `lab` names no subcommand that it lacks.
fn after_help(has_lab: bool) -> String {
    let text = AFTER_HELP.to_owned();
    match has_lab {
        true => text,
        false => text.replace("  hold demo\n", "").replace(" (demo, bench, crashtest)", ""),
    }
}

/// Maps, queues, channels and logs in shared memory
#[derive(Parser, Debug)]
#[command(name = "hold", version = version::text(), long_about = LONG_ABOUT, after_help = flowing(&after_help(cfg!(feature = "lab"))))]
#[command(arg_required_else_help = true, propagate_version = true, max_term_width = 100)]
pub struct Cli {
    #[command(subcommand)]
    pub subcommand: Subcommand,

    #[command(flatten)]
    pub directory: Directory,

    /// Output format, and the format of files whose names have no known extension
    #[arg(long, global = true, value_enum, value_name = "FORMAT")]
    #[arg(help_heading = "Global options")]
    pub format: Option<Format>,

    /// Print only results and errors, not reports or progress
    #[arg(long, short, global = true, help_heading = "Global options")]
    pub quiet: bool,
}

impl Cli {
    /// The command line of this process. Ends the process if the line is invalid or asks for help.
    pub fn of_process() -> Cli {
        Cli::try_parse().unwrap_or_else(|error| explained(error).exit())
    }

    /// Runs the subcommand that the command line names.
    ///
    /// # Errors
    /// Those of the subcommand.
    pub fn run(&self) -> Result<ExitCode> {
        let (directory, output) = (&self.directory, &self.output());
        match &self.subcommand {
            Subcommand::Set(args) => set::run(args, directory, output),
            Subcommand::Get(args) => get::run(args, directory, output),
            Subcommand::Del(args) => del::run(args, directory, output),
            Subcommand::Clear(args) => clear::run(args, directory, output),
            Subcommand::Alter(args) => alter::run(args, directory, output),
            Subcommand::Incr(args) => incr::run(args, directory, output),
            Subcommand::Ttl(args) => ttl::run(args, directory, output),
            Subcommand::Touch(args) => ttl::touch(args, directory, output),
            Subcommand::Push(args) => list_values::add(args, End::Back, directory, output),
            Subcommand::Pop(args) => list_values::take(args, End::Back, directory, output),
            Subcommand::Shift(args) => list_values::take(args, End::Front, directory, output),
            Subcommand::Unshift(args) => list_values::add(args, End::Front, directory, output),
            Subcommand::Keys(args) => keys::run(args, directory, output),
            Subcommand::Scan(args) => scan::run(args, directory, output),
            Subcommand::Random(args) => random::run(args, directory, output),
            Subcommand::Batch(args) => batch::run(args, directory, output),
            Subcommand::Load(args) => load::run(args, directory, output),
            Subcommand::Dump(args) => dump::run(args, directory, output),
            Subcommand::Queue(args) => queue::run(args, directory, output),
            Subcommand::Channel(args) => channel::run(args, directory, output),
            Subcommand::Log(args) => log::run(args, directory, output),
            Subcommand::Watch(args) => watch::run(args, directory, output),
            Subcommand::Origin(args) => origin::run(args, directory, output),
            Subcommand::Replica(args) => replica::run(args, directory, output),
            Subcommand::Relay(args) => relay::run(args, directory, output),
            Subcommand::Promote(args) => promote::run(args, directory, output),
            Subcommand::Verify(args) => verify::run(args, directory, output),
            Subcommand::Journal(args) => journal::run(args, directory, output),
            Subcommand::Sync(args) => sync::run(args, directory, output),
            Subcommand::Wait(args) => wait::run(args, directory, output),
            Subcommand::Nats(args) => nats::run(args, directory, output),
            Subcommand::Serve(args) => serve::run(args, directory, output),
            Subcommand::ServeImport(args) => serve::import::run(args, output),
            Subcommand::Monitor(args) => monitor::run(args, directory, output),
            Subcommand::Top(args) => top::run(args, directory, output),
            Subcommand::Backup(args) => backup::run(args, directory, output),
            Subcommand::Restore(args) => restore::run(args, directory, output),
            Subcommand::Upgrade(args) => upgrade::run(args, directory, output),
            Subcommand::Stat(args) => stat::run(args, directory, output),
            Subcommand::Check(args) => check::run(args, directory, output),
            Subcommand::Repair(args) => repair::run(args, directory, output),
            Subcommand::Drop(args) => drop::run(args, directory, output),
            Subcommand::List(args) => list::run(args, directory, output),
            Subcommand::Doctor(args) => doctor::run(args, directory, output),
            #[cfg(feature = "lab")]
            Subcommand::Demo(args) => Ok(demo::run(args, output.text_or_json("demo")?.is_json())?),
            #[cfg(feature = "lab")]
            Subcommand::Bench(args) => {
                Ok(bench::run(args, output.text_or_json("bench")?.is_json())?)
            }
            #[cfg(feature = "lab")]
            Subcommand::Crashtest(args) => {
                Ok(crashtest::run(args, output.text_or_json("crashtest")?.is_json())?)
            }
            Subcommand::Completions(args) => completions::run(args, Cli::command(), output),
            Subcommand::Man(args) => man::run(args, Cli::command(), output),
        }
    }

    /// How the subcommand prints.
    pub fn output(&self) -> Output {
        Output::new(self.format, self.quiet)
    }
}

/// Subcommands that delete or replace data: a mistyped name must not suggest them.
const DESTRUCTIVE: [&str; 6] = ["clear", "del", "delete", "drop", "promote", "restore"];

/// The error, or the way out if the command line names a subcommand that this build lacks. It
/// suggests no subcommand that deletes or replaces data.
fn explained(mut error: clap::Error) -> clap::Error {
    if let Some(ContextValue::Strings(mut names)) = error.remove(ContextKind::SuggestedSubcommand) {
        names.retain(|name| !DESTRUCTIVE.contains(&name.as_str()));
        if !names.is_empty() {
            error.insert(ContextKind::SuggestedSubcommand, ContextValue::Strings(names));
        }
    }
    let Some(ContextValue::String(name)) = error.get(ContextKind::InvalidSubcommand) else {
        return error;
    };
    if !LAB.contains(&name.as_str()) {
        return error;
    }
    let text = format!(
        "this build of hold has no subcommand '{name}'; build hold with its feature 'lab', which \
         is on by default"
    );
    Cli::command().error(ErrorKind::InvalidSubcommand, text)
}

/// The subcommand of `hold queue`, `channel` or `log`; its help names the `kind` of its argument.
fn named(subcommand: clap::Command, kind: &str) -> clap::Command {
    // `mut_arg` would move the argument after the others.
    subcommand.mut_args(|argument| match argument.get_id() == "name" {
        true => argument.help(format!("The name of the {kind} in the hold")),
        false => argument,
    })
}

/// The subcommands of `hold`.
#[derive(clap::Subcommand, Debug)]
pub enum Subcommand {
    /// Store a value under a key
    #[command(after_help = flowing(set::EXAMPLES))]
    Set(set::Args),
    /// Print the values of one or more keys
    #[command(after_help = flowing(get::EXAMPLES))]
    Get(get::Args),
    /// Delete keys
    #[command(after_help = flowing(del::EXAMPLES), visible_alias = "delete")]
    Del(del::Args),
    /// Delete all pairs of a map
    #[command(after_help = flowing(clear::EXAMPLES))]
    Clear(clear::Args),
    /// Change the size of a map's stream
    #[command(after_help = flowing(alter::EXAMPLES))]
    Alter(alter::Args),
    /// Add to a counter and print the result
    #[command(after_help = flowing(incr::EXAMPLES))]
    Incr(incr::Args),
    /// Print the remaining time to live of a pair in a cache
    #[command(after_help = flowing(ttl::EXAMPLES))]
    Ttl(ttl::Args),
    /// Set the time to live of a pair in a cache, and keep its value
    #[command(after_help = flowing(ttl::TOUCH_EXAMPLES))]
    Touch(ttl::TouchArgs),
    /// Append values to the list under a key
    #[command(after_help = flowing(list_values::PUSH_EXAMPLES))]
    Push(list_values::AddArgs),
    /// Remove the last value from the list under a key, and print it
    #[command(after_help = flowing(list_values::POP_EXAMPLES))]
    Pop(list_values::TakeArgs),
    /// Remove the first value from the list under a key, and print it
    #[command(after_help = flowing(list_values::SHIFT_EXAMPLES))]
    Shift(list_values::TakeArgs),
    /// Prepend values to the list under a key
    #[command(after_help = flowing(list_values::UNSHIFT_EXAMPLES))]
    Unshift(list_values::AddArgs),
    /// Print the keys of a map
    #[command(after_help = flowing(keys::EXAMPLES))]
    Keys(keys::Args),
    /// Print the keys and values of a map
    #[command(after_help = flowing(scan::EXAMPLES))]
    Scan(scan::Args),
    /// Print pairs that are picked at random
    #[command(after_help = flowing(random::EXAMPLES))]
    Random(random::Args),
    /// Execute many operations on a map, one per line, and print one result per line
    #[command(after_help = flowing(batch::EXAMPLES))]
    Batch(batch::Args),
    /// Load pairs from a CSV, TSV, JSON Lines or NUL-separated file into a map
    #[command(after_help = flowing(load::EXAMPLES))]
    Load(load::Args),
    /// Write all pairs in a map as CSV, TSV, JSON Lines or NUL-separated text
    #[command(after_help = flowing(dump::EXAMPLES))]
    Dump(dump::Args),
    /// Move messages between processes; each message goes to one process
    #[command(after_help = flowing(queue::EXAMPLES), mut_subcommands(|c| named(c, "queue")))]
    Queue(queue::Args),
    /// Send messages from one process to all consumers
    #[command(after_help = flowing(channel::EXAMPLES), mut_subcommands(|c| named(c, "channel")))]
    Channel(channel::Args),
    /// Write log lines from many processes, and collect them in chronological order
    #[command(after_help = flowing(log::EXAMPLES), mut_subcommands(|c| named(c, "log")))]
    Log(log::Args),
    /// Print the changes to a map as they happen
    #[command(after_help = flowing(watch::EXAMPLES))]
    Watch(watch::Args),
    /// Serve a map to replicas, on this machine and on others
    #[command(after_help = flowing(origin::EXAMPLES))]
    Origin(origin::Args),
    /// Replicate a remote map, or copy it once
    #[command(after_help = flowing(replica::EXAMPLES))]
    Replica(replica::Args),
    /// Follow an origin, and serve its map to other replicas
    #[command(after_help = flowing(relay::EXAMPLES))]
    Relay(relay::Args),
    /// Make a replica's map writable when its origin will not come back
    #[command(after_help = flowing(promote::EXAMPLES))]
    Promote(promote::Args),
    /// Compare a replica with its origin, pair by pair, while both keep running
    #[command(after_help = flowing(verify::EXAMPLES))]
    Verify(verify::Args),
    /// Record a map's changes in a file, and rebuild the map after a system crash
    #[command(after_help = flowing(journal::EXAMPLES))]
    Journal(journal::Args),
    /// Wait until a map's journal has made all changes durable
    #[command(after_help = flowing(sync::EXAMPLES))]
    Sync(sync::Args),
    /// Wait until replicas of a map have applied all changes
    #[command(after_help = flowing(wait::EXAMPLES))]
    Wait(wait::Args),
    /// Connect maps to the key-value buckets of NATS JetStream
    #[command(after_help = flowing(nats::EXAMPLES))]
    Nats(nats::Args),
    /// Serve a directory of files, over HTTP and a simple protocol
    #[command(after_help = flowing(serve::EXAMPLES))]
    Serve(serve::Args),
    /// Create a database from a directory, for 'hold serve --files sqlite'
    #[command(after_help = flowing(serve::import::EXAMPLES))]
    ServeImport(serve::import::Args),
    /// Show a live view of a hold in a browser, and export metrics for Prometheus
    #[command(after_help = flowing(monitor::EXAMPLES))]
    Monitor(monitor::Args),
    /// Show a live view of a hold in the terminal: sizes, rates, lags and processes
    #[command(after_help = flowing(top::EXAMPLES))]
    Top(top::Args),
    /// Write a consistent copy of all maps in a hold to a file or a pipe, even while they change
    #[command(after_help = flowing(backup::EXAMPLES))]
    Backup(backup::Args),
    /// Create a hold from a backup
    #[command(after_help = flowing(restore::EXAMPLES))]
    Restore(restore::Args),
    /// Check whether a hold has the format of this version, or copy the whole hold
    #[command(after_help = flowing(upgrade::EXAMPLES))]
    Upgrade(upgrade::Args),
    /// Show the size, memory, maps and participants of a hold, or the statistics of one structure
    #[command(after_help = flowing(stat::EXAMPLES))]
    Stat(stat::Args),
    /// Check a hold for damage
    #[command(after_help = flowing(check::EXAMPLES))]
    Check(check::Args),
    /// Clean up after killed processes; after a system crash, salvage the intact records
    #[command(after_help = flowing(repair::EXAMPLES))]
    Repair(repair::Args),
    /// Delete a map, queue, channel or log, or a whole hold
    #[command(after_help = flowing(drop::EXAMPLES))]
    Drop(drop::Args),
    /// List all holds with bare names, or the contents of one hold
    #[command(after_help = flowing(list::EXAMPLES), visible_alias = "ls")]
    List(list::Args),
    /// Check this machine and recommend changes
    #[command(after_help = flowing(doctor::EXAMPLES))]
    Doctor(doctor::Args),
    /// Run several processes that share a hold, then suspend one and kill another
    #[cfg(feature = "lab")]
    Demo(demo::Args),
    /// Measure the speed of maps, messages, replication and file serving on this machine
    #[cfg(feature = "lab")]
    Bench(bench::Args),
    /// Kill and suspend processes that share a new hold, and check that nothing is lost
    #[cfg(feature = "lab")]
    Crashtest(crashtest::Args),
    /// Print the completion script for a shell
    #[command(after_help = flowing(completions::EXAMPLES))]
    Completions(completions::Args),
    /// Print the man page of hold, or write the man pages of all subcommands to a directory
    #[command(after_help = flowing(man::EXAMPLES))]
    Man(man::Args),
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_definitions_are_sound() {
        Cli::command().debug_assert();
    }

    #[test]
    fn a_build_without_the_lab_offers_none_of_it_and_names_the_way_out() {
        let help = after_help(false);
        assert_eq!(LAB.iter().find(|name| help.contains(**name)), None, "{help}");
        let without = clap::Command::new("hold").subcommand(clap::Command::new("set"));
        for (name, way_out) in LAB.map(|name| (name, true)).into_iter().chain([("dmeo", false)]) {
            let error = without.clone().try_get_matches_from(["hold", name]).unwrap_err();
            let text = explained(error).to_string();
            assert_eq!(text.contains("feature 'lab'"), way_out, "{text}");
        }
    }

    #[test]
    fn no_subcommand_that_deletes_data_is_suggested() {
        let suggested = |name: &str| {
            let error = Cli::command().try_get_matches_from(["hold", name]).unwrap_err();
            let text = explained(error).to_string();
            text.lines().find(|line| line.contains("similar")).unwrap_or_default().to_owned()
        };
        assert!(suggested("st").contains("'stat'"), "{}", suggested("st"));
        for name in ["st", "dr", "dorp", "clera", "de", "restor", "promot", "delte"] {
            let suggested = suggested(name);
            for destructive in DESTRUCTIVE {
                assert!(!suggested.contains(&format!("'{destructive}'")), "{name}: {suggested}");
            }
        }
    }

    /// The command and all subcommands, including nested ones.
    fn all(command: &clap::Command) -> Vec<clap::Command> {
        let within = command.get_subcommands().flat_map(all);
        std::iter::once(command.clone()).chain(within).collect()
    }

    #[test]
    fn no_indented_line_is_too_long_for_the_help() {
        for subcommand in all(&Cli::command()) {
            let help = subcommand.get_after_help().map(ToString::to_string).unwrap_or_default();
            let long = help.lines().find(|l| l.starts_with(' ') && l.chars().count() > 98);
            assert_eq!(long, None, "{}", subcommand.get_name());
        }
    }

    #[test]
    fn every_subcommand_has_a_description_and_examples() {
        // `bench` shows its examples in its own subcommands; the other two need none.
        let plain = LAB;
        let all = Cli::command();
        let within =
            |subcommand: &clap::Command| subcommand.get_subcommands().cloned().collect::<Vec<_>>();
        let groups =
            all.get_subcommands().filter(|v| ["queue", "channel", "log"].contains(&v.get_name()));
        for subcommand in all.get_subcommands().cloned().chain(groups.flat_map(within)) {
            let name = subcommand.get_name();
            assert!(subcommand.get_about().is_some(), "hold {name} has no description");
            let examples =
                subcommand.get_after_help().is_some_and(|h| h.to_string().contains("hold "));
            assert!(examples || plain.contains(&name), "hold {name} has no examples");
        }
    }
}
