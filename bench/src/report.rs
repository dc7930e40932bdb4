//! The one JSON object of a run, and the table made from it.
//!
//! Invariant: a ratio is over 1 where Commonhold is better, whatever the metric, and every ratio
//! under 1 is listed as a loss. The rounds fill it in; `table` reads it back from a file.

use std::fmt::Write;

use serde::{Deserialize, Serialize};

use commonhold_lab::workload::{machine::load, results::median};

use crate::{machine::Machine, rivals::OURS, settings::Settings};

/// The number of notes shown; the JSON has all.
const MOST_NOTES: usize = 10;

/// The results of a run.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct Report {
    /// The machine.
    pub machine: Machine,
    /// The medians over the rounds.
    pub results: Vec<Summary>,
    /// The systems that took part, their settings, and their numbers of keys.
    pub systems: Vec<System>,
    /// The systems that could not take part, and the reasons.
    pub not_run: Vec<String>,
    /// Remarks that cast doubt on single values.
    #[serde(default)]
    pub notes: Vec<String>,
    /// The options of the run.
    pub run: Run,
    /// Every single value.
    pub rounds: Vec<Measured>,
}

/// The options of a run.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct Run {
    /// Requested rounds.
    pub rounds: u32,
    /// Seconds that a phase could take.
    pub budget_s: f64,
    /// The order in which `map` read.
    pub order: crate::rival::Order,
    /// Whether Commonhold's map was of fixed length.
    pub fixed: bool,
    /// Whether puts were timed one by one.
    pub latency: bool,
    /// Load of the machine at the end, including the run's own workers.
    pub load_after: f64,
}

/// One value of one round.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct Measured {
    /// Its round, from 1.
    pub round: u32,
    /// The system.
    pub system: String,
    /// Workload and phase.
    pub workload: String,
    /// The metric.
    pub metric: String,
    /// The value.
    pub value: f64,
    /// The unit.
    pub unit: String,
}

/// A median over the rounds.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct Summary {
    /// The system.
    pub system: String,
    /// Workload and phase.
    pub workload: String,
    /// The metric.
    pub metric: String,
    /// The value.
    pub value: f64,
    /// The unit.
    pub unit: String,
}

/// One system in one workload.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct System {
    /// Its name.
    pub system: String,
    /// The workload.
    pub workload: String,
    /// Its version.
    pub version: String,
    /// Its settings.
    pub settings: String,
    /// Its workers, and their kind.
    pub workers: String,
    /// The unit of the next two: keys, messages, lines.
    pub counts: String,
    /// Keys that each worker had.
    pub keys_per_worker: u64,
    /// Requested keys; more than it had if it was scaled down to the budget.
    pub keys_asked_per_worker: u64,
    /// The requests per second at which latencies were measured, by phase. They are the same for
    /// all systems.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub rates: Vec<(String, u64)>,
}

/// Ratios of all rounds: over 1 where Commonhold is better.
pub struct Ratio {
    /// Their median.
    pub median: f64,
    /// The lowest.
    pub lowest: f64,
    /// The highest.
    pub highest: f64,
}

impl Report {
    /// An empty report.
    pub fn new(machine: Machine, settings: &Settings) -> Report {
        let run = Run {
            rounds: settings.rounds,
            budget_s: settings.budget,
            order: settings.order,
            fixed: settings.fixed,
            latency: settings.latency,
            load_after: 0.0,
        };
        Report {
            machine,
            results: Vec::new(),
            systems: Vec::new(),
            not_run: Vec::new(),
            notes: Vec::new(),
            run,
            rounds: Vec::new(),
        }
    }

    /// Computes the medians, after the last round.
    pub fn conclude(&mut self) {
        self.run.load_after = load();
        for one in self.rounds.iter().filter(|one| one.round == 1) {
            let of_all = self.rounds.iter().filter(|other| same(one, other));
            self.results.push(Summary {
                system: one.system.clone(),
                workload: one.workload.clone(),
                metric: one.metric.clone(),
                value: median(&mut of_all.map(|other| other.value).collect::<Vec<_>>()),
                unit: one.unit.clone(),
            });
        }
    }

    /// The table for people.
    pub fn table(&self) -> String {
        let mut out = String::new();
        let mut losses = Vec::new();
        // Writing to a string cannot fail.
        let _ = self.write_machine(&mut out);
        for (workload, metric) in self.headings() {
            let _ = self.write_block(&mut out, workload, metric, &mut losses);
        }
        let _ = self.write_systems(&mut out);
        let _ = writeln!(out, "\nLosses (Commonhold is worse than the rival):");
        for loss in &losses {
            let _ = writeln!(out, "  {loss}");
        }
        if losses.is_empty() {
            let _ = writeln!(out, "  none in this run");
        }
        for line in self.notes.iter().take(MOST_NOTES) {
            let _ = writeln!(out, "NOTE: {line}");
        }
        if self.notes.len() > MOST_NOTES {
            let _ = writeln!(out, "NOTE: {} more in the JSON", self.notes.len() - MOST_NOTES);
        }
        for line in &self.not_run {
            let _ = writeln!(out, "NOT RUN: {line}");
        }
        out
    }

    fn write_machine(&self, out: &mut String) -> std::fmt::Result {
        let (machine, run) = (&self.machine, &self.run);
        writeln!(out, "{}", machine.machine.line())?;
        let place = if machine.stores_in_memory { "a memory file system" } else { "a disk" };
        writeln!(out, "stores on {place}, load before: {}", machine.load_before)?;
        if machine.load_before > 0.2 {
            writeln!(out, "WARNING: the machine was busy when the run began; ratios may be off")?;
        }
        writeln!(
            out,
            "{} rounds, interleaved; medians; {} s per phase; order of map's reads: {:?}{}{}",
            run.rounds,
            run.budget_s,
            run.order,
            if run.fixed { "; Commonhold's map of fixed length" } else { "" },
            if run.latency { "; every put timed" } else { "" }
        )
    }

    /// Workload with phase, and metric, in the order in which they were measured.
    pub fn headings(&self) -> Vec<(&str, &str)> {
        let mut headings: Vec<(&str, &str)> = Vec::new();
        for result in &self.results {
            let heading = (result.workload.as_str(), result.metric.as_str());
            if !headings.contains(&heading) {
                headings.push(heading);
            }
        }
        headings
    }

    fn write_block(
        &self,
        out: &mut String,
        workload: &str,
        metric: &str,
        losses: &mut Vec<String>,
    ) -> std::fmt::Result {
        writeln!(out, "\n{workload} {metric}")?;
        let here = |one: &&Summary| one.workload == workload && one.metric == metric;
        for result in self.results.iter().filter(here) {
            let value = readable(result.value, &result.unit);
            write!(out, "  {:<24}{value:>14}", result.system)?;
            if let Some(ratio) = self.ratio(&result.system, workload, metric) {
                let span = format!("({:.2} to {:.2})", ratio.lowest, ratio.highest);
                write!(out, "{:>10.2}x {span:<20}", ratio.median)?;
                if ratio.median < 1.0 {
                    write!(out, " LOSS")?;
                    losses.push(format!(
                        "{workload} {metric}: {:.2}x {} {span}",
                        ratio.median, result.system
                    ));
                }
            }
            if let Some(about) = self.scaled(&result.system, workload) {
                write!(out, " on {} {} per worker", about.keys_per_worker, about.counts)?;
            }
            trim_end(out);
            writeln!(out)?;
        }
        Ok(())
    }

    fn write_systems(&self, out: &mut String) -> std::fmt::Result {
        writeln!(
            out,
            "\nA ratio is the factor by which Commonhold is better: median of the rounds"
        )?;
        writeln!(out, "(lowest to highest). Systems:")?;
        for about in &self.systems {
            write!(
                out,
                "  {}, {}: {}; {}; {}; {} {} each",
                about.workload,
                about.system,
                about.version,
                about.settings,
                about.workers,
                about.keys_per_worker,
                about.counts
            )?;
            if about.keys_per_worker < about.keys_asked_per_worker {
                write!(
                    out,
                    ", SCALED DOWN from {} to fit the budget (a smaller number favours it)",
                    about.keys_asked_per_worker
                )?;
            }
            if !about.rates.is_empty() {
                let rates = about.rates.iter().map(|(phase, rate)| format!("{phase} {rate}/s"));
                let rates: Vec<_> = rates.collect();
                write!(out, "; latencies at {}", rates.join(", "))?;
            }
            writeln!(out)?;
        }
        Ok(())
    }

    fn scaled(&self, system: &str, workload: &str) -> Option<&System> {
        let name = workload.split('.').next().unwrap_or(workload);
        self.systems.iter().find(|about| {
            about.system == system
                && about.workload == name
                && about.keys_per_worker < about.keys_asked_per_worker
        })
    }

    /// One number divided by another, each given by system, workload and metric, in each round that
    /// has both.
    pub fn quotients(&self, of: [&str; 3], by: [&str; 3]) -> Vec<f64> {
        let value = |round, place| value_of(&self.rounds, round, place);
        let pairs = (1..=self.run.rounds).filter_map(|r| Some((value(r, of)?, value(r, by)?)));
        pairs.map(|(of, by)| of / by).collect()
    }

    /// The ratio of Commonhold to a rival, round by round; `None` for Commonhold itself, in any
    /// setting.
    pub fn ratio(&self, rival: &str, workload: &str, metric: &str) -> Option<Ratio> {
        if rival.starts_with(OURS) {
            return None;
        }
        let (ours, theirs) = ([OURS, workload, metric], [rival, workload, metric]);
        let quotients = self.quotients(ours, theirs).into_iter();
        let mut ratios: Vec<f64> =
            quotients.map(|one| if more_is_better(metric) { one } else { 1.0 / one }).collect();
        Some(Ratio {
            lowest: ratios.iter().copied().reduce(f64::min)?,
            highest: ratios.iter().copied().reduce(f64::max)?,
            median: median(&mut ratios),
        })
    }
}

/// The number of a system, a workload and a metric in a round.
fn value_of(rounds: &[Measured], round: u32, place: [&str; 3]) -> Option<f64> {
    let of = |one: &&Measured| {
        one.round == round && [&*one.system, &*one.workload, &*one.metric] == place
    };
    rounds.iter().find(of).map(|one| one.value)
}

fn same(one: &Measured, other: &Measured) -> bool {
    one.system == other.system && one.workload == other.workload && one.metric == other.metric
}

/// Everything else is a time or a size.
fn more_is_better(metric: &str) -> bool {
    metric.ends_with("_per_s") || metric.ends_with("_per_server_cpu_s")
}

fn readable(value: f64, unit: &str) -> String {
    match unit {
        "1/s" if value >= 1e6 => format!("{:.2} M/s", value / 1e6),
        "1/s" if value >= 1e4 => format!("{:.1} k/s", value / 1e3),
        "1/s" => format!("{value:.0} /s"),
        "ns" if value >= 1e6 => format!("{:.2} ms", value / 1e6),
        "ns" if value >= 1e3 => format!("{:.2} us", value / 1e3),
        _ => format!("{value:.1} {unit}"),
    }
}

fn trim_end(out: &mut String) {
    out.truncate(out.trim_end_matches(' ').len());
}

#[cfg(test)]
mod tests {
    use super::*;

    fn measured(round: u32, system: &str, metric: &str, value: f64) -> Measured {
        Measured {
            round,
            system: system.to_owned(),
            workload: "map.put".to_owned(),
            metric: metric.to_owned(),
            value,
            unit: if metric == "ops_per_s" { "1/s" } else { "B" }.to_owned(),
        }
    }

    fn report(rounds: Vec<Measured>) -> Report {
        let machine: Machine = serde_json::from_value(serde_json::json!({
            "cpu": "a", "cores": 2, "version": "1", "memory_bytes": 1u64 << 30,
            "kernel": "6", "distribution": "d", "shmem_huge_pages": "never",
            "stores_in_memory": true, "load_before": 0.0
        }))
        .unwrap();
        let run = Run {
            rounds: 3,
            budget_s: 1.0,
            order: crate::rival::Order::Own,
            fixed: false,
            latency: false,
            load_after: 0.0,
        };
        let (results, systems, not_run) = (Vec::new(), Vec::new(), Vec::new());
        let notes = Vec::new();
        let mut report = Report { machine, results, systems, not_run, notes, run, rounds };
        report.conclude();
        report
    }

    /// Each round is slower than the one before, for both alike.
    fn rates(rival: f64) -> Vec<Measured> {
        let of = |round: u32, system: &str, rate: f64| {
            measured(round, system, "ops_per_s", rate / f64::from(round))
        };
        (1..=3).flat_map(|round| [of(round, OURS, 6e6), of(round, "rival", rival)]).collect()
    }

    #[test]
    fn ratios_are_taken_within_a_round() {
        let ratio = report(rates(3e6)).ratio("rival", "map.put", "ops_per_s").unwrap();
        assert_eq!((ratio.median, ratio.lowest, ratio.highest), (2.0, 2.0, 2.0));
    }

    #[test]
    fn a_win_is_no_loss() {
        let table = report(rates(3e6)).table();
        assert!(table.contains("2.00x") && table.contains("none in this run"), "{table}");
    }

    #[test]
    fn a_loss_is_printed_plainly() {
        let table = report(rates(12e6)).table();
        assert!(table.contains("map.put ops_per_s: 0.50x rival"), "{table}");
    }

    #[test]
    fn more_requests_in_a_second_of_the_server_are_better() {
        let metric = "requests_per_server_cpu_s";
        let rounds = vec![measured(1, OURS, metric, 60.0), measured(1, "rival", metric, 40.0)];
        assert_eq!(report(rounds).ratio("rival", "map.put", metric).unwrap().median, 1.5);
    }

    #[test]
    fn fewer_bytes_are_better() {
        let rounds = vec![
            measured(1, OURS, "bytes_per_pair", 20.0),
            measured(1, "rival", "bytes_per_pair", 40.0),
        ];
        let ratio = report(rounds).ratio("rival", "map.put", "bytes_per_pair").unwrap();
        assert_eq!(ratio.median, 2.0);
    }
}
