//! The order of the systems, and their numbers of keys.
//!
//! Invariant: within a round, every system runs once, on a fresh store that is removed before the
//! next system begins. So neighbours in a round run in the same minute of the machine. Before the
//! rounds, a short pilot of each system shows how many keys fit into the budget, or which pace all
//! systems can sustain.

use std::{
    fs,
    path::Path,
    sync::{Arc, atomic::AtomicBool},
};

use anyhow::{Context, Result, ensure};
use commonhold_lab::workload::machine::resident_bytes;
use signal_hook::{consts::TERM_SIGNALS, flag};

use crate::{
    crew::Crew,
    install,
    machine::Machine,
    report::{Measured, Report, System},
    rival::{Rival, Shape, Sharing},
    rivals::{self, OURS, server::Server},
    settings::{Settings, is_named},
    site::{Site, allocated_bytes},
    worker::Done,
    workloads::{self, Workload},
};

const PILOT_KEYS: u64 = 10_000;
const FEWEST_KEYS: u64 = 1_000;

/// One system in one workload, with its number of keys.
struct Entry {
    rival: &'static dyn Rival,
    workload: &'static dyn Workload,
    shape: Shape,
    asked_keys: u64,
    /// The pilot's result for each phase, in workloads with a pace.
    paces: Vec<f64>,
}

/// Measures everything that the settings request. Calls `after_round` after each round, when no
/// worker runs.
pub fn run(settings: &Settings, after_round: &mut dyn FnMut()) -> Result<Report> {
    ensure!(settings.budget > 0.0, "--budget must be more than 0 seconds");
    if settings.install {
        install::install()?;
    }
    let names = workload_names(settings);
    let workloads = names.iter().map(|name| workloads::named(name)).collect::<Result<Vec<_>>>()?;
    check_names(settings)?;
    let machine = Machine::look(&settings.dir)?;
    let mut bench = Bench { site: Site::new(&settings.dir)?, stopped: on_signal()? };
    let mut report = Report::new(machine, settings);

    let mut entries = Vec::new();
    for workload in workloads {
        for rival in company(settings, workload, &mut report) {
            entries.push(bench.plan(rival, workload, settings)?);
        }
    }
    agree(&mut entries, settings.budget);
    for entry in &entries {
        report.systems.push(entry.about()?);
    }
    for round in 1..=settings.rounds {
        for entry in &entries {
            eprintln!(
                "round {round} of {}: {}, {}",
                settings.rounds,
                entry.workload.name(),
                entry.rival.name()
            );
            let (measured, notes) = bench.measure(entry, round)?;
            report.rounds.extend(measured);
            report.notes.extend(notes);
        }
        after_round();
    }
    report.conclude();
    Ok(report)
}

fn workload_names(settings: &Settings) -> Vec<String> {
    if settings.workloads.is_empty() {
        return workloads::names().into_iter().map(str::to_owned).collect();
    }
    settings.workloads.clone()
}

/// Returns an error if a rival's name is misspelt, or if the rival has no part in the run: it must
/// not look like a rival that was left out.
fn check_names(settings: &Settings) -> Result<()> {
    let workloads = workload_names(settings);
    for given in settings.rivals.iter().chain(&settings.without) {
        let mut named = rivals::all().filter(|rival| is_named(rival.name(), given)).peekable();
        let name = named.peek().with_context(|| rivals::unknown(given))?.name();
        ensure!(
            named.any(|rival| workloads.iter().any(|workload| rival.plays(workload))),
            "{name} takes no part in {}",
            workloads.join(", ")
        );
    }
    Ok(())
}

/// The systems of a workload, Commonhold first. Prints the ones that cannot take part.
fn company(
    settings: &Settings,
    workload: &dyn Workload,
    report: &mut Report,
) -> Vec<&'static dyn Rival> {
    let wanted = rivals::all().filter(|rival| {
        rival.plays(workload.name()) && (rival.name() == OURS || settings.wants(rival.name()))
    });
    let mut company = Vec::new();
    for rival in wanted {
        match rival.missing() {
            None => company.push(rival),
            Some(why) => {
                let line = format!("{}: {}", rival.name(), why);
                if !report.not_run.contains(&line) {
                    eprintln!("NOT RUN: {line}");
                    report.not_run.push(line);
                }
            }
        }
    }
    company
}

/// A flag that a signal raises; a second signal ends the program at once.
fn on_signal() -> Result<Arc<AtomicBool>> {
    let stopped = Arc::new(AtomicBool::new(false));
    for signal in TERM_SIGNALS {
        flag::register_conditional_shutdown(*signal, 1, stopped.clone())
            .and_then(|_| flag::register(*signal, stopped.clone()))
            .context("cannot prepare for signals")?;
    }
    Ok(stopped)
}

struct Bench {
    site: Site,
    stopped: Arc<AtomicBool>,
}

impl Bench {
    /// Runs a pilot to find how many keys the rival can process within the budget.
    fn plan(
        &mut self,
        rival: &'static dyn Rival,
        workload: &'static dyn Workload,
        settings: &Settings,
    ) -> Result<Entry> {
        let shape = workload.shape(settings.shape());
        let asked_keys = shape.keys;
        let mut entry = Entry { rival, workload, shape, asked_keys, paces: Vec::new() };
        entry.shape.keys = asked_keys.min(PILOT_KEYS);
        eprintln!("pilot: {}, {}", workload.name(), rival.name());
        let (mut slowest, mut paces) = (0.0_f64, Vec::new());
        self.phases(&entry, |phase, done, _| {
            // The time of a phase that pauses does not depend on the number of keys.
            if workload.rate(phase).is_some() {
                slowest = slowest.max(seconds(done) / entry.shape.keys as f64);
            }
            let measurements = done.findings.measurements.iter();
            let pace = measurements.filter(|one| Some(one.metric.as_str()) == workload.pace());
            paces.extend(pace.map(|one| one.value));
            Ok(())
        })?;
        entry.shape.keys = affordable(asked_keys, settings.budget, slowest);
        entry.paces = paces;
        Ok(entry)
    }

    /// Runs all phases of one system once, on a fresh store. Returns the measurements, and remarks
    /// that cast doubt on them.
    fn measure(&mut self, entry: &Entry, round: u32) -> Result<(Vec<Measured>, Vec<String>)> {
        let (mut all, mut notes) = (Vec::new(), Vec::new());
        let name = entry.rival.name();
        self.phases(entry, |phase, done, memory_bytes| {
            let mut add = |metric: &str, value: f64, unit: &str| {
                all.push(Measured {
                    round,
                    system: name.to_owned(),
                    workload: format!("{}.{phase}", entry.workload.name()),
                    metric: metric.to_owned(),
                    value,
                    unit: unit.to_owned(),
                });
            };
            let rate = done.operations as f64 / seconds(done);
            if let Some(metric) = entry.workload.rate(phase) {
                add(metric, rate, "1/s");
            }
            if let Some(operations) = entry.workload.timed_operations() {
                add("time_ms", operations as f64 / rate * 1e3, "ms");
            }
            if entry.workload.full_after() == Some(phase) {
                let pairs = entry.shape.keys * entry.shape.workers;
                add("bytes_per_pair", memory_bytes as f64 / pairs as f64, "B");
            }
            if let Some(times) = done.times.latencies() {
                for of in entry.workload.quantiles(phase) {
                    let value = times.at(of.quantile) as f64 / of.per as f64;
                    add(of.metric, value, "ns");
                }
            }
            for measurement in &done.findings.measurements {
                add(&measurement.metric, measurement.value, &measurement.unit);
            }
            let place = format!("round {round}, {}.{phase}, {name}", entry.workload.name());
            notes.extend(done.findings.notes.iter().map(|note| format!("{place}: {note}")));
            Ok(())
        })?;
        Ok((all, notes))
    }

    /// Runs all phases, and passes each phase's name, its work and the store's memory to `each`.
    fn phases(
        &mut self,
        entry: &Entry,
        mut each: impl FnMut(&str, &Done, u64) -> Result<()>,
    ) -> Result<()> {
        let context = || format!("{} in {}", entry.rival.name(), entry.workload.name());
        let site = self.site.fresh()?;
        let server = entry.rival.prepare(&site, &entry.shape).with_context(context)?;
        let mut crew =
            Crew::start(entry.rival, entry.workload, &site, &entry.shape, &self.stopped)?;
        let server_before = server_bytes(server.as_ref())?;
        for phase in entry.workload.phases() {
            crew.is_wanted()?;
            let done = crew.run(phase)?;
            let memory = match &server {
                Some(_) => server_bytes(server.as_ref())?.saturating_sub(server_before),
                None => store_bytes(
                    &site,
                    done.resident_bytes - done.resident_bytes.min(crew.resident_bytes),
                )?,
            };
            each(phase, &done, memory)?;
        }
        crew.finish()?;
        drop(server);
        fs::remove_dir_all(&site).with_context(|| format!("cannot remove {}", site.display()))
    }
}

/// In workloads that have a pace, gives all systems the same load, which depends on the pace of the
/// slowest.
fn agree(entries: &mut [Entry], budget_seconds: f64) {
    let paces: Vec<_> =
        entries.iter().map(|entry| (entry.workload.name(), entry.paces.clone())).collect();
    for Entry { workload, shape, paces: own, .. } in entries {
        let of_all = || paces.iter().filter(|(name, _)| *name == workload.name());
        let slowest = |phase: usize| {
            of_all().filter_map(|(_, paces)| paces.get(phase)).copied().reduce(f64::min)
        };
        let loads = (0..own.len()).filter_map(slowest);
        shape.loads = loads.map(|pace| workload.load(pace, budget_seconds, shape.keys)).collect();
    }
}

impl Entry {
    fn about(&self) -> Result<System> {
        let sharing = self.rival.sharing();
        let workers = match sharing {
            Sharing::Threads if self.shape.workers > 1 => "threads of one process",
            _ => "processes",
        };
        Ok(System {
            system: self.rival.name().to_owned(),
            workload: self.workload.name().to_owned(),
            version: self.rival.version()?,
            settings: self.rival.settings().to_owned(),
            workers: format!("{} {workers}", self.shape.workers),
            counts: self.workload.counts().to_owned(),
            keys_per_worker: self.shape.keys,
            keys_asked_per_worker: self.asked_keys,
            rates: self.rates(),
        })
    }

    /// The rate of each phase that has one.
    fn rates(&self) -> Vec<(String, u64)> {
        let names = self.workload.phases().iter().map(|phase| (*phase).to_owned());
        names.zip(self.shape.loads.iter().map(|load| load.rate)).collect()
    }
}

/// The size of a store: its files, or the growth of the process if it has none.
fn store_bytes(site: &Path, grown: u64) -> Result<u64> {
    let files = allocated_bytes(site)?;
    Ok(if files > 0 { files } else { grown })
}

fn server_bytes(server: Option<&Server>) -> Result<u64> {
    server.map_or(Ok(0), |server| {
        resident_bytes(server.pid()).context("cannot look at the memory of a server")
    })
}

fn seconds(done: &Done) -> f64 {
    // A clock may return the same nanosecond twice, and a rate must stay finite.
    (done.end_ns - done.start_ns).max(1) as f64 / 1e9
}

/// As many keys as fit into the budget at that pace, rounded down to two digits; never more than
/// requested.
fn affordable(asked: u64, budget_seconds: f64, seconds_per_key: f64) -> u64 {
    let fit = budget_seconds / seconds_per_key;
    if fit >= asked as f64 {
        return asked;
    }
    let magnitude = 10_f64.powf(fit.max(1.0).log10().floor() - 1.0).max(1.0);
    let round = (fit / magnitude).floor() * magnitude;
    (round as u64).max(FEWEST_KEYS).min(asked)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_slow_rival_gets_fewer_keys_and_a_fast_one_the_requested_number() {
        assert_eq!(affordable(500_000, 2.0, 1e-6), 500_000);
        assert_eq!(affordable(500_000, 2.0, 26e-6), 76_000);
        assert_eq!(affordable(500_000, 2.0, 1.0), FEWEST_KEYS);
        assert_eq!(affordable(10, 2.0, 1.0), 10);
    }
}
