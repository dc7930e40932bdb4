//! The verbs of `hold` and their options: the one definition from which parsing, `--help`, shell
//! completions and man pages are made.

use crate::commands::replication::{journal, origin, relay, replica, sync, verify};
use crate::commands::{
    backup, channel, check, completions, del, doctor, drop, dump, get, incr, keys, list, load, log,
    man, monitor, pop, push, queue, repair, restore, scan, serve, set, shift, stat, unshift, watch,
};
use crate::output::{Format, Output};
use crate::target::Directory;
use crate::{bench, crashtest, demo};
use clap::{Parser, Subcommand};

const LONG_ABOUT: &str = "\
A hold is one file of memory that many processes share. The maps in it (bytes to bytes), queues, \
channels and logs are read and changed by all of them at memory speed, without a server; a process \
that is killed loses nothing but what it had not finished.

A bare name such as 'shop' is a hold in memory (in /dev/shm); anything with a slash, or ending in \
.hold, is the path of a file.";

const AFTER_HELP: &str = "\
Examples:
  hold set shop prices apple 3           # makes the hold 'shop' and its map 'prices'
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
  hold check ./shop.hold
  hold demo

Exit codes:
  0  done; the answer is yes
  1  the answer is no: key absent, condition false, queue empty, time run out, records or lines
     left out, problems found
  2  the command line makes no sense
  3  it could not be done; a message on standard error says why
  130  ended by Ctrl-C (demo, bench, crashtest), or before the messages came that were asked for

Environment:
  COMMONHOLD_DIR  where holds with bare names live, instead of /dev/shm";

/// Maps, queues, channels and logs in memory that many processes share
#[derive(Parser, Debug)]
#[command(name = "hold", version, long_about = LONG_ABOUT, after_help = flowing(AFTER_HELP))]
#[command(arg_required_else_help = true, propagate_version = true, max_term_width = 100)]
pub struct Cli {
    #[command(subcommand)]
    pub verb: Verb,

    #[command(flatten)]
    pub directory: Directory,

    /// How answers are written, and pairs where no file's name tells it (and read by load)
    #[arg(long, global = true, value_enum, value_name = "FORMAT")]
    #[arg(help_heading = "Global options")]
    pub format: Option<Format>,

    /// No reports and no progress; answers and errors only
    #[arg(long, short, global = true, help_heading = "Global options")]
    pub quiet: bool,
}

impl Cli {
    /// How the verb answers.
    pub fn output(&self) -> Output {
        Output::new(self.format, self.quiet)
    }
}

/// What stands after a verb's help: lines of text that follow each other are one, which is broken to the
/// terminal's width; lines that are indented stay as they are.
pub fn flowing(text: &str) -> String {
    let mut flowing = String::with_capacity(text.len());
    let mut flows = false;
    for line in text.lines() {
        let is_text = !line.is_empty() && !line.starts_with(' ');
        if !flowing.is_empty() {
            flowing.push(if flows && is_text { ' ' } else { '\n' });
        }
        flowing.push_str(line);
        flows = is_text;
    }
    flowing
}

/// What `hold` can do.
#[derive(Subcommand, Debug)]
pub enum Verb {
    /// Store a value under a key
    #[command(after_help = flowing(set::EXAMPLES))]
    Set(set::Args),
    /// Print the value of a key, or of several
    #[command(after_help = flowing(get::EXAMPLES))]
    Get(get::Args),
    /// Delete keys
    #[command(after_help = flowing(del::EXAMPLES), visible_alias = "delete")]
    Del(del::Args),
    /// Add to a counter and print it
    #[command(after_help = flowing(incr::EXAMPLES))]
    Incr(incr::Args),
    /// Append values to a list, which is the value of a key
    #[command(after_help = flowing(push::EXAMPLES))]
    Push(push::Args),
    /// Take the last value of a list and print it
    #[command(after_help = flowing(pop::EXAMPLES))]
    Pop(pop::Args),
    /// Take the first value of a list and print it
    #[command(after_help = flowing(shift::EXAMPLES))]
    Shift(shift::Args),
    /// Put values in front of a list
    #[command(after_help = flowing(unshift::EXAMPLES))]
    Unshift(unshift::Args),
    /// Print the keys of a map
    #[command(after_help = flowing(keys::EXAMPLES))]
    Keys(keys::Args),
    /// Print the keys and values of a map
    #[command(after_help = flowing(scan::EXAMPLES))]
    Scan(scan::Args),
    /// Store the pairs of a file: CSV, TSV, JSON Lines or NUL-separated
    #[command(after_help = flowing(load::EXAMPLES))]
    Load(load::Args),
    /// Write all pairs of a map to a file: CSV, TSV, JSON Lines or NUL-separated
    #[command(after_help = flowing(dump::EXAMPLES))]
    Dump(dump::Args),
    /// Move messages between processes, each to one of them
    #[command(after_help = flowing(queue::EXAMPLES))]
    Queue(queue::Args),
    /// Send messages from one process to all that listen
    #[command(after_help = flowing(channel::EXAMPLES))]
    Channel(channel::Args),
    /// Write lines from many processes, and collect them as one
    #[command(after_help = flowing(log::EXAMPLES))]
    Log(log::Args),
    /// Print the changes of a map as they happen
    #[command(after_help = flowing(watch::EXAMPLES))]
    Watch(watch::Args),
    /// Serve a map to replicas, on this machine and on others
    #[command(after_help = flowing(origin::EXAMPLES))]
    Origin(origin::Args),
    /// Keep a map what a map elsewhere is, or copy it once
    #[command(after_help = flowing(replica::EXAMPLES))]
    Replica(replica::Args),
    /// Be the replica of one origin and the origin of others
    #[command(after_help = flowing(relay::EXAMPLES))]
    Relay(relay::Args),
    /// Compare a replica with its origin, pair by pair, while both go on
    #[command(after_help = flowing(verify::EXAMPLES))]
    Verify(verify::Args),
    /// Keep a file from which a map is rebuilt after a crash of the system
    #[command(after_help = flowing(journal::EXAMPLES))]
    Journal(journal::Args),
    /// Wait until a map's journal has made everything durable
    #[command(after_help = flowing(sync::EXAMPLES))]
    Sync(sync::Args),
    /// Serve a directory of files, over HTTP and a protocol as simple as can be
    #[command(after_help = flowing(serve::EXAMPLES))]
    Serve(serve::Args),
    /// Make a database of a directory, for 'hold serve --files sqlite'
    #[command(after_help = flowing(serve::import::EXAMPLES))]
    ServeImport(serve::import::Args),
    /// Show a hold in the browser, live, and its figures to Prometheus
    #[command(after_help = flowing(monitor::EXAMPLES))]
    Monitor(monitor::Args),
    /// Copy a whole hold to a file, as it is at one instant, while others write
    #[command(after_help = flowing(backup::EXAMPLES))]
    Backup(backup::Args),
    /// Make a hold from a backup
    #[command(after_help = flowing(restore::EXAMPLES))]
    Restore(restore::Args),
    /// Show size, memory, maps and participants of a hold, or the figures of one thing in it
    #[command(after_help = flowing(stat::EXAMPLES))]
    Stat(stat::Args),
    /// Look for damage in a hold
    #[command(after_help = flowing(check::EXAMPLES))]
    Check(check::Args),
    /// Clean up after killed processes; after a crash of the system, save what is intact
    #[command(after_help = flowing(repair::EXAMPLES))]
    Repair(repair::Args),
    /// Delete a map or another structure, or a whole hold
    #[command(after_help = flowing(drop::EXAMPLES))]
    Drop(drop::Args),
    /// List the holds there are, or what is in one
    #[command(after_help = flowing(list::EXAMPLES), visible_alias = "ls")]
    List(list::Args),
    /// Check what this machine is like for holds, and what to do about it
    #[command(after_help = flowing(doctor::EXAMPLES))]
    Doctor(doctor::Args),
    /// Show what a hold is for: real data, many processes, one stopped, one killed
    Demo(demo::Args),
    /// Measure the speed of maps, channels, queues and logs on this machine
    Bench(bench::Args),
    /// Kill and stop processes that work on a hold, and check that nothing is lost
    Crashtest(crashtest::Args),
    /// Print the completions of a shell
    #[command(after_help = flowing(completions::EXAMPLES))]
    Completions(completions::Args),
    /// Print the man page, or write the pages of all verbs
    #[command(after_help = flowing(man::EXAMPLES))]
    Man(man::Args),
}

#[cfg(test)]
mod tests {
    use super::*;
    use clap::CommandFactory;

    #[test]
    fn the_definitions_are_sound() {
        Cli::command().debug_assert();
    }

    #[test]
    fn text_flows_and_examples_stay() {
        let text = "Examples:\n  a\n  b\n\none\ntwo\n\nFiles: c\nd\n  e";
        assert_eq!(flowing(text), "Examples:\n  a\n  b\n\none two\n\nFiles: c d\n  e");
    }

    /// The command and all verbs, those within verbs too.
    fn all(command: &clap::Command) -> Vec<clap::Command> {
        let within = command.get_subcommands().flat_map(all);
        std::iter::once(command.clone()).chain(within).collect()
    }

    #[test]
    fn no_line_that_stays_as_it_is_is_too_long_for_the_help() {
        for verb in all(&Cli::command()) {
            let help = verb.get_after_help().map(ToString::to_string).unwrap_or_default();
            let long = help.lines().find(|l| l.starts_with(' ') && l.chars().count() > 98);
            assert_eq!(long, None, "{}", verb.get_name());
        }
    }

    #[test]
    fn every_verb_has_a_description_and_examples() {
        // The runs of many processes show their examples in the verbs below them, or need none.
        let plain = ["demo", "bench", "crashtest"];
        let all = Cli::command();
        let within = |verb: &clap::Command| verb.get_subcommands().cloned().collect::<Vec<_>>();
        let groups =
            all.get_subcommands().filter(|v| ["queue", "channel", "log"].contains(&v.get_name()));
        for verb in all.get_subcommands().cloned().chain(groups.flat_map(within)) {
            let name = verb.get_name();
            assert!(verb.get_about().is_some(), "hold {name} has no description");
            let examples = verb.get_after_help().is_some_and(|h| h.to_string().contains("hold "));
            assert!(examples || plain.contains(&name), "hold {name} has no examples");
        }
    }
}
