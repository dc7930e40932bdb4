//! `report`: measures everything in turns, and writes one file with all numbers, and the chart made
//! from it.
//!
//! A part is a run of the rivals ([`crate::rounds`]), or of one workload of `hold bench`, which
//! measures what has no rival here: a bare cache line, latencies, other numbers of replicas. Parts
//! run one after the other. Within a part, every round runs every system once. Between the rounds,
//! the program measures how quiet the machine is.

use std::{
    fs,
    path::Path,
    process::{Command, Stdio},
};

use anyhow::{Context, Result, ensure};
use serde::{Deserialize, Serialize};
use serde_json::Value;

use crate::{
    chart,
    machine::Machine,
    program,
    quiet::{Quiet, Watch},
    report::{Measured, Report},
    rival::Order,
    rivals::leash,
    rounds,
    settings::{ReportSettings, Settings},
};

/// The chart's name in the directory of the charts.
const CHART: &str = "rivals.svg";
/// The parts that are in the chart, each with the beginning of its titles.
const IN_CHART: [(&str, &str); 4] = [
    ("general", ""),
    ("large", "10 M keys, "),
    ("random", "random, "),
    ("fixed", "fixed length, "),
];

/// The results of `report`.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct Full {
    /// Whether the sizes were those of a test, which makes all numbers meaningless.
    pub quick: bool,
    /// The machine.
    pub machine: Machine,
    /// How quiet the machine was.
    pub quiet: Quiet,
    /// The parts, in the order in which they ran.
    pub parts: Vec<Part>,
    /// Instructions per operation, if they were counted.
    pub instructions: Vec<Counted>,
}

/// One part.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct Part {
    /// Its name.
    pub name: String,
    /// Its numbers.
    pub report: Report,
}

/// The instructions of one operation.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Counted {
    /// The operation, as `crates/budgets` names it.
    pub operation: String,
    /// The number of instructions.
    pub count: u64,
}

/// What a part runs.
enum Work {
    /// The workloads over the rivals.
    Rivals(Settings),
    /// The words after `hold bench`.
    Hold(Vec<String>),
}

/// Measures everything, and writes the JSON and the chart.
pub fn run(settings: &ReportSettings) -> Result<Full> {
    let machine = Machine::look(&settings.dir)?;
    let mut watch = Watch::new();
    let mut parts = Vec::new();
    for (name, work) in works(settings) {
        eprintln!("part: {name}");
        let report = match work {
            Work::Rivals(settings) => rounds::run(&settings, &mut || watch.sample())?,
            Work::Hold(words) => hold(&words, settings, &machine, &mut watch)?,
        };
        parts.push(Part { name: name.to_owned(), report });
    }
    let instructions = if settings.quick { Vec::new() } else { instructions() };
    let full = Full { quick: settings.quick, machine, quiet: watch.end(), parts, instructions };
    full.write(settings)?;
    Ok(full)
}

/// The parts by name.
fn works(settings: &ReportSettings) -> Vec<(&'static str, Work)> {
    let plain = rivals(settings, &[]);
    let only = |workloads: &[&str], rivals: &[&str]| Settings {
        rivals: rivals.iter().map(|name| (*name).to_owned()).collect(),
        ..self::rivals(settings, workloads)
    };
    let large = Settings {
        keys: if settings.quick { plain.keys } else { 10_000_000 },
        budget: plain.budget * 10.0,
        ..only(&["map", "private"], &["hashbrown", "lmdb batch 1000"])
    };
    let ordered = only(&["map"], &["lmdb batch 1000", "hashbrown rwlock"]);
    let random = Settings { order: Order::Random, ..ordered.clone() };
    let fixed = Settings { fixed: true, ..ordered };
    let mut works = vec![
        ("general", Work::Rivals(plain)),
        ("large", Work::Rivals(large)),
        ("random", Work::Rivals(random)),
        ("fixed", Work::Rivals(fixed)),
    ];
    works.extend(HOLD.iter().map(|(name, words, whole, quick)| {
        let size = if settings.quick { quick } else { whole };
        let words = words.split_whitespace().chain(size.split_whitespace());
        (*name, Work::Hold(words.map(str::to_owned).collect()))
    }));
    works
}

/// The workloads of `hold bench`: the part's name, the words, and the sizes for a whole and for a
/// quick run.
const HOLD: [(&str, &str, &str, &str); 9] = [
    ("hold map", "map", "", "--keys 2000"),
    ("hold map fixed", "map --fixed", "", "--keys 2000"),
    ("hold loop", "loop --runs 1 --path loop.hold", "", "--turns 1000 --keys 10"),
    ("hold ping-pong", "channel --ping-pong", "", "--seconds 0.2 --rounds 1"),
    ("hold channel", "channel", "--seconds 3", "--seconds 0.1 --warm-up 10ms"),
    ("hold queue", "queue", "", "--seconds 0.1 --elements 2000"),
    ("hold queue alone", "queue --alone --batch 1000", "", "--seconds 0.1 --elements 2000"),
    ("hold log", "log --full wait", "", "--seconds 0.1"),
    ("hold replicate", "replicate", "", "--seconds 0.2 --replicas 0,16"),
];

fn rivals(settings: &ReportSettings, workloads: &[&str]) -> Settings {
    let mut run = Settings::of(workloads, &settings.dir);
    run.rounds = settings.rounds();
    if settings.quick {
        (run.keys, run.budget) = (300, 0.2);
    }
    run
}

/// Runs all rounds of a workload of `hold bench`.
fn hold(
    words: &[String],
    settings: &ReportSettings,
    machine: &Machine,
    watch: &mut Watch,
) -> Result<Report> {
    let mut report = Report::new(machine.clone(), &rivals(settings, &[]));
    let program = program::hold()?;
    for round in 1..=settings.rounds() {
        eprintln!("round {round} of {}: hold bench {}", settings.rounds(), words.join(" "));
        let place = tempfile::tempdir_in(&settings.dir).context("cannot make a directory")?;
        let mut command = leash::command(&program);
        command.args(["bench"]).args(words).args(["--format", "json"]);
        command.current_dir(place.path()).env("COMMONHOLD_DIR", place.path());
        let json = output(&mut command)?;
        let json: Value = serde_json::from_str(&json).context("`hold bench` prints no JSON")?;
        report.rounds.extend(measured(round, &json)?);
        watch.sample();
    }
    report.conclude();
    Ok(report)
}

/// Reads the numbers from the JSON of `hold bench`, which has the same names for them.
fn measured(round: u32, json: &Value) -> Result<Vec<Measured>> {
    let all = json["results"].as_array().context("`hold bench` prints no results")?;
    let one = |found: &Value| -> Option<Measured> {
        let text = |field: &str| Some(found[field].as_str()?.to_owned());
        Some(Measured {
            round,
            system: text("system")?,
            workload: text("workload")?,
            metric: text("metric")?,
            value: found["value"].as_f64()?,
            unit: text("unit")?,
        })
    };
    // A value that is not a number, such as the mean of no values, is null in JSON.
    Ok(all.iter().filter_map(one).collect())
}

fn output(command: &mut Command) -> Result<String> {
    let output = command.stdin(Stdio::null()).stderr(Stdio::inherit()).output();
    let output = output.with_context(|| format!("cannot run {command:?}"))?;
    ensure!(output.status.success(), "{command:?} failed: {}", output.status);
    String::from_utf8(output.stdout).context("the output of a program is not UTF-8")
}

/// Counts the instructions of each operation with the project's own suite. Without valgrind or
/// cargo, it prints the reason and returns no counts.
fn instructions() -> Vec<Counted> {
    eprintln!("part: instructions");
    let mut command = leash::command("cargo");
    command
        .current_dir(concat!(env!("CARGO_MANIFEST_DIR"), "/.."))
        .args(["test", "--quiet", "--release", "--package", "commonhold-budgets", "--"])
        .args(["--nocapture"])
        .env("BUDGETS", "print");
    output(&mut command).map(|text| counted(&text)).unwrap_or_else(|error| {
        eprintln!("NOT COUNTED: {error:#}");
        Vec::new()
    })
}

/// The counts in the table that the suite of budgets prints with `BUDGETS=print`.
pub fn counted(text: &str) -> Vec<Counted> {
    let line = |line: &str| -> Option<Counted> {
        let words: Vec<&str> = line.split_whitespace().collect();
        let [operation, count, budget, goal] = words[..] else { return None };
        budget.parse::<u64>().ok().and(goal.parse::<u64>().ok())?;
        Some(Counted { operation: operation.to_owned(), count: count.parse().ok()? })
    };
    text.lines().filter_map(line).collect()
}

impl Full {
    /// The part of that name.
    pub fn part(&self, name: &str) -> Option<&Report> {
        self.parts.iter().find(|part| part.name == name).map(|part| &part.report)
    }

    /// Reads what `report` has written.
    pub fn read(file: &Path) -> Result<Full> {
        let json = fs::read_to_string(file)
            .with_context(|| format!("cannot read {}: run `report` first", file.display()))?;
        serde_json::from_str(&json)
            .with_context(|| format!("{} is not what `report` writes", file.display()))
    }

    fn write(&self, settings: &ReportSettings) -> Result<()> {
        let json = serde_json::to_string_pretty(self).context("cannot write JSON")?;
        put(&settings.json, &format!("{json}\n"))?;
        let parts = IN_CHART.iter().filter_map(|(name, title)| Some((*title, self.part(name)?)));
        let parts: Vec<_> = parts.collect();
        put(&settings.charts.join(CHART), &chart::svg(&parts, &self.quiet.line())?)
    }
}

fn put(file: &Path, text: &str) -> Result<()> {
    fs::write(file, text).with_context(|| format!("cannot write {}", file.display()))?;
    eprintln!("wrote {}", file.display());
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_table_of_the_budgets_is_understood() {
        let text = "running 1 test\noperation                 count budget   goal\n\
                    map-general-get             238    248    210\n\
                    queue-pull                  186    193      0\ntest result: ok. 1 passed\n";
        let counted = counted(text);
        assert_eq!(counted.len(), 2, "{counted:?}");
        assert_eq!((counted[0].operation.as_str(), counted[0].count), ("map-general-get", 238));
    }

    #[test]
    fn results_of_the_command_keep_their_names() {
        let json = serde_json::json!({"results": [
            {"system": "commonhold", "workload": "loop", "metric": "time_ms", "value": 5.0, "unit": "ms"},
            {"system": "commonhold", "workload": "loop", "metric": "none", "value": null, "unit": "ms"},
        ]});
        let measured = measured(2, &json).unwrap();
        assert_eq!(measured.len(), 1);
        assert_eq!((measured[0].round, measured[0].metric.as_str()), (2, "time_ms"));
    }
}
