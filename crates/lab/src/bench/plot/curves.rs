//! The curves of latencies by percentile and over time, and of throughput over time.

use super::chart::{Axis, Chart, Curve};
use crate::bench::{
    percentiles,
    timeline::{Interval, Timeline},
};
use crate::workload::latency::Latencies;

/// Points on the curve of percentiles from one nine to the next.
const POINTS: u32 = 40;

/// A chart of latency by percentile.
pub fn by_percentile(named: &[(String, &Timeline)]) -> Chart {
    Chart {
        title: "Latency by percentile".to_owned(),
        axes: (Axis::Percentiles, Axis::Latency),
        until: None,
        curves: named.iter().map(|(name, of)| percentile_curve(name, of)).collect(),
    }
}

/// A chart of latency in each interval.
pub fn over_time(all: &Timeline) -> Chart {
    Chart {
        title: "Latency over time".to_owned(),
        axes: (Axis::Seconds, Axis::Latency),
        until: Some(all.span.seconds()),
        curves: latency_curves(all),
    }
}

/// A chart of how many of `things` arrived in each interval.
pub fn throughput(things: &str, named: &[(String, &Timeline)]) -> Chart {
    Chart {
        title: format!("{things} per second"),
        axes: (Axis::Seconds, Axis::Rate),
        until: named.first().map(|(_, timeline)| timeline.span.seconds()),
        curves: named.iter().map(|(name, of)| throughput_curve(name, of)).collect(),
    }
}

/// Up to the last nine that the number of samples supports.
fn percentile_curve(name: &str, timeline: &Timeline) -> Curve {
    let latencies = timeline.total().latencies;
    let nines = (latencies.count() as f64).log10();
    let steps = (nines * f64::from(POINTS)) as u32;
    let share = |step| 1.0 - 10f64.powf(-f64::from(step) / f64::from(POINTS));
    let mut points: Vec<(f64, f64)> = Vec::new();
    if latencies.count() > 0 {
        points = (0..=steps).map(share).map(|q| (q, value(&latencies, q))).collect();
    }
    Curve { name: name.to_owned(), points }
}

fn latency_curves(all: &Timeline) -> Vec<Curve> {
    let lines = [("median", 0.5), ("99 %", 0.99), ("99.9 %", 0.999), ("longest", 1.0)];
    let curve = |(name, quantile): (&str, f64)| Curve {
        name: name.to_owned(),
        points: middles(all)
            .filter(|(_, interval, _)| interval.latencies.count() > 0)
            .map(|(at, interval, _)| (at, value(&interval.latencies, quantile)))
            .collect(),
    };
    // The highest first, as the curves lie.
    lines.into_iter().rev().map(curve).collect()
}

fn throughput_curve(name: &str, timeline: &Timeline) -> Curve {
    let points = middles(timeline).map(|(at, interval, long)| (at, interval.count as f64 / long));
    Curve { name: name.to_owned(), points: points.collect() }
}

/// Each interval with the middle of it and its length, in seconds.
fn middles(timeline: &Timeline) -> impl Iterator<Item = (f64, &Interval, f64)> {
    timeline.intervals.iter().enumerate().map(|(number, interval)| {
        let (begin, long) = timeline.span.interval(number);
        (begin + long / 2.0, interval, long)
    })
}

fn value(latencies: &Latencies, quantile: f64) -> f64 {
    percentiles::at(latencies, quantile) as f64
}
