//! All combinations of a server's choices, one server after the other, in rounds; a table, the best
//! first.
//!
//! A combination that fails does not lose the others: it is listed below the table with its error,
//! and the run as a whole fails once everything is shown.

use super::load::Measured;
use super::report;
use super::server_choices::{Combination, DIMENSIONS, Dimension};
use super::{Args, Setup};
use crate::bench::{
    plot::{
        chart::{Axis, Chart, Curve},
        curves,
        page::{self, Words},
    },
    table::{self, rate},
    timeline::Timeline,
};
use crate::workload::{
    Result, RunError,
    latency::show,
    results::{Results, median},
};
use commonhold_terminal::output::Output;
use commonhold_terminal::progress;
use commonhold_terminal::sizes;
use std::path::Path;

/// The number of the best combinations whose latencies are drawn.
const BEST: usize = 6;

/// One combination and its results.
struct Case {
    combination: Combination,
    rounds: Vec<Measured>,
    error: Option<String>,
}

/// Runs all combinations and shows the results.
pub fn run(args: &Args, setup: &Setup, json: bool) -> Result<()> {
    let varied = args.varied();
    let combinations = args.serving.combination().vary(&varied);
    let new = |combination| Case { combination, rounds: Vec::new(), error: None };
    let mut cases: Vec<Case> = combinations.into_iter().map(new).collect();
    measure(args, setup, &mut cases)?;
    cases.sort_by(|a, b| b.score().total_cmp(&a.score()));
    let results = collect(args, &cases);
    if let Some(path) = &args.plot {
        draw(args, setup, &varied, &cases, path, &results.place())?;
    }
    crate::bench::show(&results, json, &|_| lines(args, setup, &cases))?;
    let failed = cases.iter().filter(|case| case.error.is_some()).count() as u64;
    match failed {
        0 => Ok(()),
        _ => Err(RunError::new(format!(
            "{} failed; the first: {}",
            sizes::things(failed, "combination", "combinations"),
            cases.iter().find_map(Case::failure).unwrap_or_default()
        ))),
    }
}

fn measure(args: &Args, setup: &Setup, cases: &mut [Case]) -> Result<()> {
    let bar = progress::of_things(&Output::new(None, false), "runs");
    bar.set_length(args.rounds * cases.len() as u64);
    for _ in 0..args.rounds {
        for case in &mut *cases {
            bar.set_message(case.combination.shown());
            if case.error.is_none() {
                match super::measure(args, setup, &case.combination) {
                    Ok(measured) => case.rounds.push(measured),
                    Err(error @ (RunError::Text(_) | RunError::Hold(_))) => {
                        case.error = Some(error.to_string());
                    }
                    Err(error) => return Err(error),
                }
            }
            bar.inc(1);
        }
    }
    bar.finish_and_clear();
    Ok(())
}

impl Case {
    /// The median of its rounds.
    fn median(&self, of: impl Fn(&Measured) -> f64) -> Option<f64> {
        let mut values: Vec<f64> = self.rounds.iter().map(of).collect();
        (!values.is_empty() && self.error.is_none()).then(|| median(&mut values))
    }

    fn at(&self, quantile: f64) -> Option<u64> {
        let latency = |m: &Measured| m.timeline.total().latencies.at(quantile) as f64;
        self.median(latency).map(|ns| ns as u64)
    }

    fn per_server_second(&self) -> Option<f64> {
        let rate = self.median(|m| m.per_server_second().unwrap_or(f64::NAN));
        rate.filter(|rate| !rate.is_nan())
    }

    /// The sort key: the best is the first, failed ones are the last.
    fn score(&self) -> f64 {
        let rate = self.per_server_second();
        rate.or_else(|| self.median(|_| 0.0)).unwrap_or(f64::NEG_INFINITY)
    }

    fn failure(&self) -> Option<String> {
        self.error.as_ref().map(|text| format!("{}: {text}", self.combination.shown()))
    }
}

/// The results of every round; readers may take medians themselves.
fn collect(args: &Args, cases: &[Case]) -> Results {
    let mut results = Results::here();
    for case in cases {
        for (round, measured) in (1..).zip(&case.rounds) {
            let round = if args.rounds > 1 { format!(" round {round}") } else { String::new() };
            let workload = format!("{} {}{round}", args.workload(), case.combination.shown());
            report::add(&mut results, &args.serving.system(), &workload, measured);
        }
    }
    results
}

fn lines(args: &Args, setup: &Setup, cases: &[Case]) -> Vec<String> {
    let named: Vec<&Dimension> =
        DIMENSIONS.iter().filter(|d| cases[0].combination.word(d.name).is_some()).collect();
    let columns = ["requests", "MB/s", "p50", "p99", "per server CPU second"];
    let heading: Vec<String> =
        named.iter().map(|d| d.name).chain(columns).map(str::to_owned).collect();
    let rows: Vec<Vec<String>> = cases.iter().map(|case| row(case, &named)).collect();
    let rounds = sizes::things(args.rounds, "round", "rounds");
    let mut lines = vec![
        report::title(args, &setup.requests),
        format!("{} combinations, medians of {rounds}, the best first", cases.len()),
        String::new(),
    ];
    lines.extend(table::wide(&heading, &rows));
    lines.push("\nEvery response body was verified against its hash.".to_owned());
    lines.extend(report::left_out(&setup.requests));
    lines.extend(cases.iter().filter_map(Case::failure).map(|text| format!("FAILED {text}")));
    lines
}

fn row(case: &Case, named: &[&Dimension]) -> Vec<String> {
    let dash = || "-".to_owned();
    let word = |d: &&Dimension| case.combination.word(d.name).unwrap_or("-").to_owned();
    let mut row: Vec<String> = named.iter().map(word).collect();
    row.extend([
        case.median(Measured::rate).map_or_else(dash, rate),
        case.median(Measured::byte_rate).map_or_else(dash, |b| format!("{:.1}", b / 1e6)),
        case.at(0.5).map_or_else(dash, show),
        case.at(0.99).map_or_else(dash, show),
        case.per_server_second().map_or_else(dash, rate),
    ]);
    row
}

fn draw(
    args: &Args,
    setup: &Setup,
    varied: &[&Dimension],
    cases: &[Case],
    path: &Path,
    place: &str,
) -> Result<()> {
    let lines = std::iter::once(report::title(args, &setup.requests));
    let lines = lines.chain(place.lines().map(str::to_owned)).collect();
    let words = Words { title: "hold bench files --matrix".to_owned(), lines };
    let best = cases.iter().filter(|case| case.error.is_none()).take(BEST);
    let named: Vec<(String, &Timeline)> = best
        .filter_map(|case| Some((words_of(case, varied), &case.rounds.first()?.timeline)))
        .collect();
    let mut charts: Vec<Chart> = varied.iter().map(|d| spread(d, cases)).collect();
    charts.push(curves::by_percentile(&named));
    page::write(path, &words, &charts)
}

/// Short enough for a legend.
fn words_of(case: &Case, varied: &[&Dimension]) -> String {
    let words: Vec<&str> = varied.iter().filter_map(|d| case.combination.word(d.name)).collect();
    words.join(" ")
}

/// For each value of a choice, the results of the combinations with it, the best first: a curve
/// above the others is the better value, whatever the other choices are.
fn spread(dimension: &Dimension, cases: &[Case]) -> Chart {
    let curve = |value: &&str| {
        let with = cases.iter().filter(|c| c.combination.word(dimension.name) == Some(value));
        let reached = with.filter_map(Case::per_server_second);
        let points = (1..).zip(reached).map(|(rank, rate)| (f64::from(rank), rate)).collect();
        Curve { name: format!("{} {value}", dimension.name), points }
    };
    Chart {
        title: format!("Requests per server CPU second by --{}, the best first", dimension.name),
        axes: (Axis::Ranks, Axis::Rate),
        until: None,
        curves: dimension.values.iter().map(curve).collect(),
    }
}
