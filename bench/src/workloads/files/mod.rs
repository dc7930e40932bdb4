//! Files of a directory, served by a server with one or two workers and requested by one client.
//!
//! A phase is a set of files (see [`sets`]) and a number of workers; each has a fresh server, which
//! gets requests for a while before anything counts. Then there are two loads: a closed loop (the
//! next request as soon as one is answered), which gives requests per second of the server's
//! processor time; and a rate that all systems reach, which gives latencies at equal load. The rate
//! is a fraction of the rate that the slowest system reached in the pilot. Latency counts from the
//! due time of a request, not from its sending. Every body is verified by its hash. The client is
//! `hold bench files` (see [`client`]).

use std::{fs, path::Path};

use anyhow::{Context, Result};

use super::{OfServers, Workload};
use crate::{
    rival::{Load, Shape},
    served::{Ground, Host},
    workloads::tally::Findings,
};
use client::{Answers, Client};
use sets::Set;

pub mod client;
pub mod sets;

/// The metric that the pilot measures.
const PACE: &str = "requests_per_s";
const COST: &str = "requests_per_server_cpu_s";
/// The fraction of the slowest system's pace at which latencies are measured.
const RATE: f64 = 0.4;
/// Requests for each file before anything counts.
const WARM_UP: u64 = 4;
/// The most bytes that the pilot requests.
const PILOT_BYTES: u64 = 256 << 20;
/// Processor time is counted in ticks of 10 ms. If it is shorter than this, a tick is more than 4 %
/// of it.
const LEAST_SECONDS: f64 = 0.25;

/// See the module.
pub struct Files;

impl Workload for Files {
    fn name(&self) -> &'static str {
        "files"
    }

    fn phases(&self) -> &'static [&'static str] {
        &[
            "1KiB.one",
            "16KiB.one",
            "128KiB.one",
            "1MiB.one",
            "mixed.one",
            "1KiB.two",
            "16KiB.two",
            "128KiB.two",
            "1MiB.two",
            "mixed.two",
        ]
    }

    /// One worker is enough, because the client is another program.
    fn shape(&self, asked: Shape) -> Shape {
        Shape { workers: 1, keys: asked.workers * asked.keys, ..asked }
    }

    fn counts(&self) -> &'static str {
        "requests at most"
    }

    /// The client reports all metrics.
    fn rate(&self, _phase: &str) -> Option<&'static str> {
        None
    }

    fn pace(&self) -> Option<&'static str> {
        Some(PACE)
    }

    fn load(&self, pace: f64, budget_seconds: f64, most: u64) -> Load {
        let rate = (pace * RATE).max(1.0);
        let fit = |pace: f64| ((budget_seconds * pace) as u64).clamp(1, most);
        Load { closed: fit(pace), paced: fit(rate), rate: rate as u64 }
    }
}

impl OfServers for Files {
    fn run(&self, phase: &str, host: &dyn Host, shape: &Shape, site: &Path) -> Result<Findings> {
        let (set, workers) = parts(phase)?;
        let ground = Ground::of(site)?;
        let place = site.join(phase);
        fs::create_dir(&place).context("cannot make a directory for the server")?;
        let files = ground.files.join(set.name);
        let service = host.start(&ground, &place, &files, workers)?;
        let client = Client { program: &ground.program, files: &files, set, service: &service };
        let mut findings = Findings::default();
        let number = self.phases().iter().position(|name| *name == phase);
        match number.and_then(|number| shape.loads.get(number)) {
            None => pilot(&client, shape, &mut findings)?,
            Some(load) => measure(&client, *load, shape, &mut findings)?,
        }
        Ok(findings)
    }
}

/// The set and the number of workers in a phase's name.
fn parts(phase: &str) -> Result<(&'static Set, u64)> {
    let unknown = || format!("the workload files has no phase {phase:?}");
    let (set, workers) = phase.split_once('.').with_context(unknown)?;
    let workers = ["one", "two"].iter().position(|word| *word == workers).with_context(unknown)?;
    let set = sets::SETS.iter().find(|one| one.name == set).with_context(unknown)?;
    Ok((set, workers as u64 + 1))
}

fn pilot(client: &Client<'_>, shape: &Shape, findings: &mut Findings) -> Result<()> {
    let requests = (PILOT_BYTES / client.set.mean_bytes()).min(shape.keys);
    let answers = client.ask(requests, None)?;
    findings.operations += requests;
    findings.measured(PACE, answers.value("requests_per_s")?, "1/s");
    Ok(())
}

fn measure(client: &Client<'_>, load: Load, shape: &Shape, findings: &mut Findings) -> Result<()> {
    let warm_up = (WARM_UP * client.set.files).min(shape.keys);
    client.warm_up(warm_up)?;
    let closed = client.ask(load.closed, None)?;
    let cost = per_second_of_server(&closed, "closed loop", findings)?;
    findings.measured(COST, cost, "1/s");
    findings.measured(PACE, closed.value("requests_per_s")?, "1/s");

    let paced = client.ask(load.paced, Some(load.rate))?;
    let unsent = paced.value("unsent")?;
    if unsent > 0.0 {
        findings.notes.push(format!("at {}/s, {unsent} requests were never sent", load.rate));
    }
    for quantile in ["p50", "p99", "p999"] {
        let metric = format!("latency_ns_{quantile}");
        findings.measured(&metric, paced.value(&metric)?, "ns");
    }
    let cost = per_second_of_server(&paced, "rate", findings)?;
    findings.measured(&format!("paced_{COST}"), cost, "1/s");
    findings.operations += load.closed + load.paced;
    Ok(())
}

/// Requests per second of processor time, of all processes of the server.
fn per_second_of_server(answers: &Answers, of: &str, findings: &mut Findings) -> Result<f64> {
    let seconds = answers.value("server_cpu_s")?;
    if seconds < LEAST_SECONDS {
        findings.notes.push(format!(
            "{of}: the server used {seconds:.2} s of processor time, in ticks of 10 ms: raise --budget"
        ));
    }
    // Less than a tick is not visible. The result is then a lower bound.
    Ok(answers.value("answered")? / seconds.max(client::TICK_SECONDS))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_phase_names_a_set_and_its_workers() {
        let all: Vec<_> = Files.phases().iter().map(|phase| parts(phase).unwrap()).collect();
        let names: Vec<_> = all.iter().map(|(set, workers)| (set.name, *workers)).collect();
        let expected = [1, 2].iter().flat_map(|n| sets::SETS.iter().map(move |set| (set.name, *n)));
        assert_eq!(names, expected.collect::<Vec<_>>());
        assert!(parts("1KiB").is_err() && parts("2KiB.one").is_err() && parts("1KiB.six").is_err());
    }

    #[test]
    fn the_rate_is_less_than_the_pace_and_both_fit_into_the_budget() {
        let load = Files.load(20_000.0, 2.0, 1_000_000);
        assert_eq!((load.closed, load.rate, load.paced), (40_000, 8_000, 16_000));
        let few = Files.load(0.5, 2.0, 300);
        assert_eq!((few.closed, few.rate, few.paced), (1, 1, 2));
        assert_eq!(Files.load(20_000.0, 2.0, 300).paced, 300);
    }
}
