//! The command line.

use std::path::{Path, PathBuf};

use clap::{Args, Parser, Subcommand, ValueEnum};

use crate::rival::{Order, Shape};

/// The same workloads over Commonhold and its rivals, interleaved in one run.
#[derive(Parser)]
#[command(version, after_help = EXAMPLES)]
pub struct CommandLine {
    /// The subcommand.
    #[command(subcommand)]
    pub command: Command,
}

const EXAMPLES: &str = "\
Examples:
  commonhold-bench run                           everything
  commonhold-bench run map --keys 10000000 --rival lmdb-batch-1000
  commonhold-bench run channel queue log         messages only
  commonhold-bench run replicate                 one table, sixteen followers
  commonhold-bench run files --budget 10         a file server compared with nginx
  commonhold-bench run --json results.json       also write the numbers to a file
  commonhold-bench table results.json            the table again
  commonhold-bench report                        everything in turns, to a file and a chart
  commonhold-bench goals                         each goal, with met or missed
  commonhold-bench list                          the rivals, and which of them can run here";

/// The subcommands.
#[derive(Subcommand)]
pub enum Command {
    /// Measure.
    Run(Settings),
    /// Print the table of a JSON file that `run --json` wrote.
    Table {
        /// The file.
        file: PathBuf,
    },
    /// Measure everything in turns, and write all numbers to one file and the ratios to a chart.
    Report(ReportSettings),
    /// Print the goals of the project, each marked as met or missed.
    Goals {
        /// The file that `report` wrote.
        #[arg(default_value = JSON)]
        file: PathBuf,
        /// A file with the output of the suite of budgets, to use instead of the counts in the
        /// report.
        #[arg(long)]
        budgets: Option<PathBuf>,
    },
    /// List the rivals: version, settings, and whether they can run here.
    List,
    /// Install redis-server, memcached, nats-server, nginx and the dependencies of spdlog's driver
    /// from Debian's packages. Only root can do this.
    Install,
    /// One worker of a run; `run` starts it.
    #[command(hide = true)]
    Worker,
}

/// The options of `report`.
#[derive(Args, Clone, Debug)]
pub struct ReportSettings {
    /// The file for all numbers.
    #[arg(long, default_value = JSON)]
    pub json: PathBuf,
    /// The directory of the charts.
    #[arg(long, default_value = CHARTS)]
    pub charts: PathBuf,
    /// The number of rounds of each part [default: 5, quick: 1].
    #[arg(long, value_parser = clap::value_parser!(u32).range(1..=1000))]
    pub rounds: Option<u32>,
    /// Use tiny sizes, which make the numbers meaningless, to test the command.
    #[arg(long)]
    pub quick: bool,
    /// The directory of the stores.
    #[arg(long, default_value = "/dev/shm")]
    pub dir: PathBuf,
}

/// The directory of the report's files in the sources of the project.
const CHARTS: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/../docs/figures");
const JSON: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/../docs/figures/rivals.json");

impl ReportSettings {
    /// The number of rounds of each part.
    pub fn rounds(&self) -> u32 {
        self.rounds.unwrap_or(if self.quick { 1 } else { 5 })
    }
}

/// The options of `run`.
#[derive(Args, Clone, Debug)]
pub struct Settings {
    /// The workloads: map, loop, private, memory-8+8, memory-16+64 (also with -scattered at the
    /// end), channel, broadcast, queue, log, newest, replicate, files. By default all of them.
    pub workloads: Vec<String>,
    /// Total keys, messages, moves, lines or requests of all workers. `loop` does twice as many
    /// iterations.
    #[arg(long, default_value_t = 1_000_000, value_parser = clap::value_parser!(u64).range(1..=1 << 31))]
    pub keys: u64,
    /// Concurrent workers in `map`, writers in `log`: processes, or threads if a rival cannot be
    /// shared.
    #[arg(long, default_value_t = 2, value_parser = clap::value_parser!(u64).range(1..=64))]
    pub processes: u64,
    /// The number of rounds; each measures every system once, one after the other.
    #[arg(long, default_value_t = 5, value_parser = clap::value_parser!(u32).range(1..=1000))]
    pub rounds: u32,
    /// Seconds that a phase may take. A slower rival gets fewer keys, and the table reports that.
    #[arg(long, default_value_t = 2.0)]
    pub budget: f64,
    /// The order in which `map` reads.
    #[arg(long, value_enum, default_value_t = Order::Own)]
    pub order: Order,
    /// Use a fixed-length map for Commonhold.
    #[arg(long)]
    pub fixed: bool,
    /// Also report the slowest and the p99.99 put. This costs every system one clock reading per
    /// put.
    #[arg(long)]
    pub latency: bool,
    /// Only these rivals (Commonhold always runs). Spaces in a name may be written as hyphens.
    #[arg(long = "rival", value_delimiter = ',')]
    pub rivals: Vec<String>,
    /// All but these rivals.
    #[arg(long, value_delimiter = ',')]
    pub without: Vec<String>,
    /// The directory of the stores: a memory file system, unless you measure files.
    #[arg(long, default_value = "/dev/shm")]
    pub dir: PathBuf,
    /// The output format.
    #[arg(long, value_enum, default_value_t = Format::Table)]
    pub format: Format,
    /// Also write the JSON to this file.
    #[arg(long)]
    pub json: Option<PathBuf>,
    /// First install missing packages. Only root can do this.
    #[arg(long)]
    pub install: bool,
}

/// The output format.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum Format {
    /// For people.
    Table,
    /// For programs.
    Json,
}

impl Settings {
    /// The settings of `run` with these workloads and no options.
    pub fn of(workloads: &[&str], dir: &Path) -> Settings {
        let words = ["commonhold-bench", "run"].into_iter().chain(workloads.iter().copied());
        match CommandLine::parse_from(words).command {
            Command::Run(settings) => Settings { dir: dir.to_owned(), ..settings },
            _ => unreachable!("`run` is the command that was given"),
        }
    }

    /// The shape of each store, before a workload or the budget changes it.
    pub fn shape(&self) -> Shape {
        Shape {
            workers: self.processes,
            keys: (self.keys / self.processes).max(1),
            order: self.order,
            fixed: self.fixed,
            in_file: false,
            latency: self.latency,
            loads: Vec::new(),
        }
    }

    /// Whether to run the rival of that name.
    pub fn wants(&self, rival: &str) -> bool {
        let listed = |names: &[String]| names.iter().any(|name| is_named(rival, name));
        (self.rivals.is_empty() || listed(&self.rivals)) && !listed(&self.without)
    }
}

/// Whether `given` on a command line means the rival of that `name`.
pub fn is_named(name: &str, given: &str) -> bool {
    let plain = |text: &str| text.replace(' ', "-").to_lowercase();
    plain(name) == plain(given)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_may_be_written_with_hyphens() {
        assert!(is_named("lmdb batch 1000", "lmdb-batch-1000"));
        assert!(is_named("lmdb per-op", "LMDB per-op"));
        assert!(!is_named("lmdb per-op", "lmdb"));
    }

    #[test]
    fn the_command_line_is_consistent() {
        use clap::CommandFactory;
        CommandLine::command().debug_assert();
    }
}
