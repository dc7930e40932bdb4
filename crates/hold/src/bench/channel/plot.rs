//! The curves of `hold bench channel`: latency by percentile, latency over time, throughput over time.

use super::super::{
    percentiles,
    plot::{
        chart::{Axis, Chart, Curve},
        page::{self, Words},
    },
    timeline::{Interval, Timeline},
};
use super::{Args, Measured, report};
use crate::workload::Result;
use crate::workload::latency::Latencies;
use std::path::Path;

/// Points on the curve of percentiles from one nine to the next.
const POINTS: u32 = 40;

/// Draws them to `path`; `place` says where it was measured.
pub fn draw(args: &Args, measured: &Measured, path: &Path, place: &str) -> Result<()> {
    let title = report::title(args);
    let lines = std::iter::once(title).chain(place.lines().map(str::to_owned)).collect();
    let words = Words { title: "hold bench channel".to_owned(), lines };
    let named = measured.named();
    let charts = [
        Chart {
            title: "Latency by percentile".to_owned(),
            axes: (Axis::Percentiles, Axis::Latency),
            until: None,
            curves: named.iter().map(|(name, of)| by_percentile(name, of)).collect(),
        },
        Chart {
            title: "Latency over time".to_owned(),
            axes: (Axis::Seconds, Axis::Latency),
            until: Some(measured.span.seconds()),
            curves: over_time(&measured.all()),
        },
        Chart {
            title: "Messages per second".to_owned(),
            axes: (Axis::Seconds, Axis::Rate),
            until: Some(measured.span.seconds()),
            curves: named.iter().map(|(name, of)| throughput(name, of)).collect(),
        },
    ];
    page::write(path, &words, &charts)
}

impl Measured {
    fn named(&self) -> Vec<(String, &Timeline)> {
        let consumers = (1..).zip(&self.consumers);
        consumers.map(|(k, (_, timeline))| (format!("consumer {k}"), timeline)).collect()
    }
}

/// Up to the last nine that the number of samples can tell.
fn by_percentile(name: &str, timeline: &Timeline) -> Curve {
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

fn over_time(all: &Timeline) -> Vec<Curve> {
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

fn throughput(name: &str, timeline: &Timeline) -> Curve {
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
